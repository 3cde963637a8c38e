"""Fields of pods that no rule of the registry reads, for the list of unmodelled parts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from kubestow.models.cluster.cluster import Cluster, PodClass
from kubestow.models.documents.placement import Unmodelled
from kubestow.models.kube.objects import pod_key
from kubestow.solver import rules

#: Fields of PodClass for preferences and the order of tiers.
SOFT_FIELDS = frozenset({"priority", "prefers", "scores", "pulls", "soft_spread"})
#: Field of the pod that a field of PodClass is read from.
_SOURCES = {
    "node_rule": "spec.affinity.nodeAffinity",
    "tolerations": "spec.tolerations",
    "node_name": "spec.nodeName",
    "anti": "spec.affinity.podAntiAffinity",
    "affinity": "spec.affinity.podAffinity",
    "spread": "spec.topologySpreadConstraints",
    "ports": "spec.containers[].ports[].hostPort",
    "claims": "spec.volumes",
    "os": "spec.os",
    "devices": "spec.resourceClaims",
}


def unread(cluster: Cluster) -> Iterator[Unmodelled]:
    """Yield the fields of pending pods that distinguish classes, but that no rule and no preference reads."""
    read = SOFT_FIELDS.union(*(kind.reads for kind in rules.ALL))
    for name in (field.name for field in fields(PodClass) if field.compare and field.name not in read):
        for cls in (cls for cls in cluster.classes if getattr(cls, name)):
            for i in cls.pods:
                yield Unmodelled(pod_key(cluster.snapshot.pods[i]), _SOURCES.get(name, name), "ignored: no active rule reads it")
