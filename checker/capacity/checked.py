"""The result of checking a document about capacity."""

from __future__ import annotations

from typing import NamedTuple

from kubestow.checker.violation import Violation


class CheckedDocument(NamedTuple):
    """The result of checking a document.

    Attributes:
        violations: Faults of the document.
        open: Claims that were not checked, one clause each.
    """

    violations: list[Violation]
    open: list[str]
