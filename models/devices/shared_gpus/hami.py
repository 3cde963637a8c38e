"""HAMi and Volcano vGPU, which use one protocol under two sets of names.

Sources: https://github.com/Project-HAMi/HAMi/blob/master/docs/develop/protocol.md, pkg/device/devices.go and
pkg/device/nvidia/device.go there;
https://github.com/volcano-sh/volcano/blob/master/pkg/scheduler/api/devices/nvidia/vgpu/utils.go
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import msgspec

from kubestow.models.devices.shared_gpus.cards import Card, GpuRequest, GpuShare, System, whole
from kubestow.models.kube import objects


@dataclass(frozen=True)
class _Names:
    """Names of one system. ``fields``: indices of type and health in a card's line of the node annotation."""

    register: str
    allocated: str
    number: str
    memory: str
    percentage: str
    cores: str
    fields: tuple[int, int]


_HAMI: Final = _Names(
    "hami.io/node-nvidia-register",
    "hami.io/vgpu-devices-allocated",
    "nvidia.com/gpu",
    "nvidia.com/gpumem",
    "nvidia.com/gpumem-percentage",
    "nvidia.com/gpucores",
    (4, 6),
)
_VOLCANO: Final = _Names(
    "volcano.sh/node-vgpu-register",
    "volcano.sh/vgpu-ids-new",
    "volcano.sh/vgpu-number",
    "volcano.sh/vgpu-memory",
    "volcano.sh/vgpu-memory-percentage",
    "volcano.sh/vgpu-cores",
    (3, 4),
)
#: Percent of cores from which a pod has a card for itself.
_EXCLUSIVE_CORES: Final = 100


def _cards(names: _Names, node: objects.Node) -> list[Card]:
    text = (node.metadata.annotations or {}).get(names.register, "")
    if text.lstrip().startswith("["):
        return _cards_of_json(text)
    kind, health = names.fields
    found = []
    for line in text.split(":"):
        items = line.strip().split(",")
        if len(items) <= health:
            continue
        slots, memory, cores = whole(items[1]), whole(items[2]), whole(items[3]) if kind == 4 else 100
        if slots is None or memory is None or cores is None or items[health].lower() not in ("true", "1", "t") or items[-1] == "mig":
            continue
        found.append(Card(items[0], memory, slots, cores or 100, items[kind]))
    return found


def _cards_of_json(text: str) -> list[Card]:
    try:
        listed: list[dict[str, Any]] = msgspec.json.decode(text, type=list[dict[str, Any]])
    except msgspec.DecodeError:
        return []
    return [
        Card(str(each.get("id", "")), memory, slots, whole(each.get("devcore", 0)) or 100, str(each.get("type", "")))
        for each in listed
        if each.get("health") and each.get("mode") != "mig"
        if (memory := whole(each.get("devmem", 0))) is not None and (slots := whole(each.get("count", 0))) is not None
    ]


def _asks(names: _Names, pod: objects.Pod) -> list[GpuRequest]:
    found = []
    for container in pod.spec.containers or ():
        resources = container.resources
        given: Mapping[str, Any] = {} if resources is None else {**(resources.requests or {}), **(resources.limits or {})}
        sized = any(name in given for name in (names.memory, names.percentage, names.cores))
        count = whole(given[names.number]) if names.number in given else 1 if sized else 0
        if not count:
            continue
        memory = whole(given.get(names.memory, 0)) or None
        percentage = whole(given[names.percentage]) if names.percentage in given and memory is None else None
        cores = whole(given.get(names.cores, 0)) or 0
        portion = None if percentage is None or percentage >= 100 else Fraction(percentage, 100)
        found.append(GpuRequest(count, memory, portion, cores, cores >= _EXCLUSIVE_CORES))
    return found


def _held(names: _Names, pods: list[objects.Pod], _: list[Card]) -> dict[int, list[GpuShare]]:
    found: dict[int, list[GpuShare]] = {}
    for index, pod in enumerate(pods):
        text = (pod.metadata.annotations or {}).get(names.allocated, "")
        for line in text.replace(";", ":").split(":"):
            items = line.strip().split(",")
            if len(items) >= 4:
                cores = whole(items[3]) or 0
                found.setdefault(index, []).append(GpuShare(items[0].partition("[")[0], whole(items[2]), cores, cores >= _EXCLUSIVE_CORES))
    return found


def _system(names: _Names) -> System:
    return System(
        frozenset({names.number, names.memory, names.percentage, names.cores}),
        lambda node: _cards(names, node),
        lambda pod: _asks(names, pod),
        lambda pods, cards: _held(names, pods, cards),
        names.register,
    )


HAMI: Final = _system(_HAMI)
VOLCANO: Final = _system(_VOLCANO)
