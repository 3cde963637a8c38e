"""Container affinity as a linear expression of a CP-SAT model, node by node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kubestow.solver.cpsat.linear_sum import Points
from kubestow.solver.cpsat.model import PlacementModel
from kubestow.solver.numa.zone_patterns import NodeZones, levels
from kubestow.solver.objective.encoding import DomainSum, product
from kubestow.solver.objective.families.container_affinity import ContainerAffinity
from kubestow.solver.ortools import cp_model


def encode(encoding: PlacementModel, containers: ContainerAffinity, points: Points) -> None:
    """Add container affinity on every node."""
    for n in range(encoding.cluster.n_nodes):
        pods = {g: encoding.x[g, n] for g in containers.involved if (g, n) in encoding.x}
        if pods:
            upper = {g: encoding.upper(g, n) for g in pods}
            node_points(encoding.model, containers, encoding.zones.get(n), n, pods, upper, containers.multiplier, points)


def node_points(
    model: cp_model.CpModel,
    container_points: ContainerAffinity,
    zones: NodeZones | None,
    n: int,
    pods: Mapping[int, cp_model.IntVar],
    upper: Mapping[int, int],
    multiplier: int,
    points: Points,
) -> None:
    """Add container affinity on one node. Within a pod, each zone pattern has its points. Across pods, the containers in
    each set of zones that own a predicate are multiplied with those that satisfy it."""
    levels_of = container_points.levels
    zones = zones if n in container_points.zoned else None
    here = [g for g in pods if g in container_points.involved]

    def meeting(containers: Sequence[tuple[int, int]], spot: int | None) -> DomainSum:
        """Return the number of the (class, container) inside a set of zones (None: anywhere on the node)."""
        parts: dict[int, tuple[cp_model.IntVar, int]] = {}
        high = 0
        for g, i in containers:
            layout = zones.layouts.get(g) if zones is not None else None
            inside: list[cp_model.IntVar] = []
            if spot is None:
                inside = [pods[g]]
            elif layout is not None:
                inside = [p.pods for p in layout.patterns if (pool := layout.pool(p, i)) is not None and pool & spot == pool]
            high += upper[g] if inside else 0
            for each in inside:
                parts[each.index] = (each, parts.get(each.index, (each, 0))[1] + 1)
        return DomainSum(model, frozenset(g for g, _ in containers), list(parts.values()), high)

    for g in here:
        points.add(pods[g], multiplier * int(container_points.static(g)[n]), 0, upper[g])
        layout = zones.layouts.get(g) if zones is not None else None
        for pattern in layout.patterns if layout is not None and zones is not None else ():
            assert layout is not None
            assert zones is not None
            pools = [layout.pool(pattern, i) for i in range(len(layout.containers.requests))]
            points.add(pattern.pods, multiplier * container_points.inside(g, zones.tree, pools), 0, layout.upper)
        if layout is None and n in container_points.zoned:  # no zones to choose: anywhere on the node
            points.add(pods[g], multiplier * levels_of.sameNode * sum(w for _, _, w in container_points.class_of(g).inner), 0, upper[g])
    base = levels_of.sameNode if n in container_points.zoned else levels_of.sameZone
    spots: list[tuple[int | None, int]] = [(None, base)] if base else []
    spots += levels(zones.tree, levels_of) if zones is not None else []
    for predicate in container_points.predicates(here):
        owners, satisfying = container_points.owners(predicate, here), container_points.satisfying(predicate, here)
        for spot, gain in spots:
            matched = meeting(satisfying, spot)
            for weight in sorted({w for _, _, w in owners}) if matched.variables else ():
                own = [(g, i) for g, i, w in owners if w == weight]
                owned = meeting(own, spot)
                if owned.variables:
                    product(model, owned, matched, weight * gain * multiplier, points)
                    alone = meeting([e for e in own if e in set(satisfying)], spot)
                    for each in alone.variables:
                        points.add(each, -weight * gain * multiplier * alone.parts[each.index], 0, int(each.proto.domain[1]))
