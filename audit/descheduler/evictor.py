"""DefaultEvictor and the Eviction API: pods that a profile may evict, and evictions that are refused.

Source: https://github.com/kubernetes-sigs/descheduler, pkg/framework/plugins/defaultevictor and
pkg/descheduler/evictions; budgets as in pkg/registry/core/pod/storage/eviction.go of Kubernetes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, Literal

from kubestow.audit.descheduler.cluster_state import PREFER_NO_EVICTION, ClusterState
from kubestow.audit.descheduler.policy import CRITICAL_PRIORITY, PolicyProfile, SimulatedPolicy
from kubestow.models.disruption.node_selection import parse
from kubestow.models.disruption.pod_disruption_budgets import budgets, ignores_budgets
from kubestow.models.kube.objects import Pod, is_terminating
from kubestow.models.kube.selectors import Selector, canonical, selector_matches
from kubestow.models.snapshot.snapshot import Snapshot

EVICT: Final = "descheduler.alpha.kubernetes.io/evict"
#: Annotation for evictions outside the Eviction API. These, and the descheduler's waiting for them, are not
#: modelled.
BACKGROUND: Final = "descheduler.alpha.kubernetes.io/request-evict-only"
_MIRROR: Final = "kubernetes.io/config.mirror"
_SOURCE: Final = "kubernetes.io/config.source"

#: The result of an eviction request. A node limit or total limit also ends the processing of further pods.
Answer = Literal["evicted", "refused", "node limit", "total limit"]


@dataclass(frozen=True)
class EvictionAttempt:
    """A request to evict a pod.

    Attributes:
        profile: Name of the profile.
        plugin: Name of the plugin.
        pod: Index of the pod.
        node: Index of its node.
        why: Reason for the eviction.
        refused: Reason for the refusal. None if granted.
        away: Nodes on which the replacement would not help.
        frees: True if the eviction helps only if its node becomes free.
    """

    profile: str
    plugin: str
    pod: int
    node: int
    why: str
    refused: str | None
    away: frozenset[int] = frozenset()
    frees: bool = False


class Budgets:
    """PodDisruptionBudgets and their remaining evictions."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._budgets = budgets(snapshot)
        self._left = [budget.allowed for budget in self._budgets]
        self._of: dict[int, list[int]] = {}
        for k, budget in enumerate(self._budgets):
            for i in budget.pods:
                self._of.setdefault(i, []).append(k)

    def covers(self, i: int) -> bool:
        """Return True if any budget selects a pod."""
        return i in self._of

    def refusal(self, i: int) -> str | None:
        """Request an eviction. Return the reason for a refusal, or None after charging the pod's budget."""
        mine = self._of.get(i, [])
        if not mine or ignores_budgets(self._snapshot.pods[i]):
            return None
        if len(mine) > 1:
            return f"{len(mine)} PodDisruptionBudgets select it ({', '.join(self._budgets[k].name for k in mine)})"
        k = mine[0]
        if i in self._budgets[k].free:
            return None
        if self._left[k] < 1:
            return f"PodDisruptionBudget {self._budgets[k].name} allows no eviction" + (" now" if self._budgets[k].allowed else "")
        self._left[k] -= 1
        return None


@dataclass
class EvictionLedger:
    """The evictions of one cycle over all profiles, with their limits. ``budgets`` is None if PodDisruptionBudgets are ignored."""

    policy: SimulatedPolicy
    state: ClusterState
    budgets: Budgets | None
    requests: list[EvictionAttempt] = field(default_factory=list)
    _node: Counter[int] = field(default_factory=Counter)
    _namespace: Counter[str] = field(default_factory=Counter)
    _total: int = 0

    def evict(self, request: EvictionAttempt) -> Answer:
        """Process a request. An evicted pod is gone for all later steps, as in the descheduler's dry run."""
        i, n, policy = request.pod, request.node, self.policy
        namespace = self.state.facts.pods[i].metadata.namespace or "default"
        if self.state.at[i] != n:
            return "refused"  # already evicted for another owner
        if policy.total is not None and self._total >= policy.total:
            return self._refuse(request, f"maxNoOfPodsToEvictTotal {policy.total}", "total limit")
        if policy.per_node is not None and self._node[n] >= policy.per_node:
            return self._refuse(request, f"maxNoOfPodsToEvictPerNode {policy.per_node}", "node limit")
        if policy.per_namespace is not None and self._namespace[namespace] >= policy.per_namespace:
            return self._refuse(request, f"maxNoOfPodsToEvictPerNamespace {policy.per_namespace}", "refused")
        refusal = self.budgets.refusal(i) if self.budgets is not None else None
        if refusal is not None:
            return self._refuse(request, refusal, "refused")
        self.requests.append(request)
        self.state.take_out(i)
        self._node[n] += 1
        self._namespace[namespace] += 1
        self._total += 1
        return "evicted"

    def _refuse(self, request: EvictionAttempt, by: str, answer: Answer) -> Answer:
        self.requests.append(EvictionAttempt(request.profile, request.plugin, request.pod, request.node, request.why, by))
        return answer


@dataclass
class Evictor:
    """Eviction rules of one profile. ``nodes`` are the nodes that the policy covers."""

    profile: PolicyProfile
    ledger: EvictionLedger
    nodes: list[int]

    def __post_init__(self) -> None:
        args, state = self.profile.evictor, self.ledger.state
        self.state = state
        self._labels: Selector | None = canonical(args.labelSelector.selector()) if args.labelSelector is not None else None
        spaces = args.namespaceLabelSelector
        self._spaces: Selector | None = (canonical(spaces.selector()) or None) if spaces is not None else None
        self._fit = state.facts.ready_nodes(parse(args.nodeSelector) if args.nodeSelector.strip() else None)
        self._owned: Counter[str] = Counter()
        if args.minReplicas > 1:
            self._owned.update(o.uid or "" for pod in state.facts.pods for o in pod.metadata.ownerReferences or ())
        self._checks: list[Callable[[int, Pod], bool]] = list(self._protections())

    def may(self, i: int) -> bool:
        """Return True if a pod may be evicted at all (Filter)."""
        pod = self.state.facts.pods[i]
        annotations = pod.metadata.annotations or {}
        if EVICT in annotations:
            return True
        if self.profile.evictor.noEvictionPolicy == "Mandatory" and PREFER_NO_EVICTION in annotations:
            return False
        if _MIRROR in annotations or annotations.get(_SOURCE, "api") != "api" or is_terminating(pod):
            return False
        return all(check(i, pod) for check in self._checks)

    def now(self, i: int) -> bool:
        """Return True if a pod may be evicted now (PreEvictionFilter). With nodeFit, it must fit another node."""
        if self.profile.evictor.nodeFit and not self.state.fits_another(i, self._fit):
            return False
        if self._spaces is None:
            return True
        space = self.state.facts.snapshot.namespaces.get(self.state.facts.pods[i].metadata.namespace or "default")
        return space is not None and selector_matches(self._spaces, space.metadata.labels or {})

    def _protections(self) -> Iterable[Callable[[int, Pod], bool]]:
        args, protections = self.profile.evictor, self.profile.protections
        if "SystemCriticalPods" in protections:
            yield lambda i, pod: pod.spec.priority is None or pod.spec.priority < min(CRITICAL_PRIORITY, self.profile.threshold)
        if "FailedBarePods" in protections:
            yield lambda i, pod: bool(pod.metadata.ownerReferences)
        else:
            yield lambda i, pod: bool(pod.metadata.ownerReferences) or (pod.status is not None and pod.status.phase == "Failed")
        if "PodsWithLocalStorage" in protections:
            yield lambda i, pod: not any(v.hostPath is not None or v.emptyDir is not None for v in pod.spec.volumes or ())
        if "DaemonSetPods" in protections:
            yield lambda i, pod: not any(o.kind == "DaemonSet" for o in pod.metadata.ownerReferences or ())
        if "PodsWithPVC" in protections:
            config = args.podProtections.config
            named = config.PodsWithPVC.protectedStorageClasses if config is not None and config.PodsWithPVC is not None else ()
            classes = frozenset(each.name for each in named)
            yield lambda i, pod: not self._mounts(pod, classes)
        if "PodsWithoutPDB" in protections:
            covered = self.ledger.budgets or Budgets(self.state.facts.snapshot)
            yield lambda i, pod: covered.covers(i)
        if "PodsWithResourceClaims" in protections:
            yield lambda i, pod: not pod.spec.resourceClaims
        if self._labels:
            yield lambda i, pod: selector_matches(self._labels, pod.metadata.labels or {})
        if args.minReplicas > 1:
            yield self._enough

    def _mounts(self, pod: Pod, classes: frozenset[str]) -> bool:
        """Return True if a pod mounts a protected claim. Missing claims and claims without a class are protected too."""
        claims = [v.persistentVolumeClaim.claimName for v in pod.spec.volumes or () if v.persistentVolumeClaim is not None]
        if not classes:
            return bool(claims)
        known = self.state.facts.snapshot.persistent_volume_claims
        for name in claims:
            claim = known.get(f"{pod.metadata.namespace or 'default'}/{name}")
            storage_class = claim.spec.storageClassName if claim is not None and claim.spec is not None else None
            if not storage_class or storage_class in classes:
                return True
        return False

    def _enough(self, i: int, pod: Pod) -> bool:
        owners = pod.metadata.ownerReferences or ()
        return len(owners) != 1 or self._owned[owners[0].uid or ""] >= self.profile.evictor.minReplicas
