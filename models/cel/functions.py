"""Functions that Kubernetes adds to CEL and the library lacks. They are called by name with all arguments.

Source: https://github.com/kubernetes/kubernetes/tree/v1.36.2/staging/src/k8s.io/apiserver/pkg/cel/library
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import partial
from itertools import pairwise
from typing import Any, Final

from kubestow.models.cel import regular_expressions, semantic_versions, values
from kubestow.models.cel.condition import CelFault, accepts, no_overload, outside
from kubestow.models.cel.semantic_versions import SemanticVersion
from kubestow.models.kube import quantity
from kubestow.models.kube.quantity import QuantityError

_INT64: Final = range(-(2**63), 2**63)


def _parse_quantity(text: object) -> Fraction:
    if not isinstance(text, str):
        raise no_overload()
    if text != text.strip():
        raise QuantityError(f"{text[:60]!r} is not a quantity")
    return quantity.parse(text)


def _version(value: object) -> SemanticVersion:
    return semantic_versions.parse(values.text_of(value, values.SEMVER))


def _amount(value: object) -> Fraction:
    return Fraction(values.text_of(value, values.QUANTITY))


def _parse_version(text: object, normalise: object = False) -> SemanticVersion:
    if not isinstance(text, str) or not isinstance(normalise, bool):
        raise no_overload()
    return semantic_versions.parse_normalised(text) if normalise else semantic_versions.parse(text)


def _compare(left: object, right: object) -> int:
    if values.kind_of(left) == values.SEMVER:
        return _version(left).compare(_version(right))
    mine, others = _amount(left), _amount(right)
    return (mine > others) - (mine < others)


def _sum_of(sign: int) -> Callable[[object, object], object]:
    def added(left: object, right: object) -> object:
        amount = Fraction(right) if isinstance(right, int) and not isinstance(right, bool) else _amount(right)
        return values.quantity(_amount(left) + sign * amount, computed=True)

    return added


def _is_integer(value: object) -> bool:
    amount = _amount(value)
    return amount.denominator == 1 and amount.numerator in _INT64


def _as_integer(value: object) -> int:
    if not _is_integer(value):
        raise CelFault("cannot convert value to integer")
    return _amount(value).numerator


# --- lists -----------------------------------------------------------------------------------------------------------------


_COMPARABLE: Final = (bool, int, float, str, bytes, bytearray, datetime.timedelta, datetime.datetime)


def _comparable(items: object) -> list[Any]:
    if not isinstance(items, list):
        raise no_overload()
    kinds = {"number" if isinstance(x, int | float) and not isinstance(x, bool) else type(x) for x in items}
    if len(kinds) > 1 or not all(isinstance(x, _COMPARABLE) for x in items):
        raise no_overload()
    return items


def _extreme(choose: Callable[[list[Any]], Any]) -> Callable[[object], object]:
    def chosen(items: object) -> object:
        comparable = _comparable(items)
        if not comparable:
            raise CelFault("called on an empty list")
        return choose(comparable)

    return chosen


def _is_sorted(items: object) -> bool:
    comparable = _comparable(items)
    return all(a <= b for a, b in pairwise(comparable))


def _sum(items: object) -> object:
    comparable = _comparable(items)
    if not comparable:
        return 0
    total = sum(comparable[1:], comparable[0])
    if isinstance(total, int) and total not in _INT64:
        raise CelFault("integer overflow")
    return total


def equal(left: Any, right: Any) -> bool:
    """Return True if two values are equal by the rules of ``==``.

    Raises:
        CelFault: a value of one of the kinds of :data:`kubestow.models.cel.values.OPAQUE` is compared with another kind.
    """
    if left is None or right is None:
        return left is right
    kind = values.kind_of(left)
    if kind is not None:
        if values.kind_of(right) != kind or right.computed:
            raise no_overload()
        return bool(left.text == right.text)
    if values.kind_of(right) is not None:
        return False
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(_item_equal(a, b) for a, b in zip(left, right, strict=True))
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(_item_equal(left[key], right[key]) for key in left)
    if isinstance(left, bool) is not isinstance(right, bool):
        return False
    return bool(left == right)


def _item_equal(left: object, right: object) -> bool:
    try:
        return equal(left, right)
    except CelFault:
        raise outside("a comparison of lists or maps that mix versions or quantities with other values") from None


def _found(left: object, right: object) -> bool:
    try:
        return equal(left, right)
    except CelFault:
        return False


def _index_of(items: object, item: object, *others: object, last: bool = False) -> int:
    if isinstance(items, str) and isinstance(item, str) and not others:
        return items.rfind(item) if last else items.find(item)
    if not isinstance(items, list) or others:
        raise no_overload()
    places = range(len(items))
    return next((i for i in (reversed(places) if last else places) if _found(items[i], item)), -1)


def _includes(target: object, item: object) -> bool:
    if isinstance(target, list):
        if len(target) > _MAX_LIST_ATTRIBUTE and not any(_found(x, item) for x in target[:_MAX_LIST_ATTRIBUTE]):
            raise CelFault(f"'includes' cannot be applied to lists longer than {_MAX_LIST_ATTRIBUTE} values")
        return any(_found(x, item) for x in target)
    return _found(target, item)


#: ResourceSliceMaxAttributeValuesPerDevice.
_MAX_LIST_ATTRIBUTE: Final = 48


def _map_insert(target: object, *arguments: object) -> object:
    if not isinstance(target, dict):
        raise no_overload()
    added = arguments[0] if len(arguments) == 1 else {arguments[0]: arguments[1]}
    if not isinstance(added, dict):
        raise no_overload()
    if target.keys() & added.keys():
        raise CelFault("insert failed: key already exists")
    return {**target, **added}


FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "quantity": lambda text: values.quantity(_parse_quantity(text)),
    "isQuantity": partial(accepts, _parse_quantity),
    "semver": lambda *arguments: values.semver(_parse_version(*arguments)),
    "isSemver": partial(accepts, _parse_version),
    "compareTo": _compare,
    "isGreaterThan": lambda left, right: _compare(left, right) > 0,
    "isLessThan": lambda left, right: _compare(left, right) < 0,
    "major": lambda version: _version(version).major,
    "minor": lambda version: _version(version).minor,
    "patch": lambda version: _version(version).patch,
    "sign": lambda value: (_amount(value) > 0) - (_amount(value) < 0),
    "asInteger": _as_integer,
    "isInteger": _is_integer,
    "asApproximateFloat": lambda value: float(_amount(value)),
    "add": _sum_of(1),
    "sub": _sum_of(-1),
    "isSorted": _is_sorted,
    "sum": _sum,
    "min": _extreme(min),
    "max": _extreme(max),
    "indexOf": _index_of,
    "lastIndexOf": partial(_index_of, last=True),
    "includes": _includes,
    "cel.@mapInsert": _map_insert,
    "@equal": equal,
    "@unequal": lambda left, right: not equal(left, right),
    "@contained": lambda item, items: any(_found(x, item) for x in items),
    **regular_expressions.FUNCTIONS,
}
