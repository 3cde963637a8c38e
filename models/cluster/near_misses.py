"""Near-misses: labels and resources that a pod asks for and no node has, each with similar ones that nodes have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from kubestow.models.kube.lenient_decode import nearest
from kubestow.models.kube.objects import Node, NodeSelectorRequirement, Pod
from kubestow.models.kube.selectors import NodeColumns

#: Maximum number of suggestions for one name.
MAX_SUGGESTIONS = 2


def near_miss(missing: str, meant: Iterable[str]) -> str:
    """Return ``missing: did you mean A or B?``; without any suggestion, an empty text.

    Args:
        missing: A clause such as ``no node has disktype=sdd``.
        meant: The suggestions, each with the number of objects that have it.
    """
    asked = question(meant)
    return f"{missing}: {asked}" if asked else ""


def question(meant: Iterable[str]) -> str:
    """Return ``did you mean A or B?``; without any suggestion, an empty text."""
    names = list(meant)
    return f"did you mean {' or '.join(names)}?" if names else ""


def counted(number: int, noun: str) -> str:
    """Return ``1 node`` or ``3 nodes``."""
    return f"{number} {noun}{'s' * (number != 1)}"


@dataclass(frozen=True)
class Label:
    """A label that nodes have.

    Attributes:
        value: None for any value.
        nodes: Number of nodes that have it.
    """

    key: str
    value: str | None
    nodes: int

    def __str__(self) -> str:
        return self.key if self.value is None else f"{self.key}={self.value}"


@dataclass(frozen=True)
class LabelMiss:
    """A label that a pod requires and no node has.

    Attributes:
        requirement: The requirement of node affinity; None for the nodeSelector.
        value: None for any value.
    """

    requirement: NodeSelectorRequirement | None
    key: str
    value: str | None
    meant: list[Label]

    @property
    def wanted(self) -> str:
        return self.key if self.value is None else f"{self.key}={self.value}"

    @property
    def counted(self) -> list[str]:
        """The labels that may be meant, with their numbers of nodes."""
        return [f"{label} ({counted(label.nodes, 'node')})" for label in self.meant]

    def __str__(self) -> str:
        return near_miss(f"no node has {self.wanted}", self.counted)

    def corrected(self, label: Label) -> NodeSelectorRequirement:
        """Return the requirement with the label that may be meant."""
        assert self.requirement is not None
        values = self.requirement.values
        changed = None if values is None else list(dict.fromkeys(label.value or v if v == self.value else v for v in values))
        return msgspec.structs.replace(self.requirement, key=label.key, values=changed)


def label_misses(nodes: NodeColumns, pod: Pod) -> Iterator[LabelMiss]:
    """Yield the labels of the pod's node rules that no node has, where nodes have similar ones."""
    wanted: list[tuple[NodeSelectorRequirement | None, str, str | None]] = []
    wanted += [(None, key, value) for key, value in (pod.spec.nodeSelector or {}).items()]
    for requirement in required(pod):
        if requirement.operator == "In":
            wanted += [(requirement, requirement.key, value) for value in requirement.values or ()]
        elif requirement.operator == "Exists":
            wanted.append((requirement, requirement.key, None))
    for each, key, value in wanted:
        meant = _meant(nodes, key, value)
        if meant:
            yield LabelMiss(each, key, value, meant)


def label_question(nodes: NodeColumns, pod: Pod) -> str:
    """Return ``; did you mean disktype=ssd (2 nodes)?`` for the labels of the pod that no node has; empty without similar ones."""
    asked = question(dict.fromkeys(each for miss in label_misses(nodes, pod) for each in miss.counted))
    return f"; {asked}" if asked else ""


def required(pod: Pod) -> Iterable[NodeSelectorRequirement]:
    """Return each distinct requirement of required node affinity on labels."""
    affinity = pod.spec.affinity.nodeAffinity if pod.spec.affinity is not None else None
    if affinity is None:
        return []
    selectors = (affinity.requiredDuringSchedulingIgnoredDuringExecution, affinity.requiredDuringSchedulingRequiredDuringExecution)
    terms = [term for selector in selectors if selector is not None for term in selector.nodeSelectorTerms or ()]
    return {msgspec.json.encode(r): r for term in terms for r in term.matchExpressions or ()}.values()


def _meant(nodes: NodeColumns, key: str, value: str | None) -> list[Label]:
    """Return the labels that may be meant by a label that no node has."""
    values = nodes.column(key)[1]
    if not nodes.size or value in values or (value is None and values):
        return []
    pairs: list[tuple[str, str | None]] = [(key, each) for each in nearest(value, values)] if value is not None else []
    if not values:
        for other in nearest(key, sorted({k for n in range(nodes.size) for k in nodes.labels(n)})):
            listed = nodes.column(other)[1]
            pairs += [(other, value)] if value is None or value in listed else [(other, each) for each in nearest(value, listed)]
    return [Label(k, v, _carriers(nodes, k, v)) for k, v in pairs[:MAX_SUGGESTIONS]]


def _carriers(nodes: NodeColumns, key: str, value: str | None) -> int:
    return int(np.count_nonzero(nodes.with_keys((key,)) if value is None else nodes.with_values(key, (value,))))


def meant_resources(nodes: Sequence[Node], resource: str) -> list[str]:
    """Return the resources of nodes that may be meant by one that no node has."""
    known: dict[str, None] = {}
    for node in nodes:
        known |= dict.fromkeys((node.status.allocatable if node.status is not None else None) or {})
    return nearest(resource, known) if resource not in known else []
