"""Compilation of expressions: checked as by an API server, and rewritten so that they have the same meaning as there."""

from __future__ import annotations

import re
from typing import Any, Final

from kubestow.models.cel import checked_expression, environment, regular_expressions
from kubestow.models.cel.checked_expression import Message, type_name
from kubestow.models.cel.condition import CelError, CelFault, UnsupportedExpression
from kubestow.models.cel.dialect import Dialect
from kubestow.models.cel.rewrite import rewrite

_CONVERSIONS: Final = ("int", "uint", "double", "duration", "timestamp")
#: CELSelectorExpressionMaxCost. A step costs at least 1; an expression with a higher cost fails.
MAX_STEPS: Final = 1_000_000
#: Number of items assumed for a list or map of unknown length. Attributes and their lists have fewer.
_ASSUMED_ITEMS: Final = 64
#: The functions of Kubernetes on whose values all others of its libraries URL, IP and CIDR are called. With those of the library Format, no
#: published device selector uses them. Source: staging/src/k8s.io/apiserver/pkg/cel/library (ip.go, cidr.go, urls.go).
_URLS_AND_ADDRESSES: Final = ("url", "isURL", "ip", "isIP", "cidr", "isCIDR", "isCanonical")
_UNSUPPORTED: Final = re.compile(r"has|url|URL|ip|IP|cidr|CIDR|format")
_ERROR: Final = re.compile(r"ERROR: <input>:(\d+:\d+): (.*)")


def program(expression: str, dialect: Dialect) -> Any:
    """Compile an expression to a program. It is evaluated on an activation with the variable ``device``.

    Raises:
        CelError: it does not compile.
        UnsupportedExpression: it needs a feature that this package does not evaluate.
    """
    library = environment.checker(dialect)
    try:
        if _UNSUPPORTED.search(expression):
            _check_support(checked_expression.parse(library.compile(expression, disable_check=True).serialize()))
        checked = checked_expression.parse(library.compile(expression).serialize())
    except RuntimeError as error:
        match = _ERROR.search(str(error))
        raise CelError(f"at {match[1]}: {match[2]}" if match else " ".join(str(error).split())[:400]) from None
    types = {entry.key: type_name(entry.value) for entry in checked.type_map}
    result = types.get(checked.expr.id, "dyn")
    if result not in ("bool", "any") and not (dialect.list_attributes and result == "dyn"):
        raise CelError(f"must evaluate to bool or the unknown type, not {result}")
    _check_constants(checked.expr, types)
    if _steps(checked.expr) > MAX_STEPS:
        raise UnsupportedExpression(f"macros that may take more than {MAX_STEPS} steps")
    rewrite(checked)
    try:
        return environment.evaluation().deserialize(checked_expression.serialize(checked))
    except RuntimeError as error:
        raise UnsupportedExpression(" ".join(str(error).split())[:400]) from None


def _check_support(parsed: Message) -> None:
    # The library's checker turns has(device.driver) into device.driver.
    for part in checked_expression.parts(parsed.expr):
        if part.select_expr.test_only and part.select_expr.operand.ident_expr.name == "device":
            raise UnsupportedExpression(f"has(device.{part.select_expr.field})")
        call = part.call_expr
        if call.function in _URLS_AND_ADDRESSES or call.target.ident_expr.name == "format":
            raise UnsupportedExpression(f"the function {call.function} (URLs, addresses and named formats)")


def _check_constants(expr: Message, types: dict[int, str]) -> None:
    """Reject expressions that the library's checker accepts but Kubernetes' rejects.

    These are lists and maps of mixed types, and constants that cannot be parsed.
    """
    for part in checked_expression.parts(expr):
        if part.HasField("list_expr"):
            optional = set(part.list_expr.optional_indices)
            _check_one_type([_element(types, e, i in optional) for i, e in enumerate(part.list_expr.elements)])
        elif part.HasField("struct_expr") and not part.struct_expr.message_name:
            _check_one_type([types.get(entry.map_key.id, "dyn") for entry in part.struct_expr.entries])
            _check_one_type([_element(types, entry.value, entry.optional_entry) for entry in part.struct_expr.entries])
        elif part.HasField("call_expr"):
            _check_call(part)


def _steps(expr: Message) -> int:
    """Return an upper bound on the number of steps of an expression."""
    if not expr.HasField("comprehension_expr"):
        return 1 + sum(_steps(child) for child in checked_expression.children(expr))
    loop = expr.comprehension_expr
    each = _steps(loop.loop_condition) + _steps(loop.loop_step)
    return _steps(loop.iter_range) + _steps(loop.accu_init) + _items(loop.iter_range) * each + _steps(loop.result)


def _items(expr: Message) -> int:
    if expr.HasField("list_expr"):
        return len(expr.list_expr.elements)
    if expr.call_expr.function in ("range", "lists.range"):
        end = expr.call_expr.args[-1].const_expr
        return int(end.int64_value) if end.HasField("int64_value") else MAX_STEPS
    return _ASSUMED_ITEMS


def _element(types: dict[int, str], expr: Message, optional: bool) -> str:
    kind = types.get(expr.id, "dyn")
    return kind.removeprefix("optional_type(").removesuffix(")") if optional else kind


def _check_one_type(types: list[str]) -> None:
    known = [kind for kind in types if re.search(r"\b(any|dyn|other)\b", kind) is None]
    for kind in known:
        if kind != known[0]:
            raise CelError(f"expected type '{known[0]}' but found '{kind}'")


def _check_call(expr: Message) -> None:
    call = expr.call_expr
    arguments = [call.target] * call.HasField("target") + list(call.args)
    constants = [argument.const_expr for argument in arguments if argument.HasField("const_expr")]
    if call.function in ("matches", "find", "findAll") and len(arguments) > 1 and arguments[1].const_expr.HasField("string_value"):
        try:
            regular_expressions.run("matches", "", arguments[1].const_expr.string_value)
        except CelFault as error:
            raise CelError(str(error)) from None
    if call.function in _CONVERSIONS and len(arguments) == 1 and constants and not call.HasField("target"):
        result = environment.evaluation().deserialize(checked_expression.serialize(checked_expression.whole(expr))).eval()
        if result.type().name() == "ERROR":
            raise CelError(" ".join(str(result.value()).split())[:400])
