"""The families of preferences for the checker, one module each, read from the raw objects.

Enter at :func:`build`. A module here is a family. The checker names no family elsewhere, except that gangs have pod affinity.
:mod:`kubestow.checker.objective.families.base` has the interface.
"""

from __future__ import annotations

from typing import Final

from kubestow.checker.objective.families.base import Family, Scene
from kubestow.models.documents import policy

KINDS: Final = tuple(kind for kind in policy.families(__name__, __path__) if issubclass(kind, Family))


def named(recounts: str) -> frozenset[str]:
    """Return the names of the families whose claims are checked in a given way: ``each``, ``sum`` or ``none``."""
    return frozenset(kind.name for kind in KINDS if kind.recounts == recounts)


def build(scene: Scene, *recounts: str) -> list[Family]:
    """Return the families that count under the policy and whose claims are checked in one of the given ways."""
    return [kind(scene) for kind in KINDS if kind.recounts in recounts and kind.counts(scene.policy)]
