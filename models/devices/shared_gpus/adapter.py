"""Translation of a snapshot with GPUs shared by other systems to dynamic resource allocation.

Each card becomes a device that may be allocated several times, with the capacities ``memory``, ``cores`` and
``slots``. Every pod that requests a share gets a ResourceClaim, allocated if the pod runs. Resources that the
system handles itself are removed from the pods' requests.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from kubestow.models.devices.shared_gpus.cards import Card, GpuRequest, GpuShare, System
from kubestow.models.devices.shared_gpus.hami import HAMI, VOLCANO
from kubestow.models.devices.shared_gpus.kai import KAI
from kubestow.models.kube import device_objects as api
from kubestow.models.kube import objects
from kubestow.models.kube.feature_gates import FeatureGates
from kubestow.models.snapshot.settling import some_of
from kubestow.models.snapshot.snapshot import Snapshot

SYSTEMS: Final[dict[str, System]] = {"hami": HAMI, "kai": KAI, "volcano": VOLCANO}
#: The driver of the devices and name of their class, and the name of the pods' claim entry.
DRIVER: Final = "shared-gpus.kubestow.dev"
ENTRY: Final = "shared-gpus"
_GATES: Final = ("DRAConsumableCapacity", "DRAPrioritizedList")
#: Alternatives of one request (FirstAvailableDeviceRequestMaxSize).
_MAX_ALTERNATIVES: Final = 8
_USE, _DO_NOT_USE = "nvidia.com/use-gputype", "nvidia.com/nouse-gputype"
_USE_UUID, _DO_NOT_USE_UUID = "nvidia.com/use-gpuuuid", "nvidia.com/nouse-gpuuuid"
_change = msgspec.structs.replace


def apply(snapshot: Snapshot, name: str) -> None:
    """Describe shared GPUs as devices (DRA): add slices of devices, their class and the claims of pods to a snapshot.

    Change the snapshot in place. Pods get a claim, and lose the requests for resources that the system handles itself.
    Existing objects stay, so the function may be called again for pods and nodes that are added later.

    Args:
        name: Name of the sharing system, a key of ``SYSTEMS``.
    """
    system = SYSTEMS[name]
    cards = {node.metadata.name or "": system.cards(node) for node in snapshot.nodes}
    _warn(snapshot, name, system, cards)
    known = {each.spec.nodeName for each in snapshot.resource_slices.values() if each.spec.driver == DRIVER}
    for node, node_cards in cards.items():
        if node_cards and node not in known:
            made = _slice(node, node_cards)
            snapshot.resource_slices[made.metadata.name or ""] = made
    selector = api.DeviceSelector(api.CELDeviceSelector(f'device.driver == "{DRIVER}"'))
    snapshot.device_classes.setdefault(DRIVER, api.DeviceClass(objects.ObjectMeta(DRIVER), api.DeviceClassSpec([selector])))
    sizes = sorted({card.memory for listed in cards.values() for card in listed})
    running: dict[str, list[int]] = {}
    for index, pod in enumerate(snapshot.pods):
        if objects.is_terminal(pod) or any(entry.name == ENTRY for entry in pod.spec.resourceClaims or ()):
            continue
        if pod.spec.nodeName is not None:
            running.setdefault(pod.spec.nodeName, []).append(index)
            continue
        if asks := system.asks(pod):
            _give(snapshot, index, _spec(asks, sizes, pod), None)
        else:
            given = [key for key in system.annotations if key in (pod.metadata.annotations or {})]
            unread = [(f"metadata.annotations[{key}]", "ignored: it is not read as an amount of a GPU") for key in given]
            if unread:
                snapshot.not_understood[objects.pod_key(pod)] = [*snapshot.not_understood.get(objects.pod_key(pod), ()), *unread]
        _without(snapshot, index, system.resources)
    for node, indices in running.items():
        shares_by_pod = system.held_shares([snapshot.pods[i] for i in indices], cards.get(node, []))
        for position, shares in shares_by_pod.items():
            pod = snapshot.pods[indices[position]]
            spec = _spec(system.asks(pod) or [GpuRequest(len(shares))], sizes, pod)
            _give(snapshot, indices[position], spec, _allocation(node, cards.get(node, []), shares, spec, pod))
        for index in indices:
            _without(snapshot, index, system.resources)
    snapshot.gates = _with_gates(snapshot.gates)


def _warn(snapshot: Snapshot, name: str, system: System, cards: Mapping[str, list[Card]]) -> None:
    """Add a warning to the snapshot if nodes list cards that cannot be shared or read, or if no node lists any."""
    listing = [
        node.metadata.name or ""
        for node in snapshot.nodes
        if system.register in (node.metadata.annotations or {}) or system.register in (node.metadata.labels or {})
    ]
    unreadable = [node for node in listing if not cards[node]]
    warnings = []
    if not listing:
        warnings.append(f"sharedGPUs: {name}: no node has {system.register}, so there are no cards to share")
    elif unreadable:
        warnings.append(f"sharedGPUs: {name}: {system.register} lists no shareable card on {some_of(unreadable, 'node')}")
    snapshot.warnings += [text for text in warnings if text not in snapshot.warnings]


def _with_gates(gates: FeatureGates) -> FeatureGates:
    """Return the gates, with those enabled that shared devices need. The systems themselves need no gates."""
    missing = {gate: True for gate in _GATES if not gates.enabled(gate)}
    return FeatureGates(gates.version, tuple(sorted({**dict(gates.given), **missing}.items()))) if missing else gates


# --- nodes --------------------------------------------------------------------------------------------------------------


def _slice(node: str, cards: list[Card]) -> api.ResourceSlice:
    devices = [
        api.Device(
            name=f"gpu-{index}",
            attributes={"uuid": api.DeviceAttribute(string=card.uuid), "model": api.DeviceAttribute(string=card.model)},
            capacity={
                "memory": api.DeviceCapacity(f"{card.memory}Mi"),
                "cores": api.DeviceCapacity(card.cores),
                "slots": api.DeviceCapacity(card.slots),
            },
            allowMultipleAllocations=True,
        )
        for index, card in enumerate(cards)
    ]
    spec = api.ResourceSliceSpec(DRIVER, api.ResourcePool(node, 1, 1), nodeName=node, devices=devices)
    return api.ResourceSlice(objects.ObjectMeta(f"{node}-{ENTRY}"), spec)


# --- pods ---------------------------------------------------------------------------------------------------------------


def _spec(asks: Iterable[GpuRequest], sizes: list[int], pod: objects.Pod) -> api.ResourceClaimSpec:
    wanted = _selectors(pod.metadata.annotations or {})
    requests: list[api.DeviceRequest] = []
    for index, ask in enumerate(asks):
        name = f"gpu-{index}"
        if ask.portion is None:
            requests.append(api.DeviceRequest(name, exactly=_exactly(ask, ask.memory, wanted)))
            continue
        alternatives = []
        for number, size in enumerate(sizes[:_MAX_ALTERNATIVES]):
            text = f'device.capacity["{DRIVER}"].memory.compareTo(quantity("{size}Mi")) == 0'
            exact = _exactly(ask, int(ask.portion * size), [*wanted, text])
            fields = {field: getattr(exact, field) for field in exact.__struct_fields__ if field != "adminAccess"}
            alternatives.append(api.DeviceSubRequest(name=f"of-{number}", **fields))
        requests.append(api.DeviceRequest(name, firstAvailable=alternatives))
    return api.ResourceClaimSpec(api.DeviceClaim(requests))


def _exactly(ask: GpuRequest, memory: int | None, expressions: list[str]) -> api.ExactDeviceRequest:
    """Return a request for an ask, with the given memory in MiB. Capacities that are not named are taken as a whole."""
    capacity: dict[str, str | int | float] = {"cores": ask.cores}
    if memory is not None:
        capacity["memory"] = f"{memory}Mi"
    if not ask.alone:
        capacity["slots"] = 1
    selectors = [api.DeviceSelector(api.CELDeviceSelector(text)) for text in expressions]
    return api.ExactDeviceRequest(DRIVER, selectors or None, "ExactCount", ask.count, capacity=api.CapacityRequirements(capacity))


def _selectors(annotations: dict[str, str]) -> list[str]:
    """Return selectors for the cards that a pod wants, from the annotations of HAMi and Volcano."""

    def quoted(text: str) -> list[str]:
        return [msgspec.json.encode(part.strip()).decode() for part in text.split(",") if part.strip()]

    device = f'device.attributes["{DRIVER}"]'
    found = []
    for key, one in ((_USE, "{}"), (_DO_NOT_USE, "!({})")):
        if models := quoted(annotations.get(key, "").upper()):
            found.append(one.format(" || ".join(f"{device}.model.upperAscii().contains({model})" for model in models)))
    for key, one in ((_USE_UUID, "{}"), (_DO_NOT_USE_UUID, "!({})")):
        if uuids := quoted(annotations.get(key, "")):
            found.append(one.format(f"{device}.uuid in [{', '.join(uuids)}]"))
    return found


def _allocation(
    node: str, cards: list[Card], shares: list[GpuShare], spec: api.ResourceClaimSpec, pod: objects.Pod
) -> api.AllocationResult | None:
    places = {card.uuid: (index, card) for index, card in enumerate(cards)}
    requests = (spec.devices.requests if spec.devices is not None else None) or []
    results = []
    for number, share in enumerate(shares):
        if share.uuid not in places:
            continue
        index, card = places[share.uuid]
        consumed: dict[str, str | int | float] = {
            "memory": f"{card.memory if share.memory is None else share.memory}Mi",
            "cores": share.cores,
            "slots": card.slots if share.alone else 1,
        }
        own = f"{objects.pod_key(pod)}/{number}"
        name = requests[min(number, len(requests) - 1)].name
        share_id = str(uuid.uuid5(uuid.NAMESPACE_URL, f"{DRIVER}/{own}"))
        results.append(api.DeviceRequestAllocationResult(name, DRIVER, node, f"gpu-{index}", shareID=share_id, consumedCapacity=consumed))
    if not results:
        return None
    at = objects.NodeSelectorRequirement("metadata.name", "In", [node])
    only = objects.NodeSelector([objects.NodeSelectorTerm(matchFields=[at])])
    return api.AllocationResult(api.DeviceAllocationResult(results), only)


def _give(snapshot: Snapshot, index: int, spec: api.ResourceClaimSpec, allocation: api.AllocationResult | None) -> None:
    """Give a pod a claim of its own, as if made from a template."""
    pod = snapshot.pods[index]
    namespace, name = pod.metadata.namespace or "default", f"{pod.metadata.name}-{ENTRY}"
    owner = objects.OwnerReference("Pod", pod.metadata.name or "", "v1", pod.metadata.uid, True)
    status = api.ResourceClaimStatus(allocation) if allocation is not None else None
    metadata = objects.ObjectMeta(name, namespace, ownerReferences=[owner])
    snapshot.resource_claims[f"{namespace}/{name}"] = api.ResourceClaim(metadata, spec, status)
    entries = [*(pod.spec.resourceClaims or ()), objects.PodResourceClaim(ENTRY, None, ENTRY)]
    known = pod.status or objects.PodStatus("Pending")
    statuses = [*(known.resourceClaimStatuses or ()), objects.PodResourceClaimStatus(ENTRY, name)]
    snapshot.pods[index] = _change(
        pod, spec=_change(pod.spec, resourceClaims=entries), status=_change(known, resourceClaimStatuses=statuses)
    )


def _without(snapshot: Snapshot, index: int, resources: frozenset[str]) -> None:
    """Remove the resources that the system handles itself from a pod's requests."""
    pod = snapshot.pods[index]

    def without_resources(containers: list[objects.Container] | None) -> list[objects.Container] | None:
        return containers and [_change(c, resources=_left(c.resources, resources)) for c in containers]

    if any(
        not resources.isdisjoint((c.resources.requests or {}) | (c.resources.limits or {}))
        for c in (*(pod.spec.containers or ()), *(pod.spec.initContainers or ()))
        if c.resources is not None
    ):
        spec = _change(
            pod.spec, containers=without_resources(pod.spec.containers), initContainers=without_resources(pod.spec.initContainers)
        )
        snapshot.pods[index] = _change(pod, spec=spec)


def _left(resources_given: objects.ResourceRequirements | None, resources: frozenset[str]) -> objects.ResourceRequirements | None:
    if resources_given is None:
        return None
    requests = {name: raw for name, raw in (resources_given.requests or {}).items() if name not in resources}
    limits = {name: raw for name, raw in (resources_given.limits or {}).items() if name not in resources}
    return _change(resources_given, requests=requests or None, limits=limits or None)
