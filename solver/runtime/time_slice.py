"""A slice of the remaining time of a run: one step may use it, and checks it as it works."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from kubestow.solver.runtime.deadline import Deadline


@dataclass
class TimeSlice:
    """Time granted to one step. Get one from :meth:`kubestow.solver.runtime.run_context.RunContext.slice`.

    Attributes:
        deadline: Remaining time of the run.
        stop: Event that ends the run.
        end: The slice is over when no more than these seconds of the run remain.
        charge: Deterministic seconds that each check charges. They represent the work until the next check.
        patience: Checks after the last improvement at which the slice is over. None: it lasts until its end.
    """

    deadline: Deadline
    stop: threading.Event
    end: float
    charge: float = 0.0
    patience: int | None = None
    _idle: int = field(default=0, init=False)

    def remaining(self) -> float:
        """Return the remaining seconds of the slice."""
        return self.deadline.remaining() - self.end

    def part(self, fraction: float, *, charge: float = 0.0) -> TimeSlice:
        """Return a slice that takes a fraction of the remaining time of this one."""
        now = self.deadline.remaining()
        return TimeSlice(self.deadline, self.stop, now - (now - self.end) * fraction, charge)

    def is_over(self) -> bool:
        """Charge one check. Return True if no time or patience remains, or if a stop was requested."""
        self.deadline.charge(self.charge)
        self._idle += 1
        return self.stop.is_set() or self.remaining() <= 0 or (self.patience is not None and self._idle >= self.patience)

    def improved(self) -> None:
        """Count checks for the patience from now on."""
        self._idle = 0
