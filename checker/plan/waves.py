"""The checker's judgement of one wave. Its steps run in any order or at once, and no order may break a rule.

Each moving pod is at its source, nowhere, or at its target, independently of the others. A binding starts nowhere,
an eviction ends there. Two things are judged without enumerating these states:

* Each landing, with every other pod of the wave in any phase: no filter may reject it.
* Every pod at rest, with each other pod of the wave at its source or its target: it breaks no rule that it did not
  break in the snapshot or that the plan did not leave broken.

Every rule judges both by itself (:class:`kubestow.checker.rules.plans.WaveFace`). This is exact: a fault is reported
if and only if some state has it. Two cases are judged more strictly. Steps of one wave must not share an unbound
claim or a stock of free static volumes, because the result depends on their order. And other steps of the wave treat
the pods of a unit as arriving independently.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kubestow.checker.plan.document import PlanEntry
from kubestow.checker.plan.state import Board
from kubestow.checker.rules.plans import PodChange, Step, Wave, Worse
from kubestow.checker.violation import Violation


class NextWave:
    """A wave that is about to begin.

    Args:
        board: The state.
        steps: Entries of known pods on their current nodes, with known targets.
    """

    def __init__(self, board: Board, steps: Sequence[Sequence[PlanEntry]]) -> None:
        self._board = board
        self._entries: dict[PodChange, PlanEntry] = {}
        self.steps: list[Step] = [[self._change(entry) for entry in step] for step in steps]
        self._changes = list(self._entries)
        self._alone = len(self.steps) == 1
        wave = Wave(board, self.steps, self._changes, self._alone)
        self._faces = [face.wave(wave) for face in board.faces]

    def _change(self, entry: PlanEntry) -> PodChange:
        runner = self._board.runners[entry.pod]
        change = PodChange(runner, runner.at, runner.presence(entry.target) if entry.target is not None else None)
        self._entries[change] = entry
        return change

    def judge(self) -> Iterator[Violation]:
        """Yield all possible faults. When exhausted, the board is in the state after the wave."""
        board = self._board
        for change in self._changes:
            board.get_up(change.runner)
        for face in self._faces:
            yield from map(self._left, face.rest())
        for face in self._faces:
            for change, rule, why in face.order():
                yield self._violation(change, rule, why)
        for change in self._changes:
            if change.target is not None:
                board.put(change.target)
        for face in self._faces:
            yield from map(self._left, face.crowded())
        for step in self.steps:
            yield from self._step_faults(step)
        for change in self._changes if not self._alone else ():
            if change.source is not None and change.runner.steady:
                for face in self._faces:
                    yield from map(self._left, face.waiting(change))
        yield from self._done()

    def _done(self) -> Iterator[Violation]:
        """Apply the wave to the board and yield pods that are worse off."""
        board = self._board
        for face in self._faces:
            face.finish()
        for change in self._changes:
            if change.source is not None:
                board.lift(change.source)
                board.enter(change.source, -1)
            change.runner.at, change.runner.broke = change.target, frozenset()
            if change.target is not None:
                board.enter(change.target)
        for change in self._changes:
            board.settle_down(change.runner)
        for face in self._faces:
            yield from map(self._left, face.after())

    def _step_faults(self, step: Step) -> Iterator[Violation]:
        """Yield the faults of the landings of one step."""
        unit = len(step) > 1
        opened = [face.open_unit(step) if unit else [None] for face in self._faces]
        for i, change in enumerate(step):
            if change.target is None:
                continue
            place = self._board.places[change.target.node]
            for there in change.both():
                self._board.lift(there)
            mates = [mate for mate in step if mate is not change]
            for face, needs in zip(self._faces, opened, strict=True):
                for rule, why in face.landing(change, place, mates, needs[i]):
                    yield self._violation(change, rule, why)
            for face in self._faces:
                face.landed(change, place, unit=unit)
            for there in change.both():
                self._board.put(there)

    def _violation(self, change: PodChange, rule: str, why: str) -> Violation:
        entry = self._entries[change]
        return Violation(entry.pod, entry.place, rule, f"step {entry.step} (wave {entry.wave}): {why}")

    def _left(self, worse: Worse) -> Violation:
        node, wave = self._board.runners[worse.key].node, self._entries[self._changes[0]].wave
        return Violation(worse.key, node or "", worse.rule, f"wave {wave} makes it worse: {worse.why}")
