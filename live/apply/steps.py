"""A document as steps in waves: what is done to which pod, and which pods stand in for it afterwards."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from kubestow.models.documents.placement import Placement
from kubestow.models.documents.rebalance_plan import Eviction, Move, RebalancePlan
from kubestow.models.execution.scheduler_needed import devices_wanted
from kubestow.models.kube.objects import Pod, controller_of, pod_key
from kubestow.models.snapshot.snapshot import InputError, Snapshot

#: ``move``: evicted, and its replacement bound; ``recreate``: the same for a pod that no controller creates again; ``evict``: evicted for
#: good; ``bind``: a pending pod is bound.
Kind = Literal["move", "recreate", "evict", "bind"]

#: Labels and annotations that tell the pods of an Indexed Job apart.
COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"
#: Labels that tell the revision of a pod's template.
_REVISIONS: Final = ("pod-template-hash", "controller-revision-hash")


@dataclass(frozen=True, slots=True)
class Origin:
    """What a pod of the snapshot is, as far as its replacement must be like it: ``owner`` is kind, name and uid of its controller;
    ``revision`` tells its template, where a label names it; ``ready``: it was Ready, or nobody said otherwise."""

    key: str
    uid: str
    owner: tuple[str, str, str] | None
    index: str | None = None
    revision: str | None = None
    ready: bool = True

    @property
    def keeps_name(self) -> bool:
        """Return whether its replacement has the same name."""
        return self.owner is None or self.owner[0] == "StatefulSet"


@dataclass(frozen=True, slots=True)
class Step:
    """``number`` and ``wave`` as the document has them (for a Placement the bind order, and one wave); ``pod`` as it names it; ``after``:
    the steps before it have to be done first, since a rule of the pod counts them, or the devices that it gets depend on what others took;
    ``devices``: only the scheduler allocates what it needs."""

    number: int
    wave: int
    pod: str
    source: str | None
    target: str | None
    kind: Kind
    origin: Origin
    gang: str | None = None
    after: bool = False
    devices: bool = False

    @property
    def id(self) -> tuple[int, str]:
        """Return what it is known by: members of a gang may share a number."""
        return self.number, self.pod


def waves(document: RebalancePlan | Placement, snapshot: Snapshot) -> list[list[Step]]:
    """Return the steps of a document wave by wave. ``snapshot``: the one that it was made from.

    Raises:
        InputError: it cannot be carried out on a cluster: it is of pods that no cluster has, or a pod has no uid by which it is told.
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
    by_wave: dict[int, list[Step]] = {}
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


def _planned(plan: RebalancePlan, pods: Mapping[str, Pod], needy: Collection[str], problems: list[str]) -> Iterator[Step]:
    """Yield the steps of a plan. ``needy``: pending pods that need devices."""
    for listed in (plan.moves, plan.evictions):
        for entry in listed:
            origin = _origin(entry.pod, pods, problems)
            if origin is not None:
                step = _step(entry, origin)
                yield replace(step, after=True, devices=True) if entry.pod in needy else step


def _step(entry: Move | Eviction, origin: Origin) -> Step:
    if isinstance(entry, Eviction):
        return Step(entry.step, entry.wave, entry.pod, entry.source, None, "evict", origin)
    kind: Kind = "bind" if entry.source is None else "recreate" if origin.owner is None else "move"
    return Step(entry.step, entry.wave, entry.pod, entry.source, entry.to, kind, origin, entry.gang)


def _placed(placement: Placement, pods: Mapping[str, Pod], needy: Collection[str], problems: list[str]) -> Iterator[Step]:
    elsewhere = []
    for entry in placement.assignments:
        origin = _origin(entry.pod, pods, problems)
        if origin is None:
            continue
        now = pods[entry.pod].spec.nodeName or None
        if now is None:
            needs = entry.pod in needy
            after = needs or _counts_others(pods[entry.pod])
            yield Step(entry.order, 1, entry.pod, None, entry.node, "bind", origin, entry.gang, after, needs)
        elif now != entry.node:
            elsewhere.append(entry.pod)
    if elsewhere:
        problems.append(
            f"the Placement has {len(elsewhere)} running pods on other nodes ({elsewhere[0]} first): only a plan of rebalance moves pods"
        )


def _counts_others(pod: Pod) -> bool:
    """Return whether a hard rule of the pod asks where others are, and so when it may be bound."""
    affinity = pod.spec.affinity.podAffinity if pod.spec.affinity is not None else None
    if affinity is not None and (
        affinity.requiredDuringSchedulingIgnoredDuringExecution or affinity.requiredDuringSchedulingRequiredDuringExecution
    ):
        return True
    return any(constraint.whenUnsatisfiable == "DoNotSchedule" for constraint in pod.spec.topologySpreadConstraints or ())


def _origin(key: str, pods: Mapping[str, Pod], problems: list[str]) -> Origin | None:
    pod = pods.get(key)
    if pod is None:
        problems.append(f"the snapshot has no pod {key}, which the document names")
        return None
    if not pod.metadata.uid:
        problems.append(f"the snapshot has no uid of pod {key}: only pods of a captured cluster can be told from later ones of that name")
        return None
    owner = controller_of(pod)
    if owner is not None and not owner.uid:
        problems.append(f"the snapshot has no uid of {owner.kind} {owner.name}, the controller of pod {key}")
        return None
    labels = pod.metadata.labels or {}
    conditions = (pod.status.conditions if pod.status is not None else None) or []
    return Origin(
        key,
        pod.metadata.uid,
        None if owner is None else (owner.kind, owner.name, owner.uid or ""),
        labels.get(COMPLETION_INDEX),
        revision(labels),
        all(condition.status == "True" for condition in conditions if condition.type == "Ready"),
    )


def revision(labels: Mapping[str, str]) -> str | None:
    """Return which template a pod was made from, where a label tells."""
    return next((labels[label] for label in _REVISIONS if label in labels), None)


def targets(steps: Iterable[Step]) -> list[str]:
    """Return the nodes that pods are to go to, in the order of the steps."""
    return list(dict.fromkeys(step.target for step in steps if step.target is not None))
