"""Sentences about device facts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kubestow.models.devices.demand import DeviceDemand
from kubestow.models.documents.placement import Fact
from kubestow.models.kube.selectors import Bools
from kubestow.solver import rules
from kubestow.solver.devices.shortage import claims_asked
from kubestow.solver.explain.conflict.remaining_nodes import RemainingNodes
from kubestow.solver.explain.conflict.wording import listed
from kubestow.solver.rules.dynamic_resources.encoding import DeviceShortage, SharedClaim
from kubestow.solver.rules.dynamic_resources.rule import DynamicResources


def device_words(fact: Fact, view: RemainingNodes, topic: object, classes: Sequence[int], nodes: tuple[Bools, Bools]) -> str:
    """Return the sentence on a fact of DynamicResources, and name the object in ``fact.object`` where the topic has one.

    Args:
        topic: A shared claim, a shortage of devices, an allocated claim, a resource without a device class, or another one.
        classes: Classes of the pods that the sentence is about.
        nodes: The nodes that the fact excludes, and the nodes that it concerns, bool[N] each.
    """
    barred, inside = nodes
    pods, demands = view.whom(classes), [demand for g in classes if (demand := view.cluster.classes[g].devices) is not None]
    refusals = list(dict.fromkeys(demand.refusal for demand in demands if demand.refusal is not None))
    if isinstance(topic, SharedClaim):
        fact.object = f"ResourceClaim {topic.key}"
        return f"claim {topic.key} is allocated once: {pods} share{_s(view, classes)} it and must be where its devices serve"
    if isinstance(topic, DeviceShortage):
        return _shortage(fact, view, topic, classes, inside)
    if refusals:
        return f"{pods} cannot get devices: {listed(refusals)}"
    if any(topic in demand.allocated for demand in demands):
        fact.object = f"ResourceClaim {topic}"
        return f"claim {topic} is allocated: that leaves {view.of_all(~barred)} for {pods}"
    if any(topic in demand.unbacked for demand in demands):
        return f"{view.of_all(barred)} do not list {topic}, and no device class backs it; {pods} request{_s(view, classes)} it"
    rule = DynamicResources.of(rules.build(view.cluster))
    words = dict.fromkeys(rule.message(g, barred & rule.never(g)) for g in classes if (barred & rule.never(g)).any())
    return f"{view.of_all(barred)} lack devices for {pods}: {listed(words)}"


def _shortage(fact: Fact, view: RemainingNodes, topic: DeviceShortage, classes: Sequence[int], inside: Bools) -> str:
    """Return a sentence that compares the free devices of drivers with the pods' requests, and set ``fact.object``.

    Args:
        inside: The nodes that the fact concerns, bool[N]. Of these, those that other facts of the cause leave to the pods count,
            if there are any.
    """
    cluster = view.cluster
    assert cluster.devices is not None
    inventory, books = cluster.devices.inventory, cluster.devices.inventory.books
    nodes = inside & view.open_to(classes)
    nodes = nodes if nodes.any() else inside
    names = np.flatnonzero(nodes).tolist()
    seen = {i for n in names for i in inventory.visible(n).tolist() if inventory.devices[i].driver in topic.drivers}
    units = {inventory.devices[i].unit for i in seen if topic.pool is None or inventory.devices[i].pool == topic.pool}
    free = sum(not books.in_use[unit] for unit in units)
    what = listed(topic.drivers)
    fact.object = f"Node {view.names(nodes)}" if topic.pool is None else f"Pool {topic.pool}"
    where = f"{view.names(nodes)} has" if len(names) == 1 else f"{len(names)} nodes have"
    where = where if topic.pool is None else f"pool {topic.pool} has"
    pods = view.pods(classes)
    each = " each" if len(pods) > 1 else ""
    requests = listed(dict.fromkeys(_requested(cluster.classes[g].devices) for g in classes))
    has = f"{free} of {len(units)} devices of {what} free" if units else "no devices that match"
    return f"{where} {has}, {view.whom(classes)} ask{_s(view, classes)} for {requests}{each}"


def _requested(demand: DeviceDemand | None) -> str:
    if demand is None:
        return "nothing"
    resources = [f"{each.count} {each.resource}" for each in demand.extended]
    return ", ".join([*([claims_asked(demand.claims)] if demand.claims else []), *resources])


def _s(view: RemainingNodes, classes: Sequence[int]) -> str:
    return "s" * (len(view.pods(classes)) == 1)
