"""Values of later versions: bad input in new objects; in stored objects they count as in a kube-scheduler that finds them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from kubestow.checker.placement import verify
from kubestow.models.snapshot.snapshot import InputError, Snapshot, from_objects
from kubestow.solver.explain.per_node import explain
from kubestow.solver.runtime.options import Options
from kubestow.solver.solve import place
from tests.objects import node, pod

Object = dict[str, Any]

HOST = "kubernetes.io/hostname"
ODD = {"matchExpressions": [{"key": "app", "operator": "Foo", "values": ["web"]}]}
WEB = {"matchLabels": {"app": "web"}}
HARD = "requiredDuringSchedulingIgnoredDuringExecution"
SOFT = "preferredDuringSchedulingIgnoredDuringExecution"
REJECTED = "a pending pod is rejected everywhere, a bound one loses all terms of the list"


def stored(obj: Object) -> Object:
    return {**obj, "metadata": {**obj["metadata"], "uid": f"uid-{obj['metadata']['name']}"}}


def hosts(**fields: Any) -> list[Object]:
    found = [node("n1", labels={HOST: "n1", "disk": "ssd"}), node("n2", labels={HOST: "n2"})]
    found[1].setdefault("spec", {})["taints"] = [{"key": "k", "value": "v", "effect": "NoSchedule"}]
    return [stored({**each, **fields}) for each in found]


def terms(kind: str, selector: Object, *, soft: bool = False) -> Object:
    term = {"topologyKey": HOST, "labelSelector": selector}
    return {kind: {SOFT: [{"weight": 1, "podAffinityTerm": term}]} if soft else {HARD: [term]}}


def spread(**fields: Any) -> list[Object]:
    return [{"maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": WEB, **fields}]


def of_nodes(operator: str, field: str = "matchExpressions") -> Object:
    return {"nodeAffinity": {HARD: {"nodeSelectorTerms": [{field: [{"key": "disk", "operator": operator, "values": ["ssd"]}]}]}}}


AFFINITY = "spec.affinity"
#: An odd field of a pod, its effect, and the nodes that accept the pod while it is pending.
ODDITIES: dict[str, tuple[Object, str, str, list[str]]] = {
    "operator of a toleration": (
        {"tolerations": [{"key": "k", "operator": "Foo", "value": "v"}]},
        "spec.tolerations[0].operator",
        "it tolerates nothing",
        ["n1"],
    ),
    "effect of a toleration": (
        {"tolerations": [{"key": "k", "operator": "Exists", "effect": "Foo"}]},
        "spec.tolerations[0].effect",
        "it tolerates nothing",
        ["n1"],
    ),
    "operator for nodes": (
        {"affinity": of_nodes("Foo")},
        f"{AFFINITY}.nodeAffinity.{HARD}.nodeSelectorTerms[0].matchExpressions[0].operator",
        "the term matches no node",
        [],
    ),
    "operator of required affinity": (
        {"affinity": terms("podAffinity", ODD)},
        f"{AFFINITY}.podAffinity.{HARD}[0].labelSelector.matchExpressions[0].operator",
        REJECTED,
        [],
    ),
    "operator of required anti-affinity": (
        {"affinity": terms("podAntiAffinity", ODD)},
        f"{AFFINITY}.podAntiAffinity.{HARD}[0].labelSelector.matchExpressions[0].operator",
        REJECTED,
        [],
    ),
    "operator of preferred affinity": (
        {"affinity": terms("podAffinity", ODD, soft=True)},
        f"{AFFINITY}.podAffinity.{SOFT}[0].podAffinityTerm.labelSelector.matchExpressions[0].operator",
        REJECTED,
        [],
    ),
    "operator of a spread constraint": (
        {"spread": spread(labelSelector=ODD)},
        "spec.topologySpreadConstraints[0].labelSelector.matchExpressions[0].operator",
        REJECTED,
        [],
    ),
    "whenUnsatisfiable": (
        {"spread": spread(whenUnsatisfiable="Foo", maxSkew=1)},
        "spec.topologySpreadConstraints[0].whenUnsatisfiable",
        "the constraint has no effect",
        ["n1"],
    ),
    "nodeTaintsPolicy": (
        {"spread": spread(nodeTaintsPolicy="Foo")},
        "spec.topologySpreadConstraints[0].nodeTaintsPolicy",
        "it is treated as Ignore",
        [],  # n2 counts, has no such pod, and is tainted
    ),
    "nodeAffinityPolicy": (
        {"spread": spread(nodeAffinityPolicy="Foo"), "affinity": of_nodes("In")},
        "spec.topologySpreadConstraints[0].nodeAffinityPolicy",
        "it is treated as Ignore",
        [],
    ),
    "protocol": (
        {"containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80, "protocol": "Foo"}]}]},
        "spec.containers[0].ports[0].protocol",
        "its ports conflict with no other",
        ["n1"],
    ),
}
WEBSITE = pod("web-0", labels={"app": "web"}, node_name="n1", containers=[{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}])
CASES = pytest.mark.parametrize("name", ODDITIES)


def odd(name: str, **fields: Any) -> Object:
    return pod("odd", labels={"app": "web"}, **copy.deepcopy(ODDITIES[name][0]), **fields)


def feasible(snapshot: Snapshot) -> list[str]:
    (verdict,) = explain(snapshot)
    return list(verdict.feasible)


@CASES
def test_pods_that_wait_are_judged_by_what_is_understood_and_named(name: str) -> None:
    _, field, effect, nodes = ODDITIES[name]
    snapshot = from_objects([*hosts(), stored(WEBSITE), stored(odd(name))])
    assert snapshot.not_understood == {"default/odd": [(field, f"'Foo' is not known here: {effect}")]}
    (sentence,) = snapshot.omissions
    assert sentence == f"not understood: Pod default/odd: {field.replace('[0]', '[]')}: 'Foo' is not known here: {effect}"
    assert feasible(snapshot) == nodes
    placement = place(snapshot, Options(time_limit=5))
    assert [each.node for each in placement.assignments] == nodes[:1]
    assert [(each.pod, each.field) for each in placement.unmodelled] == [("default/odd", field)]
    assert verify(snapshot, placement) == []


@CASES
def test_bound_pods_count_with_what_is_understood(name: str) -> None:
    """Anti-affinity that cannot be read repels nobody."""
    snapshot = from_objects([*hosts(), stored(odd(name, node_name="n1")), stored(pod("waits", labels={"app": "web"}))])
    assert len(snapshot.omissions) == 1
    placement = place(snapshot, Options(time_limit=5))
    assert [each.node for each in placement.assignments] == ["n1"]
    assert placement.unmodelled == []
    assert verify(snapshot, placement) == []
    assert verify(snapshot, place(snapshot, Options(time_limit=5, from_scratch=True))) == []


def test_readable_terms_of_other_lists_stay() -> None:
    affinity = {**terms("podAntiAffinity", WEB), **terms("podAffinity", ODD)}
    snapshot = from_objects([*hosts(), stored(pod("odd", affinity=affinity, node_name="n1")), stored(pod("waits", labels={"app": "web"}))])
    assert feasible(snapshot) == []


def test_equal_pods_that_are_bound_and_that_wait_are_apart() -> None:
    affinity = terms("podAntiAffinity", ODD)
    runs, waits = (stored(pod(name, affinity=affinity, node_name=place)) for name, place in (("runs", "n1"), ("waits", None)))
    for items in ([runs, waits], [waits, runs]):
        snapshot = from_objects([*hosts(), *items])
        assert feasible(snapshot) == []
        affinities = {pod.metadata.name: pod.spec.affinity for pod in snapshot.pods}
        assert [each is not None and each.podAffinity is not None for each in map(affinities.get, ("runs", "waits"))] == [False, True]


def test_templates_of_stored_workloads_make_pods_that_are_rejected() -> None:
    spec = odd("operator of required anti-affinity")["spec"]
    template = {"metadata": {"labels": {"app": "web"}}, "spec": spec}
    made = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"selector": WEB, "template": template}}
    snapshot = from_objects([*hosts(), stored(made)])
    path = f"spec.template.{AFFINITY}.podAntiAffinity.{HARD}[].labelSelector.matchExpressions[].operator"
    assert snapshot.omissions == [f"not understood: Deployment default/web: {path}: 'Foo' is not known here: {REJECTED}"]
    found = snapshot.workloads["Deployment"][0].spec.template.spec.affinity.podAffinity
    assert found.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector is None


def other(version: str, kind: str, **fields: Any) -> list[Object]:
    return [*hosts(), stored({"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, **fields})]


@pytest.mark.parametrize(
    ("items", "sentence"),
    [
        (
            lambda: hosts(spec={"taints": [{"key": "k", "effect": "Foo"}]}),
            "Node n1 and 1 more: spec.taints[].effect: 'Foo' is not known here: the taint repels no pods",
        ),
        (
            lambda: other("storage.k8s.io/v1", "StorageClass", provisioner="p", volumeBindingMode="Foo"),
            "StorageClass x: volumeBindingMode: 'Foo' is not known here: it is treated as Immediate",
        ),
        (
            lambda: other("policy/v1", "PodDisruptionBudget", spec={"selector": ODD, "maxUnavailable": 0}),
            "PodDisruptionBudget default/x: spec.selector.matchExpressions[].operator: 'Foo' is not known here: it selects nothing",
        ),
    ],
)
def test_other_objects_count_with_what_is_understood(items: Callable[[], list[Object]], sentence: str) -> None:
    snapshot = from_objects([*items(), stored(WEBSITE), stored(pod("waits"))])
    assert snapshot.omissions == [f"not understood: {sentence}"]
    placement = place(snapshot, Options(time_limit=5))
    assert len(placement.assignments) == 1
    assert verify(snapshot, placement) == []


@CASES
def test_what_nobody_stored_is_bad_input(name: str) -> None:
    for made, manifests in ((odd(name), False), (odd(name), True), (stored(odd(name)), True)):
        with pytest.raises(InputError) as error:
            from_objects([made], manifests=manifests)
        (problem,) = error.value.problems
        assert problem.startswith(f"objects[0]: Pod default/odd: {ODDITIES[name][1]}: got 'Foo', expected ")


def test_near_misses_are_told_apart_from_values_of_later_versions() -> None:
    with pytest.raises(InputError, match=r"got 'exists', expected Exists or Equal; did you mean Exists\?"):
        from_objects([pod("p", tolerations=[{"operator": "exists"}])], manifests=True)


def test_other_problems_of_stored_objects_stay_problems() -> None:
    made = stored(odd("operator of a toleration"))
    made["spec"]["overhead"] = {"cpu": "x"}
    with pytest.raises(InputError) as error:
        from_objects([made])
    assert [problem.split(": ")[2] for problem in error.value.problems] == ["spec.overhead.cpu"]
