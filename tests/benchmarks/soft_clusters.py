"""Clusters like the recorded families ``soft-N-F``: N nodes, F % full, every pod fits, and preferences compete.

How often applications have which preference is counted in the six recorded instances (2,098 applications), so that what the search does
can be measured on clusters that nothing was tuned on.
"""

from __future__ import annotations

import random
from typing import Final

from tests.objects import Object, node, pod

ZONE: Final = "topology.kubernetes.io/zone"
HOST: Final = "kubernetes.io/hostname"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
#: mCPU and MiB.
_SIZES: Final = ((100, 256), (250, 512), (500, 1024), (500, 4096), (1000, 2048), (2000, 4096))
_CPUS: Final = (8_000, 16_000, 32_000)
_MEMORIES: Final = (32_768, 65_536, 131_072)
_WEIGHTS: Final = (10, 50, 100)
_GENERATIONS: Final = ("a", "b", "c")
_DISKS: Final = ("ssd", "hdd")
#: Exponent of the Pareto distribution of replicas, of which 2 are the fewest and half as many as nodes the most.
_REPLICAS: Final = 1.2
#: Shares of the nodes with a taint, and of the applications with each preference.
_OLD: Final = 0.1
_ANTI_AFFINITY: Final = 0.5
_AFFINITY: Final = 0.3
_NODE_AFFINITY: Final = 0.32
_HARD_SPREAD: Final = 0.07
_SOFT_SPREAD: Final = 0.055
#: Share of the terms of each kind over zones; the others are over nodes.
_ANTI_AFFINITY_OVER_ZONES: Final = 0.54
_AFFINITY_OVER_ZONES: Final = 0.61


def soft_cluster(seed: int, *, nodes: int, fill: int) -> list[Object]:
    """Return nodes in three zones and pending pods that ask for ``fill`` percent of their CPUs or memory, the scarcer resource."""
    rng = random.Random(f"kubestow/soft clusters/{seed}/{nodes}/{fill}")
    objects: list[Object] = []
    room = [0, 0]
    for i in range(nodes):
        cpu, memory = rng.choice(_CPUS), rng.choice(_MEMORIES)
        room = [room[0] + cpu, room[1] + memory]
        labels = {HOST: f"n{i}", ZONE: f"z{i % 3}", "disk": rng.choice(_DISKS), "gen": rng.choice(_GENERATIONS)}
        taints = [{"key": "old", "value": "yes", "effect": "PreferNoSchedule"}] if rng.random() < _OLD else []
        objects.append(node(f"n{i}", cpu=f"{cpu}m", memory=f"{memory}Mi", labels=labels, taints=taints))
    waiting: list[Object] = []
    requested, a = [0, 0], 0
    while all(100 * requested[r] < fill * room[r] for r in range(2)):
        cpu, memory = rng.choice(_SIZES)
        replicas = min(int(2 * rng.paretovariate(_REPLICAS)), nodes // 2)
        own = _preferences(rng, a)
        what: Object = {"labels": {"app": f"app{a}"}, "owner": f"ReplicaSet/app{a}", "cpu": f"{cpu}m", "memory": f"{memory}Mi"}
        waiting += [pod(f"app{a}-{i}", **what, **own) for i in range(replicas)]
        requested = [requested[0] + replicas * cpu, requested[1] + replicas * memory]
        a += 1
    rng.shuffle(waiting)
    return objects + waiting


def _preferences(rng: random.Random, a: int) -> Object:
    """Return the node and pod rules in the spec of an application's pods."""
    own: Object = {"labelSelector": {"matchLabels": {"app": f"app{a}"}}}
    affinity: Object = {}
    if rng.random() < _ANTI_AFFINITY:
        key = ZONE if rng.random() < _ANTI_AFFINITY_OVER_ZONES else HOST
        affinity["podAntiAffinity"] = {PREFERRED: [{"weight": rng.choice(_WEIGHTS), "podAffinityTerm": own | {"topologyKey": key}}]}
    if a and rng.random() < _AFFINITY:
        key = ZONE if rng.random() < _AFFINITY_OVER_ZONES else HOST
        other = {"labelSelector": {"matchLabels": {"app": f"app{rng.randrange(a)}"}}, "topologyKey": key}
        affinity["podAffinity"] = {PREFERRED: [{"weight": rng.choice(_WEIGHTS), "podAffinityTerm": other}]}
    if rng.random() < _NODE_AFFINITY:
        # as in the recorded instances, no node has some of the preferred labels
        wanted = {"key": rng.choice(["disk", "gen"]), "operator": "In", "values": [rng.choice([*_DISKS, *_GENERATIONS[:2]])]}
        affinity["nodeAffinity"] = {PREFERRED: [{"weight": rng.choice(_WEIGHTS), "preference": {"matchExpressions": [wanted]}}]}
    found: Object = {"affinity": affinity} if affinity else {}
    when = rng.random()
    if when < _HARD_SPREAD + _SOFT_SPREAD:
        unsatisfiable = "DoNotSchedule" if when < _HARD_SPREAD else "ScheduleAnyway"
        found["topologySpreadConstraints"] = [own | {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": unsatisfiable}]
    return found
