"""List scheduling of an accepted sequence of steps in few waves, whose steps may run at once and in any order.

A step that a wave refused is checked again only after a wave that changes the cause of the refusal. See
docs/algorithms/plans.md (Waves).
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Hashable, Sequence

from kubestow.solver.rebalance.problem.problem import RebalanceProblem, Step
from kubestow.solver.rebalance.waves.safety import WaveRules
from kubestow.solver.rebalance.waves.units import binding_units

_BLOCKED, _READY, _WAITING, _TAKEN = range(4)


def waves(problem: RebalanceProblem, steps: Sequence[Step]) -> list[list[Step]]:
    """Regroup an accepted sequence of steps in waves that are safe in any order.

    Steps of several pods are split where needed. Gang members that bind only as a unit are a wave of their own.
    """
    return _Scheduler(problem, binding_units(problem, steps)).run()


class _Scheduler:
    def __init__(self, problem: RebalanceProblem, entries: list[list[Step]]) -> None:
        self._entries = entries
        self._rules = WaveRules(problem, [step for entry in entries for step in entry])
        order = self._rules.order
        self._alone = [len(entry) > 1 or order.solo(entry[0]) for entry in entries]
        self._status = [_BLOCKED] * len(entries)
        self._after: list[list[int]] = [[] for _ in entries]
        self._missing = [0] * len(entries)
        self._inbound: dict[int, list[int]] = {}
        self._link()
        self._ready: list[int] = []
        self._waiting: dict[Hashable, list[int]] = {}
        self._parked: dict[int, list[int]] = {}  # by budget: steps that need it; one at a time is tried, the others wait
        self._flying: set[int] = set()

    def _link(self) -> None:
        """Record which steps come after which."""
        last: dict[Hashable, int] = {}
        guarded: dict[int, list[int]] = {}  # by budget: steps since the last eviction for good
        for i, entry in enumerate(self._entries):
            before: set[int] = set()
            for step in entry:
                for key in self._rules.order.keys(step):
                    if key in last:
                        before.add(last[key])
                    last[key] = i
                budget = self._rules.budget(step)
                if budget is not None:
                    since = guarded.setdefault(budget, [])
                    if step.b < 0:  # an eviction for good never returns its allowance, so it must not precede steps that do
                        before.update(since)
                        since.clear()
                    since.append(i)
                if step.b >= 0:
                    self._inbound.setdefault(step.b, []).append(i)
            before.discard(i)
            self._missing[i] = len(before)
            for j in before:
                self._after[j].append(i)

    def run(self) -> list[list[Step]]:
        found = []
        for i, missing in enumerate(self._missing):
            if not missing:
                self._release(i)
        for first, entry in enumerate(self._entries):
            if self._status[first] == _TAKEN:
                continue
            for step in entry:
                self._rules.force(step, in_place=self._alone[first])
            self._taken(first)
            if not self._alone[first]:
                self._fill()
            found.append(_merged(self._close()))
        return found

    def _fill(self) -> None:
        for budget in list(self._parked):
            self._feed(budget)
        while self._ready:
            i = heapq.heappop(self._ready)
            (step,) = self._entries[i]
            need = self._rules.budget(step)
            if self._status[i] == _READY and need is not None and self._rules.remaining_evictions[need] < 1:
                heapq.heappush(self._parked.setdefault(need, []), i)
            elif self._status[i] == _READY:
                self._try(i, step)
            if need is not None:
                self._flying.discard(need)
                self._feed(need)

    def _try(self, i: int, step: Step) -> None:
        if self._rules.join(step, self._reserved(i, step)):
            self._taken(i)
            return
        self._status[i] = _WAITING
        for key in self._rules.order.waits(step):
            self._waiting.setdefault(key, []).append(i)

    def _feed(self, budget: int) -> None:
        """Try the next step that needs a budget while the budget lasts."""
        parked = self._parked.get(budget)
        if budget in self._flying or self._rules.remaining_evictions[budget] < 1:
            return
        while parked:
            i = heapq.heappop(parked)
            if self._status[i] == _READY:
                self._flying.add(budget)
                heapq.heappush(self._ready, i)
                return
        self._parked.pop(budget, None)

    def _release(self, i: int) -> None:
        """Mark a step as ready to be tried."""
        if self._alone[i]:
            self._status[i] = _WAITING
            return
        self._status[i] = _READY
        budget = self._rules.budget(self._entries[i][0])
        if budget is None:
            heapq.heappush(self._ready, i)
        else:
            heapq.heappush(self._parked.setdefault(budget, []), i)

    def _taken(self, i: int) -> None:
        self._status[i] = _TAKEN
        for j in self._after[i]:
            self._missing[j] -= 1
            if not self._missing[j]:
                self._release(j)
                budget = self._rules.budget(self._entries[j][0])
                if budget is not None:
                    self._feed(budget)

    def _reserved(self, i: int, step: Step) -> list[int]:
        """Return the classes of the pods that earlier remaining steps bring to the target of a step."""
        if step.b < 0:
            return []
        inbound = self._inbound[step.b]
        if self._status[inbound[0]] == _TAKEN:
            inbound[:] = [j for j in inbound if self._status[j] != _TAKEN]
        found = []
        for j in inbound:
            if j >= i:
                break
            if self._status[j] != _TAKEN:
                found += [other.g for other in self._entries[j] if other.b == step.b]
        return found

    def _close(self) -> list[Step]:
        steps = self._rules.commit()
        for key in dict.fromkeys(key for step in steps for key in self._rules.order.wakes(step)):
            for i in self._waiting.pop(key, ()):
                if self._status[i] == _WAITING and not self._alone[i]:
                    self._release(i)
        return steps


def _merged(steps: Sequence[Step]) -> list[Step]:
    """Return the steps with equal ones merged into one step of several pods."""
    return [Step(g, a, b, k) for (g, a, b), k in Counter((step.g, step.a, step.b) for step in steps).items()]
