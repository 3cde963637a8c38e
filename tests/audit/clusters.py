"""Clusters as they are found in the field, and workloads in them, for tests."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from tests.audit.control_planes import HOST_ID, HOSTNAME, REGION, ROLE, ZONE
from tests.objects import Object, node

NODES = [f"w{i}" for i in range(6)]
_PATIENT = [
    {"key": f"node.kubernetes.io/{state}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for state in ("not-ready", "unreachable")
]
REQUESTS = {"requests": {"cpu": "100m", "memory": "128Mi"}}


def meta(name: str, namespace: str = "default", owner: tuple[str, str] | None = None, **more: Any) -> Object:
    found: Object = {"name": name, "namespace": namespace, **more}
    if owner is not None:
        kind, of = owner
        found["ownerReferences"] = [{"apiVersion": "x/v1", "kind": kind, "name": of, "uid": of, "controller": True}]
    return found


def container(name: str = "c", resources: Object | None = REQUESTS, **more: Any) -> Object:
    return {"name": name, "image": "i", **({"resources": resources} if resources else {}), **more}


def workload(
    kind: str, name: str, replicas: int, *, namespace: str = "default", owner: tuple[str, str] | None = None, **spec: Any
) -> Object:
    """A workload whose template has the label app; ``spec``: of its pods, and what goes into its own as ``of``."""
    own = spec.pop("of", {})
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container()], **spec}}
    if kind == "CronJob":
        inner: Object = {"schedule": "0 0 * * *", "jobTemplate": {"spec": {"template": template}}}
    elif kind == "Job":
        inner = {"template": template, "completions": replicas, "parallelism": replicas}
    else:
        inner = {"selector": {"matchLabels": {"app": name}}, "template": template}
        if kind != "DaemonSet":
            inner["replicas"] = replicas
    api = "batch/v1" if kind in ("Job", "CronJob") else "apps/v1"
    return {"apiVersion": api, "kind": kind, "metadata": meta(name, namespace, owner), "spec": {**inner, **own}}


def pod_of(
    kind: str, name: str, i: int, on: str | None, *, namespace: str = "default", phase: str = "", hash: str = "abc", **spec: Any
) -> Object:
    """A pod of a workload, through its ReplicaSet if it is a Deployment's, as the API server has it."""
    labels, owner, own = {"app": name}, (kind, name), f"{name}-{i}"
    if kind == "Deployment":
        labels["pod-template-hash"], owner, own = hash, ("ReplicaSet", f"{name}-{hash}"), f"{name}-{hash}-{i}"
    found = deepcopy({"containers": [container()], **spec})
    found["tolerations"] = [*found.get("tolerations", ()), *_PATIENT]
    if on is not None:
        found["nodeName"] = on
    status = {"phase": phase or ("Running" if on else "Pending")}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta(own, namespace, owner, labels=labels), "spec": found, "status": status}


def replica_set(name: str, hash: str, replicas: int, *, namespace: str = "default", **spec: Any) -> Object:
    found = workload("ReplicaSet", name, replicas, namespace=namespace, owner=("Deployment", name), **spec)
    found["metadata"]["name"] = f"{name}-{hash}"
    found["spec"]["template"]["metadata"]["labels"]["pod-template-hash"] = hash
    return found


def runs(
    kind: str, name: str, on: Sequence[str | None], *, replicas: int | None = None, owner: tuple[str, str] | None = None, **spec: Any
) -> list[Object]:
    """A workload and its pods on these nodes (None: waiting), for a Deployment its ReplicaSet as well."""
    count = len(on) if replicas is None else replicas
    found = [workload(kind, name, count, owner=owner, **deepcopy(spec))]
    spec.pop("of", None)
    if kind == "Deployment":
        found.append(replica_set(name, "abc", count, **deepcopy(spec)))
    return found + [pod_of(kind, name, i, where, **spec) for i, where in enumerate(on)]


def static(component: str, on: str) -> Object:
    """A static pod as kubeadm writes them: it tolerates NoExecute, and not the NoSchedule taint that its node has."""
    found = meta(f"{component}-{on}", "kube-system", ("Node", on), labels={"component": component, "tier": "control-plane"})
    found["annotations"] = {"kubernetes.io/config.mirror": "x"}
    tolerations = [{"operator": "Exists", "effect": "NoExecute"}]
    spec = {
        "containers": [container(component)], "nodeName": on, "hostNetwork": True, "tolerations": tolerations,
        "priority": 2000001000, "priorityClassName": "system-node-critical",
    }  # fmt: skip
    return {"apiVersion": "v1", "kind": "Pod", "metadata": found, "spec": spec, "status": {"phase": "Running"}}


def kubeadm() -> list[Object]:
    """Make three control-plane nodes and six workers in three zones, with the system pods of every node."""
    parts = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd")
    taint = {"key": ROLE, "effect": "NoSchedule"}
    found = [node(f"cp{i}", labels={ROLE: "", ZONE: f"z{i}", REGION: "r", HOST_ID: f"h{i}"}, taints=[taint]) for i in range(3)]
    found += [node(name, labels={ZONE: f"z{i % 3}", REGION: "r", HOST_ID: f"h{i + 3}"}) for i, name in enumerate(NODES)]
    found += [static(part, f"cp{i}") for part in parts for i in range(3)]
    everywhere: Object = {"tolerations": [{"operator": "Exists"}], "hostNetwork": True, "priorityClassName": "system-node-critical"}
    found += runs("DaemonSet", "kube-proxy", [f"cp{i}" for i in range(3)] + NODES, namespace="kube-system", **everywhere)
    return found + [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in ("default", "kube-system")]


def changed(objects: Sequence[Object], name: str, **spec: Any) -> list[Object]:
    """With fields of a node's spec set."""
    return [{**o, "spec": {**o["spec"], **spec}} if o["kind"] == "Node" and o["metadata"]["name"] == name else o for o in objects]


def drained(objects: Sequence[Object], *names: str) -> list[Object]:
    """With nodes cordoned, as the control plane shows it."""
    taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    for name in names:
        objects = changed(objects, name, unschedulable=True, taints=[taint])
    return list(objects)


def service(name: str, selector: dict[str, str] | None, **spec: Any) -> Object:
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta(name), "spec": {"selector": selector, **spec}}


def budget(name: str, **spec: Any) -> Object:
    selector = {"matchLabels": {"app": name}}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta(name), "spec": {"selector": selector, **spec}}


def volume(claim: str, zone: str) -> list[Object]:
    """A bound claim of class fast and its volume, which is of one zone."""
    term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}
    both = {"storageClassName": "fast", "accessModes": ["ReadWriteOnce"]}
    own = {**both, "volumeName": f"pv-{claim}", "resources": {"requests": {"storage": "1Gi"}}}
    made = {**both, "capacity": {"storage": "1Gi"}, "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}}
    return [
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta(claim), "spec": own, "status": {"phase": "Bound"}},
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": f"pv-{claim}"}, "spec": made},
    ]


def apart(name: str, key: str = HOSTNAME) -> Object:
    """Required anti-affinity of a workload to itself, as ``affinity``."""
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": name}}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def spread(name: str, key: str = ZONE, **more: Any) -> list[Object]:
    """A hard constraint of a workload, as ``topologySpreadConstraints``."""
    return [
        {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": name}}, **more}
    ]
