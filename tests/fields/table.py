"""The verdicts of verdicts.txt: which row holds for a field.

A line is ``verdict | paths | where or why``, below the kinds that it is of: ``# Deployment, ReplicaSet``, or ``# *`` for
all kinds, unless a row of the kind itself says otherwise. A path holds for all below it, and a longer one wins; ``*`` is
the whole object. ``{a,b}`` abbreviates several. ``as`` says that the fields below are those of another path, with its
verdicts: they are counted there.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from tests.fields.api_tree import paths

DATA: Final = Path(__file__).with_name("verdicts.txt")
VERDICTS: Final = {
    "modelled": "modelled",
    "named": "named as unmodelled",
    "none": "without effect",
    "open": "decides, not named yet",
}
_BRACES: Final = re.compile(r"\{([^{}]*)\}")
#: Sections for keys of annotations and labels, and for kinds whose fields share one verdict.
KEYS: Final = "annotations and labels"
KINDS: Final = "whole kinds"


class Row(NamedTuple):
    """One line. ``kinds``: the kinds that it is of, ``("*",)`` for all; ``shown``: its paths as they are written."""

    kinds: tuple[str, ...]
    verdict: str
    shown: str
    paths: tuple[str, ...]
    why: str


def expand(text: str) -> tuple[str, ...]:
    """Return the paths of ``a.{b,c}, d``."""
    found = _BRACES.search(text)
    if found:
        return tuple(path for word in found[1].split(",") for path in expand(text[: found.start()] + word.strip() + text[found.end() :]))
    return tuple(part.strip() for part in text.split(","))


def _split(text: str) -> list[str]:
    """Parts between commas that are in no braces."""
    return [part.strip() for part in re.split(r",(?![^{]*\})", text)]


def rows() -> list[Row]:
    """Return all rows, in their order."""
    found: list[Row] = []
    section: tuple[str, ...] = ()
    for number, line in enumerate(DATA.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("# "):
            section = tuple(part.strip() for part in line[2:].split(","))
        elif line.strip() and not line.startswith("//"):
            parts = [part.strip() for part in line.split("|", 2)]
            assert len(parts) == 3, f"{DATA.name}:{number}: expected verdict | paths | where or why, got {line!r}"
            assert parts[0] in (*VERDICTS, "as"), f"{DATA.name}:{number}: no such verdict: {parts[0]}"
            assert parts[2], f"{DATA.name}:{number}: says neither where nor why"
            found.append(Row(section, parts[0], parts[1], tuple(p for part in _split(parts[1]) for p in expand(part)), parts[2]))
    return found


ROWS: Final = rows()
#: Kinds that have one verdict for all of their fields.
WHOLE: Final = frozenset(kind for row in ROWS if row.kinds == (KINDS,) for kind in row.paths)


def _by_kind() -> dict[tuple[str, str], Row]:
    found: dict[tuple[str, str], Row] = {}
    for row in ROWS:
        places = [(kind, "*") for kind in row.paths] if row.kinds == (KINDS,) else [(k, path) for k in row.kinds for path in row.paths]
        for place in places:
            assert place not in found, f"two rows for {place[0]} {place[1]}"
            found[place] = row
    return found


BY_KIND: Final = _by_kind()
_ABOVE: Final = frozenset(
    (kind, ".".join(parts[:length])) for kind, path in BY_KIND for parts in [path.split(".")] for length in range(1, len(parts))
)


def row_of(kind: str, path: str) -> Row | None:
    """Return the row that holds for a field; None where no row does."""
    prefixes = [path]
    while "." in prefixes[-1]:
        prefixes.append(prefixes[-1].rpartition(".")[0])
    places = [(kind, prefix) for prefix in prefixes] + [(kind, "*")] + [("*", prefix) for prefix in prefixes]
    return next((BY_KIND[place] for place in places if place in BY_KIND), None)


def fields(kind: str) -> Iterator[str]:
    """Yield the fields of a kind that need a verdict: not those of which parts have one of their own."""
    for path in sorted(paths(kind)):
        apart = (kind, path) in _ABOVE or (("*", path) in _ABOVE and (kind, "*") not in BY_KIND)
        if not apart or (kind, path) in BY_KIND:
            yield path


def counts(kind: str) -> Counter[str]:
    """Return the number of fields by verdict; those that count elsewhere are left out."""
    held = (row_of(kind, path) for path in fields(kind))
    return Counter(row.verdict for row in held if row is not None and row.verdict != "as")
