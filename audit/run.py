"""From a snapshot to an Audit document."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from kubestow.audit.catalogue import CHECKS
from kubestow.audit.checks.anti_affinity import opportunity_cost
from kubestow.audit.checks.control_plane.check import describe, requirements
from kubestow.audit.checks.violated.execution import grace_notes
from kubestow.audit.selection import EVERYTHING, Chosen, Reported, report
from kubestow.audit.view.view import ClusterView
from kubestow.models.cluster import unmodelled
from kubestow.models.documents.findings.audit import SEVERITIES, Audit, Finding
from kubestow.models.documents.placement import SnapshotRef
from kubestow.models.documents.policy import DEFAULT, Policy
from kubestow.models.execution.execution_grace import NO_HISTORY, History
from kubestow.models.snapshot.scope import select
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.solver.executors.pool import Pool
from kubestow.solver.runtime.options import OnProgress, Progress


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """Choices of an audit. ``machine_labels``: node labels that name physical machines, the first that all control-plane nodes have counts;
    ``stage_labels``: labels of the stages beyond, by name (zones, clouds, locations); both empty: the defaults. ``time_limit``: seconds for
    all of it; checks that search take at most a quarter. ``chosen``: what is to be reported. ``history``: what is known of the time
    before."""

    policy: Policy = DEFAULT
    daemon_namespaces: tuple[str, ...] = ()
    machine_labels: tuple[str, ...] = ()
    stage_labels: dict[str, str] = field(default_factory=dict)
    time_limit: float = 60.0
    chosen: Chosen = EVERYTHING
    history: History = NO_HISTORY


def audit(
    snapshot: Snapshot,
    options: AuditOptions,
    *,
    on_progress: OnProgress | None = None,
    stop: threading.Event | None = None,
    began: float | None = None,
) -> Audit:
    """Look for what is wrong: :func:`examine` without what is said beside the document."""
    return examine(snapshot, options, on_progress=on_progress, stop=stop, began=began)[0]


def examine(
    snapshot: Snapshot,
    options: AuditOptions,
    *,
    on_progress: OnProgress | None = None,
    stop: threading.Event | None = None,
    began: float | None = None,
    pool: Pool | None = None,
) -> tuple[Audit, Reported]:
    """Look for what is wrong. ``stop`` may be set from another thread: checks that search then end, and say so in ``notChecked``. Checks
    none of whose codes are chosen are left out. ``pool``: workers who share searches.

    Raises:
        InputError: quantities that cannot be summed, or namespaces that there are not.
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
    """Return which snapshot was judged, and by which rules."""
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
