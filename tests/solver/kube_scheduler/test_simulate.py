"""Simulated choices: order of the queue, ties, preemption, gangs, large clusters."""

from __future__ import annotations

from typing import Any

import pytest

from kubestow.models.documents.placement import Placement
from kubestow.models.scheduler.profiles import Profile
from kubestow.models.snapshot.snapshot import from_objects
from kubestow.solver.kube_scheduler.simulate import simulate
from kubestow.solver.runtime.options import Options
from tests.objects import Object, node, pod
from tests.tiers import sampled


def born(obj: Object, second: int) -> Object:
    obj["metadata"]["creationTimestamp"] = f"2026-01-01T00:00:{second:02}Z"
    return obj


def simulated(*objects: Object, **options: Any) -> Placement:
    return simulate(from_objects([*objects]), Options(), **options)


def test_the_queue_is_by_priority_then_by_age() -> None:
    pods = [born(pod("young", cpu="1"), 9), born(pod("old", cpu="1"), 1), born(pod("late-but-urgent", cpu="1", priority=5), 10)]
    result = simulated(node("n1"), *pods)
    assert [entry.pod for entry in result.assignments] == ["default/late-but-urgent", "default/old", "default/young"]
    assert result.engine == "kube-scheduler"


def test_most_points_win() -> None:
    nodes = [node("n1"), node("n2")]
    result = simulated(*nodes, pod("there", cpu="2", node_name="n1"), pod("new", cpu="1"))
    assert [entry.node for entry in result.assignments] == ["n2"]
    packed = Profile(strategy=Profile().strategy.__class__("MostAllocated", Profile().strategy.resources), weights={"NodeResourcesFit": 1})
    result = simulated(*nodes, pod("there", cpu="2", node_name="n1"), pod("new", cpu="1"), profiles={"default-scheduler": packed})
    assert [entry.node for entry in result.assignments] == ["n1"]


def test_ties_are_broken_by_the_seed() -> None:
    result = simulated(*(node(f"n{i}") for i in range(4)), pod("new"), runs=40)
    assert sum(outcome.times for outcome in result.outcomes) == 40
    assert len(result.outcomes) == 4
    assert all(outcome.placed == 1 for outcome in result.outcomes)


def test_pods_of_another_scheduler_stay() -> None:
    result = simulated(node("n1"), pod("other", schedulerName="batch"), profiles={"default-scheduler": Profile()})
    assert [entry.schedulerMessage for entry in result.unplaced] == ["no profile has its schedulerName batch"]


def test_a_pod_that_fits_later_is_tried_again() -> None:
    affinity = {
        "podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "db"}}}
            ]
        }
    }
    result = simulated(node("n1"), born(pod("web", affinity=affinity), 1), born(pod("db", labels={"app": "db"}), 2))
    assert [entry.pod for entry in result.assignments] == ["default/db", "default/web"]


# --- preemption -----------------------------------------------------------------------------------------------------------------


def preempted(*objects: Object) -> tuple[str, list[str]] | None:
    (entry,) = simulated(*objects).unplaced
    return None if entry.preemption is None else (entry.preemption.node, entry.preemption.victims)


def running(name: str, node_name: str, priority: int, cpu: str = "2", second: int = 0, **more: Any) -> Object:
    return born(pod(name, node_name=node_name, priority=priority, cpu=cpu, **more), second)


HIGH = pod("urgent", cpu="3", priority=100)


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        ([running("low", "n1", 1), running("lower", "n2", 0)], ("n2", ["default/lower"])),
        ([running("a", "n1", 1, "1500m"), running("b", "n1", 1, "1500m"), running("c", "n2", 1)], ("n2", ["default/c"])),
        ([running("a", "n1", 1, "1"), running("b", "n1", 1, "1"), running("c", "n2", 2)], ("n1", ["default/b"])),
        ([running("old", "n1", 1, second=1), running("new", "n2", 1, second=2)], ("n2", ["default/new"])),
        ([running("same", "n1", 100), running("low", "n2", 1)], ("n2", ["default/low"])),
        ([running("same", "n1", 100), running("also", "n2", 100)], None),
    ],
    ids=["lowest priority", "smallest sum", "lowest highest", "latest start", "only lower ones", "none"],
)
def test_the_node_is_chosen_by_the_criteria_of_the_scheduler(there: list[Object], expected: tuple[str, list[str]] | None) -> None:
    assert preempted(node("n1"), node("n2"), *there, HIGH) == expected


def test_a_budget_decides_first() -> None:
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "kept"}}},
        "status": {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1},
    }
    there = [running("kept", "n1", 0, labels={"app": "kept"}), running("other", "n2", 5)]
    assert preempted(node("n1"), node("n2"), budget, *there, HIGH) == ("n2", ["default/other"])


def test_a_pod_that_never_preempts_says_so() -> None:
    (entry,) = simulated(node("n1"), running("low", "n1", 0), pod("urgent", cpu="3", priority=9, preemptionPolicy="Never")).unplaced
    assert entry.preemption is None
    assert str(entry.schedulerMessage).endswith("preemption: not eligible due to preemptionPolicy=Never.")


def test_more_than_a_node_has_is_not_helped() -> None:
    (entry,) = simulated(node("n1"), running("low", "n1", 0), pod("huge", cpu="5", priority=9)).unplaced
    assert entry.preemption is None
    assert str(entry.schedulerMessage).endswith("preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.")


# --- gangs and sizes ------------------------------------------------------------------------------------------------------------


def test_a_group_is_placed_whole_or_not_at_all() -> None:
    group = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default"},
        "spec": {"minMember": 3},
    }
    members = [pod(f"m{i}", cpu="2", labels={"scheduling.x-k8s.io/pod-group": "g"}) for i in range(3)]
    whole = simulated(node("n1"), node("n2"), group, *members)
    assert len(whole.assignments) == 3
    none = simulated(node("n1"), group, *members)
    assert (len(none.assignments), len(none.unplaced)) == (0, 3)


def test_a_large_cluster_is_not_scored_whole() -> None:
    """Of 300 nodes, 48 % are looked at: the empty node beyond them is not found at first."""
    nodes = [node(f"n{i:03}") for i in range(300)]
    there = [pod(f"r{i}", node_name=f"n{i:03}", cpu="1") for i in range(299)]
    result = simulated(*nodes, *there, born(pod("first"), 1), born(pod("second"), 2), born(pod("third"), 3))
    where = [int(entry.node[1:]) for entry in result.assignments]
    assert where[0] < 144 <= where[1] < 288
    assert where[2] == 299


@pytest.mark.parametrize("seed", sampled(range(40), every=20, full=4))
def test_random_clusters_pass_the_checker(seed: int) -> None:
    """The simulation itself raises if the checker finds a fault."""
    from tests.solver.test_placed_tiers import generated

    snapshot = generated(seed, nodes=8, pods=60)
    result = simulate(snapshot, Options(seed=seed))
    assert len(result.assignments) + len(result.unplaced) == result.snapshot.pending > 0
