"""Redaction of custom workloads: pod templates, and the fields that the table of workload kinds names.

A field of the object is kept if an expression or path of the table names it, whatever its depth. The pod templates inside are redacted
as those of other kinds. Text that is neither a name nor a number with a unit, such as an address, becomes ``-``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from kubestow.models.custom_workloads import table
from kubestow.models.custom_workloads.table import KindEntry
from kubestow.models.kube import lenient_decode
from kubestow.models.kube.objects import ObjectMeta, PodSpec
from kubestow.models.kube.workload_objects import PodTemplate, PodTemplateSpec

_IDENTIFIER: Final = re.compile(r"[A-Za-z_]\w*")
_ANNOTATION: Final = re.compile(r"'([a-z0-9.-]+/[\w.-]+)'")
_WILDCARD_PARENT: Final = re.compile(r"([A-Za-z_]\w*)\.\*")
_PLAIN_TEXT: Final = re.compile(r"[A-Za-z0-9][\w.-]{0,252}")
#: Fields whose content has the types of Kubernetes and is kept as a whole.
_WHOLE: Final = frozenset(
    {
        *("labels", "nodeSelector", "affinity", "tolerations", "topologySpreadConstraints"),
        *("resources", "resourcesPerNode", "requests", "limits"),
    }
)
_POD_FIELDS: Final = frozenset(each.encode_name for each in msgspec.structs.fields(PodSpec))

#: Redacts a pod template in place.
Conceal = Callable[[PodTemplate], None]


def redacted(entry: KindEntry, value: Mapping[str, Any], conceal: Conceal) -> dict[str, Any]:
    """Return a custom workload without the fields that placement does not read.

    Args:
        entry: The entry of its kind.
        value: The object as plain data.
        conceal: Redacts a pod template as in other kinds.

    Raises:
        ValueError: The metadata have another type.
    """
    read = _read(entry.group)
    metadata, problems = lenient_decode.fit(value.get("metadata") or {}, ObjectMeta)
    if problems:
        raise ValueError(f"metadata.{problems[0]}")
    own = msgspec.convert(metadata, ObjectMeta)
    stated = {key: text for key, text in (own.annotations or {}).items() if key in read.annotations}
    holder = PodTemplate(own)
    conceal(holder)
    own.annotations = {**(holder.metadata.annotations or {}), **stated} or None
    kept = _Kept(read, conceal)
    body = {key: kept.of(value[key]) for key in ("spec", "status") if value.get(key) is not None}
    return {"metadata": msgspec.to_builtins(own), **body}


class _Kept:
    def __init__(self, read: _Read, conceal: Conceal) -> None:
        self._read, self._conceal = read, conceal

    def of(self, value: Any, key: str = "spec") -> Any:
        """Return the parts of a value that are kept. ``key``: the field that holds it."""
        if isinstance(value, list):
            return [self.of(each, key) for each in value]
        if not isinstance(value, Mapping):
            return value if not isinstance(value, str) or _PLAIN_TEXT.fullmatch(value) else "-"
        found: dict[str, Any] = {}
        rest = value
        spec = value.get("spec")
        if isinstance(value.get("containers"), list):
            found = self._template({"spec": value}).get("spec") or {}
            rest = {name: below for name, below in value.items() if name not in _POD_FIELDS}
        elif isinstance(spec, Mapping) and isinstance(spec.get("containers"), list):
            return self._template(value)
        for name, below in rest.items():
            if name in _WHOLE:
                found[name] = below
            elif name == "annotations" and isinstance(below, Mapping):
                found[name] = {each: text for each, text in below.items() if each in self._read.annotations}
            elif key in self._read.parents or name in self._read.names:
                found[name] = self._field(name, below)
        return found

    def _field(self, name: str, value: Any) -> Any:
        kept = self.of(value, name)
        return "-" if name in self._read.noted and value and not kept else kept

    def _template(self, value: Mapping[str, Any]) -> dict[str, Any]:
        metadata = value.get("metadata")
        given = metadata.get("annotations") if isinstance(metadata, Mapping) else None
        stated = {key: text for key, text in given.items() if key in self._read.annotations} if isinstance(given, Mapping) else {}
        fitted, problems = lenient_decode.fit(value, PodTemplateSpec)
        if problems:
            return {}
        holder = PodTemplate(ObjectMeta(), msgspec.convert(fitted, PodTemplateSpec))
        self._conceal(holder)
        found: dict[str, Any] = msgspec.to_builtins(holder.template)
        if stated:
            own = found.setdefault("metadata", {})
            own["annotations"] = {**(own.get("annotations") or {}), **stated}
        return found


class _Read(NamedTuple):
    """The fields that the kinds of an API group read.

    Attributes:
        names: Names of fields in expressions and paths.
        annotations: Annotations in expressions and paths.
        parents: Fields with a value for each key.
        noted: Fields whose presence alone matters, because they are not followed.
    """

    names: frozenset[str]
    annotations: frozenset[str]
    parents: frozenset[str]
    noted: frozenset[str]


def _read(group: str) -> _Read:
    entries = [entry for entry in table.entries() if entry.group == group]
    texts = [text for entry in entries for text in _texts(entry)]
    noted = [name for entry in entries for path in entry.unmodelled for name in _IDENTIFIER.findall(path)[-1:]]
    return _Read(
        frozenset(name for text in texts for name in _IDENTIFIER.findall(text)),
        frozenset(name for text in texts for name in _ANNOTATION.findall(text)),
        frozenset(name for text in texts for name in _WILDCARD_PARENT.findall(text)),
        frozenset(noted),
    )


def _texts(entry: KindEntry) -> Iterator[str]:
    """Yield the expressions and paths of a kind."""
    yield from (entry.suspended, entry.finished, entry.minimum, *entry.unmodelled)
    for ref in entry.refs.values():
        yield from (ref.kind, ref.name)
    for each in entry.sets:
        yield from _strings(msgspec.to_builtins(each))


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for below in value.values():
            yield from _strings(below)
