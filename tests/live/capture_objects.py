"""One object of every kind that is captured, as a cluster has them: with contents that no snapshot may hold, which are always SECRET."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]

SECRET = "hunter2"
KEPT = {"controller.kubernetes.io/pod-deletion-cost": "5"}
NOTES = {
    **KEPT,
    "kubectl.kubernetes.io/last-applied-configuration": f'{{"env": "{SECRET}"}}',
    "vault.example.com/agent-inject-token": SECRET,
    "volume.kubernetes.io/provisioner-deletion-secret-name": SECRET,
    "volume.beta.kubernetes.io/Node-Stage-Secret": SECRET,
    "deployment.kubernetes.io/revision": "3",
}


def metadata(name: str, *, namespace: str | None = "shop", **others: Any) -> Object:
    managed = [{"manager": SECRET, "operation": "Update", "fieldsV1": {"f:spec": {f"f:{SECRET}": {}}}}]
    found: Object = {"name": name, "uid": f"uid-{name}", "resourceVersion": "12", "generation": 4, "labels": {"app": "web"}}
    found |= {"annotations": dict(NOTES), "managedFields": managed, "finalizers": [f"example.com/{SECRET}"]}
    found |= {"creationTimestamp": "2026-11-01T10:00:00Z", **others}
    return found if namespace is None else found | {"namespace": namespace}


def container(name: str) -> Object:
    return {
        "name": name,
        "image": f"registry.example.com/{SECRET}:1",
        "command": ["sh", "-c", SECRET],
        "args": [f"--password={SECRET}"],
        "env": [{"name": "PASSWORD", "value": SECRET}, {"name": SECRET, "valueFrom": {"secretKeyRef": {"name": SECRET, "key": SECRET}}}],
        "envFrom": [{"secretRef": {"name": SECRET}}, {"configMapRef": {"name": SECRET}}],
        "lifecycle": {"preStop": {"exec": {"command": ["curl", SECRET]}}},
        "livenessProbe": {"httpGet": {"path": "/", "port": 80, "httpHeaders": [{"name": "Authorization", "value": SECRET}]}},
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}},
        "ports": [{"containerPort": 80, "hostPort": 8080, "name": SECRET}],
        "volumeMounts": [{"name": "data", "mountPath": f"/{SECRET}"}],
        "securityContext": {"seLinuxOptions": {"user": SECRET}},
        "workingDir": f"/{SECRET}",
    }


def claim_template(name: str) -> Object:
    return {
        "metadata": {"name": name, "annotations": dict(NOTES), "labels": {"app": "web"}},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "dataSource": {"name": SECRET}},
    }


def pod_spec(**others: Any) -> Object:
    selector = {"matchLabels": {"app": "web"}}
    return {
        "containers": [container("app"), container("sidecar")],
        "initContainers": [container("init") | {"restartPolicy": "Always"}],
        "ephemeralContainers": [container("debug")],
        "imagePullSecrets": [{"name": SECRET}],
        "serviceAccountName": SECRET,
        "hostAliases": [{"ip": "10.0.0.1", "hostnames": [SECRET]}],
        "volumes": [
            {"name": "token", "projected": {"sources": [{"secret": {"name": SECRET}}]}},
            {"name": "key", "secret": {"secretName": SECRET}},
            {"name": "host", "hostPath": {"path": f"/{SECRET}"}},
            {"name": "disk", "iscsi": {"targetPortal": SECRET, "secretRef": {"name": SECRET}}},
            {"name": "scratch", "ephemeral": {"volumeClaimTemplate": claim_template("x")}},
            {"name": "fast", "emptyDir": {"medium": "Memory"}},
        ],
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}]
            }
        },
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
        ],
        "tolerations": [{"key": "dedicated", "operator": "Exists"}],
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "schedulerName": "default-scheduler",
        **others,
    }


def template(**others: Any) -> Object:
    return {"metadata": {"labels": {"app": "web"}, "annotations": dict(NOTES)}, "spec": pod_spec(**others)}


def owner(kind: str, name: str) -> list[Object]:
    return [{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": f"uid-{name}", "controller": True, "blockOwnerDeletion": True}]


def _object(version: str, kind: str, name: str, *, namespace: str | None = "shop", meta: Object | None = None, **fields: Any) -> Object:
    return {"apiVersion": version, "kind": kind, "metadata": metadata(name, namespace=namespace, **(meta or {})), **fields}


def devices() -> list[Object]:
    """A slice, a class, a taint, a claim that is allocated, and a template of claims."""
    opaque = {"opaque": {"driver": "gpu.example.com", "parameters": {"password": SECRET}}}
    selectors = [{"cel": {"expression": "device.attributes['gpu.example.com'].model == 'a100'"}}]
    exactly = {"deviceClassName": "gpu", "selectors": selectors, "capacity": {"requests": {"memory": "10Gi"}}}
    asked = {"devices": {"requests": [{"name": "r", "exactly": exactly}], "config": [{"requests": ["r"], **opaque}]}}
    named = {"driver": "gpu.example.com", "pool": "n1", "device": "gpu-0"}
    device = {
        "name": "gpu-0",
        "attributes": {"model": {"string": "a100"}, "driverVersion": {"version": "1.2.3"}, "index": {"int": 0}, "ecc": {"bool": True}},
        "capacity": {"memory": {"value": "80Gi", "requestPolicy": {"default": "10Gi", "validRange": {"min": "1Gi", "step": "1Gi"}}}},
        "consumesCounters": [{"counterSet": "set", "counters": {"slots": {"value": "1"}}}],
        "taints": [{"key": "broken", "effect": "NoSchedule", "timeAdded": "2026-11-01T10:00:00Z"}],
        "allowMultipleAllocations": True,
        "bindingConditions": ["ready"],
    }
    slices = {"driver": "gpu.example.com", "pool": {"name": "n1", "generation": 3, "resourceSliceCount": 2}}
    status = {
        "allocation": {
            "devices": {
                "results": [{"request": "r", **named, "shareID": "6c1a", "consumedCapacity": {"memory": "10Gi"}}],
                "config": [{"source": "FromClass", "requests": ["r"], **opaque}],
            },
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]},
            "allocationTimestamp": "2026-11-01T10:00:00Z",
        },
        "reservedFor": [{"resource": "pods", "name": "web-1-a", "uid": "uid-web-1-a"}],
        "devices": [
            {
                **named,
                "data": {"key": SECRET},
                "networkData": {"hardwareAddress": SECRET, "ips": [SECRET]},
                "conditions": [{"type": "ready", "status": "True", "message": SECRET, "reason": SECRET}],
            }
        ],
    }
    template = {"metadata": {"labels": {"app": "web"}, "annotations": dict(NOTES)}, "spec": asked}
    return [
        _object("resource.k8s.io/v1", "ResourceSlice", "n1-a", namespace=None, spec={**slices, "nodeName": "n1", "devices": [device]}),
        _object(
            "resource.k8s.io/v1", "ResourceSlice", "n1-b", namespace=None,
            spec={**slices, "nodeName": "n1", "sharedCounters": [{"name": "set", "counters": {"slots": {"value": "8"}}}]},
        ),
        _object(
            "resource.k8s.io/v1", "DeviceClass", "gpu", namespace=None,
            spec={"selectors": selectors, "extendedResourceName": "example.com/gpu", "config": [opaque]},
        ),
        _object(
            "resource.k8s.io/v1beta2", "DeviceTaintRule", "broken", namespace=None,
            spec={"deviceSelector": {"driver": "gpu.example.com"}, "taint": {"key": "broken", "effect": "NoExecute"}},
            status={"conditions": [{"message": SECRET}]},
        ),
        _object("resource.k8s.io/v1", "ResourceClaim", "mine", spec=asked, status=status),
        _object("resource.k8s.io/v1", "ResourceClaimTemplate", "each", spec=template),
    ]  # fmt: skip


def cluster() -> list[Object]:
    """A cluster of one node, three pods, and one object of every other kind."""
    selector = {"matchLabels": {"app": "web"}}
    workload = {"replicas": 2, "selector": selector, "template": template()}
    status = {
        "phase": "Running",
        "podIP": "10.1.2.3",
        "message": SECRET,
        "conditions": [{"type": "Ready", "status": "True", "message": SECRET}],
    }
    status["containerStatuses"] = [{"name": "app", "image": SECRET, "state": {"terminated": {"message": SECRET}}}]
    of_set = {"ownerReferences": owner("ReplicaSet", "web-1")}
    return [
        _object("v1", "Namespace", "shop", namespace=None, spec={"finalizers": ["kubernetes"]}),
        _object("v1", "Namespace", "office", namespace=None),
        _object(
            "v1", "Node", "n1", namespace=None, meta={"labels": {"kubernetes.io/hostname": "n1", "kubernetes.io/os": "linux", "zone": "a"}},
            spec={"providerID": SECRET, "podCIDR": "10.1.0.0/24"},
            status={
                "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}, "addresses": [{"type": "Hostname", "address": SECRET}],
                "images": [{"names": [SECRET], "sizeBytes": 1}], "nodeInfo": {"machineID": SECRET}, "config": {"error": SECRET},
            },
        ),
        _object("v1", "Pod", "web-1-a", meta=of_set, spec=pod_spec(nodeName="n1", priority=7), status=status),
        _object("v1", "Pod", "web-1-b", meta=of_set, spec=pod_spec(priority=7), status={"phase": "Pending"}),
        _object("v1", "Pod", "alone", namespace="office", spec=pod_spec(affinity=None), status={"phase": "Pending"}),
        _object("scheduling.k8s.io/v1", "PriorityClass", "high", namespace=None, value=7, description=SECRET),
        _object(
            "node.k8s.io/v1", "RuntimeClass", "kata", namespace=None, handler=SECRET,
            overhead={"podFixed": {"cpu": "250m", "memory": "160Mi"}},
            scheduling={"nodeSelector": {"zone": "a"}, "tolerations": [{"key": "kata", "operator": "Exists"}]},
        ),
        _object("policy/v1", "PodDisruptionBudget", "web", spec={"minAvailable": 1, "selector": selector}, status={"expectedPods": 2}),
        _object(
            "v1", "PersistentVolume", "pv1", namespace=None,
            spec={
                "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "fast", "mountOptions": [SECRET],
                "csi": {"driver": "d.example.com", "volumeHandle": f"10.0.0.7#{SECRET}", "volumeAttributes": {"k": SECRET},
                        "nodeStageSecretRef": {"name": SECRET, "namespace": "shop"}},
            },
        ),
        _object("v1", "PersistentVolumeClaim", "c1", spec=claim_template("c1")["spec"] | {"storageClassName": "fast"}),
        _object("storage.k8s.io/v1", "StorageClass", "fast", namespace=None, provisioner="d.example.com", parameters={"secret": SECRET}),
        _object("storage.k8s.io/v1", "CSINode", "n1", namespace=None, spec={"drivers": [{"name": "d.example.com", "nodeID": SECRET}]}),
        _object("v1", "Service", "web", spec={"selector": {"app": "web"}, "externalName": SECRET, "ports": [{"port": 80, "name": SECRET}]}),
        _object("apps/v1", "Deployment", "web", spec=workload | {"paused": False}, status={"conditions": [{"message": SECRET}]}),
        _object("apps/v1", "ReplicaSet", "web-1", meta={"ownerReferences": owner("Deployment", "web")}, spec=workload),
        _object("apps/v1", "StatefulSet", "db", spec=workload | {"serviceName": "db", "volumeClaimTemplates": [claim_template("data")]}),
        _object("apps/v1", "DaemonSet", "log", spec={"selector": selector, "template": template()}),
        _object("batch/v1", "Job", "once", spec={"completions": 3, "template": template(restartPolicy="Never")}, status={"succeeded": 1}),
        _object(
            "batch/v1", "CronJob", "nightly",
            spec={"schedule": "0 3 * * *", "jobTemplate": {"metadata": metadata("j"), "spec": {"template": template()}}},
        ),
        _object("v1", "ResourceQuota", "team", spec={"hard": {"cpu": "9"}, "scopes": ["NotTerminating"]}, status={"used": {"cpu": SECRET}}),
        _object("v1", "LimitRange", "sizes", spec={"limits": [{"type": "Container", "default": {"cpu": "1"}, "max": {"cpu": "2"}}]}),
        _object("v1", "PodTemplate", "plain", template=template()),
        _object("v1", "ReplicationController", "old", spec={"replicas": 1, "selector": {"app": "web"}, "template": template()}),
        _object("scheduling.k8s.io/v1alpha2", "PodGroup", "g", spec={"schedulingPolicy": {"gang": {"minCount": 2}}}),
        _object("scheduling.x-k8s.io/v1alpha1", "PodGroup", "g", spec={"minMember": 2, "scheduleTimeoutSeconds": 9}),
        _object("scheduling.volcano.sh/v1beta1", "PodGroup", "g", spec={"minMember": 2, "queue": SECRET}),
        _object("scheduling.k8s.io/v1alpha1", "Workload", "w", spec={"podGroups": [{"name": "g", "policy": {"gang": {"minCount": 2}}}]}),
        _object("storage.k8s.io/v1", "CSIDriver", "d.example.com", namespace=None,
                spec={"preventPodSchedulingIfMissing": True, "tokenRequests": [{"audience": SECRET}]}),
        *devices(),
        _object(
            "topology.node.k8s.io/v1alpha2", "NodeResourceTopology", "n1", namespace=None, topologyPolicies=["SingleNUMANodePodLevel"],
            zones=[{"name": "node-0", "type": "Node", "resources": [{"name": "cpu", "capacity": "4", "available": "4"}]}],
        ),
        _object("autoscaling.x-k8s.io/v1beta1", "CapacityBuffer", "spare", spec={"podTemplateRef": {"name": "plain"}, "replicas": 3},
                status={"replicas": 3, "conditions": [{"type": "ReadyForProvisioning", "status": "True", "message": SECRET}]}),
        _object("config.nri/v1alpha1", "BalloonsPolicy", "default", namespace="kube-system",
                spec={"balloonTypes": [{"name": "fast", "namespaces": ["d*"], "maxCPUs": 64}], "idleCPUClass": SECRET}),
        _object("config.nri/v1alpha1", "TopologyAwarePolicy", "default", namespace="kube-system",
                spec={"colocatePods": False, "sharedPoolCPUClass": SECRET}),
        _object("lifecycle.k8s.io/v1alpha1", "EvictionRequest", "r", status={"observedGeneration": 3},
                spec={"target": {"pod": {"name": "web-1-a", "uid": "u"}}, "requester": "example.com/drainer", "intent": "Eviction"}),
        _object("v1", "Secret", "key", data={"password": SECRET}),
        _object("v1", "ConfigMap", "settings", data={"password": SECRET}),
        _object("metrics.k8s.io/v1beta1", "PodMetrics", "web-1-a"),
        _object("kueue.x-k8s.io/v1beta1", "Workload", "other", spec={"podSets": [{"template": template()}]}),
    ]  # fmt: skip
