"""A writer of plain values as YAML in block style.

PyYAML's C emitter takes 11 s for 150,000 assignments, because it first represents every scalar in Python; this
writer takes one second. Text is left unquoted only if no YAML version could read it differently. All other
text is double-quoted.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import Final

#: Starts with a letter, so it is not a number or date; contains no ``: ``, no `` #`` and no indicator; does not end
#: with a blank.
_PLAIN: Final = re.compile(r"[A-Za-z_](?:[A-Za-z0-9_./(),+=<>@*%;-]|:(?=[A-Za-z0-9_./-])| (?=[A-Za-z0-9_(]))*\Z")
_RESERVED: Final = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"})
_ESCAPES: Final = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t"}


def dump(document: object) -> str:
    """Return the document as YAML, with keys in the given order and without anchors.

    Raises:
        TypeError: A value is not a mapping with text keys, a list or tuple, text, a finite number, a boolean or
            None.
    """
    if not _is_nested(document):
        return _scalar(document) + "\n"
    lines: list[str] = []
    _block(document, "", "", lines)
    return "".join(lines)


def _is_nested(value: object) -> bool:
    return isinstance(value, dict | list | tuple) and len(value) > 0


def _block(value: object, indent: str, lead: str, lines: list[str]) -> None:
    """Append the lines of a non-empty mapping or sequence. ``lead`` replaces the indent of the first line (after a ``- ``)."""
    if isinstance(value, dict):
        for key, item in value.items():
            if _is_nested(item):
                lines.append(f"{lead}{_key(key)}:\n")
                inner = indent if isinstance(item, list | tuple) else indent + "  "
                _block(item, inner, inner, lines)
            else:
                lines.append(f"{lead}{_key(key)}: {_scalar(item)}\n")
            lead = indent
    elif isinstance(value, list | tuple):
        for item in value:
            if _is_nested(item):
                _block(item, indent + "  ", f"{lead}- ", lines)
            else:
                lines.append(f"{lead}- {_scalar(item)}\n")
            lead = indent


@lru_cache(maxsize=4096)
def _key(key: object) -> str:
    if not isinstance(key, str):
        raise TypeError(f"a key must be text, not {type(key).__name__}")
    return _text(key)


def _scalar(value: object) -> str:
    if isinstance(value, str):
        return _text(value)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float) and math.isfinite(value):
        text = repr(value)
        # YAML 1.1 reads 1e-05 as text, because its floats need a decimal point.
        return text if "." in text else text.replace("e", ".0e")
    if isinstance(value, dict):
        return "{}"
    if isinstance(value, list | tuple):
        return "[]"
    raise TypeError(f"{type(value).__name__} has no YAML form here")


def _text(value: str) -> str:
    if _PLAIN.match(value) and value.lower() not in _RESERVED:
        return value
    return '"' + "".join(_ESCAPES.get(c) or (c if c.isprintable() else _escape(ord(c))) for c in value) + '"'


def _escape(code: int) -> str:
    if code < 0x100:
        return f"\\x{code:02x}"
    if 0xD800 <= code < 0xE000:  # a lone surrogate is not a character; encoding rejects it, as for JSON
        return chr(code)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
