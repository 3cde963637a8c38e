"""Conditions of an evaluation: what fails as in Kubernetes, and what is outside of what this package evaluates."""

from __future__ import annotations

from collections.abc import Callable


class CelError(Exception):
    """An expression does not compile, or fails on a device; the message says why, in one line."""


class UnsupportedExpression(Exception):
    """Kubernetes might evaluate the expression and this package does not: no verdict. Named under ``unmodelled``."""


class Fault(ValueError):
    """A function fails on its arguments; ``||`` and ``&&`` absorb it where the other side decides."""


def no_overload() -> Fault:
    """Return the fault of a function that has no overload for its arguments."""
    return Fault("no such overload")


def accepts(parse: Callable[..., object], *arguments: object) -> bool:
    """Return whether a function takes these arguments: it does not fail with a fault, or another ValueError."""
    try:
        parse(*arguments)
    except ValueError:
        return False
    return True


#: What the callbacks of the evaluation that is under way met; the library passes on only the text of an exception.
_outside: list[str] = []


def outside(what: str) -> Fault:
    """Note that the evaluation under way met something unsupported, and return the fault that ends the function."""
    _outside.append(what)
    return Fault(what)


def take_outside() -> str | None:
    """Return what the evaluation met since the last call, and forget it."""
    found = _outside[0] if _outside else None
    _outside.clear()
    return found
