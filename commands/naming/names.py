"""Object names in snapshots, read without the rest: 100 MB of JSON take a third of a second."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from kubestow.models.snapshot import sources
from kubestow.models.snapshot.yaml_reader import YamlError, documents

#: Copy of :data:`kubestow.models.kube.kinds.WORKLOADS`, whose import would be too slow for a shell.
WORKLOADS: Final = ("ReplicaSet", "StatefulSet", "Deployment", "DaemonSet", "Job", "CronJob", "ReplicationController", "PodTemplate")
#: Copy of :data:`kubestow.models.workloads.rollout_input.ROLLING`, for the same reason.
ROLLING: Final = ("Deployment", "StatefulSet", "DaemonSet")
#: Maximum unpacked size of a file in bytes; larger files are skipped.
_MAX_FILE_BYTES: Final = 2**29
#: Names that are safe in a shell. Kubernetes has no others, and a terminal might interpret them.
_SAFE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:-]*")
_LABEL: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]*=[A-Za-z0-9._-]*")


class _Metadata(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    labels: dict[str, str] | None = None


class _ListedObject(msgspec.Struct):
    kind: str = ""
    metadata: _Metadata | None = None
    items: list[_ListedObject] | None = None


class _Spec(msgspec.Struct):
    nodeName: str = ""


class _ListedPod(_ListedObject):
    spec: _Spec | None = None
    items: list[_ListedPod] | None = None  # type: ignore[assignment] # only read


@dataclass
class CompletionNames:
    """Distinct names in reading order.

    Attributes:
        nodes: Names of nodes.
        pods: Pods as ``NAMESPACE/NAME``.
        namespaces: Names of namespaces.
        workloads: Kinds by ``NAMESPACE/NAME``.
        labels: Labels of nodes as ``KEY=VALUE``.
    """

    nodes: dict[str, None] = field(default_factory=dict)
    pods: dict[str, None] = field(default_factory=dict)
    namespaces: dict[str, None] = field(default_factory=dict)
    workloads: dict[str, list[str]] = field(default_factory=dict)
    labels: dict[str, None] = field(default_factory=dict)

    def rolling(self) -> Iterator[tuple[str, list[str]]]:
        """Yield the workloads that can be rolled out, each with its kinds."""
        for name, kinds in self.workloads.items():
            yield name, [kind for kind in ROLLING if kind in kinds]

    def label_keys(self) -> list[str]:
        """Return the keys of the labels."""
        return sorted({label.partition("=")[0] for label in self.labels})


def read(paths: Sequence[str]) -> CompletionNames:
    """Return the names in these files and folders. Unreadable files are skipped."""
    found = CompletionNames()
    for objects in _files(paths, _ListedObject):
        _add(found, objects)
    return found


def pending(paths: Sequence[str]) -> int:
    """Return the number of pods without a node in these files and folders. Unreadable files are skipped."""
    each = (one for objects in _files(paths, _ListedPod) for one in objects if isinstance(one, _ListedPod))
    return sum(one.kind == "Pod" and one.spec is not None and not one.spec.nodeName for one in each)


def _files(paths: Sequence[str], of: type[_ListedObject]) -> Iterator[list[_ListedObject]]:
    """Yield the objects of each file."""
    with sources.at_most(_MAX_FILE_BYTES):
        for path, _ in sources.files([path for path in paths if path != sources.STDIN], lambda path, message: None):
            if os.path.isfile(path):  # a pipe would be emptied
                try:
                    yield list(_objects(sources.read(path), path, of))
                except (ValueError, RecursionError):
                    continue


def _objects(data: bytes, path: str, of: type[_ListedObject]) -> Iterator[_ListedObject]:
    """Yield the objects of a file.

    Raises:
        ValueError: cannot be read.
    """
    if data[:4096].lstrip()[:1] in (b"{", b"["):
        try:
            decoded = msgspec.json.decode(data, type=of | list[of])  # type: ignore[valid-type]
        except msgspec.DecodeError:
            if not path.removesuffix(".gz").endswith((".yaml", ".yml")):
                raise
        else:
            yield from _unfolded(decoded if isinstance(decoded, list) else [decoded])
            return
    try:
        for document in documents(data):
            found = _converted(document, of)
            yield from _unfolded([found] if found is not None else [])
    except YamlError as error:
        raise ValueError(str(error)) from None


def _converted(document: Any, of: type[_ListedObject]) -> _ListedObject | None:
    try:
        return msgspec.convert(document, of)
    except msgspec.ValidationError:
        return None


def _unfolded(objects: Iterable[_ListedObject]) -> Iterator[_ListedObject]:
    """Yield the objects, and for each List its items. Items of a ``PodList`` and the like may lack their kind, which is filled in."""
    for each in objects:
        if each.items is None:
            yield each
        else:
            for item in each.items:
                item.kind = item.kind or each.kind.removesuffix("List")
            yield from _unfolded(each.items)


def _add(names: CompletionNames, objects: Iterable[_ListedObject]) -> None:
    for each in objects:
        about = each.metadata
        if about is None or not _SAFE.fullmatch(about.name) or (about.namespace and not _SAFE.fullmatch(about.namespace)):
            continue
        space = about.namespace or "default"
        if each.kind == "Node":
            names.nodes[about.name] = None
            labels = (f"{key}={value}" for key, value in (about.labels or {}).items())
            names.labels.update(dict.fromkeys(label for label in labels if _LABEL.fullmatch(label)))
        elif each.kind == "Namespace":
            names.namespaces[about.name] = None
        elif each.kind == "Pod":
            names.pods[f"{space}/{about.name}"] = None
            names.namespaces[space] = None
        elif each.kind in WORKLOADS:
            names.workloads.setdefault(f"{space}/{about.name}", []).append(each.kind)
            names.namespaces[space] = None
