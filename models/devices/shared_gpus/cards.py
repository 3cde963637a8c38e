"""What every system that shares GPUs says in its own way: cards of a node, what a pod asks for, what a pod has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from kubestow.models.kube import objects


@dataclass(frozen=True)
class Card:
    """One GPU. ``slots``: how many pods may share it; ``memory``: MiB; ``cores``: percent of its compute power."""

    uuid: str
    memory: int
    slots: int
    cores: int = 100
    model: str = ""


@dataclass(frozen=True)
class Ask:
    """``count`` cards, of each ``memory`` MiB, or ``portion`` of what it has, and ``cores`` percent; neither memory nor portion: all of it.
    ``alone``: nobody shares these cards."""

    count: int
    memory: int | None = None
    portion: Fraction | None = None
    cores: int = 0
    alone: bool = False


@dataclass(frozen=True)
class Share:
    """What a running pod has of a card. ``memory`` None: all of it."""

    uuid: str
    memory: int | None
    cores: int = 0
    alone: bool = False


@dataclass(frozen=True)
class System:
    """A system that shares GPUs. ``resources``: the names that it judges by itself; ``held``: what the pods of a node have of its cards;
    ``register``: the annotation or label by which a node tells of its cards; ``annotations``: those of which one makes a pod ask for a
    card."""

    resources: frozenset[str]
    cards: Callable[[objects.Node], list[Card]]
    asks: Callable[[objects.Pod], list[Ask]]
    held: Callable[[list[objects.Pod], list[Card]], Mapping[int, list[Share]]]
    register: str
    annotations: tuple[str, ...] = ()


def whole(raw: object) -> int | None:
    """Return a quantity of a resource that is a whole number, None for anything else."""
    text = str(raw)
    return int(text) if text.isascii() and text.isdigit() else None
