"""Planted devices: claims cut from the devices of full nodes, so that everything fits and no device is left over.

Families, each with a driver of its own:

* ``groups``: GPUs in NVLink groups of four, of two models; claims of one to eight, many of them within one group (matchAttribute), some for
  one model only;
* ``partitions``: GPUs that are published as partitions of five sizes, which draw on the counters of their GPU; every GPU is cut up to its
  last compute slice; claims of one partition or several, some of them of one GPU;
* ``shares``: GPUs that several pods may have, each a part of its memory;
* ``mixed``: nodes of each kind, and pods without devices.

Pods come in random order. All nodes have as many CPUs as the pods of the fullest one request, so that only devices are scarce.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kubestow.instances.generate import draw
from kubestow.instances.generate.fleet import HOST

Object = dict[str, Any]
Parts = list[list[int]]

FAMILIES: Final = ("groups", "partitions", "shares", "mixed")
NAMESPACE: Final = "train"
_GROUP: Final = 4
_MODELS: Final = ("a100", "h100")
#: Compute slices and units of memory of a GPU, and of its partitions, the most that are published of each size, largest first.
_WHOLE: Final = (7, 8)
_PROFILES: Final = {"7g": (7, 8, 1), "4g": (4, 4, 1), "3g": (3, 4, 2), "2g": (2, 2, 3), "1g": (1, 1, 7)}
_CUTS: Final = (
    (1, ("7g",)), (2, ("4g", "3g")), (2, ("4g", "2g", "1g")), (1, ("4g", "1g", "1g", "1g")), (3, ("3g", "2g", "2g")),
    (2, ("3g", "2g", "1g", "1g")), (2, ("2g", "2g", "2g", "1g")), (1, ("2g", "2g", "1g", "1g", "1g")), (1, ("1g",) * 7),
)  # fmt: skip
#: GiB of a GPU that is shared, and what its parts are multiples of.
_MEMORY, _STEP = 80, 5
_QUARTERS: Final = ((2, (4,)), (3, (3, 1)), (3, (2, 2)), (3, (2, 1, 1)), (1, (1, 1, 1, 1)))
_CPUS: Final = ((3, 500), (3, 1000), (2, 2000), (1, 4000))
_PER_SLICE: Final = 64
#: GPUs of a pod that is not cut from anything: 1.57 on average.
_GPUS: Final = ((75, 1), (14, 2), (2, 3), (6, 4), (3, 8))


@dataclass(frozen=True)
class Ask:
    """Requests of a pod's claim. ``wants``: (selector of devices, GiB of each or 0, how many) of each request, the class being that of
    ``family``; ``match``: the attribute that all devices of the claim share."""

    family: str
    wants: tuple[tuple[str, int, int], ...]
    match: str = ""

    def spec(self) -> Object:
        requests = []
        for i, (selector, memory, count) in enumerate(self.wants):
            exactly: Object = {"deviceClassName": self.family, "allocationMode": "ExactCount", "count": count}
            if selector:
                exactly["selectors"] = [{"cel": {"expression": selector}}]
            if memory:
                exactly["capacity"] = {"requests": {"memory": f"{memory}Gi"}}
            requests.append({"name": f"r{i}", "exactly": exactly})
        devices: Object = {"requests": requests}
        if self.match:
            devices["constraints"] = [{"matchAttribute": f"{driver(self.family)}/{self.match}"}]
        return {"devices": devices}


@dataclass
class PlantedDevices:
    """``placement``: the node of each pod (by key); ``devices``: those of its claim there, with the amounts taken: GiB of a shared GPU,
    compute slices of a partition, 1 of a whole one."""

    objects: list[Object]
    placement: dict[str, str] = field(default_factory=dict)
    devices: dict[str, list[tuple[str, int]]] = field(default_factory=dict)


def driver(family: str) -> str:
    """The driver of a family's devices."""
    return f"{family}.example.com"


def planted_devices(family: str, seed: int, *, nodes: int = 64, per_node: int = 8) -> PlantedDevices:
    """The instance of a family and seed. ``per_node``: GPUs of a node, a multiple of 4."""
    rng = random.Random(f"kubestow/devices/{family}/{seed}/{nodes}/{per_node}")
    kinds = [FAMILIES[n % 3] if family == "mixed" else family for n in range(nodes)]
    classes = [_class(kind) for kind in dict.fromkeys(kinds)]
    made = PlantedDevices([])
    pods: list[tuple[Ask | None, int]] = []
    home: list[tuple[str, list[tuple[str, int]]]] = []
    heads: list[list[Object]] = []
    most = 0
    for n, kind in enumerate(kinds):
        name = f"node-{n}"
        model = draw.pick(rng, ((1, _MODELS[0]), (1, _MODELS[1])))
        cuts = list(_CUT[kind](rng, per_node, model))
        cuts += [(None, [])] * (rng.randint(1, 4) if family == "mixed" else 0)
        cpus = [draw.pick(rng, [(weight, (cpu,)) for weight, cpu in _CPUS])[0] for _ in cuts]
        most = max(most, sum(cpus))
        heads.append(list(_slices(kind, name, per_node, model)))
        pods += [(ask, cpu) for (ask, _), cpu in zip(cuts, cpus, strict=True)]
        home += [(name, taken) for _, taken in cuts]
    made.objects += [item for n, slices in enumerate(heads) for item in (_node(f"node-{n}", most), *slices)]
    order = list(range(len(pods)))
    rng.shuffle(order)
    made.objects += classes
    made.objects += _asking([pods[i] for i in order])
    for number, i in enumerate(order):
        key = f"{NAMESPACE}/pod-{number}"
        made.placement[key], made.devices[key] = home[i]
    return made


def drawn_devices(nodes: int, pods: int, seed: int, *, per_node: int = 8) -> list[Object]:
    """A fleet of nodes with GPUs and pods that ask for 1 to 8 of them, 1.57 on average, drawn and not cut: not all need fit."""
    rng = random.Random(f"kubestow/drawn/{seed}/{nodes}/{pods}/{per_node}")
    found: list[Object] = []
    for n in range(nodes):
        found += [_node(f"node-{n}", 64_000), *_slices("groups", f"node-{n}", per_node, _MODELS[n % len(_MODELS)])]
    asked = []
    for _ in range(pods):
        count = draw.pick(rng, _GPUS)
        match = "nvlink" if 1 < count <= _GROUP and draw.chance(rng, 50) else ""
        asked.append((Ask("groups", (("", 0, count),), match), 1000 * count))
    return [*found, _class("groups"), *_asking(asked)]


def _asking(pods: Sequence[tuple[Ask | None, int]]) -> Iterator[Object]:
    """Templates, pods in this order, and their claims, from the requests of each pod and its mCPU."""
    templates = {ask: f"claim-{i}" for i, ask in enumerate(dict.fromkeys(ask for ask, _ in pods if ask is not None))}
    for asked, name in templates.items():
        yield _template(name, asked)
    for number, (ask, cpu) in enumerate(pods):
        yield from _pod(number, cpu, None if ask is None else (templates[ask], ask))


# --- cuts: what the claims of one node ask for, and what they take ---------------------------------------------------------

_Cuts = Iterator[tuple[Ask | None, list[tuple[str, int]]]]


def _groups(rng: random.Random, per_node: int, model: str) -> _Cuts:
    parts: Parts = []
    if draw.chance(rng, 15):
        parts = [list(range(per_node))]
    else:
        for start in range(0, per_node, _GROUP):
            for size in draw.pick(rng, _QUARTERS):
                parts.append(list(range(start, start + size)))
                start += size
        if draw.chance(rng, 40):  # two parts of different groups are one claim
            first, last = parts.pop(0), parts.pop()
            parts.append(first + last)
    for part in parts:
        inside = part[0] // _GROUP == part[-1] // _GROUP
        match = "nvlink" if inside and len(part) > 1 and draw.chance(rng, 80) else ""
        selector = f'device.attributes["{driver("groups")}"].model == "{model}"' if draw.chance(rng, 40) else ""
        yield Ask("groups", ((selector, 0, len(part)),), match), [(f"gpu-{d}", 1) for d in part]


def _partitions(rng: random.Random, per_node: int, model: str) -> _Cuts:
    pieces: list[tuple[int, str]] = [(gpu, profile) for gpu in range(per_node) for profile in draw.pick(rng, _CUTS)]
    used = dict.fromkeys(pieces, 0)
    while pieces:
        size = draw.pick(rng, ((6, 1), (2, 2), (1, 3)))
        part, pieces = pieces[:size], pieces[size:]
        taken = []
        for gpu, profile in part:
            taken.append((f"gpu-{gpu}-{profile}-{used[gpu, profile]}", _PROFILES[profile][0]))
            used[gpu, profile] += 1
        counts = {profile: sum(p == profile for _, p in part) for profile in sorted({p for _, p in part})}
        wants = tuple((f'device.attributes["{driver("partitions")}"].profile == "{p}"', 0, k) for p, k in counts.items())
        one = len({gpu for gpu, _ in part}) == 1 < len(part)
        yield Ask("partitions", wants, "gpu" if one and draw.chance(rng, 50) else ""), taken


def _shares(rng: random.Random, per_node: int, model: str) -> _Cuts:
    left = [_MEMORY] * per_node
    while any(left):
        gpu = next(d for d in range(per_node) if left[d])
        size = min(left[gpu], _STEP * draw.pick(rng, ((2, 2), (3, 3), (3, 4), (2, 5), (3, 6), (2, 8), (1, 11), (1, 16))))
        if left[gpu] - size == _STEP:
            size = left[gpu]
        others = [d for d in range(gpu + 1, per_node) if left[d] >= size and left[d] - size != _STEP]
        chosen = [gpu, *others[: draw.pick(rng, ((8, 0), (1, 1), (1, 2)))]]
        for d in chosen:
            left[d] -= size
        yield Ask("shares", (("", size, len(chosen)),)), [(f"gpu-{d}", size) for d in chosen]


_CUT: Final = {"groups": _groups, "partitions": _partitions, "shares": _shares}


# --- objects ------------------------------------------------------------------------------------------------------------


def _node(name: str, cpu: int) -> Object:
    amounts = {"cpu": f"{cpu}m", "memory": "1024Gi", "pods": "110"}
    return {
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {HOST: name}}, "spec": {},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]},
    }  # fmt: skip


def _slices(family: str, node: str, per_node: int, model: str) -> Iterator[Object]:
    """The slices of a node's pool: counters first, then the devices."""
    devices = list(_DEVICES[family](per_node, model))
    parts: list[Object] = []
    if family == "partitions":
        whole = {"compute": {"value": str(_WHOLE[0])}, "memory": {"value": f"{_WHOLE[1] * 10}Gi"}}
        parts.append({"sharedCounters": [{"name": f"gpu-{d}", "counters": whole} for d in range(per_node)]})
    size = -(-len(devices) // -(-len(devices) // _PER_SLICE))
    parts += [{"devices": devices[i : i + size]} for i in range(0, len(devices), size)]
    for i, part in enumerate(parts):
        pool = {"name": node, "generation": 1, "resourceSliceCount": len(parts)}
        yield {
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": f"{node}-{family}-{i}"},
            "spec": {"driver": driver(family), "nodeName": node, "pool": pool, **part},
        }  # fmt: skip


def _grouped(per_node: int, model: str) -> Iterator[Object]:
    for d in range(per_node):
        yield {"name": f"gpu-{d}", "attributes": {"model": {"string": model}, "nvlink": {"int": d // _GROUP}}}


def _partitioned(per_node: int, model: str) -> Iterator[Object]:
    for d in range(per_node):
        for profile, (compute, memory, most) in _PROFILES.items():
            amounts = {"compute": {"value": str(compute)}, "memory": {"value": f"{memory * 10}Gi"}}
            for i in range(most):
                yield {
                    "name": f"gpu-{d}-{profile}-{i}", "attributes": {"profile": {"string": profile}, "gpu": {"int": d}},
                    "consumesCounters": [{"counterSet": f"gpu-{d}", "counters": amounts}],
                }  # fmt: skip


def _shared(per_node: int, model: str) -> Iterator[Object]:
    for d in range(per_node):
        yield {"name": f"gpu-{d}", "allowMultipleAllocations": True, "capacity": {"memory": {"value": f"{_MEMORY}Gi"}}}


_DEVICES: Final = {"groups": _grouped, "partitions": _partitioned, "shares": _shared}


def _class(family: str) -> Object:
    selector = {"cel": {"expression": f'device.driver == "{driver(family)}"'}}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": family}, "spec": {"selectors": [selector]}}


def _template(name: str, ask: Ask) -> Object:
    return {
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"spec": ask.spec()},
    }  # fmt: skip


def _pod(number: int, cpu: int, claim: tuple[str, Ask] | None) -> Iterator[Object]:
    """A pod, and the claim that was made for it from its template."""
    name, uid = f"pod-{number}", f"00000000-0000-4000-8000-{number:012d}"
    container: Object = {"name": "main", "image": "registry.example.com/train/main:1.0", "resources": {"requests": {"cpu": f"{cpu}m"}}}
    pod: Object = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": NAMESPACE, "uid": uid},
        "spec": {"containers": [container]}, "status": {"phase": "Pending"},
    }  # fmt: skip
    if claim is not None:
        template, ask = claim
        container["resources"]["claims"] = [{"name": "devices"}]
        pod["spec"]["resourceClaims"] = [{"name": "devices", "resourceClaimTemplateName": template}]
        pod["status"]["resourceClaimStatuses"] = [{"name": "devices", "resourceClaimName": f"{name}-devices"}]
        owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid, "controller": True, "blockOwnerDeletion": True}
        yield {
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
            "metadata": {"name": f"{name}-devices", "namespace": NAMESPACE, "ownerReferences": [owner]}, "spec": ask.spec(),
        }  # fmt: skip
    yield pod
