"""The tiers `soft`, `topologySpread` and `strategy` of a document against the checker's own computation."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Protocol

from kubestow.checker.objective import tie_break
from kubestow.checker.objective.colocation import colocation
from kubestow.checker.replicas import Whereabouts
from kubestow.checker.rules.resources import Amounts
from kubestow.checker.violation import DOCUMENT, Violation
from kubestow.models.documents.placement import Assignment, FamilyResult, Placement, TierResult
from kubestow.models.documents.policy import DEFAULT, Policy, node_topologies
from kubestow.models.gangs.gangs import Gang
from kubestow.models.numa.annotations import has_hints
from kubestow.models.snapshot.snapshot import Snapshot

_CONTAINERS = attrgetter("containers")
_TIERS = ("placed", "soft", "topologySpread", "strategy")


def _family_faults(claims: Sequence[FamilyResult], families: Mapping[str, int], weights: Mapping[str, int]) -> Iterator[str]:
    """Return what a document says wrongly of the families, or leaves out."""
    for claim in claims:
        if claim.family not in families:
            yield f"preferences: there is no family {claim.family!r}"
        elif claim.multiplier != weights[claim.family]:
            yield f"preferences: the multiplier of {claim.family} is said to be {claim.multiplier}, the policy has {weights[claim.family]}"
        elif claim.value != families[claim.family]:
            yield f"preferences: {claim.family} is said to be {claim.value}, it is {families[claim.family]}"
        elif claim.best < claim.value:
            yield f"preferences: {claim.family} has value {claim.value} and is said to have at best {claim.best}"
    said = [claim.family for claim in claims]
    for family, points in families.items():
        if said.count(family) > 1:
            yield f"preferences: {family} is given twice"
        if points and weights[family] and family not in said:
            yield f"preferences: {family} is missing, it is {points}"


def _tiers(placement: Placement) -> tuple[dict[str, TierResult], list[str]]:
    """The tiers below ``placed`` by name, and what is wrong with which tiers there are."""
    faults = []
    told: dict[str, TierResult] = {}
    for tier in placement.objective:
        if tier.tier not in _TIERS:
            faults.append(f"there is no tier {tier.tier!r}")
        elif tier.tier != "placed":
            if tier.tier in told:
                faults.append(f"tier {tier.tier} is given twice")
            if tier.priority is not None:
                faults.append(f"tier {tier.tier} has no priority")
            told[tier.tier] = tier
    places = [_TIERS.index(tier.tier) for tier in placement.objective if tier.tier in _TIERS]
    if places != sorted(places):
        faults.append(f"tiers stand in the order {', '.join(_TIERS)}")
    return told, faults


class State(Protocol):
    """What nodes have and hold, in the checker's own books."""

    def used(self) -> dict[str, Amounts]: ...
    @property
    def capacity(self) -> dict[str, Amounts]: ...


def objective_faults(
    snapshot: Snapshot,
    placement: Placement,
    entries: Sequence[Assignment],
    where: Whereabouts,
    pending: Collection[str],
    state: State,
    gangs: Sequence[Gang],
) -> list[Violation]:
    """Return NUMA zones that cannot be, pods that a kubelet rejects, and values of tiers or families that are not what they claim.

    ``entries``: the assignments of known pods to known nodes in bind order; ``where``: all pods with their nodes; ``pending``: those
    that it has to place; ``state``: of the nodes in the end; ``gangs``: of pods to be placed.
    """
    policy = placement.policy or DEFAULT
    found: list[Violation] = []
    container_points = 0
    if _zones_matter(snapshot, entries, policy):
        from kubestow.checker.objective import numa_zones

        zones = numa_zones.judge(snapshot, entries, where.absent, policy)
        found += [Violation(*fault) for fault in zones.faults]
        container_points = zones.points

    def fault(why: str) -> None:
        found.append(Violation("", "", DOCUMENT, why))

    told, problems = _tiers(placement)
    for problem in problems:
        fault(problem)
    if {"soft", "topologySpread"} & told.keys():
        from kubestow.checker.objective import preferences

        score = preferences.score_of(snapshot, where, policy, pending, gangs)
    if "soft" in told:
        families = score.families
        families["containerAffinity"] = container_points
        weights = {family: int(getattr(policy.multipliers, family)) for family in families}
        total = sum(points * weights[family] for family, points in families.items())
        if total != told["soft"].value:
            parts = ", ".join(f"{family} {points}" for family, points in families.items() if points and weights[family])
            fault(f"tier soft: the value is {told['soft'].value}, the placement is worth {total} ({parts or 'no preference met'})")
        if placement.preferences is not None:
            for why in _family_faults(placement.preferences.families, families, weights):
                fault(why)
    if "topologySpread" in told:
        evenness = score.evenness()
        if evenness is None:
            fault("tier topologySpread: no ScheduleAnyway constraint of a pod to be placed counts here")
        elif evenness != told["topologySpread"].value:
            fault(f"tier topologySpread: the value is {told['topologySpread'].value}, the placement is worth {evenness}")
    if "strategy" in told:
        points = tie_break.points_of(snapshot, where, policy, used=state.used(), capacity=state.capacity)
        if points is None:
            fault(f"tier strategy: the policy's strategy {policy.strategy!r} has no value here")
        elif points != told["strategy"].value:
            fault(f"tier strategy: the value is {told['strategy'].value}, the placement is worth {points}")
    return found


def _zones_matter(snapshot: Snapshot, entries: Sequence[Assignment], policy: Policy) -> bool:
    """Return whether anything speaks of NUMA zones or of hints between containers; what judges them is loaded only then."""
    hinted = policy.multipliers.containerAffinity and (any(colocation(policy, snapshot)) or any(has_hints(pod) for pod in snapshot.pods))
    return bool(hinted or any(map(_CONTAINERS, entries)) or node_topologies(policy, snapshot))
