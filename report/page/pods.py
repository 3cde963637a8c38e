"""The columns of the pods, or of groups of them where they are too many to be told apart; and what nodes carry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from kubestow.models.kube import objects
from kubestow.report.page.places import EVICTED, MOVED, PENDING, Places
from kubestow.report.page.shapes import Shapes

#: More pods than this are shown in groups, and about so many of those that matter most one by one.
SINGLE: Final = 20_000
NAMED: Final = 2_000


class Columns:
    """Workload, shape and priority of each pod, by place in the lists of the page. ``priorities``: ascending."""

    def __init__(self, places: Places, shapes: Shapes, workloads: Sequence[int]) -> None:
        self._places, self._workloads, self._shapes = places, workloads, shapes
        values = [pod.spec.priority or 0 for pod in places.pods]
        self.priorities = sorted(set(values))
        ids = {value: i for i, value in enumerate(self.priorities)}
        self._priority = [ids[value] for value in values]

    @property
    def grouped(self) -> bool:
        return len(self._places.pods) > SINGLE

    def single(self, pods: Sequence[int]) -> dict[str, Any]:
        """The pods of these indices, one by one; ``zones`` and ``anew`` (:meth:`_asks_anew`) by place in this list (as text)."""
        places = self._places
        at = [(place, i) for place, i in enumerate(pods) if i in places.zones]
        anew = {str(place): asks for place, i in enumerate(pods) if i in places.anew and (asks := self._asks_anew(i)) is not None}
        return {
            "name": [objects.pod_key(places.pods[i]) for i in pods],
            "workload": [self._workloads[i] for i in pods],
            "shape": [self._shapes.of_pod[i] for i in pods],
            "priority": [self._priority[i] for i in pods],
            "place": [[view[i] for i in pods] for view in places.place],
            "zones": {str(place): [[name, zones] for name, zones in places.zones[i]] for place, i in at},
            "anew": anew,
            "state": [places.state[i] for i in pods],
        }

    def _asks_anew(self, i: int) -> list[int] | None:
        """The mCPU and bytes that a pod asks for once it is made again, where a resize in place has left others behind."""
        pod = self._places.pods[i]
        asks = [self._shapes.request(pod, anew=anew) for anew in (False, True)]
        now, then = ([found.get("cpu", 0), found.get("memory", 0)] for found in asks)
        return then if then != now else None

    def changed(self) -> list[int]:
        """The pods that are told by name among groups: all that waves move, as the player follows them; of the others first those that go
        somewhere else, then those that wait."""
        state, steps = self._places.state, {step.pod for _, listed in self._places.waves for step in listed}
        others = [i for i, at in enumerate(state) if at in (MOVED, EVICTED) and i not in steps]
        others += [i for i, at in enumerate(state) if at == PENDING and i not in steps]
        return sorted([*steps, *others[: max(0, NAMED - len(steps))]])

    def groups(self) -> dict[str, Any]:
        """All pods by workload, shape, priority and node: how many in each view. A node of -1: pods that have none."""
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


def usage(places: Places, shapes: Shapes, nodes: int) -> list[dict[str, list[int]]]:
    """Per view what the pods of each node request: mCPU, bytes, and how many they are."""
    found = []
    for v, view in enumerate(places.place):
        cpu, memory, pods = [0] * nodes, [0] * nodes, [0] * nodes
        for i, node in enumerate(view):
            if node >= 0:
                request = shapes.request(places.pods[i], anew=bool(v) and i in places.anew)
                cpu[node] += request.get("cpu", 0)
                memory[node] += request.get("memory", 0)
                pods[node] += 1
        found.append({"cpu": cpu, "memory": memory, "pods": pods})
    return found


def waves(places: Places, *, grouped: bool) -> list[dict[str, Any]]:
    """The steps of each wave; pods by index, or by name where they are shown in groups."""
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
