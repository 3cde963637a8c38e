"""A cluster whose nodes fail and return, with the checker's own state of all rules.

One state serves thousands of failures. Nodes are removed together with their domains, pods are placed on other
nodes and judged, and then every change is undone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Final

import msgspec

from kubestow.checker.capacity.waves.spread_counts import ChangingTallies
from kubestow.checker.plan.state import Held
from kubestow.checker.plan.volumes import Volumes
from kubestow.checker.rules import affinity, node_rules, resources, spread
from kubestow.checker.rules.node_policies import NodePolicies
from kubestow.models.kube import objects
from kubestow.models.kube.pod_spec import SELECTED_NODE
from kubestow.models.snapshot.snapshot import Snapshot

Fault = tuple[str, str]  # rule, why
_change: Final = msgspec.structs.replace


@dataclass(eq=False, slots=True)
class OutageRunner:
    """A running pod and its parsed rules.

    Attributes:
        pod: The pod.
        key: Its ``namespace/name``.
        node: Name of its node; empty for a visitor.
        member: Its inter-pod affinity, parsed.
        spread: Its topology spread constraints, parsed.
    """

    pod: objects.Pod
    key: str
    node: str
    member: affinity.AffinityMember
    spread: spread.PodSpread


class _Volumes(Volumes):
    """Volume state of a plan, with support for failures.

    Claims whose selected node fails are returned to the scheduler. Undoing a failure undoes every binding.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self._claims = dict(snapshot.persistent_volume_claims)
        self._selected: dict[str, list[str]] = {}
        for key, claim in self._claims.items():
            if (selected := (claim.metadata.annotations or {}).get(SELECTED_NODE)) is not None:
                self._selected.setdefault(selected, []).append(key)

    def give_back(self, gone: Iterable[str]) -> None:
        """Remove the selected-node annotation from claims whose node failed."""
        for name in gone:
            for key in self._selected.get(name, ()):
                claim = self._claims[key]
                remaining_annotations = {k: v for k, v in (claim.metadata.annotations or {}).items() if k != SELECTED_NODE}
                self._claims[key] = _change(claim, metadata=_change(claim.metadata, annotations=remaining_annotations))

    def forget(self, snapshot: Snapshot, gone: Iterable[str]) -> None:
        """Restore the claims of failed nodes and drop all bindings."""
        for name in gone:
            for key in self._selected.get(name, ()):
                self._claims[key] = snapshot.persistent_volume_claims[key]
        self._chosen.clear()
        self._consumed.clear()
        self._first_node.clear()


class Outage:
    """The running pods of a cluster. Pending pods are left out.

    Args:
        snapshot: The cluster.
        exempt: Namespaces that are exempt from required anti-affinity.
        visitors: Pods that do not run and may be placed on nodes.

    Raises:
        QuantityError: a quantity in the snapshot is malformed or beyond 64 bits.
    """

    def __init__(self, snapshot: Snapshot, exempt: Collection[str], visitors: Iterable[objects.Pod] = ()) -> None:
        self._node_policies = NodePolicies(snapshot)
        self.snapshot = snapshot  # keeps parts of pods in memory, which are known by their ids
        self.nodes = {node.metadata.name or "": node for node in snapshot.nodes}
        self.gone: frozenset[str] = frozenset()
        self._capacity = {name: resources.node_capacity(node) for name, node in self.nodes.items()}
        self._whole: Counter[str] = Counter()
        for amounts in self._capacity.values():
            self._whole.update(amounts)
        self._held = {name: Held() for name in self.nodes}
        self._asked = resources.SharedRequests(snapshot.gates)
        self._volumes = _Volumes(snapshot)
        self._spread = ChangingTallies(self.nodes, snapshot.gates)
        namespaces = {name: namespace.metadata.labels or {} for name, namespace in snapshot.namespaces.items()}
        self._affinity = affinity.AffinityState(namespaces, exempt)
        self._undo: list[Callable[[], None]] = []
        reader = affinity.MemberReader()
        self.residents: dict[str, list[OutageRunner]] = {name: [] for name in self.nodes}
        self.runners: dict[str, OutageRunner] = {}
        for pod in snapshot.pods:
            node = pod.spec.nodeName
            if node in self.nodes and node is not None and not objects.is_terminal(pod):
                runner = OutageRunner(pod, objects.pod_key(pod), node, reader.member(pod), self._spread.read(pod))
                self.residents[node].append(runner)
                self.runners[runner.key] = runner
        self.visitors = {
            objects.pod_key(pod): OutageRunner(pod, objects.pod_key(pod), "", reader.member(pod), self._spread.read(pod))
            for pod in visitors
        }
        everyone = [runner for there in self.residents.values() for runner in there]
        self._affinity.announce((runner.member for runner in (*everyone, *self.visitors.values())), judged=True)
        for runner in everyone:
            self._enter(runner, runner.node, placed_here=False)

    # --- changes ----------------------------------------------------------------------------------------------------------------

    def _enter(self, runner: OutageRunner, name: str, *, placed_here: bool, by: int = 1) -> None:
        """Add a pod to a node, or remove it.

        Args:
            runner: The pod.
            name: The node.
            placed_here: The pod was placed there by this check, so its status does not count.
            by: 1 to add, -1 to remove.
        """
        pod, node = runner.pod, self.nodes[name]
        self._held[name].weigh(self._asked.requests(pod, bound=not placed_here), self._asked.ports(pod), by)
        self._spread.add(pod, node, runner.member.profile, by)
        (self._affinity.add if by > 0 else self._affinity.remove)(runner.member, node)
        if pod.spec.volumes:
            (self._volumes.mount if by > 0 else self._volumes.unmount)(pod, name)

    def _do(self, runner: OutageRunner, name: str, *, placed_here: bool, by: int) -> None:
        """Add or remove a pod and record how to undo it."""
        self._enter(runner, name, placed_here=placed_here, by=by)
        self._undo.append(partial(self._enter, runner, name, placed_here=placed_here, by=-by))

    def fail(self, gone: Collection[str]) -> None:
        """Remove nodes together with their pods and domains."""
        self.gone = frozenset(gone)
        for name in gone:
            for runner in self.residents[name]:
                self._do(runner, name, placed_here=False, by=-1)
        self._volumes.give_back(gone)
        for name in gone:
            self._spread.leave(name)
            self._undo.append(partial(self._spread.join, name))

    def evict(self, runner: OutageRunner) -> None:
        """Remove a pod from its node."""
        self._do(runner, runner.node, placed_here=False, by=-1)

    def put(self, runner: OutageRunner, name: str) -> None:
        """Place a displaced pod on another node."""
        if runner.pod.spec.volumes:
            self._volumes.bind(runner.pod, self.nodes[name])
        self._do(runner, name, placed_here=True, by=1)

    def restore(self) -> None:
        """Undo every change, so that all nodes and pods are back."""
        while self._undo:
            self._undo.pop()()
        self._volumes.forget(self.snapshot, self.gone)
        self.gone = frozenset()

    # --- the rules --------------------------------------------------------------------------------------------------------------

    def faults(self, runner: OutageRunner, name: str) -> list[Fault]:
        """Return all rules that reject a displaced pod on a node. Devices, NUMA zones and gangs are judged elsewhere."""
        if name in self.gone or name not in self.nodes:
            return [("NodeName", "the node is not there")]
        pod, node = runner.pod, self.nodes[name]
        found: list[Fault] = node_rules.node_faults(pod.spec, node, self.snapshot.gates)
        found += self._node_policies.faults(pod, node) if self._node_policies else ()
        found += self._held[name].faults(self.requests(runner), self._asked.ports(pod), self._capacity[name])
        if pod.spec.volumes:
            found += self._volumes.faults(pod, node)
        found += [("PodTopologySpread", why) for why in spread.faults(runner.spread, node)]
        return found + [("InterPodAffinity", why) for why in self._affinity.faults(runner.member, node)]

    def requests(self, runner: OutageRunner) -> resources.Amounts:
        """Return the requests of a pod."""
        return self._asked.requests(runner.pod, bound=False)

    def capacity(self, name: str) -> resources.Amounts:
        """Return the capacity of a node."""
        return self._capacity[name]

    def has_room(self, runner: OutageRunner, name: str) -> bool:
        """Return True if the node's free capacity covers the pod's requests. Other rules are ignored."""
        if name in self.gone:
            return False
        usage, capacity = self._held[name], self._capacity[name]
        if usage.pods >= capacity.get("pods", 0):
            return False
        used = usage.used
        return all(capacity.get(resource, 0) - used.get(resource, 0) >= amount for resource, amount in self.requests(runner).items())

    def share(self, runner: OutageRunner) -> Fraction:
        """Return the pod's dominant share: the largest fraction that it requests of the cluster's total of any resource."""
        return max((Fraction(amount, self._whole.get(name) or 1) for name, amount in self.requests(runner).items()), default=Fraction(0))

    def final_faults(self, placed: Sequence[tuple[OutageRunner, str]]) -> list[tuple[str, str, str]]:
        """Return the spread constraints that placed pods break in the final state.

        Returns:
            Tuples of pod key, node and reason.
        """
        found = spread.final_faults((runner.spread, self.nodes[name]) for runner, name in placed)
        return [(placed[position][0].key, placed[position][1], why) for position, why in found]
