"""NodeResourcesFit for the checker: free slots and amounts of a node.

Source: kube-scheduler plugin noderesources (fit.go).
"""

from __future__ import annotations

from kubestow.checker.reading.resources import Amounts
from kubestow.checker.rules.base import Fault, Place, StaticRule
from kubestow.models.kube import objects, quantity


def fit_faults(requests: Amounts, pods: int, used: Amounts, capacity: Amounts) -> list[str]:
    """Return why a pod does not fit on a node with the given pods and used amounts. A pod without requests needs only a slot."""
    faults = []
    slots = capacity.get("pods", 0)
    if pods + 1 > slots:
        faults.append(f"pods: {pods} of {slots} taken")
    lacking = []
    for name, amount in requests.items():
        if 0 < amount > capacity.get(name, 0) - used.get(name, 0):
            lacking.append(name)
    for name in sorted(lacking):
        total = capacity.get(name, 0)
        free = total - used.get(name, 0)
        faults.append(f"{name}: requests {_show(name, requests[name])}, {_show(name, free)} of {_show(name, total)} free")
    return faults


def _show(name: str, amount: int) -> str:
    return quantity.format_cpu(amount) if name == "cpu" else str(amount)


class NodeResourcesFit(StaticRule[Amounts]):
    """Requests against the resources that a place counts for all rules."""

    names, order, for_good = ("NodeResourcesFit",), 70, True

    def read(self, pod: objects.Pod, *, judged: bool) -> Amounts | None:
        return self.world.requests.requests(pod, bound=False)

    def faults(self, reading: Amounts, pod: objects.Pod, place: Place) -> list[Fault]:
        requests = self.world.left_to_the_node(reading, place.capacity)
        found = fit_faults(requests, place.pods, place.used, place.capacity)
        return [("NodeResourcesFit", why) for why in found] if found else []
