"""Nodes and pods of control planes, for tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kubestow.audit.checks.control_plane.check import check, describe
from kubestow.audit.view.view import ClusterView
from kubestow.models.documents.findings.audit import ControlPlane, Finding
from kubestow.models.snapshot.snapshot import from_objects
from tests.objects import Object, node, pod

HOST_ID = "topology.scs.community/host-id"
HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
ALL = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd")
ROLE = "node-role.kubernetes.io/control-plane"


def member(name: str, *, role: str | None = ROLE, host: str | None = None, zone: str | None = None, **labels: str) -> Object:
    """A node, of the control plane by default. ``labels``: further ones, two underscores for a slash, one for a dot."""
    found = {HOST_ID: host, ZONE: zone} | {key.replace("__", "/").replace("_", "."): value for key, value in labels.items()}
    return node(name, labels={k: v for k, v in found.items() if v is not None} | ({role: ""} if role else {}))


def static(component: str, on: str, *, namespace: str = "kube-system", labels: Mapping[str, str] | None = None) -> Object:
    """A static pod as kubeadm has it, or with other labels."""
    own = {"component": component, "tier": "control-plane"} if labels is None else dict(labels)
    found = pod(f"{component}-{on}", namespace=namespace, node_name=on, labels=own)
    found["metadata"]["ownerReferences"] = [{"apiVersion": "v1", "kind": "Node", "name": on, "uid": on, "controller": True}]
    return found


def plane(hosts: Sequence[str | None], parts: Sequence[str] = ALL, **zones: str) -> list[Object]:
    """Nodes cp-0, cp-1, … on these machines, each with all components; ``zones``: by machine."""
    nodes = [member(f"cp-{i}", host=host, zone=zones.get(host or "")) for i, host in enumerate(hosts)]
    return nodes + [static(part, f"cp-{i}") for part in parts for i in range(len(hosts))]


def look(objects: Iterable[Object], **options: Any) -> ClusterView:
    return ClusterView(from_objects(objects), **options)


def found(objects: Iterable[Object], **options: Any) -> list[Finding]:
    """All findings but those about labels of zones and regions, which most tests leave out."""
    return [finding for finding in check(look(objects, **options)) if finding.code != "KS913"]


def codes(objects: Iterable[Object], **options: Any) -> list[str]:
    return [finding.code for finding in found(objects, **options)]


def described(objects: Iterable[Object], **options: Any) -> ControlPlane:
    document = describe(look(objects, **options))
    assert document is not None
    return document
