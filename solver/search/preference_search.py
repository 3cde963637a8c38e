"""Search for preferences: improve the soft tier while every placed tier keeps its value, and bound it from above.

CP-SAT gets the smallest models at once. Then annealing, neighbourhoods and groups take turns. Groups of classes solved as
if alone also bound the whole. Models of moderate size get part of the time as a whole, hinted with the incumbent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.solver import rules
from kubestow.solver.bind_order.order import find_order
from kubestow.solver.bounds.component_bounds import Components
from kubestow.solver.bounds.shared_room import RoomPrices
from kubestow.solver.cpsat.run import CpSat, OnValue, add_hint
from kubestow.solver.executors.second_process import Channel
from kubestow.solver.objective.assign_zones import value_of
from kubestow.solver.objective.preferences import Objective
from kubestow.solver.objective.tie_break import Strategy
from kubestow.solver.rules.eligibility import fits
from kubestow.solver.runtime.options import Options
from kubestow.solver.runtime.run_context import RunContext
from kubestow.solver.search.annealing import MAX_SWEEPS, START_TEMPERATURE, WARM_TEMPERATURE, SearchClock, anneal, charged
from kubestow.solver.search.exact import SoftModel
from kubestow.solver.search.groups import ClassGroups
from kubestow.solver.search.local_search import LocalSearch
from kubestow.solver.search.outcome import MAX_SOFT_MODEL_VARIABLES, SoftOutcome, StartPlacement
from kubestow.solver.search.parameters import PARAMETERS
from kubestow.solver.search.preference_moves import PreferenceMoves
from kubestow.solver.search.second_search import SECOND_LIMITS, FirstSearch, GroupFound, Peer, PlacementFound, SecondSearch
from kubestow.solver.search.turns import GROUPS, TURN_SECONDS, TurnScheduler, turn_seconds


class PreferenceSearch:
    """Search for better preferences of the placement ``start``, whose state is consumed.
    ``eligibility``: int64[G, N], from :func:`kubestow.solver.rules.eligibility.possible`; ``peer``: the same search in another
    process. Without a peer, one is started when worthwhile."""

    def __init__(
        self, objective: Objective, eligibility: Ints, start: StartPlacement, context: RunContext, peer: Peer | None = None
    ) -> None:
        self.cluster, self.objective, self.eligibility, self.context = objective.cluster, objective, eligibility, context
        self.options, self.deadline, self.cpsat, self.parameters = context.options, context.deadline, CpSat(context), PARAMETERS
        self.engine: str | None = None  # engine that last called CP-SAT
        self._left_out = self.cluster.per_priority(fits(self.cluster, eligibility) - start.counts.sum(axis=1))  # these stay unplaced
        self._many = int(self.cluster.count.sum()) > self.parameters.many_pods
        self._start = start
        self._clock = SearchClock(context, self.cluster.n_nodes, PARAMETERS.move_seconds)
        self._second = peer is not None
        self._peer: Peer = peer or SecondSearch(search_in_second_process, self.cluster, eligibility, self.cpsat)
        self._exchanged_value = 0  # most points sent or received
        self._received = False  # whether a placement of the other search arrived
        self._waiting: set[int] = set()  # groups with a placement alone from the other search
        self._model = SoftModel(objective, self._left_out, start.encoding, seed=self.options.seed)
        self._adoption_seconds = 0.0  # longest time so far to adopt a result, in seconds

    def improve(self, *, reserve: float = 0.0) -> SoftOutcome:
        """Return the best placement found in time; ``reserve``: fraction of the time to leave unused."""
        best, components = self._begin()
        try:
            self._improve(best, components, reserve)
        finally:
            failed = self._peer.close()
        self._receive(best, components)
        if failed:
            best.notes.append("the second search process ended early; the search went on without it")
        return best

    def go_on(self) -> None:
        """Improve as the second search until nothing is left to do or time is up. Results are sent to ``peer``."""
        best, components = self._begin()
        self._turns(best, components, self._local_search(best, components), 0.0)

    def _begin(self) -> tuple[SoftOutcome, Components]:
        start, began = self._start, self._remaining()
        value, zones = value_of(self.objective, start.counts, start.sequence)
        active = start.state[0] if start.state is not None else ()
        components = Components(self.cluster, self.objective, self.eligibility, self._left_out, active=active)
        components.bound_jointly(self.cpsat)
        self._adoption_seconds = self.parameters.adoption_ratio * (began - self._remaining())
        best = SoftOutcome(start.counts, start.sequence, zones, value, max(value, components.bound), state=start.state)
        self._exchanged_value = value
        self._report_best(best)
        return best, components

    def _improve(self, best: SoftOutcome, components: Components, reserve: float) -> None:
        size = int(np.count_nonzero(self.eligibility))
        engine = self.options.strategy
        if not engine.searches:
            self._settle(best, components, 2 * self.parameters.settle_sweeps)
            return
        whole = engine.takes_whole(size, self.parameters.whole_variables, MAX_SOFT_MODEL_VARIABLES)
        if size <= self.parameters.small_variables and whole and not self._finished(best):
            self._whole(best, components, self._remaining() * self.parameters.small_fraction)
        if not self._finished(best):
            keep = self._remaining() * reserve
            search = self._local_search(best, components)
            if not self._many:
                self._anneal(best, components, search)
            until = (self._remaining() - keep) * (1 - self.parameters.groups_fraction) + keep if whole else keep
            if engine.chooses and not whole and not self._finished(best):
                best.notes.append(
                    f"engine auto chose lns for the preferences: an exact model would have {size} variables"
                    f" (limit {self.parameters.whole_variables})"
                )
            self._turns(best, components, search, until)
            if whole and not self._finished(best):
                share = self.parameters.whole_fraction if engine.chooses else 1
                self._whole(best, components, max(0.0, self._remaining() - keep) * share)
                if engine.chooses and not self._finished(best):
                    search.go_to(best.counts)
                    self._turns(best, components, search, keep)

    # --- the search in another process -------------------------------------------------------------------------------------------

    def _exchange(self, best: SoftOutcome, components: Components) -> None:
        """Send a better placement to the other search, and take over its results."""
        self._peer.begin(best)
        if best.value > self._exchanged_value:
            self._exchanged_value = best.value
            self._peer.send(PlacementFound(best.sequence, best.value))
        if self._receive(best, components):
            self._report_best(best)

    def _receive(self, best: SoftOutcome, components: Components) -> bool:
        """Take over results of the other search. Return whether value or bound changed."""
        before, messages = (best.value, best.bound), self._peer.received()
        for message in messages:
            if isinstance(message, GroupFound):
                if message.note(components.found[message.index]):
                    self._waiting.add(message.index)
            else:
                self._adopt_received(best, message)
        if messages or components.prices is not None:  # earlier messages may still await joint bounding
            components.bound_jointly(self.cpsat)
            best.bound = min(best.bound, max(best.value, components.bound))
        return (best.value, best.bound) != before

    def _adopt_received(self, best: SoftOutcome, received: PlacementFound) -> None:
        """Adopt a placement of the other search if it is better."""
        self._received = True
        self._exchanged_value = max(self._exchanged_value, received.value)
        if received.value <= best.value:
            return
        counts = np.zeros_like(best.counts)
        for g, n, k in received.sequence:
            counts[g, n] += k
        more = self.cluster.per_priority(counts.sum(axis=1) - best.counts.sum(axis=1))
        value, zones = value_of(self.objective, counts, received.sequence)
        if value > best.value and min(more.values(), default=0) >= 0:
            best.adopt(counts, received.sequence)
            best.value, best.zones = value, zones

    def _finished(self, best: SoftOutcome) -> bool:
        return best.value >= best.bound or self.context.over()

    def _report_best(self, best: SoftOutcome) -> None:
        self._report(best.value, best.bound)

    def _adopt(self, best: SoftOutcome, counts: Ints) -> bool:
        """Adopt a better placement if it places as many pods of every priority and has a bind order. Return True if adopted."""
        more = self.cluster.per_priority(counts.sum(axis=1) - best.counts.sum(axis=1))
        if (counts == best.counts).all() or min(more.values(), default=0) < 0:
            return False
        ordering = find_order(self.cluster, counts, seed=self.options.seed)
        if ordering.sequence is None:
            return False
        value, zones = value_of(self.objective, counts, ordering.sequence)
        if value <= best.value:
            return False
        best.adopt(counts, ordering.sequence)
        best.value, best.zones = value, zones
        self._report_best(best)
        return True

    # --- local search ------------------------------------------------------------------------------------------------------------

    def _local_search(self, best: SoftOutcome, components: Components) -> LocalSearch:
        search = best.local_search(self.objective, self.eligibility, seed=self.options.seed)
        search.ejecting = components.prices is not None  # groups compete for full nodes
        return search

    def _anneal(self, best: SoftOutcome, components: Components, search: LocalSearch) -> None:
        seconds = min(self.parameters.anneal_seconds, self._remaining() * self.parameters.anneal_fraction)
        sweeps, hot = MAX_SWEEPS, START_TEMPERATURE
        if components.prices is not None:
            seconds, sweeps = seconds / 2, sweeps // 2
            self._anneal_charged(best, search, components.prices, self._clock.of(search, seconds, sweeps), START_TEMPERATURE)
            hot = WARM_TEMPERATURE
        clock, base = self._clock.of(search, seconds, sweeps), self._value(best, search)
        value = base

        def share() -> float:
            self._peer.begin(best)
            if self._peer.bounds:
                if self._receive(best, components):
                    self._report(max(value, best.value), best.bound)
                if max(value, best.value) >= best.bound:
                    return 1.0
            return clock()

        def better(gain: int) -> None:
            nonlocal value
            value = base + gain
            self._report(max(value, best.value), best.bound)

        anneal(search, share, hot=hot, on_better=better)
        if not self._adopt(best, search.counts) and (search.counts != best.counts).any():
            search.go_to(best.counts)

    def _anneal_charged(
        self, best: SoftOutcome, search: LocalSearch, prices: RoomPrices, progress: Callable[[], float], hot: float
    ) -> None:
        """Anneal with pods charged for contested room, so that pods that gain least leave it."""

        def share() -> float:
            self._peer.begin(best)
            return progress()

        with charged(search, prices.charges(self.parameters.charged_fraction)):
            anneal(search, share, hot=hot)
        if self._value(best, search) < best.value or not self._adopt(best, search.counts):
            search.go_to(best.counts)

    def _value(self, best: SoftOutcome, search: LocalSearch) -> int:
        """Return the points of the search's placement, with the points of zones unchanged."""
        total, families = self.objective.total, self.objective.families
        return best.value + total(families(search.counts)) - total(families(best.counts))

    def _settle(self, best: SoftOutcome, components: Components, sweeps: int) -> None:
        search = self._local_search(best, components)
        seconds = min(TURN_SECONDS, self._remaining() * self.parameters.anneal_fraction)
        if components.prices is not None:
            self._anneal_charged(best, search, components.prices, self._clock.of(search, seconds, sweeps), WARM_TEMPERATURE)
        anneal(search, self._clock.of(search, seconds, sweeps), hot=WARM_TEMPERATURE)
        self._adopt(best, search.counts)

    # --- groups ------------------------------------------------------------------------------------------------------------------

    def _turns(self, best: SoftOutcome, components: Components, search: LocalSearch, until: float) -> None:
        """Take turns until ``until`` seconds remain. Groups close the gap from both sides. They alternate with the move that
        gained most per second in its last turn, or sometimes another move. Turns change the state of ``search``, which is
        adopted if it has a bind order."""
        self.engine = "lns" if self.options.strategy.neighbourhoods else "exact"
        length = turn_seconds(int(self.cluster.count.sum()))
        groups = ClassGroups(components, search, self.objective, self.cpsat, self._clock)
        groups.waiting = self._waiting
        if self._second:
            groups.on_look = lambda i: self._peer.send(GroupFound.of(i, components.found[i]))
        moves = PreferenceMoves(
            best, search, groups, self.cpsat, self._clock, self._peer, self.parameters, self._many, lambda: self._value(best, search)
        )
        runs = moves.by_name(groups_only=self.engine == "exact")
        turns = TurnScheduler(runs)
        began, bounding = self._remaining(), 0.0
        while turns.rates and not self._finished(best) and (remaining := self._remaining() - until - self._adoption_seconds) > 0:
            fraction = self._bounding_fraction(best, groups, turns.rates.get(GROUPS, 0.0))
            due = bool(groups.waiting) if self._peer.bounds else bounding <= fraction * (began - self._remaining()) + length / 2
            name = turns.next(groups_due=due)
            gap, started = best.bound - best.value, self._remaining()
            if not runs[name](min(length, remaining), remaining):
                turns.note(name, 0.0, 0.0)
                if not (name == "moves" and self._peer.bounds):  # new results for groups may give it work
                    turns.retire(name)
                continue
            self._end_turn(best, components, search)
            seconds = started - self._remaining()
            bounding += seconds if name == GROUPS else 0
            turns.note(name, gap - best.bound + best.value, seconds)

    def _bounding_fraction(self, best: SoftOutcome, groups: ClassGroups, rate: float) -> float:
        """Return the fraction of the turns for groups, whose last one gained ``rate`` points per second."""
        unknown = groups.worth_bounding(best)
        if self._second:  # the gap of a merely constructed placement is unknown; groups that gain nothing can wait
            unknown = (unknown or not self._received) and rate > 0
        return self.parameters.bounding_fraction if unknown else self.parameters.later_bounding_fraction

    def _end_turn(self, best: SoftOutcome, components: Components, search: LocalSearch) -> None:
        """Adopt the result of a turn, or return to the incumbent, and exchange results with the other search."""
        taking = self._remaining()
        if not self._adopt(best, search.counts):
            search.go_to(best.counts)
        self._adoption_seconds = max(self._adoption_seconds, taking - self._remaining())
        self._exchange(best, components)
        if (search.counts != best.counts).any():
            search.go_to(best.counts)

    def _remaining(self) -> float:
        return self.deadline.remaining()

    def _report(self, value: int, bound: int) -> None:
        self.context.report(self.context.phase, "soft", value, bound)

    # --- the whole model ---------------------------------------------------------------------------------------------------------

    def _whole(self, best: SoftOutcome, components: Components, seconds: float) -> None:
        def enough() -> bool:
            if self._peer.bounds:
                self._receive(best, components)
            return self._peer.bounds and best.value >= best.bound

        self.engine, self.cpsat.enough = "exact", enough
        try:
            self._solve_whole(best, seconds)
        finally:
            self.cpsat.enough = None

    def _solve_whole(self, best: SoftOutcome, seconds: float) -> None:
        encoding, points = self._model.made()
        while not self.context.over():
            model = encoding.model.clone()
            add_hint(model, self.cpsat.assignment(encoding, best.counts, objective=True) or ())
            answer = self.cpsat.run(model, seconds, lambda value, bound: self._report(max(value, best.value), min(bound, best.bound)))
            if answer.bound is not None and self._model.sound:
                best.bound = min(best.bound, max(best.value, answer.bound))
            if answer.solution is None:
                return
            counts = encoding.counts(answer.solution)
            if points.value(answer.solution) <= best.value or self._adopt(best, counts) or not self._model.cut(counts):
                break
        best.bound = max(best.bound, best.value)

    def break_ties(self, strategy: Strategy, best: SoftOutcome, seconds: float, report: OnValue, *, above: Sequence[Strategy] = ()) -> int:
        """Improve the tie-break ``strategy`` of ``best`` in place, with its tiers and those ``above`` held. Return its bound."""
        encoding, soft = self._model.made()
        model = encoding.model
        if soft.variables:
            model.add(soft.expression() >= best.value)
        values_above = [(tier, tier.value(best.counts)) for tier in above]
        try:
            for tier, value in values_above:
                model.add(self._model.points(tier).expression() >= value)
            points = self._model.points(strategy)
        except OverflowError:
            return 0  # costs are never negative, so 0 is a valid bound
        model.maximize(points.expression())
        bound = points.most + points.constant
        hint = self.cpsat.assignment(encoding, best.counts, objective=True)
        hinted = model.clone()
        add_hint(hinted, hint or ())
        answer = self.cpsat.run(hinted, seconds, report)
        if answer.bound is not None and self._model.sound:
            bound = answer.bound
        if answer.solution is None:
            return bound
        counts = encoding.counts(answer.solution)
        ordering = find_order(self.cluster, counts, seed=self.options.seed)
        kept = all(tier.value(counts) >= value for tier, value in values_above)
        if ordering.sequence is not None and kept and strategy.value(counts) > strategy.value(best.counts):
            value, zones = value_of(self.objective, counts, ordering.sequence)
            if value >= best.value:
                best.adopt(counts, ordering.sequence)
                best.zones, best.value = zones, value
        return bound


def search_in_second_process(channel: Channel, cluster: Cluster, eligibility: Ints, start: StartPlacement, options: Options) -> None:
    """Continue the search from a placement in a second process and send results, until nothing is left to do or time is up."""
    objective, context = Objective(cluster, rules.build(cluster)), RunContext.start(options)
    search = PreferenceSearch(objective, eligibility, start, context, FirstSearch(channel))
    search.parameters = replace(
        PARAMETERS, bounding_fraction=SECOND_LIMITS.bounding_fraction, later_bounding_fraction=SECOND_LIMITS.later_bounding_fraction
    )
    search.go_on()
