"""Device selectors: expressions evaluated on one device."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final

import msgspec

from kubestow.models.cel.condition import CelError, UnsupportedExpression, take_outside
from kubestow.models.cel.dialect import Dialect
from kubestow.models.kube.device_objects import Device
from kubestow.models.kube.feature_gates import FeatureGates

__all__ = ["CelError", "CompiledSelector", "UnsupportedExpression", "available", "compile_selector", "evaluated"]

#: CELSelectorExpressionMaxLength, in bytes.
MAX_LENGTH: Final = 10 * 1024
#: Largest number of cached results per expression. The cache is then cleared.
_MAX_CACHED_RESULTS: Final = 200_000

_encode: Final = msgspec.msgpack.Encoder().encode


class CompiledSelector:
    """A compiled expression with a cache of its results."""

    def __init__(self, expression: str, program: Any, list_attributes: bool) -> None:
        self.expression = expression
        self._program = program
        self._list_attributes = list_attributes
        self._answers: dict[bytes, bool | CelError | UnsupportedExpression] = {}

    def matches(self, driver: str, device: Device) -> bool:
        """Return True if the expression holds for a device of a driver.

        Raises:
            CelError: it fails at run time, or its result is not a bool.
            UnsupportedExpression: it needs a feature that this package does not evaluate.
        """
        content = _encode((driver, device.attributes, device.capacity, device.allowMultipleAllocations))
        answer = self._answers.get(content)
        if answer is None:
            from kubestow.models.cel.subjects import subject  # importing values takes longer than solving many a snapshot

            if len(self._answers) >= _MAX_CACHED_RESULTS:
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
    """Return True if the CEL library is available on this platform."""
    try:
        # imported only to see whether it can be
        from cel_expr_python import cel  # noqa: F401
    except ImportError:
        return False
    return True


def compile_selector(expression: str, gates: FeatureGates, new: bool = False) -> CompiledSelector:
    """Return the selector of an expression. Equal expressions share one.

    Args:
        expression: The expression.
        gates: The feature gates.
        new: True to compile it as an API server does for new objects, with only the features enabled by its gates.
            Stored expressions may use every feature of the version.

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
    compiled = _compiled(expression, dialect)
    if isinstance(compiled, CompiledSelector):
        return compiled
    raise type(compiled)(str(compiled))


def evaluated(expressions: Iterable[str], gates: FeatureGates) -> bool:
    """Return True if all expressions can be evaluated here: the library is available and supports their features."""
    for expression in expressions:
        if not available():
            return False
        try:
            compile_selector(expression, gates)
        except UnsupportedExpression:
            return False
        except CelError:
            continue  # a scheduler would not compile it either
    return True


@lru_cache(maxsize=4096)
def _compiled(expression: str, dialect: Dialect) -> CompiledSelector | CelError | UnsupportedExpression:
    from kubestow.models.cel import compiler

    if len(expression.encode()) > MAX_LENGTH:
        return CelError(f"too long: {len(expression.encode())} bytes, at most {MAX_LENGTH}")
    try:
        return CompiledSelector(expression, compiler.program(expression, dialect), dialect.list_attributes)
    except (CelError, UnsupportedExpression) as error:
        return error
