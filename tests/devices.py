"""Short constructors of resource.k8s.io objects for tests, in addition to :mod:`tests.objects`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kubestow.models.cluster.cluster import Cluster
from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.kube.feature_gates import DEFAULT, FeatureGates
from kubestow.models.snapshot.scope import select
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from tests.objects import Object, pod

DRIVER = "gpu.example.com"
Taken = tuple[str, str]  # pool, device


def _object(kind: str, name: str, spec: Object, namespace: str | None = None, **more: Any) -> Object:
    metadata: Object = {"name": name, **({"namespace": namespace} if namespace else {}), **more.pop("metadata", {})}
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec, **more}


def device(name: str, **more: Any) -> Object:
    """Return a device. Attributes such as ``a={"model": "x"}`` are strings, integers or booleans by their Python type."""
    typed = {str: "string", bool: "bool", int: "int"}
    given = {key: {typed[type(value)]: value} for key, value in more.pop("a", {}).items()}
    return {"name": name, **({"attributes": given} if given else {}), **more}


def devices(*names: str, **more: Any) -> list[Object]:
    return [device(name, **more) for name in names]


def published(
    name: str, listed: Sequence[Object] = (), *, of: str = "", pool: str = "", slices: int = 1, generation: int = 1, **spec: Any
) -> Object:
    """Return a ResourceSlice of node ``of``, or of the nodes in ``spec``. The pool's default name is that of the node."""
    where = {"nodeName": of} if of else {}
    body = {"driver": DRIVER, "pool": {"name": pool or of or name, "generation": generation, "resourceSliceCount": slices}, **where, **spec}
    return _object("ResourceSlice", name, {**body, **({"devices": list(listed)} if listed else {})})


def device_class(name: str = "gpu", *expressions: str, **spec: Any) -> Object:
    return _object("DeviceClass", name, {"selectors": [{"cel": {"expression": each}} for each in expressions], **spec})


def asks(name: str = "r", count: int | None = 1, *, of: str = "gpu", expression: str = "", **more: Any) -> Object:
    """Return a device request. ``count`` None means all devices."""
    found: Object = {"deviceClassName": of, "allocationMode": "All"} if count is None else {"deviceClassName": of, "count": count}
    if expression:
        found["selectors"] = [{"cel": {"expression": expression}}]
    return found | more


def exactly(name: str = "r", count: int | None = 1, **more: Any) -> Object:
    return {"name": name, "exactly": asks(name, count, **more)}


def either(name: str, *alternatives: Object) -> Object:
    return {"name": name, "firstAvailable": [{"name": f"s{i}", **each} for i, each in enumerate(alternatives)]}


def claim(
    name: str, *requests: Object, constraints: Sequence[Object] = (), owner: str = "", gets: Sequence[Object] | None = None, **more: Any
) -> Object:
    """Return a ResourceClaim with the allocation ``gets``. ``owner`` is the pod that it was created for."""
    spec: Object = {"devices": {"requests": list(requests), **({"constraints": list(constraints)} if constraints else {})}}
    metadata: Object = dict(more.pop("metadata", {}))
    if owner:
        metadata["ownerReferences"] = [{"apiVersion": "v1", "kind": "Pod", "name": owner, "uid": f"uid-{owner}", "controller": True}]
    if gets is not None:
        more["status"] = {"allocation": {"devices": {"results": list(gets)}, **more.pop("allocation", {})}}
    return _object("ResourceClaim", name, spec, "default", metadata=metadata, **more)


def claim_template(name: str, *requests: Object) -> Object:
    return _object("ResourceClaimTemplate", name, {"spec": {"devices": {"requests": list(requests)}}}, "default")


def got(pool: str, name: str, request: str = "r", **more: Any) -> Object:
    return {"request": request, "driver": DRIVER, "pool": pool, "device": name, **more}


def using(name: str, *claims: str, made: Sequence[str] = (), **more: Any) -> Object:
    """Return a pod that uses claims by name, and others ``made`` from templates."""
    entries = [{"name": each, "resourceClaimName": each} for each in claims]
    entries += [{"name": each, "resourceClaimTemplateName": "t"} for each in made]
    if entries:
        more["resourceClaims"] = entries
    found = pod(name, **more)
    found["metadata"]["uid"] = f"uid-{name}"
    if made:
        found["status"]["resourceClaimStatuses"] = [{"name": each, "resourceClaimName": each} for each in made]
    return found


def snapshot(*objects: Object, version: str = DEFAULT.version, gates: dict[str, bool] | None = None) -> Snapshot:
    found = from_objects(objects, validate=False)
    found.gates = FeatureGates(version, tuple(sorted((gates or {}).items())))
    return found


def compiled(*objects: Object, version: str = DEFAULT.version, gates: dict[str, bool] | None = None) -> Cluster:
    found = snapshot(*objects, version=version, gates=gates)
    return compile_cluster(found, select(found))
