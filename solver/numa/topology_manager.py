"""Replay of the kubelet of one node whose Topology Manager rejects pods: its zones, and allocations in order of arrival."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kubestow.models.kube import quantity
from kubestow.models.numa.containers import INIT, ContainerClass, ZoneAsk
from kubestow.models.numa.node_topology import NumaTree, is_memory
from kubestow.solver.numa import zone_pools

Asks = tuple[ZoneAsk, ...]


class Kubelet:
    """The kubelet of one node.

    Attributes:
        placed: Classes of the pods that arrived, in order.
    """

    def __init__(self, tree: NumaTree) -> None:
        self.tree = tree
        self.placed: list[int] = []
        self._free = self._fresh()

    def _fresh(self) -> zone_pools.Free:
        return [dict(zone) for zone in self.tree.available]

    def asks(self, cls: ContainerClass) -> Asks:
        """Return the requests of a pod that the kubelet aligns."""
        return zone_pools.asks(cls, self.tree)

    def never(self, cls: ContainerClass, allocatable: Mapping[str, int]) -> bool:
        """Return whether the kubelet rejects pods of the class even on the empty node."""
        return bool(zone_pools.lacking(cls, self.tree, allocatable)) or zone_pools.items(cls, self.tree, hints=False) is None

    def accepts(self, wanted: Asks) -> bool:
        return self.room(wanted, 1) == 1

    def why_not(self, wanted: Asks) -> str:
        """Return the current shortage of such a pod, with amounts. Empty if it is accepted."""
        lack = zone_pools.shortage(self.tree, self._free, wanted)
        return "" if lack is None else _words(lack, self.tree)

    def room(self, wanted: Asks, limit: int) -> int:
        """Return the number of such pods, up to ``limit``, that the kubelet accepts one after another."""
        free = [dict(zone) for zone in self._free]
        k = 0
        while k < limit and zone_pools.first_fit(self.tree, free, wanted) is not None:
            k += 1
        return k

    def most(self, wanted: Asks) -> int | None:
        """Return an upper bound on the pods with these requests that the node holds, from the amounts available in all zones together.

        Requests of init containers do not count. None if there are no others.
        """
        per_pod: dict[str, int] = {}
        for ask in wanted:
            if ask.container != INIT:
                for name, amount in ask.amounts:
                    per_pod[name] = per_pod.get(name, 0) + amount
        whole = (1 << len(self.tree.zones)) - 1
        return min((zone_pools.total(self.tree, whole, name) // amount for name, amount in per_pod.items()), default=None)

    def path(self) -> object:
        """Return the residual capacity per zone, which depends on the order of arrival."""
        return tuple(tuple(sorted(zone.items())) for zone in self._free)

    def take(self, g: int, wanted: Asks) -> None:
        """Record the arrival of a pod of class g."""
        zone_pools.first_fit(self.tree, self._free, wanted)
        self.placed.append(g)

    def lose(self, g: int, wanted: Mapping[int, Asks]) -> None:
        """Remove the last pod of class g by replaying the arrival of all others.

        Args:
            wanted: Requests that the kubelet aligns, by class.
        """
        self.placed.pop(len(self.placed) - 1 - self.placed[::-1].index(g))
        self._free = self._fresh()
        for h in self.placed:
            zone_pools.first_fit(self.tree, self._free, wanted[h])


def _words(lack: zone_pools.ZoneShortage, tree: NumaTree) -> str:
    """Return text such as ``cpu: 2, 2 and 2 free of 6; 5 asked``."""
    shown = [z for z in range(len(tree.zones)) if not lack.bound_zones or lack.bound_zones >> z & 1]
    free, total = ([_amount(lack.name, amounts[z]) for z in shown] for amounts in (lack.free, lack.total))
    of = total[0] if len(set(total)) == 1 else _listed(total)
    where = f" in {_listed([tree.zones[z] for z in shown])}, where its init containers are" if lack.bound_zones else ""
    return f"{lack.name}: {_listed(free)} free of {of}{where}; {_amount(lack.name, lack.requested)} asked"


def _amount(name: str, value: int) -> str:
    if name == "cpu":
        return quantity.format_cpu(value)
    return quantity.format_bytes(value) if is_memory(name) or name.endswith("storage") else str(value)


def _listed(texts: Sequence[str]) -> str:
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"
