"""Claims of running pods that are unreachable, used by too many pods or unusable, and nodes with too many volumes.

Source: kube-scheduler plugins volumebinding, volumezone, volumerestrictions and nodevolumelimits.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kubestow.audit.checks.violated.running_pods import FindingGroup, Running, runs, whose
from kubestow.audit.view.finding import Code, some
from kubestow.models.cluster.volumes import VolumeClaim
from kubestow.models.documents.findings.audit import Finding
from kubestow.models.kube.pod_spec import named_claims
from kubestow.solver.rules import PLAN_FACES

REACH = Code(
    "KS109", "volume-out-of-reach", "error", "Running pods are on nodes that their volume's node affinity excludes",
    "The kubelet refuses to mount the volume there (nodeAffinity of the PersistentVolume). The pod cannot restart on this node, and "
    "may never have mounted its volume.",
    "Move the pod to a node that the volume allows, restore the node's labels, or correct the volume's nodeAffinity.",
)  # fmt: skip
ZONE = Code(
    "KS110", "volume-in-other-zone", "warning", "Running pods are in another zone or region than their volume's labels",
    "The scheduler would not place the pod here again (VolumeZone). If the labels are correct, the volume cannot be attached here.",
    "Correct the labels of the node or the PersistentVolume, or move the pod to the volume's zone.",
)  # fmt: skip
ONCE = Code(
    "KS111", "once-pod-claim-shared", "error", "A ReadWriteOncePod claim is used by several pods",
    "The claim guarantees a single writer. Two concurrent writers can corrupt the data. If the kubelet enforces the guarantee, "
    "the second pod waits.",
    "Delete all but one pod, and find out what bound the others without the scheduler. To share the volume, use ReadWriteMany.",
)  # fmt: skip
LIMIT = Code(
    "KS112", "volume-limit-exceeded", "error", "A node has more volumes of a driver than it can attach",
    "Volumes beyond the limit of the driver (CSINode) are not attached, so some of these pods wait now or after a restart.",
    "Move pods with volumes of the driver to other nodes, and find out what bound them without the scheduler.",
)  # fmt: skip
USELESS = Code(
    "KS113", "claim-unusable", "error", "Running pods use a claim that is missing, unbound, lost or being deleted",
    "The pods may still have their volume, but cannot restart on any node, because the scheduler and the kubelet wait for "
    "the claim.",
    "Restore or create the claim and its volume before the pods restart. If the claim was deleted on purpose, delete the pods.",
)  # fmt: skip
_PATH = "volumes"


def volumes(running: Running) -> Iterator[Finding]:
    """Yield findings about volumes: one per workload and claim, per claim, or per node and driver.

    If the snapshot has no claims or no volumes, they were not captured, so missing ones are not reported. The same
    holds for a namespace without claims, because mounted claims cannot disappear.
    """
    snapshot, view = running.snapshot, running.view
    users = [g for g, cls in enumerate(running.cluster.classes) if cls.claims]
    if users and not snapshot.persistent_volume_claims:
        view.not_checked.append("volumes of running pods: the snapshot holds no PersistentVolumeClaims")
        return
    if users and not snapshot.persistent_volumes:
        view.not_checked.append("where volumes of running pods can be reached: the snapshot holds no PersistentVolumes")
    yield from _claims(running, users)
    yield from _shared(running, users)
    yield from _limits(running, users)


def _claims(running: Running, users: list[int]) -> Iterator[Finding]:
    cluster, view, names = running.cluster, running.view, running.cluster.nodes.names
    binding = [rule(cluster) for rule, face in PLAN_FACES.items() if face.ties_to_data]
    found: dict[tuple[str, str, str, str], tuple[Code, str, FindingGroup]] = {}
    for g in users:
        cls = cluster.classes[g]
        claims = [cluster.volumes.claim(key) for key in cls.claims]
        named = frozenset(named_claims(cls.pod))
        unplaced = np.logical_or.reduce([rule.rejects(g) for rule in binding]) if any(claim.delayed for claim in claims) else None
        for n, pods in running.cells[g] if running.steady[g] else ():
            faults = ((claim, _broken(running, claim, n, named=claim.key in named)) for claim in claims)
            broken = [(claim, *fault) for claim, fault in faults if fault is not None]
            if not broken and unplaced is not None and unplaced[n]:
                broken = [(c, USELESS, "no volume remains for it in addition to the pod's other claims") for c in claims if c.delayed][:1]
            for claim, code, why in broken:
                for i in pods:
                    group = found.setdefault((*whose(view, i), code.code, claim.key), (code, why, FindingGroup()))[2]
                    group.add([i], names[n])
    for (name, path, _, claim_key), (code, why, group) in found.items():
        pods, nodes = list(group.pods), list(group.places)
        yield code.found(
            name, f"claim {claim_key}: {why}; {runs(view, pods)} on {some(nodes)}", field=f"{path}.{_PATH}",
            rule="VolumeZone" if code is ZONE else "VolumeBinding", pods=view.keys(pods), nodes=nodes,
        )  # fmt: skip


def _broken(running: Running, claim: VolumeClaim, n: int, *, named: bool) -> tuple[Code, str] | None:
    """Return the problem of a claim for pods on a node, or None. ``named``: the pods mount it by name, so VolumeZone checks it."""
    snapshot = running.snapshot
    known = snapshot.persistent_volume_claims.get(claim.key)
    if known is None:
        space = claim.key.partition("/")[0] + "/"
        return (USELESS, "there is no such claim") if any(key.startswith(space) for key in snapshot.persistent_volume_claims) else None
    if known.metadata.deletionTimestamp is not None:
        return USELESS, "the claim is being deleted"
    if known.status is not None and known.status.phase == "Lost":
        return USELESS, "the claim has lost its volume"
    volume = known.spec.volumeName if known.spec is not None else None
    if volume:
        if volume not in snapshot.persistent_volumes:
            return (USELESS, f"its volume {volume} does not exist") if snapshot.persistent_volumes else None
        if not claim.binding[n]:
            return REACH, f"the node affinity of volume {volume} excludes the node"
        if named and not claim.zone[n]:
            return ZONE, f"volume {volume} is labelled for another zone or region"
    elif not claim.binding[n] and (claim.delayed or snapshot.storage_classes):
        return USELESS, "it is unbound, and the node can reach no volume" if claim.delayed else "it is unbound"
    return None


def _shared(running: Running, users: list[int]) -> Iterator[Finding]:
    cluster, view = running.cluster, running.view
    by_claim: dict[str, list[int]] = {}
    for g in users:
        for key in dict.fromkeys(named_claims(cluster.classes[g].pod)):
            if cluster.volumes.claim(key).one_pod:
                by_claim.setdefault(key, []).extend(cluster.classes[g].pods)
    for key, pods in sorted(by_claim.items()):
        if len(pods) > 1 and any(running.is_steady(i) for i in pods):
            keys = view.keys(sorted(pods))
            yield ONCE.found(
                f"PersistentVolumeClaim {key}", f"{len(pods)} pods use it at a time: {some(keys)}", field="spec.accessModes",
                rule="VolumeRestrictions", pods=keys,
            )  # fmt: skip


def _limits(running: Running, users: list[int]) -> Iterator[Finding]:
    cluster, view = running.cluster, running.view
    attached: dict[tuple[int, str], dict[str, list[int]]] = {}
    for g in users:
        for claim in (cluster.volumes.claim(key) for key in cluster.classes[g].claims):
            if claim.driver and claim.handle:
                for n, pods in running.cells[g]:
                    if claim.counted is not None and not claim.counted[n]:
                        continue
                    attached.setdefault((n, claim.driver), {}).setdefault(claim.handle, []).extend(pods)
    for (n, driver), handles in sorted(attached.items()):
        name = cluster.nodes.names[n]
        csi = running.snapshot.csi_nodes.get(name)
        offered = [
            d.allocatable.count for d in (csi.spec.drivers if csi and csi.spec else None) or () if d.name == driver and d.allocatable
        ]
        limit = offered[-1] if offered else None
        if limit is not None and len(handles) > limit:
            keys = view.keys(np.unique(np.concatenate([np.array(pods) for pods in handles.values()])).tolist())
            yield LIMIT.found(
                f"Node {name}", f"{len(handles)} volumes of {driver}, it can attach {limit}: those of {some(keys)}",
                field="spec.drivers", rule="NodeVolumeLimits", pods=keys, nodes=[name],
            )  # fmt: skip
