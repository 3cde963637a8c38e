"""Which pods of a snapshot belong to which workload."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from models.kube import objects
from models.kube.selectors import Selector, selector_matches
from models.snapshot.snapshot import Snapshot
from models.workloads.view import controller

HASH: Final = "pod-template-hash"
#: The objects between a workload and its pods.
_CHILDREN: Final = {"Deployment": "ReplicaSet", "CronJob": "Job"}
_Key = tuple[str, str, str]


class OwnedPods:
    """Pods by what owns them. ``of`` and ``finished`` give indices into ``snapshot.pods``, ascending.

    Owner references count by kind and name: an object that was deleted and made again keeps its pods here. A dump may lack the
    ReplicaSets and Jobs in between, whose names then say whose they are (``NAME-<pod-template-hash>``, ``NAME-<scheduled minute>``).
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._pods = snapshot.pods
        self._living: dict[_Key, list[int]] = {}
        self._finished: dict[_Key, list[int]] = {}
        self._bare: dict[str, list[int]] = {}
        self._children: dict[_Key, dict[str, None]] = {}
        known: set[_Key] = set()
        for kind in _CHILDREN.values():
            for child in snapshot.workloads.get(kind, ()):
                owner, namespace = controller(child), child.metadata.namespace or "default"
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
            label = (pod.metadata.labels or {}).get(HASH)
            if label and owner.name.endswith(f"-{label}"):
                self._child("Deployment", namespace, owner.name.removesuffix(f"-{label}"), owner.name)
        elif made := re.fullmatch(r"(.+)-\d{8,10}", owner.name, re.ASCII):
            self._child("CronJob", namespace, made[1], owner.name)

    def children(self, kind: str, namespace: str, name: str) -> list[str]:
        """Names of the ReplicaSets of a Deployment or the Jobs of a CronJob."""
        return list(self._children.get((kind, namespace, name), ()))

    def of(self, kind: str, namespace: str, name: str, adopts: Selector | None = None) -> list[int]:
        """The pods of a workload that are neither finished nor being deleted; ``adopts``: its selector, for pods without a controller."""
        found = self._all(self._living, kind, namespace, name)
        if kind == "PodTemplate":  # nothing controls these: they are known by how their names were made
            found += [i for i in self._bare.get(namespace, ()) if self._pods[i].metadata.generateName == f"{name}-"]
        elif adopts:
            found += [i for i in self._bare.get(namespace, ()) if selector_matches(adopts, self._pods[i].metadata.labels or {})]
        return sorted(found)

    def finished(self, kind: str, namespace: str, name: str) -> list[int]:
        """The pods of a workload that succeeded or failed."""
        return sorted(self._all(self._finished, kind, namespace, name))

    def _all(self, where: Mapping[_Key, Iterable[int]], kind: str, namespace: str, name: str) -> list[int]:
        found = list(where.get((kind, namespace, name), ()))
        for child in self._children.get((kind, namespace, name), ()):
            found += where.get((_CHILDREN.get(kind, ""), namespace, child), ())
        return found


def named(snapshot: Snapshot, kind: str, namespace: str, name: str) -> Any | None:
    """The object of a workload, where the snapshot has it."""
    for obj in snapshot.workloads.get(kind, ()):
        if obj.metadata.name == name and (obj.metadata.namespace or "default") == namespace:
            return obj
    return None
