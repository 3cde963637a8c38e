"""Why pods stay pending after a failure."""

from __future__ import annotations

from collections.abc import Sequence

from models.cluster.compile import compile_cluster
from models.documents.placement import Cause
from models.edits.binding import bound_as
from models.kube.objects import pod_key
from models.snapshot.scope import select
from models.snapshot.snapshot import Snapshot
from solver.capacity.survive.decide import Verdict
from solver.capacity.survive.failures import after
from solver.capacity.survive.options import SurviveOptions
from solver.explain.unplaced import left_of
from solver.runtime.run_context import RunContext


def cause_of(snapshot: Snapshot, gone: Sequence[str], asked: SurviveOptions, verdict: Verdict, context: RunContext) -> Cause | None:
    """Return a minimal cause for the first kind of pods that stay pending: without the others that come back if it holds without them,
    else with these where they were placed; None if none was found in time."""
    from solver.explain.conflict.minimal_conflict import minimal_cause  # takes ortools, which takes long to import
    from solver.explain.conflict.placement_question import PlacementQuestion

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
        question = PlacementQuestion(bound_as(left, placed if bound else ()), ask, entry.needed, options.exempt, options.policy)
        cause = minimal_cause(question, context)
        if cause is not None:
            cause.pods = sorted(pod_key(left.pods[i]) for i in pods)
            cause.gang, cause.alone, cause.together = entry.gang, not bound, entry.needed
            return cause
    return None
