"""Which failures there are, which pods each takes, and which of these have to come back: the checker's own reading of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

import msgspec

from kubestow.checker.violation import is_mirror
from kubestow.models.documents.survival import Survival
from kubestow.models.edits import nodes as edits_nodes
from kubestow.models.kube import objects
from kubestow.models.snapshot.snapshot import Snapshot

#: What ``fail`` says for which label.
_KEYS: Final = {"zone": "topology.kubernetes.io/zone"}
_NODE: Final = "node"
_REPLACED: Final = frozenset({"ReplicaSet", "ReplicationController", "StatefulSet", "Job"})
_change: Final = msgspec.structs.replace


def domains(snapshot: Snapshot, fail: str) -> dict[str, list[str]]:
    """Return the nodes of each node or domain that can fail; nodes without the label do not."""
    found: dict[str, list[str]] = {}
    for node in snapshot.nodes:
        name = node.metadata.name or ""
        value = name if fail == _NODE else (node.metadata.labels or {}).get(_KEYS.get(fail, fail))
        if value is not None:
            found.setdefault(value, []).append(name)
    return found


def comes_back(pod: objects.Pod, priority: int | None) -> bool:
    """Return whether a pod that runs would have to find another node if its own failed: a controller makes it again, and it counts."""
    owner = objects.controller_of(pod)
    if owner is None or owner.kind not in _REPLACED or is_mirror(pod) or objects.is_terminating(pod) or objects.is_terminal(pod):
        return False
    return priority is None or (pod.spec.priority or 0) >= priority


def without(
    snapshot: Snapshot, gone: Collection[str], preempted: Collection[str], survival: Survival
) -> tuple[Snapshot, list[objects.Pod]]:
    """Return a snapshot as it is once the nodes have failed, with the pods that have to come back, which wait in it and no others do."""
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
    """Return the names of what fails, for a sentence."""
    return " and ".join(names)
