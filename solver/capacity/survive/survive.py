"""The entry point of ``survive``: a snapshot in, a verified Survival out for every failure of nodes or domains."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import msgspec

from kubestow.checker.capacity.survival import FailureJudge, check_survival
from kubestow.checker.violation import Violation, insist
from kubestow.models.cluster import unmodelled
from kubestow.models.documents import placement as doc
from kubestow.models.documents import survival as docs
from kubestow.models.documents.policy import DEFAULT
from kubestow.models.kube.objects import pod_key
from kubestow.models.snapshot.scope import select
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.solver.capacity.survive.causes import explain
from kubestow.solver.capacity.survive.decide import ScenarioVerdict
from kubestow.solver.capacity.survive.failures import domains
from kubestow.solver.capacity.survive.options import SurviveOptions
from kubestow.solver.capacity.survive.search import Failed, FailureSearch, FailureVerdicts
from kubestow.solver.executors.pool import PoolQuestion, WorkerPool
from kubestow.solver.runtime.deadline import Deadline
from kubestow.solver.runtime.options import OnProgress, Options
from kubestow.solver.runtime.phase_seconds import phase_seconds
from kubestow.solver.runtime.progress_trace import ProgressReporter
from kubestow.solver.runtime.run_context import RunContext

#: Fraction of the time limit that is reserved for the check.
CHECK_TIME_FRACTION: Final = 0.15
#: Maximum number of pod names in a note.
_MAX_LISTED_PODS: Final = 3


def survive(
    snapshot: Snapshot,
    request: SurviveOptions,
    options: Options,
    *,
    on_progress: OnProgress | None = None,
    stop: threading.Event | None = None,
    began: float | None = None,
    pool: WorkerPool | None = None,
    ways: float | None = None,
) -> docs.Survival:
    """Return the pods that return after every failure.

    Args:
        stop: May be set from another thread or a signal handler. Then the results known so far are returned.
        began: Time at which the caller began, on the monotonic clock. The time limit counts from there.
        pool: Workers that share the work.
        ways: Seconds in addition to the time limit for changes that help after the worst failures.

    Raises:
        InputError: No such domains, fewer domains than fail at once, or quantities that cannot be summed.
        InternalFault: The independent checker found the result invalid.
    """
    started = time.monotonic()
    report = ProgressReporter(on_progress, started)
    report("compile")
    nodes = domains(snapshot, request)
    clock = (started if began is None else began) - (options.time_limit or 0.0) * CHECK_TIME_FRACTION
    context = RunContext(options, Deadline(options, clock), stop or threading.Event(), report)
    search = FailureSearch(snapshot, request, nodes, context, pool)
    cluster = search.instance.cluster
    report("compile", detail=f"{len(cluster.scope.pending)} pods in {cluster.n_classes} classes, {cluster.n_nodes} nodes")
    compiled = time.monotonic()
    verdicts = search.run()
    causes = explain(search, verdicts, ways) if options.causes and not request.preemption else {}
    solved = time.monotonic()
    result = _document(search, verdicts, causes)
    report("verify")
    insist(check_survival(snapshot, result, partial(_judged, snapshot, result, pool) if pool is not None else None).violations)
    result.seconds = phase_seconds(options, started, solved, compiled)
    return result


def _judged(snapshot: Snapshot, result: docs.Survival, pool: WorkerPool, scenarios: Sequence[docs.Scenario]) -> Iterator[Violation]:
    """Yield the violations that the checker finds in each failure, judged by the workers that decided it. ^C does not end this."""
    said = msgspec.structs.replace(result, outcomes=[], counterexamples=[])
    unjudged = {id(scenario): scenario for scenario in scenarios}
    for scenario, faults in PoolQuestion(pool, FailureJudge, (snapshot, said)).answers(_faults, scenarios, lambda: False):
        del unjudged[id(scenario)]
        yield from faults
    for scenario in unjudged.values():  # their workers died
        yield from FailureJudge(snapshot, said).scenario(scenario)


def _faults(judge: FailureJudge, scenario: docs.Scenario) -> list[Violation]:
    return list(judge.scenario(scenario))


def _document(search: FailureSearch, verdicts: FailureVerdicts, causes: Mapping[Failed, doc.Cause]) -> docs.Survival:
    snapshot, request, options = search.snapshot, search.request, search.context.options
    outcomes = [_scenario(failed, others, verdicts.verdicts.get(failed)) for failed, others in verdicts.alike.items()]
    kinds = [scenario.by for scenario in outcomes if scenario.outcome != "unknown"]
    scope = select(snapshot)
    worst = verdicts.worst()
    return docs.Survival(
        snapshot=doc.SnapshotRef(
            snapshot.sha256, len(snapshot.nodes), len(snapshot.pods), len(scope.pending),
            daemonNamespaces=list(options.exempt), kubernetesVersion=snapshot.gates.version, featureGates=dict(snapshot.gates.given),
            workloads=list(options.workloads), edits=options.edits,
        ),
        fail=request.fail,
        atOnce=request.at_once,
        priority=request.priority,
        preemption=request.preemption,
        certified=all(scenario.outcome == "survives" for scenario in outcomes),
        scenarios=docs.Scenarios(
            all=verdicts.all,
            distinct=len(outcomes),
            bounded=sum(by in ("nothing", "bound") for by in kinds),
            solved=sum(by in ("composition", "search", "solver") for by in kinds),
            open=len(outcomes) - len(kinds),
            composed=sum(by == "composition" for by in kinds),
        ),
        counterexamples=[
            docs.Counterexample(list(failed), verdicts.verdicts[failed].pending, verdicts.verdicts[failed].least, causes.get(failed))
            for failed in worst
        ],
        outcomes=outcomes,
        policy=options.policy if options.policy != DEFAULT else None,
        unmodelled=[
            *options.unmodelled,
            *unmodelled.find(snapshot, search.instance.pods, tiers=options.policy.networkTiers),
        ],
        notes=_notes(search),
    )  # fmt: skip


def _scenario(failed: Failed, alike: Sequence[Failed], verdict: ScenarioVerdict | None) -> docs.Scenario:
    outcome: docs.Outcome = "unknown"
    if verdict is not None and verdict.by is not None:
        outcome = "survives" if verdict.survives else "pending"
    survives = verdict is not None and outcome == "survives"
    return docs.Scenario(
        list(failed),
        outcome,
        (verdict.by if verdict is not None else None) or "nothing",
        verdict.displaced if verdict is not None else 0,
        verdict.least if verdict is not None and outcome == "pending" else 0,
        [list(other) for other in alike],
        assignments=verdict.assignments if verdict is not None and survives else [],
        preempted=verdict.preempted if verdict is not None and survives else [],
    )


def _notes(search: FailureSearch) -> list[str]:
    request, snapshot, pool = search.request, search.snapshot, search.pool
    notes = []
    waiting = [pod_key(snapshot.pods[i]) for i in select(snapshot, include_gated=True).pending]
    if waiting:
        some = ", ".join(waiting[:_MAX_LISTED_PODS]) + (", …" if len(waiting) > _MAX_LISTED_PODS else "")
        notes.append(f"{len(waiting)} pod{_s(waiting)} pending already {'is' if len(waiting) == 1 else 'are'} left out: {some}")
    lost = search.instance.bare
    if lost:
        some = ", ".join(lost[:_MAX_LISTED_PODS]) + (", …" if len(lost) > _MAX_LISTED_PODS else "")
        notes.append(f"{len(lost)} running pod{_s(lost)} that no controller recreates would be lost with the node: {some}")
    keyless = len(snapshot.nodes) - sum(len(members) for members in search.nodes.values())
    if keyless:
        notes.append(
            f"{keyless} node{'s' if keyless > 1 else ''} without the label {request.key} never fail{'s' if keyless == 1 else ''} here"
        )
    if request.preemption and request.priority is None:
        notes.append("without a priority every pod must return, so no pod is preempted")
    if pool is not None and pool.gone is not None:
        notes.append(f"continued without worker processes: {pool.gone}")
    if pool is not None and pool.lost:
        notes.append(f"{pool.lost} failure{'s' if pool.lost > 1 else ''} not decided because the worker died each time (out of memory?)")
    if search.context.stop.is_set():
        notes.append("interrupted: failures whose outcome is unknown were not decided")
    return notes


def _s(listed: Sequence[str]) -> str:
    return "" if len(listed) == 1 else "s"
