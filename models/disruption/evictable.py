"""The running pods that a plan leaves where they are, with the reasons."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from kubestow.models.disruption.eviction_requests import requested
from kubestow.models.disruption.pod_disruption_budgets import budgets, ignores_budgets
from kubestow.models.documents.rebalance_plan import Exclusion
from kubestow.models.gangs.declarations import Groups
from kubestow.models.gangs.markers import members, names
from kubestow.models.kube import objects
from kubestow.models.snapshot.scope import SAFE_TO_EVICT_ANNOTATION, is_mirror, is_replicated
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.models.workloads.gangs.running_gangs import disturbed

#: Annotations of Karpenter and the descheduler. The latter count with any value.
DO_NOT_DISRUPT: Final = "karpenter.sh/do-not-disrupt"
_PREFER_NO_EVICTION: Final = "descheduler.alpha.kubernetes.io/prefer-no-eviction"
_EVICT: Final = "descheduler.alpha.kubernetes.io/evict"

#: Reasons that take precedence over other parties' eviction requests.
_BEFORE_REQUESTS: Final = ("terminating", "mirror", "daemonset")


def exclusions(snapshot: Snapshot, also_move: Collection[str] = (), *, tiers: Sequence[str] = ()) -> dict[int, Exclusion]:
    """Return the reasons why running pods must not move, by index into ``snapshot.pods``.

    Pods run if they are on a node of the snapshot and not finished. The first reason counts, in the order of
    :data:`kubestow.models.documents.rebalance_plan.Exclusion`. Pods that may move are absent. Unreadable gang
    annotations are no error here: the remainder of the declaration counts, and all members belong together.

    Sources: cluster-autoscaler simulator/drainability and utils/pod, karpenter.sh concepts (disruption),
    descheduler pkg/descheduler/evictions and the Eviction API (it rejects a pod that several budgets select, or
    one that allows none).

    Args:
        also_move: ``bare`` and ``local-storage`` lift these two reasons.
        tiers: The policy's ``networkTiers``.
    """
    nodes = {node.metadata.name for node in snapshot.nodes}
    gangs, refused, claiming = set(_gang_members(snapshot, tiers)), _refused(snapshot), _claiming(snapshot)
    requests = requested(snapshot)
    found: dict[int, Exclusion] = {}
    for i, pod in enumerate(snapshot.pods):
        if pod.spec.nodeName in nodes and not objects.is_terminal(pod):
            reason = _own_reason(pod, also_move)
            if reason not in _BEFORE_REQUESTS and requests and objects.pod_key(pod) in requests:
                reason = "eviction-requested"
            if reason is None and i in gangs:
                reason = "gang"
            if reason is None and "local-storage" not in also_move and _keeps_local_data(pod):
                reason = "local-storage"
            if reason is None and (pod.spec.resourceClaims or (pod.metadata.uid and pod.metadata.uid in claiming)):
                reason = "devices"
            if reason is None and i in refused:
                reason = "budgets"
            if reason is not None:
                found[i] = reason
    return found


def _own_reason(pod: objects.Pod, also_move: Collection[str]) -> Exclusion | None:
    """Return the reason that the metadata give, from ``terminating`` to ``owner``."""
    annotations, owner = pod.metadata.annotations or {}, objects.controller_of(pod)
    if objects.is_terminating(pod):
        return "terminating"
    if is_mirror(pod):
        return "mirror"
    if owner is not None and owner.kind == "DaemonSet":
        return "daemonset"
    if (
        annotations.get(SAFE_TO_EVICT_ANNOTATION) == "false"
        or annotations.get(DO_NOT_DISRUPT) == "true"
        or _PREFER_NO_EVICTION in annotations
    ):
        return "do-not-disrupt"
    if owner is None:
        return None if "bare" in also_move or _EVICT in annotations else "bare"
    return None if is_replicated(pod) else "owner"


def _keeps_local_data(pod: objects.Pod) -> bool:
    """Return True if a pod would lose data on its node, and does not state that it may."""
    annotations = pod.metadata.annotations or {}
    if annotations.get(SAFE_TO_EVICT_ANNOTATION) == "true" or _EVICT in annotations:
        return False
    return any(
        volume.hostPath is not None or (volume.emptyDir is not None and volume.emptyDir.medium != "Memory")
        for volume in pod.spec.volumes or ()
    )


def _gang_members(snapshot: Snapshot, tiers: Sequence[str]) -> Iterator[int]:
    """Yield the members of gangs that need several members, or keep them in one domain."""
    for gang in living_gangs(snapshot, tiers):
        if gang.needed > 1 or gang.together:
            yield from gang.pods


@dataclass(frozen=True)
class LivingGang:
    """A gang with several pods that are neither finished nor being deleted.

    Attributes:
        name: ``namespace/name``.
        pods: Indices into ``snapshot.pods``.
        needed: Number of members without which the gang does not run.
        together: True if all members have to be in one domain.
    """

    name: str
    pods: tuple[int, ...]
    needed: int
    together: bool


def living_gangs(snapshot: Snapshot, tiers: Sequence[str] = ()) -> Iterator[LivingGang]:
    """Yield the gangs with more than one living pod: those that pods declare, then those of custom workloads."""
    pods = snapshot.pods
    living = members(pods, (i for i, pod in enumerate(pods) if not objects.is_terminal(pod) and not objects.is_terminating(pod)))
    groups = Groups(snapshot, tiers) if living else None
    called = names(living)
    for named, indices in living.items():
        if groups is not None and len(indices) > 1:
            declared = groups.declared(named, [pods[i] for i in indices])
            needed = len(indices) if declared.minimum is None else declared.minimum
            yield LivingGang(called[named], tuple(indices), needed, declared.topology is not None and declared.topology[1])
    for name, together in disturbed(snapshot):
        yield LivingGang(name, together, len(together), False)


def _claiming(snapshot: Snapshot) -> set[str]:
    """Return the uids of pods that own ResourceClaims, made from templates or for extended resources of a DeviceClass."""
    owners = [owner for claim in snapshot.resource_claims.values() for owner in claim.metadata.ownerReferences or ()]
    return {owner.uid for owner in owners if owner.controller and owner.kind == "Pod" and owner.uid}


def _refused(snapshot: Snapshot) -> set[int]:
    """Return the pods that the Eviction API does not evict: several budgets select them, or one that allows none now."""
    once: set[int] = set()
    refused: set[int] = set()
    for budget in budgets(snapshot):
        refused |= once.intersection(budget.pods)
        once.update(budget.pods)
        if not budget.allowed:
            refused.update(i for i in budget.pods if i not in budget.free)
    return {i for i in refused if not ignores_budgets(snapshot.pods[i])}
