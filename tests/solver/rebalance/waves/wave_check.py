"""Safety of waves by enumeration: every phase of every step, each state judged by fresh rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import product

import numpy as np

from kubestow.models.cluster.cluster import Ints
from kubestow.solver import rules
from kubestow.solver.rebalance.problem.problem import RebalanceProblem, Step
from kubestow.solver.rules.base import Rule, StaticRule
from kubestow.solver.rules.pod_topology_spread.rule import PodTopologySpread

NOT_BEGUN, GONE, DONE = range(3)
Broken = dict[tuple[int, int], set[str]]  # (class, node) -> rules


def single(steps: Iterable[Step]) -> list[Step]:
    """The steps pod by pod."""
    return [Step(s.g, s.a, s.b) for s in steps for _ in range(s.k)]


class Position:
    """Running pods, and those of them that the plan placed: int64[G, N] each."""

    def __init__(self, counts: Ints, arrived: Ints) -> None:
        self.counts, self.arrived = counts, arrived

    def after(self, phases: Iterable[tuple[Step, int]]) -> Position:
        """The position with some steps begun; of a class the pods that never moved leave first."""
        found = Position(self.counts.copy(), self.arrived.copy())
        for s, phase in phases:
            if phase != NOT_BEGUN and s.a >= 0:
                found.arrived[s.g, s.a] -= found.arrived[s.g, s.a] == found.counts[s.g, s.a]
                found.counts[s.g, s.a] -= 1
        for s, phase in phases:
            if phase == DONE and s.b >= 0:
                found.counts[s.g, s.b] += 1
                found.arrived[s.g, s.b] += 1
        return found


class Judge:
    """The allowed states of a case, by the definition of a plan."""

    def __init__(self, problem: RebalanceProblem) -> None:
        self.problem = problem
        self.start = Position(problem.start.copy(), np.zeros_like(problem.start))
        self._broken = self._breaks(self.start)
        self._excess = self._excesses(self.start)

    def _rules(self, position: Position) -> list[Rule]:
        cells = zip(*(i.tolist() for i in np.nonzero(position.counts)), strict=True)
        return rules.replay(self.problem.cluster, ((g, n, int(position.counts[g, n])) for g, n in cells))

    def accepts(self, position: Position, step: Step) -> bool:
        """Return True if the filters accept the replacement of a step whose pod is absent."""
        fine = not any(rule.rejects(step.g)[step.b] for rule in self._rules(position))
        return fine and not self.problem.closed[step.b]

    def _breaks(self, position: Position) -> Broken:
        active = [r for r in self._rules(position) if not isinstance(r, StaticRule)]
        found: Broken = {}
        for g, n in zip(*(i.tolist() for i in np.nonzero(position.counts)), strict=True):
            for rule in active:
                rule.remove(g, n)
            found[g, n] = {r.name for r in active if r.rejects(g)[n]}
            for rule in active:
                rule.place(g, n)
        return found

    def _excesses(self, position: Position) -> dict[tuple[int, int], list[int]]:
        spread = next(r for r in self._rules(position) if isinstance(r, PodTopologySpread))
        found = {}
        for g, n in zip(*(i.tolist() for i in np.nonzero(position.counts)), strict=True):
            own = [(s, spread.tallies[i]) for s, i in spread.own(g) if i is not None]
            found[g, n] = [int(t.counts[t.codes[n]]) - t.floor(s.min_domains) - s.max_skew if t.codes[n] >= 0 else 0 for s, t in own]
        return found

    def worse(self, position: Position) -> str | None:
        """Why a position is not valid, if it is not."""
        excess = self._excesses(position)
        for (g, n), names in self._breaks(position).items():
            if names and position.arrived[g, n]:
                return f"{g} on {n}, placed by the plan, breaks {names}"
            if position.counts[g, n] > position.arrived[g, n]:
                if names - self._broken[g, n]:
                    return f"{g} on {n} breaks {names - self._broken[g, n]}"
                if any(now > max(0, then) for now, then in zip(excess[g, n], self._excess[g, n], strict=True)):
                    return f"{g} on {n} is farther over maxSkew"
        return None

    def faults(self, position: Position, wave: Sequence[Step]) -> Iterator[str]:
        """Return the faults that can occur when these steps (pod by pod) run in any order."""
        for i, step in enumerate(wave):
            others = [*wave[:i], *wave[i + 1 :]]
            phases = [(NOT_BEGUN, DONE) if s.a < 0 or s.b < 0 else (NOT_BEGUN, GONE, DONE) for s in others]
            for phase in product(*phases) if step.b >= 0 else ():
                there = position.after([(step, GONE), *zip(others, phase, strict=True)])
                if (there.counts < 0).any():
                    yield f"{step}: no such pod"
                elif not self.accepts(there, step):
                    yield f"{step} is refused with {list(zip(others, phase, strict=True))}"
        for phase in product((NOT_BEGUN, DONE), repeat=len(wave)):
            there = position.after(list(zip(wave, phase, strict=True)))
            reason = self.worse(there) if (there.counts >= 0).all() else "no such pod"
            if reason is not None:
                yield f"{reason} after {[s for s, p in zip(wave, phase, strict=True) if p == DONE]}"

    def over_budget(self, found: Sequence[Sequence[Step]]) -> Iterator[str]:
        """Budgets that some wave does not keep."""
        allowed = [budget.allowed for budget in self.problem.budgets]
        for number, wave in enumerate(found):
            guards = [(guard, step) for step in single(wave) if step.a >= 0 and (guard := self.problem.budget[step.g]) is not None]
            for guard, evicted in Counter(guard for guard, _ in guards).items():
                if evicted > allowed[guard]:
                    yield f"wave {number}: {self.problem.budgets[guard].name}"
            for guard, step in guards:
                allowed[guard] -= step.b < 0
