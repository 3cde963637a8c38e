"""Search of a large cluster for the goal ``improve``.

Annealing, neighbourhoods and groups of classes take turns over end states. The state of
:mod:`kubestow.solver.search` tracks the hard rules and the gain of every pod. An end state counts only once an
order of accepted steps leads to it. Groups, solved as if they were alone in the cluster, also bound the
preferences.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kubestow.models.cluster.cluster import Ints
from kubestow.solver.bounds.component import ClassComponent
from kubestow.solver.bounds.component_bounds import Components
from kubestow.solver.cpsat.run import CpSat
from kubestow.solver.rebalance.improvement.moving import MovingLns, MovingSearch
from kubestow.solver.rebalance.problem.end_state import state_of
from kubestow.solver.rebalance.problem.problem import Step
from kubestow.solver.rebalance.result import PlanSearchResult
from kubestow.solver.rebalance.sequencing.sequence import order
from kubestow.solver.rebalance.tiers.freed import FreedTier
from kubestow.solver.rebalance.tiers.improvement import ImprovementTier
from kubestow.solver.rebalance.tiers.objective import PlanObjective
from kubestow.solver.rebalance.waves.wave_limit import within_waves
from kubestow.solver.runtime.run_context import RunContext
from kubestow.solver.search.annealing import MAX_SWEEPS, WARM_TEMPERATURE, SearchClock, anneal
from kubestow.solver.search.turns import GROUPS, TurnScheduler, turn_seconds


@dataclass(frozen=True)
class ImprovementParameters:
    """Time budgets and limits of the turns.

    Attributes:
        first_fraction: Fraction of the time for the first annealing.
        max_first_seconds: Cap on the first annealing, in seconds.
        move_seconds: Deterministic seconds charged for one move of annealing on few nodes.
        order_fraction: Fraction of the time for finding orders of steps between the turns.
        reserve_fraction: Fraction of the time reserved for finding the last order.
        max_end_states: End states for which a last order is sought, from the best back to earlier ones.
        max_repairs: Times that moves which wait for each other are removed from an end state.
        easy_turns: Additional turns of a group for the model in which moves cost nothing.
        other_every: In every Nth turn, use another method than groups while groups remain.
        max_idle_turns: Consecutive turns without change of value or bound before the search ends.
    """

    first_fraction: float = 0.3
    max_first_seconds: float = 60.0
    move_seconds: float = 1e-4
    order_fraction: float = 0.15
    reserve_fraction: float = 0.12
    max_end_states: int = 4
    max_repairs: int = 6
    easy_turns: int = 2
    other_every: int = 3
    max_idle_turns: int = 40


PARAMETERS = ImprovementParameters()


class ImprovementSearch:
    """One search that starts from an accepted sequence of steps. One tier of ``values`` is ``improve``."""

    def __init__(self, values: PlanObjective, result: PlanSearchResult, context: RunContext) -> None:
        self.values, self.problem, self.result, self.context = values, values.problem, result, context
        self.parameters, self.cpsat, self.remaining_seconds = PARAMETERS, CpSat(context), context.deadline.remaining
        self._tier = next(t for t, tier in enumerate(values.tiers) if isinstance(tier, ImprovementTier))
        counts = self.problem.end(result.steps)
        self.search = MovingSearch(values, state_of(self.problem, counts), self._limits(counts), seed=context.options.seed)
        self._easy = values.components.without_moves() if values.components is not None else None
        self._lns = MovingLns(self.search, self.cpsat)
        self._best, self._gained = counts, 0  # best end state, and its gain over the first one
        self._reached = result.values[self._tier]
        self._waiting: list[Ints] = []  # better end states since the last one for which an order was found
        self._ordering = 0.0
        self._clock = SearchClock(context, self.problem.cluster.n_nodes, PARAMETERS.move_seconds)

    def _limits(self, counts: Ints) -> Ints:
        """Return the most pods that each node may hold, int64[G, N]. Nodes freed for an earlier goal stay free."""
        eligibility = self.values.room.copy()
        if any(isinstance(tier, FreedTier) for tier in self.values.tiers[: self._tier]):
            eligibility[:, self.values.freed(counts)] = 0
        return eligibility

    def run(self) -> PlanSearchResult:
        """Improve the steps until every group is proved optimal or time is up."""
        self.result.engine = "lns"
        began = self.remaining_seconds()
        keep = began * self.parameters.reserve_fraction
        if self.values.components is not None:
            self.values.components.bound_jointly(self.cpsat)
            self._bound()
        if self.search.pairs:
            self._turns(began, keep)
        self._take_last()
        self._bound()
        return self.result

    # --- turns ------------------------------------------------------------------------------------------------------------------

    def _turns(self, began: float, keep: float) -> None:
        parameters = self.parameters
        length = turn_seconds(len(self.search.pairs))
        moves: dict[str, Callable[[float], bool]] = {
            GROUPS: self._groups,
            "neighbourhoods": self._neighbourhoods,
            "anneal": self._anneal,
        }
        turns = TurnScheduler(moves)
        self._anneal(min(parameters.max_first_seconds, (began - keep) * parameters.first_fraction))
        self._end_turn(began)
        turn = idle = 0
        while turns.rates and not self._over() and idle < parameters.max_idle_turns and (remaining := self.remaining_seconds() - keep) > 0:
            turn += 1
            name = turns.next(groups_due=turn % parameters.other_every != 0)
            before, bound, started = self._gained, self.result.bounds[self._tier], self.remaining_seconds()
            left = moves[name](min(length, remaining))
            self._end_turn(began)
            idle = 0 if self._gained > before or self.result.bounds[self._tier] < bound else idle + 1
            turns.note(name, self._gained - before, started - self.remaining_seconds())
            if not left:
                turns.retire(name)

    def _over(self) -> bool:
        return self.context.over() or self._reached + self._gained >= self.result.bounds[self._tier]

    def _end_turn(self, began: float) -> None:
        """Keep the gain of a turn, or return to the best end state; now and then look for an order of steps."""
        gained = self._value() - self._reached
        if gained <= self._gained:
            if gained < self._gained:
                self.search.go_to(self._best)
            return
        self._best, self._gained = self.search.counts.copy(), gained
        self._waiting.append(self._best)
        if len(self._waiting) > self.parameters.max_end_states:  # each is int64[G, N]
            del self._waiting[len(self._waiting) // 2]
        self._report()
        if self._ordering <= self.parameters.order_fraction * (began - self.remaining_seconds()):
            self._take(self._best)

    def _value(self) -> int:
        return self.values.of(self.search.counts)[self._tier]

    def _report(self) -> None:
        value = self._reached + self._gained
        self.context.report("lns", self.values.tiers[self._tier].name, value, max(value, self.result.bounds[self._tier]))

    def _anneal(self, seconds: float) -> bool:
        anneal(
            self.search,
            self._clock.of(self.search, seconds, MAX_SWEEPS),
            hot=WARM_TEMPERATURE,  # pods already run in good places
        )
        return bool(self.search.pairs)

    def _neighbourhoods(self, seconds: float) -> bool:
        self._lns.improve(self.context.slice(cap=seconds).is_over)
        return bool(self.search.pairs)

    # --- groups -----------------------------------------------------------------------------------------------------------------

    def _groups(self, seconds: float) -> bool:
        """Solve groups alone to bound them, and adopt their placements if that is a gain.

        Groups with the largest possible loss per second come first.

        Returns:
            True if any group was left to examine.
        """
        components, easy, search = self.values.components, self._easy, self.search
        if components is None or easy is None:
            return False
        time = self.context.slice(cap=seconds)
        lost = [components.loss(i, search.counts) for i in range(len(components.found))]
        waiting = {i for i, c in enumerate(components.found) if lost[i] > 0 and not c.proved}
        if not waiting:
            return False
        while waiting and not time.is_over():
            looks = {i: components.found[i].turns + easy.found[i].turns for i in sorted(waiting)}
            i = max(looks, key=lambda i: (not looks[i], lost[i] / components.found[i].slice))
            component, simple = components.found[i], easy.found[i]
            first = not simple.proved and simple.turns < component.turns + self.parameters.easy_turns
            self._solve(easy if first else components, simple if first else component, min(component.slice, self.remaining_seconds()))
            component.bound = min(component.bound, simple.bound)
            component.slice *= 2 if looks[i] else 1
            lost[i] = components.loss(i, search.counts)
            if lost[i] <= 0 or component.proved:
                waiting.discard(i)
        search.refresh()
        components.bound_jointly(self.cpsat)
        self._bound()
        return True

    def _solve(self, components: Components, component: ClassComponent, seconds: float) -> None:
        """Solve a group alone, and adopt its placement if that gains more than its moves cost."""
        rows = self.search.counts[component.classes]
        value = components.worth(component.classes, rows)
        components.solve(component, self.cpsat, seconds, rows, value)
        if component.counts is None or component.value is None or component.value <= value:
            return
        if not all(self.search.loose(g) for g in component.classes):
            return
        if (component.counts.sum(axis=1) == self.search.counts[component.classes].sum(axis=1)).all():
            self.search.relocate(component.classes, component.counts)

    def _bound(self) -> None:
        """Lower the bound of the tier to the one that the groups have proved."""
        bounds = self.result.bounds
        bounds[self._tier] = min(bounds[self._tier], self.values.tiers[self._tier].bound(self.values))

    # --- orders of steps --------------------------------------------------------------------------------------------------------

    def _take(self, counts: Ints) -> bool:
        """Adopt an end state if an order of steps leads to it and its values are better; return True if adopted.

        Moves that wait for each other are removed from it.
        """
        started, ordered = (
            self.remaining_seconds(),
            order(self.problem, counts, self.context, seconds=max(1.0, self.remaining_seconds() / 2)),
        )
        for _ in range(self.parameters.max_repairs):
            if ordered.steps is not None or not ordered.stuck or self.context.over():
                break
            mended = self._without(counts, ordered.stuck)
            if mended is None or self.values.of(mended) <= self.result.values:
                break
            counts = mended
            ordered = order(self.problem, counts, self.context, seconds=max(1.0, self.remaining_seconds() / 2))
        self._ordering += started - self.remaining_seconds()
        if ordered.steps is None:
            return False
        steps = within_waves(self.values, ordered.steps)
        values = self.values.of_steps(steps)
        if values <= self.result.values:
            return False
        if steps is not ordered.steps:
            counts = self.problem.end(steps)
        self.result.steps, self.result.values = steps, values
        self._waiting.clear()
        if counts is not self._best:
            self._best, self._gained = counts, self.values.of(counts)[self._tier] - self._reached
            self.search.go_to(counts)
        return True

    def _without(self, counts: Ints, moves: Sequence[Step]) -> Ints | None:
        """Return the end state without some moves; None if these include a binding or an eviction."""
        if any(step.a < 0 or step.b < 0 for step in moves):
            return None
        undone = counts.copy()
        for step in moves:
            undone[step.g, step.a] += step.k
            undone[step.g, step.b] -= step.k
        return undone

    def _take_last(self) -> None:
        """Look for an order of steps to the best end state, then to earlier ones."""
        waiting = list(self._waiting)
        for t in range(self.parameters.max_end_states if waiting else 0):
            place = len(waiting) - 1 - (len(waiting) * t) // self.parameters.max_end_states
            if self._take(waiting[place]):
                break
            if not t and self.values.of(waiting[-1]) > self.result.values:
                self.result.notes.append("a better end state was set aside because no order of steps was found in time")
