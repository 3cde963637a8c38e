"""Pods that name a scheduler of which nothing is seen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kubestow.audit.view.finding import Code
from kubestow.audit.view.view import ClusterView
from kubestow.models.documents.findings.audit import Finding
from kubestow.models.kube.objects import is_terminal, is_terminating
from kubestow.models.workloads.view import listed

UNSEEN: Final = Code(
    "KS226", "scheduler-not-seen", "warning",
    "Pods wait for a scheduler of which nothing is seen",
    "kube-scheduler leaves pods of another schedulerName alone: without that scheduler they stay pending for ever, and nobody says so.",
    "Correct spec.schedulerName, or install that scheduler; a profile of kube-scheduler itself is fine once it has placed a pod.",
)  # fmt: skip
CODES: Final[tuple[Code, ...]] = (UNSEEN,)
_DEFAULT: Final = "default-scheduler"


def check(view: ClusterView) -> Iterator[Finding]:
    """Return a finding for each workload with pods that wait for such a scheduler, or that has none yet. One that has bound pods runs, and
    so does one of whose name there is a workload or a running pod."""
    pods = view.snapshot.pods
    if not view.snapshot.nodes:
        return
    working = {_DEFAULT, *(pod.spec.schedulerName for pod in pods if pod.spec.nodeName)}
    seen: dict[str, bool] = {}
    for subject in view.subjects:
        name = subject.pod.spec.schedulerName
        waiting = [i for i in subject.pods if not pods[i].spec.nodeName and not pods[i].spec.schedulingGates]
        if not name or name in working or subject.pod.spec.nodeName or not (waiting or (subject.wanted and not subject.pods)):
            continue
        if name not in seen:
            seen[name] = _seen(view, name)
        if not seen[name]:
            yield UNSEEN.found(
                subject.name, f"no pod or workload is called {name}, and no pod was ever placed by it",
                field=f"{subject.path}.schedulerName", pods=view.keys(waiting),
            )  # fmt: skip


def _seen(view: ClusterView, name: str) -> bool:
    """Return whether some running pod, or a workload, is called like a scheduler, by its name or a label."""
    if any(name in (obj.metadata.name or "") for obj in listed(view.snapshot)):
        return True
    return any(
        pod.spec.nodeName and not is_terminal(pod) and not is_terminating(pod)
        and (name in (pod.metadata.name or "") or name in (pod.metadata.labels or {}).values())
        for pod in view.snapshot.pods
    )  # fmt: skip
