"""Tiny random clusters to be rebalanced, as plain API objects: three or four nodes, four to six pods that may move, some that may not.

Kinds: ``repair`` (rules broken at the start), ``drain``, ``consolidate``, ``admit`` (pods wait, sometimes a gang), ``tight`` (almost no
spare place, so that pods go in circles) and ``mixed`` (all of it).
"""

from __future__ import annotations

import random
from typing import Any, Final

from kubestow.models.documents.rebalance_plan import Limits

Object = dict[str, Any]

KINDS: Final = ("repair", "drain", "consolidate", "admit", "tight", "mixed")
ZONE: Final = "topology.kubernetes.io/zone"
HOST: Final = "kubernetes.io/hostname"
_IGNORED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_ENFORCED: Final = "requiredDuringSchedulingRequiredDuringExecution"


def cluster(seed: int, kind: str) -> list[Object]:
    """Objects of a random cluster of one kind."""
    return _Maker(random.Random(f"plan-{kind}-{seed}"), kind).make()


def plan_options(seed: int, kind: str) -> tuple[tuple[str, ...], tuple[str, ...], Limits]:
    """Goals, nodes to be drained, and limits that suit the cluster of this seed and kind."""
    rng = random.Random(f"asked-{kind}-{seed}")
    goals: dict[str, tuple[tuple[str, ...], ...]] = {
        "repair": (("repair",),),
        "drain": ((), (), ("consolidate",), ("repair",)),
        "consolidate": (("consolidate",),),
        "admit": (("admit",),),
        "tight": (("repair",), ("repair",), ("consolidate",), ()),
        "mixed": (("repair", "consolidate"), ("admit", "repair"), ("repair", "admit"), ("consolidate",), ("admit", "consolidate")),
    }
    chosen = rng.choice(goals[kind])
    drained = kind == "drain" or not chosen or (kind == "mixed" and rng.random() < 0.3)
    drain = tuple(sorted(rng.sample(("n0", "n1", "n2"), 1 if rng.random() < 0.85 else 2))) if drained else ()
    limits = Limits(allowEviction=rng.random() < 0.4)
    if rng.random() < 0.15:
        limits.maxMoves = rng.randint(0, 3)
    if limits.allowEviction and rng.random() < 0.3:
        limits.maxEvictions = rng.randint(0, 2)
    if rng.random() < 0.1:
        limits.maxMovesPerNamespace = rng.randint(1, 2)
    if rng.random() < 0.1:
        limits.maxMovesPerWorkload = rng.randint(1, 2)
    if rng.random() < 0.2:
        limits.alsoMove = rng.choice((["bare"], ["local-storage"], ["bare", "local-storage"]))
    return chosen, drain, limits


def resized(objects: list[Object], seed: int, *, share: float = 0.4) -> list[Object]:
    """The same cluster with pods that hold other than they ask for: a resize in place waits, mostly to more, sometimes to less."""
    rng, found = random.Random(f"resized-{seed}"), list[Object]()
    for thing in objects:
        requested = thing["spec"]["containers"][0].get("resources", {}).get("requests", {}) if thing["kind"] == "Pod" else {}
        if "cpu" in requested and "nodeName" in thing["spec"] and rng.random() < share:
            holding = {**requested, "cpu": f"{max(1, int(requested['cpu'][:-1]) * rng.choice((1, 1, 2, 6)) // 4)}m"}
            waits = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
            status = {
                **thing["status"],
                "conditions": [*thing["status"].get("conditions", ()), waits],
                "containerStatuses": [{"name": "c", "resources": {"requests": holding}}],
            }
            thing = {**thing, "status": status}
        found.append(thing)
    return found


class _Maker:
    def __init__(self, rng: random.Random, kind: str) -> None:
        self.rng, self.kind = rng, kind
        self.objects: list[Object] = []
        self.names: list[str] = []
        self.load: dict[str, int] = {}  # requests by node, mCPU
        self.cpu: dict[str, int] = {}
        self.count = 0

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def make(self) -> list[Object]:
        rng = self.rng
        for i in range(rng.choice((3, 3, 4))):
            self.node(f"n{i}", i)
        apps = ("a", "b", "c")[: rng.choice((2, 2, 3))]
        waiting = self.kind in ("admit", "mixed")
        remaining = rng.choice((4, 5, 5, 6))
        for i, app in enumerate(apps):
            count = remaining if i == len(apps) - 1 else min(remaining - (len(apps) - 1 - i), rng.choice((1, 2, 2, 3)))
            remaining -= count
            self.group(app, count)
        self.extras()
        for app in apps:
            if self.chance(0.2 if self.kind in ("admit", "tight") else 0.35):
                self.budget(app)
        if waiting:
            self.pending(apps)
        return self.objects

    # --- nodes ------------------------------------------------------------------------------------------------------

    def node(self, name: str, i: int) -> None:
        rng = self.rng
        labels = {HOST: name, "disk": ("ssd", "hdd")[i % 2] if self.kind == "tight" else rng.choice(("ssd", "ssd", "hdd"))}
        if self.chance(0.93):
            labels[ZONE] = f"z{i % 2}" if self.chance(0.8) else "z0"
        spec: Object = {}
        broken = self.kind in ("repair", "mixed")
        if broken and self.chance(0.2):
            spec["taints"] = [{"key": "dedicated", "value": "x", "effect": rng.choice(("NoSchedule", "NoExecute", "PreferNoSchedule"))}]
        elif self.chance(0.07):
            spec["unschedulable"] = True
            if self.chance(0.5):
                spec["taints"] = [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]
        metadata: Object = {"name": name, "labels": labels}
        if self.kind in ("consolidate", "mixed"):
            if self.chance(0.1):
                labels["node-role.kubernetes.io/control-plane"] = ""
            if self.chance(0.1):
                note = rng.choice(("cluster-autoscaler.kubernetes.io/scale-down-disabled", "karpenter.sh/do-not-disrupt"))
                metadata["annotations"] = {note: rng.choice(("true", "true", "false"))}
        cpu = 2000 if self.kind == "tight" else rng.choice((2000, 2000, 3000) if self.kind == "admit" else (2000, 3000, 4000))
        pods = str(rng.choice((2, 3, 10, 10, 10)))
        self.objects.append(
            {
                "apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec,
                "status": {"allocatable": {"cpu": f"{cpu}m", "memory": "8Gi", "pods": pods}},
            }
        )  # fmt: skip
        self.names.append(name)
        self.load[name], self.cpu[name] = 0, cpu

    # --- pods -------------------------------------------------------------------------------------------------------

    def group(self, app: str, count: int) -> None:
        """Running pods of one controller, alike but for where they run."""
        rng = self.rng
        labels = {"app": app}
        namespace = "default" if self.chance(0.9) else "other"
        spec = self.spec(app)
        kind = "StatefulSet" if self.chance(0.1) else "ReplicaSet"
        owner = {"apiVersion": "apps/v1", "kind": kind, "name": f"{app}-set", "uid": app, "controller": True}
        notes: Object = {}
        if self.chance(0.06):
            notes[rng.choice(("cluster-autoscaler.kubernetes.io/safe-to-evict", "descheduler.alpha.kubernetes.io/prefer-no-eviction"))] = (
                "false"
            )
        if count == 2 and self.chance(0.05):
            notes["kubestow.dev/gang"] = f"{namespace}/runs-{app}"
        if self.chance(0.06):
            spec["volumes"] = [{"name": "scratch", "emptyDir": {"medium": "Memory"} if self.chance(0.4) else {}}]
        for _ in range(count):
            metadata: Object = {"namespace": namespace, "labels": labels, "ownerReferences": [owner]}
            if notes:
                metadata["annotations"] = notes
            if self.chance(0.04):
                metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            self.pod(metadata, spec, health=True)
        self.objects.append(
            {
                "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": f"{app}-set", "namespace": namespace},
                "spec": {
                    "replicas": count, "selector": {"matchLabels": labels}, "serviceName": app,
                    "template": {"metadata": {"labels": labels}, "spec": {"containers": spec["containers"]}},
                },
            }
        )  # fmt: skip
        if kind == "ReplicaSet":
            del self.objects[-1]["spec"]["serviceName"]

    def spec(self, app: str) -> Object:
        rng = self.rng
        sizes = {"tight": ("1000m", "1000m", "1000m", "500m"), "admit": ("250m", "500m", "750m", "1000m")}
        container: Object = {
            "name": "c",
            "image": "i",
            "resources": {"requests": {"cpu": rng.choice(sizes.get(self.kind, ("250m", "500m", "500m", "1000m"))), "memory": "64Mi"}},
        }
        if self.chance(0.06):
            container["resources"] = {}
        if self.chance(0.12):
            container["ports"] = [{"containerPort": 80, "hostPort": 80}]
            if self.chance(0.4):
                container["ports"][0]["hostIP"] = rng.choice(("10.0.0.1", "10.0.0.2"))
        spec: Object = {"containers": [container]}
        if self.chance(0.4):
            spec["priority"] = rng.choice((0, 10, 100))
        broken = self.kind in ("repair", "mixed")
        affinity: Object = {}
        few = 0.3 if self.kind in ("tight", "admit") else 0.7 if self.kind == "consolidate" else 1.0
        if self.chance(0.8 if self.kind == "tight" else 0.35 if broken else 0.12):
            if self.chance(0.5) or self.kind == "tight":
                spec["nodeSelector"] = {"disk": rng.choice(("ssd", "hdd")) if self.kind == "tight" else "ssd"}
            else:
                expression = {"key": "disk", "operator": rng.choice(("In", "NotIn")), "values": ["hdd"]}
                affinity["nodeAffinity"] = {self.variant(): {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
        if self.chance(0.2):
            spec["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]
        if self.chance(0.3 * few):
            affinity["podAntiAffinity"] = {self.variant(): [self.term(app if self.chance(0.7) else None, (HOST, HOST, ZONE))]}
        if self.chance(0.22 * few):
            terms = [self.term(app if self.chance(0.4) else None, (ZONE, ZONE, HOST)) for _ in range(rng.choice((1, 1, 1, 2)))]
            affinity["podAffinity"] = {self.variant(): terms}
        if affinity:
            spec["affinity"] = affinity
        if self.chance(0.3 * few):
            spec["topologySpreadConstraints"] = [
                self.constraint(app if self.chance(0.75) else None, key) for key in rng.sample((ZONE, HOST), rng.choice((1, 1, 1, 2)))
            ]
        return spec

    def variant(self) -> str:
        return _ENFORCED if self.chance(0.4 if self.kind == "repair" else 0.15) else _IGNORED

    def term(self, app: str | None, keys: tuple[str, ...]) -> Object:
        return {"topologyKey": self.rng.choice(keys), "labelSelector": self.selector(app)}

    def selector(self, app: str | None) -> Object:
        rng = self.rng
        if app is not None or self.chance(0.7):
            return {"matchLabels": {"app": app or rng.choice("abc")}}
        return {"matchExpressions": [{"key": "app", "operator": rng.choice(("In", "NotIn")), "values": rng.sample("abc", 2)}]}

    def constraint(self, app: str | None, key: str) -> Object:
        rng = self.rng
        found = {
            "maxSkew": rng.choice((1, 1, 2)), "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": self.selector(app),
        }  # fmt: skip
        if self.chance(0.15):
            found["minDomains"] = rng.randint(2, 3)
        if self.chance(0.2):
            found["nodeTaintsPolicy"] = "Honor"
        if self.chance(0.15):
            found["nodeAffinityPolicy"] = "Ignore"
        return found

    def pod(self, metadata: Object, spec: Object, node: str | None = None, *, health: bool = False) -> None:
        """A running pod, on a node with room for it unless the cluster is to be repaired."""
        cpu = int(spec["containers"][0].get("resources", {}).get("requests", {}).get("cpu", "0m")[:-1])
        fine = [name for name in self.names if self.load[name] + cpu <= self.cpu[name]]
        if node is None:
            anyway = not fine or (self.kind in ("repair", "mixed") and self.chance(0.3))
            node = self.rng.choice(self.names if anyway else fine)
        self.load[node] += cpu
        status: Object = {"phase": "Running"}
        if health and self.chance(0.25):
            ready = self.chance(0.5)
            status["conditions"] = [{"type": "Ready", "status": "True" if ready else "False"}]
            if not ready and self.chance(0.2):
                status["phase"] = "Pending"
        self.add({**metadata, "name": f"p{self.count}"}, {**spec, "nodeName": node}, status)

    def add(self, metadata: Object, spec: Object, status: Object) -> None:
        self.objects.append({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status})
        self.count += 1

    def extras(self) -> None:
        """Pods that do not move: of DaemonSets, mirrors, bare ones."""
        small: Object = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "250m"}}}]}
        if self.chance(0.1 if self.kind == "tight" else 0.3):
            owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "agent", "controller": True}
            for name in self.names:
                if self.chance(0.7):
                    self.pod({"namespace": "default", "labels": {"app": "agent"}, "ownerReferences": [owner]}, small, name)
        if self.chance(0.15):
            note = {"kubernetes.io/config.mirror": "x"}
            self.pod({"namespace": "default", "labels": {"app": "static"}, "annotations": note}, small, self.rng.choice(self.names))
        if self.chance(0.25):
            app = self.rng.choice("abx")
            self.pod({"namespace": "default", "labels": {"app": app}}, self.spec(app), health=True)

    def pending(self, apps: tuple[str, ...]) -> None:
        rng = self.rng
        largest_cpu = max(250, *(self.cpu[name] - self.load[name] for name in self.names))
        if self.chance(0.3):
            notes = {"kubestow.dev/gang": "default/train"}
            if self.chance(0.3):
                notes["kubestow.dev/min-member"] = "2"
            if self.chance(0.3):
                notes["kubestow.dev/required-topology"] = ZONE
            size = rng.choice(("500m", "1000m", f"{largest_cpu}m"))
            spec: Object = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": size}}}]}
            spec["priority"] = rng.choice((0, 50, 100))
            for _ in range(rng.choice((2, 2, 3))):
                self.add({"name": f"p{self.count}", "namespace": "default", "annotations": notes}, spec, {"phase": "Pending"})
            return
        for _ in range(rng.choice((1, 1, 2))):
            app = rng.choice((*apps, "x"))
            spec = self.spec(app)
            if self.chance(0.8):  # more than any node has left
                spec["containers"][0]["resources"] = {
                    "requests": {"cpu": f"{min(largest_cpu + rng.choice((250, 250, 500, 500, 1000)), 4000)}m"}
                }
            if self.chance(0.6):
                spec["priority"] = rng.choice((0, 50, 100))
            self.add({"name": f"p{self.count}", "namespace": "default", "labels": {"app": app}}, spec, {"phase": "Pending"})

    # --- budgets ----------------------------------------------------------------------------------------------------

    def budget(self, app: str) -> None:
        rng = self.rng
        selector: Object = {"matchLabels": {"app": app}}
        if self.chance(0.05):
            selector = {}
        spec: Object = {"selector": selector}
        which = rng.choice(("minAvailable", "maxUnavailable", "maxUnavailable"))
        spec[which] = rng.choice((0, 1, 1, 2, "50%", "34%"))
        if self.chance(0.25):
            spec["unhealthyPodEvictionPolicy"] = rng.choice(("AlwaysAllow", "AlwaysAllow", "IfHealthyBudget"))
        found: Object = {
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": f"guard-{app}", "namespace": "default"}, "spec": spec,
        }  # fmt: skip
        if self.chance(0.3):
            current = rng.choice((1, 2, 3))
            allowed = rng.choice((0, 1, 1, 2))
            desired = max(0, current - allowed)
            found["status"] = {"disruptionsAllowed": allowed, "currentHealthy": current, "desiredHealthy": desired, "expectedPods": current}
        self.objects.append(found)
