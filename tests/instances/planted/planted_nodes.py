"""Nodes that are exactly the sum of some pods of nine sizes, like the recorded families ``pack-NxK-100`` and ``rules-NxK-100``.

Workloads of 1 to 12 replicas are made of the pods of a size. Those with rules get one that holds where their pods were cut:
anti-affinity on the hostname, affinity or maxSkew 1 over zones, or node affinity to zones.
"""

from __future__ import annotations

import random
from typing import Any, Final

from tests.objects import Object, node, pod

ZONE: Final = "topology.kubernetes.io/zone"
HOST: Final = "kubernetes.io/hostname"
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
#: mCPU and MiB.
_SIZES: Final = (
    (100, 128), (250, 256), (500, 1024), (500, 4096), (1000, 1024), (1500, 4096), (2000, 2048), (2000, 6144), (3000, 8192),
)  # fmt: skip
_REPLICAS: Final = (1, 2, 3, 5, 8, 12)
_PRIORITIES: Final = (0, 10, 100, 1000)
#: Percent of the workloads that get a rule, where there are any.
_RULES: Final = 80


def planted_nodes(seed: int, *, nodes: int, pods: int, rules: bool, spare: int = 0) -> list[Object]:
    """Return nodes and pods of which all can be placed.

    Args:
        seed: odd ones have four priorities, others one.
        nodes: in three zones.
        pods: of a node, more or less.
        rules: whether workloads have rules.
        spare: times 50m and 128Mi that each second node has left over.
    """
    rng = random.Random(f"kubestow/planted nodes/{seed}/{nodes}/{pods}/{rules}")
    cut: dict[tuple[int, int], list[int]] = {size: [] for size in _SIZES}
    found = []
    for i in range(nodes):
        sizes = [rng.choice(_SIZES) for _ in range(rng.randint(pods // 2, pods + pods // 2 - 1))]
        more = spare * (i % 2)
        cpu, memory = sum(size[0] for size in sizes) + 50 * more, sum(size[1] for size in sizes) + 128 * more
        found.append(node(f"n{i}", cpu=f"{cpu}m", memory=f"{memory}Mi", labels={ZONE: f"z{i % 3}"}))
        for size in sizes:
            cut[size].append(i)
    waiting: list[Object] = []
    for (cpu, memory), homes in cut.items():
        rng.shuffle(homes)
        while homes:
            count = rng.choice(_REPLICAS)
            app = f"app{len(waiting)}"
            own = _rule(rng, app, homes[:count]) if rules and rng.randrange(100) < _RULES else {}
            priority = rng.choice(_PRIORITIES) if seed % 2 else 0
            waiting += [
                pod(
                    f"{app}-{i}",
                    labels={"app": app},
                    owner=f"ReplicaSet/{app}",
                    cpu=f"{cpu}m",
                    memory=f"{memory}Mi",
                    priority=priority,
                    **own,
                )
                for i in range(len(homes[:count]))
            ]
            homes = homes[count:]
    rng.shuffle(waiting)
    return found + waiting


def _rule(rng: random.Random, app: str, homes: list[int]) -> dict[str, Any]:
    """One of the rules that hold for pods on these nodes."""
    zones = [n % 3 for n in homes]
    mine = {"labelSelector": {"matchLabels": {"app": app}}}
    found: list[dict[str, Any]] = []
    if len(set(zones)) < 3:
        values = [f"z{z}" for z in sorted(set(zones))]
        terms = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": values}]}]
        found.append({"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}})
    if len(homes) > 1:
        if len(set(homes)) == len(homes):
            found.append({"affinity": {"podAntiAffinity": {REQUIRED: [{**mine, "topologyKey": HOST}]}}})
        if len(set(zones)) == 1:
            found.append({"affinity": {"podAffinity": {REQUIRED: [{**mine, "topologyKey": ZONE}]}}})
        counts = [zones.count(z) for z in range(3)]
        if max(counts) - min(counts) <= 1:
            found.append({"spread": [{**mine, "maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}]})
    return rng.choice(found) if found else {}
