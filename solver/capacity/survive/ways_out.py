"""What would bring pods back that stay pending after a failure, in the cluster that it leaves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from models.documents.survival import Counterexample
from models.kube.objects import pod_key
from models.snapshot.snapshot import Snapshot
from solver.capacity.survive.decide import compiled, decide
from solver.capacity.survive.options import SurviveOptions
from solver.explain.unplaced import explain_left, left_of
from solver.runtime.options import Options
from solver.runtime.run_context import RunContext

#: Counterexamples that get some, the worst first.
MOST = 5
#: Seconds for one of them at least.
_LEAST = 2.0


def find_ways(
    snapshot: Snapshot, found: Sequence[Counterexample], nodes: Mapping[str, Sequence[str]], asked: SurviveOptions, context: RunContext
) -> None:
    """Give the causes of the worst counterexamples (changed) the changes that would help after this failure, within the deadline, and a
    cause to those that have none. ``nodes``: those of each domain that can fail."""
    seconds = context.deadline.left()
    for number, each in enumerate(found[:MOST]):
        left = seconds * (1 - number / min(MOST, len(found))) if context.options.deterministic else context.deadline.left()
        if context.stop.is_set() or (number and left <= 0):
            return
        context.report("ways out", detail=f"{number} of {min(MOST, len(found))} counterexamples")
        share = max(_LEAST, left / (min(MOST, len(found)) - number))
        options = replace(context.options, time_limit=share)
        _find(snapshot, each, [name for failed in each.failed for name in nodes[failed]], asked, options, context)


def _find(
    snapshot: Snapshot, each: Counterexample, gone: Sequence[str], asked: SurviveOptions, options: Options, context: RunContext
) -> None:
    cluster = compiled(snapshot, gone, asked, options)
    index = {pod_key(pod): i for i, pod in enumerate(cluster.snapshot.pods)}
    part = RunContext.start(replace(options, time_limit=(options.time_limit or _LEAST) / 4), context.stop)
    placed = [(index[a.pod], a.node) for a in decide(cluster, part).assignments]
    there = {i for i, _ in placed}
    left = left_of(cluster, [sum(i in there for i in cls.pods) for cls in cluster.classes])
    if not left:
        return
    rest = RunContext.start(replace(options, time_limit=(options.time_limit or _LEAST) * 3 / 4), context.stop)
    causes = explain_left(cluster.snapshot, left[:1], placed, rest)
    if not causes:
        return
    found = causes[0][1]
    if each.cause is None:
        each.cause = found
    elif not set(found.pods).isdisjoint(each.cause.pods):
        each.cause.waysOut = found.waysOut
