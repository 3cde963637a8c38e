"""Variables, types and functions of device selectors, for the library's checker and for its evaluation.

An expression is checked against Kubernetes' declarations and then rewritten (:mod:`kubestow.models.cel.rewrite`).
During evaluation, one callback runs every function that the library lacks.

Source:
https://github.com/kubernetes/kubernetes/blob/v1.36.2/staging/src/k8s.io/apiserver/pkg/cel/environment/base.go and
https://github.com/kubernetes/kubernetes/blob/v1.36.2/staging/src/k8s.io/dynamic-resource-allocation/cel/compile.go
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from functools import lru_cache
from typing import Any, Final

from kubestow.models.cel import values
from kubestow.models.cel.dialect import Dialect
from kubestow.models.cel.functions import FUNCTIONS

#: The callback that runs a function of :data:`kubestow.models.cel.functions.FUNCTIONS`: its name, and a list of its arguments.
CALLBACK: Final = "@kubernetes"
#: Prefix of the identifiers of overloads that the callback runs; ``m`` or ``g`` (member or global) and the function's name follow.
OWN: Final = "kubernetes__"

_COMPARED: Final = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
_SUMMED: Final = ("int", "uint", "double", "duration")
_STRINGS: Final = """
    string.charAt(int) string; string.indexOf(string) int; string.indexOf(string, int) int; string.lastIndexOf(string) int;
    string.lastIndexOf(string, int) int; list<string>.join() string; list<string>.join(string) string; string.lowerAscii() string;
    string.upperAscii() string; strings.quote(string) string; string.replace(string, string) string; string.trim() string;
    string.replace(string, string, int) string; string.split(string) list<string>; string.split(string, int) list<string>;
    string.substring(int) string; string.substring(int, int) string; string.format(list<dyn>) string
"""
_KUBERNETES: Final = """
    quantity(string) Quantity; isQuantity(string) bool; sign(Quantity) int; Quantity.isGreaterThan(Quantity) bool;
    Quantity.isLessThan(Quantity) bool; Quantity.compareTo(Quantity) int; Quantity.asApproximateFloat() double; Quantity.asInteger() int;
    Quantity.isInteger() bool; Quantity.add(Quantity) Quantity; Quantity.add(int) Quantity; Quantity.sub(Quantity) Quantity;
    Quantity.sub(int) Quantity; semver(string) Semver; semver(string, bool) Semver; isSemver(string) bool; isSemver(string, bool) bool;
    Semver.isGreaterThan(Semver) bool; Semver.isLessThan(Semver) bool; Semver.compareTo(Semver) int; Semver.major() int;
    Semver.minor() int; Semver.patch() int; string.find(string) string; string.findAll(string) list<string>;
    string.findAll(string, int) list<string>; list<~A>.indexOf(~A) int; list<~A>.lastIndexOf(~A) int
"""
#: Standard functions with additional overloads in Kubernetes. They are declared completely, because the library does not merge overloads.
_NUMBERS: Final = ("int", "uint", "double")
_ORDERED: Final = (*((kind, kind) for kind in _COMPARED), *((a, b) for a in _NUMBERS for b in _NUMBERS if a != b))
_COMPARISONS: Final = ("_<_", "_<=_", "_>_", "_>=_")
_TO_STRING: Final = ("string", "bool", "int", "uint", "double", "bytes", "timestamp", "duration")
_EXTENSIONS: Final = ("two-var-comprehensions", "lists", "sets", "optional", "bindings")
_TYPES: Final = {"Semver": values.SEMVER, "Quantity": values.QUANTITY}


_TYPE: Final = re.compile(r"(~?)([\w.]+)(?:<(.*)>)?\Z")


def _cel() -> Any:
    from cel_expr_python import cel

    return cel


def _type(text: str) -> dict[str, object]:
    match = _TYPE.match(text)
    assert match is not None
    fields: dict[str, object] = {"type_name": _TYPES.get(match[2], match[2])}
    if match[1]:
        fields["is_type_param"] = True
    if match[3]:
        fields["params"] = [_type(part) for part in match[3].split(", ", 1)]
    return fields


def _own_signatures() -> list[str]:
    found = _KUBERNETES.split(";")
    for kind in _COMPARED:
        found += [f"list<{kind}>.isSorted() bool", f"list<{kind}>.min() {kind}", f"list<{kind}>.max() {kind}"]
    found += [f"list<{kind}>.sum() {kind}" for kind in _SUMMED]
    return found


def _declarations(includes: bool) -> list[dict[str, object]]:
    overloads: dict[str, list[dict[str, object]]] = defaultdict(list)

    def add(identifier: str, name: str, target: str, arguments: list[str], result: str) -> None:
        overload: dict[str, object] = {"id": identifier, "args": [_type(argument) for argument in arguments], "return": _type(result)}
        overloads[name].append(overload | ({"target": _type(target)} if target else {}))

    own = _own_signatures() + (["dyn.includes(dyn) bool"] if includes else [])
    for prefix, signatures in ((OWN, own), ("strings__", _STRINGS.split(";"))):
        for number, signature in enumerate(signatures):
            head, _, result = signature.strip().rpartition(") ")
            name, _, arguments = head.partition("(")
            target, _, method = name.rpartition(".")
            member = target in (*_TYPES, "string", "dyn") or target.startswith("list<")
            name, target = (method, target) if member else (name, "")
            add(f"{prefix}{'m' if member else 'g'}__{name}__{number}", name, target, list(filter(None, arguments.split(", "))), result)
    for name in _COMPARISONS:
        for left, right in _ORDERED:
            add(f"{name}{left}_{right}", name, "", [left, right], "bool")
    for kind in _TO_STRING:
        add(f"string_{kind}", "string", "", [kind], "string")
    return [{"name": name, "overloads": signatures} for name, signatures in overloads.items()]


def _config(extensions: tuple[str, ...], **more: object) -> Any:
    config = {"name": "selectors", "extensions": [{"name": name} for name in extensions], **more}
    return _cel().NewEnvConfigFromYaml(json.dumps(config))  # JSON is valid YAML


@lru_cache(maxsize=4)
def checker(dialect: Dialect) -> Any:
    """Return the environment that checks expressions."""
    attribute = "dyn" if dialect.list_attributes else "any"
    variables = {
        "device": "kubernetes.DRADevice" + "WithShares" * dialect.shares,
        "device.driver": "string",
        "device.attributes": f"map<string, map<string, {attribute}>>",
        "device.capacity": "map<string, map<string, Quantity>>",
    } | ({"device.allowMultipleAllocations": "bool"} if dialect.shares else {})
    config = _config(
        _EXTENSIONS,
        stdlib={"exclude_functions": [{"name": name} for name in (*_COMPARISONS, "string")]},
        variables=[{"name": name, **_type(text)} for name, text in variables.items()],
        functions=_declarations(dialect.includes),
    )
    return _cel().NewEnv(values.DEVICE_POOL, config=config)


def _call(name: str, arguments: list[Any]) -> Any:
    return FUNCTIONS[name](*arguments)


@lru_cache(maxsize=1)
def evaluation() -> Any:
    """Return the environment that runs rewritten expressions. It does not check them."""
    cel = _cel()
    kinds = cel.Type
    functions = [cel.FunctionDecl(CALLBACK, [cel.Overload("kubernetes", kinds.DYN, [kinds.STRING, kinds.LIST], False, _call)])]
    return cel.NewEnv(values.POOL, config=_config((*_EXTENSIONS, "strings")), variables={"device": kinds.DYN}, functions=functions)
