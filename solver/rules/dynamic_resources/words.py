"""The words of causes for DynamicResources.

Topics are those of the encoding, an allocated claim (``namespace/name``), a resource without a device class, a refusal, and
the name of the rule for any other lack of devices.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kubestow.solver.devices.shortage import claims_asked
from kubestow.solver.rules.base import Rule
from kubestow.solver.rules.facts import FactPart
from kubestow.solver.rules.wording import listed

if TYPE_CHECKING:
    from kubestow.models.devices.demand import DeviceDemand


@dataclass(frozen=True, slots=True)
class DeviceShortage:
    """The topic of rows over devices: competition for devices of these drivers, for the counters of their pool, or for shared capacity.
    ``pool`` is None if the row concerns the devices of one node, and not a pool that several nodes share."""

    drivers: tuple[str, ...]
    pool: str | None = None


@dataclass(frozen=True, slots=True)
class SharedClaim:
    """The topic of rows over a shared claim (``namespace/name``): it is allocated once, and all its pods are where its devices serve."""

    key: str


class DeviceWords(Rule):
    """Facts about devices and claims of devices."""

    drop_rank = 20
    helped_by_new_nodes = helped_by_fewer_pods = True
    counts_nominated = False  # devices have no owner before a pod is bound

    def comes_first(self, topic: Hashable) -> bool:
        """Return True for a claim or class that is missing, is being deleted, or was made for another pod."""
        return topic is not None and any(cls.devices is not None and cls.devices.refusal == topic for cls in self.cluster.classes)

    def order_note(self, classes: Sequence[int]) -> str:
        """Return a clause about alternatives if requests of the classes have several."""
        demands = [self.cluster.classes[g].devices for g in classes]
        several = any(len(ways) > 1 for demand in demands if demand is not None for claim in demand.claims for ways in claim.requests)
        return "; a claim gets the first of its free alternatives, regardless of later pods" if several else ""

    def sentence(self, part: FactPart) -> str:
        topic, view, barred, pods = part.topic, part.view, part.barred, part.pods
        demands = [demand for g in part.classes if (demand := self.cluster.classes[g].devices) is not None]
        refusals = list(dict.fromkeys(demand.refusal for demand in demands if demand.refusal is not None))
        if isinstance(topic, SharedClaim):
            part.fact.object = f"ResourceClaim {topic.key}"
            return f"claim {topic.key} is allocated once: {pods} share{part.plural} it and must be where its devices serve"
        if isinstance(topic, DeviceShortage):
            return self._shortage(part, topic)
        if refusals:
            return f"{pods} cannot get devices: {listed(refusals)}"
        if any(topic in demand.allocated for demand in demands):
            part.fact.object = f"ResourceClaim {topic}"
            return f"claim {topic} is allocated: that leaves {view.of_all(~barred)} for {pods}"
        if any(topic in demand.unbacked for demand in demands):
            return f"{view.of_all(barred)} do not list {topic}, and no device class backs it; {pods} request{part.plural} it"
        words = dict.fromkeys(self.message(g, barred & self.never(g)) for g in part.classes if (barred & self.never(g)).any())
        return f"{view.of_all(barred)} lack devices for {pods}: {listed(words)}"

    def _shortage(self, part: FactPart, topic: DeviceShortage) -> str:
        """Return a sentence that compares the free devices of drivers with the pods' requests, and name the object of the fact.

        If other facts of the cause leave some nodes to the pods, only these count.
        """
        cluster, view = self.cluster, part.view
        assert cluster.devices is not None
        inventory, books = cluster.devices.inventory, cluster.devices.inventory.books
        nodes = part.inside & view.open_to(part.classes)
        nodes = nodes if nodes.any() else part.inside
        names = np.flatnonzero(nodes).tolist()
        seen = {i for n in names for i in inventory.visible(n).tolist() if inventory.devices[i].driver in topic.drivers}
        units = {inventory.devices[i].unit for i in seen if topic.pool is None or inventory.devices[i].pool == topic.pool}
        free = sum(not books.in_use[unit] for unit in units)
        what = listed(topic.drivers)
        part.fact.object = f"Node {view.names(nodes)}" if topic.pool is None else f"Pool {topic.pool}"
        where = f"{view.names(nodes)} has" if len(names) == 1 else f"{len(names)} nodes have"
        where = where if topic.pool is None else f"pool {topic.pool} has"
        each = "" if part.plural else " each"
        requests = listed(dict.fromkeys(_requested(cluster.classes[g].devices) for g in part.classes))
        has = f"{free} of {len(units)} devices of {what} free" if units else "no devices that match"
        return f"{where} {has}, {part.pods} ask{part.plural} for {requests}{each}"


def _requested(demand: DeviceDemand | None) -> str:
    if demand is None:
        return "nothing"
    resources = [f"{each.count} {each.resource}" for each in demand.extended]
    return ", ".join([*([claims_asked(demand.claims)] if demand.claims else []), *resources])
