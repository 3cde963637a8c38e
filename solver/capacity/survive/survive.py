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
from kubestow.solver.capacity.survive.decide import Verdict
from kubestow.solver.capacity.survive.failures import domains
from kubestow.solver.capacity.survive.options import SurviveOptions
from kubestow.solver.capacity.survive.search import Failed, FailureSearch, FailureVerdicts
from kubestow.solver.executors.pool import Pool, Question
from kubestow.solver.runtime.deadline import Deadline
from kubestow.solver.runtime.options import OnProgress, Options
from kubestow.solver.runtime.progress_trace import ProgressReporter
from kubestow.solver.runtime.run_context import RunContext

#: Fraction of the time limit that is reserved for the check.
CHECK_TIME_FRACTION: Final = 0.15
#: Maximum number of pod names in a note.
_MAX_LISTED_PODS: Final = 3


def survive(
    snapshot: Snapshot,
    asked: SurviveOptions,
    options: Options,
    *,
    on_progress: OnProgress | None = None,
    stop: threading.Event | None = None,
    began: float | None = None,
    pool: Pool | None = None,
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
    nodes = domains(snapshot, asked)
    clock = (started if began is None else began) - (options.time_limit or 0.0) * CHECK_TIME_FRACTION
    context = RunContext(options, Deadline(options, clock), stop or threading.Event(), report)
    search = FailureSearch(snapshot, asked, nodes, context, pool)
    cluster = search.instance.cluster
    report("compile", detail=f"{len(cluster.scope.pending)} pods in {cluster.n_classes} classes, {cluster.n_nodes} nodes")
    compiled = time.monotonic()
    found = search.run()
    causes = explain(search, found, ways) if options.causes and not asked.preemption else {}
    solved = time.monotonic()
    result = _document(search, found, causes)
    report("verify")
    insist(check_survival(snapshot, result, partial(_judged, snapshot, result, pool) if pool is not None else None).violations)
    if not options.deterministic:
        result.seconds = doc.Seconds(
            compile=round(compiled - started, 3), solve=round(solved - compiled, 3), verify=round(time.monotonic() - solved, 3)
        )
    return result


def _judged(snapshot: Snapshot, result: docs.Survival, pool: Pool, scenarios: Sequence[docs.Scenario]) -> Iterator[Violation]:
    """Yield the violations that the checker finds in each failure, judged by the workers that decided it. ^C does not end this."""
    said = msgspec.structs.replace(result, outcomes=[], counterexamples=[])
    left = {id(scenario): scenario for scenario in scenarios}
    for scenario, faults in Question(pool, FailureJudge, (snapshot, said)).answers(_faults, scenarios, lambda: False):
        del left[id(scenario)]
        yield from faults
    for scenario in left.values():  # their workers died
        yield from FailureJudge(snapshot, said).scenario(scenario)


def _faults(judge: FailureJudge, scenario: docs.Scenario) -> list[Violation]:
    return list(judge.scenario(scenario))


def _document(search: FailureSearch, found: FailureVerdicts, causes: Mapping[Failed, doc.Cause]) -> docs.Survival:
    snapshot, asked, options = search.snapshot, search.asked, search.context.options
    outcomes = [_scenario(failed, others, found.verdicts.get(failed)) for failed, others in found.alike.items()]
    kinds = [scenario.by for scenario in outcomes if scenario.outcome != "unknown"]
    scope = select(snapshot)
    worst = found.worst()
    return docs.Survival(
        snapshot=doc.SnapshotRef(
            snapshot.sha256, len(snapshot.nodes), len(snapshot.pods), len(scope.pending),
            daemonNamespaces=list(options.exempt), kubernetesVersion=snapshot.gates.version, featureGates=dict(snapshot.gates.given),
            workloads=list(options.workloads), edits=options.edits,
        ),
        fail=asked.fail,
        atOnce=asked.at_once,
        priority=asked.priority,
        preemption=asked.preemption,
        certified=all(scenario.outcome == "survives" for scenario in outcomes),
        scenarios=docs.Scenarios(
            all=found.all,
            distinct=len(outcomes),
            bounded=sum(by in ("nothing", "bound") for by in kinds),
            solved=sum(by in ("composition", "search", "solver") for by in kinds),
            open=len(outcomes) - len(kinds),
            composed=sum(by == "composition" for by in kinds),
        ),
        counterexamples=[
            docs.Counterexample(list(failed), found.verdicts[failed].left, found.verdicts[failed].least, causes.get(failed))
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


def _scenario(failed: Failed, alike: Sequence[Failed], verdict: Verdict | None) -> docs.Scenario:
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
    asked, snapshot, pool = search.asked, search.snapshot, search.pool
    found = []
    waiting = [pod_key(snapshot.pods[i]) for i in select(snapshot, include_gated=True).pending]
    if waiting:
        some = ", ".join(waiting[:_MAX_LISTED_PODS]) + (", …" if len(waiting) > _MAX_LISTED_PODS else "")
        found.append(f"{len(waiting)} pod{_s(waiting)} pending already {'is' if len(waiting) == 1 else 'are'} left out: {some}")
    lost = search.instance.bare
    if lost:
        some = ", ".join(lost[:_MAX_LISTED_PODS]) + (", …" if len(lost) > _MAX_LISTED_PODS else "")
        found.append(f"{len(lost)} running pod{_s(lost)} that no controller recreates would be lost with the node: {some}")
    keyless = len(snapshot.nodes) - sum(len(members) for members in search.nodes.values())
    if keyless:
        found.append(
            f"{keyless} node{'s' if keyless > 1 else ''} without the label {asked.key} never fail{'s' if keyless == 1 else ''} here"
        )
    if asked.preemption and asked.priority is None:
        found.append("without a priority every pod must return, so no pod is preempted")
    if pool is not None and pool.gone is not None:
        found.append(f"continued without worker processes: {pool.gone}")
    if pool is not None and pool.lost:
        found.append(f"{pool.lost} failure{'s' if pool.lost > 1 else ''} not decided because the worker died each time (out of memory?)")
    if search.context.stop.is_set():
        found.append("interrupted: failures whose outcome is unknown were not decided")
    return found


def _s(listed: Sequence[str]) -> str:
    return "" if len(listed) == 1 else "s"
