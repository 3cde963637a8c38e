"""The checker's own reading of failures: the nodes that fail together, the pods lost, and the pods that must be rescheduled."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

import msgspec

from kubestow.checker.violation import is_mirror
from kubestow.models.custom_workloads.table import recreating
from kubestow.models.documents.survival import Survival
from kubestow.models.edits import nodes as edits_nodes
from kubestow.models.kube import objects
from kubestow.models.snapshot.snapshot import Snapshot

#: Label key for each short name that ``fail`` accepts.
_KEYS: Final = {"zone": "topology.kubernetes.io/zone"}
_NODE: Final = "node"
_REPLACED: Final = frozenset({"ReplicaSet", "ReplicationController", "StatefulSet", "Job"})
_change: Final = msgspec.structs.replace


def domains(snapshot: Snapshot, fail: str) -> dict[str, list[str]]:
    """Return the names of the nodes in each domain that can fail. Nodes without the label are not in any domain.

    Args:
        fail: ``node``, ``zone``, or a label key whose values are the domains.
    """
    found: dict[str, list[str]] = {}
    for node in snapshot.nodes:
        name = node.metadata.name or ""
        value = name if fail == _NODE else (node.metadata.labels or {}).get(_KEYS.get(fail, fail))
        if value is not None:
            found.setdefault(value, []).append(name)
    return found


def comes_back(pod: objects.Pod, priority: int | None) -> bool:
    """Return True if a running pod must be rescheduled when its node fails.

    That is so if a controller recreates it and its priority reaches the threshold ``priority``.
    """
    owner = objects.controller_of(pod)
    if owner is None or is_mirror(pod) or objects.is_terminating(pod) or objects.is_terminal(pod):
        return False
    if owner.kind not in _REPLACED and not recreating(owner):
        return False
    return priority is None or (pod.spec.priority or 0) >= priority


def without(
    snapshot: Snapshot, gone: Collection[str], preempted: Collection[str], survival: Survival
) -> tuple[Snapshot, list[objects.Pod]]:
    """Return the snapshot after a failure, and the pods to be rescheduled. No other pods are pending in it.

    Args:
        snapshot: The snapshot before the failure.
        gone: Nodes that fail.
        preempted: Keys of pods removed by preemption.
        survival: The document; its priority threshold decides which pods count.
    """
    edited = snapshot.copy()
    edited.pods = [
        pod for pod in snapshot.pods
        if (pod.spec.nodeName or objects.is_terminal(pod)) and objects.pod_key(pod) not in preempted
    ]  # fmt: skip
    edits_nodes.remove(edited, gone)
    back = [pod for pod in edited.pods if not pod.spec.nodeName and not objects.is_terminal(pod)]
    wanted = [pod for pod in back if survival.priority is None or (pod.spec.priority or 0) >= survival.priority]
    kept = {id(pod) for pod in wanted}
    left_out = {id(pod) for pod in back} - kept
    edited.pods = [pod for pod in edited.pods if id(pod) not in left_out]
    edited.to_create = []
    return edited, wanted


def nodes_of(failed: Iterable[str], among: dict[str, list[str]]) -> list[str]:
    """Return the nodes of domains that fail at once."""
    return [name for domain in failed for name in among.get(domain, ())]


def listed(names: Sequence[str]) -> str:
    """Join names for a sentence."""
    return " and ".join(names)
