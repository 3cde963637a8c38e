"""Volumes for the checker of plans: as for placements, and pods can go away again.

Pods that leave take their mounts along; a claim that became bound on the way stays bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kubestow.checker.rules.volumes import VolumeState
from kubestow.models.kube import objects
from kubestow.models.snapshot.snapshot import Snapshot

#: Driver and handle of an attached volume.
Handle = tuple[str, str]


def claims(pod: objects.Pod) -> Iterator[tuple[str, bool]]:
    """Keys (``namespace/name``) of the claims that a pod mounts, and whether each is of a generic ephemeral volume."""
    namespace = pod.metadata.namespace or "default"
    for volume in pod.spec.volumes or ():
        if volume.persistentVolumeClaim is not None:
            yield f"{namespace}/{volume.persistentVolumeClaim.claimName}", False
        elif volume.ephemeral is not None:
            yield f"{namespace}/{pod.metadata.name or ''}-{volume.name or ''}", True


class Volumes(VolumeState):
    """Volumes and claims of a snapshot, and who mounts them now."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self._mounts: dict[str, dict[str, int]] = {}  # node -> claim -> pods

    def mount(self, pod: objects.Pod, node: str) -> None:
        """The pod is on the node, too. Binds nothing."""
        mounts, mounted = self._mounts.setdefault(node, {}), self._mounted.setdefault(node, set())
        for key, ephemeral in claims(pod):
            mounts[key] = mounts.get(key, 0) + 1
            mounted.add(key)
            if not ephemeral:
                self._users[key] = self._users.get(key, 0) + 1

    def unmount(self, pod: objects.Pod, node: str) -> None:
        """The opposite of :meth:`mount`."""
        mounts, mounted = self._mounts[node], self._mounted[node]
        for key, ephemeral in claims(pod):
            mounts[key] -= 1
            if not mounts[key]:
                del mounts[key]
                mounted.discard(key)
            if not ephemeral:
                self._users[key] -= 1

    def settle(self, pod: objects.Pod, node: objects.Node) -> set[str]:
        """Bind what the pod's claims bind to on this node; gives the static volumes that are taken by that."""
        taken, _ = self._bind(pod, node)
        self._chosen.update(taken)
        self._consumed.update(taken.values())
        for key in self.open_claims(pod):
            self._first_node.setdefault(key, node.metadata.name or "")
        return set(taken.values())

    def reset(self) -> bool:
        """Forget what was bound on the way; whether anything was."""
        found = bool(self._chosen or self._consumed or self._first_node)
        for each in (self._chosen, self._consumed, self._first_node):
            each.clear()
        return found

    def open_claims(self, pod: objects.Pod) -> list[str]:
        """Return the pod's claims that nothing decided on yet."""
        found = []
        for key, _ in claims(pod):
            if key in self._claims and not self._volume_of(key) and key not in self._first_node:
                found.append(key)
        return found

    def stock(self, pod: objects.Pod) -> set[str]:
        """Storage classes whose free static volumes the pod's open claims may take."""
        found = set()
        for key in self.open_claims(pod):
            spec = self._claims[key].spec
            name = (spec.storageClassName or "") if spec else ""
            if self._free.get(name):
                found.add(name)
        return found

    def is_limited(self, node: str) -> bool:
        """Return whether the node attaches only so many volumes of some driver."""
        return bool(self._limits.get(node))

    def handles(self, pod: objects.Pod, node: str) -> set[Handle]:
        """Return what is attached to a node for the pod."""
        return self._handles((key for key, _ in claims(pod)), node)

    def full(self, pod: objects.Pod, node: str, others: Iterable[objects.Pod]) -> str | None:
        """Return why the node may attach too many volumes with the pod. ``others``: pods counted there now that may as well be away.

        A pod is rejected if a volume that it brings is new there and the sum exceeds the limit. So the worst case, for each of its
        volumes, is that all others are there but those that have attached it already.
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
        """All that the limits want to know of a node."""
        return objects.Node(objects.ObjectMeta(name=name))
