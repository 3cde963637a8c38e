"""The device claims of a pod, independent of any node.

Source: pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go (PreFilter, v1.36.2) and
staging/src/k8s.io/dynamic-resource-allocation/resourceclaim/resourceclaim.go.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from kubestow.checker.rules.dynamic_resources import extended
from kubestow.checker.rules.dynamic_resources.device_requests import ClaimReader, Wanted
from kubestow.models.cel.selectors import evaluated
from kubestow.models.kube import device_objects as api
from kubestow.models.kube import objects
from kubestow.models.kube.feature_gates import FeatureGates


@dataclass(eq=False, slots=True)
class PodClaim:
    """A claim of a pod.

    Attributes:
        key: ``namespace/name`` of the claim.
        allocation: Its allocation in the snapshot, or None.
        status: Its status, or None.
        wanted: Its parsed requests if it is not allocated.
    """

    key: str
    allocation: api.AllocationResult | None
    status: api.ResourceClaimStatus | None
    wanted: Wanted | None


@dataclass(eq=False, slots=True)
class DeviceDemand:
    """The devices that a pod requests.

    Attributes:
        claims: Claims of the pod.
        fault: Why no node can run the pod, or None.
        backed: Requested amounts of extended resources that device classes may back.
        unbacked: The other requested extended resources.
        variants: Claims for extended resources, by the set of resources drawn from devices.
    """

    claims: list[PodClaim] = field(default_factory=list)
    fault: str | None = None
    backed: dict[str, int] = field(default_factory=dict)
    unbacked: list[str] = field(default_factory=list)
    variants: dict[tuple[str, ...], Wanted] = field(default_factory=dict)

    @property
    def is_none(self) -> bool:
        """True if the pod uses no devices."""
        return not self.claims and not self.backed and self.fault is None


class Demands:
    """Reads the demands of pods.

    Args:
        claims: All claims, by key.
        classes: All device classes, by name.
        gates: The feature gates.
        released: Keys of claims to be treated as not allocated.
    """

    def __init__(
        self,
        claims: Mapping[str, api.ResourceClaim],
        classes: Mapping[str, api.DeviceClass],
        gates: FeatureGates,
        released: Collection[str],
    ) -> None:
        self._claims, self._released, self._gates = claims, released, gates
        self._reader = ClaimReader(classes, gates)
        self._left = {key: claim for key, claim in claims.items() if key not in released and extended.is_left_over(claim)}
        self.backed = extended.backed(classes) if gates.enabled("DRAExtendedResource") else {}

    def read(self, pod: objects.Pod, requests: Mapping[str, int]) -> DeviceDemand:
        """Return the demand of a pod. It is empty if a selector cannot be evaluated here.

        Args:
            pod: The pod.
            requests: Effective requests of the pod.

        Raises:
            QuantityError: a quantity of a claim is malformed.
        """
        found = DeviceDemand()
        found.fault = self._read(pod, found)
        if self.backed:
            extended_requests = {name: amount for name, amount in requests.items() if amount and extended.is_extended(name)}
            found.backed = {name: amount for name, amount in extended_requests.items() if name in self.backed}
            found.unbacked = [name for name in extended_requests if name not in self.backed] if found.backed else []
            if found.backed and found.fault is None:
                unmatched = next((key for key, claim in self._left.items() if extended.is_owned(claim, pod)), None)
                found.fault = unmatched and f"claim {unmatched} is left from an earlier attempt"
        return found if evaluated(self._expressions(found), self._gates) else DeviceDemand()

    def _expressions(self, demand: DeviceDemand) -> Iterator[str]:
        """Yield the selectors that may be evaluated for the pod."""
        for name in demand.backed:
            yield from self._reader.of_class(self.backed[name])
        claims = [claim.wanted for claim in demand.claims if claim.wanted is not None] if demand.fault is None else []
        asks = [ask for wanted in claims for alternatives in wanted.requests for ask in alternatives]
        if not any(wanted.fault for wanted in claims) and not any(ask.fault for ask in asks):
            for ask in asks:
                yield from ask.expressions

    def _read(self, pod: objects.Pod, found: DeviceDemand) -> str | None:
        """Collect the claims of a pod; return why no node can run it, or None."""
        namespace = pod.metadata.namespace or "default"
        statuses = {each.name: each.resourceClaimName for each in reversed((pod.status and pod.status.resourceClaimStatuses) or ())}
        for entry in pod.spec.resourceClaims or ():
            made = entry.resourceClaimName is None
            if made and entry.resourceClaimTemplateName is None:
                return f"claim {entry.name} names neither a ResourceClaim nor a template"
            if made and entry.name not in statuses:
                return f"no ResourceClaim exists yet for claim {entry.name}"
            name = statuses[entry.name] if made else entry.resourceClaimName
            if name is None:
                continue
            key = f"{namespace}/{name}"
            claim = self._claims.get(key)
            if claim is None:
                return f"there is no ResourceClaim {key}"
            if claim.metadata.deletionTimestamp is not None:
                return f"ResourceClaim {key} is being deleted"
            if made and not self._is_owned(claim, pod):
                return f"ResourceClaim {key} was not created for the pod"
            found.claims.append(self._claim(key, claim))
        for each in found.claims:
            missing = self._reader.missing(self._claims[each.key]) if each.allocation is None else None
            if missing is not None:
                return f"ResourceClaim {each.key}: {missing}"
        return None

    def _claim(self, key: str, claim: api.ResourceClaim) -> PodClaim:
        allocation = claim.status.allocation if claim.status is not None and key not in self._released else None
        return PodClaim(key, allocation, claim.status, self._reader.read(key, claim) if allocation is None else None)

    @staticmethod
    def _is_owned(claim: api.ResourceClaim, pod: objects.Pod) -> bool:
        owner = objects.controller_of(claim)
        return owner is not None and (owner.uid or "") == (pod.metadata.uid or "")

    def variant(self, demand: DeviceDemand, pod: objects.Pod, resources: tuple[str, ...]) -> Wanted:
        """Return the claim for the extended resources that only devices can provide on a node."""
        if resources not in demand.variants:
            key = f"{objects.pod_key(pod)}/extended-resources"
            extended_requests = extended.requests(pod.spec, resources, self.backed)
            claim = api.ResourceClaim(objects.ObjectMeta(), api.ResourceClaimSpec(api.DeviceClaim(extended_requests)))
            demand.variants[resources] = self._reader.read(key, claim)
        return demand.variants[resources]


def made_for(claims: Mapping[str, api.ResourceClaim], pods: Iterable[objects.Pod]) -> set[str]:
    """Return the keys of claims that were created for one of the pods and are deleted with it."""
    owners: dict[str, list[objects.Pod]] = {}
    for pod in pods:
        owners.setdefault(pod.metadata.uid or "", []).append(pod)
    return {
        key for key, claim in (claims.items() if owners else ())
        if any(_owned_by(claim, pod) for each in claim.metadata.ownerReferences or () for pod in owners.get(each.uid or "", ()))
    }  # fmt: skip


def _owned_by(claim: api.ResourceClaim, pod: objects.Pod) -> bool:
    """Return True if the claim was created for the pod and is deleted with it."""
    if (claim.metadata.namespace or "default") != (pod.metadata.namespace or "default"):
        return False
    owner = objects.controller_of(claim)
    if owner is None or owner.kind != "Pod" or (owner.uid or "") != (pod.metadata.uid or ""):
        return False
    return bool(owner.uid) or owner.name == pod.metadata.name
