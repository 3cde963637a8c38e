"""The faces of a rule of the checker for plans: pods that run, leave and land while a wave lasts.

The steps of a wave run in any order. While it lasts, a moving pod counts on both of its nodes, independently of the
others. Each face asks two things of every state that this allows: does the rule accept each landing pod, and does a
pod at rest break a rule that it did not break before? The default knows nothing about a rule. It judges all pods
after each wave, and does not accept two steps of one wave that concern the rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, NamedTuple, Protocol

from kubestow.checker.reading.affinity_terms import AffinityMember
from kubestow.checker.rules.base import CheckedRule, Fault, Place, Reading, World
from kubestow.models.kube import objects


@dataclass(eq=False, slots=True)
class Presence:
    """A pod on a node.

    Attributes:
        runner: The pod.
        node: Name of the node.
        member: Its labels and required terms, separate for this node so that a pod can be on two nodes.
        placed: True if the plan placed it there.
    """

    runner: PlanRunner
    node: str
    member: AffinityMember
    placed: bool


@dataclass(eq=False, slots=True)
class PlanRunner:
    """A pod that runs on a node of the snapshot, or may be placed on one.

    Attributes:
        pod: The pod.
        key: Its ``namespace/name``.
        member: Its labels and required terms.
        steady: True if it is not terminating, so that its rules matter.
        at: Its current presence, or None.
        broke: Rules that it broke in the snapshot and may continue to break until it is moved.
        readings: The faces of rules that concern it, with what the rules read of it.
    """

    pod: objects.Pod
    key: str
    member: AffinityMember
    steady: bool
    at: Presence | None = None
    broke: frozenset[str] = frozenset()
    readings: Mapping[PlanFace[Any], Any] = field(default_factory=dict)

    @property
    def node(self) -> str | None:
        return self.at.node if self.at is not None else None

    def presence(self, node: str) -> Presence:
        """Return the pod as placed on a node by the plan."""
        member = self.member
        return Presence(self, node, AffinityMember(member.name, member.namespace, member.labels, member.terms, member.profile), True)


@dataclass(eq=False)
class PodChange:
    """One pod of a wave.

    Attributes:
        runner: The pod.
        source: Presence before the wave, or None.
        target: Presence after the wave, or None.
    """

    runner: PlanRunner
    source: Presence | None
    target: Presence | None

    def both(self) -> Iterator[Presence]:
        """Yield its presences while the wave lasts."""
        if self.source is not None:
            yield self.source
        if self.target is not None:
            yield self.target


Step = Sequence[PodChange]  # one pod, or the pods of a gang that are bound as a unit


class Worse(NamedTuple):
    """A pod at rest that a wave can make worse off: key, rule and reason."""

    key: str
    rule: str
    why: str


class Refusal(NamedTuple):
    """A fault of a moving pod: its change, rule and reason."""

    change: PodChange
    rule: str
    why: str


class BoardState(Protocol):
    """The running pods, as faces see them."""

    world: World
    places: dict[str, Place]
    runners: dict[str, PlanRunner]

    def put(self, there: Presence) -> None: ...
    def lift(self, there: Presence) -> None: ...


@dataclass
class Wave:
    """A wave that is about to begin.

    Attributes:
        board: The state.
        steps: Its steps.
        changes: Its pods.
        alone: True if it has one step only.
    """

    board: BoardState
    steps: Sequence[Step]
    changes: Sequence[PodChange]
    alone: bool


class WaveFace(Generic[Reading]):
    """A rule during one wave. The default does not accept two steps that concern the rule, and judges all pods afterwards."""

    def __init__(self, face: PlanFace[Reading], wave: Wave) -> None:
        self.face, self.wave = face, wave

    def reading(self, change: PodChange) -> Reading | None:
        """Return the reading of a moving pod, or None."""
        return change.runner.readings.get(self.face)

    def rest(self) -> Iterator[Worse]:
        """Yield pods that do not move and may become worse off while the wave lasts. No pod has moved yet."""
        yield from ()

    def order(self) -> Iterator[Refusal]:
        """Yield pods whose result depends on the order of the steps. No pod has moved yet."""
        first: Step | None = None
        for step in self.wave.steps if not self.wave.alone else ():
            concerned = [change for change in step if self.reading(change) is not None]
            if concerned and first is not None:
                why = f"{first[0].runner.key} moves in the same wave: the rule is judged one step after the other"
                yield Refusal(concerned[0], self.face.rule.names[0], why)
            first = first or (step if concerned else None)

    def crowded(self) -> Iterator[Worse]:
        """Yield pods that may become worse off with every moving pod on both of its nodes."""
        yield from ()

    def open_unit(self, step: Step) -> Sequence[Any]:
        """Return, for each pod of a unit, what :meth:`landing` needs of the state without the unit."""
        return [None] * len(step)

    def landing(self, change: PodChange, place: Place, mates: Step, opened: Any) -> Iterable[Fault]:
        """Return why the rule may reject a pod on its target. The pod is on neither node, the others on both of theirs.

        Args:
            change: The pod.
            place: Its target.
            mates: The other pods of its unit.
            opened: Its part of :meth:`open_unit`, or None without a unit.
        """
        reading = self.reading(change)
        return () if reading is None else self.face.rule.faults(reading, change.runner.pod, place)

    def landed(self, change: PodChange, place: Place, *, unit: bool) -> None:
        """Bind a pod to its target. ``unit``: others of its unit follow."""

    def waiting(self, change: PodChange) -> Iterator[Worse]:
        """Yield why a pod may become worse off before it moves."""
        yield from ()

    def finish(self) -> None:
        """Bind the pods of the wave that are not bound yet. They are still on both nodes."""

    def after(self) -> Iterator[Worse]:
        """Yield pods at rest that are worse off after the wave."""
        moved = {change.runner for change in self.wave.changes}
        board = self.wave.board
        for runner in board.runners.values():
            reading = runner.readings.get(self.face)
            if reading is None or runner.at is None or not runner.steady or runner in moved:
                continue
            there = runner.at
            board.lift(there)
            for rule, why in self.face.rule.faults(reading, runner.pod, board.places[there.node]):
                if rule not in runner.broke:
                    yield Worse(runner.key, rule, why)
            board.put(there)


class PlanFace(Generic[Reading]):
    """A rule over the running pods of a plan.

    Attributes:
        of: The rule's class.
        rule: The rule, with its state.
        board: The running pods.
    """

    of: ClassVar[type[CheckedRule[Any]] | None] = None
    in_wave: ClassVar[type[WaveFace[Any]]] = WaveFace

    def __init__(self, rule: CheckedRule[Reading], board: BoardState) -> None:
        self.rule, self.board = rule, board

    def begin(self) -> None:
        """Prepare for the pods, which are all known. None has been put on a node."""

    def put(self, reading: Reading, there: Presence) -> None:
        """Add a pod to a node, in addition to the one that it leaves."""
        self.rule.add(reading, there.runner.pod, self.board.places[there.node], placed=there.placed)

    def lift(self, reading: Reading, there: Presence) -> None:
        """Undo :meth:`put`."""
        self.rule.remove(reading, there.runner.pod, self.board.places[there.node], placed=there.placed)

    def enter(self, reading: Reading, there: Presence, by: int, *, judged: bool) -> None:
        """Add a pod to a node between waves, or remove it (``by`` -1). ``judged`` is False if no wave judges the change."""

    def bind(self, reading: Reading, there: Presence) -> None:
        """Bind what the pod claims on its node."""

    def settle_down(self, reading: Reading, runner: PlanRunner) -> None:
        """Register the pod's own rules, except those in ``broke``, so that breaking them is a fault."""

    def get_up(self, reading: Reading, runner: PlanRunner) -> None:
        """Undo :meth:`settle_down`."""

    def broken(self, reading: Reading, runner: PlanRunner, place: Place) -> Iterable[str]:
        """Return the rules that a pod breaks on its node. Cordons are ignored."""
        return ()

    def judges_away(self, reading: Reading) -> bool:
        """Return True if the pod has to be lifted for :meth:`broken_away`."""
        return True

    def broken_away(self, reading: Reading, runner: PlanRunner, place: Place) -> Iterable[str]:
        """Return the rules that a pod breaks on its node. The pod is lifted."""
        return [rule for rule, _ in self.rule.faults(reading, runner.pod, place)]

    def wave(self, wave: Wave) -> WaveFace[Any]:
        """Return the rule during a wave."""
        return self.in_wave(self, wave)

    def reset(self) -> Iterable[PlanRunner]:
        """Forget what binding pods created; return the pods to be reviewed."""
        return ()

    def due(self) -> Iterable[PlanRunner]:
        """Return the pods that may break the rule now and did not before the last call, or the reverse."""
        return [runner for runner in self.board.runners.values() if self in runner.readings]

    def note(self, runner: PlanRunner) -> None:
        """Remember whether the pod may continue to break the rule."""


class IndependentWave(WaveFace[Reading]):
    """A rule whose worst case is that every moving pod is on both nodes, and that leaves pods at rest alone."""

    def order(self) -> Iterator[Refusal]:
        yield from ()

    def after(self) -> Iterator[Worse]:
        yield from ()


class IndependentFace(PlanFace[Reading]):
    """A rule about the pods of one node, which more pods only make stricter."""

    in_wave = IndependentWave

    def due(self) -> Iterable[PlanRunner]:
        return ()


class StaticFace(IndependentFace[Reading]):
    """A rule about a pod and a node alone."""

    def put(self, reading: Reading, there: Presence) -> None:
        """Do nothing."""

    def lift(self, reading: Reading, there: Presence) -> None:
        """Do nothing."""

    def broken(self, reading: Reading, runner: PlanRunner, place: Place) -> Iterable[str]:
        return [rule for rule, _ in self.rule.faults(reading, runner.pod, place)]

    def judges_away(self, reading: Reading) -> bool:
        return False
