"""The section ``karpenter`` of an Audit, from a snapshot and NodePools."""

from __future__ import annotations

import time
from dataclasses import dataclass

import msgspec

from kubestow.audit.karpenter.candidates import survey
from kubestow.audit.karpenter.consolidation import Consolidation
from kubestow.audit.karpenter.pools import POOL, NodePools
from kubestow.audit.karpenter.prices import Prices, offered, unknown_requirements
from kubestow.audit.settings import Settings
from kubestow.models.catalogue import money
from kubestow.models.catalogue.catalogue import Catalogue
from kubestow.models.documents.catalogue import Price, Shape
from kubestow.models.documents.findings.karpenter import BlockedNode, KarpenterAudit, NodePoolState, Optimum
from kubestow.models.snapshot.scope import select
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.solver.capacity.size.options import SizeOptions
from kubestow.solver.capacity.size.size import size
from kubestow.solver.rebalance.problem.options import PlanOptions
from kubestow.solver.rebalance.rebalance import rebalance


@dataclass(frozen=True)
class KarpenterInput:
    """The input of the simulation. ``catalogue`` holds available nodes with prices, or None."""

    pools: NodePools
    catalogue: Catalogue | None = None


def judge(snapshot: Snapshot, given: KarpenterInput, settings: Settings) -> KarpenterAudit:
    """Return Karpenter's consolidation steps on a snapshot, the reasons that block other nodes, and the optimum for
    comparison.

    Raises:
        InputError: Quantities cannot be summed.
    """
    pools, prices = given.pools, Prices(given.catalogue)
    begin = survey(snapshot, pools, prices)
    course = Consolidation(snapshot, pools, prices, settings.preferences, settings.exempt, lambda: time.monotonic() > settings.deadline)
    course.run()
    states = [
        NodePoolState(
            pool.name,
            len(_of(snapshot, {pool.name: pool})),
            pool.spec.disruption.consolidationPolicy,
            {reason: begin.allowed(pools, pool, reason) for reason in ("Empty", "Underutilized")},
            None if pool.off else pool.spec.disruption.consolidateAfter,
        )
        for pool in pools.named.values()
    ]
    there = {node.metadata.name or "": (node.metadata.labels or {}).get(POOL, "") for node in course.snapshot.nodes}
    blocked = [BlockedNode(name, there[name], why) for name, why in course.why.items() if name in there]
    managed = _of(snapshot, pools.named)
    found = KarpenterAudit(
        states, course.commands, blocked, len(snapshot.nodes) - len(managed), notModelled=_not_modelled(snapshot, given, course)
    )
    if given.catalogue is not None:
        found.costBefore, found.costAfter = (_cost(each, given, prices) for each in (snapshot, course.snapshot))
    if managed:
        found.optimum = _optimum(snapshot, given, prices, managed, settings)
    return found


def _of(snapshot: Snapshot, pools: object) -> list[str]:
    """Return the names of the nodes in the given pools."""
    assert isinstance(pools, dict)
    return [node.metadata.name or "" for node in snapshot.nodes if (node.metadata.labels or {}).get(POOL) in pools]


def _cost(snapshot: Snapshot, given: KarpenterInput, prices: Prices, nodes: frozenset[str] | None = None) -> int | float:
    listed = (node for node in snapshot.nodes if nodes is None or node.metadata.name in nodes)
    return money.number(sum(prices.of(n.metadata.labels or {}) for n in listed if (n.metadata.labels or {}).get(POOL) in given.pools.named))


def _not_modelled(snapshot: Snapshot, given: KarpenterInput, course: Consolidation) -> list[str]:
    found = list(given.pools.not_modelled)
    if given.catalogue is None:
        found.append("prices: without --catalogue all nodes count as equally expensive, and none is replaced by a cheaper one")
    else:
        for pool in given.pools.named.values():
            unknown = unknown_requirements(pool, given.catalogue)
            found += [f"NodePool {pool.name}: requirement on {key}: not in the catalogue" for key in unknown]
    waiting = select(snapshot).pending
    if waiting:
        found.append(f"{len(waiting)} pending pods: they are placed on existing nodes; Karpenter would first launch new nodes for them")
    if any(pod.spec.affinity is not None and _prefers(pod.spec.affinity) for pod in snapshot.pods):
        found.append("preferences: Karpenter first treats preferred affinity as required, which may block more nodes")
    if course.cut:
        found.append("further steps: the time was up (--time-limit)")
    return found


def _prefers(affinity: object) -> bool:
    parts = (getattr(affinity, name) for name in ("nodeAffinity", "podAffinity", "podAntiAffinity"))
    return any(part is not None and part.preferredDuringSchedulingIgnoredDuringExecution for part in parts)


def _optimum(snapshot: Snapshot, given: KarpenterInput, prices: Prices, managed: list[str], settings: Settings) -> Optimum | None:
    """Return the nodes that a plan frees and the cost of the cheapest replacement of the pools' nodes. None if the time is up."""
    if time.monotonic() > settings.deadline:
        return None
    options = settings.options(2)
    with settings.limited() as stop:
        plan = rebalance(snapshot, PlanOptions(("consolidate",), options=options), stop=stop)
    tier = next(each for each in plan.objective if each.tier == "freed")
    own = [name for name in plan.freed if name in set(managed)]
    optimum = Optimum(
        plan.freed,
        plan.before.emptyNodes,
        sum(move.source is not None for move in plan.moves),
        len(plan.freed) + tier.bound - tier.value,
        tier.bound == tier.value,
        len(own),
    )
    if given.catalogue is None:
        return optimum
    optimum.saves = _cost(snapshot, given, prices, frozenset(own))
    if len(given.pools.named) > 1 or time.monotonic() > settings.deadline:
        return optimum
    (pool,) = given.pools.named.values()
    shapes: dict[str, Shape] = {}
    by_zone: dict[str, dict[str, Price]] = {}
    for offer in offered(pool, given.catalogue):
        by = by_zone.setdefault(offer.shape.name, {})
        by[offer.zone] = money.number(offer.price)
        shapes[offer.shape.name] = msgspec.structs.replace(offer.shape, zones=tuple(by), price=dict(by))
    if not shapes:
        return optimum
    catalogue = Catalogue(shapes, given.catalogue.most_spot)
    question = SizeOptions("replace", f"{POOL}={pool.name}", tuple(managed))
    with settings.limited() as stop:
        sizing = size(snapshot, catalogue, question, options, stop=stop)
    if sizing.status in ("optimal", "feasible"):
        optimum.cheapest, optimum.cheapestBound = sizing.cost.value, sizing.cost.bound
    return optimum
