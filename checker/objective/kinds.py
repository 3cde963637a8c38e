"""Pods counted per node for the checker's objective. Pods that no selector can distinguish are one kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from kubestow.checker.reading import matching
from kubestow.models.kube import objects

Nodes = Mapping[str, objects.Node]


@dataclass(eq=False, slots=True)
class PodKind:
    """The pods of one namespace and one set of labels.

    Attributes:
        namespace: Their namespace.
        labels: Their labels.
        placed: Number of placed pods per node.
        fixed: Number of pods that stay, per node.
        terminating: Terminating pods among both, which spread constraints ignore.
    """

    namespace: str
    labels: matching.Labels
    placed: dict[str, int] = field(default_factory=dict)
    fixed: dict[str, int] = field(default_factory=dict)
    terminating: list[tuple[str, bool]] = field(default_factory=list)  # node, and True if placed

    def add(self, nodes: Sequence[str], *, placed: bool, terminating: bool) -> None:
        """Add one pod on each of the nodes."""
        numbers = self.placed if placed else self.fixed
        for node in nodes:
            numbers[node] = numbers.get(node, 0) + 1
        if terminating:
            self.terminating += [(node, placed) for node in nodes]

    def counted(self, *, settled: bool) -> Collection[Mapping[str, int]]:
        """Return maps from nodes to numbers of pods. Their sum is the number of pods that spread constraints count.

        Args:
            settled: True to count only the pods that stay.
        """
        found = [self.fixed] if settled else [self.placed, self.fixed]
        if self.terminating:
            found.append(
                {node: -number for node, number in Counter(n for n, placed in self.terminating if not (settled and placed)).items()}
            )
        return found


class Kinds:
    """The kinds of a snapshot's pods."""

    def __init__(self) -> None:
        self._by_label: dict[tuple[str, str], list[PodKind]] = {}
        self._labelled = 0  # number of kinds in the index
        self._kinds: dict[matching.Profile, PodKind] = {}
        self._known: dict[tuple[str | None, int], PodKind] = {}  # by id of the labels, which the snapshot keeps alive and pods share

    def of(self, pod: objects.Pod) -> PodKind:
        """Return the kind of a pod."""
        known = pod.metadata.namespace, id(pod.metadata.labels)
        kind = self._known.get(known)
        if kind is None:
            namespace, labels = pod.metadata.namespace or "default", pod.metadata.labels or {}
            kind = self._kinds.setdefault((namespace, frozenset(labels.items())), PodKind(namespace, labels))
            self._known[known] = kind
        return kind

    def offered(self, selector: matching.Selector) -> Iterable[PodKind]:
        """Return the kinds that a selector may match.

        If the selector requires label values, only kinds with the rarest label are returned. Otherwise they are all kinds.
        """
        if len(self._kinds) != self._labelled:
            self._labelled = len(self._kinds)
            self._by_label.clear()
            for kind in self:
                for pair in kind.labels.items():
                    self._by_label.setdefault(pair, []).append(kind)
        kinds_by_term: list[list[list[PodKind]]] = [
            [self._by_label.get((requirement.key, value), []) for value in requirement.values]
            for requirement in selector or ()
            if requirement.operator == "In"
        ]
        if not kinds_by_term:
            return self
        rarest = min(kinds_by_term, key=_size)
        return chain.from_iterable(rarest)

    def __iter__(self) -> Iterator[PodKind]:
        return iter(self._kinds.values())


def _size(lists: list[list[PodKind]]) -> int:
    return sum(len(each) for each in lists)


def labels_of(node: objects.Node) -> matching.Labels:
    return node.metadata.labels or {}


def taints_of(node: objects.Node) -> list[objects.Taint]:
    return (node.spec.taints or []) if node.spec else []


def node_affinity(spec: objects.PodSpec) -> objects.NodeAffinity | None:
    return spec.affinity.nodeAffinity if spec.affinity else None
