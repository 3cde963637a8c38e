"""Two reference heuristics for consolidation, on raw objects, as a careful script would do it.

Both move pods one by one. The old pod goes, the new one is placed on the first node that all scheduler filters accept (first-fit, pods in
decreasing order of the larger share of CPU or memory, nodes from the most loaded), and a rule that held for another pod holds afterwards.
PodDisruptionBudgets do not limit them. The planner's code is not used; the rules are those of the checker (solver/verify_*.py).

* :func:`prefix`: nodes in order of the pods that they would have to give away; binary search for the longest prefix of that order that can
  be drained together.
* :func:`one_by_one`: the least loaded node first; it is drained if all its pods fit elsewhere, else it is left as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from kubestow.checker.reading import affinity_terms, matching, resources, taints
from kubestow.checker.rules.inter_pod_affinity import state as affinity
from kubestow.checker.rules.node_ports import rule as ports_rule
from kubestow.checker.rules.node_resources_fit import rule as fit
from kubestow.checker.rules.pod_topology_spread import state as spread
from kubestow.models.disruption.evictable import exclusions
from kubestow.models.kube import objects
from kubestow.models.snapshot.snapshot import Snapshot

_CORDON: Final = objects.Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
_CONTROL_PLANE: Final = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
_KEEP: Final = {"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true", "karpenter.sh/do-not-disrupt": "true"}
_OF_THE_NODE: Final = ("daemonset", "mirror")

#: A pod (index into the snapshot's) goes from a node to another.
Step = tuple[int, str, str]


@dataclass(frozen=True)
class Freed:
    """Result of a heuristic: nodes without pods but DaemonSets' and static ones, those that had none before among them; its moves in
    order."""

    nodes: frozenset[str]
    steps: list[Step]

    @property
    def moves(self) -> int:
        return len(self.steps)


@dataclass
class _Node:
    """A node and what its pods hold. ``mine``: movable pods on it."""

    node: objects.Node
    capacity: resources.Amounts
    pods: int = 0
    used: resources.Amounts = field(default_factory=dict)
    ports: list[ports_rule.Port] = field(default_factory=list)
    mine: set[int] = field(default_factory=set)


@dataclass
class _Limit:
    """A DoNotSchedule constraint that running pods share. ``holders``: how many of them run in each domain; ``allowed``: by how much it may
    be exceeded there, as much as in the snapshot."""

    constraint: spread.SpreadConstraint
    holders: dict[str, int] = field(default_factory=dict)
    allowed: dict[str, int] = field(default_factory=dict)

    def excess(self, domain: str) -> int:
        tally = self.constraint.tally
        return tally.domains.get(domain, 0) - tally.minimum(self.constraint.min_domains) - self.constraint.max_skew

    def worse(self) -> bool:
        return any(self.excess(domain) > self.allowed.get(domain, 0) for domain, count in self.holders.items() if count)


class State:
    """The running pods of a snapshot, which can be moved one by one and back.

    Pods that use persistent volumes are taken as immovable.

    Raises:
        QuantityError: a quantity in the snapshot is malformed or beyond 64 bits.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        named = {node.metadata.name or "": node for node in snapshot.nodes}
        self.nodes = {name: _Node(node, resources.node_capacity(node)) for name, node in named.items()}
        self.where = {i: pod.spec.nodeName or "" for i, pod in enumerate(snapshot.pods) if _runs(pod, named)}
        self.closed: set[str] = set()
        self.steps: list[Step] = []
        self._affinity = affinity.AffinityState({name: space.metadata.labels or {} for name, space in snapshot.namespaces.items()})
        self._spread = spread.SpreadState(named, snapshot.gates)
        reader = affinity_terms.MemberReader()
        pods = snapshot.pods
        self._members = {i: reader.member(pods[i]) for i in self.where}
        self._spreads = {i: self._spread.read(pods[i]) for i in self.where}
        self.requests = {i: resources.pod_requests(pods[i], snapshot.gates, bound=True) for i in self.where}
        self._ports = {i: ports_rule.host_ports(pods[i]) for i in self.where}
        self._affinity.announce(self._members.values(), judged=True)
        staying = exclusions(snapshot)
        self.movable = {i for i in self.where if i not in staying and not _has_claims(pods[i])}
        blocked = {self.where[i] for i in self.where if i not in self.movable and staying.get(i) not in _OF_THE_NODE}
        self.freeable = [name for name, node in named.items() if name not in blocked and _may_go(node)]
        self._seekers: dict[affinity_terms.Group, list[int]] = {}
        self._limits: dict[tuple[int, int, int], _Limit] = {}
        self._watching: dict[matching.Profile, list[_Limit]] = {}
        self._static: dict[tuple[int, ...], dict[str, bool]] = {}
        for i, name in self.where.items():
            self._put(i, name)
        self._read_rules()

    def _read_rules(self) -> None:
        """The rules that pods may break by going: whose affinity, and whose constraints; those broken now may stay so."""
        for i, member in self._members.items():
            if member.terms.affinity and not self._broken_affinity(i):
                self._seekers.setdefault(frozenset(term.match for term in member.terms.affinity), []).append(i)
            for limit, domain in self._limits_of(i):
                limit.allowed[domain] = max(0, limit.excess(domain))

    def _limits_of(self, i: int) -> Iterable[tuple[_Limit, str]]:
        """The constraints of a pod, and its domains."""
        labels = self.nodes[self.where[i]].node.metadata.labels or {}
        for constraint in self._spreads[i].constraints:
            domain = labels.get(constraint.tally.census.key)
            if domain is not None:
                key = id(constraint.tally), constraint.max_skew, constraint.min_domains
                yield self._limits.setdefault(key, _Limit(constraint)), domain

    # --- moving -------------------------------------------------------------------------------------------------------

    def _put(self, i: int, name: str) -> None:
        pod, at, member = self.snapshot.pods[i], self.nodes[name], self._members[i]
        self.where[i] = name
        at.pods += 1
        for resource, amount in self.requests[i].items():
            at.used[resource] = at.used.get(resource, 0) + amount
        at.ports += self._ports[i]
        if i in self.movable:
            at.mine.add(i)
        self._spread.add(pod, at.node, member.profile)
        self._affinity.add(member, at.node)
        for limit, domain in self._limits_of(i):
            limit.holders[domain] = limit.holders.get(domain, 0) + 1

    def _take(self, i: int) -> str:
        name = self.where[i]
        pod, at, member = self.snapshot.pods[i], self.nodes[name], self._members[i]
        at.pods -= 1
        for resource, amount in self.requests[i].items():
            at.used[resource] -= amount
        for port in self._ports[i]:
            at.ports.remove(port)
        at.mine.discard(i)
        self._spread.add(pod, at.node, member.profile, -1)
        self._affinity.remove(member, at.node)
        for limit, domain in self._limits_of(i):
            limit.holders[domain] -= 1
        return name

    def move(self, i: int, nodes: Sequence[str]) -> bool:
        """Move the pod to the first of the nodes that takes it without harm to others, or leave it where it is."""
        start = self._take(i)
        for name in nodes:
            if name != start and name not in self.closed and not self.rejected(i, name):
                self._put(i, name)
                if not self._harms(i, start):
                    self.steps.append((i, start, name))
                    return True
                self._take(i)
        self._put(i, start)
        return False

    def back(self, count: int) -> None:
        """Take moves back until ``count`` are left."""
        while len(self.steps) > count:
            i, start, _ = self.steps.pop()
            self._take(i)
            self._put(i, start)

    # --- rules --------------------------------------------------------------------------------------------------------

    def rejected(self, i: int, name: str) -> bool:
        """Return whether a filter rejects the pod, which has no node now, on the node."""
        at = self.nodes[name]
        if fit.fit_faults(self.requests[i], at.pods, at.used, at.capacity) or not self._allowed(i, name):
            return True
        if self._ports[i] and ports_rule.clashing_port(self._ports[i], at.ports):
            return True
        return bool(spread.faults(self._spreads[i], at.node) or self._affinity.faults(self._members[i], at.node))

    def _allowed(self, i: int, name: str) -> bool:
        """Return the verdict of the pod's own node rules; pods that share the rules share the verdict."""
        spec = self.snapshot.pods[i].spec
        known = self._static.setdefault((id(spec.tolerations), id(spec.affinity), id(spec.nodeSelector)), {})
        if name not in known:
            node = self.nodes[name].node
            own = node.spec or objects.NodeSpec()
            tainted = [*(own.taints or ()), *([_CORDON] if own.unschedulable else ())]
            untolerated = taints.untolerated_taint(spec.tolerations, tainted, self.snapshot.gates)
            known[name] = untolerated is None and not matching.node_affinity_fault(spec, node)
        return known[name]

    def _broken_affinity(self, i: int) -> bool:
        node, member = self.nodes[self.where[i]].node, self._members[i]
        self._affinity.remove(member, node)
        broken = bool(self._affinity.faults(member, node))
        self._affinity.add(member, node)
        return broken

    def _harms(self, i: int, start: str) -> bool:
        """Return whether a completed move violates a rule of another pod, on the old node or in the new domain."""
        member = self._members[i]
        origin, there = (self.nodes[name].node.metadata.labels or {} for name in (start, self.where[i]))
        for group in self._affinity.answers(member):
            for j in self._seekers.get(group, ()):
                here = self.nodes[self.where[j]].node.metadata.labels or {}
                keys = {term.key for term in self._members[j].terms.affinity}
                if any(origin.get(key) == here.get(key) != there.get(key) for key in keys) and self._broken_affinity(j):
                    return True
        return any(limit.worse() for limit in self._watchers(member))

    def _watchers(self, member: affinity_terms.AffinityMember) -> list[_Limit]:
        found = self._watching.get(member.profile)
        if found is None:
            found = self._watching[member.profile] = [
                limit for limit in self._limits.values() if _counts(limit.constraint.tally.census, member)
            ]
        return found

    # --- orders -------------------------------------------------------------------------------------------------------

    def load(self, name: str) -> tuple[int, str]:
        """The larger share of CPU or memory that is requested of a node, in parts of a million; and its name, to break ties."""
        at = self.nodes[name]
        shares = (at.used.get(r, 0) * 1_000_000 // max(1, at.capacity.get(r, 0)) for r in ("cpu", "memory"))
        return max(shares), name

    def decreasing(self, pods: Iterable[int]) -> list[int]:
        """Pods by the larger share of the cluster's CPU or memory that they request, largest first."""
        total = {r: sum(at.capacity.get(r, 0) for at in self.nodes.values()) for r in ("cpu", "memory")}

        def size(i: int) -> int:
            requests = self.requests[i]
            return max(requests.get("cpu", 0) * total["memory"], requests.get("memory", 0) * total["cpu"])

        return sorted(pods, key=lambda i: (-size(i), i))

    def drain(self, names: Sequence[str], targets: Sequence[str]) -> bool:
        """Close the nodes and move all their pods, largest first, to the first of ``targets`` that takes each; or do nothing."""
        count = len(self.steps)
        self.closed.update(names)
        pods = [i for name in names for i in self.nodes[name].mine]
        if all(self.move(i, targets) for i in self.decreasing(pods)):
            return True
        self.back(count)
        self.closed.difference_update(names)
        return False


def prefix(snapshot: Snapshot) -> Freed:
    """The longest prefix of the nodes, those with the fewest pods to move first, that can be drained together."""
    state = State(snapshot)
    order = sorted(state.freeable, key=lambda name: (len(state.nodes[name].mine), name))
    loaded = sorted(state.nodes, key=state.load, reverse=True)
    low, high = 0, len(order)
    while low < high:
        middle = (low + high + 1) // 2
        if state.drain(order[:middle], loaded):
            low = middle
            state.back(0)
            state.closed.clear()
        else:
            high = middle - 1
    state.drain(order[:low], loaded)
    return Freed(frozenset(order[:low]), state.steps)


def one_by_one(snapshot: Snapshot) -> Freed:
    """Node after node, the least loaded first: kept free if all its pods fit elsewhere."""
    state = State(snapshot)
    order = sorted(state.freeable, key=state.load)
    loaded = sorted(state.nodes, key=state.load, reverse=True)
    for name in order:
        state.drain([name], loaded)
    return Freed(frozenset(state.closed), state.steps)


HEURISTICS: Final[dict[str, Callable[[Snapshot], Freed]]] = {"prefix": prefix, "one by one": one_by_one}


def _runs(pod: objects.Pod, nodes: dict[str, objects.Node]) -> bool:
    return pod.spec.nodeName in nodes and not objects.is_terminal(pod)


def _has_claims(pod: objects.Pod) -> bool:
    return any(volume.persistentVolumeClaim is not None or volume.ephemeral is not None for volume in pod.spec.volumes or ())


def _may_go(node: objects.Node) -> bool:
    labels, notes = node.metadata.labels or {}, node.metadata.annotations or {}
    return not any(key in labels for key in _CONTROL_PLANE) and not any(notes.get(key) == value for key, value in _KEEP.items())


def _counts(census: spread.Census, member: affinity_terms.AffinityMember) -> bool:
    return bool(census.selector) and census.namespace == member.namespace and matching.selects(census.selector, member.labels)
