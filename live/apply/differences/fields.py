"""Comparison of the fields of two objects, and the wording of differences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from kubestow.live.redact import kept_annotations
from kubestow.models.kube import objects, quantity

#: Parents of fields that are quantities.
_AMOUNTS: Final = frozenset(
    {"allocatable", "capacity", "requests", "limits", "hard", "min", "max", "default", "defaultRequest", "overhead"}
)
_BYTES: Final = ("memory", "ephemeral-storage", "storage", "hugepages-")
#: Values longer than this, in characters, are not shown.
_MAX_SHOWN_CHARACTERS: Final = 60


class ChangedField(NamedTuple):
    """A changed field: its path, and the old and new values (None if absent)."""

    path: tuple[str, ...]
    old: Any
    new: Any


def changed(old: Mapping[str, Any], new: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[ChangedField]:
    """Yield the fields in which two plain objects differ. Lists are compared as a whole, quantities by amount."""
    for key in dict.fromkeys((*old, *new)):
        one, other = old.get(key), new.get(key)
        if one == other:
            continue
        if isinstance(one, Mapping) or isinstance(other, Mapping):
            nested = one if isinstance(one, Mapping) else {}, other if isinstance(other, Mapping) else {}
            yield from changed(*nested, (*path, key))
        elif not (path and path[-1] in _AMOUNTS and _same_amount(one, other)):
            yield ChangedField((*path, key), one, other)


def _same_amount(one: Any, other: Any) -> bool:
    try:
        return one is not None and other is not None and quantity.parse(one) == quantity.parse(other)
    except (quantity.QuantityError, TypeError):
        return False


def clause(field: ChangedField) -> str:
    """Return a change as the end of a sentence: ``allocatable.cpu is 3800m, was 4``."""
    *above, name = field.path
    if above and above[-1] in ("labels", "annotations", "nodeSelector", "taints"):
        return _entry({"labels": "label", "annotations": "annotation", "taints": "taint"}.get(above[-1], above[-1]), name, field)
    path = ".".join(field.path)
    if any(_is_long(value) for value in (field.old, field.new)):
        return f"{path} is {'new' if field.old is None else 'gone' if field.new is None else 'another one'}"
    if field.new is None:
        return f"{path} is gone, was {_shown(field, field.old)}"
    return f"{path} is {_shown(field, field.new)}, was {'none' if field.old is None else _shown(field, field.old)}"


def _entry(noun: str, name: str, field: ChangedField) -> str:
    """Return the change of a label, annotation or taint as text: ``label app=web is new``."""

    def written(value: Any) -> str:
        return f"{name}={value}" if value != "" and noun != "taint" else f"{name}{value}"

    if field.old is None:
        return f"{noun} {written(field.new)} is new"
    if field.new is None:
        return f"{noun} {written(field.old)} is gone"
    return f"{noun} {written(field.new)}, was {written(field.old)}"


def _is_long(value: Any) -> bool:
    return isinstance(value, list | dict) and len(str(value)) > _MAX_SHOWN_CHARACTERS


def _shown(field: ChangedField, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and len(field.path) > 1 and field.path[-2] in _AMOUNTS:
        name = field.path[-1]
        return quantity.format_cpu(value) if name == "cpu" else quantity.format_bytes(value) if name.startswith(_BYTES) else str(value)
    if isinstance(value, list):
        return ", ".join(str(each) for each in value) or "empty"
    return str(value)


def metadata(found: objects.ObjectMeta) -> dict[str, Any]:
    """Return the metadata that placement reads, equal for redacted and whole objects."""
    owner = next((each for each in found.ownerReferences or () if each.controller), None)
    return {
        "labels": found.labels or {},
        "annotations": kept_annotations(found.annotations) or {},
        "controller": f"{owner.kind} {owner.name}" if owner is not None else None,
        "terminating": True if found.deletionTimestamp is not None else None,
    }


def plain(part: Any) -> Any:
    """Return a part of an object as dicts and lists."""
    return msgspec.to_builtins(part)


def pod_spec(spec: objects.PodSpec) -> dict[str, Any]:
    """Return the parts of a pod's spec that placement reads, except requests, equal for redacted and whole pods."""
    bare = {"containers", "initContainers", "volumes", "nodeName", "serviceAccountName", "resources", "overhead"}
    found = {name: value for name, value in plain(spec).items() if name not in bare}
    if spec.schedulingGates:
        found["schedulingGates"] = [gate.name for gate in spec.schedulingGates]
    listed = (*(spec.initContainers or ()), *(spec.containers or ()))
    ports = [f"{port.hostIP or '*'}:{port.hostPort}/{port.protocol}" for c in listed for port in c.ports or () if port.hostPort]
    if ports:
        found["hostPorts"] = sorted(ports)
    mounted = [msgspec.structs.replace(volume, image=None) for volume in spec.volumes or ()]
    volumes = {volume.name or "": plain(volume) for volume in mounted if volume != objects.Volume(volume.name)}
    for volume in volumes.values():
        (volume.get("ephemeral", {}).get("volumeClaimTemplate", {})).pop("metadata", None)
    if volumes:
        found["volumes"] = volumes
    return found
