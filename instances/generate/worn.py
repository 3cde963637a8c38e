"""Clusters after some time of use: all pods run, and many others have gone, so that nodes are loosely and unevenly filled.

A worn cluster begins as a cluster of :mod:`kubestow.instances.generate.generator` at its peak, with all pods
planted. Then whole workloads go, and single pods of others, from some nodes more than from others. A pod that
another pod's hard rule needs stays: a provider remains in each zone of its followers, and a workload spread over
zones shrinks in its fullest zones. So every hard rule holds as at the peak.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from kubestow.instances.generate import draw
from kubestow.instances.generate.fleet import ZONE
from kubestow.instances.generate.generator import Generated, Parameters, generate
from kubestow.instances.generate.workload import Workload

Object = dict[str, Any]

#: Largest CPU utilisation at the peak, in percent.
MAX_PEAK_PERCENT: Final = 95
#: Relative pace at which pods leave a node, by weight. Some nodes were drained, some were the last to be scaled out.
_PACE: Final = ((3, 1), (4, 2), (2, 5), (1, 12))
#: Percentage of removed pods that go with their whole workload.
_WHOLE_WORKLOAD_PERCENT: Final = 30
#: Nodes per pod that must stay. With more such pods there would be little to consolidate.
_NODES_PER_STAYING_POD: Final = 8


@dataclass(frozen=True)
class Worn:
    """Parameters of a worn cluster. Those not listed are as in :class:`kubestow.instances.generate.generator.Parameters`.

    Attributes:
        pods: Number of remaining pods, all running, DaemonSets' included.
        fill: Approximate CPU utilisation by them, in percent.
        gone: Pods of the peak that went, in percent.
        bare: Workloads without a controller, in percent.
        local: Workloads with an emptyDir on disk, in percent.
    """

    nodes: int
    pods: int
    seed: int = 0
    zones: int = 3
    fill: int = 45
    gone: int = 40
    priorities: int = 3
    numa: int = 0
    rules: int = 40
    preferences: int = 30
    tainted: int = 5
    bare: int = 3
    local: int = 5


class _Bare(Workload):
    """Pods without a controller, which nobody would create again."""

    def controllers(self) -> Iterator[Object]:
        return iter(())

    def pods(self, node_names: list[str]) -> Iterator[Object]:
        for pod in super().pods(node_names):
            del pod["metadata"]["ownerReferences"]
            yield pod


class _Local(Workload):
    """Pods that store files on their node's disk."""

    def spec(self) -> Object:
        return {**super().spec(), "volumes": [{"name": "scratch", "emptyDir": {}}]}


def worn(parameters: Worn) -> Generated:
    """Return the snapshot for these parameters: always the same objects in the same order.

    It has fewer pods than requested if some pods of the peak found no room, and more if rules keep them.

    Raises:
        ValueError: the cluster would have been fuller than :data:`MAX_PEAK_PERCENT` before.
    """
    p = parameters
    if p.fill * 100 > MAX_PEAK_PERCENT * (100 - p.gone):
        raise ValueError(f"{p.fill} % of the CPUs after {p.gone} % of the pods went: more than {MAX_PEAK_PERCENT} % before")
    left = 100 - p.gone
    peak = Parameters(
        p.nodes, p.pods * 100 // left, seed=p.seed, zones=p.zones, fill=p.fill * 100 // left, bound=100, priorities=p.priorities,
        numa=p.numa, rules=p.rules, preferences=p.preferences, tainted=p.tainted,
    )  # fmt: skip
    made = generate(peak)
    rng = random.Random(f"kubestow/worn/{p.seed}/{p.nodes}/{p.pods}/{p.gone}")
    daemons = [w for w in made.workloads if w.kind == "DaemonSet"]
    others = made.workloads[len(daemons) :]  # as Workload.provider counts them
    zones = [item["metadata"]["labels"][ZONE] for item in made.heads if item["kind"] == "Node"]
    shrinking = _Shrinking(others, zones)
    shrinking.shrink(rng, sum(len(w.on) for w in made.workloads) - p.pods)
    kept = _marked(rng, p, [w for w in others if w.on])
    spaces = {w.namespace for w in (*daemons, *kept)}
    heads = [item for item in made.heads if item["kind"] != "Namespace" or item["metadata"]["name"] in spaces]
    return Generated(heads, [*daemons, *kept], made.node_names)


class _Shrinking:
    """The remaining pods of each workload. ``zones`` has the zone of each node."""

    def __init__(self, workloads: list[Workload], zones: list[str]) -> None:
        self._workloads, self._zones = workloads, zones
        self._followers = Counter(w.provider for w in workloads if w.provider is not None and w.on)
        self._even = [
            any(c["whenUnsatisfiable"] == "DoNotSchedule" and c["topologyKey"] == ZONE for c in w.wishes.spread) for w in workloads
        ]
        self._counts = [Counter(zones[n] for n in w.on) for w in workloads]
        self._gone: list[set[int]] = [set() for _ in workloads]

    def shrink(self, rng: random.Random, surplus: int) -> None:
        """Remove ``surplus`` pods, as far as rules allow, and update the workloads."""
        singly = surplus - self._whole(rng, surplus * _WHOLE_WORKLOAD_PERCENT // 100)
        pace = [draw.pick(rng, _PACE) for _ in self._zones]
        order = [
            (rng.getrandbits(30) // pace[n], i, j) for i, w in enumerate(self._workloads) if not self._gone[i] for j, n in enumerate(w.on)
        ]
        order.sort()
        waiting = [(i, j) for _, i, j in order]
        # A pod that the spread of its workload keeps now may go later.
        while singly > 0 and waiting:
            later = []
            for i, j in waiting:
                if singly > 0 and self._may_go(i, j):
                    self._go(i, j)
                    singly -= 1
                else:
                    later.append((i, j))
            if len(later) == len(waiting):
                break
            waiting = later
        for i, workload in enumerate(self._workloads):
            self._settle(i, workload)

    def _whole(self, rng: random.Random, most: int) -> int:
        """Remove whole workloads without followers, with at most ``most`` pods; return the number of removed pods."""
        order = list(range(len(self._workloads)))
        rng.shuffle(order)
        went = 0
        for i in order:
            workload = self._workloads[i]
            if not self._followers[i] and 0 < len(workload.on) <= most - went:
                went += len(workload.on)
                self._gone[i] = set(range(len(workload.on)))
                if workload.provider is not None:
                    self._followers[workload.provider] -= 1
        return went

    def _may_go(self, i: int, j: int) -> bool:
        counts, zone = self._counts[i], self._zones[self._workloads[i].on[j]]
        if counts.total() == 1 or (self._followers[i] and counts[zone] == 1):
            return False
        return not self._even[i] or counts[zone] == max(counts.values())

    def _go(self, i: int, j: int) -> None:
        self._gone[i].add(j)
        self._counts[i][self._zones[self._workloads[i].on[j]]] -= 1

    def _settle(self, i: int, workload: Workload) -> None:
        """Keep the remaining pods, one per zone in turn: a bind order in which an even spread always holds."""
        turn: Counter[str] = Counter()
        steps = []
        for j, n in enumerate(workload.on):
            if j not in self._gone[i]:
                zone = self._zones[n]
                steps.append((turn[zone], zone, n))
                turn[zone] += 1
        workload.on = [n for _, _, n in sorted(steps)]
        workload.replicas = workload.bound = len(workload.on)


def _marked(rng: random.Random, p: Worn, workloads: list[Workload]) -> list[Workload]:
    """Return the workloads, with some small ones made bare or given local storage."""
    room = p.nodes // _NODES_PER_STAYING_POD
    found: list[Workload] = []
    for workload in workloads:
        bare, local = draw.chance(rng, p.bare), draw.chance(rng, p.local)
        if (bare or local) and workload.kind == "Deployment" and workload.replicas <= room // 2:
            room -= workload.replicas
            own = vars(workload)
            # Named as if by a ReplicaSet that does not exist.
            found.append(_Bare(**{**own, "kind": "ReplicaSet", "service": False, "budget": None}) if bare else _Local(**own))
        else:
            found.append(workload)
    return found
