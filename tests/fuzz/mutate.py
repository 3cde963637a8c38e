"""Damage without regard to meaning: to plain data (:func:`structure`) and to bytes (:func:`text`)."""

from __future__ import annotations

import copy
import gzip
import random
from collections.abc import Iterator
from typing import Any, Final

#: Texts that break out of lines, quotes, tables, markup and encodings; the last one cannot be encoded at all.
STRINGS: Final = (
    "", " ", "0", "-", "a/b", "/", "a/", "a,b", "a=b", "a:b", "null", "~", "[red]x[/red]", "<script>alert(1)</script>", "]]>", "-->",
    "{{ 7 * 7 }}", "${HOME}", "$(touch x)", "'", '"', "\\", "%s%n", "../../etc", "-o", "--", "a\nkubestow: b", "a\rb", "a\tb", "a\0b",
    "\x1b[2J\x1b]0;x\x07", "\x7f", "\x9b31m", "a\u0085b", "a\u2028b\u2029c", "\u202ecba", "\u200f\u2066x", "\ufeffx", "\u200b", "e\u0301",
    "\U0001f46e\u200d\u2640\ufe0f", "\u0661\u0662", "\uff11", "\ue000", "\uffff", "x" * 300, "\u00e4" * 5000, "\ud800", "a\udfffb",
)  # fmt: skip

NUMBERS: Final = (
    0, -0.0, 1, -1, 2, 7, 100, 255, 2**15, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**53 + 1, 2**63 - 1, 2**63, 2**64, -(2**63) - 1,
    10**20, 10**400, 0.5, 1.5, 1e-9, 1e22, 1e308, float("inf"), float("-inf"), float("nan"),
)  # fmt: skip

_SHAPES: Final[tuple[Any, ...]] = (
    None, True, False, [], {}, [None], [[]], [{}], {"": None}, {"a": {"b": {"c": []}}}, [1, "a", None, {}], {"key": "k", "operator": "In"},
)  # fmt: skip

Path = tuple[Any, ...]


def odd(rng: random.Random) -> Any:
    """A value that few fields expect."""
    return copy.deepcopy(rng.choice(rng.choice((STRINGS, NUMBERS, _SHAPES))))


def spots(value: Any, path: Path = ()) -> Iterator[Path]:
    """The paths of everything inside of ``value``."""
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, inner in steps:
        yield (*path, step)
        yield from spots(inner, (*path, step))


def at(value: Any, path: Path) -> Any:
    """Return the value at a path."""
    for step in path:
        value = value[step]
    return value


def structure(rng: random.Random, value: Any) -> Any:
    """``value`` with one change of its structure, in place where it can be."""
    found = list(spots(value))
    if not found:
        return odd(rng)
    path = rng.choice(found)
    into, step = at(value, path[:-1]), path[-1]
    match rng.randrange(8):
        case 0:
            del into[step]
        case 1:
            _again(rng, into, step)
        case 2:  # something from elsewhere
            into[step] = copy.deepcopy(at(value, rng.choice(found)))
        case 3:
            into[step] = _retyped(rng, into[step])
        case 4 if isinstance(into, dict):
            into[rng.choice(STRINGS)] = into.pop(step) if rng.random() < 0.5 else odd(rng)
        case 5 if isinstance(into[step], list) and into[step]:
            rng.shuffle(into[step])
        case 6:
            other = rng.choice(found)
            if other[: len(path)] != path and path[: len(other)] != other:
                elsewhere = at(value, other[:-1])
                # Copies, since parts may be shared, and one must not get into itself.
                into[step], elsewhere[other[-1]] = copy.deepcopy(elsewhere[other[-1]]), copy.deepcopy(into[step])
        case _:
            into[step] = odd(rng)
    return value


def _again(rng: random.Random, into: Any, step: Any) -> None:
    """The same once more."""
    if isinstance(into, list):
        into.insert(rng.randint(0, len(into)), copy.deepcopy(into[step]))
    elif isinstance(into[step], list) and into[step]:
        into[step] = into[step] * rng.choice((2, 3, 40))
    elif isinstance(into[step], str):
        into[step] = into[step] * rng.choice((2, 1000))
    else:
        into[f"{step}2"] = copy.deepcopy(into[step])


def _retyped(rng: random.Random, value: Any) -> Any:
    """The same as another type."""
    if isinstance(value, dict):
        return rng.choice(([value], list(value), list(value.values()), str(value), [{"key": k, "value": v} for k, v in value.items()]))
    if isinstance(value, list):
        return rng.choice((value[0] if value else None, {str(i): each for i, each in enumerate(value)}, str(value), len(value)))
    if isinstance(value, str):
        return rng.choice(([value], {value: value}, value.encode("utf-8", "replace").hex(), value.upper(), f" {value}", len(value)))
    if isinstance(value, bool):
        return rng.choice((str(value), str(value).lower(), int(value), not value))
    if isinstance(value, int | float):
        return rng.choice((str(value), -value, [value], bool(value), value * 10**9, f"{value}.5" if abs(value) > 10**300 else value + 0.5))
    return rng.choice(("", 0, [], {}))


_SPLINTERS: Final = (
    b"\0", b"\n", b"\r\n", b"\t", b"{", b"}", b"[", b"]", b'"', b"'", b",", b":", b": ", b"- ", b"&a ", b"*a", b"<<: *a\n", b"!!binary ",
    b"!!python/object:os.system ", b"|\n", b">-\n", b"---\n", b"...\n", b"%YAML 9.9\n", b"#", b"@", b"`", b"\\u0000", b"\\ud800", b"\xff",
    b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x80\xa8", b"\xc2\x85", b"\x1b[2J", b"\xef\xbb\xbf", b"9" * 5000, b"1e999999",
    b"-0", b"0x", b"0o17", b"1_0", b"1:30", b".nan", b"-.inf", b"NaN", b"Infinity", b"? ", b"//", b"/* */", b"null", b"2026-01-01",
)  # fmt: skip


def text(rng: random.Random, data: bytes) -> bytes:
    """``data`` with one piece of damage to its bytes."""
    if not data:
        return rng.choice(_SPLINTERS)
    start = rng.randrange(len(data))
    end = min(len(data), start + rng.choice((1, 1, 3, 20, 300)))
    match rng.randrange(9):
        case 0:
            return data[:start]
        case 1:
            return data[:start] + data[end:]
        case 2:
            return data[:end] + data[start:]
        case 3:
            return data[:start] + bytes([data[start] ^ (1 << rng.randrange(8))]) + data[start + 1 :]
        case 4 | 5:
            return data[:start] + rng.choice(_SPLINTERS) + data[start if rng.random() < 0.5 else end :]
        case 6:
            return data[:start] + rng.randbytes(end - start) + data[end:]
        case 7:
            return _encoded(rng, data)
        case _:
            return data + rng.choice((data, b"\n---\n" + data, b"\n" + data[:start], b"\0" * 100))


def _encoded(rng: random.Random, data: bytes) -> bytes:
    """In another encoding, or in two."""
    as_text = data.decode("utf-8", "replace")
    encoding = rng.choice(("utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-7", "latin-1", "cp037"))
    other = as_text.encode(encoding, "replace")
    return rng.choice((other, other[: rng.randrange(len(other) + 1)], data[: len(data) // 2] + other[len(other) // 2 :]))


def packed(rng: random.Random, data: bytes) -> bytes:
    """``data`` as gzip, in several members at times."""
    half = len(data) // 2
    parts = [data] if rng.random() < 0.7 else [data[:half], data[half:]]
    return b"".join(gzip.compress(part, 1, mtime=0) for part in parts)
