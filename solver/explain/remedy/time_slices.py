"""The time for a list of questions: what is left of it, and each question's share."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from ortools.sat.python import cp_model

from solver.cpsat.run import Answer, CpSat
from solver.explain.conflict.placement_question import PlacementQuestion
from solver.runtime.deadline import Deadline
from solver.runtime.options import Options
from solver.runtime.run_context import RunContext

#: Most questions are decided by presolve: each counts this part of its share.
CHARGED = 10


@dataclass
class TimeSlices:
    """``seconds`` of the clock; of CP-SAT's own where ``deterministic``, and then a question of ``PlacementQuestion.feasible``, which
    does not say what it took, is charged a fixed part of what it was granted."""

    seconds: float
    stop: threading.Event = field(default_factory=threading.Event)
    seed: int = 0
    deterministic: bool = False
    _started: float = field(default_factory=time.monotonic)
    _charged: float = 0.0
    _outer: TimeSlices | None = None

    def left(self) -> float:
        """Seconds left, 0 once told to stop."""
        if self.stop.is_set():
            return 0.0
        spent = self._charged if self.deterministic else time.monotonic() - self._started
        own = max(0.0, self.seconds - spent)
        return own if self._outer is None else min(own, self._outer.left())

    def section(self, share: float) -> TimeSlices:
        """A clock for a part of the work that may take this share of the whole time, and no more than what is left."""
        return TimeSlices(min(self.seconds * share, self.left()), self.stop, self.seed, self.deterministic, _outer=self)

    def ask(self, unit: PlacementQuestion, share: float = 0.125) -> bool | None:
        """Whether the unit can be placed, asked for at most this share of the whole time; None: not known in time."""
        granted = min(self.seconds * share, self.left())
        if granted <= 0:
            return None
        answer = unit.feasible(granted, self.stop, seed=self.seed, deterministic=self.deterministic)
        self._charge(granted / CHARGED)
        return answer

    def solve(self, model: cp_model.CpModel, share: float = 0.5, *, tight: bool = False) -> Answer:
        """A model of one's own. ``tight``: with the full linear relaxation."""
        granted = min(self.seconds * share, self.left())
        if granted <= 0:
            return Answer(cp_model.UNKNOWN, None, None)
        options = Options(time_limit=granted, seed=self.seed, deterministic=self.deterministic)
        budget = Deadline(options, time.monotonic())
        answer = CpSat(RunContext(options, budget, self.stop)).run(model, granted, tight=tight)
        self._charge(granted - budget.left())
        return answer

    def _charge(self, seconds: float) -> None:
        self._charged += seconds
        if self._outer is not None:
            self._outer._charge(seconds)
