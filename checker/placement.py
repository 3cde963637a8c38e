"""The independent checker: replays a Placement against the raw objects, pod by pod, with matching code of its own.

It reads no compiled instance, no class and no encoding, so that a fault there cannot hide here. A valid placement binds unit by
unit in its order, each pod accepted by every filter in the state reached so far; a unit is a pod, or the pods of one gang that
share an order number, which see each other as present for InterPodAffinity and PodTopologySpread. In the end, every domain that
received a pod with a DoNotSchedule constraint obeys it, and every gang is whole. Kubelets with a Topology Manager that rejects are
replayed too, and every tier is computed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from checker.claims import reasons
from checker.claims.document import document_claims
from checker.claims.preferences import preference_claims
from checker.devices import start as devices
from checker.objective.tiers import objective_faults
from checker.placement_document import document_faults, replayed_units, units, why_not_movable, why_not_pending
from checker.rules import admission, affinity, gangs, matching, node_rules, resources, spread, volumes
from checker.violation import DOCUMENT, Violation
from models.documents.placement import Assignment, DeviceResult, Placement
from models.documents.policy import DEFAULT
from models.kube import objects
from models.snapshot.gc_pause import no_gc
from models.snapshot.snapshot import Snapshot

if TYPE_CHECKING:
    from checker.devices.state import Grant

__all__ = ["Checked", "Judge", "Violation", "check", "rejecting_rules", "rest_faults", "verify"]

Fault = tuple[str, str]  # rule, why


@dataclass
class _Held:
    """What the pods on a node hold."""

    pods: int = 0
    used: resources.Amounts = field(default_factory=dict)
    ports: list[resources.Port] = field(default_factory=list)


@dataclass(slots=True)
class _Candidate:
    """A pod to be judged, with its parsed terms."""

    pod: objects.Pod
    member: affinity.Member
    spread: spread.Spread


class Judge:
    """The state of a cluster: bound pods, and pods added since. Judges candidates against it, one rule after the other.

    ``candidates``: the pods that will be judged or added. ``absent``: keys of bound pods that are left out of the state.
    ``exempt``: namespaces without hard anti-affinity. ``free``: keys of pods whose own spec.nodeName does not count.
    ``granted``: the devices that pods get when they are bound, by key; others get what the allocator finds.

    Raises:
        QuantityError: a quantity in the snapshot is malformed or beyond 64 bits.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        candidates: Sequence[objects.Pod],
        *,
        absent: Collection[str] = (),
        exempt: Collection[str] = (),
        free: Collection[str] = (),
        granted: Mapping[str, Sequence[Grant]] = MappingProxyType({}),
    ) -> None:
        self._snapshot = snapshot  # keeps parts of pods in memory, which are known by their ids
        self.nodes = {node.metadata.name or "": node for node in snapshot.nodes}
        self._free, self._exempt = frozenset(free), frozenset(exempt)
        self._known_grants = granted
        self._refused = admission.refused(snapshot)
        self._capacity = {name: resources.node_capacity(node) for name, node in self.nodes.items()}
        self._held = {name: _Held() for name in self.nodes}
        self._guards: dict[tuple[int, str], tuple[spread.Spread, objects.Node]] = {}
        self._asked = resources.Shared(snapshot.gates)
        namespace_labels = {name: namespace.metadata.labels or {} for name, namespace in snapshot.namespaces.items()}
        self._affinity = affinity.AffinityState(namespace_labels, exempt)
        self._spread = spread.SpreadState(self.nodes, snapshot.gates)
        self._reader = affinity.Reader()
        self._volumes = volumes.VolumeState(snapshot)
        judged = {id(pod) for pod in candidates}
        self._devices = devices.state(snapshot, candidates, self._replaced(snapshot, judged, absent))
        running = [
            (pod, self.nodes[pod.spec.nodeName])
            for pod in snapshot.pods
            if pod.spec.nodeName in self.nodes
            and not objects.is_terminal(pod)
            and id(pod) not in judged
            and objects.pod_key(pod) not in absent
        ]
        self._candidates = {id(pod): _Candidate(pod, self._reader.member(pod), self._spread.read(pod)) for pod in candidates}
        self._affinity.announce((c.member for c in self._candidates.values()), judged=True)
        members = [self._reader.member(pod) for pod, _ in running]
        self._affinity.announce(members, judged=False)
        for member, (pod, node) in zip(members, running, strict=True):
            self._affinity.add(member, node)
            self._add(pod, node, member.profile, placed=False)

    def _replaced(self, snapshot: Snapshot, judged: Collection[int], absent: Collection[str]) -> list[objects.Pod]:
        """Running pods that are left out: what was made for them goes, too. None where nothing can have been made."""
        pods = snapshot.pods if snapshot.resource_claims else ()
        return [pod for pod in pods if pod.spec.nodeName in self.nodes and (id(pod) in judged or objects.pod_key(pod) in absent)]

    def _add(self, pod: objects.Pod, node: objects.Node, profile: matching.Profile, *, placed: bool) -> None:
        held = self._held[node.metadata.name or ""]
        held.pods += 1
        used = held.used
        for name, amount in self._asked.requests(pod, bound=not placed).items():
            used[name] = used.get(name, 0) + amount
        held.ports += self._asked.ports(pod)
        self._spread.add(pod, node, profile)
        self._volumes.add(pod, node, placed=placed)
        if placed and self._devices is not None:
            requests, grants = self._asked.requests(pod, bound=False), self._known_grants.get(objects.pod_key(pod))
            if grants is None:
                self._devices.allocate(pod, node, requests, self._capacity[node.metadata.name or ""])
            else:
                self._devices.allocate_again(pod, node, requests, grants)

    def grants(self, pod: objects.Pod) -> Sequence[Grant]:
        """Return what a pod that was bound was allocated itself."""
        return () if self._devices is None else self._devices.own(pod)

    def device_faults(self, pod: objects.Pod, node_name: str, named: Sequence[DeviceResult]) -> list[str]:
        """Return how the devices that are named for a pod differ from what it was allocated when it was bound."""
        if self._devices is None and not named:
            return []
        from checker.devices.document import faults

        return faults(self._devices, self.allocated(pod), self.nodes[node_name], named)

    def other_devices(self, pod: objects.Pod, named: Sequence[DeviceResult]) -> list[str]:
        """Return how a pod that was bound has others than the devices that a document of an earlier snapshot names for it."""
        if self._devices is None and not named:
            return []
        from checker.devices.document import others

        return others(self._devices, pod, named)

    def allocated(self, pod: objects.Pod) -> Sequence[Grant] | None:
        """Return what a pod that was bound has, what was allocated for others that it shares included; None if it was rejected."""
        return [] if self._devices is None else self._devices.allocated(pod)

    def device_demand(self, pod: objects.Pod) -> object:
        """Return what tells a candidate from others as far as devices go; None if it has nothing to do with them."""
        return None if self._devices is None else self._devices.content(pod, self._asked.requests(pod, bound=False))

    def used(self) -> dict[str, resources.Amounts]:
        """Return what the pods of each node hold by now."""
        return {name: held.used for name, held in self._held.items()}

    @property
    def capacity(self) -> dict[str, resources.Amounts]:
        """Return what each node has."""
        return self._capacity

    def spread_of(self, pod: objects.Pod) -> spread.Spread:
        """Return the parsed DoNotSchedule constraints of a candidate."""
        return self._candidates[id(pod)].spread

    def faults(self, pod: objects.Pod, node_name: str) -> list[Fault]:
        """Return every rule that rejects a candidate on the node in the present state, each asked on its own, with the reason."""
        node = self.nodes[node_name]
        return self._faults(self._candidates[id(pod)], node)

    def verdict(self, pod: objects.Pod, node_name: str) -> list[Fault]:
        """Return the same of both passes of kube-scheduler: against the bound pods, and with the pods of equal or higher priority beside
        them that are nominated to the node, as if they ran there. Plugins that skip the pod are not asked again; what is allocated to a
        pod when it is bound (devices, volumes) is not touched."""
        found = self.faults(pod, node_name)
        rank, key = pod.spec.priority or 0, objects.pod_key(pod)
        guests = {
            id(other): other for other in self._snapshot.pods
            if other.status is not None and other.status.nominatedNodeName == node_name and objects.is_waiting(other)
            and not other.spec.schedulingGates and (other.spec.priority or 0) >= rank and objects.pod_key(other) != key
        }  # fmt: skip
        if not guests:
            return found
        settled = {key: _settled(guest, node_name) for key, guest in guests.items()}
        pods = [settled.get(id(other), other) for other in self._snapshot.pods]
        beside = Judge(replace(self._snapshot, pods=pods), [pod], exempt=self._exempt, free=self._free)
        spread.welcome(beside.spread_of(pod), self.nodes[node_name], settled.values())
        skipped = {devices.RULE} if self._affinity.is_asked(self._candidates[id(pod)].member) else {devices.RULE, "InterPodAffinity"}
        return found + [fault for fault in beside.faults(pod, node_name) if fault[0] not in skipped]

    def disturbs(self, pod: objects.Pod, node_name: str) -> bool:
        """Return whether one more pod there would leave a domain that received a pod of some spread constraint above its maxSkew."""
        candidate, node = self._candidates[id(pod)], self.nodes[node_name]
        if not self._guards:
            return False
        self._spread.add(pod, node, candidate.member.profile)
        fed = [
            (guard, where) for guard, where in self._guards.values()
            if any(c.tally.census.namespace == candidate.member.namespace for c in guard.constraints)
        ]  # fmt: skip
        disturbed = bool(spread.final_faults(fed))
        self._spread.add(pod, node, candidate.member.profile, -1)
        return disturbed

    def bind(self, unit: Sequence[tuple[objects.Pod, str]]) -> list[list[Fault]]:
        """Judge the pods of a unit and add them; gives the faults of each. Rules about other pods in the same domain are judged with all
        of the unit present, all others one pod after the other."""
        judged = [(self._candidates[id(pod)], self.nodes[name]) for pod, name in unit]
        for candidate, node in judged:
            if candidate.spread.constraints:
                self._guards.setdefault((id(candidate.spread), node.metadata.name or ""), (candidate.spread, node))
        if len(judged) == 1:  # nobody to see but those before
            candidate, node = judged[0]
            faults = self._faults(candidate, node)
            self._add(candidate.pod, node, candidate.member.profile, placed=True)
            self._affinity.add(candidate.member, node)
            return [faults]
        together = gangs.affinity_faults(self._affinity, [(candidate.member, node) for candidate, node in judged])
        found: list[list[Fault]] = []
        for candidate, node in judged:
            found.append(self._other_faults(candidate.pod, node))
            self._add(candidate.pod, node, candidate.member.profile, placed=True)
            self._affinity.add(candidate.member, node)
        for (candidate, node), mutual, faults in zip(judged, together, found, strict=True):
            pod, member = candidate.pod, candidate.member
            self._spread.add(pod, node, member.profile, -1)
            self._affinity.remove(member, node)
            faults += [("PodTopologySpread", why) for why in spread.faults(candidate.spread, node)]
            faults += [("InterPodAffinity", why) for why in (*self._affinity.anti_faults(member, node), *mutual)]
            self._affinity.add(member, node)
            self._spread.add(pod, node, member.profile)
        return found

    def _faults(self, candidate: _Candidate, node: objects.Node) -> list[Fault]:
        """All rules, against those before."""
        found = self._other_faults(candidate.pod, node)
        found += [("PodTopologySpread", why) for why in spread.faults(candidate.spread, node)]
        found += [("InterPodAffinity", why) for why in self._affinity.faults(candidate.member, node)]
        return found

    def _other_faults(self, pod: objects.Pod, node: objects.Node) -> list[Fault]:
        """All rules but InterPodAffinity and PodTopologySpread."""
        name = node.metadata.name or ""
        spec = pod.spec
        found = node_rules.node_faults(spec, node, self._snapshot.gates)
        if self._refused and (refusal := self._refused.get(objects.pod_key(pod))) is not None:
            found.append(refusal)
        if spec.nodeName and spec.nodeName != name and objects.pod_key(pod) not in self._free:
            found.append(("NodeName", f"the pod belongs on node {spec.nodeName}"))
        held = self._held[name]
        ports = self._asked.ports(pod)
        clash = resources.clashing_port(ports, held.ports) if ports else None
        if clash:
            found.append(("NodePorts", f"host port {clash[1]}/{clash[0]} on {clash[2]} is taken"))
        requests, capacity = self._asked.requests(pod, bound=False), self._capacity[name]
        if self._devices is not None:
            why = self._devices.judge(pod, node, requests, capacity).fault
            found += [] if why is None else [(devices.RULE, why)]
            requests = self._devices.left_to_the_node(requests, capacity)
        found += [("NodeResourcesFit", why) for why in resources.fit_faults(requests, held.pods, held.used, capacity)]
        return found + self._volumes.faults(pod, node) if spec.volumes else found


def _settled(pod: objects.Pod, node: str) -> objects.Pod:
    change = msgspec.structs.replace
    return change(pod, spec=change(pod.spec, nodeName=node))


def rejecting_rules(snapshot: Snapshot, pod: objects.Pod, node_name: str, *, exempt: Collection[str] = ()) -> list[str]:
    """Return the rules that reject one pod on a node, against the bound pods (without itself), each asked on its own; sorted names.

    Pods that are nominated to the node count as in :meth:`Judge.verdict`. For many questions build a :class:`Judge` once.
    """
    judge = Judge(snapshot, [pod], exempt=exempt, free=[objects.pod_key(pod)])
    return sorted({rule for rule, _ in judge.verdict(pod, node_name)})


class Checked(NamedTuple):
    """What is wrong with a document, and how many pods that are left were not asked about, since that would take too long."""

    violations: list[Violation]
    unjudged: int


def check(snapshot: Snapshot, placement: Placement) -> Checked:
    """Return what :func:`verify` does, and what the document says wrongly of pods that are left, of preferences and of itself.

    Raises:
        QuantityError, InputError: as for :func:`verify`.
    """
    with no_gc():
        return _verify(snapshot, placement, claims=True)


def verify(snapshot: Snapshot, placement: Placement) -> list[Violation]:
    """Return every violation of a placement: faults of the document, then of the replay in bind order, then of the final state.

    Raises:
        QuantityError: a quantity in the snapshot is malformed or beyond 64 bits.
        InputError: the declaration of a gang cannot be read.
    """
    with no_gc():
        return _verify(snapshot, placement, claims=False).violations


def rest_faults(snapshot: Snapshot, placement: Placement) -> list[Violation]:
    """Return what is wrong with the assignments of a placement on a snapshot that is not its own: whether each pod still waits, is accepted
    on its node in turn, and gets the devices that are named. ``placement``: with the assignments that are left alone, under the names that
    their pods have in ``snapshot``. What the document claims (hash, numbers, tiers, that all pending pods are named) is not judged.

    Raises:
        QuantityError, InputError: as for :func:`verify`.
    """
    with no_gc():
        pods = {objects.pod_key(pod): pod for pod in snapshot.pods}
        nodes = frozenset(node.metadata.name or "" for node in snapshot.nodes)
        refusals = {key: why_not_pending(pod, nodes, placement.snapshot) for key, pod in pods.items()}
        found = []
        for entry in placement.assignments:
            why = refusals[entry.pod] if entry.pod in pods else "there is no such pod"
            why = why or (None if entry.node in nodes else "there is no such node")
            if why is not None:
                found.append(Violation(entry.pod, entry.node, DOCUMENT, why))
        roster = gangs.read(snapshot, {key for key, why in refusals.items() if why is None}, placement.policy or DEFAULT)
        waiting = {key: pod for key, pod in pods.items() if refusals[key] is None}
        replayed = replayed_units(units(placement, roster), waiting, nodes)
        entries = [entry for unit in replayed for entry in unit]
        judge = Judge(snapshot, [waiting[entry.pod] for entry in entries], exempt=placement.snapshot.daemonNamespaces)
        found += _bound(judge, replayed, waiting, named=False)
        for entry in entries:
            why_others = judge.other_devices(waiting[entry.pod], entry.devices)
            found += [Violation(entry.pod, entry.node, devices.RULE, why) for why in why_others]
        faults = gangs.gang_faults(snapshot, placement, roster, entries, refusals)
        return found + [fault for fault in faults if fault.rule == gangs.RULE]


def _bound(
    judge: Judge, replayed: Sequence[Sequence[Assignment]], pods: Mapping[str, objects.Pod], *, named: bool = True
) -> list[Violation]:
    """Bind unit by unit; what is wrong with each, and in the end. ``named``: devices have to be those that the document names."""
    found, ended = [], []
    for unit in replayed:
        for entry, faults in zip(unit, judge.bind([(pods[entry.pod], entry.node) for entry in unit]), strict=True):
            found += [Violation(entry.pod, entry.node, rule, why) for rule, why in faults]
            ended.append(entry)
        for entry in unit if named else ():
            found += [
                Violation(entry.pod, entry.node, devices.RULE, why)
                for why in judge.device_faults(pods[entry.pod], entry.node, entry.devices)
            ]
    for position, why in spread.final_faults((judge.spread_of(pods[entry.pod]), judge.nodes[entry.node]) for entry in ended):
        found.append(Violation(ended[position].pod, ended[position].node, "PodTopologySpread", why))
    return found


def _verify(snapshot: Snapshot, placement: Placement, *, claims: bool) -> Checked:
    pods = {objects.pod_key(pod): pod for pod in snapshot.pods}
    nodes = frozenset(node.metadata.name or "" for node in snapshot.nodes)
    refusals = {key: why_not_pending(pod, nodes, placement.snapshot) for key, pod in pods.items()}
    pending = {key for key, why in refusals.items() if why is None}
    roster = gangs.read(snapshot, pending, placement.policy or DEFAULT)
    found = document_faults(snapshot.sha256, placement, pods, nodes, refusals, roster)
    replayed = replayed_units(units(placement, roster), pods, nodes)
    named = {entry.pod for entry in placement.assignments} | {entry.pod for entry in placement.unplaced}
    freed = named if placement.snapshot.fromScratch else ()
    free = {key for key in freed if key in pods and why_not_movable(pods[key], nodes) is None}
    entries = [entry for unit in replayed for entry in unit]
    candidates = [pods[entry.pod] for entry in entries]
    left = reasons.Left(snapshot, placement, pods, refusals, roster.gangs, roster.ranks)
    waiting = left.candidates() if claims else []
    exempt = placement.snapshot.daemonNamespaces
    judge = Judge(snapshot, [*candidates, *waiting], absent=named, exempt=exempt, free=free)
    found += _bound(judge, replayed, pods)
    found += gangs.gang_faults(snapshot, placement, roster, entries, refusals)
    absent = {key for key in named if key in pods and pods[key].spec.nodeName}
    found += objective_faults(snapshot, placement, entries, absent, pending, judge, roster.gangs)
    if claims:
        found += document_claims(snapshot, placement, refusals)
        found += left.faults(judge)
        alone = Judge(snapshot, left.alone, absent=named, exempt=exempt, free=free) if left.alone else None
        found += left.cause_faults(alone)
        found += preference_claims(snapshot, placement, {entry.pod: entry.node for entry in entries}, absent, roster.gangs)
    return Checked(found, left.unjudged)
