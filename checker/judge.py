"""The state of a cluster while pods are bound one after the other, and the verdict of every filter, from the raw objects.

Properties of a pod alone are computed once for all its replicas. In each state, every pod is judged individually.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import msgspec

from kubestow.checker.devices import entry as devices
from kubestow.checker.devices.document import faults, others
from kubestow.checker.devices.state import Grant
from kubestow.checker.replicas import Crowd, Replicas
from kubestow.checker.rules import admission, affinity, gangs, node_rules, resources, spread, volumes
from kubestow.checker.rules.node_policies import NodePolicies
from kubestow.models.documents.placement import DeviceResult
from kubestow.models.documents.policy import DEFAULT, Policy
from kubestow.models.kube import objects
from kubestow.models.snapshot.snapshot import Snapshot

Fault = tuple[str, str]  # rule, why


@dataclass(slots=True, eq=False)
class _Place:
    """A node and the resources that its pods hold. ``open`` is True if no rule of the node itself rejects pods."""

    node: objects.Node
    name: str
    capacity: resources.Amounts
    open: bool
    pods: int = 0
    used: resources.Amounts = field(default_factory=dict)
    ports: list[resources.Port] = field(default_factory=list)

    def take(self, requests: resources.Amounts) -> None:
        """Add a pod with the given requests."""
        self.pods += 1
        used = self.used
        for name, amount in requests.items():
            used[name] = used.get(name, 0) + amount


@dataclass(slots=True, eq=False)
class _Lot:
    """A set of replicas and the properties that they share.

    Attributes:
        pod: One of the replicas.
        plain: True without host ports, volumes, node name and devices, and if no quota refuses any pod.
        bare: True if plain and neither choosy, tied nor spread: only NodeResourcesFit can reject a replica from an open node.
        choosy: True if the replicas require properties of a node.
        has_affinity: True if inter-pod affinity involves them.
        counts: Pod counts of spread constraints that include them.
        asks: Requests of a replica to be bound.
        holds: Requests of a bound replica.
        spread: DoNotSchedule constraints of the replicas.
    """

    pod: objects.Pod
    member: affinity.AffinityMember
    plain: bool = False
    bare: bool = False
    choosy: bool = True
    has_affinity: bool = True
    ports: Sequence[resources.Port] = ()
    counts: Sequence[spread.Count] = ()
    asks: resources.Amounts | None = None
    holds: resources.Amounts | None = None
    spread: spread.PodSpread = spread.NO_SPREAD


class Judge:
    """The state of a cluster: bound pods, and pods added since. It judges candidates against all rules.

    Args:
        snapshot: The snapshot.
        candidates: Pods that will be judged or added.
        absent: Keys of bound pods that are left out of the state.
        exempt: Namespaces that are exempt from required anti-affinity.
        free: Keys of pods whose own spec.nodeName is ignored.
        granted: Devices that pods get when they are bound, by key; for other pods the allocator decides.
        crowd: Pods of the snapshot if they are sorted already.
        policy: The policy; it determines what quotas charge.

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
        crowd: Crowd | None = None,
        policy: Policy = DEFAULT,
    ) -> None:
        self._snapshot, self._candidates = snapshot, candidates  # kept in memory, because pods and their parts are identified by id
        self._replicas = Replicas() if crowd is None else crowd.replicas
        self._asked = resources.SharedRequests(snapshot.gates) if crowd is None else crowd.shared_requests
        self.nodes = {node.metadata.name or "": node for node in snapshot.nodes}
        self._free, self._exempt = frozenset(free), frozenset(exempt)
        self._known_grants = granted
        self._policy = policy
        self._refused = admission.refused(snapshot, policy, exempt)
        self._node_policies = NodePolicies(snapshot)
        self._places = {
            name: _Place(node, name, resources.node_capacity(node), node_rules.is_open(node)) for name, node in self.nodes.items()
        }
        self._guards: dict[tuple[int, str], tuple[spread.PodSpread, objects.Node, objects.Pod]] = {}
        namespace_labels = {name: namespace.metadata.labels or {} for name, namespace in snapshot.namespaces.items()}
        self._affinity = affinity.AffinityState(namespace_labels, exempt)
        self._spread = spread.SpreadState(self.nodes, snapshot.gates)
        self._reader = affinity.MemberReader()
        self._volumes = volumes.VolumeState(snapshot)
        judged = {id(pod) for pod in candidates}
        self._devices = devices.state(snapshot, candidates, self._replaced(snapshot, judged, absent))
        running = [
            pod
            for pod in snapshot.pods
            if pod.spec.nodeName in self.nodes
            and not objects.is_terminal(pod)
            and id(pod) not in judged
            and objects.pod_key(pod) not in absent
        ]
        self._lots: dict[int, _Lot] = {}
        self._lot_of: dict[int, _Lot] = {}  # by id of the pod
        self._members: dict[int, affinity.AffinityMember] = {}  # by id of the pod
        for lot in self._sort(candidates):
            lot.spread = self._spread.read(lot.pod)
        self._affinity.announce((lot.member for lot in self._lots.values()), judged=True)
        self._affinity.announce((lot.member for lot in self._sort(running)), judged=False)
        for lot in self._lots.values():
            self._look_at(lot)
        for pod in running:
            self._add(self._lot_of[id(pod)], pod, self._places[pod.spec.nodeName or ""], placed=False)

    def _sort(self, pods: Sequence[objects.Pod]) -> list[_Lot]:
        """Assign pods to lots; return the new lots."""
        found = []
        for pod, number in zip(pods, self._replicas.numbers(pods), strict=True):
            lot = self._lots.get(number)
            if lot is None:
                lot = self._lots[number] = _Lot(pod, self._reader.member(pod))
                found.append(lot)
            self._lot_of[id(pod)] = lot
        return found

    def _look_at(self, lot: _Lot) -> None:
        """Compute the shared properties of replicas, after all other pods are known."""
        pod, spec = lot.pod, lot.pod.spec
        lot.choosy = node_rules.is_choosy(spec)
        lot.has_affinity = self._affinity.is_tied(lot.member)
        lot.ports = resources.host_ports(pod)
        lot.counts = self._spread.watching(pod, lot.member.profile)
        lot.plain = not (lot.ports or spec.nodeName or spec.volumes or self._refused or self._node_policies or self._devices is not None)
        lot.bare = lot.plain and not (lot.choosy or lot.has_affinity or lot.counts) and lot.spread is spread.NO_SPREAD

    def _asks(self, lot: _Lot) -> resources.Amounts:
        """Return the requests of a replica to be bound."""
        if lot.asks is None:
            lot.asks = self._asked.requests(lot.pod, bound=False)
        return lot.asks

    def _member(self, lot: _Lot, pod: objects.Pod) -> affinity.AffinityMember:
        """Return the pod's inter-pod affinity under its own name."""
        member = self._members.get(id(pod))
        if member is None:
            known = lot.member
            member = affinity.AffinityMember(objects.pod_key(pod), known.namespace, known.labels, known.terms, known.profile)
            self._members[id(pod)] = member
        return member

    def _replaced(self, snapshot: Snapshot, judged: Collection[int], absent: Collection[str]) -> list[objects.Pod]:
        """Return running pods that are left out, whose claims are left out with them. Empty if there are no claims."""
        pods = snapshot.pods if snapshot.resource_claims else ()
        return [pod for pod in pods if pod.spec.nodeName in self.nodes and (id(pod) in judged or objects.pod_key(pod) in absent)]

    def _add(self, lot: _Lot, pod: objects.Pod, place: _Place, *, placed: bool) -> None:
        """Add a pod to a node."""
        if placed:
            requests = lot.asks or self._asks(lot)
        else:
            if lot.holds is None:
                lot.holds = self._asked.requests(pod, bound=True)
            requests = lot.holds
        place.take(requests)
        if lot.counts:
            spread.count(lot.counts, place.node)
        if lot.has_affinity:
            self._affinity.add(self._member(lot, pod), place.node)
        if lot.plain:
            return
        place.ports += lot.ports
        self._volumes.add(pod, place.node, placed=placed)
        if placed and self._devices is not None:
            grants = self._known_grants.get(objects.pod_key(pod))
            if grants is None:
                self._devices.allocate(pod, place.node, requests, place.capacity)
            else:
                self._devices.allocate_again(pod, place.node, requests, grants)

    @property
    def allocates(self) -> bool:
        """True if any pod can use devices."""
        return self._devices is not None

    def grants(self, pod: objects.Pod) -> Sequence[Grant]:
        """Return the devices that were allocated for a bound pod itself."""
        return () if self._devices is None else self._devices.own(pod)

    def device_faults(self, pod: objects.Pod, node_name: str, named: Sequence[DeviceResult]) -> list[str]:
        """Return the differences between the devices named for a bound pod and those allocated to it."""
        if self._devices is None and not named:
            return []
        return faults(self._devices, self.allocated(pod), self.nodes[node_name], named)

    def other_devices(self, pod: objects.Pod, named: Sequence[DeviceResult]) -> list[str]:
        """Return the devices that a document of an earlier snapshot names for a bound pod, and that it does not have."""
        if self._devices is None and not named:
            return []
        return others(self._devices, pod, named)

    def allocated(self, pod: objects.Pod) -> Sequence[Grant] | None:
        """Return the devices of a bound pod, shared claims included; None if it was rejected."""
        return [] if self._devices is None else self._devices.allocated(pod)

    def device_demand(self, pod: objects.Pod) -> object:
        """Return a key that distinguishes candidates by their devices, or None if the pod uses none."""
        return None if self._devices is None else self._devices.content(pod, self._asks(self._lot_of[id(pod)]))

    def used(self) -> dict[str, resources.Amounts]:
        """Return the requests of the pods on each node."""
        return {name: place.used for name, place in self._places.items()}

    @property
    def capacity(self) -> dict[str, resources.Amounts]:
        """The allocatable resources of each node."""
        return {name: place.capacity for name, place in self._places.items()}

    def spread_of(self, pod: objects.Pod) -> spread.PodSpread:
        """Return the parsed DoNotSchedule constraints of a candidate."""
        return self._lot_of[id(pod)].spread

    def faults(self, pod: objects.Pod, node_name: str) -> list[Fault]:
        """Return all rules that reject a candidate on the node in the current state, with reasons."""
        return self._faults(self._lot_of[id(pod)], pod, self._places[node_name])

    def verdict(self, pod: objects.Pod, node_name: str) -> list[Fault]:
        """Return the faults of both passes of kube-scheduler.

        The first pass considers the bound pods. The second adds the pods of equal or higher priority that are
        nominated to the node, as if they ran there. Plugins that skip the pod do not run again. Devices and volumes
        allocated at binding are not changed.
        """
        faults = self.faults(pod, node_name)
        rank, key = pod.spec.priority or 0, objects.pod_key(pod)
        guests = {
            id(other): other for other in self._snapshot.pods
            if other.status is not None and other.status.nominatedNodeName == node_name and objects.is_waiting(other)
            and not other.spec.schedulingGates and (other.spec.priority or 0) >= rank and objects.pod_key(other) != key
        }  # fmt: skip
        if not guests:
            return faults
        settled = {key: _settled(guest, node_name) for key, guest in guests.items()}
        pods = [settled.get(id(other), other) for other in self._snapshot.pods]
        with_nominated = Judge(replace(self._snapshot, pods=pods), [pod], exempt=self._exempt, free=self._free, policy=self._policy)
        spread.welcome(with_nominated.spread_of(pod), self.nodes[node_name], settled.values())
        skipped = {devices.RULE} if self._affinity.is_asked(self._lot_of[id(pod)].member) else {devices.RULE, "InterPodAffinity"}
        return faults + [fault for fault in with_nominated.faults(pod, node_name) if fault[0] not in skipped]

    def disturbs(self, pod: objects.Pod, node_name: str) -> bool:
        """Return True if one more pod on the node breaks a spread constraint of a placed pod."""
        if not self._guards:
            return False
        lot, node = self._lot_of[id(pod)], self.nodes[node_name]
        spread.count(lot.counts, node)
        fed = [
            (guard, where) for guard, where, _ in self._guards.values()
            if any(c.tally.census.namespace == lot.member.namespace for c in guard.constraints)
        ]  # fmt: skip
        disturbed = bool(spread.final_faults(fed))
        spread.count(lot.counts, node, -1)
        return disturbed

    def bind(self, unit: Sequence[tuple[objects.Pod, str]]) -> list[list[Fault]]:
        """Judge the pods of a unit, add them, and return the faults of each.

        Rules about other pods in the same domain are judged with the whole unit present. All other rules are judged
        one pod after the other.
        """
        if len(unit) == 1:  # no partner in the unit
            return [self.bind_alone(*unit[0])]
        judged = [(self._lot_of[id(pod)], pod, self._places[name]) for pod, name in unit]
        members = [self._member(lot, pod) for lot, pod, _ in judged]
        together = gangs.affinity_faults(
            self._affinity, [(member, place.node) for member, (*_, place) in zip(members, judged, strict=True)]
        )
        found: list[list[Fault]] = []
        for lot, pod, place in judged:
            self._guard(lot, pod, place)
            found.append(self._other_faults(lot, pod, place))
            self._add(lot, pod, place, placed=True)
        for (lot, _, place), member, mutual, broken in zip(judged, members, together, found, strict=True):
            node = place.node
            spread.count(lot.counts, node, -1)
            self._affinity.remove(member, node)
            broken += [("PodTopologySpread", why) for why in spread.faults(lot.spread, node)]
            broken += [("InterPodAffinity", why) for why in (*self._affinity.anti_faults(member, node), *mutual)]
            self._affinity.add(member, node)
            spread.count(lot.counts, node)
        return found

    def bind_alone(self, pod: objects.Pod, node_name: str) -> list[Fault]:
        """Judge a single pod and add it."""
        lot, place = self._lot_of[id(pod)], self._places[node_name]
        if lot.bare and place.open:
            requests = lot.asks or self._asks(lot)
            short = resources.fit_faults(requests, place.pods, place.used, place.capacity)
            place.take(requests)
            return [("NodeResourcesFit", why) for why in short] if short else []
        if lot.spread is not spread.NO_SPREAD:
            self._guard(lot, pod, place)
        faults = self._faults(lot, pod, place)
        self._add(lot, pod, place, placed=True)
        return faults

    def _guard(self, lot: _Lot, pod: objects.Pod, place: _Place) -> None:
        """Remember the nodes of pods with spread constraints, one pod for equal ones."""
        if lot.spread.constraints:
            self._guards.setdefault((id(lot.spread), place.name), (lot.spread, place.node, pod))

    def final_faults(self) -> list[tuple[objects.Pod, str, str]]:
        """Return spread constraints that are now broken in a domain that received a pod with them.

        Returns:
            Tuples of pod, node and reason.
        """
        guards = list(self._guards.values())
        broken = spread.final_faults((own, node) for own, node, _ in guards)
        return [(guards[place][2], guards[place][1].metadata.name or "", why) for place, why in broken]

    def _faults(self, lot: _Lot, pod: objects.Pod, place: _Place) -> list[Fault]:
        """Return the faults under all rules in the current state."""
        found = self._other_faults(lot, pod, place)
        if lot.spread is not spread.NO_SPREAD:
            found += [("PodTopologySpread", why) for why in spread.faults(lot.spread, place.node)]
        if lot.has_affinity:
            found += [("InterPodAffinity", why) for why in self._affinity.faults(lot.member, place.node)]
        return found

    def _other_faults(self, lot: _Lot, pod: objects.Pod, place: _Place) -> list[Fault]:
        """Return the faults under all rules except InterPodAffinity and PodTopologySpread."""
        found = node_rules.node_faults(lot.pod.spec, place.node, self._snapshot.gates) if lot.choosy or not place.open else []
        requests = lot.asks or self._asks(lot)
        if not lot.plain:
            found += self._rare_faults(lot, pod, place)
            if self._devices is not None:
                why = self._devices.judge(pod, place.node, requests, place.capacity).fault
                found += [] if why is None else [(devices.RULE, why)]
                requests = self._devices.left_to_the_node(requests, place.capacity)
        for why in resources.fit_faults(requests, place.pods, place.used, place.capacity):
            found.append(("NodeResourcesFit", why))
        return found if lot.plain else found + self._volumes.faults(pod, place.node)

    def _rare_faults(self, lot: _Lot, pod: objects.Pod, place: _Place) -> list[Fault]:
        """Return the faults under rules that involve few pods: quotas, node names and host ports."""
        found = list(self._node_policies.faults(pod, place.node)) if self._node_policies else []
        if self._refused and (refusal := self._refused.get(objects.pod_key(pod))) is not None:
            found.append(refusal)
        own = pod.spec.nodeName
        if own and own != place.name and objects.pod_key(pod) not in self._free:
            found.append(("NodeName", f"the pod belongs on node {own}"))
        clash = resources.clashing_port(lot.ports, place.ports) if lot.ports else None
        if clash:
            found.append(("NodePorts", f"host port {clash[1]}/{clash[0]} on {clash[2]} is taken"))
        return found


def _settled(pod: objects.Pod, node: str) -> objects.Pod:
    change = msgspec.structs.replace
    return change(pod, spec=change(pod.spec, nodeName=node))
