"""What an audit lets those do who judge the decisions of others."""

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
    """What the rest of the audit was asked for. ``time_limit``: seconds of the whole audit; ``deadline``: when it ends, on the monotonic
    clock; ``stop``: set where the user ends it."""

    preferences: Policy
    exempt: tuple[str, ...]
    time_limit: float
    deadline: float
    stop: threading.Event

    def options(self, parts: int) -> Options:
        """Return the options of one of so many searches. They get a quarter of the time in CP-SAT's deterministic seconds, so that two runs
        give the same; :meth:`limited` ends them by the clock as well."""
        limit = self.time_limit / 4 / parts
        return Options(
            time_limit=limit, workers=2, deterministic=True, daemon_namespaces=self.exempt, policy=self.preferences, causes=False
        )

    @contextmanager
    def limited(self) -> Iterator[threading.Event]:
        """Give an event that is set when the time is over, or the user ends the audit."""
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
