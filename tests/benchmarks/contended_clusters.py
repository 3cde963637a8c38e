"""Clusters whose pods prefer nodes that not all of them can have."""

from __future__ import annotations

import random

from tests.objects import Object

_HOST = "kubernetes.io/hostname"
_SOFT = "preferredDuringSchedulingIgnoredDuringExecution"


def contended_cluster(seed: int, *, nodes: int) -> list[Object]:
    """Return nodes and about 14 pending pods for each.

    A fifth of the nodes has the disks, a third the generation that most pods prefer, with weights of 10, 50 or 100; a sixth has a taint of
    effect PreferNoSchedule; some pods keep off nodes of their like.
    """
    rng = random.Random(f"contended-{nodes}-{seed}")
    objects: list[Object] = []
    for i in range(nodes):
        labels = {_HOST: f"n{i}", "disk": "hdd" if i % 5 else "ssd", "generation": "old" if i % 3 else "new"}
        allocatable = {"cpu": rng.choice(["8", "16"]), "memory": rng.choice(["32Gi", "64Gi"]), "pods": "110"}
        spec: Object = {} if i % 6 else {"taints": [{"key": "old", "effect": "PreferNoSchedule"}]}
        node = {"metadata": {"name": f"n{i}", "labels": labels}, "spec": spec, "status": {"allocatable": allocatable}}
        objects.append({"apiVersion": "v1", "kind": "Node"} | node)
    a = 0
    while len(objects) < 15 * nodes:
        spec = _workload(a, rng)
        for p in range(rng.randint(2, 20)):
            metadata = {"name": f"a{a}-{p}", "namespace": "d", "labels": {"app": f"a{a}"}}
            objects.append({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        a += 1
    return objects


def _workload(a: int, rng: random.Random) -> Object:
    """Return the spec of the pods of workload ``a``."""
    wishes = []
    for label, value, chance in (("disk", "ssd", 0.6), ("generation", "new", 0.5)):
        if rng.random() < chance:
            wanted = {"matchExpressions": [{"key": label, "operator": "In", "values": [value]}]}
            wishes.append({"weight": rng.choice([10, 50, 100]), "preference": wanted})
    affinity: Object = {"nodeAffinity": {_SOFT: wishes}} if wishes else {}
    if rng.random() < 0.3:
        term = {"topologyKey": _HOST, "labelSelector": {"matchLabels": {"app": f"a{a}"}}}
        affinity["podAntiAffinity"] = {_SOFT: [{"weight": 50, "podAffinityTerm": term}]}
    requests = {"cpu": rng.choice(["100m", "250m", "500m", "1", "2"]), "memory": rng.choice(["256Mi", "512Mi", "1Gi", "4Gi"])}
    return {"affinity": affinity, "containers": [{"name": "c", "image": "x", "resources": {"requests": requests}}]}
