"""InterPodAffinity in the model of a plan's end state."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kubestow.models.cluster.cluster import Ids
from kubestow.models.kube.selectors import Bools
from kubestow.solver.rules.inter_pod_affinity.encoding import Attraction, Repulsion
from kubestow.solver.rules.inter_pod_affinity.rule import InterPodAffinity

if TYPE_CHECKING:
    from kubestow.solver.ortools import cp_model
    from kubestow.solver.rules.end_states import EndStates


class AffinityTarget:
    """Adds anti-affinity and required affinity to a model.

    Args:
        rule: InterPodAffinity in the state of the fixed pods.
    """

    def __init__(self, states: EndStates, rule: InterPodAffinity) -> None:
        self.states, self.rule, self.model, self.problem = states, rule, states.model, states.problem
        self._counts: dict[tuple[int, ...], cp_model.IntVar] = {}

    def run(self) -> None:
        """Add all terms."""
        for repulsion, owners in self.rule.repulsions():
            self._anti(repulsion, owners)
        self._affinity()

    def _anti(self, r: Repulsion, owners: list[int]) -> None:
        """Add an anti-affinity term, which classes ``owners`` have."""
        model, start = self.model, self.problem.start
        matched = np.flatnonzero(r.matches).tolist()
        concerned = sorted({*owners, *matched})
        both = [g for g in owners if r.matches[g]]
        carriers = [g for g in owners if not r.matches[g]]
        targets = [g for g in matched if g not in owners]
        for d in model.domains(concerned, r.codes):
            nodes = self.problem.cluster.members(r.term.key)[d]
            owned, hit = int(r.owners[d] > 0), int(r.matching[d])  # fixed pods with the term, and those that it matches
            here = [int(start[np.asarray(group)[:, None], nodes].sum()) if group else 0 for group in (both, carriers, targets)]
            inside = sum(here) + owned + hit
            fine = inside == 0 or not (
                (here[0] + here[1] and hit) or (here[0] + here[2] and owned) or here[0] > 1 or (here[0] and inside > 1)
                or (here[1] and here[2])
            )  # fmt: skip
            if fine and not owned and not hit and not model.partial:
                single = model.cells(both, nodes)
                sides = [lit for group in (carriers, targets) for lit in model.present(group, nodes)]
                if single or len(sides) > 1:
                    model.model.add(model.sum([*single, *sides]) <= 1)
                continue
            # conflicts of each group: (classes, most pods of these, fixed pods)
            for group, others in (
                (both, [(matched, 1, hit), (owners, 1, owned)]), (carriers, [(matched, 0, hit)]), (targets, [(owners, 0, owned)])
            ):  # fmt: skip
                self._apart(group, nodes, others)

    def _apart(self, group: list[int], nodes: Ids, others: list[tuple[list[int], int, int]]) -> None:
        """Forbid pods of a group to arrive on some nodes of a domain while pods that conflict with them are there.

        Pods of the group that broke the rule there at the start may stay, but then count as breaking it.

        Args:
            group: The classes.
            nodes: The nodes of the domain.
            others: Conflicts of the group: classes, the maximum number of their pods, and the fixed pods that count to it.
        """
        model, name, broken = self.model, self.rule.name, self.states.broken
        arriving = model.arriving(group, nodes)
        was = [(g, n) for g in group for n in nodes.tolist() if self.states.was_broken(name, g, n)]
        if not arriving and not was:
            return
        clear = model.model.new_bool_var("")
        for classes, limit, fixed in others:
            self.states.at_most(classes, nodes, fixed, limit, clear)
        for literal in arriving:
            model.model.add_implication(literal, clear)
        for g, n in was:
            broken.setdefault((g, n, name), []).append(clear)

    def _affinity(self) -> None:
        """Add required affinity.

        The pod needs another pod that matches all terms in the domain of every key. Alternatively, it matches
        its own terms and no other pod does anywhere.
        """
        model, rule = self.model, self.rule
        for g, cls in enumerate(self.problem.cluster.classes):
            index = rule.attraction(g)
            if index is None or cls.affinity is None:
                continue
            a, own = rule.attractions[index], int(cls.affinity.itself)
            if g not in model.unplaced and not any(a.matches[h] for h in model.unplaced):
                continue
            cells: dict[tuple[int, ...], list[int]] = {}
            here = np.flatnonzero(model.unmoved[g]) if model.partial else np.zeros(0, dtype=np.int64)
            for n in sorted({*model.nodes_of(g).tolist(), *here.tolist()}):
                cells.setdefault(tuple(int(codes[n]) for codes in a.codes), []).append(n)
            providers = np.flatnonzero(a.matches).tolist()
            moving = {n for h in providers for n in model.nodes_of(h).tolist()} | set(model.nodes_of(g).tolist())
            alone = self._alone(index, providers, a.any_key) if own and not a.total else None
            for cell, nodes in cells.items():
                if min(cell) < 0:  # broken in any case
                    for n in nodes:
                        if self.states.was_broken(rule.name, g, n):
                            self.states.broken[g, n, rule.name] = []
                    continue
                if model.partial and not moving.intersection(nodes) and self._rests(a, cell, providers, moving, 1 + own):
                    continue
                near = []
                for key_index, d in enumerate(cell):
                    if not a.counts[key_index][d]:
                        members = self.problem.cluster.members(a.keys[key_index])[d]
                        near.append(self._near((index, key_index, d, own), providers, members, 1 + own))
                if not near:
                    continue
                clear = model.model.new_bool_var("")
                for literal in near:
                    model.model.add_bool_or([~clear, literal, *([] if alone is None else [alone])])
                fine = [n for n in nodes if not self.states.was_broken(rule.name, g, n)]
                for literal in (*model.present([g], np.array(fine, dtype=np.int64)), *model.arriving([g], np.array(nodes))):
                    model.model.add_implication(literal, clear)
                for n in set(nodes) - set(fine):
                    literals = self.states.broken.setdefault((g, n, rule.name), [])
                    literals.append(clear)

    def _rests(self, a: Attraction, cell: tuple[int, ...], providers: list[int], moving: set[int], least: int) -> bool:
        """Return True if every domain of a cell has a fixed pod that matches, or enough providers that cannot move.

        Args:
            a: The terms.
            cell: A domain for each key of the terms.
            providers: Classes that match the terms.
            moving: Nodes where the model moves pods of these classes, or of the class with the terms.
            least: Number of providers that are enough.
        """
        for key, d, counts in zip(a.keys, cell, a.counts, strict=True):
            members = self.problem.cluster.members(key)[d]
            if not counts[d] and (moving.intersection(members.tolist()) or self.model.count_unmoved(providers, members) < least):
                return False
        return True

    def _near(self, key: tuple[int, ...], providers: list[int], nodes: Ids, least: int) -> cp_model.IntVar:
        """Return a literal that implies at least ``least`` providers on these nodes.

        Args:
            key: Identifies the condition. Equal keys share one literal.
        """
        if key not in self._counts:
            model = self.model
            literal = self._counts[key] = model.model.new_bool_var("")
            total = model.sum(model.cells(providers, nodes)) + model.count_unmoved(providers, nodes)
            model.model.add(total >= least).only_enforce_if(literal)
        return self._counts[key]

    def _alone(self, index: int, providers: list[int], seen: Bools) -> cp_model.IntVar:
        """Return a literal that implies that at most one provider is on nodes that the terms see.

        Args:
            index: Number of the terms in the rule. Equal numbers share one literal.
        """
        if (index,) not in self._counts:
            literal = self._counts[index,] = self.model.model.new_bool_var("")
            self.states.at_most(providers, np.flatnonzero(seen), 0, 1, literal)
        return self._counts[index,]
