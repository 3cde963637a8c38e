"""Clusters after some time of life: all pods run, and many that ran beside them have gone, so that nodes are loosely and unevenly filled.

A cluster of :mod:`kubestow.instances.generate.generator` at its peak, all pods planted by its spreading placement; then whole workloads go,
and single pods of others, from some nodes more than from others. No pod goes that a hard rule of another needs: a provider stays in each
zone of those that want to be near it, and a workload that is spread over zones shrinks where it has most. So every hard rule holds as at
the peak.
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

#: The fullest a cluster may have been, in percent of its CPUs.
PEAK: Final = 95
#: How fast pods go from a node, by weight: some are drained by accident, some were the last to be scaled out.
_PACE: Final = ((3, 1), (4, 2), (2, 5), (1, 12))
#: Of the pods that go, so many in percent go with their whole workload.
_WHOLE: Final = 30
#: At most one pod that must stay for each so many nodes, or there would be little to consolidate.
_STAYING: Final = 8


@dataclass(frozen=True)
class Worn:
    """What a worn cluster is drawn from; shares in percent. ``pods``: those that are left, all running, DaemonSets' included; ``fill``: use
    of CPU by them, about; ``gone``: share of the pods of the peak that went. ``bare``, ``local``: workloads without a controller, and with
    an emptyDir on disk. The others are as of :class:`kubestow.instances.generate.generator.Parameters`."""

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
    """Pods that nobody would create again."""

    def controllers(self) -> Iterator[Object]:
        return iter(())

    def pods(self, node_names: list[str]) -> Iterator[Object]:
        for pod in super().pods(node_names):
            del pod["metadata"]["ownerReferences"]
            yield pod


class _Local(Workload):
    """Pods that keep files on the disk of their node."""

    def spec(self) -> Object:
        return {**super().spec(), "volumes": [{"name": "scratch", "emptyDir": {}}]}


def worn(parameters: Worn) -> Generated:
    """Return the snapshot of these parameters: always the same objects in the same order.

    It has fewer pods than asked for where not all of the peak found room, and more where rules keep more of them.

    Raises:
        ValueError: the cluster would have been fuller than :data:`PEAK` percent before.
    """
    p = parameters
    if p.fill * 100 > PEAK * (100 - p.gone):
        raise ValueError(f"{p.fill} % of the CPUs after {p.gone} % of the pods went: more than {PEAK} % before")
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
    """The pods that are left of each workload. ``zones``: the zone of each node."""

    def __init__(self, workloads: list[Workload], zones: list[str]) -> None:
        self._workloads, self._zones = workloads, zones
        self._followers = Counter(w.provider for w in workloads if w.provider is not None and w.on)
        self._even = [
            any(c["whenUnsatisfiable"] == "DoNotSchedule" and c["topologyKey"] == ZONE for c in w.wishes.spread) for w in workloads
        ]
        self._counts = [Counter(zones[n] for n in w.on) for w in workloads]
        self._gone: list[set[int]] = [set() for _ in workloads]

    def shrink(self, rng: random.Random, surplus: int) -> None:
        """Let ``surplus`` pods go, as far as rules allow it, and tell the workloads what is left of them."""
        singly = surplus - self._whole(rng, surplus * _WHOLE // 100)
        pace = [draw.pick(rng, _PACE) for _ in self._zones]
        order = [
            (rng.getrandbits(30) // pace[n], i, j) for i, w in enumerate(self._workloads) if not self._gone[i] for j, n in enumerate(w.on)
        ]
        order.sort()
        waiting = [(i, j) for _, i, j in order]
        # Whom the balance of its workload keeps now may go later.
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
        """Let workloads that nobody follows go as a whole, ``most`` pods at most; return how many pods went."""
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
        """Keep what is left, zone by zone in turn: a bind order in which an even spread holds all the time."""
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
    """Return the workloads, small ones among them bare or with local storage."""
    room = p.nodes // _STAYING
    found: list[Workload] = []
    for workload in workloads:
        bare, local = draw.chance(rng, p.bare), draw.chance(rng, p.local)
        if (bare or local) and workload.kind == "Deployment" and workload.replicas <= room // 2:
            room -= workload.replicas
            own = vars(workload)
            # Named as if a ReplicaSet had made them, which nobody finds.
            found.append(_Bare(**{**own, "kind": "ReplicaSet", "service": False, "budget": None}) if bare else _Local(**own))
        else:
            found.append(workload)
    return found
