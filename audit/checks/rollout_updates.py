"""DaemonSets whose next rolling update gets stuck: with maxSurge, a new pod needs room next to the old one on its
node.

Other checks explain workloads with pending pods.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Final

from kubestow.audit.view.finding import Code, some
from kubestow.audit.view.view import ClusterView, Subject
from kubestow.models.documents import placement as doc
from kubestow.models.documents.findings.audit import Finding
from kubestow.models.snapshot.snapshot import InputError, Snapshot
from kubestow.solver.rollout.simulate import roll_out
from kubestow.solver.runtime.options import Options

#: Largest workload that is simulated pod by pod, in pods.
MAX_SIMULATED_PODS: Final = 300
#: Seconds for the search of one update.
UPDATE_LIMIT_SECONDS: Final = 10.0
#: Parallel searches per update. The number is fixed so that machines of different size get the same result.
_WORKERS: Final = 1


def stuck_updates(view: ClusterView, settled: Snapshot, deadlock: Code, halt: Code) -> Iterator[Finding]:
    """Yield a finding for each update that halts.

    Args:
        view: The cluster.
        settled: Its snapshot without terminating pods.
        deadlock: Code for proved halts.
        halt: Code for other halts.
    """
    late, large = list[str](), list[str]()
    until = view.search_until()
    for subject in _asked_about(view):
        if len(subject.pods) > MAX_SIMULATED_PODS:
            large.append(subject.name)
            continue
        if view.stop.is_set() or time.monotonic() > until:
            late.append(subject.name)
            continue
        kind, _, name = subject.name.partition(" ")
        remaining_seconds = max(0.1, min(UPDATE_LIMIT_SECONDS, until - time.monotonic()))
        options = Options(time_limit=remaining_seconds, daemon_namespaces=view.exempt, policy=view.policy, workers=_WORKERS)
        try:
            rollout = roll_out(settled, f"{kind}/{name}", None, options, stop=view.stop).rollout
        except InputError as error:
            view.not_checked.append(f"rollout of {subject.name}: {error.problems[0]}")
            continue
        assert rollout is not None
        if not rollout.complete:
            yield _found(view, subject, rollout, deadlock if rollout.proved else halt)
    for names, why in ((late, "for lack of time (--time-limit)"), (large, f"because they have more than {MAX_SIMULATED_PODS} pods")):
        if names:
            view.not_checked.append(f"updates that may get stuck, {why}: {some(names)}")


def _asked_about(view: ClusterView) -> Iterator[Subject]:
    """Yield the DaemonSets with maxSurge and strategy RollingUpdate.

    DaemonSets whose pods have not been created yet are skipped, because it is unknown whether they can be.
    """
    ahead = frozenset(view.snapshot.to_create)
    for subject in view.subjects:
        if subject.kind != "DaemonSet" or subject.workload is None or not subject.pods or subject.pod.spec.nodeName:
            continue
        strategy = subject.workload.obj.spec.updateStrategy
        rolling = strategy.rollingUpdate if strategy is not None else None
        rolls = rolling is not None and strategy.type != "OnDelete" and rolling.maxSurge not in (None, 0, "0", "0%")
        if rolls and ahead.isdisjoint(view.keys(subject.pods)):
            yield subject


def _found(view: ClusterView, subject: Subject, rollout: doc.Rollout, code: Code) -> Finding:
    reasons: Sequence[doc.Reason] = [reason for stuck_pod in rollout.stuck[:1] for reason in stuck_pod.reasons]
    texts = ", ".join(f"{reason.rule} ({reason.message})" for reason in reasons)
    placed = sum(not entry.old for wave in rollout.waves for entry in wave.create)
    ways = "; ".join(way.message for way in rollout.waysOut)
    return code.found(
        subject.name,
        f"its next rollout, {placed} of {rollout.replicas} new pods placed: {rollout.halted}" + (f": {texts}" if texts else ""),
        field="spec.updateStrategy",
        rule=reasons[0].rule if reasons else None,
        pods=view.keys(subject.pods),
        fix=f"one of: {ways}" if ways else None,
    )
