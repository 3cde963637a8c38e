"""Filters that a running pod breaks by forgiven rules alone; they do not count for the goal repair.

A pod that breaks the same filter by another rule as well is not excused. The cluster is compiled twice, with
all rules and without the forgiven ones.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from kubestow.models.documents.rebalance_plan import EarlierSnapshot, ExecutionGrace, ForgivenRule, RebalancePlan
from kubestow.models.execution.execution_grace import History, Rule, time_of, warnings, without
from kubestow.models.kube.objects import pod_key
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.solver.rebalance.problem.forgiveness import Forgiveness, forgive
from kubestow.solver.rebalance.problem.options import PlanOptions
from kubestow.solver.rebalance.problem.problem import read_problem
from kubestow.solver.rebalance.problem.state import PlanState
from kubestow.solver.rules import PLAN_FACES

#: The fields whose rules each filter checks.
FIELDS: Final = {rule.name: face.execution_fields for rule, face in PLAN_FACES.items() if face.execution_fields}
#: Number of rules that a note names.
_MAX_NAMED_RULES: Final = 5


def excuse(snapshot: Snapshot, plan_options: PlanOptions) -> tuple[PlanOptions, Forgiveness]:
    """Return the plan options with the rules that the history forgives, and these rules.

    Raises:
        InputError: A snapshot lacks its time, or see
            :func:`kubestow.solver.rebalance.problem.problem.read_problem`.
    """
    if "repair" not in plan_options.goals:
        return plan_options, Forgiveness()
    forgiveness = forgive(snapshot, plan_options.history, plan_options.options.exempt)
    if not forgiveness.rules:
        return plan_options, forgiveness
    before = _broken(snapshot, plan_options)
    excused: dict[int, frozenset[str]] = {}
    for name, fields in FIELDS.items():
        rules: list[tuple[int, Rule]] = [each for each in forgiveness.rules if each[1][0] in fields]
        if rules:
            after = _broken(without(snapshot, rules), replace(plan_options, anchors=frozenset(i for i, _ in rules)))
            for i, broken in before.items():
                if name in broken and name not in after.get(i, ()):
                    excused[i] = excused.get(i, frozenset()) | {name}
    return replace(plan_options, forgiven=frozenset(forgiveness.rules), excused=excused), forgiveness


def account(plan: RebalancePlan, snapshot: Snapshot, plan_options: PlanOptions, forgiveness: Forgiveness) -> None:
    """Record in a plan the forgiven rules and the notes about them."""
    history = plan_options.history
    if "repair" not in plan_options.goals:
        return
    if history.grace or history.earlier or forgiveness.rules:
        earlier = [
            EarlierSnapshot(each.sha256, each.capture.time if each.capture is not None else "")
            for each in sorted(history.earlier, key=time_of)
        ]
        names = sorted((pod_key(snapshot.pods[i]), name) for i, excused in plan_options.excused.items() for name in excused)
        plan.executionGrace = ExecutionGrace(history.grace, earlier, [ForgivenRule(*each) for each in names])
    plan.notes += [*warnings(snapshot.pods), *sentences(snapshot, history, forgiveness)]


def sentences(snapshot: Snapshot, history: History, excused: Forgiveness) -> list[str]:
    """Return the notes on forgiven rules, and on rules that count because earlier snapshots are missing."""
    said = [
        f"{pod_key(snapshot.pods[i])} breaks {field} that holds during execution; within its grace of {grace} s it does not count yet"
        for (i, (field, _)), grace in excused.rules.items()
    ]
    said = list(dict.fromkeys(said))
    texts = said[:_MAX_NAMED_RULES]
    if len(said) > _MAX_NAMED_RULES:
        texts.append(f"{len(said) - _MAX_NAMED_RULES} more rules that hold during execution are within their grace")
    if excused.uncovered:
        rules = f"{excused.uncovered} broken rule{'s' * (excused.uncovered > 1)} that hold{'s' * (excused.uncovered == 1)} during execution"
        why = "the earlier snapshots do not cover the whole grace" if history.earlier else "no earlier snapshot is given (--since)"
        texts.append(f"{rules} may be within the grace but count: {why}")
    return texts


def _broken(snapshot: Snapshot, plan_options: PlanOptions) -> dict[int, frozenset[str]]:
    """Return the filters that running pods break, by index of the pod."""
    problem = read_problem(snapshot, replace(plan_options, goals=(), forgiven=(), excused={}))
    state = PlanState(problem)
    found: dict[int, frozenset[str]] = {}
    for g in np.flatnonzero(problem.subjects).tolist():
        nodes = np.flatnonzero(problem.start[g])
        for name, mask in state.breaks(g, nodes).items():
            names = {problem.cluster.nodes.names[n] for n in nodes[mask].tolist()}
            for i in problem.cluster.classes[g].pods:
                if snapshot.pods[i].spec.nodeName in names:
                    found[i] = found.get(i, frozenset()) | {name}
    return found
