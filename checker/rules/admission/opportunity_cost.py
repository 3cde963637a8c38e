"""The checker's own reading of the capacity that pods close to others by required anti-affinity, for quotas that charge it.

A term is charged unless it stays in the pod's own namespace, requires a label, and selects the pod itself. The
charge is the total capacity of the nodes in the closed domains. For a running pod these are the domains of its
node. For a new pod the charge is the maximum over all nodes that nodeSelector and required node affinity accept.

Source: docs/sources.md#inter-pod-affinity, the section on denial of service.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from kubestow.checker.reading import matching, resources
from kubestow.checker.reading.affinity_terms import Match, read_terms
from kubestow.models.kube import objects
from kubestow.models.snapshot.snapshot import Snapshot

_NAME_LABEL: Final = "kubernetes.io/metadata.name"
#: Labels of a namespace that does not exist yet, with a name that no namespace can have.
_FUTURE: Final[Mapping[str, str]] = {_NAME_LABEL: "\0"}
Closed = frozenset[str]  # names of nodes


class ClosedNodes:
    """The nodes that pods close to others.

    Args:
        snapshot: The snapshot.
        exempt: Namespaces that are exempt from required anti-affinity.
    """

    def __init__(self, snapshot: Snapshot, exempt: Collection[str]) -> None:
        self._exempt = frozenset(exempt)
        self._nodes = {node.metadata.name or "": node for node in snapshot.nodes}
        names = {pod.metadata.namespace or "default" for pod in snapshot.pods} | set(snapshot.namespaces)
        self._spaces = {name: {_NAME_LABEL: name} for name in names}
        for name, space in snapshot.namespaces.items():
            self._spaces[name].update(space.metadata.labels or {})
        self._capacity = {name: resources.node_capacity(node) for name, node in self._nodes.items()}
        self._by_label: dict[str, dict[str, set[str]]] = {}
        self._ceilings: dict[bytes | str, resources.Amounts] = {}

    def has(self, node: str) -> bool:
        """Return True if the snapshot has a node of this name."""
        return node in self._nodes

    def by(self, pod: objects.Pod) -> Closed:
        """Return the nodes that a running pod closes."""
        node = self._nodes.get(pod.spec.nodeName or "")
        return self._around(node, self._charged_keys(pod)) if node is not None else frozenset()

    def ceiling(self, pod: objects.Pod) -> resources.Amounts:
        """Return the maximum of each resource that a pod may close; for a running pod, the amounts closed on its node."""
        keys = self._charged_keys(pod)
        if not keys:
            return {}
        on = self._nodes.get(pod.spec.nodeName or "")
        if on is not None:
            return self.together(self._around(on, keys))
        wants = pod.spec.affinity.nodeAffinity if pod.spec.affinity is not None else None
        known = matching.text(keys, pod.spec.nodeSelector, wants)
        if known not in self._ceilings:
            maxima: resources.Amounts = {}
            seen: set[Closed] = set()
            for node in self._nodes.values():
                if matching.node_affinity_fault(pod.spec, node) is None and (closed := self._around(node, keys)) not in seen:
                    seen.add(closed)
                    for name, amount in self.together(closed).items():
                        maxima[name] = max(amount, maxima.get(name, 0))
            self._ceilings[known] = maxima
        return self._ceilings[known]

    def together(self, names: Iterable[str]) -> resources.Amounts:
        """Return the total capacity of some nodes, without pod slots."""
        total: resources.Amounts = {}
        for node in names:
            for resource, amount in self._capacity[node].items():
                if resource != "pods" and resources.counts(resource):
                    total[resource] = total.get(resource, 0) + amount
        return total

    def _charged_keys(self, pod: objects.Pod) -> list[str]:
        own = pod.metadata.namespace or "default"
        if own in self._exempt or pod.spec.affinity is None or pod.spec.affinity.podAntiAffinity is None:
            return []
        return sorted({term.key for term in read_terms(pod).anti if self._is_charged(term.match, own, pod.metadata.labels or {})})

    def _is_charged(self, match: Match, own: str, labels: matching.Labels) -> bool:
        if match.selector is None:
            return False
        reached = set(match.namespaces) | {name for name, found in self._spaces.items() if matching.selects(match.among, found)}
        reached -= self._exempt
        if matching.selects(match.among, _FUTURE) or reached - {own}:
            return True
        asks = {requirement.operator for requirement in match.selector} & {"In", "Exists"}
        return own in reached and not (asks and matching.selects(match.selector, labels))

    def _around(self, node: objects.Node, keys: Iterable[str]) -> Closed:
        """Return the nodes that share a domain of one of the keys with the node."""
        labels = node.metadata.labels or {}
        return frozenset().union(*(self._domain(key)[labels[key]] for key in keys if key in labels))

    def _domain(self, key: str) -> Mapping[str, set[str]]:
        found = self._by_label.get(key)
        if found is None:
            found = self._by_label[key] = {}
            for name, node in self._nodes.items():
                value = (node.metadata.labels or {}).get(key)
                if value is not None:
                    found.setdefault(value, set()).add(name)
        return found
