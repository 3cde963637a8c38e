"""Required affinity in every phase of a wave.

For a landing, all pods that the wave takes away count as gone and none that it brings as present. So every
order provides for the landing. For resident pods, either the replacement or the old pod is present, so moves
inside a domain take nothing from it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from kubestow.models.cluster.cluster import AffinityTerm, Ids, Ints
from kubestow.solver.rules.inter_pod_affinity.residents import Providers
from kubestow.solver.rules.inter_pod_affinity.rule import InterPodAffinity
from kubestow.solver.rules.plan_state import PlanPods, PlanStep
from kubestow.solver.rules.waves import Keys, SymmetricGuard


class _Support:
    """One set of affinity terms in a wave.

    Attributes:
        staying: Per key, matches at the start of the wave less those that leave the domain, int64[D].
        inside: Per key, matches that move inside the domain.
        need: Per key, landings that depend on the domain.
        leaving: Per key, (class, node) of leaving pods that have the terms and match them.
        shut: True if no other match may come or go in this wave.
        loose: True if no order of the whole plan breaks the terms.
    """

    def __init__(self, counts: Sequence[Ints]) -> None:
        self.staying = [count.copy() for count in counts]
        self.inside: list[Counter[int]] = [Counter() for _ in counts]
        self.need: list[Counter[int]] = [Counter() for _ in counts]
        self.leaving: list[Counter[tuple[int, int]]] = [Counter() for _ in counts]
        self.shut = self.loose = False

    def least(self, k: int, d: int) -> int:
        """Return the matches in a domain when all leaving pods are gone and no arriving pod is there."""
        return int(self.staying[k][d]) - self.inside[k][d]

    def clear(self) -> None:
        """Forget the steps of the wave, except for their effect on ``staying``."""
        for counter in (*self.inside, *self.need):
            counter.clear()
        for cells in self.leaving:
            cells.clear()


class Supports(SymmetricGuard[InterPodAffinity]):
    """All sets of affinity terms, and the order of landings under anti-affinity."""

    residents: Providers

    def __init__(self, rule: InterPodAffinity, pods: PlanPods, residents: Providers) -> None:
        super().__init__(rule, pods, residents)
        self._terms: dict[int, list[tuple[int, Ids]]] = {}
        self._supports = [_Support(a.counts) for a in self.rule.attractions]
        self._came: Counter[tuple[int, int]] = Counter()

    def topics(self, g: int) -> list[int]:
        """Return the sets of terms through which steps of the class affect others, ascending."""
        own = self.rule.attraction(g)
        return sorted(i for i in {*self.rule.feeds(g), *([] if own is None else [own])} if not self._supports[i].loose)

    def begin(self, steps: Sequence[PlanStep]) -> None:
        self._terms = self._related({step.g for step in steps})
        self._loosen(steps)

    def _related(self, moving: set[int]) -> dict[int, list[tuple[int, Ids]]]:
        """Return, by class, the number and domains of moving classes' anti-affinity terms that concern it."""
        ids: dict[AffinityTerm, int] = {}
        found: dict[int, dict[int, Ids]] = {}
        for g in sorted(moving):
            for term in self.cluster.classes[g].anti:
                codes = self.cluster.domains(term.key)[0]
                if term not in ids:
                    ids[term] = len(ids)
                    for h in self.cluster.matching(term.matcher).tolist():
                        found.setdefault(h, {})[ids[term]] = codes
                found.setdefault(g, {})[ids[term]] = codes
        return {g: list(terms.items()) for g, terms in found.items()}

    def class_keys(self, g: int) -> Keys:
        return [("affinity", i) for i in self.topics(g)]

    def step_keys(self, step: PlanStep) -> Keys:
        return [("anti", i, int(codes[step.b])) for i, codes in self._terms.get(step.g, ()) if step.b >= 0 and codes[step.b] >= 0]

    def waits(self, step: PlanStep) -> Keys:
        return [("repelled", i) for i, _ in self._terms.get(step.g, ())]

    def wakes(self, step: PlanStep) -> Keys:
        return self.waits(step) if step.a >= 0 else []

    def _loosen(self, steps: Sequence[PlanStep]) -> None:
        """Mark the sets of terms that no order of these steps can break. The steps are those of the whole plan."""
        for step in steps:
            self._shift(step, 1)
        for i, support in enumerate(self._supports):
            terms = self.rule.attractions[i]
            mine = [s for s in steps if terms.matches[s.g]]
            fine = all(
                support.least(k, int(codes[s.b])) >= 1
                for s in steps
                if s.b >= 0 and self.rule.attraction(s.g) == i
                for k, codes in enumerate(terms.codes)
            )
            fine = fine and all(self._kept(i, k, int(codes[s.a])) for s in mine if s.a >= 0 for k, codes in enumerate(terms.codes))
            fine = fine and (terms.total - len(mine) >= 2 or all(s.a >= 0 and s.b >= 0 for s in mine))
            support.loose = fine
        for support, terms in zip(self._supports, self.rule.attractions, strict=True):
            support.staying = [count.copy() for count in terms.counts]
            support.clear()

    def join(self, step: PlanStep) -> bool:
        self._shift(step, 1)
        if self._fine(step):
            return True
        self._shift(step, -1)
        return False

    def back(self, step: PlanStep) -> None:
        self._shift(step, -1)

    def settle(self, step: PlanStep) -> None:
        """Record the pods that the landing needs."""
        own = self.rule.attraction(step.g)
        if step.b < 0:
            return
        self._came[step.g, step.b] += 1
        if own is not None:
            support = self._supports[own]
            if self._provided(own, step.b):
                for k, codes in enumerate(self.rule.attractions[own].codes):
                    support.need[k][int(codes[step.b])] += 1
            else:
                support.shut = True

    def force(self, step: PlanStep) -> None:
        self._shift(step, 1)
        if not self._fine(step):
            for i in self.topics(step.g):
                self._supports[i].shut = True
        self.settle(step)

    def commit(self, steps: Iterable[PlanStep]) -> None:
        for step in steps:
            for i in self.rule.feeds(step.g):
                for k, (codes, counts) in enumerate(zip(self.rule.attractions[i].codes, self.rule.attractions[i].counts, strict=True)):
                    for n in (step.a, step.b):
                        if n >= 0 and codes[n] >= 0:
                            self._supports[i].staying[k][codes[n]] = counts[codes[n]]
            for i in self.topics(step.g):
                support = self._supports[i]
                support.shut = False
                support.clear()
        self._came.clear()

    def _shift(self, step: PlanStep, sign: int) -> None:
        if step.a < 0:
            return
        own = self.rule.attraction(step.g)
        for i in self.rule.feeds(step.g):
            support = self._supports[i]
            if support.loose:
                continue
            for k, codes in enumerate(self.rule.attractions[i].codes):
                e, d = int(codes[step.a]), int(codes[step.b]) if step.b >= 0 else -1
                if e < 0:
                    continue
                if e == d:
                    support.inside[k][e] += sign
                else:
                    support.staying[k][e] -= sign
                    if own == i:
                        support.leaving[k][step.g, step.a] += sign

    def _fine(self, step: PlanStep) -> bool:
        for i in self.rule.feeds(step.g):
            support = self._supports[i]
            if support.loose:
                continue
            if support.shut or (self._new(i, step) and self._lonely(i)):
                return False
            for k, codes in enumerate(self.rule.attractions[i].codes):
                e = int(codes[step.a]) if step.a >= 0 else -1
                if e >= 0 and ((support.need[k][e] and support.least(k, e) < 1) or not self._kept(i, k, e)):
                    return False
        own = self.rule.attraction(step.g)
        if own is None or step.b < 0 or self._supports[own].loose or self._provided(own, step.b):
            return True
        terms, affinity = self.rule.attractions[own], self.rule.cluster.classes[step.g].affinity
        assert affinity is not None
        mine = int(bool(terms.matches[step.g]) and step.a >= 0 and bool(terms.any_key[step.a]))
        return affinity.itself and terms.total - mine == 0 and all(codes[step.b] >= 0 for codes in terms.codes)

    def _provided(self, i: int, n: int) -> bool:
        return all(
            codes[n] >= 0 and self._supports[i].least(k, int(codes[n])) >= 1 for k, codes in enumerate(self.rule.attractions[i].codes)
        )

    def _new(self, i: int, step: PlanStep) -> bool:
        """Return True if a step brings a match and its pod had no match's domain before."""
        return step.b >= 0 and (step.a < 0 or not self.rule.attractions[i].any_key[step.a])

    def _lonely(self, i: int) -> bool:
        """Return True if the only match has the terms itself: it needs no other as long as no other comes."""
        terms = self.rule.attractions[i]
        return terms.total <= 1 and any(bool(terms.matches[h]) and bool(self.pods.counts[h].any()) for h in self.residents.holders[i])

    def _kept(self, i: int, k: int, d: int) -> bool:
        """Return True if all pods in a domain that have the terms keep a match near in every phase of the wave."""
        support, terms = self._supports[i], self.rule.attractions[i]
        staying = int(support.staying[k][d]) if d >= 0 else 2
        if staying >= 2:
            return True
        members = self.rule.cluster.members(terms.keys[k])[d]
        for h in self.residents.holders[i]:
            own = int(bool(terms.matches[h]))
            for n in members[self.pods.counts[h, members] > 0].tolist():
                came = self._came[h, n]
                there, arrived = int(self.pods.counts[h, n]) - came, int(self.pods.arrived[h, n]) - came
                if not there or (not arrived and self.residents.broken_at_start[h][n]):
                    continue
                if staying - (own if there > support.leaving[k][h, n] else 0) < 1:
                    return False
        return True
