"""InterPodAffinity for the checker: required affinity and anti-affinity terms, judged against the bound pods.

Present pods are listed by
domain for each distinct match and key. A judgement therefore reads one list, and a rejection can name a pod.

Source: kube-scheduler plugin interpodaffinity (filtering.go), with namespaceSelector in its documented meaning.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import NamedTuple

from kubestow.checker.reading import matching
from kubestow.checker.reading.affinity_terms import AffinityMember, AffinityTerm, Group, Match, RequiredTerms
from kubestow.models.kube import objects


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
