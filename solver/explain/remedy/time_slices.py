"""The time for a list of questions: what is left of it, and each question's share."""

from __future__ import annotations

from dataclasses import dataclass

from ortools.sat.python import cp_model

from kubestow.solver.cpsat.run import Answer, CpSat
from kubestow.solver.explain.conflict.placement_question import PlacementQuestion
from kubestow.solver.runtime.options import Options
from kubestow.solver.runtime.run_context import RunContext

#: Most questions are decided by presolve: each counts this part of its share.
CHARGED = 10
#: Seconds in place of none: a time limit is positive.
NONE = 1e-9


@dataclass
class TimeSlices:
    """``seconds``: until the context's deadline, at the beginning. In a deterministic run a question of ``PlacementQuestion.feasible``,
    which does not say what it took, is charged a fixed part of what it was granted."""

    context: RunContext
    seconds: float
    _outer: TimeSlices | None = None

    def left(self) -> float:
        """Return the seconds left, 0 once told to stop."""
        if self.context.stop.is_set():
            return 0.0
        own = max(0.0, self.context.deadline.left())
        return own if self._outer is None else min(own, self._outer.left())

    def _part(self, seconds: float) -> RunContext:
        options = self.context.options
        return RunContext.start(
            Options(time_limit=max(seconds, NONE), seed=options.seed, deterministic=options.deterministic), self.context.stop
        )

    def section(self, share: float) -> TimeSlices:
        """Return the time for a part of the work that may take this share of the whole, and no more than what is left."""
        seconds = min(self.seconds * share, self.left())
        return TimeSlices(self._part(seconds), seconds, _outer=self)

    def ask(self, question: PlacementQuestion, share: float = 0.125) -> bool | None:
        """Return whether the pods can be placed, asked for at most this share of the whole time; None: not known in time."""
        granted = min(self.seconds * share, self.left())
        if granted <= 0:
            return None
        answer = question.feasible(self._part(granted))
        self._charge(granted / CHARGED)
        return answer

    def solve(self, model: cp_model.CpModel, share: float = 0.5, *, tight: bool = False) -> Answer:
        """Solve a model in at most this share of the whole time. ``tight``: with the full linear relaxation."""
        granted = min(self.seconds * share, self.left())
        if granted <= 0:
            return Answer(cp_model.UNKNOWN, None, None)
        part = self._part(granted)
        answer = CpSat(part).run(model, granted, tight=tight)
        self._charge(granted - part.deadline.left())
        return answer

    def _charge(self, seconds: float) -> None:
        self.context.deadline.charge(seconds)
        if self._outer is not None:
            self._outer._charge(seconds)
