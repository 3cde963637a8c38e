"""Causes for pods that the rules allow together, but that cannot be bound one after another.

The reason is first-fit: the scheduler gives a claim the first of its free alternatives, regardless of later
pods. A set of rules alone cannot show that. So as many pods as possible are bound, and the cause is why the
others are then rejected.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kubestow.models.cluster.cluster import Cluster
from kubestow.models.documents.placement import Cause, Fact
from kubestow.models.kube.objects import pod_key
from kubestow.solver import rules
from kubestow.solver.bind_order.order import Sequence_
from kubestow.solver.explain.conflict.placement_question import PlacementQuestion, in_some_order
from kubestow.solver.rules.placement_model import build_model
from kubestow.solver.rules.wording import listed
from kubestow.solver.runtime.run_context import RunContext

#: Maximum number of pods to bind; larger questions stay open.
MAX_PODS = 64


def order_cause(question: PlacementQuestion, context: RunContext) -> Cause | None:
    """Return the cause why the needed pods have no bind order; None if they have one, or if time runs out."""
    if not question.needed <= len(question.pods) <= MAX_PODS or question.feasible(context) is not False:
        return None
    cluster = question.cluster()
    # Bind the pods of a gang one by one, as many as possible.
    alone = replace(cluster, gangs=[], classes=[replace(c, gang=None) for c in cluster.classes])
    for k in range(question.needed - 1, -1, -1):
        encoding = build_model(alone, rules.build(alone))
        encoding.model.add(sum(encoding.fits) - encoding.sum(list(encoding.unplaced.values())) == k)
        order = in_some_order(alone, encoding, context)
        if order.placed is not None:
            facts = list(_facts(alone, order.placed[1], question.needed))
            pods = [pod_key(question.snapshot.pods[i]) for i in question.pods]
            return Cause(pods=pods, facts=facts, minimal=len(facts) == 1) if facts else None
        if not order.refuted:
            return None
    return None


def _facts(cluster: Cluster, sequence: Sequence_, needed: int) -> Iterator[Fact]:
    """Yield a fact for each rule that rejects the remaining pods once those of ``sequence`` are bound."""
    active = rules.build(cluster)
    dealt = [0] * cluster.n_classes
    bound: list[str] = []
    for g, n, k in sequence:
        for rule in active:
            rule.place(g, n, k)
        bound += [f"{name} on {cluster.nodes.names[n]}" for name in _names(cluster, g, dealt[g])[:k]]
        dealt[g] += k
    lead = f"at most {len(bound)} of {int(cluster.count.sum())} pods can be bound in any order, and {needed} are needed: "
    lead = f"{lead}with {listed(bound)}, " if bound else "" if needed == 1 else lead
    unbound = [g for g in range(cluster.n_classes) if dealt[g] < cluster.count[g]]
    for rule in active:
        hit = [g for g in unbound if rule.rejects(g).any()]
        if hit:
            whom = listed(name for h in hit for name in _names(cluster, h, dealt[h]))
            why = rule.message(hit[0], rule.rejects(hit[0]))
            yield Fact(rule.name, f"Pod {whom}", f"{lead}{whom} cannot be placed: {why}{rule.order_note(hit)}")


def _names(cluster: Cluster, g: int, first: int) -> list[str]:
    """Return the pods of a class from position ``first`` on."""
    return [pod_key(cluster.snapshot.pods[i]) for i in cluster.classes[g].pods[first:]]
