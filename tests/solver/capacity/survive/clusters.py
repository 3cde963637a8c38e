"""Tiny running clusters, and their states after each failure by the exact engine: failure after failure, from raw objects."""

from __future__ import annotations

import random
from collections.abc import Collection

import msgspec

from kubestow.models.edits import nodes as edits_nodes
from kubestow.models.edits.binding import bound_as
from kubestow.models.kube import objects as kube
from kubestow.models.kube.objects import pod_key
from kubestow.models.snapshot import snapshot as snapshots
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.solver.capacity.survive.options import ZONE_KEY
from kubestow.solver.runtime.options import Options
from kubestow.solver.solve import place
from tests import tiny

EXACT = Options(engine="exact", workers=1, time_limit=30, causes=False)
_change = msgspec.structs.replace


def running(seed: int, kind: str, *, nodes: int = 4, pods: int = 6) -> Snapshot:
    """Return a random cluster of one kind of rule, or with gangs, most of whose pods run; some of them have no controller."""
    rng = random.Random(f"running-{kind}-{seed}")
    gangs = kind == "gangs"
    found = tiny.snapshot(seed, "mixed" if gangs else kind, nodes=nodes, pods=pods)
    for thing in found:
        if thing["kind"] == "Node" and rng.random() < 0.9:
            thing["metadata"]["labels"][ZONE_KEY] = rng.choice(("a", "b", "c"))
    snapshot = snapshots.from_objects(tiny.with_gangs(found, seed) if gangs else found)
    snapshot.gates = tiny.GATES if kind == "gated" else snapshot.gates
    index = {pod_key(pod): i for i, pod in enumerate(snapshot.pods)}
    placed = place(snapshot, Options(time_limit=10, workers=1, causes=False, deterministic=True)).assignments
    snapshot = bound_as(snapshot, [(index[a.pod], a.node) for a in placed])
    snapshot.pods = [_owned(rng, pod) for pod in snapshot.pods]
    return snapshot


def _owned(rng: random.Random, pod: kube.Pod) -> kube.Pod:
    kind = rng.choice(("ReplicaSet", "ReplicaSet", "StatefulSet", "Job", "DaemonSet", ""))
    owner = kube.OwnerReference(kind=kind, name="owner", uid="u", controller=True, apiVersion="apps/v1")
    return _change(pod, metadata=_change(pod.metadata, ownerReferences=[owner] if kind else None))


def comes_back(snapshot: Snapshot, gone: Collection[str], priority: int | None = None) -> tuple[int, int]:
    """Return the number of pods to reschedule after a failure, and the maximum that can be, by the exact engine."""
    remaining = without(snapshot, gone, priority)
    waiting = [pod for pod in remaining.pods if not pod.spec.nodeName and not kube.is_terminal(pod)]
    return len(waiting), len(place(remaining, EXACT).assignments)


def without(snapshot: Snapshot, gone: Collection[str], priority: int | None = None) -> Snapshot:
    """Return the snapshot that a failure leaves, where only the pods that have to come back wait, all of one priority."""
    remaining = snapshot.copy()
    remaining.pods = [pod for pod in remaining.pods if pod.spec.nodeName or kube.is_terminal(pod)]
    edits_nodes.remove(remaining, gone)
    remaining.pods = [
        _change(pod, spec=_change(pod.spec, priority=0)) if not pod.spec.nodeName else pod
        for pod in remaining.pods
        if pod.spec.nodeName or kube.is_terminal(pod) or priority is None or (pod.spec.priority or 0) >= priority
    ]
    return remaining


def doubled(seed: int, kind: str) -> Snapshot:
    """Return a random cluster in which each node has a twin with the same pods; of the zones the same is true."""
    snapshot = running(seed, kind, nodes=2, pods=4)
    snapshot.nodes += [_twin_node(node) for node in snapshot.nodes]
    snapshot.pods += [_twin_pod(pod) for pod in snapshot.pods if pod.spec.nodeName and not pod.spec.volumes and not pod.spec.resourceClaims]
    return snapshot


def _twin_node(node: kube.Node) -> kube.Node:
    name = f"{node.metadata.name}-twin"
    labels = {key: f"{value}-twin" if key in (ZONE_KEY, tiny.RACK) else value for key, value in (node.metadata.labels or {}).items()}
    return _change(node, metadata=_change(node.metadata, name=name, labels={**labels, tiny.HOST: name}))


def _twin_pod(pod: kube.Pod) -> kube.Pod:
    metadata = _change(pod.metadata, name=f"{pod.metadata.name}-twin")
    return _change(pod, metadata=metadata, spec=_change(pod.spec, nodeName=f"{pod.spec.nodeName}-twin"))
