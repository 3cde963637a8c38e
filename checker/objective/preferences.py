"""The soft objective of a placement, computed by the checker from the raw objects.

Points are counted pod by pod: what each placed pod gets for itself, what ordered pairs of pods get, and what each distinct spread
constraint costs. Only what the placement decides counts: node terms of pods that stay, and pairs of them, are left out. Pods that no
selector can tell apart are counted together, so that the work grows with the pods and not with their pairs.

Source: DESIGN "Objective"; kube-scheduler plugins nodeaffinity, tainttoleration, interpodaffinity and podtopologyspread (scoring.go), and
plugins/helper/spread.go (DefaultSelector).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, NamedTuple

from checker.rules import affinity, matching, resources
from checker.rules import gangs as rules_gangs
from checker.rules import spread as rules_spread
from checker.violation import is_mirror
from models.documents.policy import SYSTEM_CONSTRAINTS, DefaultConstraint, Policy
from models.gangs.gangs import TOGETHER, Gang
from models.kube import objects
from models.snapshot.snapshot import Snapshot

#: Points of one PreferNoSchedule taint that is not tolerated, and of one pod above what a spread constraint allows.
TAINT_POINTS: Final = -100
SPREAD_POINTS: Final = -100

_SOFT_TAINT: Final = "PreferNoSchedule"
_UNSCHEDULABLE: Final = objects.Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
_Nodes = Mapping[str, objects.Node]


@dataclass(frozen=True)
class SoftScore:
    """Points of a placement, without the policy's multipliers.

    ``families``: points of nodeAffinity, taints, podAffinity, requiredAffinity and topologySpread. ``pods``: points of nodeAffinity and
    taints of each placed pod (``namespace/name``).
    """

    families: dict[str, int]
    pods: dict[str, int]


def score(
    snapshot: Snapshot,
    placed: Mapping[str, str],
    absent: Collection[str],
    policy: Policy,
    *,
    pending: Collection[str],
    gangs: Sequence[Gang] | None = None,
) -> SoftScore:
    """The points of a placement.

    ``placed``: the node of each pod that is placed, by pod key. ``absent``: keys of bound pods that are placed anew; all other bound pods
    stay. ``pending``: keys of all pods to be placed, whether they are or not; their spread constraints count. ``gangs``: that have
    such pods (None: as the snapshot says). Keys and nodes that the snapshot lacks, and pods that have ended, count nothing.

    Raises:
        InputError: a gang's declaration cannot be read.
        QuantityError: a quantity in the snapshot is malformed or beyond 64 bits.
    """
    nodes = {node.metadata.name or "": node for node in snapshot.nodes}
    gone, wanted = frozenset(absent), frozenset(pending)
    gangs = rules_gangs.read(snapshot, wanted, policy).gangs if gangs is None else gangs
    kinds = _Kinds()
    points = _NodePoints(nodes)
    pairs = _Pairs(snapshot, nodes, policy.hardPodAffinityWeight)
    fixed: list[objects.Pod] = []
    waiting: list[tuple[objects.Pod, _Kind]] = []
    for pod in snapshot.pods:
        if objects.is_terminal(pod):
            continue
        key, kind = objects.pod_key(pod), kinds.of(pod)
        if key in wanted:
            waiting.append((pod, kind))
        stays = key not in placed
        node = pod.spec.nodeName if stays else placed[key]
        if node not in nodes or (stays and key in gone):
            continue
        kind.add(node, placed=not stays, terminating=objects.is_terminating(pod))
        pairs.add(pod, kind, node, placed=not stays)
        if stays:
            fixed.append(pod)
        else:
            points.add(key, pod, node)
    usable = _Usable(nodes, fixed)
    spread = _Spread(snapshot, nodes, policy, usable)
    for pod, kind in waiting:
        spread.carry(pod, kind)
    preferred, required = pairs.points(kinds)
    families = {
        "nodeAffinity": points.affinity,
        "taints": points.taints,
        "podAffinity": preferred + _together(snapshot, nodes, placed, gangs),
        "requiredAffinity": required,
        "topologySpread": spread.points(kinds),
    }
    return SoftScore(families, points.pods)


# --- what selectors can tell apart ------------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class _Kind:
    """Pods of one namespace and one set of labels, as numbers by node. ``counted``: all but the terminating ones."""

    namespace: str
    labels: matching.Labels
    placed: dict[str, int] = field(default_factory=dict)
    fixed: dict[str, int] = field(default_factory=dict)
    counted: dict[str, int] = field(default_factory=dict)

    def add(self, node: str, *, placed: bool, terminating: bool) -> None:
        numbers = self.placed if placed else self.fixed
        numbers[node] = numbers.get(node, 0) + 1
        if not terminating:
            self.counted[node] = self.counted.get(node, 0) + 1


class _Kinds:
    def __init__(self) -> None:
        self._kinds: dict[matching.Profile, _Kind] = {}
        self._known: dict[tuple[str | None, int], _Kind] = {}  # by id of the labels, which the snapshot keeps alive and pods share

    def of(self, pod: objects.Pod) -> _Kind:
        known = pod.metadata.namespace, id(pod.metadata.labels)
        kind = self._known.get(known)
        if kind is None:
            namespace, labels = pod.metadata.namespace or "default", pod.metadata.labels or {}
            kind = self._kinds.setdefault((namespace, frozenset(labels.items())), _Kind(namespace, labels))
            self._known[known] = kind
        return kind

    def __iter__(self) -> Iterator[_Kind]:
        return iter(self._kinds.values())


def _labels(node: objects.Node) -> matching.Labels:
    return node.metadata.labels or {}


def _taints(node: objects.Node) -> list[objects.Taint]:
    return (node.spec.taints or []) if node.spec else []


def _node_affinity(spec: objects.PodSpec) -> objects.NodeAffinity | None:
    return spec.affinity.nodeAffinity if spec.affinity else None


# --- a pod and its node -----------------------------------------------------------------------------------------------------------------


class _NodePoints:
    """Points of placed pods for their nodes: preferred node affinity, and soft taints."""

    def __init__(self, nodes: _Nodes) -> None:
        self.affinity = 0
        self.taints = 0
        self.pods: dict[str, int] = {}
        self._nodes = nodes
        self._soft = {name: [t for t in _taints(node) if t.effect == _SOFT_TAINT] for name, node in nodes.items()}

    def add(self, key: str, pod: objects.Pod, node: str) -> None:
        preferred, taints = self._preferred(pod.spec, node), self._untolerated(pod.spec, node)
        self.affinity += preferred
        self.taints += taints
        self.pods[key] = preferred + taints

    def _preferred(self, spec: objects.PodSpec, node: str) -> int:
        wanted = _node_affinity(spec)
        if wanted is None:
            return 0
        labels = _labels(self._nodes[node])
        terms = wanted.preferredDuringSchedulingIgnoredDuringExecution or ()
        return sum(term.weight for term in terms if matching.term_holds(term.preference, labels, node))

    def _untolerated(self, spec: objects.PodSpec, node: str) -> int:
        if not self._soft[node]:
            return 0
        met = [taint for taint in self._soft[node] if not any(matching.tolerates(t, taint) for t in spec.tolerations or ())]
        return TAINT_POINTS * len(met)


# --- pairs of pods ----------------------------------------------------------------------------------------------------------------------


@dataclass
class _Pull:
    """What the pods that have a term give for one matching pod, summed by domain: the placed ones, and those that stay."""

    placed: dict[str, int] = field(default_factory=dict)
    fixed: dict[str, int] = field(default_factory=dict)


class _Owned(NamedTuple):
    """A term of a kind's pods, where it counts, and whether it selects the very pods that have it."""

    family: _Family
    key: str
    weight: int
    pull: _Pull
    selects_itself: bool


def _dot(one: Mapping[str, int], other: Mapping[str, int]) -> int:
    if len(other) < len(one):
        one, other = other, one
    return sum(number * other[domain] for domain, number in one.items() if domain in other)


class _Family:
    """Ordered pairs (p, q) where a term of p selects q and both nodes are of one domain of its key."""

    def __init__(self, namespace_labels: Mapping[str, matching.Labels]) -> None:
        self._namespace_labels = namespace_labels
        self._pulls: dict[affinity.Match, dict[str, _Pull]] = {}
        self._named: dict[str, matching.Shelf[affinity.Match]] = {}
        self._broad: matching.Shelf[affinity.Match] = matching.Shelf()
        self._own = 0

    def owned(self, term: affinity.AffinityTerm, weight: int, kind: _Kind) -> _Owned:
        """A term that pods of a kind have."""
        if term.match not in self._pulls:
            self._file(term.match)
        pull = self._pulls.setdefault(term.match, {}).setdefault(term.key, _Pull())
        return _Owned(self, term.key, weight, pull, self._holds(term.match, kind))

    def add(self, term: _Owned, domain: str, *, placed: bool) -> None:
        """A pod has the term, in a domain of its key."""
        pulls = term.pull.placed if placed else term.pull.fixed
        pulls[domain] = pulls.get(domain, 0) + term.weight
        if placed and term.selects_itself:
            self._own += term.weight  # a pod is no pair with itself

    def _file(self, match: affinity.Match) -> None:
        if match.among is not None:
            self._broad.file(match.selector, match)
            return
        for namespace in match.namespaces:
            self._named.setdefault(namespace, matching.Shelf()).file(match.selector, match)

    def _holds(self, match: affinity.Match, kind: _Kind) -> bool:
        return match.holds(kind.namespace, kind.labels, self._namespace_labels.get(kind.namespace, {}))

    def points(self, kinds: Iterable[_Kind], domains: _Domains) -> int:
        total = -self._own
        for kind in kinds:
            named = self._named.get(kind.namespace)
            offered = chain(self._broad.candidates(kind.labels), named.candidates(kind.labels) if named else ())
            for match in [match for match in offered if self._holds(match, kind)]:
                for key, pull in self._pulls[match].items():
                    placed, fixed = domains.of(kind, key)
                    total += _dot(pull.placed, placed) + _dot(pull.placed, fixed) + _dot(pull.fixed, placed)
        return total


class _Domains:
    """Numbers of pods of a kind by domain of a topology key: placed ones, and those that stay."""

    def __init__(self, nodes: _Nodes) -> None:
        self._nodes = nodes
        self._memo: dict[tuple[int, str], tuple[Counter[str], Counter[str]]] = {}

    def of(self, kind: _Kind, key: str) -> tuple[Counter[str], Counter[str]]:
        memo = id(kind), key
        if memo not in self._memo:
            self._memo[memo] = self._by_domain(kind.placed, key), self._by_domain(kind.fixed, key)
        return self._memo[memo]

    def _by_domain(self, numbers: Mapping[str, int], key: str) -> Counter[str]:
        found: Counter[str] = Counter()
        for node, number in numbers.items():
            domain = _labels(self._nodes[node]).get(key)
            if domain is not None:
                found[domain] += number
        return found


_Weighted = tuple[affinity.AffinityTerm, int]


class _Pairs:
    """Points of pairs: preferred (anti-)affinity, and the implicit weight of required affinity."""

    def __init__(self, snapshot: Snapshot, nodes: _Nodes, hard_weight: int) -> None:
        namespace_labels = {name: namespace.metadata.labels or {} for name, namespace in snapshot.namespaces.items()}
        self._nodes = nodes
        self._hard_weight = hard_weight
        self._preferred = _Family(namespace_labels)
        self._required = _Family(namespace_labels)
        self._keys: dict[int, tuple[str, ...]] = {}
        self._terms: dict[tuple[object, ...], tuple[list[_Weighted], list[_Weighted]]] = {}
        self._owned: dict[tuple[int, int], list[_Owned]] = {}

    def add(self, pod: objects.Pod, kind: _Kind, node: str, *, placed: bool) -> None:
        if pod.spec.affinity is None:
            return
        memo = id(pod.spec.affinity), id(kind)  # the snapshot keeps one alive, and equal pods share it; kinds stay
        owned = self._owned.get(memo)
        if owned is None:
            preferred, required = self._read(pod, kind)
            owned = self._owned[memo] = [self._preferred.owned(term, weight, kind) for term, weight in preferred]
            owned += [self._required.owned(term, weight, kind) for term, weight in required]
        labels = _labels(self._nodes[node])
        for term in owned:
            domain = labels.get(term.key)
            if domain is not None:
                term.family.add(term, domain, placed=placed)

    def points(self, kinds: _Kinds) -> tuple[int, int]:
        domains = _Domains(self._nodes)
        return self._preferred.points(kinds, domains), self._required.points(kinds, domains)

    def _read(self, pod: objects.Pod, kind: _Kind) -> tuple[list[_Weighted], list[_Weighted]]:
        own = id(pod.spec.affinity)
        if own not in self._keys:
            self._keys[own] = affinity.own_labels(pod.spec.affinity or objects.Affinity())
        memo = own, kind.namespace, tuple(kind.labels.get(key) for key in self._keys[own])
        if memo not in self._terms:
            required = [(term, self._hard_weight) for term in affinity.read_terms(pod).affinity if self._hard_weight]
            self._terms[memo] = _preferred_terms(pod), required
        return self._terms[memo]


def _preferred_terms(pod: objects.Pod) -> list[_Weighted]:
    """The preferred terms of a pod, anti-affinity with negative weights. Terms that cannot be read count nothing."""
    wanted = pod.spec.affinity or objects.Affinity()
    found: list[_Weighted] = []
    for sign, source in ((1, wanted.podAffinity), (-1, wanted.podAntiAffinity)):
        weighted = (source.preferredDuringSchedulingIgnoredDuringExecution or []) if source else []
        # A preferred term selects as a required one would, so it is read as one.
        stand_in = objects.PodAffinity(requiredDuringSchedulingIgnoredDuringExecution=[term.podAffinityTerm for term in weighted])
        terms = affinity.read_terms(objects.Pod(pod.metadata, objects.PodSpec(affinity=objects.Affinity(podAffinity=stand_in))))
        found += [(term, sign * entry.weight) for term, entry in zip(terms.affinity, weighted, strict=False)]
    return found


def _together(snapshot: Snapshot, nodes: _Nodes, placed: Mapping[str, str], gangs: Sequence[Gang]) -> int:
    """Points of the gangs' preferred topologies: for each ordered pair of members in one domain, at least one of them placed now."""
    pairs = 0
    keys = {gang.key for gang in gangs if gang.key is not None and not gang.required}
    domains = {key: {name: _labels(node)[key] for name, node in nodes.items() if key in _labels(node)} for key in keys}
    for gang in gangs:
        if gang.key is None or gang.required:
            continue
        domain = domains[gang.key]
        running = Counter(domain.get(snapshot.pods[i].spec.nodeName or "") for i in gang.bound)
        new = Counter(domain.get(placed.get(objects.pod_key(snapshot.pods[i]), "")) for i in gang.pods)
        pairs += sum(number * (number - 1 + 2 * running[value]) for value, number in new.items() if value is not None)
    return TOGETHER * pairs


# --- spread constraints -----------------------------------------------------------------------------------------------------------------


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
    held = (status.containerStatuses, status.initContainerStatuses, status.conditions) if bound and status else None
    return matching.text(spec.containers, spec.initContainers, spec.resources, spec.overhead, held)


def _rules_text(spec: objects.PodSpec) -> bytes | str:
    return matching.text(spec.nodeSelector, _node_affinity(spec), spec.tolerations)


class _Usable:
    """Which nodes a pod could use, alone beside the pods that stay: NodeUnschedulable, NodeName (mirror pods), TaintToleration,
    NodeAffinity and NodeResourcesFit."""

    def __init__(self, nodes: _Nodes, fixed: Sequence[objects.Pod]) -> None:
        self._nodes = nodes
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
                held[memo] = resources.pod_requests(pod, bound=True)
            node = pod.spec.nodeName or ""
            self._pods[node] += 1
            used = self._used.setdefault(node, {})
            for name, amount in held[memo].items():
                used[name] = used.get(name, 0) + amount

    def by(self, carrier: _Carrier, pod: objects.Pod, node: str) -> bool:
        """Whether ``pod``, one of the carrier's, could use the node."""
        answers = self._memo.setdefault(carrier, {})
        if node not in answers:
            answers[node] = carrier.pinned in (None, node) and self._accepts(pod.spec, node) and self._fits(carrier, pod, node)
        return answers[node]

    def _accepts(self, spec: objects.PodSpec, name: str) -> bool:
        node = self._nodes[name]
        if node.spec and node.spec.unschedulable and matching.untolerated_taint(spec.tolerations, [_UNSCHEDULABLE]):
            return False
        return not matching.untolerated_taint(spec.tolerations, _taints(node)) and matching.node_affinity_fault(spec, node) is None

    def _fits(self, carrier: _Carrier, pod: objects.Pod, node: str) -> bool:
        if not self._capacity:
            self._weigh()
        requests = self._requests.get(carrier.requests)
        if requests is None:
            requests = self._requests[carrier.requests] = resources.pod_requests(pod, bound=False)
        return not resources.fit_faults(requests, self._pods[node], self._used.get(node, {}), self._capacity[node])


class _Spread:
    """The distinct soft constraints of the pods to be placed, and what they cost."""

    def __init__(self, snapshot: Snapshot, nodes: _Nodes, policy: Policy, usable: _Usable) -> None:
        self._nodes = nodes
        self._defaults = _Defaults(snapshot, policy)
        self._usable = usable
        self._eligible = rules_spread.Eligible(nodes)
        self._noted: set[tuple[object, ...]] = set()
        self._carriers: dict[_Constraint, dict[_Carrier, objects.Pod]] = {}
        self._read: dict[tuple[object, ...], list[_Constraint]] = {}
        self._domains: dict[tuple[frozenset[str], str], dict[str, list[str]]] = {}

    def carry(self, pod: objects.Pod, kind: _Kind) -> None:
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
        rules = _rules_text(spec)
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

    def _constraints(self, pod: objects.Pod, kind: _Kind) -> Iterator[_Constraint]:
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

    def points(self, kinds: _Kinds) -> int:
        counts = self._counts(kinds)
        return sum(SPREAD_POINTS * self._above(c, counts[c.namespace, c.selector], carriers) for c, carriers in self._carriers.items())

    def _counts(self, kinds: _Kinds) -> dict[tuple[str, matching.Selector], Counter[str]]:
        """Pods by node that each selector selects, terminating ones left out."""
        counts: dict[tuple[str, matching.Selector], Counter[str]] = {}
        shelves: dict[str, matching.Shelf[matching.Selector]] = {}
        for namespace, selector in {(c.namespace, c.selector): None for c in self._carriers}:
            counts[namespace, selector] = Counter()
            shelves.setdefault(namespace, matching.Shelf()).file(selector, selector)
        for kind in kinds:
            for selector in shelves[kind.namespace].candidates(kind.labels) if kind.namespace in shelves else ():
                if matching.selects(selector, kind.labels):
                    counts[kind.namespace, selector].update(kind.counted)
        return counts

    def _above(self, constraint: _Constraint, on: Counter[str], carriers: Mapping[_Carrier, objects.Pod]) -> int:
        """How many pods are above the least count plus maxSkew, over all eligible domains."""
        eligible, key = constraint.eligible, constraint.key
        shared = [node for node in eligible if node in on] if len(eligible) < len(on) else [node for node in on if node in eligible]
        found: Counter[str] = Counter()
        for node in shared:
            found[_labels(self._nodes[node])[key]] += on[node]
        if max(found.values(), default=0) <= constraint.max_skew:
            return 0
        least = self._least(constraint, found, carriers)
        return 0 if least is None else sum(max(0, number - least - constraint.max_skew) for number in found.values())

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
                found.setdefault(_labels(self._nodes[name])[key], []).append(name)
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
        """The topology keys of eligible nodes: the constraint's own for the system's defaults, those of all constraints for others."""
        return {constraint.topologyKey} if self.constraints == SYSTEM_CONSTRAINTS else {c.topologyKey for c in self.constraints}

    def selector(self, pod: objects.Pod, kind: _Kind) -> matching.Selector:
        """What the default constraints of a pod count; empty if it gets none."""
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
