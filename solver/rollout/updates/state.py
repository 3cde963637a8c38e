"""An update in progress: which pods of the workload are there, on which nodes, and what every rule says of those that wait.

The instance is compiled once, with all pods of the workload, old and new, as pods that come and go.
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
from kubestow.solver.rollout.attachments import Attachments
from kubestow.solver.rollout.state import RolloutProblem, bystanders, compiled
from kubestow.solver.rules.dynamic_resources import DynamicResources


@dataclass(frozen=True)
class UpdateProblem:
    """An update with what is around it. ``others``: indices of the pods that hold their places throughout."""

    update: Update
    others: tuple[int, ...]
    exempt: tuple[str, ...]
    policy: Policy

    @staticmethod
    def of(update: Update, exempt: tuple[str, ...], policy: Policy) -> UpdateProblem:
        """Return the problem of an update."""
        mine = [*(member.index for member in update.members), *update.going]
        return UpdateProblem(update, bystanders(update.snapshot, mine), exempt, policy)


@dataclass(frozen=True, slots=True)
class Event:
    """A step. ``member``: the place of a pod among the members; ``node``: the index of a node, where it is bound."""

    what: Literal["create", "bind", "delete"]
    member: int
    node: int = -1


class UpdateState:
    """The pods of the workload at a moment.

    Attributes:
        where: The node of each pod that is there, by its place among the members: an index, -1 if it runs on an unknown one, None if it
            waits.
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
        # the zones that old pods hold are taken from what nodes publish, and which come free when they go is not known
        self._counting = [rule for rule in self.rules if not rule.arrivals_only]
        snapshot = self.update.snapshot
        self._attached = Attachments(snapshot, [member.index for member in self.members], problem.others)
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
        """Open the book of what quotas leave to the pods that may come of one revision, next to all others of the workload."""
        members, snapshot = self.members, self.update.snapshot
        beside = [k for k, member in enumerate(members) if member.there or member.new != new]
        example = next(snapshot.pods[member.index] for member in members if not member.there and member.new == new)
        absent = {*(member.index for member in members), *self.update.going}
        admission = Admission(snapshot, absent, exempt=self.problem.exempt)
        read = rollout_admission.read(snapshot, [members[k].index for k in beside], example, admission)
        book = self.books[new] = rollout_admission.Book(read)
        self._places[new] = {k: place for place, k in enumerate(beside)}
        for k in beside:
            if not members[k].there:
                book.old(self._places[new][k], -1)

    # --- reading ------------------------------------------------------------------------------------------------------------

    def at(self, slot: int) -> list[int]:
        """Return the pods of a slot, oldest first."""
        return self.slots.get(slot, [])

    def available(self, k: int) -> bool:
        """Return True if a pod that is there serves."""
        n, member = self.where[k], self.members[k]
        if n is None:
            return False
        return member.ready if member.node is not None else not self.lacking(k)

    def lacking(self, k: int) -> list[tuple[str, str]]:
        """Return the volumes of a bound pod that other nodes have, with these nodes."""
        n = self.where.get(k)
        if n is None or n < 0 or not self._attached.volumes:
            return []
        return self._attached.lacking(self.members[k].index, self.cluster.nodes.names[n])

    def waiting(self) -> list[int]:
        """Return the pods without a node."""
        return sorted(k for k, n in self.where.items() if n is None)

    def accepted(self, k: int) -> Ints:
        """Return the nodes that every rule accepts for a pod that waits."""
        g = self.kind(k)
        return np.flatnonzero(~np.logical_or.reduce([rule.rejects(g) for rule in self.rules])) if self.cluster.n_nodes else np.zeros(0, int)

    def kind(self, k: int) -> int:
        """Return the class of a pod."""
        return self._class[self.members[k].index]

    def admits(self, k: int) -> bool:
        """Return True if quotas and LimitRanges admit a pod that is to come."""
        return self.books[self.members[k].new].room() > 0

    def refusal(self, k: int) -> Refusal | None:
        """Return what refuses a pod that is to come."""
        return self.books[self.members[k].new].refusal()

    def room(self) -> int:
        """Return how many more pods of the new revision are admitted."""
        return self.books[True].room() if True in self.books else 0

    def raise_limits(self, k: int) -> None:
        """Raise the limits of quotas so that a pod that is to come is admitted."""
        self.books[self.members[k].new].admit_one()

    def placed(self) -> int:
        """Return how many pods of the new revision have a node now."""
        return sum(1 for k, n in self.where.items() if n is not None and self.members[k].new and not self.members[k].there)

    def key(self) -> tuple[object, ...]:
        """Return a key that is equal for states from which the same can happen."""
        paths = tuple(path for rule in self.rules if (path := rule.path()) is not None)
        return tuple(sorted((k, -2 if n is None else n) for k, n in self.where.items())), paths, self._attached.key()

    def devices(self, k: int) -> list[object]:
        """Return the rule of devices if it concerns a pod."""
        allocating = DynamicResources.of(self.rules)
        return [allocating] if self.cluster.devices is not None and allocating.concerned(self.kind(k)) else []

    # --- steps --------------------------------------------------------------------------------------------------------------

    def apply(self, event: Event) -> None:
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

    def revert(self, event: Event) -> None:
        """Take a step back: the last one."""
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
    """Return the instance whose pending pods are the workload's. Those that run are in classes of their own."""
    members = problem.update.members
    old = tuple(Old(m.index, m.key, m.node, m.ready, 0, (), (0, "")) for m in members if m.node is not None)
    new = tuple(m.index for m in members if m.node is None)
    pace = Pace(len(new), 0, 0)
    return compiled(RolloutProblem(problem.update.snapshot, pace, old, new, problem.others, problem.exempt, problem.policy))


def with_members(problem: UpdateProblem, keep: Sequence[int]) -> UpdateProblem:
    """Return the problem with only some of the pods that are there, by their places; the others count as gone."""
    update = problem.update
    kept = tuple(member for k, member in enumerate(update.members) if not member.there or k in set(keep))
    gone = tuple(member.index for k, member in enumerate(update.members) if member.there and k not in set(keep))
    return replace(problem, update=replace(update, members=kept, going=(*update.going, *gone)))
