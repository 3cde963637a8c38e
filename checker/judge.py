"""The state of a cluster while pods are bound one after the other, and the verdict of every rule, from the raw objects.

Properties of a pod alone are computed once for all its replicas. In each state, every pod is judged individually.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from types import MappingProxyType
from typing import Any

import msgspec

from kubestow.checker import rules
from kubestow.checker.reading import resources
from kubestow.checker.replicas import Crowd, Replicas
from kubestow.checker.rules.base import CheckedRule, Fault, Holdings, NamedDevices, Place, StaticRule, World
from kubestow.models.documents.policy import DEFAULT, Policy
from kubestow.models.kube import objects
from kubestow.models.snapshot.snapshot import Snapshot

__all__ = ["Fault", "Judge"]


@dataclass(eq=False, slots=True)
class _Lot:
    """A set of replicas and the properties that they share.

    Attributes:
        pod: One of the replicas.
        judged: Rules that may reject a replica, with their readings.
        tracked: Rules whose state the replicas change, with their readings.
        asks: Requests of a replica to be bound.
        holds: Requests of a bound replica.
    """

    pod: objects.Pod
    judged: Sequence[tuple[CheckedRule[Any], Any]] = ()
    tracked: Sequence[tuple[CheckedRule[Any], Any]] = ()
    asks: resources.Amounts | None = None
    holds: resources.Amounts | None = None


class Judge:
    """The state of a cluster: bound pods, and pods added since. It judges candidates against all rules.

    Args:
        snapshot: The snapshot.
        candidates: Pods that will be judged or added.
        absent: Keys of bound pods that are left out of the state.
        exempt: Namespaces that are exempt from required anti-affinity.
        free: Keys of pods whose own spec.nodeName is ignored.
        held: Devices and the like that pods get when they are bound; for other pods each rule decides.
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
        held: Holdings = MappingProxyType({}),
        crowd: Crowd | None = None,
        policy: Policy = DEFAULT,
    ) -> None:
        self._replicas = Replicas() if crowd is None else crowd.replicas
        self._requests = resources.SharedRequests(snapshot.gates) if crowd is None else crowd.shared_requests
        self.nodes = {node.metadata.name or "": node for node in snapshot.nodes}
        self._places = {name: Place(node, name, resources.node_capacity(node)) for name, node in self.nodes.items()}
        judged = {id(pod) for pod in candidates}
        pods = snapshot.pods if snapshot.resource_claims else ()
        left_out = [pod for pod in pods if pod.spec.nodeName in self.nodes and (id(pod) in judged or objects.pod_key(pod) in absent)]
        self._world = World(
            snapshot, self.nodes, candidates, self._requests, left_out, frozenset(exempt), frozenset(free), policy, held
        )  # fmt: skip
        self.rules = rules.build(self._world)
        self._claimed = [rule for rule in self.rules if type(rule).entry_faults is not CheckedRule.entry_faults]
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
        first, further = self._sort(candidates), self._sort(running)
        for rule in self.rules:
            rule.announce((lot.pod for lot in first), judged=True)
            rule.announce((lot.pod for lot in further), judged=False)
        for lot in first:
            lot.judged = list(self._read(lot.pod, self.rules, judged=True))
            lot.tracked = [(rule, reading) for rule, reading in lot.judged if _tracks(rule)]
        stateful = [rule for rule in self.rules if _tracks(rule)]
        for lot in further:
            lot.tracked = list(self._read(lot.pod, stateful, judged=False))
        for pod in running:
            self._add(self._lot_of[id(pod)], pod, self._places[pod.spec.nodeName or ""], placed=False)

    def _sort(self, pods: Sequence[objects.Pod]) -> list[_Lot]:
        """Assign pods to lots; return the new lots."""
        found = []
        for pod, number in zip(pods, self._replicas.numbers(pods), strict=True):
            lot = self._lots.get(number)
            if lot is None:
                lot = self._lots[number] = _Lot(pod)
                found.append(lot)
            self._lot_of[id(pod)] = lot
        return found

    @staticmethod
    def _read(pod: objects.Pod, among: Iterable[CheckedRule[Any]], *, judged: bool) -> Iterator[tuple[CheckedRule[Any], Any]]:
        """Yield the rules that concern a pod, with what they read of it."""
        for rule in among:
            reading = rule.read(pod, judged=judged)
            if reading is not None:
                yield rule, reading

    def _add(self, lot: _Lot, pod: objects.Pod, place: Place, *, placed: bool) -> None:
        """Add a pod to a node."""
        requests = lot.asks if placed else lot.holds
        if requests is None:
            requests = self._requests.requests(pod, bound=not placed)
            if placed:
                lot.asks = requests
            else:
                lot.holds = requests
        place.take(requests)
        for rule, reading in lot.tracked:
            rule.add(reading, pod, place, placed=placed)

    def holdings(self, pod: objects.Pod) -> Mapping[str, object]:
        """Return the devices and the like that a bound pod got, by name of the rule."""
        found = ((rule.names[0], rule.holdings(pod)) for rule in self.rules)
        return {name: held for name, held in found if held is not None}

    def entry_faults(self, pod: objects.Pod, claimed: NamedDevices, *, later: bool = False) -> list[Fault]:
        """Return false claims of a document's entry for a bound pod. ``later``: the snapshot is later than the document's."""
        return [fault for rule in self._claimed for fault in rule.entry_faults(pod, claimed, later=later)]

    def content(self, pod: objects.Pod) -> object:
        """Return a key that distinguishes candidates by objects that rules read beyond the pod, or None."""
        return [content for rule in self.rules if (content := rule.content(pod)) is not None] or None

    def used(self) -> dict[str, resources.Amounts]:
        """Return the requests of the pods on each node."""
        return {name: place.used for name, place in self._places.items()}

    @property
    def capacity(self) -> dict[str, resources.Amounts]:
        """The allocatable resources of each node."""
        return {name: place.capacity for name, place in self._places.items()}

    def faults(self, pod: objects.Pod, node_name: str) -> list[Fault]:
        """Return all rules that reject a candidate on the node in the current state, with reasons."""
        place = self._places[node_name]
        return [fault for rule, reading in self._lot_of[id(pod)].judged for fault in rule.faults(reading, pod, place)]

    def verdict(self, pod: objects.Pod, node_name: str) -> list[Fault]:
        """Return the faults of both passes of kube-scheduler.

        The first pass considers the bound pods. The second adds the pods of equal or higher priority that are
        nominated to the node, as if they ran there. Plugins that skip the pod do not run again. Devices and volumes
        allocated at binding are not changed.
        """
        faults, snapshot = self.faults(pod, node_name), self._world.snapshot
        rank, key = pod.spec.priority or 0, objects.pod_key(pod)
        guests = {
            id(other): other for other in snapshot.pods
            if other.status is not None and other.status.nominatedNodeName == node_name and objects.is_waiting(other)
            and not other.spec.schedulingGates and (other.spec.priority or 0) >= rank and objects.pod_key(other) != key
        }  # fmt: skip
        if not guests:
            return faults
        settled = {key: _settled(guest, node_name) for key, guest in guests.items()}
        pods = [settled.get(id(other), other) for other in snapshot.pods]
        world = self._world
        with_nominated = Judge(replace(snapshot, pods=pods), [pod], exempt=world.exempt, free=world.free, policy=world.policy)
        readings = dict(self._lot_of[id(pod)].judged)
        again = {type(rule) for rule in self.rules if rule.second_pass(readings.get(rule))}
        place = with_nominated._places[node_name]
        for rule, reading in with_nominated._lot_of[id(pod)].judged:
            rule.welcome(reading, place, settled.values())
            if type(rule) in again:
                faults += rule.faults(reading, pod, place)
        return faults

    def disturbed(self, pod: objects.Pod, node_name: str) -> frozenset[str]:
        """Return the rules that one more pod on the node breaks for placed pods."""
        place = self._places[node_name]
        found = (rule.names for rule, reading in self._lot_of[id(pod)].judged if rule.disturbs(reading, pod, place))
        return frozenset(chain.from_iterable(found))

    def bind(self, unit: Sequence[tuple[objects.Pod, str]]) -> list[list[Fault]]:
        """Judge the pods of a unit, add them, and return the faults of each.

        Mutual rules are judged with the whole unit present. All other rules are judged one pod after the other.
        """
        if len(unit) == 1:  # no partner in the unit
            return [self.bind_alone(*unit[0])]
        judged = [(self._lot_of[id(pod)], pod, self._places[name]) for pod, name in unit]
        readings = [dict(lot.judged) for lot, _, _ in judged]
        opened = {
            rule: rule.open_unit([(own.get(rule), pod, place) for own, (_, pod, place) in zip(readings, judged, strict=True)])
            for rule in self.rules
            if rule.mutual
        }
        found: list[list[Fault]] = []
        for lot, pod, place in judged:
            alone = ((rule, reading) for rule, reading in lot.judged if not rule.mutual)
            found.append([fault for rule, reading in alone for fault in rule.faults(reading, pod, place)])
            self._add(lot, pod, place, placed=True)
        for i, (lot, pod, place) in enumerate(judged):
            for rule, reading in lot.judged:
                if rule.mutual:
                    rule.remove(reading, pod, place, placed=True)
                    found[i] += rule.unit_faults(reading, pod, place, opened[rule][i])
                    rule.add(reading, pod, place, placed=True)
        return found

    def bind_alone(self, pod: objects.Pod, node_name: str) -> list[Fault]:
        """Judge a single pod and add it."""
        lot, place = self._lot_of[id(pod)], self._places[node_name]
        found: list[Fault] = []
        for rule, reading in lot.judged:
            if faults := rule.faults(reading, pod, place):
                found += faults
        self._add(lot, pod, place, placed=True)
        return found

    def final_faults(self) -> Iterator[tuple[objects.Pod, str, str, str]]:
        """Yield the rules that the final state breaks for placed pods, as pod, node, rule and reason."""
        for rule in self.rules:
            yield from rule.final_faults()


def _tracks(rule: CheckedRule[Any]) -> bool:
    """Return True if pods that come and go change the state of the rule."""
    return not isinstance(rule, StaticRule)


def _settled(pod: objects.Pod, node: str) -> objects.Pod:
    change = msgspec.structs.replace
    return change(pod, spec=change(pod.spec, nodeName=node))
