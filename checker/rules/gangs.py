"""Gangs for the checker: placed whole or not at all, in one topology domain; and the affinity of members that are bound as a unit.

Shared code reads the declarations of gangs (:mod:`kubestow.models.gangs.gangs`). The pods to be placed are the
checker's own reading.

Source: docs/gangs.md; the scheduler's plugin GangScheduling (Kubernetes 1.35) for the name of the rule.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from kubestow.checker.rules import affinity
from kubestow.checker.violation import DOCUMENT, GATED, Violation
from kubestow.models.documents.placement import Assignment, GangResult, Placement, Unplaced
from kubestow.models.documents.policy import Policy
from kubestow.models.gangs import gangs
from kubestow.models.gangs.gangs import Gang
from kubestow.models.kube import objects
from kubestow.models.snapshot.snapshot import Snapshot

RULE: Final = "GangScheduling"


class _Scope(NamedTuple):
    """Indices of pods, in the form that :func:`kubestow.models.gangs.gangs.find` expects."""

    pending: list[int]
    fixed: list[int]
    gated: list[int]
    invisible: list[int]


@dataclass(frozen=True)
class Roster:
    """The gangs with members to be placed.

    Attributes:
        gangs: The gangs.
        gang_of: Name of each such member's gang, by pod key.
        ranks: Priority at which each such member counts, by pod key: the lowest among the gang's members to be placed.
    """

    gangs: tuple[Gang, ...]
    gang_of: Mapping[str, str]
    ranks: Mapping[str, int]


def read(snapshot: Snapshot, pending: Collection[str], policy: Policy, *, keys: Sequence[str] | None = None) -> Roster:
    """Return the gangs of a snapshot that have members to be placed.

    Args:
        snapshot: The snapshot.
        pending: Keys of the pods to be placed.
        policy: The policy.
        keys: Keys of all pods if they are known.

    Raises:
        InputError: a gang's declaration cannot be read, or its members contradict each other.
    """
    nodes = {node.metadata.name for node in snapshot.nodes}
    scope = _Scope([], [], [], [])
    for i, (pod, key) in enumerate(zip(snapshot.pods, keys or map(objects.pod_key, snapshot.pods), strict=True)):
        if key in pending:
            scope.pending.append(i)
        elif objects.is_terminal(pod):
            continue
        elif pod.spec.nodeName:
            (scope.fixed if pod.spec.nodeName in nodes else scope.invisible).append(i)
        elif pod.spec.schedulingGates and not objects.is_terminating(pod):
            scope.gated.append(i)
    found = gangs.find(snapshot, scope, tiers=policy.networkTiers)
    gang_of: dict[str, str] = {}
    ranks: dict[str, int] = {}
    for gang in found:
        members = [snapshot.pods[i] for i in gang.pods]
        lowest = min(pod.spec.priority or 0 for pod in members)
        for pod in members:
            gang_of[objects.pod_key(pod)] = gang.name
            ranks[objects.pod_key(pod)] = lowest
    return Roster(tuple(found), gang_of, ranks)


# --- faults of documents -----------------------------------------------------------------------------------------------------------------


def gang_faults(
    snapshot: Snapshot, placement: Placement, roster: Roster, entries: Sequence[Assignment], refusals: Mapping[str, str | None]
) -> list[Violation]:
    """Return gangs that are placed in part or in a wrong domain, and false or missing claims about gangs.

    Args:
        snapshot: The snapshot.
        placement: The document.
        roster: Gangs of the snapshot.
        entries: Assignments of known pods to known nodes, each pod once.
        refusals: Why the document does not have to place each pod, by key; None if it has to.
    """
    found: list[Violation] = []
    listed: Sequence[Assignment | Unplaced] = [*placement.assignments, *placement.unplaced]
    for entry in listed:
        key, said, name = entry.pod, entry.gang, roster.gang_of.get(entry.pod)
        if said != name and refusals.get(key, "unknown") in (None, GATED):
            node = entry.node if isinstance(entry, Assignment) else ""
            right = f"it is of gang {name}" if name else "it is of no gang that is to be placed"
            found.append(Violation(key, node, DOCUMENT, f"the pod is said to be of {f'gang {said}' if said else 'no gang'}, {right}"))
    claimed: dict[str, list[GangResult]] = {}
    for result in placement.gangs:
        claimed.setdefault(result.gang, []).append(result)
    placed: dict[str, list[Assignment]] = {gang.name: [] for gang in roster.gangs}
    unknown = [name for name in claimed if name not in placed]
    found += [Violation("", "", DOCUMENT, f"gang {name}: no such gang is to be placed") for name in unknown]
    if not placed:
        return found
    for member in entries:
        if member.pod in roster.gang_of:
            placed[roster.gang_of[member.pod]].append(member)
    labels = {node.metadata.name or "": node.metadata.labels or {} for node in snapshot.nodes}
    for gang in roster.gangs:
        members, claims = placed[gang.name], claimed.get(gang.name, [])
        if 0 < len(members) < gang.needed:
            why = f"{len(members)} of the {len(gang.pods)} pods of gang {gang.name} are placed, it needs {gang.needed} or none"
            found.append(Violation("", "", RULE, why))
        if gang.required and gang.key is not None:
            at = [labels[snapshot.pods[i].spec.nodeName or ""].get(gang.key) for i in gang.bound]
            found += _topology_faults(gang, gang.key, members, labels, at)
        if len(claims) != 1:
            said = "it is given twice" if claims else "it has pods to be placed and is not listed"
            found.append(Violation("", "", DOCUMENT, f"gang {gang.name}: {said}"))
        for claim in claims:
            for why in _claim_faults(claim, gang, [labels[member.node] for member in members]):
                found.append(Violation("", "", DOCUMENT, f"gang {gang.name}: {why}"))
    return found


def _topology_faults(
    gang: Gang, key: str, members: Sequence[Assignment], labels: Mapping[str, Mapping[str, str]], at: Sequence[str | None]
) -> Iterator[Violation]:
    """Yield members outside the gang's one domain.

    Args:
        gang: The gang.
        key: Its topology key.
        members: Assignments of its members.
        labels: Labels of all nodes.
        at: Domain of each running member; None on a node without the key.
    """
    first: str | None = None
    for member in members:
        domain = labels[member.node].get(key)
        why = None
        if domain is None:
            why = f"the node lacks the topology key {key} of gang {gang.name}"
        elif at and domain not in at:
            why = f"no running member of gang {gang.name} is in {key}={domain}"
        elif first is not None and domain != first:
            why = f"gang {gang.name} has to be in one domain of {key}: this is {domain}, others are in {first}"
        first = first or domain
        if why:
            yield Violation(member.pod, member.node, RULE, why)


def _claim_faults(claim: GangResult, gang: Gang, at: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """Yield false claims about a gang. ``at`` has the node labels of each placed member."""
    numbers = {
        "pending": (claim.pending, len(gang.pods)),
        "placed": (claim.placed, len(at)),
        "needed": (claim.needed, gang.needed),
        "bound": (claim.bound, len(gang.bound)),
    }
    for name, (said, number) in numbers.items():
        if said != number:
            yield f"{name} is said to be {said}, it is {number}"
    if claim.topologyKey is not None and claim.topologyKey != gang.key:
        yield f"its topology key is said to be {claim.topologyKey}, it is {gang.key or 'not given'}"
    if claim.domain is not None:
        there = {labels.get(gang.key) for labels in at} if gang.key is not None else set()
        if there != {claim.domain}:
            listed = ", ".join(sorted(value or "none" for value in there)) or "none"
            yield f"its domain is said to be {claim.domain}, the pods are in {listed}"


# --- units -----------------------------------------------------------------------------------------------------------------------------


class _Ask(NamedTuple):
    """The affinity terms of a pod.

    Attributes:
        group: Matches that must all select a pod to make it a match.
        keys: Topology keys; a match must be in the pod's domain of each.
    """

    group: affinity.Group
    keys: tuple[str, ...]


class _Kind(NamedTuple):
    """Members that affinity cannot distinguish.

    Attributes:
        ask: Their own affinity terms, or None.
        answers: The groups of the unit's terms that they satisfy.
    """

    ask: _Ask | None
    answers: frozenset[affinity.Group]

    def shares_terms_with(self, other: _Kind) -> bool:
        """Return True if both have equal affinity terms."""
        return self.ask is not None and self.ask == other.ask


def affinity_faults(state: affinity.AffinityState, unit: Sequence[tuple[affinity.AffinityMember, objects.Node]]) -> list[list[str]]:
    """Return why required affinity rejects each member of a unit on its node when the whole unit is present.

    A pod needs a match in its domain of each key. A match may have been there before, or be a member with other
    terms or none. Members with equal terms cannot open a domain for each other, just as a pod cannot for itself.
    They open a domain only where Kubernetes allows it: if the cluster has no match at all, and then once per set of
    terms and key.

    Args:
        state: The pods that were there before the unit.
        unit: Members with their nodes.
    """
    wants = [state.wants(member) if member.terms.affinity else None for member, _ in unit]
    asks = [_Ask(want.group, tuple(tally.key for tally in want.affinity)) if want else None for want in wants]
    groups = frozenset(ask.group for ask in asks if ask)
    if not groups:
        return [[] for _ in unit]
    kinds = [_Kind(ask, groups & state.answers(member)) for ask, (member, _) in zip(asks, unit, strict=True)]
    places = [node.metadata.labels or {} for _, node in unit]
    there: dict[tuple[_Kind, str], set[str]] = {}
    for key in {key for ask in asks if ask for key in ask.keys}:
        for kind, labels in zip(kinds, places, strict=True):
            if key in labels:
                there.setdefault((kind, key), set()).add(labels[key])
    every = set(kinds)
    offers: dict[tuple[_Kind, str], tuple[set[str], set[str]]] = {}  # domains with a match of other terms, and of equal terms
    opened: dict[tuple[_Ask, str], str] = {}
    found: list[list[str]] = []
    for want, kind, labels in zip(wants, kinds, places, strict=True):
        faults: list[str] = []
        found.append(faults)
        if want is None or kind.ask is None:
            continue
        lacking = [tally.key for tally in want.affinity if tally.key not in labels]
        faults += [f"the node lacks the topology key {key} of an affinity term" for key in lacking]
        for tally in want.affinity if not lacking else ():
            key, domain = tally.key, labels[tally.key]
            if tally.anyone(domain) is not None:
                continue
            if (kind, key) not in offers:
                free, alike = set[str](), set[str]()
                for other in every:
                    if kind.ask.group in other.answers:
                        (alike if other.shares_terms_with(kind) else free).update(there.get((other, key), ()))
                offers[kind, key] = free, alike
            free, alike = offers[kind, key]
            if domain in free:
                continue
            if domain not in alike:
                faults.append(f"no pod in {key}={domain} matches all its affinity terms, its unit included")
            elif any(other.domains for other in want.affinity):
                faults.append(f"only pods of the same terms match all its affinity terms in {key}={domain}, and a pod elsewhere does too")
            elif opened.setdefault((kind.ask, key), domain) != domain:
                faults.append(f"the unit opens {key}={domain} for its affinity terms, and {key}={opened[kind.ask, key]} too")
    return found
