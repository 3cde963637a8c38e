"""Pods that selectors match, over all pods at once, so that rules can name the workloads that they tie together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from kubestow.models.kube import objects
from kubestow.models.kube.selectors import LabelRequirement, Selector, canonical, label_key_requirements, selector_matches
from kubestow.models.snapshot.snapshot import Snapshot

#: Maximum number of workloads that a rule names. A rule that matches more names none.
MAX_TIED_WORKLOADS: Final = 100
#: Maximum number of examined classes in total. Selectors with broad matches make every pod a candidate, which could
#: take minutes.
_MAX_EXAMINED_CLASSES: Final = 3_000_000

Namespaces = frozenset[str] | None


class SelectorTerm(NamedTuple):
    """A term of required affinity or anti-affinity: namespaces, selector and topology key."""

    namespaces: Namespaces
    selector: Selector
    key: str


@dataclass(frozen=True)
class Class:
    """Pods of one workload that no selector can distinguish. ``index`` is the index among the classes."""

    index: int
    namespace: str
    labels: dict[str, str]
    workload: int


class Ties:
    """The classes of pods, and the selectors that match them."""

    def __init__(self, snapshot: Snapshot, pods: Sequence[objects.Pod], workloads: Sequence[int]) -> None:
        self._snapshot = snapshot
        self.classes: list[Class] = []
        self.of_pod: list[int] = []
        self._namespaces: dict[str, list[Class]] = {}
        self._by: dict[tuple[str | None, str, str | None], list[Class]] = {}
        self._tied: dict[tuple[Namespaces, Selector], tuple[int, ...] | None] = {}
        self._looked = 0
        self._selected: dict[Selector, frozenset[str]] = {}
        ids: dict[tuple[str, int, int], int] = {}
        for pod, workload in zip(pods, workloads, strict=True):
            namespace, labels = pod.metadata.namespace or "default", pod.metadata.labels
            key = namespace, id(labels), workload
            at = ids.get(key)
            if at is None:
                at = ids[key] = len(self.classes)
                self._add(Class(at, namespace, labels or {}, workload))
            self.of_pod.append(at)

    def _add(self, found: Class) -> None:
        self.classes.append(found)
        self._namespaces.setdefault(found.namespace, []).append(found)
        for key, value in found.labels.items():
            for namespace in (found.namespace, None):
                self._by.setdefault((namespace, key, value), []).append(found)
                self._by.setdefault((namespace, key, None), []).append(found)

    def namespaces(self, term: objects.PodAffinityTerm, own: str) -> Namespaces:
        """Return the namespaces that a term covers. None: all (pkg/scheduler/framework/types.go, AffinityTerm)."""
        if not term.namespaces and term.namespaceSelector is None:
            return frozenset((own,))
        given = frozenset(term.namespaces or ())
        chosen = canonical(term.namespaceSelector)
        if chosen is None:
            return given
        if not chosen:
            return None
        if chosen not in self._selected:
            every = {*self._snapshot.namespaces, *self._namespaces}
            self._selected[chosen] = frozenset(name for name in every if selector_matches(chosen, self._labels(name)))
        return given | self._selected[chosen]

    def _labels(self, namespace: str) -> dict[str, str]:
        found = self._snapshot.namespaces.get(namespace)
        return (found.metadata.labels or {}) if found is not None else {}

    def term(self, pod: objects.Pod, term: objects.PodAffinityTerm) -> SelectorTerm | None:
        """Return a pod's term. None: it has no selector and matches nothing."""
        extra = label_key_requirements(pod.metadata.labels or {}, term.matchLabelKeys, term.mismatchLabelKeys)
        found = canonical(term.labelSelector, extra)
        return None if found is None else SelectorTerm(self.namespaces(term, pod.metadata.namespace or "default"), found, term.topologyKey)

    def _matching(self, namespaces: Namespaces, selector: Selector) -> list[Class] | None:
        """Return the classes that a selector matches in the given or all namespaces. None if the limit of examined
        classes is exceeded.
        """
        candidates = self._candidates(namespaces, selector)
        self._looked += len(candidates)
        if self._looked > _MAX_EXAMINED_CLASSES:
            return None
        return [
            each for each in candidates if (namespaces is None or each.namespace in namespaces) and selector_matches(selector, each.labels)
        ]

    def _candidates(self, namespaces: Namespaces, selector: Selector) -> list[Class]:
        """Return the smallest known superset of all matches, by the most selective requirement."""
        if namespaces is None or len(namespaces) > 1:
            where: str | None = None
            pools = [self.classes]
        elif namespaces:
            (where,) = namespaces
            pools = [self._namespaces.get(where, [])]
        else:
            return []
        pools += [found for each in selector if (found := self._pool(where, each)) is not None]
        return min(pools, key=len)

    def _pool(self, where: str | None, requirement: LabelRequirement) -> list[Class] | None:
        if requirement.operator == "In":
            return [found for value in requirement.values for found in self._by.get((where, requirement.key, value), ())]
        return self._by.get((where, requirement.key, None), []) if requirement.operator == "Exists" else None

    def workloads(self, namespaces: Namespaces, selector: Selector) -> tuple[int, ...] | None:
        """Return the workloads with pods that a selector matches, ascending. None if there are very many."""
        key = namespaces, selector
        if key not in self._tied:
            matched = self._matching(namespaces, selector)
            found = {each.workload for each in matched or ()}
            self._tied[key] = tuple(sorted(found)) if matched is not None and len(found) <= MAX_TIED_WORKLOADS else None
        return self._tied[key]

    def repelled(
        self, terms: Iterable[tuple[int, SelectorTerm]]
    ) -> tuple[dict[int, dict[str, set[int]]], dict[int, set[SelectorTerm]], bool]:
        """Return the required anti-affinity that excludes pods. ``terms`` are given with their workload.

        Returns:
            By class and topology key, the other workloads; by class, the terms of its own workload, which only some
            of its pods may have during a rollout; False if the limit of examined classes was exceeded.
        """
        others: dict[int, dict[str, set[int]]] = {}
        own: dict[int, set[SelectorTerm]] = {}
        for workload, term in dict.fromkeys(terms):
            matched = self._matching(term.namespaces, term.selector)
            if matched is None:
                return others, own, False
            for each in matched:
                if each.workload != workload:
                    others.setdefault(each.index, {}).setdefault(term.key, set()).add(workload)
                else:
                    own.setdefault(each.index, set()).add(term)
        return others, own, True

    def selected(self, namespace: str, selector: Selector | None) -> list[Class] | None:
        """Return the classes of a namespace that a budget selects. None if the limit of examined classes is exceeded."""
        return [] if selector is None else self._matching(frozenset((namespace,)), selector)
