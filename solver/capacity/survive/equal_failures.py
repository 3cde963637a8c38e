"""Equivalent failures: nodes that could be swapped, with all their pods, without affecting any rule."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import combinations

import numpy as np

from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.models.cluster.storage import migrated_volumes
from kubestow.solver import rules
from kubestow.solver.capacity.survive.instance import FailureInstance


def group(instance: FailureInstance, nodes: Mapping[str, Sequence[str]], at_once: int) -> dict[tuple[str, ...], list[tuple[str, ...]]]:
    """Return one representative of each kind of failure, in the order of ``nodes``, with the failures equivalent to it.

    Two domains are equivalent if their nodes can be paired so that each pair could be swapped. Combinations
    are equivalent if they have the same number of domains of each kind.

    Args:
        nodes: Nodes of each domain.
    """
    of = kinds(instance, nodes)
    groups: dict[tuple[int, ...], list[tuple[str, ...]]] = {}
    for failed in combinations(nodes, at_once):
        groups.setdefault(tuple(sorted(of[name] for name in failed)), []).append(failed)
    return {listed[0]: listed[1:] for listed in groups.values()}


def kinds(instance: FailureInstance, nodes: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """Return a number for each node or domain that can fail; equivalent ones share a number."""
    numbered = _kinds(instance) if not instance.special else list(range(instance.cluster.n_nodes))
    numbers: dict[Hashable, int] = {}
    signs = {name: tuple(sorted(numbered[n] for n in instance.nodes(members).tolist())) for name, members in nodes.items()}
    return {name: numbers.setdefault(sign, len(numbers)) for name, sign in signs.items()}


def _kinds(instance: FailureInstance) -> list[int]:
    """Return a number for each node; nodes that could be swapped share a number.

    The key whose domains fail is left out if whole domains are swapped.
    """
    cluster = instance.cluster
    parts: list[list[Hashable]] = [[] for _ in range(cluster.n_nodes)]
    table = np.concatenate([cluster.free, cluster.slots[:, None], _verdicts(cluster), *_codes(cluster, instance.request.key)], axis=1)
    for n, row in enumerate(np.ascontiguousarray(table)):
        parts[n].append(row.tobytes())
    for p in range(len(cluster.matchers.profiles)):
        hits = np.zeros(len(cluster.matchers.profiles), dtype=bool)
        hits[p] = True
        for settled, placed in enumerate((cluster._placed, cluster._settled)):
            per_node = placed.per_node(hits)
            for n in np.flatnonzero(per_node).tolist():
                parts[n].append((p, settled, int(per_node[n])))
    held: list[tuple[Hashable, Iterable[int]]] = [(k, fixed.nodes.tolist()) for k, fixed in enumerate(cluster.fixed_anti)]
    held += [(port, holders.tolist()) for port, holders in cluster.fixed_ports.items()]
    held += list(cluster.fixed_claims.items())
    for sign, holders in held:
        for n in holders:
            parts[n].append(sign)
    for n, back in enumerate(instance.returning):
        parts[n].append(tuple(sorted(back)))
        if n in cluster.trees or not instance.derivable([n]):
            parts[n].append(("alone", n))
        parts[n] += _drivers(cluster, cluster.nodes.names[n])
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(tuple(listed), len(numbers)) for listed in parts]


def _drivers(cluster: Cluster, name: str) -> tuple[Hashable, Hashable]:
    """Return the migrated volumes of a node, and its CSI drivers with their limits."""
    csi = cluster.snapshot.csi_nodes.get(name)
    drivers = (csi.spec.drivers if csi is not None and csi.spec is not None else None) or ()
    limits = sorted((d.name, d.allocatable.count if d.allocatable is not None else None) for d in drivers)
    return tuple(sorted(migrated_volumes.migrated(csi))), tuple(limits)


def _verdicts(cluster: Cluster) -> Ints:
    """Return int64[N, …]: eligibility of each node for each class by labels, taints and volumes, and whether
    spread constraints count it."""
    active = [rule for rule in rules.build(cluster) if rules.plan_face(rule).reads_node]
    columns = [*cluster.node_sets]
    for g, cls in enumerate(cluster.classes):
        never = np.zeros(cluster.n_nodes, dtype=bool)
        for rule in active:
            never = never | rule.never(g)
        columns.append(never)
        for claim in map(cluster.volumes.claim, cls.claims):
            columns += [claim.binding, claim.zone, *(cluster.volumes.reach(volume) for volume in claim.volumes)]
            columns += [claim.provision] if claim.provision is not None else []
    return np.array(columns, dtype=np.int64).reshape(-1, cluster.n_nodes).T


def _codes(cluster: Cluster, but: str | None) -> list[Ints]:
    """Return int64[N, 1] for each topology key that a rule reads: the domain, with one number for all single-node domains."""
    keys = {term.key for cls in cluster.classes for term in cls.anti} | {fixed.term.key for fixed in cluster.fixed_anti}
    keys |= {spread.key for cls in cluster.classes for spread in cls.spread}
    keys |= {key for cls in cluster.classes if cls.affinity is not None for key in cls.affinity.keys}
    columns: list[Ints] = []
    for key in sorted(keys):
        codes, size = cluster.domains(key)
        alone = np.append(np.bincount(codes[codes >= 0], minlength=size) == 1, False)[codes]
        column = np.where(alone, -2, codes).astype(np.int64)
        columns.append((np.where(column >= 0, -3, column) if key == but else column)[:, None])
    return columns
