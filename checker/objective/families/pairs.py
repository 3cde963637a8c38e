"""Points of ordered pairs of pods for the checker, by domains. Pods that no selector can distinguish are counted together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kubestow.checker.objective.families.base import Family, Scene, WeightedTerm
from kubestow.checker.objective.kinds import Kinds, Nodes, PodKind, labels_of
from kubestow.checker.reading import affinity_terms, matching
from kubestow.models.kube import objects


@dataclass
class _Pull:
    """Points that the owners of a term offer to one matching pod, summed by domain.

    Attributes:
        placed: Points from placed owners.
        fixed: Points from owners that stay.
    """

    placed: dict[str, int] = field(default_factory=dict)
    fixed: dict[str, int] = field(default_factory=dict)


class _Owned(NamedTuple):
    """A term of a kind of pods.

    Attributes:
        key: Topology key.
        weight: Points per pair.
        pull: The points that the term offers.
        selects_itself: True if the term matches its own owners.
    """

    key: str
    weight: int
    pull: _Pull
    selects_itself: bool


def _dot(one: Mapping[str, int], other: Mapping[str, int]) -> int:
    if len(other) < len(one):
        one, other = other, one
    return sum(number * other[domain] for domain, number in one.items() if domain in other)


class PairFamily(Family):
    """Ordered pairs (p, q) in which a term of p matches q and both nodes are in one domain of its key."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._namespace_labels = {name: namespace.metadata.labels or {} for name, namespace in scene.snapshot.namespaces.items()}
        self._keys: dict[int, tuple[str, ...]] = {}
        self._terms: dict[tuple[object, ...], list[WeightedTerm]] = {}
        self._pulls: dict[affinity_terms.Match, dict[str, _Pull]] = {}
        self._own = 0

    def _owned(self, term: affinity_terms.AffinityTerm, weight: int, kind: PodKind) -> _Owned:
        """Return a term of a kind of pods."""
        pull = self._pulls.setdefault(term.match, {}).setdefault(term.key, _Pull())
        return _Owned(term.key, weight, pull, self._holds(term.match, kind))

    def add(self, pod: objects.Pod, kind: PodKind, nodes: Sequence[str], *, placed: bool) -> None:
        if pod.spec.affinity is None:
            return
        labels = [labels_of(self.scene.nodes[node]) for node in nodes]
        for term, weight in self._read(pod, kind, placed=placed):
            owned = self._owned(term, weight, kind)
            domains = [each[owned.key] for each in labels if owned.key in each]
            pulls = owned.pull.placed if placed else owned.pull.fixed
            for domain in domains:
                pulls[domain] = pulls.get(domain, 0) + owned.weight
            if placed and owned.selects_itself:
                self._own += owned.weight * len(domains)  # a pod is no pair with itself

    def _read(self, pod: objects.Pod, kind: PodKind, *, placed: bool) -> list[WeightedTerm]:
        own = id(pod.spec.affinity)
        if own not in self._keys:
            self._keys[own] = affinity_terms.own_labels(pod.spec.affinity or objects.Affinity())
        memo = own, kind.namespace, tuple(kind.labels.get(key) for key in self._keys[own]), placed
        if memo not in self._terms:
            self._terms[memo] = self.terms(pod, staying=not placed)
        return self._terms[memo]

    def _holds(self, match: affinity_terms.Match, kind: PodKind) -> bool:
        return match.holds(kind.namespace, kind.labels, matching.namespace_labels(self._namespace_labels, kind.namespace))

    def points(self, kinds: Kinds) -> int:
        """Return the points of all ordered pairs of pods with at least one placed pod."""
        total, domains = -self._own, _Domains(self.scene.nodes)
        for match, pulls in self._pulls.items():
            for kind in kinds.offered(match.selector):
                if self._holds(match, kind):
                    for key, pull in pulls.items():
                        placed, fixed = domains.of(kind, key)
                        total += _dot(pull.placed, placed) + _dot(pull.placed, fixed) + _dot(pull.fixed, placed)
        return total


class _Domains:
    """Numbers of pods per domain, for each kind and topology key: placed pods, and pods that stay."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._memo: dict[tuple[int, str], tuple[Counter[str], Counter[str]]] = {}

    def of(self, kind: PodKind, key: str) -> tuple[Counter[str], Counter[str]]:
        memo = id(kind), key
        if memo not in self._memo:
            self._memo[memo] = self._by_domain(kind.placed, key), self._by_domain(kind.fixed, key)
        return self._memo[memo]

    def _by_domain(self, numbers: Mapping[str, int], key: str) -> Counter[str]:
        found: Counter[str] = Counter()
        for node, number in numbers.items():
            domain = labels_of(self._nodes[node]).get(key)
            if domain is not None:
                found[domain] += number
        return found
