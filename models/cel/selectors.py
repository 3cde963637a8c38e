"""Device selectors: an expression against one device."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final

import msgspec

from models.cel import semantic_versions, values
from models.cel.condition import CelError, UnsupportedExpression, take_outside
from models.cel.dialect import Dialect
from models.kube import quantity
from models.kube.device_objects import Device, DeviceAttribute
from models.kube.feature_gates import FeatureGates
from models.kube.quantity import QuantityError

__all__ = ["CelError", "DeviceSelector", "UnsupportedExpression", "available", "compile_selector", "evaluated"]

#: CELSelectorExpressionMaxLength, in bytes.
MAX_LENGTH: Final = 10 * 1024
#: Beyond this many devices of different content (or answers of one expression) what is remembered is forgotten.
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
            if len(self._answers) >= _REMEMBERED:
                self._answers.clear()
            try:
                answer = self._evaluate(_subject(content, driver, device, self._list_attributes))
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
            raise CelError(_one_line(str(result.value())))
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
    from models.cel import compiler

    if len(expression.encode()) > MAX_LENGTH:
        return CelError(f"too long: {len(expression.encode())} bytes, at most {MAX_LENGTH}")
    try:
        return DeviceSelector(expression, compiler.program(expression, dialect), dialect.list_attributes)
    except (CelError, UnsupportedExpression) as error:
        return error


# --- devices as values -----------------------------------------------------------------------------------------------------


class _Subjects(threading.local):
    """What was made of devices, by thread: functions of ours fail on values that another thread has made."""

    def __init__(self) -> None:
        self.made: dict[tuple[bytes, bool], Any] = {}


_subjects: Final = _Subjects()


def _subject(content: bytes, driver: str, device: Device, list_attributes: bool) -> Any:
    made = _subjects.made
    found = made.get((content, list_attributes))
    if found is None:
        from models.cel import environment

        if len(made) >= _REMEMBERED:
            made.clear()
        found = environment.evaluation().Activation({"device": _value(driver, device, list_attributes)})
        made[content, list_attributes] = found
    return found


def _value(driver: str, device: Device, list_attributes: bool) -> dict[str, object]:
    attributes: dict[str, dict[str, object]] = {}
    for name, attribute in (device.attributes or {}).items():
        domain, identifier = _qualified(name, driver)
        attributes.setdefault(domain, {})[identifier] = _attribute(name, attribute, list_attributes)
    capacity: dict[str, dict[str, object]] = {}
    for name, entry in (device.capacity or {}).items():
        domain, identifier = _qualified(name, driver)
        try:
            capacity.setdefault(domain, {})[identifier] = values.quantity(quantity.parse(entry.value))
        except QuantityError as error:
            raise CelError(f"capacity {name}: {error}") from None
    return {
        "driver": driver,
        "attributes": attributes,
        "capacity": capacity,
        "allowMultipleAllocations": bool(device.allowMultipleAllocations),
    }


def _qualified(name: str, driver: str) -> tuple[str, str]:
    domain, slash, identifier = name.partition("/")
    return (domain, identifier) if slash else (driver, name)


def _attribute(name: str, attribute: DeviceAttribute, list_attributes: bool) -> object:
    try:
        if list_attributes:
            for items in (attribute.ints, attribute.bools, attribute.strings):
                if items is not None:
                    return list(items)
            if attribute.versions is not None:
                return [values.semver(semantic_versions.parse(version)) for version in attribute.versions]
        for value in (attribute.int, attribute.bool, attribute.string):
            if value is not None:
                return value
        if attribute.version is not None:
            return values.semver(semantic_versions.parse(attribute.version))
    except ValueError as error:
        raise CelError(f"attribute {name}: {error}") from None
    raise CelError(f"attribute {name}: unsupported attribute value")


def _one_line(text: str) -> str:
    return " ".join(text.split())[:400]
