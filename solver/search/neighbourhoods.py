"""Which pods large-neighbourhood search takes out at a time, and where they may go, each kind for a reason.

Which kind comes next is drawn by what the kinds have gained per second so far (adaptive large-neighbourhood search, Ropke and Pisinger,
doi:10.1287/trsc.1050.0135).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from kubestow.models.cluster.cluster import Ids, Ints
from kubestow.solver.rules.batch_quota import single
from kubestow.solver.search.local_search import LocalSearch


@dataclass(frozen=True)
class NeighbourhoodParameters:
    """Sizes of neighbourhoods, and how kinds of them are preferred.

    Attributes:
        start: Model variables of a neighbourhood at the start.
        most: Model variables at most.
        least: Model variables at least.
        grow: Factor by which the size grows after a neighbourhood that was solved to the end.
        shrink: Factor by which it shrinks after one that was not.
        group: Pods that a closed group of affinity may have at most to be moved as one.
        looked: Classes that are asked what they lose, for one draw.
        react: How fast the weight of a kind follows its gains, from 0 to 1.
        floor: The least chance that a kind keeps.
    """

    start: float = 500.0
    most: float = 6_000.0
    least: float = 60.0
    grow: float = 1.05
    shrink: float = 0.8
    group: int = 400
    looked: int = 60
    react: float = 0.2
    floor: float = 0.05


PARAMETERS = NeighbourhoodParameters()


@dataclass
class Neighbourhood:
    """``free``: pods taken out, by (class, node); ``nodes``: where they may go, ascending; ``kind``: the name of its reason."""

    kind: str
    free: dict[tuple[int, int], int]
    nodes: Ints


class Neighbourhoods:
    """Draws neighbourhoods of one search. ``kinds``: the names in use."""

    def __init__(self, search: LocalSearch, rng: np.random.Generator) -> None:
        self.search, self.rng = search, rng
        self.cluster, self.objective = search.cluster, search.objective
        self.size = PARAMETERS.start
        codes = {t.key: (t.codes, t.size) for t in self.objective.terms}
        codes.update({t.spread.key: self.cluster.domains(t.spread.key) for t in self.objective.tallies})
        for cls in self.cluster.classes:
            for key in (*(s.key for s in cls.spread), *(t.key for t in cls.anti), *(cls.affinity.keys if cls.affinity else ())):
                codes.setdefault(key, self.cluster.domains(key))
        self._wide: list[Ids] = [c for c, size in codes.values() if size > 1 and not single(c, size)]
        self._groups: dict[int, list[int] | None] = {}
        self._neighbours: dict[int, list[int]] = {}
        makers: dict[str, Callable[[], tuple[list[int], Sequence[int]]]] = {"random nodes": self._random, "tied classes": self._tied}
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
        """Return the next neighbourhood (None: nothing to take out)."""
        weights = np.array([self._weight[kind] for kind in self.kinds])
        weights = np.maximum(weights / weights.sum(), PARAMETERS.floor)
        kind = self.kinds[int(self.rng.choice(len(self.kinds), p=weights / weights.sum()))]
        classes, nodes = self._makers[kind]()
        free = self._everything_on(nodes) if not classes else self._all_of(classes)
        if not free:
            return None
        where = np.unique(np.array(nodes, dtype=np.int64)) if not classes else self._where(free)
        return Neighbourhood(kind, free, where)

    def learn(self, kind: str, gain: float, seconds: float, *, solved: bool) -> None:
        """Take note of what a neighbourhood gained. ``solved``: to the end, so that the next may be larger."""
        self._weight[kind] += PARAMETERS.react * (gain / max(seconds, 1e-3) - self._weight[kind])
        self.size = min(PARAMETERS.most, self.size * PARAMETERS.grow) if solved else max(PARAMETERS.least, self.size * PARAMETERS.shrink)

    def room_for(self, g: int) -> Neighbourhood:
        """Return nodes on which a pod of class g could find room, those first that lack least for it, and all movable pods there."""
        search = self.search
        short = np.maximum(self.cluster.demand[g] - search.fit.free, 0) / np.maximum(self.cluster.allocatable.max(axis=0, initial=1), 1)
        possible = np.flatnonzero(search.limits[g])
        lack = short.sum(axis=1)[possible] + self.rng.random(len(possible)) * float(short.sum(axis=1)[possible].mean() + 1e-9)
        nodes = possible[np.argsort(lack, kind="stable")[: self._count()]]
        return Neighbourhood("room", self._everything_on(nodes.tolist()), np.sort(nodes))

    def room_for_gang(self, k: int) -> Neighbourhood:
        """Return nodes for all pods of a gang that are left: those of one domain of its topology or of a key of its affinity, or those with
        most room, as many as a model can hold; with some of the movable pods there."""
        search, cluster = self.search, self.cluster
        gang = cluster.gangs[k]
        classes = list(gang.classes)
        possible = search.limits[classes].any(axis=0)
        keys = [gang.key] if gang.key is not None else [key for g in classes if (a := cluster.classes[g].affinity) for key in a.keys]
        if keys:
            codes, _ = cluster.domains(keys[int(self.rng.integers(len(keys)))])
            inside = np.unique(codes[possible & (codes >= 0)])
            if len(inside):
                possible &= codes == self.rng.choice(inside)
        nodes = np.flatnonzero(possible)
        share = search.fit.free[nodes] / np.maximum(cluster.allocatable.max(axis=0, initial=1), 1)
        room = share.min(axis=1, initial=1.0) + 0.2 * self.rng.random(len(nodes))
        most = int(max(8, PARAMETERS.most / (len(classes) + 1)))
        nodes = np.sort(nodes[np.argsort(-room, kind="stable")[:most]])
        emptied = self.rng.permutation(nodes)[: self._count()].tolist()
        return Neighbourhood("room", self._everything_on(emptied), nodes)

    # --- kinds ----------------------------------------------------------------------------------------------------------------

    def _count(self) -> int:
        """Nodes for a neighbourhood of the present size."""
        search = self.search
        per_node = max(1.0, len(search.pairs) / max(1, self.cluster.n_nodes))
        return int(min(self.cluster.n_nodes, max(2, np.sqrt(self.size / per_node))))

    def _random(self) -> tuple[list[int], Sequence[int]]:
        return [], self.rng.choice(self.cluster.n_nodes, self._count(), replace=False).tolist()

    def _in_domains(self, domains: int) -> list[int]:
        """Nodes of one or more domains of some key that groups nodes."""
        codes = self._wide[int(self.rng.integers(len(self._wide)))]
        chosen = self.rng.permutation(np.unique(codes[codes >= 0]))[:domains]
        nodes: list[int] = []
        for d in chosen:
            members = np.flatnonzero(codes == d)
            nodes += self.rng.permutation(members)[: max(1, self._count() // domains)].tolist()
        return nodes

    def _tied(self) -> tuple[list[int], Sequence[int]]:
        """A class that preferences or rules tie to others, with some of those, wherever they run."""
        seed = self._seed()
        return self._random() if seed is None else self._around(seed)

    def _costly(self) -> tuple[list[int], Sequence[int]]:
        """The same around a class whose pods could have much more on other nodes, all else staying."""
        search = self.search
        placed = np.flatnonzero(search.counts.sum(axis=1))
        sample = [g for g in self.rng.permutation(placed)[: PARAMETERS.looked].tolist() if self._tied_to(g)]
        lost = np.zeros(len(sample))
        for i, g in enumerate(sample):
            points = search.soft.steady(g)
            nodes = np.flatnonzero(search.counts[g])
            most = int(points[search.limits[g] > 0].max(initial=int(points[nodes].max())))
            lost[i] = float((most - points[nodes]) @ search.counts[g, nodes])
        if not lost.any():
            return self._tied()
        return self._around(sample[int(self.rng.choice(len(sample), p=lost / lost.sum()))])

    def _around(self, seed: int) -> tuple[list[int], Sequence[int]]:
        chosen: list[int] = []
        for g in [seed, *self.rng.permutation(self._tied_to(seed)).tolist()]:
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
        """Some nodes on which a class and those tied to it run: their preferences meet there."""
        seed = self._seed()
        if seed is None:
            return self._random()
        rows = self.search.counts[[seed, *self._tied_to(seed)[:50]]].sum(axis=0)
        nodes = self.rng.permutation(np.flatnonzero(rows))[: self._count()].tolist()
        rest = self._count() - len(nodes)
        return [], nodes + self.rng.choice(self.cluster.n_nodes, max(1, rest), replace=False).tolist()

    # --- classes ---------------------------------------------------------------------------------------------------------------

    def _seed(self) -> int | None:
        """A class with placed pods that something ties, drawn by its number of pods."""
        placed = self.search.counts.sum(axis=1)
        tied = np.array([bool(self._tied_to(g)) for g in range(len(placed))])
        weights = np.where(tied, np.sqrt(placed), 0.0)
        total = weights.sum()
        return int(self.rng.choice(len(weights), p=weights / total)) if total > 0 else None

    def _tied_to(self, g: int) -> list[int]:
        """The classes with which a weighted term or a soft constraint ties a class, itself among them."""
        if g not in self._neighbours:
            o = self.objective
            found: set[int] = set()
            for t in o.owned[g]:
                found |= o.terms[t].matches
            for t in o.matching[g]:
                found |= o.terms[t].own.keys()
            for i in o.feeds[g]:
                found |= set(o.tallies[i].matches.tolist())
            self._neighbours[g] = sorted(found)
        return self._neighbours[g]

    def _group(self, g: int) -> list[int] | None:
        """The classes that have to be taken out with all pods of a class, since pods of theirs may stand on it; None if some cannot."""
        if g not in self._groups:
            found = self.search.pods.standing(g)
            fine = all(self.search.loose(h) for h in found) and int(self.search.counts[found].sum()) <= PARAMETERS.group
            self._groups[g] = found if fine else None
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
        """All nodes if they are few; else those that the pods leave, those where they would gain most, and some others."""
        classes = sorted({g for g, _ in free})
        many = max(len({n for _, n in free}), int(4 * self.size / len(classes)))
        if many >= self.cluster.n_nodes:
            return np.arange(self.cluster.n_nodes)
        chosen = {n for _, n in free}
        each = max(1, (many - len(chosen)) // (len(classes) + 1))
        for g in classes:
            points = np.where(self.search.limits[g] > 0, self.search.soft.steady(g), np.iinfo(np.int64).min)
            noise = self.rng.random(len(points))
            chosen.update(np.lexsort((noise, -points))[:each].tolist())
        chosen.update(self.rng.choice(self.cluster.n_nodes, min(each, self.cluster.n_nodes), replace=False).tolist())
        return np.array(sorted(chosen), dtype=np.int64)
