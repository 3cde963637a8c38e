"""The tiers after the placed ones: preferences, emptier domains, then the tie-break. Each is held while the next is improved."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from kubestow.models.cluster.cluster import Ints
from kubestow.models.documents import placement as doc
from kubestow.solver.bind_order.order import Sequence_, find_order
from kubestow.solver.bounds.component_bounds import Components
from kubestow.solver.objective import report
from kubestow.solver.objective.assign_zones import assign, value_of
from kubestow.solver.objective.domain_evenness import DOMAINS, DomainEvenness, counting
from kubestow.solver.objective.preferences import Objective
from kubestow.solver.objective.shapes import AssignedZones
from kubestow.solver.objective.tie_break import PodCosts, Strategy
from kubestow.solver.rules.eligibility import fits
from kubestow.solver.runtime.run_context import RunContext
from kubestow.solver.runtime.time_slice import TimeSlice
from kubestow.solver.search import parameters as preference_parameters
from kubestow.solver.search.outcome import LARGE_INSTANCE_PODS, MAX_SOFT_MODEL_VARIABLES, SoftOutcome, StartPlacement
from kubestow.solver.search.preference_search import PreferenceSearch


@dataclass(frozen=True)
class TieBreakParameters:
    """Budgets of the tie-break. If no strategy was requested, only construction follows it, and CP-SAT gets small models
    only.

    Attributes:
        unrequested_fraction: Fraction of the time reserved for domains of soft spread constraints, and of the search's time for CP-SAT
            if no strategy was requested.
        unrequested_seconds: Least seconds for that.
        unrequested_variables: Largest model for that, in variables.
        domains_seconds: Cap for moving single pods to emptier domains.
        reserve_fraction: Time fraction reserved for a requested strategy.
        moves_fraction: Fraction of the remaining time for moving single pods.
    """

    unrequested_fraction: float = 0.05
    unrequested_seconds: float = 0.25
    unrequested_variables: int = 100
    domains_seconds: float = 1.0
    reserve_fraction: float = 0.25
    moves_fraction: float = 0.3


PARAMETERS = TieBreakParameters()


@dataclass
class LaterTiers:
    """Result of the tiers after the placed ones.

    Attributes:
        tiers: Tiers of the result document.
        engine: Engine that called CP-SAT, if any.
    """

    counts: Ints
    sequence: Sequence_
    zones: AssignedZones
    tiers: list[doc.TierResult] = field(default_factory=list)
    preferences: doc.Preferences | None = None
    notes: list[str] = field(default_factory=list)
    zoneless: set[tuple[int, int]] = field(default_factory=set)
    engine: str | None = None


def improve(objective: Objective, eligibility: Ints, start: StartPlacement, strategy: Strategy | None, context: RunContext) -> LaterTiers:
    """Improve a placement without placing fewer pods of any priority; ``eligibility``: int64[G, N]."""
    objective.containers.stop = context.stop
    search = _LaterTiersSearch(objective, eligibility, start, context)
    domains = DomainEvenness(objective, eligibility) if counting(objective) else None
    reserve = PARAMETERS.unrequested_fraction if domains is not None else 0.0
    search.preferences(reserve=PARAMETERS.reserve_fraction if strategy is not None and context.options.search_strategy else reserve)
    polished = [] if domains is None else [search.emptier_domains(domains, strategy)]
    polished += [] if strategy is None else [search.tie_break(strategy)]
    best = search.best
    tiers = [*([] if objective.empty else [best.tier]), *polished]
    later = LaterTiers(best.counts, best.sequence, best.zones, tiers, notes=best.notes, zoneless=best.zones.zoneless, engine=search.engine)
    if not objective.empty:
        later.preferences = report.report(objective, best.counts, best.sequence, best.zones)
    for n in best.zones.elsewhere:
        name = objective.cluster.nodes.names[n]
        later.notes.append(f"node {name}: the kubelet's own order takes other NUMA zones than those listed; they need pinning")
    return later


class _LaterTiersSearch:
    """Search of the later tiers.

    Attributes:
        best: The placement, improved in place.
        engine: Engine that called CP-SAT, if any.
    """

    def __init__(self, objective: Objective, eligibility: Ints, start: StartPlacement, context: RunContext) -> None:
        self.objective, self.eligibility, self.context, self.cluster = objective, eligibility, context, objective.cluster
        self.best = SoftOutcome(start.counts, start.sequence, AssignedZones(), 0, 0, state=start.state)
        self.engine: str | None = None
        self._start = start
        self._search: PreferenceSearch | None = None
        self._above: list[Strategy] = []
        # with 150,000 pods, moving pods could only remove 1 / 50,000 of the unevenness that construction leaves
        self._many = int(self.cluster.count.sum()) > LARGE_INSTANCE_PODS

    def _exact(self) -> PreferenceSearch:
        """Return the CP-SAT search, created once."""
        if self._search is None:
            self._search = PreferenceSearch(self.objective, self.eligibility, self._start, self.context)
        return self._search

    def preferences(self, *, reserve: float) -> None:
        """Improve the soft tier, if there is one; ``reserve``: time fraction to leave unused."""
        if not self.objective.empty and self._many and not self.context.options.strategy.searches:
            self._bound_alone()
        elif not self.objective.empty:
            search = self._exact()
            self.best = search.improve(reserve=reserve)
            self.engine = search.engine
        elif self.cluster.trees:
            self.best.zones = assign(self.cluster, self.objective.containers, self.best.sequence)

    def _bound_alone(self) -> None:
        """Compute value and bound of the soft tier without moving pods, for engine `greedy` in large instances."""
        best, cluster = self.best, self.cluster
        if any(cls.containers is not None for cls in cluster.classes):
            best.zones = assign(cluster, self.objective.containers, best.sequence)
        unplaced = cluster.per_priority(fits(cluster, self.eligibility) - best.counts.sum(axis=1))
        active = best.state[0] if best.state is not None else ()
        best.value = self.objective.total(self.objective.families(best.counts, zones=best.zones))
        best.bound = max(best.value, Components(cluster, self.objective, self.eligibility, unplaced, active=active).bound)
        self.context.report(self.context.phase, "soft", best.value, best.bound)

    def emptier_domains(self, domains: DomainEvenness, strategy: Strategy | None) -> doc.TierResult:
        """Improve the tier `topologySpread` without losing preferences; ``strategy``: decides between equally empty nodes."""
        complete = int(self.best.counts.sum()) == int(fits(self.cluster, self.eligibility).sum())
        tier = self._begin(domains, DOMAINS, complete=complete)
        if tier.value < tier.bound and not self._late() and not (self._many and not self.context.options.strategy.searches):
            costs = None if strategy is None else strategy.pod_costs(self.best.counts)
            self._even_out(costs, PARAMETERS.domains_seconds, domains=True)
            self._update(tier, domains)
        requested = self.context.options.search_strategy
        seconds = PARAMETERS.reserve_fraction * self.context.deadline.remaining() if requested else self._allowance()
        self._prove(tier, domains, seconds, preference_parameters.PARAMETERS.small_variables)
        self._above.append(domains)
        return tier

    def tie_break(self, strategy: Strategy) -> doc.TierResult:
        """Improve the tie-break without losing any higher tier."""
        requested = self.context.options.search_strategy
        tier = self._begin(strategy, "strategy", complete=int(self.best.counts.sum()) == int(self.cluster.count.sum()))
        allowance = self._allowance()
        costs = strategy.pod_costs(self.best.counts) if requested and tier.value < tier.bound else None
        if costs is not None and not self._late():
            self._even_out(costs, preference_parameters.PARAMETERS.anneal_seconds)
            self._update(tier, strategy)
        max_variables = MAX_SOFT_MODEL_VARIABLES if requested else PARAMETERS.unrequested_variables
        self._prove(tier, strategy, self.context.deadline.remaining() if requested else allowance, max_variables)
        return tier

    def _late(self) -> bool:
        """Return whether nothing more may start: a stop was requested, or time is up by the clock."""
        context = self.context
        return context.stop.is_set() or context.deadline.by_clock(context.deadline.remaining(), otherwise=1.0) <= 0

    def _allowance(self) -> float:
        """Return the CP-SAT seconds for a tier that was not requested."""
        spent = self.context.deadline.by_clock(self.context.deadline.elapsed(), otherwise=0.0)
        return max(PARAMETERS.unrequested_seconds, PARAMETERS.unrequested_fraction * spent)

    def _begin(self, measure: Strategy, name: str, *, complete: bool) -> doc.TierResult:
        """Return and report the tier's value and bound for the current placement."""
        value, bound = measure.value(self.best.counts), measure.bound(self.best.counts, complete=complete)
        tier = doc.TierResult(name, value, max(value, bound))
        self._report(tier)
        return tier

    def _update(self, tier: doc.TierResult, measure: Strategy, bound: int | None = None) -> None:
        """Update a tier from the placement, and report it."""
        tier.value = measure.value(self.best.counts)
        tier.bound = max(tier.value, tier.bound if bound is None else min(tier.bound, bound))
        self._report(tier)

    def _report(self, tier: doc.TierResult) -> None:
        self.context.report(self.context.phase, tier.tier, tier.value, tier.bound)

    def _prove(self, tier: doc.TierResult, measure: Strategy, seconds: float, variables: int) -> None:
        """Improve and bound a tier with CP-SAT, if the model has at most ``variables`` variables."""
        context, best = self.context, self.best
        if (
            tier.value >= tier.bound
            or int(np.count_nonzero(self.eligibility)) > variables
            or context.over()
            or not context.options.strategy.searches
        ):
            return
        if context.options.strategy.whole_models:
            self.engine = self.engine or "exact"

        def report(value: int, bound: int) -> None:
            context.report(context.phase, tier.tier, value, min(bound, tier.bound))

        seconds = min(seconds, context.deadline.remaining())
        self._update(tier, measure, self._exact().break_ties(measure, best, seconds, report, above=self._above))

    def _even_out(self, costs: PodCosts | None, most_seconds: float, *, domains: bool = False) -> None:
        """Move single pods to emptier nodes, or with ``domains`` only to emptier domains, without losing preferences."""
        best = self.best
        search = best.local_search(self.objective, self.eligibility, seed=self.context.options.seed)
        remaining = self.context.deadline.remaining()
        patience: int | None = None
        if self.context.options.deterministic:  # by checks, because a deterministic clock stands still here
            patience = 3 * len(search.pairs) // search.block + 2
        seconds = min(max(PARAMETERS.moves_fraction * remaining, 0.01), most_seconds)
        time = TimeSlice(self.context.deadline, self.context.stop, remaining - seconds, patience=patience)
        if not search.even_out(costs, time.is_over, domains=domains):
            return
        ordering = find_order(self.cluster, search.counts, seed=self.context.options.seed)
        if ordering.sequence is None:
            return
        value, zones = 0, AssignedZones()
        if self.cluster.trees or not self.objective.empty:
            value, zones = value_of(self.objective, search.counts, ordering.sequence)
        if value >= best.value:
            best.adopt(search.counts, ordering.sequence)
            best.zones, best.value = zones, value
