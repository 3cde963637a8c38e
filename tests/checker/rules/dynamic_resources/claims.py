"""Short constructors of slices, classes and claims, and what the checker says of a pod that asks for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from kubestow.checker.placement import Judge
from kubestow.checker.rules.dynamic_resources.state import Grant
from kubestow.models.documents.placement import Assignment, DeviceResult, Placement, SnapshotRef
from kubestow.models.kube import objects
from kubestow.models.kube.feature_gates import FeatureGates
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from tests.objects import Object, node, pod

DRIVER = "gpu.example.com"
API = "resource.k8s.io/v1"


def device(name: str, attributes: Object | None = None, capacity: Object | None = None, **more: Any) -> Object:
    """``attributes``: texts, numbers and booleans; ``capacity``: quantities, or whole entries."""
    kinds = {str: "string", bool: "bool", int: "int"}
    found: Object = {"name": name, **more}
    if attributes:
        found["attributes"] = {key: value if isinstance(value, dict) else {kinds[type(value)]: value} for key, value in attributes.items()}
    if capacity:
        found["capacity"] = {key: value if isinstance(value, dict) else {"value": value} for key, value in capacity.items()}
    return found


def slice_of(name: str, devices: list[Object] | None = None, **spec: Any) -> Object:
    """A slice for node n1 unless it says otherwise; pools have one slice, driver and name of their own."""
    pool = {"name": spec.pop("pool", name), "generation": spec.pop("generation", 1), "resourceSliceCount": spec.pop("slices", 1)}
    found: Object = {"driver": spec.pop("driver", DRIVER), "pool": pool}
    if not {"nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection"} & spec.keys():
        found["nodeName"] = "n1"
    found |= {"devices": devices} if devices is not None else {}
    return {"apiVersion": API, "kind": "ResourceSlice", "metadata": {"name": name}, "spec": {**found, **spec}}


def device_class(name: str = "gpu", *selectors: str, **spec: Any) -> Object:
    created = spec.pop("created", None)
    metadata = {"name": name, **({"creationTimestamp": created} if created else {})}
    if selectors:
        spec["selectors"] = [{"cel": {"expression": each}} for each in selectors]
    return {"apiVersion": API, "kind": "DeviceClass", "metadata": metadata, "spec": spec}


def request(name: str = "r", *selectors: str, **exactly: Any) -> Object:
    return {"name": name, "exactly": _asked(selectors, exactly)}


def alternative(name: str, *selectors: str, **more: Any) -> Object:
    return {"name": name, **_asked(selectors, more)}


def first_available(name: str, *alternatives: Object) -> Object:
    return {"name": name, "firstAvailable": list(alternatives)}


def _asked(selectors: tuple[str, ...], more: Object) -> Object:
    mode = {"allocationMode": "ExactCount", "count": 1} if "allocationMode" not in more else {}
    found: Object = {"deviceClassName": "gpu", **mode, **more}
    if selectors:
        found["selectors"] = [{"cel": {"expression": each}} for each in selectors]
    return found


def claim(name: str, *requests: Object, constraints: list[Object] | None = None, status: Object | None = None, **metadata: Any) -> Object:
    devices: Object = {"requests": list(requests)} | ({"constraints": constraints} if constraints else {})
    found: Object = {
        "apiVersion": API, "kind": "ResourceClaim", "metadata": {"name": name, "namespace": "default", **metadata},
        "spec": {"devices": devices},
    }  # fmt: skip
    return found | ({"status": status} if status is not None else {})


def made(name: str, owner: str, *requests: Object, **more: Any) -> Object:
    """A claim that was made for a pod; see :func:`wants`."""
    reference = {"apiVersion": "v1", "kind": "Pod", "name": owner, "uid": f"uid-{owner}", "controller": True}
    return claim(name, *requests, ownerReferences=[reference], **more)


def allocated(*results: Object, **more: Any) -> Object:
    """The status of a claim that holds devices: ``result``."""
    return {"allocation": {"devices": {"results": list(results)}, **more}}


def result(name: str, pool: str = "s", **more: Any) -> Object:
    return {"request": "r", "driver": DRIVER, "pool": pool, "device": name, **more}


def wants(name: str, *claims: str, resources: Object | None = None, **more: Any) -> Object:
    """A pod with these claims by name; ``=c`` was made for it."""
    entries = [{"name": f"e{i}", ("resourceClaimTemplateName" if each[0] == "=" else "resourceClaimName"): each.lstrip("=")}
               for i, each in enumerate(claims)]  # fmt: skip
    if entries:
        more["resourceClaims"] = entries
    found = pod(name, **more)
    found["metadata"]["uid"] = f"uid-{name}"
    statuses = [{"name": f"e{i}", "resourceClaimName": each[1:]} for i, each in enumerate(claims) if each[0] == "="]
    if statuses:
        found["status"]["resourceClaimStatuses"] = statuses
    if resources:
        found["spec"]["containers"][0]["resources"]["requests"] |= resources
    return found


def world(*items: Object, gates: FeatureGates | None = None) -> Snapshot:
    """The objects, with nodes n1 and n2 and a class ``gpu`` if these are missing."""
    kinds = {each["kind"] for each in items}
    more = [node("n1"), node("n2")] if "Node" not in kinds else []
    more += [device_class()] if "DeviceClass" not in kinds else []
    snapshot = from_objects([*more, *items], validate=False)
    if gates is not None:
        snapshot.gates = gates
    return snapshot


def pods(snapshot: Snapshot) -> dict[str, objects.Pod]:
    return {each.metadata.name or "": each for each in snapshot.pods}


def why(snapshot: Snapshot, name: str = "p", on: str = "n1") -> str | None:
    """Why DynamicResources rejects the pod on a node."""
    wanted = pods(snapshot)[name]
    return next((text for rule, text in Judge(snapshot, [wanted]).faults(wanted, on) if rule == "DynamicResources"), None)


def taken(snapshot: Snapshot, *binds: tuple[str, str]) -> list[list[str]]:
    """The devices that pods are allocated when they are bound one after the other, ``request=device``; "-" for one that is rejected."""
    by_name = pods(snapshot)
    judge = Judge(snapshot, [by_name[name] for name, _ in binds])
    found = []
    for name, on in binds:
        (faults,) = judge.bind([(by_name[name], on)])
        grants = cast("Sequence[Grant]", judge.holdings(by_name[name])["DynamicResources"])
        named = [f"{each.ask.name}={each.device.id[2]}" for grant in grants for each in grant.devices]
        found.append(["-"] if any(rule == "DynamicResources" for rule, _ in faults) else named)
    return found


def named(claim: str, device: str, request: str = "r", pool: str = "s", **more: Any) -> DeviceResult:
    return DeviceResult(claim, request, DRIVER, pool, device, **more)


def placement(snapshot: Snapshot, *assignments: Assignment) -> Placement:
    reference = SnapshotRef(snapshot.sha256, len(snapshot.nodes), len(snapshot.pods), len(assignments))
    return Placement(reference, "exact", "feasible", [], list(assignments))
