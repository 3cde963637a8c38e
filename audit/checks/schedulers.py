"""Pods that use a scheduler without any sign that it exists."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kubestow.audit.view.finding import Code
from kubestow.audit.view.view import ClusterView
from kubestow.models.documents.findings.audit import Finding
from kubestow.models.kube.lenient_decode import near_names
from kubestow.models.kube.objects import is_terminal, is_terminating
from kubestow.models.workloads.view import listed

UNSEEN: Final = Code(
    "KS226", "scheduler-not-seen", "warning",
    "Pods wait for a scheduler that does not seem to exist",
    "kube-scheduler ignores pods with another schedulerName. Without that scheduler they stay pending, and nothing reports it.",
    "Correct spec.schedulerName, or install that scheduler. A profile of kube-scheduler is recognised once it has placed a pod.",
)  # fmt: skip
CODES: Final[tuple[Code, ...]] = (UNSEEN,)
_DEFAULT: Final = "default-scheduler"


def check(view: ClusterView) -> Iterator[Finding]:
    """Yield a finding for each workload that waits for an unknown scheduler.

    A scheduler is known if it has bound a pod, or if a workload or running pod has its name.
    """
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
                subject.name, f"no pod or workload is named {name}, and it has not placed any pod{near_names(name, filter(None, working))}",
                field=f"{subject.path}.schedulerName", pods=view.keys(waiting),
            )  # fmt: skip


def _seen(view: ClusterView, name: str) -> bool:
    """Return True if a workload, or a running pod by its name or labels, has the name of the scheduler."""
    if any(name in (obj.metadata.name or "") for obj in listed(view.snapshot)):
        return True
    return any(
        pod.spec.nodeName and not is_terminal(pod) and not is_terminating(pod)
        and (name in (pod.metadata.name or "") or name in (pod.metadata.labels or {}).values())
        for pod in view.snapshot.pods
    )  # fmt: skip
