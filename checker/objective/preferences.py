"""The preferences that a placement meets, in points, computed by the checker from the raw objects.

Points are counted for each placed pod, for each ordered pair of pods, and for each distinct spread constraint. Only
points that the placement decides count: node terms of pods that stay, and pairs of such pods, are left out. Pods
that no selector can distinguish are counted together, so that the work grows with the number of pods, not of pairs.

Source: docs/preferences.md; kube-scheduler plugins nodeaffinity, tainttoleration and interpodaffinity (scoring.go);
see :mod:`kubestow.checker.objective.soft_spread` for spread constraints.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kubestow.checker.devices import entry as devices
from kubestow.checker.objective.image_locality import ImageLocality
from kubestow.checker.objective.kinds import Kinds, Nodes, PodKind, labels_of, node_affinity, taints_of
from kubestow.checker.objective.soft_spread import CandidateNodes, SoftSpreadPoints
from kubestow.checker.replicas import Crowd, Whereabouts
from kubestow.checker.rules import affinity, matching, node_rules
from kubestow.checker.rules import gangs as rules_gangs
from kubestow.models.documents.policy import Policy
from kubestow.models.gangs.gangs import PREFERRED_TOPOLOGY_POINTS, Gang
from kubestow.models.kube import objects
from kubestow.models.kube.feature_gates import FeatureGates
from kubestow.models.snapshot.snapshot import Snapshot

#: Points for each PreferNoSchedule taint that is not tolerated.
TAINT_POINTS: Final = -100

_SOFT_TAINT: Final = "PreferNoSchedule"


@dataclass(frozen=True)
class SoftScore:
    """Points of a placement, without the policy's multipliers.

    Attributes:
        families: Points of nodeAffinity, taints, imageLocality (if the policy counts it), podAffinity,
            requiredAffinity and topologySpread.
        spread: Its soft spread constraints.
        kinds: The pods that these constraints count.
        points: Points of pods on nodes.
        where: The pods with their nodes.
    """

    families: dict[str, int]
    spread: SoftSpreadPoints = field(compare=False, repr=False)
    kinds: Kinds = field(compare=False, repr=False)
    points: _NodePoints = field(compare=False, repr=False)
    where: Whereabouts = field(compare=False, repr=False)

    @property
    def pods(self) -> dict[str, int]:
        """The points of nodeAffinity and taints of each placed pod, by ``namespace/name``. Computed on access."""
        found = {}
        for key, node in self.where.placed.items():
            pod = self.where.crowd.get(key)
            if pod is not None and node in self.points.nodes and not objects.is_terminal(pod):
                found[key] = self.points.preferred(pod.spec, node) + self.points.untolerated(pod.spec, node)
        return found

    def evenness(self) -> int | None:
        """Return the value of the tier `topologySpread`, or None if no ScheduleAnyway constraint counts."""
        return self.spread.unevenness(self.kinds)


def score(
    snapshot: Snapshot,
    placed: Mapping[str, str],
    absent: Collection[str],
    policy: Policy,
    *,
    pending: Collection[str],
    gangs: Sequence[Gang] | None = None,
) -> SoftScore:
    """Return the points of a placement.

    Unknown keys and nodes, and pods that have ended, are ignored.

    Args:
        snapshot: The snapshot.
        placed: Node of each placed pod, by pod key.
        absent: Keys of bound pods that are placed again. All other bound pods stay.
        policy: The policy.
        pending: Keys of all pods to be placed, placed or not; their spread constraints count.
        gangs: Gangs of such pods; None to read them from the snapshot.

    Raises:
        InputError: a gang's declaration cannot be read.
        QuantityError: a quantity in the snapshot is malformed or beyond 64 bits.
    """
    wanted, nodes = frozenset(pending), {node.metadata.name or "" for node in snapshot.nodes}
    gangs = rules_gangs.read(snapshot, wanted, policy).gangs if gangs is None else gangs
    return score_of(snapshot, Whereabouts(Crowd(snapshot), placed, absent, nodes), policy, wanted, gangs)


def score_of(snapshot: Snapshot, where: Whereabouts, policy: Policy, pending: Collection[str], gangs: Sequence[Gang]) -> SoftScore:
    """Return the points of a placement, as :func:`score`, for pods that are sorted already."""
    nodes = {node.metadata.name or "": node for node in snapshot.nodes}
    waiting = {number for key, number in zip(where.crowd.key_of, where.crowd.set_of, strict=True) if key in pending}
    kinds = Kinds()
    points = _NodePoints(nodes, snapshot.gates, images=bool(policy.multipliers.imageLocality))
    pairs = _Pairs(snapshot, nodes, policy)
    fixed: list[tuple[objects.Pod, int]] = []
    to_be_placed: list[tuple[objects.Pod, PodKind]] = []
    for number, (pod, on) in enumerate(where.on):
        if objects.is_terminal(pod):
            continue
        kind = kinds.of(pod)
        if number in waiting:
            to_be_placed.append((pod, kind))
        placed, staying = on
        if placed:
            kind.add(placed, placed=True, terminating=objects.is_terminating(pod))
            pairs.add(pod, kind, placed, placed=True)
            points.add(pod.spec, placed)
        if staying:
            kind.add(staying, placed=False, terminating=objects.is_terminating(pod))
            pairs.add(pod, kind, staying, placed=False)
            fixed.append((pod, len(staying)))
    usable = CandidateNodes(nodes, fixed, snapshot.gates, where.crowd.shared_requests, devices.backed(snapshot))
    spread = SoftSpreadPoints(snapshot, nodes, policy, usable)
    for pod, kind in to_be_placed:
        spread.carry(pod, kind)
    preferred, required = pairs.points(kinds)
    families = {
        "nodeAffinity": points.affinity,
        "taints": points.taints,
        **({"imageLocality": points.images} if policy.multipliers.imageLocality else {}),
        "podAffinity": preferred + _together(snapshot, nodes, where.placed, gangs),
        "requiredAffinity": required,
        "topologySpread": spread.points(kinds),
    }
    return SoftScore(families, spread, kinds, points, where)


# --- a pod and its node -----------------------------------------------------------------------------------------------------------------


class _NodePoints:
    """Points of placed pods for their nodes: preferred node affinity, soft taints, and images if they count."""

    def __init__(self, nodes: Nodes, gates: FeatureGates, *, images: bool) -> None:
        self.affinity = 0
        self.images = 0
        self.taints = 0
        self.nodes, self._gates = nodes, gates
        self._locality = ImageLocality(nodes) if images else None
        self._soft = {name: soft for name, node in nodes.items() if (soft := [t for t in taints_of(node) if t.effect == _SOFT_TAINT])}

    def add(self, spec: objects.PodSpec, on: Sequence[str]) -> None:
        """Add replicas, one on each of the nodes."""
        if node_affinity(spec) is not None:
            self.affinity += sum(self.preferred(spec, node) for node in on)
        if self._soft:
            self.taints += sum(self.untolerated(spec, node) for node in on)
        if self._locality is not None:
            self.images += sum(self._locality.points(spec, node) for node in on)

    def preferred(self, spec: objects.PodSpec, node: str) -> int:
        """Return the points of a node for the pod's preferred node affinity."""
        wanted = node_affinity(spec)
        if wanted is None:
            return 0
        labels = labels_of(self.nodes[node])
        terms = wanted.preferredDuringSchedulingIgnoredDuringExecution or ()
        return sum(term.weight for term in terms if matching.term_holds(term.preference, labels, node))

    def untolerated(self, spec: objects.PodSpec, node: str) -> int:
        """Return the points of a node for its soft taints that the pod does not tolerate."""
        met = [taint for taint in self._soft.get(node, ()) if not node_rules.tolerated(spec.tolerations, taint, self._gates)]
        return TAINT_POINTS * len(met)


# --- pairs of pods ----------------------------------------------------------------------------------------------------------------------


@dataclass
class _Pull:
    """Points that the owners of a term offer to one matching pod, summed by domain.

    Attributes:
        placed: Points from placed owners.
        fixed: Points from owners that stay.
    """

    placed: dict[str, int] = field(default_factory=dict)
    fixed: dict[str, int] = field(default_factory=dict)


class _Owned(NamedTuple):
    """A term of a kind of pods.

    Attributes:
        key: Topology key.
        weight: Points per pair.
        pull: The points that the term offers.
        selects_itself: True if the term matches its own owners.
    """

    key: str
    weight: int
    pull: _Pull
    selects_itself: bool


def _dot(one: Mapping[str, int], other: Mapping[str, int]) -> int:
    if len(other) < len(one):
        one, other = other, one
    return sum(number * other[domain] for domain, number in one.items() if domain in other)


class _Family:
    """Ordered pairs (p, q) in which a term of p matches q and both nodes are in one domain of its key."""

    def __init__(self, namespace_labels: Mapping[str, matching.Labels]) -> None:
        self._namespace_labels = namespace_labels
        self._pulls: dict[affinity.Match, dict[str, _Pull]] = {}
        self._own = 0

    def owned(self, term: affinity.AffinityTerm, weight: int, kind: PodKind) -> _Owned:
        """Return a term of a kind of pods."""
        pull = self._pulls.setdefault(term.match, {}).setdefault(term.key, _Pull())
        return _Owned(term.key, weight, pull, self._holds(term.match, kind))

    def add(self, term: _Owned, domains: Sequence[str], *, placed: bool) -> None:
        """Add owners of a term, one in each of the domains."""
        pulls = term.pull.placed if placed else term.pull.fixed
        for domain in domains:
            pulls[domain] = pulls.get(domain, 0) + term.weight
        if placed and term.selects_itself:
            self._own += term.weight * len(domains)  # a pod is no pair with itself

    def _holds(self, match: affinity.Match, kind: PodKind) -> bool:
        return match.holds(kind.namespace, kind.labels, matching.namespace_labels(self._namespace_labels, kind.namespace))

    def points(self, kinds: Kinds, domains: _Domains) -> int:
        """Return the points of all ordered pairs of pods with at least one placed pod."""
        total = -self._own
        for match, pulls in self._pulls.items():
            for kind in kinds.offered(match.selector):
                if self._holds(match, kind):
                    for key, pull in pulls.items():
                        placed, fixed = domains.of(kind, key)
                        total += _dot(pull.placed, placed) + _dot(pull.placed, fixed) + _dot(pull.fixed, placed)
        return total


class _Domains:
    """Numbers of pods per domain, for each kind and topology key: placed pods, and pods that stay."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._memo: dict[tuple[int, str], tuple[Counter[str], Counter[str]]] = {}

    def of(self, kind: PodKind, key: str) -> tuple[Counter[str], Counter[str]]:
        memo = id(kind), key
        if memo not in self._memo:
            self._memo[memo] = self._by_domain(kind.placed, key), self._by_domain(kind.fixed, key)
        return self._memo[memo]

    def _by_domain(self, numbers: Mapping[str, int], key: str) -> Counter[str]:
        found: Counter[str] = Counter()
        for node, number in numbers.items():
            domain = labels_of(self._nodes[node]).get(key)
            if domain is not None:
                found[domain] += number
        return found


_Weighted = tuple[affinity.AffinityTerm, int]


class _Pairs:
    """Points of pairs: preferred affinity and anti-affinity, and the implicit weight of required affinity."""

    def __init__(self, snapshot: Snapshot, nodes: Nodes, policy: Policy) -> None:
        namespace_labels = {name: namespace.metadata.labels or {} for name, namespace in snapshot.namespaces.items()}
        self._nodes = nodes
        self._hard_weight = policy.hardPodAffinityWeight
        self._symmetric = policy.symmetricPreferredAntiAffinity
        self._preferred = _Family(namespace_labels)
        self._required = _Family(namespace_labels)
        self._keys: dict[int, tuple[str, ...]] = {}
        self._terms: dict[tuple[object, ...], tuple[list[_Weighted], list[_Weighted]]] = {}

    def add(self, pod: objects.Pod, kind: PodKind, nodes: Sequence[str], *, placed: bool) -> None:
        """Add replicas, one on each of the nodes."""
        if pod.spec.affinity is None:
            return
        preferred, required = self._read(pod, kind)
        if not (placed or self._symmetric):
            preferred = without_anti_affinity(preferred)
        labels = [labels_of(self._nodes[node]) for node in nodes]
        for family, terms in ((self._preferred, preferred), (self._required, required)):
            for term, weight in terms:
                owned = family.owned(term, weight, kind)
                family.add(owned, [each[owned.key] for each in labels if owned.key in each], placed=placed)

    def points(self, kinds: Kinds) -> tuple[int, int]:
        domains = _Domains(self._nodes)
        return self._preferred.points(kinds, domains), self._required.points(kinds, domains)

    def _read(self, pod: objects.Pod, kind: PodKind) -> tuple[list[_Weighted], list[_Weighted]]:
        own = id(pod.spec.affinity)
        if own not in self._keys:
            self._keys[own] = affinity.own_labels(pod.spec.affinity or objects.Affinity())
        memo = own, kind.namespace, tuple(kind.labels.get(key) for key in self._keys[own])
        if memo not in self._terms:
            required = [(term, self._hard_weight) for term in affinity.read_terms(pod).affinity if self._hard_weight]
            self._terms[memo] = preferred_terms(pod), required
        return self._terms[memo]


def preferred_terms(pod: objects.Pod) -> list[_Weighted]:
    """Return the preferred terms of a pod, anti-affinity with negative weights. Unreadable terms are ignored."""
    wanted = pod.spec.affinity or objects.Affinity()
    found: list[_Weighted] = []
    for sign, source in ((1, wanted.podAffinity), (-1, wanted.podAntiAffinity)):
        weighted = (source.preferredDuringSchedulingIgnoredDuringExecution or []) if source else []
        # A preferred term selects as a required one would, so it is read as one.
        stand_in = objects.PodAffinity(requiredDuringSchedulingIgnoredDuringExecution=[term.podAffinityTerm for term in weighted])
        terms = affinity.read_terms(objects.Pod(pod.metadata, objects.PodSpec(affinity=objects.Affinity(podAffinity=stand_in))))
        found += [(term, sign * entry.weight) for term, entry in zip(terms.affinity, weighted, strict=False)]
    return found


def without_anti_affinity(terms: Iterable[_Weighted]) -> list[_Weighted]:
    """Return the terms that a pod which stays applies to new pods if preferred anti-affinity is not symmetric."""
    return [(term, weight) for term, weight in terms if weight > 0]


def _together(snapshot: Snapshot, nodes: Nodes, placed: Mapping[str, str], gangs: Sequence[Gang]) -> int:
    """Return the points of gangs' preferred topologies.

    Each ordered pair of members in one domain counts if at least one is placed now.
    """
    pairs = 0
    keys = {gang.key for gang in gangs if gang.key is not None and not gang.required}
    domains = {key: {name: labels_of(node)[key] for name, node in nodes.items() if key in labels_of(node)} for key in keys}
    for gang in gangs:
        if gang.key is None or gang.required:
            continue
        domain = domains[gang.key]
        running = Counter(domain.get(snapshot.pods[i].spec.nodeName or "") for i in gang.bound)
        new = Counter(domain.get(placed.get(objects.pod_key(snapshot.pods[i]), "")) for i in gang.pods)
        pairs += sum(number * (number - 1 + 2 * running[value]) for value, number in new.items() if value is not None)
    return PREFERRED_TOPOLOGY_POINTS * pairs
