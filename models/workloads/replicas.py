"""The number of pods that a workload wants, and the missing pods.

Sources: pkg/controller/{replicaset,statefulset,job,cronjob,daemon} of k8s.io/kubernetes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

import msgspec

from kubestow.models.kube import objects
from kubestow.models.kube.workload_objects import CronJob, DaemonSet, Job, JobSpec, JobStatus, PodSet, PodSetMember, PodSetSpec, PodTemplate
from kubestow.models.workloads.view import WorkloadView

#: Annotation of a PodTemplate with its number of pods.
REPLICAS: Final = "kubestow.dev/replicas"
INDEX: Final = "batch.kubernetes.io/job-completion-index"
#: Kueue starts a Job as soon as all of its pods fit, so a suspended Job with this label still counts.
_KUEUE: Final = "kueue.x-k8s.io/queue-name"
_RANGE: Final = re.compile(r"([0-9]{1,10})(?:-([0-9]{1,10}))?\Z", re.ASCII)
_FINISHED_CONDITIONS: Final = ("Complete", "Failed", "SuccessCriteriaMet", "FailureTarget")


@dataclass(frozen=True)
class Slot:
    """A pod to make.

    Attributes:
        name: Full name; None: ``base`` with five characters added.
        base: Prefix of a generated name.
        labels: Labels in addition to the template's.
        node: Node of a DaemonSet's pod.
        owner: Controller of this pod; None: that of all pods of the workload.
        gang: Name of the gang of a pod set's pod.
    """

    name: str | None = None
    base: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    node: str | None = None
    owner: objects.OwnerReference | None = None
    gang: str = ""


@dataclass(frozen=True)
class ReplicaPlan:
    """The pods that a workload wants and lacks.

    Attributes:
        wanted: Number of pods that the workload should have now.
        slots: The pods that it lacks.
        warnings: Explanations of surprising numbers.
        gangs: Names of the gangs of the pods that a pod set has already, in their order.
    """

    wanted: int
    slots: Sequence[Slot] = ()
    warnings: tuple[str, ...] = ()
    gangs: tuple[str, ...] = ()


def stated_pods(workload: WorkloadView) -> int:
    """Return the largest stated number of pods at a time; 0 if the number of nodes decides."""
    if workload.kind == "DaemonSet":
        return 0
    if workload.job is not None:
        return 1 if workload.job.parallelism is None else workload.job.parallelism
    return replicas(workload.obj)


def replicas(obj: Any) -> int:
    """Return the stated number of pods of a workload; 1 by default."""
    if isinstance(obj, PodTemplate):
        annotations = (obj.template.metadata.annotations if obj.template and obj.template.metadata else None) or {}
        text = (obj.metadata.annotations or {}).get(REPLICAS, annotations.get(REPLICAS, "1"))
        return int(text) if text.isascii() and text.isdigit() else 1
    count = obj.spec.replicas
    return 1 if count is None else int(count)


def scaled(obj: Any, count: int) -> Any:
    """Return a copy of a workload that wants ``count`` pods; None for kinds that cannot be scaled (DaemonSet)."""
    change = msgspec.structs.replace
    if isinstance(obj, DaemonSet):
        return None
    if isinstance(obj, PodTemplate):
        return change(obj, metadata=change(obj.metadata, annotations={**(obj.metadata.annotations or {}), REPLICAS: str(count)}))
    if isinstance(obj, Job):
        return change(obj, spec=_parallel(obj.spec, count))
    if isinstance(obj, CronJob):
        assert obj.spec is not None
        assert obj.spec.jobTemplate is not None
        template = change(obj.spec.jobTemplate, spec=_parallel(obj.spec.jobTemplate.spec, count))
        return change(obj, spec=change(obj.spec, jobTemplate=template))
    return change(obj, spec=change(obj.spec, replicas=count))


def _parallel(spec: JobSpec | None, count: int) -> JobSpec:
    spec = spec or JobSpec()
    completions = None if spec.completions is None else max(spec.completions, count)
    return msgspec.structs.replace(spec, parallelism=count, completions=completions)


def replicated(workload: WorkloadView, base: str, existing: int, labels: Mapping[str, str] | None = None) -> ReplicaPlan:
    """Return the plan of a Deployment, ReplicaSet, ReplicationController or PodTemplate, whose pods are all equal."""
    wanted = replicas(workload.obj)
    return ReplicaPlan(wanted, [Slot(base=base, labels=labels or {})] * max(0, wanted - existing))


def stateful(workload: WorkloadView, existing: Iterable[objects.Pod], revision: str, is_taken: Callable[[str], bool]) -> ReplicaPlan:
    """Return the plan with the pods of a StatefulSet's missing ordinals.

    Args:
        existing: Pods of the StatefulSet that are neither finished nor being deleted.
        revision: Value of the label ``controller-revision-hash`` of new pods.
        is_taken: Returns True for names of existing pods in its namespace. Such ordinals get no new pod, only a warning.
    """
    spec = workload.obj.spec
    start = (spec.ordinals.start if spec.ordinals is not None else None) or 0
    wanted = replicas(workload.obj)
    living = {pod.metadata.name for pod in existing}
    names = {f"{workload.name}-{start + i}": start + i for i in range(wanted)}
    blocked = {name for name in names if name not in living and is_taken(name)}
    slots = [
        Slot(
            name,
            labels={
                "statefulset.kubernetes.io/pod-name": name,
                "apps.kubernetes.io/pod-index": str(i),
                "controller-revision-hash": revision,
            },
        )
        for name, i in names.items()
        if name not in living and name not in blocked
    ]
    warnings = tuple(f"cannot make its pod {name}: a pod of that name is being deleted or not its own" for name in sorted(blocked))
    return ReplicaPlan(wanted, slots, warnings)


def pod_set(workload: WorkloadView, existing: Sequence[objects.Pod], revision: str, is_taken: Callable[[str], bool]) -> ReplicaPlan:
    """Return the plan of a pod set: the pods of its members that have none.

    Args:
        existing: Pods of the set that are neither finished nor being deleted.
        revision: Hash of the template.
        is_taken: Returns True for names of existing pods in its namespace.
    """
    spec: PodSetSpec = workload.obj.spec
    if spec.suspended:
        return ReplicaPlan(0, warnings=("is suspended: no pods are made",), gangs=("",) * len(existing))
    members = [spec.member(number, revision) for number in range(spec.replicas)]
    generated, varying = spec.pod.endswith("-"), spec.varying
    by_labels = generated or any(part in spec.pod for part in ("{hash}", "{random}"))
    free: dict[tuple[str, ...], list[PodSetMember]] = {}
    for member in reversed(members):
        key = tuple(member.labels[label] for label in varying) if by_labels else (member.name,)
        free.setdefault(key, []).append(member)
    gangs, last = [], members[-1].gang if members else ""
    for pod in existing:
        labels = pod.metadata.labels or {}
        key = tuple(labels.get(label, "") for label in varying) if by_labels else (pod.metadata.name or "",)
        gangs.append(free[key].pop().gang if free.get(key) else last)
    missing = {id(member) for each in free.values() for member in each}
    slots, blocked = [], []
    for member in members:
        if id(member) not in missing:
            continue
        if not generated and is_taken(member.name):
            blocked.append(member.name)
        else:
            name, base = (None, member.name) if generated else (member.name, "")
            slots.append(Slot(name, base, member.labels, owner=member.owner, gang=member.gang))
    warnings = tuple(f"cannot make its pod {name}: a pod of that name is being deleted or not its own" for name in blocked)
    return ReplicaPlan(spec.replicas, slots, warnings, tuple(gangs))


def job(
    workload: WorkloadView,
    name: str,
    status: JobStatus | None,
    existing: Sequence[objects.Pod],
    finished: Sequence[objects.Pod],
) -> ReplicaPlan:
    """Return the plan of a Job with this name, which wants min(parallelism, completions - succeeded) pods.

    Args:
        name: Name of the Job, which for a CronJob is not the workload's.
        status: Status of the Job, if the cluster has it.
        existing: Its pods that are neither finished nor being deleted.
        finished: Its pods that succeeded or failed.
    """
    spec = workload.job
    assert spec is not None
    if _ended(status):
        return ReplicaPlan(0, warnings=("is finished: no more pods are made",))
    wanted = job_wanted(workload, status, existing, finished)
    labels = {"batch.kubernetes.io/job-name": name, "job-name": name}
    if spec.completionMode == "Indexed":
        over, active = _finished_indexes(status, finished), _indexes(existing)
        free = (i for i in range(spec.completions or 0) if i not in active and not any(i in each for each in over))
        missing = islice(free, max(0, wanted - len(existing)))
        return ReplicaPlan(wanted, [Slot(base=_indexed(name, i), labels={**labels, INDEX: str(i)}) for i in missing])
    return ReplicaPlan(wanted, [Slot(base=f"{name}-", labels=labels)] * max(0, wanted - len(existing)))


def job_wanted(workload: WorkloadView, status: JobStatus | None, existing: Sequence[objects.Pod], finished: Sequence[objects.Pod]) -> int:
    """Return the number of pods that a Job should run now; 0 if it is finished or suspended.

    Args:
        status: Status of the Job, if the cluster has it.
        existing: Its pods that are neither finished nor being deleted.
        finished: Its pods that succeeded or failed.
    """
    spec = workload.job
    assert spec is not None
    if _ended(status) or suspended(workload):
        return 0
    parallelism = 1 if spec.parallelism is None else spec.parallelism
    if spec.completionMode == "Indexed":
        return max(0, min(parallelism, (spec.completions or 0) - sum(map(len, _finished_indexes(status, finished)))))
    succeeded = max((status.succeeded if status is not None else None) or 0, len(_succeeded(finished)))
    if spec.completions is None:  # a work queue: after the first success, no more pods are made
        return parallelism if succeeded == 0 else min(parallelism, len(existing))
    return max(0, min(parallelism, spec.completions - succeeded))


def _ended(status: JobStatus | None) -> bool:
    return any(c.type in _FINISHED_CONDITIONS and c.status == "True" for c in (status.conditions if status is not None else None) or ())


def _succeeded(finished: Sequence[objects.Pod]) -> list[objects.Pod]:
    return [pod for pod in finished if pod.status is not None and pod.status.phase == "Succeeded"]


def _finished_indexes(status: JobStatus | None, finished: Sequence[objects.Pod]) -> list[range]:
    """Return the indexes of an Indexed Job that need no more pods."""
    over = [*_ranges(status.completedIndexes), *_ranges(status.failedIndexes)] if status is not None else []
    return over + [range(i, i + 1) for i in _indexes(_succeeded(finished)) if not any(i in each for each in over)]


def suspended(workload: WorkloadView) -> bool:
    """Return True if a Job, a CronJob or a custom workload makes no pods for now."""
    spec = workload.job
    if isinstance(workload.obj, PodSet):
        return workload.obj.spec is not None and workload.obj.spec.suspended
    if workload.kind == "CronJob" and workload.obj.spec.suspend:
        return True
    return bool(spec is not None and spec.suspend) and _KUEUE not in {**(workload.obj.metadata.labels or {}), **workload.labels}


def _indexed(name: str, index: int) -> str:
    """Return podGenerateNameWithIndex: a long Job name is cut, the index is not."""
    suffix = f"-{index}-"
    return name[: 58 - len(suffix)] + suffix


def _indexes(pods: Iterable[objects.Pod]) -> set[int]:
    texts = ({**(p.metadata.annotations or {}), **(p.metadata.labels or {})}.get(INDEX, "") for p in pods)
    return {int(text) for text in texts if text.isascii() and text.isdigit()}


def _ranges(text: str | None) -> Iterator[range]:
    """Yield the ranges of a set of indexes in a Job's status, such as ``0,2-4``."""
    for part in (text or "").split(","):
        match = _RANGE.match(part)
        if match is not None:
            yield range(int(match[1]), int(match[2] or match[1]) + 1)
