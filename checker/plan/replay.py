"""The replay of a plan, wave by wave: excluded pods, PodDisruptionBudgets, and the scheduling rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kubestow.checker.plan.disruption_budgets import Guard, Guards
from kubestow.checker.plan.document import PLAN, PlanEntry
from kubestow.checker.plan.movable import Exclusions
from kubestow.checker.plan.state import Board
from kubestow.checker.plan.waves import NextWave
from kubestow.checker.reading.gang_roster import Roster
from kubestow.checker.violation import Violation
from kubestow.models.documents.rebalance_plan import Exclusion, RebalancePlan
from kubestow.models.kube import objects

#: Rule name of violations of PodDisruptionBudgets.
BUDGET: Final = "PodDisruptionBudget"


@dataclass
class PlanReplay:
    """The replay of a plan.

    Attributes:
        plan: The plan.
        board: The state, with the rules that each pod may continue to break.
        pods: Pods of the snapshot, by key.
        refusals: Why each pod is not to be placed, by key; None if it is to be placed.
        roster: Gangs of the pods to be placed.
        guards: Disruption budgets.
        exclusions: Reasons against moving pods.
        preempting: Highest priority for which pods may be evicted for good, or None.
        violators: Keys of pods that may be evicted because of rules that hold during execution.
        placed: Keys of the pods placed by the plan up to now.
        justified: True if each step must serve a goal and each budget must allow evictions at the start. False for
            the remaining steps of a plan that was judged as a whole before.
    """

    plan: RebalancePlan
    board: Board
    pods: Mapping[str, objects.Pod]
    refusals: Mapping[str, str | None]
    roster: Roster
    guards: Guards
    exclusions: Exclusions
    preempting: int | None = None
    violators: Collection[str] = frozenset()
    placed: set[str] = field(default_factory=set)
    justified: bool = True

    def faults(self, listed: Sequence[PlanEntry]) -> Iterator[Violation]:
        """Yield all faults. Impossible entries (unknown pod or node, pod elsewhere) are not applied."""
        by_wave: dict[int, dict[int, list[PlanEntry]]] = {}
        for entry in listed:
            by_wave.setdefault(entry.wave, {}).setdefault(entry.step, []).append(entry)
        for _, by_step in sorted(by_wave.items()):
            steps: list[list[PlanEntry]] = []
            seen: set[str] = set()
            for _, shared in sorted(by_step.items()):
                for entry in shared:
                    why = self._why_not(entry)
                    if why is not None:
                        yield Violation(entry.pod, entry.place, PLAN, f"step {entry.step} (wave {entry.wave}): {why}")
                first = {entry.pod: entry for entry in reversed(shared) if entry.pod not in seen}
                seen |= first.keys()
                kept = [entry for entry in shared if first.get(entry.pod) is entry and self._can_be(entry)]
                gangs = {self.roster.gang_of.get(entry.pod) for entry in kept if entry.source is None}
                unit = len(gangs) == 1 and None not in gangs and all(entry.source is None for entry in kept)
                steps += [kept] if unit else [[entry] for entry in kept]
            yield from self._budget_faults([entry for step in steps for entry in step])
            if steps:
                yield from NextWave(self.board, steps).judge()
            self.placed.update(entry.pod for step in steps for entry in step)

    def least_waves(self, listed: Sequence[PlanEntry]) -> int:
        """Return a lower bound on the number of waves for such entries, in any order. The board must be at the start.

        No wave evicts more pods of a budget than it allows at the start. A pod moves once per wave, and after the
        waves that free capacity for it.
        """
        evicted: Counter[Guard] = Counter()
        for entry in listed:
            pod = self.pods.get(entry.pod)
            if pod is not None and entry.source is not None:
                evicted.update(guard for guard in self.guards.of(pod) if guard.guards(pod))
        waves_by_budget = [-(-pods // max(1, guard.allowed)) for guard, pods in evicted.items()]
        return max([*waves_by_budget, *self._earliest([entry for entry in listed if entry.pod in self.board.runners])], default=0)

    def _earliest(self, listed: Sequence[PlanEntry]) -> list[int]:
        """Return the earliest possible wave of each entry."""
        last, before = dict[str, int](), list[int | None]()
        leaving: dict[str, list[int]] = {}  # entries by which initial pods leave each node
        for i, entry in enumerate(listed):
            before.append(last.get(entry.pod))
            if entry.pod not in last and entry.source is not None:
                leaving.setdefault(entry.source, []).append(i)
            last[entry.pod] = i
        found, short = [1] * len(listed), [(i, lack) for i, entry in enumerate(listed) if (lack := self._lack(entry))]
        for _ in range(len({entry.wave for entry in listed})):
            was = list(found)
            for i, earlier in enumerate(before):
                found[i] = max(found[i], 1 if earlier is None else found[earlier] + 1)
            for i, lack in short:
                found[i] = max(found[i], 1 + self._made_by(lack, [(found[j], listed[j]) for j in leaving.get(listed[i].target or "", ())]))
            if found == was:
                break
        return found

    def _lack(self, entry: PlanEntry) -> dict[str, int]:
        """Return the resources that a pod lacks on its target at the start, including ``pods``."""
        if entry.target is None or entry.target not in self.board.nodes:
            return {}
        usage, capacity = self.board.places[entry.target], self.board.places[entry.target].capacity
        used = {**usage.used, "pods": usage.pods}
        asks = {**self.board.left_to_the_node(self.board.runners[entry.pod].pod, entry.target), "pods": 1}
        lacks = ((name, used.get(name, 0) + amount - capacity.get(name, 0)) for name, amount in asks.items() if amount)
        return {name: lack for name, lack in lacks if lack > 0}

    def _made_by(self, lack: Mapping[str, int], leaving: Sequence[tuple[int, PlanEntry]]) -> int:
        """Return the first wave after which the missing resources can be free; 0 if they never are.

        Args:
            lack: Missing amounts.
            leaving: Entries of pods that leave the node, each with its earliest wave.
        """
        missing = dict(lack)
        for wave, entry in sorted(leaving, key=lambda each: each[0]):
            for name, amount in {**self.board.requests(self.board.runners[entry.pod].pod, bound=True), "pods": 1}.items():
                if name in missing:
                    missing[name] -= amount
            if max(missing.values()) <= 0:
                return wave
        return 0

    def _can_be(self, entry: PlanEntry) -> bool:
        """Return True if an entry can be applied."""
        runner = self.board.runners.get(entry.pod)
        if runner is None or runner.node != entry.source or entry.source == entry.target:
            return False
        return entry.target is None or entry.target in self.board.nodes

    def _why_not(self, entry: PlanEntry) -> str | None:
        """Return why a plan must not contain the step, or None."""
        if entry.pod not in self.pods:
            return "the snapshot has no such pod"
        if entry.target is not None and entry.target not in self.board.nodes:
            return "the snapshot has no such node"
        runner = self.board.runners.get(entry.pod)
        if runner is None:
            return f"the pod is not to be placed: {self.refusals[entry.pod]}"
        if entry.target is not None and entry.target in self.plan.drain:
            return "the node is to be drained"
        if runner.node != entry.source:
            return f"the pod is said to be {_at(entry.source)}, it is {_at(runner.node)}"
        if entry.source is None:
            return None if "admit" in self.plan.goals or not self.justified else "a pending pod is placed, and admit is no goal"
        why = self.exclusions.of(runner.pod)
        if why is not None and not self._is_asked(runner.pod, why):
            return f"the pod must not be moved ({why})"
        if entry.pod in self.placed and self._is_free(runner.pod):
            return "the pod is Ready since it moved, and its budget was not asked for it"
        return self._why_not_gone(entry) if entry.target is None else None

    def _why_not_gone(self, entry: PlanEntry) -> str | None:
        """Return why a pod must not be evicted for good, or None."""
        if not self.justified or (self.preempting is not None and (self.pods[entry.pod].spec.priority or 0) < self.preempting):
            return None
        if entry.source in self.plan.drain or entry.pod in self.violators:
            return None
        return "the pod is evicted for good, and no goal asks for that"

    def _is_asked(self, pod: objects.Pod, why: Exclusion) -> bool:
        """Return True if the pod's only budget is checked when its wave begins, so that its current state does not exclude the pod."""
        return not self.justified and why == "budgets" and len(self.guards.of(pod)) == 1

    def _is_free(self, pod: objects.Pod) -> bool:
        """Return True if budgets select the pod but its eviction needs no budget in the snapshot."""
        guards = self.guards.of(pod)
        return bool(guards) and not any(guard.guards(pod) for guard in guards)

    def _budget_faults(self, wave: Sequence[PlanEntry]) -> Iterator[Violation]:
        """Yield budgets that allow fewer evictions at the start of a wave than the wave makes."""
        entries_by_guard: dict[Guard, list[PlanEntry]] = {}
        for entry in wave:
            pod = self.pods[entry.pod]
            for guard in self.guards.of(pod) if entry.source is not None else ():
                if guard.guards(pod):
                    entries_by_guard.setdefault(guard, []).append(entry)
        for guard, leaving in entries_by_guard.items():
            if len(leaving) > guard.remaining:
                entry = leaving[-1]
                why = f"wave {entry.wave} evicts {len(leaving)} pods of budget {guard.name}, which allows {max(0, guard.remaining)} then"
                yield Violation(entry.pod, entry.source or "", BUDGET, why)
            guard.missing.update(entry.pod for entry in leaving if entry.target is None)


def _at(node: str | None) -> str:
    return "without a node" if node is None else f"on {node}"
