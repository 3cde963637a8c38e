"""The eligible nodes of spread constraints: nodes with the topology keys, after node affinity and taints.

Source: kube-scheduler plugin podtopologyspread (common.go).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from kubestow.checker.reading import matching
from kubestow.checker.reading.taints import untolerated_taint
from kubestow.models.kube import objects
from kubestow.models.kube.feature_gates import FeatureGates


class Eligible:
    """The eligible nodes of constraints, with sets shared between equal keys, node affinities and tolerations."""

    def __init__(self, nodes: Mapping[str, objects.Node], gates: FeatureGates) -> None:
        self._nodes, self._gates = nodes, gates
        self._by_label: dict[tuple[str, str], list[str]] = {}
        with_key: dict[str, list[str]] = {}
        for name, node in nodes.items():
            for pair in (node.metadata.labels or {}).items():
                self._by_label.setdefault(pair, []).append(name)
                with_key.setdefault(pair[0], []).append(name)
        self._with_key = {key: frozenset(names) for key, names in with_key.items()}
        self._accepting: dict[object, frozenset[str]] = {}
        self._tolerated: dict[object, frozenset[str]] = {}
        self._memo: dict[tuple[object, ...], frozenset[str]] = {}
        self._same: dict[frozenset[str], frozenset[str]] = {}
        self._values: dict[tuple[frozenset[str], str], int] = {}

    def of(self, spec: objects.PodSpec, keys: Collection[str], *, affinity: bool, taints: bool) -> frozenset[str]:
        """Return the nodes that have all keys and, if requested, are accepted by the pod's node affinity and tolerations."""
        wanted = matching.text(spec.nodeSelector, *_required(spec)) if affinity else None
        tolerated = matching.text(spec.tolerations) if taints else None
        memo = frozenset(keys), wanted, tolerated
        if memo not in self._memo:
            if wanted not in self._accepting:
                among = self._candidates(spec) if affinity else self._nodes
                self._accepting[wanted] = frozenset(
                    name for name in among if not (affinity and matching.node_affinity_fault(spec, self._nodes[name]))
                )
            if tolerated not in self._tolerated:
                self._tolerated[tolerated] = frozenset(
                    name
                    for name, node in self._nodes.items()
                    if not (taints and untolerated_taint(spec.tolerations, _taints(node), self._gates))
                )
            found = self._accepting[wanted].intersection(self._tolerated[tolerated], *(self._with_key.get(key, ()) for key in keys))
            self._memo[memo] = self._same.setdefault(found, found)  # one object per set makes comparisons fast
        return self._memo[memo]

    def domains(self, eligible: frozenset[str], key: str) -> int:
        """Return the number of values of ``key`` among eligible nodes."""
        memo = eligible, key
        if memo not in self._values:
            self._values[memo] = len({(self._nodes[name].metadata.labels or {})[key] for name in eligible})
        return self._values[memo]

    def _candidates(self, spec: objects.PodSpec) -> Iterable[str]:
        """Return a superset of the nodes that node affinity accepts. For pods that name their node (daemons, local
        volumes) it is small.
        """
        if spec.nodeSelector:
            return min((self._by_label.get(pair, []) for pair in spec.nodeSelector.items()), key=len)
        required, _ = _required(spec)
        found: dict[str, None] = {}
        for term in (required.nodeSelectorTerms or ()) if required else ():
            named = next((e for e in term.matchFields or () if e.key == "metadata.name" and e.operator == "In"), None)
            label = next((e for e in term.matchExpressions or () if e.operator == "In"), None)
            if named is not None:
                found.update((name, None) for name in named.values or () if name in self._nodes)
            elif label is not None:
                found.update((name, None) for value in label.values or () for name in self._by_label.get((label.key, value), ()))
            else:
                return self._nodes
        return found if required else self._nodes


def _required(spec: objects.PodSpec) -> tuple[objects.NodeSelector | None, objects.NodeSelector | None]:
    """Return the hard parts of node affinity."""
    wanted = spec.affinity.nodeAffinity if spec.affinity else None
    if wanted is None:
        return None, None
    return wanted.requiredDuringSchedulingIgnoredDuringExecution, wanted.requiredDuringSchedulingRequiredDuringExecution


def _taints(node: objects.Node) -> list[objects.Taint]:
    return (node.spec.taints or []) if node.spec else []
