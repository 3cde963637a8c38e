"""Failures after which pods of lower priority may be preempted.

As in kube-scheduler, a returning pod preempts pods of lower priority on its own node. All of these are below
the priority that must return, so they need not return themselves. DaemonSet pods and static pods are never
preempted, because they would be recreated at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.kube.objects import pod_key
from kubestow.models.snapshot.scope import select
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.solver import rules
from kubestow.solver.bind_order.order import find_order
from kubestow.solver.capacity.survive.decide import ScenarioVerdict, hard, verdict_of
from kubestow.solver.capacity.survive.failures import After, after
from kubestow.solver.capacity.survive.options import SurviveOptions
from kubestow.solver.cpsat.model import PlacementModel
from kubestow.solver.cpsat.run import CpSat
from kubestow.solver.explain.conflict.placement_question import MAX_CUTS, PlacementQuestion
from kubestow.solver.explain.remedy.preempt import encode, holders, weights_of
from kubestow.solver.explain.remedy.victims import EvictionProblem, candidates, eviction_problem
from kubestow.solver.ortools import cp_model
from kubestow.solver.placed_steps import PlacedAnswer
from kubestow.solver.rules.eligibility import fits, possible
from kubestow.solver.runtime.run_context import RunContext

_change = msgspec.structs.replace


@dataclass(slots=True)
class _PreemptionModel:
    problem: EvictionProblem
    encoding: PlacementModel
    exact: bool  # no preemptible pod had to be excluded


def decide_preempting(
    snapshot: Snapshot, gone: Sequence[str], request: SurviveOptions, before: ScenarioVerdict, context: RunContext
) -> ScenarioVerdict:
    """Decide a failure that is not survived without preemption.

    Args:
        before: The verdict without preemption.
    """
    aftermath = _at_their_priority(after(snapshot, gone, request), request)
    options = context.options
    question = PlacementQuestion(aftermath.snapshot, tuple(aftermath.back), len(aftermath.back), options.exempt, hard(options.policy))
    chosen = candidates(question)
    if not chosen:
        return before
    known = replace(before, bound=before.displaced, by=None)
    holds_devices = bool(holders(question, chosen))  # the model does not know that evictions release devices
    problem = eviction_problem(question, chosen)
    if not holds_devices and (bound := _fits(problem)) < before.displaced:
        return replace(known, bound=bound, by="bound")
    built = _build(question, problem, chosen, context)
    if built is None:
        return known
    built.exact &= not holds_devices
    return _search(built, aftermath, known, context)


def _at_their_priority(aftermath: After, request: SurviveOptions) -> After:
    """Return the failure with returning pods at the lowest priority that must return."""
    pods = list(aftermath.snapshot.pods)
    for i in aftermath.back:
        pods[i] = _change(pods[i], spec=_change(pods[i].spec, priority=request.priority))
    return After(replace(aftermath.snapshot, pods=pods), aftermath.back)


def _fits(problem: EvictionProblem) -> int:
    """Return the number of pods that fit with all victims preempted, each class alone."""
    could = fits(problem.cluster, possible(problem.cluster, rules.build(problem.cluster)))
    return int(could[problem.own].sum())


def _build(question: PlacementQuestion, problem: EvictionProblem, chosen: Sequence[int], context: RunContext) -> _PreemptionModel | None:
    """Return the model of preemptions, without victims that break rules among themselves where they run.

    The model would evict such pods without need.
    """
    exact = True
    for _ in range(2):
        encoding = encode(problem)
        stay = encoding.model.clone()
        for v in [encoding.unplaced[g] for g in problem.victims]:
            stay.add(v == 0)
        for g in problem.own:
            stay.add(encoding.unplaced[g] == encoding.fits[g])
        if CpSat(context).run(stay, context.deadline.remaining() / 4).solution is not None:
            _on_their_nodes(problem, encoding)
            return _PreemptionModel(problem, encoding, exact)
        trial = encoding.model.clone()
        trial.add(encoding.sum(_own(encoding, problem)) == sum(encoding.fits[g] for g in problem.own))
        trial.minimize(encoding.sum([encoding.unplaced[g] for g in problem.victims]))
        answer = CpSat(context).run(trial, context.deadline.remaining() / 4)
        if answer.solution is None:
            return None
        odd = set(_gone(problem, encoding, answer.solution))
        exact = False
        chosen = [i for i in chosen if i not in odd]
        if not chosen:
            return None
        problem = eviction_problem(question, chosen)
    return None


def _own(encoding: PlacementModel, problem: EvictionProblem) -> list[cp_model.IntVar]:
    """Return the variables that count pending pods of each class that must return."""
    return [encoding.unplaced[g] for g in problem.own]


def _gone(problem: EvictionProblem, encoding: PlacementModel, solution: Sequence[int]) -> list[int]:
    return [
        i
        for g in problem.victims
        for n, pods in problem.at[g].items()
        for i in pods[solution[encoding.x[g, n].index] :]
    ]  # fmt: skip


def _on_their_nodes(problem: EvictionProblem, encoding: PlacementModel) -> None:
    """Allow preemption only on nodes where a returning pod arrives that may preempt."""
    preempting = [g for g in problem.own if problem.cluster.classes[g].pod.spec.preemptionPolicy != "Never"]
    classes_by_node: dict[int, list[int]] = {}
    for g in problem.victims:
        for n in problem.at[g]:
            classes_by_node.setdefault(n, []).append(g)
    for n, classes in classes_by_node.items():
        stay = encoding.sum([encoding.x[g, n] for g in classes]) == sum(len(problem.at[g][n]) for g in classes)
        arriving = encoding.any_of(encoding.cells(preempting, [n]))
        constraint = encoding.model.add(stay)
        if arriving is not None:
            constraint.only_enforce_if(~arriving)


def _search(built: _PreemptionModel, aftermath: After, before: ScenarioVerdict, context: RunContext) -> ScenarioVerdict:
    """Maximise the returning pods, then minimise the preempted pods from the highest priority down."""
    problem, encoding = built.problem, built.encoding
    unfit = before.displaced - sum(encoding.fits[g] for g in problem.own)
    waiting, weights = encoding.sum(_own(encoding, problem)), weights_of(problem)
    gone = encoding.weighted_sum([encoding.unplaced[g] for g in problem.victims], [weights[g] for g in problem.victims])
    verdict, sure = replace(before, bound=before.displaced - unfit if built.exact else before.displaced, by=None), built.exact
    for _ in range(MAX_CUTS):
        first = encoding.model.clone()
        first.minimize(waiting)
        answer = CpSat(context).run(first, context.deadline.remaining() / 2)
        if answer.bound is not None and sure:
            verdict.bound = min(verdict.bound, before.displaced - unfit - answer.bound)
        if answer.solution is None:
            break
        solution = answer.solution
        second = encoding.model.clone()
        second.add(waiting <= sum(solution[v.index] for v in _own(encoding, problem)))
        second.minimize(gone)
        solution = CpSat(context).run(second, context.deadline.remaining() / 2).solution or solution
        counts = encoding.counts(solution)
        better, exhausted = _bound(built, aftermath, counts, _gone(problem, encoding, solution), context)
        if better is not None:
            verdict.assignments, verdict.pending, verdict.preempted = better.assignments, better.pending, better.preempted
            break
        sure &= exhausted
        encoding.forbid(counts, [*problem.own, *problem.victims])
    verdict.by = "solver" if not verdict.pending or verdict.bound < verdict.displaced else None
    return verdict


def _bound(
    built: _PreemptionModel, aftermath: After, counts: Ints, gone: Sequence[int], context: RunContext
) -> tuple[ScenarioVerdict | None, bool]:
    """Return the verdict of a solution in bind order after all preemptions.

    If no order is found, return None, and True if none exists.
    """
    away = set(gone)
    snapshot = replace(aftermath.snapshot, pods=[pod for i, pod in enumerate(aftermath.snapshot.pods) if i not in away])
    options = context.options
    cluster = compile_cluster(snapshot, select(snapshot), daemon_namespaces=options.exempt, policy=hard(options.policy))
    placed = _as_classes_of(cluster, built.problem, aftermath.snapshot, counts)
    order = find_order(cluster, placed, seed=options.seed)
    if order.sequence is None:
        return None, order.exhausted
    answer = PlacedAnswer(placed, order.sequence, {0: int(placed.sum())}, "exact")
    verdict = verdict_of(cluster, answer, [pod_key(pod) for pod in snapshot.pods])
    verdict.preempted = sorted(pod_key(aftermath.snapshot.pods[i]) for i in gone)
    return verdict, True


def _as_classes_of(cluster: Cluster, problem: EvictionProblem, snapshot: Snapshot, counts: Ints) -> Ints:
    """Return the placement of the same pods by the classes of another instance, which may have fewer classes."""
    of = {pod_key(cluster.snapshot.pods[i]): g for g, cls in enumerate(cluster.classes) for i in cls.pods}
    placed_counts = np.zeros((cluster.n_classes, cluster.n_nodes), dtype=np.int64)
    for g in problem.own:
        pods = iter(problem.cluster.classes[g].pods)
        for n in np.flatnonzero(counts[g]).tolist():
            for _ in range(int(counts[g, n])):
                placed_counts[of[pod_key(snapshot.pods[next(pods)])], n] += 1
    return placed_counts
