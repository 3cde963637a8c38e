"""TopologyAwarePolicies of nodes: which nodes have the isolated CPUs that containers require, by solver and checker alike."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kubestow.checker.placement import rejecting_rules, verify
from kubestow.models.cluster import unmodelled
from kubestow.models.numa.isolated_cpus import isolated
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from kubestow.solver.explain.per_node import explain
from kubestow.solver.runtime.options import Options
from kubestow.solver.solve import place
from tests.objects import Object, node, pod
from tests.tiers import thinned

RULE = "TopologyAwarePolicy"
DOMAIN = "resource-policy.nri.io"
MUST, MAY, SHARED = (f"{name}.{DOMAIN}" for name in ("require-isolated-cpus", "prefer-isolated-cpus", "prefer-shared-cpus"))


def policy(name: str = "default", **spec: Any) -> Object:
    metadata = {"name": name, "namespace": "kube-system"}
    return {"apiVersion": "config.nri/v1alpha1", "kind": "TopologyAwarePolicy", "metadata": metadata, "spec": spec}


def topology(name: str, *cpusets: str, plugin: str | None = "topology-aware") -> Object:
    """A NodeResourceTopology as the plugin writes it; ``cpusets``: the isolated CPUs of each socket that has some free."""
    attributes = [[{"name": "isolated cpuset", "value": text}] for text in cpusets] or [[]]
    zones = [{"name": f"socket #{i}", "type": "socket", "attributes": each} for i, each in enumerate(attributes)]
    found: Object = {"apiVersion": "topology.node.k8s.io/v1alpha2", "kind": "NodeResourceTopology", "metadata": {"name": name}}
    said = [{"name": "TopologyPolicy", "value": plugin}] if plugin else []
    return {**found, "attributes": said, "zones": zones}


def guaranteed(name: str, annotations: dict[str, str] | None = None, *, cpu: str = "2", **more: Any) -> Object:
    found = pod(name, containers=[container("c", cpu)], **more)
    found["metadata"]["annotations"] = annotations or {}
    return found


def container(name: str, cpu: str, memory: str = "1Gi", **more: Any) -> Object:
    requested = {"cpu": cpu, "memory": memory}
    return {"name": name, "image": "i", "resources": {"requests": requested, "limits": requested}, **more}


def rejected(snapshot: Snapshot, name: str = "p") -> set[str]:
    """The nodes on which the rule rejects a pod, on which solver and checker agree."""
    (asking_pod,) = [each for each in snapshot.pods if each.metadata.name == name]
    (verdict,) = explain(snapshot, pod=f"{asking_pod.metadata.namespace}/{name}")
    for each in snapshot.nodes:
        here = each.metadata.name or ""
        assert (RULE in rejecting_rules(snapshot, asking_pod, here)) == (RULE in verdict.rejected.get(here, []))
    return {n for n, rules in verdict.rejected.items() if RULE in rules}


@pytest.mark.parametrize(
    ("cpu", "annotations", "spec", "refused"),
    [
        ("2", {}, {}, False),
        ("2", {MUST: "true"}, {}, False),
        ("3", {MUST: "true"}, {}, True),
        ("3", {f"{MUST}/pod": "1"}, {}, True),
        ("3", {f"{MUST}/container.c": "T", MUST: "false"}, {}, True),
        ("3", {f"{MUST}/container.c": "false", MUST: "true"}, {}, False),
        ("3", {f"{MUST}/container.other": "true"}, {}, False),
        ("3", {f"{MUST}/pod": "true", f"{MAY}/container.c": "true"}, {}, False),
        ("3", {f"{MUST}/pod": "true", f"{MAY}/pod": "false"}, {}, True),
        ("3500m", {MUST: "true"}, {}, False),
        ("3500m", {MUST: "true", SHARED: "false"}, {}, True),
        ("3", {MUST: "true", f"{SHARED}/pod": "true"}, {}, False),
        ("3", {MUST: "true"}, {"preferSharedCPUs": True}, False),
        ("3", {MUST: "true", SHARED: "no"}, {"preferSharedCPUs": False}, True),
        ("3", {MUST: "yes"}, {}, False),
        ("3", {MUST: "true", f"cpu.preserve.{DOMAIN}": "true"}, {}, False),
        ("3", {MUST: "true", f"prefer-reserved-cpus.{DOMAIN}": "true"}, {}, False),
        ("3", {MUST: "true"}, {"reservedPoolNamespaces": ["x", "def*"]}, False),
        ("3", {MUST: "true"}, {"reservedPoolNamespaces": ["[", "def*"]}, True),
        ("3", {MUST: "true", f"prefer-reserved-cpus.{DOMAIN}": "false"}, {"reservedPoolNamespaces": ["*"]}, True),
    ],
)
def test_what_a_container_requires(cpu: str, annotations: dict[str, str], spec: Object, refused: bool) -> None:
    objects = [node("n1", cpu="16", memory="16Gi"), topology("n1", "4", "12"), policy(**spec), guaranteed("p", annotations, cpu=cpu)]
    snapshot = from_objects(objects)
    assert rejected(snapshot) == ({"n1"} if refused else set())
    found = place(snapshot, Options(time_limit=5))
    assert len(found.assignments) == (not refused)
    assert verify(snapshot, found) == []


@pytest.mark.parametrize(
    ("value", "spec", "refused"),
    [("true", {}, True), ("what", {}, True), ("what", {"preferIsolatedCPUs": False}, False), ("false", {}, False)],
)
def test_one_cpu_is_isolated_unless_somebody_says_otherwise(value: str, spec: Object, refused: bool) -> None:
    snapshot = from_objects([node("n1", cpu="16"), topology("n1"), policy(**spec), guaranteed("p", {MUST: value}, cpu="1500m")])
    assert rejected(snapshot) == ({"n1"} if refused else set())


def test_pods_that_are_not_guaranteed_require_nothing() -> None:
    loose = guaranteed("p", {MUST: "true"}, cpu="3")
    del loose["spec"]["containers"][0]["resources"]["limits"]["memory"]
    assert rejected(from_objects([node("n1", cpu="16"), topology("n1", "4"), policy(), loose])) == set()


def test_containers_that_run_side_by_side_add_up() -> None:
    def both(**spec: Any) -> Object:
        found = guaranteed("p", {f"{MUST}/container.{name}": "true" for name in "abc"})
        found["spec"] = {**found["spec"], **spec}
        return found

    nodes = [node("n1", cpu="16"), topology("n1", "0-3,3"), policy()]
    assert rejected(from_objects([*nodes, both(containers=[container("a", "2"), container("b", "2")])])) == set()
    assert rejected(from_objects([*nodes, both(containers=[container("a", "2"), container("b", "3")])])) == {"n1"}
    first = both(containers=[container("a", "3")], initContainers=[container("b", "4")])
    assert rejected(from_objects([*nodes, first])) == set()
    side = both(containers=[container("a", "3")], initContainers=[container("b", "1", restartPolicy="Always"), container("c", "4")])
    assert rejected(from_objects([*nodes, side])) == {"n1"}


def test_nodes_whose_isolated_cpus_are_not_known_take_the_pod() -> None:
    asking_pod = guaranteed("p", {MUST: "true"})
    nodes = [node(name, cpu="16") for name in ("none", "other", "foreign", "odd", "empty", "few")]
    listed = [topology("other", plugin=None), topology("foreign", plugin="balloons"), topology("odd", "0-x"), topology("empty")]
    assert rejected(from_objects([*nodes, *listed, topology("few", "7"), policy(), asking_pod])) == {"empty", "few"}
    assert rejected(from_objects([*nodes, *listed, topology("few", "7"), policy("node.few"), asking_pod])) == {"few"}


def test_a_node_without_a_free_isolated_cpu_may_get_some_back() -> None:
    """The plugin lists them only while one is free: pods that run and may have them can leave."""
    asking_pod = guaranteed("p", {MUST: "true"})
    for there, expected in (
        (guaranteed("q", {MUST: "true"}, node_name="n1"), set()),
        (guaranteed("q", cpu="1", node_name="n1"), set()),
        (guaranteed("q", cpu="2", node_name="n1"), {"n1"}),
        (guaranteed("q", {MAY: "true"}, cpu="2", node_name="n1"), {"n1"}),
        (guaranteed("q", {f"{MAY}/pod": "true"}, cpu="2", node_name="n1"), set()),
    ):
        snapshot = from_objects([node("n1", cpu="16"), topology("n1"), policy(), there, asking_pod])
        assert rejected(snapshot) == expected


def test_lists_of_cpus() -> None:
    def has(*cpusets: str) -> int | None:
        found = from_objects([node("n1"), topology("n1", *cpusets)]).node_topologies["n1"]
        return isolated(found)

    assert [has("0-3"), has("0-3,2-5", "4,9"), has("7-5,1"), has(""), has(), has("1,-")] == [4, 7, 1, 0, 0, None]
    assert isolated(None) is None


def test_what_is_said_of_the_annotation() -> None:
    def said(*objects: Object, cpu: str = "2") -> str:
        snapshot = from_objects([node("n1"), *objects, guaranteed("p", {MUST: "true"}, cpu=cpu)])
        return next(each.effect for each in unmodelled.find(snapshot, snapshot.pods) if MUST in each.field)

    assert said().startswith("not checked: ")
    assert said(policy()).startswith("not checked: ")
    assert said(policy(), topology("n1", "3"), node("n2")).startswith("checked only where the isolated CPUs of a node are known")
    assert said(policy(), topology("n1", "3")).startswith("checked against all isolated CPUs of a node")
    assert said(policy(), topology("n1", "3"), cpu="500m") == "ignored: no container of the pod gets CPUs of its own"
    assert said(topology("n1", plugin="balloons")) == "ignored: no node runs the topology-aware policy, which alone reads it"


def test_what_is_said_of_strict_hints() -> None:
    strict, hints = f"strict.topologyhints.{DOMAIN}/container.c", f"topologyhints.{DOMAIN}/pod"
    for given, words in (
        ({strict: "true"}, "not checked: "),
        ({strict: "true", hints: "devices"}, "not checked: "),
        ({strict: "true", hints: "none"}, "ignored: the container has no topology hints"),
        ({strict: "true", hints: "false"}, "ignored: the container has no topology hints"),
        ({strict: "yes"}, "ignored: the container has no topology hints, or the value is not true"),
    ):
        snapshot = from_objects([node("n1"), policy(), guaranteed("p", given)])
        effects = {each.field: each.effect for each in unmodelled.find(snapshot, snapshot.pods)}
        assert effects[f"metadata.annotations[{strict}]"].startswith(words)


@pytest.mark.parametrize("seed", thinned(range(60), 3))
def test_solver_and_checker_agree(seed: int) -> None:
    rng = random.Random(seed)
    values = ["true", "false", "1", "F", "", "what"]
    keys = [MUST, MUST, MAY, SHARED, f"prefer-reserved-cpus.{DOMAIN}", f"cpu.preserve.{DOMAIN}"]

    def annotations() -> dict[str, str]:
        return {rng.choice(keys) + rng.choice(["", "/pod", "/container.c"]): rng.choice(values) for _ in range(rng.randint(1, 4))}

    def spec() -> Object:
        given = {"preferIsolatedCPUs": rng.random() < 0.5, "preferSharedCPUs": rng.random() < 0.5}
        patterns = {"reservedPoolNamespaces": rng.sample(["d?fault", "[", "x*"], rng.randint(0, 2))}
        return {key: value for key, value in (given | patterns).items() if rng.random() < 0.5}

    policies = [policy(name, **spec()) for name in rng.sample(["default", "node.n1", "group.a"], rng.randint(1, 2))]
    nodes = [node(f"n{i}", cpu="16", labels=rng.choice([{}, {"config.nri/group": "a"}])) for i in range(3)]
    cpusets = ["3", "0-1", "0-3,7", "2-1", "0,0,1"]
    listed = [topology(f"n{i}", *rng.sample(cpusets, rng.randint(0, 2)), plugin=rng.choice(["topology-aware", None])) for i in range(3)]
    running = [
        guaranteed(f"q{i}", annotations(), cpu=rng.choice(["1", "2", "500m"]), node_name=f"n{i}") for i in range(3) if rng.random() < 0.5
    ]
    asking_pod = guaranteed("p", annotations(), cpu=rng.choice(["500m", "1", "1500m", "2", "3", "2500m"]))
    rejected(from_objects([*nodes, *listed, *policies, *running, asking_pod]))
