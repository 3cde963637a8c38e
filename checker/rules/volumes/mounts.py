"""Volumes with the pods that mount them. Pods and nodes come and go.

A leaving pod takes its mounts along. A claim that became bound stays bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

from msgspec.structs import replace

from kubestow.checker.rules.volumes.state import VolumeState
from kubestow.models.kube import objects
from kubestow.models.kube.pod_spec import SELECTED_NODE
from kubestow.models.kube.storage_objects import PersistentVolumeClaim
from kubestow.models.snapshot.snapshot import Snapshot

#: Driver and handle of an attached volume.
Handle = tuple[str, str]


def claims(pod: objects.Pod) -> Iterator[tuple[str, bool]]:
    """Yield the keys (``namespace/name``) of the claims that a pod mounts, with True for generic ephemeral volumes."""
    namespace = pod.metadata.namespace or "default"
    for volume in pod.spec.volumes or ():
        if volume.persistentVolumeClaim is not None:
            yield f"{namespace}/{volume.persistentVolumeClaim.claimName}", False
        elif volume.ephemeral is not None:
            yield f"{namespace}/{pod.metadata.name or ''}-{volume.name or ''}", True


class Volumes(VolumeState):
    """Volumes and claims of a snapshot, with the pods that mount them now."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self._mounts: dict[str, dict[str, int]] = {}  # node -> claim -> pods
        self._returned: dict[str, PersistentVolumeClaim] = {}  # as they were

    @cached_property
    def _selected(self) -> dict[str, list[str]]:
        """The claims that are provisioned for each node."""
        found: dict[str, list[str]] = {}
        for key, claim in self._claims.items():
            if (selected := (claim.metadata.annotations or {}).get(SELECTED_NODE)) is not None:
                found.setdefault(selected, []).append(key)
        return found

    def give_back(self, node: str) -> None:
        """Remove the selected-node annotation from claims whose node leaves."""
        for key in self._selected.get(node, ()):
            if not self._returned:
                self._claims = dict(self._claims)  # the snapshot is not changed
            claim = self._returned[key] = self._claims[key]
            annotations = {k: v for k, v in (claim.metadata.annotations or {}).items() if k != SELECTED_NODE}
            self._claims[key] = replace(claim, metadata=replace(claim.metadata, annotations=annotations or None))

    def take_back(self) -> None:
        """Undo every :meth:`give_back`."""
        if self._returned:
            self._claims |= self._returned
            self._returned.clear()

    def mount(self, pod: objects.Pod, node: str) -> None:
        """Add a pod to a node without binding claims."""
        mounts, mounted = self._mounts.setdefault(node, {}), self._mounted.setdefault(node, set())
        for key, ephemeral in claims(pod):
            mounts[key] = mounts.get(key, 0) + 1
            mounted.add(key)
            if not ephemeral:
                self._users[key] = self._users.get(key, 0) + 1

    def unmount(self, pod: objects.Pod, node: str) -> None:
        """Undo :meth:`mount`."""
        mounts, mounted = self._mounts[node], self._mounted[node]
        for key, ephemeral in claims(pod):
            mounts[key] -= 1
            if not mounts[key]:
                del mounts[key]
                mounted.discard(key)
            if not ephemeral:
                self._users[key] -= 1

    def settle(self, pod: objects.Pod, node: objects.Node) -> set[str]:
        """Bind the pod's claims on this node; return the static volumes used for that."""
        assigned, _ = self._bind(pod, node)
        self._chosen.update(assigned)
        self._consumed.update(assigned.values())
        for key in self.open_claims(pod):
            self._first_node.setdefault(key, node.metadata.name or "")
        return set(assigned.values())

    def reset(self) -> bool:
        """Forget all bindings made during the replay. Return True if there were any."""
        changed = bool(self._chosen or self._consumed or self._first_node)
        for each in (self._chosen, self._consumed, self._first_node):
            each.clear()
        return changed

    def open_claims(self, pod: objects.Pod) -> list[str]:
        """Return the pod's claims that are not bound or assigned to a node yet."""
        found = []
        for key, _ in claims(pod):
            if key in self._claims and not self._volume_of(key) and key not in self._first_node:
                found.append(key)
        return found

    def stock(self, pod: objects.Pod) -> set[str]:
        """Return the storage classes whose free static volumes the pod's open claims may use."""
        found = set()
        for key in self.open_claims(pod):
            spec = self._claims[key].spec
            name = (spec.storageClassName or "") if spec else ""
            if self._free.get(name):
                found.add(name)
        return found

    def is_limited(self, node: str) -> bool:
        """Return True if the node limits the number of volumes of any driver."""
        return bool(self._limits.get(node))

    def handles(self, pod: objects.Pod, node: str) -> set[Handle]:
        """Return the volumes attached to a node for the pod."""
        return self._handles((key for key, _ in claims(pod)), node)

    def full(self, pod: objects.Pod, node: str, others: Iterable[objects.Pod]) -> str | None:
        """Return why the node may exceed a volume limit with the pod, or None.

        A pod is rejected if one of its volumes is new on the node and the total exceeds the limit. For each volume
        the worst case is that all others are present except those that already attach it.

        Args:
            pod: The pod.
            node: The node.
            others: Pods counted on the node that may also be away.
        """
        if not self.is_limited(node):
            return None
        there = [other for other in others if other.spec.volumes]
        found = self._limit_faults(pod, self._node(node))
        for handle in sorted(self.handles(pod, node)) if there and not found else ():
            away = [other for other in there if handle in self.handles(other, node)]
            for other in away:
                self.unmount(other, node)
            found = self._limit_faults(pod, self._node(node)) if away else []
            for other in away:
                self.mount(other, node)
            if found:
                break
        return found[0] if found else None

    @staticmethod
    def _node(name: str) -> objects.Node:
        """Return a node object with everything that limits read."""
        return objects.Node(objects.ObjectMeta(name=name))
