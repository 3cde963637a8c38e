"""Tiny random snapshots, small enough to enumerate every assignment, with one kind of rule or all kinds mixed."""

from __future__ import annotations

import random
from typing import Any, Final

from kubestow.models.kube.feature_gates import FeatureGates
from tests import tiny_devices

Object = dict[str, Any]

ZONE: Final = "zone"
HOST: Final = "kubernetes.io/hostname"
RACK: Final = "rack"
APPS: Final = ("a", "b", "c")
KINDS: Final = ("static", "resources", "ports", "affinity", "anti", "spread", "volumes", "gated", "mixed")
#: Kinds with devices and claims, alone and with all other rules.
DEVICES: Final = ("devices", "devices-mixed")
ALL: Final = (*KINDS, *DEVICES)
#: Feature gates of 1.35 and 1.36 that decide the meaning of tolerations with Gt and Lt and of missing CSI drivers.
GATES: Final = FeatureGates("1.36", (("TaintTolerationComparisonOperators", True), ("VolumeLimitScaling", True)))
FEATURES: Final = ("RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport", "SomethingNewer")


def snapshot(seed: int, kind: str, *, nodes: int = 3, pods: int = 4) -> list[Object]:
    """Return a random cluster with up to ``nodes`` nodes and ``pods`` pending pods, and rules of one kind, ``mixed``, or devices."""
    if kind in DEVICES:
        few = kind == "devices-mixed"
        return tiny_devices.equipped(snapshot(seed, "mixed" if few else "plain", nodes=nodes, pods=pods), seed, 0.5 if few else 0.8)
    return _Maker(random.Random(f"{kind}-{seed}"), kind).make(nodes, pods)


def mutual(seed: int, kind: str = "mutual", *, nodes: int = 3, pods: int = 4) -> list[Object]:
    """Return a random cluster with a few kinds of pending pods that attract each other or themselves.

    They use required affinity (``mutual``; ``ring`` for a cycle of kinds), or spread constraints that count several kinds (``woven``).
    """
    rng = random.Random(f"{kind}-{seed}")
    maker = _Maker(rng, kind)
    names = [f"n{i}" for i in range(nodes)]
    found = [maker.node(name) for name in names]
    if kind != "mutual":
        for i, node in enumerate(found):
            node["metadata"]["labels"] |= {ZONE: f"z{i % 2}", RACK: rng.choice(("r1", "r2"))}
    found += [maker.pod(f"fixed-{i}", rng.choice(names)) for i in range(rng.choice((0, 0, 0, 1, 2)))]
    apps = APPS[: rng.choice((2, 2, 3))]
    ring = kind == "ring" or rng.random() < 0.6
    left = pods
    for i, app in enumerate(apps):
        count = left if app == apps[-1] else rng.randint(1, max(1, left - (len(apps) - 1 - i)))
        left -= count
        template = maker.pod(f"{app}0", None)
        template["metadata"] |= {"namespace": "default", "labels": {"app": app}}
        spec = template["spec"]
        following = apps[(i + 1) % len(apps)]
        if rng.random() < {"mutual": 0.85, "ring": 1.0, "woven": 0.3}[kind]:
            terms = []
            for k in range(rng.choice((1, 1, 1, 2))):
                wanted = {following if ring and not k else rng.choice(apps)}
                if rng.random() < 0.25:
                    wanted.add(rng.choice(apps))
                terms.append({"topologyKey": rng.choice((ZONE, ZONE, HOST, RACK)), "labelSelector": _either(wanted)})
            spec["affinity"] = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
        if rng.random() < (0.9 if kind == "woven" else 0.1):
            keys = rng.sample((ZONE, HOST), rng.choice((1, 1, 2)))
            wanted = {following, *rng.sample(apps, rng.choice((0, 1)))}
            spec["topologySpreadConstraints"] = [
                {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": _either(wanted)} for key in keys
            ]
        found += [{**template, "metadata": {**template["metadata"], "name": f"{app}{k}"}} for k in range(count)]
    return found


def _either(apps: set[str]) -> Object:
    return {"matchExpressions": [{"key": "app", "operator": "In", "values": sorted(apps)}]}


def with_gangs(objects: list[Object], seed: int) -> list[Object]:
    """Return the objects with one or two random gangs of pending pods. Some pods join none; some running pods are members."""
    rng = random.Random(f"gangs-{seed}")
    names = ["g0", "g1"][: rng.choice((1, 1, 2))]
    alone = rng.choice((0.0, 0.0, 0.3))
    gang_of: dict[int, str | None] = {}  # by spec, which twins share
    members: dict[str, list[int]] = {name: [] for name in names}
    bound: dict[str, list[int]] = {name: [] for name in names}
    for i, thing in enumerate(objects):
        if thing["kind"] != "Pod":
            continue
        if "nodeName" in thing["spec"]:
            if rng.random() < 0.2:
                bound[rng.choice(names)].append(i)
            continue
        drawn = None if rng.random() < alone else rng.choice(names)
        name = gang_of.setdefault(id(thing["spec"]), drawn) if rng.random() < 0.8 else drawn
        if name is not None:
            members[name].append(i)
    found = list(objects)
    for name in names:
        notes = {"kubestow.dev/gang": f"default/{name}"}
        if rng.random() < 0.35:
            notes["kubestow.dev/min-member"] = str(rng.randint(1, max(1, len(members[name]) + len(bound[name]))))
        roll = rng.random()
        if roll < 0.45:
            wish = "required" if roll < 0.35 else "preferred"
            notes[f"kubestow.dev/{wish}-topology"] = rng.choice((ZONE, RACK, HOST))
        for i in (*members[name], *bound[name]):
            found[i] = {**found[i], "metadata": {**found[i]["metadata"], "annotations": notes}}
    return found


class _Maker:
    def __init__(self, rng: random.Random, kind: str) -> None:
        self.rng, self.kind = rng, kind
        self.objects: list[Object] = []

    def on(self, kind: str, chance: float = 0.6) -> bool:
        if self.kind == "mixed":
            chance *= 0.5
        return self.kind in ((kind,) if kind == "gated" else (kind, "mixed")) and self.rng.random() < chance

    def make(self, most_nodes: int, most_pods: int) -> list[Object]:
        rng = self.rng
        for name in ("default", "other"):
            self.objects.append({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"team": name[0]}}})
        count = rng.randint(1, most_nodes) if rng.random() < 0.2 else most_nodes
        names = [f"n{i}" for i in range(count)]
        for name in names:
            self.objects.append(self.node(name))
        if self.kind in ("volumes", "gated", "mixed"):
            self.storage(names)
        for i in range(rng.randint(0, 3)):
            self.objects.append(self.pod(f"fixed-{i}", rng.choice(names)))
        made = 0
        wanted = rng.randint(1, most_pods)
        while made < wanted:
            twins = min(rng.choice((1, 1, 2, 3)), wanted - made)
            template = self.pod(f"p{made}", None)
            for k in range(twins):
                self.objects.append({**template, "metadata": {**template["metadata"], "name": f"p{made + k}"}})
            made += twins
        if self.kind == "gated":
            self.systems()
        return self.objects

    def systems(self) -> None:
        """Set the operating systems of some nodes and pods, from a separate generator so that other instances do not change."""
        rng = random.Random(f"{self.objects}")
        for obj in self.objects:
            name = rng.choice(("linux", "linux", "windows"))
            if obj["kind"] == "Node" and rng.random() < 0.7:
                if rng.random() < 0.7:
                    obj["status"]["nodeInfo"] = {"operatingSystem": name}
                else:
                    obj["metadata"]["labels"]["kubernetes.io/os"] = name
            elif obj["kind"] == "Pod" and rng.random() < 0.4:
                obj["spec"] = {**obj["spec"], "os": {"name": name}}

    def node(self, name: str) -> Object:
        rng = self.rng
        labels = {HOST: name, "disk": rng.choice(("ssd", "hdd"))}
        if rng.random() < 0.9:
            labels[ZONE] = rng.choice(("z1", "z2"))
        if rng.random() < 0.6:
            labels[RACK] = rng.choice(("r1", "r2"))
        spec: Object = {}
        if self.on("static", 0.3):
            spec["taints"] = [{"key": "dedicated", "value": "x", "effect": rng.choice(("NoSchedule", "NoExecute", "PreferNoSchedule"))}]
        if self.on("static", 0.15):
            spec["unschedulable"] = True
        allocatable = {"cpu": str(rng.randint(1, 3)), "memory": f"{rng.randint(1, 3)}Gi", "pods": str(rng.choice((2, 3, 10)))}
        if self.on("resources", 0.3):
            allocatable["example.com/gpu"] = "1"
        status: Object = {"allocatable": allocatable}
        if self.on("gated", 0.8):
            status["declaredFeatures"] = rng.sample(FEATURES, rng.randint(0, 3))
        if self.on("gated", 0.5):
            spec["taints"] = [{"key": "sla", "value": rng.choice(("1", "2", "3", "-1", "02", "gold")), "effect": "NoSchedule"}]
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "spec": spec,
            "status": status,
        }

    def selector(self) -> Object | None:
        rng = self.rng
        roll = rng.random()
        if roll < 0.65:
            return {"matchLabels": {"app": rng.choice(APPS)}}
        if roll < 0.75:
            return {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": [rng.choice(APPS)]}]}
        if roll < 0.85:
            return {"matchExpressions": [{"key": "app", "operator": "In", "values": rng.sample(APPS, 2)}]}
        if roll < 0.93:
            return {"matchExpressions": [{"key": "tier", "operator": rng.choice(("Exists", "DoesNotExist"))}]}
        return {} if roll < 0.97 else None

    def term(self, keys: tuple[str, ...]) -> Object:
        rng = self.rng
        term: Object = {"topologyKey": rng.choice(keys)}
        selector = self.selector()
        if selector is not None:
            term["labelSelector"] = selector
            if rng.random() < 0.1:
                term["matchLabelKeys"] = ["tier"]
        roll = rng.random()
        if roll < 0.1:
            term["namespaceSelector"] = {}
        elif roll < 0.2:
            term["namespaces"] = ["other"]
        elif roll < 0.25:
            term["namespaceSelector"] = {"matchLabels": {"team": "o"}}
        return term

    def pod(self, name: str, node: str | None) -> Object:
        rng = self.rng
        labels = {"app": rng.choice(APPS)}
        if rng.random() < 0.3:
            labels["tier"] = rng.choice(("x", "y"))
        requests: Object = {}
        if self.kind in ("resources", "mixed") or rng.random() < 0.2:
            requests = {"cpu": rng.choice(("250m", "500m", "1", "1500m")), "memory": rng.choice(("256Mi", "512Mi", "1Gi"))}
        if self.on("resources", 0.2):
            requests["example.com/gpu"] = "1"
        container: Object = {"name": "c", "image": "i", "resources": {"requests": requests}}
        if self.on("ports", 0.7):
            port = {"containerPort": 80, "hostPort": rng.choice((80, 81)), "protocol": rng.choice(("TCP", "TCP", "UDP"))}
            if rng.random() < 0.5:
                port["hostIP"] = rng.choice(("0.0.0.0", "10.0.0.1", "10.0.0.2"))
            container["ports"] = [port]
        spec: Object = {"containers": [container]}
        if self.on("resources", 0.3):
            init: Object = {"name": "i", "image": "i", "resources": {"requests": {"cpu": rng.choice(("500m", "2"))}}}
            if rng.random() < 0.5:
                init["restartPolicy"] = "Always"
            spec["initContainers"] = [init]
        if self.on("gated", 0.3):
            container["restartPolicyRules"] = [{"action": rng.choice(("Restart", "RestartAllContainers", "RestartAllContainers"))}]
        if self.on("gated", 0.3):
            spec |= {"hostNetwork": rng.random() < 0.7, "hostUsers": rng.random() < 0.3}
        if rng.random() < 0.4:
            spec["priority"] = rng.choice((0, 10, 100))
        self.placement(spec)
        if self.kind in ("volumes", "gated", "mixed") and rng.random() < {"volumes": 0.8, "gated": 0.5, "mixed": 0.2}.get(self.kind, 0):
            claims = rng.sample(self.claims, rng.choice((1, 1, 2)) if len(self.claims) > 1 else 1)
            spec["volumes"] = [{"name": f"v{i}", "persistentVolumeClaim": {"claimName": c}} for i, c in enumerate(claims)]
        metadata: Object = {"name": name, "namespace": "default" if rng.random() < 0.8 or "volumes" in spec else "other", "labels": labels}
        status: Object = {"phase": "Pending"}
        if node is not None:
            spec["nodeName"] = node
            status["phase"] = "Running"
            if rng.random() < 0.1:
                metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}

    def placement(self, spec: Object) -> None:
        rng = self.rng
        affinity: Object = {}
        if self.on("static", 0.3):
            spec["nodeSelector"] = {"disk": rng.choice(("ssd", "hdd"))}
        if self.on("static", 0.3):
            expression = {"key": "disk", "operator": rng.choice(("In", "NotIn")), "values": ["ssd"]}
            affinity["nodeAffinity"] = {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
            }
        if self.on("static", 0.4):
            spec["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]
        if self.on("gated", 0.8):
            operator, value = rng.choice(("Gt", "Gt", "Lt")), rng.choice(("0", "1", "2", "+1"))
            spec["tolerations"] = [{"key": rng.choice(("sla", "sla", "other")), "operator": operator, "value": value}]
        if self.on("affinity", 0.7):
            terms = [self.term((ZONE, HOST, RACK)) for _ in range(rng.choice((1, 1, 1, 2)))]
            affinity["podAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
        if self.on("anti", 0.6) or (self.kind == "affinity" and rng.random() < 0.15):
            terms = [self.term((ZONE, HOST, RACK)) for _ in range(rng.choice((1, 1, 2)))]
            affinity["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
        if affinity:
            spec["affinity"] = affinity
        if self.on("spread", 0.8):
            constraints = [self.constraint(key) for key in rng.sample((ZONE, HOST, RACK), rng.choice((1, 1, 2)))]
            spec["topologySpreadConstraints"] = constraints

    def constraint(self, key: str) -> Object:
        rng = self.rng
        constraint: Object = {"maxSkew": rng.choice((1, 1, 2)), "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule"}
        selector = self.selector()
        if selector is not None:
            constraint["labelSelector"] = selector
        if rng.random() < 0.2:
            constraint["minDomains"] = rng.randint(1, 3)
        if rng.random() < 0.2:
            constraint["nodeTaintsPolicy"] = "Honor"
        if rng.random() < 0.2:
            constraint["nodeAffinityPolicy"] = "Ignore"
        return constraint

    def storage(self, names: list[str]) -> None:
        rng = self.rng
        for name, provisioner in (("local", "kubernetes.io/no-provisioner"), ("dynamic", "csi.example.com")):
            storage: Object = {
                "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
                "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer",
            }  # fmt: skip
            if name == "dynamic" and rng.random() < 0.4:
                storage["allowedTopologies"] = [{"matchLabelExpressions": [{"key": ZONE, "values": ["z1"]}]}]
            self.objects.append(storage)
        for i in range(rng.randint(1, 4)):
            self.objects.append(
                self.volume(f"pv{i}", rng.sample(names, min(len(names), rng.choice((1, 1, 2)))), rng.choice(("1Gi", "2Gi")))
            )
        self.claims = [f"c{i}" for i in range(rng.randint(1, 4))]
        for name in self.claims:
            self.claim(name, names)
        for name in names:
            if rng.random() < 0.5:
                drivers = [{"name": "csi.example.com", "nodeID": name, "allocatable": {"count": rng.choice((0, 1, 2))}}]
                self.objects.append(
                    {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": name}, "spec": {"drivers": drivers}}
                )
        if self.on("gated", 0.8):
            driver = {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": "csi.example.com"}}
            self.objects.append({**driver, "spec": {"preventPodSchedulingIfMissing": rng.random() < 0.8}})
        if rng.random() < 0.1:
            self.claims.append("missing")

    def volume(self, name: str, nodes: list[str], size: str) -> Object:
        terms = [{"matchExpressions": [{"key": HOST, "operator": "In", "values": nodes}]}]
        return {
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
            "spec": {
                "capacity": {"storage": size}, "accessModes": ["ReadWriteOnce", "ReadWriteMany"], "storageClassName": "local",
                "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
                "csi": {"driver": "csi.example.com", "volumeHandle": f"handle-{name}"},
            },
            "status": {"phase": "Available"},
        }  # fmt: skip

    def claim(self, name: str, nodes: list[str]) -> None:
        rng = self.rng
        mode = rng.choice(("ReadWriteOnce", "ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod"))
        spec: Object = {"accessModes": [mode], "resources": {"requests": {"storage": rng.choice(("1Gi", "2Gi"))}}}
        roll = rng.random()
        if roll < 0.3:
            volume = self.volume(f"bound-{name}", rng.sample(nodes, min(len(nodes), 2)), "2Gi")
            volume["spec"]["claimRef"] = {"namespace": "default", "name": name}
            volume["status"] = {"phase": "Bound"}
            if rng.random() < 0.3:
                volume["metadata"]["labels"] = {"topology.kubernetes.io/zone": "z1"}
            self.objects.append(volume)
            spec |= {"storageClassName": "local", "volumeName": f"bound-{name}"}
        elif roll < 0.65:
            if mode == "ReadWriteOncePod":
                spec["accessModes"] = ["ReadWriteOnce"]
            spec["storageClassName"] = "local"
        elif roll < 0.95:
            spec["storageClassName"] = "dynamic"
        else:
            spec["storageClassName"] = "none-such"
        phase = "Bound" if "volumeName" in spec else "Pending"
        self.objects.append(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": name, "namespace": "default"},
                "spec": spec,
                "status": {"phase": phase},
            }
        )
