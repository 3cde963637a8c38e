"""The opportunity cost of required anti-affinity: the resources of the nodes that a pod closes to others.

A required anti-affinity term closes its topology domain to others, unless it only matches pods of the same namespace with labels of the
pod itself, as for replicas that repel each other. A pod on a node closes the domain of this node. A pod without a node can close the
domain of any node that its nodeSelector and required node affinity select. The estimate has the average and the largest of these domains.

Source: docs/sources.md#inter-pod-affinity, the section on denial of service.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final

import numpy as np

from kubestow.models.cluster.anti_affinity.pod_terms import namespace_labels
from kubestow.models.kube.objects import Pod, PodAffinityTerm, pod_key
from kubestow.models.kube.pod_requests import allocatable
from kubestow.models.kube.pod_spec import required_terms
from kubestow.models.kube.selectors import Bools, NodeColumns, canonical, label_key_requirements, selector_matches
from kubestow.models.snapshot.snapshot import Snapshot

#: The label with its name that every namespace has, and a placeholder name for future namespaces, which no term can list.
_NAME_LABEL: Final = "kubernetes.io/metadata.name"
_FUTURE_NAMESPACE: Final = "\0"
#: Operators that require a label. The others also select pods without labels.
_REQUIRING_OPERATORS: Final = ("In", "Exists")
#: A topology key and the code of one of its values in :meth:`NodeColumns.column`.
_Domain = tuple[str, int]


@dataclass(frozen=True)
class Estimate:
    """The capacity that a pod can close.

    Attributes:
        average: Mean over the distinct domains, by resource, in mCPU, bytes or units.
        largest: Maximum over the domains, for each resource separately.
        average_nodes: Mean number of nodes.
        largest_nodes: Maximum number of nodes.
    """

    average: Mapping[str, Fraction]
    largest: Mapping[str, int]
    average_nodes: Fraction
    largest_nodes: int


class OpportunityCosts:
    """The capacity that the pods of a snapshot close to others, cached for equal pods.

    Args:
        exempt: Namespaces without hard anti-affinity.

    Raises:
        QuantityError: An allocatable quantity is malformed or exceeds 64 bits.
    """

    def __init__(self, snapshot: Snapshot, exempt: Collection[str] = ()) -> None:
        self._snapshot, self._exempt = snapshot, frozenset(exempt)
        self._keys: dict[tuple[object, ...], tuple[str, ...]] = {}
        self._estimates: dict[tuple[object, ...], Estimate | None] = {}
        self._sums: dict[frozenset[_Domain], tuple[dict[str, int], int]] = {}
        self._members: dict[_Domain, frozenset[int]] = {}

    # --- the terms of a pod -------------------------------------------------------------------------------------------

    def keys(self, pod: Pod) -> tuple[str, ...]:
        """Return the topology keys whose domains a pod closes to others, sorted."""
        affinity = pod.spec.affinity
        if affinity is None or affinity.podAntiAffinity is None:
            return ()
        known = id(affinity.podAntiAffinity), id(pod.metadata.labels), pod.metadata.namespace
        if known not in self._keys:
            terms = required_terms(pod, "podAntiAffinity") if (pod.metadata.namespace or "default") not in self._exempt else []
            self._keys[known] = tuple(sorted({term.topologyKey for term in terms if self._closes(pod, term)}))
        return self._keys[known]

    def _closes(self, pod: Pod, term: PodAffinityTerm) -> bool:
        """Return True if a term rejects pods other than the pod's own replicas."""
        labels = pod.metadata.labels or {}
        selector = canonical(term.labelSelector, label_key_requirements(labels, term.matchLabelKeys, term.mismatchLabelKeys))
        if selector is None:
            return False
        own, others = self._looks(term, pod.metadata.namespace or "default")
        alike = any(requirement.operator in _REQUIRING_OPERATORS for requirement in selector) and selector_matches(selector, labels)
        return others or (own and not alike)

    def _looks(self, term: PodAffinityTerm, own: str) -> tuple[bool, bool]:
        """Return whether a term covers the pod's own namespace, and whether it covers another namespace that is not exempt."""
        if not term.namespaces and term.namespaceSelector is None:
            return True, False
        selector, listed = canonical(term.namespaceSelector), set(term.namespaces or ())
        namespaces = listed | {name for name, labels in self._namespaces.items() if selector_matches(selector, labels)}
        to_come = selector_matches(selector, {_NAME_LABEL: _FUTURE_NAMESPACE})
        return own in namespaces or to_come, to_come or bool(namespaces - self._exempt - {own})

    @cached_property
    def _namespaces(self) -> dict[str, Mapping[str, str]]:
        return namespace_labels(self._snapshot)

    # --- the nodes ----------------------------------------------------------------------------------------------------

    def closed(self, pod: Pod) -> frozenset[int]:
        """Return the indices of the nodes that a pod closes, empty if the pod is on no node of the snapshot."""
        node = self.home(pod)
        keys = self.keys(pod) if node is not None else ()
        if node is None or not keys:
            return frozenset()
        return frozenset[int]().union(*(self._member_set(domain) for domain in self._domains(keys, node)))

    def estimate(self, pod: Pod) -> Estimate | None:
        """Return the capacity that a pod closes on its node, or can close on any eligible node. None if it closes nothing."""
        keys = self.keys(pod)
        if not keys:
            return None
        spec, home = pod.spec, self.home(pod)
        node = spec.affinity.nodeAffinity if spec.affinity is not None else None
        known = keys, home, id(spec.nodeSelector), id(node)
        if known not in self._estimates:
            nodes = np.flatnonzero(self._selected(pod)).tolist() if home is None else [home]
            self._estimates[known] = self._over({self._domains(keys, n) for n in nodes} - {frozenset()})
        return self._estimates[known]

    def amounts(self, node: int) -> dict[str, int]:
        """Return the allocatable resources of a node without pod slots, in mCPU, bytes or units."""
        return self._allocatable[node]

    def home(self, pod: Pod) -> int | None:
        """Return the index of the node on which a pod is in the snapshot. A node chosen in this run does not count."""
        name = pod.spec.nodeName
        if not name or (self._snapshot.chosen_here and pod_key(pod) in self._snapshot.chosen_here):
            return None
        return self._index.get(name)

    def _selected(self, pod: Pod) -> Bools:
        """Return bool[N], the nodes that nodeSelector and required node affinity select."""
        mask = self._table.has_labels(pod.spec.nodeSelector or {})
        node = pod.spec.affinity.nodeAffinity if pod.spec.affinity is not None else None
        for selector in (
            (node.requiredDuringSchedulingIgnoredDuringExecution, node.requiredDuringSchedulingRequiredDuringExecution) if node else ()
        ):
            mask = mask & self._table.selector(selector) if selector is not None else mask
        return mask

    def _domains(self, keys: tuple[str, ...], node: int) -> frozenset[_Domain]:
        """Return the closed domains of a node, without domains contained in another one."""
        found = [(key, int(code)) for key in keys if (code := self._table.column(key)[0][node]) >= 0]
        found.sort(key=lambda domain: (-len(self._member_set(domain)), domain))
        kept: list[_Domain] = []
        for domain in found:
            if not any(self._member_set(domain) <= self._member_set(larger) for larger in kept):
                kept.append(domain)
        return frozenset(kept)

    def _member_set(self, domain: _Domain) -> frozenset[int]:
        if domain not in self._members:
            codes, values = self._table.column(domain[0])
            nodes: list[list[int]] = [[] for _ in values]
            for n, code in enumerate(codes.tolist()):
                if code >= 0:
                    nodes[code].append(n)
            self._members |= {(domain[0], code): frozenset(listed) for code, listed in enumerate(nodes)}
        return self._members[domain]

    def _over(self, closed: Collection[frozenset[_Domain]]) -> Estimate | None:
        if not closed:
            return None
        sums = [self._sum(domains) for domains in closed]
        names = sorted({name for amounts, _ in sums for name in amounts})
        return Estimate(
            {name: Fraction(sum(amounts.get(name, 0) for amounts, _ in sums), len(sums)) for name in names},
            {name: max(amounts.get(name, 0) for amounts, _ in sums) for name in names},
            Fraction(sum(nodes for _, nodes in sums), len(sums)),
            max(nodes for _, nodes in sums),
        )

    def _sum(self, domains: frozenset[_Domain]) -> tuple[dict[str, int], int]:
        """Return the resources and the number of nodes in the union of domains."""
        if domains not in self._sums:
            total: dict[str, int] = {}
            union = frozenset[int]().union(*(self._member_set(domain) for domain in domains))
            for n in union:
                for name, amount in self._allocatable[n].items():
                    total[name] = total.get(name, 0) + amount
            self._sums[domains] = total, len(union)
        return self._sums[domains]

    @cached_property
    def _table(self) -> NodeColumns:
        return NodeColumns(self._snapshot.nodes)

    @cached_property
    def _index(self) -> dict[str, int]:
        return {name: n for n, name in enumerate(self._table.names)}

    @cached_property
    def _allocatable(self) -> list[dict[str, int]]:
        found = [allocatable((node.status.allocatable if node.status is not None else None) or {}) for node in self._snapshot.nodes]
        return [{name: amount for name, amount in each.items() if name != "pods"} for each in found]
