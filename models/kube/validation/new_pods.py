"""The pods that a new object requests, as plain data, and helpers to read them.

Values of another type than the API's are skipped, because typed decoding of the object rejects them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kubestow.models.kube.feature_gates import FeatureGates
from kubestow.models.kube.validation.texts import invalid, label_value, labels, qualified_name

#: Fields that the server rejects, each with its reason.
Refused = Iterator[tuple[str, str]]


@dataclass(frozen=True)
class NewPods:
    """The pods that a new object requests.

    Attributes:
        kind: Kind of the object.
        template: The pod template, or the Pod itself, as plain data.
        path: Field of the template; empty for a Pod.
        gates: Version and feature gates of the server.
        claims: Names of the object's volumeClaimTemplates.
    """

    kind: str
    template: Mapping[str, Any]
    path: str
    gates: FeatureGates
    claims: frozenset[str]

    @property
    def spec(self) -> Mapping[str, Any]:
        return mapping(self.template.get("spec"))

    @property
    def start(self) -> str:
        """The field of the pod spec."""
        return f"{self.path}.spec" if self.path else "spec"

    def containers(self) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
        """Yield the list, the field and the data of each container."""
        for field in ("containers", "initContainers"):
            for index, container in listed(self.spec.get(field)):
                yield field, f"{self.start}.{field}[{index}]", container


def mapping(value: Any) -> Mapping[str, Any]:
    """Return the value if it is an object, or else an empty one."""
    return value if isinstance(value, Mapping) else {}


def listed(value: Any) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the objects of a list, each with its index."""
    for index, each in enumerate(value if isinstance(value, list | tuple) else ()):
        if isinstance(each, Mapping):
            yield index, each


def texts(value: Any) -> Iterator[tuple[int, str]]:
    """Yield the texts of a list, each with its index."""
    for index, each in enumerate(value if isinstance(value, list | tuple) else ()):
        if isinstance(each, str):
            yield index, each


def named(value: Any, path: str, check: Callable[[str], Iterator[str]]) -> Refused:
    """Yield the path and reasons if ``check`` rejects a text. A missing or empty text is accepted."""
    if isinstance(value, str) and value:
        yield from ((path, invalid(value, reason)) for reason in check(value))


def requirements(expressions: Any, path: str, *, values: bool = True) -> Refused:
    """Yield the invalid keys of match expressions and, with ``values``, their invalid values, each with its reason."""
    for index, each in listed(expressions):
        where = f"{path}[{index}]"
        key = each.get("key")
        if isinstance(key, str):
            yield from ((f"{where}.key", invalid(key, reason)) for reason in qualified_name(key))
        for i, value in texts(each.get("values")) if values else ():
            yield from ((f"{where}.values[{i}]", invalid(value, reason)) for reason in label_value(value))


def label_selector(selector: Any, path: str) -> Refused:
    """Yield the invalid keys and values of a label selector, each with its reason."""
    fields = mapping(selector)
    yield from labels(fields.get("matchLabels"), f"{path}.matchLabels")
    yield from requirements(fields.get("matchExpressions"), f"{path}.matchExpressions")
