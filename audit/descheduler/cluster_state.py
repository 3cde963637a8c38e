"""A cluster as the descheduler sees it: pods on nodes, their requests, and whether a pod would fit another node.

Source: https://github.com/kubernetes-sigs/descheduler, pkg/descheduler/node/node.go and pkg/utils/predicates.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from kubestow.models.kube.objects import LabelSelector, Pod, PodAffinityTerm, is_terminal
from kubestow.models.kube.pod_requests import allocatable, pod_request
from kubestow.models.kube.pod_spec import qos_class
from kubestow.models.kube.selectors import Bools, NodeColumns, Selector, Tolerations, canonical, selector_matches
from kubestow.models.snapshot.snapshot import Snapshot

_HARD: Final = frozenset({"NoSchedule", "NoExecute"})
_EFFECTS: Final = frozenset({"NoSchedule", "NoExecute", "PreferNoSchedule"})
_QOS: Final = {"BestEffort": 0, "Burstable": 1, "Guaranteed": 2}
#: Taints that mark nodes as not ready. Node conditions are not read.
_NOT_READY: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
PREFER_NO_EVICTION: Final = "descheduler.alpha.kubernetes.io/prefer-no-eviction"


class ClusterFacts:
    """Data that does not change as pods move, computed once."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot, self.pods = snapshot, snapshot.pods
        self.table = NodeColumns(snapshot.nodes)
        self.index = {name: n for n, name in enumerate(self.table.names)}
        # A node without allocatable uses its capacity (referencedResourceListForNodeCapacity).
        status = [node.status for node in snapshot.nodes]
        self.capacity = [allocatable((s.allocatable or s.capacity) if s is not None else None) for s in status]
        self.allocatable = [allocatable(s.allocatable if s is not None else None) for s in status]
        self.ready = [not any(taint.key in _NOT_READY for taint in self.table.taints(n)) for n in range(self.table.size)]
        self._requests: dict[int, dict[str, int]] = {}  # by the id of a shared part of pods, which the snapshot keeps alive
        self._selected: dict[tuple[int, int], Bools] = {}
        self._tolerated: dict[tuple[bool, int], Bools] = {}
        self._tolerations: dict[int, Tolerations] = {}

    def ready_nodes(self, chosen: LabelSelector | None) -> list[int]:
        """Return the ready nodes that match a label selector. None matches all."""
        labels = canonical(chosen) if chosen is not None else ()
        return [n for n in range(self.table.size) if self.ready[n] and selector_matches(labels, self.table.labels(n))]

    def request(self, i: int) -> dict[str, int]:
        """Return the requests in a pod's spec: CPU in mCPU, other resources in whole units."""
        pod = self.pods[i]
        key = id(pod.spec)
        if key not in self._requests:
            self._requests[key] = pod_request(Pod(pod.metadata, pod.spec), self.snapshot.gates)
        return self._requests[key]

    def selected(self, i: int) -> Bools:
        """Return bool[N]: the nodes that a pod's nodeSelector and required node affinity allow."""
        spec = self.pods[i].spec
        affinity = spec.affinity.nodeAffinity if spec.affinity is not None else None
        required = affinity.requiredDuringSchedulingIgnoredDuringExecution if affinity is not None else None
        key = id(spec.nodeSelector), id(required)
        if key not in self._selected:
            mask = self.table.has_labels(spec.nodeSelector or {})
            self._selected[key] = mask if required is None else mask & self.table.selector(required)
        return self._selected[key]

    def tolerations(self, i: int) -> Tolerations:
        """Return a pod's tolerations, cached."""
        listed = self.pods[i].spec.tolerations
        if id(listed) not in self._tolerations:
            self._tolerations[id(listed)] = Tolerations(listed, self.snapshot.gates)
        return self._tolerations[id(listed)]

    def tolerated(self, i: int, *, soft: bool = False) -> Bools:
        """Return bool[N]: nodes whose hard taints a pod tolerates. With ``soft``, PreferNoSchedule taints must be tolerated too."""
        key = soft, id(self.pods[i].spec.tolerations)
        if key not in self._tolerated:
            self._tolerated[key] = self.table.tolerated(self.tolerations(i), _EFFECTS if soft else _HARD)
        return self._tolerated[key]

    def weights(self, i: int) -> Sequence[int]:
        """Return int64[N]: the sum of the weights of preferred node affinity that each node matches."""
        affinity = self.pods[i].spec.affinity
        terms = (affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution or ()) if affinity and affinity.nodeAffinity else ()
        total = np.zeros(self.table.size, dtype=np.int64)
        for term in terms:
            total += term.weight * self.table.term(term.preference)
        return [int(weight) for weight in total]

    def rank(self, i: int) -> tuple[int, int, int, bool]:
        """Return a sort key by priority, quality of service and no-eviction preference. The first pods are evicted first."""
        pod = self.pods[i]
        priority = pod.spec.priority
        wish = PREFER_NO_EVICTION in (pod.metadata.annotations or {})
        return int(priority is not None), priority or 0, _QOS[qos_class(pod)], wish


def anti_affinity(pod: Pod) -> list[PodAffinityTerm]:
    """Return the required anti-affinity terms that the descheduler evaluates."""
    part = pod.spec.affinity.podAntiAffinity if pod.spec.affinity is not None else None
    return list(part.requiredDuringSchedulingIgnoredDuringExecution or ()) if part is not None else []


def term_scope(pod: Pod, term: PodAffinityTerm) -> tuple[frozenset[str], Selector | None]:
    """Return the namespaces and the selector of a term as the descheduler reads them.

    It ignores namespaceSelector, matchLabelKeys and mismatchLabelKeys, and a missing selector matches nothing.
    """
    return frozenset(term.namespaces or [pod.metadata.namespace or "default"]), canonical(term.labelSelector)


@dataclass
class ClusterState:
    """Pods on nodes at one moment. ``at`` is the node index of each pod, or -1. Terminated pods have -1."""

    facts: ClusterFacts
    at: list[int]

    def __post_init__(self) -> None:
        self._on: list[list[int]] = [[] for _ in range(self.facts.table.size)]
        for i, n in enumerate(self.at):
            if n >= 0:
                self._on[n].append(i)
        self._used: dict[int, Counter[str]] = {}

    @classmethod
    def of(cls, facts: ClusterFacts) -> ClusterState:
        """Return the cluster of the snapshot."""
        return cls(facts, [-1 if is_terminal(pod) else facts.index.get(pod.spec.nodeName or "", -1) for pod in facts.pods])

    def with_pods(self, moved: Mapping[int, int]) -> ClusterState:
        """Return a copy of the cluster with some pods moved (-1: on no node)."""
        at = list(self.at)
        for i, n in moved.items():
            at[i] = n
        return ClusterState(self.facts, at)

    def on(self, n: int) -> list[int]:
        """Return the pods on a node, in snapshot order."""
        return list(self._on[n])

    def take_out(self, i: int) -> None:
        """Remove an evicted pod."""
        n = self.at[i]
        self._on[n].remove(i)
        self.at[i] = -1
        if n in self._used:
            self._used[n].subtract(self.facts.request(i))

    def used(self, n: int, name: str) -> int:
        """Return the requests of all pods on a node for a resource, or for ``pods`` their number."""
        if name == "pods":
            return len(self._on[n])
        found = self._used.get(n)
        if found is None:
            found = self._used[n] = Counter()
            for i in self._on[n]:
                found.update(self.facts.request(i))
        return found[name]

    def fits(self, i: int, n: int, home: int) -> bool:
        """Return True if the descheduler considers that a pod fits a node (NodeFit). ``home`` is its current node."""
        facts = self.facts
        if facts.table.unschedulable[n] or not facts.selected(i)[n] or not facts.tolerated(i)[n] or self._repelled(i, n):
            return False
        return n == home or self._has_room(i, n)

    def fits_another(self, i: int, nodes: Iterable[int]) -> bool:
        """Return True if a pod fits one of these nodes, other than its own."""
        home = self.at[i]
        return any(n != home and self.fits(i, n, home) for n in nodes)

    def _has_room(self, i: int, n: int) -> bool:
        there, request = self.facts.allocatable[n], self.facts.request(i)
        if there.get("pods", 0) - len(self._on[n]) <= 0:
            return False
        return all(value <= there.get(name, 0) - self.used(n, name) for name, value in request.items())

    def _repelled(self, i: int, n: int) -> bool:
        """Return True if a pod's own anti-affinity matches a pod on this node."""
        pod = self.facts.pods[i]
        labels = self.facts.table.labels(n)
        for term in anti_affinity(pod):
            if term.topologyKey in labels:
                namespaces, selector = term_scope(pod, term)
                if any(self.meets(i, j, namespaces, selector) for j in self._on[n]):
                    return True
        return False

    def meets(self, i: int, j: int, namespaces: frozenset[str], selector: Selector | None) -> bool:
        """Return True if a term of pod i matches pod j. Pods with the same name count as the same pod."""
        there = self.facts.pods[j].metadata
        own = there.name == self.facts.pods[i].metadata.name
        return not own and (there.namespace or "default") in namespaces and selector_matches(selector, there.labels or {})
