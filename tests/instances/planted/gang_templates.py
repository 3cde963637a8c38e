"""The manifests of planted gangs: Deployments, StatefulSets and Jobs, joined by an annotation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tests.instances.planted.gang_fleet import DEDICATED

Object = dict[str, Any]

NAMESPACE: Final = "train"
#: The gang that all templates of a planted instance join.
GANG: Final = "planted"
_GANG: Final = "kubestow.dev/gang"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_API: Final = {"Deployment": "apps/v1", "StatefulSet": "apps/v1", "Job": "batch/v1"}


@dataclass
class Template:
    """A PodTemplate with its replicas. ``cpu``: mCPU, ``memory``: MiB of a pod; ``affine``, ``anti``, ``spread``: required terms and
    constraints; ``selector``: its nodeSelector; ``tolerates``: the dedicated nodes too; ``port``: a host port; ``limited``: limits as
    requested (QoS Guaranteed); ``claims``: names of PersistentVolumeClaims that each of its pods mounts."""

    name: str
    kind: str
    replicas: int
    cpu: int = 0
    memory: int = 0
    labels: dict[str, str] = field(default_factory=dict)
    affine: list[Object] = field(default_factory=list)
    anti: list[Object] = field(default_factory=list)
    spread: list[Object] = field(default_factory=list)
    selector: dict[str, str] = field(default_factory=dict)
    tolerates: bool = False
    port: int | None = None
    limited: bool = False
    claims: Sequence[str] = ()

    @property
    def key(self) -> str:
        """Kind and name, as documents have them."""
        return f"{self.kind} {NAMESPACE}/{self.name}"

    def spec(self) -> Object:
        """The spec of its pods."""
        cpu = str(self.cpu // 1000) if self.cpu % 1000 == 0 else f"{self.cpu}m"  # whole CPUs are exclusive ones
        amounts = {"cpu": cpu, "memory": f"{self.memory}Mi"}
        container: Object = {"name": "main", "image": "registry.example.com/train/main:1.0", "resources": {"requests": amounts}}
        if self.limited:
            container["resources"]["limits"] = amounts
        if self.port is not None:
            container["ports"] = [{"containerPort": self.port, "hostPort": self.port, "protocol": "TCP"}]
        affinity = {
            name: {_REQUIRED: terms} for name, terms in (("podAffinity", self.affine), ("podAntiAffinity", self.anti)) if terms
        }  # fmt: skip
        optional: Object = {
            "affinity": affinity,
            "topologySpreadConstraints": self.spread,
            "nodeSelector": self.selector,
            "tolerations": [DEDICATED] if self.tolerates else [],
            "volumes": [{"name": f"data-{i}", "persistentVolumeClaim": {"claimName": name}} for i, name in enumerate(self.claims)],
        }
        spec: Object = {"containers": [container]} | {key: value for key, value in optional.items() if value}
        return spec | {"restartPolicy": "Never"} if self.kind == "Job" else spec

    def manifest(self, gang: str, required: str | None = None) -> Object:
        """The workload object. ``required``: all members of the gang in one domain of this key."""
        notes = {_GANG: gang} | ({"kubestow.dev/required-topology": required} if required else {})
        labels = {"app": self.name, **self.labels}
        template = {"metadata": {"labels": labels, "annotations": notes}, "spec": self.spec()}
        metadata = {"name": self.name, "namespace": NAMESPACE, "labels": {"app": self.name}, "annotations": notes}
        spec: Object = {"template": template}
        if self.kind == "Job":
            spec = {"parallelism": self.replicas, "completions": self.replicas, **spec}
        else:
            spec = {"replicas": self.replicas, "selector": {"matchLabels": {"app": self.name}}, **spec}
            if self.kind == "StatefulSet":
                spec["serviceName"] = self.name
        return {"apiVersion": _API[self.kind], "kind": self.kind, "metadata": metadata, "spec": spec}


def near(labels: dict[str, str], key: str) -> Object:
    """A term: pods with the labels, in the same domain."""
    return {"labelSelector": {"matchLabels": labels}, "topologyKey": key}


def even(name: str, key: str, skew: int) -> Object:
    """A hard constraint: the template's pods evenly over the domains."""
    return {
        "maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": name}},
    }  # fmt: skip


def namespaces() -> list[Object]:
    """The Namespace objects: of the running pods and of the gang."""
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in ("prod", NAMESPACE)]
