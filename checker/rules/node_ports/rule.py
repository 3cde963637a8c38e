"""NodePorts for the checker: no two pods of a node share a host port.

Source: kube-scheduler plugin nodeports.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from kubestow.checker.reading.resources import is_sidecar
from kubestow.checker.rules.base import CheckedRule, Fault, Place, World
from kubestow.models.kube import objects

Port = tuple[str, int, str]  # protocol, host port, host IP
_ANY: Final = "0.0.0.0"


def host_ports(pod: objects.Pod) -> list[Port]:
    """Return the host ports of app containers and sidecars. With hostNetwork, a containerPort without hostPort counts as one."""
    sidecars = [c for c in pod.spec.initContainers or () if is_sidecar(c)]
    found: list[Port] = []
    for container in [*(pod.spec.containers or ()), *sidecars]:
        for port in container.ports or ():
            number = port.hostPort or (port.containerPort if pod.spec.hostNetwork else None) or 0
            if number > 0:
                found.append((port.protocol or "TCP", number, port.hostIP or _ANY))
    return found


def clashing_port(wanted: Iterable[Port], occupied: Iterable[Port]) -> Port | None:
    """Return the first wanted port that is taken, or None.

    Ports clash if protocol and number are equal and the addresses are equal or one is the wildcard.
    """
    addresses_by_port: dict[tuple[str, int], set[str]] = {}
    for protocol, number, address in occupied:
        addresses_by_port.setdefault((protocol, number), set()).add(address)
    for port in wanted:
        addresses = addresses_by_port.get(port[:2])
        if addresses and (port[2] == _ANY or _ANY in addresses or port[2] in addresses):
            return port
    return None


class NodePorts(CheckedRule[Sequence[Port]]):
    """The host ports of each node, with the number of pods that have them."""

    names, order, mutual, for_moves, can_undo, local = ("NodePorts",), 50, False, True, True, True

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._taken: dict[str, dict[Port, int]] = {}
        self._ports: dict[tuple[int, int, bool | None], list[Port]] = {}  # by id of the parts that pods share

    def read(self, pod: objects.Pod, *, judged: bool) -> Sequence[Port] | None:
        memo = id(pod.spec.containers), id(pod.spec.initContainers), pod.spec.hostNetwork
        found = self._ports.get(memo)
        if found is None:
            found = self._ports[memo] = host_ports(pod)
        return found or None

    def faults(self, reading: Sequence[Port], pod: objects.Pod, place: Place) -> list[Fault]:
        clash = clashing_port(reading, self._taken.get(place.name, ()))
        return [("NodePorts", f"host port {clash[1]}/{clash[0]} on {clash[2]} is taken")] if clash else []

    def add(self, reading: Sequence[Port], pod: objects.Pod, place: Place, *, placed: bool) -> None:
        taken = self._taken.setdefault(place.name, {})
        for port in reading:
            taken[port] = taken.get(port, 0) + 1

    def remove(self, reading: Sequence[Port], pod: objects.Pod, place: Place, *, placed: bool) -> None:
        taken = self._taken[place.name]
        for port in reading:
            taken[port] -= 1
            if not taken[port]:
                del taken[port]
