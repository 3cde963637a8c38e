"""The state of an update: the workload's pods, their nodes, and every rule's verdict on those that wait.

The instance is compiled once, with the old and new pods of the workload, which come and go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from kubestow.models.cluster import rollout_admission
from kubestow.models.cluster.admission import Admission, Refusal
from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.models.documents.policy import Policy
from kubestow.models.workloads.deployment_rollout import Old, Pace
from kubestow.models.workloads.updates.update_input import Update
from kubestow.solver import rules
from kubestow.solver.rollout.attachments import RolloutAttachments
from kubestow.solver.rollout.state import RolloutProblem, compiled, other_running_pods


@dataclass(frozen=True)
class UpdateProblem:
    """An update with its surroundings.

    Attributes:
        others: Indices of the pods that keep their nodes throughout.
    """

    update: Update
    others: tuple[int, ...]
    exempt: tuple[str, ...]
    policy: Policy

    @staticmethod
    def of(update: Update, exempt: tuple[str, ...], policy: Policy) -> UpdateProblem:
        """Return the problem of an update."""
        mine = [*(member.index for member in update.members), *update.going]
        return UpdateProblem(update, other_running_pods(update.snapshot, mine), exempt, policy)


@dataclass(frozen=True, slots=True)
class UpdateEvent:
    """A step.

    Attributes:
        what: The kind of step.
        member: Position of the pod among the members.
        node: Index of the node of a bind; -1 otherwise.
    """

    what: Literal["create", "bind", "delete"]
    member: int
    node: int = -1


class UpdateState:
    """The pods of the workload at one moment.

    Attributes:
        where: By position among the members, the node of each existing pod: an index, -1 for an unknown node,
            None if it waits.
    """

    def __init__(self, problem: UpdateProblem) -> None:
        self.problem, self.update = problem, problem.update
        self.members = problem.update.members
        self.cluster: Cluster = _compiled(problem)
        self.rules = rules.build(self.cluster)
        self.node = {name: n for n, name in enumerate(self.cluster.nodes.names)}
        self.where: dict[int, int | None] = {}
        self.slots: dict[int, list[int]] = {}
        self._class = {i: g for g, cls in enumerate(self.cluster.classes) for i in cls.pods}
        # Nodes publish the zones of old pods as taken, and which zones they release is unknown.
        self._counting = [rule for rule in self.rules if not rule.arrivals_only]
        snapshot = self.update.snapshot
        self._attached = RolloutAttachments(snapshot, [member.index for member in self.members], problem.others)
        self._attached.begin([(m.index, snapshot.pods[m.index]) for m in self.members if m.there])
        self._undo: list[int | None] = []
        self.books: dict[bool, rollout_admission.Book] = {}
        self._places: dict[bool, dict[int, int]] = {}
        for new in sorted({member.new for member in self.members if not member.there}):
            self._open(new)
        for k, member in enumerate(self.members):
            if member.there:
                self.slots.setdefault(member.slot, []).append(k)
                self.where[k] = None if member.node is None else self.node.get(member.node, -1)
                self._put(k, 1)

    def _open(self, new: bool) -> None:
        """Open the quota book for the pods of one revision that may be created, next to all other pods of the workload."""
        members, snapshot = self.members, self.update.snapshot
        other_pods = [k for k, member in enumerate(members) if member.there or member.new != new]
        example = next(snapshot.pods[member.index] for member in members if not member.there and member.new == new)
        absent = {*(member.index for member in members), *self.update.going}
        admission = Admission(snapshot, absent, exempt=self.problem.exempt)
        read = rollout_admission.read(snapshot, [members[k].index for k in other_pods], example, admission)
        book = self.books[new] = rollout_admission.Book(read)
        self._places[new] = {k: place for place, k in enumerate(other_pods)}
        for k in other_pods:
            if not members[k].there:
                book.old(self._places[new][k], -1)

    # --- reading ------------------------------------------------------------------------------------------------------------

    def at(self, slot: int) -> list[int]:
        """Return the pods of a slot, oldest first."""
        return self.slots.get(slot, [])

    def available(self, k: int) -> bool:
        """Return True if an existing pod serves."""
        n, member = self.where[k], self.members[k]
        if n is None:
            return False
        return member.ready if member.node is not None else not self.lacking(k)

    def lacking(self, k: int) -> list[tuple[str, str]]:
        """Return the volumes of a bound pod that other nodes hold, with these nodes."""
        n = self.where.get(k)
        if n is None or n < 0 or not self._attached.volumes:
            return []
        return self._attached.lacking(self.members[k].index, self.cluster.nodes.names[n])

    def waiting(self) -> list[int]:
        """Return the pods without a node."""
        return sorted(k for k, n in self.where.items() if n is None)

    def accepted(self, k: int) -> Ints:
        """Return the nodes that every rule accepts for a waiting pod."""
        g = self.kind(k)
        return np.flatnonzero(~np.logical_or.reduce([rule.rejects(g) for rule in self.rules])) if self.cluster.n_nodes else np.zeros(0, int)

    def kind(self, k: int) -> int:
        """Return the class of a pod."""
        return self._class[self.members[k].index]

    def admits(self, k: int) -> bool:
        """Return True if quotas and LimitRanges admit a pod to be created."""
        return self.books[self.members[k].new].room() > 0

    def refusal(self, k: int) -> Refusal | None:
        """Return the reason why a pod to be created is refused."""
        return self.books[self.members[k].new].refusal()

    def room(self) -> int:
        """Return the number of further pods of the new revision that are admitted."""
        return self.books[True].room() if True in self.books else 0

    def raise_limits(self, k: int) -> None:
        """Raise the limits of quotas so that a pod to be created is admitted."""
        self.books[self.members[k].new].admit_one()

    def placed(self) -> int:
        """Return the number of pods of the new revision that have a node now."""
        return sum(1 for k, n in self.where.items() if n is not None and self.members[k].new and not self.members[k].there)

    def key(self) -> tuple[object, ...]:
        """Return a key that is equal for states with the same continuations."""
        paths = tuple(path for rule in self.rules if (path := rule.path()) is not None)
        return tuple(sorted((k, -2 if n is None else n) for k, n in self.where.items())), paths, self._attached.key()

    # --- steps --------------------------------------------------------------------------------------------------------------

    def apply(self, event: UpdateEvent) -> None:
        """Take a step."""
        k = event.member
        if event.what == "create":
            self.slots.setdefault(self.members[k].slot, []).append(k)
            self.where[k] = None
            self._count(k, 1)
        elif event.what == "bind":
            self.where[k] = event.node
            self._put(k, 1)
            self._attached.arrive(self.members[k].index, self.cluster.nodes.names[event.node])
        else:
            n = self.where[k]
            self._undo.append(n)
            self._count(k, -1)
            self._put(k, -1)
            self._attached.leave(self.members[k].index, self._name(n))
            del self.where[k]
            self.slots[self.members[k].slot].remove(k)

    def revert(self, event: UpdateEvent) -> None:
        """Undo the last step."""
        k = event.member
        if event.what == "create":
            self.slots[self.members[k].slot].remove(k)
            del self.where[k]
            self._count(k, -1)
        elif event.what == "bind":
            self._attached.back(self.members[k].index, self.cluster.nodes.names[event.node], -1)
            self._put(k, -1)
            self.where[k] = None
        else:
            n = self._undo.pop()
            self.where[k] = n
            pods = self.slots[self.members[k].slot]
            pods.append(k)
            pods.sort(key=lambda each: (not self.members[each].there, each))
            self._attached.back(self.members[k].index, self._name(n), 1)
            self._put(k, 1)
            self._count(k, 1)

    def _name(self, n: int | None) -> str:
        return "" if n is None or n < 0 else self.cluster.nodes.names[n]

    def _count(self, k: int, by: int) -> None:
        for new, book in self.books.items():
            if k in self._places[new]:
                book.old(self._places[new][k], by)
            else:
                book.new(by)

    def _put(self, k: int, by: int) -> None:
        n = self.where[k]
        if n is None or n < 0:
            return
        g = self.kind(k)
        for rule in self._counting if self.members[k].node is not None else self.rules:
            rule.place(g, n) if by > 0 else rule.remove(g, n)


def _compiled(problem: UpdateProblem) -> Cluster:
    """Return the instance whose pending pods are the workload's. Running ones are in separate classes."""
    members = problem.update.members
    old = tuple(Old(m.index, m.key, m.node, m.ready, 0, (), (0, "")) for m in members if m.node is not None)
    new = tuple(m.index for m in members if m.node is None)
    pace = Pace(len(new), 0, 0)
    return compiled(RolloutProblem(problem.update.snapshot, pace, old, new, problem.others, problem.exempt, problem.policy))


def with_members(problem: UpdateProblem, keep: Sequence[int]) -> UpdateProblem:
    """Return the problem with only some of the existing pods, by position. The others count as gone."""
    update = problem.update
    kept = tuple(member for k, member in enumerate(update.members) if not member.there or k in set(keep))
    gone = tuple(member.index for k, member in enumerate(update.members) if member.there and k not in set(keep))
    return replace(problem, update=replace(update, members=kept, going=(*update.going, *gone)))
