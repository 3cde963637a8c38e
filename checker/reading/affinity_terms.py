"""Required affinity and anti-affinity terms of pods.

A *match* is the selection of a term: namespaces and labels, without the topology key.

Source: kube-scheduler plugin interpodaffinity, with namespaceSelector in its documented meaning.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import Final, NamedTuple

from kubestow.checker.reading import matching
from kubestow.models.kube import objects


class Match(NamedTuple):
    """The pods that a term selects.

    Attributes:
        namespaces: Names of namespaces.
        among: Selector of further namespaces.
        selector: Selector of pods.
    """

    namespaces: frozenset[str]
    among: matching.Selector
    selector: matching.Selector

    def holds(self, namespace: str, labels: matching.Labels, namespace_labels: matching.Labels) -> bool:
        """Return True if the term selects a pod with these labels."""
        if namespace not in self.namespaces and not matching.selects(self.among, namespace_labels):
            return False
        return matching.selects(self.selector, labels)


#: The matches of all affinity terms of a pod. A pod belongs to the group if every match selects it.
Group = frozenset[Match]


class AffinityTerm(NamedTuple):
    """A match with its topology key."""

    match: Match
    key: str


@dataclass(frozen=True)
class RequiredTerms:
    """The required terms of a pod.

    Attributes:
        affinity: Affinity terms.
        anti: Anti-affinity terms.
        fault: Why the terms cannot be read, or None. With a fault the pod is rejected on every node.
    """

    affinity: tuple[AffinityTerm, ...] = ()
    anti: tuple[AffinityTerm, ...] = ()
    fault: str | None = None


NO_TERMS: Final = RequiredTerms()


def read_terms(pod: objects.Pod) -> RequiredTerms:
    """Return the required affinity and anti-affinity terms of a pod, with matchLabelKeys and mismatchLabelKeys merged
    into the selectors.
    """
    affinity = pod.spec.affinity
    if affinity is None:
        return NO_TERMS
    try:
        return RequiredTerms(_resolve(affinity.podAffinity, pod), _resolve(affinity.podAntiAffinity, pod))
    except matching.InvalidSelector as error:
        return RequiredTerms(fault=str(error))


def _resolve(source: objects.PodAffinity | None, pod: objects.Pod) -> tuple[AffinityTerm, ...]:
    if source is None:
        return ()
    namespace, labels = pod.metadata.namespace or "default", pod.metadata.labels or {}
    found = []
    required = [
        *(source.requiredDuringSchedulingIgnoredDuringExecution or ()),
        *(source.requiredDuringSchedulingRequiredDuringExecution or ()),
    ]
    for term in required:
        extra = [matching.SelectorRequirement(k, "In", (labels[k],)) for k in term.matchLabelKeys or () if k in labels]
        extra += [matching.SelectorRequirement(k, "NotIn", (labels[k],)) for k in term.mismatchLabelKeys or () if k in labels]
        namespaces = frozenset(term.namespaces or ())
        if not namespaces and term.namespaceSelector is None:
            namespaces = frozenset({namespace})
        match = Match(namespaces, matching.label_selector(term.namespaceSelector), matching.label_selector(term.labelSelector, extra))
        found.append(AffinityTerm(match, term.topologyKey))
    return tuple(found)


def own_labels(wanted: objects.Affinity) -> tuple[str, ...]:
    """Return the pod's own label keys that its required and preferred terms depend on."""
    terms: list[objects.PodAffinityTerm] = []
    for source in (wanted.podAffinity, wanted.podAntiAffinity):
        if source is not None:
            terms += source.requiredDuringSchedulingIgnoredDuringExecution or ()
            terms += source.requiredDuringSchedulingRequiredDuringExecution or ()
            terms += [weighted.podAffinityTerm for weighted in source.preferredDuringSchedulingIgnoredDuringExecution or ()]
    return tuple(sorted({key for term in terms for key in chain(term.matchLabelKeys or (), term.mismatchLabelKeys or ())}))


@dataclass(eq=False, slots=True)
class AffinityMember:
    """A pod as this rule sees it, compared by identity, because pods in hand-written tables may share a name."""

    name: str
    namespace: str
    labels: matching.Labels
    terms: RequiredTerms
    profile: matching.Profile


class MemberReader:
    """Creates members of pods. Pods that share their affinity object, their namespace and the relevant labels share their terms.

    Pods must not change and must stay in memory, because objects are identified by id.
    """

    def __init__(self) -> None:
        self._profiles: dict[tuple[str | None, int], matching.Profile] = {}
        self._keys: dict[int, tuple[str, ...]] = {}
        self._terms: dict[tuple[int, str, tuple[str | None, ...]], RequiredTerms] = {}

    def member(self, pod: objects.Pod) -> AffinityMember:
        """Return the member of a pod."""
        profile = self.profile(pod)
        return AffinityMember(objects.pod_key(pod), profile[0], pod.metadata.labels or {}, self._terms_of(pod, profile[0]), profile)

    def profile(self, pod: objects.Pod) -> matching.Profile:
        """Return namespace and labels of a pod in a hashable form."""
        metadata = pod.metadata
        memo = metadata.namespace, id(metadata.labels)
        profile = self._profiles.get(memo)
        if profile is None:
            profile = self._profiles[memo] = metadata.namespace or "default", frozenset((metadata.labels or {}).items())
        return profile

    def _terms_of(self, pod: objects.Pod, namespace: str) -> RequiredTerms:
        affinity = pod.spec.affinity
        if affinity is None:
            return NO_TERMS
        keys = self._keys.get(id(affinity))
        if keys is None:
            keys = self._keys[id(affinity)] = own_labels(affinity)
        labels = pod.metadata.labels or {}
        memo = id(affinity), namespace, tuple([labels.get(key) for key in keys])
        terms = self._terms.get(memo)
        if terms is None:
            terms = self._terms[memo] = read_terms(pod)
        return terms
