"""Every problem is one line that names the file (or place), the object, the field path and what was expected."""

from __future__ import annotations

from typing import Any

import pytest

from kubestow.models.kube.feature_gates import FeatureGates
from kubestow.models.kube.quantity import INT64_MAX
from kubestow.models.snapshot.snapshot import InputError, from_objects

Object = dict[str, Any]

QUANTITY = "is not a quantity (expected a number such as 2, 500m, 1.5Gi or 1e3)"


def pod(**spec: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "prod"},
        "spec": {"containers": [{"name": "c"}], **spec},
    }


def problems(*objects: Object) -> list[str]:
    """The lines without their common beginning."""
    with pytest.raises(InputError) as error:
        from_objects(objects)
    assert str(error.value) == "\n".join(error.value.problems)
    start = "objects[0]: "
    assert all(line.startswith(start) for line in error.value.problems)
    return [line.removeprefix(start).removeprefix("Pod prod/p: ") for line in error.value.problems]


def accepted(*objects: Object) -> None:
    snapshot = from_objects(objects)
    assert snapshot.counts()


def test_a_line_names_the_object_and_the_field() -> None:
    requested = {"requests": {"cpu": "12Q"}}
    with pytest.raises(InputError) as error:
        from_objects([pod(), pod(containers=[{"name": "c", "resources": requested}])])
    assert error.value.problems[0] == f"objects[1]: Pod prod/p: spec.containers[0].resources.requests.cpu: '12Q' {QUANTITY}"


def test_all_problems_of_all_objects_are_told() -> None:
    bad = pod(containers=[], overhead={"cpu": "x"}, tolerations=[{"operator": "Is"}, {"effect": "Never"}])
    taint = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": {"taints": [{"key": "a", "effect": "Some"}]}}
    with pytest.raises(InputError) as error:
        from_objects([bad, taint])
    assert error.value.problems == [
        "objects[0]: Pod prod/p: spec.containers: missing, expected at least one container",
        f"objects[0]: Pod prod/p: spec.overhead.cpu: 'x' {QUANTITY}",
        "objects[0]: Pod prod/p: spec.tolerations[0].operator: got 'Is', expected Exists or Equal",
        "objects[0]: Pod prod/p: spec.tolerations[1].effect: got 'Never', expected NoSchedule, PreferNoSchedule or NoExecute",
        "objects[1]: Node n: spec.taints[0].effect: got 'Some', expected NoSchedule, PreferNoSchedule or NoExecute",
    ]


# --- containers -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["requests", "limits"])
@pytest.mark.parametrize("where", ["containers", "initContainers"])
def test_quantities_of_containers(field: str, where: str) -> None:
    requested = {"cpu": "-1", "memory": "lots", "example.com/gpu": str(2**63)}
    resources: Object = {"resources": {field: requested}}
    path = f"spec.{where}[0].resources.{field}"
    assert problems(pod(**{"containers": [{"name": "a"}], where: [{"name": "c", **resources}]})) == [
        f"{path}.cpu: got '-1', expected a quantity of at least 0",
        f"{path}.memory: 'lots' {QUANTITY}",
        f"{path}.example.com/gpu: got '9223372036854775808', expected a quantity that fits 64 bits",
    ]


def test_cpu_is_held_in_thousandths() -> None:
    requested = {"requests": {"cpu": INT64_MAX // 1000, "memory": INT64_MAX}}
    accepted(pod(containers=[{"name": "c", "resources": requested}]))
    requested["requests"]["cpu"] += 1
    (line,) = problems(pod(containers=[{"name": "c", "resources": requested}]))
    assert line.endswith("expected a quantity that fits 64 bits in thousandths")


def test_the_sum_of_a_pod_fits_64_bits() -> None:
    half: Object = {"resources": {"limits": {"memory": "4Ei"}}}
    accepted(pod(containers=[{"name": "a", **half}], initContainers=[{"name": "i", **half}]))
    for more in (
        {"containers": [{"name": "a", **half}, {"name": "b", **half}]},
        {"containers": [{"name": "a", **half}], "overhead": {"memory": "4Ei"}},
        {"containers": [{"name": "a", **half}], "initContainers": [{"name": "i", "restartPolicy": "Always", **half}]},
    ):
        assert problems(pod(**more)) == ["spec.containers: the total of memory exceeds 64 bits, expected less"]


def test_container_names_are_taken_once_per_pod() -> None:
    lines = problems(pod(containers=[{"name": "a"}, {"name": "a"}], initContainers=[{"name": "a"}]))
    assert lines == [
        "spec.containers[1].name: 'a' is taken, expected a unique name within the pod",
        "spec.initContainers[0].name: 'a' is taken, expected a unique name within the pod",
    ]


def test_ports() -> None:
    ports = [{"containerPort": 0}, {"containerPort": 65536}, {"containerPort": 1, "hostPort": -1, "protocol": "ICMP"}]
    path = "spec.containers[0].ports"
    assert problems(pod(containers=[{"name": "c", "ports": ports}])) == [
        f"{path}[0].containerPort: got 0, expected a whole number within 1..65535",
        f"{path}[1].containerPort: got 65536, expected a whole number within 1..65535",
        f"{path}[2].hostPort: got -1, expected a whole number within 0..65535",
        f"{path}[2].protocol: got 'ICMP', expected TCP, UDP or SCTP",
    ]
    accepted(pod(containers=[{"name": "c", "ports": [{"containerPort": 65535, "hostPort": 0, "protocol": "SCTP"}, {"containerPort": 1}]}]))


def test_other_places_of_quantities() -> None:
    claim = {"spec": {"resources": {"requests": {"storage": "1Q"}}}}
    assert problems(pod(resources={"limits": {"cpu": "1Q"}}, volumes=[{"name": "v", "ephemeral": {"volumeClaimTemplate": claim}}])) == [
        f"spec.volumes[0].ephemeral.volumeClaimTemplate.spec.resources.requests.storage: '1Q' {QUANTITY}",
        f"spec.resources.limits.cpu: '1Q' {QUANTITY}",
    ]
    resized = pod() | {"status": {"containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "1Q"}}]}}
    assert problems(resized) == [f"status.containerStatuses[0].allocatedResources.cpu: '1Q' {QUANTITY}"]


# --- selectors --------------------------------------------------------------------------------------------------------


def requirement(operator: str, *values: str) -> Object:
    return {"key": "k", "operator": operator, "values": list(values)}


def by_label(*expressions: Object) -> Object:
    term = {"topologyKey": "z", "labelSelector": {"matchExpressions": list(expressions)}}
    return pod(affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})


def by_node(*expressions: Object, fields: bool = False) -> Object:
    term = {"matchFields" if fields else "matchExpressions": list(expressions)}
    selector = {"nodeSelectorTerms": [term]}
    return pod(affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": selector}})


LABEL_PATH = "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector.matchExpressions"
NODE_PATH = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions"


def test_label_selectors() -> None:
    bad = [requirement("In"), requirement("NotIn"), requirement("Exists", "v"), requirement("DoesNotExist", "v"), requirement("Gt", "1")]
    assert problems(by_label(*bad)) == [
        f"{LABEL_PATH}[0].values: missing, expected at least one value with operator In",
        f"{LABEL_PATH}[1].values: missing, expected at least one value with operator NotIn",
        f"{LABEL_PATH}[2].values: got 1, expected none with operator Exists",
        f"{LABEL_PATH}[3].values: got 1, expected none with operator DoesNotExist",
        f"{LABEL_PATH}[4].operator: got 'Gt', expected In, NotIn, Exists or DoesNotExist",
    ]
    accepted(by_label(requirement("In", "a", "b"), requirement("NotIn", ""), requirement("Exists"), requirement("DoesNotExist")))


def test_node_selectors() -> None:
    bad = [requirement("In"), requirement("Exists", "v"), requirement("Gt"), requirement("Lt", "1", "2"), requirement("in", "v")]
    assert problems(by_node(*bad)) == [
        f"{NODE_PATH}[0].values: missing, expected at least one value with operator In",
        f"{NODE_PATH}[1].values: got 1, expected none with operator Exists",
        f"{NODE_PATH}[2].values: got 0, expected exactly one value with operator Gt",
        f"{NODE_PATH}[3].values: got 2, expected exactly one value with operator Lt",
        f"{NODE_PATH}[4].operator: got 'in', expected In, NotIn, Exists, DoesNotExist, Gt or Lt",
    ]


@pytest.mark.parametrize("value", ["5", "-5", "+2", "02", "many"])
def test_what_gt_and_lt_compare_with_is_not_judged(value: str) -> None:
    accepted(by_node(requirement("Gt", value), requirement("Lt", value)))


def test_selectors_that_match_nothing_are_let_through() -> None:
    accepted(pod(affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}))
    accepted(pod(affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}}}))
    accepted(by_node({"key": "metadata.name", "operator": "In", "values": ["a", "b"]}, fields=True))


# --- affinity and spread ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["podAffinity", "podAntiAffinity"])
@pytest.mark.parametrize("variant", ["requiredDuringSchedulingIgnoredDuringExecution", "requiredDuringSchedulingRequiredDuringExecution"])
def test_pod_affinity_terms(kind: str, variant: str) -> None:
    bad_selector = {"matchExpressions": [requirement("In")]}
    terms: list[Object] = [
        {"topologyKey": "", "labelSelector": {}},
        {"topologyKey": "z", "matchLabelKeys": ["a"], "mismatchLabelKeys": ["b"]},
        {"topologyKey": "z", "labelSelector": bad_selector, "namespaceSelector": bad_selector},
    ]
    path = f"spec.affinity.{kind}.{variant}"
    assert problems(pod(affinity={kind: {variant: terms}})) == [
        f"{path}[0].topologyKey: empty, expected a node label key",
        f"{path}[1].matchLabelKeys: expected together with a labelSelector only",
        f"{path}[1].mismatchLabelKeys: expected together with a labelSelector only",
        f"{path}[2].labelSelector.matchExpressions[0].values: missing, expected at least one value with operator In",
        f"{path}[2].namespaceSelector.matchExpressions[0].values: missing, expected at least one value with operator In",
    ]


@pytest.mark.parametrize("weight", [0, 101, -1])
def test_weights(weight: int) -> None:
    variant = "preferredDuringSchedulingIgnoredDuringExecution"
    term = {"topologyKey": "z", "labelSelector": {}}
    preference = {"matchExpressions": [requirement("Exists")]}
    affinity = {
        "nodeAffinity": {variant: [{"weight": weight, "preference": preference}]},
        "podAntiAffinity": {variant: [{"weight": weight, "podAffinityTerm": term}]},
    }
    assert problems(pod(affinity=affinity)) == [
        f"spec.affinity.nodeAffinity.{variant}[0].weight: got {weight}, expected a whole number within 1..100",
        f"spec.affinity.podAntiAffinity.{variant}[0].weight: got {weight}, expected a whole number within 1..100",
    ]


def spread(**fields: Any) -> Object:
    return {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}, **fields}


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"maxSkew": 0}, "maxSkew: got 0, expected a whole number of at least 1 that fits 32 bits"),
        ({"topologyKey": ""}, "topologyKey: empty, expected a node label key"),
        ({"whenUnsatisfiable": "Maybe"}, "whenUnsatisfiable: got 'Maybe', expected DoNotSchedule or ScheduleAnyway"),
        ({"whenUnsatisfiable": ""}, "whenUnsatisfiable: got '', expected DoNotSchedule or ScheduleAnyway"),
        ({"nodeAffinityPolicy": "No"}, "nodeAffinityPolicy: got 'No', expected Honor or Ignore"),
        ({"nodeTaintsPolicy": "No"}, "nodeTaintsPolicy: got 'No', expected Honor or Ignore"),
        ({"minDomains": 0}, "minDomains: got 0, expected a whole number of at least 1 that fits 32 bits"),
        ({"minDomains": 2, "whenUnsatisfiable": "ScheduleAnyway"}, "minDomains: expected with whenUnsatisfiable DoNotSchedule only"),
        ({"labelSelector": None, "matchLabelKeys": ["a"]}, "matchLabelKeys: expected together with a labelSelector only"),
    ],
)
def test_spread_constraints(fields: Object, line: str) -> None:
    assert problems(pod(topologySpreadConstraints=[spread(**fields)])) == [f"spec.topologySpreadConstraints[0].{line}"]


def test_a_spread_constraint_per_key_and_action() -> None:
    accepted(pod(topologySpreadConstraints=[spread(), spread(whenUnsatisfiable="ScheduleAnyway"), spread(topologyKey="y", minDomains=3)]))
    assert problems(pod(topologySpreadConstraints=[spread(), spread(maxSkew=2)])) == [
        "spec.topologySpreadConstraints[1]: repeats topologyKey 'z' with 'DoNotSchedule', expected each pair once"
    ]


# --- other kinds ------------------------------------------------------------------------------------------------------


def other(kind: str, version: str = "v1", **fields: Any) -> Object:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, **fields}


BAD_SELECTOR: Object = {"matchExpressions": [{"key": "k", "operator": "In"}]}
BAD_NODES: Object = {"nodeSelectorTerms": [BAD_SELECTOR]}
NO_VALUES = "matchExpressions[0].values: missing, expected at least one value with operator In"


@pytest.mark.parametrize(
    ("obj", "lines"),
    [
        (
            other("Node", status={"capacity": {"cpu": "4 cores"}, "allocatable": {"memory": -1}}),
            [
                f"Node x: status.capacity.cpu: '4 cores' {QUANTITY}",
                "Node x: status.allocatable.memory: got -1, expected a quantity of at least 0",
            ],
        ),
        (
            other("PersistentVolume", spec={"capacity": {"storage": "x"}, "nodeAffinity": {"required": BAD_NODES}}),
            [
                f"PersistentVolume x: spec.capacity.storage: 'x' {QUANTITY}",
                f"PersistentVolume x: spec.nodeAffinity.required.nodeSelectorTerms[0].{NO_VALUES}",
            ],
        ),
        (
            other("PersistentVolumeClaim", spec={"resources": {"requests": {"storage": "x"}}, "selector": BAD_SELECTOR}),
            [
                f"PersistentVolumeClaim default/x: spec.resources.requests.storage: 'x' {QUANTITY}",
                f"PersistentVolumeClaim default/x: spec.selector.{NO_VALUES}",
            ],
        ),
        (
            other("StorageClass", "storage.k8s.io/v1", volumeBindingMode="Later"),
            ["StorageClass x: volumeBindingMode: got 'Later', expected Immediate or WaitForFirstConsumer"],
        ),
        (
            other(
                "NodeResourceTopology",
                "topology.node.k8s.io/v1alpha2",
                zones=[
                    {
                        "name": "node-0",
                        "type": "Node",
                        "resources": [{"name": "cpu", "capacity": "2", "allocatable": "2", "available": "x"}],
                    }
                ],
            ),
            [f"NodeResourceTopology x: zones[0].resources[0].available: 'x' {QUANTITY}"],
        ),
        (
            other("PodDisruptionBudget", "policy/v1", spec={"selector": BAD_SELECTOR, "minAvailable": "half", "maxUnavailable": -1}),
            [
                f"PodDisruptionBudget default/x: spec.selector.{NO_VALUES}",
                "PodDisruptionBudget default/x: spec.minAvailable: got 'half', expected a whole number or a percentage such as 50%",
                "PodDisruptionBudget default/x: spec.maxUnavailable: got -1, expected a whole number of at least 0 that fits 32 bits",
            ],
        ),
        (
            other("Deployment", "apps/v1", spec={"replicas": -1, "selector": BAD_SELECTOR, "template": {"spec": {"containers": []}}}),
            [
                "Deployment default/x: spec.template.spec.containers: missing, expected at least one container",
                f"Deployment default/x: spec.selector.{NO_VALUES}",
                "Deployment default/x: spec.replicas: got -1, expected a whole number of at least 0 that fits 32 bits",
            ],
        ),
        (
            other("StatefulSet", "apps/v1", spec={"volumeClaimTemplates": [{"spec": {"resources": {"requests": {"storage": "x"}}}}]}),
            [f"StatefulSet default/x: spec.volumeClaimTemplates[0].spec.resources.requests.storage: 'x' {QUANTITY}"],
        ),
        (
            other("CronJob", "batch/v1", spec={"jobTemplate": {"spec": {"parallelism": -1, "template": {"spec": {"containers": []}}}}}),
            [
                "CronJob default/x: spec.jobTemplate.spec.template.spec.containers: missing, expected at least one container",
                "CronJob default/x: spec.jobTemplate.spec.parallelism: got -1, expected a whole number of at least 0 that fits 32 bits",
            ],
        ),
        (
            other("PriorityClass", "scheduling.k8s.io/v1", value=2**31),
            ["PriorityClass x: value: got 2147483648, expected a whole number that fits 32 bits"],
        ),
        (
            other("CSINode", "storage.k8s.io/v1", spec={"drivers": [{"name": "d", "allocatable": {"count": -1}}]}),
            ["CSINode x: spec.drivers[0].allocatable.count: got -1, expected a whole number of at least 0 that fits 32 bits"],
        ),
    ],
    ids=lambda value: value["kind"] if isinstance(value, dict) else "",
)
def test_other_kinds(obj: Object, lines: list[str]) -> None:
    assert problems(obj) == lines


def test_numa_zones_may_report_less_than_nothing() -> None:
    resources = [{"name": "cpu", "capacity": "2", "available": "-1"}]
    accepted(
        other("NodeResourceTopology", "topology.node.k8s.io/v1alpha2", zones=[{"name": "node-0", "type": "Node", "resources": resources}])
    )


# --- structure --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("obj", "line"),
    [
        (pod(priority="high"), "spec.priority: got 'high', expected a whole number"),
        (pod(hostNetwork="yes"), "spec.hostNetwork: got 'yes', expected true or false"),
        (pod(nodeSelector=["a"]), "spec.nodeSelector: got a list, expected an object"),
        (pod(nodeSelector={"a": 1}), "spec.nodeSelector.a: got 1, expected text"),
        (pod(containers={"name": "c"}), "spec.containers: got an object, expected a list"),
        (pod(containers=["c"]), "spec.containers[0]: got 'c', expected an object"),
        (pod(overhead={"cpu": []}), "spec.overhead.cpu: got a list, expected text or a number"),
        (pod(overhead={"cpu": True}), "spec.overhead.cpu: got true, expected text or a number"),
        (pod(topologySpreadConstraints=[{"maxSkew": 1}]), "spec.topologySpreadConstraints[0].topologyKey: missing, expected text"),
        (pod(nodeName="x" * 100, priority="x" * 100), f"spec.priority: got '{'x' * 60}'…, expected a whole number"),
    ],
)
def test_misfits_are_told_with_their_path(obj: Object, line: str) -> None:
    assert problems(obj)[0] == line


def test_all_misfits_of_an_object_are_told() -> None:
    assert problems(pod(priority=[], nodeSelector={"a": 1, "b": {}})) == [
        "spec.nodeSelector.a: got 1, expected text",
        "spec.nodeSelector.b: got an object, expected text",
        "spec.priority: got a list, expected a whole number",
    ]


def test_nulls_are_absent_and_zero_values_in_maps_and_lists() -> None:
    odd = pod(nodeSelector={"a": None}, affinity=None, overhead={"cpu": None}, tolerations=[None])
    odd["spec"]["containers"] = [{"name": "c", "resources": None}]
    found = from_objects([odd]).pods[0].spec
    assert found.nodeSelector == {"a": ""}
    assert found.affinity is None
    assert found.overhead == {"cpu": 0}
    assert [t.operator for t in found.tolerations or ()] == ["Equal"]


def test_labels_are_not_judged() -> None:
    strange = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"": "é" * 500}}, "spec": pod()["spec"]}
    assert from_objects([strange]).pods[0].metadata.labels == {"": "é" * 500}


# --- tolerations that compare numbers (KEP-5471) ------------------------------------------------------------------------

COMPARING = FeatureGates("1.36", (("TaintTolerationComparisonOperators", True),))
DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}}


def comparing(value: str, operator: str = "Gt") -> Object:
    return pod(tolerations=[{"key": "k", "operator": operator, "value": value, "effect": "NoSchedule"}])


@pytest.mark.parametrize("operator", ["Gt", "Lt"])
@pytest.mark.parametrize("value", ["5", "no number", ""])
def test_stored_tolerations_may_compare_numbers_whatever_the_gates_are(operator: str, value: str) -> None:
    found = from_objects([comparing(value, operator)]).pods[0].spec.tolerations or []
    assert (found[0].operator, found[0].value) == (operator, value)


@pytest.mark.parametrize("operator", ["Gt", "Lt"])
@pytest.mark.parametrize("nested", [False, True], ids=["Pod", "Deployment"])
def test_new_tolerations_may_compare_numbers_where_the_gate_is_on(operator: str, nested: bool) -> None:
    one = comparing("5", operator)
    new = {**DEPLOYMENT, "spec": {"selector": {}, "template": {"spec": one["spec"]}}} if nested else one
    from_objects([new], manifests=True, gates=COMPARING)
    with pytest.raises(InputError, match=rf"tolerations\[0\].operator: got {operator}, expected Exists or Equal .*is off"):
        from_objects([new], manifests=True)


@pytest.mark.parametrize("value", ["", "+5", "05", "-0", "1.0", "1e3", str(2**63), str(-(2**63) - 1), "\u0665", "5\n"])
def test_new_tolerations_compare_with_whole_numbers_only(value: str) -> None:
    with pytest.raises(InputError, match=r"tolerations\[0\].value: got .*, expected a whole number with operator Gt"):
        from_objects([comparing(value)], manifests=True, gates=COMPARING)


@pytest.mark.parametrize("value", ["0", "-1", str(2**63 - 1), str(-(2**63))])
def test_new_tolerations_compare_with_all_whole_numbers_of_64_bits(value: str) -> None:
    from_objects([comparing(value)], manifests=True, gates=COMPARING)


def test_claims_of_containers_are_entries_of_the_pod() -> None:
    """Of new pods: what an API server has stored has been through that."""
    named = pod(resourceClaims=[{"name": "gpu", "resourceClaimName": "shared"}])
    named["spec"]["containers"][0]["resources"] = {"claims": [{"name": "gpu"}, {"name": "gpus"}]}
    with pytest.raises(InputError) as error:
        from_objects([named], manifests=True, gates=FeatureGates())
    where = "spec.containers[0].resources.claims[1].name"
    assert error.value.problems == [f"objects[0]: Pod prod/p: {where}: got 'gpus', expected one of spec.resourceClaims (gpu)"]
    accepted(named)
