"""The running pods that a plan must not move, as the checker determines them.

Source: cluster-autoscaler simulator/drainability, karpenter.sh (disruption), descheduler pkg/descheduler/evictions,
and the Eviction API.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from kubestow.checker.plan.disruption_budgets import Guards, ignored
from kubestow.checker.violation import is_mirror
from kubestow.models.custom_workloads.table import recreating
from kubestow.models.documents.policy import Policy
from kubestow.models.documents.rebalance_plan import Exclusion
from kubestow.models.gangs.declarations import Groups
from kubestow.models.gangs.markers import members
from kubestow.models.kube import objects, workload_objects
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.models.workloads.gangs.running_gangs import disturbed

_REPLACED: Final = ("ReplicaSet", "ReplicationController", "StatefulSet", "Job")
_SAFE: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict"
_DISRUPT: Final = "karpenter.sh/do-not-disrupt"
_EVICT: Final = "descheduler.alpha.kubernetes.io/evict"
_SPARE: Final = "descheduler.alpha.kubernetes.io/prefer-no-eviction"


class Exclusions:
    """The reasons against moving pods.

    Args:
        snapshot: The snapshot.
        guards: Its disruption budgets.
        lifted: Exclusions that the plan lifts (bare, local-storage).
        policy: The policy.
    """

    def __init__(self, snapshot: Snapshot, guards: Guards, lifted: Collection[str], policy: Policy) -> None:
        self._guards, self._lifted = guards, frozenset(lifted)
        self._ganged = frozenset(_ganged(snapshot, policy))
        self._asked_for: dict[tuple[str, str], set[str]] = {}
        for request in snapshot.eviction_requests.values():
            pod = _open_request(request)
            if pod is not None:
                self._asked_for.setdefault((request.metadata.namespace or "default", pod.name), set()).add(pod.uid or "")
        self._claimants = frozenset(
            owner.uid
            for claim in snapshot.resource_claims.values()
            for owner in claim.metadata.ownerReferences or ()
            if owner.controller and owner.kind == "Pod"
        )

    def _is_asked_for(self, pod: objects.Pod) -> bool:
        """Return True if an EvictionRequest for the pod is open."""
        uids = self._asked_for.get((pod.metadata.namespace or "default", pod.metadata.name or ""), ())
        return any(not uid or not pod.metadata.uid or uid == pod.metadata.uid for uid in uids)

    def of(self, pod: objects.Pod) -> Exclusion | None:
        """Return the first reason against moving the pod if it were running, or None."""
        notes, owner = pod.metadata.annotations or {}, objects.controller_of(pod)
        if objects.is_terminating(pod):
            return "terminating"
        if is_mirror(pod):
            return "mirror"
        if owner is not None and owner.kind == "DaemonSet":
            return "daemonset"
        if self._is_asked_for(pod):
            return "eviction-requested"
        if notes.get(_SAFE) == "false" or notes.get(_DISRUPT) == "true" or _SPARE in notes:
            return "do-not-disrupt"
        if owner is None:
            if "bare" not in self._lifted and _EVICT not in notes:
                return "bare"
        elif owner.kind not in _REPLACED and not recreating(owner):
            return "owner"
        if objects.pod_key(pod) in self._ganged:
            return "gang"
        if "local-storage" not in self._lifted and notes.get(_SAFE) != "true" and _EVICT not in notes and _is_local(pod):
            return "local-storage"
        if pod.spec.resourceClaims or (pod.metadata.uid and pod.metadata.uid in self._claimants):
            return "devices"
        guards = [] if ignored(pod) else self._guards.of(pod)
        if len(guards) > 1 or any(guard.guards(pod) and not guard.allowed for guard in guards):
            return "budgets"
        return None


def _open_request(request: workload_objects.EvictionRequest) -> workload_objects.EvictionRequestPod | None:
    """Return the pod of an eviction request that is not withdrawn, failed or done; None otherwise."""
    spec, status = request.spec, request.status
    if spec is None or spec.target is None or spec.intent != "Eviction":
        return None
    ended = {c.type for c in (status.conditions if status is not None else None) or () if c.status == "True"}
    return None if ended & {"Failed", "TargetEvicted"} else spec.target.pod


def _is_local(pod: objects.Pod) -> bool:
    """Return True if the pod stores data on its node: in a hostPath, or in an emptyDir that is not in memory."""
    for volume in pod.spec.volumes or ():
        if volume.hostPath is not None:
            return True
        if volume.emptyDir is not None and volume.emptyDir.medium != "Memory":
            return True
    return False


def _ganged(snapshot: Snapshot, policy: Policy) -> Iterable[str]:
    """Yield the keys of members of gangs that need several living members or one common domain. Declarations are
    parsed by shared code.
    """
    pods = snapshot.pods
    named = members(pods, (i for i, pod in enumerate(pods) if not (objects.is_terminal(pod) or objects.is_terminating(pod))))
    groups = Groups(snapshot, policy.networkTiers) if named else None
    for marker, found in named.items():
        if groups is None or len(found) < 2:
            continue
        declared = groups.declared(marker, [pods[i] for i in found])
        bound = declared.topology is not None and declared.topology[1]
        if bound or declared.minimum is None or declared.minimum > 1:
            yield from (objects.pod_key(pods[i]) for i in found)
    for _, together in disturbed(snapshot):
        yield from (objects.pod_key(pods[i]) for i in together)


def holds_rules(pod: objects.Pod) -> bool:
    """Return True if the pod has required affinity, anti-affinity or DoNotSchedule constraints, which depend on other pods."""
    wanted = pod.spec.affinity
    for part in (wanted.podAffinity, wanted.podAntiAffinity) if wanted else ():
        if part and (part.requiredDuringSchedulingIgnoredDuringExecution or part.requiredDuringSchedulingRequiredDuringExecution):
            return True
    return any(c.whenUnsatisfiable == "DoNotSchedule" for c in pod.spec.topologySpreadConstraints or ())
