"""What a check of a document about capacity gives."""

from __future__ import annotations

from typing import NamedTuple

from kubestow.checker.violation import Violation


class Checked(NamedTuple):
    """What is wrong with a document, and in a clause each what was not checked in it."""

    violations: list[Violation]
    open: list[str]
