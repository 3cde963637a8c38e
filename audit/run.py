"""The audit of a snapshot: runs the checks and builds the Audit document."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from kubestow.audit.catalogue import CHECKS
from kubestow.audit.checks.anti_affinity import opportunity_cost
from kubestow.audit.checks.control_plane.check import describe, requirements
from kubestow.audit.checks.violated.execution import grace_notes
from kubestow.audit.selection import EVERYTHING, FindingFilters, Reported, report
from kubestow.audit.view.view import ClusterView
from kubestow.models.cluster import unmodelled
from kubestow.models.documents.findings.audit import SEVERITIES, Audit, Finding
from kubestow.models.documents.placement import SnapshotRef
from kubestow.models.documents.policy import DEFAULT, Policy
from kubestow.models.execution.execution_grace import NO_HISTORY, History
from kubestow.models.snapshot.scope import select
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.solver.executors.pool import WorkerPool
from kubestow.solver.runtime.options import OnProgress, Progress


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """Options of an audit.

    Attributes:
        policy: Weights and switches of the policy file.
        daemon_namespaces: Namespaces exempt from hard anti-affinity. Empty: those of the policy.
        machine_labels: Node labels that name physical machines. The first one that all control-plane nodes carry is
            used. Empty: the defaults.
        stage_labels: Node labels of larger failure domains (zones, clouds, locations), by name. Empty: the
            defaults.
        time_limit: Seconds for the whole audit. Checks that search get at most a quarter.
        chosen: Filters for the findings to report.
        history: Earlier observations of the cluster.
    """

    policy: Policy = DEFAULT
    daemon_namespaces: tuple[str, ...] = ()
    machine_labels: tuple[str, ...] = ()
    stage_labels: dict[str, str] = field(default_factory=dict)
    time_limit: float = 60.0
    chosen: FindingFilters = EVERYTHING
    history: History = NO_HISTORY


def audit(
    snapshot: Snapshot,
    options: AuditOptions,
    *,
    on_progress: OnProgress | None = None,
    stop: threading.Event | None = None,
    began: float | None = None,
) -> Audit:
    """Return the Audit document of :func:`examine`."""
    return examine(snapshot, options, on_progress=on_progress, stop=stop, began=began)[0]


def examine(
    snapshot: Snapshot,
    options: AuditOptions,
    *,
    on_progress: OnProgress | None = None,
    stop: threading.Event | None = None,
    began: float | None = None,
    pool: WorkerPool | None = None,
) -> tuple[Audit, Reported]:
    """Run all checks with a selected code; return the document, and the findings with the data for a baseline.

    Args:
        stop: May be set from another thread. Searching checks then end and say so in ``notChecked``.
        began: Start of the audit on the monotonic clock, in seconds. None: now.
        pool: Workers that share the searches.

    Raises:
        InputError: Quantities cannot be summed, or a selected namespace does not exist.
    """
    started = time.monotonic() if began is None else began
    view = ClusterView(
        snapshot,
        policy=options.policy,
        exempt=options.daemon_namespaces or options.policy.daemonNamespaces,
        machine_labels=options.machine_labels,
        stage_labels=dict(options.stage_labels),
        began=started,
        deadline=started + options.time_limit,
        stop=stop or threading.Event(),
        pool=pool,
        history=options.history,
    )
    options.chosen.check(view)
    found: list[Finding] = []
    for check, codes in CHECKS.items():
        if not any(map(options.chosen.has, codes)):
            continue
        if on_progress is not None:
            name = check.__module__.rpartition(".")[2].replace("_", " ")
            on_progress(Progress("audit", None, None, None, None, time.monotonic() - started, name))
        found += check(view)
    found.sort(key=lambda f: (f.code, f.object))
    reported = report(view, found, options.chosen)
    findings = sorted(reported.findings, key=lambda f: (SEVERITIES.index(f.severity), f.code, f.object))
    pending = select(snapshot).pending
    costs = opportunity_cost.describe(view, options.chosen.namespaces) if options.chosen.has(opportunity_cost.COST.code) else None
    document = Audit(
        _snapshot_ref(view, len(pending)),
        {severity: sum(f.severity == severity for f in findings) for severity in SEVERITIES},
        findings,
        describe(view),
        list(dict.fromkeys(view.not_checked)),
        unmodelled.find(snapshot, (snapshot.pods[i] for i in pending), tiers=options.policy.networkTiers),
        selection=reported.selection,
        notes=grace_notes(view),
        requirements=requirements(view),
        opportunityCosts=costs,
    )
    return document, reported


def _snapshot_ref(view: ClusterView, pending: int) -> SnapshotRef:
    """Return the reference to the audited snapshot, with the settings that affect its rules."""
    snapshot = view.snapshot
    return SnapshotRef(
        snapshot.sha256,
        len(snapshot.nodes),
        len(snapshot.pods),
        pending,
        daemonNamespaces=list(view.exempt),
        kubernetesVersion=snapshot.gates.version,
        featureGates=dict(snapshot.gates.given),
    )
