"""Conversion of plain data to the API Structs where msgspec's own conversion fails: repaired or explained.

This slow path is used only for objects that the typed decoder rejected. It differs in two ways. It reads an
explicit null as the API server's JSON decoder does (absent in an object, the zero value in a map or a list). And it
reports every misfit of an object with its exact path.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from itertools import islice
from typing import Any, Final

import msgspec
from msgspec import inspect

#: Minimum number of letters of a name, and of each part that differs, that may be a misspelling.
_MIN_LETTERS: Final = 3
#: A misspelling has one edit, and one more above each of these lengths.
_MORE_EDITS_ABOVE_LETTERS: Final = (12, 24)
_PUNCTUATION: Final = re.compile(r"[-_./]")
_NUMBER: Final = re.compile(r"[-_.][0-9]+\Z")
#: The parts of a name that count: numbers, also with a letter (1a), and a last part of one letter.
_SERIES: Final = re.compile(r"[0-9]+[a-z]?\b|[-_.][a-z]\Z|[0-9]+")
_SCALARS: Final[dict[type[inspect.Type], tuple[tuple[type, ...], str]]] = {
    inspect.StrType: ((str,), "text"),
    inspect.IntType: ((int,), "a whole number"),
    inspect.FloatType: ((int, float), "a number"),
    inspect.BoolType: ((bool,), "true or false"),
}


def plain(text: str, longest: int | None = 1000) -> str:
    """Return input text safe for one line: line breaks and terminal controls escaped, and shortened if longer than any
    valid name or path.
    """
    text = text if longest is None or len(text) <= longest else f"{text[:longest]}…"
    return text if text.isprintable() else "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def shorten(value: object) -> str:
    """Return a value for an error message: one line of at most about 60 characters."""
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list | tuple):
        return "a list"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and abs(value) >= 10**40:
        return "a number of more than 40 digits"
    if isinstance(value, str | int | float):
        text = repr(value[:60] if isinstance(value, str) else value)
        return text + "…" if isinstance(value, str) and len(value) > 60 else text
    return f"a Python {type(value).__name__}"


def some(names: Collection[str], limit: int = 3) -> str:
    """Return the first names and the number of the rest: ``a, b, c and 4 more``."""
    more = len(names) - limit
    return ", ".join(islice(names, limit)) + (f" and {more} more" if more > 0 else "")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ``; did you mean "…"?`` with the closest known word, or an empty text if none is close."""
    words = sorted(known)
    begun = sorted((each for each in words if len(word) > 3 and each.lower().startswith(word.lower())), key=len)
    swapped = [each for each in words if sorted(each) == sorted(word)]  # difflib overrates the distance of swapped letters in short words
    near = begun or swapped or difflib.get_close_matches(word, words, n=1, cutoff=0.7)
    return f"; did you mean {near[0]}?" if near else ""


def nearest(word: str, known: Iterable[str], limit: int = 2) -> list[str]:
    """Return the known names of which a word is probably a misspelling, the closest first.

    Names of one series (``zone-a`` and ``zone-b``, ``v100`` and ``v200``) are no misspellings of each other. A name without
    the number of its series is one.
    """
    found = []
    for each in dict.fromkeys(known):
        edits = _edits(word, each)
        if edits is None and each != word and len(word) >= _MIN_LETTERS and _NUMBER.sub("", each) == word:
            edits = len(each)  # the number of a series is missing: web-data of web-data-0
        if edits is not None:
            found.append((edits, sorted(word) != sorted(each), word[:1] != each[:1], each))
    return [each for *_, each in sorted(found)[:limit]]


def near_names(word: str, known: Iterable[str]) -> str:
    """Return ``; did you mean A or B?`` with the nearest known names, or an empty text if none is near."""
    near = nearest(word, known)
    return f"; did you mean {' or '.join(near)}?" if near else ""


def near_keys(key: str, known: Iterable[str]) -> str:
    """Return the suggestion of :func:`near_names` for ``[KIND/][NAMESPACE/]NAME``: the same name elsewhere, or a near name there.

    Args:
        known: Full keys, ``[KIND/]NAMESPACE/NAME``.
    """
    place, _, name = key.rpartition("/")
    keys = [each.rpartition("/") for each in dict.fromkeys(known)]
    same = [f"{where}/{own}" for where, _, own in keys if own == name]
    if same:
        return f"; did you mean {' or '.join(same[:2])}?"
    parts = {part for part in place.lower().split("/") if part}
    here = {own: f"{where}/{own}" for where, _, own in keys if parts <= set(where.lower().split("/"))}
    near = [here[own] for own in nearest(name, here)]
    return f"; did you mean {' or '.join(near)}?" if near else ""


def _edits(word: str, other: str) -> int | None:
    """Return the edits between two names; None if they are too many for a misspelling, or if the names are of one series."""
    allowed = _allowed_edits(max(len(word), len(other)))
    short = _PUNCTUATION.sub("", word.lower()), _PUNCTUATION.sub("", other.lower())
    if word == other or sum(map(str.isalpha, word)) < _MIN_LETTERS or _SERIES.sub("#", word) == _SERIES.sub("#", other):
        return None
    if short[0] == short[1] or (("/" in word) != ("/" in other) and word.rpartition("/")[2] == other.rpartition("/")[2]):
        return 1  # other punctuation, or without the domain
    if abs(len(word) - len(other)) > allowed or sum((Counter(word) - Counter(other)).values()) > allowed:
        return None
    parts = _PUNCTUATION.split(word), _PUNCTUATION.split(other)
    if len(parts[0]) == len(parts[1]):
        pairs = [(one, two, edit_distance(one, two)) for one, two in zip(*parts, strict=True) if one != two]
        if any(edits > _allowed_edits(len(one)) or min(len(one), len(two)) < _MIN_LETTERS for one, two, edits in pairs):
            return None
    edits = edit_distance(word, other)
    return edits if edits <= allowed else None


def _allowed_edits(letters: int) -> int:
    return 1 + sum(letters > bound for bound in _MORE_EDITS_ABOVE_LETTERS)


def edit_distance(one: str, two: str) -> int:
    """Return the number of letters to insert, delete, replace, or swap with a neighbour to make one text the other."""
    before: list[int] = []
    row = list(range(len(two) + 1))
    for i, letter in enumerate(one, 1):
        earlier, before, row = before, row, [i]
        for j, other in enumerate(two, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != other))
            if i > 1 and j > 1 and letter == two[j - 2] and one[i - 2] == other:
                cost = min(cost, earlier[j - 2] + 1)
            row.append(cost)
    return row[-1]


@lru_cache(maxsize=256)
def _info(type_: type[msgspec.Struct]) -> inspect.Type:
    return inspect.type_info(type_)


def fit(value: object, type_: type[msgspec.Struct]) -> tuple[Any, list[str]]:
    """Resolve the nulls of a value for ``msgspec.convert`` into ``type_``; also return the misfits as ``path: message``."""
    problems: list[str] = []
    return _fit(value, _info(type_), "", problems), problems


def _expected(type_: inspect.Type) -> str:
    if isinstance(type_, inspect.UnionType):
        # Quantities are str | int | float; "text or a number" covers all three.
        names = list(dict.fromkeys(_expected(t) for t in type_.types if not isinstance(t, inspect.NoneType)))
        if "a number" in names and "a whole number" in names:
            names.remove("a whole number")
        return " or ".join(names)
    if isinstance(type_, inspect.ListType):
        return "a list"
    if isinstance(type_, inspect.StructType | inspect.DictType):
        return "an object"
    if isinstance(type_, inspect.IntType) and type_.ge is not None and type_.le is not None:
        return f"a whole number within {type_.ge}..{type_.le}"
    return _SCALARS[type(type_)][1]


def _zero(type_: inspect.Type) -> object:
    """Return the zero value of a type, which a null inside a map or a list means."""
    if isinstance(type_, inspect.UnionType):  # a quantity: null is 0
        return 0
    if isinstance(type_, inspect.StrType):
        return ""
    return {} if isinstance(type_, inspect.StructType | inspect.DictType) else 0


def _scalar_fits(value: object, type_: inspect.Type) -> bool:
    entry = _SCALARS.get(type(type_))
    if entry is None or not isinstance(value, entry[0]) or (isinstance(value, bool) and not isinstance(type_, inspect.BoolType)):
        return False
    if isinstance(type_, inspect.IntType) and isinstance(value, int):
        return (type_.ge is None or value >= type_.ge) and (type_.le is None or value <= type_.le)
    return True


def _fit(value: object, type_: inspect.Type, path: str, problems: list[str]) -> Any:
    if isinstance(type_, inspect.UnionType):
        options = [t for t in type_.types if not isinstance(t, inspect.NoneType)]
        if value is None or any(_scalar_fits(value, t) for t in options):
            return value
        if len(options) == 1:
            return _fit(value, options[0], path, problems)
    elif isinstance(type_, inspect.StructType) and isinstance(value, Mapping):
        fitted = {}
        for field in type_.fields:
            child = f"{path}.{field.encode_name}" if path else field.encode_name
            given = value.get(field.encode_name)
            if given is not None:
                fitted[field.encode_name] = _fit(given, field.type, child, problems)
            elif field.required:
                problems.append(f"{child}: missing, expected {_expected(field.type)}")
        return fitted
    elif isinstance(type_, inspect.DictType) and isinstance(value, Mapping):
        return {
            key: _fit(_zero(type_.value_type) if item is None else item, type_.value_type, f"{path}.{key}", problems)
            for key, item in value.items()
        }
    elif isinstance(type_, inspect.ListType) and isinstance(value, list | tuple):
        return [
            _fit(_zero(type_.item_type) if item is None else item, type_.item_type, f"{path}[{index}]", problems)
            for index, item in enumerate(value)
        ]
    elif _scalar_fits(value, type_):
        return value
    problems.append(f"{path + ': ' if path else ''}got {shorten(value)}, expected {_expected(type_)}")
    return value
