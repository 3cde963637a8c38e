"""Manifests merged into a cluster's snapshot, as by ``kubectl apply``: their fields win, and omitted fields stay."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from kubestow.models.kube import kinds, storage_objects
from kubestow.models.kube import objects as kube_objects
from kubestow.models.snapshot.decode import identity_of
from kubestow.models.snapshot.object_names import key_of
from kubestow.models.snapshot.snapshot import Snapshot

_change = msgspec.structs.replace
_MERGED_SEPARATELY: Final = ("metadata", "spec", "status")


def merge(snapshot: Snapshot, manifests: Snapshot, problems: list[str]) -> Snapshot:
    """Return a new snapshot of the objects of both, without the manifests' pods.

    A workload's object is the manifest's, with the cluster's uid and status.

    Args:
        problems: Collects objects that cannot be merged: Nodes with different content.
    """
    merged = snapshot.copy()
    for name, count in manifests.ignored.items():
        merged.ignored[name] = merged.ignored.get(name, 0) + count
    merged.warnings += manifests.warnings
    merged.omissions += manifests.omissions
    merged.assumed += manifests.assumed
    merged.unread = list(dict.fromkeys((*merged.unread, *manifests.unread)))  # manifests may be merged twice
    merged.custom_objects = {**merged.custom_objects, **manifests.custom_objects}
    custom = [kinds.kind_of(listed[0]) for name, listed in manifests.workloads.items() if name not in kinds.KINDS and listed]
    for kind in (*kinds.KINDS.values(), *custom):
        added: list[Any] = list(_objects(manifests, kind.name))
        if not added or kind.name == "Pod":
            continue
        by_key: dict[str, Any] = {key_of(kind, obj): obj for obj in _objects(merged, kind.name)}
        for obj in added:
            slot = key_of(kind, obj)
            old = by_key.get(slot)
            if old is None:
                by_key[slot] = obj
            elif kind.name == "Node":
                if old != obj:
                    problems.append(located(manifests, obj, "already in the snapshot with other content, expected each node once"))
            elif kind.name not in kinds.FIELDS:
                by_key[slot] = _workload(old, obj)
            else:
                by_key[slot], changed = _overlay(old, obj)
                if changed:
                    merged.warnings.append(
                        located(manifests, obj, f"{', '.join(changed)} differ from the snapshot's; the manifest's apply")
                    )
        _put(merged, kind.name, by_key)
    return merged


def located(manifests: Snapshot, obj: Any, message: str) -> str:
    """Return a message about an object of the manifests, with file and object."""
    identity = identity_of(kinds.kind_of(obj), obj)
    source = manifests.sources.get(identity)
    return f"{source}: {identity}: {message}" if source else f"{identity}: {message}"


def _objects(snapshot: Snapshot, kind: str) -> list[Any]:
    collection = snapshot.collection(kind)
    return list(collection.values() if isinstance(collection, dict) else collection)


def _put(snapshot: Snapshot, kind: str, objects: dict[str, Any]) -> None:
    if kind not in kinds.FIELDS:
        snapshot.workloads[kind] = list(objects.values())
        return
    into = snapshot.collection(kind)
    into.clear()
    if isinstance(into, dict):
        into.update(objects)
    else:
        into.extend(objects.values())


def _metadata(old: kube_objects.ObjectMeta, new: kube_objects.ObjectMeta) -> kube_objects.ObjectMeta:
    labels, annotations = {**(old.labels or {}), **(new.labels or {})}, {**(old.annotations or {}), **(new.annotations or {})}
    return _change(old, labels=labels or None, annotations=annotations or None)


def _workload(old: Any, new: Any) -> Any:
    merged = _change(new, metadata=_metadata(old.metadata, new.metadata))
    if getattr(old, "status", None) is not None and merged.status is None:
        merged.status = old.status
    return merged


def _overlay(old: Any, new: Any) -> tuple[Any, list[str]]:
    """Return the manifest's object, completed with the cluster's fields, and the names of differing fields."""
    merged, changed = _fill(old, new, "")
    merged.metadata = _metadata(old.metadata, new.metadata)
    if getattr(old, "status", None) is not None:
        merged.status = old.status
    if getattr(old, "spec", None) is not None:
        merged.spec, inner = (old.spec, []) if new.spec is None else _fill(old.spec, new.spec, "spec.")
        changed += inner
    if isinstance(old, storage_objects.PersistentVolumeClaim) and old.spec is not None and old.spec.volumeName:
        merged.spec = old.spec  # the spec of a bound claim is immutable
    return merged, changed


def _fill(old: Any, new: Any, path: str) -> tuple[Any, list[str]]:
    filled, changed = {}, []
    for name in old.__struct_fields__:
        if not path and name in _MERGED_SEPARATELY:
            continue
        was, now = getattr(old, name), getattr(new, name)
        if now is None or now == "":
            filled[name] = was
        elif was is not None and was != now:
            changed.append(path + name)
    return _change(new, **filled), changed
