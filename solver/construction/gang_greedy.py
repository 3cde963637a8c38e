"""Greedy construction of a gang: whole or not at all, and in one domain if it must be.

Members may need each other. So while the gang is built, each counts as present in every domain that is tried
(:meth:`kubestow.solver.rules.placement_faces.PlacementFaces.vouch`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import numpy as np

from kubestow.models.cluster.cluster import Cluster, GangGroup, Ints
from kubestow.models.kube.selectors import Bools
from kubestow.solver.bind_order.gang_units import Step
from kubestow.solver.bind_order.order import order_from
from kubestow.solver.rules.base import CapacityRule, Rule

MAX_DOMAINS = 24  #: Domains tried for one gang.
Wanted = list[tuple[int, int]]  # (class, pods)


class GangSite(Protocol):
    """The builder's state, with ``only`` as the nodes to build on."""

    cluster: Cluster
    active: Sequence[Rule]
    eligibility: Ints
    counts: Ints
    fit: CapacityRule
    sequence: list[Step]
    only: Bools | None
    roomiest_first: bool

    def fill_up(self, wanted: Wanted, expired: Callable[[], bool]) -> Wanted: ...
    def undo(self, mark: int) -> list[Step]: ...
    def put(self, g: int, n: int, k: int) -> None: ...


def chooses_domain(cluster: Cluster, gang: GangGroup) -> bool:
    """Return whether a gang must be in one topology domain, or may have to be because of its members' required affinity."""
    return gang.key is not None or any(cluster.classes[g].affinity is not None for g in gang.classes)


def place_gang(site: GangSite, k: int, wanted: Wanted, expired: Callable[[], bool]) -> Wanted:
    """Place pods of gang k if enough fit for the gang to be whole. Return the unplaced part of ``wanted``.

    Nothing is placed if the gang would not be whole. Pods that bind as a unit are adjacent in the sequence.

    Args:
        wanted: (class, pods) of the gang's unplaced members.
        expired: Returns True when time is up. The best attempt so far is then placed.
    """
    gang = site.cluster.gangs[k]
    before = int(site.counts[list(gang.classes)].sum())
    total, mark = sum(n for _, n in wanted), len(site.sequence)
    best: tuple[Wanted, list[Step]] | None = None  # the attempt with the fewest unplaced pods
    cyclic = sorted({g for rule in site.active for unit in rule.cycles([g for g, _ in wanted]) for g in unit})
    for nodes in _sites(site, gang.key, cyclic, dict(wanted), gang.needed - before):
        site.only = nodes
        vouched = [(rule, rule.vouch(cyclic, nodes)) for rule in site.active] if nodes is not None else []
        unplaced = site.fill_up(wanted, expired)
        for rule, counted in vouched:
            rule.unvouch(counted)
        site.only = None
        enough = total - sum(n for _, n in unplaced) + before >= gang.needed
        whole = enough and (not any(counted for _, counted in vouched) or _reordered(site, mark))
        if whole and not unplaced:
            return unplaced
        steps = site.undo(mark)
        if whole and (best is None or sum(n for _, n in unplaced) < sum(n for _, n in best[0])):
            best = unplaced, steps
        if expired():
            break
    if best is None:
        return wanted
    for g, n, k in best[1]:
        site.put(g, n, k)
    return best[0]


def _reordered(site: GangSite, mark: int) -> bool:
    """Reorder the pods placed since ``mark`` so that each binds without the matches that ``vouch`` simulated.

    Return False if no such order exists. The pods are then removed.
    """
    steps = site.undo(mark)
    to_bind: dict[int, dict[int, int]] = {}
    for g, n, k in steps:
        to_bind.setdefault(g, {})
        to_bind[g][n] = to_bind[g].get(n, 0) + k
    order = order_from(site.cluster, [rule for rule in site.active if rule.whole_units], to_bind)
    for g, n, k in order or ():
        site.put(g, n, k)
    return order is not None


def _sites(site: GangSite, key: str | None, cyclic: Sequence[int], pods: dict[int, int], needed: int) -> Iterator[Bools | None]:
    """Yield the node sets to build on: all nodes (None), or domains of the gang's topology and of its members' affinity keys.

    Domains with room for all pods come first, least room first (most if ``roomiest_first``). Domains with room for the
    needed pods follow, most room first.

    Args:
        key: Topology key of the gang. None if it has none.
        cyclic: Classes whose pods need each other.
        pods: Unplaced pods by class.
        needed: Number of these pods that makes the gang whole.
    """
    if key is None and not cyclic:
        yield None
    keys = {k for g in (cyclic or pods) if (a := site.cluster.classes[g].affinity) is not None for k in a.keys}
    sizes = {k: site.cluster.domains(k)[1] for k in keys}
    inner = sorted(sizes, key=lambda k: (-sizes[k], k))
    everywhere = np.ones(site.cluster.n_nodes, dtype=bool)
    tried = 0
    for outside in _domains(site, key, everywhere, pods, needed) if key is not None else [everywhere]:
        if key is not None and not cyclic:
            yield outside
            tried += 1
        for k in inner:
            for nodes in _domains(site, k, outside, pods, needed):
                yield nodes
                tried += 1
                if tried >= MAX_DOMAINS:
                    return
        if tried >= MAX_DOMAINS:
            return


def _domains(site: GangSite, key: str, inside: Bools, pods: dict[int, int], needed: int) -> Iterator[Bools]:
    """Yield the domains bool[N] of a key within the nodes ``inside`` that have enough room in total.

    Domains with room for all ``pods`` (by class) come first, then those with room for at least ``needed`` pods.
    """
    codes, size = site.cluster.domains(key)
    here = inside & (codes >= 0)
    demand = sum((site.cluster.demand[g] * k for g, k in pods.items()), np.zeros(len(site.cluster.resources), dtype=np.int64))
    free = np.zeros((size, len(demand)), dtype=np.int64)
    np.add.at(free, codes[here], np.maximum(site.fit.free[here], 0))
    all_fit: Bools = np.asarray((free >= demand).all(axis=1))
    number = np.zeros(size, dtype=np.int64)
    for g, k in pods.items():
        room = np.zeros(size, dtype=np.int64)
        np.add.at(room, codes[here], np.minimum(site.fit.room(g), site.eligibility[g])[here])
        all_fit &= room >= k
        number += np.minimum(room, k)
    slack = (free * (demand > 0) / np.maximum(demand, 1)).max(axis=1, initial=0.0)
    some = [d for d in np.argsort(-slack, kind="stable").tolist() if number[d] >= max(needed, 1) and not all_fit[d]]
    first = np.argsort(-slack if site.roomiest_first else slack, kind="stable")
    yield from (here & (codes == d) for d in [*(d for d in first.tolist() if all_fit[d]), *some])
