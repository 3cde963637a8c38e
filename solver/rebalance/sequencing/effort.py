"""The effort of a search for an order: clock seconds, or counted queries in a deterministic run."""

from __future__ import annotations

import time
from typing import Final

from kubestow.solver.runtime.run_context import RunContext

#: Deterministic seconds per query.
QUERY_SECONDS: Final = 5e-5
#: Deterministic seconds per node that a query judges.
NODE_SECONDS: Final = 2e-7


class Effort:
    """One search for an order within ``seconds``.

    A deterministic run never reads the clock, because its result must not depend on the machine's load.
    """

    def __init__(self, context: RunContext, seconds: float, nodes: int) -> None:
        self._context, self._seconds = context, seconds
        self._cost = QUERY_SECONDS + NODE_SECONDS * nodes
        self._queries = 0
        self._began = 0.0 if context.options.deterministic else time.monotonic()

    def spent(self) -> float:
        """Return the seconds that have passed."""
        return self._queries * self._cost if self._context.options.deterministic else time.monotonic() - self._began

    def over(self, share: float = 1.0) -> bool:
        """Return True if this fraction of the time is up or a stop was requested. Each call counts as one query."""
        self._queries += 1
        return self._context.stop.is_set() or self.spent() > self._seconds * share
