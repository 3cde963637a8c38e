"""NodePorts: two pods on one node cannot have the same host port.

Source: pkg/scheduler/framework/plugins/nodeports and framework.HostPortInfo.CheckConflict.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

import numpy as np

from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.models.kube.pod_spec import ANY, Port, ports_clash
from kubestow.models.kube.selectors import Bools
from kubestow.solver.cpsat.model import PlacementModel
from kubestow.solver.rules.base import UNLIMITED_PODS, Rule
from kubestow.solver.rules.node_ports.remedies import PortRemedies
from kubestow.solver.rules.node_ports.words import PortWords


class NodePorts(PortWords, PortRemedies):
    """Conflicts on (protocol, port) with equal hostIP, or if either side has the wildcard address."""

    name = "NodePorts"
    local = any_order = tracks_moves = True
    first_come = supplied = whole_units = settled = survives_merging = for_good = False
    reads = ("ports",)
    reaches, batch, order_links = Rule.reaches, Rule.batch, Rule.order_links

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._used: dict[Port, Ints] = {}
        wanted = {(protocol, port) for cls in cluster.classes for _, protocol, port in cls.ports}
        self._addresses: dict[tuple[str, int], set[str]] = {w: set() for w in wanted}
        for port in {*cluster.fixed_ports, *(p for cls in cluster.classes for p in cls.ports)}:
            if port[1:] in wanted:
                self._addresses[port[1:]].add(port[0])
                count = self._used[port] = np.zeros(cluster.n_nodes, dtype=np.int64)
                if port in cluster.fixed_ports:
                    count[cluster.fixed_ports[port]] += 1
        nowhere = np.zeros(cluster.n_nodes, dtype=bool)  # shared by the many classes without host ports
        self._never = [self._taken(g) if cls.ports else nowhere for g, cls in enumerate(cluster.classes)]

    @property
    def addresses(self) -> dict[tuple[str, int], set[str]]:
        """By (protocol, port) that some class requests, the addresses in use. The wildcard is :data:`ANY`."""
        return self._addresses

    def _conflicting(self, port: Port) -> list[Port]:
        address, protocol, number = port
        return [(a, protocol, number) for a in self._addresses[protocol, number] if ANY in (a, address) or a == address]

    def _taken(self, g: int) -> Bools:
        in_use = np.zeros(self.cluster.n_nodes, dtype=bool)
        for port in self.cluster.classes[g].ports:
            for other in self._conflicting(port):
                in_use |= self._used[other] > 0
        return in_use

    def rejects(self, g: int) -> Bools:
        return self._taken(g)

    def alike(self, g: int) -> Hashable:
        return self.cluster.classes[g].ports

    def never(self, g: int) -> Bools:
        return self._never[g]

    def bars(self, g: int) -> list[tuple[Hashable, Bools]]:
        parts: list[tuple[Hashable, Bools]] = []
        for port in sorted(self.cluster.classes[g].ports):
            in_use = np.logical_or.reduce([self._used[other] > 0 for other in self._conflicting(port)])
            parts.append((f"{port[2]}/{port[1]}", in_use))
        return parts

    def room(self, g: int) -> Ints:
        return np.where(self._taken(g), 0, 1 if self.cluster.classes[g].ports else UNLIMITED_PODS)

    def concerned(self, g: int) -> bool:
        return bool(self.cluster.classes[g].ports)

    def place(self, g: int, n: int, k: int = 1) -> None:
        for port in self.cluster.classes[g].ports:
            self._used[port][n] += k

    def repairable(self, g: int) -> bool:
        return True

    def exclusions(self) -> Iterator[tuple[Ints, Ints, str | None]]:
        ports = {g: cls.ports for g, cls in enumerate(self.cluster.classes) if cls.ports}
        for g, mine in ports.items():
            excluded = [h for h, others in ports.items() if ports_clash(mine, others)]
            yield np.array([g]), np.array(excluded, dtype=np.int64), None

    def encode(self, encoding: PlacementModel) -> None:
        """Allow at most one pod per node among the wildcard classes and those of one address, for each (protocol, port)."""
        for (protocol, number), addresses in self._addresses.items():
            for address in sorted(addresses - {ANY}) or [ANY]:
                group = [
                    g
                    for g, cls in enumerate(self.cluster.classes)
                    if (ANY, protocol, number) in cls.ports or (address, protocol, number) in cls.ports
                ]
                with encoding.about(f"{number}/{protocol}", group):
                    encoding.at_most_one_per_node(group)

    def message(self, g: int, rejected: Bools) -> str:
        numbers = sorted({f"{port}/{protocol}" for _, protocol, port in self.cluster.classes[g].ports})
        return f"host port taken: {', '.join(numbers[:3])}{', …' if len(numbers) > 3 else ''}"
