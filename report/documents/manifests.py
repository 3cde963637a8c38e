"""Manifests from ``-w`` with the nodes of a placement as preferences.

On request, a scheduling gate holds the pods until ``kubestow apply`` assigns their nodes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from kubestow.models.custom_workloads import table
from kubestow.models.custom_workloads.expressions import steps, walk
from kubestow.models.custom_workloads.generated_names import GeneratedNames
from kubestow.models.execution.template_nodes import GATE, TemplateNodes, by_name
from kubestow.models.kube import kinds
from kubestow.models.snapshot import yaml_reader
from kubestow.models.snapshot.decode import documents_of, is_json, is_list
from kubestow.models.snapshot.snapshot import from_objects
from kubestow.report.documents import yaml_text
from kubestow.report.documents.output import counted, one_line
from kubestow.report.documents.yaml_edits import YamlChange, applied, edited

#: Annotation of a workload: the number of preferred terms that come from a placement. The next placement replaces
#: them.
PREFERRED: Final = "kubestow.dev/preferred-nodes"
#: Nodes. The last-applied annotation of ``kubectl apply`` must fit into 256 KiB.
MAX_PREFERRED_NODES: Final = 500
_TITLE: Final = "kubestow: "
_AFFINITY: Final = ("affinity", "nodeAffinity", "preferredDuringSchedulingIgnoredDuringExecution")
_PATHS: Final[dict[str, tuple[str, ...]]] = {
    "CronJob": ("spec", "jobTemplate", "spec", "template", "spec"),
    "PodTemplate": ("template", "spec"),
    "Pod": ("spec",),
}


@dataclass(frozen=True)
class ManifestRequest:
    """The input for writing manifests.

    Attributes:
        files: The original manifests, by path.
        templates: Nodes of the placement, by workload.
        namespace: Default namespace.
        gates: True to add scheduling gates.
        unknown_fields: True to permit unknown fields.
        sha256: Digest of snapshot and manifests together, as in the Placement.
    """

    files: Mapping[str, bytes]
    templates: Sequence[TemplateNodes]
    namespace: str | None = None
    gates: bool = False
    unknown_fields: bool = False
    sha256: str = ""


def manifests(request: ManifestRequest) -> bytes:
    """Return all documents of the files in order as one YAML stream. Text and comments are preserved if possible.

    Raises:
        InputError: The result is not a valid manifest, which is a fault of this module.
    """
    parts: list[str] = []
    bare: list[str] = []
    wanted: dict[_Key, list[TemplateNodes]] = {}
    for t in request.templates:
        if not fixed(t):
            name = t.name if t.pod_set is None else t.pod_set.object
            wanted.setdefault((t.kind, t.namespace, name), []).append(t)
    generated = GeneratedNames()
    for path, data in request.files.items():
        text = _without_header(data.decode("utf-8", "surrogateescape"))
        documents, in_text = _documents(text.encode("utf-8", "surrogateescape"))
        if not any(_objects(documents)):
            continue
        changes = [change for found in _objects(documents) for change in _changes(*found, wanted, generated, request)]
        written = edited(text, changes) if in_text else None
        if written is None:
            written = "---\n".join(yaml_text.dump(document) for document in applied(documents, changes) if document is not None)
            if "#" in text and in_text:
                bare.append(path)
        parts.append(written if written.startswith("---") else f"---\n{written}")
    header = "".join(f"# {one_line(line)}".rstrip() + "\n" for line in _header(request, bare))
    result = (header + "".join(part if part.endswith("\n") else f"{part}\n" for part in parts)).encode()
    objects = [document for document in yaml_reader.documents(result) if document is not None]
    from_objects(objects, manifests=True, unknown_fields=request.unknown_fields)
    return result


def notes(templates: Sequence[TemplateNodes], *, gates: bool = False) -> list[str]:
    """Return remarks to read before applying the manifests, one sentence per affected workload."""
    found = [f"the gate {GATE} holds these pods and later ones until `kubestow apply --serve` removes it"] if gates else []
    for t in templates:
        if (why := fixed(t)) is not None:
            found.append(f"{t.ref} is left as it is: {why}")
            continue
        if not _spec_path(t):
            found.append(f"{t.ref} is left as it is: the object has no pod template of its own")
            continue
        if t.unplaced:
            found.append(f"{t.ref}: the placement has no node for {t.unplaced:,} of {counted(t.placed + t.unplaced, 'pod')}")
        if len(t.nodes) > MAX_PREFERRED_NODES:
            found.append(f"{t.ref}: only the {MAX_PREFERRED_NODES} of its {len(t.nodes):,} nodes with most pods are preferred")
        if t.running and t.kind in ("Deployment", "StatefulSet"):
            found.append(f"{t.ref} has {counted(t.running, 'pod')} on nodes: applying another template rolls out all its pods")
        if gates and t.one_by_one and t.placed + t.unplaced > 1:
            found.append(f"{t.ref}: its pods are created one by one, each after the previous one is ready, so they are not a gang")
    return found


def fixed(t: TemplateNodes) -> str | None:
    """Return the reason why the object cannot be changed, or None."""
    if t.exists and t.kind in ("Pod", "Job"):
        return f"the {'spec' if t.kind == 'Pod' else 'template'} of an existing {t.kind} cannot be changed"
    return None


def _without_header(text: str) -> str:
    """Return the text of a file without the header written by an earlier run."""
    return re.sub(r"\A(?:#.*\n)+---\n", "", text) if text.startswith(f"# {_TITLE}") else text


# --- reading ----------------------------------------------------------------------------------------------------------


def _documents(data: bytes) -> tuple[list[Any], bool]:
    """Return the documents of a file, and True if the file is YAML text that can be edited."""
    if is_json(data):
        return [msgspec.json.decode(document) for document in documents_of(data)], False
    return list(yaml_reader.documents(data)), True


def _objects(documents: Sequence[Any]) -> Iterator[tuple[tuple[Any, ...], str, dict[str, Any]]]:
    """Yield objects with paths and kinds, with Lists expanded. Items of a typed list, such as a DeploymentList, may omit their kind."""
    waiting: list[tuple[tuple[Any, ...], str, Any]] = [((i,), "", document) for i, document in enumerate(documents)][::-1]
    while waiting:
        place, kind, value = waiting.pop()
        if isinstance(value, list):
            waiting += [((*place, i), kind, item) for i, item in enumerate(value)][::-1]
        elif isinstance(value, dict):
            kind = value.get("kind") or kind
            if is_list(kind, "items" in value):
                waiting.append(((*place, "items"), "" if kind == "List" else kind.removesuffix("List"), value.get("items") or []))
            elif isinstance(kind, str) and kind:
                yield place, kind, value
                waiting += list(_inside(place, kind, value))[::-1]


def _inside(place: tuple[Any, ...], kind: str, value: dict[str, Any]) -> Iterator[tuple[tuple[Any, ...], str, Any]]:
    """Yield the whole objects inside an object, such as an AppWrapper, in its namespace."""
    entry = table.find(value.get("apiVersion"), kind) if isinstance(value.get("apiVersion"), str) else None
    for found in walk(value, entry.wraps) if entry is not None and entry.wraps else ():
        if isinstance(found.value, dict):
            own = found.value.get("metadata") or {}
            space = own.get("namespace") or (value.get("metadata") or {}).get("namespace")
            inner = {**found.value, "metadata": {**own, "namespace": space} if space else own}
            yield (*place, *(int(step) if step.isdigit() else step for step in steps(found.path))), "", inner


# --- changes ----------------------------------------------------------------------------------------------------------

_Key = tuple[str, str, str]


def _changes(
    place: tuple[Any, ...],
    kind: str,
    obj: dict[str, Any],
    wanted: Mapping[_Key, Sequence[TemplateNodes]],
    generated: GeneratedNames,
    request: ManifestRequest,
) -> list[YamlChange]:
    called: str | None = kind
    if kinds.find(obj.get("apiVersion"), kind) is None:
        entry = table.find(obj.get("apiVersion"), kind)
        called = None if entry is None else entry.name
    if called is None:
        return []
    metadata = obj.get("metadata") or {}
    name, prefix = metadata.get("name") or "", metadata.get("generateName")
    if not name and prefix:
        name = generated.stand_in(called, prefix)  # as when the file was read
    found = wanted.get((called, metadata.get("namespace") or request.namespace or "default", name), ())
    by_path: dict[tuple[str | int, ...], Counter[str]] = {}
    for t in found:
        by_path.setdefault(_spec_path(t), Counter()).update(t.nodes)
    document, *inside = place
    changes, marks = [], 0
    for path, nodes in by_path.items():
        spec = _at(obj, path)
        if not path or not isinstance(spec, dict):
            continue
        terms = preferred_terms(nodes)
        if terms:
            marked = PREFERRED in (metadata.get("annotations") or {})
            kept = [term for term in _at(spec, _AFFINITY) or () if not (marked and _is_ours(term))]
            changes.append(YamlChange(document, (*inside, *path, *_AFFINITY), [*terms, *kept]))
            marks += len(terms)
        gates = _at(spec, ("schedulingGates",)) or []
        if request.gates and {"name": GATE} not in gates:
            changes.append(YamlChange(document, (*inside, *path, "schedulingGates"), [{"name": GATE}, *gates]))
    if marks:
        changes.append(YamlChange(document, (*inside, "metadata", "annotations", PREFERRED), str(marks)))
    return changes


def _spec_path(t: TemplateNodes) -> tuple[str | int, ...]:
    """Return the path of a workload's pod spec in its object; empty if the object does not hold one."""
    if t.pod_set is None:
        return _PATHS.get(t.kind, ("spec", "template", "spec"))
    if t.pod_set.path == "spec" or t.pod_set.path.startswith("refs."):  # built by an expression, or another object's
        return ()
    return (*(int(step) if step.isdigit() else step for step in steps(t.pod_set.path)), "spec")


def _at(value: Any, path: Sequence[str | int]) -> Any:
    for key in path:
        if isinstance(value, list) and isinstance(key, int):
            value = value[key] if key < len(value) else None
        else:
            value = value.get(key) if isinstance(value, dict) else None
    return value


def preferred_terms(nodes: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return one term per node, because a term on fields takes one name. Weights from 1 to 100 are proportional to the pods."""
    max_count = max(nodes.values(), default=1)
    chosen = sorted(nodes.items(), key=lambda node: (-node[1], node[0]))[:MAX_PREFERRED_NODES]
    return [
        {"weight": max(1, (200 * pods + max_count) // (2 * max_count)), "preference": {"matchFields": [by_name(node)]}}
        for node, pods in chosen
    ]


def _is_ours(term: Any) -> bool:
    fields = _at(term, ("preference", "matchFields"))
    expressions = _at(term, ("preference", "matchExpressions"))
    return not expressions and isinstance(fields, list) and len(fields) == 1 and _at(fields[0], ("key",)) == "metadata.name"


# --- header -----------------------------------------------------------------------------------------------------------


def _header(request: ManifestRequest, bare: Sequence[str]) -> Iterator[str]:
    templates = [t for t in request.templates if t.nodes and fixed(t) is None and _spec_path(t)]
    yield f"{_TITLE}{counted(len(templates), 'workload')} with the nodes of a placement as preferences."
    yield "Preferences do not bind: if such a node is full or gone, pods run elsewhere."
    if request.sha256:
        yield f"Snapshot and manifests: {request.sha256}"
    if request.gates:
        yield ""
        yield f"The gate {GATE} holds every pod that these templates create, now and later, until `kubestow apply`"
        yield "removes it: keep `kubestow apply --serve` running while they are in the cluster."
    if bare:
        yield ""
        yield f"Comments were removed from: {', '.join(bare)}"
    remarks = notes(request.templates, gates=request.gates)[request.gates :]
    if remarks:
        yield ""
        yield from remarks
