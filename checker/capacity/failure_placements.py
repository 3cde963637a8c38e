"""Placements for failures without a certificate: carried over from an equal failure, or built greedily."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar

from kubestow.checker.capacity.outage import Outage, OutageRunner
from kubestow.models.documents.placement import Assignment
from kubestow.models.documents.survival import Scenario
from kubestow.models.kube import objects

#: Pod-node pairs to try over all failures that a document reports as not survived. Limits the run time of the check.
_MAX_TRIED_PAIRS: Final = 4_000_000
_T = TypeVar("_T")


class FailurePlacement(NamedTuple):
    """A placement after a failure.

    Attributes:
        entries: Assignment of each pod, in bind order.
        preempted: Keys of the pods that are preempted.
    """

    entries: list[Assignment]
    preempted: list[str]


@dataclass
class PlacementFinder:
    """A finder of placements after failures.

    Attributes:
        outage: The cluster's state; changes are undone after each search.
        untried: Number of failures skipped because earlier ones used up the limit of tried pairs.
    """

    outage: Outage
    untried: int = 0
    _tried_pairs: int = 0
    _kinds: dict[int, Hashable] = field(default_factory=dict)
    _cursor: dict[Hashable, int] = field(default_factory=dict)

    # --- from one failure to an equal one ---------------------------------------------------------------------------------------

    def carried_over(
        self,
        scenario: Scenario,
        first_gone: Sequence[str],
        first_back: Sequence[OutageRunner],
        gone: Sequence[str],
        back: Sequence[OutageRunner],
    ) -> FailurePlacement:
        """Translate the placement of one failure to an equal failure.

        Each pod goes where its counterpart goes. A node that failed in the second case is replaced by its partner from the first.
        """
        partner = self._partners(first_gone, gone)
        counterpart = self._counterparts(first_back, back)
        entries = [
            Assignment(counterpart[entry.pod].key, partner.get(entry.node, entry.node), entry.order)
            for entry in sorted(scenario.assignments, key=lambda entry: entry.order)
            if entry.pod in counterpart
        ]
        preempted = []
        for key in scenario.preempted:
            victim = self.outage.runners.get(key)
            if victim is not None and victim.node in partner:
                there = self.outage.residents.get(partner[victim.node], ())
                victim = next((other for other in there if self._kind(other) == self._kind(victim) and other.key not in preempted), None)
            if victim is not None:
                preempted.append(victim.key)
        return FailurePlacement(entries, preempted)

    def _partners(self, first_gone: Sequence[str], gone: Sequence[str]) -> dict[str, str]:
        """Return a partner for each node that fails only in the second failure, among those that fail only in the first.

        Partners have equal properties if possible.
        """
        ours, theirs = [name for name in gone if name not in set(first_gone)], [name for name in first_gone if name not in set(gone)]
        return _matched(ours, theirs, (self._node_kind, self._capacity))

    def _node_kind(self, name: str) -> Hashable:
        """Return a key that is equal for nodes with the same capacity, labels and kinds of pods."""
        node = self.outage.nodes[name]
        labels = {(key, value) for key, value in (node.metadata.labels or {}).items() if value != name}
        pods = sorted(str(self._kind(runner)) for runner in self.outage.residents[name])
        return self._capacity(name), frozenset(labels), tuple(pods)

    def _capacity(self, name: str) -> Hashable:
        return frozenset(self.outage.capacity(name).items())

    def _counterparts(self, first: Sequence[OutageRunner], second: Sequence[OutageRunner]) -> dict[str, OutageRunner]:
        """Return the pod of the second failure that corresponds to each pod of the first, by key."""
        kinds: tuple[Callable[[OutageRunner], Hashable], ...] = (self._kind, self._size)
        matching = _matched(first, second, kinds)
        return {runner.key: other for runner, other in matching.items()}

    def _kind(self, runner: OutageRunner) -> Hashable:
        """Return a key that is equal for pods of one workload with the same requests."""
        memo = id(runner)
        if memo not in self._kinds:
            owner = objects.controller_of(runner.pod)
            of = (owner.kind, owner.name) if owner is not None else None
            self._kinds[memo] = of, runner.pod.metadata.namespace, runner.pod.spec.priority or 0, self._size(runner)
        return self._kinds[memo]

    def _size(self, runner: OutageRunner) -> Hashable:
        return tuple(sorted(self.outage.requests(runner).items()))

    # --- greedy placement -------------------------------------------------------------------------------------------------------

    def settle(self, gone: Collection[str], back: Sequence[OutageRunner], nodes: Mapping[str, str], preempted: Iterable[str]) -> str | None:
        """Place the displaced pods on the suggested nodes, or on others if those reject them.

        Returns:
            Why a pod cannot be placed, or None if all are.
        """
        outage = self.outage
        outage.fail(gone)
        for key in preempted:
            if outage.runners[key].node not in outage.gone:
                outage.evict(outage.runners[key])
        by_key = {runner.key: runner for runner in back}
        order = [by_key[key] for key in nodes if key in by_key] + [runner for runner in back if runner.key not in nodes]
        why = self._place(order, nodes)
        outage.restore()
        return why

    def _place(self, order: Sequence[OutageRunner], nodes: Mapping[str, str]) -> str | None:
        for runner in order:
            name = nodes.get(runner.key)
            if name is None or self.outage.faults(runner, name):
                name = self._find(runner)
            if name is None:
                return f"{runner.key} finds none"
            self.outage.put(runner, name)
        return next((why for _, _, (_, why) in self.outage.final_faults()), None)

    def _find(self, runner: OutageRunner) -> str | None:
        """Return a node that accepts the pod, or None. The search resumes where the last pod of this kind was placed."""
        kind = self._kind(runner)
        names = list(self.outage.nodes)
        start = self._cursor.get(kind, 0)
        for position, name in enumerate(names[start:] + names[:start], start):
            self._tried_pairs += 1
            if self.outage.has_room(runner, name) and not self.outage.faults(runner, name):
                self._cursor[kind] = position % len(names)
                return name
        return None

    def finds(self, gone: Collection[str], back: Sequence[OutageRunner]) -> bool:
        """Return True if a greedy pass places all pods, largest first. Also False if the limit of tried pairs is used up."""
        if self._tried_pairs > _MAX_TRIED_PAIRS:
            self.untried += 1
            return False
        large_first = sorted(back, key=lambda runner: (-self.outage.share(runner), runner.key))
        return self.settle(gone, large_first, {}, ()) is None


def _any(each: object) -> Hashable:
    """Return one key for everything, so that any two items match."""
    return None


def _matched(first: Sequence[_T], second: Sequence[_T], kinds: Sequence[Callable[[_T], Hashable]]) -> dict[_T, _T]:
    """Return a partner in ``second`` for each item of ``first``.

    Partners share the finest possible key of ``kinds``; items without such a partner get any remaining one.
    """
    found: dict[_T, _T] = {}
    unmatched, others = list(first), list(second)
    for kind in (*kinds, _any):
        shelves: dict[Hashable, list[_T]] = {}
        for other in reversed(others):
            shelves.setdefault(kind(other), []).append(other)
        for each in unmatched:
            if shelf := shelves.get(kind(each)):
                found[each] = shelf.pop()
        matched_ids = {id(other) for other in found.values()}
        unmatched, others = [each for each in unmatched if each not in found], [other for other in others if id(other) not in matched_ids]
    return found
