"""Settings that the simulations of other controllers take over from the audit."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from kubestow.models.documents.policy import Policy
from kubestow.solver.runtime.options import Options


@dataclass(frozen=True)
class Settings:
    """Settings of a simulation.

    Attributes:
        preferences: The policy.
        exempt: Namespaces exempt from hard anti-affinity.
        time_limit: Seconds for the whole audit.
        deadline: End of the audit on the monotonic clock, in seconds.
        stop: Set when the user ends the audit.
    """

    preferences: Policy
    exempt: tuple[str, ...]
    time_limit: float
    deadline: float
    stop: threading.Event

    def options(self, parts: int) -> Options:
        """Return the options for one of ``parts`` searches.

        The searches share a quarter of the time, in CP-SAT's deterministic seconds, so that repeated runs agree.
        :meth:`limited` also ends them by the clock.
        """
        limit = self.time_limit / 4 / parts
        return Options(
            time_limit=limit, workers=2, deterministic=True, daemon_namespaces=self.exempt, policy=self.preferences, causes=False
        )

    @contextmanager
    def limited(self) -> Iterator[threading.Event]:
        """Yield an event that is set when the time is up or the user ends the audit."""
        over, done = threading.Event(), threading.Event()

        def watch() -> None:
            while not done.wait(0.2):
                if self.stop.is_set() or time.monotonic() > self.deadline:
                    over.set()
                    return

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield over
        finally:
            done.set()
            watcher.join()
