"""Short constructors of Kubernetes objects for tests."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]


def node(name: str, *, cpu: str = "4", memory: str = "8Gi", pods: str = "110", labels: dict[str, str] | None = None, **spec: Any) -> Object:
    return {
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "spec": spec, "status": {"allocatable": {"cpu": cpu, "memory": memory, "pods": pods}},
    }  # fmt: skip


def pod(
    name: str,
    *,
    namespace: str = "default",
    cpu: str = "100m",
    memory: str = "128Mi",
    labels: dict[str, str] | None = None,
    priority: int | None = None,
    node_name: str | None = None,
    owner: str | None = None,
    spread: list[Object] | None = None,
    selector: dict[str, str] | None = None,
    affinity: Object | None = None,
    **spec: Any,
) -> Object:
    metadata: Object = {"name": name, "namespace": namespace, "labels": labels or {}}
    if owner is not None:
        kind, _, owner_name = owner.partition("/")
        metadata["ownerReferences"] = [
            {"apiVersion": "apps/v1", "kind": kind, "name": owner_name, "uid": owner.replace("/", "-"), "controller": True}
        ]
    found: Object = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu, "memory": memory}}}], **spec}
    optional = {
        "priority": priority,
        "nodeName": node_name,
        "topologySpreadConstraints": spread,
        "nodeSelector": selector,
        "affinity": affinity,
    }
    found |= {key: value for key, value in optional.items() if value is not None}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": found,
        "status": {"phase": "Running" if node_name else "Pending"},
    }
