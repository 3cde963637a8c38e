"""Quotas and LimitRanges along the way of a change: pods that wait, rollouts that are refused new pods, and updates of DaemonSets.

Source of the latter: pkg/controller/daemon/update.go (rollingUpdate) and pkg/controller/daemon/util (SurgeCount, UnavailableCount).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from audit.gate.changes import Change
from models.cluster import rollout_admission
from models.cluster.rollout_admission import Book, Limits
from models.documents.placement import Reason, Rollout
from models.kube.objects import Pod, pod_key
from models.kube.workload_objects import DeploymentStrategy, RollingUpdate
from models.snapshot.snapshot import Snapshot
from models.workloads.deployment_rollout import Old, old_pods, scaled
from models.workloads.expand import owned

Blame = tuple[str, str]  # a rule, and its sentence


@dataclass(frozen=True)
class Waiting:
    """Pods that wait in a cluster and are not placed: they have been admitted, so that quotas count them.

    ``own``: those of workloads that change, by ``Kind namespace/name``; ``others``: the rest.
    """

    own: dict[str, list[Pod]]
    others: list[Pod]

    def beside(self, state: Snapshot, change: Change, settled: Collection[str]) -> Snapshot:
        """Return the cluster as a rollout finds it: with the Deployment's pods that wait, and those of others in quotas only.

        Args:
            state: The cluster without pods that wait.
            change: The Deployment.
            settled: Workloads whose pods do not wait any more.
        """
        others = [pod for ref, pods in self.own.items() if ref != change.ref and ref not in settled for pod in pods]
        return replace(state, pods=[*state.pods, *self.own.get(change.ref, ())], left_out=[*state.left_out, *others])


def waiting(cluster: Snapshot, indices: Collection[int], changes: Sequence[Change]) -> Waiting:
    """Return the pods at ``indices`` by whether their workload changes."""
    left, own = dict.fromkeys(indices), dict[str, list[Pod]]()
    for change in (each for each in changes if not each.refused) if indices else ():
        if change.kind == "Pod":
            mine = [i for i in left if pod_key(cluster.pods[i]) == f"{change.namespace}/{change.name}"]
        else:
            mine = [i for i in owned(cluster, change.kind, change.namespace, change.name) if i in left]
        for i in mine:
            del left[i]
        own[change.ref] = [cluster.pods[i] for i in mine]
    return Waiting(own, [cluster.pods[i] for i in left])


def rejected(rollout: Rollout) -> tuple[str, list[Reason]]:
    """Return why a halted rollout gets no further, in words and by rules."""
    reasons = [reason for left in rollout.stuck[:1] for reason in left.reasons]
    nodes = ", ".join(f"{r.rule} on {r.nodes} node{'s' * (r.nodes != 1)} ({r.message})" for r in reasons)
    words = f"the next one is rejected by {nodes}" if nodes else ""
    if rollout.refused is None:
        return words, reasons
    refused = f"{'another' if words else 'the next'} one {rollout.refused.message}"
    return f"{words}; {refused}" if words else refused, [*reasons, rollout.refused]


# --- updates of DaemonSets ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Halt:
    """An update of a DaemonSet that comes to a halt: new pods created by then, the cause, the rule, and what would help."""

    placed: int
    cause: str
    blame: tuple[Blame, ...]
    fix: str | None


@dataclass(frozen=True)
class _Update:
    """``old``: pods of the old revision; ``wanted``: nodes that get a pod; ``surge``, ``unavailable``: of the strategy, in pods."""

    old: Sequence[Old]
    wanted: int
    surge: int
    unavailable: int

    def followed(self, book: Book, order: Sequence[int], *, raising: bool = False) -> int:
        """Return how many new pods are created until all are, or nothing goes on. Pods are available once they are created.

        Args:
            book: The quotas, which are changed.
            order: Places in ``old``, as the controller takes them; it leaves the order open.
            raising: Raise limits where one is in the way.
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


def daemon_halt(change: Change, start: Snapshot, after: Snapshot) -> Halt | None:
    """Return where quotas or LimitRanges stop the update of a DaemonSet, which replaces pods node by node.

    Args:
        change: The DaemonSet, with its new template.
        start: The cluster before.
        after: The cluster with all changes.
    """
    strategy = change.obj.spec.updateStrategy or DeploymentStrategy()
    if strategy.type == "OnDelete" or not (start.resource_quotas or start.limit_ranges):
        return None
    before = owned(start, change.kind, change.namespace, change.name)
    there = set(owned(after, change.kind, change.namespace, change.name))
    if not there or not before:
        return None
    new, old = after.pods[min(there)], [start.pods[i] for i in before]
    others = [pod for i, pod in enumerate(after.pods) if i not in there]
    now = replace(after, pods=[*others, *old])
    places = range(len(others), len(now.pods))
    admission = rollout_admission.read(now, places, new, ())
    found, _ = old_pods(now, places)
    update = _paced(found, len(there), strategy.rollingUpdate or RollingUpdate())
    orders = _orders(admission)
    for order in orders if admission.limits else ():
        book = Book(admission)
        created = update.followed(book, order)
        refusal = book.refusal() if created < update.wanted else None
        if refusal is not None:
            text = f"cannot be created: {refusal[1]}"
            pace = f"maxSurge {update.surge}" if update.surge else f"maxUnavailable {update.unavailable}"
            cause = f"its rolling update comes to a halt with {created} of {update.wanted} new pods ({pace}): the next one {text}"
            return Halt(created, cause, ((refusal[0], text),), "; or ".join(_fixes(update, now, admission)) or None)
    return None


def _paced(old: Sequence[Old], wanted: int, rolling: RollingUpdate) -> _Update:
    surge = scaled(rolling.maxSurge or 0, wanted, up=True)
    unavailable = scaled(1 if rolling.maxUnavailable is None else rolling.maxUnavailable, wanted, up=True)
    return _Update(old, wanted, surge, 0 if surge else max(1, unavailable))


def _orders(admission: rollout_admission.RolloutAdmission) -> list[list[int]]:
    """The orders in which old pods go: one where it does not matter, else those that free least and most at first."""
    number = len(admission.dimensions[0].old) if admission.dimensions else 0
    by_use = sorted(range(number), key=lambda k: [each.old[k] for each in admission.dimensions])
    return [by_use] if admission.uniform else [by_use, by_use[::-1]]


def _fixes(update: _Update, now: Snapshot, admission: rollout_admission.RolloutAdmission) -> list[str]:
    """What would help: old pods go first, or quotas are raised by what is missing; both are followed to their end."""
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
        raised: Limits = admission.raised(limits)
        fixes += [rollout_admission.sentence(now, raised)] if raised else []
    return fixes
