"""Time slices for a list of queries: the remaining time, and the fraction that each may use."""

from __future__ import annotations

from dataclasses import dataclass

from kubestow.solver.cpsat.run import CpSat, CpSatAnswer
from kubestow.solver.explain.conflict.placement_question import PlacementQuestion
from kubestow.solver.ortools import cp_model
from kubestow.solver.runtime.options import Options
from kubestow.solver.runtime.run_context import RunContext

#: Divisor of a granted time that a query is charged, because presolve decides most queries.
CHARGE_DIVISOR = 10
#: Seconds instead of zero, because a time limit must be positive.
MIN_SECONDS = 1e-9


@dataclass
class TimeSlices:
    """The time for a series of queries.

    ``PlacementQuestion.feasible`` does not report its time. So in a deterministic run, each such query is
    charged a fixed part of its grant.

    Attributes:
        seconds: Time until the context's deadline at the start.
        open_queries: Queries that stayed open, because the time or a limit of the caller was reached.
    """

    context: RunContext
    seconds: float
    _outer: TimeSlices | None = None
    open_queries: int = 0

    def leave_open(self) -> None:
        """Record a query that stays open."""
        self.open_queries += 1
        if self._outer is not None:
            self._outer.leave_open()

    def remaining(self) -> float:
        """Return the remaining seconds; 0 after a stop."""
        if self.context.stop.is_set():
            return 0.0
        own = max(0.0, self.context.deadline.remaining())
        return own if self._outer is None else min(own, self._outer.remaining())

    def _part(self, seconds: float) -> RunContext:
        options = self.context.options
        return RunContext.start(
            Options(time_limit=max(seconds, MIN_SECONDS), seed=options.seed, deterministic=options.deterministic), self.context.stop
        )

    def section(self, share: float) -> TimeSlices:
        """Return the time for a part of the work: this fraction of the whole time, limited by the remaining time."""
        seconds = min(self.seconds * share, self.remaining())
        return TimeSlices(self._part(seconds), seconds, _outer=self)

    def ask(self, question: PlacementQuestion, share: float = 0.125) -> bool | None:
        """Return whether the pods can be placed, using at most this fraction of the whole time; None if time runs out."""
        granted = min(self.seconds * share, self.remaining())
        answer = question.feasible(self._part(granted)) if granted > 0 else None
        self._charge(granted / CHARGE_DIVISOR)
        if answer is None:
            self.leave_open()
        return answer

    def solve(self, model: cp_model.CpModel, share: float = 0.5, *, tight: bool = False) -> CpSatAnswer:
        """Solve a model within this fraction of the whole time.

        Args:
            tight: True to use the full linear relaxation.
        """
        granted = min(self.seconds * share, self.remaining())
        if granted <= 0:
            self.leave_open()
            return CpSatAnswer(cp_model.UNKNOWN, None, None)
        part = self._part(granted)
        answer = CpSat(part).run(model, granted, tight=tight)
        self._charge(granted - part.deadline.remaining())
        if answer.status == cp_model.UNKNOWN:
            self.leave_open()
        return answer

    def _charge(self, seconds: float) -> None:
        self.context.deadline.charge(seconds)
        if self._outer is not None:
            self._outer._charge(seconds)
