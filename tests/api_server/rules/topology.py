"""The scheduler's filters for required pod affinity, anti-affinity and topology spread constraints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from tests.api_server.resources import NAMESPACES, NODES, PODS
from tests.api_server.rules.selectors import affinity_matches, labels_match, repelled
from tests.api_server.store import Store

Object = dict[str, Any]
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def _terms(pod: Object, kind: str) -> list[Object]:
    found: list[Object] = ((pod["spec"].get("affinity") or {}).get(kind) or {}).get(_REQUIRED) or []
    return found


def _constraints(pod: Object) -> list[Object]:
    found = pod["spec"].get("topologySpreadConstraints") or ()
    return [one for one in found if one.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule"]


def has_terms(pod: Object) -> bool:
    """Return True if a pod has terms or constraints on the nodes of other pods."""
    return bool(_terms(pod, "podAffinity") or _terms(pod, "podAntiAffinity") or _constraints(pod))


def _with_keys(selector: Object | None, pod: Object, term: Object) -> Object | None:
    """Return a selector with matchLabelKeys and mismatchLabelKeys filled in."""
    labels = pod["metadata"].get("labels") or {}
    more = [{"key": key, "operator": "In", "values": [labels[key]]} for key in term.get("matchLabelKeys") or () if key in labels]
    more += [{"key": key, "operator": "NotIn", "values": [labels[key]]} for key in term.get("mismatchLabelKeys") or () if key in labels]
    return selector if selector is None else selector | {"matchExpressions": [*(selector.get("matchExpressions") or ()), *more]}


class Topology:
    """The topology filters of one pod, evaluated once against the bound pods."""

    def __init__(self, store: Store, pod: Object) -> None:
        self._store, self._pod = store, pod
        self._placed = self._find(store.all(PODS)) if _terms(pod, "podAffinity") or _terms(pod, "podAntiAffinity") else []
        #: Domains (key, value) closed by anti-affinity.
        self._closed: set[tuple[str, str]] = set()
        for other, where in self._find(store.repelling):
            self._close(_terms(other, "podAntiAffinity"), other, pod, where)
        for other, where in self._placed:
            self._close(_terms(pod, "podAntiAffinity"), pod, other, where)

    def _close(self, terms: list[Object], owner: Object, pod: Object, where: dict[str, str]) -> None:
        for term in terms:
            key = term["topologyKey"]
            if key in where and (key, where[key]) not in self._closed and self._selects(term, owner, pod):
                self._closed.add((key, where[key]))

    def _selects(self, term: Object, owner: Object, pod: Object) -> bool:
        """Return True if a term of ``owner`` matches ``pod``."""
        namespaces, selector = term.get("namespaces") or [], term.get("namespaceSelector")
        namespace = pod["metadata"]["namespace"]
        if selector is None and not namespaces:
            namespaces = [owner["metadata"]["namespace"]]
        if namespace not in namespaces:
            found = self._store.get(NAMESPACES, namespace)
            if found is None or not labels_match(selector, found["metadata"].get("labels")):
                return False
        return labels_match(_with_keys(term.get("labelSelector"), owner, term), pod["metadata"].get("labels"))

    def _find(self, keys: Iterable[str]) -> list[tuple[Object, dict[str, str]]]:
        """Return the bound, not terminated pods among these, with the labels of their nodes."""
        nodes, pods, found = self._store.all(NODES), self._store.all(PODS), []
        for key in keys:
            pod = pods[key]
            node = nodes.get(pod["spec"].get("nodeName") or "")
            if node is not None and (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed"):
                found.append((pod, node["metadata"].get("labels") or {}))
        return found

    def fits(self, node: Object) -> bool:
        """Return True if the pod passes the filters on a node."""
        labels = node["metadata"].get("labels") or {}
        if any(labels.get(key) == value for key, value in self._closed):
            return False
        return self._affinity(self._pod, labels, self._placed) and all(
            self._spread(one, self._pod, labels) for one in _constraints(self._pod)
        )

    def _affinity(self, pod: Object, labels: dict[str, str], placed: list[tuple[Object, dict[str, str]]]) -> bool:
        terms = _terms(pod, "podAffinity")
        if not terms:
            return True
        if any(term["topologyKey"] not in labels for term in terms):
            return False
        matching = [where for other, where in placed if all(self._selects(term, pod, other) for term in terms)]
        if all(any(where.get(term["topologyKey"]) == labels[term["topologyKey"]] for where in matching) for term in terms):
            return True
        first = not any(term["topologyKey"] in where for where in matching for term in terms)
        return first and all(self._selects(term, pod, pod) for term in terms)

    def _spread(self, constraint: Object, pod: Object, labels: dict[str, str]) -> bool:
        key = constraint["topologyKey"]
        if key not in labels:
            return False
        selector = _with_keys(constraint.get("labelSelector"), pod, constraint)
        counts: Counter[str] = Counter()
        keys = [one["topologyKey"] for one in _constraints(pod)]
        for node in self._store.all(NODES).values():
            where = node["metadata"].get("labels") or {}
            if any(one not in where for one in keys) or (
                constraint.get("nodeAffinityPolicy", "Honor") == "Honor" and not affinity_matches(pod, node)
            ):
                continue
            if constraint.get("nodeTaintsPolicy", "Ignore") == "Honor" and repelled(pod, node):
                continue
            counts[where[key]] += 0
            for other in self._store.pods_on(node["metadata"]["name"]):
                same = other["metadata"]["namespace"] == pod["metadata"]["namespace"] and "deletionTimestamp" not in other["metadata"]
                if same and labels_match(selector, other["metadata"].get("labels")):
                    counts[where[key]] += 1
        if labels[key] not in counts:
            return False
        least = 0 if len(counts) < int(constraint.get("minDomains") or 1) else min(counts.values())
        own = int(labels_match(selector, pod["metadata"].get("labels")))
        return counts[labels[key]] + own - least <= int(constraint["maxSkew"])
