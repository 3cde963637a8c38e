"""Groups of classes that only room ties to others: bound each group alone in the cluster, then place it as it would be
alone.

With other pods present, a group often cannot get there pod by pod, because its nodes hold other pods. These are moved
away and settle around the group."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from kubestow.models.cluster.cluster import Ints
from kubestow.solver import rules
from kubestow.solver.bounds.component import ClassComponent
from kubestow.solver.bounds.component_bounds import Components
from kubestow.solver.cpsat.run import CpSat
from kubestow.solver.objective.preferences import Objective
from kubestow.solver.objective.sparse_placement import SparsePlacement
from kubestow.solver.search.annealing import START_TEMPERATURE, WARM_TEMPERATURE, SearchClock, anneal
from kubestow.solver.search.displacement import Displacement
from kubestow.solver.search.local_search import LocalSearch
from kubestow.solver.search.outcome import SoftOutcome
from kubestow.solver.search.parameters import PARAMETERS
from kubestow.solver.search.turns import TURN_SECONDS

ALONE_SWEEPS = 150  #: Sweeps over the pods when a group is annealed alone.


class ClassGroups:
    """The groups of a placement; ``search`` is in its state."""

    def __init__(self, components: Components, search: LocalSearch, objective: Objective, cpsat: CpSat, clock: SearchClock) -> None:
        self._components, self._search, self._objective, self._cpsat, self._clock = components, search, objective, cpsat, clock
        self._groups, self._context, self._parameters = components.found, clock.context, PARAMETERS
        self._many = int(objective.cluster.count.sum()) > PARAMETERS.many_pods
        self._settling = PARAMETERS.settle_sweeps
        self.on_look: Callable[[int], None] | None = None  # called with each group solved; another process then moves it
        self.waiting: set[int] = set()  # groups with a placement alone from another process

    def worth_bounding(self, best: SoftOutcome) -> bool:
        """Return whether unknown optima of single groups may account for at least half of the gap."""
        lost = self._losses(best.counts)
        return 2 * sum(_unknown(c, loss) for c, loss in zip(self._groups, lost, strict=True)) >= best.bound - best.value

    def losing(self) -> set[int]:
        """Return the classes of groups that are below their bounds."""
        lost = self._losses(self._search.counts)
        return {g for loss, c in zip(lost, self._groups, strict=True) if loss > 0 for g in c.classes}

    def bound(self, best: SoftOutcome, seconds: float, time_limit: float) -> bool:
        """Bound groups alone, and move each to its best placement if that gains points. Lower ``best.bound`` accordingly.

        Groups with the most possible gain per second come first.

        Args:
            best: The incumbent. Only its bound changes.
            seconds: No group starts later than this, in seconds after the call.
            time_limit: All groups end before this, in seconds after the call.

        Returns:
            False if no group was left to bound.
        """
        time, gained, components = self._context.slice(cap=seconds), 0, self._groups
        end = self._remaining() - time_limit
        lost = self._losses(self._search.counts)
        waiting = {i for i, c in enumerate(components) if lost[i] > 0 and not c.proved}
        if not waiting:
            return False
        while waiting and not time.is_over():
            i = max(sorted(waiting), key=lambda i: (components[i].fresh, _unknown(components[i], lost[i]) / components[i].slice))
            component, value, looked = components[i], self._value(components[i]), components[i].modelled
            rows = self._search.counts[component.classes]
            self._components.solve(component, self._cpsat, min(component.slice, self._remaining() - end), rows, value)
            if not self._many:
                self.improve_alone(component)
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
        self._components.bound_jointly(self._cpsat)
        best.bound = min(best.bound, max(best.value + gained, self._components.bound))
        self._search.refresh()
        return True

    def place(self, best: SoftOutcome, seconds: float) -> None:
        """Move groups with a placement from another process there if that gains points.

        No group starts later than ``seconds`` after the call.
        """
        time, gained, lost = self._context.slice(cap=seconds), 0, self._losses(self._search.counts)
        while self.waiting and not time.is_over():
            i = max(sorted(self.waiting), key=lambda i: lost[i])
            self.waiting.discard(i)
            gained += self._move(self._groups[i], self._value(self._groups[i])) if lost[i] > 0 else 0
            self._report(best.value + gained, best.bound)
        self._search.refresh()

    def move_again(self, best: SoftOutcome, seconds: float) -> bool:
        """Try again to move groups that are not at their best placement, largest loss first. Return whether there are any.

        Each is tried near its current nodes, then at its best known placement, with more time for others to settle in
        every round. No group starts later than ``seconds`` after the call.
        """
        time, gained, losing = self._context.slice(cap=seconds), 0, self._losing()
        unsettled = losing
        while unsettled:
            for component in unsettled:
                if time.is_over():
                    return True
                value = self._value(component)
                seed = self._settling + component.classes[0]
                gained += (
                    self._move(self._around_tied(component, seed), value, stay=True)
                    or self._move(self._near(component, seed), value, stay=True)
                    or self._move(component, value, stay=True)
                )
                self._report(best.value + gained, best.bound)
            self._settling *= 2
            unsettled = self._losing()
        return bool(losing)

    def _losing(self) -> list[ClassComponent]:
        """Return the movable groups below their best known placement, largest loss first."""
        lost = self._losses(self._search.counts)
        losing = [i for i, c in enumerate(self._groups) if lost[i] > 0 and c.counts is not None and self._movable(c)]
        return [self._groups[i] for i in sorted(losing, key=lambda i: (-lost[i], i))]

    def _losses(self, counts: Ints) -> list[int]:
        """Return each group's loss against its bound in a placement int64[G, N]."""
        return [self._components.loss(i, counts) for i in range(len(self._groups))]

    def _value(self, component: ClassComponent) -> int:
        """Return the current points of a group."""
        rows, o = self._search.counts[component.classes], self._objective
        return o.total(o.families(SparsePlacement(rows, component.classes), component.classes))

    # --- alone ---------------------------------------------------------------------------------------------------------------------

    def improve_alone(self, component: ClassComponent) -> None:
        """Search for a better placement of the group alone, and store it in ``component``."""
        if component.proved or any(g not in self._search.mobile for g in component.classes):
            return
        counts, value = self._anneal_alone(component, int(component.slice))
        if component.value is None or value > component.value:
            component.counts, component.value, component.unverified = counts, value, False
            component.proved = value >= component.bound

    def _near(self, component: ClassComponent, seed: int) -> ClassComponent:
        """Return the group with a placement alone that is near its current nodes."""
        found = replace(component)
        found.counts, found.value = self._anneal_alone(component, seed, self._parameters.near_hot_fraction)
        return found

    def _around_tied(self, component: ClassComponent, seed: int) -> ClassComponent:
        """Return the group with a placement that displaces only pods that lose nothing by moving."""
        found = replace(component)
        immovable = Displacement(self._search, component.classes, self._components.pools(component)).immovable()
        found.counts, found.value = self._anneal_alone(component, seed, immovable=immovable)
        return found

    def _anneal_alone(
        self, component: ClassComponent, seed: int, hot: float = START_TEMPERATURE, *, immovable: tuple[Ints, Ints] | None = None
    ) -> tuple[Ints, int]:
        """Anneal a group alone from its current nodes. Return the placement int64[len(classes), N] and its weighted points.

        Args:
            hot: Start temperature, as a fraction of :meth:`LocalSearch.scale`. Lower values stay nearer to the start.
            immovable: Room int64[N, R] and slots int64[N] that are reserved for other pods.
        """
        search, classes = self._search, component.classes
        sub, rows = search.cluster.restricted(classes), search.counts[classes]
        if immovable is not None:
            sub = replace(sub, free=sub.free - immovable[0], slots=sub.slots - immovable[1])
        objective = Objective(sub, rules.build(sub))
        active = rules.replay(sub, [(int(g), int(n), int(rows[g, n])) for g, n in zip(*np.nonzero(rows), strict=True)])
        alone = LocalSearch(objective, active, search.eligibility[classes], rows, seed=self._context.options.seed + seed)
        anneal(alone, self._clock.of(alone, component.slice, ALONE_SWEEPS), hot=hot)
        return alone.counts, objective.total(objective.families(alone.counts))

    # --- with the others -----------------------------------------------------------------------------------------------------------

    def _movable(self, component: ClassComponent) -> bool:
        return all(self._search.loose(g) and g in self._search.mobile for g in component.classes)

    def _move(self, component: ClassComponent, value: int, *, stay: bool = False) -> int:
        """Move a group to its best placement, and return the points gained.

        Args:
            value: Current points of the group.
            stay: Keep the group there while others settle.
        """
        search, counts = self._search, component.counts
        if counts is None or component.value is None or component.value <= value:
            return 0
        if not all(search.loose(g) for g in component.classes):
            return 0
        if (counts.sum(axis=1) < search.counts[component.classes].sum(axis=1)).any():
            return 0  # alone, the group would leave pods unplaced to avoid repulsion
        crowded = self._objective.cluster.n_nodes <= self._parameters.max_forcing_nodes
        if crowded:
            counts = Displacement(search, component.classes, self._components.pools(component)).least_loss(counts)
        connected = component.classes if component.whole is None else self._groups[component.whole].classes
        gain = search.relocate(component.classes, counts, connected)
        if gain is not None:
            return gain
        return self._make_room(component, counts, stay=stay) if crowded and self._movable(component) else 0

    def _make_room(self, component: ClassComponent, counts: Ints, *, stay: bool) -> int:
        """Force a group to its best placement, displacing others, and let all pods settle. Return the points gained.

        Return 0, with the placement restored, if no points are gained.

        Args:
            counts: Best placement of the group, int64[len(classes), N].
            stay: Keep the group there while the others settle.
        """
        search, o = self._search, self._objective
        before = search.counts.copy()
        base = o.total(o.families(before))
        if search.force(component.classes, counts):
            seconds = min(TURN_SECONDS, self._remaining() * self._parameters.anneal_fraction)
            moving = search.mobile.difference(component.classes) if stay else None
            anneal(
                search,
                self._clock.of(search, seconds, self._settling),
                hot=WARM_TEMPERATURE,
                only=moving,
            )
            gain = o.total(o.families(search.counts)) - base
            if gain > 0:
                return gain
            search.go_to(before)
        return 0

    def _remaining(self) -> float:
        return self._context.deadline.remaining()

    def _report(self, value: int, bound: int) -> None:
        self._context.report(self._context.phase, "soft", value, bound)


def _unknown(component: ClassComponent, lost: int) -> int:
    """Return the part of a group's loss that may be unattainable, because its own optimum is unknown."""
    return lost if component.value is None else min(lost, component.bound - component.value)
