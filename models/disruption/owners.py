"""Whose pods they are, as an operator names it: the workload that would be edited, not the ReplicaSet in between."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from models.kube.objects import Pod, controller_of, is_terminal, pod_key
from models.kube.workload_objects import ReplicaSet
from models.snapshot.snapshot import Snapshot

_HASH = "pod-template-hash"
_encoder = msgspec.json.Encoder(order="deterministic")


class Owners:
    """The owners of a snapshot's pods, as texts: ``Kind namespace/name`` of a workload, ``Pod namespace/name`` of a bare pod, or
    ``Pod ns/a,ns/b`` of equal bare pods that are looked at together."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self._deployments: dict[str, str] = {}
        for obj in snapshot.workloads.get("ReplicaSet", ()):
            if isinstance(obj, ReplicaSet):
                for reference in obj.metadata.ownerReferences or ():
                    if reference.controller and reference.kind == "Deployment":
                        self._deployments[f"{obj.metadata.namespace or 'default'}/{obj.metadata.name}"] = reference.name

    def of(self, pod: Pod) -> str:
        """The owner of one pod. A ReplicaSet stands for its Deployment: by its own owner reference, else by the pod-template-hash."""
        owner = controller_of(pod)
        if owner is None:
            return f"Pod {pod_key(pod)}"
        key = f"{pod.metadata.namespace or 'default'}/{owner.name}"
        if owner.kind == "ReplicaSet":
            suffix = (pod.metadata.labels or {}).get(_HASH)
            name = self._deployments.get(key)
            if name is None and suffix and owner.name.endswith(f"-{suffix}"):
                name = owner.name.removesuffix(f"-{suffix}")
            if name is not None:
                return f"Deployment {pod.metadata.namespace or 'default'}/{name}"
        return f"{owner.kind} {key}"

    def group(self, pods: Iterable[int]) -> dict[str, list[int]]:
        """Indices into ``snapshot.pods`` by owner, those of a workload by ordinal (what a controller would remove last comes first);
        bare pods of equal labels and spec are one owner."""
        found: dict[str, list[int]] = {}
        bare: dict[bytes, list[int]] = {}
        for i in pods:
            pod = self.snapshot.pods[i]
            if controller_of(pod) is None:
                spec = msgspec.structs.replace(pod.spec, nodeName=None)
                bare.setdefault(_encoder.encode((pod.metadata.namespace, pod.metadata.labels, spec)), []).append(i)
            else:
                found.setdefault(self.of(pod), []).append(i)
        for members in bare.values():
            found["Pod " + ",".join(pod_key(self.snapshot.pods[i]) for i in members)] = members
        return {owner: sorted(members, key=self._ordinal) for owner, members in found.items()}

    def _ordinal(self, i: int) -> tuple[int, int]:
        number = re.search(r"-(\d+)\Z", self.snapshot.pods[i].metadata.name or "")
        owner = controller_of(self.snapshot.pods[i])
        ordered = number is not None and owner is not None and owner.kind in ("StatefulSet", "Job")
        return (int(number[1]) if ordered and number is not None else 0, i)

    def members(self, owner: str) -> list[int]:
        """All pods of an owner that are not over, those on nodes included."""
        kind, _, names = owner.partition(" ")
        if kind == "Pod":
            wanted = set(names.split(","))
            return [i for i, pod in enumerate(self.snapshot.pods) if pod_key(pod) in wanted]
        return [
            i
            for i, pod in enumerate(self.snapshot.pods)
            if controller_of(pod) is not None and not is_terminal(pod) and self.of(pod) == owner
        ]


def name(owner: str) -> str:
    """How sentences call an owner: ``namespace/name``."""
    kind, _, names = owner.partition(" ")
    first, *more = names.split(",") if kind == "Pod" else [names]
    return f"{first} and {len(more)} more" if more else first
