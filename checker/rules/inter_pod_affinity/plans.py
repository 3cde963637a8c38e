"""InterPodAffinity in plans: anti-affinity counts moving pods on both nodes, required affinity in every state of a wave."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import cast

from kubestow.checker.reading.affinity_terms import AffinityMember
from kubestow.checker.rules.base import CheckedRule, Fault, Place
from kubestow.checker.rules.inter_pod_affinity.flows import AffinityFlow, Asks, Removal, TermSet
from kubestow.checker.rules.inter_pod_affinity.flows import Place as Domains
from kubestow.checker.rules.inter_pod_affinity.rule import InterPodAffinity
from kubestow.checker.rules.inter_pod_affinity.units import affinity_faults
from kubestow.checker.rules.plans import BoardState, PlanFace, PlanRunner, PodChange, Presence, Refusal, Step, Wave, WaveFace, Worse

RULE = "InterPodAffinity"


class AffinityWave(WaveFace[AffinityMember]):
    """The places of the pods of a wave, as the terms of others see them."""

    face: AffinityInPlans

    def __init__(self, face: AffinityInPlans, wave: Wave) -> None:
        super().__init__(face, wave)
        self._asks = face.asks
        self._ways: dict[PodChange, dict[TermSet, Removal]] = {}
        by_ask: dict[TermSet, list[Removal]] = {}
        for change in wave.changes:
            source, target = (there.node if there is not None else None for there in (change.source, change.target))
            answered = self._asks.answered(change.runner.member) if self.reading(change) is not None else ()
            ways = {ask: Removal(self._asks.place(ask, source), self._asks.place(ask, target)) for ask in answered}
            self._ways[change] = ways
            for ask, way in ways.items():
                by_ask.setdefault(ask, []).append(way)
        self._flows = {ask: AffinityFlow(ask, ways) for ask, ways in by_ask.items()}

    def rest(self) -> Iterator[Worse]:
        for ask, flow in self._flows.items():
            for seat in flow.affected():
                if flow.can_miss(seat, rests=True, midway=False):
                    yield Worse(next(iter(ask.seats[seat])), RULE, f"it can miss a pod that it has to be near ({_terms(ask, seat.place)})")

    def order(self) -> Iterator[Refusal]:
        yield from ()

    def open_unit(self, step: Step) -> list[list[str]]:
        """Return, for each pod of a unit, why required affinity rejects it. The pods of a unit land together.

        Every other pod of the wave may be absent, at its source or at its target. Present, it may help, or prevent that
        the unit opens a domain. The worst cases are therefore that no other pod is present, and that exactly one is.
        """
        board, state = self.wave.board, self.face.rule_state
        own, others = set(step), [there for change in self.wave.changes for there in change.both()]
        for there in others:
            board.lift(there)
        unit = [(change.runner.member, board.places[change.target.node].node) for change in step if change.target is not None]
        groups = {self._asks.of(member).group for member, _ in unit if member.terms.affinity}
        found = affinity_faults(state, unit)
        tried = set()
        for change in self.wave.changes if groups else ():
            if change in own or not groups & {ask.group for ask in self._ways[change]}:
                continue
            for there in change.both():
                kind = there.member.profile, there.node
                if kind not in tried:
                    tried.add(kind)
                    node = board.places[there.node].node
                    state.add(there.member, node)
                    for faults, more in zip(found, affinity_faults(state, unit), strict=True):
                        faults += [why for why in more if why not in faults]
                    state.remove(there.member, node)
        for there in others:
            board.put(there)
        return found

    def landing(self, change: PodChange, place: Place, mates: Step, opened: Sequence[str] | None) -> Iterator[Fault]:
        member = self.reading(change)
        if member is None:
            return
        if self.face.judges_away(member):
            yield from ((RULE, why) for why in self.face.rule_state.anti_faults(change.runner.member, place.node))
        yield from ((RULE, why) for why in opened or ())
        if member.terms.affinity:
            yield from ((RULE, why) for why in self._affinity_faults(change, place, mates))

    def _affinity_faults(self, change: PodChange, place: Place, mates: Step) -> Iterator[str]:
        """Yield faults of a pod's required affinity on its target: at landing, or for a unit after the whole unit has landed."""
        ask = self._asks.of(change.runner.member)
        places = [way.after for mate in mates if (way := self._ways[mate].get(ask)) is not None and way.after is not None]
        seat = self._asks.seat(change.runner.member, place.name)
        if mates:
            others = (other for other in self.wave.changes if other not in mates and other is not change)
            ways = [way for other in others if (way := self._ways[other].get(ask))]
            if AffinityFlow(ask, ways).can_miss(seat, rests=False, midway=False, mates=places):
                yield "with all of its unit there, it can miss a pod that it has to be near"
        elif (self._flows.get(ask) or AffinityFlow(ask, ())).can_miss(seat, self._ways[change].get(ask), rests=False, midway=True):
            yield f"a pod that it has to be near can be missing ({_terms(ask, seat.place)})"

    def waiting(self, change: PodChange) -> Iterator[Worse]:
        runner, source = change.runner, change.source
        if source is None or not runner.member.terms.affinity or RULE in runner.broke:
            return
        ask = self._asks.of(runner.member)
        flow, seat = self._flows.get(ask), self._asks.seat(runner.member, source.node)
        if flow is not None and flow.can_miss(seat, self._ways[change].get(ask), rests=False, midway=False):
            yield Worse(runner.key, RULE, f"before it moves it can miss a pod that it has to be near ({_terms(ask, seat.place)})")

    def after(self) -> Iterator[Worse]:
        yield from ()


class AffinityInPlans(PlanFace[AffinityMember]):
    """The pods of each domain, and those that have to stay near others.

    Attributes:
        rule_state: The pods of each domain.
        asks: The affinity terms of all pods.
    """

    of = InterPodAffinity

    in_wave = AffinityWave

    def __init__(self, rule: CheckedRule[AffinityMember], board: BoardState) -> None:
        super().__init__(rule, board)
        self.rule_state = cast("InterPodAffinity", rule).state
        self.asks = Asks(self.rule_state, {name: place.node for name, place in board.places.items()})
        self._marked: dict[PlanRunner, None] = {}  # pods that may continue to break the rule
        self._moved = self._joined = False

    def begin(self) -> None:
        self.asks.read(runner.member for runner in self.board.runners.values())

    def put(self, reading: AffinityMember, there: Presence) -> None:
        self.rule_state.add(there.member, self.board.places[there.node].node)

    def lift(self, reading: AffinityMember, there: Presence) -> None:
        self.rule_state.remove(there.member, self.board.places[there.node].node)

    def enter(self, reading: AffinityMember, there: Presence, by: int, *, judged: bool) -> None:
        self.asks.count(there.runner.member, there.node, by)
        self._moved = True
        self._joined |= not judged

    def settle_down(self, reading: AffinityMember, runner: PlanRunner) -> None:
        if runner.member.terms.affinity and RULE not in runner.broke and runner.at is not None:
            self.asks.of(runner.member).sit(self.asks.seat(runner.member, runner.at.node), runner.key)

    def get_up(self, reading: AffinityMember, runner: PlanRunner) -> None:
        if runner.member.terms.affinity and runner.at is not None:
            self.asks.of(runner.member).rise(self.asks.seat(runner.member, runner.at.node), runner.key)

    def broken(self, reading: AffinityMember, runner: PlanRunner, place: Place) -> tuple[str, ...]:
        return (RULE,) if reading.terms.affinity and self.asks.is_lonely(runner.member, place.name) else ()

    def judges_away(self, reading: AffinityMember) -> bool:
        return bool(reading.terms.fault) or self.rule_state.is_concerned(reading)

    def broken_away(self, reading: AffinityMember, runner: PlanRunner, place: Place) -> tuple[str, ...]:
        return (RULE,) if self.rule_state.anti_faults(runner.member, place.node) else ()

    def due(self) -> Iterable[PlanRunner]:
        """Return all pods that terms tie if pods joined or left with their node, else those that broke the rule if pods moved."""
        joined, moved = self._joined, self._moved
        self._joined = self._moved = False
        if joined:
            return [runner for runner in self.board.runners.values() if self in runner.readings]
        return list(self._marked) if moved else ()

    def note(self, runner: PlanRunner) -> None:
        if RULE in runner.broke:
            self._marked[runner] = None
        else:
            self._marked.pop(runner, None)


def _terms(ask: TermSet, place: Domains) -> str:
    return ", ".join(f"{key}={domain}" if domain is not None else f"no {key}" for key, domain in zip(ask.keys, place, strict=True))
