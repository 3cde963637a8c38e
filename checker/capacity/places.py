"""Places for the pods of a failure of which a document gives none: those of an equal failure carried over, or found one after the other."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar

from kubestow.checker.capacity.outage import Outage, Runner
from kubestow.models.documents.placement import Assignment
from kubestow.models.documents.survival import Scenario
from kubestow.models.kube import objects

#: Looks at a pod and a node that are spent on failures that are said not to be survived, all in all.
_MOST: Final = 4_000_000
_T = TypeVar("_T")


class Places(NamedTuple):
    """``entries``: of each pod, in bind order; ``preempted``: keys of pods that make room."""

    entries: list[Assignment]
    preempted: list[str]


@dataclass
class Seeker:
    """``untried``: failures that were not looked at, since as many others took their time."""

    outage: Outage
    untried: int = 0
    _looks: int = 0
    _kinds: dict[int, Hashable] = field(default_factory=dict)
    _cursor: dict[Hashable, int] = field(default_factory=dict)

    # --- from one failure to an equal one ---------------------------------------------------------------------------------------

    def carried_over(
        self, scenario: Scenario, first_gone: Sequence[str], first_back: Sequence[Runner], gone: Sequence[str], back: Sequence[Runner]
    ) -> Places:
        """Return the places of one failure for the pods of another: each pod goes where its counterpart goes, and where that is a node
        that is gone here, to the node that is gone there instead."""
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
        return Places(entries, preempted)

    def _partners(self, first_gone: Sequence[str], gone: Sequence[str]) -> dict[str, str]:
        """For each node that is gone in the second failure alone, one of those that are gone in the first alone, like it if it can be."""
        ours, theirs = [name for name in gone if name not in set(first_gone)], [name for name in first_gone if name not in set(gone)]
        return _matched(ours, theirs, (self._node_kind, self._capacity))

    def _node_kind(self, name: str) -> Hashable:
        node = self.outage.nodes[name]
        labels = {(key, value) for key, value in (node.metadata.labels or {}).items() if value != name}
        pods = sorted(str(self._kind(runner)) for runner in self.outage.residents[name])
        return self._capacity(name), frozenset(labels), tuple(pods)

    def _capacity(self, name: str) -> Hashable:
        return frozenset(self.outage.capacity(name).items())

    def _counterparts(self, first: Sequence[Runner], second: Sequence[Runner]) -> dict[str, Runner]:
        kinds: tuple[Callable[[Runner], Hashable], ...] = (self._kind, self._size)
        found = _matched(first, second, kinds)
        return {runner.key: other for runner, other in found.items()}

    def _kind(self, runner: Runner) -> Hashable:
        """Equal for pods of one workload that ask for the same."""
        memo = id(runner)
        if memo not in self._kinds:
            owner = objects.controller_of(runner.pod)
            of = (owner.kind, owner.name) if owner is not None else None
            self._kinds[memo] = of, runner.pod.metadata.namespace, runner.pod.spec.priority or 0, self._size(runner)
        return self._kinds[memo]

    def _size(self, runner: Runner) -> Hashable:
        return tuple(sorted(self.outage.requests(runner).items()))

    # --- one after the other ----------------------------------------------------------------------------------------------------

    def settle(self, gone: Collection[str], back: Sequence[Runner], nodes: Mapping[str, str], preempted: Iterable[str]) -> str | None:
        """Return why pods do not find the places that are suggested, or others; None if they do."""
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

    def _place(self, order: Sequence[Runner], nodes: Mapping[str, str]) -> str | None:
        placed: list[tuple[Runner, str]] = []
        for runner in order:
            name = nodes.get(runner.key)
            if name is None or self.outage.faults(runner, name):
                name = self._find(runner)
            if name is None:
                return f"{runner.key} finds none"
            self.outage.put(runner, name)
            placed.append((runner, name))
        return next((why for _, _, why in self.outage.final_faults(placed)), None)

    def _find(self, runner: Runner) -> str | None:
        """Return a node that takes a pod, the search going on where it found one for the last pod of the kind."""
        kind = self._kind(runner)
        names = list(self.outage.nodes)
        start = self._cursor.get(kind, 0)
        for position, name in enumerate(names[start:] + names[:start], start):
            self._looks += 1
            if self.outage.has_room(runner, name) and not self.outage.faults(runner, name):
                self._cursor[kind] = position % len(names)
                return name
        return None

    def finds(self, gone: Collection[str], back: Sequence[Runner]) -> bool:
        """Return whether all pods find a place one after the other, large ones first. False, too, where that was not tried."""
        if self._looks > _MOST:
            self.untried += 1
            return False
        large_first = sorted(back, key=lambda runner: (-self.outage.share(runner), runner.key))
        return self.settle(gone, large_first, {}, ()) is None


def _any(each: object) -> Hashable:
    return None


def _matched(first: Sequence[_T], second: Sequence[_T], kinds: Sequence[Callable[[_T], Hashable]]) -> dict[_T, _T]:
    """Return a partner in ``second`` for each of ``first``: of the same kind, by the finest in which there is one; else any."""
    found: dict[_T, _T] = {}
    left, others = list(first), list(second)
    for kind in (*kinds, _any):
        shelves: dict[Hashable, list[_T]] = {}
        for other in reversed(others):
            shelves.setdefault(kind(other), []).append(other)
        for each in left:
            if shelf := shelves.get(kind(each)):
                found[each] = shelf.pop()
        taken = {id(other) for other in found.values()}
        left, others = [each for each in left if each not in found], [other for other in others if id(other) not in taken]
    return found
