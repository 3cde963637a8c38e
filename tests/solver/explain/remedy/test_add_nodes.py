"""Nodes that a remedy proposes, added by hand: all pods then find places, in addition to the others."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kubestow.audit.view.usable_nodes import INDIFFERENT
from kubestow.models.documents.placement import Edits, Placement, Remedy
from kubestow.models.documents.policy import DEFAULT
from kubestow.models.edits.edits import apply
from kubestow.models.kube.objects import pod_key
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from kubestow.solver.runtime.options import Options
from kubestow.solver.solve import place
from tests import tiny
from tests.objects import Object, node, pod

FAST = msgspec.structs.replace(DEFAULT, multipliers=INDIFFERENT, strategy="none")
KINDS = ("affinity", "spread", "mutual", "woven", "volumes", "mixed")


def solved(snapshot: Snapshot, *, causes: bool) -> Placement:
    return place(snapshot, Options(time_limit=20.0, workers=1, causes=causes, policy=FAST))


def instance(kind: str, seed: int) -> list[Object]:
    return tiny.mutual(seed, kind) if kind in ("mutual", "ring", "woven") else tiny.snapshot(seed, kind)


def placed(snapshot: Snapshot, placement: Placement) -> dict[int, int]:
    """Return the number of placed pods of each priority, highest first."""
    priorities = {pod_key(each): each.spec.priority or 0 for each in snapshot.pods}
    counts = dict.fromkeys(sorted(priorities.values(), reverse=True), 0)
    for entry in placement.assignments:
        counts[priorities[entry.pod]] += 1
    return counts


def tried(objects: list[Object]) -> int:
    """Add the nodes of each remedy, and compare with the pods that are placed before, and those that the remedy is for; how many."""
    snapshot = from_objects(objects)
    before, number = solved(snapshot, causes=True), 0
    for cause in before.causes:
        least = placed(snapshot, before)
        priority = next(each.spec.priority or 0 for each in snapshot.pods if pod_key(each) == cause.pods[0])
        least[priority] += cause.together
        for way in (way for way in cause.waysOut if way.change == "addNodes"):
            wider = apply(snapshot, None, Edits(addNodes=[added(way)])).snapshot
            assert [*placed(wider, solved(wider, causes=False)).values()] >= [*least.values()], (way.message, cause.pods)
            number += 1
    return number


def added(way: Remedy) -> str:
    return way.options[1]


def remedies(objects: list[Object]) -> set[str]:
    return {way.change for cause in solved(from_objects(objects), causes=True).causes for way in cause.waysOut}


def test_spread_constraints_of_pods_that_are_placed_at_once_hold_in_the_end() -> None:
    """Pod a counts b over zones: with a second b in its zone it would exceed maxSkew."""
    with_b = {"labelSelector": {"matchLabels": {"app": "b"}}, "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    with_b["nodeAffinityPolicy"] = "Ignore"
    near_a = {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": "zone"}
    wanted = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near_a]}}
    nodes = [node("n0", pods="2", labels={"zone": "z0", "disk": "ssd"}), node("n1", labels={"zone": "z1"})]
    both = [pod(f"b{i}", labels={"app": "b"}, owner="ReplicaSet/b", affinity=wanted) for i in range(2)]
    objects = [*nodes, pod("a", labels={"app": "a"}, priority=10, selector={"disk": "ssd"}, spread=[with_b]), *both]
    assert "addNodes" not in remedies(objects)
    without = [*nodes, pod("a", labels={"app": "a"}, priority=10, selector={"disk": "ssd"}), *both]
    assert "addNodes" in remedies(without)
    assert tried(without) == 1


def test_a_claim_whose_volume_is_being_made_is_on_no_new_node() -> None:
    mount: dict[str, Any] = {"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]}
    storage: Object = {
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "disk"}, "provisioner": "disk.example.com",
        "volumeBindingMode": "WaitForFirstConsumer",
    }  # fmt: skip
    claim: Object = {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "default"},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "disk", "resources": {"requests": {"storage": "1Gi"}}},
    }  # fmt: skip
    both = [pod(name, cpu="1", **mount) for name in ("a", "b")]
    assert "addNodes" not in remedies([node("n0", cpu="1"), storage, claim, *both])


def test_a_cluster_whose_remedy_did_not_work() -> None:
    tried(instance("mixed", 0))


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
def test_added_nodes_help_in_a_few_clusters(kind: str) -> None:
    for seed in range(2):
        tried(instance(kind, seed))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*KINDS, "ring"])
def test_added_nodes_help(kind: str) -> None:
    assert sum(tried(instance(kind, seed)) for seed in range(600)) > 20
