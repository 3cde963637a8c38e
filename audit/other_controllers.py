"""Simulation of other controllers: the decisions that the descheduler and Karpenter would make on a snapshot, next to a plan's."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from kubestow.audit.descheduler import policy as descheduler_policy
from kubestow.audit.descheduler import run as descheduler
from kubestow.audit.descheduler.policy import SimulatedPolicy as DeschedulerPolicy
from kubestow.audit.karpenter import pools
from kubestow.audit.karpenter import run as karpenter
from kubestow.audit.karpenter.run import KarpenterInput
from kubestow.audit.run import AuditOptions
from kubestow.audit.settings import Settings
from kubestow.models.catalogue.catalogue import Catalogue
from kubestow.models.documents.findings.audit import Audit
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.solver.runtime.options import OnProgress, Progress


@dataclass(frozen=True)
class Others:
    """The configuration of other controllers, as read from their files. None if a controller is not part of the question."""

    descheduler: DeschedulerPolicy | None = None
    karpenter: KarpenterInput | None = None


def read(snapshot: Snapshot, policy: str | None, node_pools: Sequence[str] = (), catalogue: Catalogue | None = None) -> Others:
    """Read the configuration files of other controllers.

    Raises:
        InputError: A file cannot be read; one line per problem.
    """
    captured = snapshot.capture.time if snapshot.capture is not None else ""
    return Others(
        descheduler_policy.read(policy, snapshot) if policy is not None else None,
        KarpenterInput(pools.read(node_pools, captured), catalogue) if node_pools else None,
    )


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
    """Add the decisions of other controllers to ``found``, in place.

    Raises:
        InputError: Quantities cannot be summed.
    """
    started = time.monotonic() if began is None else began
    exempt = options.daemon_namespaces or options.policy.daemonNamespaces
    settings = Settings(options.policy, exempt, options.time_limit, started + options.time_limit, stop or threading.Event())

    def report(name: str) -> None:
        if on_progress is not None:
            on_progress(Progress("audit", None, None, None, None, time.monotonic() - started, name))

    if others.descheduler is not None:
        report("descheduler")
        found.descheduler = descheduler.judge(snapshot, others.descheduler, settings)
    if others.karpenter is not None:
        report("karpenter")
        found.karpenter = karpenter.judge(snapshot, others.karpenter, settings)
