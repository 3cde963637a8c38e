"""Workloads whose next rollout comes to a halt, and strategies that no API server takes or that mean something else than they say.

Sources: pkg/controller/deployment/util (ResolveFenceposts) and pkg/apis/apps/validation (ValidateRollingUpdateDeployment,
ValidateRollingUpdateDaemonSet) of Kubernetes; docs/sources.md#even-pods-spreading for the deadlock.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from kubestow.audit.checks.rollout_flow import Flow
from kubestow.audit.checks.rollout_quotas import refused_by_quotas
from kubestow.audit.checks.rollout_updates import stuck_updates
from kubestow.audit.view.finding import Code, some
from kubestow.audit.view.usable_nodes import UsableNodes
from kubestow.audit.view.view import ClusterView, Subject
from kubestow.models.documents import placement as doc
from kubestow.models.documents.findings.audit import Finding
from kubestow.models.documents.policy import Policy
from kubestow.models.kube.objects import is_terminating
from kubestow.models.snapshot.snapshot import InputError, Snapshot
from kubestow.models.workloads.deployment_rollout import DEFAULT, Pace, pace, scaled
from kubestow.solver.executors.pool import Question
from kubestow.solver.rollout.simulate import roll_out
from kubestow.solver.runtime.options import Options

#: Seconds that one rollout may be searched for; those that deadlock do so within their first waves.
EACH: Final = 10.0
#: Searches in parallel for one rollout: a fixed number, so that machines of different size, and many workers, find the same.
_WORKERS: Final = 1

DEADLOCK: Final = Code(
    "KS501", "rollout-deadlock", "error", "The next rollout of a workload comes to a halt, whatever the scheduler chooses",
    "The controller waits for new pods that no node takes, or that a quota refuses, before it deletes old ones: the new version is never "
    "out, and nothing says so but a pending pod, or an event of a ReplicaSet.",
    "Let an old pod go first (maxUnavailable 1), loosen the rule that rejects the new pods, raise the quota, or add a node.",
)  # fmt: skip
HALT: Final = Code(
    "KS502", "rollout-halt", "warning",
    "No way was found for the next rollout of a workload to complete, without a proof that there is none",
    "It most likely comes to a halt with new pods that wait and old ones that stay.",
    "Try it with solve --rollout and a longer time limit; let an old pod go first (maxUnavailable 1).",
)  # fmt: skip
PREEMPTS: Final = Code(
    "KS503", "rollout-needs-preemption", "warning", "The next rollout of a Deployment goes on only if it preempts other pods",
    "Its new pods find no room beside the old ones, so that pods of lower priority, of other people perhaps, are killed for an update.",
    "Let an old pod go first (maxUnavailable 1), or add a node.",
)  # fmt: skip
REFUSED: Final = Code(
    "KS504", "rollout-strategy-refused", "error", "An update strategy that no API server takes",
    "The manifest cannot be applied: either no pod may come first and none may go first, or, of a DaemonSet, both are asked for.",
    "Set maxSurge or maxUnavailable to at least 1 (of a DaemonSet exactly one of them).",
)  # fmt: skip
ROUNDED: Final = Code(
    "KS505", "rollout-rounds-to-none", "info", "A strategy without maxSurge whose maxUnavailable rounds down to no pod",
    "The controller takes one pod nonetheless, as nothing could be updated else: fewer are there than the strategy says.",
    "State maxUnavailable 1, or maxSurge 1 if no pod may be missing.",
)  # fmt: skip
CODES: Final[tuple[Code, ...]] = (DEADLOCK, HALT, PREEMPTS, REFUSED, ROUNDED)
_BY_CODE: Final = {code.code: code for code in CODES}


def check(view: ClusterView) -> Iterator[Finding]:
    yield from _strategies(view)
    if view.snapshot.nodes:
        yield from _halts(view)
        yield from stuck_updates(view, _settled(view.snapshot), DEADLOCK, HALT)


def _settled(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot without pods that are being deleted, which hold nobody up for long."""
    return replace(snapshot, pods=[pod for pod in snapshot.pods if not is_terminating(pod)])


# --- strategies ---------------------------------------------------------------------------------------------------------


def _strategies(view: ClusterView) -> Iterator[Finding]:
    for subject in view.subjects:
        if subject.workload is None or subject.kind not in ("Deployment", "DaemonSet"):
            continue
        obj = subject.workload.obj
        name = "strategy" if subject.kind == "Deployment" else "updateStrategy"
        strategy = getattr(obj.spec, name)
        rolling = strategy.rollingUpdate if strategy is not None and strategy.type in (None, "", "RollingUpdate") else None
        if rolling is None:
            continue
        field = f"spec.{name}.rollingUpdate"
        default = DEFAULT if subject.kind == "Deployment" else None
        surge = rolling.maxSurge if rolling.maxSurge is not None else default or 0
        unavailable = rolling.maxUnavailable if rolling.maxUnavailable is not None else default or 1
        if not _number(surge) and not _number(unavailable):
            yield REFUSED.found(subject.name, f"maxSurge is {surge} and maxUnavailable is {unavailable}", field=field)
        elif subject.kind == "DaemonSet":
            if _number(surge) and _number(unavailable):
                yield REFUSED.found(
                    subject.name, f"maxSurge is {surge} and maxUnavailable is {unavailable}, one of them must be 0", field=field
                )
        elif subject.wanted and not scaled(surge, subject.wanted, up=True) and not scaled(unavailable, subject.wanted, up=False):
            text = f"maxUnavailable {unavailable} of {subject.wanted} replicas is no pod, and maxSurge is {surge}: one pod goes first"
            yield ROUNDED.found(subject.name, text, field=f"{field}.maxUnavailable")


def _number(value: int | str) -> int:
    """A number of pods or of percent, as validation compares it with 0."""
    return value if isinstance(value, int) else int(value.removesuffix("%"))


# --- deadlocks ----------------------------------------------------------------------------------------------------------


def _halts(view: ClusterView) -> Iterator[Finding]:
    subjects = list(_running(view))
    if not subjects:
        return
    began = time.monotonic()
    try:
        flow = Flow(view, [subject for subject, _ in subjects])
        limited = refused_by_quotas(view, subjects)
        verdicts = [None if k in limited else flow.verdict(k, steps) for k, (_, steps) in enumerate(subjects)]
        stuck = [k for k, verdict in enumerate(verdicts) if verdict == "deadlock"]
        codes = _preempted(view, {k: subjects[k] for k in stuck})
    except InputError as error:
        view.not_checked.append(f"rollouts: {error.problems[0]}")
        return
    halts = [Halt(*subjects[k], code, flow.rejected[k]) for k, code in codes.items()]
    doubtful = [Halt(*subjects[k]) for k, verdict in enumerate(verdicts) if verdict is None or (k in stuck and k not in codes)]
    del flow
    until, least = view.search_until(), time.monotonic() - began  # a search compiles as much as all this did
    yield from _searched(view, [*doubtful, *halts], until, least)  # of the latter the ways out are searched for


@dataclass(frozen=True)
class Halt:
    """A rollout that comes to a halt, or may (``code`` None). ``rejected``: rules that reject the first new pod, each with the number of
    nodes and words."""

    subject: Subject
    pace: Pace
    code: Code | None = None
    rejected: Sequence[tuple[str, int, str]] = ()

    def found(self, view: ClusterView, code: Code | None = None, placed: int = 0, fix: Sequence[str] = ()) -> Finding:
        texts = [f"{rule}{f' on {nodes} node' * bool(nodes)}{'s' * (nodes > 1)} ({message})" for rule, nodes, message in self.rejected]
        steps = self.pace
        how = "Recreate" if steps.recreate else f"maxSurge {steps.surge}, maxUnavailable {steps.unavailable} pods"
        left = "" if not texts else f", the next one is rejected by {', '.join(texts)}"
        code = self.code or code
        assert code is not None
        return code.found(
            self.subject.name,
            f"its next rollout, with {how}: {placed} of {steps.replicas} new pods placed{left}",
            field="spec.strategy",
            rule=self.rejected[0][0] if self.rejected else None,
            pods=view.keys(self.subject.pods),
            fix=f"one of: {'; '.join(fix)}" if fix else None,
        )


def _preempted(view: ClusterView, stuck: Mapping[int, tuple[Subject, Pace]]) -> dict[int, Code]:
    """Return which deadlocks remain without the pods that the new ones could preempt; those are left out of which that is not known."""
    found: dict[int, Code] = {}
    by_priority: dict[int, list[int]] = {}
    lowest = min((view.snapshot.pods[i].spec.priority or 0 for i in view.running), default=0)
    for k, (subject, _) in stuck.items():
        spec = subject.pod.spec
        if spec.preemptionPolicy == "Never" or (spec.priority or 0) <= lowest:
            found[k] = DEADLOCK
        else:
            by_priority.setdefault(spec.priority or 0, []).append(k)
    for priority, several in by_priority.items():
        flow = Flow(view, [stuck[k][0] for k in several], priority)
        for place, k in enumerate(several):
            verdict = flow.verdict(place, stuck[k][1])
            if verdict is not None:
                found[k] = DEADLOCK if verdict == "deadlock" else PREEMPTS
    return dict(sorted(found.items()))


def _running(view: ClusterView) -> Iterator[tuple[Subject, Pace]]:
    """The Deployments all of whose pods run: where some wait already, a rollout is not the question."""
    pods, claims = view.snapshot.pods, view.snapshot.persistent_volume_claims
    waiting, unknown, missing = [], [], []
    for subject in view.subjects:
        if subject.kind != "Deployment" or (subject.workload is not None and not subject.wanted):
            continue
        volumes = subject.pod.spec.volumes or ()
        asked = [v.persistentVolumeClaim.claimName for v in volumes if v.persistentVolumeClaim is not None]
        if subject.workload is None:
            missing.append(subject.name)
        elif len(subject.pods) < subject.wanted or any(pods[i].spec.nodeName not in view.node_index for i in subject.pods):
            waiting.append(subject.name)
        elif subject.pod.spec.nodeName or any(not _bound(view.snapshot, claims.get(f"{subject.namespace}/{name}")) for name in asked):
            unknown.append(subject.name)
        else:
            if not view.once(UsableNodes).place(subject).usable.any():
                continue  # no node at all takes a pod of it: KS101 and KS211 to KS214 tell
            try:
                yield subject, pace(subject.workload.obj)
            except InputError as error:
                view.not_checked.append(f"rollout: {error.problems[0]}")
    for names, why in (
        (missing, "the snapshot lacks the Deployment"),
        (waiting, "not all of its pods run on nodes of the snapshot"),
        (unknown, "it names a node, or volumes that the snapshot lacks"),
    ):
        if names:
            view.not_checked.append(f"rollouts where {why}: {some(names)}")


def _bound(snapshot: Snapshot, claim: Any) -> bool:
    """Return whether the snapshot tells where a claim's volume can be used; those of pods that run are bound."""
    return claim is not None and claim.spec.volumeName in snapshot.persistent_volumes


@dataclass(frozen=True, slots=True)
class _Searching:
    """What searches for rollouts have in common. ``snapshot``: without pods that are being deleted, which hold nobody up for long."""

    snapshot: Snapshot
    policy: Policy
    exempt: tuple[str, ...]
    stop: threading.Event

    def rolled(self, snapshot: Snapshot, subject: Subject, until: float, *, zones: bool = True) -> doc.Placement | None:
        """The rollout if it comes to a halt. ``zones``: with those that kubelets align pods to."""
        policy = self.policy
        if not zones:
            snapshot, policy = replace(snapshot, node_topologies={}), msgspec.structs.replace(policy, topologies=())
        left = max(0.1, min(EACH, until - time.monotonic()))
        options = Options(time_limit=left, daemon_namespaces=self.exempt, policy=policy, workers=_WORKERS)
        result = roll_out(_resumed(snapshot, subject), f"Deployment/{subject.name.partition(' ')[2]}", None, options, stop=self.stop)
        return None if result.rollout is None or result.rollout.complete else result


def _resumed(snapshot: Snapshot, subject: Subject) -> Snapshot:
    """Return the snapshot with a Deployment that is not paused: what matters is its rollout once it is resumed."""
    obj = subject.workload.obj if subject.workload is not None else None
    if obj is None or obj.spec is None or not obj.spec.paused:
        return snapshot
    change = msgspec.structs.replace
    found = [change(each, spec=change(each.spec, paused=None)) if each is obj else each for each in snapshot.workloads["Deployment"]]
    return replace(snapshot, workloads={**snapshot.workloads, "Deployment": found})


def _elsewhere(snapshot: Snapshot, policy: Policy, exempt: tuple[str, ...]) -> _Searching:
    return _Searching(snapshot, policy, exempt, threading.Event())


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What a search found: the code of a finding with what it says, or why nothing is known of the rollout (``unknown``)."""

    code: str | None = None
    rejected: Sequence[tuple[str, int, str]] | None = None
    placed: int = 0
    ways: Sequence[str] = ()
    unknown: str = ""


def _searched(view: ClusterView, halts: Sequence[Halt], until: float, least: float) -> Iterator[Finding]:
    """``least``: seconds that a search takes at least."""
    settled = _settled(view.snapshot)
    here = _Searching(settled, view.policy, view.exempt, view.stop)
    question = Question(view.pool, _elsewhere, (settled, view.policy, view.exempt), here)

    def parts() -> Iterator[tuple[int, Halt, float]]:
        for number, halt in enumerate(halts):
            if not view.stop.is_set() and time.monotonic() + least < until:
                yield number, halt, until - time.monotonic()

    def late() -> bool:
        return view.stop.is_set() or time.monotonic() > view.deadline

    outcomes = {part[0]: outcome for part, outcome in question.answers(_outcome, parts(), late)}
    left: list[str] = []
    for number, halt in enumerate(halts):
        outcome = outcomes.get(number)
        if outcome is not None and outcome.code is not None:
            rejected = halt.rejected if outcome.rejected is None else outcome.rejected
            yield replace(halt, rejected=rejected).found(view, _BY_CODE[outcome.code], outcome.placed, outcome.ways)
        elif outcome is not None and outcome.unknown:
            view.not_checked.append(f"rollout of {halt.subject.name}: {outcome.unknown}")
        elif outcome is None and halt.code is not None:
            yield halt.found(view)
        elif outcome is None:
            left.append(halt.subject.name)
    if left:
        view.not_checked.append(f"rollouts that may come to a halt, for lack of time (--time-limit): {some(left)}")


def _outcome(searching: _Searching, part: tuple[int, Halt, float]) -> _Outcome:
    """Search one rollout; ``part``: its number, what is known of it, and the seconds that are left for all."""
    _, halt, seconds = part
    subject, snapshot, until = halt.subject, searching.snapshot, time.monotonic() + seconds
    known = halt.code.code if halt.code is not None else None
    try:
        result = searching.rolled(snapshot, subject, until)
        if result is None:
            return _Outcome()
        rollout = result.rollout
        assert rollout is not None
        code = known or (DEADLOCK if rollout.proved else HALT).code
        if code == HALT.code and searching.rolled(snapshot, subject, until, zones=False) is None:
            return _Outcome(unknown="which NUMA zones come free when its pods go is not known")
        lesser = _without_lesser(snapshot, subject) if known is None and rollout.refused is None else None
        if lesser is not None and searching.rolled(lesser, subject, until) is None:
            code = PREEMPTS.code
    except InputError as error:
        return _Outcome(known) if known is not None else _Outcome(unknown=error.problems[0])
    if searching.stop.is_set() and code == HALT.code:
        return _Outcome(unknown="the search was stopped")
    found = [*(reason for stuck in rollout.stuck[:1] for reason in stuck.reasons), *filter(None, [rollout.refused])]
    reasons = [(reason.rule, reason.nodes, reason.message) for reason in found]
    placed = sum(len(wave.create) for wave in rollout.waves)
    return _Outcome(code, reasons, placed, [way.message for way in rollout.waysOut])


def _without_lesser(snapshot: Snapshot, subject: Subject) -> Snapshot | None:
    """The snapshot without the pods that those of a Deployment could preempt; None where there are none."""
    spec = subject.pod.spec
    if spec.preemptionPolicy == "Never":
        return None
    pods = [pod for pod in snapshot.pods if (pod.spec.priority or 0) >= (spec.priority or 0)]
    return replace(snapshot, pods=pods) if len(pods) < len(snapshot.pods) else None
