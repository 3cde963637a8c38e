"""Near-misses of required pod affinity: labels that no pod has and namespaces that do not exist, each with similar ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import msgspec

from kubestow.models.cluster.cluster import Cluster
from kubestow.models.cluster.near_misses import MAX_SUGGESTIONS, counted, near_miss
from kubestow.models.kube.lenient_decode import nearest
from kubestow.models.kube.objects import LabelSelector, Pod, PodAffinityTerm
from kubestow.models.kube.pod_spec import required_terms
from kubestow.models.snapshot.snapshot import Snapshot

_Labels = Mapping[str, Counter[str]]


@dataclass(frozen=True)
class TermMiss:
    """A label or namespace that a required term asks for in vain.

    Attributes:
        missing: The clause on it.
        wanted: The label or namespace.
        meant: Similar ones, each with the number of pods that have it and the corrected term.
    """

    term: PodAffinityTerm
    missing: str
    wanted: str
    meant: list[tuple[str, int, PodAffinityTerm]]

    def __str__(self) -> str:
        return near_miss(self.missing, (f"{each} ({counted(pods, 'pod')})" for each, pods, _ in self.meant))


def term_misses(cluster: Cluster, pod: Pod) -> Iterator[TermMiss]:
    """Yield the near-misses of the required affinity of a pod."""
    snapshot = cluster.snapshot
    for term in required_terms(pod, "podAffinity"):
        misses = [*_namespaces(snapshot, term), *_labels(snapshot, pod, term)]
        yield from (miss for miss in misses if miss.meant)


def _namespaces(snapshot: Snapshot, term: PodAffinityTerm) -> Iterator[TermMiss]:
    if not term.namespaces:
        return
    pods = Counter(pod.metadata.namespace or "default" for pod in snapshot.pods)
    known = {*snapshot.namespaces, *pods}
    for name in term.namespaces:
        near = nearest(name, known) if name not in known else []
        corrected = {each: [each if own == name else own for own in term.namespaces] for each in near}
        meant = [(each, pods[each], msgspec.structs.replace(term, namespaces=names)) for each, names in corrected.items()]
        yield TermMiss(term, f"namespace {name} does not exist", name, meant)


def _labels(snapshot: Snapshot, pod: Pod, term: PodAffinityTerm) -> Iterator[TermMiss]:
    selector = term.labelSelector
    if selector is None or not selector.matchLabels:
        return
    names = {*(term.namespaces or ())} or {pod.metadata.namespace or "default"}
    labels: dict[str, Counter[str]] = {}
    for other in snapshot.pods:
        if other is not pod and (term.namespaceSelector is not None or (other.metadata.namespace or "default") in names):
            for key, value in (other.metadata.labels or {}).items():
                labels.setdefault(key, Counter())[value] += 1
    for key, value in selector.matchLabels.items():
        if value not in labels.get(key, ()):
            meant = [(f"{k}={v}", labels[k][v], _corrected(term, selector, key, k, v)) for k, v in _meant(labels, key, value)]
            yield TermMiss(term, f"no pod there has {key}={value}", f"{key}={value}", meant)


def _meant(labels: _Labels, key: str, value: str) -> list[tuple[str, str]]:
    """Return the labels that may be meant by a label that no pod has."""
    if key in labels:
        return [(key, each) for each in nearest(value, labels[key])]
    near = ((other, [value] if value in labels[other] else nearest(value, labels[other])) for other in nearest(key, labels))
    return [(other, each) for other, values in near for each in values][:MAX_SUGGESTIONS]


def _corrected(term: PodAffinityTerm, selector: LabelSelector, wrong: str, key: str, value: str) -> PodAffinityTerm:
    wanted = {k: v for k, v in (selector.matchLabels or {}).items() if k != wrong} | {key: value}
    return msgspec.structs.replace(term, labelSelector=msgspec.structs.replace(selector, matchLabels=wanted))
