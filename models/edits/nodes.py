"""Adding and removing nodes of a snapshot, with the pods that come and go with them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from kubestow.models.kube import device_objects, objects, topology_objects
from kubestow.models.kube.lenient_decode import some
from kubestow.models.kube.pod_spec import SELECTED_NODE
from kubestow.models.snapshot.scope import is_mirror, is_replicated
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.models.workloads.daemon_sets import resident, settled, target
from kubestow.models.workloads.template import PodNames

HOSTNAME: Final = "kubernetes.io/hostname"
#: Taints by which the control plane or an autoscaler marks a node's current state.
STATE_TAINTS: Final = frozenset(
    {
        *(
            f"node.kubernetes.io/{state}"
            for state in (
                "not-ready", "unreachable", "unschedulable", "network-unavailable", "memory-pressure", "disk-pressure", "pid-pressure",
                "out-of-service",
            )
        ),
        "node.cloudprovider.kubernetes.io/uninitialized",
        "node.cloudprovider.kubernetes.io/shutdown",
        "ToBeDeletedByClusterAutoscaler",
        "DeletionCandidateOfClusterAutoscaler",
    }
)  # fmt: skip
LOCATION_LABELS: Final = frozenset(
    f"{prefix}/{level}" for prefix in ("topology.kubernetes.io", "failure-domain.beta.kubernetes.io") for level in ("zone", "region")
)
#: Labels that identify a node and its location.
IDENTITY_LABELS: Final = LOCATION_LABELS | {HOSTNAME}
_change = msgspec.structs.replace


def remove(snapshot: Snapshot, gone: Collection[str], *, rehouse: bool = False) -> None:
    """Remove nodes from a snapshot (changed; pass a copy).

    Pods of replicating controllers wait again. Their other pods vanish, with a warning if nothing would replace
    them.

    Args:
        rehouse: Let these pods wait again, too, except DaemonSets' pods, static pods, and pods being deleted.
    """
    snapshot.nodes = [node for node in snapshot.nodes if node.metadata.name not in gone]
    for listed in (snapshot.csi_nodes, snapshot.node_topologies):
        for name in gone:
            listed.pop(name, None)
    snapshot.resource_slices = {name: s for name, s in snapshot.resource_slices.items() if s.spec.nodeName not in gone}
    kept: list[objects.Pod] = []
    lost: list[str] = []
    stopped: list[objects.Pod] = []
    for pod in snapshot.pods:
        if pod.spec.nodeName and pod.spec.nodeName not in gone:  # most pods
            kept.append(_forgetting(pod, gone))
            continue
        owner = objects.controller_of(pod)
        daemon = owner is not None and owner.kind == "DaemonSet"
        at = target(pod) if daemon else pod.spec.nodeName
        if at not in gone or (objects.is_terminal(pod) and not daemon):  # a Job counts its finished pods
            kept.append(_forgetting(pod, gone))
            continue
        stopped.append(pod)
        if objects.is_terminating(pod) or daemon or is_mirror(pod):
            continue
        if rehouse or is_replicated(pod):
            claims = pod.status.resourceClaimStatuses if pod.status is not None else None
            status = objects.PodStatus(resourceClaimStatuses=claims) if claims else None
            kept.append(_change(pod, spec=_change(pod.spec, nodeName=None), status=status))
        else:
            lost.append(objects.pod_key(pod))
    snapshot.pods = kept
    _release(snapshot, stopped)
    if lost:
        what = "pods that no controller replaces go" if len(lost) > 1 else "pod that no controller replaces goes"
        snapshot.warnings.append(f"{len(lost)} {what} with the removed nodes: {some(lost)}")
    for key, claim in snapshot.persistent_volume_claims.items():
        annotations = claim.metadata.annotations or {}
        if annotations.get(SELECTED_NODE) in gone:  # the provisioner returns it to the scheduler
            others = {k: v for k, v in annotations.items() if k != SELECTED_NODE} or None
            snapshot.persistent_volume_claims[key] = _change(claim, metadata=_change(claim.metadata, annotations=others))


def _release(snapshot: Snapshot, stopped: Collection[objects.Pod]) -> None:
    """Deallocate the pods' own claims for devices. Their successors get equal claims."""
    for key in device_objects.made_for(snapshot.resource_claims, (pod for pod in stopped if pod.spec.resourceClaims)):
        snapshot.resource_claims[key] = _change(snapshot.resource_claims[key], status=None)


def _forgetting(pod: objects.Pod, gone: Collection[str]) -> objects.Pod:
    if pod.status is None or pod.status.nominatedNodeName not in gone:
        return pod
    return _change(pod, status=_change(pod.status, nominatedNodeName=None))


def add(
    snapshot: Snapshot, original: Snapshot, like: objects.Node, count: int, labels: Mapping[str, str] = MappingProxyType({})
) -> list[str]:
    """Add ``count`` clones of a node of ``original`` to a snapshot (changed; pass a copy), and return their names.

    They run only pods that every such node runs: those of DaemonSets, and static ones.

    Args:
        labels: Labels of the clones that differ from those of the node.
    """
    old = like.metadata.name or ""
    used = {node.metadata.name for node in snapshot.nodes} | {node.metadata.name for node in original.nodes}
    cloning = Cloning(snapshot, original, {old})
    made = list(itertools.islice((name for number in itertools.count(1) if (name := f"{old}-added-{number}") not in used), count))
    for name in made:
        cloning.clone(like, name, lambda node: _labelled(node, labels))
    return made


def _labelled(node: objects.Node, labels: Mapping[str, str]) -> objects.Node:
    """Return a node with some labels replaced."""
    return _change(node, metadata=_change(node.metadata, labels={**(node.metadata.labels or {}), **labels})) if labels else node


class Cloning:
    """Clones of nodes of ``original``, added to a snapshot (changed; pass a copy)."""

    def __init__(self, snapshot: Snapshot, original: Snapshot, likes: Collection[str]) -> None:
        """Index the pods and devices of the nodes that may be cloned, ``likes``."""
        self._snapshot, self._original = snapshot, original
        self._names = PodNames({objects.pod_key(pod) for pod in snapshot.pods})
        self._residents: dict[str, list[objects.Pod]] = {}
        for pod in original.pods:
            at = pod.spec.nodeName
            if at and at in likes and resident(pod):
                self._residents.setdefault(at, []).append(pod)
        self._slices: dict[str, list[device_objects.ResourceSlice]] = {}
        for resource_slice in original.resource_slices.values():
            if resource_slice.spec.nodeName:
                self._slices.setdefault(resource_slice.spec.nodeName, []).append(resource_slice)

    def clone(
        self,
        like: objects.Node,
        name: str,
        change: Callable[[objects.Node], objects.Node] = lambda node: node,
        runs: Callable[[objects.Pod, objects.Node], bool] = lambda pod, node: True,
    ) -> None:
        """Add a clone of a node under an unused name.

        Args:
            change: Returns the changed clone.
            runs: Returns True if a DaemonSet's or static pod would run on the changed clone.
        """
        snapshot, original, old = self._snapshot, self._original, like.metadata.name or ""
        node = change(_clone(like, name))
        snapshot.nodes.append(node)
        if old in original.csi_nodes:
            csi = original.csi_nodes[old]
            snapshot.csi_nodes[name] = _change(csi, metadata=_change(csi.metadata, name=name, uid=None))
        if old in original.node_topologies:
            snapshot.node_topologies[name] = _topology(original.node_topologies[old], name)
        for resource_slice in self._slices.get(old, ()):
            snapshot.resource_slices[_renamed(resource_slice.metadata.name or "", old, name)] = _slice(resource_slice, old, name)
        residents = [pod for pod in self._residents.get(old, ()) if runs(pod, node)]
        snapshot.pods += [settled(pod, old, name, self._names.suffixed) for pod in residents]


def _clone(like: objects.Node, name: str) -> objects.Node:
    """Return a node as it would join: schedulable, healthy, and without images.

    Labels whose value is the node's own name (topologies of one node) get the new name. Labels of zone and
    region keep their value, because a cluster may name a node like its zone.
    """
    old = like.metadata.name
    labels = {key: name if value == old and key not in LOCATION_LABELS else value for key, value in (like.metadata.labels or {}).items()}
    metadata = objects.ObjectMeta(name, labels={**labels, HOSTNAME: name}, annotations=like.metadata.annotations)
    taints = [taint for taint in (like.spec.taints if like.spec else None) or () if taint.key not in STATE_TAINTS]
    status = _change(like.status, images=None) if like.status is not None else None
    return objects.Node(metadata, objects.NodeSpec(taints=taints or None), status)


def _topology(like: topology_objects.NodeResourceTopology, name: str) -> topology_objects.NodeResourceTopology:
    """Return the topology with all of each zone available: pods of the other node do not run here."""
    zones = [
        _change(zone, resources=[_change(r, available=r.allocatable or r.capacity) for r in zone.resources or ()] or None)
        for zone in like.zones or ()
    ]
    return _change(like, metadata=_change(like.metadata, name=name, uid=None), zones=zones or None)


def _renamed(text: str, old: str, name: str) -> str:
    return text.replace(old, name) if old in text else f"{text}-{name}"


def _slice(like: device_objects.ResourceSlice, old: str, name: str) -> device_objects.ResourceSlice:
    """Return the slice with equal devices, in a pool of the clone's own."""
    pool = _change(like.spec.pool, name=_renamed(like.spec.pool.name, old, name))
    metadata = objects.ObjectMeta(_renamed(like.metadata.name or "", old, name), labels=like.metadata.labels)
    return _change(like, metadata=metadata, spec=_change(like.spec, nodeName=name, pool=pool))
