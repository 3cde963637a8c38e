"""Placement of all pods on nodes with almost no slack: choose a pattern for each node, then deal pods to the patterns.

Patterns come from :mod:`kubestow.solver.construction.full_patterns`, are drawn at random with tilted chances, and are
corrected three nodes at a time. See docs/algorithms/full-nodes.md."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kubestow.models.cluster.cluster import Cluster, Ints, domain_sum
from kubestow.models.kube.selectors import Bools
from kubestow.solver import rules
from kubestow.solver.construction.full_patterns import Listing, Sizes, full_patterns, sizes_of
from kubestow.solver.construction.greedy import construct
from kubestow.solver.construction.repair import EjectionRepair
from kubestow.solver.rules.eligibility import fits
from kubestow.solver.runtime.options import Options
from kubestow.solver.runtime.run_context import RunContext
from kubestow.solver.runtime.time_slice import TimeSlice

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ExactFillingParameters:
    """Limits of the search.

    Attributes:
        tight_divisor: Slack may be at most 1 / this of the nodes' capacity.
        max_node_patterns: Patterns listed for one node, for small instances.
        min_node_patterns: Patterns listed for one node, for large instances.
        max_patterns: Patterns listed for all nodes together.
        uneven_ratio: Waste allowed per node at first, relative to the average.
        rounds: Choices of patterns that are dealt.
        max_repeats: Repeated draws of known choices before the search ends.
        stress: Added weight of a place on eligible nodes, per pod that lacked one in the last round.
        draws: Draws of patterns for one choice.
        corrections: Corrections of three nodes before patterns are drawn again.
        listed_patterns: Patterns of a node considered in one correction.
        newton_steps: Newton steps of the tilting.
        restarts: Constructions that deal pods.
        patience: Insertions of the repair without gain.
    """

    tight_divisor: int = 100
    max_node_patterns: int = 3_000
    min_node_patterns: int = 300
    max_patterns: int = 200_000
    uneven_ratio: int = 4
    rounds: int = 100
    max_repeats: int = 10
    stress: float = 0.1
    draws: int = 15
    corrections: int = 200
    listed_patterns: int = 400
    newton_steps: int = 60
    restarts: int = 4
    patience: int = 60


PARAMETERS = ExactFillingParameters()


class Mix:
    """A pattern for each node, chosen so that the pods of each size add up to ``count``.

    Args:
        patterns: Patterns of each node, int64[P, K]; no list is empty.
        count: Pods of each size, int64[K].
        weight: Cost of a missing or surplus pod of each size, int64[K].
    """

    def __init__(self, patterns: Sequence[Ints], count: Ints, weight: Ints, *, seed: int) -> None:
        self.patterns, self.count, self.weight = patterns, count, weight
        self.rng = np.random.default_rng(seed)
        self._keys = (
            self.rng.integers(1, 2**62, size=len(count)) | 1
        )  # random keys: sums of patterns differ if their keys do, and almost only then
        self._free = np.array([n for n, p in enumerate(patterns) if len(p) > 1], dtype=np.int64)
        settled = sum((p[0] for p in patterns if len(p) == 1), np.zeros_like(count))
        self._open = count - settled  # for nodes with several patterns
        self._stress = np.zeros((len(patterns), len(count)))
        self._chances = self._tilted()
        self.chosen = np.zeros(len(patterns), dtype=np.int64)
        self.lack = count.copy()

    def _tilted(self) -> dict[int, Floats]:
        """Return the chances of the patterns of nodes that have several.

        They are the most even chances under which the expected sums match the pods, as far as possible."""
        slope, found = np.zeros(len(self.count)), {}
        several = [(n, self.patterns[n].astype(np.float64)) for n in self._free.tolist()]
        for _ in range(PARAMETERS.newton_steps):
            mean, spread = np.zeros(len(slope)), np.eye(len(slope)) * 1e-6
            for n, patterns in several:
                height = patterns @ (slope + self._stress[n])
                weights = np.exp(height - height.max())
                found[n] = weights / weights.sum()
                centre = found[n] @ patterns
                mean += centre
                spread += ((patterns - centre) * found[n][:, None]).T @ (patterns - centre)
            lack = self._open - mean
            if np.abs(lack).max(initial=0.0) < 0.1:
                break
            step = np.linalg.lstsq(spread, lack, rcond=None)[0]
            slope += step / max(1.0, float(np.abs(step).max()))
        return found

    def prefer(self, more: Floats) -> None:
        """Draw patterns with many pods of a size on a node more often, by ``more`` (float64[N, K]), with the same expected sums."""
        self._stress += more
        self._chances = self._tilted()

    def run(self, over: Callable[[], bool]) -> Ints | None:
        """Return the pods of each size on each node, int64[N, K]. None if not found within the draws or before ``over``
        returns True."""
        for _ in range(PARAMETERS.draws):
            self._draw()
            for _ in range(PARAMETERS.corrections):
                if over():
                    return None
                if not self.lack.any():
                    return np.array([p[i] for p, i in zip(self.patterns, self.chosen.tolist(), strict=True)], dtype=np.int64)
                if not len(self._free):
                    return None
                self._correct()
        return None

    def _draw(self) -> None:
        self.lack = self._open.copy()
        for n, chance in self._chances.items():
            self.chosen[n] = self.rng.choice(len(chance), p=chance)
            self.lack -= self.patterns[n][self.chosen[n]]

    def _correct(self) -> None:
        """Choose patterns for three nodes so that nothing is missing, or else for two nodes so that no more is missing than
        before."""
        nodes = self.rng.choice(self._free, min(3, len(self._free)), replace=False).tolist()
        wanted = self.lack + sum(self.patterns[n][self.chosen[n]] for n in nodes)
        listed = [self._some(n, wanted) for n in nodes]
        tables = [self.patterns[n][some] for n, some in zip(nodes, listed, strict=True)]
        picks = self._adding_up([*tables, *[np.zeros((1, len(wanted)), dtype=np.int64)] * (3 - len(nodes))], wanted)
        if picks is not None:
            self._take(nodes, [int(some[i]) for some, i in zip(listed, picks, strict=False)])
        elif len(nodes) == 3:
            self._nearer(nodes[1:], listed[1:], tables[1:], wanted - self.patterns[nodes[0]][self.chosen[nodes[0]]])

    def _adding_up(self, tables: Sequence[Ints], wanted: Ints) -> list[int] | None:
        """Return a row of each of three tables int64[P, K] so that the rows add up to ``wanted`` (int64[K]). None if not found."""
        sums = ((tables[1] @ self._keys)[:, None] + tables[2] @ self._keys).ravel()
        order = np.argsort(sums, kind="stable")
        target = wanted @ self._keys - tables[0] @ self._keys
        place = order[np.minimum(np.searchsorted(sums[order], target), len(order) - 1)]
        hits = np.flatnonzero(sums[place] == target)
        if not len(hits):
            return None
        first = int(self.rng.choice(hits))
        rows = [first, *divmod(int(place[first]), len(tables[2]))]
        return rows if (sum(table[i] for table, i in zip(tables, rows, strict=True)) == wanted).all() else None

    def _some(self, n: int, wanted: Ints) -> Ints:
        """Return some patterns of a node, preferably ones that take no more than ``wanted``."""
        fine = np.flatnonzero((self.patterns[n] <= wanted).all(axis=1))
        fine = fine if len(fine) else np.arange(len(self.patterns[n]))
        if len(fine) <= PARAMETERS.listed_patterns:
            return fine
        chance = self._chances[n][fine] + 1e-9
        return np.asarray(self.rng.choice(fine, PARAMETERS.listed_patterns, replace=False, p=chance / chance.sum()), dtype=np.int64)

    def _nearer(self, nodes: Sequence[int], listed: Sequence[Ints], tables: Sequence[Ints], wanted: Ints) -> None:
        lack = np.zeros((len(tables[0]), len(tables[1])), dtype=np.int64)
        for k in range(len(wanted)):
            lack += self.weight[k] * np.abs(wanted[k] - tables[0][:, k][:, None] - tables[1][:, k])
        smallest = int(lack.min())
        if smallest <= int(np.abs(self.lack) @ self.weight):
            one, other = divmod(int(self.rng.choice(np.flatnonzero(lack.ravel() == smallest))), len(tables[1]))
            self._take(nodes, [int(listed[0][one]), int(listed[1][other])])

    def _take(self, nodes: Sequence[int], patterns: Sequence[int]) -> None:
        for n, i in zip(nodes, patterns, strict=True):
            self.lack = self.lack + self.patterns[n][self.chosen[n]] - self.patterns[n][i]
            self.chosen[n] = i


def fill_exactly(cluster: Cluster, eligibility: Ints, *, seed: int, time: TimeSlice) -> Ints | None:
    """Return a placement int64[G, N] of all pods that fit anywhere. The caller must check that it has a bind order.

    Return None if there is too much slack, if nodes have too many patterns, or if no placement was found.

    Args:
        cluster: Compiled instance.
        eligibility: Maximum pods of each class on each node, int64[G, N].
        seed: Seed of the random choices.
        time: Time for all steps.
    """
    if not _tight(cluster, eligibility):
        return None
    sizes = sizes_of(cluster, eligibility)
    patterns = _patterns(cluster, sizes, np.random.default_rng(seed), time.is_over)
    if patterns is None:
        return None
    mix = Mix(patterns, sizes.count, _weight(sizes), seed=seed)
    goal, seen, again = int(fits(cluster, eligibility).sum()), set[bytes](), 0
    for number in range(PARAMETERS.rounds):
        places = mix.run(time.is_over)
        if places is None or again > PARAMETERS.max_repeats:
            return None
        if places.tobytes() in seen:
            again += 1
            continue
        seen.add(places.tobytes())
        counts = _dealt(Deal(cluster, eligibility, sizes, places), seed + number, time)
        if int(counts.sum()) == goal:
            return counts
        mix.prefer(_lacking(cluster, eligibility, sizes, counts))
    return None


def _tight(cluster: Cluster, eligibility: Ints) -> bool:
    """Return whether all pods together leave almost no slack of any resource that they request."""
    requested = cluster.demand.any(axis=0)
    room = np.maximum(cluster.free[eligibility.any(axis=0)], 0).sum(axis=0)[requested]
    residual = room - (cluster.demand.T @ fits(cluster, eligibility))[requested]
    return bool(len(residual) and (residual >= 0).all() and (residual <= room // PARAMETERS.tight_divisor).all())


def _patterns(cluster: Cluster, sizes: Sizes, rng: np.random.Generator, over: Callable[[], bool]) -> list[Ints] | None:
    """Return patterns of each node that waste little more than the average. None if some node has none."""
    nodes, waste = cluster.n_nodes, sizes.waste
    if (waste < 0).any():
        return None
    limit = min(PARAMETERS.max_node_patterns, max(PARAMETERS.min_node_patterns, PARAMETERS.max_patterns // max(1, nodes)))
    spare = np.minimum(waste, -(-waste * PARAMETERS.uneven_ratio // nodes))
    while True:
        found = full_patterns(sizes, np.maximum(cluster.slots, 0), Listing(spare, limit, over), rng)
        if found is None or all(len(some) for some in found):
            return found
        if (spare >= waste).all():
            return None
        spare = np.minimum(waste, 4 * spare)


def _weight(sizes: Sizes) -> Ints:
    """Return the cost of a missing or surplus pod of each size, int64[K].

    If there is slack, the cost is the pod's demand, so that a large missing pod can be replaced by small ones."""
    if not sizes.waste.any():
        return np.ones_like(sizes.count)
    whole = np.maximum(sizes.room.sum(axis=0), 1)
    return np.asarray(1 + (100 * int(sizes.count.sum()) * sizes.demand // whole).sum(axis=1), dtype=np.int64)


def _lacking(cluster: Cluster, eligibility: Ints, sizes: Sizes, counts: Ints) -> Floats:
    """Return float64[N, K]: added weight of places where unplaced pods could go (``counts``: int64[G, N]).

    Pods held back by a spread constraint count only in the domains with fewest of these pods."""
    more = np.zeros((cluster.n_nodes, len(sizes.count)))
    unplaced = fits(cluster, eligibility) - counts.sum(axis=1)
    for g in np.flatnonzero((unplaced > 0) & (sizes.of >= 0)).tolist():
        nodes: Bools = np.asarray(eligibility[g] > 0)
        for spread in cluster.classes[g].spread:
            codes, size = cluster.domains(spread.key)
            usable = np.unique(codes[nodes & (codes >= 0)])
            if len(usable):
                placed = domain_sum(codes, size, counts[g])
                nodes &= np.isin(codes, usable[placed[usable] == placed[usable].min()])
        more[nodes, sizes.of[g]] += PARAMETERS.stress * float(unplaced[g])
    return more


@dataclass(frozen=True)
class Deal:
    """Places to be dealt.

    Attributes:
        places: Places for pods of each size on each node, int64[N, K].
    """

    cluster: Cluster
    eligibility: Ints
    sizes: Sizes
    places: Ints


def _dealt(deal: Deal, seed: int, time: TimeSlice) -> Ints:
    """Return a placement int64[G, N] with as many pods as get a place of their size."""
    of, sizes = deal.sizes.of, np.arange(deal.places.shape[1])
    demand = (of[:, None] == sizes).astype(np.int64)
    names = [f"places of size {k}" for k in sizes.tolist()]
    site = replace(deal.cluster, resources=names, demand=demand, free=deal.places, allocatable=deal.places)
    eligibility = np.where((of >= 0)[:, None], np.minimum(deal.eligibility, deal.places.T[of]), deal.eligibility)
    context = RunContext.start(Options(time_limit=None, seed=seed))
    built = construct(site, rules.build(site), eligibility, context, tries=PARAMETERS.restarts)
    return EjectionRepair(site, built.active, eligibility, built.counts, seed=seed).run(replace(time, patience=PARAMETERS.patience))
