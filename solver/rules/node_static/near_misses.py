"""Near-misses of labels and taints: names in the rules of pending pods that no node has, each with names that nodes have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec
import numpy as np

from kubestow.models.cluster.cluster import HARD_EFFECTS, Cluster
from kubestow.models.kube.lenient_decode import nearest
from kubestow.models.kube.objects import NodeSelectorRequirement, Pod, Taint, Toleration
from kubestow.models.kube.selectors import NodeColumns, Tolerations
from kubestow.solver.rules.wording import counted, near_miss

#: Maximum number of suggestions for one name.
MAX_SUGGESTIONS = 2


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

    def __str__(self) -> str:
        return near_miss(f"no node has {self.wanted}", (f"{label} ({counted(label.nodes, 'node')})" for label in self.meant))

    def corrected(self, label: Label) -> NodeSelectorRequirement:
        """Return the requirement with the label that may be meant."""
        assert self.requirement is not None
        values = self.requirement.values
        changed = None if values is None else list(dict.fromkeys(label.value or v if v == self.value else v for v in values))
        return msgspec.structs.replace(self.requirement, key=label.key, values=changed)


def label_misses(nodes: NodeColumns, pod: Pod) -> Iterator[LabelMiss]:
    """Yield the labels of the pod's node rules that no node has, where nodes have similar ones."""
    wanted = [(None, key, value) for key, value in (pod.spec.nodeSelector or {}).items()]
    for requirement in required(pod):
        if requirement.operator == "In":
            wanted += [(requirement, requirement.key, value) for value in requirement.values or ()]
        elif requirement.operator == "Exists":
            wanted.append((requirement, requirement.key, None))
    for each, key, value in wanted:
        meant = _meant(nodes, key, value)
        if meant:
            yield LabelMiss(each, key, value, meant)


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
    pairs = [(key, each) for each in nearest(value, values)] if value is not None else []
    if not values:
        for other in nearest(key, sorted({k for n in range(nodes.size) for k in nodes.labels(n)})):
            listed = nodes.column(other)[1]
            exact = [value] if value is None or value in listed else nearest(value, listed)
            pairs += [(other, each) for each in exact]
    return [Label(k, v, _carriers(nodes, k, v)) for k, v in pairs[:MAX_SUGGESTIONS]]


def _carriers(nodes: NodeColumns, key: str, value: str | None) -> int:
    return int(np.count_nonzero(nodes.with_keys((key,)) if value is None else nodes.with_values(key, (value,))))


def taint_misses(cluster: Cluster, pod: Pod) -> Iterator[tuple[Toleration, Taint]]:
    """Yield tolerations that cover no taint, each with a taint of a node that may be meant and that the pod does not tolerate."""
    gates, known = cluster.snapshot.gates, hard_taints(cluster)
    every = Tolerations(pod.spec.tolerations, gates)
    for toleration in pod.spec.tolerations or ():
        if not toleration.key or any(Tolerations([toleration], gates).cover(taint) for taint in known):
            continue
        fitting = [t for t in known if toleration.effect in (None, "", t.effect) and not every.cover(t)]
        keys = {toleration.key, *nearest(toleration.key, [t.key for t in fitting])}
        value = toleration.value or ""
        values = {value, *nearest(value, [t.value or "" for t in fitting])}
        meant = [t for t in fitting if t.key in keys and (toleration.operator == "Exists" or (t.value or "") in values)]
        yield from ((toleration, taint) for taint in meant[:MAX_SUGGESTIONS])


def hard_taints(cluster: Cluster) -> list[Taint]:
    """Return each distinct taint that rejects pods."""
    taints: dict[tuple[str, str, str], Taint] = {}
    for n in range(cluster.n_nodes):
        for taint in cluster.nodes.taints(n):
            if taint.effect in HARD_EFFECTS:
                taints[taint.key, taint.value or "", taint.effect] = taint
    return [taint for _, taint in sorted(taints.items())]


def taint_text(taint: Taint | Toleration) -> str:
    """Return ``key=value:effect``."""
    return f"{taint.key}{f'={taint.value}' if taint.value else ''}{f':{taint.effect}' if taint.effect else ''}"


def tainted(cluster: Cluster, taint: Taint) -> int:
    """Return the number of nodes with a taint."""
    wanted = taint_text(taint)
    return sum(any(taint_text(own) == wanted for own in cluster.nodes.taints(n)) for n in range(cluster.n_nodes))
