"""Outcomes of an evaluation other than a value: failures as in Kubernetes, and features that this package does not evaluate."""

from __future__ import annotations

from collections.abc import Callable


class CelError(Exception):
    """An expression does not compile or fails on a device. The message gives the reason in one line."""


class UnsupportedExpression(Exception):
    """An expression that Kubernetes might evaluate but this package cannot. There is no verdict; it is listed under ``unmodelled``."""


class CelFault(ValueError):
    """A function fails on its arguments. ``||`` and ``&&`` absorb the fault if the other operand decides."""


def no_overload() -> CelFault:
    """Return the fault of a function that has no overload for its arguments."""
    return CelFault("no such overload")


def accepts(parse: Callable[..., object], *arguments: object) -> bool:
    """Return True if a function accepts these arguments, that is, does not raise a ValueError."""
    try:
        parse(*arguments)
    except ValueError:
        return False
    return True


#: Unsupported features met by callbacks of the current evaluation. The library passes on only the text of an exception.
_outside: list[str] = []


def outside(what: str) -> CelFault:
    """Record an unsupported feature met by the current evaluation, and return the fault that ends the function."""
    _outside.append(what)
    return CelFault(what)


def take_outside() -> str | None:
    """Return the first unsupported feature met since the last call, or None, and reset the record."""
    pending = _outside[0] if _outside else None
    _outside.clear()
    return pending
