"""The checker's soft spread constraints of a placement: the pods and domains that each counts, and its points.

Source: kube-scheduler plugin podtopologyspread (scoring.go), and plugins/helper/spread.go (DefaultSelector).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Final, NamedTuple

from kubestow.checker import rules
from kubestow.checker.objective.families.base import Family, Scene
from kubestow.checker.objective.kinds import Kinds, Nodes, PodKind, labels_of, node_affinity
from kubestow.checker.reading import matching, node_features, resources
from kubestow.checker.reading.eligible_nodes import Eligible
from kubestow.checker.rules.base import Fault, Place, World
from kubestow.checker.violation import is_mirror
from kubestow.models.documents.policy import SYSTEM_CONSTRAINTS, DefaultConstraint, Policy
from kubestow.models.kube import objects
from kubestow.models.snapshot.snapshot import Snapshot

#: Points for each pod above the limit of a spread constraint.
SPREAD_POINTS: Final = -100


class _SoftConstraint(NamedTuple):
    """A distinct ScheduleAnyway constraint. It counts the selected pods of a namespace on eligible nodes, by domain.

    Attributes:
        namespace: The namespace.
        selector: Selects the pods.
        key: Topology key.
        max_skew: The constraint's maxSkew, in pods.
        eligible: Names of the eligible nodes.
    """

    namespace: str
    selector: matching.Selector
    key: str
    max_skew: int
    eligible: frozenset[str]


class _Carrier(NamedTuple):
    """Pods that no rule about a single pod and a node can distinguish."""

    rules: bytes | str
    requests: bytes | str
    pinned: str | None


class CandidateNodes:
    """The nodes that a pod could use if only the pods that stay were present, under the rules that decide that for good.

    Mirror pods can use only their own node.

    Args:
        snapshot: The snapshot.
        nodes: All nodes.
        fixed: Pods that stay, each with the number of its replicas on its node.
        requests: Requests of pods.
    """

    def __init__(
        self, snapshot: Snapshot, nodes: Nodes, fixed: Sequence[tuple[objects.Pod, int]], requests: resources.SharedRequests
    ) -> None:
        self._fixed, self._requests = fixed, requests
        world = World(snapshot, nodes, (), requests, supplied=rules.supplied(snapshot))
        self._rules = rules.build(world, lambda kind: kind.for_good)
        self._nodes = nodes
        self._memo: dict[_Carrier, dict[str, bool]] = {}

    @cached_property
    def _places(self) -> dict[str, Place]:
        """All nodes with the pods that stay. Deferred until a minimum is needed."""
        places = {name: Place(node, name, resources.node_capacity(node)) for name, node in self._nodes.items()}
        for pod, number in self._fixed:
            if pod.spec.nodeName in places:
                place = places[pod.spec.nodeName]
                for _ in range(number):
                    place.take(self._requests.requests(pod, bound=True))
        return places

    def by(self, carrier: _Carrier, pod: objects.Pod, node: str) -> bool:
        """Return True if the pod, one of the carrier's, could use the node."""
        answers = self._memo.setdefault(carrier, {})
        if node not in answers:
            answers[node] = carrier.pinned in (None, node) and not any(self._faults(pod, self._places[node]))
        return answers[node]

    def _faults(self, pod: objects.Pod, place: Place) -> Iterator[Fault]:
        for rule in self._rules:
            reading = rule.read(pod, judged=True)
            if reading is not None:
                yield from rule.faults(reading, pod, place)


class TopologySpread(Family):
    """ScheduleAnyway constraints of the pods to be placed. Their costs belong to many pods, so claims are checked as a sum."""

    name, recounts = "topologySpread", "sum"

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._fixed: list[tuple[objects.Pod, int]] = []
        snapshot = scene.snapshot
        asked = resources.SharedRequests(snapshot.gates) if scene.requests is None else scene.requests
        usable = CandidateNodes(snapshot, scene.nodes, self._fixed, asked)
        self._spread = SoftSpreadPoints(snapshot, scene.nodes, scene.policy, usable)

    def expect(self, pod: objects.Pod, kind: PodKind) -> None:
        self._spread.carry(pod, kind)

    def add(self, pod: objects.Pod, kind: PodKind, nodes: Sequence[str], *, placed: bool) -> None:
        if not placed:
            self._fixed.append((pod, len(nodes)))

    def points(self, kinds: Kinds) -> int:
        return self._spread.points(kinds)

    def unevenness(self, kinds: Kinds) -> int | None:
        """Return the value of the tier `topologySpread`, or None if no constraint counts."""
        return self._spread.unevenness(kinds)


class SoftSpreadPoints:
    """The distinct soft constraints of the pods to be placed, and their points."""

    def __init__(self, snapshot: Snapshot, nodes: Nodes, policy: Policy, usable: CandidateNodes) -> None:
        self._nodes = nodes
        self._defaults = _Defaults(snapshot, policy)
        self._usable = usable
        self._eligible = Eligible(nodes, snapshot.gates)
        self._carriers: dict[_SoftConstraint, dict[_Carrier, objects.Pod]] = {}
        self._read: dict[tuple[object, ...], list[_SoftConstraint]] = {}
        self._domains: dict[tuple[frozenset[str], str], dict[str, list[str]]] = {}
        self._counted: dict[bool, list[dict[str, int]]] = {}  # valid because kinds do not change
        self._by_default: dict[tuple[bytes | str, str], frozenset[str]] = {}
        self._values: dict[str, dict[str, str]] = {}

    def carry(self, pod: objects.Pod, kind: PodKind) -> None:
        """Register the constraints of a pod to be placed, for all its replicas."""
        spec = pod.spec
        own = spec.topologySpreadConstraints
        pinned = spec.nodeName if spec.nodeName and is_mirror(pod) else None
        rules = matching.text(spec.nodeSelector, node_affinity(spec), spec.tolerations, sorted(node_features.features_asked(spec)))
        memo: tuple[object, ...]
        if own:
            keys = {key for constraint in own for key in constraint.matchLabelKeys or ()}
            memo = (kind.namespace, rules, matching.text(own), tuple(kind.labels.get(key) for key in sorted(keys)))
        else:
            owner = objects.controller_of(pod)
            memo = (id(kind), rules, (owner.kind, owner.name) if owner else None)
        if memo not in self._read:
            self._read[memo] = list(self._constraints(pod, kind, rules))
        constraints = self._read[memo]
        if not constraints:
            return
        carrier = _Carrier(rules, matching.text(spec.containers, spec.initContainers, spec.resources, spec.overhead), pinned)
        for constraint in constraints:
            self._carriers.setdefault(constraint, {}).setdefault(carrier, pod)

    def _constraints(self, pod: objects.Pod, kind: PodKind, rules: bytes | str) -> Iterator[_SoftConstraint]:
        if not pod.spec.topologySpreadConstraints:
            selector = self._defaults.selector(pod, kind) if self._defaults.constraints else ()
            for entry in self._defaults.constraints if selector else ():
                memo = rules, entry.topologyKey
                if memo not in self._by_default:  # API defaults: honour node affinity, ignore taints
                    self._by_default[memo] = self._eligible.of(pod.spec, self._defaults.keys(entry), affinity=True, taints=False)
                yield _SoftConstraint(kind.namespace, selector, entry.topologyKey, entry.maxSkew, self._by_default[memo])
            return
        soft = [c for c in pod.spec.topologySpreadConstraints if c.whenUnsatisfiable == "ScheduleAnyway"]
        keys = {c.topologyKey for c in soft}
        for c in soft:
            extra = [matching.SelectorRequirement(k, "In", (kind.labels[k],)) for k in c.matchLabelKeys or () if k in kind.labels]
            try:
                selector = matching.label_selector(c.labelSelector, extra)
            except matching.InvalidSelector:
                continue  # the API server rejects it, so no semantics are known
            if selector:  # neither a nil nor an empty selector counts any pods
                honour_affinity, honour_taints = (c.nodeAffinityPolicy or "Honor") == "Honor", c.nodeTaintsPolicy == "Honor"
                eligible = self._eligible.of(pod.spec, keys, affinity=honour_affinity, taints=honour_taints)
                yield _SoftConstraint(kind.namespace, selector, c.topologyKey, c.maxSkew, eligible)

    def points(self, kinds: Kinds) -> int:
        """Return the points of all constraints."""
        counts = self._counts(kinds, settled=False)
        return sum(
            SPREAD_POINTS * self._above(c, found, carriers) for (c, carriers), found in zip(self._carriers.items(), counts, strict=True)
        )

    def unevenness(self, kinds: Kinds) -> int | None:
        """Return the value of the tier `topologySpread`, or None if no constraint counts.

        It is minus the sum of squared pod counts over all domains, plus the same sum without the placed pods.
        """
        counts, settled = self._counts(kinds, settled=False), self._counts(kinds, settled=True)
        total = None
        for (c, carriers), now, before in zip(self._carriers.items(), counts, settled, strict=True):
            if any(self._usable.by(carrier, pod, node) for node in c.eligible for carrier, pod in carriers.items()):
                total = (total or 0) + sum(number**2 for number in before.values()) - sum(number**2 for number in now.values())
        return total

    def _counts(self, kinds: Kinds, *, settled: bool) -> list[dict[str, int]]:
        """Return the pods per domain for each constraint. Terminating pods are excluded; ``settled`` counts only the pods that stay."""
        if settled not in self._counted:
            selected: dict[tuple[str, matching.Selector], list[Mapping[str, int]]] = {}  # numbers by node, to be added up
            for namespace, selector in {(c.namespace, c.selector): None for c in self._carriers}:
                found = selected[namespace, selector] = []
                for kind in kinds.offered(selector):
                    if kind.namespace == namespace and matching.selects(selector, kind.labels):
                        found += kind.counted(settled=settled)
            self._counted[settled] = [self._per_domain(c, selected[c.namespace, c.selector]) for c in self._carriers]
        return self._counted[settled]

    def _above(self, constraint: _SoftConstraint, found: Mapping[str, int], carriers: Mapping[_Carrier, objects.Pod]) -> int:
        """Return the number of pods above minimum plus maxSkew, summed over all eligible domains."""
        if max(found.values(), default=0) <= constraint.max_skew:
            return 0
        least = self._least(constraint, found, carriers)
        return 0 if least is None else sum(max(0, number - least - constraint.max_skew) for number in found.values())

    def _per_domain(self, constraint: _SoftConstraint, numbers: Iterable[Mapping[str, int]]) -> dict[str, int]:
        eligible, domain_of = constraint.eligible, self._domain_of(constraint.key)
        found: dict[str, int] = {}
        for on in numbers:
            for node in filter(on.__contains__, eligible) if len(eligible) < len(on) else filter(eligible.__contains__, on):
                domain = domain_of[node]
                found[domain] = found.get(domain, 0) + on[node]
        return found

    def _domain_of(self, key: str) -> dict[str, str]:
        """Return the domain of each node that has one."""
        if key not in self._values:
            self._values[key] = {name: labels[key] for name, node in self._nodes.items() if key in (labels := labels_of(node))}
        return self._values[key]

    def _least(self, constraint: _SoftConstraint, found: Mapping[str, int], carriers: Mapping[_Carrier, objects.Pod]) -> int | None:
        """Return the smallest count among eligible domains that a carrier could use, or None without such a domain."""
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
            domain_of = self._domain_of(key)
            for name in sorted(eligible):
                found.setdefault(domain_of[name], []).append(name)
        return self._domains[memo]


class _Defaults:
    """The policy's default constraints. They count the pods selected by a pod's Services and controller."""

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
        """Return the topology keys that eligible nodes must have.

        For the system's defaults it is the constraint's own key, for others the keys of all constraints.
        """
        return {constraint.topologyKey} if self.constraints == SYSTEM_CONSTRAINTS else {c.topologyKey for c in self.constraints}

    def selector(self, pod: objects.Pod, kind: PodKind) -> matching.Selector:
        """Return the selector of the default constraints of a pod; empty if it has none."""
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
        joined = [matching.SelectorRequirement(key, "In", (value,)) for key, value in labels.items()]
        try:
            return matching.label_selector(owned or objects.LabelSelector(), joined)
        except matching.InvalidSelector:
            return matching.label_selector(objects.LabelSelector(), joined)  # kube-scheduler continues without the controller
