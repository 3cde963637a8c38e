"""The devices of a cluster: the verdict of DynamicResources on each node, and first-fit allocation.

Source: pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go (Filter, v1.36.2).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from kubestow.checker.rules.dynamic_resources.allocations import Allocations
from kubestow.checker.rules.dynamic_resources.demand import Demands, DeviceDemand, PodClaim, made_for
from kubestow.checker.rules.dynamic_resources.device_requests import Wanted
from kubestow.checker.rules.dynamic_resources.pools import DeviceError, DevicePools, Published, selector_holds
from kubestow.checker.rules.dynamic_resources.search import AssignedDevice, Matcher, Search
from kubestow.models.kube import device_objects as api
from kubestow.models.kube import objects, quantity
from kubestow.models.snapshot.snapshot import Snapshot

#: Time that kube-scheduler waits for binding conditions (bindingTimeout of its DynamicResourcesArgs).
_BINDING_TIMEOUT: Final = timedelta(seconds=600)


@dataclass(eq=False, slots=True)
class Grant:
    """The allocation of one claim.

    Attributes:
        wanted: The claim's requests.
        key: Its key; None for a claim for extended resources.
        devices: The devices.
    """

    wanted: Wanted
    key: str | None
    devices: Sequence[AssignedDevice]

    def results(self) -> list[api.DeviceRequestAllocationResult]:
        """Return the allocation as the scheduler would write it."""
        return [
            api.DeviceRequestAllocationResult(
                request=each.ask.name, driver=each.device.id[0], pool=each.device.id[1], device=each.device.id[2],
                adminAccess=each.ask.admin or None, shareID=None if each.consumed is None else str(number),
                consumedCapacity=None if each.consumed is None else {k: quantity.canonical(v) for k, v in each.consumed.items()},
            )
            for number, each in enumerate(self.devices)
        ]  # fmt: skip


@dataclass(eq=False, slots=True)
class DeviceVerdict:
    """The verdict on a pod on a node.

    Attributes:
        fault: Why the node is rejected, or None.
        grants: Allocations of the pod if the node is not rejected.
    """

    fault: str | None = None
    grants: list[Grant] = field(default_factory=list)


_NO_OPINION: Final = DeviceVerdict()


class Devices:
    """Slices, classes and claims of a snapshot, and the allocations made since.

    Args:
        snapshot: The snapshot.
        replaced: Running pods whose own claims are deleted with them.
    """

    def __init__(self, snapshot: Snapshot, replaced: Sequence[objects.Pod] = ()) -> None:
        gates = self._gates = snapshot.gates
        self._claims = snapshot.resource_claims
        self._released = made_for(snapshot.resource_claims, replaced)
        self._books = Allocations(sharing=gates.enabled("DRAConsumableCapacity"))
        for key, claim in snapshot.resource_claims.items():
            if key not in self._released:
                self._books.record(_results(claim.status.allocation if claim.status is not None else None))
        self.pools = DevicePools(snapshot.resource_slices.values(), snapshot.device_taint_rules.values(), gates, self._books)
        self._demands = Demands(snapshot.resource_claims, snapshot.device_classes, gates, self._released)
        self._matcher = Matcher(gates)
        self._conditions = gates.enabled("DRADeviceBindingConditions") and gates.enabled("DRAResourceClaimDeviceStatus")
        self._now = snapshot.capture.time if snapshot.capture is not None else ""
        self._read: dict[int, tuple[objects.Pod, DeviceDemand]] = {}
        self._granted: dict[int, list[Grant]] = {}
        self._own: dict[int, list[Grant]] = {}
        self._allocated: dict[str, tuple[objects.NodeSelector | None, list[Grant]]] = {}
        self._last: tuple[int, str, DeviceVerdict] | None = None

    # --- verdicts ---------------------------------------------------------------------------------------------------------

    def demand(self, pod: objects.Pod, requests: Mapping[str, int]) -> DeviceDemand:
        """Return the demand of a pod.

        Args:
            pod: The pod.
            requests: Effective requests of the pod.
        """
        known = self._read.get(id(pod))
        if known is None:
            known = self._read[id(pod)] = pod, self._demands.read(pod, requests)
        return known[1]

    def content(self, pod: objects.Pod, requests: Mapping[str, int]) -> object:
        """Return a key that distinguishes pods by their devices, or None if the pod uses none.

        Claims created for the pod count by content, other claims by name.
        """
        demand = self.demand(pod, requests)
        if demand.is_none:
            return None
        made = {entry.name for entry in pod.spec.resourceClaims or () if entry.resourceClaimName is None}
        if demand.fault is not None or not made:
            return demand.fault is None, [claim.key for claim in demand.claims]
        claims = [self._claims[claim.key] for claim in demand.claims]
        return [(claim.spec, claim.status, None if api.owning_pod(claim) is not None else claim.metadata.name) for claim in claims]

    def provides(self, resource: str, capacity: Mapping[str, int]) -> bool:
        """Return True if devices provide the extended resource on a node with this capacity."""
        return resource in self._demands.backed and capacity.get(resource, 0) <= 0

    def left_to_the_node(self, requests: dict[str, int], capacity: Mapping[str, int]) -> dict[str, int]:
        """Return the requests that NodeResourcesFit checks: all except those that devices provide."""
        if not self._demands.backed:
            return requests
        return {name: amount for name, amount in requests.items() if not self.provides(name, capacity)}

    def judge(self, pod: objects.Pod, node: objects.Node, requests: Mapping[str, int], capacity: Mapping[str, int]) -> DeviceVerdict:
        """Return the verdict on a pod on a node in the current state.

        Raises:
            QuantityError: a quantity is malformed.
        """
        demand = self.demand(pod, requests)
        if demand.is_none:
            return _NO_OPINION
        name = node.metadata.name or ""
        if self._last is None or self._last[:2] != (id(pod), name):
            self._last = id(pod), name, self._judge(demand, pod, node, capacity)
        return self._last[2]

    def _judge(self, demand: DeviceDemand, pod: objects.Pod, node: objects.Node, capacity: Mapping[str, int]) -> DeviceVerdict:
        if demand.fault is not None:
            return DeviceVerdict(demand.fault)
        lacking = next((name for name in demand.unbacked if name not in capacity), None)
        if lacking is not None:
            return DeviceVerdict(f"the node has no {lacking}, and no device class backs it")
        drawn = tuple(name for name in demand.backed if self.provides(name, capacity))
        if not demand.claims and not drawn:
            return _NO_OPINION
        wanted: list[tuple[str | None, Wanted]] = []
        try:
            for claim in demand.claims:
                if claim.key in self._allocated:
                    selector = self._allocated[claim.key][0]
                    if selector is not None and not selector_holds(selector, node):
                        return DeviceVerdict(f"claim {claim.key} is allocated elsewhere")
                elif claim.allocation is not None:
                    why = self._elsewhere(claim, node)
                    if why is not None:
                        return DeviceVerdict(f"claim {claim.key} {why}")
                elif claim.wanted is not None:
                    wanted.append((claim.key, claim.wanted))
            if demand.backed:
                wanted.append((None, self._demands.variant(demand, pod, drawn)))
            return self._search(wanted, node) if wanted else DeviceVerdict()
        except DeviceError as error:
            return DeviceVerdict(str(error))

    def _elsewhere(self, claim: PodClaim, node: objects.Node) -> str | None:
        """Return why an allocated claim cannot be used on a node, or None."""
        assert claim.allocation is not None
        selector = claim.allocation.nodeSelector
        if selector is not None and not selector_holds(selector, node):
            return "is allocated elsewhere"
        return _binding_fault(claim.allocation, claim.status, self._now) if self._conditions else None

    def _search(self, wanted: Sequence[tuple[str | None, Wanted]], node: objects.Node) -> DeviceVerdict:
        search = Search([each for _, each in wanted], node, self.pools.of(node), self._books, self._matcher, self._gates)
        search_result = search.run()
        if search_result is None:
            names = ", ".join(each.label for _, each in wanted if each.requests)
            return DeviceVerdict(f"no devices of the node serve {names or 'it'}")
        grants = [Grant(each, key, devices) for (key, each), devices in zip(wanted, search_result, strict=True)]
        for grant in grants:
            selector_of(grant.devices, node.metadata.name or "")
        return DeviceVerdict(None, grants)

    # --- allocations --------------------------------------------------------------------------------------------------------

    def allocate(self, pod: objects.Pod, node: objects.Node, requests: Mapping[str, int], capacity: Mapping[str, int]) -> None:
        """Bind a pod to a node and allocate the devices that the search finds first, if any."""
        if self.demand(pod, requests).is_none:
            return
        outcome = self.judge(pod, node, requests, capacity)
        if outcome.fault is None:
            self._book(pod, node, outcome.grants)

    def allocate_again(self, pod: objects.Pod, node: objects.Node, requests: Mapping[str, int], grants: Sequence[Grant]) -> None:
        """Bind a pod with devices that were allocated to it before."""
        if not self.demand(pod, requests).is_none:
            self._book(pod, node, grants)

    def own(self, pod: objects.Pod) -> Sequence[Grant]:
        """Return the devices allocated for the pod itself, without those of shared claims that were allocated for another pod."""
        return self._own.get(id(pod), ())

    def _book(self, pod: objects.Pod, node: objects.Node, grants: Sequence[Grant]) -> None:
        """Record the allocations of a bound pod."""
        self._last = None
        own = {grant.key for grant in grants}
        keys = dict.fromkeys(claim.key for claim in self._read[id(pod)][1].claims if claim.key in self._allocated and claim.key not in own)
        shared = [grant for key in keys for grant in self._allocated[key][1]]
        self._own[id(pod)] = list(grants)
        for grant in grants:
            self._books.record(grant.results())
            if grant.key is not None:
                selector, earlier = self._allocated.get(grant.key, (None, []))
                self._allocated[grant.key] = selector_of(grant.devices, node.metadata.name or "") or selector, [*earlier, grant]
        self._granted[id(pod)] = [*shared, *grants]

    def sources(self, pod: objects.Pod, node: objects.Node, requests: Mapping[str, int], capacity: Mapping[str, int]) -> frozenset[object]:
        """Return the pools and unallocated claims that a pod's devices on a node can come from. Empty if it takes none."""
        demand = self.demand(pod, requests)
        open_claims = [claim.key for claim in demand.claims if claim.allocation is None and claim.key not in self._allocated]
        if not open_claims and not any(self.provides(name, capacity) for name in demand.backed):
            return frozenset()
        try:
            pools = self.pools.of(node)
        except DeviceError:
            pools = []
        return frozenset((*open_claims, *((pool.driver, pool.name) for pool in pools)))

    def allocated(self, pod: objects.Pod) -> list[Grant] | None:
        """Return the devices of a bound pod, shared claims included; None if it was not bound or was rejected."""
        known = self._read.get(id(pod))
        if known is None or known[1].is_none:
            return []
        return self._granted.get(id(pod))

    def devices_of(self, pod: objects.Pod) -> list[tuple[str, tuple[str, str, str]]] | None:
        """Return request and device of all devices of a bound pod, including earlier allocations; None as for ``allocated``."""
        grants = self.allocated(pod)
        if grants is None or id(pod) not in self._read:
            return None
        found = [(each.ask.name, each.device.id) for grant in grants for each in grant.devices]
        for claim in self._read[id(pod)][1].claims:
            found += [(each.request, (each.driver, each.pool, each.device)) for each in _results(claim.allocation)]
        return found

    def find(self, device: tuple[str, str, str], node: objects.Node) -> Published | None:
        """Return a device by its id if the node sees it, or None."""
        try:
            pools = self.pools.of(node)
        except DeviceError:
            return None
        return next((each for pool in pools if pool.usable for each in pool.devices if each.id == device), None)


def _results(allocation: api.AllocationResult | None) -> Sequence[api.DeviceRequestAllocationResult]:
    return (allocation.devices.results if allocation is not None and allocation.devices is not None else None) or ()


def _is_late(since: str | None, now: str) -> bool:
    """Return True if the time to become ready is over for a claim. That is assumed if the snapshot has no capture time."""
    if since is None:
        return False
    try:
        return datetime.fromisoformat(now) - datetime.fromisoformat(since) > _BINDING_TIMEOUT
    except (TypeError, ValueError):
        return True


def _binding_fault(allocation: api.AllocationResult, status: api.ResourceClaimStatus | None, now: str) -> str | None:
    """Return why an allocated claim is not ready and is no longer waited for at time ``now``, or None."""
    late = _is_late(allocation.allocationTimestamp, now)
    for result in _results(allocation):
        if not result.bindingConditions:
            continue
        conditions = _conditions(result, status)
        if conditions is not None:
            failed = [each for each in result.bindingFailureConditions or () if conditions.get(each) == "True"]
            if failed:
                return f"has failed for good: {failed[0]}"
        waiting = [each for each in result.bindingConditions if (conditions or {}).get(each) != "True"]
        if waiting:
            return f"still waits for {waiting[0]}" if late else None
    return None


def _conditions(result: api.DeviceRequestAllocationResult, status: api.ResourceClaimStatus | None) -> Mapping[str, str] | None:
    """Return the conditions of an allocated device, or None if its driver reports none."""
    for each in (status.devices if status is not None else None) or ():
        if (each.driver, each.pool, each.device) == (result.driver, result.pool, result.device):
            return {condition.type or "": condition.status or "" for condition in reversed(each.conditions or ())}
    return None


def selector_of(devices: Iterable[AssignedDevice], node: str) -> objects.NodeSelector | None:
    """Return the nodes on which an allocation can be used; None means all nodes.

    Raises:
        DeviceError: a slice has a selector of several terms.
    """
    fields: list[objects.NodeSelectorRequirement] = []
    expressions: list[objects.NodeSelectorRequirement] = []
    for each in devices:
        raw, spec = each.device.device, each.device.spec
        own = spec.perDeviceNodeSelection
        name, selector = (raw.nodeName, raw.nodeSelector) if own else (spec.nodeName, spec.nodeSelector)
        if name is not None or raw.bindsToNode:
            fields = [objects.NodeSelectorRequirement("metadata.name", "In", [node])]
            return objects.NodeSelector([objects.NodeSelectorTerm(None, fields)])
        terms = (selector.nodeSelectorTerms if selector is not None else None) or ()
        if len(terms) > 1:
            raise DeviceError(f"device {each.device}: its nodeSelector has several terms")
        for term in terms:
            fields += term.matchFields or ()
            expressions += term.matchExpressions or ()
    if not fields and not expressions:
        return None
    return objects.NodeSelector([objects.NodeSelectorTerm(expressions or None, fields or None)])
