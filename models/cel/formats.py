"""Named formats: ``format.dns1123Label().validate(text)``.

Source: https://github.com/kubernetes/kubernetes/blob/v1.36.2/staging/src/k8s.io/apiserver/pkg/cel/library/format.go
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from kubestow.models.cel import urls, values
from kubestow.models.cel.condition import accepts, no_overload, outside

_LABEL: Final = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_DNS_1035: Final = r"[a-z](?:[-a-z0-9]*[a-z0-9])?"
_VALUE: Final = r"(?:(?:[A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])"


def _matcher(pattern: str, longest: int, prefix: bool = False) -> Callable[[str], bool]:
    compiled = re.compile(rf"(?:{pattern})\Z")

    def matches(text: str) -> bool:
        # A prefix may end in "-", as generateName does.
        name = re.sub(r"-\Z", "a", text) if prefix and len(text) > 1 else text
        return len(text) <= longest and compiled.match(name) is not None

    return matches


def _qualified_name(text: str) -> bool:
    prefix, slash, name = text.rpartition("/")
    if slash and not _matcher(rf"{_LABEL}(?:\.{_LABEL})*", 253)(prefix):
        return False
    return _matcher(_VALUE, 63)(name)


def _date(text: str) -> bool:
    if re.match(r"[0-9]{4}-[0-9]{2}-[0-9]{2}\Z", text) is None:
        return False
    try:
        datetime.date.fromisoformat(text)
    except ValueError:
        return text.startswith("0000-") and _date("0004-" + text[5:])
    return True


def _uuid(text: str) -> bool:
    if re.match(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}\Z", text):
        return True
    if len(text.replace("-", "")) != 32 or re.search(r"[^-0-9A-Fa-f]", text):
        return False
    raise outside("the format uuid for a text with unusual dashes")


def _unknown(name: str) -> Callable[[str], bool]:
    def ask(_: str) -> bool:
        raise outside(f"the format {name}")

    return ask


_FORMATS: Final[dict[str, Callable[[str], bool]]] = {
    "dns1123Label": _matcher(_LABEL, 63),
    "dns1123Subdomain": _matcher(rf"{_LABEL}(?:\.{_LABEL})*", 253),
    "dns1035Label": _matcher(_DNS_1035, 63),
    "qualifiedName": _qualified_name,
    "dns1123LabelPrefix": _matcher(_LABEL, 63, prefix=True),
    "dns1123SubdomainPrefix": _matcher(rf"{_LABEL}(?:\.{_LABEL})*", 253, prefix=True),
    "dns1035LabelPrefix": _matcher(_DNS_1035, 63, prefix=True),
    "labelValue": lambda text: not text or _matcher(_VALUE, 63)(text),
    "uri": partial(accepts, urls.check),
    "uuid": _uuid,
    "date": _date,
    "byte": _unknown("byte"),
    "datetime": _unknown("datetime"),
}
NAMES: Final = tuple(_FORMATS)


def _validate(format_: object, text: object) -> object:
    name = values.text_of(format_, values.FORMAT)
    if not isinstance(text, str):
        raise no_overload()
    return None if _FORMATS[name](text) else [f"does not match the format {name}"]


def _named(name: object) -> object:
    if not isinstance(name, str):
        raise no_overload()
    return values.opaque(values.FORMAT, name) if name in _FORMATS else None


def _constant(name: str) -> Callable[[], object]:
    return lambda: values.opaque(values.FORMAT, name)


#: ``validate`` and ``format.named`` return None for an optional without a value.
FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "validate": _validate,
    "format.named": _named,
    **{f"format.{name}": _constant(name) for name in _FORMATS},
}
#: Functions whose result is an optional.
OPTIONAL: Final = frozenset({"validate", "format.named"})
