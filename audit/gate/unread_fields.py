"""Comparison of template fields that placement does not read, between a manifest and the cluster.

An API server only adds defaults to a manifest. A template is unchanged if the stored one contains each of its
fields and has no other field without a default. :mod:`kubestow.audit.gate.templates` compares the fields that
placement reads.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

import msgspec

from kubestow.models.kube import kinds, objects, quantity
from kubestow.models.snapshot.decode import JSON_ERRORS, MAX_LIST_DEPTH, documents_of, head_of, is_list
from kubestow.models.snapshot.texts.bundles import reads_as_json
from kubestow.models.snapshot.yaml_reader import YamlError, documents

#: Fields of pod specs and containers that placement reads. Security contexts are read in part, for notes.
_READ: Final = (frozenset(objects.PodSpec.__struct_fields__) | {"resources", "ephemeral", "serviceAccount"}) - {
    "containers",
    "initContainers",
    "volumes",
    "securityContext",
}
#: Fields without a default. If only the cluster has one, the manifest removes it.
_WITHOUT_DEFAULT: Final = frozenset(
    {
        *("args", "command", "env", "envFrom", "lifecycle", "livenessProbe", "readinessProbe", "startupProbe", "stdin", "tty"),
        *("volumeDevices", "volumeMounts", "workingDir", "dnsConfig", "hostAliases", "hostIPC", "hostPID", "hostname", "imagePullSecrets"),
        *("readinessGates", "setHostnameAsFQDN", "shareProcessNamespace", "subdomain"),
    }
)
_QUANTITIES: Final = ("divisor", "sizeLimit")
_ACCOUNTS: Final = ("serviceAccountName", "serviceAccount")

Template = Mapping[str, Any]


def differing(stated: Mapping[str, Template], stored: Mapping[str, Template]) -> dict[str, str]:
    """Return the first field that differs between the templates of manifests and cluster, by ``Kind namespace/name``."""
    found: dict[str, str] = {}
    for ref, template in stated.items():
        new, old = template.get("spec"), stored.get(ref, {}).get("spec")
        if isinstance(new, Mapping) and isinstance(old, Mapping) and not _redacted(old):
            field = next(_differences(new, old, ""), None)
            if field is None and _account(new) != _account(old):
                field = _ACCOUNTS[0]
            if field is not None:
                found[ref] = field
    return found


def _account(spec: Template) -> str:
    return next((str(spec[key]) for key in _ACCOUNTS if spec.get(key)), "")


def _redacted(spec: Template) -> bool:
    listed = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    return not all(isinstance(each, Mapping) and each.get("image") for each in listed)


def _differences(new: Any, old: Any, path: str) -> Iterator[str]:
    """Yield the fields whose value in the manifest is not contained in the stored one."""
    if isinstance(new, Mapping) and isinstance(old, Mapping):
        for key, value in new.items():
            if key in _READ:
                continue
            where = f"{path}.{key}" if path else str(key)
            yield from _differences(value, old.get(key), where) if key not in _QUANTITIES else _amounts(value, old.get(key), where)
        for key in sorted(_WITHOUT_DEFAULT.intersection(old)):
            if not _is_empty(old[key]) and _is_empty(new.get(key)):
                yield f"{path}.{key}" if path else key
    elif isinstance(new, list | tuple) and isinstance(old, list | tuple) and len(new) == len(old):
        for i, (value, before) in enumerate(zip(new, old, strict=True)):
            yield from _differences(value, before, f"{path}[{i}]")
    elif new != old and not (_is_empty(new) and _is_empty(old)):
        yield path


def _amounts(new: Any, old: Any, path: str) -> Iterator[str]:
    try:
        same = quantity.parse(new or 0) == quantity.parse(old or 0)
    except quantity.QuantityError:
        same = new == old
    if not same:
        yield path


def _is_empty(value: Any) -> bool:
    """Return True for values that an API server may omit: null, false, 0, and containers of such values."""
    if isinstance(value, Mapping):
        return all(map(_is_empty, value.values()))
    return not value


# --- reading ------------------------------------------------------------------------------------------------------------


def templates(files: Mapping[str, bytes], refs: Collection[str], namespace: str) -> dict[str, Template]:
    """Return the pod templates of workloads as plain data, by ``Kind namespace/name``.

    Args:
        files: Contents by path.
        refs: Workloads to return.
        namespace: Default namespace.
    """
    found: dict[str, Template] = {}
    for path, data in files.items():
        try:
            for value in _objects(data, path):
                ref = _ref(value, namespace)
                template = _template(value) if ref in refs else None
                if template is not None:
                    found.setdefault(ref, template)
        except (YamlError, *JSON_ERRORS):
            continue  # files without objects; problems were reported when the files were read
    return found


def _ref(value: Mapping[str, Any], namespace: str) -> str:
    metadata = value.get("metadata")
    name = metadata if isinstance(metadata, Mapping) else {}
    return f"{value.get('kind')} {name.get('namespace') or namespace}/{name.get('name')}"


def _template(value: Mapping[str, Any]) -> Template | None:
    found: Any = value
    for key in ("spec", "jobTemplate") if value.get("kind") == "CronJob" else ():
        found = found.get(key) if isinstance(found, Mapping) else None
    if value.get("kind") != "PodTemplate":
        found = found.get("spec") if isinstance(found, Mapping) else None
    found = found.get("template") if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else None


def _objects(data: bytes, path: str) -> Iterator[Mapping[str, Any]]:
    """Yield the workloads in a file. Lists are expanded."""
    if reads_as_json(data, path):
        for document in documents_of(data):
            yield from _of_json(document, None, 0)
    else:
        for each in documents(data):
            yield from _of_plain(each, None, 0)


def _of_json(data: Any, inherited: str | None, depth: int) -> Iterator[Mapping[str, Any]]:
    head = head_of(data)
    kind = head.kind or inherited
    if is_list(kind, head.items is not None) and depth < MAX_LIST_DEPTH:
        for item in head.items or ():
            yield from _of_json(item, _of_items(kind), depth + 1)
    elif kind in kinds.WORKLOADS:
        yield {**msgspec.json.decode(data), "kind": kind}


def _of_plain(value: Any, inherited: str | None, depth: int) -> Iterator[Mapping[str, Any]]:
    value = {"kind": "List", "items": value} if isinstance(value, list) else value
    if not isinstance(value, Mapping):
        return
    kind, items = value.get("kind") or inherited, value.get("items")
    if is_list(kind, items is not None) and depth < MAX_LIST_DEPTH:
        for item in items or ():
            yield from _of_plain(item, _of_items(kind), depth + 1)
    elif kind in kinds.WORKLOADS:
        yield {**value, "kind": kind}


def _of_items(kind: str | None) -> str | None:
    return None if kind in (None, "List") else str(kind).removesuffix("List")
