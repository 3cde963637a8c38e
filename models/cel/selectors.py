"""Device selectors: an expression against one device."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final

import msgspec

from kubestow.models.cel.condition import CelError, UnsupportedExpression, take_outside
from kubestow.models.cel.dialect import Dialect
from kubestow.models.kube.device_objects import Device
from kubestow.models.kube.feature_gates import FeatureGates

__all__ = ["CelError", "DeviceSelector", "UnsupportedExpression", "available", "compile_selector", "evaluated"]

#: CELSelectorExpressionMaxLength, in bytes.
MAX_LENGTH: Final = 10 * 1024
#: Beyond this many answers what an expression remembers is forgotten.
_REMEMBERED: Final = 200_000

_encode: Final = msgspec.msgpack.Encoder().encode


class DeviceSelector:
    """One compiled expression."""

    def __init__(self, expression: str, program: Any, list_attributes: bool) -> None:
        self.expression = expression
        self._program = program
        self._list_attributes = list_attributes
        self._answers: dict[bytes, bool | CelError | UnsupportedExpression] = {}

    def matches(self, driver: str, device: Device) -> bool:
        """Return whether the expression holds for a device of a driver.

        Raises:
            CelError: it fails at run time, or its result is no bool.
            UnsupportedExpression: it needs something that this package does not evaluate.
        """
        content = _encode((driver, device.attributes, device.capacity, device.allowMultipleAllocations))
        answer = self._answers.get(content)
        if answer is None:
            from kubestow.models.cel.subjects import subject  # values take longer to import than many a snapshot to solve

            if len(self._answers) >= _REMEMBERED:
                self._answers.clear()
            try:
                answer = self._evaluate(subject(content, driver, device, self._list_attributes))
            except (CelError, UnsupportedExpression) as error:
                answer = error
            self._answers[content] = answer
        if isinstance(answer, bool):
            return answer
        raise type(answer)(str(answer))

    def _evaluate(self, subject: Any) -> bool:
        take_outside()
        result = self._program.eval(subject)
        unsupported = take_outside()
        if unsupported is not None:
            raise UnsupportedExpression(unsupported)
        kind = result.type().name()
        if kind == "BOOL":
            return bool(result.value())
        if kind == "ERROR":
            raise CelError(" ".join(str(result.value()).split())[:400])
        raise CelError(f"the result is of type {kind.lower()}, expected bool")


def available() -> bool:
    """Return whether there is a library that evaluates expressions on this platform."""
    try:
        from cel_expr_python import cel  # noqa: F401
    except ImportError:
        return False
    return True


def compile_selector(expression: str, gates: FeatureGates, new: bool = False) -> DeviceSelector:
    """Return an expression's selector; equal expressions share one. ``new``: as an API server compiles those of objects that are created,
    without what its gates leave out; those that it has stored may use everything that the version knows.

    Raises:
        CelError: it does not compile.
        UnsupportedExpression: Kubernetes would compile it, this package does not.
    """
    lists = gates.enabled("DRAListTypeAttributes")
    dialect = Dialect(
        shares=not new or gates.enabled("DRAConsumableCapacity"),
        includes=lists or (not new and gates.has("stored selectors may call includes")),
        list_attributes=lists,
    )
    found = _compiled(expression, dialect)
    if isinstance(found, DeviceSelector):
        return found
    raise type(found)(str(found))


def evaluated(expressions: Iterable[str], gates: FeatureGates) -> bool:
    """Return whether all of these can be evaluated here: there is a library, and it has what they need."""
    for expression in expressions:
        if not available():
            return False
        try:
            compile_selector(expression, gates)
        except UnsupportedExpression:
            return False
        except CelError:
            continue  # nor would a scheduler compile it
    return True


@lru_cache(maxsize=4096)
def _compiled(expression: str, dialect: Dialect) -> DeviceSelector | CelError | UnsupportedExpression:
    from kubestow.models.cel import compiler

    if len(expression.encode()) > MAX_LENGTH:
        return CelError(f"too long: {len(expression.encode())} bytes, at most {MAX_LENGTH}")
    try:
        return DeviceSelector(expression, compiler.program(expression, dialect), dialect.list_attributes)
    except (CelError, UnsupportedExpression) as error:
        return error
