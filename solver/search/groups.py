"""Groups of classes that nothing ties to others but the room on nodes: bound each as if it were alone, and put it where it would be then.

Beside the others a group often cannot get there pod by pod, since each node that it would fill has others on it: these give way, and
settle around it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from kubestow.models.cluster.cluster import Ints
from kubestow.solver import rules
from kubestow.solver.bounds.component import Component
from kubestow.solver.bounds.component_bounds import Components
from kubestow.solver.cpsat.run import CpSat
from kubestow.solver.objective.preferences import Objective
from kubestow.solver.objective.sparse_placement import Placed
from kubestow.solver.search.annealing import COLD, HOT, anneal
from kubestow.solver.search.clock import SearchClock
from kubestow.solver.search.displacement import Displacement
from kubestow.solver.search.local_search import LocalSearch
from kubestow.solver.search.outcome import SoftOutcome
from kubestow.solver.search.parameters import PARAMETERS

#: Sweeps over the pods of a group that is annealed alone.
SWEEPS = 150


class Groups:
    """The groups of a placement that ``search`` is in the state of."""

    def __init__(self, components: Components, search: LocalSearch, objective: Objective, cpsat: CpSat, clock: SearchClock) -> None:
        self._components, self._search, self._objective, self._cpsat, self._clock = components, search, objective, cpsat, clock
        self._found, self._context, self._parameters = components.found, clock.context, PARAMETERS
        self._many = int(objective.cluster.count.sum()) > PARAMETERS.many_pods
        self._settling = PARAMETERS.settle_sweeps
        self.on_look: Callable[[int], None] | None = None  # told which group was looked at, to move it elsewhere
        self.waiting: set[int] = set()  # groups of which another process found a placement alone

    def worth_bounding(self, best: SoftOutcome) -> bool:
        """Return whether most of the gap may be that of groups to their own best, which is not known yet."""
        lost = self._losses(best.counts)
        return 2 * sum(_unknown(c, loss) for c, loss in zip(self._found, lost, strict=True)) >= best.bound - best.value

    def losing(self) -> set[int]:
        """Return the classes of groups that have less than their bounds."""
        lost = self._losses(self._search.counts)
        return {g for loss, c in zip(lost, self._found, strict=True) if loss > 0 for g in c.classes}

    def bound(self, best: SoftOutcome, seconds: float, most: float) -> bool:
        """Bound groups alone, those first of which most may not be known for the time they ask, and give each what it would like if that
        is a gain. Begins none after so many ``seconds``, and ends after ``most``. Whether any was left to be looked at."""
        started, gained, found = self._left(), 0, self._found
        lost = self._losses(self._search.counts)
        waiting = {i for i, c in enumerate(found) if lost[i] > 0 and not c.proved}
        if not waiting:
            return False
        while waiting and not self._context.over() and started - self._left() < seconds:
            i = max(sorted(waiting), key=lambda i: (found[i].fresh, _unknown(found[i], lost[i]) / found[i].slice))
            component, value, looked = found[i], self._value(found[i]), found[i].looked
            rows = self._search.counts[component.classes]
            self._components.solve(component, self._cpsat, min(component.slice, most - (started - self._left())), rows, value)
            if not self._many:
                self.look_alone(component)
            component.slice *= 2 if looked else 1
            if self.on_look is None:
                gained += self._move(component, value)
            else:
                self.on_look(i)
            lost[i] = self._components.loss(i, self._search.counts)
            if lost[i] <= 0 or component.proved:
                waiting.discard(i)
            best.bound = min(best.bound, max(best.value + gained, self._components.bound))
            self._report(best.value + gained, best.bound)
        self._components.share(self._cpsat)
        best.bound = min(best.bound, max(best.value + gained, self._components.bound))
        self._search.refresh()
        return True

    def place(self, best: SoftOutcome, seconds: float) -> None:
        """Give groups that wait what they would like if that is a gain. Begins none after so many ``seconds``."""
        started, gained, lost = self._left(), 0, self._losses(self._search.counts)
        while self.waiting and not self._context.over() and started - self._left() < seconds:
            i = max(sorted(self.waiting), key=lambda i: lost[i])
            self.waiting.discard(i)
            gained += self._move(self._found[i], self._value(self._found[i])) if lost[i] > 0 else 0
            self._report(best.value + gained, best.bound)
        self._search.refresh()

    def move_again(self, best: SoftOutcome, seconds: float) -> bool:
        """Give groups that are not where they would be alone another try, those that lose most first: near where they are, then where they
        are known to be best off; with more time for the others to settle each round. Whether there are any. Begins none after so many
        ``seconds``."""
        started, gained, losing = self._left(), 0, self._losing()
        left = losing
        while left:
            for component in left:
                if self._context.over() or started - self._left() >= seconds:
                    return True
                value = self._value(component)
                seed = self._settling + component.classes[0]
                gained += (
                    self._move(self._beside_tied(component, seed), value, stay=True)
                    or self._move(self._near(component, seed), value, stay=True)
                    or self._move(component, value, stay=True)
                )
                self._report(best.value + gained, best.bound)
            self._settling *= 2
            left = self._losing()
        return bool(losing)

    def _losing(self) -> list[Component]:
        """Groups that could be where they would be alone and are not, those that lose most first."""
        lost = self._losses(self._search.counts)
        losing = [i for i, c in enumerate(self._found) if lost[i] > 0 and c.counts is not None and self._movable(c)]
        return [self._found[i] for i in sorted(losing, key=lambda i: (-lost[i], i))]

    def _losses(self, counts: Ints) -> list[int]:
        """Points that each group has less than its bound in a placement int64[G, N]."""
        return [self._components.loss(i, counts) for i in range(len(self._found))]

    def _value(self, component: Component) -> int:
        """Points that a group has now."""
        rows, o = self._search.counts[component.classes], self._objective
        return o.total(o.families(Placed(rows, component.classes), component.classes))

    # --- alone ---------------------------------------------------------------------------------------------------------------------

    def look_alone(self, component: Component) -> None:
        """Take note in ``component`` of a better placement for it alone."""
        if component.proved or any(g not in self._search.mobile for g in component.classes):
            return
        counts, value = self._anneal_alone(component, int(component.slice))
        if component.value is None or value > component.value:
            component.counts, component.value, component.wished = counts, value, False
            component.proved = value >= component.bound

    def _near(self, component: Component, seed: int) -> Component:
        """Return the group with a placement of its own that is near where it is."""
        found = replace(component)
        found.counts, found.value = self._anneal_alone(component, seed, self._parameters.near)
        return found

    def _beside_tied(self, component: Component, seed: int) -> Component:
        """Return the group with a placement for which only pods have to give way that lose nothing by it."""
        found = replace(component)
        tied = Displacement(self._search, component.classes, self._components.pools(component)).tied()
        found.counts, found.value = self._anneal_alone(component, seed, tied=tied)
        return found

    def _anneal_alone(
        self, component: Component, seed: int, hot: float = HOT, *, tied: tuple[Ints, Ints] | None = None
    ) -> tuple[Ints, int]:
        """A placement int64[len(classes), N] of a group that is alone, and its points, beginning where it is. ``hot``: the share of the
        temperature to begin with; the less, the nearer it stays. ``tied``: room and slots that others keep."""
        search, classes = self._search, component.classes
        sub, rows = search.cluster.restricted(classes), search.counts[classes]
        if tied is not None:
            sub = replace(sub, free=sub.free - tied[0], slots=sub.slots - tied[1])
        objective = Objective(sub, rules.build(sub))
        active = rules.replay(sub, [(int(g), int(n), int(rows[g, n])) for g, n in zip(*np.nonzero(rows), strict=True)])
        alone = LocalSearch(objective, active, search.limits[classes], rows, seed=self._context.options.seed + seed)
        anneal(alone, self._clock.of(alone, component.slice, SWEEPS), hot=hot)
        return alone.counts, objective.total(objective.families(alone.counts))

    # --- beside the others ---------------------------------------------------------------------------------------------------------

    def _movable(self, component: Component) -> bool:
        return all(self._search.loose(g) and g in self._search.mobile for g in component.classes)

    def _move(self, component: Component, value: int, *, stay: bool = False) -> int:
        """Put a group where it is best off; the points gained. ``value``: what it has now; ``stay``: it stays there while others settle."""
        search, counts = self._search, component.counts
        if counts is None or component.value is None or component.value <= value:
            return 0
        if not all(search.loose(g) for g in component.classes):
            return 0
        if (counts.sum(axis=1) < search.counts[component.classes].sum(axis=1)).any():
            return 0  # alone it would rather leave pods out than repel
        crowded = self._objective.cluster.n_nodes <= self._parameters.crowded_nodes
        if crowded:
            counts = Displacement(search, component.classes, self._components.pools(component)).least(counts)
        tied = component.classes if component.whole is None else self._found[component.whole].classes
        gain = search.relocate(component.classes, counts, tied)
        if gain is not None:
            return gain
        return self._make_room(component, counts, stay=stay) if crowded and self._movable(component) else 0

    def _make_room(self, component: Component, counts: Ints, *, stay: bool) -> int:
        """Put a group where it is best off, others giving way, and let all settle, or all others; undone if nothing is gained by it."""
        search, o = self._search, self._objective
        before = search.counts.copy()
        base = o.total(o.families(before))
        if search.force(component.classes, counts):
            seconds = min(self._parameters.settle_seconds, self._left() * self._parameters.anneal)
            moving = search.mobile.difference(component.classes) if stay else None
            anneal(search, self._clock.of(search, seconds, self._settling), hot=HOT / 10, cold=COLD, only=moving)
            gain = o.total(o.families(search.counts)) - base
            if gain > 0:
                return gain
            search.go_to(before)
        return 0

    def _left(self) -> float:
        return self._context.deadline.left()

    def _report(self, value: int, bound: int) -> None:
        self._context.report(self._context.phase, "soft", value, bound)


def _unknown(component: Component, lost: int) -> int:
    """Return how much of what a group has less than its bound may be that of its own best, which is not known."""
    return lost if component.value is None else min(lost, component.bound - component.value)
