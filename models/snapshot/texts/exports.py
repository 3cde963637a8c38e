"""Files of other tools: exports and dumps that are turned into lists of objects, and those that are refused with a way out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from kubestow.models.kube.lenient_decode import shorten

#: Lines that kubectl, helm and their libraries print on standard error: warnings, and klog's "W1127
#: 10:00:00.000000".
_MESSAGE: Final = re.compile(rb"\s*(Warning: |WARNING: |[IWEF]\d{4} \d\d:\d\d:\d\d\.)([^\r\n]*)")
#: The start of the output of helm install and helm upgrade.
_RELEASE: Final = re.compile(rb"(?:Release [^\n]*\n)?\s*NAME: \S+\r?\n(?:\s*[A-Z][A-Z ]+:[^\n]*\n)*?\s*STATUS: ")
_OBJECTS: Final = "expected JSON or YAML of Kubernetes objects"
#: Starts of other texts: what they are, and the command that prints objects instead.
_TEXTS: Final = (
    (
        re.compile(rb"\s*(?:NAMESPACE +)?NAME +[A-Z][A-Z() -]*\r?\n"),
        "is a table of kubectl get",
        "kubectl get KIND -A -o json prints objects",
    ),
    (
        re.compile(rb"\s*Name: +\S+\r?\n(?:Namespace|Roles|Labels|Priority): "),
        "is the output of kubectl describe",
        "kubectl get KIND -A -o json prints objects",
    ),
    (re.compile(rb"\s*(?:<!doctype html|<html)", re.IGNORECASE), "is an HTML page", "kubestow capture writes a snapshot"),
    (re.compile(rb"\s*<\?xml "), "is XML", "kubestow capture writes a snapshot"),
)
#: Position and bytes that tell binary formats apart.
_BINARIES: Final = (
    (0, b"\x28\xb5\x2f\xfd", "is compressed with zstd", "zstd -d FILE decompresses it"),
    (0, b"7z\xbc\xaf\x27\x1c", "is a 7z archive", "7z x FILE unpacks it"),
    (0, b"Rar!\x1a\x07", "is a RAR archive", "unrar x FILE unpacks it"),
    (16, b"\xed\xda\x0c\xed", "is a snapshot of etcd", "kubestow capture writes a snapshot of a running cluster"),
    (0, b"k8s\x00", "is Kubernetes protobuf", "kubectl get KIND -A -o json prints objects"),
    (0, b"%PDF", "is a PDF document", "kubestow capture writes a snapshot"),
    (0, b"\x89PNG", "is an image", "kubestow capture writes a snapshot"),
    (0, b"\x7fELF", "is a program", "kubestow capture writes a snapshot"),
)
#: Logs in the output of ``kubectl cluster-info dump``, between the lists of objects.
_DUMPED_LOG: Final = re.compile(
    rb"^==== START logs for container [^\n]* ====\r?\n.*?^==== END logs[^\n]*(?:\n|\Z)", re.MULTILINE | re.DOTALL
)
_DUMP_MARK: Final = b"==== START logs for container "
#: Fields of an export of kube-scheduler-simulator, with apiVersion and kind of their items.
#: Source: https://github.com/kubernetes-sigs/kube-scheduler-simulator/blob/master/simulator/snapshot/snapshot.go (ResourcesForSnap).
_SIMULATED: Final = {
    "pods": ("v1", "Pod"),
    "nodes": ("v1", "Node"),
    "pvs": ("v1", "PersistentVolume"),
    "pvcs": ("v1", "PersistentVolumeClaim"),
    "storageClasses": ("storage.k8s.io/v1", "StorageClass"),
    "priorityClasses": ("scheduling.k8s.io/v1", "PriorityClass"),
    "namespaces": ("v1", "Namespace"),
}
_CONFIGURATION: Final = "schedulerConfig"
_STARTS_LIKE_EXPORT: Final = re.compile(rb'\s*\{\s*"(?:' + "|".join((*_SIMULATED, _CONFIGURATION)).encode() + rb')"\s*:')


def without_logs(data: bytes) -> bytes:
    """Return the output of ``kubectl cluster-info dump`` without the logs between its lists; other data unchanged."""
    return _DUMPED_LOG.sub(b"", data) if _DUMP_MARK in data else data


def of_simulator(data: bytes) -> bytes:
    """Return an export of kube-scheduler-simulator in JSON as a List; other data unchanged."""
    if not _STARTS_LIKE_EXPORT.match(data):
        return data
    try:
        fields = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, RecursionError, ValueError):
        return data
    found = simulated_list(fields)
    return data if found is None else msgspec.json.encode(found)


def simulated_list(document: object) -> dict[str, Any] | None:
    """Return an export of kube-scheduler-simulator, as plain data or with undecoded fields, as a List; None for other documents."""
    if not isinstance(document, Mapping) or not document or document.keys() - _SIMULATED.keys() - {_CONFIGURATION}:
        return None
    items: list[Any] = [
        {"apiVersion": version, "kind": f"{kind}List", "items": document[name]}
        for name, (version, kind) in _SIMULATED.items()
        if not _is_null(document.get(name))
    ]
    if not _is_null(document.get(_CONFIGURATION)):
        items.append(document[_CONFIGURATION])
    return {"apiVersion": "v1", "kind": "List", "items": items}


def _is_null(value: object) -> bool:
    return value is None or (isinstance(value, msgspec.Raw) and bytes(value) == b"null")


def refusal(data: bytes) -> str | None:
    """Return the kind of a file with the way to objects; None if it may hold objects."""
    message = _MESSAGE.match(data)
    if message is not None:
        line = (message[1] + message[2]).decode("utf-8", "replace").strip()
        what = f"line {data[: message.start(1)].count(10) + 1}: {shorten(line)} is a message of the tool that wrote the file"
        return f"{what}, expected JSON or YAML (redirect standard output only, without 2>&1)"
    if _RELEASE.match(data):
        return "is the output of helm install or helm upgrade, expected manifests (helm template prints them)"
    for start, magic, what, instead in _BINARIES:
        if data[start : start + len(magic)] == magic:
            return f"{what}, {_OBJECTS} ({instead})"
    for pattern, what, instead in _TEXTS:
        if pattern.match(data):
            return f"{what}, {_OBJECTS} ({instead})"
    if b"\0" in data[:1024]:
        return f"is a binary file, {_OBJECTS}, or a .tar or .zip with them (kubestow capture writes a snapshot)"
    return None
