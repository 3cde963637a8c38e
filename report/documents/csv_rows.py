"""Results as comma-separated values (RFC 4180 with LF line ends): a header, then one row per pod, step or finding, in full."""

from __future__ import annotations

import csv
import io
import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from kubestow.models.catalogue import money
from kubestow.models.documents.answers import NodeTable
from kubestow.models.documents.batch import BatchSummary
from kubestow.models.documents.findings.audit import Audit
from kubestow.models.documents.findings.check import Check, Position
from kubestow.models.documents.fit import Fit
from kubestow.models.documents.placement import Cause, Placement, Unplaced
from kubestow.models.documents.rebalance_plan import Eviction, Move, RebalancePlan
from kubestow.models.documents.sizing import Sizing
from kubestow.models.documents.survival import Survival
from kubestow.models.documents.upgrade import Upgrade
from kubestow.models.kube.objects import pod_key
from kubestow.models.scheduler.profiles import SCORE_WEIGHTS
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.models.workloads.ownership import PodOwners
from kubestow.report.documents import devices
from kubestow.report.documents.node_rows import zone_of
from kubestow.report.documents.output import one_line
from kubestow.report.documents.results import nodes_per_rule

if TYPE_CHECKING:  # importing numpy takes longer than writing rows
    from kubestow.solver.explain.affinity_matrix import Matrix
    from kubestow.solver.explain.per_node import PodVerdict

Row = Sequence[object]


def encode(header: Sequence[str], rows: Iterable[Row]) -> bytes:
    """Return rows as text. None is an empty cell, and line breaks are escaped."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(["" if cell is None else one_line(str(cell)) for cell in row] for row in rows)
    return file.getvalue().encode("utf-8", errors="replace")


def placement(result: Placement, snapshot: Snapshot) -> bytes:
    """Return a row per pod to place, in bind order, then pods without a node. For a rollout, add deleted pods."""
    zones = _zones(snapshot)
    waves = {entry.pod: wave.wave for wave in (result.rollout.waves if result.rollout else ()) for entry in wave.create}
    gone = {pod: wave.wave for wave in (result.rollout.waves if result.rollout else ()) for pod in wave.delete}
    causes = _by_pod(result.causes)
    workload = _workloads(snapshot, {*(a.pod for a in result.assignments), *(u.pod for u in result.unplaced), *gone})

    def rows() -> Iterator[Row]:
        for a in sorted(result.assignments, key=lambda a: a.order):
            containers = "; ".join(f"{c.name}={'+'.join(c.zones)}" for c in a.containers)
            where = a.node, zones.get(a.node), a.order, waves.get(a.pod), a.gang, containers
            yield "placed", a.pod, workload.get(a.pod), *where, None, None, None, devices.listed(a.devices)
        for u in result.unplaced:
            cause_cells = _cause_cells(causes.get(u.pod))
            yield "gated" if u.gated else "pending", u.pod, workload.get(u.pod), *[None] * 4, u.gang, None, _reasons(u), *cause_cells, None
        for pod, wave in gone.items():
            yield "deleted", pod, workload.get(pod), None, None, None, wave, *[None] * 6

    header = "status", "pod", "workload", "node", "zone", "order", "wave", "gang", "numa_zones", "reasons", "cause", "remedies", "devices"
    return encode(header, rows())


def fit(result: Fit) -> bytes:
    """Return a row per template, then a row per node kind with the gain from one more node."""
    why = _cause_cells(result.cause)[0]
    rows: list[Row] = [("template", t.workload, t.runs, t.ratio, t.fits, t.bound, why) for t in result.templates]
    rows += [("node", g.like, g.nodes, None, g.units, g.bound, None) for g in result.growth]
    return encode(("row", "name", "present", "ratio", "more", "at_most", "cause"), rows)


def explanation(verdicts: Sequence[PodVerdict], causes: Sequence[Cause], snapshot: Snapshot) -> bytes:
    """Return a row per pod and rule that rejects it on some node. Pods without such a rule get one row."""
    found = _by_pod(causes)
    workload = _workloads(snapshot, {v.pod for v in verdicts})

    def rows() -> Iterator[Row]:
        for v in verdicts:
            cause_cells = _cause_cells(found.get(v.pod))
            pod = v.pod, workload.get(v.pod), v.runs_on, len(v.feasible), len(v.feasible) + len(v.rejected)
            for rule, nodes in nodes_per_rule(v).items() or [(None, None)]:
                yield *pod, rule, nodes, v.messages.get(rule) if rule is not None else None, *cause_cells

    return encode(("pod", "workload", "runs_on", "feasible", "nodes", "rule", "rejected", "message", "cause", "remedies"), rows())


def explanation_per_node(verdicts: Sequence[PodVerdict]) -> bytes:
    """Return a row per pod and node, with the rules that reject the pod there."""

    def rows() -> Iterator[Row]:
        for v in verdicts:
            yield from ((v.pod, node, "yes", None) for node in v.feasible)
            yield from ((v.pod, node, "no", "; ".join(rules)) for node, rules in v.rejected.items())

    return encode(("pod", "node", "feasible", "rejected_by"), rows())


def explanation_scores(verdicts: Sequence[PodVerdict]) -> bytes:
    """Return a row per pod and feasible node, best first, with the points of each plugin; empty where a plugin skips the pod."""

    def rows() -> Iterator[Row]:
        for v in verdicts:
            for node, points in (v.scores or {}).items():
                yield v.pod, node, sum(points.values()), *(points.get(plugin) for plugin in SCORE_WEIGHTS)

    return encode(("pod", "node", "total", *SCORE_WEIGHTS), rows())


def affinity(matrix: Matrix) -> bytes:
    """Return a row per pair of containers with affinity."""
    return encode(("from", "to", "weight"), ((p.source, p.target, p.weight) for p in matrix.pairs))


def plan(result: RebalancePlan, snapshot: Snapshot) -> bytes:
    """Return a row per step, in plan order, then a row per excluded pod and per obstacle."""
    steps: list[Move | Eviction] = sorted([*result.moves, *result.evictions], key=lambda step: (step.wave, step.step))
    excluded = [(pod, group.reason) for group in result.excluded for pod in group.pods]
    workload = _workloads(snapshot, {*(step.pod for step in steps), *(pod for pod, _ in excluded)})

    def rows() -> Iterator[Row]:
        for step in steps:
            head = step.step, step.wave
            if isinstance(step, Eviction):
                yield *head, "evict", step.pod, workload.get(step.pod), step.source, None, None, None, step.reason
            else:
                action = "bind" if step.source is None else "move"
                stopover = "yes" if step.stopover else None
                yield *head, action, step.pod, workload.get(step.pod), step.source, step.to, step.gang, stopover, step.reason
        for pod, reason in excluded:
            yield None, None, "stay", pod, workload.get(pod), *[None] * 4, reason
        for obstacle in result.obstacles:
            yield None, None, "obstacle", *[None] * 6, f"{obstacle.goal}: {obstacle.message}"

    return encode(("step", "wave", "action", "pod", "workload", "from", "to", "gang", "stopover", "reason"), rows())


def survival(result: Survival) -> bytes:
    """Return a row per failure, followed by the failures equal to it."""
    counterexamples = {tuple(each.failed): each for each in result.counterexamples}

    def rows() -> Iterator[Row]:
        for each in result.outcomes:
            found = counterexamples.get(tuple(each.failed))
            pods = "; ".join(found.pending) if found is not None else None
            consequences = "; ".join(f"{c.object}: {c.message}" for c in found.consequences) if found is not None else None
            outcome_cells = each.outcome, None if each.outcome == "unknown" else each.by, each.displaced, each.pending
            why = _cause_cells(found.cause if found is not None else None)[0], consequences
            yield "; ".join(each.failed), None, *outcome_cells, pods, *why
            for alike in each.alike:
                yield "; ".join(alike), "; ".join(each.failed), *outcome_cells, *[None] * 3

    return encode(("failed", "equal_to", "outcome", "decided_by", "pods", "pending", "pending_pods", "cause", "consequences"), rows())


def upgrade(result: Upgrade) -> bytes:
    """Return a row per joining node, move and removed node, wave by wave, then a row per blocker."""

    def rows() -> Iterator[Row]:
        for wave in result.waves:
            yield from ((wave.wave, None, "join", new.name, None, None, None, f"like {new.like}") for new in wave.surge)
            yield from ((wave.wave, move.step, "move", move.source, move.pod, move.source, move.to, move.reason) for move in wave.moves)
            yield from ((wave.wave, None, "remove", node, None, None, None, wave.domain) for node in wave.drain)
            yield from ((wave.wave, None, "join", new.name, None, None, None, f"like {new.like}") for new in wave.joined)
        for blocker in result.blocked:
            pods = "; ".join(blocker.pods)
            yield None, None, "blocked", blocker.node, pods, None, None, f"{blocker.kind}: {blocker.object}: {blocker.message}"

    return encode(("wave", "step", "action", "node", "pod", "from", "to", "message"), rows())


def audit(found: Audit) -> bytes:
    """Return a row per finding."""
    texts = "severity", "code", "name", "object", "field", "rule", "domain", "message", "why", "fix"
    rows = ((*(getattr(f, name) for name in texts), "; ".join(f.pods), "; ".join(f.nodes)) for f in found.findings)
    return encode((*texts, "pods", "nodes"), rows)


def check(found: Check) -> bytes:
    """Return a row per workload and per finding."""

    def at(position: Position | None) -> Row:
        return (position.file, position.line, position.column) if position is not None else (None,) * 3

    def rows() -> Iterator[Row]:
        for w in found.workloads:
            yield *at(w.position), w.fit, None, w.workload, None, w.cause, w.fix, w.change, w.placed, w.replicas, w.known
        for fault in found.faults:
            f = fault.finding
            yield *at(fault.position), f.severity, f.code, f.object, f.field, f.message, f.fix, None, None, None, fault.known

    header = "file", "line", "column", "verdict", "code", "object", "field", "message", "fix", "change", "placed", "replicas", "known"
    return encode(header, rows())


def nodes(found: NodeTable) -> bytes:
    """Return a row per node, zone or namespace. CPU is in mCPU, other amounts in whole units."""
    always = {"requests": ("cpu", "memory"), "limits": ("cpu", "memory")}
    parts = {
        part: sorted({*always.get(part, ()), *(name for row in found.rows for name in getattr(row, part))})
        for part in ("allocatable", "free", "devices", "freeDevices", "requests", "limits")
    }
    of_nodes = found.by != "namespace"
    header = [
        found.by,
        *(["zone", "cordoned", "taints"] if found.by == "node" else []),
        "nodes",
        "pods",
        *([] if of_nodes else ["pending"]),
    ]
    header += [f"{part}.{name}" for part, names in parts.items() for name in names]
    header += ["largest.cpu", "largest.memory", "largest.node"] if of_nodes else []

    def rows() -> Iterator[Row]:
        for row in found.rows:
            state = [row.zone, "yes" if row.cordoned else "no", "; ".join(row.taints)] if found.by == "node" else []
            amounts = [getattr(row, part).get(name, 0) for part, names in parts.items() for name in names]
            largest_room = row.largest[0] if row.largest else None
            largest = (
                [] if not of_nodes else [None] * 3 if largest_room is None else [largest_room.cpu, largest_room.memory, largest_room.node]
            )
            yield [row.name, *state, row.nodes, row.pods, *([] if of_nodes else [row.pending]), *amounts, *largest]

    return encode(header, rows())


def sizing(result: Sizing) -> bytes:
    """Return a row per purchase, snapshot of a series, resource of a shape, workload, and pod that no shape takes.

    The cost of a snapshot is its own minimum. Resource rows without a shape are totals. Amounts are in base
    units (mCPU, bytes, numbers), money is per hour.
    """

    def rows() -> Iterator[Row]:
        for p in result.buy:
            cost = money.number(money.parse(p.price) * p.count)
            yield "buy", p.shape, p.zone, p.count, p.price, cost, *[None] * 6, "; ".join(p.nodes)
        for m in result.series or ():
            alone = None if m.alone is None else m.alone.value
            decides = "decides" if m.decides else None
            yield "snapshot", *[None] * 4, alone, None, m.snapshot.pending, *[None] * 4, m.snapshot.capturedAt, decides
        for u in result.utilisation:
            yield "utilisation", u.shape, *[None] * 6, u.resource, u.requested, u.daemons, u.allocatable, None
        for w in result.workloads:
            yield "workload", *[None] * 4, w.cost, w.workload, w.pods, *[None] * 5
        for misfit in result.misfits:
            for pod in misfit.pods:
                yield "no shape", *[None] * 5, pod, 1, *[None] * 5

    amounts = "resource", "requested", "daemons", "allocatable"
    decides = ("decides",) * (result.series is not None)
    header = "row", "shape", "zone", "nodes", "price", "cost", "workload", "pods", *amounts, "names", *decides
    return encode(header, ((*row, *[None] * (len(header) - len(row))) for row in rows()))


def batch(found: BatchSummary) -> bytes:
    """Return a row per task."""
    severities = ("error", "warning", "info")
    header = (
        *("id", "cluster", "capturedAt", "snapshot", "command", "options", "set", "exit", "reason", "placed", "pods"),
        *severities,
        *("cost", "verdict", "seconds", "result"),
    )
    return encode(
        header,
        (
            (
                *(r.id, r.cluster, r.capturedAt, "; ".join(r.snapshot), r.command, shlex.join(r.options), r.set, r.exit, r.reason),
                *(r.placed, r.pods),
                *((r.findings.get(severity, 0) if r.command == "audit" and r.result else None) for severity in severities),
                *(r.cost, r.verdict, r.seconds, r.result),
            )
            for r in found.rows
        ),
    )


def series(found: BatchSummary) -> bytes:
    """Return a row per snapshot of each series."""
    resources = ("cpu", "memory")
    header = (
        *("cluster", "command", "options", "set", "capturedAt", "row"),
        *(f"{what} {name}" for what in ("utilisation", "fragmentation") for name in resources),
        *("appeared", "went"),
    )
    return encode(
        header,
        (
            (
                *(s.cluster, s.command, shlex.join(s.options), s.set, p.capturedAt, p.row),
                *(what.get(name) for what in (p.utilisation, p.fragmentation) for name in resources),
                *("; ".join(f"{c.code} {c.object}" for c in changes) for changes in (p.appeared, p.went)),
            )
            for s in found.series
            for p in s.points
        ),
    )


def _zones(snapshot: Snapshot) -> dict[str, str]:
    return {node.metadata.name or "": zone_of(node) or "" for node in snapshot.nodes}


def _workloads(snapshot: Snapshot, pods: set[str]) -> dict[str, str]:
    owners = PodOwners(snapshot)
    return {key: owners.of(pod) for pod in snapshot.pods if (key := pod_key(pod)) in pods}


def _by_pod(causes: Sequence[Cause]) -> dict[str, Cause]:
    return {pod: cause for cause in reversed(causes) for pod in cause.pods}


def _cause_cells(cause: Cause | None) -> tuple[str | None, str | None]:
    """Return the cells for a cause and for its remedies."""
    if cause is None:
        return None, None
    return "; ".join(fact.message for fact in cause.facts), "; ".join(way.message for way in cause.waysOut)


def _reasons(unplaced: Unplaced) -> str:
    return "; ".join(
        f"{r.rule}{f' on {r.nodes} nodes' if r.nodes else ''}{f': {r.message}' if r.message else ''}" for r in unplaced.reasons
    )
