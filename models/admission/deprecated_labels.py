"""Deprecated node labels and their replacements. Clouds no longer set the old ones on new nodes.

Source: pkg/api/node/util.go (deprecatedNodeLabels). An API server warns about them in nodeSelector, node
affinity and topologySpreadConstraints, but not in pod affinity and anti-affinity.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from kubestow.models.kube.objects import Node, Pod
from kubestow.models.kube.pod_spec import required_terms

#: Old label -> its replacement, and the release that deprecated it.
REPLACED: Final = {
    "beta.kubernetes.io/arch": ("kubernetes.io/arch", "1.14"),
    "beta.kubernetes.io/os": ("kubernetes.io/os", "1.14"),
    "beta.kubernetes.io/instance-type": ("node.kubernetes.io/instance-type", "1.17"),
    "failure-domain.beta.kubernetes.io/region": ("topology.kubernetes.io/region", "1.17"),
    "failure-domain.beta.kubernetes.io/zone": ("topology.kubernetes.io/zone", "1.17"),
    "node-role.kubernetes.io/master": ("node-role.kubernetes.io/control-plane", "1.20"),
}


def hint(keys: Iterable[str], nodes: Sequence[Node]) -> str:
    """Return a hint for the first deprecated key whose replacement nodes have; "" if there is none.

    The hint has the form ``; it is deprecated since Kubernetes 1.17: use KEY, which N of M nodes have``.
    """
    for key in keys:
        new, since = REPLACED.get(key, ("", ""))
        having = sum(new in (node.metadata.labels or {}) for node in nodes) if new else 0
        if having:
            return f"; it is deprecated since Kubernetes {since}: use {new}, which {having} of {len(nodes)} nodes have"
    return ""


def idle_terms(waiting: Iterable[Pod], nodes: Sequence[Node]) -> list[str]:
    """Return a note for each deprecated key that no node has and that anti-affinity uses: the rule has no effect."""
    known = {key for node in nodes for key in node.metadata.labels or {}}
    found: dict[str, int] = {}
    for pod in waiting:
        if pod.spec.affinity is None or pod.spec.affinity.podAntiAffinity is None:
            continue
        keys = {term.topologyKey for term in required_terms(pod, "podAntiAffinity")} & REPLACED.keys()
        for key in sorted(keys - known):
            found[key] = found.get(key, 0) + 1
    notes = []
    for key, count in found.items():
        pods = f"{count} pod{'s' if count > 1 else ''}"
        notes.append(f"required anti-affinity over {key} has no effect: no node has this label ({pods}){hint([key], nodes)}")
    return notes
