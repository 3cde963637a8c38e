"""Random medium clusters to be rebalanced, 6 to 40 nodes, as plain API objects that were changed after their pods were bound.

A worn or a freshly generated cluster, to which some of the changes of :data:`CHANGES` happen: those break rules that the generator keeps,
and bring in what it has not.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any, Final

from kubestow.instances.generate.generator import Parameters, generate
from kubestow.instances.generate.worn import Worn, worn
from kubestow.models.documents.rebalance_plan import Limits

Object = dict[str, Any]

ZONE: Final = "topology.kubernetes.io/zone"
HOST: Final = "kubernetes.io/hostname"
_IGNORED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_ENFORCED: Final = "requiredDuringSchedulingRequiredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_GOALS: Final = ("repair", "improve", "consolidate", "admit")


class Medium:
    """``objects``: of a random cluster, from a seed; ``changed``: the names of the changes that happened to it."""

    def __init__(self, seed: int, *, nodes: tuple[int, int] = (6, 40), pods: tuple[int, int] = (30, 300)) -> None:
        self.rng = rng = random.Random(f"medium-{seed}")
        size = rng.randint(*nodes)
        total = min(pods[1], max(pods[0], size * rng.randint(3, 9)))
        numa, tainted, zones = rng.choice((0, 0, 40)), rng.choice((0, 10, 25)), rng.randint(1, min(4, size))
        rules, preferences = rng.choice((0, 30, 60)), rng.choice((0, 30, 80))
        if rng.random() < 0.5:
            made = worn(
                Worn(size, total, seed, zones, fill=rng.choice((30, 45)), gone=rng.choice((20, 40)), numa=numa, tainted=tainted,
                     rules=rules, preferences=preferences)
            )  # fmt: skip
        else:
            made = generate(
                Parameters(size, total, seed, zones, fill=rng.choice((40, 60, 80, 95)), bound=rng.choice((60, 90, 100)), numa=numa,
                           tainted=tainted, rules=rules, preferences=preferences)
            )  # fmt: skip
        self.objects: list[Object] = json.loads(json.dumps(list(made.objects())))
        self.nodes = self._kind("Node")
        self.names = [each["metadata"]["name"] for each in self.nodes]
        self.pods = self._kind("Pod")
        self.changed: list[str] = []
        chosen = rng.sample(sorted(CHANGES), rng.randint(0, 7))
        for name in chosen:
            CHANGES[name](self)
            self.changed.append(name)

    def _kind(self, kind: str) -> list[Object]:
        return [each for each in self.objects if each["kind"] == kind]

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def running(self) -> list[Object]:
        return [each for each in self.pods if each["spec"].get("nodeName")]

    def movable(self) -> list[Object]:
        """Running pods of no DaemonSet."""
        return [each for each in self.running() if not any(o["kind"] == "DaemonSet" for o in each["metadata"].get("ownerReferences", ()))]

    def some(self, share: float) -> list[Object]:
        return [each for each in self.movable() if self.chance(share)]

    def workloads(self) -> list[list[Object]]:
        """Pods by the app that they are of, without DaemonSets."""
        found: dict[tuple[str, str], list[Object]] = {}
        daemons = {each["metadata"]["name"] for each in self._kind("DaemonSet")}
        for each in self.pods:
            metadata = each["metadata"]
            app = metadata["labels"].get("app", "")
            if app and app not in daemons:
                found.setdefault((metadata["namespace"], app), []).append(each)
        return list(found.values())

    def apps(self, count: int) -> list[list[Object]]:
        every = self.workloads()
        return self.rng.sample(every, min(len(every), self.rng.randint(1, count)))

    def selector(self, app: str) -> Object:
        if self.chance(0.15):
            return {"matchExpressions": [{"key": "app", "operator": "In", "values": [app, "x"]}]}
        return {"matchLabels": {"app": app}}

    def plan_options(self) -> tuple[tuple[str, ...], tuple[str, ...], Limits]:
        """Goals, nodes to be drained and limits, such as the command line allows."""
        rng = self.rng
        goals = tuple(rng.sample(_GOALS, rng.choice((1, 1, 1, 2, 2, 3, 4))))
        drain: tuple[str, ...] = ()
        if self.chance(0.3):
            drain = tuple(sorted(rng.sample(self.names, rng.choice((1, 1, 2, 3)))))
            goals = goals if self.chance(0.5) else ()
        limits = Limits(allowEviction=self.chance(0.3))
        if limits.allowEviction and "admit" in goals:
            goals = ("admit", *(goal for goal in goals if goal != "admit"))
        if self.chance(0.2):
            limits.maxMoves = rng.choice((0, 1, 2, 5, 12))
        if limits.allowEviction and self.chance(0.3):
            limits.maxEvictions = rng.choice((0, 1, 3))
        if self.chance(0.15):
            limits.maxMovesPerNamespace = rng.choice((0, 1, 3))
        if self.chance(0.15):
            limits.maxMovesPerWorkload = rng.choice((0, 1, 2))
        if self.chance(0.25):
            limits.alsoMove = rng.choice((["bare"], ["local-storage"], ["bare", "local-storage"]))
        if self.chance(0.2):
            limits.minGain = rng.choice((0, 5, 50))
        return goals, drain, limits


# --- what happens to a cluster -----------------------------------------------------------------------------------------------------------


def _name(node: Object) -> str:
    found: str = node["metadata"]["name"]
    return found


def _app(pods: list[Object]) -> str:
    found: str = pods[0]["metadata"]["labels"]["app"]
    return found


def _relabelled(m: Medium) -> None:
    """Nodes lose a label, or change their zone."""
    for node in m.rng.sample(m.nodes, m.rng.randint(1, max(1, len(m.nodes) // 4))):
        labels = node["metadata"]["labels"]
        key = m.rng.choice(sorted(labels))
        if key == ZONE and m.chance(0.6):
            labels[key] = "zone-x"
        elif key != HOST or m.chance(0.2):
            del labels[key]


def _cordoned(m: Medium) -> None:
    for node in m.rng.sample(m.nodes, m.rng.randint(1, 3)):
        node.setdefault("spec", {})["unschedulable"] = True
        if m.chance(0.7):
            node["spec"].setdefault("taints", []).append({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"})


def _tainted(m: Medium) -> None:
    for node in m.rng.sample(m.nodes, m.rng.randint(1, max(1, len(m.nodes) // 4))):
        effect = m.rng.choice(("NoSchedule", "NoExecute", "PreferNoSchedule"))
        node.setdefault("spec", {}).setdefault("taints", []).append({"key": "late", "value": "x", "effect": effect})
    for pods in m.apps(4):
        for each in pods:
            each["spec"].setdefault("tolerations", []).append({"key": "late", "operator": "Exists"})


def _shrunk(m: Medium) -> None:
    """Nodes have less than what runs there."""
    for node in m.rng.sample(m.nodes, m.rng.randint(1, 3)):
        room = node["status"]["allocatable"]
        room[m.rng.choice(("cpu", "cpu", "memory", "pods"))] = m.rng.choice(("1", "2", "0"))
        if room["memory"] in ("1", "2"):
            room["memory"] += "Gi"


def _resized(m: Medium) -> None:
    """Pods hold other amounts than their specs ask for."""
    for each in m.some(0.15):
        statuses = []
        for container in each["spec"]["containers"]:
            now = dict(container.get("resources", {}).get("requests", {}))
            now["cpu"] = f"{m.rng.choice((50, 200, 700, 1500))}m"
            statuses.append({"name": container["name"], "resources": {"requests": now}, "allocatedResources": now})
        each["status"]["containerStatuses"] = statuses


def _volumes(m: Medium) -> None:
    """Claims of volumes in one zone or one node, shared or for one pod alone; CSI drivers that attach few."""
    zones = sorted({node["metadata"]["labels"].get(ZONE, "") for node in m.nodes} - {""}) or ["z"]
    driver = "csi.example.com"
    m.objects.append({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "fast"}, "provisioner": driver,
                      "volumeBindingMode": m.rng.choice(("Immediate", "WaitForFirstConsumer"))})  # fmt: skip
    for node in m.nodes:
        if m.chance(0.6):
            drivers = [
                {"name": "csi.example.com", "nodeID": _name(node), "topologyKeys": [], "allocatable": {"count": m.rng.choice((1, 2, 5))}}
            ]
            m.objects.append(
                {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": _name(node)}, "spec": {"drivers": drivers}}
            )
    for number, each in enumerate(m.rng.sample(m.movable(), min(len(m.movable()), m.rng.randint(2, 12)))):
        namespace, claim, volume = each["metadata"]["namespace"], f"claim-{number}", f"volume-{number}"
        zone = next((n["metadata"]["labels"].get(ZONE) for n in m.nodes if _name(n) == each["spec"]["nodeName"]), None)
        if m.chance(0.2) or zone is None:
            zone = m.rng.choice(zones)
        mode = m.rng.choice(("ReadWriteOnce", "ReadWriteOncePod", "ReadWriteMany"))
        affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}]}}
        spec: Object = {"accessModes": [mode], "capacity": {"storage": "1Gi"}, "storageClassName": "fast",
                        "csi": {"driver": "csi.example.com", "volumeHandle": volume},
                        "claimRef": {"namespace": namespace, "name": claim}}  # fmt: skip
        if m.chance(0.8):
            spec["nodeAffinity"] = affinity
        metadata: Object = {"name": volume}
        if m.chance(0.2):
            metadata["labels"] = {ZONE: zone}
        m.objects.append({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": spec, "status": {"phase": "Bound"}})
        m.objects.append({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": claim, "namespace": namespace, "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
            "spec": {"accessModes": [mode], "volumeName": volume, "storageClassName": "fast",
                     "resources": {"requests": {"storage": "1Gi"}}},
            "status": {"phase": "Bound"},
        })  # fmt: skip
        users = [each]
        if m.chance(0.4):
            users += [p for p in m.pods if p["metadata"]["namespace"] == namespace and p is not each and m.chance(0.1)][:2]
        for user in users:
            user["spec"].setdefault("volumes", []).append({"name": f"v{number}", "persistentVolumeClaim": {"claimName": claim}})


def _ports(m: Medium) -> None:
    for pods in m.apps(3):
        port: Object = {"containerPort": 80, "hostPort": m.rng.choice((80, 8080))}
        if m.chance(0.3):
            port["hostIP"] = m.rng.choice(("10.0.0.1", "10.0.0.2", "0.0.0.0"))
        if m.chance(0.2):
            port["protocol"] = "UDP"
        for each in pods:
            each["spec"]["containers"][0].setdefault("ports", []).append(dict(port))


def _affine(m: Medium, kind: str, keys: tuple[str, ...]) -> None:
    """Required terms towards another workload, in a chain, or their own; sometimes of all namespaces or of some by label."""
    chain = m.apps(5)
    for i, pods in enumerate(chain):
        other = chain[(i + 1) % len(chain)] if m.chance(0.8) else pods
        term: Object = {"topologyKey": m.rng.choice(keys), "labelSelector": m.selector(_app(other))}
        where = other[0]["metadata"]["namespace"]
        if where != pods[0]["metadata"]["namespace"] or m.chance(0.2):
            if m.chance(0.4):
                term["namespaceSelector"] = {}
            elif m.chance(0.5):
                term["namespaceSelector"] = {"matchLabels": {"kubernetes.io/metadata.name": where}}
            else:
                term["namespaces"] = [where]
        if m.chance(0.1):
            term["matchLabelKeys"] = ["pod-template-hash"]
        variant = _ENFORCED if m.chance(0.3) else _IGNORED
        for each in pods:
            each["spec"].setdefault("affinity", {}).setdefault(kind, {}).setdefault(variant, []).append(term)


def _affinity(m: Medium) -> None:
    _affine(m, "podAffinity", (ZONE, ZONE, HOST))


def _anti(m: Medium) -> None:
    _affine(m, "podAntiAffinity", (HOST, HOST, HOST, ZONE))


def _node_affinity(m: Medium) -> None:
    for pods in m.apps(3):
        node = m.rng.choice(m.nodes)
        key = m.rng.choice(sorted(set(node["metadata"]["labels"]) - {HOST}) or [HOST])
        expression = {"key": key, "operator": m.rng.choice(("In", "NotIn")), "values": [node["metadata"]["labels"][key]]}
        for each in pods:
            part = each["spec"].setdefault("affinity", {}).setdefault("nodeAffinity", {})
            part[_ENFORCED if m.chance(0.2) else _IGNORED] = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}


def _spread(m: Medium) -> None:
    for pods in m.apps(5):
        found = []
        for key in m.rng.sample((ZONE, HOST), m.rng.choice((1, 1, 2))):
            app = _app(pods) if m.chance(0.8) else _app(m.apps(1)[0])
            one: Object = {"topologyKey": key, "maxSkew": m.rng.choice((1, 1, 2, 3)), "labelSelector": m.selector(app),
                           "whenUnsatisfiable": "DoNotSchedule" if m.chance(0.8) else "ScheduleAnyway"}  # fmt: skip
            if one["whenUnsatisfiable"] == "DoNotSchedule" and m.chance(0.25):
                one["minDomains"] = m.rng.randint(1, 6)
            if m.chance(0.3):
                one["nodeTaintsPolicy"] = "Honor"
            if m.chance(0.2):
                one["nodeAffinityPolicy"] = "Ignore"
            found.append(one)
        for each in pods:
            old = each["spec"].setdefault("topologySpreadConstraints", [])
            used = {(c["topologyKey"], c["whenUnsatisfiable"]) for c in old}
            old += [one for one in found if (one["topologyKey"], one["whenUnsatisfiable"]) not in used]


def _preferences(m: Medium) -> None:
    for pods in m.apps(6):
        part: Object = {}
        term = {"topologyKey": m.rng.choice((ZONE, HOST)), "labelSelector": m.selector(_app(m.apps(1)[0]))}
        weight = m.rng.choice((1, 10, 100))
        kind = m.rng.choice(("podAffinity", "podAntiAffinity", "nodeAffinity"))
        if kind == "nodeAffinity":
            node = m.rng.choice(m.nodes)
            key = m.rng.choice(sorted(node["metadata"]["labels"]))
            part = {"weight": weight, "preference": {"matchExpressions": [
                {"key": key, "operator": "In", "values": [node["metadata"]["labels"][key]]}]}}  # fmt: skip
        else:
            part = {"weight": weight, "podAffinityTerm": term}
        for each in pods:
            each["spec"].setdefault("affinity", {}).setdefault(kind, {}).setdefault(_PREFERRED, []).append(part)


def _gangs(m: Medium) -> None:
    """Gangs, waiting and running."""
    for number, pods in enumerate(m.apps(4)):
        notes = {"kubestow.dev/gang": f"{pods[0]['metadata']['namespace']}/gang-{number}"}
        if m.chance(0.5):
            notes["kubestow.dev/min-member"] = str(m.rng.randint(1, max(1, len(pods))))
        if m.chance(0.3):
            notes["kubestow.dev/required-topology"] = m.rng.choice((ZONE, HOST))
        stop = m.chance(0.6)
        for each in pods:
            each["metadata"].setdefault("annotations", {}).update(notes)
            if stop:
                _unbind(each)


def _unbind(pod: Object) -> None:
    if not any(o["kind"] == "DaemonSet" for o in pod["metadata"].get("ownerReferences", ())):
        pod["spec"].pop("nodeName", None)
        pod["status"] = {"phase": "Pending"}


def _waiting(m: Medium) -> None:
    """More pods wait, of high priority."""
    for pods in m.apps(4):
        priority = m.rng.choice((0, 500, 5000))
        for each in pods:
            if m.chance(0.7):
                each["spec"]["priority"] = priority
                each["spec"].pop("priorityClassName", None)
                _unbind(each)


def _unready(m: Medium) -> None:
    for each in m.movable():
        if m.chance(0.5):
            ready = m.chance(0.7)
            each["status"]["conditions"] = [{"type": "Ready", "status": "True" if ready else "False"}]
            if not ready and m.chance(0.3):
                each["status"]["phase"] = "Pending"


def _budgets(m: Medium) -> None:
    for number, pods in enumerate(m.apps(8)):
        which = m.rng.choice(("minAvailable", "maxUnavailable"))
        spec: Object = {"selector": m.selector(_app(pods)), which: m.rng.choice((0, 1, 1, 2, "0%", "25%", "50%", "100%"))}
        if m.chance(0.05):
            spec["selector"] = {}
        if m.chance(0.3):
            spec["unhealthyPodEvictionPolicy"] = m.rng.choice(("AlwaysAllow", "IfHealthyBudget"))
        found: Object = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "spec": spec,
                         "metadata": {"name": f"late-{number}", "namespace": pods[0]["metadata"]["namespace"]}}  # fmt: skip
        if m.chance(0.4):
            allowed, current = m.rng.choice((0, 1, 1, 2)), len(pods)
            found["status"] = {"disruptionsAllowed": allowed, "currentHealthy": current, "desiredHealthy": max(0, current - allowed),
                               "expectedPods": current}  # fmt: skip
        m.objects.append(found)


def _topologies(m: Medium) -> None:
    """Nodes whose Topology Manager rejects pods, with less available than allocatable."""
    known = {each["metadata"]["name"] for each in m._kind("NodeResourceTopology")}
    for node in m.rng.sample(m.nodes, m.rng.randint(1, max(1, len(m.nodes) // 2))):
        if _name(node) in known:
            continue
        zones = [
            {"name": f"node-{z}", "type": "Node", "resources": [
                {"name": "cpu", "capacity": "4", "allocatable": "4", "available": str(m.rng.choice((0, 1, 2, 4)))},
                {"name": "memory", "capacity": "8Gi", "allocatable": "8Gi", "available": m.rng.choice(("1Gi", "4Gi", "8Gi"))},
            ]}
            for z in range(2)
        ]  # fmt: skip
        m.objects.append({
            "apiVersion": "topology.node.k8s.io/v1alpha2", "kind": "NodeResourceTopology", "metadata": {"name": _name(node)},
            "attributes": [
                {"name": "topologyManagerPolicy", "value": m.rng.choice(("single-numa-node", "restricted", "best-effort"))},
                {"name": "topologyManagerScope", "value": m.rng.choice(("pod", "container"))},
            ],
            "zones": zones,
        })  # fmt: skip
    for pods in m.apps(5):
        for each in pods:
            for container in each["spec"]["containers"]:
                resources = container.get("resources", {})
                if resources.get("requests"):
                    resources["limits"] = dict(resources["requests"])


def _priorities(m: Medium) -> None:
    for pods in m.apps(8):
        priority = m.rng.choice((-5, 0, 7, 1000, 2000))
        for each in pods:
            each["spec"]["priority"] = priority
            each["spec"].pop("priorityClassName", None)


def _terminating(m: Medium) -> None:
    for each in m.some(0.1):
        each["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"


def _over(m: Medium) -> None:
    for each in m.some(0.1):
        each["status"]["phase"] = m.rng.choice(("Succeeded", "Failed"))


def _unknown(m: Medium) -> None:
    """Pods on nodes that are not there."""
    for each in m.some(0.05):
        each["spec"]["nodeName"] = "gone"


def _mirrors(m: Medium) -> None:
    for each in m.some(0.05):
        each["metadata"].setdefault("annotations", {})["kubernetes.io/config.mirror"] = "x"


def _bare(m: Medium) -> None:
    for each in m.some(0.1):
        each["metadata"].pop("ownerReferences", None)


def _local(m: Medium) -> None:
    for each in m.some(0.1):
        volume: Object = m.rng.choice(({"emptyDir": {}}, {"emptyDir": {"medium": "Memory"}}, {"hostPath": {"path": "/data"}}))
        each["spec"].setdefault("volumes", []).append({"name": "scratch", **volume})


def _notes(m: Medium) -> None:
    notes = (
        ("cluster-autoscaler.kubernetes.io/safe-to-evict", "false"), ("cluster-autoscaler.kubernetes.io/safe-to-evict", "true"),
        ("karpenter.sh/do-not-disrupt", "true"), ("descheduler.alpha.kubernetes.io/prefer-no-eviction", "true"),
        ("descheduler.alpha.kubernetes.io/evict", "true"),
    )  # fmt: skip
    for each in m.some(0.2):
        key, value = m.rng.choice(notes)
        each["metadata"].setdefault("annotations", {})[key] = value


def _kept(m: Medium) -> None:
    """Nodes that consolidation leaves alone."""
    for node in m.rng.sample(m.nodes, m.rng.randint(1, 3)):
        if m.chance(0.4):
            node["metadata"]["labels"]["node-role.kubernetes.io/control-plane"] = ""
        else:
            key = m.rng.choice(("cluster-autoscaler.kubernetes.io/scale-down-disabled", "karpenter.sh/do-not-disrupt"))
            node["metadata"].setdefault("annotations", {})[key] = m.rng.choice(("true", "false"))


def _costs(m: Medium) -> None:
    """The cost of a move, in the annotations that controllers know."""
    for pods in m.apps(6):
        for each in pods:
            notes = each["metadata"].setdefault("annotations", {})
            notes["kubestow.dev/move-cost"] = str(m.rng.choice((1, 2, 5, 100)))


def _shuffled(m: Medium) -> None:
    """Pods are where nobody asked whether they may."""
    for each in m.some(0.15):
        each["spec"]["nodeName"] = m.rng.choice(m.names)


def _gated(m: Medium) -> None:
    for each in m.pods:
        if not each["spec"].get("nodeName") and m.chance(0.3):
            each["spec"]["schedulingGates"] = [{"name": "wait"}]


CHANGES: Final[dict[str, Callable[[Medium], None]]] = {
    "relabelled": _relabelled, "cordoned": _cordoned, "tainted": _tainted, "shrunk": _shrunk, "resized": _resized, "volumes": _volumes,
    "ports": _ports, "affinity": _affinity, "anti": _anti, "node affinity": _node_affinity, "spread": _spread, "preferences": _preferences,
    "gangs": _gangs, "waiting": _waiting, "unready": _unready, "budgets": _budgets, "topologies": _topologies, "priorities": _priorities,
    "terminating": _terminating, "over": _over, "unknown": _unknown, "mirrors": _mirrors, "bare": _bare, "local": _local, "notes": _notes,
    "kept": _kept, "costs": _costs, "shuffled": _shuffled, "gated": _gated,
}  # fmt: skip
