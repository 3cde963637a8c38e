"""The state of a rollout: the remaining old pods, the nodes of new pods, and every rule's verdict on the next one.

The instance is compiled once with the Deployment's old and new pods, which come and go. Removing an old pod
is as cheap as placing a new one, so that many courses can be tried.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from kubestow.models.cluster import rollout_admission
from kubestow.models.cluster.admission import Admission, Refusal
from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.documents.policy import Policy
from kubestow.models.kube.objects import is_terminal
from kubestow.models.snapshot.scope import Scope
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.models.workloads.deployment_rollout import Old, Pace, creations, deletions
from kubestow.solver import rules
from kubestow.solver.rollout.attachments import RolloutAttachments

if TYPE_CHECKING:
    from kubestow.models.devices.inventory import Pick

Binds = list[tuple[int, int]]  # positions in ``RolloutProblem.new`` with nodes, in bind order


@dataclass(frozen=True)
class RolloutProblem:
    """The rollout to simulate.

    Attributes:
        snapshot: The cluster with the ``new`` pods, none of which has a node. Pods in no list below are
            ignored.
        pace: The strategy.
        old: The old pods.
        new: Indices of the pods of the new revision.
        others: Indices of the pods that keep their nodes throughout.
        gone: Indices of pods of the Deployment that count as deleted.
    """

    snapshot: Snapshot
    pace: Pace
    old: tuple[Old, ...]
    new: tuple[int, ...]
    others: tuple[int, ...]
    exempt: tuple[str, ...]
    policy: Policy
    gone: tuple[int, ...] = ()

    @cached_property
    def admission(self) -> rollout_admission.RolloutAdmission:
        """The quotas and LimitRanges on the new pods."""
        new = self.snapshot.pods[self.new[0]] if self.new else None
        old = [entry.index for entry in self.old]
        admission = Admission(self.snapshot, {*old, *self.new, *self.gone}, policy=self.policy, exempt=self.exempt)
        return rollout_admission.read(self.snapshot, old, new, admission)


@dataclass(frozen=True)
class RolloutStep:
    """One wave: the pods bound, the pods then waiting, and the old pods deleted (positions in ``problem.new`` and ``problem.old``)."""

    binds: Binds
    waiting: list[int]
    deletes: list[int]


@dataclass
class RolloutCourse:
    """A course of a rollout.

    Attributes:
        steps: The waves.
        complete: True if it reaches the end.
        placed: Number of new pods with a node at the end.
        proved: True if no course completes, or this one does.
        bound: Upper bound on the placed new pods of any course.
    """

    steps: list[RolloutStep]
    complete: bool
    placed: int
    proved: bool
    bound: int


def other_running_pods(snapshot: Snapshot, own: Sequence[int]) -> tuple[int, ...]:
    """Return the pods that run on nodes of the snapshot, except ``own``."""
    nodes = {node.metadata.name for node in snapshot.nodes}
    mine = set(own)
    others = ((i, pod) for i, pod in enumerate(snapshot.pods) if i not in mine)
    return tuple(i for i, pod in others if pod.spec.nodeName and pod.spec.nodeName in nodes and not is_terminal(pod))


def ungrouped(cluster: Cluster) -> Cluster:
    """Return the instance without gangs, because a rollout places pods one by one."""
    return replace(cluster, gangs=[], classes=[replace(cls, gang=None) for cls in cluster.classes])


def compiled(problem: RolloutProblem) -> Cluster:
    """Return the instance whose pending pods are the Deployment's, with old and new ones in separate classes.

    Requirements of old pods (affinity, spread) no longer apply. Only their anti-affinity still repels others.
    """
    nodes = {node.metadata.name for node in problem.snapshot.nodes}
    old = {entry.index for entry in problem.old if entry.node in nodes}
    scope = Scope(fixed=list(problem.others), pending=sorted({*old, *problem.new}))
    # Each old pod keeps its devices until it leaves.
    claiming = {owner.uid for claim in problem.snapshot.resource_claims.values() for owner in claim.metadata.ownerReferences or ()}
    running = {i: i for i in old if problem.snapshot.pods[i].metadata.uid in claiming} if claiming else {}
    cluster = compile_cluster(problem.snapshot, scope, daemon_namespaces=problem.exempt, policy=problem.policy, running=running)
    rows, classes = [], []
    for g, cls in enumerate(ungrouped(cluster).classes):
        kept = [i for i in cls.pods if i not in old]
        gone = [i for i in cls.pods if i in old]
        if kept:
            classes.append(replace(cls, pods=kept))
        if gone:
            classes.append(replace(cls, pods=gone, spread=(), affinity=None))
        rows += [g] * (bool(kept) + bool(gone))
    chosen = np.array(rows, dtype=np.int64)
    return replace(
        cluster,
        gangs=[],
        classes=classes,
        demand=cluster.demand[chosen],
        count=np.array([c.count for c in classes], dtype=np.int64),
        priority=cluster.priority[chosen],
        profile=cluster.profile[chosen],
        _by_profile=None,
    )


class RolloutState:
    """A rollout in progress.

    Attributes:
        placed: By position in ``problem.new``, the node (index) of each placed pod.
        created: Number of new pods created.
        alive: Positions in ``problem.old`` of the remaining old pods.
    """

    def __init__(self, problem: RolloutProblem, cluster: Cluster) -> None:
        self.problem, self.cluster = problem, cluster
        self.rules = rules.build(cluster)
        self.faces = [rules.plan_face(rule) for rule in self.rules]
        # Nodes publish the zones of old pods as taken, and which zones they release is unknown.
        self._counting = [rule for rule in self.rules if not rule.arrivals_only]
        self._node = {name: n for n, name in enumerate(cluster.nodes.names)}
        self._class = {i: g for g, cls in enumerate(cluster.classes) for i in cls.pods}
        self._on = [0] * cluster.n_nodes
        self.alive = set(range(len(problem.old)))
        self.placed: dict[int, int] = {}
        self.created = 0
        self._book = rollout_admission.Book(problem.admission)
        self._kinds: list[int] = [self._class[i] for i in problem.new]
        old = [entry.index for entry in problem.old]
        self._attached = RolloutAttachments(problem.snapshot, [*problem.new, *old], problem.others)
        self._attached.begin([(i, problem.snapshot.pods[i]) for i in old])
        for k in self.alive:
            self._old(k, 1)

    def _old(self, k: int, by: int) -> None:
        entry = self.problem.old[k]
        n = self._node.get(entry.node or "")
        if n is None:
            return
        g = self._class[entry.index]
        for rule in self._counting:
            rule.place(g, n) if by > 0 else rule.remove(g, n)
        self._on[n] += by

    # --- controller ---------------------------------------------------------------------------------------------------------

    def create(self) -> int:
        """Create the pods that are due and admitted. Return their number."""
        number = min(self._due(), self._book.room())
        self.created += number
        self._book.new(number)
        return number

    def uncreate(self, number: int) -> None:
        self.created -= number
        self._book.new(-number)

    def _due(self) -> int:
        return creations(self.problem.pace, len(self.alive), self.created)

    def refusal(self) -> Refusal | None:
        """Return the reason why the next due pod is refused; None if none is due or refused."""
        return self._book.refusal() if self._due() > 0 else None

    def doomed(self) -> list[int]:
        """Return the old pods that the controller would delete now, as positions in ``problem.old``."""
        places = {entry.index: k for k, entry in enumerate(self.problem.old)}
        alive = [self.problem.old[k] for k in sorted(self.alive)]
        deleted = deletions(self.problem.pace, alive, self._together, len(self.placed) - len(self.unattached()))
        return [places[entry.index] for entry in deleted]

    def _together(self, node: str) -> int:
        n = self._node.get(node)
        return sum(1 for k in self.alive if self.problem.old[k].node == node) if n is None else self._on[n]

    def delete(self, places: Sequence[int]) -> None:
        for k in places:
            self.alive.remove(k)
            self._book.old(k, -1)
            self._old(k, -1)
            self._attached.leave(self.problem.old[k].index, self.problem.old[k].node or "")

    def undelete(self, places: Sequence[int]) -> None:
        for k in reversed(places):
            self.alive.add(k)
            self._book.old(k, 1)
            self._old(k, 1)
            self._attached.back(self.problem.old[k].index, self.problem.old[k].node or "", 1)

    @property
    def complete(self) -> bool:
        return not self.alive and len(self.placed) == self.problem.pace.replicas and not self.unattached()

    def unattached(self) -> dict[int, list[tuple[str, str]]]:
        """Return new pods whose nodes lack a volume that another node holds, by position, with these volumes and nodes."""
        if not self._attached.volumes:
            return {}
        lacking = ((i, self._attached.lacking(self.problem.new[i], self.cluster.nodes.names[n])) for i, n in self.placed.items())
        return {i: volumes for i, volumes in lacking if volumes}

    # --- scheduler ----------------------------------------------------------------------------------------------------------

    def waiting(self) -> list[int]:
        """Return the created new pods without a node, as positions in ``problem.new``."""
        return [i for i in range(self.created) if i not in self.placed]

    def heads(self) -> list[int]:
        """Return the first waiting pod of each class."""
        first: dict[int, int] = {}
        for i in self.waiting():
            first.setdefault(self._kinds[i], i)
        return list(first.values())

    def accepted(self, i: int) -> Ints:
        """Return the nodes that every rule currently accepts for a new pod."""
        return np.flatnonzero(~np.logical_or.reduce([rule.rejects(self._kinds[i]) for rule in self.rules]))

    def room(self) -> int:
        """Return a cheap upper bound on the waiting pods that can be placed now, in any order."""
        total = 0
        for i in self.heads():
            g = self._kinds[i]
            caps = np.full(self.cluster.n_nodes, self.created, dtype=np.int64)
            for rule in self.rules:
                caps = np.minimum(caps, rule.room(g) if rule.local else rule.most(g))
                if not rule.local:
                    caps[rule.closed(g)] = 0
            total += int(caps.sum())
        return total

    def bind(self, i: int, n: int) -> None:
        for rule in self.rules:
            rule.place(self._kinds[i], n)
        self._on[n] += 1
        self.placed[i] = n
        self._attached.arrive(self.problem.new[i], self.cluster.nodes.names[n])

    def unbind(self, i: int) -> None:
        n = self.placed.pop(i)
        self._attached.back(self.problem.new[i], self.cluster.nodes.names[n], -1)
        for rule in self.rules:
            rule.remove(self._kinds[i], n)
        self._on[n] -= 1

    def level(self, i: int) -> Ints:
        """Return int64[N], the fill level of the pod's fullest constrained domain on each node."""
        levels = (level for face in self.faces if (level := face.level(self._kinds[i])) is not None)
        fullest: Ints = np.maximum.reduce([np.zeros(self.cluster.n_nodes, dtype=np.int64), *levels])
        return fullest

    def picks(self, i: int, n: int) -> tuple[Pick, ...] | None:
        """Return the devices that a new pod, just bound to node n, took; None if it takes none."""
        return next((taken for face in self.faces if (taken := face.picks(self._kinds[i], n)) is not None), None)

    def kind(self, i: int) -> int:
        """Return the class of a new pod."""
        return self._kinds[i]

    def contents(self) -> dict[int, list[tuple[bool, int]]]:
        """Return the Deployment's pods on each node: old pods by position, new ones by class."""
        contents: dict[int, list[tuple[bool, int]]] = {}
        for k in sorted(self.alive):
            n = self._node.get(self.problem.old[k].node or "")
            if n is not None:
                contents.setdefault(n, []).append((True, k))
        for g, n in sorted((self._kinds[i], n) for i, n in self.placed.items()):
            contents.setdefault(n, []).append((False, g))
        return contents

    def key(self) -> tuple[object, ...]:
        """Return a key that is equal for states with the same continuations."""
        where = tuple(sorted((self._kinds[i], n) for i, n in self.placed.items()))
        paths = tuple(path for rule in self.rules if (path := rule.path()) is not None)
        return frozenset(self.alive), self.created, where, paths, self._attached.key()
