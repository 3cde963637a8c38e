"""Why pods stay pending after a failure, and what would bring them back in the cluster that it leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.documents.placement import Cause
from kubestow.models.kube.objects import pod_key
from kubestow.models.snapshot.scope import select
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.solver.capacity.survive.decide import Verdict
from kubestow.solver.capacity.survive.failures import after
from kubestow.solver.capacity.survive.options import SurviveOptions
from kubestow.solver.capacity.survive.search import Failed, FailureSearch, Found
from kubestow.solver.explain.placed_pods import placed_in
from kubestow.solver.explain.unplaced import left_of, remedied
from kubestow.solver.runtime.run_context import RunContext

#: Counterexamples that are explained, the worst first, ...
EXPLAINED: Final = 5
#: ... the share of the time that is left for the cause of each of them, and the most seconds.
CAUSE: Final = 0.3
LONG: Final = 10.0


def explain(search: FailureSearch, found: Found, ways: float | None) -> dict[Failed, Cause]:
    """Return why pods stay pending after the worst failures, within the time that is left, and with ``ways`` what would help after each:
    seconds for all of these together, beside that time. With preemption there is no cause: none that counts what may be preempted is
    sought."""
    causes: dict[Failed, Cause] = {}
    worst, context = found.worst()[:EXPLAINED], search.context
    for number, failed in enumerate(worst):
        if context.stop.is_set() or (ways is None and context.over()):
            break
        context.report("causes", detail=f"{number} of {len(worst)} counterexamples")
        limit = context.deadline.left() * CAUSE if context.options.time_limit is not None else LONG
        more = 0.0 if ways is None else ways / len(worst) / 2
        contexts = search.part(min(limit, LONG) + more), None if ways is None else search.part(more)
        cause = _cause(search.snapshot, search.gone(failed), search.asked, found.verdicts[failed], contexts)
        if cause is not None:
            causes[failed] = cause
    return causes


def _cause(
    snapshot: Snapshot, gone: Sequence[str], asked: SurviveOptions, verdict: Verdict, contexts: tuple[RunContext, RunContext | None]
) -> Cause | None:
    """Return a minimal cause for the first kind of pods that stay pending: without the others that come back if it holds without them,
    else with these where they were placed; None if none was found in time. ``contexts``: for it, and for the ways out, if they are
    asked for; these always count the others."""
    from kubestow.solver.explain.conflict.minimal_conflict import minimal_cause  # takes ortools, which takes long to import
    from kubestow.solver.explain.conflict.placement_question import PlacementQuestion

    context, ways = contexts
    options = context.options
    left = after(snapshot, gone, asked).snapshot
    cluster = compile_cluster(left, select(left), daemon_namespaces=options.exempt, policy=options.policy)
    index = {pod_key(pod): i for i, pod in enumerate(left.pods)}
    of = {i: g for g, cls in enumerate(cluster.classes) for i in cls.pods}
    placed = [(index[a.pod], a.node) for a in verdict.assignments]
    together = [0] * cluster.n_classes
    for i, _ in placed:
        together[of[i]] += 1
    waiting: dict[int, list[int]] = {}
    for key in verdict.left:
        waiting.setdefault(of[index[key]], []).append(index[key])
    entries = left_of(cluster, together)
    alone = [(entry, False) for entry in entries if entry.unaided][:1]
    for entry, bound in [*alone, *((entry, True) for entry in entries[:1])]:
        pods = [i for g in entry.classes for i in waiting.get(g, ())]
        ask = entry.ask if entry.needed > 1 else tuple(pods[:1])
        here = frozenset(a.pod for a in verdict.assignments)
        beside = PlacementQuestion(placed_in(left, placed), ask, entry.needed, options.exempt, options.policy, options.catalogue, here)
        cause = minimal_cause(beside if bound else replace(beside, snapshot=left, placed=frozenset()), context)
        if cause is not None:
            cause.pods = sorted(pod_key(left.pods[i]) for i in pods)
            cause.gang, cause.alone, cause.together = entry.gang, not bound, entry.needed
            if ways is not None:
                cause.waysOut = remedied(beside, cause, here, ways)
            return cause
    return None
