"""Gangs for the checker: placed whole or not at all, in one topology domain.

Source: docs/gangs.md; the scheduler's plugin GangScheduling (Kubernetes 1.35) for the name of the rule.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from kubestow.checker.reading.gang_roster import Roster
from kubestow.checker.rules.base import Place, StaticRule
from kubestow.checker.violation import DOCUMENT, GATED, Violation
from kubestow.models.documents.placement import Assignment, GangResult, Placement, Unplaced
from kubestow.models.gangs.gangs import Gang
from kubestow.models.kube import objects
from kubestow.models.snapshot.snapshot import Snapshot

RULE: Final = "GangScheduling"


class GangScheduling(StaticRule[None]):
    """Gangs are judged in the document as a whole. No node rejects a pod because of its gang."""

    names, order, recounted = (RULE,), 110, False

    def read(self, pod: objects.Pod, *, judged: bool) -> None:
        return None

    def faults(self, reading: None, pod: objects.Pod, place: Place) -> tuple[()]:
        return ()

    @classmethod
    def document_faults(
        cls, snapshot: Snapshot, placement: Placement, roster: Roster, entries: Sequence[Assignment], refusals: Mapping[str, str | None]
    ) -> list[Violation]:
        return gang_faults(snapshot, placement, roster, entries, refusals)


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
