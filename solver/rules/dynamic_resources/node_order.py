"""Order in which first-fit serves all pods of a node that take devices.

Each next pod is one after which the remaining pods can still be served. Their devices are planned
(:mod:`kubestow.solver.devices.together`), and planned again if a pod gets other devices than planned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TypeAlias

from kubestow.solver.devices.packing import Taken
from kubestow.solver.devices.state import DeviceState
from kubestow.solver.devices.together import together
from kubestow.solver.rules.base import Rule

MAX_TRIALS = 400  #: Pods tried for one node before the search gives up.
#: Devices of each pod, by class.
_Plan: TypeAlias = "dict[int, list[Taken]]"


class DeviceOrder:
    """Orders of the pods of single nodes that request devices.

    Args:
        devices: The rule of devices.
        state: Its state.
        rules: Rules that replay allocations on nodes, ``devices`` included.
    """

    def __init__(self, devices: Rule, state: DeviceState, rules: Sequence[Rule]) -> None:
        self._cluster, self._devices, self._state, self._rules = devices.cluster, devices, state, rules
        answers = together(devices.cluster)
        assert answers is not None
        self._together = answers

    def find(self, n: int, pods: dict[int, int]) -> tuple[list[int] | None, bool]:
        """Search for an order in which each pod on node n is accepted. The state of the rules is restored.

        Args:
            pods: Number of pods by class.

        Returns:
            The class of each pod in this order, and True. If none is found, None, and True if it is proved that there is none.
        """
        self._trials_left, self._dead, self._cut = MAX_TRIALS, set[object](), False
        self._n = n
        sequence: list[int] = []
        plan, sure = self._planned(+Counter(pods))
        if plan is None:
            return None, sure
        success = self._next(+Counter(pods), plan, sequence)
        for g in reversed(sequence):
            self._put(g, -1)
        return (sequence, True) if success else (None, not self._cut)

    def _put(self, g: int, k: int) -> None:
        for rule in self._rules:
            if rule.concerned(g):
                rule.place(g, self._n, k) if k > 0 else rule.remove(g, self._n, -k)

    def _planned(self, pods: Counter[int]) -> tuple[_Plan | None, bool]:
        return self._together.plan(self._n, self._state.books, pods)

    def _next(self, unbound: Counter[int], plan: _Plan, sequence: list[int]) -> bool:
        if not unbound:
            return True
        state = (tuple(sorted(unbound.items())), *(rule.path() for rule in self._rules))
        if state in self._dead:
            return False
        for g in self._in_turn(plan):
            self._trials_left -= 1
            if self._trials_left < 0:
                self._cut = True
                return False
            if any(rule.rejects(g)[self._n] for rule in self._rules):
                continue
            self._put(g, 1)
            sequence.append(g)
            remaining = unbound - Counter([g])
            after = self._after(g, remaining, plan)
            if after is not None and self._next(remaining, after, sequence):
                return True
            self._put(sequence.pop(), -1)
        self._dead.add(state)
        return False

    def _in_turn(self, plan: _Plan) -> list[int]:
        """Return the classes with pods to bind: higher priorities first, then by their lowest and highest planned devices."""

        def turn(g: int) -> tuple[int, ...]:
            first = min((min(picks, default=0), max(picks, default=0), -len(picks)) for picks in plan[g])
            return (-int(self._cluster.priority[g]), *first, g)

        return sorted(plan, key=turn)

    def _after(self, g: int, remaining: Counter[int], plan: _Plan) -> _Plan | None:
        """Return the plan for the remaining pods after a pod of class g got its devices. None if none is found.

        The old plan without that pod is kept if it gave these devices to a pod of class g. Otherwise a new plan is made.
        """
        picks = self._devices.taken(g, self._n)[-1]
        units = [self._state.inventory.devices[pick.device].unit for pick in picks if not pick.admin]
        got = sorted(self._together.groups(self._n, units))
        for i, chosen in enumerate(plan[g]):
            if sorted(chosen) == got:
                others = [*plan[g][:i], *plan[g][i + 1 :]]
                return {**{h: mine for h, mine in plan.items() if h != g}, **({g: others} if others else {})}
        found, sure = self._planned(remaining)
        self._cut |= not sure
        return found
