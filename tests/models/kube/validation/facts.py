"""Accepted and refused values of a new pod's fields: facts that Kubernetes' own tests of its validation check.

Each fact is a part of a pod and whether it is refused. The parts and their values are our own. Facts of different groups do not depend on
each other. Sources: TestValidate… in pkg/apis/core/validation/validation_test.go of https://github.com/kubernetes/kubernetes/tree/v1.36.2.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

Object = dict[str, Any]

TAKEN: Final = False
REFUSED: Final = True
_LONG: Final = "n" * 63
_BAD_KEYS: Final = ("/simple", "a b", "UPPER.com/", "x/y/z", f"{_LONG}n", "=", "")


class Fact(NamedTuple):
    """A part of a pod.

    Attributes:
        spec: Fields of the pod spec; ``containers`` and ``volumes`` are added to those of other facts.
        refused: True if the API server refuses it.
        labels: Labels of the pod.
        annotations: Annotations of the pod.
    """

    spec: Object
    refused: bool
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


def _containers(name: str, parts: Iterable[tuple[Object, bool]]) -> list[Fact]:
    return [Fact({"containers": [{"name": name, "image": "i", **part}]}, refused) for part, refused in parts]


def _specs(parts: Iterable[tuple[Object, bool]]) -> list[Fact]:
    return [Fact(part, refused) for part, refused in parts]


def _resources(name: str, parts: Iterable[tuple[Object, Object, bool]]) -> list[Fact]:
    return _containers(name, [({"resources": {"requests": requests, "limits": limits}}, refused) for requests, limits, refused in parts])


def _names(refused: Iterable[str], taken: Iterable[str]) -> list[tuple[Object, Object, bool]]:
    """Return requests for resources of these names, with limits."""
    return [({name: "2"}, {name: "2"}, bad) for names, bad in ((refused, REFUSED), (taken, TAKEN)) for name in names]


def _terms(kind: str, parts: Iterable[tuple[Object, bool]]) -> list[Fact]:
    """Return facts about terms of pod affinity, each required and preferred."""
    term: Object = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "x"}}}
    found = []
    for part, refused in parts:
        hard, soft = [{**term, **part}], [{"weight": 5, "podAffinityTerm": {**term, **part}}]
        found.append(Fact({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": hard}}}, refused))
        found.append(Fact({"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution": soft}}}, refused))
    return found


_PORTS: Final = _containers("ports", [
    ({"ports": [{"containerPort": 8180, "name": "web"}, {"containerPort": 8181, "name": "a-2"}]}, TAKEN),
    ({"ports": [{"containerPort": 8182, "protocol": "SCTP"}, {"containerPort": 8182, "protocol": "UDP"}]}, TAKEN),
    ({"ports": [{"containerPort": 8183, "name": "sixteen-long-abc"}]}, REFUSED),
    ({"ports": [{"containerPort": 8183, "name": "a.b"}]}, REFUSED),
    ({"ports": [{"containerPort": 8183, "name": "8183"}]}, REFUSED),
    ({"ports": [{"containerPort": 8183, "name": "a--b"}]}, REFUSED),
    ({"ports": [{"containerPort": 8183, "name": "-a"}]}, REFUSED),
    ({"ports": [{"containerPort": 8184, "name": "web"}, {"containerPort": 8185, "name": "web"}]}, REFUSED),
    ({"ports": [{"containerPort": 0}]}, REFUSED),
    ({"ports": [{"containerPort": 65535}]}, TAKEN),
    ({"ports": [{"containerPort": 65536}]}, REFUSED),
    ({"ports": [{"containerPort": 8186, "hostPort": 70000}]}, REFUSED),
    ({"ports": [{"containerPort": 8186, "protocol": "tcp"}]}, REFUSED),
    ({"ports": [{"containerPort": 8186, "protocol": "ICMP"}]}, REFUSED),
    ({"ports": [{"containerPort": 8186, "hostPort": 9000}, {"containerPort": 8187, "hostPort": 9000}]}, REFUSED),
    ({"ports": [{"containerPort": 8186, "hostPort": 9000, "hostIP": "10.0.0.1"},
                {"containerPort": 8187, "hostPort": 9000, "hostIP": "10.0.0.2"}]}, TAKEN),
])  # fmt: skip
_AMOUNTS: Final = _resources("amounts", [
    ({"cpu": "500m"}, {"cpu": "1"}, TAKEN),
    ({"cpu": "1001m"}, {"cpu": "1"}, REFUSED),
    ({"memory": "1Gi"}, {"memory": "1073741824"}, TAKEN),
    ({"memory": "1025Mi"}, {"memory": "1Gi"}, REFUSED),
    ({"ephemeral-storage": "2Gi"}, {"ephemeral-storage": "1Gi"}, REFUSED),
    ({"cpu": "-1"}, {}, REFUSED),
    ({"cpu": "1e3"}, {"cpu": "1k"}, TAKEN),
    ({"memory": "1.5Gi"}, {}, TAKEN),
])  # fmt: skip
_EXTENDED: Final = _resources("extended", [
    ({"vendor.example/fpga": "2"}, {"vendor.example/fpga": "2"}, TAKEN),
    ({}, {"vendor.example/fpga": "2"}, TAKEN),
    ({"vendor.example/fpga": "2"}, {}, REFUSED),
    ({"vendor.example/fpga": "1"}, {"vendor.example/fpga": "2"}, REFUSED),
    ({"vendor.example/fpga": "2"}, {"vendor.example/fpga": "1"}, REFUSED),
    ({}, {"vendor.example/fpga": "1500m"}, REFUSED),
    ({}, {"vendor.example/fpga": "2000m"}, TAKEN),
    *_names(("fpga", "disk", "storage", "requests.cpu", "limits.memory", "pods", ".", "..", "vendor.example/_x", "vendor.example/x_",
             "kubernetes.io/..", f"kubernetes.io/{_LONG}n", "kubernetes.io//", "kubernetes.io", "a/b/c", "requests.example.com/x/"),
            ("vendor.example/12345", f"vendor.example/{_LONG}", f"kubernetes.io/{_LONG}")),
])  # fmt: skip
_PAGES: Final = _resources("pages", [
    ({"cpu": "1", "hugepages-2Mi": "4Mi"}, {"cpu": "1", "hugepages-2Mi": "4Mi"}, TAKEN),
    ({"hugepages-2Mi": "4Mi"}, {"memory": "1Gi", "hugepages-2Mi": "4Mi"}, TAKEN),
    ({}, {"memory": "1Gi", "hugepages-2Mi": "4Mi"}, TAKEN),
    ({"memory": "1Gi", "hugepages-2Mi": "4Mi", "hugepages-1Gi": "2Gi"}, {"hugepages-2Mi": "4Mi", "hugepages-1Gi": "2Gi"}, TAKEN),
    ({"hugepages-2Mi": "4Mi"}, {"hugepages-2Mi": "4Mi"}, REFUSED),
    ({"memory": "1Gi", "hugepages-2Mi": "4Mi"}, {"hugepages-2Mi": "8Mi"}, REFUSED),
    ({"memory": "1Gi", "hugepages-2Mi": "4Mi"}, {}, REFUSED),
    ({"memory": "1Gi"}, {"hugepages-2Mi": "3Mi"}, REFUSED),
    ({"memory": "1Gi"}, {"hugepages-2x": "4Mi"}, REFUSED),
])  # fmt: skip
_MOUNTS: Final = [
    Fact({"volumes": [{"name": "v", "emptyDir": {}}], "containers": [{"name": "mounts", "image": "i", **part}]}, refused)
    for part, refused in (
        ({"volumeMounts": [{"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/b"}]}, TAKEN),
        ({"volumeMounts": [{"name": "w", "mountPath": "/a"}]}, REFUSED),
        ({"volumeMounts": [{"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/a"}]}, REFUSED),
    )
]
_VOLUMES: Final = _specs([
    ({"volumes": [{"name": "one", "emptyDir": {}}, {"name": "two", "emptyDir": {}}]}, TAKEN),
    ({"volumes": [{"name": "one", "emptyDir": {}}, {"name": "one", "emptyDir": {}}]}, REFUSED),
    ({"volumes": [{"name": "One", "emptyDir": {}}]}, REFUSED),
    ({"volumes": [{"name": "a.b", "emptyDir": {}}]}, REFUSED),
    ({"volumes": [{"name": f"{_LONG}n", "emptyDir": {}}]}, REFUSED),
])  # fmt: skip
_NAMES: Final = [
    fact
    for name, refused in (("n-1", TAKEN), (_LONG, TAKEN), (f"{_LONG}n", REFUSED), ("N", REFUSED), ("a.b", REFUSED), ("", REFUSED))
    for fact in _containers(name, [({}, refused)])
]
_OF_THE_POD: Final[dict[str, tuple[tuple[Any, bool], ...]]] = {
    "activeDeadlineSeconds": ((1, TAKEN), (2**31 - 1, TAKEN), (0, REFUSED), (2**31, REFUSED)),
    "serviceAccountName": (("robot", TAKEN), ("invalidName", REFUSED)),
    "nodeSelector": (({"disk": "ssd"}, TAKEN), ({"example.com/disk": ""}, TAKEN), ({"disk": "s d"}, REFUSED), ({"=": "x"}, REFUSED)),
    "restartPolicy": (("OnFailure", TAKEN), ("Sometimes", REFUSED)),
    "hostname": (("host-1", TAKEN), ("Host", REFUSED), ("a.b", REFUSED)),
    "subdomain": (("sub", TAKEN), ("Sub", REFUSED)),
    "schedulingGates": (([{"name": "a"}, {"name": "example.com/b"}], TAKEN), ([{"name": "a"}, {"name": ""}], REFUSED),
                        ([{"name": "\na"}], REFUSED), ([{"name": "a"}, {"name": "b"}, {"name": "a"}], REFUSED)),
    "overhead": (({}, TAKEN), ({"my.org": "10m"}, REFUSED)),
}  # fmt: skip


def _tolerations() -> list[Fact]:
    parts: list[tuple[Object, bool]] = [
        ({"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"}, TAKEN),
        ({"key": "k", "operator": "Exists"}, TAKEN),
        ({"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}, TAKEN),
        ({"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": -5}, TAKEN),
        ({"key": "nospecial$", "operator": "Exists"}, REFUSED),
        ({"key": "k", "operator": "In", "value": "v"}, REFUSED),
        ({"key": "k", "operator": "Exists", "value": "v"}, REFUSED),
        ({"operator": "Equal", "value": "v"}, REFUSED),
        ({"key": "k", "operator": "Equal", "value": "v w"}, REFUSED),
        ({"key": "k", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 20}, REFUSED),
        ({"key": "k", "operator": "Exists", "effect": "Never"}, REFUSED),
        ({"key": "k", "operator": "Gt", "value": "5"}, REFUSED),
        ({"key": "k", "operator": "Lt", "value": "5"}, REFUSED),
    ]
    return [Fact({"tolerations": [part]}, refused) for part, refused in parts]


def _node_affinity() -> list[Fact]:
    required, preferred = "requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"
    by_name: Object = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
    parts: list[tuple[Object, bool]] = [
        ({required: {"nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": "In", "values": ["a", "b"]}]}]}}, TAKEN),
        ({required: {"nodeSelectorTerms": [{"matchFields": [by_name]}]}}, TAKEN),
        ({required: {"nodeSelectorTerms": []}}, REFUSED),
        ({required: {"nodeSelectorTerms": [{"matchFields": [{**by_name, "values": ["n1", "n2"]}]}]}}, REFUSED),
        ({required: {"nodeSelectorTerms": [{"matchFields": [{**by_name, "operator": "Exists"}]}]}}, REFUSED),
        ({required: {"nodeSelectorTerms": [{"matchFields": [{**by_name, "key": "metadata.namespace"}]}]}}, REFUSED),
        ({preferred: [{"weight": 1, "preference": {"matchExpressions": [{"key": "k", "operator": "Exists"}]}}]}, TAKEN),
        ({preferred: [{"weight": 0, "preference": {"matchExpressions": [{"key": "k", "operator": "Exists"}]}}]}, REFUSED),
        ({preferred: [{"weight": 101, "preference": {"matchExpressions": [{"key": "k", "operator": "Exists"}]}}]}, REFUSED),
        ({preferred: [{"weight": 9, "preference": {"matchExpressions": [{"key": "k", "operator": "In", "values": ["-1"]}]}}]}, TAKEN),
    ]
    for term, refused in (
        ({"key": "k", "operator": "NotIn", "values": ["a"]}, TAKEN), ({"key": "k", "operator": "Gt", "values": ["5"]}, TAKEN),
        ({"key": "k", "operator": "In"}, REFUSED), ({"key": "k", "operator": "Exists", "values": ["a"]}, REFUSED),
        ({"key": "k", "operator": "Gt", "values": ["5", "6"]}, REFUSED), ({"key": "k", "operator": "Near", "values": ["a"]}, REFUSED),
        ({"key": "invalid key", "operator": "Exists"}, REFUSED), ({"key": "k", "operator": "In", "values": ["-1"]}, REFUSED),
    ):  # fmt: skip
        parts.append(({required: {"nodeSelectorTerms": [{"matchExpressions": [term]}]}}, refused))
    return [Fact({"affinity": {"nodeAffinity": part}}, refused) for part, refused in parts]


_OF_TERMS: Final[list[tuple[Object, bool]]] = [
    ({}, TAKEN),
    ({"namespaces": ["ns-1"], "namespaceSelector": {}}, TAKEN),
    ({"matchLabelKeys": ["k"], "mismatchLabelKeys": ["m"]}, TAKEN),
    ({"topologyKey": ""}, REFUSED),
    ({"namespaces": ["INVALID_ns"]}, REFUSED),
    ({"labelSelector": {"matchExpressions": [{"key": "k", "operator": "Exists", "values": ["a"]}]}}, REFUSED),
    ({"labelSelector": {"matchExpressions": [{"key": "k", "operator": "In"}]}}, REFUSED),
    ({"namespaceSelector": {"matchExpressions": [{"key": "k", "operator": "In", "values": []}]}}, REFUSED),
    ({"namespaceSelector": {"matchExpressions": [{"key": "k", "operator": "Exists", "values": ["a"]}]}}, REFUSED),
    ({"matchLabelKeys": ["/simple"]}, REFUSED),
    ({"mismatchLabelKeys": ["/simple"]}, REFUSED),
    ({"matchLabelKeys": ["k"], "mismatchLabelKeys": ["k"]}, REFUSED),
    ({"matchLabelKeys": ["k"], "labelSelector": {"matchExpressions": [
        {"key": "k", "operator": "NotIn", "values": ["a"]}, {"key": "k", "operator": "NotIn", "values": ["b"]}]}}, REFUSED),
]  # fmt: skip


def _spread() -> list[Fact]:
    base: Object = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    soft = {**base, "whenUnsatisfiable": "ScheduleAnyway"}
    chosen: Object = {"labelSelector": {"matchLabels": {"app": "x"}}}
    twice = [{"key": "k", "operator": "NotIn", "values": [value]} for value in "ab"]
    parts: list[tuple[list[Object], bool]] = [
        ([{**base, "minDomains": 3}], TAKEN),
        ([soft], TAKEN),
        ([base, {**soft, "topologyKey": "rack", "maxSkew": 2}], TAKEN),
        ([base, soft], TAKEN),
        ([base, {**base, "maxSkew": 2}], REFUSED),
        ([{**base, "maxSkew": 0}], REFUSED),
        ([{**base, "maxSkew": -1}], REFUSED),
        ([{**base, "minDomains": -1}], REFUSED),
        ([{**base, "minDomains": 0}], REFUSED),
        ([{**soft, "minDomains": 3}], REFUSED),
        ([{**base, "topologyKey": ""}], REFUSED),
        ([{**base, "whenUnsatisfiable": "N/A"}], REFUSED),
        ([{**base, "nodeAffinityPolicy": "Honor", "nodeTaintsPolicy": "Ignore"}], TAKEN),
        ([{**base, "nodeAffinityPolicy": "Unknown"}], REFUSED),
        ([{**base, "nodeTaintsPolicy": "Unknown"}], REFUSED),
        ([{**base, **chosen, "matchLabelKeys": ["k"]}], TAKEN),
        ([{**base, **chosen, "matchLabelKeys": ["/simple"]}], REFUSED),
        ([{**base, "matchLabelKeys": ["k"]}], REFUSED),
        ([{**base, "labelSelector": {"matchLabels": {"a=b": "x"}}}], REFUSED),
        ([{**base, "labelSelector": {"matchExpressions": twice}, "matchLabelKeys": ["k"]}], REFUSED),
    ]
    return [Fact({"topologySpreadConstraints": part}, refused) for part, refused in parts]


def _pod_level() -> list[Fact]:
    small: Object = {"requests": {"cpu": "2", "memory": "1Gi"}}
    parts: list[tuple[Object, Object, bool]] = [
        (small, {"requests": {"cpu": "2"}}, TAKEN),
        (small, {"requests": {"cpu": "2100m"}}, REFUSED),
        ({"limits": {"cpu": "2"}}, {"limits": {"cpu": "2"}}, TAKEN),
        ({"limits": {"cpu": "2"}}, {"limits": {"cpu": "3"}}, REFUSED),
        ({"limits": {"memory": "1Gi", "hugepages-2Mi": "8Mi"}}, {"limits": {"memory": "1Gi", "hugepages-2Mi": "8Mi"}}, TAKEN),
        ({"limits": {"memory": "1Gi", "hugepages-2Mi": "4Mi"}}, {"limits": {"memory": "1Gi", "hugepages-2Mi": "8Mi"}}, REFUSED),
        ({"limits": {"ephemeral-storage": "1Gi"}}, {}, REFUSED),
        ({"limits": {"vendor.example/fpga": "1"}}, {}, REFUSED),
        ({"limits": {"kubernetes.io/x": "1"}}, {}, REFUSED),
        ({"limits": {"hugepages-2Mi": "4Mi"}}, {}, REFUSED),
        ({"limits": {"cpu": "1"}, "claims": [{"name": "c"}]}, {}, REFUSED),
    ]
    pages: Object = {"limits": {"memory": "1Gi", "hugepages-2Mi": "4Mi"}}
    twins = [{"name": name, "image": "i", "resources": pages} for name in ("level", "other")]
    together: list[tuple[Object, bool]] = [  # no container is above the pod's limit, but both are
        ({"resources": {"limits": {"memory": "1Gi", "hugepages-2Mi": "8Mi"}}, "containers": twins}, TAKEN),
        ({"resources": pages, "containers": twins}, REFUSED),
        ({"resources": {"limits": {"cpu": "1"}}, "os": {"name": "windows"}}, REFUSED),
        ({"resources": {"limits": {"cpu": "1"}}, "os": {"name": "linux"}}, TAKEN),
    ]
    found = [
        Fact({"resources": level, "containers": [{"name": "level", "image": "i", "resources": own}]}, bad) for level, own, bad in parts
    ]
    return found + _specs(together)


_INIT: Final[list[tuple[Object, bool]]] = [
        ({}, TAKEN), ({"name": "main"}, REFUSED), ({"name": ""}, REFUSED),
        ({"ports": [{"containerPort": 80, "hostPort": 80}, {"containerPort": 80, "hostPort": 80, "protocol": "UDP"}]}, TAKEN),
        ({"ports": [{"containerPort": 80, "hostPort": 80}, {"containerPort": 81, "hostPort": 80}]}, REFUSED),
        *(({probe: {"exec": {"command": ["x"]}}}, REFUSED) for probe in ("livenessProbe", "readinessProbe", "startupProbe")),
        ({"lifecycle": {"preStop": {"exec": {"command": ["x"]}}}}, REFUSED),
        ({"restartPolicy": "Always", "livenessProbe": {"exec": {"command": ["x"]}}}, TAKEN), ({"restartPolicy": "Sometimes"}, REFUSED),
]  # fmt: skip
#: By subject. Facts of different groups can be combined.
GROUPS: Final[dict[str, list[Fact]]] = {
    "ports": _PORTS,
    "amounts": _AMOUNTS,
    "extended resources": _EXTENDED,
    "huge pages": _PAGES,
    "mounts": _MOUNTS,
    "volumes": _VOLUMES,
    "names of containers": _NAMES,
    "tolerations": _tolerations(),
    "spread": _spread(),
    **{field: _specs(({field: value}, refused) for value, refused in values) for field, values in _OF_THE_POD.items()},
    "labels": [Fact({}, refused, labels={key: value}) for key, value, refused in (
        ("a", "b", TAKEN), ("example.com/a", "A.b_c", TAKEN), ("a", "b c", REFUSED), ("a", f"{_LONG}n", REFUSED),
        *((key, "x", REFUSED) for key in _BAD_KEYS))],
    "affinity": [*_node_affinity(), *_terms("podAffinity", _OF_TERMS), *_terms("podAntiAffinity", _OF_TERMS)],
}  # fmt: skip
#: These reach the other containers of the pod.
ALONE: Final[dict[str, list[Fact]]] = {
    "pod-level resources": _pod_level(),
    "host network": _specs([
        ({"hostNetwork": True, "containers": [{"name": "h", "image": "i", "ports": [{"containerPort": 80, "hostPort": 80}]}]}, TAKEN),
        ({"hostNetwork": True, "containers": [{"name": "h", "image": "i", "ports": [{"containerPort": 80, "hostPort": 81}]}]}, REFUSED),
        ({"hostNetwork": True, "containers": [{"name": "h", "image": "i", "ports": [{"containerPort": 80}]}]}, TAKEN),  # filled in
    ]),
    "init containers": [Fact({"initContainers": [{"name": "first", "image": "i", **part}]}, refused) for part, refused in _INIT],
    "restart policies of containers": _containers("main", [
        ({"restartPolicy": "Never"}, TAKEN), ({"restartPolicy": "OnFailure"}, TAKEN), ({"restartPolicy": "Sometimes"}, REFUSED),
        ({"restartPolicy": ""}, REFUSED), ({"restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In", "values": [4]}}]},
                                           REFUSED)]),
    "no containers": _specs([({"containers": []}, REFUSED), ({"containers": [{"name": "a", "image": "i"}] * 2}, REFUSED)]),
}  # fmt: skip

_ROLLING: Final = "RollingUpdate"


def _updates(field: str, parts: Iterable[tuple[Object | None, bool]]) -> list[tuple[Object, bool]]:
    """Return specs with the strategy RollingUpdate and these parameters."""
    return [({field: {"type": _ROLLING, "rollingUpdate": part}}, refused) for part, refused in parts]


#: By kind: a part of the spec of a new controller, and whether it is refused.
CONTROLLERS: Final[dict[str, list[tuple[Object, bool]]]] = {
    "Deployment": [
        *_updates("strategy", [
            ({"maxUnavailable": 0, "maxSurge": 1}, TAKEN), ({"maxUnavailable": 1, "maxSurge": 0}, TAKEN), (None, TAKEN),
            ({"maxUnavailable": 0, "maxSurge": 0}, REFUSED), ({"maxUnavailable": "0%", "maxSurge": "0%"}, REFUSED),
            ({"maxUnavailable": 0}, TAKEN), ({"maxUnavailable": "101%"}, REFUSED), ({"maxSurge": "200%"}, TAKEN),
            ({"maxSurge": "half"}, REFUSED), ({"maxSurge": -1}, REFUSED), ({"maxSurge": "25"}, REFUSED)]),
        ({"strategy": {"type": "Recreate"}}, TAKEN),
        ({"strategy": {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}}, REFUSED),
        ({"strategy": {"type": "BlueGreen"}}, REFUSED),
        ({"replicas": -1}, REFUSED), ({"replicas": 0}, TAKEN), ({"minReadySeconds": -1}, REFUSED), ({"revisionHistoryLimit": -1}, REFUSED),
        ({"minReadySeconds": 60, "progressDeadlineSeconds": 61}, TAKEN), ({"minReadySeconds": 60, "progressDeadlineSeconds": 60}, REFUSED),
        ({"minReadySeconds": 600}, REFUSED),
    ],
    "DaemonSet": [
        *_updates("updateStrategy", [
            ({"maxUnavailable": 1}, TAKEN), ({"maxUnavailable": 0, "maxSurge": 1}, TAKEN), ({"maxUnavailable": "100%"}, TAKEN),
            ({"maxUnavailable": 0, "maxSurge": "5%"}, TAKEN), ({"maxSurge": 1}, REFUSED),  # maxUnavailable is 1 by default
            ({"maxUnavailable": 1, "maxSurge": 1}, REFUSED), ({"maxUnavailable": 0}, REFUSED), ({"maxUnavailable": "0%"}, REFUSED),
            ({"maxUnavailable": "0%", "maxSurge": 0}, REFUSED), ({"maxUnavailable": "101%"}, REFUSED),
            ({"maxUnavailable": 0, "maxSurge": "101%"}, REFUSED)]),
        ({"updateStrategy": {"type": "OnDelete"}}, TAKEN), ({"updateStrategy": {"type": "Random"}}, REFUSED),
        ({"minReadySeconds": -1}, REFUSED),
    ],
    "StatefulSet": [
        ({"podManagementPolicy": "Parallel"}, TAKEN), ({"podManagementPolicy": "Random"}, REFUSED),
        *_updates("updateStrategy", [({"partition": 3}, TAKEN), ({"partition": -1}, REFUSED), (None, TAKEN)]),
        ({"updateStrategy": {"type": "OnDelete"}}, TAKEN),
        ({"updateStrategy": {"type": "OnDelete", "rollingUpdate": {"partition": 1}}}, REFUSED),
        ({"updateStrategy": {"type": "Random"}}, REFUSED), ({"ordinals": {"start": 5}}, TAKEN), ({"ordinals": {"start": -1}}, REFUSED),
        ({"persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete", "whenDeleted": "Retain"}}, TAKEN),
        ({"persistentVolumeClaimRetentionPolicy": {"whenScaled": "Keep"}}, REFUSED),
        ({"minReadySeconds": -1}, REFUSED), ({"replicas": -1}, REFUSED),
    ],
    "Job": [
        ({"parallelism": 2, "completions": 4}, TAKEN), ({"parallelism": -1}, REFUSED), ({"completions": -1}, REFUSED),
        ({"backoffLimit": -1}, REFUSED), ({"activeDeadlineSeconds": -1}, REFUSED), ({"ttlSecondsAfterFinished": -1}, REFUSED),
        ({"completionMode": "Indexed", "completions": 3, "parallelism": 2}, TAKEN),
        ({"completionMode": "Indexed", "parallelism": 2}, REFUSED), ({"completionMode": "Sorted"}, REFUSED),
        ({"completionMode": "Indexed", "completions": 3, "parallelism": 100_001}, REFUSED),
        ({"backoffLimitPerIndex": 1}, REFUSED), ({"completionMode": "Indexed", "completions": 3, "backoffLimitPerIndex": 1}, TAKEN),
        ({"completionMode": "Indexed", "completions": 3, "maxFailedIndexes": 1}, REFUSED),
        ({"completionMode": "Indexed", "completions": 3, "backoffLimitPerIndex": 1, "maxFailedIndexes": 4}, REFUSED),
    ],
}  # fmt: skip
