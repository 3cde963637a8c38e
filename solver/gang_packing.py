"""A gang that construction could not place, packed on its own: into one domain after the other, the rest of the cluster staying as it is.

Inside one domain the affinity of members to each other is satisfied by all of them being there, and so is the gang's topology. What
remains is packing, which construction in several orders and repair by ejection are good at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from models.cluster import Cluster, Ints
from models.compile import compile_cluster
from models.scope import Scope
from models.selectors import Bools
from solver import rules
from solver.ejection import repair
from solver.greedy import construct
from solver.limits import possible
from solver.reasons import bound_as

#: Orders that are tried for one domain; domains, and those among them that get a longer repair.
TRIES, DOMAINS, BEST = 6, 12, 4
#: Insertions of the repair without gain before the next domain, at first and for the best ones.
FIRST, AGAIN = 400, 6_000


@dataclass(frozen=True)
class Packing:
    """``cluster``, ``limits`` int64[G, N]: the instance; ``exempt``: namespaces without hard anti-affinity. ``over``: whether time is up;
    ``charge`` is called for each insertion of the repair."""

    cluster: Cluster
    limits: Ints
    exempt: tuple[str, ...]
    seed: int
    over: Callable[[], bool]
    charge: Callable[[], None]

    def pack(self, counts: Ints, k: int) -> Ints | None:
        """int64[G, N]: ``counts``, in which gang k has no pod, with the gang whole; None if it was not found."""
        alone, classes = self._alone(counts, k)
        limits = np.where(self.limits[classes] > 0, possible(alone, rules.build(alone)), 0)
        sites = list(self._sites(alone, k, limits))
        missing: dict[int, int] = {}
        for patience in (FIRST, AGAIN):
            chosen = range(len(sites)) if not missing else sorted(missing, key=lambda i: missing[i])[:BEST]
            for i in chosen:
                if self.over():
                    return None
                found = self._packed(self._plain(alone, sites[i]), np.where(sites[i], limits, 0), patience, i)
                missing[i] = int(alone.count.sum() - found.sum())
                if int(found.sum()) >= self.cluster.gangs[k].needed:
                    whole = counts.copy()
                    for row, g in zip(found, classes, strict=True):
                        whole[g] += row
                    return whole
        return None

    def _alone(self, counts: Ints, k: int) -> tuple[Cluster, list[int]]:
        """The cluster with all other pods bound where they are, and only the gang to be placed, pod by pod; and the class in the instance
        of each of its classes."""
        cluster = self.cluster
        placed: list[tuple[int, str]] = []
        for g, n in zip(*(cells.tolist() for cells in np.nonzero(counts)), strict=True):
            first = int(counts[g, :n].sum())
            placed += [(i, cluster.nodes.names[n]) for i in cluster.classes[g].pods[first : first + int(counts[g, n])]]
        class_of = {i: g for g in cluster.gangs[k].classes for i in cluster.classes[g].pods}
        scope = Scope(fixed=sorted({*cluster.scope.fixed, *(i for i, _ in placed)}), pending=sorted(class_of))
        alone = compile_cluster(bound_as(cluster.snapshot, placed), scope, daemon_namespaces=self.exempt, policy=cluster.policy)
        free = [replace(cls, gang=None) for cls in alone.classes]
        return replace(alone, classes=free, gangs=[], declared=[]), [class_of[cls.pods[0]] for cls in alone.classes]

    @staticmethod
    def _constant(alone: Cluster, keys: Sequence[str], site: Bools) -> bool:
        """Whether the nodes have one value of each key."""
        return all(len(np.unique(alone.domains(key)[0][site])) == 1 for key in keys)

    def _plain(self, alone: Cluster, site: Bools) -> Cluster:
        """Without the affinity that members satisfy for each other wherever they are on the site."""
        found = []
        for cls in alone.classes:
            own = cls.affinity
            inner = own is not None and bool(alone.matches(own.full).any()) and not alone.fixed_count(own.full).any()
            found.append(replace(cls, affinity=None) if own is not None and inner and self._constant(alone, own.keys, site) else cls)
        return replace(alone, classes=found)

    def _sites(self, alone: Cluster, k: int, limits: Ints) -> Iterator[Bools]:
        """bool[N] each: domains of the keys that the gang's topology or affinity speaks of, the finest key first, with room as far as sums
        tell, those with least first; all nodes where there is no such key."""
        key = self.cluster.gangs[k].key
        keys = {key} if key is not None else set[str]()
        keys |= {name for cls in alone.classes if cls.affinity is not None for name in cls.affinity.keys}
        usable: Bools = np.asarray(limits.any(axis=0))
        if not keys:
            yield usable
        demand = alone.demand.T @ alone.count
        for name in sorted(keys, key=lambda name: (-alone.domains(name)[1], name)):
            codes, size = alone.domains(name)
            inside: Bools = np.asarray(usable & (codes >= 0))
            free = np.zeros((size, len(demand)), dtype=np.int64)
            np.add.at(free, codes[inside], np.maximum(alone.free[inside], 0))
            slack = (free * (demand > 0) // np.maximum(demand // 1000, 1)).max(axis=1, initial=0)
            enough: Bools = np.asarray((free >= demand).all(axis=1))
            for d in [d for d in np.argsort(slack, kind="stable").tolist() if enough[d]][:DOMAINS]:
                site: Bools = np.asarray(inside & (codes == d))
                if key is None or self._constant(alone, [key], site):
                    yield site

    def _packed(self, alone: Cluster, limits: Ints, patience: int, number: int) -> Ints:
        """int64[classes, N]: as many pods as construction and repair place."""
        seed = self.seed + number
        built = construct(alone, rules.build(alone), limits, seed=seed, tries=TRIES)
        if int(built.counts.sum()) == int(alone.count.sum()):
            return built.counts
        calls = last = 0

        def progress() -> float:
            nonlocal calls
            calls += 1
            self.charge()
            return 1.0 if self.over() else (calls - last) / patience

        def better(_: Ints) -> None:
            nonlocal last
            last = calls

        return repair(alone, built.active, limits, built.counts, seed=seed, progress=progress, on_better=better)
