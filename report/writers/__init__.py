"""The formats of ``-f``. A module has one format, or several that belong together.

A module of this package registers its writers with :func:`writer`, and is found by :func:`writers_of`. Nothing else names a
format: commands offer the formats of the kind of document that they print. Modules of this package import only the standard
library at the top, because ``--help`` and completion import them."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kubestow.models.snapshot.snapshot import Snapshot
    from kubestow.report.documents.manifests import ManifestRequest
    from kubestow.report.findings.outcomes import Report


@dataclass(frozen=True)
class WrittenResult:
    """A result and its circumstances, for writers.

    Attributes:
        document: The document. The name of its class is its kind.
        snapshot: The snapshot with all edits.
        version: Version of kubestow.
        seconds: Returns the time since the start of the run; None in a deterministic run.
        report: Returns the findings as test cases, for documents of findings.
        manifests: The manifests to rewrite, for placements.
    """

    document: Any
    snapshot: Snapshot
    version: str = ""
    seconds: Callable[[], float | None] = lambda: None
    report: Callable[[], Report] | None = None
    manifests: ManifestRequest | None = None

    @property
    def kind(self) -> str:
        """Return the kind of the document."""
        return type(self.document).__name__

    @cached_property
    def findings(self) -> Report:
        """Return the report, made once for all formats."""
        assert self.report is not None, f"{self.kind} has no findings"
        return self.report()


Write = Callable[[WrittenResult], bytes]


@dataclass(frozen=True)
class Writer:
    """A format.

    Attributes:
        name: Name for ``-f``.
        kinds: Kinds of documents that have the format.
        page: Page in ``docs/`` that describes it.
        write: Returns the text of a result.
    """

    name: str
    kinds: tuple[str, ...]
    page: str
    write: Write


_writers: dict[str, Writer] = {}


def writer(name: str, *, kinds: tuple[str, ...], page: str) -> Callable[[Write], Write]:
    """Register a function as the writer of a format. The arguments are as for :class:`Writer`."""

    def register(write: Write) -> Write:
        _writers[name] = Writer(name, kinds, page, write)
        return write

    return register


@cache
def writers() -> tuple[Writer, ...]:
    """Return all writers, in the order of modules and of the functions in a module."""
    for module in sorted(found.name for found in pkgutil.iter_modules(__path__)):
        import_module(f"{__name__}.{module}")
    return tuple(_writers.values())


def writers_of(kind: str) -> dict[str, Writer]:
    """Return the writers of a kind of document by format."""
    return {each.name: each for each in writers() if kind in each.kinds}
