"""InterPodAffinity for the checker: required affinity and anti-affinity terms, judged against the pods bound so far.

A *match* is what a term selects (namespaces and labels, without its topology key). Per distinct match and key the pods that
are there are listed by domain, so that a judgement looks at one list and a refusal can name a pod.

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
    """The pods that a term selects: of one of ``namespaces`` or a namespace that ``among`` selects, and with such labels."""

    namespaces: frozenset[str]
    among: matching.Selector
    selector: matching.Selector

    def holds(self, namespace: str, labels: matching.Labels, namespace_labels: matching.Labels) -> bool:
        if namespace not in self.namespaces and not matching.selects(self.among, namespace_labels):
            return False
        return matching.selects(self.selector, labels)


#: The matches of all affinity terms of a pod: what matches the pod's terms matches every one of them.
Group = frozenset[Match]


class AffinityTerm(NamedTuple):
    match: Match
    key: str


@dataclass(frozen=True)
class Terms:
    """The required terms of a pod. ``fault`` tells why they cannot be read; the pod is then rejected everywhere."""

    affinity: tuple[AffinityTerm, ...] = ()
    anti: tuple[AffinityTerm, ...] = ()
    fault: str | None = None


NO_TERMS: Final = Terms()


def read_terms(pod: objects.Pod) -> Terms:
    """Return the required (anti-)affinity terms of a pod, with matchLabelKeys and mismatchLabelKeys merged into the selectors."""
    affinity = pod.spec.affinity
    if affinity is None:
        return NO_TERMS
    try:
        return Terms(_resolve(affinity.podAffinity, pod), _resolve(affinity.podAntiAffinity, pod))
    except matching.InvalidSelector as error:
        return Terms(fault=str(error))


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
        extra = [matching.Requirement(k, "In", (labels[k],)) for k in term.matchLabelKeys or () if k in labels]
        extra += [matching.Requirement(k, "NotIn", (labels[k],)) for k in term.mismatchLabelKeys or () if k in labels]
        namespaces = frozenset(term.namespaces or ())
        if not namespaces and term.namespaceSelector is None:
            namespaces = frozenset({namespace})
        match = Match(namespaces, matching.label_selector(term.namespaceSelector), matching.label_selector(term.labelSelector, extra))
        found.append(AffinityTerm(match, term.topologyKey))
    return tuple(found)


def own_labels(wanted: objects.Affinity) -> tuple[str, ...]:
    """Return the labels of the pod itself that its terms, required and preferred, are read with."""
    terms: list[objects.PodAffinityTerm] = []
    for source in (wanted.podAffinity, wanted.podAntiAffinity):
        if source is not None:
            terms += source.requiredDuringSchedulingIgnoredDuringExecution or ()
            terms += source.requiredDuringSchedulingRequiredDuringExecution or ()
            terms += [weighted.podAffinityTerm for weighted in source.preferredDuringSchedulingIgnoredDuringExecution or ()]
    return tuple(sorted({key for term in terms for key in chain(term.matchLabelKeys or (), term.mismatchLabelKeys or ())}))


@dataclass(eq=False, slots=True)
class Member:
    """A pod as this rule sees it. Identity is that of the object: pods in hand-written tables may share a name."""

    name: str
    namespace: str
    labels: matching.Labels
    terms: Terms
    profile: matching.Profile


class Reader:
    """Makes members of pods. Pods that share their affinity object, namespace and the labels that it asks for share their terms.

    The pods must stay as they are, and in memory: objects are known by their ids.
    """

    def __init__(self) -> None:
        self._profiles: dict[tuple[str | None, int], matching.Profile] = {}
        self._keys: dict[int, tuple[str, ...]] = {}
        self._terms: dict[tuple[int, str, tuple[str | None, ...]], Terms] = {}

    def member(self, pod: objects.Pod) -> Member:
        profile = self.profile(pod)
        return Member(objects.pod_key(pod), profile[0], pod.metadata.labels or {}, self._terms_of(pod, profile[0]), profile)

    def profile(self, pod: objects.Pod) -> matching.Profile:
        metadata = pod.metadata
        memo = metadata.namespace, id(metadata.labels)
        profile = self._profiles.get(memo)
        if profile is None:
            profile = self._profiles[memo] = metadata.namespace or "default", frozenset((metadata.labels or {}).items())
        return profile

    def _terms_of(self, pod: objects.Pod, namespace: str) -> Terms:
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
class Tally:
    """Pods by domain of one topology key."""

    key: str
    domains: dict[str, dict[Member, None]] = field(default_factory=dict)

    def enter(self, member: Member, labels: matching.Labels) -> None:
        domain = labels.get(self.key)
        if domain is not None:
            self.domains.setdefault(domain, {})[member] = None

    def leave(self, member: Member, labels: matching.Labels) -> None:
        domain = labels.get(self.key)
        if domain is not None:
            left = self.domains[domain]
            del left[member]
            if not left:
                del self.domains[domain]

    def anyone(self, domain: str | None) -> Member | None:
        return next(iter(self.domains.get(domain, ())), None) if domain is not None else None


@dataclass
class _Seen:
    """What pods of one namespace and label set match: tallies they are counted in, and terms of running pods that select them."""

    counted: list[Tally] = field(default_factory=list)
    owned: list[Tally] = field(default_factory=list)
    answers: set[Group] = field(default_factory=set)  # of the judged pods' affinity terms


class Wants(NamedTuple):
    """The tallies that a judged pod's own terms look at: for anti-affinity, and for affinity by key, with what all of that must match."""

    anti: list[Tally]
    affinity: list[Tally]
    group: Group


class AffinityState:
    """The pods bound so far, as InterPodAffinity sees them.

    Every pod that will be judged or added must be announced first (:meth:`announce`): that is when its terms get their tallies.
    Pods of ``exempt`` namespaces neither have nor meet hard anti-affinity.
    """

    def __init__(self, namespace_labels: Mapping[str, matching.Labels], exempt: Collection[str] = ()) -> None:
        self._namespace_labels = namespace_labels
        self._exempt = frozenset(exempt)
        self._affinity: dict[tuple[Group, str], Tally] = {}
        self._anti: dict[AffinityTerm, Tally] = {}
        self._owners: dict[AffinityTerm, Tally] = {}
        self._matches: matching.Shelf[Match] = matching.Shelf()
        self._groups: dict[Match, set[Group]] = {}
        self._keys: dict[Group, set[str]] = {}
        self._anti_keys: dict[Match, set[str]] = {}
        self._profiles: dict[matching.Profile, _Seen] = {}
        # By id of the terms, which stand beside the answer so that no other object gets that id; and whether the pod is exempt.
        self._announced: dict[tuple[int, bool, bool], Terms] = {}
        self._own: dict[tuple[int, bool], tuple[Terms, list[Tally]]] = {}
        self._wanted: dict[tuple[int, bool], tuple[Terms, Wants]] = {}

    def announce(self, members: Iterable[Member], *, judged: bool) -> None:
        """Prepare tallies for the terms of these pods; of pods that are never judged only anti-affinity matters."""
        for member in members:
            memo = id(member.terms), member.namespace in self._exempt, judged
            if memo in self._announced:
                continue
            self._announced[memo] = member.terms
            if judged and member.terms.affinity:
                group = frozenset(term.match for term in member.terms.affinity)
                if group not in self._keys:  # found through any one of its matches, then tested against them all
                    self._groups.setdefault(member.terms.affinity[0].match, set()).add(group)
                for term in member.terms.affinity:
                    self._matches.file(term.match.selector, term.match)
                    self._affinity.setdefault((group, term.key), Tally(term.key))
                    self._keys.setdefault(group, set()).add(term.key)
            for term in self._anti_terms(member):
                self._matches.file(term.match.selector, term.match)
                self._owners.setdefault(term, Tally(term.key))
                if judged:
                    self._anti.setdefault(term, Tally(term.key))
                self._anti_keys.setdefault(term.match, set()).add(term.key)

    def _anti_terms(self, member: Member) -> tuple[AffinityTerm, ...]:
        return () if member.namespace in self._exempt else member.terms.anti

    def _seen(self, member: Member) -> _Seen:
        seen = self._profiles.get(member.profile)
        if seen is None:
            seen = self._profiles[member.profile] = self._look(member)
        return seen

    def _look(self, member: Member) -> _Seen:
        own = matching.namespace_labels(self._namespace_labels, member.namespace)
        offered = self._matches.candidates(member.labels)
        matches = dict.fromkeys(match for match in offered if match.holds(member.namespace, member.labels, own))
        seen = _Seen()
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

    def _owns(self, member: Member) -> list[Tally]:
        """The tallies of the pods that have one of the member's anti-affinity terms."""
        memo = id(member.terms), member.namespace in self._exempt
        found = self._own.get(memo)
        if found is None:
            found = self._own[memo] = member.terms, [self._owners[term] for term in dict.fromkeys(self._anti_terms(member))]
        return found[1]

    def answers(self, member: Member) -> Set[Group]:
        """Return whose affinity terms, of those announced to be judged, the pod matches."""
        return self._seen(member).answers

    def wants(self, member: Member) -> Wants:
        """Return what the pod's own terms look at."""
        memo = id(member.terms), member.namespace in self._exempt
        found = self._wanted.get(memo)
        if found is None:
            group = frozenset(term.match for term in member.terms.affinity)
            keys = sorted({term.key for term in member.terms.affinity})
            anti = [self._anti[term] for term in self._anti_terms(member)]
            found = self._wanted[memo] = member.terms, Wants(anti, [self._affinity[group, key] for key in keys], group)
        return found[1]

    def is_asked(self, member: Member) -> bool:
        """Return whether the rule looks at the pod at all: it has terms, or some pod added so far repels it from a domain."""
        terms = member.terms
        return bool(terms.affinity or terms.anti or terms.fault) or any(tally.domains for tally in self._seen(member).owned)

    def is_tied(self, member: Member) -> bool:
        """Return whether the pod has terms, or matches one of a pod that was announced, wherever either is."""
        terms, seen = member.terms, self._seen(member)
        return bool(terms.affinity or terms.anti or terms.fault or seen.counted or seen.owned or seen.answers)

    def add(self, member: Member, node: objects.Node) -> None:
        for tally in (*self._seen(member).counted, *self._owns(member)):
            tally.enter(member, node.metadata.labels or {})

    def remove(self, member: Member, node: objects.Node) -> None:
        for tally in (*self._seen(member).counted, *self._owns(member)):
            tally.leave(member, node.metadata.labels or {})

    def faults(self, member: Member, node: objects.Node) -> list[str]:
        """Return why the rule rejects the pod on the node, against the pods added so far (the pod itself must not be among them)."""
        found = self.anti_faults(member, node)
        if member.terms.affinity:
            found += self._affinity_faults(member, self.wants(member), node.metadata.labels or {})
        return found

    def anti_faults(self, member: Member, node: objects.Node) -> list[str]:
        """Return the same without the pod's affinity terms."""
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

    def _affinity_faults(self, member: Member, wants: Wants, labels: matching.Labels) -> list[str]:
        lacking = [tally.key for tally in wants.affinity if tally.key not in labels]
        if lacking:
            return [f"the node lacks the topology key {key} of an affinity term" for key in lacking]
        empty = [tally.key for tally in wants.affinity if tally.anyone(labels[tally.key]) is None]
        if not empty:
            return []
        own = matching.namespace_labels(self._namespace_labels, member.namespace)
        nobody = not any(tally.domains for tally in wants.affinity)
        if nobody and all(match.holds(member.namespace, member.labels, own) for match in wants.group):
            return []  # bootstrap: the first of a group whose pods want each other
        return [f"no pod in {key}={labels[key]} matches all its affinity terms" for key in empty]
