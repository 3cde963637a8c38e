"""Short constructors of CapacityBuffers, PodTemplates and clusters with them."""

from __future__ import annotations

from typing import Any

from tests.objects import Object, node, pod


def template(name: str, cpu: str = "2", memory: str = "1Gi", *, labels: dict[str, str] | None = None, **spec: Any) -> Object:
    """Return a PodTemplate with one container."""
    inner = pod("x", cpu=cpu, memory=memory, **spec)["spec"]
    made = {"metadata": {"labels": labels or {"app": name}}, "spec": inner}
    return {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": name, "namespace": "default"}, "template": made}


def buffer(name: str, of: str | None = None, replicas: int | None = None, *, status: Object | None = None, **spec: Any) -> Object:
    """Return a CapacityBuffer. ``of`` is its PodTemplate."""
    given = {"podTemplateRef": {"name": of} if of is not None else None, "replicas": replicas, **spec}
    found: Object = {
        "apiVersion": "autoscaling.x-k8s.io/v1beta1",
        "kind": "CapacityBuffer",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {key: value for key, value in given.items() if value is not None},
    }
    return found if status is None else found | {"status": status}


def deployment(name: str, cpu: str = "1", *, replicas: int = 10, status: int | None = None) -> Object:
    """Return a Deployment. ``status`` is its current number of replicas."""
    made = {"metadata": {"labels": {"app": name}}, "spec": pod("x", cpu=cpu)["spec"]}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": made}
    found: Object = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"}, "spec": spec}
    return found if status is None else found | {"status": {"replicas": status, "observedGeneration": 1}}


def scalable(name: str, kind: str = "Deployment", group: str = "apps") -> Object:
    """Return a reference to a workload."""
    return {"scalableRef": {"apiGroup": group, "kind": kind, "name": name}}


def nodes(number: int, cpu: str = "4") -> list[Object]:
    """Return nodes n0, n1, …, with uids as from an API server."""
    return [node(f"n{i}", cpu=cpu, memory="64Gi", labels={"pool": "a"}) for i in range(number)]
