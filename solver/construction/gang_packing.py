"""Packing of a gang that construction could not place, into one domain after another, while the rest of the cluster stays
unchanged.

If all members are in one domain, their affinity to each other and the gang's topology hold. The remaining problem is
packing, which construction in several orders and repair by ejection solve well."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.edits.binding import bound_as
from kubestow.models.kube.selectors import Bools
from kubestow.models.snapshot.scope import Scope
from kubestow.solver import rules
from kubestow.solver.construction.exact_filling import fill_exactly
from kubestow.solver.construction.greedy import construct
from kubestow.solver.construction.repair import EjectionRepair
from kubestow.solver.rules.base import Rule
from kubestow.solver.rules.eligibility import possible
from kubestow.solver.runtime.options import Options
from kubestow.solver.runtime.run_context import RunContext
from kubestow.solver.runtime.time_slice import TimeSlice

#: Constructions per domain, domains, and best domains that get a longer repair.
RESTARTS, MAX_DOMAINS, BEST_DOMAINS = 6, 12, 4
#: Insertions without gain before a repair ends: a short one, and a long one in total and per pod.
SHORT_PATIENCE, LONG_PATIENCE, LONG_PATIENCE_PER_POD = 400, 6_000, 60


@dataclass(frozen=True)
class GangPacking:
    """Packing of gangs in one instance.

    Attributes:
        cluster: The instance.
        eligibility: int64[G, N].
        options: Options of the run.
        exact: Places at least the given number of pods of an instance with CP-SAT, or returns None.
    """

    cluster: Cluster
    eligibility: Ints
    options: Options
    exact: Callable[[Cluster, Ints, int], Ints | None] | None = None

    def pack(self, counts: Ints, k: int, time: TimeSlice) -> Ints | None:
        """Return ``counts`` (int64[G, N], without pods of gang k) with the gang placed whole. None if not found in time."""
        alone, classes = self._alone(counts, k)
        eligibility = np.where(self.eligibility[classes] > 0, possible(alone, rules.build(alone)), 0)
        sites = list(self._sites(alone, k, eligibility))
        missing: dict[int, int] = {}
        needed = self.cluster.gangs[k].needed

        def quick(i: int, patience: int = SHORT_PATIENCE) -> Ints | None:
            packed = self._packed(self._plain(alone, sites[i]), np.where(sites[i], eligibility, 0), replace(time, patience=patience), i)
            missing[i] = int(alone.count.sum() - packed.sum())
            return packed

        def model(i: int) -> Ints | None:
            if self.exact is None:
                return None
            return self.exact(self._plain(alone, sites[i]), np.where(sites[i], eligibility, 0), needed)

        def longer(i: int) -> Ints | None:
            return quick(i, min(LONG_PATIENCE, LONG_PATIENCE_PER_POD * int(alone.count.sum())))

        for way in (quick, model, longer):
            for i in range(len(sites)) if not missing else sorted(missing, key=lambda i: missing[i])[:BEST_DOMAINS]:
                if time.stop.is_set() or time.remaining() <= 0:
                    return None
                packed = way(i)
                if packed is not None and int(packed.sum()) >= needed:
                    whole = counts.copy()
                    for row, g in zip(packed, classes, strict=True):
                        whole[g] += row
                    return whole
        return None

    def _alone(self, counts: Ints, k: int) -> tuple[Cluster, list[int]]:
        """Return the cluster with all other pods bound and only the gang's pods to place, and the original class of each of
        its classes."""
        cluster = self.cluster
        placed: list[tuple[int, str]] = []
        for g, n in zip(*(cells.tolist() for cells in np.nonzero(counts)), strict=True):
            first = int(counts[g, :n].sum())
            placed += [(i, cluster.nodes.names[n]) for i in cluster.classes[g].pods[first : first + int(counts[g, n])]]
        class_of = {i: g for g in cluster.gangs[k].classes for i in cluster.classes[g].pods}
        scope = Scope(fixed=sorted({*cluster.scope.fixed, *(i for i, _ in placed)}), pending=sorted(class_of))
        alone = compile_cluster(bound_as(cluster.snapshot, placed), scope, daemon_namespaces=self.options.exempt, policy=cluster.policy)
        free = [replace(cls, gang=None) for cls in alone.classes]
        return replace(alone, classes=free, gangs=[], declared=[]), [class_of[cls.pods[0]] for cls in alone.classes]

    def _sites(self, alone: Cluster, k: int, eligibility: Ints) -> Iterator[Bools]:
        """Yield the eligible pairs bool[classes, N] of each candidate site.

        A site is a domain of the finest key of the gang's topology and affinity. Classes with other keys go to the
        domains of those keys around it, all others anywhere. Sites must have enough room in total; those with least room
        come first. Without any key, the whole cluster is the only site."""
        key = self.cluster.gangs[k].key
        own: list[set[str]] = [{key} if key is not None else set() for _ in alone.classes]
        for c in _together(alone):
            affinity = alone.classes[c].affinity
            own[c] |= set(affinity.keys) if affinity is not None else set()
        keys = sorted({name for names in own for name in names}, key=lambda name: (-alone.domains(name)[1], name))
        usable: Bools = np.asarray(eligibility > 0)
        if not keys:
            yield usable
            return
        codes, size = alone.domains(keys[0])
        keyed = [c for c, names in enumerate(own) if keys[0] in names]
        demand = alone.demand[keyed].T @ alone.count[keyed]
        inside: Bools = np.asarray(usable[keyed].any(axis=0) & (codes >= 0))
        free = np.zeros((size, len(demand)), dtype=np.int64)
        np.add.at(free, codes[inside], np.maximum(alone.free[inside], 0))
        slack = (free * (demand > 0) // np.maximum(demand // 1000, 1)).max(axis=1, initial=0)
        enough: Bools = np.asarray((free >= demand).all(axis=1))
        for d in [d for d in np.argsort(slack, kind="stable").tolist() if enough[d]][:MAX_DOMAINS]:
            first = int(alone.members(keys[0])[d][0])
            allowed = usable.copy()
            for c, names in enumerate(own):
                for name in names:
                    column = alone.domains(name)[0]
                    allowed[c] &= (column == column[first]) & (column >= 0)
            if allowed.any(axis=1).all():
                yield allowed

    @staticmethod
    def _plain(alone: Cluster, allowed: Bools) -> Cluster:
        """Return the instance without affinity that holds wherever the members are allowed.

        Such affinity is dropped if, for each key, some matching class lies wholly in the domain of the class's pods."""

        def met(c: int) -> bool:
            affinity = alone.classes[c].affinity
            if affinity is None:
                return False
            near = [c, *alone.matching(affinity.full).tolist()] if affinity.itself else alone.matching(affinity.full).tolist()
            for key in affinity.keys:
                codes = alone.domains(key)[0]
                here = np.unique(codes[allowed[c]])
                if len(here) != 1 or not any((codes[allowed[h]] == here[0]).all() for h in near):
                    return False
            return True

        together = _together(alone)
        free = [replace(cls, affinity=None) if c in together and met(c) else cls for c, cls in enumerate(alone.classes)]
        return replace(alone, classes=free)

    def _packed(self, alone: Cluster, eligibility: Ints, time: TimeSlice, number: int) -> Ints:
        """Return the most pods that construction, filling and repair place, int64[classes, N]."""
        seed = self.options.seed + number
        built = construct(alone, rules.build(alone), eligibility, RunContext.start(Options(time_limit=None, seed=seed)), tries=RESTARTS)
        if int(built.counts.sum()) == int(alone.count.sum()):
            return built.counts
        full = fill_exactly(alone, eligibility, seed=seed, time=replace(time, patience=None))
        if full is not None and int(full.sum()) == int(alone.count.sum()):
            return full
        return EjectionRepair(alone, built.active, eligibility, built.counts, seed=seed).run(time)


def _together(alone: Cluster) -> set[int]:
    """Return the classes that must open a domain of their own.

    Only members of the gang satisfy their affinity, and they need themselves or each other in a cycle."""
    cycling = rules.having(alone, lambda kind: kind.cycles is not Rule.cycles)
    cyclic = {c for rule in cycling for cycle in rule.cycles(range(alone.n_classes)) for c in cycle}
    found = set()
    for c, cls in enumerate(alone.classes):
        own = cls.affinity
        if own is not None and (own.itself or c in cyclic) and not alone.fixed_count(own.full).any():
            found.add(c)
    return found
