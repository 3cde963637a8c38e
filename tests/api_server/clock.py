"""The clock of a simulated cluster: an ordered queue of future events. Time, in microseconds, advances only on request."""

from __future__ import annotations

import heapq
from collections.abc import Callable


class Clock:
    """A queue of future events.

    Attributes:
        now: Microseconds since the start.
        on_later: Called when a new event becomes the next one.
    """

    def __init__(self) -> None:
        self.now = 0
        self.on_later: Callable[[], None] = lambda: None
        self._count = 0
        self._heap: list[tuple[int, int, Callable[[], object]]] = []

    def later(self, seconds: float, action: Callable[[], object]) -> None:
        """Schedule an action. Actions with the same time run in the order in which they were scheduled."""
        self._count += 1
        due = self.now + round(seconds * 1_000_000)
        heapq.heappush(self._heap, (due, self._count, action))
        if self._heap[0][1] == self._count:
            self.on_later()

    def due(self) -> int | None:
        """Return the time of the next event, or None if there is none."""
        return self._heap[0][0] if self._heap else None

    def advance(self, until: int) -> None:
        """Advance the time, and run the actions that become due."""
        while self._heap and self._heap[0][0] <= until:
            due, _, action = heapq.heappop(self._heap)
            self.now = max(self.now, due)
            action()
        self.now = max(self.now, until)

    def run_out(self, most: int) -> None:
        """Run all scheduled actions, up to a maximum number of events.

        Raises:
            RuntimeError: Actions remain after ``most`` events.
        """
        for _ in range(most):
            if not self._heap:
                return
            self.advance(self._heap[0][0])
        if self._heap:
            raise RuntimeError(f"the world does not come to rest in {most} events")
