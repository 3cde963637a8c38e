"""Whether a pod affinity term of one pod matches another, asked one by one, and whether it looks at every namespace; a compiled cluster
asks for all classes at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kubestow.models.kube.objects import Pod, PodAffinityTerm
from kubestow.models.kube.selectors import canonical, label_key_requirements, selector_matches
from kubestow.models.snapshot.snapshot import Snapshot

#: The label that every namespace has, with its name.
NAME_LABEL: Final = "kubernetes.io/metadata.name"
#: The name of a namespace that is yet to come: one that no term can list.
_TO_COME: Final = "\0"


def term_matches(snapshot: Snapshot, pod: Pod, term: PodAffinityTerm, other: Pod) -> bool:
    """Return whether a term of the pod matches another pod, by its namespace and labels."""
    extra = label_key_requirements(pod.metadata.labels or {}, term.matchLabelKeys, term.mismatchLabelKeys)
    if not selector_matches(canonical(term.labelSelector, extra), other.metadata.labels or {}):
        return False
    namespace = other.metadata.namespace or "default"
    if not term.namespaces and term.namespaceSelector is None:
        return namespace == (pod.metadata.namespace or "default")
    labels = namespace_labels_of(snapshot, namespace)
    return namespace in (term.namespaces or ()) or selector_matches(canonical(term.namespaceSelector), labels)


def namespace_labels_of(snapshot: Snapshot, name: str) -> Mapping[str, str]:
    """Return the labels of a namespace; of one without an object its name alone."""
    found = snapshot.namespaces.get(name)
    return {NAME_LABEL: name} if found is None else found.metadata.labels or {}


def namespace_labels(snapshot: Snapshot) -> dict[str, Mapping[str, str]]:
    """Return the labels of every namespace that has an object or a pod in the snapshot; of one without an object its name is known."""
    found: dict[str, Mapping[str, str]] = {
        name: {NAME_LABEL: name} for name in {pod.metadata.namespace or "default" for pod in snapshot.pods}
    }
    return found | {name: {NAME_LABEL: name, **(namespace.metadata.labels or {})} for name, namespace in snapshot.namespaces.items()}


def looks_everywhere(term: PodAffinityTerm, namespaces: Mapping[str, Mapping[str, str]]) -> bool:
    """Return whether a term looks at every namespace, however it says so: at every one of those given (labels by name; several), or at any
    that is yet to come and that it does not list, whichever few it leaves out."""
    selector, listed = canonical(term.namespaceSelector), term.namespaces or ()
    if selector_matches(selector, {NAME_LABEL: _TO_COME}):
        return True
    return len(namespaces) > 1 and all(name in listed or selector_matches(selector, labels) for name, labels in namespaces.items())
