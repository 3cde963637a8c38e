"""From a snapshot to a verified RebalancePlan: search for steps, group them in waves, name the pods, verify."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

import numpy as np

from kubestow.checker.plan.plan import summary, verify_plan
from kubestow.checker.violation import insist
from kubestow.models.cluster import unmodelled
from kubestow.models.documents import placement as doc
from kubestow.models.documents import rebalance_plan as plans
from kubestow.models.documents.placement import TierResult
from kubestow.models.documents.policy import DEFAULT
from kubestow.models.kube.objects import pod_key
from kubestow.models.snapshot.scope import select
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.solver.explain.undecided import is_undecided
from kubestow.solver.rebalance.excused_filters import account, excuse
from kubestow.solver.rebalance.goals.even_drain import even_drain
from kubestow.solver.rebalance.named_moves import Reasons, name_moves
from kubestow.solver.rebalance.problem.options import PlanOptions
from kubestow.solver.rebalance.problem.problem import RebalanceProblem, Step, read_problem
from kubestow.solver.rebalance.problem.state import PlanState
from kubestow.solver.rebalance.result import PlanSearchResult
from kubestow.solver.rebalance.search import search
from kubestow.solver.rebalance.tiers.objective import PlanObjective
from kubestow.solver.rebalance.unmet_goals import obstacles
from kubestow.solver.rebalance.waves.least_waves import least_waves
from kubestow.solver.rebalance.waves.schedule import waves as group
from kubestow.solver.refused_pods import refuse_domain_blocking
from kubestow.solver.runtime.invocation import Caller, Invocation

#: Ratio of the time after the search (waves, verification, writing) to the compile time.
AFTER_TO_COMPILE_RATIO = 6.0
#: Number of waves up to which no note explains them.
MAX_UNEXPLAINED_WAVES = 10


def rebalance(snapshot: Snapshot, plan_options: PlanOptions, **caller: Unpack[Caller]) -> plans.RebalancePlan:
    """Find a plan for the goals.

    Raises:
        InputError: A node to drain does not exist, or a quantity, annotation, price or gang cannot be read.
        InternalFault: The independent checker found the plan invalid.
    """
    run = Invocation(caller)
    options, report = plan_options.options, run.report
    report("compile")
    if "admit" in plan_options.goals:
        refuse_domain_blocking(snapshot, select(snapshot, include_gated=options.include_gated), options.policy)
    plan_options, forgiveness = excuse(snapshot, plan_options)
    problem = read_problem(snapshot, plan_options)
    values = PlanObjective(problem, plan_options.goals)
    compiling = run.lap("compile")
    running = int(problem.start[problem.movable].sum())
    report("compile", detail=f"{running} movable pods in {int(problem.movable.sum())} classes, {problem.cluster.n_nodes} nodes")
    context = run.context(options, _reserve(options.time_limit, compiling))
    result = search(problem, values, plan_options.goals, context)
    if problem.drain and "improve" not in plan_options.goals:
        result.steps = even_drain(values, result.steps, context.over)
        result.values = values.of_steps(result.steps)
    _loosen(problem, values, result)
    report("waves")
    waves = group(problem, result.steps)
    searching = run.lap("solve")
    plan = _document(problem, values, plan_options, result, waves)
    account(plan, snapshot, plan_options, forgiveness)
    report("verify")
    plan.before, plan.after, plan.leastWaves = summary(snapshot, plan)
    insist(verify_plan(snapshot, plan, earlier=plan_options.history.earlier))
    plan.seconds = run.seconds(options)
    if plan.seconds is not None:
        plan.search = report.trace.finish(plan.objective, compiling + searching)
    return plan


def _reserve(limit: float | None, compiling: float) -> float:
    """Return the seconds of the time limit that are reserved for the work after the search."""
    return min(AFTER_TO_COMPILE_RATIO * compiling, limit / 3) if limit is not None else 0.0


def _unsure(problem: RebalanceProblem) -> bool:
    """Return True if a required rule of some pod depends on unknown labels of namespaces."""
    snapshot = problem.cluster.snapshot
    return is_undecided(snapshot, range(len(snapshot.pods)))


def _loosen(problem: RebalanceProblem, values: PlanObjective, result: PlanSearchResult) -> None:
    """Weaken the bounds (in place) of tiers that depend on rules if unknown labels decide which pods these match."""
    if not _unsure(problem):
        return
    for t, tier in enumerate(values.tiers):
        if tier.name == "placed":
            pending = problem.cluster.count[problem.pending & (problem.cluster.priority == tier.priority)]
            result.bounds[t] = max(result.values[t], int(pending.sum()))
        elif tier.name in ("rules", "drained"):
            result.bounds[t] = 0


def _document(
    problem: RebalanceProblem, values: PlanObjective, plan_options: PlanOptions, result: PlanSearchResult, waves: Sequence[Sequence[Step]]
) -> plans.RebalancePlan:
    snapshot, options = problem.cluster.snapshot, plan_options.options
    broken = _broken(problem) if "repair" in plan_options.goals else {}
    end = problem.end(result.steps)
    freed = values.freed(end) & ~values.freed(problem.start)
    moves, evictions = name_moves(problem, waves, _units(problem, waves), Reasons(problem, broken, freed, plan_options.goals))
    tiers = [
        TierResult(tier.name, value, max(value, bound), tier.priority)
        for tier, value, bound in zip(values.tiers, result.values, result.bounds, strict=True)
    ]
    nothing = plans.Summary(0, 0)
    names = problem.cluster.nodes.names
    scope = problem.cluster.scope
    return plans.RebalancePlan(
        snapshot=doc.SnapshotRef(
            snapshot.sha256, len(snapshot.nodes), len(snapshot.pods), len(select(snapshot, include_gated=options.include_gated).pending),
            includeGated=options.include_gated, daemonNamespaces=list(options.exempt),
            kubernetesVersion=snapshot.gates.version, featureGates=dict(snapshot.gates.given),
        ),
        goals=[*(["drain"] if plan_options.drain else []), *plan_options.goals],
        engine=result.engine,
        status="optimal" if all(t.value == t.bound for t in tiers) and not _unsure(problem) else "feasible",
        objective=tiers,
        moves=moves,
        evictions=evictions,
        before=nothing,
        after=nothing,
        drain=[names[n] for n in sorted(problem.drain)],
        freed=[names[n] for n in np.flatnonzero(freed)] if "consolidate" in plan_options.goals else [],
        limits=plan_options.limits,
        obstacles=obstacles(problem, values, result, plan_options),
        excluded=problem.excluded,
        unmodelled=[
            *unmodelled.find(snapshot, (snapshot.pods[i] for i in scope.pending), tiers=options.policy.networkTiers),
            *_unknown(problem),
        ],
        policy=options.policy if options.policy != DEFAULT else None,
        notes=[*result.notes, *_notes(problem, plan_options), *_many_waves(problem, result.steps)],
    )  # fmt: skip


def _broken(problem: RebalanceProblem) -> dict[tuple[int, int], list[str]]:
    """Return the rules that movable pods break at the start, by (class, node)."""
    state = PlanState(problem)
    found: dict[tuple[int, int], list[str]] = {}
    for g in np.flatnonzero(problem.movable).tolist():
        nodes = np.flatnonzero(problem.start[g])
        for name, mask in problem.counted_rules(g, state.breaks(g, nodes)).items():
            for n in nodes[mask].tolist():
                found.setdefault((g, n), []).append(name)
    return found


def _units(problem: RebalanceProblem, waves: Sequence[Sequence[Step]]) -> list[bool]:
    """Return, for each wave, True if its bindings are accepted only as one unit of a gang."""
    if not problem.cluster.gangs:
        return [False] * len(waves)
    state = PlanState(problem)
    found = []
    for wave in waves:
        gangs = {problem.cluster.classes[step.g].gang if problem.pending[step.g] else None for step in wave}
        unit = len(wave) > 1 and len(gangs) == 1 and None not in gangs
        if unit:
            unit = not all(state.landing(step.g, -1)[step.b] for step in wave)
        for step in wave:
            state.apply(step)
        found.append(unit)
    return found


def _unknown(problem: RebalanceProblem) -> list[doc.Unmodelled]:
    """Return the unknowns of a plan: how running pods use the NUMA zones of a node."""
    cluster = problem.cluster
    return [
        doc.Unmodelled(f"Node/{cluster.nodes.names[n]}", "NodeResourceTopology", "the zones that running pods hold are not known")
        for n in sorted(cluster.trees)
    ]


def _notes(problem: RebalanceProblem, plan_options: PlanOptions) -> list[str]:
    found = []
    snapshot = problem.cluster.snapshot
    waiting = [pod_key(snapshot.pods[i]) for i in select(snapshot).pending] if "admit" not in plan_options.goals else []
    if waiting:
        some = ", ".join(waiting[:3]) + (", …" if len(waiting) > 3 else "")
        found.append(
            f"{len(waiting)} pods have no node ({some}); the scheduler may bind them while the plan "
            "is carried out; --goal admit plans for them"
        )
    return found


def _many_waves(problem: RebalanceProblem, steps: Sequence[Step]) -> list[str]:
    """Return a note on the PodDisruptionBudget that requires many waves."""
    least = least_waves(problem, steps)
    if least is None or least.waves <= MAX_UNEXPLAINED_WAVES:
        return []
    budget = problem.budgets[least.budget]
    return [
        f"the plan needs at least {least.waves} waves: PodDisruptionBudget {budget.name} allows {budget.allowed} "
        f"disruption{'s' if budget.allowed != 1 else ''} at a time, and {least.pods} of its pods move"
    ]
