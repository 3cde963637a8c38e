"""The running pods of a plan's replay, and all their rules except required affinity and spread, which waves judge.

Pods are added to nodes and removed one by one. While its wave lasts, a moving pod is on both of its nodes. That is
the worst case for capacity, host ports, anti-affinity and volumes: more pods only make these rules stricter, and
pods move independently.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar

import msgspec

from kubestow.checker.devices import entry as devices
from kubestow.checker.plan.affinity import Asks, PlanAffinityState
from kubestow.checker.plan.spread import Stake, Tallies
from kubestow.checker.plan.volumes import Volumes, claims
from kubestow.checker.rules import affinity, node_rules, resources, spread
from kubestow.checker.rules.node_policies import NodePolicies
from kubestow.models.kube import objects
from kubestow.models.snapshot.snapshot import Snapshot

Fault = tuple[str, str]  # rule, why


@dataclass(eq=False, slots=True)
class Presence:
    """A pod on a node.

    Attributes:
        runner: The pod.
        node: Name of the node.
        member: Its inter-pod affinity, separate for this node so that a pod can be on two nodes.
        placed: True if the plan placed it there.
    """

    runner: PlanRunner
    node: str
    member: affinity.AffinityMember
    placed: bool


@dataclass(eq=False, slots=True)
class PlanRunner:
    """A pod that runs on a node of the snapshot, or may be placed on one.

    Attributes:
        pod: The pod.
        key: Its ``namespace/name``.
        member: Its inter-pod affinity, parsed.
        spread: Its topology spread constraints, parsed.
        steady: True if it is not terminating, so that its rules matter.
        at: Its current presence, or None.
        broke: Rules that it broke in the snapshot and may continue to break until it is moved.
        stakes: Limits that it imposes on domains.
    """

    pod: objects.Pod
    key: str
    member: affinity.AffinityMember
    spread: spread.PodSpread
    steady: bool
    at: Presence | None = None
    broke: frozenset[str] = frozenset()
    stakes: list[Stake] = field(default_factory=list)

    @property
    def node(self) -> str | None:
        return self.at.node if self.at is not None else None

    def presence(self, node: str) -> Presence:
        """Return the pod as placed on a node by the plan."""
        member = self.member
        return Presence(
            self, node, affinity.AffinityMember(member.name, member.namespace, member.labels, member.terms, member.profile), True
        )


@dataclass(eq=False, slots=True)
class Held:
    """The resources held by the pods on a node.

    Attributes:
        pods: Number of pods.
        used: Requested amounts.
        ports: Number of pods per host port.
        resized: Pods whose status and spec differ in requests, until the plan moves them.
        mounting: Pods with volumes.
    """

    pods: int = 0
    used: resources.Amounts = field(default_factory=dict)
    ports: dict[resources.Port, int] = field(default_factory=dict)
    resized: dict[PlanRunner, None] = field(default_factory=dict)
    mounting: dict[PlanRunner, None] = field(default_factory=dict)

    def weigh(self, requests: resources.Amounts, ports: Iterable[resources.Port], by: int) -> None:
        """Add a pod, or remove it (``by`` -1)."""
        self.pods += by
        used = self.used
        for name, amount in requests.items():
            used[name] = used.get(name, 0) + by * amount
        for port in ports:
            self.ports[port] = self.ports.get(port, 0) + by
            if not self.ports[port]:
                del self.ports[port]

    def faults(self, requests: resources.Amounts, ports: Collection[resources.Port], capacity: resources.Amounts) -> list[Fault]:
        """Return taken host ports and missing resources for one more pod."""
        clash = resources.clashing_port(ports, self.ports) if ports else None
        found = [("NodePorts", f"host port {clash[1]}/{clash[0]} on {clash[2]} is taken")] if clash else []
        return found + [("NodeResourcesFit", why) for why in resources.fit_faults(requests, self.pods, self.used, capacity)]


def cordoned(snapshot: Snapshot, drain: Collection[str]) -> Snapshot:
    """Return the snapshot with the nodes to be drained cordoned and tainted.

    The taint is that of the node lifecycle controller. Constraints with ``nodeTaintsPolicy: Honor`` therefore
    ignore these nodes for pods without a toleration.
    """
    if not drain:
        return snapshot
    mark, nodes = objects.Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule"), []
    for node in snapshot.nodes:
        if node.metadata.name in drain:
            taints = (node.spec.taints if node.spec is not None else None) or []
            others = [taint for taint in taints if taint.key != mark.key or taint.effect != mark.effect]
            node = msgspec.structs.replace(node, spec=objects.NodeSpec(unschedulable=True, taints=[*others, mark]))
        nodes.append(node)
    return replace(snapshot, nodes=nodes)


class Board:
    """All running pods of a snapshot, and the pods that a plan places.

    Args:
        snapshot: The snapshot.
        waiting: Keys of the pods that the plan places.
        exempt: Namespaces that are exempt from required anti-affinity.

    Raises:
        QuantityError: a quantity in the snapshot is malformed or beyond 64 bits.
    """

    tallies_of: ClassVar[type[Tallies]] = Tallies

    def __init__(self, snapshot: Snapshot, waiting: Collection[str], exempt: Collection[str]) -> None:
        self._node_policies = NodePolicies(snapshot)
        self.snapshot = snapshot  # keeps parts of pods in memory, because they are identified by id
        self.nodes = {node.metadata.name or "": node for node in snapshot.nodes}
        self.capacity = {name: resources.node_capacity(node) for name, node in self.nodes.items()}
        self.usage = {name: Held() for name in self.nodes}
        self.volumes = Volumes(snapshot)
        self.tallies = self.tallies_of(self.nodes, snapshot.gates)
        shared_requests = resources.SharedRequests(snapshot.gates)
        self.requests, self.ports = shared_requests.requests, shared_requests.ports
        namespaces = {name: namespace.metadata.labels or {} for name, namespace in snapshot.namespaces.items()}
        self.affinity = PlanAffinityState(namespaces, exempt)
        reader = affinity.MemberReader()
        self.runners: dict[str, PlanRunner] = {}
        for pod in snapshot.pods:
            key = objects.pod_key(pod)
            if (pod.spec.nodeName in self.nodes and not objects.is_terminal(pod)) or key in waiting:
                member = reader.member(pod)
                self.runners[key] = PlanRunner(pod, key, member, self.tallies.read(pod), not objects.is_terminating(pod))
        self.devices = devices.state(snapshot, [runner.pod for runner in self.runners.values()], ())
        members = [runner.member for runner in self.runners.values()]
        self.affinity.announce(members, judged=True)
        self.asks = Asks(self.affinity, self.nodes)
        self.asks.read(members)
        self.claimants: dict[str, list[PlanRunner]] = {}
        for runner in self.runners.values():
            for key, _ in claims(runner.pod):
                self.claimants.setdefault(key, []).append(runner)
            if runner.pod.spec.nodeName in self.nodes:
                runner.at = Presence(runner, runner.pod.spec.nodeName or "", runner.member, False)
                self.put(runner.at)
                self.enter(runner.at)

    # --- held resources -----------------------------------------------------------------------------------------------------

    def put(self, there: Presence) -> None:
        """Add a pod to a node for all rules but required affinity and spread, which :meth:`enter` covers."""
        self._weigh(there, 1)
        runner, usage = there.runner, self.usage[there.node]
        if runner.pod.spec.volumes:
            self.volumes.mount(runner.pod, there.node)
            usage.mounting[runner] = None
        if not there.placed and self.requests(runner.pod, bound=True) != self.requests(runner.pod, bound=False):
            usage.resized[runner] = None
        self.affinity.add(there.member, self.nodes[there.node])

    def lift(self, there: Presence) -> None:
        """Undo :meth:`put`."""
        self._weigh(there, -1)
        runner, usage = there.runner, self.usage[there.node]
        if runner.pod.spec.volumes:
            self.volumes.unmount(runner.pod, there.node)
            usage.mounting.pop(runner, None)
        usage.resized.pop(runner, None)
        self.affinity.remove(there.member, self.nodes[there.node])

    def _weigh(self, there: Presence, by: int) -> None:
        pod = there.runner.pod
        self.usage[there.node].weigh(self.requests(pod, bound=not there.placed), self.ports(pod), by)

    def enter(self, there: Presence, by: int = 1) -> None:
        """Add a pod to a node for required affinity and spread, or remove it (``by`` -1)."""
        runner = there.runner
        self.asks.count(runner.member, there.node, by)
        for tally, domain in self.tallies.counted(runner.pod, self.nodes[there.node], runner.member.profile):
            tally.change(domain, by)

    # --- limits that pods impose ----------------------------------------------------------------------------------------------

    def settle_down(self, runner: PlanRunner) -> None:
        """Register the pod's own rules, except those in ``broke``, so that breaking them is a fault."""
        if not runner.steady or runner.at is None:
            return
        if runner.spread.constraints:
            runner.stakes = self.tallies.stakes(runner.spread, runner.at.node, depth="PodTopologySpread" in runner.broke)
            self.tallies.hold(runner.stakes, runner.key)
        if runner.member.terms.affinity and "InterPodAffinity" not in runner.broke:
            self.asks.of(runner.member).sit(self.asks.seat(runner.member, runner.at.node), runner.key)

    def get_up(self, runner: PlanRunner) -> None:
        """Undo :meth:`settle_down`."""
        if runner.at is not None:
            self.tallies.release(runner.stakes, runner.key)
            if runner.member.terms.affinity:
                self.asks.of(runner.member).rise(self.asks.seat(runner.member, runner.at.node), runner.key)

    # --- the rules ----------------------------------------------------------------------------------------------------------

    def landing_faults(self, runner: PlanRunner, name: str, others: Iterable[objects.Pod]) -> list[Fault]:
        """Return why rules other than required affinity and spread may reject a pod, currently absent, on a node.

        Args:
            runner: The pod.
            name: The node.
            others: Pods counted on the node that may also be away.

        Returns:
            Pairs of rule and reason.
        """
        pod, node, capacity = runner.pod, self.nodes[name], self.capacity[name]
        found: list[Fault] = node_rules.node_faults(pod.spec, node, self.snapshot.gates)
        found += self._node_policies.faults(pod, node) if self._node_policies else ()
        found += self.usage[name].faults(self.left_to_the_node(pod, name), self.ports(pod), capacity)
        if self.devices is not None:
            why = self.devices.judge(pod, node, self.requests(pod, bound=False), capacity).fault
            found += [] if why is None else [(devices.RULE, why)]
        if runner.member.terms.fault or self.affinity.is_concerned(runner.member):
            found += [("InterPodAffinity", why) for why in self.affinity.anti_faults(runner.member, node)]
        return [*found, *self._volume_faults(pod, node, others)] if pod.spec.volumes else found

    def _volume_faults(self, pod: objects.Pod, node: objects.Node, others: Iterable[objects.Pod]) -> Iterator[Fault]:
        found = self.volumes.faults(pod, node)
        yield from found
        if all(rule != "NodeVolumeLimits" for rule, _ in found):
            why = self.volumes.full(pod, node.metadata.name or "", others)
            if why is not None:
                yield "NodeVolumeLimits", why

    def left_to_the_node(self, pod: objects.Pod, name: str) -> resources.Amounts:
        """Return a pod's requests without those that devices provide on the node."""
        requests = self.requests(pod, bound=False)
        return requests if self.devices is None else self.devices.left_to_the_node(requests, self.capacity[name])

    def allocate(self, there: Presence) -> None:
        """Allocate devices for the claims of a placed pod."""
        if self.devices is not None:
            pod = there.runner.pod
            self.devices.allocate(pod, self.nodes[there.node], self.requests(pod, bound=False), self.capacity[there.node])

    def sources_of_devices(self, there: Presence) -> frozenset[object]:
        """Return the pools and shared claims from which a placed pod's devices can come."""
        if self.devices is None:
            return frozenset()
        pod = there.runner.pod
        return self.devices.sources(pod, self.nodes[there.node], self.requests(pod, bound=False), self.capacity[there.node])

    def fits(self, runner: PlanRunner, name: str) -> bool:
        """Return True if a running pod, counted by its spec, fits on its node."""
        usage, capacity = self.usage[name], self.capacity[name]
        if usage.pods > capacity.get("pods", 0):
            return False
        placed = runner.at is not None and runner.at.placed
        own = self.requests(runner.pod, bound=not placed)
        for resource, amount in self.left_to_the_node(runner.pod, name).items():
            if usage.used.get(resource, 0) - own.get(resource, 0) + amount > capacity.get(resource, 0):
                return False
        return True

    def all_broken(self) -> dict[str, frozenset[str]]:
        """Return the rules that running pods break now, by key. Terminating pods are ignored."""
        return {runner.key: broke for runner in self.runners.values() if runner.at and runner.steady and (broke := self.broken(runner))}

    def broken(self, runner: PlanRunner) -> frozenset[str]:
        """Return the rules that a running pod breaks: those that would reject it on its own node if it were removed.
        Cordons are ignored.
        """
        there = runner.at
        if there is None:
            return frozenset()
        pod, node, member = runner.pod, self.nodes[there.node], runner.member
        found = {rule for rule, _ in node_rules.node_faults(pod.spec, node, self.snapshot.gates, running=True)}
        if not self.fits(runner, there.node):
            found.add("NodeResourcesFit")
        ports = self.ports(pod)
        if ports or pod.spec.volumes or member.terms.fault or self.affinity.is_concerned(member):
            self.lift(there)
            if ports and resources.clashing_port(ports, self.usage[there.node].ports):
                found.add("NodePorts")
            if self.affinity.anti_faults(member, node):
                found.add("InterPodAffinity")
            found.update(rule for rule, _ in self.volumes.faults(pod, node))
            self.put(there)
        if member.terms.affinity and self.asks.is_lonely(member, there.node):
            found.add("InterPodAffinity")
        if spread.faults(runner.spread, node, running=True):
            found.add("PodTopologySpread")
        return frozenset(found)
