"""The columns of pods, or of groups if there are too many pods to show individually, and the usage of nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from kubestow.models.kube import objects
from kubestow.report.page.places import EVICTED, MOVED, PENDING, PodPlaces
from kubestow.report.page.shapes import Shapes

#: Maximum number of pods shown individually. Above it, pods are grouped and about ``MAX_NAMED_PODS`` important pods are
#: named.
MAX_SINGLE_PODS: Final = 20_000
MAX_NAMED_PODS: Final = 2_000


class Columns:
    """Workload, shape and priority of each pod, as indices into the lists of the page. ``priorities`` is ascending."""

    def __init__(self, places: PodPlaces, shapes: Shapes, workloads: Sequence[int]) -> None:
        self._places, self._workloads, self._shapes = places, workloads, shapes
        values = [pod.spec.priority or 0 for pod in places.pods]
        self.priorities = sorted(set(values))
        ids = {value: i for i, value in enumerate(self.priorities)}
        self._priority = [ids[value] for value in values]

    @property
    def grouped(self) -> bool:
        return len(self._places.pods) > MAX_SINGLE_PODS

    def single(self, pods: Sequence[int]) -> dict[str, Any]:
        """Return the given pods individually. ``zones`` and new requests are keyed by index in this list (as text)."""
        places = self._places
        at = [(place, i) for place, i in enumerate(pods) if i in places.zones]
        changed_requests = {
            str(place): asks for place, i in enumerate(pods) if i in places.recreated and (asks := self._new_request(i)) is not None
        }
        return {
            "name": [objects.pod_key(places.pods[i]) for i in pods],
            "workload": [self._workloads[i] for i in pods],
            "shape": [self._shapes.of_pod[i] for i in pods],
            "priority": [self._priority[i] for i in pods],
            "place": [[view[i] for i in pods] for view in places.place],
            "zones": {str(place): [[name, zones] for name, zones in places.zones[i]] for place, i in at},
            "recreated": changed_requests,
            "state": [places.state[i] for i in pods],
        }

    def _new_request(self, i: int) -> list[int] | None:
        """Return the mCPU and bytes that a pod requests after it is recreated. None if they do not differ by an in-place resize."""
        pod = self._places.pods[i]
        asks = [self._shapes.request(pod, recreated=recreated) for recreated in (False, True)]
        now, then = ([found.get("cpu", 0), found.get("memory", 0)] for found in asks)
        return then if then != now else None

    def changed(self) -> list[int]:
        """Return the pods that are named next to groups: pods in waves, which the player follows, then moved pods, then pending pods."""
        state, steps = self._places.state, {step.pod for _, listed in self._places.waves for step in listed}
        others = [i for i, at in enumerate(state) if at in (MOVED, EVICTED) and i not in steps]
        others += [i for i, at in enumerate(state) if at == PENDING and i not in steps]
        return sorted([*steps, *others[: max(0, MAX_NAMED_PODS - len(steps))]])

    def groups(self) -> dict[str, Any]:
        """Return the number of pods in each view by workload, shape, priority and node (-1: none)."""
        counts: dict[tuple[int, int, int, int], list[int]] = {}
        views = self._places.place
        for v, view in enumerate(views):
            for key in zip(self._workloads, self._shapes.of_pod, self._priority, view, strict=True):
                found = counts.get(key)
                if found is None:
                    found = counts[key] = [0] * len(views)
                found[v] += 1
        keys = sorted(counts, key=lambda key: (key[3], key))
        return {
            "workload": [key[0] for key in keys],
            "shape": [key[1] for key in keys],
            "priority": [key[2] for key in keys],
            "node": [key[3] for key in keys],
            "count": [[counts[key][v] for key in keys] for v in range(len(views))],
        }


def usage(places: PodPlaces, shapes: Shapes, nodes: int) -> list[dict[str, list[int]]]:
    """Return, per view, the requests of the pods on each node: mCPU, bytes, and number of pods."""
    found = []
    for v, view in enumerate(places.place):
        cpu, memory, pods = [0] * nodes, [0] * nodes, [0] * nodes
        for i, node in enumerate(view):
            if node >= 0:
                request = shapes.request(places.pods[i], recreated=bool(v) and i in places.recreated)
                cpu[node] += request.get("cpu", 0)
                memory[node] += request.get("memory", 0)
                pods[node] += 1
        found.append({"cpu": cpu, "memory": memory, "pods": pods})
    return found


def waves(places: PodPlaces, *, grouped: bool) -> list[dict[str, Any]]:
    """Return the steps of each wave. Pods are identified by index, or by name if they are grouped."""
    return [
        {
            "wave": number,
            "steps": [
                {
                    "pod": objects.pod_key(places.pods[step.pod]) if grouped else step.pod,
                    "from": step.source,
                    "to": step.to,
                    "reason": step.reason,
                    "evict": step.evict,
                    "stopover": step.stopover,
                }
                for step in steps
            ],
        }
        for number, steps in places.waves
    ]
