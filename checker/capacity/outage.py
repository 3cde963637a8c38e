"""A cluster from which nodes fail and come back, in the checker's own books: what the pods that must come back meet on the other nodes.

Thousands of failures are judged on one state: nodes are taken away with all that is said of their domains, pods are put on others and
judged on the way, and everything is undone again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Final

import msgspec

from kubestow.checker.capacity.waves.standing import Standing
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
class Runner:
    """A pod that runs on a node."""

    pod: objects.Pod
    key: str
    node: str
    member: affinity.Member
    spread: spread.Spread


class _Volumes(Volumes):
    """As for plans; claims of nodes that are gone are given back to the scheduler, and nothing stays bound when a failure is undone."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self._claims = dict(snapshot.persistent_volume_claims)
        self._selected: dict[str, list[str]] = {}
        for key, claim in self._claims.items():
            if (selected := (claim.metadata.annotations or {}).get(SELECTED_NODE)) is not None:
                self._selected.setdefault(selected, []).append(key)

    def give_back(self, gone: Iterable[str]) -> None:
        for name in gone:
            for key in self._selected.get(name, ()):
                claim = self._claims[key]
                left = {k: v for k, v in (claim.metadata.annotations or {}).items() if k != SELECTED_NODE}
                self._claims[key] = _change(claim, metadata=_change(claim.metadata, annotations=left))

    def forget(self, snapshot: Snapshot, gone: Iterable[str]) -> None:
        for name in gone:
            for key in self._selected.get(name, ()):
                self._claims[key] = snapshot.persistent_volume_claims[key]
        self._chosen.clear()
        self._consumed.clear()
        self._first_node.clear()


class Outage:
    """The pods that run in a cluster, those that wait left out. ``exempt``: namespaces without hard anti-affinity. ``visitors``: pods that
    run nowhere and may be put on nodes.

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
        self._asked = resources.Shared(snapshot.gates)
        self._volumes = _Volumes(snapshot)
        self._spread = Standing(self.nodes, snapshot.gates)
        namespaces = {name: namespace.metadata.labels or {} for name, namespace in snapshot.namespaces.items()}
        self._affinity = affinity.AffinityState(namespaces, exempt)
        self._undo: list[Callable[[], None]] = []
        reader = affinity.Reader()
        self.residents: dict[str, list[Runner]] = {name: [] for name in self.nodes}
        self.runners: dict[str, Runner] = {}
        for pod in snapshot.pods:
            node = pod.spec.nodeName
            if node in self.nodes and node is not None and not objects.is_terminal(pod):
                runner = Runner(pod, objects.pod_key(pod), node, reader.member(pod), self._spread.read(pod))
                self.residents[node].append(runner)
                self.runners[runner.key] = runner
        self.visitors = {
            objects.pod_key(pod): Runner(pod, objects.pod_key(pod), "", reader.member(pod), self._spread.read(pod)) for pod in visitors
        }
        everyone = [runner for there in self.residents.values() for runner in there]
        self._affinity.announce((runner.member for runner in (*everyone, *self.visitors.values())), judged=True)
        for runner in everyone:
            self._enter(runner, runner.node, anew=False)

    # --- what changes -----------------------------------------------------------------------------------------------------------

    def _enter(self, runner: Runner, name: str, *, anew: bool, by: int = 1) -> None:
        """A pod is on a node (``by`` -1: no more). ``anew``: it was put there, so that its status does not count."""
        pod, node = runner.pod, self.nodes[name]
        self._held[name].weigh(self._asked.requests(pod, bound=not anew), self._asked.ports(pod), by)
        self._spread.add(pod, node, runner.member.profile, by)
        (self._affinity.add if by > 0 else self._affinity.remove)(runner.member, node)
        if pod.spec.volumes:
            (self._volumes.mount if by > 0 else self._volumes.unmount)(pod, name)

    def _do(self, runner: Runner, name: str, *, anew: bool, by: int) -> None:
        self._enter(runner, name, anew=anew, by=by)
        self._undo.append(partial(self._enter, runner, name, anew=anew, by=-by))

    def fail(self, gone: Collection[str]) -> None:
        """Take nodes away, with their pods and domains."""
        self.gone = frozenset(gone)
        for name in gone:
            for runner in self.residents[name]:
                self._do(runner, name, anew=False, by=-1)
        self._volumes.give_back(gone)
        for name in gone:
            self._spread.leave(name)
            self._undo.append(partial(self._spread.join, name))

    def evict(self, runner: Runner) -> None:
        """A pod goes where it runs."""
        self._do(runner, runner.node, anew=False, by=-1)

    def put(self, runner: Runner, name: str) -> None:
        """A pod that lost its node gets another one."""
        if runner.pod.spec.volumes:
            self._volumes.bind(runner.pod, self.nodes[name])
        self._do(runner, name, anew=True, by=1)

    def restore(self) -> None:
        """Undo everything: all nodes are there, all pods on their own."""
        while self._undo:
            self._undo.pop()()
        self._volumes.forget(self.snapshot, self.gone)
        self.gone = frozenset()

    # --- the rules --------------------------------------------------------------------------------------------------------------

    def faults(self, runner: Runner, name: str) -> list[Fault]:
        """Return every rule that rejects a pod that lost its node on another one, but those of devices, NUMA zones and gangs."""
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

    def requests(self, runner: Runner) -> resources.Amounts:
        """Return what a pod asks for."""
        return self._asked.requests(runner.pod, bound=False)

    def capacity(self, name: str) -> resources.Amounts:
        """Return what a node has."""
        return self._capacity[name]

    def has_room(self, runner: Runner, name: str) -> bool:
        """Return whether a node has the room that a pod asks for, whatever other rules say."""
        if name in self.gone:
            return False
        held, capacity = self._held[name], self._capacity[name]
        if held.pods >= capacity.get("pods", 0):
            return False
        used = held.used
        return all(capacity.get(resource, 0) - used.get(resource, 0) >= amount for resource, amount in self.requests(runner).items())

    def share(self, runner: Runner) -> Fraction:
        """Return how large a pod is: the largest share that it asks for of what the nodes have of a resource."""
        return max((Fraction(amount, self._whole.get(name) or 1) for name, amount in self.requests(runner).items()), default=Fraction(0))

    def final_faults(self, placed: Sequence[tuple[Runner, str]]) -> list[tuple[str, str, str]]:
        """Return where a domain that got a pod breaks that pod's spread constraint in the end: key, node, why."""
        found = spread.final_faults((runner.spread, self.nodes[name]) for runner, name in placed)
        return [(placed[position][0].key, placed[position][1], why) for position, why in found]
