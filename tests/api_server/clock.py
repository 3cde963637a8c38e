"""The clock of a world: what is to happen later, in order. Time is in microseconds and passes only when it is told to."""

from __future__ import annotations

import heapq
from collections.abc import Callable


class Clock:
    """``now``: microseconds since the world began. ``on_later``: called when something new is the next thing to happen."""

    def __init__(self) -> None:
        self.now = 0
        self.on_later: Callable[[], None] = lambda: None
        self._count = 0
        self._heap: list[tuple[int, int, Callable[[], object]]] = []

    def later(self, seconds: float, action: Callable[[], object]) -> None:
        """Do this after some time; what has the same time is done in the order in which it was asked for."""
        self._count += 1
        due = self.now + round(seconds * 1_000_000)
        heapq.heappush(self._heap, (due, self._count, action))
        if self._heap[0][1] == self._count:
            self.on_later()

    def due(self) -> int | None:
        """Return when the next thing happens."""
        return self._heap[0][0] if self._heap else None

    def advance(self, until: int) -> None:
        """Let time pass until then, and do what is due."""
        while self._heap and self._heap[0][0] <= until:
            due, _, action = heapq.heappop(self._heap)
            self.now = max(self.now, due)
            action()
        self.now = max(self.now, until)

    def run_out(self, most: int) -> None:
        """Do everything that there is to do, however late, at most so many things.

        Raises:
            RuntimeError: there is more.
        """
        for _ in range(most):
            if not self._heap:
                return
            self.advance(self._heap[0][0])
        if self._heap:
            raise RuntimeError(f"the world does not come to rest in {most} events")
