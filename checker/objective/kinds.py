"""Pods as the checker's objective counts them: those that no selector can tell apart together, as numbers by node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from checker.rules import matching
from models.kube import objects

Nodes = Mapping[str, objects.Node]


@dataclass(eq=False)
class Kind:
    """Pods of one namespace and one set of labels, as numbers by node. ``counted``: all but the terminating ones; ``settled``: those of
    them that stay where they are."""

    namespace: str
    labels: matching.Labels
    placed: dict[str, int] = field(default_factory=dict)
    fixed: dict[str, int] = field(default_factory=dict)
    counted: dict[str, int] = field(default_factory=dict)
    settled: dict[str, int] = field(default_factory=dict)

    def add(self, node: str, *, placed: bool, terminating: bool) -> None:
        numbers = self.placed if placed else self.fixed
        numbers[node] = numbers.get(node, 0) + 1
        if not terminating:
            self.counted[node] = self.counted.get(node, 0) + 1
            if not placed:
                self.settled[node] = self.settled.get(node, 0) + 1


class Kinds:
    """The kinds of a snapshot's pods."""

    def __init__(self) -> None:
        self._kinds: dict[matching.Profile, Kind] = {}
        self._known: dict[tuple[str | None, int], Kind] = {}  # by id of the labels, which the snapshot keeps alive and pods share

    def of(self, pod: objects.Pod) -> Kind:
        known = pod.metadata.namespace, id(pod.metadata.labels)
        kind = self._known.get(known)
        if kind is None:
            namespace, labels = pod.metadata.namespace or "default", pod.metadata.labels or {}
            kind = self._kinds.setdefault((namespace, frozenset(labels.items())), Kind(namespace, labels))
            self._known[known] = kind
        return kind

    def __iter__(self) -> Iterator[Kind]:
        return iter(self._kinds.values())


def labels_of(node: objects.Node) -> matching.Labels:
    return node.metadata.labels or {}


def taints_of(node: objects.Node) -> list[objects.Taint]:
    return (node.spec.taints or []) if node.spec else []


def node_affinity(spec: objects.PodSpec) -> objects.NodeAffinity | None:
    return spec.affinity.nodeAffinity if spec.affinity else None
