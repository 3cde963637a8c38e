"""Files in directories that hold no Kubernetes objects, and types that support bundles state by folder only.

Sources: the layout of ``cluster-resources/`` that replicatedhq/troubleshoot writes (pkg/constants,
pkg/collect/cluster_resources.go).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, Final, Protocol

import msgspec

from kubestow.models.kube import kinds
from kubestow.models.kube.lenient_decode import some
from kubestow.models.snapshot.decode import JSON_ERRORS, DocumentReader, head_of, is_json
from kubestow.models.snapshot.texts import exports
from kubestow.models.snapshot.yaml_reader import YamlError, documents

#: Bytes beyond which a hint is due, because YAML reads about 100 times slower than JSON.
_LARGE_YAML_BYTES: Final = 10_000_000
#: apiVersion and kind.
_Type = tuple[str | None, str | None]

_FOLDER: Final = "cluster-resources"
#: The API server's answer to /version, in the folder ``cluster-info``.
_VERSION_FILE: Final = "cluster_version.json"
#: Names of files and folders that are not the plural of a kind.
_NAMED: Final = {
    "pvs": "PersistentVolume",
    "pvcs": "PersistentVolumeClaim",
    "storage-classes": "StorageClass",
    "priorityclasses": "PriorityClass",
    "runtimeclasses": "RuntimeClass",
    "pod-disruption-budgets": "PodDisruptionBudget",
}
_PLURALS: Final = {f"{name.lower()}s": name for name in kinds.KINDS} | _NAMED
_VERSIONED: Final = re.compile(rb"^apiVersion:\s*\S", re.MULTILINE)
_KIND: Final = re.compile(rb"^kind:\s*\S", re.MULTILINE)
_YAML: Final = (".yaml", ".yml", ".yaml.gz", ".yml.gz")
#: API groups of tools whose files describe how to make objects.
_TOOLS: Final = ("kustomize.config.k8s.io/", "troubleshoot.sh/", "troubleshoot.replicated.com/")
_TOOL: Final = re.compile(rb"^apiVersion:\s*['\"]?(?:kustomize\.config\.k8s\.io|troubleshoot\.(?:sh|replicated\.com))/", re.MULTILINE)
#: Start of JSON from an API server or kubectl.
_USUAL: Final = re.compile(rb'\s*\{\s*"(?:kind"\s*:\s*"[A-Za-z]+"\s*,\s*"apiVersion"|apiVersion"\s*:\s*"[a-z0-9./]+"\s*,\s*"kind")\s*:')
#: Number of files that one message names.
_MAX_NAMED_FILES: Final = 20


def reads_as_json(data: bytes, path: str) -> bool:
    """Return True if a file is read as JSON: by its first character, and for a YAML file name by its content."""
    start = data[:4096].lstrip()[:1] or data.lstrip()[:1]
    return start in (b"{", b"[") and (not path.lower().endswith(_YAML) or is_json(data))


_KUSTOMIZATIONS: Final = ("kustomization.yaml", "kustomization.yml", "Kustomization")
#: Fields of a kustomization that only list files.
_LISTING: Final = ("apiVersion", "kind", "metadata", "resources")


class _VersionInfo(msgspec.Struct):
    gitVersion: str = ""


class _ServerVersion(msgspec.Struct):
    info: _VersionInfo
    string: str = ""


def skipped(directory: str, names: list[str]) -> str:
    """Return the note on skipped files."""
    return (
        f"{directory}: {len(names)} file{'s' if len(names) > 1 else ''} without Kubernetes objects skipped: {some(names, _MAX_NAMED_FILES)}"
    )


def implied(path: str) -> _Type:
    """Return the apiVersion and kind that a file's folder in a support bundle implies for objects without them."""
    parts = PurePath(path).parts
    if _FOLDER not in parts[:-1]:
        return None, None
    name = parts[parts.index(_FOLDER) + 1].partition(".")[0]
    kind = kinds.KINDS.get(_PLURALS.get(name, ""))
    return (None, kind.name) if kind is not None else (None, None)


def is_stray(data: bytes, path: str, *, as_json: bool) -> bool:
    """Return True if a file holds no Kubernetes object.

    Examples are values of charts, kustomizations, and errors and lists of names in bundles. A file that cannot
    be parsed may hold objects.
    """
    if not as_json:
        return _stray_yaml(data)
    if _USUAL.match(data) and not any(tool.encode() in data[:200] for tool in _TOOLS):
        return False
    try:
        head = head_of(data)
    except JSON_ERRORS:
        return _no_container(data)
    if head.kind is not None and head.items is None:
        return isinstance(head.apiVersion, str) and head.apiVersion.startswith(_TOOLS)
    if head.items is None:
        return True
    if implied(path) != (None, None) or not head.items or (head.kind is not None and head.kind != "List"):
        return False
    return all(_is_nothing(item) for item in head.items)


def server_version(data: bytes, path: str) -> str | None:
    """Return the API server's version from a support bundle's ``cluster_version.json``; None for other or unreadable files."""
    if PurePath(path).name != _VERSION_FILE:
        return None
    try:
        version = msgspec.json.decode(data, type=_ServerVersion)
    except JSON_ERRORS:
        return None
    return version.info.gitVersion or version.string or None


def overlay(data: bytes, path: str) -> str | None:
    """Return the reason why a kustomization cannot be ignored: it changes objects or includes remote ones.

    None for other files.
    """
    if PurePath(path).name not in _KUSTOMIZATIONS:
        return None
    try:
        listings = [each for each in documents(data) if isinstance(each, Mapping)]
    except YamlError:
        return None
    changes = [str(key) for each in listings for key in each if key not in _LISTING]
    listed = [each.get("resources") for each in listings]
    far = [str(item) for items in listed if isinstance(items, list) for item in items if not str(item).endswith((".yaml", ".yml", ".json"))]
    what = f"has {some(changes)}" if changes else f"takes objects from {some(far)}" if far else ""
    return f"{what}, so the files next to it are not applied as they are: run kustomize build and pass its output" if what else None


def _is_nothing(item: msgspec.Raw) -> bool:
    try:
        return not _is_object(msgspec.json.decode(item))
    except JSON_ERRORS:
        return False


def _no_container(data: bytes) -> bool:
    """Return True if the data are a single string or number."""
    try:
        return not isinstance(msgspec.json.decode(data), dict | list)
    except JSON_ERRORS:
        return False


def _stray_yaml(data: bytes) -> bool:
    if _KIND.search(data) and _VERSIONED.search(data) and not _TOOL.search(data):
        return False
    try:
        return not any(_is_object(document) for document in documents(data))
    except YamlError:
        return False


def _is_object(value: Any) -> bool:
    """Return True if plain data, also a list, may be meant as a Kubernetes object."""
    if isinstance(value, list):
        return any(_is_object(each) for each in value)
    if not isinstance(value, Mapping) or not isinstance(value.get("kind"), str):
        return False
    version = value.get("apiVersion")
    return not (isinstance(version, str) and version.startswith(_TOOLS)) and (
        "metadata" in value or "items" in value or version is not None
    )


class Warned(Protocol):
    """Receives the problems and warnings of a file."""

    def problem(self, source: str, where: str, message: str) -> None: ...
    def warn(self, message: str) -> None: ...


def read_objects(reader: DocumentReader, sink: Warned, data: bytes, label: str, *, as_json: bool) -> None:
    """Read the objects of a file.

    Args:
        reader: Takes the documents.
        sink: Receives problems and warnings.
        data: The content of the file.
        label: The name of the file.
        as_json: True for JSON, False for YAML.
    """
    if as_json:
        reader.json(data, label)
        return
    if len(data) > _LARGE_YAML_BYTES:
        sink.warn(f"{label}: {len(data) // 1_000_000} MB of YAML are slow to read; JSON (kubectl get -o json) is much faster")
    files_read = 0
    try:
        for number, document in enumerate(documents(data), 1):
            if document is not None:
                files_read += 1
                reader.plain(exports.simulated_list(document) or document, label, f"document {number}")
    except YamlError as error:
        sink.problem(label, "", str(error))
        return
    if not files_read:
        sink.problem(label, "", "holds no objects, expected JSON or YAML of Kubernetes objects")
