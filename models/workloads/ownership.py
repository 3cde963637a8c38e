"""The pods of each workload, and the workload of each pod.

A pod's workload is the object that an operator would edit, not the ReplicaSet in between.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from kubestow.models.kube import kinds, objects
from kubestow.models.kube.selectors import Selector, selector_matches
from kubestow.models.kube.workload_objects import PodSet, PodSetSpec, ReplicaSet
from kubestow.models.snapshot.snapshot import Snapshot

HASH: Final = "pod-template-hash"
#: The objects between a workload and its pods.
_CHILDREN: Final = {"Deployment": "ReplicaSet", "CronJob": "Job"}
#: Placeholders for characters that controllers choose, with their patterns.
_CHOSEN: Final = {"{hash}": "[a-z0-9]+", "{random}": "[a-z0-9]{5,8}"}
_Key = tuple[str, str, str]
_encoder: Final = msgspec.json.Encoder(order="deterministic")


def deployment_by_hash(owner: objects.OwnerReference, pod: objects.Pod) -> str | None:
    """Return the Deployment of a pod's ReplicaSet ``NAME-<pod-template-hash>``; None if the names do not match."""
    label = (pod.metadata.labels or {}).get(HASH)
    return owner.name.removesuffix(f"-{label}") if label and owner.name.endswith(f"-{label}") else None


class OwnedPods:
    """Pods by owner. ``of`` and ``finished`` return ascending indices into ``snapshot.pods``.

    Owner references count by kind and name, so an object that was deleted and recreated keeps its pods. A dump
    may lack the ReplicaSets and Jobs in between. Their names then identify the owner
    (``NAME-<pod-template-hash>``, ``NAME-<scheduled minute>``).
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._pods = snapshot.pods
        self._living: dict[_Key, list[int]] = {}
        self._finished: dict[_Key, list[int]] = {}
        self._bare: dict[str, list[int]] = {}
        self._children: dict[_Key, dict[str, None]] = {}
        self._sets = pod_sets(snapshot)
        known: set[_Key] = set()
        for kind in _CHILDREN.values():
            for child in snapshot.workloads.get(kind, ()):
                owner, namespace = objects.controller_of(child), child.metadata.namespace or "default"
                if owner is not None:
                    known.add((kind, namespace, child.metadata.name))
                    self._child(owner.kind, namespace, owner.name, child.metadata.name)
        for i, pod in enumerate(snapshot.pods):
            owner, namespace = objects.controller_of(pod), pod.metadata.namespace or "default"
            if objects.is_terminal(pod):
                if owner is not None:
                    self._finished.setdefault((owner.kind, namespace, owner.name), []).append(i)
            elif not objects.is_terminating(pod):
                if owner is None:
                    self._bare.setdefault(namespace, []).append(i)
                else:
                    self._living.setdefault((owner.kind, namespace, owner.name), []).append(i)
            if owner is not None and owner.kind in _CHILDREN.values() and (owner.kind, namespace, owner.name) not in known:
                self._guess(owner, namespace, pod)

    def _child(self, kind: str, namespace: str, name: str, child: str) -> None:
        self._children.setdefault((kind, namespace, name), {})[child] = None

    def _guess(self, owner: objects.OwnerReference, namespace: str, pod: objects.Pod) -> None:
        if owner.kind == "ReplicaSet":
            deployment = deployment_by_hash(owner, pod)
            if deployment is not None:
                self._child("Deployment", namespace, deployment, owner.name)
        elif made := re.fullmatch(r"(.+)-\d{8,10}", owner.name, re.ASCII):
            self._child("CronJob", namespace, made[1], owner.name)

    def children(self, kind: str, namespace: str, name: str) -> list[str]:
        """Return the names of the ReplicaSets of a Deployment or the Jobs of a CronJob."""
        return list(self._children.get((kind, namespace, name), ()))

    def of(self, kind: str, namespace: str, name: str, adopts: Selector | None = None) -> list[int]:
        """Return the indices of a workload's pods that are neither finished nor being deleted, ascending.

        Args:
            adopts: Selector of the workload. Pods without a controller that it selects count, too.
        """
        indices = self._all(self._living, kind, namespace, name)
        if kind == "PodTemplate":  # nothing controls these pods; their generated names identify them
            indices += [i for i in self._bare.get(namespace, ()) if self._pods[i].metadata.generateName == f"{name}-"]
        elif adopts:
            indices += [i for i in self._bare.get(namespace, ()) if selector_matches(adopts, self._pods[i].metadata.labels or {})]
        return sorted(indices)

    def finished(self, kind: str, namespace: str, name: str) -> list[int]:
        """Return the indices of a workload's pods that succeeded or failed."""
        return sorted(self._all(self._finished, kind, namespace, name))

    def _all(self, where: Mapping[_Key, Iterable[int]], kind: str, namespace: str, name: str) -> list[int]:
        pod_set = self._sets.get((kind, namespace, name))
        if pod_set is not None:
            return self._of_set(pod_set, namespace, where)
        indices = list(where.get((kind, namespace, name), ()))
        for child in self._children.get((kind, namespace, name), ()):
            indices += where.get((_CHILDREN.get(kind, ""), namespace, child), ())
        return indices

    def _of_set(self, spec: PodSetSpec, namespace: str, where: Mapping[_Key, Iterable[int]]) -> list[int]:
        """Return the pods of a pod set: they have its controllers and the labels that its pods share."""
        labels = shared_labels(spec)
        return [
            i
            for owner in _owners(spec, namespace, where)
            for i in where.get(owner, ())
            if labels.items() <= (self._pods[i].metadata.labels or {}).items()
        ]


def _chosen(pattern: str) -> bool:
    return any(part in pattern for part in _CHOSEN)


def shared_labels(spec: PodSetSpec) -> dict[str, str]:
    """Return the labels in addition to the template's that all pods of a pod set have, with known values."""
    varying = spec.varying
    return {key: value for key, value in (spec.labels or {}).items() if key not in varying and not _chosen(value)}


def owner_names(spec: PodSetSpec) -> re.Pattern[str]:
    """Return the pattern of the names of the controllers of a pod set's pods."""
    parts = re.split(r"(\{[a-z]+\})", spec.owner.name if spec.owner is not None else "")
    return re.compile("".join(_CHOSEN.get(part, "[0-9]+") if part.startswith("{") else re.escape(part) for part in parts))


def _owners(spec: PodSetSpec, namespace: str, where: Mapping[_Key, Iterable[int]]) -> Iterable[_Key]:
    """Return the controllers of the pods of a pod set."""
    owner = spec.owner
    if owner is None:
        return ()
    if _chosen(owner.name):
        name = owner_names(spec)
        return [key for key in where if key[:2] == (owner.kind, namespace) and name.fullmatch(key[2])]
    names = dict.fromkeys(member.owner.name for n in range(0, spec.replicas, spec.size) if (member := spec.member(n)).owner is not None)
    return [(owner.kind, namespace, each) for each in names] if "{" in owner.name else [(owner.kind, namespace, owner.name)]


def pod_sets(snapshot: Snapshot) -> dict[_Key, PodSetSpec]:
    """Return the pod sets of a snapshot by kind, namespace and name."""
    return {
        (obj.kind, obj.metadata.namespace or "default", obj.metadata.name): obj.spec
        for kind, listed in snapshot.workloads.items()
        if kind not in kinds.KINDS
        for obj in listed
        if obj.spec is not None
    }


def outer_sets(snapshot: Snapshot) -> list[PodSet]:
    """Return the pod sets of the objects that no other custom workload of the snapshot makes: a TrainJob's, not its JobSet's."""
    found = [obj for kind, listed in snapshot.workloads.items() if kind not in kinds.KINDS for obj in listed if obj.spec is not None]
    makers = {(obj.spec.kind, obj.metadata.namespace or "default", obj.spec.object) for obj in found}
    owners = ((obj, objects.controller_of(obj)) for obj in found)
    return [obj for obj, owner in owners if owner is None or (owner.kind, obj.metadata.namespace or "default", owner.name) not in makers]


def pods_of_sets(snapshot: Snapshot) -> set[int]:
    """Return the indices of the pods of custom workloads that are neither finished nor being deleted."""
    sets = pod_sets(snapshot)
    owned = OwnedPods(snapshot) if sets else None
    return set() if owned is None else {i for key in sets for i in owned.of(*key)}


def given_as(manifests: Snapshot, kind: str, namespace: str, name: str) -> tuple[str, str]:
    """Return kind and name of the object in the manifests. They differ from the workload's for a pod set."""
    obj = named(manifests, kind, namespace, name) if kind not in kinds.KINDS else None
    return (kind, name) if obj is None or obj.spec is None else (obj.spec.kind, obj.spec.object)


def made_by_custom(snapshot: Snapshot, owner: objects.OwnerReference, obj: Any) -> bool:
    """Return True if an object's owner is a custom workload of the snapshot, or the object is itself one that any workload owns."""
    namespace = obj.metadata.namespace or "default"
    if isinstance(obj, PodSet) and named(snapshot, owner.kind, namespace, owner.name) is not None:
        return True
    makers = ((spec.kind, space, spec.object) for (_, space, _), spec in pod_sets(snapshot).items())
    return (owner.kind, namespace, owner.name) in makers


def named(snapshot: Snapshot, kind: str, namespace: str, name: str) -> Any | None:
    """Return the object of a workload; None if the snapshot lacks it."""
    for obj in snapshot.workloads.get(kind, ()):
        if obj.metadata.name == name and (obj.metadata.namespace or "default") == namespace:
            return obj
    return None


class PodOwners:
    """The owners of a snapshot's pods as text.

    These are ``Kind namespace/name`` for a workload, ``Pod namespace/name`` for a bare pod, and ``Pod
    ns/a,ns/b`` for a group of equal bare pods.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self._deployments: dict[str, str] = {}
        self._of_sets: dict[str, str] = {}
        sets = outer_sets(snapshot)
        owned = OwnedPods(snapshot) if sets else None
        for each in sets if owned is not None else ():
            assert owned is not None
            key = each.kind, each.metadata.namespace or "default", each.metadata.name or ""
            pods = (*owned.of(*key), *owned.finished(*key))
            self._of_sets |= {objects.pod_key(snapshot.pods[i]): f"{key[0]} {key[1]}/{key[2]}" for i in pods}
        for obj in snapshot.workloads.get("ReplicaSet", ()):
            if isinstance(obj, ReplicaSet):
                for reference in obj.metadata.ownerReferences or ():
                    if reference.controller and reference.kind == "Deployment":
                        self._deployments[f"{obj.metadata.namespace or 'default'}/{obj.metadata.name}"] = reference.name

    def of(self, pod: objects.Pod) -> str:
        """Return the owner of one pod. For a ReplicaSet this is its Deployment, for a custom workload its pod set.

        The Deployment is known by the ReplicaSet's owner reference, or else by the pod-template-hash.
        """
        owner = objects.controller_of(pod)
        if self._of_sets and (of_set := self._of_sets.get(objects.pod_key(pod))) is not None:
            return of_set
        if owner is None:
            return f"Pod {objects.pod_key(pod)}"
        key = f"{pod.metadata.namespace or 'default'}/{owner.name}"
        if owner.kind == "ReplicaSet":
            name = self._deployments.get(key)
            if name is None:
                name = deployment_by_hash(owner, pod)
            if name is not None:
                return f"Deployment {pod.metadata.namespace or 'default'}/{name}"
        return f"{owner.kind} {key}"

    def group(self, pods: Iterable[int]) -> dict[str, list[int]]:
        """Return pods by owner, as indices into ``snapshot.pods``.

        Pods of a workload are sorted by ordinal; a controller would remove the last ones first. Bare pods with
        equal labels and spec have one owner.
        """
        groups: dict[str, list[int]] = {}
        bare: dict[bytes, list[int]] = {}
        for i in pods:
            pod = self.snapshot.pods[i]
            if objects.controller_of(pod) is None:
                spec = msgspec.structs.replace(pod.spec, nodeName=None)
                bare.setdefault(_encoder.encode((pod.metadata.namespace, pod.metadata.labels, spec)), []).append(i)
            else:
                groups.setdefault(self.of(pod), []).append(i)
        for members in bare.values():
            groups["Pod " + ",".join(objects.pod_key(self.snapshot.pods[i]) for i in members)] = members
        return {owner: sorted(members, key=self._ordinal) for owner, members in groups.items()}

    def _ordinal(self, i: int) -> tuple[int, int]:
        number = re.search(r"-(\d+)\Z", self.snapshot.pods[i].metadata.name or "")
        owner = objects.controller_of(self.snapshot.pods[i])
        ordered = number is not None and owner is not None and owner.kind in ("StatefulSet", "Job")
        return (int(number[1]) if ordered and number is not None else 0, i)

    def members(self, owner: str) -> list[int]:
        """Return all pods of an owner that are not finished, bound or not."""
        kind, _, names = owner.partition(" ")
        if kind == "Pod":
            wanted = set(names.split(","))
            return [i for i, pod in enumerate(self.snapshot.pods) if objects.pod_key(pod) in wanted]
        return [
            i
            for i, pod in enumerate(self.snapshot.pods)
            if objects.controller_of(pod) is not None and not objects.is_terminal(pod) and self.of(pod) == owner
        ]


def name(owner: str) -> str:
    """Return the name of an owner in sentences: ``namespace/name``."""
    kind, _, names = owner.partition(" ")
    first, *more = names.split(",") if kind == "Pod" else [names]
    return f"{first} and {len(more)} more" if more else first
