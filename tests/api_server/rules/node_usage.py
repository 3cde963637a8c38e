"""The usage of each node, kept up to date, and checks whether a pod fits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from tests.api_server.rules import quantities

Object = dict[str, Any]
Port = tuple[str, str, int]
#: The order in which lacking resources are reported.
_ORDER = {"pods": 0, "cpu": 1, "memory": 2}


def ports(pod: Object) -> set[Port]:
    """Return the host ports of a pod: address (``0.0.0.0``: all), protocol, port."""
    spec = pod["spec"]
    containers = [
        *(spec.get("containers") or ()),
        *(one for one in spec.get("initContainers") or () if one.get("restartPolicy") == "Always"),
    ]
    return {
        (port.get("hostIP") or "0.0.0.0", port.get("protocol") or "TCP", port.get("hostPort") or port["containerPort"])
        for container in containers
        for port in container.get("ports") or ()
        if port.get("hostPort") or spec.get("hostNetwork")
    }


def _clash(one: Port, other: Port) -> bool:
    return one[1:] == other[1:] and ("0.0.0.0" in (one[0], other[0]) or one[0] == other[0])


class NodeUsage:
    """The total usage of each node by bound pods, terminating ones included, terminated ones excluded."""

    def __init__(self) -> None:
        self._taken: dict[str, Counter[str]] = {}
        self._ports: dict[str, Counter[Port]] = {}
        self._asked: tuple[Object, dict[str, int]] = ({}, {})  # cache for the latest pod, which is checked on every node

    def change(self, pod: Object | None, sign: int) -> None:
        """Add (``sign`` 1) or subtract (-1) a pod."""
        if pod is None or not (node := pod["spec"].get("nodeName")) or (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            return
        taken, used = self._taken.setdefault(node, Counter()), self._ports.setdefault(node, Counter())
        for name, value in quantities.requests(pod).items():
            taken[name] += sign * value
        for port in ports(pod):
            used[port] += sign

    def taken(self, node: str, resource: str) -> int:
        """Return the used amount of a resource on a node."""
        return self._taken[node][resource] if node in self._taken else 0

    def lacking(self, pod: Object, node: Object, *, own: bool = False, additional: Iterable[Object] = ()) -> str | None:
        """Return the first resource that a node lacks for a pod, or None.

        ``own``: the pod itself is already counted. ``additional``: further pods to count."""
        name = node["metadata"]["name"]
        allocatable = quantities.amounts((node.get("status") or {}).get("allocatable"))
        if self._asked[0] is not pod:
            self._asked = pod, dict(sorted(quantities.requests(pod).items(), key=lambda one: _ORDER.get(one[0], 3)))
        asked = self._asked[1]
        more = [quantities.requests(one) for one in additional]
        for resource in asked:
            others = self.taken(name, resource) - (asked[resource] if own else 0) + sum(one.get(resource, 0) for one in more)
            if asked[resource] > allocatable.get(resource, 0) - others:
                return resource
        return None

    def ports_clash(self, pod: Object, node: str, *, own: bool = False, additional: Iterable[Object] = ()) -> bool:
        """Return True if another pod on the node uses a host port of this pod. Arguments are as for ``lacking``."""
        wanted = ports(pod)
        if not wanted:
            return False
        used = Counter(self._ports.get(node, {}))
        if own:
            used.subtract(wanted)
        for one in additional:
            used.update(ports(one))
        return any(count > 0 and _clash(port, mine) for port, count in used.items() for mine in wanted)
