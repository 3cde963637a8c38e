"""DaemonSets whose next rolling update gets stuck: with maxSurge, a new pod needs room next to the old one on its node.

Where pods of a workload wait already, other checks say why.
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

#: Pods of one workload that are followed one by one.
FOLLOWED: Final = 300
#: Seconds that one update may be searched for.
EACH: Final = 10.0
#: Searches in parallel for one update: a fixed number, so that machines of different size find the same.
_WORKERS: Final = 1


def stuck_updates(view: ClusterView, settled: Snapshot, deadlock: Code, halt: Code) -> Iterator[Finding]:
    """Yield the updates that come to a halt.

    Args:
        view: The cluster.
        settled: Its snapshot without pods that are being deleted.
        deadlock: The code of halts that are proved.
        halt: The code of others.
    """
    late, large = list[str](), list[str]()
    until = view.search_until()
    for subject in _asked_about(view):
        if len(subject.pods) > FOLLOWED:
            large.append(subject.name)
            continue
        if view.stop.is_set() or time.monotonic() > until:
            late.append(subject.name)
            continue
        kind, _, name = subject.name.partition(" ")
        left = max(0.1, min(EACH, until - time.monotonic()))
        options = Options(time_limit=left, daemon_namespaces=view.exempt, policy=view.policy, workers=_WORKERS)
        try:
            rollout = roll_out(settled, f"{kind}/{name}", None, options, stop=view.stop).rollout
        except InputError as error:
            view.not_checked.append(f"rollout of {subject.name}: {error.problems[0]}")
            continue
        assert rollout is not None
        if not rollout.complete:
            yield _found(view, subject, rollout, deadlock if rollout.proved else halt)
    for names, why in ((late, "for lack of time (--time-limit)"), (large, f"as they have more than {FOLLOWED} pods")):
        if names:
            view.not_checked.append(f"updates that may get stuck, {why}: {some(names)}")


def _asked_about(view: ClusterView) -> Iterator[Subject]:
    """Yield the DaemonSets that surge, with strategy RollingUpdate.

    Those whose pods are yet to be created are left out: the question is whether they can be.
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
    reasons: Sequence[doc.Reason] = [reason for left in rollout.stuck[:1] for reason in left.reasons]
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
