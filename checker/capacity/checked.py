"""What a check of a document about capacity gives."""

from __future__ import annotations

from typing import NamedTuple

from checker.violation import Violation


class Checked(NamedTuple):
    """What is wrong with a document, and in a clause each what was not checked in it."""

    violations: list[Violation]
    open: list[str]


def unjudged(pods: int) -> list[str]:
    """Return what a reader should know of pods that a placement leaves and that were not asked about."""
    return [f"why {pods} of the pods that are left fit nowhere: they are of too many kinds for so many nodes"] if pods else []
