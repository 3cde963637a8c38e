"""Rewriting of checked expressions for a library that lacks Kubernetes' functions and values.

* Calls of functions that the library lacks become calls of one callback.
* An attribute in a domain that the device lacks is looked up in an empty map, although the domain is not ``in`` the attributes.
* ``==`` between a version or quantity and a value of another kind is an error, not false.

Source: https://github.com/kubernetes/kubernetes/blob/v1.36.2/staging/src/k8s.io/dynamic-resource-allocation/cel/compile.go
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from kubestow.models.cel import values
from kubestow.models.cel.checked_expression import Message, children, expr, type_name
from kubestow.models.cel.condition import UnsupportedExpression
from kubestow.models.cel.environment import CALLBACK, OWN

_DEVICE: Final = "device"
_DOMAINS: Final = "domains"
#: Functions that accept all attributes or all capacities of a device, with the position of that argument.
_OF_DOMAINS: Final = {"_[_]": 0, "_?._": 0, "_[?_]": 0, "@in": 1, "size": 0}
_PRIMITIVES: Final = ("bool", "int", "uint", "double", "string", "bytes")


def rewrite(checked: Message) -> None:
    """Rewrite a CheckedExpr in place.

    Raises:
        UnsupportedExpression: the meaning of a part would change.
    """
    rewriter = _Rewriter(checked)
    if rewriter.visit(checked.expr, {}) is not None:
        raise UnsupportedExpression("a device as the result of a selector")
    kept = [entry for entry in checked.reference_map if entry.key not in rewriter.replaced]
    del checked.reference_map[:]
    checked.reference_map.extend(kept)


def _constant(text: str) -> Message:
    return expr(const_expr={"string_value": text})


def _call(function: str, *arguments: Message) -> Message:
    return expr(call_expr={"function": function, "args": arguments})


def _callback(name: str, arguments: list[Message]) -> Message:
    return _call(CALLBACK, _constant(name), expr(list_expr={"elements": arguments}))


class _Rewriter:
    """The state of rewriting one expression: its types, its overloads, and the replaced expressions."""

    def __init__(self, checked: Message) -> None:
        self._types = {entry.key: type_name(entry.value) for entry in checked.type_map}
        self._overloads = {entry.key: list(entry.value.overload_id) for entry in checked.reference_map}
        self.replaced: set[int] = set()

    def visit(self, node: Message, scope: Mapping[str, str | None]) -> str | None:
        """Rewrite an expression. Return its kind if it is the device, all its attributes or all its capacities, else None.

        Args:
            node: The expression.
            scope: Kinds of the variables of enclosing macros.
        """
        if node.HasField("ident_expr"):
            return self._visit_ident(node, scope)
        if node.HasField("select_expr"):
            return self._visit_select(node, scope)
        if node.HasField("comprehension_expr"):
            return self._visit_comprehension(node, scope)
        if node.HasField("call_expr"):
            self._visit_call(node, scope)
            return None
        for child in children(node):
            self._plain(child, scope)
        return None

    def _plain(self, node: Message, scope: Mapping[str, str | None]) -> None:
        if self.visit(node, scope) is not None:
            raise UnsupportedExpression("a device, or all of its attributes, as a value")

    def _type(self, node: Message) -> str:
        return self._types.get(node.id, "dyn")

    def _replace(self, node: Message, by: Message) -> None:
        self.replaced.add(node.id)
        copy = type(node)()
        copy.CopyFrom(by)
        copy.id = node.id
        node.CopyFrom(copy)

    def _visit_ident(self, node: Message, scope: Mapping[str, str | None]) -> str | None:
        name = node.ident_expr.name
        if name.startswith("device."):  # the checker merges a variable and its field into one name
            field = name.removeprefix("device.")
            self._replace(node, expr(select_expr={"operand": expr(ident_expr={"name": "device"}), "field": field}))
            return _DOMAINS if field in ("attributes", "capacity") else None
        return scope.get(name, _DEVICE if name == "device" else None)

    def _visit_select(self, node: Message, scope: Mapping[str, str | None]) -> str | None:
        select = node.select_expr
        kind = self.visit(select.operand, scope)
        if kind == _DEVICE and not select.test_only:
            return _DOMAINS if select.field in ("attributes", "capacity") else None
        if kind == _DOMAINS:
            by = expr(const_expr={"bool_value": True}) if select.test_only else _domain(select.operand, _constant(select.field))
            self._replace(node, by)
        return None

    def _visit_comprehension(self, node: Message, scope: Mapping[str, str | None]) -> str | None:
        loop = node.comprehension_expr
        self.visit(loop.iter_range, scope)
        # cel.bind is a loop over an empty list.
        bound = self.visit(loop.accu_init, scope)
        if bound is not None and (not loop.iter_range.HasField("list_expr") or loop.iter_range.list_expr.elements):
            raise UnsupportedExpression("a device as the result of a macro")
        inside = {**scope, loop.iter_var: None, loop.accu_var: bound}
        if loop.iter_var2:
            inside[loop.iter_var2] = None
        self._plain(loop.loop_condition, inside)
        if bound is None:
            self._plain(loop.loop_step, inside)
        return self.visit(loop.result, {**scope, loop.accu_var: bound})

    def _visit_call(self, node: Message, scope: Mapping[str, str | None]) -> None:
        call = node.call_expr
        own = [identifier for identifier in self._overloads.get(node.id, []) if identifier.startswith(OWN)]
        namespaced = bool(own) and own[0].split("__")[1] == "g"
        arguments = [call.target] * (call.HasField("target") and not namespaced) + list(call.args)
        if call.function == "dyn" and self._type(arguments[0]).startswith("optional_type"):
            raise UnsupportedExpression("dyn() of an optional")
        kinds = [self.visit(argument, scope) for argument in arguments]
        domains = self._of_domains(node, arguments, kinds)
        if domains is not None:
            self._replace(node, domains)
        elif own:
            self._replace(node, self._own(own[0].split("__")[2], arguments))
        elif call.function in ("cel.@mapInsert", "@mapInsert"):
            self._replace(node, self._own("cel.@mapInsert", arguments[-3:] if len(arguments) > 2 else arguments[-2:]))
        elif call.function in ("_==_", "_!=_"):
            by = self._equality(arguments[0], arguments[1], call.function == "_!=_")
            if by is not None:
                self._replace(node, by)
        elif call.function == "@in" and values.QUANTITY in self._type(arguments[0]) and self._type(arguments[1]).startswith("list("):
            self._replace(node, self._own("@contained", arguments))

    def _own(self, name: str, arguments: list[Message]) -> Message:
        if any("optional_type" in self._type(argument) for argument in arguments):
            raise UnsupportedExpression(f"optionals as arguments of {name.removeprefix('cel.@')}")
        return _callback(name, arguments)

    def _of_domains(self, node: Message, arguments: list[Message], kinds: list[str | None]) -> Message | None:
        """Return the replacement of a call with the device or all its attributes; None if the call stays."""
        function = node.call_expr.function
        if _DEVICE in kinds:
            field = arguments[1].const_expr.string_value if function == "_?._" else ""
            if function != "_?._" or field in ("attributes", "capacity"):
                raise UnsupportedExpression("a device as a value")
            return None
        if _DOMAINS not in kinds:
            return None
        position = _OF_DOMAINS.get(function)
        if position is None or kinds.index(_DOMAINS) != position:
            raise UnsupportedExpression("all attributes of a device as a value")
        if function in ("@in", "size"):
            return None
        domain = _domain(arguments[0], arguments[1])
        return domain if function == "_[_]" else _call("optional.of", domain)

    def _equality(self, left: Message, right: Message, negated: bool) -> Message | None:
        mine, others = self._type(left), self._type(right)
        if not _may_be_opaque(mine) or mine == others == values.SEMVER:
            return None
        if mine.startswith("optional_type(") and others.startswith("optional_type("):
            raise UnsupportedExpression("a comparison of optionals")
        function = "@unequal" if negated else "@equal"
        precise = self._own(function, [left, right])
        if others in _PRIMITIVES:  # most comparisons are decided without the callback
            return _call("_&&_" if negated else "_||_", _call("_!=_" if negated else "_==_", left, right), precise)
        return precise


def _may_be_opaque(kind: str) -> bool:
    return re.search(r"\b(any|dyn|other)\b", kind) is not None or any(name in kind for name in values.OPAQUE)


def _domain(domains: Message, name: Message) -> Message:
    return _call("_?_:_", _call("@in", name, domains), _call("_[_]", domains, name), expr(struct_expr={}))
