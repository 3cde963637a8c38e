"""DefaultEvictor and the Eviction API: which pods a profile may evict at all, and which evictions are refused.

Source: https://github.com/kubernetes-sigs/descheduler, pkg/framework/plugins/defaultevictor and pkg/descheduler/evictions; budgets as
pkg/registry/core/pod/storage/eviction.go of Kubernetes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, Literal

from kubestow.audit.descheduler.policy import CRITICAL, Policy, PolicyProfile
from kubestow.audit.descheduler.world import PREFER_NO_EVICTION, World
from kubestow.models.disruption.node_selection import parse
from kubestow.models.disruption.pod_disruption_budgets import budgets, ignores_budgets
from kubestow.models.kube.objects import Pod, is_terminating
from kubestow.models.kube.selectors import Selector, canonical, selector_matches
from kubestow.models.snapshot.snapshot import Snapshot

EVICT: Final = "descheduler.alpha.kubernetes.io/evict"
#: Evictions that something else than the Eviction API carries out, and how the descheduler waits for it, are not modelled.
BACKGROUND: Final = "descheduler.alpha.kubernetes.io/request-evict-only"
_MIRROR: Final = "kubernetes.io/config.mirror"
_SOURCE: Final = "kubernetes.io/config.source"

#: How a request to evict ends; a limit of the node or of all ends more than this one pod's turn.
Answer = Literal["evicted", "refused", "node limit", "total limit"]


@dataclass(frozen=True)
class Request:
    """A request to evict a pod. ``refused``: by what, None if it went. ``away``: nodes on which the pod's replacement would be of no help;
    ``frees``: whether it helps only where its node ends up free."""

    profile: str
    plugin: str
    pod: int
    node: int
    why: str
    refused: str | None
    away: frozenset[int] = frozenset()
    frees: bool = False


class Budgets:
    """PodDisruptionBudgets as evictions use them up."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._budgets = budgets(snapshot)
        self._left = [budget.allowed for budget in self._budgets]
        self._of: dict[int, list[int]] = {}
        for k, budget in enumerate(self._budgets):
            for i in budget.pods:
                self._of.setdefault(i, []).append(k)

    def covers(self, i: int) -> bool:
        """Return whether some budget selects a pod."""
        return i in self._of

    def refusal(self, i: int) -> str | None:
        """Ask for an eviction, and return what refuses it; None: it is taken off its budget."""
        mine = self._of.get(i, [])
        if not mine or ignores_budgets(self._snapshot.pods[i]):
            return None
        if len(mine) > 1:
            return f"{len(mine)} PodDisruptionBudgets select it ({', '.join(self._budgets[k].name for k in mine)})"
        k = mine[0]
        if i in self._budgets[k].free:
            return None
        if self._left[k] < 1:
            return f"PodDisruptionBudget {self._budgets[k].name} allows none" + (" now" if self._budgets[k].allowed else "")
        self._left[k] -= 1
        return None


@dataclass
class Ledger:
    """The evictions of one cycle, of all profiles, and their limits. ``budgets``: None where the Eviction API is not asked."""

    policy: Policy
    world: World
    budgets: Budgets | None
    requests: list[Request] = field(default_factory=list)
    _node: Counter[int] = field(default_factory=Counter)
    _namespace: Counter[str] = field(default_factory=Counter)
    _total: int = 0

    def evict(self, request: Request) -> Answer:
        """Take a request. The pod of one that is granted is gone for whoever looks next, as in the descheduler's own dry run."""
        i, n, policy = request.pod, request.node, self.policy
        namespace = self.world.facts.pods[i].metadata.namespace or "default"
        if self.world.at[i] != n:
            return "refused"  # it went already, for another owner
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
        self.world.take_out(i)
        self._node[n] += 1
        self._namespace[namespace] += 1
        self._total += 1
        return "evicted"

    def _refuse(self, request: Request, by: str, answer: Answer) -> Answer:
        self.requests.append(Request(request.profile, request.plugin, request.pod, request.node, request.why, by))
        return answer


@dataclass
class Evictor:
    """What one profile may evict. ``nodes``: those that the policy operates over."""

    profile: PolicyProfile
    ledger: Ledger
    nodes: list[int]

    def __post_init__(self) -> None:
        args, world = self.profile.evictor, self.ledger.world
        self.world = world
        self._labels: Selector | None = canonical(args.labelSelector.selector()) if args.labelSelector is not None else None
        spaces = args.namespaceLabelSelector
        self._spaces: Selector | None = (canonical(spaces.selector()) or None) if spaces is not None else None
        self._fit = world.facts.ready_nodes(parse(args.nodeSelector) if args.nodeSelector.strip() else None)
        self._owned: Counter[str] = Counter()
        if args.minReplicas > 1:
            self._owned.update(o.uid or "" for pod in world.facts.pods for o in pod.metadata.ownerReferences or ())
        self._checks: list[Callable[[int, Pod], bool]] = list(self._protections())

    def may(self, i: int) -> bool:
        """Return whether a pod may be evicted at all (Filter)."""
        pod = self.world.facts.pods[i]
        annotations = pod.metadata.annotations or {}
        if EVICT in annotations:
            return True
        if self.profile.evictor.noEvictionPolicy == "Mandatory" and PREFER_NO_EVICTION in annotations:
            return False
        if _MIRROR in annotations or annotations.get(_SOURCE, "api") != "api" or is_terminating(pod):
            return False
        return all(check(i, pod) for check in self._checks)

    def now(self, i: int) -> bool:
        """Return whether a pod may be evicted now (PreEvictionFilter): with nodeFit it has to fit another node."""
        if self.profile.evictor.nodeFit and not self.world.fits_another(i, self._fit):
            return False
        if self._spaces is None:
            return True
        space = self.world.facts.snapshot.namespaces.get(self.world.facts.pods[i].metadata.namespace or "default")
        return space is not None and selector_matches(self._spaces, space.metadata.labels or {})

    def _protections(self) -> Iterable[Callable[[int, Pod], bool]]:
        args, held = self.profile.evictor, self.profile.protections
        if "SystemCriticalPods" in held:
            yield lambda i, pod: pod.spec.priority is None or pod.spec.priority < min(CRITICAL, self.profile.threshold)
        if "FailedBarePods" in held:
            yield lambda i, pod: bool(pod.metadata.ownerReferences)
        else:
            yield lambda i, pod: bool(pod.metadata.ownerReferences) or (pod.status is not None and pod.status.phase == "Failed")
        if "PodsWithLocalStorage" in held:
            yield lambda i, pod: not any(v.hostPath is not None or v.emptyDir is not None for v in pod.spec.volumes or ())
        if "DaemonSetPods" in held:
            yield lambda i, pod: not any(o.kind == "DaemonSet" for o in pod.metadata.ownerReferences or ())
        if "PodsWithPVC" in held:
            config = args.podProtections.config
            named = config.PodsWithPVC.protectedStorageClasses if config is not None and config.PodsWithPVC is not None else ()
            classes = frozenset(each.name for each in named)
            yield lambda i, pod: not self._mounts(pod, classes)
        if "PodsWithoutPDB" in held:
            covered = self.ledger.budgets or Budgets(self.world.facts.snapshot)
            yield lambda i, pod: covered.covers(i)
        if "PodsWithResourceClaims" in held:
            yield lambda i, pod: not pod.spec.resourceClaims
        if self._labels:
            yield lambda i, pod: selector_matches(self._labels, pod.metadata.labels or {})
        if args.minReplicas > 1:
            yield self._enough

    def _mounts(self, pod: Pod, classes: frozenset[str]) -> bool:
        """Return whether a pod mounts a claim that protects it. A claim that is not there, or has no class, protects it as well."""
        claims = [v.persistentVolumeClaim.claimName for v in pod.spec.volumes or () if v.persistentVolumeClaim is not None]
        if not classes:
            return bool(claims)
        known = self.world.facts.snapshot.persistent_volume_claims
        for name in claims:
            claim = known.get(f"{pod.metadata.namespace or 'default'}/{name}")
            found = claim.spec.storageClassName if claim is not None and claim.spec is not None else None
            if not found or found in classes:
                return True
        return False

    def _enough(self, i: int, pod: Pod) -> bool:
        owners = pod.metadata.ownerReferences or ()
        return len(owners) != 1 or self._owned[owners[0].uid or ""] >= self.profile.evictor.minReplicas
