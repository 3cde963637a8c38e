"""The check of the tiers `soft`, `topologySpread` and `strategy` of a document."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Protocol

from kubestow.checker.objective import families, numa_zones, preferences, tie_break
from kubestow.checker.objective.colocation import colocation
from kubestow.checker.reading.resources import Amounts
from kubestow.checker.replicas import Whereabouts
from kubestow.checker.violation import DOCUMENT, Violation
from kubestow.models.documents.placement import Assignment, FamilyResult, Placement, TierResult
from kubestow.models.documents.policy import DEFAULT, Policy, node_topologies
from kubestow.models.gangs.gangs import Gang
from kubestow.models.numa.annotations import has_hints
from kubestow.models.snapshot.snapshot import Snapshot

_CONTAINERS = attrgetter("containers")
_TIERS = ("placed", "soft", "topologySpread", "strategy")


def _family_faults(claims: Sequence[FamilyResult], points_of: Mapping[str, int], weights: Mapping[str, int]) -> Iterator[str]:
    """Yield wrong or missing families of a document."""
    for claim in claims:
        if claim.family not in points_of:
            yield f"preferences: there is no family {claim.family!r}"
        elif claim.multiplier != weights[claim.family]:
            yield f"preferences: the multiplier of {claim.family} is said to be {claim.multiplier}, the policy has {weights[claim.family]}"
        elif claim.value != points_of[claim.family]:
            yield f"preferences: {claim.family} is said to be {claim.value}, it is {points_of[claim.family]}"
        elif claim.best < claim.value:
            yield f"preferences: {claim.family} has value {claim.value} and is said to have at best {claim.best}"
    said = [claim.family for claim in claims]
    for family, points in points_of.items():
        if said.count(family) > 1:
            yield f"preferences: {family} is given twice"
        if points and weights[family] and family not in said:
            yield f"preferences: {family} is missing, it is {points}"


def _tiers(placement: Placement) -> tuple[dict[str, TierResult], list[str]]:
    """Return the tiers below ``placed`` by name, and faults of the list of tiers."""
    faults = []
    named: dict[str, TierResult] = {}
    for tier in placement.objective:
        if tier.tier not in _TIERS:
            faults.append(f"there is no tier {tier.tier!r}")
        elif tier.tier != "placed":
            if tier.tier in named:
                faults.append(f"tier {tier.tier} is given twice")
            if tier.priority is not None:
                faults.append(f"tier {tier.tier} has no priority")
            named[tier.tier] = tier
    places = [_TIERS.index(tier.tier) for tier in placement.objective if tier.tier in _TIERS]
    if places != sorted(places):
        faults.append(f"expected tiers in the order {', '.join(_TIERS)}")
    return named, faults


class UsageState(Protocol):
    """The nodes' capacity and use, as the checker computes them."""

    def used(self) -> dict[str, Amounts]: ...
    @property
    def capacity(self) -> dict[str, Amounts]: ...


def objective_faults(
    snapshot: Snapshot,
    placement: Placement,
    entries: Sequence[Assignment],
    where: Whereabouts,
    pending: Collection[str],
    state: UsageState,
    gangs: Sequence[Gang],
) -> list[Violation]:
    """Return NUMA zone faults, pods that a kubelet rejects, and wrong values of tiers and families.

    Args:
        entries: Assignments of known pods to known nodes, in bind order.
        where: All pods with their nodes.
        pending: Keys of the pods to be placed, whose gangs are ``gangs``.
    """
    policy = placement.policy or DEFAULT
    found: list[Violation] = []
    container_points = 0
    if _zones_matter(snapshot, entries, policy):
        zones = numa_zones.judge(snapshot, entries, where.absent, policy)
        found += [Violation(*fault) for fault in zones.faults]
        container_points = zones.points

    def fault(why: str) -> None:
        found.append(Violation("", "", DOCUMENT, why))

    tiers, problems = _tiers(placement)
    for problem in problems:
        fault(problem)
    if {"soft", "topologySpread"} & tiers.keys():
        score = preferences.score_of(snapshot, where, policy, pending, gangs)
    if "soft" in tiers:
        points_of = score.families
        points_of.update(dict.fromkeys(families.named("none"), container_points))
        weights = {kind.name: kind.weight(policy) for kind in families.KINDS}
        total = sum(points * weights[family] for family, points in points_of.items())
        if total != tiers["soft"].value:
            parts = ", ".join(f"{family} {points}" for family, points in points_of.items() if points and weights[family])
            fault(f"tier soft: the value is {tiers['soft'].value}, the placement is worth {total} ({parts or 'no preference met'})")
        if placement.preferences is not None:
            for why in _family_faults(placement.preferences.families, points_of, weights):
                fault(why)
    if "topologySpread" in tiers:
        evenness = score.evenness()
        if evenness is None:
            fault("tier topologySpread: no ScheduleAnyway constraint of a pod to be placed counts here")
        elif evenness != tiers["topologySpread"].value:
            fault(f"tier topologySpread: the value is {tiers['topologySpread'].value}, the placement is worth {evenness}")
    if "strategy" in tiers:
        points = tie_break.points_of(snapshot, where, policy, used=state.used(), capacity=state.capacity)
        if points is None:
            fault(f"tier strategy: the policy's strategy {policy.strategy!r} has no value here")
        elif points != tiers["strategy"].value:
            fault(f"tier strategy: the value is {tiers['strategy'].value}, the placement is worth {points}")
    return found


def _zones_matter(snapshot: Snapshot, entries: Sequence[Assignment], policy: Policy) -> bool:
    """Return True if NUMA zones or container affinity are involved. Their modules are loaded only then."""
    hinted = policy.multipliers.containerAffinity and (any(colocation(policy, snapshot)) or any(has_hints(pod) for pod in snapshot.pods))
    return bool(hinted or any(map(_CONTAINERS, entries)) or node_topologies(policy, snapshot))
