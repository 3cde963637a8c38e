"""Quotas and LimitRanges during a change: waiting pods, refused rollouts, pod-by-pod updates, and other orders of
the changes.

Source of DaemonSets: pkg/controller/daemon/update.go (rollingUpdate) and pkg/controller/daemon/util (SurgeCount,
UnavailableCount).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import msgspec

from kubestow.audit.gate.changes import WorkloadChange
from kubestow.models.cluster import rollout_admission
from kubestow.models.cluster.admission import QUOTA, Admission, Refusal, may_refuse, usage
from kubestow.models.cluster.rollout_admission import Book, RolloutAdmission
from kubestow.models.documents.placement import Reason, Rollout
from kubestow.models.documents.policy import Policy
from kubestow.models.kube.objects import ObjectMeta, Pod, pod_key
from kubestow.models.kube.workload_objects import DeploymentStrategy, RollingUpdate
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.models.workloads.deployment_rollout import Old, old_pods, pace, scaled
from kubestow.models.workloads.expand import owned
from kubestow.models.workloads.pods import admitted
from kubestow.models.workloads.view import view
from kubestow.solver.rollout.quota_flow import halts, raised
from kubestow.solver.runtime.options import Options

MULTI_ATTACH = "MultiAttach"
Blame = tuple[str, str]  # A rule and its message.


@dataclass(frozen=True)
class AdmittedPods:
    """Pending pods of the cluster. They are admitted, so quotas count them, but they are not placed.

    Attributes:
        own: Pods of changing workloads, by ``Kind namespace/name``.
        others: All other pending pods.
    """

    own: dict[str, list[Pod]]
    others: list[Pod]

    def at_start_of(self, state: Snapshot, change: WorkloadChange, settled: Collection[str]) -> Snapshot:
        """Return the cluster at the start of a rollout: with the Deployment's own pending pods; other pending pods
        count in quotas only.

        Args:
            state: The cluster without pending pods.
            change: The Deployment.
            settled: Workloads whose pods no longer wait.
        """
        others = [pod for ref, pods in self.own.items() if ref != change.ref and ref not in settled for pod in pods]
        return replace(state, pods=[*state.pods, *self.own.get(change.ref, ())], left_out=[*state.left_out, *others])


def waiting(cluster: Snapshot, indices: Collection[int], changes: Sequence[WorkloadChange]) -> AdmittedPods:
    """Return the pods at ``indices``, split by whether their workload changes."""
    unassigned, own = dict.fromkeys(indices), dict[str, list[Pod]]()
    for change in (each for each in changes if not each.refused) if indices else ():
        if change.kind == "Pod":
            mine = [i for i in unassigned if pod_key(cluster.pods[i]) == f"{change.namespace}/{change.name}"]
        else:
            mine = [i for i in owned(cluster, change.kind, change.namespace, change.name) if i in unassigned]
        for i in mine:
            del unassigned[i]
        own[change.ref] = [cluster.pods[i] for i in mine]
    return AdmittedPods(own, [cluster.pods[i] for i in unassigned])


def remaining(change: WorkloadChange, start: Snapshot, options: Options) -> list[Pod]:
    """Return pods whose quota usage is a lower bound during a rollout: the available pods that maxUnavailable
    always keeps.

    Return no pods if the new pods use less than the old ones or other quotas count them. Also return none if quotas
    charge opportunity cost, because that depends on the nodes.
    """
    workload = view(change.obj)
    if not change.rolls or workload is None or not start.resource_quotas or options.policy.quotaCharge != "requests":
        return []
    steps = pace(change.obj)
    indices = owned(start, change.kind, change.namespace, change.name)
    old = [start.pods[entry.index] for entry in old_pods(start, indices)[0] if entry.available][: 0 if steps.recreate else steps.least]
    new = Pod(ObjectMeta(namespace=change.namespace), admitted(workload.spec, change.namespace, start))
    admission, uses = Admission(start), usage(new)
    quotas = admission.concerned(new)
    least = (admission.concerned(pod) == quotas and all(uses.get(name, 0) >= used for name, used in usage(pod).items()) for pod in old)
    return old if all(least) else []


def rejected(rollout: Rollout) -> tuple[str, list[Reason]]:
    """Return why a halted rollout makes no progress, as text and as reasons."""
    reasons = [reason for stuck_pod in rollout.stuck[:1] for reason in stuck_pod.reasons]
    nodes = ", ".join(f"{r.rule} on {r.nodes} node{'s' * (r.nodes != 1)} ({r.message})" for r in reasons)
    words = f"the next one is rejected by {nodes}" if nodes else ""
    if reasons and reasons[0].rule == MULTI_ATTACH:
        words = f"pod {rollout.stuck[0].pod} never starts: {reasons[0].message}"
    if rollout.refused is None:
        return words, reasons
    refused = f"{'another' if words else 'the next'} one {rollout.refused.message}"
    return f"{words}; {refused}" if words else refused, [*reasons, rollout.refused]


# --- updates, one pod after the other --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AdmissionHalt:
    """An update that quotas or LimitRanges stop.

    Attributes:
        placed: Number of new pods created before the halt.
        proved: True if the halt occurs in every order of the other changes.
        cause: Cause as text.
        blame: The rules of the cause with their messages.
        fix: Remedies, or None.
    """

    placed: int
    proved: bool
    cause: str
    blame: tuple[Blame, ...]
    fix: str | None


@dataclass(frozen=True)
class _Update:
    """The rolling update of one workload.

    Attributes:
        old: Pods of the old revision.
        wanted: Desired number of pods.
        surge: maxSurge in pods.
        unavailable: maxUnavailable in pods.
    """

    old: Sequence[Old]
    wanted: int
    surge: int
    unavailable: int

    def followed(self, book: Book, order: Sequence[int], *, raising: bool = False) -> int:
        """Return the number of new pods created until all exist or the update halts. Created pods count as
        available.

        Args:
            book: The quotas. They are changed.
            order: Indices into ``old`` in the order of the controller, which leaves ties open.
            raising: Raise a limit whenever it blocks the update.
        """
        alive = sorted(order, key=lambda k: self.old[k].available)
        created, missing = 0, max(0, self.wanted - len(alive))
        while created < self.wanted:
            ailing = sum(not self.old[k].available for k in alive)
            leaving = min(len(alive), ailing + max(0, self.unavailable - missing)) if not self.surge else 0
            for k in alive[:leaving]:
                book.old(k, -1)
            alive, missing = alive[leaving:], missing + leaving
            due = missing + (min(len(alive), ailing + self.surge) if self.surge else 0)
            number = min(due, book.room(), self.wanted - created)
            book.new(number)
            created += number
            replaced = max(0, number - missing)
            missing -= number - replaced
            for k in alive[:replaced]:
                book.old(k, -1)
            alive = alive[replaced:]
            if not number and not leaving:
                if not raising or not due or book.admission.never is not None:
                    break
                book.admit_one()
        return created


@dataclass(frozen=True)
class QuotaClusters:
    """The clusters before and after a change, for the quota check of updates.

    Attributes:
        start: The cluster before the change.
        after: The cluster with all placed pods.
        changes: Changes of the manifests.
        options: Search options with the policy, which defines the quota charges.
    """

    start: Snapshot
    after: Snapshot
    changes: Sequence[WorkloadChange]
    options: Options

    def halt(self, change: WorkloadChange) -> AdmissionHalt | None:
        """Return the point at which quotas or LimitRanges stop an update whose pods fit in the end state.

        Deployments and StatefulSets were already simulated alone. This method adds the usage of other workloads in
        the namespace, which change at the same time in an unknown order.
        """
        if not change.renews or not may_refuse(self.start):
            return None
        others = [each for each in self.changes if each is not change and self._competes(each, change.namespace)]
        if change.kind == "Deployment" and change.rolls and others:
            return self._rollout(change, others)
        if (change.kind == "StatefulSet" and others) or change.kind == "DaemonSet":
            return self._stepwise(change, others)
        return None

    def _competes(self, other: WorkloadChange, namespace: str) -> bool:
        return not other.refused and other.namespace == namespace and (other.renews or other.action in ("new", "scaled"))

    def _limits(self, change: WorkloadChange, others: Sequence[WorkloadChange]) -> tuple[list[Old], int, RolloutAdmission]:
        """Return the old pods, the final number of new pods, and the limits with other workloads at their larger
        size, before or after.
        """
        before = self._pods(self.start, change)
        made = self._pods(self.after, change)
        other_pods = [pod for pod in self.after.pods if pod_key(pod) not in made]
        places = range(len(other_pods), len(other_pods) + len(before))
        now = replace(self.after, pods=[*other_pods, *before.values()])
        old, _ = old_pods(now, places)
        new = next(iter(made.values()), None)
        policy = self._policy(change)
        admission = self._read(now, places, new, policy)
        for other in (each for each in others if each.renews):
            mine = self._pods(self.after, other)
            shrunk = [pod for pod in now.pods if pod_key(pod) not in mine]
            places = range(len(shrunk) - len(before), len(shrunk))
            there = replace(now, pods=[*shrunk, *self._pods(self.start, other).values()])
            admission = admission.with_higher_usage(self._read(there, places, new, policy))
        return old, len(made), admission

    def _read(self, state: Snapshot, old: Sequence[int], new: Pod | None, policy: Policy) -> RolloutAdmission:
        created = msgspec.structs.replace(new, spec=msgspec.structs.replace(new.spec, nodeName=None)) if new is not None else None
        return rollout_admission.read(state, old, created, Admission(state, old, policy=policy, exempt=self.options.exempt))

    def _policy(self, change: WorkloadChange) -> Policy:
        """Return the policy for the quotas of an update.

        For a DaemonSet, quotas charge requests only, because each of its pods may close a node of another size.
        """
        policy = self.options.policy
        return msgspec.structs.replace(policy, quotaCharge="requests") if change.kind == "DaemonSet" else policy

    def notes(self) -> list[str]:
        """Return a note for each update whose quotas count requests although the policy charges opportunity cost."""
        limited = {quota.metadata.namespace or "default" for quota in self.start.resource_quotas.values()}
        found = [each for each in self.changes if each.renews and each.namespace in limited and self._policy(each) != self.options.policy]
        return [f"{each.ref}: quotas count the requests of its pods, not opportunity cost, while it is updated" for each in found]

    def _pods(self, state: Snapshot, change: WorkloadChange) -> dict[str, Pod]:
        if change.kind == "Pod":
            return {pod_key(pod): pod for pod in state.pods if pod_key(pod) == f"{change.namespace}/{change.name}"}
        return {pod_key(state.pods[i]): state.pods[i] for i in owned(state, change.kind, change.namespace, change.name)}

    def _rollout(self, change: WorkloadChange, others: Sequence[WorkloadChange]) -> AdmissionHalt | None:
        old, wanted, admission = self._limits(change, others)
        steps = pace(change.obj)
        if steps.recreate or not old or wanted < steps.replicas or not halts(admission, steps, old):
            return None
        fixes = []
        if not steps.unavailable and not halts(admission, replace(steps, unavailable=1), old):
            fixes.append("maxUnavailable 1 instead of 0")
        limits = raised(admission, steps, old)
        fixes += [rollout_admission.sentence(self.start, limits)] if limits else []
        refusal = Book(admission).refusal() or (QUOTA, "a quota has no room for its surge")
        return self._late(0, refusal, fixes)

    def _late(self, placed: int, refusal: Refusal, fixes: Sequence[str]) -> AdmissionHalt:
        cause = f"it comes to a halt if other workloads of the manifests use up the quota first: {refusal[1]}; not proved"
        return AdmissionHalt(placed, False, cause, (refusal,), "; or ".join(fixes) or None)

    def _stepwise(self, change: WorkloadChange, others: Sequence[WorkloadChange]) -> AdmissionHalt | None:
        """Return the halt of an update that replaces pods one by one, or in the batches of a DaemonSet's strategy."""
        strategy = change.obj.spec.updateStrategy or DeploymentStrategy()
        old, wanted, admission = self._limits(change, others)
        if strategy.type == "OnDelete" or not old or not wanted or not admission.limits:
            return None
        rolling = strategy.rollingUpdate or RollingUpdate()
        update = _paced(old, wanted, rolling) if change.kind == "DaemonSet" else _Update(old, wanted, 0, 1)
        for order in _orders(admission):
            book = Book(admission)
            created = update.followed(book, order)
            refusal = book.refusal() if created < wanted else None
            if refusal is not None:
                fixes = _fixes(update, self.start, admission)
                if others:
                    return self._late(created, refusal, fixes)
                text = f"cannot be created: {refusal[1]}"
                steps = f"maxSurge {update.surge}" if update.surge else f"maxUnavailable {update.unavailable}"
                cause = f"its rolling update comes to a halt with {created} of {wanted} new pods ({steps}): the next one {text}"
                return AdmissionHalt(created, True, cause, ((refusal[0], text),), "; or ".join(fixes) or None)
        return None


def _paced(old: Sequence[Old], wanted: int, rolling: RollingUpdate) -> _Update:
    surge = scaled(rolling.maxSurge or 0, wanted, up=True)
    unavailable = scaled(1 if rolling.maxUnavailable is None else rolling.maxUnavailable, wanted, up=True)
    return _Update(old, wanted, surge, 0 if surge else max(1, unavailable))


def _orders(admission: RolloutAdmission) -> list[list[int]]:
    """Return the orders in which old pods may go: one if all are equal, otherwise smallest usage first and largest usage first."""
    number = len(admission.dimensions[0].old) if admission.dimensions else 0
    by_use = sorted(range(number), key=lambda k: [each.old[k] for each in admission.dimensions])
    return [by_use] if admission.uniform else [by_use, by_use[::-1]]


def _fixes(update: _Update, start: Snapshot, admission: RolloutAdmission) -> list[str]:
    """Return remedies: delete old pods first, or raise quotas by the missing amount. Each is simulated to its end."""
    orders, fixes = _orders(admission), []
    first = replace(update, surge=0, unavailable=1)
    if update.surge and all(first.followed(Book(admission), order) == update.wanted for order in orders):
        fixes.append(f"maxUnavailable 1 and maxSurge 0 instead of maxSurge {update.surge}")
    if admission.never is None:
        limits = [each.limit for each in admission.dimensions]
        for order in orders:
            book = Book(admission)
            update.followed(book, order, raising=True)
            limits = [max(pair) for pair in zip(limits, book.limits, strict=True)]
        found = admission.raised(limits)
        fixes += [rollout_admission.sentence(start, found)] if found else []
    return fixes
