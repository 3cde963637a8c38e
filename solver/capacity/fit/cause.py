"""The cause why one more unit does not fit."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from kubestow.models.documents.fit import Keep
from kubestow.models.documents.placement import Cause
from kubestow.models.kube.objects import pod_key
from kubestow.solver.bind_order.dealing import deal
from kubestow.solver.capacity.fit.question import FitInstance, FitQuestion
from kubestow.solver.capacity.fit.reserved_room import ZoneRoom, zone_cause
from kubestow.solver.capacity.fit.units import UnitsFound
from kubestow.solver.explain.conflict.minimal_conflict import minimal_cause
from kubestow.solver.explain.conflict.placement_question import PlacementQuestion
from kubestow.solver.explain.placed_pods import placed_in
from kubestow.solver.runtime.run_context import RunContext


class OneMore(NamedTuple):
    """The cluster with one unit more than fits, and the question whether its pods can be placed together."""

    instance: FitInstance
    together: PlacementQuestion


def one_more(question: FitQuestion, outcome: UnitsFound) -> OneMore:
    """Return the cluster with one unit more than fits."""
    instance = question.at(outcome.units + 1)
    pods = tuple(instance.scope.pending)
    options = question.options
    return OneMore(instance, PlacementQuestion(instance.snapshot, pods, len(pods), options.exempt, options.policy))


def cause_of(question: FitQuestion, outcome: UnitsFound, beyond: OneMore, context: RunContext) -> Cause | None:
    """Return the minimal cause why unit n + 1 does not fit.

    First look for a conflict that rules out any placement of all pods together. If none is found, fix the
    other pods where the answer puts them, and look for a conflict that rules out the last unit.
    """
    instance, placement_question = beyond
    last = [key for keys in instance.new for key in keys[len(keys) // (outcome.units + 1) * outcome.units :]]
    cause = minimal_cause(placement_question, context) if outcome.units == outcome.bound else None
    together = len(placement_question.pods)
    if cause is None and question.keep is not None and outcome.instance is not None and outcome.instance.room is not None:
        cause = _of_zones(outcome, outcome.instance.room, question.keep)
    alone = cause is not None
    if cause is None and not context.stop.is_set():
        index = {pod_key(pod): i for i, pod in enumerate(instance.snapshot.pods)}
        bound = placed_in(instance.snapshot, [(index[key], node) for key, node in nodes_of(outcome)])
        pods = tuple(index[key] for key in last)
        together = len(pods)
        cause = minimal_cause(replace(placement_question, snapshot=bound, pods=pods, needed=len(pods)), context)
    if cause is None:
        return None
    cause.pods, cause.together, cause.alone = last, together, alone
    return cause


def _of_zones(outcome: UnitsFound, room: ZoneRoom, keep: Keep) -> Cause | None:
    """Return the zones' reserved room as the cause, if scheduling rules alone would admit one more unit."""
    assert outcome.instance is not None
    cluster = outcome.instance.cluster
    facts = zone_cause(cluster, room, outcome.counts(cluster), keep.percent)
    single_reason = cluster.n_classes == 1 and room.max_pods(cluster.demand[0]) <= outcome.units
    return Cause(pods=[], facts=facts, minimal=single_reason, proved=outcome.units == outcome.bound) if facts else None


def nodes_of(outcome: UnitsFound) -> list[tuple[str, str]]:
    """Return the pods of the answer by key, each with its node."""
    if outcome.instance is None:
        return []
    cluster = outcome.instance.cluster
    return [(pod_key(cluster.snapshot.pods[i]), node) for i, node in deal(cluster, outcome.sequence)]
