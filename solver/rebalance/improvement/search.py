"""Search of a large cluster for the goal ``improve``: annealing, neighbourhoods and groups of classes take turns over end states.

The state of :mod:`kubestow.solver.search` knows the hard rules and what every pod gains; an end state counts only once an order of accepted
steps leads to it. Groups, solved as if they were alone in the cluster, bound the preferences as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kubestow.models.cluster.cluster import Ints
from kubestow.solver.bounds.component import Component
from kubestow.solver.bounds.component_bounds import Components
from kubestow.solver.cpsat.run import CpSat
from kubestow.solver.rebalance.improvement.moving import MovingLns, MovingSearch
from kubestow.solver.rebalance.problem.end_state import state_of
from kubestow.solver.rebalance.problem.problem import Step
from kubestow.solver.rebalance.result import PlanSearchResult
from kubestow.solver.rebalance.sequencing.sequence import order
from kubestow.solver.rebalance.tiers.freed import Freed
from kubestow.solver.rebalance.tiers.improvement import Improvement
from kubestow.solver.rebalance.tiers.objective import PlanObjective
from kubestow.solver.rebalance.waves.within import within_waves
from kubestow.solver.runtime.run_context import RunContext
from kubestow.solver.search.annealing import COLD, HOT, anneal
from kubestow.solver.search.clock import SearchClock


@dataclass(frozen=True)
class ImprovementParameters:
    """The rhythm of the turns.

    Attributes:
        first: Share of the time for the first annealing, ...
        first_seconds: ... seconds of it at most, ...
        sweeps: ... and sweeps over the pods.
        warm: Share of the usual temperature at which annealing begins: pods run in good places already.
        turn: Seconds of a turn, with few pods; ...
        many_pods: ... twice as long for so many pods more.
        move: Deterministic seconds that one move of annealing counts, on few nodes.
        order: Share of the time that finding orders of steps may take on the way, ...
        reserve: ... and share of it that is kept for the last one.
        tries: End states for which an order is sought at last, ever earlier ones.
        mends: How often moves that wait for each other are left out of an end state.
        easy: So many more looks at a group are for models in which moves cost nothing than for those in which they do.
        other_every: Every so manieth turn is not for groups, as long as there are some.
        patience: Turns in a row that change neither value nor bound, after which the search ends.
    """

    first: float = 0.3
    first_seconds: float = 60.0
    sweeps: int = 400
    warm: float = 0.1
    turn: float = 3.0
    many_pods: int = 20_000
    move: float = 1e-4
    order: float = 0.15
    reserve: float = 0.12
    tries: int = 4
    mends: int = 6
    easy: int = 2
    other_every: int = 3
    patience: int = 40


PARAMETERS = ImprovementParameters()


class ImprovementSearch:
    """One search, from steps that are accepted one after the other. ``values``: one of their tiers is ``improve``."""

    def __init__(self, values: PlanObjective, found: PlanSearchResult, context: RunContext) -> None:
        self.values, self.problem, self.found, self.context = values, values.problem, found, context
        self.parameters, self.cpsat, self.left = PARAMETERS, CpSat(context), context.deadline.left
        self._tier = next(t for t, tier in enumerate(values.tiers) if isinstance(tier, Improvement))
        counts = self.problem.end(found.steps)
        self.search = MovingSearch(values, state_of(self.problem, counts), self._limits(counts), seed=context.options.seed)
        self._easy = values.components.without_moves() if values.components is not None else None
        self._lns = MovingLns(self.search, self.cpsat)
        self._best, self._gained = counts, 0  # the best end state of all, and what it gains over the first
        self._reached = found.values[self._tier]
        self._waiting: list[Ints] = []  # end states since the last one that an order of steps leads to
        self._ordering = 0.0
        self._clock = SearchClock(context, self.problem.cluster.n_nodes, PARAMETERS.move)

    def _limits(self, counts: Ints) -> Ints:
        """int64[G, N]: where pods may come to be; nodes that a goal before has freed stay free."""
        limits = self.values.room.copy()
        if any(isinstance(tier, Freed) for tier in self.values.tiers[: self._tier]):
            limits[:, self.values.freed(counts)] = 0
        return limits

    def run(self) -> PlanSearchResult:
        """Improve the steps until every group is proved to be best, or time is up."""
        self.found.engine = "lns"
        began = self.left()
        keep = began * self.parameters.reserve
        if self.values.components is not None:
            self.values.components.share(self.cpsat)
            self._bound()
        if self.search.pairs:
            self._turns(began, keep)
        self._take_last()
        self._bound()
        return self.found

    # --- turns ------------------------------------------------------------------------------------------------------------------

    def _turns(self, began: float, keep: float) -> None:
        parameters = self.parameters
        length = parameters.turn * (1 + len(self.search.pairs) / parameters.many_pods)
        kinds: dict[str, Callable[[float], bool]] = {
            "groups": self._groups,
            "anneal": self._anneal,
            "neighbourhoods": self._neighbourhoods,
        }
        rates = dict.fromkeys(kinds, float("inf"))
        self._anneal(min(parameters.first_seconds, (began - keep) * parameters.first))
        self._end_turn(began)
        turn = idle = 0
        while rates and not self._over() and idle < parameters.patience and (rest := self.left() - keep) > 0:
            turn += 1
            others = sorted(rates.keys() - {"groups"}, key=lambda name: (-rates[name], name))
            due = turn % parameters.other_every == 0  # for another kind; of these the best and the other one in turns
            name = "groups" if "groups" in rates and not (due and others) else others[turn % 2 % len(others)]
            before, bound, started = self._gained, self.found.bounds[self._tier], self.left()
            if not kinds[name](min(length, rest)):
                del rates[name]
            self._end_turn(began)
            idle = 0 if self._gained > before or self.found.bounds[self._tier] < bound else idle + 1
            if name in rates:
                rates[name] = (self._gained - before) / max(started - self.left(), 1e-3)

    def _over(self) -> bool:
        return self.context.over() or self._reached + self._gained >= self.found.bounds[self._tier]

    def _end_turn(self, began: float) -> None:
        """Keep what a turn gained, or go back to the best; look for an order of steps now and then."""
        gained = self._value() - self._reached
        if gained <= self._gained:
            if gained < self._gained:
                self.search.go_to(self._best)
            return
        self._best, self._gained = self.search.counts.copy(), gained
        self._waiting.append(self._best)
        if len(self._waiting) > self.parameters.tries:  # each is int64[G, N]
            del self._waiting[len(self._waiting) // 2]
        self._report()
        if self._ordering <= self.parameters.order * (began - self.left()):
            self._take(self._best)

    def _value(self) -> int:
        return self.values.of(self.search.counts)[self._tier]

    def _report(self) -> None:
        value = self._reached + self._gained
        self.context.report("lns", self.values.tiers[self._tier].name, value, max(value, self.found.bounds[self._tier]))

    def _anneal(self, seconds: float) -> bool:
        anneal(self.search, self._clock.of(self.search, seconds, self.parameters.sweeps), hot=HOT * self.parameters.warm, cold=COLD)
        return bool(self.search.pairs)

    def _neighbourhoods(self, seconds: float) -> bool:
        floor = self.left() - seconds
        self._lns.improve(lambda: self.left() <= floor)
        return bool(self.search.pairs)

    # --- groups -----------------------------------------------------------------------------------------------------------------

    def _groups(self, seconds: float) -> bool:
        """Bound groups alone, those first that may lose most for the time they ask, and give each what it would like if that is a gain;
        whether any was left to be looked at."""
        components, easy, search = self.values.components, self._easy, self.search
        if components is None or easy is None:
            return False
        started = self.left()
        lost = [components.loss(i, search.counts) for i in range(len(components.found))]
        waiting = {i for i, c in enumerate(components.found) if lost[i] > 0 and not c.proved}
        if not waiting:
            return False
        while waiting and not self.context.over() and started - self.left() < seconds:
            looks = {i: components.found[i].turns + easy.found[i].turns for i in sorted(waiting)}
            i = max(looks, key=lambda i: (not looks[i], lost[i] / components.found[i].slice))
            component, simple = components.found[i], easy.found[i]
            first = not simple.proved and simple.turns < component.turns + self.parameters.easy
            self._solve(easy if first else components, simple if first else component, min(component.slice, self.left()))
            component.bound = min(component.bound, simple.bound)
            component.slice *= 2 if looks[i] else 1
            lost[i] = components.loss(i, search.counts)
            if lost[i] <= 0 or component.proved:
                waiting.discard(i)
        search.refresh()
        components.share(self.cpsat)
        self._bound()
        return True

    def _solve(self, components: Components, component: Component, seconds: float) -> None:
        """Solve a group alone, and put it where it is best off then, if that gains more than its moves cost."""
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
        """Bring the bound of the tier up to date with what groups have proved."""
        bounds = self.found.bounds
        bounds[self._tier] = min(bounds[self._tier], self.values.tiers[self._tier].bound(self.values))

    # --- orders of steps --------------------------------------------------------------------------------------------------------

    def _take(self, counts: Ints) -> bool:
        """Take an end state over, if some order of steps leads there and it is worth more; whether it was. Moves that wait for each other
        are left out."""
        started, ordered = self.left(), order(self.problem, counts, self.context, seconds=max(1.0, self.left() / 2))
        for _ in range(self.parameters.mends):
            if ordered.steps is not None or not ordered.stuck or self.context.over():
                break
            mended = self._without(counts, ordered.stuck)
            if mended is None or self.values.of(mended) <= self.found.values:
                break
            counts = mended
            ordered = order(self.problem, counts, self.context, seconds=max(1.0, self.left() / 2))
        self._ordering += started - self.left()
        if ordered.steps is None:
            return False
        steps = within_waves(self.values, ordered.steps)
        values = self.values.of_steps(steps)
        if values <= self.found.values:
            return False
        if steps is not ordered.steps:
            counts = self.problem.end(steps)
        self.found.steps, self.found.values = steps, values
        self._waiting.clear()
        if counts is not self._best:
            self._best, self._gained = counts, self.values.of(counts)[self._tier] - self._reached
            self.search.go_to(counts)
        return True

    def _without(self, counts: Ints, moves: Sequence[Step]) -> Ints | None:
        """Return the end state without some moves; None where these are bindings or evictions."""
        if any(step.a < 0 or step.b < 0 for step in moves):
            return None
        found = counts.copy()
        for step in moves:
            found[step.g, step.a] += step.k
            found[step.g, step.b] -= step.k
        return found

    def _take_last(self) -> None:
        """Look for an order of steps to the best end state, or to ever earlier ones."""
        waiting = list(self._waiting)
        for t in range(self.parameters.tries if waiting else 0):
            place = len(waiting) - 1 - (len(waiting) * t) // self.parameters.tries
            if self._take(waiting[place]):
                break
            if not t and self.values.of(waiting[-1]) > self.found.values:
                self.found.notes.append("a better end state was set aside because no order of steps was found in time")
