"""Usage, anti-affinity terms, ports and claims of fixed pods, by node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from kubestow.models.cluster.cluster import AffinityTerm, FixedTerm, Ids, Ints, PlacedPods, Pull
from kubestow.models.cluster.templates import ClassTemplate
from kubestow.models.kube import objects, quantity
from kubestow.models.kube.pod_spec import Port, claim_keys, host_ports
from kubestow.models.snapshot.scope import Scope
from kubestow.models.snapshot.snapshot import Snapshot

#: Cap on the usage of a node, which keeps differences within int64. No quantity is larger, so a node at the cap has no free capacity.
_MAX_USAGE: Final = quantity.INT64_MAX


def used(fixed: Sequence[ClassTemplate], size: int, resources: Sequence[str]) -> tuple[Ints, Ints]:
    """Return the requests of fixed pods on each node [N, R], capped at ``_MAX_USAGE``, and their number [N]."""
    slots = np.zeros(size, dtype=np.int64)
    column = {name: r for r, name in enumerate(resources)}
    large = any(value > _MAX_USAGE >> 23 for t in fixed for value in t.demand.values())
    used_amounts = np.zeros((size, len(resources)), dtype=object if large else np.int64)
    for template in fixed:
        per_node = np.bincount(template.nodes, minlength=size).astype(used_amounts.dtype)
        slots += per_node.astype(np.int64)
        for name, value in template.demand.items():
            used_amounts[:, column[name]] += per_node * value
    return np.minimum(used_amounts, _MAX_USAGE).astype(np.int64), slots


def supposed(fixed: Sequence[ClassTemplate], size: int) -> Ints:
    """Return the CPU and memory that fixed pods add to their requests in the balance score, by node [N, 2]."""
    found = np.zeros((size, 2), dtype=np.int64)
    for template in fixed:
        if any(template.supposed):
            found += np.bincount(template.nodes, minlength=size)[:, None] * np.array(template.supposed, dtype=np.int64)
    return found


def placed(snapshot: Snapshot, fixed: Sequence[ClassTemplate], size: int, profiles: int) -> tuple[PlacedPods, PlacedPods]:
    """Return the fixed pods by profile and node: first all pods, then only those that are not terminating."""
    node = np.concatenate([np.zeros(0, dtype=np.int32), *(t.nodes for t in fixed)])
    profile = np.array([t.profile for t in fixed for _ in t.pods], dtype=np.int32)
    settled = np.array([not objects.is_terminating(snapshot.pods[i]) for t in fixed for i in t.pods], dtype=bool)
    return PlacedPods(node, profile, size, profiles), PlacedPods(node[settled], profile[settled], size, profiles)


def anti(fixed: Sequence[ClassTemplate]) -> list[FixedTerm]:
    """Return the required anti-affinity terms of fixed pods, with their nodes."""
    where: dict[AffinityTerm, set[int]] = {}
    for template in fixed:
        for term in template.anti:
            where.setdefault(term, set()).update(template.nodes.tolist())
    return [FixedTerm(term, _ids(at)) for term, at in where.items()]


def pulls(fixed: Sequence[ClassTemplate], size: int) -> dict[Pull, Ints]:
    """Return the number of fixed pods on each node [N] that carry each weighted term."""
    where: dict[Pull, Ints] = {}
    for template in fixed:
        if template.pulls:
            per_node = np.bincount(template.nodes, minlength=size).astype(np.int64)
            for pull in template.pulls:
                where[pull] = where.get(pull, 0) + per_node
    return where


def ports(fixed: Sequence[ClassTemplate]) -> dict[Port, Ids]:
    """Return the nodes on which fixed pods use each host port."""
    where: dict[Port, set[int]] = {}
    for template in fixed:
        for port in host_ports(template.pod.spec):
            where.setdefault(port, set()).update(template.nodes.tolist())
    return {port: _ids(at) for port, at in where.items()}


def claims(snapshot: Snapshot, scope: Scope, node_index: Mapping[str, int]) -> dict[str, set[int]]:
    """Return the nodes on which fixed pods use each claim: node indices by ``namespace/name``."""
    where: dict[str, set[int]] = {}
    for i in scope.fixed:
        pod = snapshot.pods[i]
        if pod.spec.volumes:
            for key in claim_keys(pod):
                where.setdefault(key, set()).add(node_index[pod.spec.nodeName or ""])
    return where


def _ids(nodes: set[int]) -> Ids:
    return np.array(sorted(nodes), dtype=np.int32)
