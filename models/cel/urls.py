"""URLs, parsed as by Go's net/url.

Source: https://github.com/kubernetes/kubernetes/blob/v1.36.2/staging/src/k8s.io/apiserver/pkg/cel/library/urls.go
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from kubestow.models.cel import values
from kubestow.models.cel.condition import CelFault, accepts, no_overload, outside

#: URLs that Go and Python parse alike: a scheme with an authority, or a path, in characters that need no escape.
_PLAIN: Final = re.compile(
    r"(?:[A-Za-z][A-Za-z0-9+.-]*://(?P<host>[A-Za-z0-9._~-]*|\[[0-9A-Fa-f:.]+\])(?::(?P<port>[0-9]*))?)?"
    r"(?P<path>(?:/[A-Za-z0-9._~!$&'()*+,;=:@/-]*)?)(?:\?(?P<query>[A-Za-z0-9._~!$&'()*+,:@/?=-]*))?(?:#[A-Za-z0-9._~!$&'()*+,;=:@/?-]*)?\Z"
)
_NEVER: Final = re.compile(r"[\x00-\x20\x7f]")


def check(text: object) -> None:
    """Check that ParseRequestURI accepts a URL.

    Raises:
        CelFault: it rejects the URL, or this package cannot decide (recorded as unsupported).
    """
    if not isinstance(text, str):
        raise no_overload()
    if not text or _NEVER.search(text.rstrip(" ")):
        raise CelFault(f"{text[:60]!r} is not a URL")
    match = _PLAIN.match(text)
    if match is None:
        if not text.startswith("/") and not re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", text):
            raise CelFault(f"{text[:60]!r} is not an absolute URL")
        raise outside(f"a URL such as {text[:60]!r}")


def _parsed(value: object) -> Any:
    return urlsplit(values.text_of(value, values.URL))


def _url(text: object) -> object:
    check(text)
    return values.opaque(values.URL, str(text))


def _host(value: object) -> str:
    return str(_parsed(value).netloc)


def _hostname(value: object) -> str:
    host = _host(value)
    return host[1 : host.index("]")] if host.startswith("[") else host.partition(":")[0]


def _port(value: object) -> str:
    return _host(value).rpartition("]")[2].partition(":")[2]


FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "url": _url,
    "isURL": partial(accepts, check),
    "getScheme": lambda value: _parsed(value).scheme,
    "getHost": _host,
    "getHostname": _hostname,
    "getPort": _port,
    "getEscapedPath": lambda value: _parsed(value).path,
    "getQuery": lambda value: parse_qs(_parsed(value).query, keep_blank_values=True),
}
