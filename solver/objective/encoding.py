"""The soft objective as a linear expression of a CP-SAT model, with a relaxation as tight as each shape allows.

Pods of one class that repel each other cost a convex function of their number per domain; its tangents are exact and
tight. Pairs of different classes are products. If one side is 0 or 1, the product is linear. Otherwise the side with the
smaller range is written in unary (McCormick's envelope on each unit, doi:10.1007/BF01580665)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kubestow.models.cluster.cluster import Ids, Ints
from kubestow.solver.cpsat.linear_sum import Points
from kubestow.solver.cpsat.model import PlacementModel
from kubestow.solver.objective.domain_sums import DomainGraph, DomainSum, Pair, product
from kubestow.solver.objective.incremental_score import SoftState
from kubestow.solver.objective.preferences import Objective
from kubestow.solver.objective.shapes import PreferenceTerm, SoftTally
from kubestow.solver.objective.star_cuts import SCALE, Leaf, Plane, planes


def _pods(encoding: PlacementModel, classes: Sequence[int], cells: Sequence[tuple[int, int]]) -> DomainSum:
    """Return the sum of pods of some classes on some nodes."""
    per_class: dict[int, int] = {}
    for g, n in cells:
        per_class[g] = per_class.get(g, 0) + encoding.upper(g, n)
    high = sum(min(k, encoding.fits[g]) for g, k in per_class.items())
    return DomainSum(encoding.model, frozenset(classes), [(encoding.x[cell], 1) for cell in cells], high)


def encode(
    encoding: PlacementModel, objective: Objective, state: SoftState | None = None, graphs: dict[str, list[DomainGraph]] | None = None
) -> Points:
    """Add the soft families to the model and return their weighted sum, to be maximised.

    ``state``: counters of the fixed pods, if the model is a part of the instance; the model must then place no pods whose
    containers have hints. ``graphs``: receives attractions and repulsions, per topologyKey and domain."""
    encoder = _Encoder(encoding, {} if graphs is None else graphs)
    classes = sorted({g for g, _ in encoding.x})
    for g in classes:
        encoder.add_node_points(g, objective.node_points(g) if state is None else state.steady(g))
    concerned = {t for g in classes for t in objective.owned[g]} & {t for g in classes for t in objective.matching[g]}
    for t in sorted(concerned.intersection(objective.pairs)):
        encoder.add_term(objective.terms[t])
    encoder.relate_domains()
    for i in sorted({i for g in classes for i in objective.feeds[g]}) if state is not None else range(len(objective.tallies)):
        tally = objective.tallies[i]
        encoder.add_skew(tally, tally.base if state is None else state.counted(i))
    for family in objective.members if state is None else ():
        family.encode(encoding, encoder.points)
    return encoder.points


@dataclass(frozen=True)
class _CutStar:
    """A set of classes and the sets that it attracts, whose points are bounded together.

    Attributes:
        centre: The classes in the middle.
        repulsion: Weight of the centre's repulsion, 0 if it belongs to another star.
        pairs: The centre with each leaf.
        others: The classes of each leaf.
        leaves: Weights and sizes of the leaves.
    """

    centre: frozenset[int]
    repulsion: int
    pairs: Sequence[Pair]
    others: Sequence[frozenset[int]]
    leaves: Sequence[Leaf]

    def bound(self, encoding: PlacementModel, graph: DomainGraph, plane: Plane) -> None:
        """Add a cut to the model for one domain."""
        variables = [(paid, SCALE * weight) for pair in self.pairs for weight, paid in graph.pulls.get(pair, ())]
        repulsions = [self.repulsion, *(leaf.repulsion for leaf in self.leaves)]
        for own, slope, repulsion in zip((self.centre, *self.others), (plane.alpha, *plane.beta), repulsions, strict=True):
            if own in graph.sums:
                variables.append((graph.sums[own].variable, -slope))
                if repulsion and own in graph.repels:  # -repulsion · (k² - k)
                    variables.append((graph.repels[own][1], -SCALE * repulsion))
                    variables.append((graph.sums[own].variable, SCALE * repulsion))
        if variables:
            encoding.model.add(encoding.weighted_sum([v for v, _ in variables], [w for _, w in variables]) <= plane.gamma)


class _Encoder:
    """A model that gets the soft families.

    Attributes:
        points: Weighted sum of the families so far.
        graphs: Attractions and repulsions, per topologyKey and domain.
    """

    def __init__(self, encoding: PlacementModel, graphs: dict[str, list[DomainGraph]]) -> None:
        self.encoding, self.graphs, self.points = encoding, graphs, Points()
        self._sums: dict[tuple[tuple[int, ...], tuple[int, ...]], DomainSum] = {}

    def _sum(self, classes: Sequence[int], nodes: Ids) -> DomainSum:
        """Return the sum of pods of some classes on some nodes, created once."""
        cells = [(g, n) for g in classes for n in nodes.tolist() if (g, n) in self.encoding.x]
        key = (tuple(sorted({g for g, _ in cells})), tuple(sorted({n for _, n in cells})))
        if key not in self._sums:
            self._sums[key] = _pods(self.encoding, key[0], cells)
        return self._sums[key]

    def add_node_points(self, g: int, row: Ints) -> None:
        """Add the points of a class on each node, int64[N]."""
        for n in self.encoding.nodes_of(g).tolist():
            self.points.add(self.encoding.x[g, n], int(row[n]), 0, self.encoding.upper(g, n))

    def add_term(self, term: PreferenceTerm) -> None:
        """Add one term in each domain: owners of each weight times matched pods."""
        members = self.encoding.cluster.members(term.key)
        graph = self.graphs.setdefault(term.key, [DomainGraph() for _ in members])
        for d in self.encoding.domains(term.matches, term.codes):
            self._add_term_in(term, members[d], graph[d])

    def _add_term_in(self, term: PreferenceTerm, nodes: Ids, graph: DomainGraph) -> None:
        matched = self._sum(sorted(term.matches), nodes)
        if not matched.variables:
            return
        for weight in sorted(set(term.own.values())):
            owned = self._sum(sorted(g for g, own in term.own.items() if own == weight), nodes)
            if owned.variables:
                product(owned, matched, weight * term.multiplier, self.points, graph)
                for g in owned.classes & matched.classes:
                    for n in nodes.tolist():
                        if (g, n) in self.encoding.x:
                            self.points.add(self.encoding.x[g, n], -weight * term.multiplier, 0, self.encoding.upper(g, n))

    def add_skew(self, tally: SoftTally, base: Ints) -> None:
        """Add the pods above min + maxSkew of one constraint; ``base``: present pods, int64[D]."""
        model, cost = self.encoding.model, -tally.cost * tally.multiplier
        where = self.encoding.domains(tally.matches.tolist(), tally.codes)
        members = [np.flatnonzero(tally.codes == d).astype(np.int32) for d in range(tally.size)]
        arriving = {d: self._sum(tally.matches.tolist(), members[d]) for d in where}
        still = np.ones(tally.size, dtype=bool)
        still[where] = False
        lowest = int(base[tally.usable].min())
        highest = min([lowest + max((a.high for a in arriving.values()), default=0), *base[still & tally.usable].tolist()])
        floor = model.new_int_var(lowest, max(lowest, highest), "")
        for d, here in arriving.items():
            count = int(base[d]) + here.variable
            if tally.usable[d]:
                model.add(floor <= count)
            over = max(0, int(base[d]) + here.high - lowest - tally.spread.max_skew)
            if over and tally.counted[d]:
                excess = model.new_int_var(0, over, "")
                model.add(excess >= count - floor - tally.spread.max_skew)
                self.points.add(excess, cost, 0, over)
        for level, domains in zip(*np.unique(base[still & tally.counted], return_counts=True), strict=True):
            over = max(0, int(level) - lowest - tally.spread.max_skew)
            if over:
                excess = model.new_int_var(0, over, "")
                model.add(excess >= int(level) - floor - tally.spread.max_skew)
                self.points.add(excess, cost * int(domains), 0, over)

    def relate_domains(self) -> None:
        """Bound the pulls of finer domains in the coarser ones around them, then add the cuts of each key."""
        for key in self.graphs:
            for finer in self.graphs:
                if finer != key:
                    self._inherit(key, finer)
        for graph in self.graphs.values():
            self._cut(graph)

    def _inherit(self, key: str, finer: str) -> None:
        """Bound the pulls of a finer domain in the coarser one around it, where the same pods meet."""
        coarse, codes = self.graphs[key], self.encoding.cluster.domains(key)[0]
        members, inner = self.encoding.cluster.members(key), self.encoding.cluster.members(finer)
        around = [set(codes[nodes].tolist()) for nodes in inner]
        if len(inner) <= len(members) or any(len(where) != 1 or -1 in where for where in around):
            return
        heaviest: dict[tuple[int, Pair], int] = {}
        for (d,), graph in zip(around, self.graphs[finer], strict=True):
            for pair, paid in graph.pulls.items():
                target = coarse[d]
                for own in pair:
                    if own not in target.sums:
                        target.sums[own] = self._sum(sorted(own), members[d])
                if all(target.sums[own].classes == own for own in pair):
                    target.pulls.setdefault(pair, []).extend(paid)
                    heaviest[d, pair] = max(heaviest.get((d, pair), 0), graph.weights[pair])
        for (d, pair), weight in heaviest.items():
            coarse[d].weights[pair] = coarse[d].weights.get(pair, 0) + weight

    def _cut(self, domains: list[DomainGraph]) -> None:
        """Add the cuts of :mod:`kubestow.solver.objective.star_cuts`. Each pull and each repulsion belongs to one star."""
        fits, high = self.encoding.fits, dict[frozenset[int], int]()
        for graph in domains:
            for own, total in graph.sums.items():
                high[own] = max(high.get(own, 0), total.high)
        used = [graph for graph in domains if graph.sums]
        for star in _stars(domains, high, fits):
            pods = sum(fits[g] for g in star.centre)
            for plane in planes(star.repulsion, high[star.centre], pods, star.leaves, len(used)):
                for graph in used:
                    star.bound(self.encoding, graph, plane)


def _stars(domains: list[DomainGraph], high: Mapping[frozenset[int], int], fits: Sequence[int]) -> Iterator[_CutStar]:
    """Yield disjoint stars of attractions with at least one repulsion, largest degree first.

    Args:
        high: Maximum pods of each set of classes in a domain.
        fits: Pods of each class that can be placed.
    """
    repels = {own: weight for graph in domains for own, (weight, _) in graph.repels.items()}
    pulls: dict[Pair, int] = {}
    for pair, weight in (item for graph in domains for item in graph.weights.items()):
        pulls[pair] = max(pulls.get(pair, 0), weight)
    free = set(repels)
    while pulls:
        degree = Counter(own for pair in pulls for own in pair)
        centre = max(degree, key=lambda own: (degree[own], own in free, sorted(own)))
        mine = [pair for pair in pulls if centre in pair]
        others = [next(iter(pair - {centre})) for pair in mine]
        weights = [pulls.pop(pair) for pair in mine]
        repulsion = repels[centre] if centre in free else 0
        last = [other for other in others if other in free and not any(other in pair for pair in pulls)]
        free -= {centre, *last}
        if repulsion or last:
            leaves = [
                Leaf(w, repels[o] if o in last else 0, high[o], sum(fits[g] for g in o)) for o, w in zip(others, weights, strict=True)
            ]
            yield _CutStar(centre, repulsion, mine, others, leaves)
