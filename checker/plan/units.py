"""One pod of a wave, and pods of a gang that bind as a unit: they see each other as present."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kubestow.checker.plan.affinity import Ask, Removal
from kubestow.checker.plan.document import Entry
from kubestow.checker.plan.spread import Move
from kubestow.checker.plan.state import Board, Presence, Runner
from kubestow.checker.rules import gangs, spread


@dataclass(eq=False)
class Change:
    """One pod of a wave. ``source``, ``target``: where it is before and after; ``ways``, ``moves``: of it, as asks and tallies see it."""

    entry: Entry
    runner: Runner
    source: Presence | None
    target: Presence | None
    ways: dict[Ask, Removal] = field(default_factory=dict)
    moves: dict[spread.Count, Move] = field(default_factory=dict)

    def both(self) -> Iterator[Presence]:
        """Its presences while the wave lasts."""
        if self.source is not None:
            yield self.source
        if self.target is not None:
            yield self.target


Step = Sequence[Change]  # one, or the pods of a gang that bind as a unit


def unit_faults(board: Board, step: Step, changes: Sequence[Change]) -> list[list[str]]:
    """Required affinity of pods that bind as a unit, as they land. Others of the wave help only while they are there, and harm (whose
    unit opens a domain) by being anywhere: so the worst cases are that none of them is there, and that one of them is, alone."""
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
    """Return where the other pods of a unit are counted, by tally."""
    found: dict[spread.Count, Counter[str]] = {}
    for mate in mates:
        for tally, move in mate.moves.items():
            if move.after is not None:
                found.setdefault(tally, Counter())[move.after] += 1
    return found
