"""One pod of a wave, and units: pods of a gang that are bound together and see each other as present."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kubestow.checker.plan.affinity import Removal, TermSet
from kubestow.checker.plan.document import PlanEntry
from kubestow.checker.plan.spread import DomainMove
from kubestow.checker.plan.state import Board, PlanRunner, Presence
from kubestow.checker.rules import gangs, spread


@dataclass(eq=False)
class PodChange:
    """One pod of a wave.

    Attributes:
        entry: Its entry in the plan.
        runner: The pod.
        source: Presence before the wave, or None.
        target: Presence after the wave, or None.
        ways: Its removal as each matching ask sees it.
        moves: Its move as each tally counts it.
    """

    entry: PlanEntry
    runner: PlanRunner
    source: Presence | None
    target: Presence | None
    ways: dict[TermSet, Removal] = field(default_factory=dict)
    moves: dict[spread.Count, DomainMove] = field(default_factory=dict)

    def both(self) -> Iterator[Presence]:
        """Yield its presences while the wave lasts."""
        if self.source is not None:
            yield self.source
        if self.target is not None:
            yield self.target


Step = Sequence[PodChange]  # one pod, or the pods of a gang that are bound as a unit


def unit_faults(board: Board, step: Step, changes: Sequence[PodChange]) -> list[list[str]]:
    """Return, for each pod of a unit, why required affinity rejects it. The pods of a unit land together.

    Every other pod of the wave may be absent, at its source or at its target. Present, it may help, or prevent that the
    unit opens a domain. The worst cases are therefore that no other pod is present, and that exactly one is.
    """
    own = set(step)
    others = [there for change in changes for there in change.both()]
    for there in others:
        board.lift(there)
    unit = [(change.runner.member, board.nodes[change.target.node]) for change in step if change.target is not None]
    groups = {board.asks.of(member).group for member, _ in unit if member.terms.affinity}
    found = gangs.affinity_faults(board.affinity, unit)
    tried = set()
    for change in changes if groups else ():
        if change in own or not groups & {ask.group for ask in change.ways}:
            continue
        for there in change.both():
            kind = there.member.profile, there.node
            if kind not in tried:
                tried.add(kind)
                board.affinity.add(there.member, board.nodes[there.node])
                for faults, more in zip(found, gangs.affinity_faults(board.affinity, unit), strict=True):
                    faults += [why for why in more if why not in faults]
                board.affinity.remove(there.member, board.nodes[there.node])
    for there in others:
        board.put(there)
    return found


def counted_mates(mates: Step) -> Mapping[spread.Count, Counter[str]]:
    """Return the domains in which the other pods of a unit are counted, by tally."""
    found: dict[spread.Count, Counter[str]] = {}
    for mate in mates:
        for tally, move in mate.moves.items():
            if move.after is not None:
                found.setdefault(tally, Counter())[move.after] += 1
    return found
