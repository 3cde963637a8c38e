"""Budgets, majorities and bare pods that failures break or take, against a count of all failures."""

from __future__ import annotations

from itertools import combinations
from random import Random
from typing import Any

from kubestow.models.snapshot.snapshot import from_objects
from kubestow.solver.capacity.survive.consequences import Stakes, subsets
from tests.objects import Object, node, pod

APP = {"app": "web"}


def budget(**spec: Any) -> Object:
    selector = {"matchLabels": APP}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"}, "spec": {"selector": selector, **spec}}


def web(*homes: str) -> list[Object]:
    return [pod(f"web-{i}", node_name=home, owner="ReplicaSet/web", labels=APP) for i, home in enumerate(homes)]


def database(*homes: str, owner: str = "StatefulSet/db") -> list[Object]:
    return [pod(f"db-{i}", node_name=home, owner=owner) for i, home in enumerate(homes)]


def static(name: str, home: str, **labels: str) -> Object:
    made = pod(f"{name}-{home}", node_name=home, namespace="kube-system", labels=labels)
    made["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    return made


def stakes(*objects: Object, nodes: int = 4) -> Stakes:
    return Stakes(from_objects([*(node(f"n{i}") for i in range(nodes)), *objects]))


def told(stakes: Stakes, *nodes: str, pending: tuple[str, ...] = ()) -> list[tuple[str, str]]:
    return [(each.object, each.message) for each in stakes.of(nodes, pending)]


def test_a_budget_is_broken_where_fewer_healthy_pods_are_left_than_it_demands() -> None:
    found = stakes(*web("n0", "n0", "n1"), budget(minAvailable=2))
    assert told(found, "n0") == [("PodDisruptionBudget default/web", "1 healthy pod of 2 required is left")]
    assert not told(found, "n1")
    assert told(found, "n0", "n1")[0][1] == "0 healthy pods of 2 required are left"


def test_pods_of_a_budget_that_stay_pending_are_counted() -> None:
    found = stakes(*web("n0", "n0", "n1"), budget(maxUnavailable=1))
    assert told(found, "n0", pending=("default/web-1", "default/other"))[0][1].endswith("is left; 1 of its pods stays pending")


def test_a_budget_that_is_broken_already_is_not_broken_by_the_failure() -> None:
    assert not told(stakes(*web("n0", "n0", "n1"), budget(minAvailable=4)), "n0")


def test_a_budget_of_which_the_controller_can_tell_nothing_is_left_out() -> None:
    odd = pod("odd", node_name="n0", owner="Foo/odd", labels=APP)
    assert [each.kind for each in stakes(*web("n0", "n1"), odd, budget(minAvailable="50%")).of(["n0"])] == ["lost"]


def test_pods_that_are_not_ready_are_not_lost_to_a_budget() -> None:
    pods = web("n0", "n0", "n1")
    pods[0]["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    found = stakes(*pods, budget(minAvailable=1))
    assert not told(found, "n0")
    assert told(found, "n0", "n1")


def test_a_majority_of_a_stateful_set_is_gone() -> None:
    found = stakes(*database("n0", "n0", "n1"))
    assert told(found, "n0") == [("StatefulSet default/db", "1 of 3 members is left; a majority needs 2")]
    assert not told(found, "n1")


def test_members_that_do_not_run_count_towards_the_majority() -> None:
    sized = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"}, "spec": {"replicas": 5, "serviceName": "db"}}
    sized["spec"] |= {"selector": {"matchLabels": APP}, "template": {"metadata": {"labels": APP}, "spec": pod("x")["spec"]}}  # type: ignore[operator]
    found = stakes(*database("n0", "n1", "n2"), sized)
    assert told(found, "n1") == [("StatefulSet default/db", "2 of 5 members are left; a majority needs 3")]


def test_two_members_have_no_majority_to_lose() -> None:
    assert not told(stakes(*database("n0", "n1")), "n0")


def test_static_pods_of_etcd_are_a_quorum_and_another_etcd_is_not() -> None:
    members = [static("etcd", f"n{i}", component="etcd") for i in range(3)]
    other = pod("etcd-app", node_name="n0", owner="ReplicaSet/etcd", labels={"component": "etcd"})
    found = stakes(*members, other)
    assert told(found, "n0", "n2") == [("etcd kube-system/etcd", "1 of 3 members is left; a majority needs 2")]
    assert not told(found, "n1")
    assert told(stakes(static("etcd", "n0")), "n0") == [("etcd kube-system/etcd", "0 of 1 members are left; a majority needs 1")]


def test_pods_that_nothing_makes_again_are_lost_and_those_of_the_node_are_not() -> None:
    found = stakes(
        pod("bare", node_name="n0"), pod("odd", node_name="n0", owner="Foo/x"), pod("daemon", node_name="n0", owner="DaemonSet/d"),
        static("proxy", "n0"), *web("n0"), pod("job", node_name="n0", owner="Job/j"),
    )  # fmt: skip
    assert told(found, "n0") == [
        ("Pod default/bare,default/odd", "2 pods that no controller recreates are gone: default/bare, default/odd")
    ]


def test_a_pod_that_is_over_or_ending_is_not_lost() -> None:
    over, ending = pod("over", node_name="n0"), pod("ending", node_name="n0")
    over["status"]["phase"] = "Succeeded"
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert not told(stakes(over, ending), "n0")


def test_sets_of_domains_are_counted_without_looking_at_each() -> None:
    random = Random(1)
    for _ in range(60):
        counts = [random.randint(0, 4) for _ in range(random.randint(1, 7))]
        at_once, threshold = random.randint(1, len(counts)), random.randint(1, 9)
        wanted = sum(sum(chosen) >= threshold for chosen in combinations(counts, at_once))
        assert subsets([c for c in counts if c], len(counts), at_once, threshold) == wanted


def test_over_all_failures_equals_looking_at_each() -> None:
    for seed in range(20):
        random = Random(seed)
        homes = [f"n{i}" for i in range(6)]
        drawn = random.choices(homes, k=10)
        objects = [
            *web(*drawn[:5]),
            *database(*drawn[5:9]),
            pod("bare", node_name=drawn[9]),
            budget(minAvailable=random.randint(1, 5)),
        ]
        found, domains = stakes(*objects, nodes=6), {f"z{i}": homes[2 * i : 2 * i + 2] for i in range(3)}
        for at_once in (1, 2):
            each = [found.of([n for name in failed for n in domains[name]]) for failed in combinations(domains, at_once)]
            wanted = {
                kind: sum(any(c.kind == kind for c in broken) for broken in each) for kind in ("PodDisruptionBudget", "quorum", "lost")
            }
            got = {exposure.kind: exposure for exposure in found.over_all(domains, at_once)}
            assert {kind: exposure.failures for kind, exposure in got.items()} == {kind: n for kind, n in wanted.items() if n}
            for kind, exposure in got.items():
                nodes = [n for name in exposure.worst for n in domains[name]]
                assert exposure.message in {c.message for c in found.of(nodes) if c.kind == kind}
