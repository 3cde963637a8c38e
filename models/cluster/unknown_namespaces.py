"""Namespaces without an object in the snapshot whose labels decide the matches of a pod affinity term.

Every namespace has the label kubernetes.io/metadata.name. Other labels are known only from the Namespace object. Without it, a namespace is
treated as having no other labels, and no result that depends on them is proved.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kubestow.models.cluster.anti_affinity.pod_terms import NAME_LABEL
from kubestow.models.kube.objects import Pod, PodAffinityTerm, is_terminal, pod_key
from kubestow.models.kube.pod_spec import affinity_terms
from kubestow.models.kube.selectors import Selector, canonical, requirement_holds, selector_matches
from kubestow.models.snapshot.snapshot import Snapshot

_PARTS: Final = ("podAffinity", "podAntiAffinity")
#: Start of the note about unknown labels.
SENTENCE: Final = "the labels of namespace"
#: Maximum number of namespaces and of pods named in a note.
_MAX_NAMED: Final = 3


@dataclass(frozen=True)
class Undecided:
    """Terms whose matches depend on unknown namespace labels.

    Attributes:
        namespaces: Names of the namespaces without an object, sorted.
        owners: Indices of the pods with such terms.
        required: Indices of the pods that required terms of this kind can concern: owners and possible matches.
    """

    namespaces: tuple[str, ...]
    owners: tuple[int, ...]
    required: frozenset[int]

    def sentence(self, snapshot: Snapshot) -> str:
        """Return a note: the unknown labels, the affected terms, and the objects to add."""
        spaces = f"{'s' * (len(self.namespaces) > 1)} {_some(self.namespaces)}"
        pods = f"pod{'s' * (len(self.owners) > 1)} {_some([pod_key(snapshot.pods[i]) for i in self.owners])}"
        return (
            f"{SENTENCE}{spaces} are not known, because the snapshot has no such Namespace objects: results that depend on "
            f"the namespaceSelector of {pods} are not proved; add the output of `kubectl get namespaces -o json`, or capture the whole "
            "cluster (kubestow capture)"
        )


def labels_decide(selector: Selector | None, name: str) -> bool:
    """Return True if labels other than the name decide whether a selector matches a namespace."""
    named = [r for r in selector or () if r.key == NAME_LABEL]
    return len(named) < len(selector or ()) and all(requirement_holds(r, {NAME_LABEL: name}) for r in named)


def undecided_namespaces(term: PodAffinityTerm, unknown: Iterable[str]) -> frozenset[str]:
    """Return the namespaces without objects for which it is unknown whether the term covers them."""
    selector = canonical(term.namespaceSelector)
    return frozenset(name for name in unknown if name not in (term.namespaces or ()) and labels_decide(selector, name))


def undecided(snapshot: Snapshot) -> Undecided | None:
    """Return the terms that depend on unknown namespace labels, or None if there are none."""
    living = [i for i, pod in enumerate(snapshot.pods) if not is_terminal(pod)]
    unknown = {snapshot.pods[i].metadata.namespace or "default" for i in living} - snapshot.namespaces.keys()
    if not unknown:
        return None
    there: dict[str, list[int]] = {name: [] for name in unknown}
    for i in living:
        if (name := snapshot.pods[i].metadata.namespace or "default") in there:
            there[name].append(i)
    memo: dict[object, tuple[frozenset[str], frozenset[int]]] = {}
    spaces: set[str] = set()
    owners: list[int] = []
    required: set[int] = set()
    for i in living:
        for term, hard in _terms(snapshot.pods[i]):
            key = canonical(term.labelSelector), canonical(term.namespaceSelector), tuple(term.namespaces or ())
            if key not in memo:
                memo[key] = _hits(snapshot, term, there)
            where, hits = memo[key]
            if hits:
                spaces |= where
                owners.append(i)
                required |= {i, *hits} if hard else set()
    return Undecided(tuple(sorted(spaces)), tuple(dict.fromkeys(owners)), frozenset(required)) if owners else None


def _terms(pod: Pod) -> list[tuple[PodAffinityTerm, bool]]:
    """Return the terms of a pod with a namespaceSelector, each with True if it is required."""
    if pod.spec.affinity is None:
        return []
    return [each for part in _PARTS for each in affinity_terms(pod, part) if each[0].namespaceSelector is not None]


def _hits(snapshot: Snapshot, term: PodAffinityTerm, there: Mapping[str, Sequence[int]]) -> tuple[frozenset[str], frozenset[int]]:
    """Return the namespaces that decide the matches of a term, and the pods there that it could match.

    matchLabelKeys are ignored, so the result can only be too large.
    """
    selector = canonical(term.labelSelector)
    spaces = undecided_namespaces(term, there)
    hits = [i for name in spaces for i in there[name] if selector_matches(selector, snapshot.pods[i].metadata.labels or {})]
    return frozenset(snapshot.pods[i].metadata.namespace or "default" for i in hits), frozenset(hits)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_MAX_NAMED]) + (f" and {len(names) - _MAX_NAMED:,} more" if len(names) > _MAX_NAMED else "")
