"""Quantities as exact integers, and the requests of pods."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from functools import lru_cache
from typing import Any

Object = dict[str, Any]
_SUFFIXES = {
    "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "": Fraction(1),
    "k": Fraction(10**3), "M": Fraction(10**6), "G": Fraction(10**9), "T": Fraction(10**12), "P": Fraction(10**15), "E": Fraction(10**18),
    "Ki": Fraction(2**10), "Mi": Fraction(2**20), "Gi": Fraction(2**30), "Ti": Fraction(2**40), "Pi": Fraction(2**50),
    "Ei": Fraction(2**60),
}  # fmt: skip
_QUANTITY = re.compile(r"([+-]?[0-9]*\.?[0-9]*)(?:[eE]([+-]?[0-9]+)|([A-Za-z]*))")


@lru_cache(maxsize=10_000)
def amount(resource: str, text: str) -> int:
    """Return a quantity in thousandths for CPU and in whole units for other resources, rounded up."""
    found = _QUANTITY.fullmatch(text.strip())
    if found is None or not found[1]:
        raise ValueError(f"no quantity: {text!r}")
    scale = Fraction(10) ** int(found[2]) if found[2] else _SUFFIXES[found[3] or ""]
    return math.ceil(Fraction(found[1]) * scale * (1000 if resource == "cpu" else 1))


def amounts(listed: Object | None) -> dict[str, int]:
    """Return the quantities of a ResourceList."""
    return {name: amount(name, str(value)) for name, value in (listed or {}).items()}


def _add(into: dict[str, int], more: dict[str, int]) -> None:
    for name, value in more.items():
        into[name] = into.get(name, 0) + value


def _larger(into: dict[str, int], other: dict[str, int]) -> None:
    for name, value in other.items():
        into[name] = max(into.get(name, 0), value)


def _of_container(container: Object) -> dict[str, int]:
    resources = container.get("resources") or {}
    return amounts(resources.get("limits")) | amounts(resources.get("requests"))


def requests(pod: Object) -> dict[str, int]:
    """Return the requests of a pod, with 1 for the resource ``pods``, as in ``resourcehelper.PodRequests``."""
    spec = pod["spec"]
    total: dict[str, int] = {}
    for container in spec.get("containers") or ():
        _add(total, _of_container(container))
    sidecars: dict[str, int] = {}
    starting: dict[str, int] = {}
    for container in spec.get("initContainers") or ():
        own = _of_container(container)
        if container.get("restartPolicy") == "Always":
            _add(sidecars, own)
            _larger(starting, sidecars)
        else:
            _add(own, sidecars)
            _larger(starting, own)
    _add(total, sidecars)
    _larger(total, starting)
    total |= {name: value for name, value in _of_container(spec).items() if name in ("cpu", "memory") or name.startswith("hugepages-")}
    _add(total, amounts(spec.get("overhead")))
    total["pods"] = 1
    return {name: value for name, value in total.items() if value}
