"""Random workloads and pods as a real API server returns them, and the same objects as manifests that state less, or say it otherwise.

Sources of the defaults: pkg/apis/{core,apps,batch}/v1/defaults.go of k8s.io/kubernetes, and objects read from a server of 1.36.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any, Final

Object = dict[str, Any]

KINDS: Final = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob", "PodTemplate", "ReplicationController", "Pod")
_API: Final = {"Job": "batch/v1", "CronJob": "batch/v1", "PodTemplate": "v1", "ReplicationController": "v1", "Pod": "v1"}
_UID: Final = "9f8e3df2-19a1-4f7e-8d4f-000000000001"
_TIME: Final = "2026-11-01T00:00:00Z"
#: Fields with their defaults, by name: a manifest may leave a field out wherever it has this value.
_DEFAULTS: Final[dict[str, tuple[Any, ...]]] = {
    "restartPolicy": ("Always",),
    "terminationGracePeriodSeconds": (30,),
    "dnsPolicy": ("ClusterFirst",),
    "securityContext": ({},),
    "schedulerName": ("default-scheduler",),
    "terminationMessagePath": ("/dev/termination-log",),
    "terminationMessagePolicy": ("File",),
    "imagePullPolicy": ("IfNotPresent",),
    "protocol": ("TCP",),
    "resources": ({},),
    "timeoutSeconds": (1,),
    "periodSeconds": (10,),
    "successThreshold": (1,),
    "failureThreshold": (3,),
    "scheme": ("HTTP",),
    "defaultMode": (420,),
    "expirationSeconds": (3600,),
    "volumeMode": ("Filesystem",),
    "nodeAffinityPolicy": ("Honor",),
    "nodeTaintsPolicy": ("Ignore",),
    "emptyDir": ({},),
    "type": ("",),
    "revisionHistoryLimit": (10,),
    "progressDeadlineSeconds": (600,),
    "strategy": ({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},),
    "updateStrategy": (
        {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
        {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
    ),
    "podManagementPolicy": ("OrderedReady",),
    "persistentVolumeClaimRetentionPolicy": ({"whenDeleted": "Retain", "whenScaled": "Retain"},),
    "parallelism": (1,),
    "completions": (1,),
    "backoffLimit": (6,),
    "completionMode": ("NonIndexed",),
    "suspend": (False,),
    "podReplacementPolicy": ("TerminatingOrFailed",),
    "concurrencyPolicy": ("Allow",),
    "successfulJobsHistoryLimit": (3,),
    "failedJobsHistoryLimit": (1,),
    "replicas": (1,),
}
#: Empty values that mean the same as nothing, by the object that they may be written into.
_EMPTY: Final[dict[str, tuple[Any, ...]]] = {
    "nodeSelector": ({}, None),
    "tolerations": ([], None),
    "affinity": ({}, None),
    "topologySpreadConstraints": ([], None),
    "initContainers": ([], None),
    "hostNetwork": (False, None),
    "priorityClassName": ("", None),
    "overhead": ({}, None),
    "volumes": ([], None),
    "schedulingGates": ([], None),
    "resourceClaims": ([], None),
    "imagePullSecrets": ([], None),
    "nodeName": ("", None),
}
_SAME_AMOUNTS: Final = {"1": ("1", 1, "1000m"), "500m": ("500m", "0.5", 0.5), "1Gi": ("1Gi", "1024Mi", "1073741824", 1073741824)}


def stored(kind: str, rng: random.Random) -> Object:
    """Return an object of a kind, called shop/web, as an API server returns it."""
    metadata: Object = {
        "name": "web", "namespace": "shop", "uid": _UID, "resourceVersion": "4711", "generation": 2, "creationTimestamp": _TIME,
        "labels": {"app": "web"},
        "managedFields": [{"manager": "kubectl", "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {}}}],
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "deployment.kubernetes.io/revision": "2"},
    }  # fmt: skip
    obj: Object = {"apiVersion": _API.get(kind, "apps/v1"), "kind": kind, "metadata": metadata}
    labels = {"app": "web", **_some(rng, {"tier": "front", "empty": ""})}
    template = {"metadata": {"creationTimestamp": None, "labels": labels}, "spec": _pod_spec(rng, job=kind in ("Job", "CronJob"))}
    known = {"prometheus.io/scrape": "true", "note": "", "kubestow.dev/move-cost": "3", "karpenter.sh/do-not-disrupt": "true"}
    annotations = _some(rng, known)
    if annotations:
        template["metadata"]["annotations"] = annotations
    if kind == "Pod":
        return {**obj, "spec": _running(template["spec"]), "status": {"phase": "Running", "podIP": "10.0.0.1", "qosClass": "Burstable"}}
    if kind == "PodTemplate":
        return {**obj, "template": template}
    return {**obj, "spec": _spec(kind, template, rng), "status": {"observedGeneration": 2, "replicas": 1}}


def _spec(kind: str, template: Object, rng: random.Random) -> Object:
    selector = {"matchLabels": {"app": "web"}}
    replicas = rng.choice([1, 3])
    if kind == "Deployment":
        spec = {"replicas": replicas, "selector": selector, "strategy": copy.deepcopy(_DEFAULTS["strategy"][0])}
        return {**spec, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600, "template": template}
    if kind == "ReplicaSet":
        template["metadata"]["labels"]["pod-template-hash"] = "abc"
        return {"replicas": replicas, "selector": {"matchLabels": {"app": "web", "pod-template-hash": "abc"}}, "template": template}
    if kind == "StatefulSet":
        claim = {"accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem", "resources": {"requests": {"storage": "1Gi"}}}
        claims = [
            {
                "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "creationTimestamp": None}, "spec": claim,
                "status": {"phase": "Pending"},
            }
        ]  # fmt: skip
        return {
            "replicas": replicas, "selector": selector, "serviceName": "web", "podManagementPolicy": "OrderedReady", "template": template,
            "updateStrategy": copy.deepcopy(_DEFAULTS["updateStrategy"][0]), "revisionHistoryLimit": 10, "volumeClaimTemplates": claims,
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
        }  # fmt: skip
    if kind == "DaemonSet":
        return {
            "selector": selector, "template": template, "updateStrategy": copy.deepcopy(_DEFAULTS["updateStrategy"][1]),
            "revisionHistoryLimit": 10,
        }  # fmt: skip
    if kind == "ReplicationController":
        return {"replicas": replicas, "selector": dict(template["metadata"]["labels"]), "template": template}
    job = {"parallelism": 1, "completions": 1, "backoffLimit": 6, "completionMode": "NonIndexed", "suspend": False, "template": template}
    job["podReplacementPolicy"] = "TerminatingOrFailed"
    if kind == "CronJob":
        return {
            "schedule": "0 * * * *", "concurrencyPolicy": "Allow", "suspend": False, "successfulJobsHistoryLimit": 3,
            "failedJobsHistoryLimit": 1, "jobTemplate": {"metadata": {"creationTimestamp": None}, "spec": job},
        }  # fmt: skip
    names = {"controller-uid": _UID, "job-name": "web"}
    template["metadata"]["labels"] |= names | {f"batch.kubernetes.io/{key}": value for key, value in names.items()}
    return {**job, "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": _UID}}}


def _some(rng: random.Random, given: dict[str, Any]) -> dict[str, Any]:
    return {key: copy.deepcopy(value) for key, value in given.items() if rng.random() < 0.5}


def _pod_spec(rng: random.Random, *, job: bool) -> Object:
    spec: Object = {
        "restartPolicy": "Never" if job else "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
        "securityContext": {}, "schedulerName": "default-scheduler",
    }  # fmt: skip
    app = {"matchLabels": {"app": "web"}}
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": app}
    terms = {"matchExpressions": [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}]}
    spec |= _some(
        rng,
        {
            "nodeSelector": {"disk": "", "kubernetes.io/os": "linux"},
            "tolerations": [{"key": "a", "operator": "Exists"}, {"operator": "Equal", "key": "b", "value": "c", "effect": "NoSchedule"}],
            "affinity": {
                "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 5, "podAffinityTerm": term}]},
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [terms]}},
                "podAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 1, "podAffinityTerm": {**term, "namespaceSelector": {}}}
                    ]
                },
            },
            "topologySpreadConstraints": [
                {
                    "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": app,
                    "nodeAffinityPolicy": "Honor", "nodeTaintsPolicy": "Ignore",
                }
            ],
            "priorityClassName": "system-cluster-critical",
            "serviceAccountName": "web",
            "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["a"]}],
            "shareProcessNamespace": True,
            "automountServiceAccountToken": False,
            "hostUsers": False,
        },
    )  # fmt: skip
    if "serviceAccountName" in spec:
        spec["serviceAccount"] = spec["serviceAccountName"]
    spec["containers"] = [_container(rng, f"c{i}") for i in range(rng.choice([1, 2]))]
    if rng.random() < 0.4:
        first = {**_container(rng, "init"), **_some(rng, {"restartPolicy": "Always"})}
        apart = ("ports", "readinessProbe") if "restartPolicy" in first else ("ports", "readinessProbe", "lifecycle")
        spec["initContainers"] = [{k: v for k, v in first.items() if k not in apart}]
    volumes = _volumes(rng)
    if volumes:
        spec["volumes"] = volumes
    if rng.random() < 0.2:
        spec["hostNetwork"] = True
        spec.pop("hostUsers", None)
        for container in spec["containers"]:
            for port in container.get("ports", ()):
                port["hostPort"] = port["containerPort"]
    return spec


def _container(rng: random.Random, name: str) -> Object:
    field = {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}
    limit = {"resourceFieldRef": {"containerName": name, "resource": "limits.cpu", "divisor": "0"}}
    probe = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
    resources = rng.choice(
        [{}, {"requests": {"cpu": "500m", "memory": "1Gi"}}, {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}, {"requests": {"cpu": "1"}}]
    )
    found: Object = {
        "name": name, "image": "registry.example/web:1", "imagePullPolicy": "IfNotPresent", "resources": copy.deepcopy(resources),
        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
    }  # fmt: skip
    number = 80 if name == "c0" else 81
    return found | _some(
        rng,
        {
            "ports": [{"containerPort": number, "protocol": "TCP", "name": f"p{number}"}, {"containerPort": number, "protocol": "UDP"}],
            "env": [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": field}, {"name": "C", "valueFrom": limit}, {"name": "D"}],
            "command": ["sh", "-c", ""],
            "args": ["x"],
            "readinessProbe": {"httpGet": {"path": "/", "port": "http", "scheme": "HTTP"}, **probe},
            "lifecycle": {"preStop": {"exec": {"command": ["sleep", "5"]}}},
            "securityContext": {"runAsNonRoot": True, "capabilities": {"drop": ["ALL"]}},
        },
    )


def _volumes(rng: random.Random) -> list[Object]:
    claim = {"accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem", "resources": {"requests": {"storage": "1Gi"}}}
    metadata: Object = {"creationTimestamp": None} | _some(rng, {"labels": {"a": "b"}, "annotations": {"note": "x"}})
    return list(
        _some(
            rng,
            {
                "scratch": {"name": "scratch", "emptyDir": {}},
                "memory": {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
                "config": {"name": "config", "configMap": {"name": "web", "defaultMode": 420}},
                "secret": {"name": "secret", "secret": {"secretName": "web", "defaultMode": 420}},
                "host": {"name": "host", "hostPath": {"path": "/srv", "type": ""}},
                "data": {"name": "data", "persistentVolumeClaim": {"claimName": "web"}},
                "fast": {"name": "fast", "ephemeral": {"volumeClaimTemplate": {"metadata": metadata, "spec": claim}}},
                "token": {
                    "name": "token",
                    "projected": {"defaultMode": 420, "sources": [{"serviceAccountToken": {"expirationSeconds": 3600, "path": "t"}}]},
                },
            },
        ).values()
    )


def _running(spec: Object) -> Object:
    """Return the spec of a pod that runs: what admission and the scheduler add."""
    away = [{"key": f"node.kubernetes.io/{what}", "operator": "Exists", "effect": "NoExecute"} for what in ("not-ready", "unreachable")]
    spec["tolerations"] = [*spec.get("tolerations", ()), *({**each, "tolerationSeconds": 300} for each in away)]
    spec |= {"priority": 0, "preemptionPolicy": "PreemptLowerPriority", "enableServiceLinks": True, "nodeName": "n1"}
    if "priorityClassName" in spec:
        spec["priority"] = 2_000_000_000
    return spec


# --- manifests ----------------------------------------------------------------------------------------------------------


def given_back(obj: Object, rng: random.Random) -> Object:
    """Return an object of an API server as a manifest of the same meaning: additions of the server and defaults are left out at random, and
    amounts and empty fields written otherwise."""
    found = copy.deepcopy(obj)
    for name in ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "annotations"):
        _maybe(rng, lambda name=name: found["metadata"].pop(name, None))  # type: ignore[misc]
    _maybe(rng, lambda: found.pop("status", None))
    if obj["kind"] == "Job":
        labels = found["spec"]["template"]["metadata"]["labels"]
        _maybe(rng, lambda: [labels.pop(key) for key in [*labels] if key.endswith(("controller-uid", "job-name"))])
        _maybe(rng, lambda: found["spec"].pop("selector"))
    if obj["kind"] == "ReplicationController":
        _maybe(rng, lambda: found["spec"].pop("selector"))
    _loosen(found.get("spec", found.get("template")), rng)
    return found


def _maybe(rng: random.Random, act: Callable[[], object]) -> None:
    if rng.random() < 0.6:
        act()


def _loosen(value: Any, rng: random.Random) -> None:
    if isinstance(value, list):
        for each in value:
            _loosen(each, rng)
    if not isinstance(value, dict):
        return
    _loosen_resources(value, rng)
    for key in [*value]:
        below = value[key]
        if key == "restartPolicy" and "containers" not in value:
            continue  # of an init container, a sidecar: no default
        default = key in _DEFAULTS and below in _DEFAULTS[key] and type(below) in map(type, _DEFAULTS[key])
        if default or key in ("creationTimestamp", "serviceAccount"):
            _maybe(rng, lambda key=key: value.pop(key))  # type: ignore[misc]
        elif key == "operator" and below == "Equal":
            _maybe(rng, lambda: value.pop("operator"))
        elif key == "apiVersion" and "fieldPath" in value:
            _maybe(rng, lambda: value.pop("apiVersion"))
        elif key == "divisor":
            _maybe(rng, lambda: value.pop("divisor"))
        elif key == "hostPort":
            _maybe(rng, lambda: value.pop("hostPort"))
        elif key == "metadata" and not any(below.values()) and set(below) <= {"creationTimestamp"}:
            _maybe(rng, lambda: value.pop("metadata"))
        elif key not in ("labels", "matchLabels", "annotations", "nodeSelector"):
            _loosen(below, rng)
    if "containers" in value:
        for key, empties in _EMPTY.items():
            if key not in value and rng.random() < 0.2:
                value[key] = copy.deepcopy(rng.choice(empties))


def _loosen_resources(value: Object, rng: random.Random) -> None:
    """Write amounts otherwise, and leave out requests that are those of limits."""
    limits = value.get("limits")
    if isinstance(limits, dict) and value.get("requests") == limits:
        _maybe(rng, lambda: value.pop("requests"))
    for key in ("requests", "limits"):
        if isinstance(value.get(key), dict):
            value[key] = {name: rng.choice(_SAME_AMOUNTS[amount]) for name, amount in value[key].items()}
