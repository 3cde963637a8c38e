"""Random pools whose upgrade gets through, and the same with blockers planted: which node each holds, of what kind, by which object."""

from __future__ import annotations

import random
from typing import Any, Final

from tests.objects import node, pod
from tests.plans.tiny import HOST, ZONE

Object = dict[str, Any]
#: (node, kind, object) of a blocker.
Held = tuple[str, str, str]

#: Shape of a planted pool's new nodes: smaller than the old ones.
TO: Final = {"status": {"allocatable": {"cpu": "15"}}}
KINDS: Final = ("none", "all", "percent", "twice", "bare", "annotation", "local", "rule", "room")
_SAFE: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict"


class Planted:
    """``objects``: the cluster; ``held``: what blocks it; without ``kinds`` nothing does."""

    def __init__(self, seed: int, kinds: tuple[str, ...] = ()) -> None:
        self.rng = random.Random(f"upgrade-{seed}")
        self.objects: list[Object] = []
        self.held: set[Held] = set()
        self.pool = [f"n{i}" for i in range(self.rng.randint(5, 9))]
        for i, name in enumerate([*self.pool, "out-1", "out-2"]):
            labels = {ZONE: f"z{i % 3}", "pool": "p" if name in self.pool else "other", "version": "1"}
            self.objects.append(node(name, cpu="16" if name in self.pool else "8", memory="64Gi", labels=labels))
            self.objects.append(pod(f"agent-{name}", node_name=name, owner="DaemonSet/agent", labels={"app": "agent"}))
        for i in range(self.rng.randint(4, 8)):
            self._workload(f"app-{i}")
        for i, kind in enumerate(kinds):
            self._plant(kind, f"{kind}-{i}")

    def _workload(self, app: str) -> None:
        """Two to four replicas that move freely, one at a time."""
        rng = self.rng
        replicas = rng.randint(2, 4)
        rules: Object = {}
        term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": app}}}
        if rng.random() < 0.3:
            rules["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        elif rng.random() < 0.3:
            skew = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **term, "topologyKey": rng.choice((HOST, ZONE))}
            rules["spread"] = [skew]
        nodes = rng.sample(self.pool, replicas) if replicas <= 3 or not rules else self.pool[:replicas]
        if "spread" in rules and rules["spread"][0]["topologyKey"] == ZONE:
            nodes = self.pool[:replicas]
        self.deployment(app, nodes, cpu=f"{rng.choice((100, 250, 500, 1000))}m", **rules)
        if rng.random() < 0.7:
            spec: Object = rng.choice(({"maxUnavailable": 1}, {"minAvailable": replicas - 1}, {"maxUnavailable": "50%"}))
            self.budget(app, **spec)

    def deployment(self, app: str, nodes: list[str], notes: Object | None = None, **spec: Any) -> None:
        for i, name in enumerate(nodes):
            made = pod(f"{app}-{i}", node_name=name, owner=f"ReplicaSet/{app}", labels={"app": app}, **spec)
            if notes:
                made["metadata"]["annotations"] = notes
            self.objects.append(made)

    def budget(self, app: str, name: str | None = None, **spec: Any) -> str:
        metadata = {"name": name or app, "namespace": "default"}
        spec["selector"] = {"matchLabels": {"app": app}}
        self.objects.append({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec})
        return f"PodDisruptionBudget default/{metadata['name']}"

    def _plant(self, kind: str, app: str) -> None:
        nodes = self.rng.sample(self.pool, 2)
        if kind in ("none", "all", "percent", "twice"):
            self.deployment(app, nodes)
            wanted: dict[str, Object] = {"none": {"maxUnavailable": 0}, "all": {"minAvailable": 2}, "percent": {"minAvailable": "100%"}}
            budgets = [self.budget(app, **wanted.get(kind, {"maxUnavailable": 1}))]
            if kind == "twice":
                budgets.append(self.budget(app, f"{app}-too", maxUnavailable=1))
            self.held |= {(name, "PodDisruptionBudget", budget) for name in nodes for budget in budgets}
        elif kind == "bare":
            self.objects.append(pod(app, node_name=nodes[0]))
            self.held.add((nodes[0], "barePod", f"Pod default/{app}"))
        elif kind == "annotation":
            self.deployment(app, nodes[:1], {_SAFE: "false"})
            self.held.add((nodes[0], "notEvictable", f"Pod default/{app}-0"))
        elif kind == "local":
            self._local(app, nodes[0])
            self.held.add((nodes[0], "localVolume", f"PersistentVolume {app}"))
        elif kind == "rule":
            self.deployment(app, nodes[:1], selector={HOST: nodes[0]})
            self.held.add((nodes[0], "rule", f"Pod default/{app}-0"))
        else:
            name = f"big-{app}"
            self.pool.append(name)
            self.objects.append(node(name, cpu="16", memory="64Gi", labels={ZONE: "z0", "pool": "p", "version": "1"}))
            self.deployment(app, [name], cpu="15500m")
            self.held.add((name, "room", f"Pod default/{app}-0"))

    def _local(self, app: str, name: str) -> None:
        """A replica with a volume that only its node reaches."""
        terms = [{"matchExpressions": [{"key": HOST, "operator": "In", "values": [name]}]}]
        claim = {"volumeName": app, "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": ""}
        volume = {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "local": {"path": "/data"}, "storageClassName": "",
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}}, "claimRef": {"namespace": "default", "name": app},
        }  # fmt: skip
        bound = {"status": {"phase": "Bound"}}
        self.objects.append({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": app}, "spec": volume, **bound})
        metadata = {"name": app, "namespace": "default"}
        self.objects.append({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": claim, **bound})
        self.deployment(app, [name], volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": app}}])
