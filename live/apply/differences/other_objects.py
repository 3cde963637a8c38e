"""Differences of other objects: budgets, claims, volumes, namespaces, classes, quotas, gangs and workloads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from kubestow.live.apply.differences import fields
from kubestow.live.apply.differences.found import Drift
from kubestow.models.disruption.eviction_requests import described, target
from kubestow.models.kube import device_objects, kinds, objects, storage_objects, workload_objects
from kubestow.models.kube.workload_objects import Job, ReplicaSet
from kubestow.models.snapshot.snapshot import Snapshot

View = Callable[[Any], dict[str, Any]]
_SELECTED: Final = "volume.kubernetes.io/selected-node"


class Compared(NamedTuple):
    """Rules for comparing a kind.

    Attributes:
        kind: The kind.
        view: Returns the fields that placement reads.
        new: Returns True if a new object matters even before a pod needs it.
        node: Returns the node of an object; empty for none.
    """

    kind: str
    view: View
    new: Callable[[Any], bool] = lambda _: False
    node: Callable[[Any], str] = lambda _: ""


def _budget(found: workload_objects.PodDisruptionBudget) -> dict[str, Any]:
    return {"spec": _spec(found), "terminating": _terminating(found)}


def _claim(found: storage_objects.PersistentVolumeClaim) -> dict[str, Any]:
    phase = found.status.phase if found.status is not None else None
    selected = (found.metadata.annotations or {}).get(_SELECTED)
    spec = _spec(found)
    return {"spec": spec, "status": {"phase": phase}, "selected-node": selected, "terminating": _terminating(found)}


def _volume(found: storage_objects.PersistentVolume) -> dict[str, Any]:
    """Return the view without the handle, which redaction hashes and which never changes for a bound volume."""
    spec = _spec(found)
    if isinstance(spec.get("csi"), dict):
        spec["csi"] = {"driver": spec["csi"].get("driver")}
    return {"spec": spec, "status": {"phase": found.status.phase if found.status is not None else None}, "terminating": _terminating(found)}


def _csi_node(found: storage_objects.CSINode) -> dict[str, Any]:
    drivers = (found.spec.drivers if found.spec is not None else None) or []
    return {"drivers": {each.name: fields.plain(each.allocatable or {}) | {"topologyKeys": each.topologyKeys} for each in drivers}}


def _device_claim(found: device_objects.ResourceClaim) -> dict[str, Any]:
    """Return the view without the users of the claim, which follow the pods."""
    spec = _spec(found)
    allocation = found.status.allocation if found.status is not None else None
    status = {"allocation": fields.plain(allocation) if allocation is not None else None}
    return {"spec": spec, "status": status, "terminating": _terminating(found)}


def _devices_of(found: device_objects.ResourceClaim) -> list[str]:
    """Return the devices allocated to a claim."""
    allocation = found.status.allocation if found.status is not None else None
    results = (allocation.devices.results if allocation is not None and allocation.devices is not None else None) or ()
    return [f"{each.driver}/{each.pool}/{each.device}" for each in results]


def _node_of(found: device_objects.ResourceClaim) -> str:
    """Return the only node on which an allocated claim can be used; empty for none or several."""
    allocation = found.status.allocation if found.status is not None else None
    selector = allocation.nodeSelector if allocation is not None else None
    terms = (selector.nodeSelectorTerms if selector is not None else None) or ()
    names = [value for term in terms for each in term.matchFields or () for value in each.values or ()]
    return names[0] if len(names) == 1 else ""


def _slice(found: device_objects.ResourceSlice) -> dict[str, Any]:
    """Return the view without the generation, which drivers raise whenever they publish again."""
    spec = fields.plain(found.spec)
    return {"spec": spec | {"pool": {name: value for name, value in spec["pool"].items() if name != "generation"}}}


def _topology(found: Any) -> dict[str, Any]:
    """Return the view without available amounts, which follow the pods."""
    zones = {
        zone.name: {r.name: {"allocatable": {r.name: r.allocatable}, "capacity": {r.name: r.capacity}} for r in zone.resources or ()}
        for zone in found.zones or ()
    }
    return {"policies": found.topologyPolicies, "attributes": {a.name: a.value for a in found.attributes or ()}, "zones": zones}


def _namespace(found: objects.Namespace) -> dict[str, Any]:
    return {"labels": found.metadata.labels or {}, "terminating": _terminating(found)}


def workload(found: Any) -> dict[str, Any]:
    """Return replicas, selector and pod template of a workload."""
    spec = found.spec
    if spec is None:
        return {"terminating": _terminating(found)}
    view: dict[str, Any] = {
        name: getattr(spec, name, None) for name in ("replicas", "parallelism", "completions", "suspend", "paused") if hasattr(spec, name)
    }
    selector = getattr(spec, "selector", None)
    view["selector"] = fields.plain(selector) if selector is not None else None
    template = kinds.pod_template(found)
    if template is not None:
        made = template[1]
        view["template"] = {
            "metadata": fields.metadata(made.metadata) if made.metadata is not None else {},
            "spec": fields.pod_spec(made.spec) if made.spec is not None else {},
            "containers": _containers(made.spec),
        }
    return {**view, "terminating": _terminating(found)}


def _containers(spec: objects.PodSpec | None) -> dict[str, Any]:
    listed = (*(spec.initContainers or ()), *(spec.containers or ())) if spec is not None else ()
    requests = {each.name or "": {"requests": dict((each.resources.requests if each.resources else None) or {})} for each in listed}
    if spec is not None and spec.resources is not None:
        requests[""] = {"requests": dict(spec.resources.requests or {})}
    return requests


def _spec_alone(found: Any) -> dict[str, Any]:
    return {"spec": _spec(found)}


def _spec(found: Any) -> Any:
    spec = getattr(found, "spec", None)
    return fields.plain(spec) if spec is not None else {}


def _class(found: Any) -> dict[str, Any]:
    view = {name: value for name, value in fields.plain(found).items() if name not in ("metadata", "status")}
    return view | {"annotations": fields.metadata(found.metadata)["annotations"]}


def _eviction_request(found: workload_objects.EvictionRequest) -> dict[str, Any]:
    return {"counts": target(found) is not None}


def _always(found: Any) -> bool:
    return True


def _terminating(found: Any) -> bool | None:
    return True if found.metadata.deletionTimestamp is not None else None


_KINDS: Final = (
    Compared("PodDisruptionBudget", _budget, new=_always),
    Compared("EvictionRequest", _eviction_request, new=lambda found: target(found) is not None),
    Compared("PersistentVolumeClaim", _claim),
    Compared("PersistentVolume", _volume),
    Compared("StorageClass", _class),
    Compared("CSINode", _csi_node),
    Compared("CSIDriver", _spec_alone, new=_always),
    Compared("ResourceClaim", _device_claim, new=lambda found: bool(_devices_of(found)), node=_node_of),
    Compared("DeviceClass", _class, new=_always),
    Compared("DeviceTaintRule", _spec_alone, new=_always),
    Compared("ResourceSlice", _slice, new=_always, node=lambda found: found.spec.nodeName or ""),
    Compared("NodeResourceTopology", _topology),
    Compared("Namespace", _namespace),
    Compared("PriorityClass", _class),
    Compared("ResourceQuota", _spec_alone, new=_always),
    Compared("LimitRange", _spec_alone, new=_always),
    Compared("RuntimeClass", _class),
    Compared("PodGroup", _spec_alone),
    Compared("Workload", _spec_alone),
    Compared("Service", _spec_alone),
    Compared("Deployment", workload),
    Compared("ReplicaSet", workload),
    Compared("StatefulSet", workload),
    Compared("DaemonSet", workload, new=_always),
    Compared("ReplicationController", workload),
    Compared("Job", workload),
)


def by_name(snapshot: Snapshot, kind: str) -> dict[str, Any]:
    """Return the objects of a kind by namespace/name (cluster-scoped ones by name; pod groups with their API group)."""
    listed = snapshot.collection(kind)
    namespaced = kinds.KINDS[kind].namespaced
    found = {}
    for each in listed.values() if isinstance(listed, Mapping) else listed:
        name = each.metadata.name or ""
        key = f"{each.metadata.namespace or 'default'}/{name}" if namespaced else name
        found[f"{key} ({each.group})" if kind == "PodGroup" else key] = each
    return found


def drifts(before: Snapshot, now: Snapshot, own: frozenset[tuple[str, str]]) -> Iterator[Drift]:
    """Yield the differences between these objects. ``own``: kind and name of objects that the run changes itself."""
    for compared in _KINDS:
        one, other = by_name(before, compared.kind), by_name(now, compared.kind)
        for name, found in one.items():
            if (compared.kind, name) not in own:
                yield from _difference(compared, name, found, other.get(name))
        for name, found in other.items():
            if name not in one and (compared.new(found) or _is_rollout(compared.kind, found, before)) and (compared.kind, name) not in own:
                message, value = _new(compared.kind, name, found), repr(compared.view(found))
                yield Drift(compared.kind, name, "new", message, compared.node(found), value)


def _difference(compared: Compared, name: str, found: Any, there: Any) -> Iterator[Drift]:
    kind = compared.kind
    if there is None:
        if not _is_over(found):
            yield Drift(kind, name, "gone", f"{kind} {name} is gone", compared.node(found))
        return
    if found == there:
        return
    if found.metadata.uid and there.metadata.uid and found.metadata.uid != there.metadata.uid:
        yield Drift(kind, name, "recreated", f"{kind} {name} was deleted and made again", "", str(there.metadata.uid))
    node = compared.node(there) or compared.node(found)
    if isinstance(there, device_objects.ResourceClaim) and (text := _allocation(name, found, there)):
        yield Drift(kind, name, "allocation", text, node, repr(compared.view(there)["status"]))
    for each in fields.changed(compared.view(found), compared.view(there)):
        if kind == "ResourceClaim" and each.path[0] == "status":
            continue
        if each.path == ("terminating",):
            yield Drift(kind, name, "terminating", f"{kind} {name} is being deleted")
        else:
            what = each.path[1] if each.path[0] in ("spec", "status") and len(each.path) > 1 else each.path[0]
            yield Drift(kind, name, what, f"{kind} {name}: {fields.clause(each)}", node, repr(each.new))


def _allocation(name: str, found: device_objects.ResourceClaim, there: device_objects.ResourceClaim) -> str:
    """Return a sentence about changed devices of a claim; empty if they are the same."""
    if _device_claim(found)["status"] == _device_claim(there)["status"]:
        return ""
    before, now = (", ".join(_devices_of(each)) or "none" for each in (found, there))
    return f"ResourceClaim {name} has {now} now, had {before}" if before != now else f"ResourceClaim {name} has {now} in another way now"


def _is_over(found: Any) -> bool:
    """Return True if the deletion of an object does not matter: an old revision, or a job."""
    if isinstance(found, ReplicaSet):
        return found.spec is not None and found.spec.replicas == 0
    return isinstance(found, Job)  # its pods say more


def _is_rollout(kind: str, found: Any, before: Snapshot) -> bool:
    """Return True if the object is a new ReplicaSet with pods of an existing Deployment."""
    if kind != "ReplicaSet" or (found.spec is not None and found.spec.replicas == 0):
        return False
    above = {(each.kind, found.metadata.namespace, each.name) for each in found.metadata.ownerReferences or () if each.controller}
    return any(("Deployment", each.metadata.namespace, each.metadata.name) in above for each in before.workloads.get("Deployment", ()))


def _new(kind: str, name: str, found: Any) -> str:
    owner = next((each.name for each in found.metadata.ownerReferences or () if each.controller), None)
    if kind == "ReplicaSet" and owner is not None:
        return f"ReplicaSet {name} is new: a rollout of Deployment {owner} is under way"
    if isinstance(found, device_objects.ResourceClaim):
        return f"ResourceClaim {name} is new and has {', '.join(_devices_of(found))}"
    if isinstance(found, workload_objects.EvictionRequest):
        return f"{described(found)} asks for the eviction of pod {target(found)}"
    return f"{kind} {name} is new"
