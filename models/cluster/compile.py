"""From a snapshot to the compiled instance: equal pods become templates, templates that no rule can tell apart become classes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from models.cluster.cluster import (
    HARD_EFFECTS,
    Affinity,
    AffinityTerm,
    Cluster,
    FixedTerm,
    GangGroup,
    Ids,
    Ints,
    Matchers,
    PlacedPods,
    PodClass,
    Port,
    Pull,
    SoftSpread,
    Spread,
)
from models.cluster.default_spread import DefaultSpread
from models.cluster.volumes import VolumeTable
from models.documents.policy import DEFAULT, Policy, node_topologies
from models.gangs import gangs
from models.kube import objects, pod_requests, quantity
from models.kube.objects import Pod, PodAffinityTerm, PodSpec, Toleration
from models.kube.pod_claims import claim_keys, named_claims
from models.kube.selectors import Bools, NodeTable, Requirement, Selector, canonical, label_key_requirements, selector_matches
from models.numa.annotations import has_hints
from models.numa.containers import ContainerClass, NoContainers
from models.snapshot.scope import Scope, is_mirror
from models.snapshot.snapshot import InputError, Snapshot

if TYPE_CHECKING:
    from models.numa.node_topology import NumaTree

_encoder = msgspec.json.Encoder(order="deterministic")
#: What a node holds is cut off here: no quantity is larger, so a node that holds as much has nothing left either way, and differences
#: stay within int64.
_LIMIT = quantity.INT64_MAX
#: Pseudo label of the members of a gang: no label key holds a NUL.
_MEMBER = "\0gang"


@dataclass
class _Template:
    """Pods of equal raw rules: everything of a pod that can decide placement, its labels included."""

    pod: Pod
    pods: list[int]
    demand: dict[str, int]
    anti: tuple[AffinityTerm, ...]
    affinity: tuple[int, tuple[str, ...]] | None
    spread: list[tuple[int | None, objects.TopologySpreadConstraint]]
    pulls: tuple[Pull, ...]
    soft_spread: list[tuple[int, objects.TopologySpreadConstraint, tuple[str, ...]]]  # matcher, constraint, keys that eligible nodes carry
    containers: ContainerClass | None
    gang: int | None
    apart: int | None = None
    profile: int = -1


def required_terms(pod: Pod, kind: str) -> list[PodAffinityTerm]:
    """The required terms of ``podAffinity`` or ``podAntiAffinity``; the RequiredDuringExecution variant schedules alike."""
    affinity = pod.spec.affinity
    part = getattr(affinity, kind) if affinity is not None else None
    if part is None:
        return []
    return [
        *(part.requiredDuringSchedulingIgnoredDuringExecution or ()),
        *(part.requiredDuringSchedulingRequiredDuringExecution or ()),
    ]


def preferred_terms(pod: Pod, kind: str) -> list[objects.WeightedPodAffinityTerm]:
    """The preferred terms of ``podAffinity`` or ``podAntiAffinity``."""
    affinity = pod.spec.affinity
    part = getattr(affinity, kind) if affinity is not None else None
    return list(part.preferredDuringSchedulingIgnoredDuringExecution or ()) if part is not None else []


def host_ports(spec: PodSpec) -> frozenset[Port]:
    """Host ports of app containers and sidecars; ordinary init containers' ports do not count."""
    containers = [*(spec.containers or ()), *(c for c in spec.initContainers or () if c.restartPolicy == "Always")]
    return frozenset(
        ("*" if p.hostIP in (None, "", "0.0.0.0") else p.hostIP or "*", p.protocol or "TCP", p.hostPort)
        for c in containers
        for p in c.ports or ()
        if p.hostPort
    )


class _Compiler:
    def __init__(
        self, snapshot: Snapshot, scope: Scope, daemon_namespaces: tuple[str, ...], policy: Policy, running: Mapping[int, int]
    ) -> None:
        self.snapshot, self.scope, self.policy, self.running = snapshot, scope, policy, running
        self.daemons = frozenset(daemon_namespaces)
        self.nodes = NodeTable(snapshot.nodes)
        self.matchers = Matchers()
        self.namespaces = {*snapshot.namespaces, *(p.metadata.namespace or "default" for p in snapshot.pods)}
        self._selected: dict[Selector, frozenset[str]] = {}
        self.node_sets: list[Bools] = []
        self._node_set_ids: dict[bytes, int] = {}
        self._node_rule_ids: dict[bytes, int] = {}
        self.toleration_sets: list[tuple[Toleration, ...]] = []
        self._toleration_ids: dict[bytes, int] = {}
        self.trees = _trees(snapshot, policy)
        self.containers = _containers(snapshot, scope, policy, rejecting=any(tree.rejects for tree in self.trees.values()))
        self.default_spread = DefaultSpread(snapshot, policy)
        asked = scope
        if running:  # of a gang, those that run are no pods to be placed
            waiting = [i for i in scope.pending if i not in running]
            asked = replace(scope, pending=waiting, fixed=sorted([*scope.fixed, *running]))
        self.gangs = gangs.find(snapshot, asked, tiers=policy.networkTiers)
        self._gang_of = {i: k for k, gang in enumerate(self.gangs) for i in (*gang.pods, *gang.bound) if i not in running}

    # Which namespaces a term covers: None for all of them.
    def _namespaces(self, term: PodAffinityTerm, own: str) -> frozenset[str] | None:
        if not term.namespaces and term.namespaceSelector is None:
            return frozenset((own,))
        listed = frozenset(term.namespaces or ())
        selector = canonical(term.namespaceSelector)
        if selector is None:
            return listed
        if not selector:
            return None
        chosen = self._selected.get(selector)
        if chosen is None:
            chosen = frozenset(n for n in self.namespaces if selector_matches(selector, self._namespace_labels(n)))
            self._selected[selector] = chosen
        return listed | chosen

    def _namespace_labels(self, name: str) -> dict[str, str]:
        found = self.snapshot.namespaces.get(name)
        return (found.metadata.labels or {}) if found is not None else {}

    def _term(self, pod: Pod, term: PodAffinityTerm) -> tuple[frozenset[str] | None, Selector] | None:
        """Namespaces and selector of a term; None when it can match nothing (nil selector)."""
        extra = label_key_requirements(pod.metadata.labels or {}, term.matchLabelKeys, term.mismatchLabelKeys)
        selector = canonical(term.labelSelector, extra)
        if selector is None:
            return None
        return self._namespaces(term, pod.metadata.namespace or "default"), selector

    def template(self, pod: Pod, index: int, *, bound: bool) -> _Template:
        own = pod.metadata.namespace or "default"
        anti: set[AffinityTerm] = set()
        if own not in self.daemons:
            for term in required_terms(pod, "podAntiAffinity"):
                part = self._term(pod, term)
                if part is not None:
                    if self.daemons:
                        part = (frozenset(self.namespaces if part[0] is None else part[0]) - self.daemons, part[1])
                    anti.add(AffinityTerm(self.matchers.add(part), term.topologyKey))
        affinity = None
        terms = required_terms(pod, "podAffinity")
        if terms:
            parts = [self._term(pod, term) for term in terms]
            nothing = (frozenset[str](), ())  # a nil selector matches no pod
            full = self.matchers.add(*(p if p is not None else nothing for p in parts))
            affinity = (full, tuple(sorted({t.topologyKey for t in terms})))
        spread: list[tuple[int | None, objects.TopologySpreadConstraint]] = []
        for constraint in pod.spec.topologySpreadConstraints or ():
            if constraint.whenUnsatisfiable != "DoNotSchedule":
                continue
            extra = label_key_requirements(pod.metadata.labels or {}, constraint.matchLabelKeys)
            selector = canonical(constraint.labelSelector, extra)
            spread.append((self.matchers.add((frozenset((own,)), selector)) if selector else None, constraint))
        try:
            asks = msgspec.structs.replace(pod, status=None) if index in self.running else pod  # what it would ask for anew
            demand = pod_requests.pod_request(asks)
        except ValueError as error:
            raise InputError([f"Pod {objects.pod_key(pod)}: requests: {error}"]) from error
        order = sorted(anti, key=lambda t: (t.matcher, t.key))
        soft = [] if bound else self._soft_spread(pod)
        pulls = self._pulls(pod) + self._together(index)
        return _Template(
            pod, [index], demand, tuple(order), affinity, spread, pulls, soft, self.containers.of(index), self._gang_of.get(index),
            self.running.get(index),
        )  # fmt: skip

    def _pulls(self, pod: Pod) -> tuple[Pull, ...]:
        """Weighted terms of a pod, those over equal pods and key summed up; they concern daemon namespaces too."""
        found: dict[tuple[int, str, bool], int] = {}

        def add(term: PodAffinityTerm, weight: int, *, required: bool) -> None:
            part = self._term(pod, term) if weight else None
            if part is not None:
                key = (self.matchers.add(part), term.topologyKey, required)
                found[key] = found.get(key, 0) + weight

        multipliers = self.policy.multipliers
        if multipliers.podAffinity:
            for weighted in preferred_terms(pod, "podAffinity"):
                add(weighted.podAffinityTerm, weighted.weight, required=False)
            for weighted in preferred_terms(pod, "podAntiAffinity"):
                add(weighted.podAffinityTerm, -weighted.weight, required=False)
        if multipliers.requiredAffinity:
            for term in required_terms(pod, "podAffinity"):
                add(term, self.policy.hardPodAffinityWeight, required=True)
        return tuple(Pull(m, k, w, required) for (m, k, required), w in sorted(found.items()) if w)

    def _together(self, index: int) -> tuple[Pull, ...]:
        """The preferred topology of a gang: each member prefers every other, as by preferred pod affinity."""
        gang = self.gangs[self._gang_of[index]] if index in self._gang_of else None
        if gang is None or gang.key is None or gang.required or not self.policy.multipliers.podAffinity:
            return ()
        matcher = self.matchers.add((None, (Requirement(_MEMBER, "In", (gang.name,)),)))
        return (Pull(matcher, gang.key, gangs.TOGETHER, False),)

    def labels(self, template: _Template) -> dict[str, str]:
        """What selectors read of a pod; members of a gang are told apart by a key that no real label can have."""
        found = template.pod.metadata.labels or {}
        return found if template.gang is None else {**found, _MEMBER: self.gangs[template.gang].name}

    def _soft_spread(self, pod: Pod) -> list[tuple[int, objects.TopologySpreadConstraint, tuple[str, ...]]]:
        if not self.policy.multipliers.topologySpread:
            return []
        own = pod.metadata.namespace or "default"
        constraints = [c for c in pod.spec.topologySpreadConstraints or () if c.whenUnsatisfiable == "ScheduleAnyway"]
        keys = tuple(sorted({c.topologyKey for c in constraints}))
        wanted = [(c, keys) for c in constraints]
        if not pod.spec.topologySpreadConstraints:
            wanted = self.default_spread.of(pod)
        found = []
        for constraint, carried in wanted:
            extra = label_key_requirements(pod.metadata.labels or {}, constraint.matchLabelKeys)
            selector = canonical(constraint.labelSelector, extra)
            if selector:
                found.append((self.matchers.add((frozenset((own,)), selector)), constraint, carried))
        return found

    def templates(self, indices: Sequence[int], *, bound: bool) -> list[_Template]:
        found: dict[bytes, _Template] = {}
        for i in indices:
            pod = self.snapshot.pods[i]
            spec = pod.spec
            parts: list[object] = [
                *(pod.metadata.namespace, pod.metadata.labels, spec.affinity),
                *(spec.containers, spec.initContainers, spec.overhead, spec.resources),
            ]
            if bound:  # what fixed pods hold and repel
                if pod.status is not None:
                    parts += [pod.status.conditions, pod.status.containerStatuses, pod.status.initContainerStatuses]
            else:
                pinned = spec.nodeName if is_mirror(pod) else None
                parts += [spec.nodeSelector, spec.tolerations, spec.topologySpreadConstraints, spec.priority, pinned]
                parts += [claim_keys(pod), named_claims(pod), self.default_spread.key(pod)]
            parts += [self.containers.key(i), self._gang_of.get(i), self.running.get(i)]
            key = _encoder.encode(parts)
            template = found.get(key)
            if template is None:
                found[key] = self.template(pod, i, bound=bound)
            else:
                template.pods.append(i)
        return list(found.values())

    def node_set(self, mask: Bools) -> int:
        key = np.packbits(mask).tobytes()
        if key not in self._node_set_ids:
            self._node_set_ids[key] = len(self.node_sets)
            self.node_sets.append(mask)
        return self._node_set_ids[key]

    def node_rule(self, pod: Pod) -> int:
        """The node set of nodeSelector and required node affinity together; equal sets share an id."""
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
        found = tuple(pod.spec.tolerations or ())
        ordered = sorted(found, key=lambda t: (t.key or "", t.operator or "", t.value or "", t.effect or ""))
        key = _encoder.encode(ordered)
        if key not in self._toleration_ids:
            self._toleration_ids[key] = len(self.toleration_sets)
            self.toleration_sets.append(tuple(ordered))
        return self._toleration_ids[key]

    def prefers(self, pod: Pod) -> tuple[tuple[int, int], ...]:
        """Preferred node affinity: (node set, weight), equal sets summed up."""
        affinity = pod.spec.affinity.nodeAffinity if pod.spec.affinity else None
        found: dict[int, int] = {}
        if affinity is not None and self.policy.multipliers.nodeAffinity:
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


def compile_cluster(
    snapshot: Snapshot,
    scope: Scope,
    *,
    daemon_namespaces: tuple[str, ...] = (),
    policy: Policy = DEFAULT,
    running: Mapping[int, int] | None = None,
) -> Cluster:
    """Compile a snapshot for the pods that ``scope`` says are pending, against those it says are fixed. ``running``: of the pending ones
    those that run now and may be moved, each with a number; those of different numbers are never of one class, and none is of a gang.

    Raises:
        InputError: a quantity that no 64-bit sum can hold, a container-affinity annotation or node topology that cannot be read.
    """
    work = _Compiler(snapshot, scope, daemon_namespaces, policy, running or {})
    fixed = work.templates(scope.fixed, bound=True)
    pending = work.templates(scope.pending, bound=False)

    # Profiles: labels projected on the keys that some selector reads.
    read = work.matchers.keys()
    profiles: dict[tuple[str, tuple[tuple[str, str], ...]], int] = {}
    for template in (*fixed, *pending):
        labels = work.labels(template)
        key = (template.pod.metadata.namespace or "default", tuple(sorted((k, v) for k, v in labels.items() if k in read)))
        template.profile = profiles.setdefault(key, len(profiles))
    work.matchers.freeze(list(profiles))

    node_index = {name: n for n, name in enumerate(work.nodes.names)}
    resources, allocatable, slots = _allocatable(work.nodes, snapshot, [*fixed, *pending])
    used, used_slots = _used(snapshot, fixed, node_index, resources)
    fixed_node = np.array([node_index[snapshot.pods[i].spec.nodeName or ""] for t in fixed for i in t.pods], dtype=np.int32)
    fixed_profile = np.array([t.profile for t in fixed for _ in t.pods], dtype=np.int32)
    settled = np.array([not objects.is_terminating(snapshot.pods[i]) for t in fixed for i in t.pods], dtype=bool)

    classes, groups = _classes(work, pending)
    demand = np.zeros((len(classes), len(resources)), dtype=np.int64)
    by_pod = {t.pods[0]: t for t in pending}
    column = {name: r for r, name in enumerate(resources)}
    for g, cls in enumerate(classes):
        for name, value in by_pod[cls.pods[0]].demand.items():
            demand[g, column[name]] = value
    for cls in classes:
        cls.pods.sort()
    size, width = work.nodes.size, len(profiles)
    return Cluster(
        snapshot=snapshot,
        scope=scope,
        nodes=work.nodes,
        resources=resources,
        allocatable=allocatable,
        free=allocatable - used,
        slots=slots - used_slots,
        classes=classes,
        demand=demand,
        count=np.array([c.count for c in classes], dtype=np.int64),
        priority=np.array([c.priority for c in classes], dtype=np.int64),
        profile=np.array([c.profile for c in classes], dtype=np.int32),
        matchers=work.matchers,
        node_sets=work.node_sets,
        toleration_sets=work.toleration_sets,
        fixed_anti=_fixed_anti(snapshot, fixed, node_index),
        fixed_ports=_fixed_ports(snapshot, fixed, node_index),
        volumes=VolumeTable(snapshot, work.nodes),
        fixed_claims=_fixed_claims(snapshot, scope, node_index),
        policy=policy,
        fixed_pulls=_fixed_pulls(snapshot, fixed, node_index),
        trees={node_index[name]: tree for name, tree in work.trees.items() if name in node_index},
        fixed_containers=work.containers.fixed(
            ((t.containers, np.array([node_index[snapshot.pods[i].spec.nodeName or ""] for i in t.pods])) for t in fixed), work.nodes.size
        ),
        declared=work.gangs,
        gangs=groups,
        _placed=PlacedPods(fixed_node, fixed_profile, size, width),
        _settled=PlacedPods(fixed_node[settled], fixed_profile[settled], size, width),
    )


def _allocatable(nodes: NodeTable, snapshot: Snapshot, templates: Sequence[_Template]) -> tuple[list[str], Ints, Ints]:
    """Resources that some pod requests, their allocatable per node [N, R] and the pod slots [N]."""
    asked = {name for t in templates for name in t.demand}
    base = ["cpu", "memory"]
    resources = base + sorted(asked - set(base))
    column = {name: r for r, name in enumerate(resources)}
    table = np.zeros((nodes.size, len(resources)), dtype=np.int64)
    slots = np.zeros(nodes.size, dtype=np.int64)
    for n, node in enumerate(snapshot.nodes):
        status = node.status
        listed = (status.allocatable if status.allocatable is not None else status.capacity) if status else None
        try:
            found = pod_requests.allocatable(listed)
        except ValueError as error:
            raise InputError([f"Node {nodes.names[n]}: status.allocatable: {error}"]) from error
        slots[n] = min(found.get("pods", 0), 2**31)
        for name, value in found.items():
            if name in column:
                table[n, column[name]] = value
    return resources, table, slots


def _used(snapshot: Snapshot, fixed: Sequence[_Template], node_index: dict[str, int], resources: list[str]) -> tuple[Ints, Ints]:
    slots = np.zeros(len(node_index), dtype=np.int64)
    column = {name: r for r, name in enumerate(resources)}
    large = any(value > _LIMIT >> 23 for t in fixed for value in t.demand.values())
    used = np.zeros((len(node_index), len(resources)), dtype=object if large else np.int64)
    for template in fixed:
        at = np.array([node_index[snapshot.pods[i].spec.nodeName or ""] for i in template.pods], dtype=np.int64)
        per_node = np.bincount(at, minlength=len(node_index)).astype(used.dtype)
        slots += per_node.astype(np.int64)
        for name, value in template.demand.items():
            used[:, column[name]] += per_node * value
    return np.minimum(used, _LIMIT).astype(np.int64), slots


def _classes(work: _Compiler, pending: Sequence[_Template]) -> tuple[list[PodClass], list[GangGroup]]:
    """Merge templates that no rule can tell apart: equal own rules, matched by the same matchers, of one gang; and the gangs."""
    lowest: dict[int, int] = {}
    for template in pending:
        if template.gang is not None:
            priority = template.pod.spec.priority or 0
            lowest[template.gang] = min(priority, lowest.get(template.gang, priority))
    width = len(work.matchers)
    hits = (
        np.array([work.matchers.hits(m) for m in range(width)], dtype=bool) if width else np.zeros((0, len(work.matchers.profiles)), bool)
    )
    found: dict[tuple[object, ...], PodClass] = {}
    for template in pending:
        pod = template.pod
        affinity = None
        if template.affinity is not None:
            full, keys = template.affinity
            affinity = Affinity(full, keys, bool(hits[full, template.profile]))
        keys = tuple(c.topologyKey for _, c in template.spread)
        spread = tuple(
            Spread(
                matcher, c.topologyKey, c.maxSkew, c.minDomains or 1, work.eligible(pod, c, keys),
                matcher is not None and bool(hits[matcher, template.profile]),
            )
            for matcher, c in template.spread
        )  # fmt: skip
        cls = PodClass(
            pod=pod,
            pods=list(template.pods),
            profile=template.profile,
            priority=(pod.spec.priority or 0) if template.gang is None else lowest[template.gang],
            node_rule=work.node_rule(pod),
            tolerations=work.tolerations(pod),
            node_name=pod.spec.nodeName if is_mirror(pod) else None,
            anti=template.anti,
            affinity=affinity,
            spread=tuple(dict.fromkeys(spread)),
            ports=host_ports(pod.spec),
            claims=claim_keys(pod),
            prefers=work.prefers(pod),
            pulls=template.pulls,
            soft_spread=tuple(
                dict.fromkeys(
                    SoftSpread(m, c.topologyKey, c.maxSkew, work.eligible(pod, c, carried)) for m, c, carried in template.soft_spread
                )
            ),
            containers=template.containers,
            gang=template.gang,
        )
        signature = (
            cls.priority, cls.node_rule, cls.tolerations, cls.node_name, cls.anti, cls.affinity, cls.spread, cls.ports, cls.claims,
            cls.prefers, cls.pulls, cls.soft_spread, cls.containers, cls.gang, template.apart,
            tuple(sorted(template.demand.items())), np.packbits(hits[:, template.profile]).tobytes(),
        )  # fmt: skip
        same = found.get(signature)
        if same is None:
            found[signature] = cls
        else:
            same.pods.extend(cls.pods)
    classes = list(found.values())
    members: dict[int, list[int]] = {}
    for g, cls in enumerate(classes):
        if cls.gang is not None:
            members.setdefault(cls.gang, []).append(g)
    return classes, [_group(work, k, members.get(k, [])) for k in range(len(work.gangs))]


def _group(work: _Compiler, k: int, classes: Sequence[int]) -> GangGroup:
    """A gang over the classes of its pods."""
    gang = work.gangs[k]
    key = gang.key if gang.required else None
    home: set[int] = set()
    if key is not None and gang.bound:
        codes, _ = work.nodes.column(key)
        index = {name: n for n, name in enumerate(work.nodes.names)}
        home = {int(codes[index[work.snapshot.pods[i].spec.nodeName or ""]]) for i in gang.bound}  # -1: on a node without the key
    return GangGroup(gang.name, tuple(classes), gang.needed, key, tuple(sorted(home)))


def _fixed_anti(snapshot: Snapshot, fixed: Sequence[_Template], node_index: dict[str, int]) -> list[FixedTerm]:
    where: dict[AffinityTerm, set[int]] = {}
    for template in fixed:
        for term in template.anti:
            where.setdefault(term, set()).update(node_index[snapshot.pods[i].spec.nodeName or ""] for i in template.pods)
    return [FixedTerm(term, np.array(sorted(at), dtype=np.int32)) for term, at in where.items()]


def _fixed_pulls(snapshot: Snapshot, fixed: Sequence[_Template], node_index: dict[str, int]) -> dict[Pull, Ints]:
    """How many fixed pods on each node carry each weighted term."""
    where: dict[Pull, Ints] = {}
    for template in fixed:
        if template.pulls:
            at = np.array([node_index[snapshot.pods[i].spec.nodeName or ""] for i in template.pods], dtype=np.int64)
            per_node = np.bincount(at, minlength=len(node_index)).astype(np.int64)
            for pull in template.pulls:
                where[pull] = where.get(pull, 0) + per_node
    return where


def _containers(snapshot: Snapshot, scope: Scope, policy: Policy, *, rejecting: bool) -> NoContainers:
    """The table of container classes, where anything asks for one."""
    on = bool(policy.multipliers.containerAffinity)
    hinted = on and (policy.colocatePods or policy.colocateNamespaces or any(has_hints(pod) for pod in snapshot.pods))
    if not (rejecting or hinted):
        return NoContainers()
    from models.numa.container_classes import ContainerTable

    return ContainerTable(snapshot, scope, policy, rejecting=rejecting)


def _trees(snapshot: Snapshot, policy: Policy) -> dict[str, NumaTree]:
    """The topology of each node that has one.

    Raises:
        InputError: a NodeResourceTopology that cannot be read.
    """
    listed = node_topologies(policy, snapshot)
    if not listed:
        return {}
    from models.numa import node_topology

    trees, problems = {}, []
    for name, found in listed.items():
        try:
            tree = node_topology.tree(found)
        except node_topology.TopologyError as error:
            problems.append(f"NodeResourceTopology {name}: {error}")
        else:
            if tree is not None:
                trees[name] = tree
    if problems:
        raise InputError(problems)
    return trees


def _fixed_ports(snapshot: Snapshot, fixed: Sequence[_Template], node_index: dict[str, int]) -> dict[Port, Ids]:
    where: dict[Port, set[int]] = {}
    for template in fixed:
        for port in host_ports(template.pod.spec):
            where.setdefault(port, set()).update(node_index[snapshot.pods[i].spec.nodeName or ""] for i in template.pods)
    return {port: np.array(sorted(at), dtype=np.int32) for port, at in where.items()}


def _fixed_claims(snapshot: Snapshot, scope: Scope, node_index: dict[str, int]) -> dict[str, set[int]]:
    """Claims that fixed pods use, with the nodes where they do."""
    where: dict[str, set[int]] = {}
    for i in scope.fixed:
        pod = snapshot.pods[i]
        if pod.spec.volumes:
            for key in claim_keys(pod):
                where.setdefault(key, set()).add(node_index[pod.spec.nodeName or ""])
    return where
