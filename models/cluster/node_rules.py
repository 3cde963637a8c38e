"""Node sets from nodeSelector, node affinity, tolerations and spread constraints."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import numpy as np

from kubestow.models.cluster.cluster import HARD_EFFECTS
from kubestow.models.kube import objects
from kubestow.models.kube.feature_gates import FeatureGates
from kubestow.models.kube.objects import Pod
from kubestow.models.kube.selectors import Bools, NodeColumns, Tolerations

_encoder = msgspec.json.Encoder(order="deterministic")


class NodeRules:
    """A registry of node sets (bool[N]) and toleration sets of pods. Equal sets share an index."""

    def __init__(self, nodes: NodeColumns, gates: FeatureGates) -> None:
        self.nodes, self._gates = nodes, gates
        self.node_sets: list[Bools] = []
        self.toleration_sets: list[Tolerations] = []
        self._node_set_ids: dict[bytes, int] = {}
        self._node_rule_ids: dict[bytes, int] = {}
        self._toleration_ids: dict[bytes, int] = {}

    def node_set(self, mask: Bools) -> int:
        key = np.packbits(mask).tobytes()
        if key not in self._node_set_ids:
            self._node_set_ids[key] = len(self.node_sets)
            self.node_sets.append(mask)
        return self._node_set_ids[key]

    def node_rule(self, pod: Pod) -> int:
        """Return the index of the node set that nodeSelector and required node affinity select together."""
        affinity = pod.spec.affinity.nodeAffinity if pod.spec.affinity else None
        required = [
            s
            for s in (
                affinity.requiredDuringSchedulingIgnoredDuringExecution if affinity else None,
                affinity.requiredDuringSchedulingRequiredDuringExecution if affinity else None,
            )
            if s is not None
        ]
        key = _encoder.encode((pod.spec.nodeSelector, required))
        if key not in self._node_rule_ids:
            mask = self.nodes.has_labels(pod.spec.nodeSelector or {})
            for selector in required:
                mask = mask & self.nodes.selector(selector)
            self._node_rule_ids[key] = self.node_set(mask)
        return self._node_rule_ids[key]

    def tolerations(self, pod: Pod) -> int:
        tolerations = tuple(pod.spec.tolerations or ())
        ordered = sorted(tolerations, key=lambda t: (t.key or "", t.operator or "", t.value or "", t.effect or ""))
        key = _encoder.encode(ordered)
        if key not in self._toleration_ids:
            self._toleration_ids[key] = len(self.toleration_sets)
            self.toleration_sets.append(Tolerations(ordered, self._gates))
        return self._toleration_ids[key]

    def prefers(self, pod: Pod) -> tuple[tuple[int, int], ...]:
        """Return preferred node affinity as (node set, weight), with the weights of equal sets summed."""
        affinity = pod.spec.affinity.nodeAffinity if pod.spec.affinity else None
        found: dict[int, int] = {}
        if affinity is not None:
            for preferred in affinity.preferredDuringSchedulingIgnoredDuringExecution or ():
                mask = self.nodes.selector(objects.NodeSelector([preferred.preference]))
                if mask.any():
                    chosen = self.node_set(mask)
                    found[chosen] = found.get(chosen, 0) + preferred.weight
        return tuple(sorted(found.items()))

    def eligible(self, pod: Pod, constraint: objects.TopologySpreadConstraint, keys: Iterable[str]) -> int:
        mask = self.nodes.with_keys(keys)
        if (constraint.nodeAffinityPolicy or "Honor") == "Honor":
            mask = mask & self.node_sets[self.node_rule(pod)]
        if (constraint.nodeTaintsPolicy or "Ignore") == "Honor":
            mask = mask & self.nodes.tolerated(self.toleration_sets[self.tolerations(pod)], HARD_EFFECTS)
        return self.node_set(mask)
