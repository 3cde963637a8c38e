"""The manifests of ``-w`` with the nodes of a placement: as preferences, and on request behind a gate until ``kubestow apply`` gives each
pod its node."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from kubestow.models.execution.template_nodes import GATE, TemplateNodes, by_name
from kubestow.models.kube import kinds
from kubestow.models.snapshot import yaml_reader
from kubestow.models.snapshot.decode import documents_of, is_json, is_list
from kubestow.models.snapshot.snapshot import from_objects
from kubestow.report.documents import yaml_text
from kubestow.report.documents.output import counted, one_line
from kubestow.report.documents.yaml_edits import Change, applied, edited

#: On a workload: how many of the preferred terms of its template are of a placement, and so make way for those of the next one.
PREFERRED: Final = "kubestow.dev/preferred-nodes"
#: What ``kubectl apply`` notes of an object has to fit into 256 KiB.
MOST_NODES: Final = 500
_TITLE: Final = "kubestow: "
_AFFINITY: Final = ("affinity", "nodeAffinity", "preferredDuringSchedulingIgnoredDuringExecution")
_PATHS: Final[dict[str, tuple[str, ...]]] = {
    "CronJob": ("spec", "jobTemplate", "spec", "template", "spec"),
    "PodTemplate": ("template", "spec"),
    "Pod": ("spec",),
}


@dataclass(frozen=True)
class Request:
    """What is to be written. ``files``: the manifests as they were read, by path. ``namespace``: that of objects which name none.
    ``sha256``: of snapshot and manifests together, as the Placement has it."""

    files: Mapping[str, bytes]
    templates: Sequence[TemplateNodes]
    namespace: str | None = None
    gates: bool = False
    unknown_fields: bool = False
    sha256: str = ""


def manifests(request: Request) -> bytes:
    """Return all documents of the files in their order as one YAML stream. Text stays as it is where that can be done, with its comments.

    Raises:
        InputError: the result is no valid manifest, which is a fault of this module.
    """
    parts: list[str] = []
    bare: list[str] = []
    wanted = {(t.kind, t.namespace, t.name): t for t in request.templates if not fixed(t)}
    for path, data in request.files.items():
        text = _without_header(data.decode("utf-8", "surrogateescape"))
        documents, in_text = _documents(text.encode("utf-8", "surrogateescape"))
        if not any(_objects(documents)):
            continue
        changes = [change for found in _objects(documents) for change in _changes(*found, wanted, request)]
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
    """Return what a reader must know before the manifests are applied, a sentence for each workload that it concerns."""
    found = [f"the gate {GATE} holds these pods, and later ones, until `kubestow apply --serve` takes it off"] if gates else []
    for t in templates:
        if (why := fixed(t)) is not None:
            found.append(f"{t.ref} is left as it is: {why}")
            continue
        if t.unplaced:
            found.append(f"{t.ref}: of {counted(t.placed + t.unplaced, 'pod')} the placement has no node for {t.unplaced:,}")
        if len(t.nodes) > MOST_NODES:
            found.append(f"{t.ref}: of its {len(t.nodes):,} nodes the {MOST_NODES} with most pods are preferred")
        if t.running and t.kind in ("Deployment", "StatefulSet"):
            found.append(f"{t.ref} has {counted(t.running, 'pod')} on nodes: to apply another template is a rollout of all its pods")
        if gates and t.one_by_one and t.placed + t.unplaced > 1:
            found.append(f"{t.ref}: its pods come one by one, each when the one before is ready; they are no gang")
    return found


def fixed(t: TemplateNodes) -> str | None:
    """Return why the object cannot be changed, None if it can."""
    if t.exists and t.kind in ("Pod", "Job"):
        return f"a {t.kind} that exists cannot be given another {'spec' if t.kind == 'Pod' else 'template'}"
    return None


def _without_header(text: str) -> str:
    """Return the text of a file without the header that an earlier run wrote."""
    return re.sub(r"\A(?:#.*\n)+---\n", "", text) if text.startswith(f"# {_TITLE}") else text


# --- reading ----------------------------------------------------------------------------------------------------------


def _documents(data: bytes) -> tuple[list[Any], bool]:
    """Return the documents of a file, and whether changes can be made in its text."""
    if is_json(data):
        return [msgspec.json.decode(document) for document in documents_of(data)], False
    return list(yaml_reader.documents(data)), True


def _objects(documents: Sequence[Any]) -> Iterator[tuple[tuple[Any, ...], str, dict[str, Any]]]:
    """Yield objects with their places and kinds, Lists unfolded; items of a DeploymentList need not state theirs."""
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


# --- changes ----------------------------------------------------------------------------------------------------------

_Key = tuple[str, str, str]


def _changes(
    place: tuple[Any, ...], kind: str, obj: dict[str, Any], wanted: Mapping[_Key, TemplateNodes], request: Request
) -> list[Change]:
    metadata = obj.get("metadata") or {}
    found = wanted.get((kind, metadata.get("namespace") or request.namespace or "default", metadata.get("name") or ""))
    path = _PATHS.get(kind, ("spec", "template", "spec"))
    if found is None or kinds.find(obj.get("apiVersion"), kind) is None:
        return []
    spec = _at(obj, path)
    if not isinstance(spec, dict):
        return []
    document, *inside = place
    changes = []
    terms = preferred_terms(found.nodes)
    if terms:
        marked = PREFERRED in (metadata.get("annotations") or {})
        kept = [term for term in _at(spec, _AFFINITY) or () if not (marked and _is_ours(term))]
        changes.append(Change(document, (*inside, *path, *_AFFINITY), [*terms, *kept]))
        changes.append(Change(document, (*inside, "metadata", "annotations", PREFERRED), str(len(terms))))
    held = _at(spec, ("schedulingGates",)) or []
    if request.gates and {"name": GATE} not in held:
        changes.append(Change(document, (*inside, *path, "schedulingGates"), [{"name": GATE}, *held]))
    return changes


def _at(value: Any, path: Sequence[str]) -> Any:
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def preferred_terms(nodes: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return a term for each node: a term for fields takes one name. The weights, from 1 to 100, are in proportion to the pods."""
    most = max(nodes.values(), default=1)
    chosen = sorted(nodes.items(), key=lambda node: (-node[1], node[0]))[:MOST_NODES]
    return [{"weight": max(1, (200 * pods + most) // (2 * most)), "preference": {"matchFields": [by_name(node)]}} for node, pods in chosen]


def _is_ours(term: Any) -> bool:
    fields = _at(term, ("preference", "matchFields"))
    expressions = _at(term, ("preference", "matchExpressions"))
    return not expressions and isinstance(fields, list) and len(fields) == 1 and _at(fields[0], ("key",)) == "metadata.name"


# --- header -----------------------------------------------------------------------------------------------------------


def _header(request: Request, bare: Sequence[str]) -> Iterator[str]:
    templates = [t for t in request.templates if t.nodes and fixed(t) is None]
    yield f"{_TITLE}{counted(len(templates), 'workload')} with the nodes that a placement has for their pods, as preferences."
    yield "Nothing sticks: where such a node is full or gone pods go elsewhere, and later pods drift back."
    if request.sha256:
        yield f"Snapshot and manifests: {request.sha256}"
    if request.gates:
        yield ""
        yield f"The gate {GATE} holds every pod that these templates create, those of later days included, until `kubestow apply`"
        yield "takes it off: keep `kubestow apply --serve` running for as long as they are in the cluster."
    if bare:
        yield ""
        yield f"Without its comments: {', '.join(bare)}"
    told = notes(request.templates, gates=request.gates)[request.gates :]
    if told:
        yield ""
        yield from told
