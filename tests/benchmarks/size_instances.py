"""Clusters to be bought: those of ``kubestow generate``, with a catalogue of their kinds of nodes."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from kubestow.instances.generate.fleet import GPU, HOST, TYPE, ZONE
from kubestow.instances.generate.generator import Parameters, generate
from kubestow.models.catalogue import catalogue as catalogues
from kubestow.models.kube import quantity

Object = dict[str, Any]

#: Millionths per hour of a mCPU, a MiB and a GPU.
_CPU, _MEMORY, _GPU = 20, 3, 900_000
WORKER: Final = "node-role.kubernetes.io/worker"
#: Labels of a node that are its own, its zone's, or its shape's.
_OWN: Final = frozenset({HOST, ZONE, TYPE})


def cluster(seed: int, nodes: int, pods: int, *, rules: int = 50) -> tuple[list[Object], Object]:
    """Objects of a cluster whose nodes are gone and whose pods wait, and a catalogue: every kind of node that there was in all zones, at
    prices that are up to 15 % above or below the line, and 2 % more from zone to zone."""
    parameters = Parameters(nodes, pods, seed=seed, bound=100, fill=70, rules=rules, preferences=0)
    objects: list[Object] = []
    kinds: dict[str, Object] = {}
    zones: set[str] = set()
    for each in generate(parameters).objects():
        if each["kind"] == "Node":
            zones.add(each["metadata"]["labels"][ZONE])
            kinds.setdefault(each["metadata"]["labels"][TYPE], each)
        elif each["kind"] == "Pod":
            if any(owner["kind"] == "DaemonSet" for owner in each["metadata"].get("ownerReferences", ())):
                continue
            each["spec"].pop("nodeName", None)
            objects.append({key: value for key, value in each.items() if key != "status"})
        else:
            objects.append(each)
    rng = random.Random(f"kubestow/prices/{seed}")
    shapes = [_shape(name, kinds[name], sorted(zones), rng.randint(85, 115)) for name in sorted(kinds)]
    return objects, {"apiVersion": "kubestow.dev/v1alpha1", "kind": "Catalogue", "shapes": shapes}


def _shape(name: str, node: Object, zones: list[str], percent: int) -> Object:
    amounts = node["status"]["allocatable"]
    price = (_CPU * quantity.milli(amounts["cpu"]) + _MEMORY * (quantity.units(amounts["memory"]) >> 20)) * percent // 100
    price += _GPU * int(amounts.get(GPU, 0))
    shape = {
        "name": name, "allocatable": amounts, "zones": zones,
        "price": {zone: price * (100 + 2 * i) // 100 / 1_000_000 for i, zone in enumerate(zones)},
        "labels": {key: value for key, value in node["metadata"]["labels"].items() if key not in _OWN},
    }  # fmt: skip
    taints = node["spec"].get("taints")
    return shape | ({"taints": taints} if taints else {})


def catalogue_for(nodes: Sequence[Object], file: Path) -> Object:
    """Return the shapes of a catalogue file in the zones of a cluster's nodes, as far as these have zones, and for their workers; with
    those nodes' own instance types, at prices on the line."""
    base = catalogues.read(str(file))
    shapes = [msgspec.to_builtins(shape) for shape in base.shapes.values()]
    zones = sorted({zone for node in nodes if (zone := node["metadata"]["labels"].get(ZONE))})
    for shape in shapes if nodes else ():
        shape["labels"] = {**shape.get("labels", {}), WORKER: ""}
        old = shape["zones"]
        new = dict(zip(old, zones, strict=False)) if zones else {zone: zone for zone in old}
        shape["zones"] = list(new.values())
        if isinstance(shape["price"], dict):
            shape["price"] = {new[zone]: price for zone, price in shape["price"].items() if zone in new}
    kinds = {node["metadata"]["labels"][TYPE]: node for node in nodes if TYPE in node["metadata"]["labels"]}
    for name, node in sorted(kinds.items()):
        amounts = {
            key: value for key, value in node["status"]["allocatable"].items() if key in ("cpu", "memory", "pods", "ephemeral-storage")
        }
        line = _CPU * quantity.milli(amounts["cpu"]) + _MEMORY * (quantity.units(amounts["memory"]) >> 20)
        shapes.append({"name": name, "allocatable": amounts, "zones": zones, "price": line / 1_000_000, "labels": {WORKER: ""}})
    return {"apiVersion": "kubestow.dev/v1alpha1", "kind": "Catalogue", "shapes": shapes, "mostSpot": base.most_spot}
