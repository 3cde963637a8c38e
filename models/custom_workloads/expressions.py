"""Paths and CEL expressions of the table of workload kinds, evaluated on objects as plain data."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from kubestow.models.kube.lenient_decode import plain

#: Variables of expressions, all of type dyn.
VARIABLES: Final = ("object", "item", "key", "position", "refs", "role")
#: A step of a path: a field, a quoted field with dots, a list index, each item of a list, or each value of a map.
_STEP: Final = re.compile(r"\.?(?:([A-Za-z_][\w-]*)|\['([^']+)'\]|(\[\*\])|\[(\d+)\]|(\*))")
_EXTENSIONS: Final = ("optional", "strings", "math", "lists", "bindings")


class ExpressionError(ValueError):
    """An expression does not compile, fails on an object, or has a result of another type."""


class Found(NamedTuple):
    """A value at a path.

    Attributes:
        path: The path with indices in place of wildcards.
        key: The last map key or field that a wildcard or step matched.
        position: The index among the values of the path.
    """

    path: str
    key: str
    value: Any
    position: int = 0


def steps(path: str) -> list[str]:
    """Return the steps of a path such as ``spec.replicatedJobs[*].template``; ``[*]`` and ``*`` are wildcards.

    Raises:
        ExpressionError: Not a path.
    """
    found, at = [], 0
    while at < len(path):
        match = _STEP.match(path, at)
        if match is None:
            raise ExpressionError(f"got {plain(path)!r}, expected a path such as spec.roles[*].template or spec.roles.*")
        found.append(next(part for part in match.groups() if part))
        at = match.end()
    return found


def walk(value: Any, path: str) -> Iterator[Found]:
    """Yield the values at a path, in document order. A path that does not exist yields nothing."""
    level = [Found("", "", value)]
    for step in steps(path):
        below: list[Found] = []
        for each in level:
            if step == "[*]" and isinstance(each.value, list | tuple):
                below += [Found(f"{each.path}[{i}]", str(i), item) for i, item in enumerate(each.value)]
            elif step == "*" and isinstance(each.value, Mapping):
                below += [Found(_joined(each.path, str(key)), str(key), item) for key, item in each.value.items()]
            elif step.isdigit() and isinstance(each.value, list | tuple) and int(step) < len(each.value):
                below.append(Found(f"{each.path}[{step}]", step, each.value[int(step)]))
            elif isinstance(each.value, Mapping) and each.value.get(step) is not None:
                below.append(Found(_joined(each.path, step), step, each.value[step]))
        level = below
    yield from (each._replace(position=i) for i, each in enumerate(level))


def _joined(path: str, key: str) -> str:
    step = key if re.fullmatch(r"[\w-]+", key) else f"[{key}]"
    return f"{path}.{step}" if path and not step.startswith("[") else f"{path}{step}"


@lru_cache(maxsize=1)
def _environment() -> Any:
    from cel_expr_python import cel

    config = {
        "name": "workload-kinds",
        "extensions": [{"name": name} for name in _EXTENSIONS],
        "variables": [{"name": name, "type_name": "dyn"} for name in VARIABLES],
    }
    return cel.NewEnv(None, config=cel.NewEnvConfigFromYaml(json.dumps(config)))  # JSON is valid YAML


@lru_cache(maxsize=1024)
def compiled(expression: str) -> Any:
    """Return the program of a CEL expression.

    Raises:
        ExpressionError: It does not compile.
    """
    try:
        return _environment().compile(expression)
    except RuntimeError as error:
        raise ExpressionError(f"does not compile: {' '.join(str(error).split())[:300]}") from None


def evaluate(expression: str, variables: Mapping[str, Any]) -> Any:
    """Return the value of a CEL expression as plain data.

    Raises:
        ExpressionError: It does not compile, or fails on these values.
    """
    result = compiled(expression).eval(data={name: variables.get(name) for name in VARIABLES})
    if result.type().name() == "ERROR":
        raise ExpressionError(f"{plain(expression)}: {plain(' '.join(str(result.value()).split()))[:300]}")
    return plain_value(result)


def plain_value(result: Any) -> Any:
    """Return a value of the CEL library as dicts, lists, text, numbers and None."""
    value = result.value() if hasattr(result, "type") else result
    if isinstance(value, Mapping):
        return {str(plain_value(key)): plain_value(below) for key, below in value.items()}
    if isinstance(value, list | tuple):
        return [plain_value(below) for below in value]
    return value


def number(expression: str | int, variables: Mapping[str, Any]) -> int:
    """Return the value of an expression for a number of pods.

    Raises:
        ExpressionError: The value is no whole number of at least 0.
    """
    value = expression if isinstance(expression, int) else evaluate(expression, variables)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ExpressionError(f"{plain(str(expression))}: got {plain(str(value))}, expected a whole number of at least 0")
    return value
