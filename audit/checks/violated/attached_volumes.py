"""Volumes that pods wait for: their claim is never bound, or they are attached to another node.

kube-scheduler itself places pods with a ReadWriteOnce claim on several nodes. Source:
pkg/scheduler/framework/plugins/volumebinding; pkg/controller/volume/attachdetach/reconciler
(isMultiAttachForbidden).
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np

from kubestow.audit.checks.violated.running_pods import FindingGroup, whose
from kubestow.audit.view.finding import Code, some
from kubestow.audit.view.usable_nodes import INDIFFERENT
from kubestow.audit.view.view import ClusterView
from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.cluster.storage.attachments import Holders, exclusive_claims, holders
from kubestow.models.cluster.storage.never_bound import never_bound
from kubestow.models.documents.findings.audit import Finding
from kubestow.models.snapshot.scope import Scope, select
from kubestow.solver import rules

NEVER_BOUND = Code(
    "KS116", "claim-never-bound", "error", "Pods with nodeName wait for a claim that is never bound",
    "kube-scheduler binds a WaitForFirstConsumer claim when it places a pod that uses it. It ignores pods with nodeName, so "
    "the claim stays Pending and the pods stay in ContainerCreating.",
    "Remove nodeName and select the node with nodeSelector or node affinity, or bind the claim to a volume manually.",
)  # fmt: skip
SEVERAL_NODES = Code(
    "KS117", "volume-on-several-nodes", "error", "Pods on several nodes use a volume that attaches to one node at a time",
    "The scheduler does not enforce ReadWriteOnce. The controller attaches the volume to one node only, and pods on other nodes "
    "wait with a Multi-Attach error until no pod on the first node uses it.",
    "Give each pod its own claim (volumeClaimTemplates of a StatefulSet), use ReadWriteMany, or keep the pods on one node by required "
    "pod affinity over kubernetes.io/hostname.",
)  # fmt: skip
HELD = Code(
    "KS118", "volume-held-elsewhere", "error", "Pending pods fit only on nodes that do not have their volume",
    "The volume attaches to one node at a time and is on another node. Once scheduled, the pod waits with a Multi-Attach "
    "error until the pods that use the volume there are gone.",
    "Free capacity on the node with the volume, delete the pods that use it there, or use ReadWriteMany.",
)  # fmt: skip
_PATH = "volumes"


def unbound(view: ClusterView) -> Iterator[Finding]:
    """Yield a finding for each workload and claim whose pods wait for a claim that is never bound."""
    found: dict[tuple[str, str, str], FindingGroup] = {}
    for i, claims in never_bound(view.snapshot).items():
        for claim in claims:
            group = found.setdefault((*whose(view, i), claim), FindingGroup())
            group.add([i], view.snapshot.pods[i].spec.nodeName or "")
    for (name, path, claim), group in found.items():
        storage = _class_of(view, claim)
        pods = view.keys(list(group.pods))
        yield NEVER_BOUND.found(
            name, f"claim {claim} of class {storage} waits for its first consumer, and {some(pods)} names node {some(list(group.places))}",
            field=f"{path}.nodeName", rule="VolumeBinding", pods=pods, nodes=list(group.places),
        )  # fmt: skip


def _class_of(view: ClusterView, key: str) -> str:
    spec = view.snapshot.persistent_volume_claims[key].spec
    return (spec.storageClassName or "") if spec is not None else ""


def attached(view: ClusterView) -> Iterator[Finding]:
    """Yield findings about single-node volumes whose pods run on several nodes, or fit only on other nodes."""
    volume_holders = holders(view.snapshot, view.running)
    for each in sorted(volume_holders.values(), key=lambda each: each.claim):
        if len(each.pods) > 1 and not _one_pod(view, each.claim):
            elsewhere = [i for node, pods in each.pods.items() if node != each.node for i in pods]
            keys = view.keys(sorted(i for pods in each.pods.values() for i in pods))
            yield SEVERAL_NODES.found(
                f"PersistentVolumeClaim {each.claim}",
                f"volume {each.volume} attaches to one node at a time; its pods are on {some(list(each.pods))}: while {each.node} has it, "
                f"{some(view.keys(sorted(elsewhere)))} waits",
                field="spec.accessModes", rule="MultiAttach", pods=keys, nodes=list(each.pods),
            )  # fmt: skip
    yield from _pending(view, volume_holders)


def _one_pod(view: ClusterView, key: str) -> bool:
    """Return True if a claim is ReadWriteOncePod, which KS111 covers."""
    spec = view.snapshot.persistent_volume_claims[key].spec
    return spec is not None and "ReadWriteOncePod" in (spec.accessModes or ())


def _pending(view: ClusterView, volume_holders: dict[str, Holders]) -> Iterator[Finding]:
    snapshot = view.snapshot
    wanted = {
        i: claims
        for i in select(snapshot).pending
        if (claims := exclusive_claims(snapshot.pods[i], snapshot)).keys() & volume_holders.keys()
    }
    if not wanted:
        return
    cluster = compile_cluster(
        snapshot, Scope(fixed=view.running, pending=sorted(wanted)), daemon_namespaces=view.exempt,
        policy=msgspec.structs.replace(view.policy, multipliers=INDIFFERENT),
    )  # fmt: skip
    active = rules.build(cluster)
    found: dict[tuple[str, str, str], FindingGroup] = {}
    for g, cls in enumerate(cluster.classes):
        accepted = ~np.logical_or.reduce([rule.rejects(g) for rule in active])
        nodes = [cluster.nodes.names[n] for n in np.flatnonzero(accepted).tolist()]
        for i in cls.pods:
            for volume in wanted[i]:
                if volume in volume_holders and nodes and volume_holders[volume].pods.keys().isdisjoint(nodes):
                    found.setdefault((*whose(view, i), volume), FindingGroup()).add([i], *nodes)
    for (name, path, volume), group in found.items():
        keys, nodes, there = view.keys(list(group.pods)), list(group.places), volume_holders[volume]
        users = view.keys(sorted(i for pods in there.pods.values() for i in pods))
        yield HELD.found(
            name, f"{some(keys)} can only go to {some(nodes)}, and volume {volume} of claim {there.claim} is on {there.node}, with "
            f"{some(users)}",
            field=f"{path}.{_PATH}", rule="MultiAttach", pods=keys, nodes=nodes,
        )  # fmt: skip
