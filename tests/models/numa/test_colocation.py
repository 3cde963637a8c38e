"""colocatePods and colocateNamespaces of the nodes' TopologyAwarePolicies, by solver, checker and explain alike."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kubestow.checker.objective.colocation import colocation
from kubestow.checker.placement import verify
from kubestow.models.cluster import unmodelled
from kubestow.models.documents.policy import DEFAULT, Policy
from kubestow.models.numa.colocation import switched
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from kubestow.solver.explain.affinity_matrix import matrix
from kubestow.solver.runtime.options import Options
from kubestow.solver.solve import place
from tests.models.numa.test_isolated_cpus import container, policy
from tests.objects import Object, node, pod
from tests.tiers import thinned


def switches(snapshot: Snapshot, given: Policy = DEFAULT) -> tuple[bool, bool]:
    """The switches as they count, on which solver and checker agree."""
    found = switched(given, snapshot)
    assert colocation(given, snapshot) == (found.colocatePods, found.colocateNamespaces)
    return found.colocatePods, found.colocateNamespaces


def two(name: str, namespace: str = "default") -> Object:
    return pod(name, namespace=namespace, containers=[container("a", "1"), container("b", "1")])


def test_the_object_of_all_nodes_turns_them_on() -> None:
    nodes = [node("n1"), node("n2", labels={"config.nri/group": "g"})]
    assert switches(from_objects(nodes)) == (False, False)
    both = policy("node.n1", colocatePods=True), policy("group.g", colocatePods=True, colocateNamespaces=True)
    assert switches(from_objects([*nodes, *both])) == (True, False)
    assert switches(from_objects([*nodes, *both]), Policy(colocateNamespaces=True)) == (True, True)
    assert switches(from_objects([*nodes, policy(colocatePods=True)])) == (False, False)  # a group without an object has none


def test_what_only_some_nodes_say_is_named() -> None:
    snapshot = from_objects([node("n1"), node("n2"), policy("node.n1", colocatePods=True), pod("p")])
    (found,) = unmodelled.find(snapshot, snapshot.pods)
    assert (found.field, found.effect) == ("spec.colocatePods", "turned on for 1 of 2 nodes only: the policy file alone decides")
    snapshot = from_objects([node("n1"), node("n2"), policy(colocatePods=True), pod("p")])
    assert unmodelled.find(snapshot, snapshot.pods) == []


def points(*objects: Any) -> int:
    snapshot = from_objects(list(objects))
    found = place(snapshot, Options(time_limit=5))
    assert verify(snapshot, found) == []
    tiers = {tier.tier: tier.value for tier in found.objective}
    return int(tiers.get("soft", 0))


def test_containers_of_a_pod_and_of_a_namespace_are_worth_10_each_way() -> None:
    nodes = [node("n1", cpu="8")]
    assert points(*nodes, two("p")) == 0
    assert points(*nodes, policy(colocatePods=True), two("p")) == 2 * 2 * 10
    assert points(*nodes, policy(colocateNamespaces=True), two("p"), two("q")) == 2 * 12 * 10
    assert points(*nodes, policy(colocateNamespaces=True), two("p"), two("q", "other")) == 2 * 4 * 10


def test_explain_shows_them() -> None:
    snapshot = from_objects([node("n1"), policy(colocatePods=True), two("p")])
    found = matrix(snapshot, "default/p", DEFAULT)
    assert [each.weight for each in found.pairs] == [10, 10]


@pytest.mark.parametrize("seed", thinned(range(30), 3))
def test_solver_and_checker_agree(seed: int) -> None:
    rng = random.Random(seed)
    nodes = [node(f"n{i}", labels=rng.choice([{}, {"config.nri/group": "a"}])) for i in range(rng.randint(0, 3))]
    names = ["default", "group.a", "node.n0", "node.n1"]
    objects = [
        policy(name, colocatePods=rng.random() < 0.7, colocateNamespaces=rng.random() < 0.7)
        for name in rng.sample(names, rng.randint(0, 3))
    ]
    switches(from_objects([*nodes, *objects]), Policy(colocatePods=rng.random() < 0.2))
