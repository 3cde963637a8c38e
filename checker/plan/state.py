"""The running pods of a plan's replay. The rules keep their own state of them (:mod:`kubestow.checker.rules.plans`).

Pods are added to nodes and removed one by one. While its wave lasts, a moving pod is on both of its nodes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any, ClassVar

import msgspec

from kubestow.checker import rules
from kubestow.checker.reading import resources
from kubestow.checker.rules.base import Place, World
from kubestow.checker.rules.plans import PlanFace, PlanRunner, Presence
from kubestow.models.kube import objects
from kubestow.models.snapshot.snapshot import Snapshot


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

    nodes_change: ClassVar[bool] = False

    def __init__(self, snapshot: Snapshot, waiting: Collection[str], exempt: Collection[str]) -> None:
        self.snapshot = snapshot  # keeps parts of pods in memory, because they are identified by id
        self.nodes = {node.metadata.name or "": node for node in snapshot.nodes}
        self.places = {name: Place(node, name, resources.node_capacity(node)) for name, node in self.nodes.items()}
        shared_requests = resources.SharedRequests(snapshot.gates)
        self.requests = shared_requests.requests
        chosen = [
            pod
            for pod in snapshot.pods
            if (pod.spec.nodeName in self.nodes and not objects.is_terminal(pod)) or objects.pod_key(pod) in waiting
        ]
        self.world = World(
            snapshot, dict(self.nodes), chosen, shared_requests, exempt=frozenset(exempt), nodes_change=self.nodes_change
        )  # fmt: skip
        member = self.world.members.member
        self.runners = {(key := objects.pod_key(pod)): PlanRunner(pod, key, member(pod), not objects.is_terminating(pod)) for pod in chosen}
        self.rules = rules.build(self.world, lambda kind: kind.for_moves)
        for rule in self.rules:
            rule.announce((runner.pod for runner in self.runners.values()), judged=True)
        self.faces: list[PlanFace[Any]] = [rules.plan_face(rule, self) for rule in self.rules]
        for runner in self.runners.values():
            readings = ((face, face.rule.read(runner.pod, judged=True)) for face in self.faces)
            runner.readings = {face: reading for face, reading in readings if reading is not None}
        for face in self.faces:
            face.begin()
        for runner in self.runners.values():
            if runner.pod.spec.nodeName in self.nodes:
                runner.at = Presence(runner, runner.pod.spec.nodeName or "", runner.member, False)
                self.put(runner.at)
                self.enter(runner.at)

    @property
    def capacity(self) -> dict[str, resources.Amounts]:
        """The allocatable resources of each node."""
        return {name: place.capacity for name, place in self.places.items()}

    # --- pods on nodes ------------------------------------------------------------------------------------------------------

    def put(self, there: Presence) -> None:
        """Add a pod to a node, in addition to the one that it leaves."""
        self._weigh(there, 1)
        for face, reading in there.runner.readings.items():
            face.put(reading, there)

    def lift(self, there: Presence) -> None:
        """Undo :meth:`put`."""
        self._weigh(there, -1)
        for face, reading in there.runner.readings.items():
            face.lift(reading, there)

    def _weigh(self, there: Presence, by: int) -> None:
        self.places[there.node].take(self.requests(there.runner.pod, bound=not there.placed), by)

    def enter(self, there: Presence, by: int = 1, *, judged: bool = True) -> None:
        """Add a pod to a node between waves, or remove it (``by`` -1). ``judged`` is False if no wave judges the change."""
        for face, reading in there.runner.readings.items():
            face.enter(reading, there, by, judged=judged)

    def bind(self, there: Presence) -> None:
        """Bind what a pod claims on its node."""
        for face, reading in there.runner.readings.items():
            face.bind(reading, there)

    # --- limits that pods impose ----------------------------------------------------------------------------------------------

    def settle_down(self, runner: PlanRunner) -> None:
        """Register the pod's own rules, except those in ``broke``, so that breaking them is a fault."""
        if runner.steady and runner.at is not None:
            for face, reading in runner.readings.items():
                face.settle_down(reading, runner)

    def get_up(self, runner: PlanRunner) -> None:
        """Undo :meth:`settle_down`."""
        if runner.at is not None:
            for face, reading in runner.readings.items():
                face.get_up(reading, runner)

    # --- the rules ----------------------------------------------------------------------------------------------------------

    def left_to_the_node(self, pod: objects.Pod, name: str) -> resources.Amounts:
        """Return a pod's requests without those that rules supply on the node."""
        return self.world.left_to_the_node(self.requests(pod, bound=False), self.places[name].capacity)

    def all_broken(self) -> dict[str, frozenset[str]]:
        """Return the rules that running pods break now, by key. Terminating pods are ignored."""
        return {runner.key: broke for runner in self.runners.values() if runner.at and runner.steady and (broke := self.broken(runner))}

    def broken(self, runner: PlanRunner) -> frozenset[str]:
        """Return the rules that a running pod breaks: those that would reject it on its own node if it were removed.
        Cordons are ignored.
        """
        return frozenset(self._broken(runner, runner.at)) if runner.at is not None else frozenset()

    def broken_there(self, runner: PlanRunner) -> frozenset[str]:
        """Return the part of :meth:`broken` that rules see with the pod on its node."""
        if runner.at is None:
            return frozenset()
        place = self.places[runner.at.node]
        return frozenset(rule for face, reading in runner.readings.items() for rule in face.broken(reading, runner, place))

    def _broken(self, runner: PlanRunner, there: Presence) -> Iterator[str]:
        yield from self.broken_there(runner)
        place = self.places[there.node]
        away = [(face, reading) for face, reading in runner.readings.items() if face.judges_away(reading)]
        if away:
            self.lift(there)
            for face, reading in away:
                yield from face.broken_away(reading, runner, place)
            self.put(there)
