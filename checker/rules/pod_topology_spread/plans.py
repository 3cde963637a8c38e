"""PodTopologySpread in plans: the limits that running pods impose, and waves that may exceed them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import cast

from kubestow.checker.rules.base import CheckedRule, Fault, Place
from kubestow.checker.rules.plans import BoardState, PlanFace, PlanRunner, PodChange, Presence, Refusal, Step, Wave, WaveFace, Worse
from kubestow.checker.rules.pod_topology_spread import state
from kubestow.checker.rules.pod_topology_spread.changing_nodes import ChangingTallies
from kubestow.checker.rules.pod_topology_spread.flows import DomainMove, DomainWatch, Stake
from kubestow.checker.rules.pod_topology_spread.rule import PodTopologySpread, SpreadReading

RULE = "PodTopologySpread"
Moves = Mapping[state.Count, DomainMove]


class SpreadWave(WaveFace[SpreadReading]):
    """The domains in which the pods of a wave are counted."""

    face: SpreadInPlans

    def __init__(self, face: SpreadInPlans, wave: Wave) -> None:
        super().__init__(face, wave)
        self._tallies = face.tallies
        self._moves: dict[PodChange, Moves] = {}
        by_tally: dict[state.Count, list[DomainMove]] = {}
        for change in wave.changes:
            reading = self.reading(change)
            places = (wave.board.places.get(there.node) if there is not None else None for there in (change.source, change.target))
            before, after = (dict(state.domains(reading.counts, at.node)) if reading and at is not None else {} for at in places)
            self._moves[change] = moves = {tally: DomainMove(before.get(tally), after.get(tally)) for tally in (before | after)}
            for tally, move in moves.items():
                by_tally.setdefault(tally, []).append(move)
        self._flows = {tally: self._tallies.flow(tally, moves) for tally, moves in by_tally.items()}

    def rest(self) -> Iterator[Worse]:
        for flow in self._flows.values():
            for name, why in self._tallies.rest_faults(flow):
                yield Worse(name, RULE, why)

    def order(self) -> Iterator[Refusal]:
        yield from ()

    def landing(self, change: PodChange, place: Place, mates: Step, opened: None) -> Iterator[Fault]:
        reading = self.reading(change)
        if reading is not None:
            counts: dict[state.Count, Counter[str]] = {}  # domains in which the other pods of its unit are counted
            for mate in mates:
                for tally, move in self._moves[mate].items():
                    if move.after is not None:
                        counts.setdefault(tally, Counter())[move.after] += 1
            for why in self._tallies.landing_faults(reading.own, place.name, self._flows, self._moves[change], counts):
                yield RULE, why

    def waiting(self, change: PodChange) -> Iterator[Worse]:
        for why in self._tallies.own_faults(self.face.stakes.get(change.runner, ()), self._flows, self._moves[change]):
            yield Worse(change.runner.key, RULE, f"before it moves: {why}")

    def after(self) -> Iterator[Worse]:
        yield from ()


class SpreadInPlans(PlanFace[SpreadReading]):
    """Pod counts per domain, and limits on them.

    Attributes:
        tallies: The counts.
        stakes: Limits that each pod imposes on domains.
    """

    of = PodTopologySpread

    in_wave = SpreadWave

    def __init__(self, rule: CheckedRule[SpreadReading], board: BoardState) -> None:
        super().__init__(rule, board)
        self.tallies = cast("PodTopologySpread", rule).state
        self.stakes: dict[PlanRunner, list[Stake]] = {}
        self._marked: dict[PlanRunner, None] = {}  # pods that may continue to break the rule
        self._least: dict[DomainWatch, int] = {}

    def put(self, reading: SpreadReading, there: Presence) -> None:
        """Do nothing: a moving pod is counted between waves only (:meth:`enter`)."""

    def lift(self, reading: SpreadReading, there: Presence) -> None:
        """Do nothing."""

    def enter(self, reading: SpreadReading, there: Presence, by: int, *, judged: bool) -> None:
        tallies = self.tallies
        for tally, domain in state.domains(reading.counts, self.board.places[there.node].node):
            tally.change(domain, by)
            if isinstance(tallies, ChangingTallies):
                tallies.touched.setdefault(tally, set()).add(domain)

    def settle_down(self, reading: SpreadReading, runner: PlanRunner) -> None:
        if reading.own.constraints and runner.at is not None:
            self.stakes[runner] = self.tallies.stakes(reading.own, runner.at.node, depth=RULE in runner.broke)
            self.tallies.hold(self.stakes[runner], runner.key)

    def get_up(self, reading: SpreadReading, runner: PlanRunner) -> None:
        self.tallies.release(self.stakes.get(runner, ()), runner.key)

    def broken(self, reading: SpreadReading, runner: PlanRunner, place: Place) -> tuple[str, ...]:
        return (RULE,) if state.faults(reading.own, place.node, running=True) else ()

    def judges_away(self, reading: SpreadReading) -> bool:
        return False

    def due(self) -> Iterable[PlanRunner]:
        """Return the pods in domains whose limit is exceeded now, and those that broke a constraint whose counts changed."""
        tallies, found = self.tallies, dict[PlanRunner, None]()
        if not isinstance(tallies, ChangingTallies):
            return self.board.runners.values()
        for tally, domains in tallies.touched.items():
            for watch in tallies.watches(tally):
                least = tally.minimum(watch.min_domains)
                known = self._least.get(watch) == least
                self._least[watch] = least
                for domain in [domain for domain in domains if domain in watch.allowed] if known else watch.allowed:
                    excess = tally.domains.get(domain, 0) - least
                    for allowed, names in watch.allowed[domain].items():
                        if excess > allowed:
                            found.update((self.board.runners[name], None) for name in names)
        own = ((runner, runner.readings[self].own) for runner in self._marked)
        found.update((runner, None) for runner, read in own if any(c.tally in tallies.touched for c in read.constraints))
        tallies.touched.clear()
        return found

    def note(self, runner: PlanRunner) -> None:
        if RULE in runner.broke:
            self._marked[runner] = None
        else:
            self._marked.pop(runner, None)
