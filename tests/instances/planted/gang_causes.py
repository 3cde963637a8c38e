"""Planted-infeasible gangs: there is room for everything but for one thing, which makes the gang impossible by construction."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from kubestow.instances.generate.fleet import HOST, ZONE
from tests.instances.planted.gang_fleet import RACK, Racks, bound, racks, running
from tests.instances.planted.gang_templates import GANG, NAMESPACE, Template, even, namespaces, near

Object = dict[str, Any]

_KINDS: Final = ("Deployment", "StatefulSet", "Job")
#: mCPU and MiB of a resident.
_TINY: Final = (10, 8)
_NAMES: Final = ("worker", "server", "store")


@dataclass(frozen=True)
class Impossible:
    """A gang that no placement has. Its minimal cause has to name ``rule`` (the scheduler plugin), and, where they are not None,
    ``domain`` (``key=value``) and ``resource``. ``workload``: the template whose pods it is about, as ``Kind namespace/name``."""

    snapshot: list[Object]
    manifests: list[Object]
    cause: str
    rule: str
    workload: str
    domain: str | None = None
    resource: str | None = None
    gang: str = f"{NAMESPACE}/{GANG}"


@dataclass
class _Expected:
    rule: str
    domain: str | None = None
    resource: str | None = None


class _Draw:
    """A cluster with room for small pods everywhere and a gang. ``culprit``: its first template, to be made impossible, with
    ``other`` next to it. ``room``: mCPU and MiB left on each node; ``more``: further objects of the snapshot."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.fleet: Racks = racks(rng, rng.randint(50, 120))
        usage = rng.randint(80, 95)
        self.room = [
            (cpu * (100 - usage) // 100, memory * (100 - usage) // 100)
            for cpu, memory in zip(self.fleet.cpu, self.fleet.memory, strict=True)
        ]
        self.templates = [
            Template(f"{name}-{t}", rng.choice(_KINDS), rng.randint(3, 15), 50 * rng.randint(2, 5), 64 * rng.randint(2, 6))
            for t, name in enumerate(_NAMES[: rng.randint(2, 3)])
        ]
        if rng.randrange(2):  # something to hold that is no part of the cause
            last = self.templates[-1]
            last.anti.append(near({"app": last.name}, HOST))
        self.required: str | None = None
        self.more: list[Object] = []
        self._residents: list[int] = []

    @property
    def culprit(self) -> Template:
        return self.templates[0]

    @property
    def other(self) -> Template:
        return self.templates[1]

    def some(self, key: str) -> tuple[str, list[int]]:
        """The label value of a random domain, and its nodes."""
        nodes = self.rng.choice(self.fleet.members(key))
        return self.fleet.value(key, nodes[0]), nodes

    # --- causes -----------------------------------------------------------------------------------------------------------

    def capacity(self) -> _Expected:
        """Too little CPU in the one zone that the pods select, or in every rack for a gang that wants to be in one."""
        rng, pod = self.rng, self.culprit
        if rng.randrange(2):
            value, nodes = self.some(ZONE)
            pod.selector[ZONE] = value
            slots = [0] * len(nodes)
            for _ in range(pod.replicas - rng.randint(1, 2)):
                slots[rng.randrange(len(nodes))] += 1
            for n, count in zip(nodes, slots, strict=True):
                most = self.room[n][0] // pod.cpu
                self.room[n] = min(count, most) * pod.cpu + rng.randrange(pod.cpu), max(self.room[n][1], count * pod.memory)
            return _Expected("NodeResourcesFit", f"{ZONE}={value}", "cpu")
        self.required = RACK
        for template in self.templates:
            template.anti = []  # a rack may have too few nodes for it
        largest = max(sum(self.room[n][0] for n in nodes) for nodes in self.fleet.members(RACK))
        others = sum(t.cpu * t.replicas for t in self.templates[1:])
        pod.replicas = rng.randint(48, 96)
        pod.cpu = -(-max(largest * rng.randint(105, 140) // 100 - others, 1) // pod.replicas)
        return _Expected("NodeResourcesFit", None, "cpu")

    def anti_affinity(self) -> _Expected:
        """More pods that keep apart than domains, or running pods that keep all of them out."""
        rng, pod = self.rng, self.culprit
        key = rng.choice((RACK, ZONE))
        domains = self.fleet.members(key)
        if rng.randrange(2):
            pod.anti.append(near({"app": pod.name}, key))
            pod.replicas = len(domains) + rng.randint(1, 3)
        else:
            term = near({"app": pod.name}, key) | {"namespaces": [NAMESPACE]}
            spec = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
            for d, nodes in enumerate(domains):
                self._resident(f"loner-{d}", rng.choice(nodes), app="loner", **spec)
        return _Expected("InterPodAffinity")

    def spread(self) -> _Expected:
        """maxSkew over zones, one of which takes nobody: closed by taints, which do not exempt it, or full."""
        rng, pod = self.rng, self.culprit
        skew = rng.randint(1, 2)
        value, nodes = self.some(ZONE)
        zones = len(self.fleet.members(ZONE))
        pod.spread.append(even(pod.name, ZONE, skew))
        pod.replicas = skew * (zones - 1) + rng.randint(1, 6)
        tainted = rng.randrange(2)
        for n in nodes:
            if tainted:
                self.fleet.tainted[n] = True
            else:
                self.room[n] = self.room[n][0] % pod.cpu, self.room[n][1]
        return _Expected("PodTopologySpread", f"{ZONE}={value}")

    def affinity(self) -> _Expected:
        """Near pods that are bound elsewhere, or that want nobody near."""
        rng, pod, other = self.rng, self.culprit, self.other
        pod.affine.append(near({"app": other.name}, ZONE))
        if rng.randrange(2):
            here, there = rng.sample([self.fleet.value(ZONE, nodes[0]) for nodes in self.fleet.members(ZONE)], 2)
            pod.selector[ZONE], other.selector[ZONE] = here, there
        else:
            other.anti.append(near({"app": pod.name}, ZONE))
        return _Expected("InterPodAffinity")

    def ports(self) -> _Expected:
        """More pods with one host port than nodes of their rack on which it is free."""
        rng, pod = self.rng, self.culprit
        value, nodes = self.some(RACK)
        pod.port = 20_000 + rng.randrange(1000)
        pod.selector[RACK] = value
        open_ = [n for n in nodes if not self.fleet.tainted[n]]
        taken = open_[: rng.randint(0, len(open_) - 1)]
        for n in taken:
            ports = [{"containerPort": pod.port, "hostPort": pod.port, "protocol": "TCP"}]
            self._resident(f"holder-{n}", n, app="holder")
            self.more[-1]["spec"]["containers"][0]["ports"] = ports
        pod.replicas = len(open_) - len(taken) + rng.randint(1, 3)
        return _Expected("NodePorts")

    def volumes(self) -> _Expected:
        """A volume that is available only in another zone, by its node affinity or its label, or only for one pod at a time."""
        rng, pod = self.rng, self.culprit
        here, there = rng.sample([self.fleet.value(ZONE, nodes[0]) for nodes in self.fleet.members(ZONE)], 2)
        how = rng.choice(("VolumeBinding", "VolumeZone", "VolumeRestrictions"))
        mode = "ReadWriteOncePod" if how == "VolumeRestrictions" else "ReadWriteMany"
        volume: Object = {
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv-data"},
            "spec": {
                "capacity": {"storage": "10Gi"}, "accessModes": [mode], "storageClassName": "shared",
                "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": NAMESPACE, "name": "data"},
            },
            "status": {"phase": "Bound"},
        }  # fmt: skip
        if how == "VolumeBinding":
            inside = {"key": ZONE, "operator": "In", "values": [there]}
            volume["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [inside]}]}}
        elif how == "VolumeZone":
            volume["metadata"]["labels"] = {ZONE: there}
        claim: Object = {
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": NAMESPACE},
            "spec": {
                "accessModes": [mode], "storageClassName": "shared", "volumeName": "pv-data",
                "resources": {"requests": {"storage": "10Gi"}},
            },
            "status": {"phase": "Bound"},
        }  # fmt: skip
        self.more += [volume, claim]
        pod.claims = ["data"]
        if how != "VolumeRestrictions":
            pod.selector[ZONE] = here
        return _Expected(how)

    def numa(self) -> _Expected:
        """Pods that fit a machine of their rack, and none of its NUMA zones."""
        rng, pod = self.rng, self.culprit
        value, nodes = self.some(RACK)
        pod.selector[RACK] = value
        pod.limited = True
        free = 2 * rng.randint(2, 4)  # CPUs in each of two zones are half of this
        pod.cpu = 1000 * rng.randint(free // 2 + 1, free)
        pod.replicas = rng.randint(2, 3)
        for n in nodes:
            self.fleet.tainted[n] = False
            self.room[n] = 1000 * free, max(self.room[n][1], 4096)
            half = {"cpu": (self.fleet.cpu[n] // 2000, free // 2), "memory": (self.fleet.memory[n] // 2, self.room[n][1] // 2)}
            self.more.append(_topology(self.fleet.name(n), half))
        return _Expected("NodeResourceTopologyMatch")

    def _resident(self, name: str, n: int, *, app: str, **spec: Any) -> None:
        """A tiny running pod next to those that fill the node."""
        self.more.append(bound(name, self.fleet.name(n), *_TINY, app=app, **spec))
        self._residents.append(n)

    def filled(self) -> list[tuple[int, int]]:
        """Return the remaining capacity of the full nodes, and the resources that the residents hold."""
        found = list(self.room)
        for n in self._residents:
            found[n] = found[n][0] + _TINY[0], found[n][1] + _TINY[1]
        return found


def _topology(node: str, half: dict[str, tuple[int, int]]) -> Object:
    """Two NUMA zones under the policy single-numa-node; ``half``: what each has, and of that has free (CPUs, MiB)."""
    unit = {"cpu": "", "memory": "Mi"}
    amounts = [
        {"name": name, "capacity": f"{all_}{unit[name]}", "allocatable": f"{all_}{unit[name]}", "available": f"{left}{unit[name]}"}
        for name, (all_, left) in half.items()
    ]
    costs = [[{"name": f"node-{y}", "value": 10 if y == z else 20} for y in range(2)] for z in range(2)]
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha2", "kind": "NodeResourceTopology", "metadata": {"name": node},
        "attributes": [
            {"name": "topologyManagerPolicy", "value": "single-numa-node"}, {"name": "topologyManagerScope", "value": "pod"},
        ],
        "zones": [{"name": f"node-{z}", "type": "Node", "costs": costs[z], "resources": amounts} for z in range(2)],
    }  # fmt: skip


_CAUSES: Final[dict[str, Callable[[_Draw], _Expected]]] = {
    "capacity": _Draw.capacity,
    "anti-affinity": _Draw.anti_affinity,
    "spread": _Draw.spread,
    "affinity": _Draw.affinity,
    "ports": _Draw.ports,
    "volumes": _Draw.volumes,
    "numa": _Draw.numa,
}
CAUSES: Final = tuple(_CAUSES)


def infeasible(seed: int, *, cause: str) -> Impossible:
    """A gang of two or three templates on 50 to 120 nodes (80 to 95 % of the CPUs requested) that cannot be placed, and why."""
    rng = random.Random(f"kubestow/gang/{cause}/{seed}")
    drawn = _Draw(rng)
    expected = _CAUSES[cause](drawn)
    return Impossible(
        snapshot=[*drawn.fleet.objects(), *namespaces(), *running(rng, drawn.fleet, drawn.filled()), *drawn.more],
        manifests=[t.manifest(GANG, drawn.required) for t in rng.sample(drawn.templates, len(drawn.templates))],
        cause=cause,
        rule=expected.rule,
        workload=drawn.culprit.key,
        domain=expected.domain,
        resource=expected.resource,
    )
