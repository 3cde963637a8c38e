"""The wire format of checked expressions, as far as rewriting needs it. Other fields are preserved.

Sources: https://github.com/google/cel-spec/blob/v0.24.0/proto/cel/expr/syntax.proto and checked.proto in the same folder.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

#: A message of the generated classes below. Field names are those of the sources.
Message: TypeAlias = Any

_PACKAGE: Final = "kubestow.cel"
_SCALARS: Final = {"string": 9, "int64": 3, "uint64": 4, "bool": 8, "bytes": 12, "double": 1, "int32": 5}
#: Message -> fields ``name number type``; ``*`` marks a repeated one.
_MESSAGES: Final = {
    "Any": "type_url 1 string, value 2 bytes",
    "CheckedExpr": "reference_map 2 ReferenceEntry*, type_map 3 TypeEntry*, expr 4 Expr",
    "ParsedExpr": "expr 2 Expr",
    "ReferenceEntry": "key 1 int64, value 2 Reference",
    "Reference": "name 1 string, overload_id 3 string*",
    "TypeEntry": "key 1 int64, value 2 Type",
    "Type": "dyn 1 Empty, null 2 int32, primitive 3 int32, wrapper 4 int32, well_known 5 int32, list_type 6 ListType, "
    "map_type 7 MapType, message_type 9 string, type_param 10 string, abstract_type 14 AbstractType",
    "Empty": "",
    "ListType": "elem_type 1 Type",
    "MapType": "key_type 1 Type, value_type 2 Type",
    "AbstractType": "name 1 string, parameter_types 2 Type*",
    "Expr": "id 2 int64, const_expr 3 Constant, ident_expr 4 Ident, select_expr 5 Select, call_expr 6 Call, list_expr 7 CreateList, "
    "struct_expr 8 CreateStruct, comprehension_expr 9 Comprehension",
    "Constant": "bool_value 2 bool, int64_value 3 int64, string_value 6 string",
    "Ident": "name 1 string",
    "Select": "operand 1 Expr, field 2 string, test_only 3 bool",
    "Call": "target 1 Expr, function 2 string, args 3 Expr*",
    "CreateList": "elements 1 Expr*, optional_indices 2 int32*",
    "CreateStruct": "message_name 1 string, entries 2 Entry*",
    "Entry": "id 1 int64, field_key 2 string, map_key 3 Expr, value 4 Expr, optional_entry 5 bool",
    "Comprehension": "iter_var 1 string, iter_range 2 Expr, accu_var 3 string, accu_init 4 Expr, loop_condition 5 Expr, loop_step 6 Expr, "
    "result 7 Expr, iter_var2 8 string",
}


def _classes() -> dict[str, Message]:
    file = descriptor_pb2.FileDescriptorProto(name="kubestow/cel.proto", package=_PACKAGE, syntax="proto2")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for text in filter(None, fields.split(", ")):
            field, number, kind = text.split()
            label = 3 if kind.endswith("*") else 1
            kind = kind.rstrip("*")
            if kind in _SCALARS:
                message.field.add(name=field, number=int(number), label=label, type=_SCALARS[kind])
            else:
                message.field.add(name=field, number=int(number), label=label, type=11, type_name=f".{_PACKAGE}.{kind}")
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")) for name in _MESSAGES}


_CLASSES: Final = _classes()
_TYPE_URL: Final = "type.googleapis.com/cel.expr.CheckedExpr"


def parse(serialized: bytes) -> Message:
    """Parse a serialized expression; return its CheckedExpr, or its ParsedExpr if it was not checked."""
    whole = _CLASSES["Any"].FromString(serialized)
    return _CLASSES[whole.type_url.rpartition(".")[2]].FromString(whole.value)


def serialize(checked: Message) -> bytes:
    """Serialize a CheckedExpr in the library's input format."""
    return bytes(_CLASSES["Any"](type_url=_TYPE_URL, value=checked.SerializeToString()).SerializeToString())


def expr(**fields: object) -> Message:
    """Return an Expr with the given fields."""
    return _CLASSES["Expr"](**fields)


def type_name(type_: Message | None) -> str:
    """Return a Type as text: ``any``, ``dyn``, ``list(string)``, ``kubernetes.Semver``. Types that rewriting need not
    distinguish are ``other``.
    """
    if type_ is None:
        return "dyn"
    for field, value in type_.ListFields():
        if field.name == "dyn":
            return "dyn"
        if field.name == "well_known":
            return {1: "any", 2: "timestamp", 3: "duration"}.get(value, "other")
        if field.name == "primitive":
            return {1: "bool", 2: "int", 3: "uint", 4: "double", 5: "string", 6: "bytes"}.get(value, "other")
        if field.name == "list_type":
            return f"list({type_name(value.elem_type)})"
        if field.name == "map_type":
            return f"map({type_name(value.key_type)},{type_name(value.value_type)})"
        if field.name == "message_type":
            return str(value)
        if field.name == "abstract_type":
            return str(value.name) + (f"({','.join(type_name(p) for p in value.parameter_types)})" if value.parameter_types else "")
    return "other"


def whole(expression: Message) -> Message:
    """Wrap one expression in a CheckedExpr."""
    return _CLASSES["CheckedExpr"](expr=expression)


def children(expression: Message) -> list[Message]:
    """Return the direct parts of an expression."""
    kind = next((field.name for field, _ in expression.ListFields() if field.name != "id"), None)
    if kind == "select_expr":
        return [expression.select_expr.operand]
    if kind == "call_expr":
        call = expression.call_expr
        return [call.target] * call.HasField("target") + list(call.args)
    if kind == "list_expr":
        return list(expression.list_expr.elements)
    if kind == "struct_expr":
        return [part for e in expression.struct_expr.entries for part in ([e.map_key] * e.HasField("map_key") + [e.value])]
    if kind == "comprehension_expr":
        loop = expression.comprehension_expr
        return [loop.iter_range, loop.accu_init, loop.loop_condition, loop.loop_step, loop.result]
    return []


def parts(expression: Message) -> list[Message]:
    """Return an expression and all its parts, recursively."""
    expressions = [expression]
    for part in expressions:
        expressions.extend(children(part))
    return expressions
