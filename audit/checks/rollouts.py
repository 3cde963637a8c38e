"""Workloads whose next rollout gets stuck, and update strategies that are invalid or misleading.

Sources: pkg/controller/deployment/util (ResolveFenceposts) and pkg/apis/apps/validation
(ValidateRollingUpdateDeployment, ValidateRollingUpdateDaemonSet) of Kubernetes; docs/sources.md#even-pods-spreading
for the deadlock.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from kubestow.audit.checks.rollout_flow import RolloutFlow
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
from kubestow.solver.executors.pool import PoolQuestion
from kubestow.solver.rollout.simulate import roll_out
from kubestow.solver.runtime.options import Options

#: Seconds for the search of one rollout. Deadlocks show within their first waves.
ROLLOUT_LIMIT_SECONDS: Final = 10.0
#: Parallel searches per rollout. The number is fixed so that machines of different size, and worker pools, get the
#: same result.
_WORKERS: Final = 1

DEADLOCK: Final = Code(
    "KS501", "rollout-deadlock", "error", "The next rollout of a workload gets stuck, regardless of the scheduler's choices",
    "The controller deletes old pods only after new ones are available, but no node takes the new pods or a quota refuses them. The new "
    "version never rolls out, and only a pending pod or an event of a ReplicaSet shows it.",
    "Allow an old pod to be deleted first (maxUnavailable 1), relax the rule that rejects the new pods, raise the quota, or add a node.",
)  # fmt: skip
HALT: Final = Code(
    "KS502", "rollout-halt", "warning",
    "No way was found for the next rollout of a workload to complete, but it is not proved to be stuck",
    "It probably gets stuck, with new pods pending and old pods still running.",
    "Run solve --rollout with a longer time limit, or allow an old pod to be deleted first (maxUnavailable 1).",
)  # fmt: skip
PREEMPTS: Final = Code(
    "KS503", "rollout-needs-preemption", "warning", "The next rollout of a Deployment can complete only by preempting other pods",
    "Its new pods have no room next to the old ones, so the update evicts pods of lower priority, possibly of other teams.",
    "Allow an old pod to be deleted first (maxUnavailable 1), or add a node.",
)  # fmt: skip
REFUSED: Final = Code(
    "KS504", "rollout-strategy-refused", "error", "API servers reject an update strategy",
    "The manifest cannot be applied: maxSurge and maxUnavailable are both 0 or, for a DaemonSet, both above 0.",
    "Set maxSurge or maxUnavailable to at least 1. For a DaemonSet, set only one of the two.",
)  # fmt: skip
ROUNDED: Final = Code(
    "KS505", "rollout-rounds-to-none", "info", "A strategy without maxSurge has a maxUnavailable that rounds down to 0 pods",
    "The controller deletes one pod anyway, because it could not update otherwise. Fewer pods are available than the strategy states.",
    "Set maxUnavailable to 1, or maxSurge to 1 if all replicas must stay available.",
)  # fmt: skip
CODES: Final[tuple[Code, ...]] = (DEADLOCK, HALT, PREEMPTS, REFUSED, ROUNDED)
_BY_CODE: Final = {code.code: code for code in CODES}


def check(view: ClusterView) -> Iterator[Finding]:
    yield from _strategies(view)
    if view.snapshot.nodes:
        yield from _halts(view)
        yield from stuck_updates(view, _settled(view.snapshot), DEADLOCK, HALT)


def _settled(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot without terminating pods, which will soon be gone."""
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
                    subject.name, f"maxSurge is {surge} and maxUnavailable is {unavailable}, but one must be 0", field=field
                )
        elif subject.wanted and not scaled(surge, subject.wanted, up=True) and not scaled(unavailable, subject.wanted, up=False):
            text = f"maxUnavailable {unavailable} of {subject.wanted} replicas rounds down to 0 pods, and maxSurge is {surge}"
            yield ROUNDED.found(subject.name, text, field=f"{field}.maxUnavailable")


def _number(value: int | str) -> int:
    """Return the number of pods or percent, as validation compares it with 0."""
    return value if isinstance(value, int) else int(value.removesuffix("%"))


# --- deadlocks ----------------------------------------------------------------------------------------------------------


def _halts(view: ClusterView) -> Iterator[Finding]:
    subjects = list(_running(view))
    if not subjects:
        return
    began = time.monotonic()
    try:
        flow = RolloutFlow(view, [subject for subject, _ in subjects])
        limited = refused_by_quotas(view, subjects)
        verdicts = [None if k in limited else flow.verdict(k, steps) for k, (_, steps) in enumerate(subjects)]
        stuck = [k for k, verdict in enumerate(verdicts) if verdict == "deadlock"]
        codes = _preempted(view, {k: subjects[k] for k in stuck})
    except InputError as error:
        view.not_checked.append(f"rollouts: {error.problems[0]}")
        return
    halts = [RolloutHalt(*subjects[k], code, flow.rejected[k]) for k, code in codes.items()]
    doubtful = [RolloutHalt(*subjects[k]) for k, verdict in enumerate(verdicts) if verdict is None or (k in stuck and k not in codes)]
    del flow
    until, least = view.search_until(), time.monotonic() - began  # each search compiles as much as this did
    yield from _searched(view, [*doubtful, *halts], until, least)  # for the latter, only remedies are searched for


@dataclass(frozen=True)
class RolloutHalt:
    """A rollout that halts, or may halt.

    Attributes:
        subject: The Deployment.
        pace: Parameters of its strategy.
        code: Code of the finding. None if the halt is uncertain.
        rejected: Rules that reject the first new pod, each with the number of nodes and a message.
    """

    subject: Subject
    pace: Pace
    code: Code | None = None
    rejected: Sequence[tuple[str, int, str]] = ()

    def found(self, view: ClusterView, code: Code | None = None, placed: int = 0, fix: Sequence[str] = ()) -> Finding:
        texts = [f"{rule}{f' on {nodes} node' * bool(nodes)}{'s' * (nodes > 1)} ({message})" for rule, nodes, message in self.rejected]
        steps = self.pace
        how = "Recreate" if steps.recreate else f"maxSurge {steps.surge}, maxUnavailable {steps.unavailable} pods"
        rejected_text = "" if not texts else f", the next one is rejected by {', '.join(texts)}"
        code = self.code or code
        assert code is not None
        return code.found(
            self.subject.name,
            f"its next rollout, with {how}: {placed} of {steps.replicas} new pods placed{rejected_text}",
            field="spec.strategy",
            rule=self.rejected[0][0] if self.rejected else None,
            pods=view.keys(self.subject.pods),
            fix=f"one of: {'; '.join(fix)}" if fix else None,
        )


def _preempted(view: ClusterView, stuck: Mapping[int, tuple[Subject, Pace]]) -> dict[int, Code]:
    """Return the code of each deadlock, depending on whether it remains after preemption. Uncertain cases are left out."""
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
        flow = RolloutFlow(view, [stuck[k][0] for k in several], priority)
        for place, k in enumerate(several):
            verdict = flow.verdict(place, stuck[k][1])
            if verdict is not None:
                found[k] = DEADLOCK if verdict == "deadlock" else PREEMPTS
    return dict(sorted(found.items()))


def _running(view: ClusterView) -> Iterator[tuple[Subject, Pace]]:
    """Yield the Deployments whose pods all run. If some are pending, the next rollout cannot be judged."""
    pods, claims = view.snapshot.pods, view.snapshot.persistent_volume_claims
    waiting, unknown, missing = [], [], []
    for subject in view.subjects:
        if subject.kind != "Deployment" or (subject.workload is not None and not subject.wanted):
            continue
        volumes = subject.pod.spec.volumes or ()
        claim_names = [v.persistentVolumeClaim.claimName for v in volumes if v.persistentVolumeClaim is not None]
        if subject.workload is None:
            missing.append(subject.name)
        elif len(subject.pods) < subject.wanted or any(pods[i].spec.nodeName not in view.node_index for i in subject.pods):
            waiting.append(subject.name)
        elif subject.pod.spec.nodeName or any(not _bound(view.snapshot, claims.get(f"{subject.namespace}/{name}")) for name in claim_names):
            unknown.append(subject.name)
        else:
            if not view.once(UsableNodes).place(subject).usable.any():
                continue  # no node takes its pods: KS101 and KS211 to KS214 report that
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
    """Return True if the snapshot shows where a claim's volume can be used. Claims of running pods are bound."""
    return claim is not None and claim.spec.volumeName in snapshot.persistent_volumes


@dataclass(frozen=True, slots=True)
class _Searching:
    """Shared data of rollout searches. ``snapshot`` has no terminating pods, which will soon be gone."""

    snapshot: Snapshot
    policy: Policy
    exempt: tuple[str, ...]
    stop: threading.Event

    def rolled(self, snapshot: Snapshot, subject: Subject, until: float, *, zones: bool = True) -> doc.Placement | None:
        """Return the rollout if it halts, otherwise None. With ``zones``, respect the NUMA zones to which kubelets align pods."""
        policy = self.policy
        if not zones:
            snapshot, policy = replace(snapshot, node_topologies={}), msgspec.structs.replace(policy, topologies=())
        remaining_seconds = max(0.1, min(ROLLOUT_LIMIT_SECONDS, until - time.monotonic()))
        options = Options(time_limit=remaining_seconds, daemon_namespaces=self.exempt, policy=policy, workers=_WORKERS)
        result = roll_out(_resumed(snapshot, subject), f"Deployment/{subject.name.partition(' ')[2]}", None, options, stop=self.stop)
        return None if result.rollout is None or result.rollout.complete else result


def _resumed(snapshot: Snapshot, subject: Subject) -> Snapshot:
    """Return the snapshot with a paused Deployment resumed, because its rollout matters once it resumes."""
    obj = subject.workload.obj if subject.workload is not None else None
    if obj is None or obj.spec is None or not obj.spec.paused:
        return snapshot
    change = msgspec.structs.replace
    found = [change(each, spec=change(each.spec, paused=None)) if each is obj else each for each in snapshot.workloads["Deployment"]]
    return replace(snapshot, workloads={**snapshot.workloads, "Deployment": found})


def _elsewhere(snapshot: Snapshot, policy: Policy, exempt: tuple[str, ...]) -> _Searching:
    return _Searching(snapshot, policy, exempt, threading.Event())


@dataclass(frozen=True, slots=True)
class _SearchResult:
    """The result of a search: the data of a finding, or the reason why the outcome is unknown."""

    code: str | None = None
    rejected: Sequence[tuple[str, int, str]] | None = None
    placed: int = 0
    ways: Sequence[str] = ()
    unknown: str = ""


def _searched(view: ClusterView, halts: Sequence[RolloutHalt], until: float, least: float) -> Iterator[Finding]:
    """Yield findings from searches. ``least`` is the minimum number of seconds that a search needs."""
    settled = _settled(view.snapshot)
    here = _Searching(settled, view.policy, view.exempt, view.stop)
    question = PoolQuestion(view.pool, _elsewhere, (settled, view.policy, view.exempt), here)

    def parts() -> Iterator[tuple[int, RolloutHalt, float]]:
        for number, halt in enumerate(halts):
            if not view.stop.is_set() and time.monotonic() + least < until:
                yield number, halt, until - time.monotonic()

    def late() -> bool:
        return view.stop.is_set() or time.monotonic() > view.deadline

    outcomes = {part[0]: outcome for part, outcome in question.answers(_outcome, parts(), late)}
    unchecked: list[str] = []
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
            unchecked.append(halt.subject.name)
    if unchecked:
        view.not_checked.append(f"rollouts that may get stuck, for lack of time (--time-limit): {some(unchecked)}")


def _outcome(searching: _Searching, part: tuple[int, RolloutHalt, float]) -> _SearchResult:
    """Search one rollout. ``part`` holds its number, the rollout, and the remaining seconds for all searches."""
    _, halt, seconds = part
    subject, snapshot, until = halt.subject, searching.snapshot, time.monotonic() + seconds
    known = halt.code.code if halt.code is not None else None
    try:
        result = searching.rolled(snapshot, subject, until)
        if result is None:
            return _SearchResult()
        rollout = result.rollout
        assert rollout is not None
        code = known or (DEADLOCK if rollout.proved else HALT).code
        if code == HALT.code and searching.rolled(snapshot, subject, until, zones=False) is None:
            return _SearchResult(unknown="it is unknown which NUMA zones its deleted pods free")
        lesser = _without_lesser(snapshot, subject) if known is None and rollout.refused is None else None
        if lesser is not None and searching.rolled(lesser, subject, until) is None:
            code = PREEMPTS.code
    except InputError as error:
        return _SearchResult(known) if known is not None else _SearchResult(unknown=error.problems[0])
    if searching.stop.is_set() and code == HALT.code:
        return _SearchResult(unknown="the search was stopped")
    found = [*(reason for stuck in rollout.stuck[:1] for reason in stuck.reasons), *filter(None, [rollout.refused])]
    reasons = [(reason.rule, reason.nodes, reason.message) for reason in found]
    placed = sum(len(wave.create) for wave in rollout.waves)
    return _SearchResult(code, reasons, placed, [way.message for way in rollout.waysOut])


def _without_lesser(snapshot: Snapshot, subject: Subject) -> Snapshot | None:
    """Return the snapshot without the pods that those of a Deployment could preempt. None if there are none."""
    spec = subject.pod.spec
    if spec.preemptionPolicy == "Never":
        return None
    pods = [pod for pod in snapshot.pods if (pod.spec.priority or 0) >= (spec.priority or 0)]
    return replace(snapshot, pods=pods) if len(pods) < len(snapshot.pods) else None
