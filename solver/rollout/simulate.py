"""The entry point of ``solve --rollout``: the waves of a Deployment's new revision next to the old pods, or the reason for a halt."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from kubestow.models.cluster import unmodelled
from kubestow.models.documents import placement as doc
from kubestow.models.documents.policy import DEFAULT
from kubestow.models.kube.objects import pod_key
from kubestow.models.snapshot.scope import Scope, select
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.models.workloads.deployment_rollout import Pace, pace
from kubestow.models.workloads.rollout_input import Revision, kind_of, read
from kubestow.solver.devices.result import devices
from kubestow.solver.explain.undecided import is_undecided
from kubestow.solver.refused_pods import refuse_domain_blocking
from kubestow.solver.rollout import quota_flow
from kubestow.solver.rollout.remedies import RolloutRemedies
from kubestow.solver.rollout.search import RolloutSearch
from kubestow.solver.rollout.state import RolloutCourse, RolloutProblem, RolloutState, other_running_pods
from kubestow.solver.rollout.updates.simulate import roll_update
from kubestow.solver.rollout.verified_result import verified
from kubestow.solver.rollout.worst_end.document import worst_ends
from kubestow.solver.runtime.deadline import Deadline
from kubestow.solver.runtime.options import OnProgress, Options
from kubestow.solver.runtime.progress_trace import ProgressReporter
from kubestow.solver.runtime.run_context import RunContext

#: Resource name of the quota on ReplicaSets.
REPLICA_SETS: Final = "count/replicasets.apps"
#: Note for rollouts that complete only if new pods are created before the old ReplicaSet is scaled up.
OVERTAKEN: Final = (
    "replicas are raised together with the template: the old ReplicaSet is scaled up first, and the quota that its pods use"
    " may halt the rollout; raise the replicas afterwards"
)
#: Note for rollouts whose new pods are charged more by quotas than they request.
CHARGED: Final = (
    "quotas charge opportunity cost (quotaCharge): until the rollout ends, new pods are charged for the largest domain that they may close;"
    " the API server counts requests alone"
)
#: Reason for the halt of a paused rollout.
PAUSED: Final = "nothing rolls: the Deployment is paused, and its controller replaces no pod until it is resumed"
#: Fraction of the time limit for the search; the rest is for remedies and the check.
SEARCH_TIME_FRACTION = 0.6


def roll_out(
    snapshot: Snapshot,
    name: str,
    manifests: Snapshot | None,
    options: Options,
    *,
    on_progress: OnProgress | None = None,
    stop: threading.Event | None = None,
    began: float | None = None,
) -> doc.Placement:
    """Roll out a Deployment, a StatefulSet or a DaemonSet.

    In each wave, the controller creates the pods that maxSurge admits. As many waiting new pods as possible
    are placed, and are available from then on. Then the controller deletes the old pods that availability can
    spare. Other pending pods stay pending. A halt is ``proved`` if it happens for every choice in earlier
    waves, with pods bound one by one until no further pod fits.

    Args:
        name: ``[KIND/][NAMESPACE/]NAME``.
        manifests: The manifests with the new template; None if the template is unchanged.

    Raises:
        InputError: There is no such workload, or several, or its strategy cannot be read.
        InternalFault: The independent checker found the result invalid.
    """
    started = time.monotonic()
    kind, short = kind_of(snapshot, name, manifests)
    if kind != "Deployment":
        return roll_update(snapshot, (name, kind, short), manifests, options, on_progress=on_progress, stop=stop, began=began)
    report = ProgressReporter(on_progress, started)
    report("compile")
    revision = read(snapshot, short, manifests, options.edits)
    problem = problem_of(revision, options)
    refuse_domain_blocking(problem.snapshot, Scope(pending=list(problem.new)), options.policy)
    clock = started if began is None else began
    limit = options.time_limit
    context = RunContext(options, Deadline(options, clock), stop or threading.Event(), report)
    searching = Deadline(replace(options, time_limit=limit and limit * SEARCH_TIME_FRACTION), clock)
    search = RolloutSearch(problem, context.until(searching))
    report("search", detail=f"{len(problem.new)} new pods next to {len(problem.old)} old ones")
    course = search.run()
    resumed = course.complete
    if revision.paused:
        course = RolloutCourse([], complete=False, placed=0, proved=True, bound=0)
    elif not course.complete and is_undecided(problem.snapshot, problem.new):
        course = replace(course, proved=False, bound=problem.pace.replicas)
    remedies: list[doc.Remedy] = []
    if revision.paused and resumed:
        remedies = [doc.Remedy("resume", "resume the Deployment", {"workload": f"Deployment {revision.workload}"})]
    if not course.complete and not revision.paused:
        report("search", detail="remedies")
        remedies = RolloutRemedies(problem, context, revision.workload, lambda n: pace(revision.deployment, n)).find()
    solved = time.monotonic()
    result = _document(snapshot, name, revision, search, course)
    return verified(result, remedies, snapshot, manifests, context, started=started, solved=solved)


def problem_of(revision: Revision, options: Options) -> RolloutProblem:
    """Return the search's view of a rollout."""
    first = len(revision.snapshot.pods)
    with_new = replace(revision.snapshot, pods=[*revision.snapshot.pods, *revision.new])
    new = tuple(range(first, first + len(revision.new)))
    others = other_running_pods(with_new, [*(entry.index for entry in revision.old), *revision.going, *new])
    return RolloutProblem(with_new, revision.pace, tuple(revision.old), new, others, options.exempt, options.policy, tuple(revision.going))


def _replayed(search: RolloutSearch, course: RolloutCourse) -> tuple[RolloutState, dict[int, list[doc.DeviceResult]]]:
    """Return the state at the end of a course, and the devices that new pods got when they were bound."""
    state, table, got = RolloutState(search.problem, search.cluster), search.cluster.devices, dict[int, list[doc.DeviceResult]]()
    for step in course.steps:
        state.create()
        for i, n in step.binds:
            state.bind(i, n)
            if table is not None and (picks := state.picks(i, n)) is not None:
                got[i] = devices(table, search.problem.new[i], picks)
        state.delete(step.deletes)
    return state, got


def _document(snapshot: Snapshot, name: str, revision: Revision, search: RolloutSearch, course: RolloutCourse) -> doc.Placement:
    problem, names = search.problem, search.cluster.nodes.names
    state, got = _replayed(search, course)
    options = search.context.options
    keys = [pod_key(problem.snapshot.pods[i]) for i in problem.new]
    waves: list[doc.Wave] = []
    assignments: list[doc.Assignment] = []
    for number, step in enumerate(course.steps, 1):
        create = []
        for i, n in step.binds:
            assignments.append(doc.Assignment(keys[i], names[n], len(assignments) + 1, devices=got.get(i, [])))
            create.append(doc.RolloutPod(keys[i], names[n], len(assignments), got.get(i, [])))
        waves.append(doc.Wave(number, create, [keys[i] for i in step.waiting], [problem.old[k].key for k in step.deletes]))
    waiting = state.waiting()
    stuck = [doc.Unplaced(keys[i], _reasons(state, i)) for i in waiting]
    unattached = [doc.Unplaced(keys[i], _not_attached(volumes)) for i, volumes in sorted(state.unattached().items())]
    refused = state.refusal() if not course.complete and not revision.paused else None
    refusal = doc.Reason(refused[0], 0, f"cannot be created: {refused[1]}") if refused is not None else None
    why = refusal or _not_created(problem.pace, stopped=search.context.stop.is_set(), paused=revision.paused)
    never = [doc.Unplaced(keys[i], [why]) for i in range(state.created, len(keys))]
    tiers = [_tier(problem, len(assignments), course)]
    status: doc.Status = "optimal" if course.complete else "feasible"
    if keys and not assignments and tiers[0].bound == 0:
        status = "infeasible"
    return doc.Placement(
        snapshot=doc.SnapshotRef(
            snapshot.sha256, len(snapshot.nodes), len(snapshot.pods), len(keys), daemonNamespaces=list(options.exempt),
            edits=options.edits,
            rollout=name,
            kubernetesVersion=snapshot.gates.version, featureGates=dict(snapshot.gates.given),
        ),
        engine="exact",
        status=status,
        objective=tiers if keys else [],
        assignments=assignments,
        unplaced=stuck + never,
        rollout=doc.Rollout(
            workload=f"Deployment {revision.workload}",
            strategy="Recreate" if problem.pace.recreate else "RollingUpdate",
            replicas=problem.pace.replicas,
            maxSurge=problem.pace.surge,
            maxUnavailable=problem.pace.unavailable,
            complete=course.complete,
            proved=course.proved,
            waves=waves,
            stuck=unattached + stuck,
            refused=refusal,
            halted=PAUSED if revision.paused else None,
            worstEnds=worst_ends(problem, search.cluster, search.context) if course.complete else [],
        ),
        unmodelled=[
            *unmodelled.find(problem.snapshot, (problem.snapshot.pods[i] for i in problem.new), tiers=options.policy.networkTiers),
            *revision.unmodelled,
            *_replica_set_quotas(problem),
        ],
        policy=options.policy if options.policy != DEFAULT else None,
        notes=_notes(search, revision.going) + _paused(revision) + _overtaken(problem, course),
    )  # fmt: skip


def _replica_set_quotas(problem: RolloutProblem) -> list[doc.Unmodelled]:
    """Return the quotas on ReplicaSets, of which a rollout creates one. A snapshot need not hold ReplicaSets without pods."""
    namespace = problem.snapshot.pods[problem.new[0]].metadata.namespace or "default" if problem.new else None
    quotas = [quota for quota in problem.snapshot.resource_quotas.values() if (quota.metadata.namespace or "default") == namespace]
    named = [quota for quota in quotas if quota.spec is not None and REPLICA_SETS in (quota.spec.hard or {})]
    effect = "not counted; it may reject the ReplicaSet of the new revision"
    return [doc.Unmodelled(f"ResourceQuota/{namespace}/{quota.metadata.name}", f"spec.hard.{REPLICA_SETS}", effect) for quota in named]


def _overtaken(problem: RolloutProblem, course: RolloutCourse) -> list[str]:
    return [OVERTAKEN] if course.complete and quota_flow.overtaken(problem) else []


def _paused(revision: Revision) -> list[str]:
    return ["the Deployment is paused: its controller does nothing until it is resumed"] if revision.paused else []


def _tier(problem: RolloutProblem, placed: int, course: RolloutCourse) -> doc.TierResult:
    priority = (problem.snapshot.pods[problem.new[0]].spec.priority or 0) if problem.new else 0
    return doc.TierResult("placed", placed, placed if course.complete else max(placed, course.bound), priority)


def _reasons(state: RolloutState, i: int) -> list[doc.Reason]:
    """Return every rule that rejects a waiting pod at the halt, and the number of nodes."""
    g, reasons = state.kind(i), []
    for rule in state.rules:
        mask = rule.rejects(g)
        if mask.any():
            reasons.append(doc.Reason(rule.name, int(np.count_nonzero(mask)), rule.message(g, mask)))
    if not state.cluster.n_nodes:
        reasons.append(doc.Reason("NoNodes", 0, "the snapshot has no nodes"))
    return sorted(reasons, key=lambda r: (-r.nodes, r.rule))


def _not_attached(volumes: Sequence[tuple[str, str]]) -> list[doc.Reason]:
    """Return the reasons why a new pod does not start on its node although the scheduler bound it there."""
    tail = "it can be attached to only one node (ReadWriteOnce)"
    return [doc.Reason("MultiAttach", 1, f"volume {volume} is attached to node {node}: {tail}") for volume, node in volumes]


def _not_created(steps: Pace, *, stopped: bool, paused: bool) -> doc.Reason:
    if paused:
        return doc.Reason("Deployment", 0, "never created: the Deployment is paused")
    if stopped:
        return doc.Reason("Deployment", 0, "not created before the search was stopped")
    limitation = "no new pod while old ones exist" if steps.recreate else f"no more than {steps.most} pods at a time"
    return doc.Reason("Deployment", 0, f"never created: {limitation}")


def _notes(search: RolloutSearch, going: Sequence[int]) -> list[str]:
    problem, notes = search.problem, []
    mine = {*problem.new, *(entry.index for entry in problem.old)}
    others = [i for i in select(problem.snapshot, include_gated=True).pending if i not in mine]
    if others:
        listed = ", ".join(pod_key(problem.snapshot.pods[i]) for i in others[:3]) + (", ..." if len(others) > 3 else "")
        notes.append(f"other pending pods are left out of the rollout: {len(others)} ({listed})")
    if going:
        notes.append(f"terminating pods of the Deployment are taken as gone: {len(going)}")
    if search.zones_held():
        notes.append("the NUMA zones of old pods count as taken after the pods have gone, because the released zones are unknown")
    if problem.admission.by_opportunity_cost:
        notes.append(CHARGED)
    if any(problem.snapshot.pods[i].spec.schedulingGates for i in problem.new[:1]):
        notes.append("the template's scheduling gates are taken as lifted")
    return notes
