"""Turns of the moves of a search: groups of classes alternate with the move that gained most per second."""

from __future__ import annotations

from collections.abc import Iterable

from kubestow.solver.search.outcome import LARGE_INSTANCE_PODS

#: Seconds of a turn with few pods. It gets as many again per LARGE_INSTANCE_PODS pods, because adopting a result takes time too.
TURN_SECONDS = 3.0
#: In every Nth turn of the moves other than groups, take another one than that with the best gain rate.
EXPLORE_INTERVAL = 3
GROUPS = "groups"  #: The move that bounds groups of classes and places them.


def turn_seconds(pods: int) -> float:
    """Return the length of a turn of a search that moves this many pods."""
    return TURN_SECONDS * (1 + pods / LARGE_INSTANCE_PODS)


class TurnScheduler:
    """Choice of the next move.

    Args:
        names: The moves. Of moves that have not run yet, the first is next.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.rates = dict.fromkeys(names, float("inf"))  # gain per second of each move's last turn
        self._turn = 0

    def next(self, *, groups_due: bool) -> str:
        """Return the next move: groups if they are due or nothing else is left, or else the best of the others."""
        others = sorted((name for name in self.rates if name != GROUPS), key=lambda name: -self.rates[name])
        if GROUPS in self.rates and (groups_due or not others):
            return GROUPS
        self._turn += 1
        rounds, rest = divmod(self._turn, EXPLORE_INTERVAL)
        return others[0 if rest else rounds % len(others)]

    def note(self, name: str, gain: float, seconds: float) -> None:
        """Record the gain of a turn."""
        self.rates[name] = gain / max(seconds, 1e-3)

    def retire(self, name: str) -> None:
        """Drop a move that has nothing left to do."""
        del self.rates[name]
