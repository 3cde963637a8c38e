"""The API server's validation of texts (names, label keys and values, ports), with its error messages.

Source: https://github.com/kubernetes/kubernetes/blob/v1.36.2/staging/src/k8s.io/apimachinery/pkg/util/validation/validation.go
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from kubestow.models.kube.lenient_decode import shorten

_ALPHANUMERIC: Final = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
_LABEL_VALUE: Final = f"a valid label must be an empty string or {_ALPHANUMERIC.replace('must consist', 'consist', 1)}"
_DNS: Final = "must consist of lower case alphanumeric characters{}, and must start and end with an alphanumeric character"
_DNS_LABEL: Final = "a lowercase RFC 1123 label " + _DNS.format(" or '-'")
_DNS_SUBDOMAIN: Final = "a lowercase RFC 1123 subdomain " + _DNS.format(", '-' or '.'")
_NAME: Final = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?\Z", re.ASCII)
_LABEL: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?\Z", re.ASCII)
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]++(?:(?:-++|\.)[a-z0-9]++)*+\Z", re.ASCII)
_PORT: Final = re.compile(r"[-a-z0-9]+\Z", re.ASCII)
#: Largest length of a label value, a DNS subdomain (bytes) and a port name (characters).
_MAX_LABEL_BYTES: Final = 63
_MAX_SUBDOMAIN_BYTES: Final = 253
_MAX_PORT_CHARACTERS: Final = 15
#: Number of characters of a value that a message shows.
_SHOWN_CHARACTERS: Final = 253


def invalid(value: object, reason: str) -> str:
    """Return the server's message for an invalid value."""
    return f"Invalid value: {_quoted(value)}: {reason}"


def unsupported(value: object, allowed: Iterable[str]) -> str:
    """Return the server's message for a value outside a fixed set."""
    return f"Unsupported value: {_quoted(value)}: supported values: {', '.join(_quoted(each) for each in allowed)}"


def duplicate(value: object) -> str:
    """Return the server's message for a repeated value."""
    return f"Duplicate value: {_quoted(value)}"


def forbidden(reason: str) -> str:
    """Return the server's message for a field that must not be set."""
    return f"Forbidden: {reason}"


def required(reason: str = "") -> str:
    """Return the server's message for a missing field."""
    return f"Required value: {reason}" if reason else "Required value"


def _quoted(value: object) -> str:
    return json.dumps(value[:_SHOWN_CHARACTERS], ensure_ascii=False) if isinstance(value, str) else shorten(value)


def _too_long(text: str, longest: int, unit: str = "bytes") -> Iterator[str]:
    if len(text.encode("utf-8", "replace")) > longest:
        yield f"must be no more than {longest} {unit}"


def label_value(text: str) -> Iterator[str]:
    """Yield reasons why a text is not a label value."""
    yield from _too_long(text, _MAX_LABEL_BYTES)
    if text and not _NAME.match(text):
        yield _LABEL_VALUE


def dns_label(text: str) -> Iterator[str]:
    """Yield reasons why a text is not a label of a DNS name."""
    yield from _too_long(text, _MAX_LABEL_BYTES)
    if not _LABEL.match(text):
        yield _DNS_LABEL


def dns_subdomain(text: str) -> Iterator[str]:
    """Yield reasons why a text is not a DNS subdomain."""
    yield from _too_long(text, _MAX_SUBDOMAIN_BYTES)
    if not _SUBDOMAIN.match(text):
        yield _DNS_SUBDOMAIN


def qualified_name(text: str) -> Iterator[str]:
    """Yield reasons why a text is not a qualified name: the key of a label or annotation, or the name of a resource."""
    parts = text.split("/")
    if len(parts) > 2:
        yield (f"a valid label key {_ALPHANUMERIC} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')")
        return
    if len(parts) == 2:
        if not parts[0]:
            yield "prefix part must be non-empty"
        else:
            yield from (f"prefix part {reason}" for reason in dns_subdomain(parts[0]))
    name = parts[-1]
    if not name:
        yield "name part must be non-empty"
    else:
        yield from (f"name part {reason}" for reason in _too_long(name, _MAX_LABEL_BYTES))
    if not _NAME.match(name):
        yield f"name part {_ALPHANUMERIC}"


def port_name(text: str) -> Iterator[str]:
    """Yield reasons why a text is not a port name."""
    yield from _too_long(text, _MAX_PORT_CHARACTERS, "characters")
    if not _PORT.match(text):
        yield "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
    if not re.search("[a-z]", text):
        yield "must contain at least one letter (a-z)"
    if "--" in text:
        yield "must not contain consecutive hyphens"
    if text.startswith("-") or text.endswith("-"):
        yield "must not begin or end with a hyphen"


def labels(stated: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield the fields and reasons of invalid labels, given as plain data."""
    for key, value in stated.items() if isinstance(stated, dict) else ():
        yield from ((path, invalid(key, reason)) for reason in qualified_name(str(key)))
        if isinstance(value, str):
            yield from ((path, invalid(value, reason)) for reason in label_value(value))
