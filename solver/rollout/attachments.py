"""The attachment of exclusive volumes to nodes during a rollout. A pod on another node does not start (Multi-Attach error)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from kubestow.models.cluster.storage.attachments import exclusive_volumes
from kubestow.models.kube.objects import Pod
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.models.workloads.deployment_rollout import is_ready


class RolloutAttachments:
    """Volumes with their nodes. A node keeps a volume until its last pod that uses it has gone.

    Then another node with a waiting pod gets it: the one with the most such pods, then the first by name,
    because upstream leaves this open. Every change can be undone, the last one first.
    """

    def __init__(self, snapshot: Snapshot, moving: Iterable[int], others: Iterable[int]) -> None:
        """Read the volumes.

        Args:
            moving: Pods that arrive or leave.
            others: Pods that stay. Ready ones have their volumes from the start.
        """
        self.volumes = {i: own for i in moving if (own := exclusive_volumes(snapshot.pods[i], snapshot))}
        self._holders: dict[str, str] = {}
        self._users: dict[str, Counter[str]] = {}
        self._before: list[dict[str, str]] = []
        read = frozenset().union(*self.volumes.values()) if self.volumes else frozenset()
        there = [(snapshot.pods[i], exclusive_volumes(snapshot.pods[i], snapshot) & read) for i in (others if read else ())]
        for pod, volumes in sorted(there, key=lambda each: not is_ready(each[0])):
            self._arrive(volumes, pod.spec.nodeName or "")

    def begin(self, pods: Sequence[tuple[int, Pod]]) -> None:
        """Attach the volumes of old pods, first of those that are ready."""
        for i, pod in sorted(pods, key=lambda each: not is_ready(each[1])):
            if pod.spec.nodeName:
                self._arrive(self.volumes.get(i, frozenset()), pod.spec.nodeName)

    def _arrive(self, volumes: frozenset[str], node: str) -> None:
        for volume in volumes:
            self._users.setdefault(volume, Counter())[node] += 1
            self._holders.setdefault(volume, node)

    def arrive(self, i: int, node: str) -> None:
        """Record that a pod arrives on a node."""
        if i in self.volumes:
            self._before.append(dict(self._holders))
            self._arrive(self.volumes[i], node)

    def leave(self, i: int, node: str) -> None:
        """Record that a pod leaves its node."""
        if i not in self.volumes or not node:
            return
        self._before.append(dict(self._holders))
        for volume in self.volumes[i]:
            users = self._users[volume]
            users[node] -= 1
            if self._holders[volume] == node and not users[node]:
                waiting = sorted((-number, name) for name, number in users.items() if number)
                if waiting:
                    self._holders[volume] = waiting[0][1]
                else:
                    del self._holders[volume]

    def back(self, i: int, node: str, by: int) -> None:
        """Undo the last change: ``by`` is -1 if the pod arrived, 1 if it left."""
        if i in self.volumes and node:
            self._holders = self._before.pop()
            for volume in self.volumes[i]:
                self._users[volume][node] += by

    def lacking(self, i: int, node: str) -> list[tuple[str, str]]:
        """Return the volumes of a pod on a node that other nodes hold, with these nodes."""
        holders = ((volume, self._holders.get(volume, node)) for volume in sorted(self.volumes.get(i, ())))
        return [(volume, at) for volume, at in holders if at != node]

    def key(self) -> tuple[tuple[str, str], ...]:
        """Return the node of each volume."""
        return tuple(sorted(self._holders.items()))
