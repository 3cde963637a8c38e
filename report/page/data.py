"""The data of the page as plain JSON values: see :func:`build`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, TypedDict, Unpack

from kubestow.models.documents.capacity import Capacity
from kubestow.models.documents.findings.audit import Audit
from kubestow.models.documents.placement import Cause, Placement, SnapshotRef
from kubestow.models.documents.rebalance_plan import RebalancePlan
from kubestow.models.documents.upgrade import Upgrade
from kubestow.models.snapshot import scope
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.report.documents.origin import origin
from kubestow.report.documents.output import one_line
from kubestow.report.documents.results import RuleViolation
from kubestow.report.page import devices, nodes, owners, places, pods, summary
from kubestow.report.page.capacity.panel import panel
from kubestow.report.page.shapes import Shapes
from kubestow.report.page.unplaced import unplaced
from kubestow.solver.explain.per_node import PodVerdict

#: Maximum characters of a text. Result documents may contain anything, and real sentences are shorter.
MAX_TEXT_CHARACTERS: Final = 4_000


class Shown(TypedDict, total=False):
    """The parts of the page in addition to a result.

    Attributes:
        violations: Broken rules.
        verdicts: For pending pods, if no result has them.
        causes: For pending pods, if no result has them.
        audit: Findings.
        capacity: The document about capacity that the result represents on the map.
    """

    violations: Sequence[RuleViolation]
    verdicts: Sequence[PodVerdict]
    causes: Sequence[Cause]
    audit: Audit | None
    capacity: Capacity | None


def build(
    snapshot: Snapshot,
    result: Placement | RebalancePlan | None,
    *,
    version: str,
    original: Snapshot | None = None,
    **shown: Unpack[Shown],
) -> dict[str, Any]:
    """Return the data of the page for a snapshot, optionally with a result.

    ``nodes``, ``pods``, ``groups`` and ``usage`` are columns (lists of equal length), in mCPU and bytes. ``place`` and ``usage``
    have one list per entry of ``views``. Above ``pods.MAX_SINGLE_PODS`` pods, ``groups`` replaces ``pods``, and only pods that change or
    wait are ``named``. ``devices`` exists if nodes or claims have devices. All texts are printable and on one line.

    Args:
        snapshot: The snapshot with the result's edits, manifests and, for a rollout, the pods of ``places.with_new_pods``.
        original: The snapshot before these edits, to mark added nodes and pods.

    Raises:
        InputError: The result names pods or nodes that the snapshot lacks, or a quantity cannot be parsed.
    """
    reference = result.snapshot if result is not None else None
    scratch, gated = (reference.fromScratch, reference.includeGated) if reference is not None else (False, False)
    chosen = scope.select(snapshot, from_scratch=scratch, include_gated=gated)
    found = places.find(snapshot, result, original)
    names, of_pod = owned = owners.of_pods(snapshot, found.pods)
    shapes = Shapes(snapshot, found.pods, owned, places.policy_of(result), chosen)
    columns = pods.Columns(found, shapes, of_pod)
    node_columns = nodes.columns(snapshot, result, original, found, shapes.notes)
    usage = pods.usage(found, shapes, len(snapshot.nodes))
    counts, grouped = Counter(of_pod), columns.grouped
    data: dict[str, Any] = {
        "version": version,
        "title": summary.title(snapshot, result),
        "kind": summary.kind(result),
        "snapshot": _of_snapshot(snapshot, reference, len(chosen.pending)),
        "summary": summary.figures(snapshot, result, found, usage, node_columns)
        | summary.remarks(snapshot, result, chosen.pending, shown.get("violations", ()), shapes.notes),
        "views": found.views,
        "zones": nodes.zones(snapshot)[0],
        "nodes": node_columns,
        "workloads": [{"name": name, "namespace": namespace, "pods": counts[w]} for w, (name, namespace) in enumerate(names)],
        "priorities": columns.priorities,
        "shapes": shapes.found,
        **_of_pods(columns, len(found.pods)),
        "usage": usage,
        "waves": pods.waves(found, grouped=grouped),
        **_of_result(result, shown),
    }
    if (capacity := shown.get("capacity")) is not None:
        _about_capacity(data, snapshot, capacity)
    if (device_columns := devices.columns(snapshot, result, found, grouped=grouped)) is not None:
        data["devices"] = device_columns
    return dict(_clean(data, {}))


def _of_snapshot(snapshot: Snapshot, reference: SnapshotRef | None, pending: int) -> dict[str, Any]:
    """Return the identity of the snapshot. With a result, this is the snapshot that the result names."""
    sha256, pending = (snapshot.sha256, pending) if reference is None else (reference.sha256, reference.pending)
    return {
        "sha256": sha256, "nodes": len(snapshot.nodes), "pods": len(snapshot.pods), "pending": pending, "origin": origin(snapshot)
    }  # fmt: skip


def _of_pods(columns: pods.Columns, count: int) -> dict[str, Any]:
    """Return all pods individually, or groups together with the named pods."""
    if not columns.grouped:
        return {"pods": columns.single(range(count)), "groups": None, "named": None}
    return {"pods": None, "groups": columns.groups(), "named": columns.single(columns.changed())}


def _of_result(result: Placement | RebalancePlan | None, shown: Shown) -> dict[str, Any]:
    """Return the contents of the panels for a result, or for a snapshot without one."""
    return {
        "obstacles": summary.obstacles(result),
        "unplaced": unplaced(result, shown.get("verdicts", ()), shown.get("causes", ())),
        "audit": summary.audit(shown.get("audit")),
        "preferences": summary.preferences(result),
        "search": summary.search(result),
        "rulesBroken": summary.rules_broken(result),
    }


def _about_capacity(data: dict[str, Any], snapshot: Snapshot, document: Capacity) -> None:
    """Add the contents of a document about capacity, in place, and remove what applies only to the result that represents it."""
    found = data["capacity"] = panel(snapshot, document)
    said = data["summary"]
    data["title"] = found["title"]
    said["status"] = None
    said["notes"] = list(dict.fromkeys([*document.notes, *said["notes"]]))
    said["unmodelled"] = said["unmodelled"] or summary.unmodelled_rows(document.unmodelled)
    if isinstance(document, Upgrade):  # the map shows nodes that never exist at the same time
        said["facts"], data["rulesBroken"] = [], None
        said["notes"].append("the map shows all nodes of the upgrade at once: old nodes remain, with the pods that run on every node")


def _clean(value: Any, known: dict[str, str]) -> Any:
    """Return the value with every text on one line, in printable characters and of limited length."""
    if isinstance(value, str):
        found = known.get(value)
        if found is None:
            cut = value if len(value) <= MAX_TEXT_CHARACTERS else value[:MAX_TEXT_CHARACTERS] + "…"
            found = known[value] = one_line(cut)
        return found
    if isinstance(value, dict):
        return {_clean(key, known): _clean(each, known) for key, each in value.items()}
    if isinstance(value, list):
        # Most of the page is columns of numbers, which need no cleaning.
        return value if value and type(value[0]) is int else [_clean(each, known) for each in value]
    return value
