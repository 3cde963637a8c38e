"""The random choice of faults, determined by the seed."""

from __future__ import annotations

import random
from collections import Counter
from typing import Literal

from tests.api_server.behaviour import Behaviour

Fault = Literal["", "error before", "error after", "lost before", "lost after", "throttled"]


class Draw:
    """A generator of faults. A fault depends on the request and on the number of its repetitions."""

    def __init__(self, behaviour: Behaviour) -> None:
        self._seed, self._faults = behaviour.seed, behaviour.faults
        self._asked: Counter[str] = Counter()
        self._row: Counter[str] = Counter()

    def fault(self, method: str, path: str) -> tuple[Fault, int]:
        """Return the fault of a request, and the status code of an error."""
        faults = self._faults
        key = f"{method} {path}"
        self._asked[key] += 1
        shares: tuple[tuple[Fault, float], ...] = (
            ("error before", faults.error_before),
            ("error after", faults.error_after),
            ("lost before", faults.lost_before),
            ("lost after", faults.lost_after),
            ("throttled", faults.throttled),
        )
        if not any(share for _, share in shares) or (faults.only is not None and not faults.only(method, path)):
            return "", 0
        rng = random.Random(f"{self._seed}/fault/{key}/{self._asked[key]}")
        drawn = rng.random()
        for name, share in shares:
            drawn -= share
            if drawn < 0 and self._row[key] < faults.most:
                self._row[key] += 1
                return name, rng.choice((500, 502, 503, 504))
        self._row[key] = 0
        return "", 0

    def watch(self, path: str) -> tuple[int, bool]:
        """Return the number of events after which a watch ends (0: never), and whether it gets 410 at the start."""
        faults = self._faults
        key = f"WATCH {path}"
        self._asked[key] += 1
        rng = random.Random(f"{self._seed}/fault/{key}/{self._asked[key]}")
        gone = rng.random() < faults.gone and self._row[key] < faults.most
        self._row[key] = self._row[key] + 1 if gone else 0
        return (rng.randint(1, faults.watch_events) if faults.watch_events else 0), gone

    def late(self, method: str, path: str) -> float:
        """Return the delay of an answer, or of the next events of a watch, in seconds."""
        faults = self._faults
        if not faults.late or (faults.only is not None and not faults.only(method, path)):
            return 0.0
        key = f"LATE {method} {path}"
        self._asked[key] += 1
        return random.Random(f"{self._seed}/fault/{key}/{self._asked[key]}").random() * faults.late
