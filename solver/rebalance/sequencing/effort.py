"""What looking for an order of steps may take: seconds of the clock, or looks at the state, counted, in a deterministic run."""

from __future__ import annotations

import time
from typing import Final

from kubestow.solver.runtime.run_context import RunContext

#: Deterministic seconds that one look counts, and each node that it judges.
LOOK: Final = 5e-5
NODE: Final = 2e-7


class Effort:
    """One search for an order within ``seconds``. A deterministic run never looks at the clock: what it finds must not depend on how
    busy the machine is."""

    def __init__(self, context: RunContext, seconds: float, nodes: int) -> None:
        self._context, self._seconds = context, seconds
        self._cost = LOOK + NODE * nodes
        self._looks = 0
        self._began = 0.0 if context.options.deterministic else time.monotonic()

    def spent(self) -> float:
        """Return the seconds that are over."""
        return self._looks * self._cost if self._context.options.deterministic else time.monotonic() - self._began

    def over(self, share: float = 1.0) -> bool:
        """Return whether this share of the time is up or a stop was asked for. Asked once a look: that is what is counted."""
        self._looks += 1
        return self._context.stop.is_set() or self.spent() > self._seconds * share

    def leaves(self, seconds: float) -> bool:
        """Return whether so many seconds more are within the time."""
        return self.spent() + seconds <= self._seconds
