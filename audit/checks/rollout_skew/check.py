"""Deployments whose next rolling update can end with a larger skew than a topology spread constraint allows.

The constraint counts the pods of old revisions, too, which are gone in the end. Source: KEP-3243
(https://github.com/kubernetes/enhancements/tree/master/keps/sig-scheduling/3243-respect-pod-topology-spread-after-rolling-upgrades).
:mod:`kubestow.solver.rollout.worst_end` computes the worst end.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from kubestow.audit.checks.rollout_flow import revised
from kubestow.audit.checks.rollout_quotas import admissions
from kubestow.audit.view.finding import Code, some
from kubestow.audit.view.view import ClusterView, Subject
from kubestow.models.documents.findings.audit import Finding
from kubestow.models.kube.objects import TopologySpreadConstraint, is_terminating
from kubestow.models.kube.selectors import canonical, label_key_requirements, selector_matches
from kubestow.models.snapshot.gc_pause import no_gc
from kubestow.models.snapshot.snapshot import InputError, Snapshot
from kubestow.models.workloads.deployment_rollout import Pace, old_pods, pace
from kubestow.models.workloads.ownership import HASH
from kubestow.solver.rollout.worst_end.ends import SpreadEnd, WorstEnds
from kubestow.solver.rollout.worst_end.reader import RolloutReader, RolloutStart, may_refuse

#: Maximum number of states to generate in one search. The bound is reached within a few, if it is reached.
MAX_STATES: Final = 2_000
#: Largest Deployment that is searched, in pods.
MAX_PODS: Final = 50

SKEW: Final = Code(
    "KS407", "rollout-skew", "warning", "A rolling update can end with a larger skew than a spread constraint allows",
    "The constraint counts the pods of old revisions, too. They go one by one, and the new pods that were spread around them remain"
    " where they are. One domain may then hold most replicas, or all.",
    "Add matchLabelKeys: [pod-template-hash] to the constraint. Then it counts the pods of one revision only.",
)  # fmt: skip
CODES: Final[tuple[Code, ...]] = (SKEW,)


def check(view: ClusterView) -> Iterator[Finding]:
    """Yield a finding for each constraint that the worst end of a rolling update exceeds."""
    subjects = list(_concerned(view)) if view.snapshot.nodes else []
    if not subjects:
        return
    late, unsure, until = list[str](), list[str](), view.search_until()
    try:
        reader = _reader(view, subjects)
    except InputError as error:
        view.not_checked.append(f"spread after rollouts: {error.problems[0]}")
        return
    ends = WorstEnds(reader, MAX_STATES, lambda: view.stop.is_set() or time.monotonic() > until)
    for k, (subject, _) in enumerate(subjects):
        if view.stop.is_set() or time.monotonic() > until:
            late.append(subject.name)
            continue
        for end in ends.of(k):
            if end.exceeds and end.exact:
                yield _found(view, subject, end)
            elif end.bound > end.max_skew:
                unsure.append(subject.name)
    for names, why in (
        (late, "for lack of time (--time-limit)"),
        (list(dict.fromkeys(unsure)), "because other rules or quotas limit the courses, or there are too many"),
    ):
        if names:
            view.not_checked.append(f"spread after rollouts, {why}: {some(names)}")


def _concerned(view: ClusterView) -> Iterator[tuple[Subject, Pace]]:
    """Yield the Deployments whose pods all run and whose constraints count pods of several revisions."""
    pods = view.snapshot.pods
    for subject in view.subjects:
        if subject.kind != "Deployment" or subject.workload is None or not 1 < subject.wanted <= MAX_PODS or subject.pod.spec.nodeName:
            continue
        running = [i for i in subject.pods if pods[i].spec.nodeName in view.node_index]
        if len(running) == subject.wanted == len(subject.pods) and any(
            _mixes(each, subject) for each in subject.pod.spec.topologySpreadConstraints or ()
        ):
            try:
                steps = pace(subject.workload.obj)
            except InputError:
                continue  # the check of rollouts reports it
            if not steps.recreate:
                yield subject, steps


def _mixes(constraint: TopologySpreadConstraint, subject: Subject) -> bool:
    """Return True if a constraint selects the pods of all revisions of a Deployment."""
    if HASH in (constraint.matchLabelKeys or ()):
        return False
    selector = canonical(constraint.labelSelector, label_key_requirements(subject.labels, constraint.matchLabelKeys))
    return bool(selector) and selector_matches(selector, subject.labels)


def _reader(view: ClusterView, subjects: list[tuple[Subject, Pace]]) -> RolloutReader:
    pods, sets = view.snapshot.pods, view.snapshot.workloads.get("ReplicaSet", [])
    limits = {k: may_refuse(admission, subjects[k][1], len(old)) for k, admission, old in admissions(view, subjects)}
    starts, own = [], set[int]()
    known = Snapshot(pods=pods, workloads={"ReplicaSet": sets})
    for k, (subject, steps) in enumerate(subjects):
        old, _ = old_pods(known, subject.pods)
        own.update(subject.pods)
        starts.append(RolloutStart(steps, tuple(old), revised(subject, pods), limits.get(k, False)))
    fixed = [i for i in view.running if i not in own and not is_terminating(pods[i])]
    with no_gc():
        return RolloutReader(view.snapshot, starts, fixed, view.policy, view.exempt)


def _found(view: ClusterView, subject: Subject, end: SpreadEnd) -> Finding:
    constraints = subject.pod.spec.topologySpreadConstraints or []
    index = next(i for i, c in enumerate(constraints) if (c.topologyKey, c.whenUnsatisfiable) == (end.key, end.when))
    counts = sorted(end.counts.items(), key=lambda item: (-item[1], item[0]))
    shown = some([f"{count} in {domain}" for domain, count in counts])
    text = f"maxSkew {end.max_skew} over {end.key}: its next rollout can end with {shown}, which is a skew of {end.skew}"
    if end.when == "ScheduleAnyway":
        text += ", although each new pod goes to a domain with the fewest pods"
    fix = None
    if end.remedied is not None and end.skew is not None and end.remedied < end.skew:
        fix = f"Add matchLabelKeys: [{HASH}] to its spread constraints: then the skew is at most {end.remedied} in the end."
    return SKEW.found(
        subject.name, text, field=f"{subject.path}.topologySpreadConstraints[{index}]", rule="PodTopologySpread", domain=counts[0][0],
        pods=view.keys(subject.pods), severity=None if end.when == "DoNotSchedule" else "info", fix=fix,
    )  # fmt: skip
