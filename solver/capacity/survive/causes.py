"""The causes why pods stay pending after a failure, and the remedies in the cluster that the failure leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.documents.placement import Cause
from kubestow.models.kube.objects import pod_key
from kubestow.models.snapshot.scope import select
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.solver.capacity.survive.decide import ScenarioVerdict
from kubestow.solver.capacity.survive.failures import after
from kubestow.solver.capacity.survive.options import SurviveOptions
from kubestow.solver.capacity.survive.search import Failed, FailureSearch, FailureVerdicts
from kubestow.solver.explain.conflict.minimal_conflict import minimal_cause
from kubestow.solver.explain.conflict.placement_question import PlacementQuestion
from kubestow.solver.explain.placed_pods import placed_in
from kubestow.solver.explain.unplaced import add_remedies, left_of
from kubestow.solver.runtime.run_context import RunContext

#: Maximum number of counterexamples that are explained, the worst first.
MAX_EXPLAINED: Final = 5
#: Fraction of the remaining time for the cause of one counterexample.
CAUSE_TIME_FRACTION: Final = 0.3
#: Maximum number of seconds for the cause of one counterexample.
MAX_CAUSE_SECONDS: Final = 10.0


def explain(search: FailureSearch, verdicts: FailureVerdicts, ways: float | None) -> dict[Failed, Cause]:
    """Return the causes why pods stay pending after the worst failures, as far as time allows.

    With preemption there are no causes, because no search accounts for the pods that may be preempted.

    Args:
        ways: Seconds for remedies after all of these failures, in addition to the remaining time; None for no
            remedies.
    """
    causes: dict[Failed, Cause] = {}
    worst, context = verdicts.worst()[:MAX_EXPLAINED], search.context
    for number, failed in enumerate(worst):
        if context.stop.is_set() or (ways is None and context.over()):
            break
        context.report("causes", detail=f"{number} of {len(worst)} counterexamples")
        limit = context.deadline.remaining() * CAUSE_TIME_FRACTION if context.options.time_limit is not None else MAX_CAUSE_SECONDS
        more = 0.0 if ways is None else ways / len(worst) / 2
        contexts = search.part(min(limit, MAX_CAUSE_SECONDS) + more), None if ways is None else search.part(more)
        cause = _cause(search.snapshot, search.gone(failed), search.request, verdicts.verdicts[failed], contexts)
        if cause is not None:
            causes[failed] = cause
    return causes


def _cause(
    snapshot: Snapshot,
    gone: Sequence[str],
    request: SurviveOptions,
    verdict: ScenarioVerdict,
    contexts: tuple[RunContext, RunContext | None],
) -> Cause | None:
    """Return a minimal cause for the first class of pods that stays pending; None if none was found in time.

    First ignore the other returning pods. If there is no conflict, fix these pods where they were placed.

    Args:
        contexts: The context for the cause, and the one for remedies if they are wanted. Remedies always keep
            the other pods.
    """
    context, ways = contexts
    options = context.options
    snapshot_after = after(snapshot, gone, request).snapshot
    cluster = compile_cluster(snapshot_after, select(snapshot_after), daemon_namespaces=options.exempt, policy=options.policy)
    index = {pod_key(pod): i for i, pod in enumerate(snapshot_after.pods)}
    of = {i: g for g, cls in enumerate(cluster.classes) for i in cls.pods}
    placed = [(index[a.pod], a.node) for a in verdict.assignments]
    together = [0] * cluster.n_classes
    for i, _ in placed:
        together[of[i]] += 1
    waiting: dict[int, list[int]] = {}
    for key in verdict.pending:
        waiting.setdefault(of[index[key]], []).append(index[key])
    entries = left_of(cluster, together)
    alone = [(entry, False) for entry in entries if entry.unaided][:1]
    for entry, bound in [*alone, *((entry, True) for entry in entries[:1])]:
        pods = [i for g in entry.classes for i in waiting.get(g, ())]
        ask = entry.ask if entry.needed > 1 else tuple(pods[:1])
        here = frozenset(a.pod for a in verdict.assignments)
        with_others = PlacementQuestion(
            placed_in(snapshot_after, placed), ask, entry.needed, options.exempt, options.policy, options.catalogue, here
        )
        cause = minimal_cause(with_others if bound else replace(with_others, snapshot=snapshot_after, placed=frozenset()), context)
        if cause is not None:
            cause.pods = sorted(pod_key(snapshot_after.pods[i]) for i in pods)
            cause.gang, cause.alone, cause.together = entry.gang, not bound, entry.needed
            if ways is not None:
                add_remedies(with_others, cause, here, ways)
            return cause
    return None
