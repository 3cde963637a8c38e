"""Sentences about topology: spread constraints, affinity and anti-affinity."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kubestow.models.cluster.cluster import AffinityTerm, RequiredAffinity, Spread, domain_sum
from kubestow.models.documents.placement import Fact
from kubestow.models.kube.selectors import Bools
from kubestow.solver.explain.conflict.remaining_nodes import RemainingNodes
from kubestow.solver.explain.conflict.wording import listed, selector
from kubestow.solver.rules.node_resources_fit.rule import NodeResourcesFit


def spread_words(fact: Fact, view: RemainingNodes, topic: object, classes: Sequence[int], barred: Bools) -> str:
    """Return a sentence on a DoNotSchedule constraint.

    If one domain limits the minimum, ``fact.domain`` is set to it.

    Args:
        topic: The constraint. Other topics get a sentence without numbers.
        classes: Classes of the pods that the sentence is about.
        barred: Nodes that the fact excludes, bool[N].
    """
    if not isinstance(topic, Spread):
        return f"topology spread of {view.whom(classes)}"
    cluster, key = view.cluster, topic.key
    head = f"maxSkew {topic.max_skew} over {key}"
    codes, size = cluster.domains(key)
    eligible = cluster.node_sets[topic.eligible] & (codes >= 0)
    counted = np.zeros(size, dtype=bool)
    counted[codes[eligible]] = True
    if topic.matcher is None or not counted.any():
        return f"{head}: {view.of_all(barred)} have no {key}" if barred.any() else f"{head}: no node that counts has the label {key}"
    there = int(np.count_nonzero(counted))
    if there < topic.min_domains:
        return f"{head}: {there} of minDomains {topic.min_domains} exist, so none may hold more than {topic.max_skew} matching pods"
    matching = domain_sum(codes, size, np.where(eligible, cluster.fixed_count(topic.matcher, settled=True), 0))
    counting = np.flatnonzero(cluster.matches(topic.matcher)).tolist()
    pods = int(cluster.count[counting].sum())
    node_room = sum((view.room[g] for g in counting), np.zeros(cluster.n_nodes, dtype=np.int64))
    room = np.minimum(domain_sum(codes, size, np.where(eligible, node_room, 0)), pods)
    reach = np.where(counted, matching + room, np.iinfo(np.int64).max)
    low = int(np.argmin(reach))
    if counting and room[low] >= pods:
        least, most = int(matching[counted].min()), int(matching[counted].max())
        span = f"{least} to {most}" if least != most else str(least)
        missing = f", {view.of_all(barred)} have no {key}" if barred.any() else ""
        where = f"its {there} domains hold" if there > 1 else "its one domain holds"
        return f"{head}: {where} {span} matching pods, {pods} more are to come{missing}"
    fact.domain = view.domain(key, low)
    more = f"takes at most {int(room[low])} more" if room[low] else "none of its nodes takes one"
    return (
        f"{head}: {fact.domain} holds {int(matching[low])} matching pods and {more}{_blockers(view, counting, codes == low)}, "
        f"so no other domain may hold more than {int(reach[low]) + topic.max_skew}"
    )


def _blockers(view: RemainingNodes, counting: Sequence[int], nodes: Bools) -> str:
    """Return a clause with the rules of the cause that keep pods of some classes off some nodes; empty if there are none.

    Args:
        counting: The classes.
        nodes: The nodes, bool[N].
    """
    names = {rule for rule, bars in view.bars.items() if any(g in bars and (bars[g] & nodes).any() for g in counting)}
    if any(tags[0].rule == NodeResourcesFit.name and (view.inside(tags) & nodes).any() for tags, _ in view.core):
        names.add(NodeResourcesFit.name)
    return f" ({', '.join(sorted(names))})" if names else ""


def affinity_words(fact: Fact, view: RemainingNodes, topic: object, classes: Sequence[int], barred: Bools) -> str:
    """Return a sentence on required affinity, or on anti-affinity.

    Args:
        topic: A RequiredAffinity, or (case, term) of anti-affinity. The cases are "running", "symmetric" and that of pending pods
            among each other. Other topics are pods that would each be the first of their group.
        classes: Classes of the pods that the sentence is about.
        barred: Nodes that the fact excludes, bool[N].
    """
    if isinstance(topic, RequiredAffinity):
        return _affinity(view, topic, classes)
    if not isinstance(topic, tuple):
        return "pods that would each be the first of their own affinity group exclude each other"
    kind, term = topic
    assert isinstance(term, AffinityTerm)
    matched = selector(view.cluster, term.matcher)
    if kind == "running":
        return f"anti-affinity of {view.whom(classes)} over {term.key}: pods {matched} run there already, on {view.of_all(barred)}"
    if kind == "symmetric":
        mine = view.whom(classes)
        return f"running pods have anti-affinity over {term.key} against pods {matched}, {mine} among them: {view.of_all(barred)}"
    return _among(fact, view, term, matched, classes)


def _among(fact: Fact, view: RemainingNodes, term: AffinityTerm, matched: str, classes: Sequence[int]) -> str:
    cluster = view.cluster
    owners = [g for g in classes if term in cluster.classes[g].anti]
    fact.object = view.objects(owners)
    head = f"anti-affinity of {view.whom(owners)} over {term.key} against pods {matched}"
    domains = len(set(cluster.domains(term.key)[0][view.open_to(classes)].tolist()) - {-1})
    per = "node" if term.key == "kubernetes.io/hostname" else "domain"
    remainder = f"{domains} {per}{'s' * (domains != 1)} for {int(cluster.count[list(classes)].sum())} pods"
    if all(g in owners and cluster.matches(term.matcher)[g] for g in classes):
        return f"{head}: one per {per}, {remainder}"
    hit = [g for g in classes if cluster.matches(term.matcher)[g]]
    return f"{head}: no {per} has one of these and another of the {int(cluster.count[hit].sum())} that match; {remainder}"


def _affinity(view: RemainingNodes, topic: RequiredAffinity, classes: Sequence[int]) -> str:
    cluster = view.cluster
    head = f"affinity of {view.whom(classes)} over {', '.join(topic.keys)} to pods {selector(cluster, topic.full)}"
    waiting = [g for g in np.flatnonzero(cluster.matches(topic.full)).tolist() if g not in classes]
    also = f", {view.whom(waiting)} are to come" if waiting else ""
    running = cluster.fixed_count(topic.full)
    if running.any():
        near = ~view.nowhere
        for key in topic.keys:
            near &= np.append(cluster.fixed_per_domain(topic.full, key) > 0, False)[cluster.domains(key)[0]]
        runs = int(running.sum())
        return f"{head}: {runs} run{'s' * (runs == 1)}, within reach of {view.of_all(near)}{also}"
    if any(cluster.matches(topic.full)[g] for g in classes):
        counts = listed(f"{cluster.domains(key)[1]} of {key}" for key in topic.keys)
        return f"{head}: none runs yet{also}, so one domain takes all that need each other (there are {counts})"
    return f"{head}: none runs{also or ', and none is among these pods'}"
