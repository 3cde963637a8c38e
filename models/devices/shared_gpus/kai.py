"""KAI Scheduler: fractions of GPUs in annotations of pods, and cards in labels of nodes.

Sources: https://github.com/NVIDIA/KAI-Scheduler/blob/main/docs/gpu-sharing/README.md and
pkg/common/constants/constants.go there
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from kubestow.models.devices.shared_gpus.cards import Card, GpuRequest, GpuShare, System, whole
from kubestow.models.kube import objects

_RESOURCE: Final = "nvidia.com/gpu"
_COUNT: Final = "nvidia.com/gpu.count"
#: Pods of one group share a card, which a reservation pod holds as a whole.
_GROUP: Final = "runai-gpu-group"
_RESERVATIONS: Final = ("runai-reservation", "kai-resource-reservation")
#: Memory alone limits the number of pods per card.
_SLOTS: Final = 1000


def _cards(node: objects.Node) -> list[Card]:
    labels = node.metadata.labels or {}
    count, memory = whole(labels.get(_COUNT, "")), whole(labels.get("nvidia.com/gpu.memory", ""))
    model = labels.get("nvidia.com/gpu.product", "")
    return [Card(f"{node.metadata.name}-{i}", memory, _SLOTS, model=model) for i in range(count or 0)] if memory else []


def _asks(pod: objects.Pod) -> list[GpuRequest]:
    if pod.metadata.namespace in _RESERVATIONS:
        return []
    annotations = pod.metadata.annotations or {}
    count = whole(annotations.get("gpu-fraction-num-devices", "1")) or 1
    memory = whole(annotations.get("gpu-memory", ""))
    if memory:
        return [GpuRequest(count, memory)]
    portion = _portion(annotations.get("gpu-fraction", ""))
    if portion is not None:
        return [GpuRequest(count, portion=portion)]
    found = []
    for container in pod.spec.containers or ():
        resources = container.resources
        given = {} if resources is None else {**(resources.requests or {}), **(resources.limits or {})}
        cards = whole(given.get(_RESOURCE, 0))
        if cards:
            found.append(GpuRequest(cards, cores=100, alone=True))
    return found


def _portion(text: str) -> Fraction | None:
    try:
        portion = Fraction(text)
    except (ValueError, ZeroDivisionError):
        return None
    return portion if 0 < portion < 1 else None


def _held(pods: list[objects.Pod], cards: list[Card]) -> dict[int, list[GpuShare]]:
    """Return the shares of a node's cards that its pods hold, by index into ``pods``.

    Pods with whole cards get the next free cards of the node, since its cards are equal.
    """
    found: dict[int, list[GpuShare]] = {}
    free = iter(cards)
    groups: dict[str, Card | None] = {}
    for index, pod in enumerate(pods):
        for ask in _asks(pod):
            labels = pod.metadata.labels or {}
            named = [labels[_GROUP]] if _GROUP in labels else [k for k in sorted(labels) if k.startswith(f"{_GROUP}/")]
            for number in range(ask.count):
                group = None if ask.alone else named[number] if number < len(named) else f"{pod.metadata.namespace}/{pod.metadata.name}"
                if group is not None and group not in groups:
                    groups[group] = next(free, None)
                card = groups[group] if group is not None else next(free, None)
                if card is not None:
                    memory = ask.memory if ask.portion is None else int(ask.portion * card.memory)
                    found.setdefault(index, []).append(GpuShare(card.uuid, memory, ask.cores, ask.alone))
    return found


KAI: Final = System(frozenset({_RESOURCE}), _cards, _asks, _held, _COUNT, ("gpu-fraction", "gpu-memory"))
