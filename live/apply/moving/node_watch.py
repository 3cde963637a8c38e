"""Detection of foreign changes on a node since the wave was checked. It runs before each Binding, so it is cheap."""

from __future__ import annotations

from typing import Any

from kubestow.live.apply.moving.work import ClusterReader
from kubestow.live.apply.pod_locations import PodLocations, is_over
from kubestow.models.kube.closed_nodes import OWN_TAINTS

Print = tuple[Any, ...]


class NodeWatch:
    """A record of nodes and the pods on them."""

    def __init__(self, cluster: ClusterReader, where: PodLocations) -> None:
        """Start without a record."""
        self._cluster = cluster
        self._where = where
        self._seen: dict[str, tuple[Print, frozenset[str]]] = {}

    def remember(self) -> None:
        """Record the current state of all nodes."""
        names = [node["metadata"]["name"] for node in self._cluster.objects("Node").values()]
        self._seen = {name: found for name in names if (found := self._look(name)) is not None}

    def unchanged(self, name: str) -> bool:
        """Return True if no foreign pod has arrived on the node since and its own fields are the same."""
        seen, now = self._seen.get(name), self._look(name)
        if seen is None or now is None or now[0] != seen[0]:
            return False
        return all(uid in self._where.placed or uid in self._where.replacements for uid in now[1] - seen[1])

    def _look(self, name: str) -> tuple[Print, frozenset[str]] | None:
        node = self._cluster.node(name)
        if node is None:
            return None
        metadata, spec, status = node["metadata"], node.get("spec") or {}, node.get("status") or {}
        taints = [taint for taint in spec.get("taints") or () if taint.get("key") not in OWN_TAINTS]
        ready = [c.get("status") for c in status.get("conditions") or () if c.get("type") == "Ready"]
        leaving = metadata.get("deletionTimestamp")
        fields = (metadata.get("uid"), metadata.get("labels"), leaving, taints, status.get("allocatable"), ready)
        return fields, frozenset(pod["metadata"]["uid"] for pod in self._cluster.pods_on(name) if not is_over(pod))
