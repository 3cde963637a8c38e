"""Tiny random snapshots with preferences of every family on top of the hard rules of :mod:`tests.tiny`."""

from __future__ import annotations

import random
from typing import Any, Final

from tests import tiny

Object = dict[str, Any]
KINDS: Final = ("nodes", "pods", "spread", "containers", "numa", "mixed")
#: The kind of hard rules that is combined with each kind of preferences.
HARD: Final = {"nodes": "static", "pods": "resources", "spread": "resources", "containers": "resources", "numa": "static", "mixed": "mixed"}


def snapshot(seed: int, kind: str, *, nodes: int = 3, pods: int = 4) -> list[Object]:
    """Return a random cluster with preferences of one kind, or ``mixed``."""
    rng = random.Random(f"soft-{kind}-{seed}")
    if kind in ("containers", "numa"):
        nodes, pods = 2, 3
    objects = tiny.snapshot(seed, HARD[kind], nodes=nodes, pods=pods)
    maker = tiny._Maker(rng, "mixed")
    templates: dict[str, Object] = {}
    names = [o["metadata"]["name"] for o in objects if o["kind"] == "Node"]
    for obj in objects:
        if obj["kind"] == "Node" and kind in ("nodes", "mixed") and rng.random() < 0.4:
            obj["spec"].setdefault("taints", []).append({"key": f"soft-{rng.choice('ab')}", "effect": "PreferNoSchedule"})
        if obj["kind"] == "Node" and kind in ("containers", "numa"):
            obj["status"]["allocatable"] |= {"cpu": rng.choice(("2", "4", "6")), "memory": "6Gi", "pods": "10"}
        if obj["kind"] == "Pod":
            spec = str(obj["spec"])  # keep twins equal
            if spec not in templates or obj["spec"].get("nodeName"):
                templates[spec] = _extras(rng, maker, kind)
            _merge(obj, templates[spec])
    if kind in ("containers", "numa", "mixed"):
        objects += [t for name in names if rng.random() < 0.8 for t in [_topology(rng, name, kind)]]
    if kind in ("spread", "mixed") and rng.random() < 0.3:
        objects.append(
            {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": "default"}, "spec": {"selector": {"app": "a"}}}
        )
    return objects


def with_images(objects: list[Object], seed: int) -> list[Object]:
    """Return the objects with images on nodes and in containers. Sizes lie around both thresholds of ImageLocality."""
    rng = random.Random(f"images-{seed}")
    sizes = {f"registry.example/{name}:1": rng.choice((10, 23, 24, 150, 700, 1000, 2500)) * 2**20 + rng.randrange(3) for name in "abc"}
    sizes |= {"d:latest": 400_000_000, "e@sha256:0": 90_000_000}
    images: dict[str, list[str]] = {}
    for obj in objects:
        if obj["kind"] == "Node":
            there = [{"names": [name], "sizeBytes": sizes[name]} for name in sorted(sizes) if rng.random() < 0.5]
            obj["status"] = {**obj["status"], "images": there}
        if obj["kind"] == "Pod":
            spec = obj["spec"] = dict(obj["spec"])
            wanted = images.setdefault(str(spec), [rng.choice([*sizes, "d", "x"]) for _ in range(3)])  # keep twins equal
            spec["containers"] = [{**c, "image": image} for c, image in zip(spec["containers"], wanted, strict=False)]
            if rng.random() < 0.2:
                spec["volumes"] = [*spec.get("volumes", ()), {"name": "data", "image": {"reference": wanted[2]}}]
    return objects


def _merge(pod: Object, extras: Object) -> None:
    spec = pod["spec"] = dict(pod["spec"])
    affinity = dict(spec.get("affinity", {}))
    for part, terms in extras["affinity"].items():
        affinity[part] = {**affinity.get(part, {}), "preferredDuringSchedulingIgnoredDuringExecution": terms}
    if affinity:
        spec["affinity"] = affinity
    if extras["spread"]:
        spec["topologySpreadConstraints"] = [*spec.get("topologySpreadConstraints", ()), *extras["spread"]]
    if extras["tolerations"]:
        spec["tolerations"] = [*spec.get("tolerations", ()), *extras["tolerations"]]
    if extras["containers"]:
        spec["containers"] = extras["containers"]
        spec.pop("initContainers", None)
    if extras["annotations"]:
        pod["metadata"] = {**pod["metadata"], "annotations": extras["annotations"]}


def _extras(rng: random.Random, maker: tiny._Maker, kind: str) -> Object:
    found: Object = {"affinity": {}, "spread": [], "tolerations": [], "containers": [], "annotations": {}}
    some = 0.35 if kind == "mixed" else 0.75
    if kind in ("nodes", "mixed") and rng.random() < some:
        found["affinity"]["nodeAffinity"] = [
            {
                "weight": rng.choice((1, 5, 10, 50)),
                "preference": {"matchExpressions": [{"key": "disk", "operator": "In", "values": [rng.choice(("ssd", "hdd"))]}]},
            }
            for _ in range(rng.choice((1, 2)))
        ]
        if rng.random() < 0.5:
            found["tolerations"] = [{"key": f"soft-{rng.choice('ab')}", "operator": "Exists"}]
    if kind in ("pods", "spread", "mixed"):
        for part in ("podAffinity", "podAntiAffinity"):
            if rng.random() < some / (2 if kind == "spread" else 1):
                found["affinity"][part] = [
                    {"weight": rng.choice((1, 5, 10, 50, 100)), "podAffinityTerm": maker.term((tiny.ZONE, tiny.HOST, tiny.RACK))}
                    for _ in range(rng.choice((1, 1, 2)))
                ]
    if kind in ("spread", "mixed") and rng.random() < some:
        found["spread"] = [
            {**maker.constraint(key), "whenUnsatisfiable": "ScheduleAnyway"} for key in rng.sample((tiny.ZONE, tiny.HOST), 1)
        ]
        for constraint in found["spread"]:
            constraint.pop("minDomains", None)
    if kind in ("containers", "numa", "mixed") and rng.random() < (0.4 if kind == "mixed" else 0.9):
        _containers(rng, kind, found)
    return found


def _containers(rng: random.Random, kind: str, found: Object) -> None:
    names = ["x", "y"][: rng.choice((1, 2, 2))]
    guaranteed = kind != "containers" and rng.random() < 0.7
    for name in names:
        cpu = rng.choice(("1", "1", "2", "500m")) if kind == "numa" else rng.choice(("250m", "500m", "1"))
        amounts = {"cpu": cpu, "memory": rng.choice(("256Mi", "512Mi"))}
        resources = {"requests": amounts, "limits": amounts} if guaranteed else {"requests": amounts}
        found["containers"].append({"name": name, "image": "i", "resources": resources})
    if rng.random() < 0.8:
        sign = rng.choice(("affinity", "anti-affinity"))
        lines = []
        for name in names:
            if rng.random() < 0.7:
                lines.append(f"{name}:")
                lines.append("- match: {key: name, operator: In, values: [" + rng.choice(("x", "y", "x, y")) + "]}")
                lines.append(f"  weight: {rng.choice((1, 3, 7))}")
                if rng.random() < 0.6:
                    scope = rng.choice(
                        ("{operator: AlwaysTrue}", "{key: pod/namespace, operator: Equals, values: [default]}",
                         "{key: pod/labels/app, operator: In, values: [a, b]}", "{key: pod/name, operator: Matches, values: ['p[01]']}")
                    )  # fmt: skip
                    lines.append(f"  scope: {scope}")
        if lines:
            found["annotations"][f"resource-policy.nri.io/{sign}"] = "\n".join(lines)


def _topology(rng: random.Random, name: str, kind: str) -> Object:
    count = rng.choice((2, 2, 3))
    policies = ("none", "best-effort", "single-numa-node", "restricted") if kind != "containers" else ("none",)
    zones = []
    for z in range(count):
        cpu, memory = rng.choice(("500m", "1", "1", "2")), rng.choice(("512Mi", "1Gi"))
        resources = [{"name": "cpu", "capacity": cpu, "allocatable": cpu, "available": cpu}]
        resources.append({"name": "memory", "capacity": memory, "allocatable": memory, "available": memory})
        zone: Object = {"name": f"node-{z}", "type": "Node", "resources": resources}
        if rng.random() < 0.9:
            zone["parent"] = f"socket-{z // 2 if count > 2 else rng.choice((0, z))}"
        zones.append(zone)
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha2", "kind": "NodeResourceTopology", "metadata": {"name": name},
        "attributes": [
            {"name": "topologyManagerPolicy", "value": rng.choice(policies)},
            {"name": "topologyManagerScope", "value": rng.choice(("container", "pod"))},
        ],
        "zones": zones,
    }  # fmt: skip
