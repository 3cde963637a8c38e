"""The checker's judgement of one wave. Its steps run in any order or at once, and no order may break a rule.

Each moving pod is at its source, nowhere, or at its target, independently of the others. A binding starts nowhere,
an eviction ends there. Two things are judged without enumerating these states:

* Each landing, with every other pod of the wave in any phase: no filter may reject it. For capacity, host ports,
  anti-affinity and volumes more pods are worse, so all others count on both of their nodes. For required affinity
  and spread see :mod:`kubestow.checker.plan.affinity` and :mod:`kubestow.checker.plan.spread`.
* Every pod at rest, with each other pod of the wave at its source or its target: it breaks no rule that it did not
  break in the snapshot or that the plan did not leave broken.

This is exact: a fault is reported if and only if some state has it. Two cases are judged more strictly. Steps of
one wave must not share an unbound claim or a stock of free static volumes, because the result depends on their
order. And other steps of the wave treat the pods of a unit as arriving independently.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kubestow.checker.devices import entry as devices
from kubestow.checker.plan.affinity import AffinityFlow, Place, Removal, TermSet
from kubestow.checker.plan.document import PlanEntry
from kubestow.checker.plan.spread import DomainMove
from kubestow.checker.plan.state import Board
from kubestow.checker.plan.units import PodChange, Step, counted_mates, unit_faults
from kubestow.checker.rules import spread
from kubestow.checker.violation import Violation


class NextWave:
    """A wave that is about to begin.

    Args:
        board: The state.
        steps: Entries of known pods on their current nodes, with known targets.
    """

    def __init__(self, board: Board, steps: Sequence[Sequence[PlanEntry]]) -> None:
        self._board = board
        self.steps: list[Step] = [[self._change(entry) for entry in step] for step in steps]
        self._changes = [change for step in self.steps for change in step]
        self._alone = len(self.steps) == 1
        by_ask: dict[TermSet, list[Removal]] = {}
        by_tally: dict[spread.Count, list[DomainMove]] = {}
        for change in self._changes:
            for ask, way in change.ways.items():
                by_ask.setdefault(ask, []).append(way)
            for tally, move in change.moves.items():
                by_tally.setdefault(tally, []).append(move)
        self._flows = {ask: AffinityFlow(ask, ways) for ask, ways in by_ask.items()}
        self._spreads = {tally: board.tallies.flow(tally, moves) for tally, moves in by_tally.items()}
        self._at: dict[str, list[PodChange]] = {}  # pods with volumes that arrive at a node or leave it
        for change in self._changes:
            for there in change.both() if change.runner.pod.spec.volumes else ():
                self._at.setdefault(there.node, []).append(change)

    def _change(self, entry: PlanEntry) -> PodChange:
        board = self._board
        runner = board.runners[entry.pod]
        change = PodChange(entry, runner, runner.at, runner.presence(entry.target) if entry.target is not None else None)
        for ask in board.asks.answered(runner.member):
            change.ways[ask] = Removal(board.asks.place(ask, runner.node), board.asks.place(ask, entry.target))
        nodes = board.nodes.get(runner.node or ""), board.nodes.get(entry.target or "")
        before, after = (dict(board.tallies.counted(runner.pod, node, runner.member.profile)) for node in nodes)
        change.moves = {tally: DomainMove(before.get(tally), after.get(tally)) for tally in (before | after)}
        return change

    # --- the wave -----------------------------------------------------------------------------------------------------------

    def judge(self) -> Iterator[Violation]:
        """Yield all possible faults. When exhausted, the board is in the state after the wave."""
        board = self._board
        for change in self._changes:
            board.get_up(change.runner)
        yield from self._rest_faults()
        yield from self._claim_faults()
        yield from self._device_faults()
        for change in self._changes:
            if change.target is not None:
                board.put(change.target)
        yield from self._crowded()
        settled: list[PodChange] = []
        for step in self.steps:
            yield from self._step_faults(step, settled)
        if not self._alone:
            yield from self._waiting_faults()
        yield from self._done(settled)

    def _done(self, settled: Sequence[PodChange]) -> Iterator[Violation]:
        """Apply the wave to the board and yield faults of claims that it bound."""
        board = self._board
        opened = {change: board.volumes.open_claims(change.runner.pod) for change in self._changes if change.runner.pod.spec.volumes}
        changed = bool(settled)
        for change in self._changes:
            if change not in settled:
                changed |= self._settle(change)
        for change in self._changes:
            if change.source is not None:
                board.lift(change.source)
                board.enter(change.source, -1)
            runner = change.runner
            runner.at, runner.broke, runner.stakes = change.target, frozenset(), []
            if change.target is not None:
                board.enter(change.target)
        for change in self._changes:
            board.settle_down(change.runner)
        bound = [key for change, keys in opened.items() if change.target is not None for key in keys]
        if bound or changed:
            yield from self._claimed(bound, everyone=changed)

    def _settle(self, change: PodChange) -> bool:
        """Bind the claims of a pod on its target. Return True if static volumes are used."""
        target = change.target
        if target is None or not change.runner.pod.spec.volumes:
            return False
        return bool(self._board.volumes.settle(change.runner.pod, self._board.nodes[target.node]))

    # --- landings -----------------------------------------------------------------------------------------------------------

    def _step_faults(self, step: Step, settled: list[PodChange]) -> Iterator[Violation]:
        """Yield the faults of the landings of one step.

        Args:
            step: The step.
            settled: Receives pods of units whose claims were bound.
        """
        unit = len(step) > 1
        mutual = unit_faults(self._board, step, self._changes) if unit else [[]]
        for change, needs in zip(step, mutual, strict=True):
            if change.target is None:
                continue
            runner, node = change.runner, change.target.node
            for there in change.both():
                self._board.lift(there)
            mates = [mate for mate in step if mate is not change]
            others = [other.runner.pod for other in self._at.get(node, ()) if other is not change and other not in mates]
            faults = self._board.landing_faults(runner, node, others)
            counts = counted_mates(mates)
            spreads = self._board.tallies.landing_faults(runner.spread, node, self._spreads, change.moves, counts)
            faults += [("PodTopologySpread", why) for why in spreads]
            faults += [("InterPodAffinity", why) for why in needs]
            if runner.member.terms.affinity:
                faults += [("InterPodAffinity", why) for why in self._affinity_faults(change, mates)]
            for rule, why in faults:
                yield self._violation(change, rule, why)
            self._board.allocate(change.target)
            if unit and runner.pod.spec.volumes:  # the unit's other pods follow
                self._settle(change)
                settled.append(change)
            for there in change.both():
                self._board.put(there)

    def _affinity_faults(self, change: PodChange, mates: Step) -> Iterator[str]:
        """Yield faults of a pod's required affinity on its target: at landing, or for a unit after the whole unit has landed."""
        if change.target is None:
            return
        board, node = self._board, change.target.node
        ask = board.asks.of(change.runner.member)
        places = [way.after for mate in mates if (way := mate.ways.get(ask)) is not None and way.after is not None]
        seat = board.asks.seat(change.runner.member, node)
        if mates:
            ways = [way for other in self._changes if other not in mates and other is not change and (way := other.ways.get(ask))]
            if AffinityFlow(ask, ways).can_miss(seat, rests=False, midway=False, mates=places):
                yield "with all of its unit there, it can miss a pod that it has to be near"
        elif (self._flows.get(ask) or AffinityFlow(ask, ())).can_miss(seat, change.ways.get(ask), rests=False, midway=True):
            yield f"a pod that it has to be near can be missing ({_terms(ask, seat.place)})"

    # --- pods at rest -------------------------------------------------------------------------------------------------------

    def _rest_faults(self) -> Iterator[Violation]:
        """Yield pods that do not move in the wave but may become worse off: required affinity and spread."""
        for ask, flow in self._flows.items():
            for seat in flow.affected():
                if flow.can_miss(seat, rests=True, midway=False):
                    name = next(iter(ask.seats[seat]))
                    why = f"it can miss a pod that it has to be near ({_terms(ask, seat.place)})"
                    yield self._left(name, "InterPodAffinity", why)
        for spreads in self._spreads.values():
            for name, why in self._board.tallies.rest_faults(spreads):
                yield self._left(name, "PodTopologySpread", why)

    def _waiting_faults(self) -> Iterator[Violation]:
        """Yield moving pods that may become worse off before they move. Faults caused by arriving pods belong to those landings."""
        for change in self._changes:
            runner, source = change.runner, change.source
            if source is None or not runner.steady:
                continue
            if runner.member.terms.affinity and "InterPodAffinity" not in runner.broke:
                ask = self._board.asks.of(runner.member)
                flow = self._flows.get(ask)
                seat = self._board.asks.seat(runner.member, source.node)
                if flow is not None and flow.can_miss(seat, change.ways.get(ask), rests=False, midway=False):
                    why = f"before it moves it can miss a pod that it has to be near ({_terms(ask, seat.place)})"
                    yield self._left(runner.key, "InterPodAffinity", why)
            for why in self._board.tallies.own_faults(runner.stakes, self._spreads, change.moves):
                yield self._left(runner.key, "PodTopologySpread", f"before it moves: {why}")

    def _crowded(self) -> Iterator[Violation]:
        """Yield pods that would no longer be admitted: pods that request more than they hold, and pods with volumes, on changed nodes."""
        board = self._board
        for name in {there.node: None for change in self._changes for there in change.both()}:
            for runner in list(board.usage[name].resized):
                if runner.steady and "NodeResourcesFit" not in runner.broke and not board.fits(runner, name):
                    yield self._left(runner.key, "NodeResourcesFit", "by its spec it no longer fits with the pods that may be on the node")
            if not any(other.runner.pod.spec.volumes for other in self._at.get(name, ())) or not board.volumes.is_limited(name):
                continue  # leaving pods attach no volume, though a shared volume then counts for a remaining pod
            for runner in list(board.usage[name].mounting):
                there = runner.at
                if there is None or there.node != name or not runner.steady or "NodeVolumeLimits" in runner.broke:
                    continue
                if self._alone and any(change.runner is runner for change in self._changes):
                    continue
                board.lift(there)
                others = [other.runner.pod for other in self._at[name] if other.runner is not runner]
                full = board.volumes.full(runner.pod, name, others)
                board.put(there)
                if full is not None:
                    yield self._left(runner.key, "NodeVolumeLimits", full)

    # --- claims -------------------------------------------------------------------------------------------------------------

    def _claim_faults(self) -> Iterator[Violation]:
        """Yield steps whose result depends on the order in which they bind claims."""
        first: dict[tuple[str, str], Step] = {}
        for step in self.steps if not self._alone else ():
            for change in step:
                pod = change.runner.pod
                if change.target is None or not pod.spec.volumes:
                    continue
                wants = [("claim", key) for key in self._board.volumes.open_claims(pod)]
                wants += [("free volumes of class", name) for name in sorted(self._board.volumes.stock(pod))]
                for want in wants:
                    if first.setdefault(want, step) is not step:
                        other = first[want][0].entry.pod
                        why = f"{want[0]} {want[1]} is wanted by {other} in the same wave: the binding depends on their order"
                        yield self._violation(change, "VolumeBinding", why)

    def _device_faults(self) -> Iterator[Violation]:
        """Yield steps whose pods may take devices from one pool or share a claim, so that the result depends on their order."""
        first: dict[object, Step] = {}
        for step in self.steps if not self._alone and self._board.devices is not None else ():
            for change in step:
                sources = self._board.sources_of_devices(change.target) if change.target is not None else ()
                others = [first.setdefault(source, step) for source in sources]
                other = next((other[0].entry.pod for other in others if other is not step), None)
                if other is not None:
                    why = f"{other} takes devices in the same wave: the allocation depends on their order"
                    yield self._violation(change, devices.RULE, why)

    def _claimed(self, bound: Sequence[str], *, everyone: bool) -> Iterator[Violation]:
        """Yield pods at rest that mount claims bound by the wave. ``everyone``: check all pods with volumes, because
        static volumes were used.
        """
        board = self._board
        found = {runner: None for key in bound for runner in board.claimants[key]}
        if everyone:
            found = {runner: None for runner in board.runners.values() if runner.pod.spec.volumes}
        landed = {change.runner for change in self._changes}  # judged when they landed
        for runner in found:
            there = runner.at
            if there is None or not runner.steady or runner in landed:
                continue
            board.lift(there)
            for rule, why in board.volumes.faults(runner.pod, board.nodes[there.node]):
                if rule not in runner.broke:
                    yield self._left(runner.key, rule, why)
            board.put(there)

    # --- violations---------------------------------------------------------------------------------------------------------

    def _violation(self, change: PodChange, rule: str, why: str) -> Violation:
        entry = change.entry
        return Violation(entry.pod, entry.place, rule, f"step {entry.step} (wave {entry.wave}): {why}")

    def _left(self, key: str, rule: str, why: str) -> Violation:
        node = self._board.runners[key].node
        return Violation(key, node or "", rule, f"wave {self._changes[0].entry.wave} makes it worse: {why}")


def _terms(ask: TermSet, place: Place) -> str:
    return ", ".join(f"{key}={domain}" if domain is not None else f"no {key}" for key, domain in zip(ask.keys, place, strict=True))
