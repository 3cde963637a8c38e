"""Snapshot container (interface sketch: the loader is being written)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from models import kube


class InputError(Exception):
    """Bad input: one line per problem, each naming file, object and field path."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = list(problems)


@dataclass
class Snapshot:
    """All objects of the input, defaulted as the API server would, in input order."""

    nodes: list[kube.Node] = field(default_factory=list)
    pods: list[kube.Pod] = field(default_factory=list)
    namespaces: dict[str, kube.Namespace] = field(default_factory=dict)
    priority_classes: dict[str, kube.PriorityClass] = field(default_factory=dict)
    persistent_volumes: dict[str, kube.PersistentVolume] = field(default_factory=dict)
    persistent_volume_claims: dict[str, kube.PersistentVolumeClaim] = field(default_factory=dict)  # "namespace/name"
    storage_classes: dict[str, kube.StorageClass] = field(default_factory=dict)
    csi_nodes: dict[str, kube.CSINode] = field(default_factory=dict)
    node_topologies: dict[str, kube.NodeResourceTopology] = field(default_factory=dict)
    pod_disruption_budgets: list[kube.PodDisruptionBudget] = field(default_factory=list)
    services: list[kube.Service] = field(default_factory=list)
    pod_groups: list[kube.PodGroup] = field(default_factory=list)
    workloads: dict[str, list[Any]] = field(default_factory=dict)  # kind -> objects (Deployment, ReplicaSet, ...)
    ignored: dict[str, int] = field(default_factory=dict)  # other kinds: how many
    warnings: list[str] = field(default_factory=list)
    sha256: str = ""


def load(paths: Sequence[str]) -> Snapshot:
    raise NotImplementedError


def from_objects(items: Iterable[Mapping[str, Any]], *, validate: bool = True) -> Snapshot:
    raise NotImplementedError
