"""The affinity of pods of a gang that are bound as a unit, and see each other as present.

Source: docs/gangs.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kubestow.checker.reading.affinity_terms import AffinityMember, Group
from kubestow.checker.rules.inter_pod_affinity.state import AffinityState
from kubestow.models.kube import objects


class _Ask(NamedTuple):
    """The affinity terms of a pod.

    Attributes:
        group: Matches that must all select a pod to make it a match.
        keys: Topology keys; a match must be in the pod's domain of each.
    """

    group: Group
    keys: tuple[str, ...]


class _Kind(NamedTuple):
    """Members that affinity cannot distinguish.

    Attributes:
        ask: Their own affinity terms, or None.
        answers: The groups of the unit's terms that they satisfy.
    """

    ask: _Ask | None
    answers: frozenset[Group]

    def shares_terms_with(self, other: _Kind) -> bool:
        """Return True if both have equal affinity terms."""
        return self.ask is not None and self.ask == other.ask


def affinity_faults(state: AffinityState, unit: Sequence[tuple[AffinityMember, objects.Node]]) -> list[list[str]]:
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
