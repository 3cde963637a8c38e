"""BalloonsPolicies of nodes: which containers they create, by solver and checker alike."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kubestow.checker.placement import rejecting_rules, verify
from kubestow.models.cluster import unmodelled
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from kubestow.solver.explain.per_node import explain
from kubestow.solver.runtime.options import Options
from kubestow.solver.solve import place
from tests.objects import Object, node, pod
from tests.tiers import thinned

KEY = "balloon.balloons.resource-policy.nri.io"


def policy(name: str, *types: Object, namespace: str = "kube-system", **spec: Any) -> Object:
    metadata = {"name": name, "namespace": namespace}
    return {
        "apiVersion": "config.nri/v1alpha1",
        "kind": "BalloonsPolicy",
        "metadata": metadata,
        "spec": {"balloonTypes": list(types), **spec},
    }


def annotated(name: str, annotations: dict[str, str] | None = None, **more: Any) -> Object:
    found = pod(name, **more)
    found["metadata"]["annotations"] = annotations or {}
    return found


def rejected(snapshot: Snapshot, name: str = "p") -> set[str]:
    """The nodes on which BalloonsPolicy rejects a pod, on which solver and checker agree."""
    (asking_pod,) = [each for each in snapshot.pods if each.metadata.name == name]
    (verdict,) = explain(snapshot, pod=f"{asking_pod.metadata.namespace}/{name}")
    for each in snapshot.nodes:
        here = each.metadata.name or ""
        assert ("BalloonsPolicy" in rejecting_rules(snapshot, asking_pod, here)) == ("BalloonsPolicy" in verdict.rejected.get(here, []))
    return {n for n, rules in verdict.rejected.items() if "BalloonsPolicy" in rules}


FAST, TINY = {"name": "fast"}, {"name": "tiny", "maxCPUs": 1}


@pytest.mark.parametrize(
    ("types", "annotations", "cpu", "refused"),
    [
        ([FAST], {KEY: "fast"}, "3", False),
        ([FAST], {KEY: "slow"}, "3", True),
        ([FAST], {f"{KEY}/container.c": "slow", KEY: "fast"}, "3", True),
        ([FAST], {f"{KEY}/container.other": "slow", f"{KEY}/pod": "fast", KEY: "slow"}, "3", False),
        ([], {KEY: "default"}, "3", False),
        ([], {KEY: "reserved"}, "3", False),
        ([TINY], {KEY: "tiny"}, "1", False),
        ([TINY], {KEY: "tiny"}, "1001m", True),
        ([{"name": "tiny", "maxCPUs": -1}], {KEY: "tiny"}, "0", True),
        ([{**TINY, "namespaces": ["x", "def*"]}], {}, "2", True),
        ([{**TINY, "namespaces": ["x", "[^d]*"]}], {}, "2", False),
        ([{**TINY, "namespaces": ["*"]}, {"name": "default", "maxCPUs": 1}], {}, "2", True),
        ([{**FAST, "namespaces": ["*"]}, {**TINY, "namespaces": ["*"]}], {}, "2", False),
        ([{"name": "default", "maxCPUs": 1}], {}, "2", True),
        ([{**TINY, "matchExpressions": [{"key": "name", "operator": "Exists"}]}, {"name": "default", "maxCPUs": 1}], {}, "2", False),
        ([FAST], {KEY: "slow", "cpu.preserve.resource-policy.nri.io": "true"}, "3", False),
    ],
)
def test_the_type_of_a_container(types: list[Object], annotations: dict[str, str], cpu: str, refused: bool) -> None:
    snapshot = from_objects([node("n1", cpu="8"), policy("default", *types), annotated("p", annotations, cpu=cpu)])
    assert rejected(snapshot) == ({"n1"} if refused else set())
    found = place(snapshot, Options(time_limit=5))
    assert len(found.assignments) == (not refused)
    assert verify(snapshot, found) == []


def test_system_namespaces_go_to_the_reserved_type_first() -> None:
    small = policy("default", {**TINY, "namespaces": ["*"]}, reservedPoolNamespaces=["infra-*"])
    for namespace, nodes in (("infra-1", set()), ("kube-system", set()), ("other", {"n1"})):
        assert rejected(from_objects([node("n1", cpu="8"), small, annotated("p", cpu="2", namespace=namespace)])) == nodes
    own = policy("default", {**TINY, "namespaces": ["*"]}, {"name": "reserved"})
    assert rejected(from_objects([node("n1", cpu="8"), own, annotated("p", cpu="2", namespace="kube-system")])) == {"n1"}


def test_the_policy_of_a_node() -> None:
    nodes = [node("plain"), node("own"), node("a", labels={"config.nri/group": "a"}), node("b", labels={"group.config.nri": "b"})]
    slow = annotated("p", {KEY: "fast"})
    assert rejected(from_objects([*nodes, policy("default"), slow])) == {"plain", "own"}  # a group without a policy has none
    assert rejected(from_objects([*nodes, policy("group.a"), policy("group.b", FAST), slow])) == {"a"}
    assert rejected(from_objects([*nodes, policy("node.own"), policy("default", FAST), slow])) == {"own"}
    assert rejected(from_objects([*nodes, policy("default"), policy("default", FAST, namespace="a"), slow])) == {"plain", "own"}
    assert rejected(from_objects([*nodes, policy("default", preserve={"matchExpressions": []}), slow])) == set()


def test_what_is_not_judged_of_a_policy_is_named() -> None:
    snapshot = from_objects([node("n1"), node("n2"), policy("node.n1", FAST), annotated("p", {KEY: "fast"})])
    found = [(each.pod, each.field) for each in unmodelled.find(snapshot, snapshot.pods)]
    assert found == [("default/p", f"metadata.annotations[{KEY}]"), ("Node/n1", "BalloonsPolicy")]


def test_zones_that_are_not_read_are_named() -> None:
    zones = [{"name": "default[0]", "type": "balloon"}, {"name": "l3", "type": "L3 cache"}, {"name": "s", "type": "socket"}]
    topology = {"apiVersion": "topology.node.k8s.io/v1alpha2", "kind": "NodeResourceTopology", "metadata": {"name": "n1"}, "zones": zones}
    snapshot = from_objects([node("n1"), topology, pod("p")])
    found = [(each.pod, each.effect.partition(" are ")[0]) for each in unmodelled.find(snapshot, snapshot.pods)]
    assert found == [("Node/n1", "zones of type balloon"), ("Node/n1", "zones of type L3 cache")]


def room(name: str, sizes: dict[str, str | None], *, plugin: str = "balloons") -> Object:
    """A NodeResourceTopology with balloons; ``sizes``: by name the largest request that each takes without containers."""
    resources = {zone: [] if size is None else [{"name": "cpu", "allocatable": size, "available": "0"}] for zone, size in sizes.items()}
    zones = [{"name": zone, "type": "balloon", "resources": listed} for zone, listed in resources.items()]
    found: Object = {"apiVersion": "topology.node.k8s.io/v1alpha2", "kind": "NodeResourceTopology", "metadata": {"name": name}}
    return {**found, "attributes": [{"name": "TopologyPolicy", "value": plugin}], "zones": zones}


@pytest.mark.parametrize(
    ("sizes", "cpu", "refused"),
    [
        ({"fast[0]": "3"}, "3", False),
        ({"fast[0]": "3"}, "3001m", True),
        ({"fast[0]": "3", "fast[1]": "4"}, "4", False),
        ({"default[0]": "1", "reserved[0]": "1"}, "4", False),
        ({"fast[0]": None}, "4", False),
        ({"fast": "1"}, "4", False),
    ],
)
def test_a_balloon_has_no_more_cpus_than_its_node_says(sizes: dict[str, str | None], cpu: str, refused: bool) -> None:
    asking_pod = annotated("p", {KEY: "fast"}, cpu=cpu)
    snapshot = from_objects([node("n1", cpu="8"), policy("default", FAST), room("n1", sizes), asking_pod])
    assert rejected(snapshot) == ({"n1"} if refused else set())
    assert verify(snapshot, place(snapshot, Options(time_limit=5))) == []


def test_sizes_that_say_nothing() -> None:
    asking_pod, small = annotated("p", {KEY: "fast"}, cpu="4"), room("n1", {"fast[0]": "1"})
    nodes = [node("n1", cpu="8"), node("n2", cpu="8")]
    assert rejected(from_objects([*nodes, policy("default", FAST), small, asking_pod])) == {"n1"}
    parts = {**FAST, "components": [{"balloonType": "default"}]}
    assert rejected(from_objects([*nodes, policy("default", parts), small, asking_pod])) == set()
    assert rejected(from_objects([*nodes, policy("default"), room("n1", {}, plugin="topology-aware"), asking_pod])) == {"n2"}
    assert rejected(from_objects([*nodes, small, asking_pod])) == set()


@pytest.mark.parametrize("seed", thinned(range(60), 3))
def test_solver_and_checker_agree(seed: int) -> None:
    rng = random.Random(seed)
    patterns = ["*", "d*", "default", "[a-d]?fault", "[^d]*", "e*", "de\\fault", "[", "d[e-]*"]

    def balloon_type(name: str) -> Object:
        found: Object = {"name": name}
        if rng.random() < 0.5:
            found["namespaces"] = rng.sample(patterns, rng.randint(1, 2))
        if rng.random() < 0.6:
            found["maxCPUs"] = rng.choice([-1, 0, 1, 2])
        if rng.random() < 0.1:
            found["matchExpressions"] = [{"key": "name", "operator": "Exists"}]
        return found

    names = ["fast", "tiny", "default", "reserved"]
    listed = [
        policy(name, *map(balloon_type, rng.sample(names, rng.randint(0, 3))))
        for name in rng.sample(["default", "node.n1", "group.a", "group.b"], rng.randint(1, 3))
    ]
    groups = [rng.choice([{}, {"config.nri/group": "a"}, {"resource-policy.nri.io/group": "b"}]) for _ in range(3)]
    nodes = [node(f"n{i}", cpu="8", labels=labels) for i, labels in enumerate(groups)]
    sizes = {f"{name}[{i}]": rng.choice(["0", "1", "1500m", "4", None]) for name in names for i in range(2) if rng.random() < 0.3}
    listed += [room("n0", sizes)] if rng.random() < 0.5 else []
    scopes = rng.sample([KEY, f"{KEY}/pod", f"{KEY}/container.c"], rng.randint(0, 2))
    asking_pod = annotated(
        "p", {scope: rng.choice([*names, "nosuch"]) for scope in scopes}, cpu=rng.choice(["0", "500m", "1", "1500m", "3"])
    )
    rejected(from_objects([*nodes, *listed, asking_pod]))
