"""The soft objective as a linear expression of a CP-SAT model, with a relaxation as tight as each shape allows.

Pods of one class that repel each other cost a convex function of their number per domain; its tangents are exact and
tight. Pairs of different classes are products. If one side is 0 or 1, the product is linear. Otherwise the side with the
smaller range is written in unary (McCormick's envelope on each unit, doi:10.1007/BF01580665)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kubestow.models.cluster.cluster import Ids, Ints
from kubestow.solver.cpsat.linear_sum import Points
from kubestow.solver.cpsat.model import PlacementModel
from kubestow.solver.objective.domain_sums import DomainGraph, DomainSum, Pair, product
from kubestow.solver.objective.incremental_score import SoftState
from kubestow.solver.objective.preferences import Objective
from kubestow.solver.objective.shapes import PreferenceTerm, SoftTally
from kubestow.solver.objective.star_cuts import SCALE, Leaf, Plane, planes
from kubestow.solver.ortools import cp_model


def _pods(encoding: PlacementModel, classes: Sequence[int], cells: Sequence[tuple[int, int]]) -> DomainSum:
    """Return the sum of pods of some classes on some nodes."""
    per_class: dict[int, int] = {}
    for g, n in cells:
        per_class[g] = per_class.get(g, 0) + encoding.upper(g, n)
    high = sum(min(k, encoding.fits[g]) for g, k in per_class.items())
    return DomainSum(encoding.model, frozenset(classes), [(encoding.x[cell], 1) for cell in cells], high)


class _Sums:
    """Sums by (classes, domain), each created once."""

    def __init__(self, encoding: PlacementModel) -> None:
        self.encoding = encoding
        self._made: dict[tuple[tuple[int, ...], tuple[int, ...]], DomainSum] = {}

    def get(self, classes: Sequence[int], nodes: Ids) -> DomainSum:
        cells = [(g, n) for g in classes for n in nodes.tolist() if (g, n) in self.encoding.x]
        key = (tuple(sorted({g for g, _ in cells})), tuple(sorted({n for _, n in cells})))
        if key not in self._made:
            self._made[key] = _pods(self.encoding, key[0], cells)
        return self._made[key]


def encode(
    encoding: PlacementModel, objective: Objective, state: SoftState | None = None, graphs: dict[str, list[DomainGraph]] | None = None
) -> Points:
    """Add the soft families to the model and return their weighted sum, to be maximised.

    ``state``: counters of the fixed pods, if the model is a part of the instance; the model must then place no pods whose
    containers have hints. ``graphs``: receives attractions and repulsions, per topologyKey and domain."""
    points = Points()
    classes = sorted({g for g, _ in encoding.x})
    for g in classes:
        row = objective.node_points(g) if state is None else state.steady(g)
        for n in encoding.nodes_of(g).tolist():
            points.add(encoding.x[g, n], int(row[n]), 0, encoding.upper(g, n))
    sums = _Sums(encoding)
    graphs = {} if graphs is None else graphs
    concerned = {t for g in classes for t in objective.owned[g]} & {t for g in classes for t in objective.matching[g]}
    for t in sorted(concerned.intersection(objective.pairs)):
        term = objective.terms[t]
        members = encoding.cluster.members(term.key)
        graph = graphs.setdefault(term.key, [DomainGraph() for _ in members])
        for d in encoding.domains(term.matches, term.codes):
            _term(encoding, sums, term, members[d], points, graph[d])
    for key, graph in graphs.items():
        for finer in graphs:
            if finer != key:
                _inherit(encoding, sums, key, graph, finer, graphs[finer])
    for graph in graphs.values():
        _cut(encoding, graph)
    for i in sorted({i for g in classes for i in objective.feeds[g]}) if state is not None else range(len(objective.tallies)):
        tally = objective.tallies[i]
        _skew(encoding, sums, tally, (tally.base if state is None else state.counted(i)), points)
    for family in objective.members if state is None else ():
        family.encode(encoding, points)
    return points


def _skew(encoding: PlacementModel, sums: _Sums, tally: SoftTally, base: Ints, points: Points) -> None:
    """Add the pods above min + maxSkew of one constraint; ``base``: present pods, int64[D]."""
    cost = -tally.cost * tally.multiplier
    where = encoding.domains(tally.matches.tolist(), tally.codes)
    members = _members(tally.codes, tally.size)
    arriving = {d: sums.get(tally.matches.tolist(), members[d]) for d in where}
    still = np.ones(tally.size, dtype=bool)
    still[where] = False
    lowest = int(base[tally.usable].min())
    highest = min([lowest + max((a.high for a in arriving.values()), default=0), *base[still & tally.usable].tolist()])
    floor = encoding.model.new_int_var(lowest, max(lowest, highest), "")
    for d, here in arriving.items():
        count = int(base[d]) + here.variable
        if tally.usable[d]:
            encoding.model.add(floor <= count)
        over = max(0, int(base[d]) + here.high - lowest - tally.spread.max_skew)
        if over and tally.counted[d]:
            excess = encoding.model.new_int_var(0, over, "")
            encoding.model.add(excess >= count - floor - tally.spread.max_skew)
            points.add(excess, cost, 0, over)
    for level, domains in zip(*np.unique(base[still & tally.counted], return_counts=True), strict=True):
        over = max(0, int(level) - lowest - tally.spread.max_skew)
        if over:
            excess = encoding.model.new_int_var(0, over, "")
            encoding.model.add(excess >= int(level) - floor - tally.spread.max_skew)
            points.add(excess, cost * int(domains), 0, over)


def _members(codes: Ids, size: int) -> list[Ids]:
    return [np.flatnonzero(codes == d).astype(np.int32) for d in range(size)]


def _inherit(encoding: PlacementModel, sums: _Sums, key: str, coarse: list[DomainGraph], finer: str, fine: list[DomainGraph]) -> None:
    """Bound the pulls of a finer domain in the coarser one around it, where the same pods meet."""
    codes = encoding.cluster.domains(key)[0]
    members, inner = encoding.cluster.members(key), encoding.cluster.members(finer)
    around = [set(codes[nodes].tolist()) for nodes in inner]
    if len(inner) <= len(members) or any(len(where) != 1 or -1 in where for where in around):
        return
    heaviest: dict[tuple[int, Pair], int] = {}
    for where, graph in zip(around, fine, strict=True):
        (d,) = where
        for pair, paid in graph.pulls.items():
            target = coarse[d]
            for own in pair:
                if own not in target.sums:
                    target.sums[own] = sums.get(sorted(own), members[d])
            if all(target.sums[own].classes == own for own in pair):
                target.pulls.setdefault(pair, []).extend(paid)
                heaviest[d, pair] = max(heaviest.get((d, pair), 0), graph.weights[pair])
    for (d, pair), weight in heaviest.items():
        coarse[d].weights[pair] = coarse[d].weights.get(pair, 0) + weight


def _cut(encoding: PlacementModel, domains: list[DomainGraph]) -> None:
    """Add the cuts of :mod:`kubestow.solver.objective.star_cuts`. Each pull and each repulsion belongs to one star."""
    pulls: dict[Pair, int] = {}
    repels: dict[frozenset[int], int] = {}
    high: dict[frozenset[int], int] = {}
    for graph in domains:
        for pair, weight in graph.weights.items():
            pulls[pair] = max(pulls.get(pair, 0), weight)
        repels.update({own: weight for own, (weight, _) in graph.repels.items()})
        for own, total in graph.sums.items():
            high[own] = max(high.get(own, 0), total.high)
    free = set(repels)
    while pulls:
        degree: dict[frozenset[int], int] = {}
        for pair in pulls:
            for own in pair:
                degree[own] = degree.get(own, 0) + 1
        centre = max(degree, key=lambda own: (degree[own], own in free, sorted(own)))
        mine = [pair for pair in pulls if centre in pair]
        others = [next(iter(pair - {centre})) for pair in mine]
        weights = [pulls.pop(pair) for pair in mine]
        own_repulsion = repels[centre] if centre in free else 0
        last = [other for other in others if other in free and not any(other in pair for pair in pulls)]
        free -= {centre, *last}
        if not own_repulsion and not last:
            continue
        leaves = [
            Leaf(w, repels[o] if o in last else 0, high[o], sum(encoding.fits[g] for g in o)) for o, w in zip(others, weights, strict=True)
        ]
        used = [graph for graph in domains if graph.sums]
        pods = sum(encoding.fits[g] for g in centre)
        for plane in planes(own_repulsion, high[centre], pods, leaves, len(used)):
            for graph in used:
                _bound(encoding, graph, plane, centre, own_repulsion, mine, others, leaves)


def _bound(
    encoding: PlacementModel,
    graph: DomainGraph,
    plane: Plane,
    centre: frozenset[int],
    repulsion: int,
    pairs: Sequence[Pair],
    others: Sequence[frozenset[int]],
    leaves: Sequence[Leaf],
) -> None:
    variables: list[cp_model.IntVar] = []
    weights: list[int] = []

    def add(variable: cp_model.IntVar, weight: int) -> None:
        variables.append(variable)
        weights.append(weight)

    def repel(own: frozenset[int], weight: int) -> None:
        """Add -weight · (k² - k)."""
        if own in graph.repels:
            add(graph.repels[own][1], -SCALE * weight)
            add(graph.sums[own].variable, SCALE * weight)

    for pair in pairs:
        for weight, paid in graph.pulls.get(pair, ()):
            add(paid, SCALE * weight)
    if centre in graph.sums:
        add(graph.sums[centre].variable, -plane.alpha)
        if repulsion:
            repel(centre, repulsion)
    for other, leaf, beta in zip(others, leaves, plane.beta, strict=True):
        if other in graph.sums:
            add(graph.sums[other].variable, -beta)
            if leaf.repulsion:
                repel(other, leaf.repulsion)
    if variables:
        encoding.model.add(encoding.weighted_sum(variables, weights) <= plane.gamma)


def _term(encoding: PlacementModel, sums: _Sums, term: PreferenceTerm, nodes: Ids, points: Points, graph: DomainGraph) -> None:
    """Add one term in one domain: owners of each weight times matched pods."""
    matched = sums.get(sorted(term.matches), nodes)
    if not matched.variables:
        return
    for weight in sorted(set(term.own.values())):
        owners = sorted(g for g, own in term.own.items() if own == weight)
        owned = sums.get(owners, nodes)
        if owned.variables:
            product(encoding.model, owned, matched, weight * term.multiplier, points, graph)
            for g in owned.classes & matched.classes:
                for n in nodes.tolist():
                    if (g, n) in encoding.x:
                        points.add(encoding.x[g, n], -weight * term.multiplier, 0, encoding.upper(g, n))
