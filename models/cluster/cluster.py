"""The compiled instance: pod classes and nodes as int64 arrays. Rules and preferences treat all pods of a class alike.

Array sizes: N nodes, R resources, G pod classes (pending pods only), P profiles, M matchers. A profile is a namespace with the labels
that some selector reads, of a pending or fixed pod. CPU is in mCPU, other resources in whole units (bytes, devices).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from kubestow.models.cluster.partition import equivalence
from kubestow.models.cluster.volumes import VolumeTable
from kubestow.models.devices.demand import DeviceDemand
from kubestow.models.devices.table import DeviceTable
from kubestow.models.documents.policy import Policy
from kubestow.models.gangs.gangs import Gang
from kubestow.models.kube.objects import Pod
from kubestow.models.kube.pod_spec import Port
from kubestow.models.kube.selectors import Bools, LabelRequirement, NodeColumns, Selector, Tolerations
from kubestow.models.numa.containers import ContainerClass, FixedContainers
from kubestow.models.numa.node_topology import NumaTree
from kubestow.models.snapshot.scope import Scope
from kubestow.models.snapshot.snapshot import Snapshot

Ints = NDArray[np.int64]
Ids = NDArray[np.int32]
#: Taint effects that reject pods. PreferNoSchedule only has a cost.
HARD_EFFECTS = frozenset(("NoSchedule", "NoExecute"))


@dataclass(frozen=True, slots=True)
class AffinityTerm:
    """An anti-affinity term, which forbids pods that ``matcher`` matches in the same domain of the topology key ``key``."""

    matcher: int
    key: str


@dataclass(frozen=True, slots=True)
class RequiredAffinity:
    """The required affinity terms of a class, combined."""

    full: int  # the matcher of pods that match every term
    keys: tuple[str, ...]  # topology keys of the terms, distinct and sorted
    itself: bool  # True if the pod matches all its own terms, so that it can be the first of its group


@dataclass(frozen=True, slots=True)
class Spread:
    """A DoNotSchedule topology spread constraint."""

    matcher: int | None  # None if it counts no pods (nil or empty selector)
    key: str
    max_skew: int
    min_domains: int
    eligible: int  # the nodes that count, an index into ``Cluster.node_sets``
    itself: bool  # True if the pod matches its own selector


@dataclass(frozen=True, slots=True)
class Pull:
    """A weighted pod affinity (weight > 0) or anti-affinity (weight < 0) term."""

    matcher: int
    key: str
    weight: int  # points for each matched pod in the same domain of ``key``
    family: str  # podAffinity, or requiredAffinity for the implicit weight of a required term


@dataclass(frozen=True, slots=True)
class SoftSpread:
    """A ScheduleAnyway topology spread constraint."""

    matcher: int
    key: str
    max_skew: int
    eligible: int  # the nodes that count, an index into ``Cluster.node_sets``


@dataclass
class PodClass:
    """Pending pods that rules and preferences treat alike.

    All fields except those with ``compare=False`` distinguish classes (:func:`signature`).
    """

    pod: Pod = field(compare=False)  # a representative
    pods: list[int] = field(compare=False)  # indices into ``snapshot.pods``, in input order
    profile: int = field(compare=False)
    priority: int
    node_rule: int
    tolerations: int
    node_name: str | None
    anti: tuple[AffinityTerm, ...]
    affinity: RequiredAffinity | None
    spread: tuple[Spread, ...]
    ports: frozenset[Port]
    claims: tuple[str, ...]
    prefers: tuple[tuple[int, int], ...] = ()  # preferred node affinity: (node set, weight)
    scores: tuple[tuple[str, int], ...] = ()  # points for nodes: (family, index into its ``node_scores``)
    pulls: tuple[Pull, ...] = ()
    soft_spread: tuple[SoftSpread, ...] = ()
    containers: ContainerClass | None = None
    gang: int | None = None
    features: tuple[str, ...] = ()  # kubelet features that a node must declare
    os: str = ""  # the operating system of its nodes, empty for any
    balloons: int | None = None  # the node set whose BalloonsPolicies create its containers
    isolated: int | None = None  # the node set that may have the isolated CPUs of its containers
    refused: tuple[str, str] | None = None  # the rule that refuses to create the pods, and the reason
    devices: DeviceDemand | None = None

    @property
    def count(self) -> int:
        return len(self.pods)


def signature(cls: PodClass) -> tuple[object, ...]:
    """Return the fields of a class that rules read. Rules on the pod itself treat classes with equal signatures alike."""
    return tuple(getattr(cls, f.name) for f in fields(cls) if f.compare)


@dataclass(frozen=True, slots=True)
class GangGroup:
    """A gang over the pod classes of the instance."""

    name: str
    classes: tuple[int, ...]  # the classes of its pending pods, ascending
    needed: int  # the minimum number of these pods to place together
    key: str | None = None  # topology key whose domain all members must share (hard rule)
    home: tuple[int, ...] = ()  # distinct domain codes of running members, -1 for nodes without the key


@dataclass
class FixedTerm:
    """A required anti-affinity term of fixed pods, with the nodes on which they run (int32, distinct)."""

    term: AffinityTerm
    nodes: Ids


class Matchers:
    """A registry of (namespaces, selector) pairs and their conjunctions, evaluated over profiles."""

    def __init__(self) -> None:
        self._ids: dict[tuple[object, ...], int] = {}
        self._parts: list[tuple[tuple[frozenset[str] | None, Selector], ...]] = []
        self._hits: dict[int, Bools] = {}
        self.profiles: list[tuple[str, tuple[tuple[str, str], ...]]] = []
        self._index: dict[str, dict[str, Ids]] = {}
        self._spaces: dict[str, Ids] = {}

    def add(self, *parts: tuple[frozenset[str] | None, Selector]) -> int:
        """Return the id of the matcher that is the conjunction of the parts. Namespaces None means every namespace."""
        key = tuple(sorted(set(parts), key=lambda p: (p[0] is None, sorted(p[0] or ()), p[1])))
        matcher = self._ids.get(key)
        if matcher is None:
            matcher = self._ids[key] = len(self._parts)
            self._parts.append(key)
        return matcher

    def __len__(self) -> int:
        return len(self._parts)

    def parts(self, matcher: int) -> tuple[tuple[frozenset[str] | None, Selector], ...]:
        """Return the (namespaces, selector) pairs of a conjunction. Namespaces None means every namespace."""
        return self._parts[matcher]

    def keys(self) -> set[str]:
        """Return the label keys that any matcher reads."""
        return {r.key for parts in self._parts for _, selector in parts for r in selector}

    def freeze(self, profiles: Sequence[tuple[str, tuple[tuple[str, str], ...]]]) -> None:
        """Set the profiles over which :meth:`hits` evaluates matchers."""
        self.profiles = list(profiles)
        index: dict[str, dict[str, list[int]]] = {}
        spaces: dict[str, list[int]] = {}
        for p, (namespace, labels) in enumerate(profiles):
            spaces.setdefault(namespace, []).append(p)
            for key, value in labels:
                index.setdefault(key, {}).setdefault(value, []).append(p)
        self._index = {k: {v: np.array(ps, dtype=np.int32) for v, ps in vs.items()} for k, vs in index.items()}
        self._spaces = {k: np.array(ps, dtype=np.int32) for k, ps in spaces.items()}

    def _requirement(self, requirement: LabelRequirement) -> Bools:
        mask = np.zeros(len(self.profiles), dtype=bool)
        values = self._index.get(requirement.key, {})
        wanted: Iterable[str] = requirement.values if requirement.operator in ("In", "NotIn") else values
        for value in wanted:
            if value in values:
                mask[values[value]] = True
        if requirement.operator in ("NotIn", "DoesNotExist"):
            return ~mask
        return mask if requirement.operator in ("In", "Exists") else np.zeros_like(mask)

    def hits(self, matcher: int) -> Bools:
        """Return bool[P], the profiles that a matcher matches."""
        hits = self._hits.get(matcher)
        if hits is None:
            hits = np.ones(len(self.profiles), dtype=bool)
            for namespaces, selector in self._parts[matcher]:
                if namespaces is not None:
                    mask = np.zeros_like(hits)
                    for namespace in namespaces:
                        if namespace in self._spaces:
                            mask[self._spaces[namespace]] = True
                    hits &= mask
                for requirement in selector:
                    hits &= self._requirement(requirement)
            self._hits[matcher] = hits
        return hits


class PlacedPods:
    """Counts of fixed pods per (profile, node), for fast sums over the profiles that a matcher matches."""

    def __init__(self, nodes: Ids, profiles: Ids, size: int, width: int) -> None:
        self._size = size
        pairs, counts = np.unique(profiles.astype(np.int64) * max(1, size) + nodes, return_counts=True)
        self._node = (pairs % max(1, size)).astype(np.int64)
        self._count = counts.astype(np.int64)
        self._start = np.searchsorted(pairs, np.arange(width + 1, dtype=np.int64) * max(1, size))

    def per_node(self, hits: Bools) -> Ints:
        total = np.zeros(self._size, dtype=np.int64)
        for p in np.flatnonzero(hits):
            a, b = self._start[p], self._start[p + 1]
            if a != b:
                total[self._node[a:b]] += self._count[a:b]
        return total

    def by_node(self) -> list[Ints]:
        """Return the profiles of the pods on each node."""
        profiles = np.repeat(np.arange(len(self._start) - 1), np.diff(self._start))
        order = np.argsort(self._node, kind="stable")
        edges = np.searchsorted(self._node[order], np.arange(self._size + 1))
        return [profiles[order[a:b]] for a, b in pairwise(edges.tolist())]


@dataclass
class Cluster:
    """The compiled instance. ``free`` and ``slots`` are allocatable resources and pod slots minus the use by fixed pods."""

    snapshot: Snapshot
    scope: Scope
    nodes: NodeColumns
    resources: list[str]
    allocatable: Ints  # [N, R]
    free: Ints  # [N, R], may be negative
    slots: Ints  # [N]
    classes: list[PodClass]
    demand: Ints  # [G, R]
    supposed: Ints  # [G, 2]: CPU and memory that a pod adds to its requests in the balance score
    fixed_supposed: Ints  # [N, 2]: the same, summed over fixed pods
    count: Ints  # [G]
    priority: Ints  # [G]
    profile: Ids  # [G]
    matchers: Matchers
    node_sets: list[Bools]
    toleration_sets: list[Tolerations]
    node_scores: dict[str, list[Ints]]  # [N] each, by family
    fixed_anti: list[FixedTerm]
    fixed_ports: dict[Port, Ids]
    volumes: VolumeTable
    fixed_claims: dict[str, set[int]]
    policy: Policy
    fixed_pulls: dict[Pull, Ints]  # [N] each: number of fixed pods that carry the term
    trees: dict[int, NumaTree]  # NUMA topologies by node
    fixed_containers: FixedContainers
    declared: list[Gang]  # gangs as declared by objects
    gangs: list[GangGroup]  # the same gangs over classes; PodClass.gang is an index into both
    devices: DeviceTable | None  # None if no pending pod requests devices
    _placed: PlacedPods
    _settled: PlacedPods
    _members: dict[str, list[Ids]] = field(default_factory=dict)
    _none: dict[int, Ints] = field(default_factory=dict)
    _by_profile: list[Ids] | None = None

    @property
    def n_nodes(self) -> int:
        return self.nodes.size

    @property
    def n_classes(self) -> int:
        return len(self.classes)

    def per_priority(self, values: Ints) -> dict[int, int]:
        """Return the sum of an int64[G] array over the classes of each priority."""
        found: dict[int, int] = {}
        for priority, value in zip(self.priority.tolist(), values.tolist(), strict=True):
            found[priority] = found.get(priority, 0) + value
        return found

    def restricted(self, classes: Sequence[int]) -> Cluster:
        """Return the cluster with only some of the pending classes. The minimum of a gang with missing classes becomes 0."""
        chosen = np.array(classes, dtype=np.int64)
        place = {g: i for i, g in enumerate(classes)}
        return replace(
            self,
            gangs=[
                replace(
                    gang,
                    classes=tuple(place[g] for g in gang.classes if g in place),
                    needed=gang.needed if place.keys() >= set(gang.classes) else 0,
                )
                for gang in self.gangs
            ],
            classes=[self.classes[g] for g in classes],
            demand=self.demand[chosen],
            supposed=self.supposed[chosen],
            count=self.count[chosen],
            priority=self.priority[chosen],
            profile=self.profile[chosen],
            _by_profile=None,
        )

    def matches(self, matcher: int) -> Bools:
        """Return bool[G], the pod classes that a matcher matches."""
        return self.matchers.hits(matcher)[self.profile]

    def matching(self, matcher: int) -> Ids:
        """Return the indices (int32, ascending) of the pod classes that a matcher matches."""
        if self._by_profile is None:
            order = np.argsort(self.profile, kind="stable").astype(np.int32)
            edges = np.searchsorted(self.profile[order], np.arange(len(self.matchers.profiles) + 1))
            self._by_profile = [order[edges[p] : edges[p + 1]] for p in range(len(self.matchers.profiles))]
        hit = [self._by_profile[p] for p in np.flatnonzero(self.matchers.hits(matcher))]
        return np.sort(np.concatenate(hit)) if hit else np.zeros(0, dtype=np.int32)

    def none(self, size: int) -> Ints:
        """Return a shared, read-only int64[size] array of zeros."""
        zeros = self._none.get(size)
        if zeros is None:
            zeros = self._none[size] = np.zeros(size, dtype=np.int64)
            zeros.flags.writeable = False
        return zeros

    def fixed_per_domain(self, matcher: int, key: str, *, settled: bool = False, eligible: int | None = None) -> Ints:
        """Return int64[D], matched fixed pods per domain (read-only), on the nodes of the set ``eligible`` if given."""
        codes, size = self.domains(key)
        per_node = self.fixed_count(matcher, settled=settled)
        if eligible is not None:
            per_node = np.where(self.node_sets[eligible], per_node, 0)
        return domain_sum(codes, size, per_node) if per_node.any() else self.none(size)

    def fixed_count(self, matcher: int, *, settled: bool = False) -> Ints:
        """Return int64[N], the fixed pods per node that a matcher matches. ``settled`` excludes terminating pods."""
        count = (self._settled if settled else self._placed).per_node(self.matchers.hits(matcher))
        return count if count.any() else self.none(self.n_nodes)

    def domains(self, key: str) -> tuple[Ids, int]:
        """Return the domain of each node under a topology key (int32[N], -1 without the key), and the number of domains."""
        codes, values = self.nodes.column(key)
        return codes, len(values)

    def node_classes(self) -> Ids:
        """Return int32[N], the class of each node. Nodes of a class agree in taints, free capacity, pod slots and node sets, and in the
        value of every topology key that a rule reads. Keys with a different value on every node (hostnames) do not count."""
        keys = {t.key for c in self.classes for t in c.anti} | {s.key for c in self.classes for s in c.spread}
        keys |= {k for c in self.classes if c.affinity for k in c.affinity.keys}
        keys |= {t.key for c in self.classes for t in c.pulls} | {s.key for c in self.classes for s in c.soft_spread}
        columns = [self.free, self.slots, self.nodes.unschedulable, self.nodes.taint_sets]
        for key in sorted(keys):
            codes, size = self.domains(key)
            columns.append(codes if size < np.count_nonzero(codes >= 0) else codes >= 0)
        return equivalence(*columns, *self.node_sets).of.astype(np.int32)

    def members(self, key: str) -> list[Ids]:
        """Return the nodes of each domain of a topology key, by domain."""
        members = self._members.get(key)
        if members is None:
            codes, size = self.domains(key)
            order = np.argsort(codes, kind="stable").astype(np.int32)
            edges = np.searchsorted(codes[order], np.arange(size + 1))
            members = self._members[key] = [order[edges[d] : edges[d + 1]] for d in range(size)]
        return members


def domain_sum(codes: Ids, size: int, values: Ints) -> Ints:
    """Return the sums of a per-node array over domains, int64[size]. Nodes with domain -1 are ignored."""
    total = np.zeros(size, dtype=np.int64)
    inside = codes >= 0
    np.add.at(total, codes[inside], values[inside])
    return total


def single(codes: Ids, size: int) -> bool:
    """Return True if every domain is one node."""
    return bool(size >= np.count_nonzero(codes >= 0))
