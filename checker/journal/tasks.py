"""What a document asks for, pod by pod."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from checker.plan.document import entries
from models.documents.placement import Placement
from models.documents.rebalance_plan import RebalancePlan
from models.kube import objects
from models.snapshot.snapshot import Snapshot

#: What becomes of a pod: it gets a node, another node, or none.
Purpose = Literal["bind", "move", "evict"]


@dataclass(frozen=True, slots=True)
class Task:
    """``step``, ``wave``: as the document numbers them; of a Placement the bind order, and one wave. ``source``: None if the pod waits;
    ``target``: None if it goes for good. ``waits``: its rules count other pods, so those before it in the bind order come first."""

    step: int
    wave: int
    pod: str
    source: str | None
    target: str | None
    waits: bool = False

    @property
    def purpose(self) -> Purpose:
        """Return what becomes of the pod."""
        return "evict" if self.target is None else "bind" if self.source is None else "move"

    @property
    def place(self) -> str:
        """Return the node that a fault is about."""
        return self.target or self.source or ""


@dataclass(frozen=True)
class Tasks:
    """``all``: by step and pod, in their order. ``pods``: those of the snapshot by key; ``uids``: of all of these. ``drain``: nodes that
    stay cordoned when all is done."""

    all: dict[tuple[int, str], Task]
    pods: dict[str, objects.Pod]
    uids: frozenset[str]
    drain: frozenset[str] = field(default_factory=frozenset)

    def find(self, step: int | None, pod: str | None) -> Task | None:
        """Return the task of a line."""
        return None if step is None or pod is None else self.all.get((step, pod))

    def final(self) -> dict[str, Task]:
        """Return the last task of each pod."""
        return {task.pod: task for task in self.all.values()}

    def uid(self, pod: str) -> str | None:
        """Return the uid that a pod has in the snapshot."""
        found = self.pods.get(pod)
        return found.metadata.uid or None if found is not None else None


def tasks_of(document: Placement | RebalancePlan, snapshot: Snapshot) -> Tasks:
    """Return what the document asks for. ``snapshot``: the one that it was made from."""
    pods = {objects.pod_key(pod): pod for pod in snapshot.pods}
    uids = frozenset(pod.metadata.uid for pod in snapshot.pods if pod.metadata.uid)
    if isinstance(document, RebalancePlan):
        found = [Task(entry.step, entry.wave, entry.pod, entry.source, entry.target) for entry in entries(document)]
        return Tasks({(task.step, task.pod): task for task in found}, pods, uids, frozenset(document.drain))
    running = {key for key, pod in pods.items() if pod.spec.nodeName}
    found = [
        Task(entry.order, 1, entry.pod, None, entry.node, entry.pod in pods and _counts_others(pods[entry.pod]))
        for entry in sorted(document.assignments, key=lambda entry: entry.order)
        if entry.pod not in running
    ]
    return Tasks({(task.step, task.pod): task for task in found}, pods, uids)


def _counts_others(pod: objects.Pod) -> bool:
    """Return whether a required rule of the pod needs others to be there, or counts them."""
    affinity = pod.spec.affinity.podAffinity if pod.spec.affinity else None
    near = affinity is not None and (
        affinity.requiredDuringSchedulingIgnoredDuringExecution or affinity.requiredDuringSchedulingRequiredDuringExecution
    )
    spread = any(constraint.whenUnsatisfiable == "DoNotSchedule" for constraint in pod.spec.topologySpreadConstraints or ())
    return bool(near) or spread
