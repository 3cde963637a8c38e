"""What the page shows, as plain values that JSON can say: see :func:`build`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from kubestow.models.documents.capacity import Capacity
from kubestow.models.documents.findings.audit import Audit
from kubestow.models.documents.placement import Cause, Placement, SnapshotRef
from kubestow.models.documents.policy import DEFAULT
from kubestow.models.documents.rebalance_plan import RebalancePlan
from kubestow.models.documents.upgrade import Upgrade
from kubestow.models.snapshot import scope
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.report.documents.origin import origin
from kubestow.report.documents.output import one_line
from kubestow.report.documents.results import Violation
from kubestow.report.page import devices, nodes, owners, places, pods, summary
from kubestow.report.page.shapes import Shapes
from kubestow.report.page.unplaced import unplaced

if TYPE_CHECKING:  # numpy takes longer to import than a page to make
    from kubestow.solver.explain.per_node import PodVerdict

#: Characters of one text. A result document may hold anything, and no sentence is longer.
LONGEST: Final = 4_000


def build(
    snapshot: Snapshot,
    result: Placement | RebalancePlan | None,
    *,
    original: Snapshot | None = None,
    violations: Sequence[Violation] = (),
    verdicts: Sequence[PodVerdict] = (),
    causes: Sequence[Cause] = (),
    audit: Audit | None = None,
    capacity: Capacity | None = None,
    version: str,
) -> dict[str, Any]:
    """Return the data of the page for a snapshot and, where there is one, a result of it.

    ``snapshot``: with the result's what-if edits, manifests and (:func:`kubestow.report.page.places.with_new_pods`) new pods of its
    rollout; ``original``: as it was before them, which tells added nodes and pods. ``violations``: what the checker has against the result;
    ``verdicts`` and ``causes``: what is judged of pending pods where no result says it; ``audit``: what is found in the snapshot then.
    ``capacity``: the document about capacity that ``result`` stands in for on the map.

    Columns (``nodes``, ``pods``, ``groups``, ``usage``) are lists of equal length; amounts are mCPU and bytes. ``place`` and ``usage``
    have a list for each of ``views``. More than :data:`kubestow.report.page.pods.SINGLE` pods are ``groups``, of which only those that
    change or wait are ``named``. ``devices`` is there where nodes or claims have some. All texts are printable and on one line.

    Raises:
        InputError: the result names pods or nodes that the snapshot lacks, or a quantity cannot be read.
    """
    reference = result.snapshot if result is not None else None
    policy = (result.policy if result is not None else None) or DEFAULT
    scratch, gated = (reference.fromScratch, reference.includeGated) if reference is not None else (False, False)
    chosen = scope.select(snapshot, from_scratch=scratch, include_gated=gated)
    found = places.find(snapshot, result, original)
    names, of_pod = owners.of_pods(snapshot, found.pods)
    shapes = Shapes(snapshot, found.pods, of_pod, [name for name, _ in names], policy, chosen)
    columns = pods.Columns(found, shapes, of_pod)
    node_columns = nodes.columns(snapshot, result, original, policy, found, shapes.notes)
    usage = pods.usage(found, shapes, len(snapshot.nodes))
    counts, grouped = Counter(of_pod), columns.grouped
    data: dict[str, Any] = {
        "version": version,
        "title": summary.title(snapshot, result),
        "kind": summary.kind(result),
        "snapshot": _of_snapshot(snapshot, reference, len(chosen.pending)),
        "summary": summary.summary(snapshot, result, found, chosen, policy, violations, usage, node_columns, shapes.notes),
        "views": found.views,
        "zones": nodes.zones(snapshot)[0],
        "nodes": node_columns,
        "workloads": [{"name": name, "namespace": namespace, "pods": counts[w]} for w, (name, namespace) in enumerate(names)],
        "priorities": columns.priorities,
        "shapes": shapes.found,
        **_of_pods(columns, len(found.pods)),
        "usage": usage,
        "waves": pods.waves(found, grouped=grouped),
        **_of_result(result, verdicts, causes, audit),
    }
    if capacity is not None:
        _about_capacity(data, snapshot, capacity)
    # What a page is without devices it stays.
    if (held := devices.columns(snapshot, result, found, grouped=grouped)) is not None:
        data["devices"] = held
    return dict(_clean(data, {}))


def _of_snapshot(snapshot: Snapshot, reference: SnapshotRef | None, pending: int) -> dict[str, Any]:
    """What tells the snapshot from others; of a result the one that it names."""
    sha256, pending = (snapshot.sha256, pending) if reference is None else (reference.sha256, reference.pending)
    return {
        "sha256": sha256, "nodes": len(snapshot.nodes), "pods": len(snapshot.pods), "pending": pending, "origin": origin(snapshot)
    }  # fmt: skip


def _of_pods(columns: pods.Columns, count: int) -> dict[str, Any]:
    """Pods one by one, or in groups beside those that are named."""
    if not columns.grouped:
        return {"pods": columns.single(range(count)), "groups": None, "named": None}
    return {"pods": None, "groups": columns.groups(), "named": columns.single(columns.changed())}


def _of_result(
    result: Placement | RebalancePlan | None, verdicts: Sequence[PodVerdict], causes: Sequence[Cause], audit: Audit | None
) -> dict[str, Any]:
    """What the panels say of a result, or of a snapshot without one."""
    return {
        "obstacles": summary.obstacles(result),
        "unplaced": unplaced(result, verdicts, causes),
        "audit": summary.audit(audit),
        "preferences": summary.preferences(result),
        "search": summary.search(result),
        "rulesBroken": summary.rules_broken(result),
    }


def _about_capacity(data: dict[str, Any], snapshot: Snapshot, document: Capacity) -> None:
    """Add what a document about capacity says, instead of what does not hold of the result that stands in for it (changed)."""
    from kubestow.report.page.capacity.panel import panel

    found = data["capacity"] = panel(snapshot, document)
    said = data["summary"]
    data["title"] = found["title"]
    said["status"] = None
    said["notes"] = list(dict.fromkeys([*document.notes, *said["notes"]]))
    said["unmodelled"] = said["unmodelled"] or summary.unmodelled_rows(document.unmodelled)
    if isinstance(document, Upgrade):  # the map has nodes that are never there at once
        said["facts"], data["rulesBroken"] = [], None
        said["notes"].append("the map has all nodes that are ever there: the old ones stay on it, with what runs on every node")


def _clean(value: Any, known: dict[str, str]) -> Any:
    """Return the value with every text on one line, in printable characters and of a length that can be read."""
    if isinstance(value, str):
        found = known.get(value)
        if found is None:
            cut = value if len(value) <= LONGEST else value[:LONGEST] + "…"
            found = known[value] = one_line(cut)
        return found
    if isinstance(value, dict):
        return {_clean(key, known): _clean(each, known) for key, each in value.items()}
    if isinstance(value, list):
        # Most of the page is columns of numbers, which have nothing to clean.
        return value if value and type(value[0]) is int else [_clean(each, known) for each in value]
    return value
