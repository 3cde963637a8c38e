"""An order in which first-fit serves all pods of a node that take devices: each next pod is one after which the others can still be served.

What the others may get is planned (:mod:`kubestow.solver.devices.together`), and planned anew where a pod gets something else than its plan
says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from kubestow.models.cluster.cluster import Cluster
from kubestow.solver.devices.together import together
from kubestow.solver.rules.base import Rule
from kubestow.solver.rules.dynamic_resources import DynamicResources

if TYPE_CHECKING:
    from kubestow.solver.devices.packing import Taken

#: Pods that are tried, for one node.
WORK = 400
#: class -> what each of its pods may get
_Plan: TypeAlias = "dict[int, list[Taken]]"


class DeviceOrder:
    """Orders of single nodes. ``rules``: those that replay what nodes give to pods, DynamicResources among them."""

    def __init__(self, cluster: Cluster, rules: Sequence[Rule]) -> None:
        self._cluster, self._rules = cluster, rules
        self._devices = DynamicResources.of(rules)
        found = together(cluster)
        assert found is not None
        self._together = found

    def find(self, n: int, pods: dict[int, int]) -> tuple[list[int] | None, bool]:
        """Return the classes of pods (class -> number) on node n in an order in which each is accepted, or None and whether it is proved
        that there is none. The state of the rules is kept."""
        self._work, self._dead, self._cut = WORK, set[object](), False
        self._n = n
        sequence: list[int] = []
        plan, sure = self._planned(+Counter(pods))
        if plan is None:
            return None, sure
        found = self._next(+Counter(pods), plan, sequence)
        for g in reversed(sequence):
            self._put(g, -1)
        return (sequence, True) if found else (None, not self._cut)

    def _put(self, g: int, k: int) -> None:
        for rule in self._rules:
            if rule.concerned(g):
                rule.place(g, self._n, k) if k > 0 else rule.remove(g, self._n, -k)

    def _planned(self, pods: Counter[int]) -> tuple[_Plan | None, bool]:
        return self._together.plan(self._n, self._devices.state.books, pods)

    def _next(self, left: Counter[int], plan: _Plan, sequence: list[int]) -> bool:
        if not left:
            return True
        state = (tuple(sorted(left.items())), *(rule.path() for rule in self._rules))
        if state in self._dead:
            return False
        for g in self._in_turn(plan):
            self._work -= 1
            if self._work < 0:
                self._cut = True
                return False
            if any(rule.rejects(g)[self._n] for rule in self._rules):
                continue
            self._put(g, 1)
            sequence.append(g)
            rest = left - Counter([g])
            after = self._after(g, rest, plan)
            if after is not None and self._next(rest, after, sequence):
                return True
            self._put(sequence.pop(), -1)
        self._dead.add(state)
        return False

    def _in_turn(self, plan: _Plan) -> list[int]:
        """The classes with pods left: higher priorities first, then those whose devices come first and end first."""

        def turn(g: int) -> tuple[int, ...]:
            first = min((min(taken, default=0), max(taken, default=0), -len(taken)) for taken in plan[g])
            return (-int(self._cluster.priority[g]), *first, g)

        return sorted(plan, key=turn)

    def _after(self, g: int, rest: Counter[int], plan: _Plan) -> _Plan | None:
        """Return a plan for the pods that are left now that one of class g has its devices; None if there is none."""
        picks = self._devices.taken(g, self._n)[-1]
        units = [self._devices.state.inventory.devices[pick.device].unit for pick in picks if not pick.admin]
        got = sorted(self._together.groups(self._n, units))
        for i, taken in enumerate(plan[g]):
            if sorted(taken) == got:
                others = [*plan[g][:i], *plan[g][i + 1 :]]
                return {**{h: mine for h, mine in plan.items() if h != g}, **({g: others} if others else {})}
        found, sure = self._planned(rest)
        self._cut |= not sure
        return found
