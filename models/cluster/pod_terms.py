"""Whether a pod affinity term of one pod matches another, asked one by one; a compiled cluster asks for all classes at once."""

from __future__ import annotations

from models.kube.objects import Pod, PodAffinityTerm
from models.kube.selectors import canonical, label_key_requirements, selector_matches
from models.snapshot.snapshot import Snapshot


def term_matches(snapshot: Snapshot, pod: Pod, term: PodAffinityTerm, other: Pod) -> bool:
    """Return whether a term of the pod matches another pod, by its namespace and labels."""
    extra = label_key_requirements(pod.metadata.labels or {}, term.matchLabelKeys, term.mismatchLabelKeys)
    if not selector_matches(canonical(term.labelSelector, extra), other.metadata.labels or {}):
        return False
    namespace = other.metadata.namespace or "default"
    if not term.namespaces and term.namespaceSelector is None:
        return namespace == (pod.metadata.namespace or "default")
    known = snapshot.namespaces.get(namespace)
    labels = (known.metadata.labels or {}) if known is not None else {}
    return namespace in (term.namespaces or ()) or selector_matches(canonical(term.namespaceSelector), labels)
