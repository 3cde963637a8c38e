"""Decisions of other controllers, judged: what they would do on a snapshot, and what a plan would do instead."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from audit.descheduler import policy as descheduler_policy
from audit.descheduler.policy import Policy as DeschedulerPolicy
from audit.descheduler.run import Settings, judge
from audit.run import AuditOptions
from models.documents.audit import Audit
from models.snapshot.snapshot import Snapshot
from solver.runtime.options import OnProgress, Progress


@dataclass(frozen=True)
class Others:
    """Who else decides, as files of theirs say; None: not asked about."""

    descheduler: DeschedulerPolicy | None = None


def read(snapshot: Snapshot, descheduler: str | None) -> Others:
    """Read the files that were given.

    Raises:
        InputError: one of them cannot be read; a line for each problem.
    """
    return Others(descheduler_policy.read(descheduler, snapshot) if descheduler is not None else None)


def judge_others(
    snapshot: Snapshot,
    others: Others,
    found: Audit,
    options: AuditOptions,
    *,
    on_progress: OnProgress | None = None,
    stop: threading.Event | None = None,
    began: float | None = None,
) -> None:
    """Add what others would do to an audit (changed).

    Raises:
        InputError: quantities that cannot be summed.
    """
    started = time.monotonic() if began is None else began
    exempt = options.daemon_namespaces or options.policy.daemonNamespaces
    settings = Settings(options.policy, exempt, options.time_limit, started + options.time_limit, stop or threading.Event())
    if others.descheduler is not None:
        if on_progress is not None:
            on_progress(Progress("audit", None, None, None, None, time.monotonic() - started, "descheduler"))
        found.descheduler = judge(snapshot, others.descheduler, settings)
