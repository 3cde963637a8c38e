"""The moves of the search for preferences, which take turns: groups, groups again, neighbourhoods, annealing."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from kubestow.solver.cpsat.run import CpSat
from kubestow.solver.search.annealing import MAX_SWEEPS, START_TEMPERATURE, WARM_TEMPERATURE, SearchClock, anneal
from kubestow.solver.search.groups import ClassGroups
from kubestow.solver.search.lns import Lns
from kubestow.solver.search.local_search import LocalSearch
from kubestow.solver.search.outcome import SoftOutcome
from kubestow.solver.search.parameters import PreferenceSearchParameters
from kubestow.solver.search.second_search import Peer
from kubestow.solver.search.turns import GROUPS

#: A move: gets the seconds when it should end and when it must, and returns False if nothing is left to do.
Move = Callable[[float, float], bool]


@dataclass
class PreferenceMoves:
    """Moves that change the state of ``search``.

    Attributes:
        best: The incumbent. Only its bound changes.
        groups: Groups of the classes.
        peer: The search in another process.
        many: True if adopting a result takes so long that several moves share a turn.
        value: Returns the points of the search's placement.
    """

    best: SoftOutcome
    search: LocalSearch
    groups: ClassGroups
    cpsat: CpSat
    clock: SearchClock
    peer: Peer
    parameters: PreferenceSearchParameters
    many: bool
    value: Callable[[], int]

    def by_name(self, *, groups_only: bool) -> dict[str, Move]:
        """Return the moves by name, in the order in which they first run."""
        moves: dict[str, Move] = {GROUPS: self._bound}
        if not groups_only and self.search.pairs:
            self._lns = Lns(self.search, self.cpsat)
            moves["neighbourhoods"] = self._neighbourhoods  # first, because annealing has exhausted moves of single pods
            if not self.many:
                moves["moves"] = lambda seconds, _: self.groups.move_again(self.best, seconds)
            moves["anneal"] = lambda seconds, _: self._settle(seconds, WARM_TEMPERATURE)
        return moves

    def _report(self, value: int) -> None:
        context = self.clock.context
        context.report(context.phase, "soft", value, self.best.bound)

    def _settle(self, seconds: float, hot: float, only: set[int] | None = None) -> bool:
        base = self.value()
        clock = self.clock.of(self.search, seconds, MAX_SWEEPS)
        anneal(self.search, clock, hot=hot, only=only, on_better=lambda gain: self._report(base + gain))
        return bool(self.search.pairs)

    def _neighbourhoods(self, seconds: float, _: float) -> bool:
        base = self.best.value
        self._lns.improve(self.clock.context.slice(cap=seconds).is_over, lambda gain: self._report(base + gain))
        return bool(self.search.pairs)

    def _bound(self, seconds: float, time_limit: float) -> bool:
        if self.peer.bounds:
            if not (self.groups.waiting or self.search.pairs):
                time.sleep(self.parameters.poll_seconds)  # wait for a message of the other search
            self.groups.place(self.best, seconds)
            return True
        if not self.many:
            return self.groups.bound(self.best, seconds, time_limit)
        whole = self.clock.context.slice(cap=min(seconds, time_limit))  # adopting a result takes long: pods settle in the same turn
        more = self.groups.bound(self.best, seconds * self.parameters.large_groups_fraction, time_limit)
        self._settle(whole.remaining(), START_TEMPERATURE * self.parameters.large_hot_fraction, self.groups.losing())
        return more
