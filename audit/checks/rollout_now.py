"""Rollouts that are stuck now: the controller waits for new pods, and no node can take one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np

from kubestow.audit.checks.rollouts import RolloutHalt
from kubestow.audit.view.finding import Code
from kubestow.audit.view.usable_nodes import INDIFFERENT, plain
from kubestow.audit.view.view import ClusterView, Subject
from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.documents.findings.audit import Finding
from kubestow.models.kube.objects import Pod, controller_of, is_terminating
from kubestow.models.snapshot.scope import Scope
from kubestow.models.snapshot.snapshot import InputError
from kubestow.models.workloads.deployment_rollout import Pace, creations, deletions, old_pods, pace
from kubestow.models.workloads.revisions import same_template
from kubestow.solver import rules

STUCK: Final = Code(
    "KS506", "rollout-stuck", "error", "The rollout of a Deployment is stuck now",
    "The controller waits for a new pod before it deletes old ones or creates more. No node takes the pending new pods, and they may not"
    " preempt others. The rollout stays stuck until something else changes.",
    "Roll back, delete an old pod, or set maxUnavailable to 1. Alternatively, relax the rule that rejects the new pods, or add a node.",
)  # fmt: skip
CODES: Final[tuple[Code, ...]] = (STUCK,)
Rejected = Sequence[tuple[str, int, str]]


@dataclass(frozen=True)
class _Waiting:
    """A Deployment that makes progress only if one of its new pods is placed.

    Attributes:
        subject: The Deployment.
        pace: Parameters of its strategy.
        pods: Indices of its pending new pods.
        placed: Number of new pods that run.
    """

    subject: Subject
    pace: Pace
    pods: list[int]
    placed: int


def check(view: ClusterView) -> Iterator[Finding]:
    """Yield a finding for each Deployment whose rollout is proved to be stuck."""
    waiting = [found for subject in view.subjects if (found := _waiting(view, subject)) is not None] if view.snapshot.nodes else []
    if not waiting:
        return
    try:
        verdicts = _judged(view, [i for each in waiting for i in each.pods])
        lowest = min((view.snapshot.pods[i].spec.priority or 0 for i in view.running), default=0)
        by_priority: dict[int, list[int]] = {}
        for each in waiting:
            spec = each.subject.pod.spec
            if spec.preemptionPolicy != "Never" and (spec.priority or 0) > lowest and all(verdicts[i] for i in each.pods):
                by_priority.setdefault(spec.priority or 0, []).extend(each.pods)
        for priority, pods in by_priority.items():  # without the pods that they could preempt
            with_preemption = _judged(view, pods, priority)
            verdicts.update((i, None) for i in pods if not with_preemption[i])
    except InputError as error:
        view.not_checked.append(f"rollouts in progress: {error.problems[0]}")
        return
    for each in waiting:
        first = verdicts[each.pods[0]]
        if first and all(verdicts[i] for i in each.pods):
            yield RolloutHalt(each.subject, each.pace, STUCK, first).found(view, placed=each.placed)


def _waiting(view: ClusterView, subject: Subject) -> _Waiting | None:
    """Return the pending pods of a stuck rollout. None if the controller can act, or the scheduler has not tried them yet."""
    workload, pods = subject.workload, view.snapshot.pods
    if workload is None or subject.kind != "Deployment" or not subject.wanted or workload.obj.spec.paused:
        return None
    if all(pods[i].spec.nodeName for i in subject.pods):
        return None
    sets = {
        rs.metadata.name: rs
        for rs in view.snapshot.workloads.get("ReplicaSet", ())
        if (rs.metadata.namespace or "default") == subject.namespace
    }
    owners = {i: owner.name if (owner := controller_of(pods[i])) is not None else None for i in subject.pods}
    if not all(name in sets for name in owners.values()):
        return None
    new = [i for i in subject.pods if same_template(workload, sets[owners[i]])]
    waits = [i for i in new if not pods[i].spec.nodeName]
    if not waits or len(new) == len(subject.pods) or any(_undecided(pods[i]) for i in waits):
        return None
    try:
        steps = pace(workload.obj)
    except InputError:
        return None
    old, _ = old_pods(view.snapshot, [i for i in subject.pods if i not in set(new)])
    on = Counter(pods[i].spec.nodeName or "" for i in subject.pods)
    placed = len(new) - len(waits)
    if creations(steps, len(old), len(new)) or deletions(steps, old, on.__getitem__, placed):
        return None
    return _Waiting(subject, steps, waits, placed)


def _undecided(pod: Pod) -> bool:
    """Return True if the scheduler has not decided about a pod yet, or is preempting pods for it."""
    return bool(pod.spec.schedulingGates) or bool(pod.status is not None and pod.status.nominatedNodeName)


def _judged(view: ClusterView, waiting: Sequence[int], least: int | None = None) -> dict[int, Rejected | None]:
    """Return the rules that reject each pending pod, with the number of nodes and a message. None for a pod that
    fits a node.

    Terminating pods are ignored, and with ``least`` also pods with a lower priority.
    """
    snapshot = view.snapshot.copy()
    snapshot.pods = [*view.snapshot.pods]
    for i in waiting:
        snapshot.pods[i] = plain(snapshot.pods[i])
    fixed = [i for i in view.running if not is_terminating(snapshot.pods[i])]
    if least is not None:
        fixed = [i for i in fixed if (snapshot.pods[i].spec.priority or 0) >= least]
    policy = msgspec.structs.replace(view.policy, multipliers=INDIFFERENT, defaultConstraints=())
    cluster = compile_cluster(snapshot, Scope(fixed=fixed, pending=list(waiting)), daemon_namespaces=view.exempt, policy=policy)
    active = rules.build(cluster)
    found: dict[int, Rejected | None] = {}
    for g, cls in enumerate(cluster.classes):
        masks: Mapping[str, tuple[int, str, list[int]]] = {
            rule.name: (int(np.count_nonzero(mask)), rule.message(g, mask), np.flatnonzero(mask).tolist())
            for rule in active
            if (mask := rule.rejects(g)).any()
        }
        every = {n for _, _, nodes in masks.values() for n in nodes}
        rejected = sorted(((name, count, text) for name, (count, text, _) in masks.items()), key=lambda each: (-each[1], each[0]))
        found.update(dict.fromkeys(cls.pods, rejected if len(every) == cluster.n_nodes else None))
    return found
