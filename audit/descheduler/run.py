"""The section ``descheduler`` of an Audit, from a snapshot and a policy."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import get_args

from kubestow.audit.descheduler import arguments as args
from kubestow.audit.descheduler import cycle
from kubestow.audit.descheduler.cluster_state import ClusterFacts, ClusterState
from kubestow.audit.descheduler.continuations import Scheduler, recreated
from kubestow.audit.descheduler.evictor import BACKGROUND, Budgets, EvictionAttempt
from kubestow.audit.descheduler.policy import SimulatedPolicy
from kubestow.audit.settings import Settings
from kubestow.models.documents.findings.descheduler import DeschedulerAudit, Often, PlanInstead, PolicyEviction, Range, StrategyResult
from kubestow.models.documents.rebalance_plan import Goal, RebalancePlan
from kubestow.models.kube.objects import pod_key
from kubestow.models.snapshot.scope import is_mirror
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.solver.rebalance.problem.options import PlanOptions
from kubestow.solver.rebalance.rebalance import rebalance


def judge(snapshot: Snapshot, policy: SimulatedPolicy, settings: Settings) -> DeschedulerAudit:
    """Return the descheduler's actions in one cycle, the benefit of each, and plans with the same aims.

    Raises:
        InputError: Quantities cannot be summed.
    """
    facts = ClusterFacts(snapshot)
    start = ClusterState.of(facts)
    done = cycle.run(policy, start.with_pods({}), budgets=Budgets(snapshot))
    homes = {request.pod: request.node for request in done.evictions}
    scheduler = Scheduler(snapshot, homes, settings.preferences, settings.exempt, lambda: time.monotonic() > settings.deadline)
    continuations = scheduler.continuations()
    ends = [_CycleEnd(policy, done.state.with_pods(end), end) for end in continuations.ends]
    evictions = [_eviction(facts, request, ends) for request in done.requests]
    result = DeschedulerAudit(
        policy.path,
        _strategies(done, evictions, ends),
        evictions,
        len(ends),
        continuations.exhaustive,
        _empty(start),
        _range(_empty(end.state) for end in ends),
        skipped=done.skipped or None,
        notModelled=_not_modelled(facts, policy, done, evictions),
    )
    if not done.skipped:
        result.instead = _instead(facts, start, policy, done, ends, settings)
    return result


class _CycleEnd:
    """A cluster at the end of a continuation.

    Attributes:
        state: The cluster.
        at: Nodes of the queued pods.
        again: Requests of the next cycle.
    """

    def __init__(self, policy: SimulatedPolicy, state: ClusterState, at: Mapping[int, int]) -> None:
        self.state, self.at = state, at
        self.again = cycle.run(policy, state.with_pods({})).requests
        self._asked = {(request.plugin, request.pod) for request in self.again}

    def helps(self, request: EvictionAttempt) -> bool:
        """Return True if an eviction was useful."""
        n = self.at[request.pod]
        if n < 0 or n in request.away or (request.plugin, request.pod) in self._asked:
            return False
        return not request.frees or not _occupied(self.state, request.node)


def _occupied(state: ClusterState, n: int) -> bool:
    """Return True if a node has pods other than DaemonSet and static pods."""
    pods = (state.facts.pods[i] for i in state.on(n))
    return any(not is_mirror(pod) and not any(o.kind == "DaemonSet" for o in pod.metadata.ownerReferences or ()) for pod in pods)


def _empty(state: ClusterState) -> int:
    return sum(not _occupied(state, n) for n in range(state.facts.table.size))


def _often(cases: Iterable[bool]) -> Often:
    found = set(cases)
    return "sometimes" if len(found) > 1 else "always" if True in found else "never"


def _range(values: Iterable[int]) -> Range:
    listed = list(values)
    return Range(min(listed), max(listed))


def _eviction(facts: ClusterFacts, request: EvictionAttempt, ends: Sequence[_CycleEnd]) -> PolicyEviction:
    entry = PolicyEviction(
        request.profile, request.plugin, pod_key(facts.pods[request.pod]), facts.table.names[request.node], request.why, request.refused
    )
    if request.refused is None:
        entry.helps = _often(end.helps(request) for end in ends)
        entry.returns = _often(end.at[request.pod] == request.node for end in ends)
        entry.pending = _often(end.at[request.pod] < 0 for end in ends)
        entry.recreated = recreated(facts.snapshot, request.pod)
    return entry


def _strategies(done: cycle.Cycle, evictions: Sequence[PolicyEviction], ends: Sequence[_CycleEnd]) -> list[StrategyResult]:
    found = []
    for (profile, plugin), notes in done.runs.items():
        own = [entry for entry in evictions if (entry.profile, entry.plugin) == (profile, plugin)]
        granted = [entry for entry in own if entry.refused is None]
        number = Counter(entry.helps for entry in granted)
        again = _range(sum((request.profile, request.plugin) == (profile, plugin) for request in end.again) for end in ends)
        found.append(
            StrategyResult(
                profile,
                plugin,
                len(granted),
                len(own) - len(granted),
                {often: number[often] for often in get_args(Often) if number[often]},
                sum(entry.returns != "never" for entry in granted),
                sum(entry.pending != "never" for entry in granted),
                again,
                notes,
            )
        )
    return found


def _not_modelled(facts: ClusterFacts, policy: SimulatedPolicy, done: cycle.Cycle, evictions: Sequence[PolicyEviction]) -> list[str]:
    found = list(policy.not_modelled)
    background = [pod_key(pod) for pod in facts.pods if BACKGROUND in (pod.metadata.annotations or {})]
    if background:
        found.append(f"evictions in background ({BACKGROUND}): {len(background)} pods request them, such as {background[0]}")
    if any(entry.pending not in (None, "never") for entry in evictions):
        found.append("preemption: a pod without a node may preempt pods of lower priority")
    return found


# --- alternative plans ----------------------------------------------------------------------------------------------------------------


def aim(given: args.Args) -> Goal:
    """Return the plan goal that is closest to a plugin's purpose."""
    if isinstance(given, args.HighUtilization):
        return "consolidate"
    soft = (
        isinstance(given, args.LowUtilization | args.Duplicates)
        or (isinstance(given, args.NodeAffinityArgs) and not any(each.startswith("required") for each in given.nodeAffinityType))
        or (isinstance(given, args.TopologySpread) and bool(given.constraints) and "DoNotSchedule" not in given.constraints)
    )
    return "improve" if soft else "repair"


def _instead(
    facts: ClusterFacts, start: ClusterState, policy: SimulatedPolicy, done: cycle.Cycle, ends: Sequence[_CycleEnd], settings: Settings
) -> list[PlanInstead]:
    aims: dict[Goal, list[str]] = {}
    for profile in policy.profiles:
        for name, given in (*profile.deschedule, *profile.balance):
            if (profile.name, name) in done.runs and name not in aims.setdefault(aim(given), []):
                aims[aim(given)].append(name)
    found = []
    for goal, plugins in aims.items():
        evicted = sum(request.plugin in plugins for request in done.evictions)
        with settings.limited() as stop:
            plan = rebalance(facts.snapshot, PlanOptions((goal,), options=settings.options(len(aims))), stop=stop)
        after = _carried_out(facts, start, plan)
        again = cycle.run(policy, after.with_pods({}), plugins).requests
        later = _range(sum(request.plugin in plugins for request in end.again) for end in ends)
        moves = sum(move.source is not None for move in plan.moves)
        found.append(PlanInstead(goal, plugins, plan.status, moves, evicted, len(again), later, _empty(after)))
    return found


def _carried_out(facts: ClusterFacts, start: ClusterState, plan: RebalancePlan) -> ClusterState:
    """Return the cluster at the end of a plan."""
    index = {pod_key(pod): i for i, pod in enumerate(facts.pods)}
    moved = {index[move.pod]: facts.index[move.to] for move in plan.moves}
    moved |= {index[eviction.pod]: -1 for eviction in plan.evictions}
    return start.with_pods(moved)
