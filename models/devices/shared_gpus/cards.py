"""The data that every system for shared GPUs provides: a node's cards, a pod's requests, and a pod's shares."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from kubestow.models.kube import objects


@dataclass(frozen=True)
class Card:
    """One GPU.

    Attributes:
        memory: MiB.
        slots: Number of pods that may share it.
        cores: Percent of its compute power.
    """

    uuid: str
    memory: int
    slots: int
    cores: int = 100
    model: str = ""


@dataclass(frozen=True)
class GpuRequest:
    """A request for ``count`` cards. Without ``memory`` and ``portion``, it takes all memory of each card.

    Attributes:
        memory: MiB of each card.
        portion: Fraction of each card's memory.
        cores: Percent of compute power.
        alone: True if no other pod shares the cards.
    """

    count: int
    memory: int | None = None
    portion: Fraction | None = None
    cores: int = 0
    alone: bool = False


@dataclass(frozen=True)
class GpuShare:
    """The share of a card that a running pod has. ``memory``: MiB; None: all memory."""

    uuid: str
    memory: int | None
    cores: int = 0
    alone: bool = False


@dataclass(frozen=True)
class System:
    """A system that shares GPUs.

    Attributes:
        resources: Names of the resources that it handles itself.
        held_shares: Returns the shares that the pods of a node have of its cards.
        register: Annotation or label in which a node lists its cards.
        annotations: Annotations by which a pod requests a card.
    """

    resources: frozenset[str]
    cards: Callable[[objects.Node], list[Card]]
    asks: Callable[[objects.Pod], list[GpuRequest]]
    held_shares: Callable[[list[objects.Pod], list[Card]], Mapping[int, list[GpuShare]]]
    register: str
    annotations: tuple[str, ...] = ()


def whole(raw: object) -> int | None:
    """Return a resource quantity that is a whole number; None for other values."""
    text = str(raw)
    return int(text) if text.isascii() and text.isdigit() else None
