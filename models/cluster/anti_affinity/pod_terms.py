"""Matching of single pod affinity terms, and tests whether a term covers every namespace.

A compiled cluster matches terms for all classes together instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kubestow.models.kube.objects import Pod, PodAffinityTerm
from kubestow.models.kube.selectors import canonical, label_key_requirements, selector_matches
from kubestow.models.snapshot.snapshot import Snapshot

#: The label with its name that every namespace has.
NAME_LABEL: Final = "kubernetes.io/metadata.name"
#: A placeholder for the name of a future namespace, which no term can list.
_FUTURE_NAMESPACE: Final = "\0"


def term_matches(snapshot: Snapshot, pod: Pod, term: PodAffinityTerm, other: Pod) -> bool:
    """Return True if a term of ``pod`` matches the namespace and labels of ``other``."""
    extra = label_key_requirements(pod.metadata.labels or {}, term.matchLabelKeys, term.mismatchLabelKeys)
    if not selector_matches(canonical(term.labelSelector, extra), other.metadata.labels or {}):
        return False
    namespace = other.metadata.namespace or "default"
    if not term.namespaces and term.namespaceSelector is None:
        return namespace == (pod.metadata.namespace or "default")
    labels = namespace_labels_of(snapshot, namespace)
    return namespace in (term.namespaces or ()) or selector_matches(canonical(term.namespaceSelector), labels)


def namespace_labels_of(snapshot: Snapshot, name: str) -> Mapping[str, str]:
    """Return the labels of a namespace. Without a Namespace object, only the name label is known."""
    namespace = snapshot.namespaces.get(name)
    return {NAME_LABEL: name} if namespace is None else namespace.metadata.labels or {}


def namespace_labels(snapshot: Snapshot) -> dict[str, Mapping[str, str]]:
    """Return the labels of every namespace with an object or a pod. Without an object, only the name label is known."""
    found: dict[str, Mapping[str, str]] = {
        name: {NAME_LABEL: name} for name in {pod.metadata.namespace or "default" for pod in snapshot.pods}
    }
    return found | {name: {NAME_LABEL: name, **(namespace.metadata.labels or {})} for name, namespace in snapshot.namespaces.items()}


def looks_everywhere(term: PodAffinityTerm, namespaces: Mapping[str, Mapping[str, str]]) -> bool:
    """Return True if a term covers every namespace: all of several given ones (labels by name), or any future namespace.

    A term that covers future namespaces counts even if it excludes some existing ones.
    """
    selector, listed = canonical(term.namespaceSelector), term.namespaces or ()
    if selector_matches(selector, {NAME_LABEL: _FUTURE_NAMESPACE}):
        return True
    return len(namespaces) > 1 and all(name in listed or selector_matches(selector, labels) for name, labels in namespaces.items())
