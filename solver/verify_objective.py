"""The soft and the strategy tier of a document against the checker's own computation."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from models.annotations import has_hints
from models.placement import Assignment, Placement
from models.policy import DEFAULT, Policy, node_topologies
from models.snapshot import Snapshot
from solver import verify_strategy
from solver.verify_document import DOCUMENT, Violation
from solver.verify_resources import Amounts


class State(Protocol):
    """What nodes have and hold, in the checker's own books."""

    def used(self) -> dict[str, Amounts]: ...
    @property
    def capacity(self) -> dict[str, Amounts]: ...


def objective_faults(
    snapshot: Snapshot,
    placement: Placement,
    entries: Sequence[Assignment],
    absent: Collection[str],
    pending: Collection[str],
    state: State,
) -> list[Violation]:
    """Zones that cannot be, pods that a kubelet rejects, and values of tiers or families that are not what they claim.

    ``entries``: the assignments of known pods to known nodes in bind order; ``absent``: bound pods that the document places anew;
    ``pending``: all pods that it has to place; ``state``: of the nodes in the end.
    """
    policy = placement.policy or DEFAULT
    placed: Mapping[str, str] = {entry.pod: entry.node for entry in entries}
    found: list[Violation] = []
    container_points = 0
    if _zones_matter(snapshot, entries, policy):
        from solver import verify_zones

        zones = verify_zones.judge(snapshot, entries, absent, policy)
        found += [Violation(*fault) for fault in zones.faults]
        container_points = zones.points

    def fault(why: str) -> None:
        found.append(Violation("", "", DOCUMENT, why))

    told = {tier.tier: tier for tier in placement.objective if tier.tier != "placed"}
    if "soft" in told:
        from solver import verify_soft

        families = verify_soft.score(snapshot, placed, absent, policy, pending=pending).families
        families["containerAffinity"] = container_points
        weights = {family: int(getattr(policy.multipliers, family)) for family in families}
        total = sum(points * weights[family] for family, points in families.items())
        if total != told["soft"].value:
            parts = ", ".join(f"{family} {points}" for family, points in families.items() if points and weights[family])
            fault(f"tier soft: the value is {told['soft'].value}, the placement is worth {total} ({parts or 'no preference met'})")
        for claim in placement.preferences.families if placement.preferences is not None else ():
            if claim.family not in families:
                fault(f"preferences: there is no family {claim.family!r}")
            elif claim.multiplier and claim.value != families[claim.family]:
                fault(f"preferences: {claim.family} is said to be {claim.value}, it is {families[claim.family]}")
    if "strategy" in told:
        points = verify_strategy.points(snapshot, placed, absent, policy, used=state.used(), capacity=state.capacity)
        if points is None:
            fault(f"tier strategy: the policy's strategy {policy.strategy!r} has no value here")
        elif points != told["strategy"].value:
            fault(f"tier strategy: the value is {told['strategy'].value}, the placement is worth {points}")
    return found


def _zones_matter(snapshot: Snapshot, entries: Sequence[Assignment], policy: Policy) -> bool:
    """Whether anything speaks of NUMA zones or of hints between containers; what judges them is loaded only then."""
    hinted = policy.multipliers.containerAffinity and (
        policy.colocatePods or policy.colocateNamespaces or any(has_hints(pod) for pod in snapshot.pods)
    )
    return bool(hinted or any(entry.containers for entry in entries) or node_topologies(policy, snapshot))
