"""The steps of a document by wave, and the identity of their pods."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from kubestow.models.documents.placement import Placement
from kubestow.models.documents.rebalance_plan import Eviction, Move, RebalancePlan
from kubestow.models.execution.scheduler_needed import devices_wanted
from kubestow.models.kube.objects import Pod, controller_of, pod_key
from kubestow.models.snapshot.snapshot import InputError, Snapshot

#: ``move``: evict a pod and bind its replacement. ``recreate``: the same for a pod that no controller recreates. ``evict``: evict a pod for
#: good. ``bind``: bind a pending pod.
Kind = Literal["move", "recreate", "evict", "bind"]

#: Label and annotation that identify the pods of an Indexed Job.
COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"
#: Labels with the revision of a pod's template.
_REVISIONS: Final = ("pod-template-hash", "controller-revision-hash")


@dataclass(frozen=True, slots=True)
class PodOrigin:
    """The properties of a pod that its replacement must share.

    Attributes:
        key: Namespace/name.
        uid: Uid of the pod.
        owner: Kind, name and uid of its controller; None without one.
        index: Index in an Indexed Job; None otherwise.
        revision: Revision of its template; None without a label.
        ready: True if the pod was Ready or its state is unknown.
    """

    key: str
    uid: str
    owner: tuple[str, str, str] | None
    index: str | None = None
    revision: str | None = None
    ready: bool = True

    @property
    def keeps_name(self) -> bool:
        """True if the replacement has the same name."""
        return self.owner is None or self.owner[0] == "StatefulSet"


@dataclass(frozen=True, slots=True)
class RunStep:
    """One step of a document.

    Attributes:
        number: Number in the document; for a Placement the bind order.
        wave: Wave in the document; 1 for a Placement.
        pod: The pod as named by the document.
        source: Current node; None for a pending pod.
        target: New node; None for an eviction.
        kind: Kind of the step.
        origin: Identity of the pod.
        gang: Gang of the pod; None without one.
        after: True if earlier steps must be done first, because a rule or the allocation of devices depends on them.
        devices: True if the pod needs devices, which only the scheduler allocates.
    """

    number: int
    wave: int
    pod: str
    source: str | None
    target: str | None
    kind: Kind
    origin: PodOrigin
    gang: str | None = None
    after: bool = False
    devices: bool = False

    @property
    def id(self) -> tuple[int, str]:
        """The step's identifier. Members of a gang may share one number."""
        return self.number, self.pod


def waves(document: RebalancePlan | Placement, snapshot: Snapshot) -> list[list[RunStep]]:
    """Return the steps of a document by wave. ``snapshot`` is the one that it was made from.

    Raises:
        InputError: the document cannot be applied, because its pods do not exist in the cluster or have no uid.
    """
    problems = list(_obstacles(document))
    if problems:
        raise InputError(problems)
    pods = {pod_key(pod): pod for pod in snapshot.pods}
    needy = {key for key, pod in pods.items() if not pod.spec.nodeName and devices_wanted(pod, snapshot) is not None}
    if isinstance(document, Placement):
        found = list(_placed(document, pods, needy, problems))
    else:
        found = list(_planned(document, pods, needy, problems))
    if problems:
        raise InputError(problems)
    by_wave: dict[int, list[RunStep]] = {}
    for step in sorted(found, key=lambda step: (step.wave, step.number)):
        by_wave.setdefault(step.wave, []).append(step)
    return list(by_wave.values())


def _obstacles(document: RebalancePlan | Placement) -> Iterator[str]:
    ref, edits = document.snapshot, document.snapshot.edits
    if edits is not None and edits.requests:
        yield f"the {document.kind} is of pods with other requests (--requests), not of those in the snapshot"
    if isinstance(document, RebalancePlan):
        return
    if ref.rollout is not None:
        yield "a Placement of a rollout cannot be applied: the Deployment's own controller carries a rollout out"
    elif ref.workloads:
        yield f"the Placement is of manifests ({ref.workloads[0]}), whose pods no cluster has yet: see solve -f manifests"
    if edits is not None and (edits.addNodes or edits.buy or edits.removeNodes or edits.removeDomains or edits.replicas):
        yield "the Placement is of a cluster with what-if edits, not of the one in the snapshot"


def _planned(plan: RebalancePlan, pods: Mapping[str, Pod], needy: Collection[str], problems: list[str]) -> Iterator[RunStep]:
    """Yield the steps of a plan. ``needy`` are pending pods that need devices."""
    for listed in (plan.moves, plan.evictions):
        for entry in listed:
            origin = _origin(entry.pod, pods, problems)
            if origin is not None:
                step = _step(entry, origin)
                yield replace(step, after=True, devices=True) if entry.pod in needy else step


def _step(entry: Move | Eviction, origin: PodOrigin) -> RunStep:
    if isinstance(entry, Eviction):
        return RunStep(entry.step, entry.wave, entry.pod, entry.source, None, "evict", origin)
    kind: Kind = "bind" if entry.source is None else "recreate" if origin.owner is None else "move"
    return RunStep(entry.step, entry.wave, entry.pod, entry.source, entry.to, kind, origin, entry.gang)


def _placed(placement: Placement, pods: Mapping[str, Pod], needy: Collection[str], problems: list[str]) -> Iterator[RunStep]:
    elsewhere = []
    for entry in placement.assignments:
        origin = _origin(entry.pod, pods, problems)
        if origin is None:
            continue
        now = pods[entry.pod].spec.nodeName or None
        if now is None:
            needs = entry.pod in needy
            after = needs or _counts_others(pods[entry.pod])
            yield RunStep(entry.order, 1, entry.pod, None, entry.node, "bind", origin, entry.gang, after, needs)
        elif now != entry.node:
            elsewhere.append(entry.pod)
    if elsewhere:
        problems.append(
            f"the Placement has {len(elsewhere)} running pods on other nodes ({elsewhere[0]} first): only a plan of rebalance moves pods"
        )


def _counts_others(pod: Pod) -> bool:
    """Return True if the pod has required affinity or a DoNotSchedule constraint.

    Both depend on other pods, so the bind order matters.
    """
    affinity = pod.spec.affinity.podAffinity if pod.spec.affinity is not None else None
    if affinity is not None and (
        affinity.requiredDuringSchedulingIgnoredDuringExecution or affinity.requiredDuringSchedulingRequiredDuringExecution
    ):
        return True
    return any(constraint.whenUnsatisfiable == "DoNotSchedule" for constraint in pod.spec.topologySpreadConstraints or ())


def _origin(key: str, pods: Mapping[str, Pod], problems: list[str]) -> PodOrigin | None:
    pod = pods.get(key)
    if pod is None:
        problems.append(f"the snapshot has no pod {key}, which the document names")
        return None
    if not pod.metadata.uid:
        problems.append(f"the snapshot has no uid of pod {key}: only captured pods can be distinguished from later pods with the same name")
        return None
    owner = controller_of(pod)
    if owner is not None and not owner.uid:
        problems.append(f"the snapshot has no uid of {owner.kind} {owner.name}, the controller of pod {key}")
        return None
    labels = pod.metadata.labels or {}
    conditions = (pod.status.conditions if pod.status is not None else None) or []
    return PodOrigin(
        key,
        pod.metadata.uid,
        None if owner is None else (owner.kind, owner.name, owner.uid or ""),
        labels.get(COMPLETION_INDEX),
        revision(labels),
        all(condition.status == "True" for condition in conditions if condition.type == "Ready"),
    )


def revision(labels: Mapping[str, str]) -> str | None:
    """Return the revision of a pod's template from its labels; None without one."""
    return next((labels[label] for label in _REVISIONS if label in labels), None)


def targets(steps: Iterable[RunStep]) -> list[str]:
    """Return the target nodes in the order of the steps."""
    return list(dict.fromkeys(step.target for step in steps if step.target is not None))
