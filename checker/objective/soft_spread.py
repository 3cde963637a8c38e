"""The soft spread constraints of a placement for the checker: which pods each counts, over which domains, and what it costs.

Source: kube-scheduler plugin podtopologyspread (scoring.go), and plugins/helper/spread.go (DefaultSelector).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Final, NamedTuple

from checker.objective.kinds import Kind, Kinds, Nodes, labels_of, node_affinity
from checker.rules import matching, node_rules, resources, spread
from checker.violation import is_mirror
from models.documents.policy import SYSTEM_CONSTRAINTS, DefaultConstraint, Policy
from models.kube import objects
from models.kube.feature_gates import FeatureGates
from models.snapshot.snapshot import Snapshot

#: Points of one pod above what a spread constraint allows.
SPREAD_POINTS: Final = -100


class _Constraint(NamedTuple):
    """A distinct ScheduleAnyway constraint: pods of a namespace that a selector selects, on the eligible nodes, by domain of ``key``."""

    namespace: str
    selector: matching.Selector
    key: str
    max_skew: int
    eligible: frozenset[str]


class _Carrier(NamedTuple):
    """Pods that no rule about one pod on one node can tell apart."""

    rules: bytes | str
    requests: bytes | str
    pinned: str | None


def _requests_text(pod: objects.Pod, *, bound: bool) -> bytes | str:
    spec, status = pod.spec, pod.status
    held = (status,) if bound and status else None
    return matching.text(spec.containers, spec.initContainers, spec.resources, spec.overhead, held)


class UsableNodes:
    """Which nodes a pod could use, alone beside the pods that stay: NodeUnschedulable, NodeName (mirror pods), TaintToleration,
    NodeAffinity, NodeDeclaredFeatures and NodeResourcesFit."""

    def __init__(self, nodes: Nodes, fixed: Sequence[objects.Pod], gates: FeatureGates) -> None:
        self._nodes, self._gates = nodes, gates
        self._fixed = fixed
        self._pods: Counter[str] = Counter()
        self._used: dict[str, resources.Amounts] = {}
        self._capacity: dict[str, resources.Amounts] = {}
        self._requests: dict[bytes | str, resources.Amounts] = {}
        self._memo: dict[_Carrier, dict[str, bool]] = {}

    def _weigh(self) -> None:
        """Look at what nodes hold; put off until a minimum is asked for."""
        self._capacity = {name: resources.node_capacity(node) for name, node in self._nodes.items()}
        held: dict[bytes | str, resources.Amounts] = {}
        for pod in self._fixed:
            memo = _requests_text(pod, bound=True)
            if memo not in held:
                held[memo] = resources.pod_requests(pod, self._gates, bound=True)
            node = pod.spec.nodeName or ""
            self._pods[node] += 1
            used = self._used.setdefault(node, {})
            for name, amount in held[memo].items():
                used[name] = used.get(name, 0) + amount

    def by(self, carrier: _Carrier, pod: objects.Pod, node: str) -> bool:
        """Return whether ``pod``, one of the carrier's, could use the node."""
        answers = self._memo.setdefault(carrier, {})
        if node not in answers:
            answers[node] = (
                carrier.pinned in (None, node)
                and not node_rules.node_faults(pod.spec, self._nodes[node], self._gates)
                and self._fits(carrier, pod, node)
            )
        return answers[node]

    def _fits(self, carrier: _Carrier, pod: objects.Pod, node: str) -> bool:
        if not self._capacity:
            self._weigh()
        requests = self._requests.get(carrier.requests)
        if requests is None:
            requests = self._requests[carrier.requests] = resources.pod_requests(pod, self._gates, bound=False)
        return not resources.fit_faults(requests, self._pods[node], self._used.get(node, {}), self._capacity[node])


class SoftSpread:
    """The distinct soft constraints of the pods to be placed, and what they cost."""

    def __init__(self, snapshot: Snapshot, nodes: Nodes, policy: Policy, usable: UsableNodes) -> None:
        self._nodes = nodes
        self._defaults = _Defaults(snapshot, policy)
        self._usable = usable
        self._eligible = spread.Eligible(nodes, snapshot.gates)
        self._noted: set[tuple[object, ...]] = set()
        self._carriers: dict[_Constraint, dict[_Carrier, objects.Pod]] = {}
        self._read: dict[tuple[object, ...], list[_Constraint]] = {}
        self._domains: dict[tuple[frozenset[str], str], dict[str, list[str]]] = {}

    def carry(self, pod: objects.Pod, kind: Kind) -> None:
        """Take note of the constraints of a pod to be placed."""
        spec, owners = pod.spec, pod.metadata.ownerReferences
        own = spec.topologySpreadConstraints
        pinned = spec.nodeName if spec.nodeName and is_mirror(pod) else None
        # All that is read below; the snapshot keeps these parts alive, and equal pods share them.
        rules_of = id(spec.nodeSelector), id(spec.affinity), id(spec.tolerations)
        requests_of = id(spec.containers), id(spec.initContainers), id(spec.resources), id(spec.overhead)
        noted = id(kind), id(own), id(owners), pinned, rules_of, requests_of
        if noted in self._noted:
            return
        self._noted.add(noted)
        rules = matching.text(spec.nodeSelector, node_affinity(spec), spec.tolerations, sorted(node_rules.features_asked(spec)))
        memo: tuple[object, ...]
        if own:
            keys = {key for constraint in own for key in constraint.matchLabelKeys or ()}
            memo = (kind.namespace, rules, matching.text(own), tuple(kind.labels.get(key) for key in sorted(keys)))
        else:
            owner = objects.controller_of(pod)
            memo = (id(kind), rules, (owner.kind, owner.name) if owner else None)
        if memo not in self._read:
            self._read[memo] = list(self._constraints(pod, kind))
        constraints = self._read[memo]
        if not constraints:
            return
        carrier = _Carrier(rules, _requests_text(pod, bound=False), pinned)
        for constraint in constraints:
            self._carriers.setdefault(constraint, {}).setdefault(carrier, pod)

    def _constraints(self, pod: objects.Pod, kind: Kind) -> Iterator[_Constraint]:
        if not pod.spec.topologySpreadConstraints:
            selector = self._defaults.selector(pod, kind) if self._defaults.constraints else ()
            for entry in self._defaults.constraints if selector else ():
                # The API's defaults: node affinity counts, taints do not.
                eligible = self._eligible.of(pod.spec, self._defaults.keys(entry), affinity=True, taints=False)
                yield _Constraint(kind.namespace, selector, entry.topologyKey, entry.maxSkew, eligible)
            return
        soft = [c for c in pod.spec.topologySpreadConstraints if c.whenUnsatisfiable == "ScheduleAnyway"]
        keys = {c.topologyKey for c in soft}
        for c in soft:
            extra = [matching.Requirement(k, "In", (kind.labels[k],)) for k in c.matchLabelKeys or () if k in kind.labels]
            try:
                selector = matching.label_selector(c.labelSelector, extra)
            except matching.InvalidSelector:
                continue  # the API server refuses it; nothing is known of what it counts
            if selector:  # a nil selector counts nothing, an empty one neither
                honour_affinity, honour_taints = (c.nodeAffinityPolicy or "Honor") == "Honor", c.nodeTaintsPolicy == "Honor"
                eligible = self._eligible.of(pod.spec, keys, affinity=honour_affinity, taints=honour_taints)
                yield _Constraint(kind.namespace, selector, c.topologyKey, c.maxSkew, eligible)

    def points(self, kinds: Kinds) -> int:
        counts = self._counts(kinds)
        return sum(SPREAD_POINTS * self._above(c, counts[c.namespace, c.selector], carriers) for c, carriers in self._carriers.items())

    def unevenness(self, kinds: Kinds) -> int | None:
        """Return the value of the tier `topologySpread`: less the squares of the numbers of pods in all domains, plus the squares of the
        numbers without the placed pods. None where no constraint counts."""
        counts, settled = self._counts(kinds), self._counts(kinds, settled=True)
        found = None
        for c, carriers in self._carriers.items():
            if any(self._usable.by(carrier, pod, node) for node in c.eligible for carrier, pod in carriers.items()):
                domains = [self._per_domain(c, of[c.namespace, c.selector]) for of in (settled, counts)]
                before, after = (sum(number**2 for number in domain.values()) for domain in domains)
                found = (found or 0) + before - after
        return found

    def _counts(self, kinds: Kinds, *, settled: bool = False) -> dict[tuple[str, matching.Selector], Counter[str]]:
        """Pods by node that each selector selects, terminating ones left out; ``settled``: those that stay."""
        counts: dict[tuple[str, matching.Selector], Counter[str]] = {}
        shelves: dict[str, matching.Shelf[matching.Selector]] = {}
        for namespace, selector in {(c.namespace, c.selector): None for c in self._carriers}:
            counts[namespace, selector] = Counter()
            shelves.setdefault(namespace, matching.Shelf()).file(selector, selector)
        for kind in kinds:
            for selector in shelves[kind.namespace].candidates(kind.labels) if kind.namespace in shelves else ():
                if matching.selects(selector, kind.labels):
                    counts[kind.namespace, selector].update(kind.settled if settled else kind.counted)
        return counts

    def _above(self, constraint: _Constraint, on: Counter[str], carriers: Mapping[_Carrier, objects.Pod]) -> int:
        """Return how many pods are above the least count plus maxSkew, over all eligible domains."""
        found = self._per_domain(constraint, on)
        if max(found.values(), default=0) <= constraint.max_skew:
            return 0
        least = self._least(constraint, found, carriers)
        return 0 if least is None else sum(max(0, number - least - constraint.max_skew) for number in found.values())

    def _per_domain(self, constraint: _Constraint, on: Counter[str]) -> Counter[str]:
        eligible, key = constraint.eligible, constraint.key
        shared = [node for node in eligible if node in on] if len(eligible) < len(on) else [node for node in on if node in eligible]
        found: Counter[str] = Counter()
        for node in shared:
            found[labels_of(self._nodes[node])[key]] += on[node]
        return found

    def _least(self, constraint: _Constraint, found: Counter[str], carriers: Mapping[_Carrier, objects.Pod]) -> int | None:
        """The least count of the eligible domains that a carrier could use; None if there is no such domain."""
        domains = self._by_domain(constraint.eligible, constraint.key)
        empty = ((domain, 0) for domain in domains if domain not in found)
        for domain, number in chain(empty, sorted(found.items(), key=lambda entry: entry[1])):
            if any(self._usable.by(carrier, pod, node) for node in domains[domain] for carrier, pod in carriers.items()):
                return number
        return None

    def _by_domain(self, eligible: frozenset[str], key: str) -> dict[str, list[str]]:
        memo = eligible, key
        if memo not in self._domains:
            found = self._domains[memo] = {}
            for name in sorted(eligible):
                found.setdefault(labels_of(self._nodes[name])[key], []).append(name)
        return self._domains[memo]


class _Defaults:
    """The policy's default constraints, and what they count for a pod: what the Services that select it and its controller select."""

    def __init__(self, snapshot: Snapshot, policy: Policy) -> None:
        self.constraints = policy.defaultConstraints
        self._services: dict[str, matching.Shelf[matching.Selector]] = {}
        for service in snapshot.services:
            labels = service.spec.selector if service.spec else None
            if labels:
                selector = matching.label_selector(objects.LabelSelector(matchLabels=labels))
                self._services.setdefault(service.metadata.namespace or "default", matching.Shelf()).file(selector, selector)
        self._owners: dict[tuple[str, str, str], objects.LabelSelector | dict[str, str] | None] = {
            (kind, owner.metadata.namespace or "default", owner.metadata.name or ""): owner.spec.selector if owner.spec else None
            for kind in ("ReplicaSet", "ReplicationController", "StatefulSet")
            for owner in snapshot.workloads.get(kind, ())
        }

    def keys(self, constraint: DefaultConstraint) -> set[str]:
        """Return the topology keys of eligible nodes: the constraint's own for the system's defaults, those of all constraints for
        others."""
        return {constraint.topologyKey} if self.constraints == SYSTEM_CONSTRAINTS else {c.topologyKey for c in self.constraints}

    def selector(self, pod: objects.Pod, kind: Kind) -> matching.Selector:
        """Return what the default constraints of a pod count; empty if it gets none."""
        labels: dict[str, str] = {}
        services = self._services.get(kind.namespace)
        for selector in services.candidates(kind.labels) if services else ():
            if matching.selects(selector, kind.labels):
                labels.update((requirement.key, requirement.values[0]) for requirement in selector or ())
        owner = objects.controller_of(pod)
        owned = self._owners.get((owner.kind, kind.namespace, owner.name)) if owner else None
        if isinstance(owned, dict):  # a ReplicationController
            labels.update(owned)
            owned = None
        joined = [matching.Requirement(key, "In", (value,)) for key, value in labels.items()]
        try:
            return matching.label_selector(owned or objects.LabelSelector(), joined)
        except matching.InvalidSelector:
            return matching.label_selector(objects.LabelSelector(), joined)  # upstream goes on without the controller
