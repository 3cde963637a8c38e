"""A synthetic workload and its API objects: controller, Service, PodDisruptionBudget and pods."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from kubestow.instances.generate.draw import suffix
from kubestow.instances.generate.fleet import CPU, GPU, GPUS, MEMORY, STORAGE

Object = dict[str, Any]

_API: Final = {"Deployment": "apps/v1", "ReplicaSet": "apps/v1", "StatefulSet": "apps/v1", "DaemonSet": "apps/v1", "Job": "batch/v1"}
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
#: Requests in mCPU and MiB of the second container of some pods.
PROXY: Final = (50, 64)


@dataclass
class Wishes:
    """Placement fields of a workload's pods, as parts of a pod's spec: lists of terms by kind."""

    selector: dict[str, str] = field(default_factory=dict)
    tolerations: list[Object] = field(default_factory=list)
    node: list[Object] = field(default_factory=list)  # expressions that must all hold
    anti: list[Object] = field(default_factory=list)
    affine: list[Object] = field(default_factory=list)
    spread: list[Object] = field(default_factory=list)
    prefers_node: list[Object] = field(default_factory=list)
    prefers_anti: list[Object] = field(default_factory=list)
    prefers_affine: list[Object] = field(default_factory=list)

    def __add__(self, other: Wishes) -> Wishes:
        theirs = vars(other)
        return Wishes(**{key: own | theirs[key] if key == "selector" else own + theirs[key] for key, own in vars(self).items()})

    def spec(self) -> Object:
        """Return the fields as parts of a pod's spec."""
        node = {_REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": self.node}]} if self.node else None, _PREFERRED: self.prefers_node}
        affinity = {
            "nodeAffinity": _filled(node),
            "podAffinity": _filled({_REQUIRED: self.affine, _PREFERRED: self.prefers_affine}),
            "podAntiAffinity": _filled({_REQUIRED: self.anti, _PREFERRED: self.prefers_anti}),
        }
        return _filled({
            "nodeSelector": self.selector, "tolerations": self.tolerations, "affinity": _filled(affinity),
            "topologySpreadConstraints": self.spread,
        })  # fmt: skip


@dataclass
class Workload:
    """A controller and its identical pods.

    Attributes:
        demand: Requests of a pod, in the units of :data:`kubestow.instances.generate.fleet.RESOURCES`.
        proxy: True if its pods have a second container.
        guaranteed: True if limits equal requests.
        pool: Dedicated pool of its pods, or None.
        port: Host port of its pods, or None.
        provider: Index of the workload that it has affinity to, or None.
        on: Node of each replica in the planted placement, in a valid bind order; empty if it is not planted.
        bound: Number of replicas that run, the first ones of ``on``.
    """

    name: str
    namespace: str
    kind: str  # Deployment, StatefulSet, Job, DaemonSet
    replicas: int
    demand: tuple[int, int, int, int, int]
    uid: str
    hash: str
    proxy: bool = False
    guaranteed: bool = False
    priority: tuple[str, int] | None = None  # PriorityClass and its value
    pool: str | None = None
    port: int | None = None
    wishes: Wishes = field(default_factory=Wishes)
    provider: int | None = None
    on: list[int] = field(default_factory=list)
    bound: int = 0
    service: bool = False
    budget: Object | None = None

    @property
    def select(self) -> Object:
        return {"matchLabels": {"app": self.name}}

    @property
    def owner(self) -> tuple[str, str]:
        """Kind and name of the pods' controller."""
        return ("ReplicaSet", f"{self.name}-{self.hash}") if self.kind == "Deployment" else (self.kind, self.name)

    def pod_names(self) -> Iterator[str]:
        """Yield the names of the replicas, in order."""
        for i in range(self.replicas):
            yield f"{self.owner[1]}-{i}" if self.kind == "StatefulSet" else f"{self.owner[1]}-{suffix(i)}"

    def labels(self) -> dict[str, str]:
        """Return the labels of all its pods."""
        own = {"app": self.name}
        if self.kind == "Deployment":
            own["pod-template-hash"] = self.hash
        elif self.kind == "Job":
            own["batch.kubernetes.io/controller-uid"] = self.uid
        return own

    def spec(self) -> Object:
        """Return the spec of its pods without a node."""
        asked = list(self.demand)
        containers: list[Object] = []
        if self.proxy:
            asked[CPU] -= PROXY[0]
            asked[MEMORY] -= PROXY[1]
            containers.append(self._container("proxy", {"cpu": f"{PROXY[0]}m", "memory": f"{PROXY[1]}Mi"}))
        cpu = str(asked[CPU] // 1000) if asked[CPU] % 1000 == 0 else f"{asked[CPU]}m"
        requests = {"cpu": cpu, "memory": f"{asked[MEMORY]}Mi"}
        if asked[STORAGE]:
            requests["ephemeral-storage"] = f"{asked[STORAGE]}Gi"
        if asked[GPUS]:
            requests[GPU] = str(asked[GPUS])
        main = self._container("app", requests)
        if self.port is not None:
            main["ports"] = [{"containerPort": self.port, "hostPort": self.port, "protocol": "TCP"}]
        spec: Object = {"containers": [main, *containers], **self.wishes.spec()}
        if self.priority is not None:
            spec |= {"priorityClassName": self.priority[0], "priority": self.priority[1]}
        if self.kind == "Job":
            spec["restartPolicy"] = "Never"
        return spec

    def _container(self, name: str, requests: Object) -> Object:
        # An extended resource must have a limit equal to its request.
        limits = requests if self.guaranteed else {k: v for k, v in requests.items() if k == GPU}
        return {"name": name, "image": f"registry.example.com/{self.namespace}/{name}:1.0", "resources": _filled({
            "requests": requests, "limits": limits,
        })}  # fmt: skip

    def controllers(self) -> Iterator[Object]:
        """Yield the controller (a Deployment with its ReplicaSet), the Service and the PodDisruptionBudget."""
        labels = self.labels()
        selector: Object = self.select
        template = {"metadata": {"labels": labels}, "spec": {k: v for k, v in self.spec().items() if k != "priority"}}
        if self.kind == "Job":
            selector = {"matchLabels": {"batch.kubernetes.io/controller-uid": self.uid}}
            yield self._object("Job", self.name, {"parallelism": self.replicas, "completions": self.replicas, "selector": selector,
                                                  "template": template})  # fmt: skip
        elif self.kind == "DaemonSet":
            yield self._object("DaemonSet", self.name, {"selector": selector, "template": template})
        elif self.kind == "StatefulSet":
            yield self._object("StatefulSet", self.name, {"replicas": self.replicas, "serviceName": self.name, "selector": selector,
                                                          "template": template})  # fmt: skip
        else:
            first = {"metadata": {"labels": selector["matchLabels"]}, "spec": template["spec"]}
            yield self._object("Deployment", self.name, {"replicas": self.replicas, "selector": selector, "template": first}, own=False)
            whole = self._object("ReplicaSet", self.owner[1], {"replicas": self.replicas, "selector": {"matchLabels": labels},
                                                               "template": template})  # fmt: skip
            whole["metadata"]["ownerReferences"] = [_reference("Deployment", self.name, f"{self.uid[:-4]}0000")]
            yield whole
        if self.service:
            headless: Object = {"clusterIP": "None"} if self.kind == "StatefulSet" else {}
            yield _namespaced("v1", "Service", self, headless | {"selector": {"app": self.name}, "ports": [{"port": 80}]})
        if self.budget is not None:
            yield _namespaced("policy/v1", "PodDisruptionBudget", self, {**self.budget, "selector": self.select})

    def _object(self, kind: str, name: str, spec: Object, *, own: bool = True) -> Object:
        uid = self.uid if own else f"{self.uid[:-4]}0000"
        metadata = {"name": name, "namespace": self.namespace, "uid": uid, "labels": {"app": self.name}}
        return {"apiVersion": _API[kind], "kind": kind, "metadata": metadata, "spec": spec}

    def pods(self, node_names: list[str]) -> Iterator[Object]:
        """Yield the Pod objects in the order of :attr:`on`. The first ``bound`` ones run."""
        spec, labels = self.spec(), self.labels()
        owners = [_reference(*self.owner, self.uid)]
        for i, name in enumerate(self.pod_names()):
            metadata: Object = {"name": name, "namespace": self.namespace, "labels": labels, "ownerReferences": owners}
            if self.kind == "StatefulSet":
                metadata["labels"] = {**labels, "statefulset.kubernetes.io/pod-name": name, "apps.kubernetes.io/pod-index": str(i)}
            own, phase = spec, "Pending"
            if i < self.bound:
                node, phase = node_names[self.on[i]], "Running"
                own = {**spec, "nodeName": node}
                if self.kind == "DaemonSet":
                    own["affinity"] = _to_node(node)
            yield {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": own, "status": {"phase": phase}}


def _filled(parts: Object) -> Object:
    return {key: value for key, value in parts.items() if value}


def _reference(kind: str, name: str, uid: str) -> Object:
    return {"apiVersion": _API[kind], "kind": kind, "name": name, "uid": uid, "controller": True, "blockOwnerDeletion": True}


def _namespaced(version: str, kind: str, of: Workload, spec: Object) -> Object:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": of.name, "namespace": of.namespace}, "spec": spec}


def _to_node(name: str) -> Object:
    """Return the affinity by which the DaemonSet controller binds a pod to its node."""
    field_ = {"key": "metadata.name", "operator": "In", "values": [name]}
    return {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": [{"matchFields": [field_]}]}}}
