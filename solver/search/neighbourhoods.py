"""Neighbourhoods for large-neighbourhood search: the pods to take out, and the nodes where they may go.

There are several kinds. The next one is drawn by the gain per second of each kind so far (adaptive large-neighbourhood
search, Ropke and Pisinger, doi:10.1287/trsc.1050.0135)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from kubestow.models.cluster.cluster import Ids, Ints, single
from kubestow.solver.search import unit_moves
from kubestow.solver.search.local_search import LocalSearch


@dataclass(frozen=True)
class NeighbourhoodParameters:
    """Sizes of neighbourhoods, and the adaptive choice of kinds.

    Attributes:
        initial_variables: Model variables of the first neighbourhood.
        max_variables: Largest number of model variables.
        min_variables: Smallest number of model variables.
        grow_factor: Growth of the size after a neighbourhood solved to optimality.
        shrink_factor: Factor on the size after any other.
        sampled_classes: Classes examined for their loss, per draw.
        learning_rate: Weight of the latest gain in a kind's weight, from 0 to 1.
        min_chance: Least chance of a kind.
    """

    initial_variables: float = 500.0
    max_variables: float = 6_000.0
    min_variables: float = 60.0
    grow_factor: float = 1.05
    shrink_factor: float = 0.8
    sampled_classes: int = 60
    learning_rate: float = 0.2
    min_chance: float = 0.05


PARAMETERS = NeighbourhoodParameters()


@dataclass
class Neighbourhood:
    """Pods to take out and put back.

    Attributes:
        kind: Name of the kind.
        free: Number of pods taken out, by (class, node).
        nodes: Nodes where they may go, ascending.
    """

    kind: str
    free: dict[tuple[int, int], int]
    nodes: Ints


class Neighbourhoods:
    """Source of the neighbourhoods of one search.

    Attributes:
        kinds: Names of the kinds in use.
    """

    def __init__(self, search: LocalSearch, rng: np.random.Generator) -> None:
        self.search, self.rng = search, rng
        self.cluster, self.objective = search.cluster, search.objective
        self.size = PARAMETERS.initial_variables
        codes = {t.key: (t.codes, t.size) for t in self.objective.terms}
        codes.update({t.spread.key: self.cluster.domains(t.spread.key) for t in self.objective.tallies})
        for cls in self.cluster.classes:
            for key in (*(s.key for s in cls.spread), *(t.key for t in cls.anti), *(cls.affinity.keys if cls.affinity else ())):
                codes.setdefault(key, self.cluster.domains(key))
        self._wide: list[Ids] = [c for c, size in codes.values() if size > 1 and not single(c, size)]
        self._groups: dict[int, list[int] | None] = {}
        self._neighbours: dict[int, list[int]] = {}
        makers: dict[str, Callable[[], tuple[list[int], Sequence[int]]]] = {"random nodes": self._random, "tied classes": self._connected}
        makers["costly classes"] = self._costly
        makers["nodes of tied classes"] = self._nodes_of_tied
        if self._wide:
            makers["nodes of one domain"] = lambda: ([], self._in_domains(1))
            makers["nodes of two domains"] = lambda: ([], self._in_domains(2))
        self._makers = makers
        self.kinds = list(makers)
        self._weight = dict.fromkeys([*self.kinds, "room"], 1.0)

    # --- adaptive choice ----------------------------------------------------------------------------------------------------

    def draw(self) -> Neighbourhood | None:
        """Return the next neighbourhood, or None if it would take out no pod."""
        weights = np.array([self._weight[kind] for kind in self.kinds])
        weights = np.maximum(weights / weights.sum(), PARAMETERS.min_chance)
        kind = self.kinds[int(self.rng.choice(len(self.kinds), p=weights / weights.sum()))]
        classes, nodes = self._makers[kind]()
        free = self._everything_on(nodes) if not classes else self._all_of(classes)
        if not free:
            return None
        where = np.unique(np.array(nodes, dtype=np.int64)) if not classes else self._where(free)
        return Neighbourhood(kind, free, where)

    def learn(self, kind: str, gain: float, seconds: float, *, solved: bool) -> None:
        """Record the gain of a neighbourhood. If it was ``solved`` to optimality, the next one may be larger."""
        self._weight[kind] += PARAMETERS.learning_rate * (gain / max(seconds, 1e-3) - self._weight[kind])
        self.size = (
            min(PARAMETERS.max_variables, self.size * PARAMETERS.grow_factor)
            if solved
            else max(PARAMETERS.min_variables, self.size * PARAMETERS.shrink_factor)
        )

    def room_for(self, g: int) -> Neighbourhood:
        """Return a neighbourhood to make room for a pod of class g: nodes that lack least for it, and all movable pods there."""
        search = self.search
        short = np.maximum(self.cluster.demand[g] - search.fit.free, 0) / np.maximum(self.cluster.allocatable.max(axis=0, initial=1), 1)
        possible = np.flatnonzero(search.eligibility[g])
        lack = short.sum(axis=1)[possible] + self.rng.random(len(possible)) * float(short.sum(axis=1)[possible].mean() + 1e-9)
        nodes = possible[np.argsort(lack, kind="stable")[: self._count()]]
        return Neighbourhood("room", self._everything_on(nodes.tolist()), np.sort(nodes))

    def room_for_gang(self, k: int) -> Neighbourhood:
        """Return a neighbourhood for all unplaced pods of a gang, with some of the movable pods there.

        Its nodes are those of one domain of the gang's topology or of an affinity key, or those with most room, as many
        as a model can hold."""
        search, cluster = self.search, self.cluster
        gang = cluster.gangs[k]
        classes = list(gang.classes)
        possible = search.eligibility[classes].any(axis=0)
        keys = [gang.key] if gang.key is not None else [key for g in classes if (a := cluster.classes[g].affinity) for key in a.keys]
        if keys:
            codes, _ = cluster.domains(keys[int(self.rng.integers(len(keys)))])
            inside = np.unique(codes[possible & (codes >= 0)])
            if len(inside):
                possible &= codes == self.rng.choice(inside)
        nodes = np.flatnonzero(possible)
        share = search.fit.free[nodes] / np.maximum(cluster.allocatable.max(axis=0, initial=1), 1)
        room = share.min(axis=1, initial=1.0) + 0.2 * self.rng.random(len(nodes))
        max_nodes = int(max(8, PARAMETERS.max_variables / (len(classes) + 1)))
        nodes = np.sort(nodes[np.argsort(-room, kind="stable")[:max_nodes]])
        emptied = self.rng.permutation(nodes)[: self._count()].tolist()
        return Neighbourhood("room", self._everything_on(emptied), nodes)

    # --- kinds ----------------------------------------------------------------------------------------------------------------

    def _count(self) -> int:
        """Return the number of nodes of a neighbourhood of the current size."""
        search = self.search
        per_node = max(1.0, len(search.pairs) / max(1, self.cluster.n_nodes))
        return int(min(self.cluster.n_nodes, max(2, np.sqrt(self.size / per_node))))

    def _random(self) -> tuple[list[int], Sequence[int]]:
        return [], self.rng.choice(self.cluster.n_nodes, self._count(), replace=False).tolist()

    def _in_domains(self, domains: int) -> list[int]:
        """Return nodes of one or more domains of a random key that spans nodes."""
        codes = self._wide[int(self.rng.integers(len(self._wide)))]
        chosen = self.rng.permutation(np.unique(codes[codes >= 0]))[:domains]
        nodes: list[int] = []
        for d in chosen:
            members = np.flatnonzero(codes == d)
            nodes += self.rng.permutation(members)[: max(1, self._count() // domains)].tolist()
        return nodes

    def _connected(self) -> tuple[list[int], Sequence[int]]:
        """Choose a class that preferences or rules tie to others, and some of those classes."""
        seed = self._seed()
        return self._random() if seed is None else self._around(seed)

    def _costly(self) -> tuple[list[int], Sequence[int]]:
        """Choose like :meth:`_connected`, around a class whose pods would gain much on other nodes."""
        search = self.search
        placed = np.flatnonzero(search.counts.sum(axis=1))
        sample = [g for g in self.rng.permutation(placed)[: PARAMETERS.sampled_classes].tolist() if self._connected_to(g)]
        lost = np.zeros(len(sample))
        for i, g in enumerate(sample):
            points = search.soft.steady(g)
            nodes = np.flatnonzero(search.counts[g])
            highest = int(points[search.eligibility[g] > 0].max(initial=int(points[nodes].max())))
            lost[i] = float((highest - points[nodes]) @ search.counts[g, nodes])
        if not lost.any():
            return self._connected()
        return self._around(sample[int(self.rng.choice(len(sample), p=lost / lost.sum()))])

    def _around(self, seed: int) -> tuple[list[int], Sequence[int]]:
        chosen: list[int] = []
        for g in [seed, *self.rng.permutation(self._connected_to(seed)).tolist()]:
            group = self._group(g)
            if group is None:
                continue
            more = [h for h in group if h not in chosen]
            pods = int(self.search.counts[chosen + more].sum())
            if chosen and pods * self.cluster.n_nodes > 4 * self.size:
                break
            chosen += more
        return (chosen, []) if chosen else self._random()

    def _nodes_of_tied(self) -> tuple[list[int], Sequence[int]]:
        """Choose nodes that run a class or classes tied to it, where their preferences interact."""
        seed = self._seed()
        if seed is None:
            return self._random()
        rows = self.search.counts[[seed, *self._connected_to(seed)[:50]]].sum(axis=0)
        nodes = self.rng.permutation(np.flatnonzero(rows))[: self._count()].tolist()
        missing = self._count() - len(nodes)
        return [], nodes + self.rng.choice(self.cluster.n_nodes, max(1, missing), replace=False).tolist()

    # --- classes ---------------------------------------------------------------------------------------------------------------

    def _seed(self) -> int | None:
        """Return a random tied class with placed pods; larger classes are likelier. None if there is none."""
        placed = self.search.counts.sum(axis=1)
        connected = np.array([bool(self._connected_to(g)) for g in range(len(placed))])
        weights = np.where(connected, np.sqrt(placed), 0.0)
        total = weights.sum()
        return int(self.rng.choice(len(weights), p=weights / total)) if total > 0 else None

    def _connected_to(self, g: int) -> list[int]:
        """Return the classes that a weighted term or a soft constraint ties to a class, possibly including itself."""
        if g not in self._neighbours:
            o = self.objective
            neighbours: set[int] = set()
            for t in o.owned[g]:
                neighbours |= o.terms[t].matches
            for t in o.matching[g]:
                neighbours |= o.terms[t].own.keys()
            for i in o.feeds[g]:
                neighbours |= set(o.tallies[i].matches.tolist())
            self._neighbours[g] = sorted(neighbours)
        return self._neighbours[g]

    def _group(self, g: int) -> list[int] | None:
        """Return the classes to take out together with a class, because their pods may depend on it. None if some cannot move."""
        if g not in self._groups:
            group = self.search.standing(g)
            fine = all(self.search.loose(h) for h in group) and int(self.search.counts[group].sum()) <= unit_moves.PARAMETERS.max_pods
            self._groups[g] = group if fine else None
        return self._groups[g]

    def _all_of(self, classes: Sequence[int]) -> dict[tuple[int, int], int]:
        counts = self.search.counts
        return {(g, n): int(counts[g, n]) for g in classes for n in np.flatnonzero(counts[g]).tolist()}

    def _everything_on(self, nodes: Sequence[int]) -> dict[tuple[int, int], int]:
        counts = self.search.counts
        return {
            (g, n): int(counts[g, n]) for n in sorted(set(nodes)) for g in np.flatnonzero(counts[:, n]).tolist() if g in self.search.mobile
        }

    def _where(self, free: dict[tuple[int, int], int]) -> Ints:
        """Return the candidate nodes for the free pods: all nodes if few; otherwise their old nodes, their best nodes and
        some random ones."""
        classes = sorted({g for g, _ in free})
        wanted = max(len({n for _, n in free}), int(4 * self.size / len(classes)))
        if wanted >= self.cluster.n_nodes:
            return np.arange(self.cluster.n_nodes)
        chosen = {n for _, n in free}
        each = max(1, (wanted - len(chosen)) // (len(classes) + 1))
        for g in classes:
            points = np.where(self.search.eligibility[g] > 0, self.search.soft.steady(g), np.iinfo(np.int64).min)
            noise = self.rng.random(len(points))
            chosen.update(np.lexsort((noise, -points))[:each].tolist())
        chosen.update(self.rng.choice(self.cluster.n_nodes, min(each, self.cluster.n_nodes), replace=False).tolist())
        return np.array(sorted(chosen), dtype=np.int64)
