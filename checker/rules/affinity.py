"""InterPodAffinity for the checker: required affinity and anti-affinity terms, judged against the bound pods.

A *match* is the selection of a term: namespaces and labels, without the topology key. Present pods are listed by
domain for each distinct match and key. A judgement therefore reads one list, and a rejection can name a pod.

Source: kube-scheduler plugin interpodaffinity (filtering.go), with namespaceSelector in its documented meaning.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Set
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, NamedTuple

from kubestow.checker.rules import matching
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


@dataclass(eq=False)
class DomainTally:
    """Pods by domain of one topology key."""

    key: str
    domains: dict[str, dict[AffinityMember, None]] = field(default_factory=dict)

    def enter(self, member: AffinityMember, labels: matching.Labels) -> None:
        """Add a pod on a node with these labels."""
        domain = labels.get(self.key)
        if domain is not None:
            self.domains.setdefault(domain, {})[member] = None

    def leave(self, member: AffinityMember, labels: matching.Labels) -> None:
        """Remove a pod from a node with these labels."""
        domain = labels.get(self.key)
        if domain is not None:
            members = self.domains[domain]
            del members[member]
            if not members:
                del self.domains[domain]

    def anyone(self, domain: str | None) -> AffinityMember | None:
        """Return any pod in the domain, or None."""
        return next(iter(self.domains.get(domain, ())), None) if domain is not None else None


@dataclass
class _TermMatches:
    """Matches of the pods of one namespace and label set.

    Attributes:
        counted: Tallies that count the pods.
        owned: Tallies of anti-affinity owners whose terms select the pods.
        answers: Groups of judged pods' affinity terms that the pods satisfy.
    """

    counted: list[DomainTally] = field(default_factory=list)
    owned: list[DomainTally] = field(default_factory=list)
    answers: set[Group] = field(default_factory=set)


class Wants(NamedTuple):
    """The tallies that a judged pod's own terms read.

    Attributes:
        anti: Tallies of the anti-affinity terms.
        affinity: Tallies of the affinity terms, by key.
        group: All matches of the affinity terms.
    """

    anti: list[DomainTally]
    affinity: list[DomainTally]
    group: Group


class AffinityState:
    """The bound pods as InterPodAffinity sees them.

    Every pod to be judged or added must first be announced (:meth:`announce`), which creates the tallies of its
    terms. Pods of ``exempt`` namespaces neither have nor violate required anti-affinity.
    """

    def __init__(self, namespace_labels: Mapping[str, matching.Labels], exempt: Collection[str] = ()) -> None:
        self._namespace_labels = namespace_labels
        self._exempt = frozenset(exempt)
        self._affinity: dict[tuple[Group, str], DomainTally] = {}
        self._anti: dict[AffinityTerm, DomainTally] = {}
        self._owners: dict[AffinityTerm, DomainTally] = {}
        self._matches: matching.Shelf[Match] = matching.Shelf()
        self._groups: dict[Match, set[Group]] = {}
        self._keys: dict[Group, set[str]] = {}
        self._anti_keys: dict[Match, set[str]] = {}
        self._profiles: dict[matching.Profile, _TermMatches] = {}
        # Keyed by id of the terms and exemption. The values keep the terms in memory, so that no other object gets their id.
        self._announced: dict[tuple[int, bool, bool], RequiredTerms] = {}
        self._own: dict[tuple[int, bool], tuple[RequiredTerms, list[DomainTally]]] = {}
        self._wanted: dict[tuple[int, bool], tuple[RequiredTerms, Wants]] = {}

    def announce(self, members: Iterable[AffinityMember], *, judged: bool) -> None:
        """Create tallies for the terms of these pods. For pods that are never judged only anti-affinity is relevant."""
        for member in members:
            memo = id(member.terms), member.namespace in self._exempt, judged
            if memo in self._announced:
                continue
            self._announced[memo] = member.terms
            if judged and member.terms.affinity:
                group = frozenset(term.match for term in member.terms.affinity)
                if group not in self._keys:  # indexed under one of its matches, then tested against all
                    self._groups.setdefault(member.terms.affinity[0].match, set()).add(group)
                for term in member.terms.affinity:
                    self._matches.file(term.match.selector, term.match)
                    self._affinity.setdefault((group, term.key), DomainTally(term.key))
                    self._keys.setdefault(group, set()).add(term.key)
            for term in self._anti_terms(member):
                self._matches.file(term.match.selector, term.match)
                self._owners.setdefault(term, DomainTally(term.key))
                if judged:
                    self._anti.setdefault(term, DomainTally(term.key))
                self._anti_keys.setdefault(term.match, set()).add(term.key)

    def _anti_terms(self, member: AffinityMember) -> tuple[AffinityTerm, ...]:
        return () if member.namespace in self._exempt else member.terms.anti

    def _seen(self, member: AffinityMember) -> _TermMatches:
        seen = self._profiles.get(member.profile)
        if seen is None:
            seen = self._profiles[member.profile] = self._look(member)
        return seen

    def _look(self, member: AffinityMember) -> _TermMatches:
        own = matching.namespace_labels(self._namespace_labels, member.namespace)
        offered = self._matches.candidates(member.labels)
        matches = dict.fromkeys(match for match in offered if match.holds(member.namespace, member.labels, own))
        seen = _TermMatches()
        for match in matches:
            for group in self._groups.get(match, ()):
                if group <= matches.keys():
                    seen.answers.add(group)
                    seen.counted += [self._affinity[group, key] for key in self._keys[group]]
            if member.namespace in self._exempt:
                continue
            for key in sorted(self._anti_keys.get(match, ())):
                term = AffinityTerm(match, key)
                seen.owned.append(self._owners[term])
                if term in self._anti:
                    seen.counted.append(self._anti[term])
        return seen

    def _owns(self, member: AffinityMember) -> list[DomainTally]:
        """Return the tallies of the owners of the member's anti-affinity terms."""
        memo = id(member.terms), member.namespace in self._exempt
        found = self._own.get(memo)
        if found is None:
            found = self._own[memo] = member.terms, [self._owners[term] for term in dict.fromkeys(self._anti_terms(member))]
        return found[1]

    def answers(self, member: AffinityMember) -> Set[Group]:
        """Return the groups of announced affinity terms that the pod satisfies."""
        return self._seen(member).answers

    def wants(self, member: AffinityMember) -> Wants:
        """Return the tallies that the pod's own terms read."""
        memo = id(member.terms), member.namespace in self._exempt
        found = self._wanted.get(memo)
        if found is None:
            group = frozenset(term.match for term in member.terms.affinity)
            keys = sorted({term.key for term in member.terms.affinity})
            anti = [self._anti[term] for term in self._anti_terms(member)]
            found = self._wanted[memo] = member.terms, Wants(anti, [self._affinity[group, key] for key in keys], group)
        return found[1]

    def is_asked(self, member: AffinityMember) -> bool:
        """Return True if the rule applies to the pod: it has terms, or an added pod's anti-affinity excludes it from a domain."""
        terms = member.terms
        return bool(terms.affinity or terms.anti or terms.fault) or any(tally.domains for tally in self._seen(member).owned)

    def is_tied(self, member: AffinityMember) -> bool:
        """Return True if the pod has terms or matches a term of any announced pod."""
        terms, seen = member.terms, self._seen(member)
        return bool(terms.affinity or terms.anti or terms.fault or seen.counted or seen.owned or seen.answers)

    def add(self, member: AffinityMember, node: objects.Node) -> None:
        """Add a pod on a node."""
        for tally in (*self._seen(member).counted, *self._owns(member)):
            tally.enter(member, node.metadata.labels or {})

    def remove(self, member: AffinityMember, node: objects.Node) -> None:
        """Remove a pod from a node."""
        for tally in (*self._seen(member).counted, *self._owns(member)):
            tally.leave(member, node.metadata.labels or {})

    def faults(self, member: AffinityMember, node: objects.Node) -> list[str]:
        """Return why required affinity or anti-affinity rejects the pod on the node. The pod itself must not be among the added pods."""
        found = self.anti_faults(member, node)
        if member.terms.affinity:
            found += self._affinity_faults(member, self.wants(member), node.metadata.labels or {})
        return found

    def anti_faults(self, member: AffinityMember, node: objects.Node) -> list[str]:
        """Return why required anti-affinity, of the pod or of added pods, rejects the pod on the node.

        Terms that cannot be read count as a reason. The pod itself must not be among the added pods.
        """
        if member.terms.fault is not None:
            return [f"a pod (anti-)affinity term cannot be read: {member.terms.fault}"]
        labels = node.metadata.labels or {}
        found = []
        for tally in self.wants(member).anti:
            other = tally.anyone(labels.get(tally.key))
            if other is not None:
                found.append(f"pod {other.name} in {tally.key}={labels[tally.key]} matches its anti-affinity term")
        for tally in self._seen(member).owned:
            other = tally.anyone(labels.get(tally.key))
            if other is not None:
                found.append(f"it matches an anti-affinity term of pod {other.name} in {tally.key}={labels[tally.key]}")
        return found

    def _affinity_faults(self, member: AffinityMember, wants: Wants, labels: matching.Labels) -> list[str]:
        lacking = [tally.key for tally in wants.affinity if tally.key not in labels]
        if lacking:
            return [f"the node lacks the topology key {key} of an affinity term" for key in lacking]
        empty = [tally.key for tally in wants.affinity if tally.anyone(labels[tally.key]) is None]
        if not empty:
            return []
        own = matching.namespace_labels(self._namespace_labels, member.namespace)
        nobody = not any(tally.domains for tally in wants.affinity)
        if nobody and all(match.holds(member.namespace, member.labels, own) for match in wants.group):
            return []  # bootstrap: the first pod of a group with affinity to itself
        return [f"no pod in {key}={labels[key]} matches all its affinity terms" for key in empty]
