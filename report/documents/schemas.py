"""JSON Schemas (2020-12) of all documents that kubestow prints or reads besides Kubernetes objects, generated from
Structs.

A schema accepts what the Structs accept. A field is required if reading fails without it, so documents of an older
kubestow stay valid when fields with defaults are added. Results may contain unknown fields, as readers have to
accept them; configuration files may not. Constraints of ``__post_init__`` are included as far as a schema can
express them.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from kubestow.models.custom_workloads.table import WorkloadKinds
from kubestow.models.documents import answers, journal
from kubestow.models.documents.batch import BatchPlan, BatchSummary
from kubestow.models.documents.catalogue import Catalogue
from kubestow.models.documents.doctor import Doctor
from kubestow.models.documents.findings.audit import Audit
from kubestow.models.documents.findings.audit_selection import AuditBaseline, AuditConfig
from kubestow.models.documents.findings.check import Check
from kubestow.models.documents.fit import Fit
from kubestow.models.documents.placement import API_VERSION, Placement
from kubestow.models.documents.policy import Policy
from kubestow.models.documents.rebalance_plan import RebalancePlan
from kubestow.models.documents.sizing import Sizing
from kubestow.models.documents.survival import Survival
from kubestow.models.documents.upgrade import Upgrade
from kubestow.models.kube import quantity
from kubestow.models.snapshot.interning import ANNOTATIONS

Schema = dict[str, Any]

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_GROUP, _, VERSION = API_VERSION.partition("/")

#: Type and title by file name without version.
_DOCUMENTS: Final[dict[str, tuple[type[msgspec.Struct], str]]] = {
    "placement": (Placement, "Placement"),
    "rebalance-plan": (RebalancePlan, "RebalancePlan"),
    "audit": (Audit, "Audit"),
    "check": (Check, "Check"),
    "fit": (Fit, "Fit"),
    "sizing": (Sizing, "Sizing"),
    "survival": (Survival, "Survival"),
    "upgrade": (Upgrade, "Upgrade"),
    "batch-plan": (BatchPlan, "BatchPlan"),
    "batch-summary": (BatchSummary, "BatchSummary"),
    "catalogue": (Catalogue, "Catalogue"),
    "verify": (answers.Verification, "answer of verify"),
    "explain": (answers.Explanation, "answer of explain"),
    "explain-per-node": (answers.NodeExplanation, "answer of explain --per-node"),
    "explain-affinity": (answers.ContainerAffinity, "answer of explain --affinity"),
    "nodes": (answers.NodeTable, "answer of nodes"),
    "doctor": (Doctor, "answer of doctor"),
    "policy": (Policy, "Policy"),
    "workload-kinds": (WorkloadKinds, "file of workload kinds"),
    "audit-config": (AuditConfig, "configuration of audit"),
    "audit-baseline": (AuditBaseline, "baseline of audit"),
}

#: Names of document types that state their kind. Some are nested in others.
_RESULTS: Final = {kind.__name__ for kind, _ in _DOCUMENTS.values() if "kind" in kind.__struct_fields__}

#: The same for files with one document per line, of one of several types.
_LINES: Final[dict[str, tuple[tuple[type[msgspec.Struct], ...], str]]] = {
    "journal": ((journal.Run, journal.Request, journal.Answered, journal.Fact), "a line of the journal of apply"),
}

#: The grammar of k8s.io/apimachinery/pkg/api/resource as models.kube.quantity parses it, in a portable regular
#: expression.
_QUANTITY: Final = r"^\s*[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+|[numkMGTPE]|[KMGTPE]i)?\s*$"

#: Constraints of ``__post_init__`` beyond the types, by Struct.
_BEYOND: Final[dict[str, Schema]] = {
    "Topology": {
        "anyOf": [
            {"required": ["nodes"], "properties": {"nodes": {"minItems": 1}}},
            {"required": ["nodeLabels"], "properties": {"nodeLabels": {"minProperties": 1}}},
        ]
    },
    "TopologyZone": {
        "properties": {
            "resources": {
                "additionalProperties": {
                    "type": ["string", "number"], "pattern": _QUANTITY, "minimum": 0, "maximum": quantity.INT64_MAX,
                }
            }
        }
    },
    "Moves": {"properties": {"annotation": {"pattern": f"^({'|'.join(prefix.replace('.', '[.]') for prefix in ANNOTATIONS)})"}}},
}  # fmt: skip


def schemas() -> dict[str, Schema]:
    """Return the schema of each document, by file name. ``$id`` ends with the file name; it is a name, not an address."""
    of_documents = {f"{name}-{VERSION}.json": _schema(name, *document) for name, document in _DOCUMENTS.items()}
    return of_documents | {f"{name}-{VERSION}.json": _line_schema(name, *line) for name, line in _LINES.items()}


def types() -> dict[str, type[msgspec.Struct]]:
    """Return the type of each document with a single type, by file name."""
    return {f"{name}-{VERSION}.json": kind for name, (kind, _) in _DOCUMENTS.items()}


def _line_schema(name: str, kinds: tuple[type[msgspec.Struct], ...], called: str) -> Schema:
    options = [{"$ref": f"#/$defs/{kind.__name__}"} for kind in kinds]
    return _head(name, called) | {"anyOf": options, "$defs": _parts(*kinds)}


def _head(name: str, called: str) -> Schema:
    return {"$schema": DIALECT, "$id": f"https://{_GROUP}/schema/{name}-{VERSION}.json", "title": f"kubestow: {called}, {VERSION}"}


def _parts(*kinds: type[msgspec.Struct]) -> dict[str, Schema]:
    """Return the schemas of Structs and their nested Structs, by name."""
    _, parts = msgspec.json.schema_components(kinds, ref_template="#/$defs/{name}")
    for part, schema in parts.items():
        _merge(schema, _BEYOND.get(part, {}))
        if "description" in schema:  # a docstring
            schema["description"] = " ".join(schema["description"].split()).replace("``", "`")
    found: dict[str, Schema] = _simple(parts)
    return found


def _schema(name: str, kind: type[msgspec.Struct], called: str) -> Schema:
    parts = _parts(kind)
    for part in (part for part, schema in parts.items() if part in _RESULTS and schema["properties"]["kind"].get("type") == "string"):
        # To msgspec these fields are text with a default. Reading requires the exact value
        # (kubestow.models.documents.placement.expect).
        stated = {"apiVersion": API_VERSION, "kind": part}
        others = {field: schema for field, schema in parts[part]["properties"].items() if field not in stated}
        parts[part]["properties"] = {field: {"const": value} for field, value in stated.items()} | others
        if part == kind.__name__:
            parts[part]["required"] = [*stated, *parts[part]["required"]]
    root: Schema = parts.pop(kind.__name__)
    return _head(name, called) | {key: value for key, value in root.items() if key != "title"} | ({"$defs": parts} if parts else {})


def _merge(schema: Schema, more: Schema) -> None:
    """Add keywords in place, also to existing properties."""
    for key, value in more.items():
        if key == "properties":
            for name, of_property in value.items():
                schema[key][name].update(of_property)
        else:
            schema[key] = value


def _simple(schema: Any) -> Any:
    """Return the schema in a shorter form: single values as ``const``, and alternatives of plain types as a list of types."""
    if isinstance(schema, list | tuple):  # a tuple is the default of a Struct's field
        return [_simple(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _simple(value) for key, value in schema.items()}
    if isinstance(found.get("enum"), list) and len(found["enum"]) == 1:
        (found["const"],) = found.pop("enum")
    options = found.get("anyOf")
    if isinstance(options, list) and all(option.keys() == {"type"} for option in options):
        del found["anyOf"]
        found = {"type": [option["type"] for option in options]} | found
    return found
