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
from typing import Any

from kubestow.checker import rules
from kubestow.checker.reading import resources
from kubestow.checker.rules.base import CheckedRule, Fault, Place, World
from kubestow.models.kube import objects
from kubestow.models.snapshot.snapshot import Snapshot


@dataclass(eq=False, slots=True)
class OutageRunner:
    """A running pod and its parsed rules.

    Attributes:
        pod: The pod.
        key: Its ``namespace/name``.
        node: Name of its node; empty for a visitor.
        readings: Rules that concern it, with what they read of it.
    """

    pod: objects.Pod
    key: str
    node: str
    readings: Sequence[tuple[CheckedRule[Any], Any]] = ()


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
        self.nodes = {node.metadata.name or "": node for node in snapshot.nodes}
        self.gone: frozenset[str] = frozenset()
        self._places = {name: Place(node, name, resources.node_capacity(node)) for name, node in self.nodes.items()}
        self._whole: Counter[str] = Counter()
        for place in self._places.values():
            self._whole.update(place.capacity)
        self._asked = resources.SharedRequests(snapshot.gates)
        self._undo: list[Callable[[], None]] = []
        self.residents: dict[str, list[OutageRunner]] = {name: [] for name in self.nodes}
        self.runners: dict[str, OutageRunner] = {}
        for pod in snapshot.pods:
            node = pod.spec.nodeName
            if node in self.nodes and node is not None and not objects.is_terminal(pod):
                runner = OutageRunner(pod, objects.pod_key(pod), node)
                self.residents[node].append(runner)
                self.runners[runner.key] = runner
        self.visitors = {objects.pod_key(pod): OutageRunner(pod, objects.pod_key(pod), "") for pod in visitors}
        everyone = [runner for there in self.residents.values() for runner in there]
        pods = [runner.pod for runner in (*everyone, *self.visitors.values())]
        world = World(snapshot, self.nodes, pods, self._asked, exempt=frozenset(exempt), nodes_change=True)
        self._rules = rules.build(world, lambda kind: kind.for_moves and kind.can_undo)
        for rule in self._rules:
            rule.announce(pods, judged=True)
        for runner in (*everyone, *self.visitors.values()):
            readings = ((rule, rule.read(runner.pod, judged=True)) for rule in self._rules)
            runner.readings = [(rule, reading) for rule, reading in readings if reading is not None]
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
        pod, place = runner.pod, self._places[name]
        place.take(self._asked.requests(pod, bound=not placed_here), by)
        for rule, reading in runner.readings:
            (rule.add if by > 0 else rule.remove)(reading, pod, place, placed=placed_here)

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
        for name in gone:
            for rule in self._rules:
                rule.leave(name)
                self._undo.append(partial(rule.join, name))

    def evict(self, runner: OutageRunner) -> None:
        """Remove a pod from its node."""
        self._do(runner, runner.node, placed_here=False, by=-1)

    def put(self, runner: OutageRunner, name: str) -> None:
        """Place a displaced pod on another node."""
        self._do(runner, name, placed_here=True, by=1)

    def restore(self) -> None:
        """Undo every change, so that all nodes and pods are back."""
        while self._undo:
            self._undo.pop()()
        for rule in self._rules:
            rule.reset()
        self.gone = frozenset()

    # --- the rules --------------------------------------------------------------------------------------------------------------

    def faults(self, runner: OutageRunner, name: str) -> list[Fault]:
        """Return all rules that reject a displaced pod on a node. Devices, NUMA zones and gangs are judged elsewhere."""
        if name in self.gone or name not in self.nodes:
            return [("NodeName", "the node is not there")]
        place = self._places[name]
        return [fault for rule, reading in runner.readings for fault in rule.faults(reading, runner.pod, place)]

    def requests(self, runner: OutageRunner) -> resources.Amounts:
        """Return the requests of a pod."""
        return self._asked.requests(runner.pod, bound=False)

    def capacity(self, name: str) -> resources.Amounts:
        """Return the capacity of a node."""
        return self._places[name].capacity

    def has_room(self, runner: OutageRunner, name: str) -> bool:
        """Return True if the node's free capacity covers the pod's requests. Other rules are ignored."""
        if name in self.gone:
            return False
        usage, capacity = self._places[name], self._places[name].capacity
        if usage.pods >= capacity.get("pods", 0):
            return False
        used = usage.used
        return all(capacity.get(resource, 0) - used.get(resource, 0) >= amount for resource, amount in self.requests(runner).items())

    def share(self, runner: OutageRunner) -> Fraction:
        """Return the pod's dominant share: the largest fraction that it requests of the cluster's total of any resource."""
        return max((Fraction(amount, self._whole.get(name) or 1) for name, amount in self.requests(runner).items()), default=Fraction(0))

    def final_faults(self) -> list[tuple[str, str, Fault]]:
        """Return the rules that the final state breaks for placed pods, as pod key, node and fault."""
        found = (fault for rule in self._rules for fault in rule.final_faults())
        return [(objects.pod_key(pod), node, (rule, why)) for pod, node, rule, why in found]
