from __future__ import annotations

from typing import Any

import pytest

from kubestow.models.kube import objects as kube_objects
from kubestow.models.kube import workload_objects
from kubestow.models.snapshot.snapshot import InputError, from_objects
from kubestow.models.workloads.deployment_rollout import Old, Pace, creations, deletions, old_pods, pace, scaled
from kubestow.models.workloads.rollout_input import read
from tests.objects import node
from tests.solver.rollout.rollouts import deployment, old, priced, replica_set, rolling


def strategy(replicas: int | None, **rolling_update: Any) -> Pace:
    update = workload_objects.RollingUpdate(**rolling_update) if rolling_update else None
    spec = workload_objects.WorkloadSpec(replicas=replicas, strategy=workload_objects.DeploymentStrategy("RollingUpdate", update))
    return pace(workload_objects.Deployment(kube_objects.ObjectMeta("web"), spec))


@pytest.mark.parametrize(
    ("replicas", "rolling_update", "surge", "unavailable"),
    [
        (2, {}, 1, 0),  # 25 % of 2: 0.5 up to 1, 0.5 down to 0
        (4, {}, 1, 1),
        (5, {}, 2, 1),
        (10, {}, 3, 2),
        (10, {"maxSurge": "30%", "maxUnavailable": "30%"}, 3, 3),
        (3, {"maxSurge": "1%", "maxUnavailable": "99%"}, 1, 2),
        (4, {"maxSurge": 0, "maxUnavailable": 0}, 0, 1),  # never both 0
        (3, {"maxSurge": 0, "maxUnavailable": "10%"}, 0, 1),
        (3, {"maxSurge": "0%", "maxUnavailable": 2}, 0, 2),
        (0, {}, 0, 1),
        (None, {}, 1, 0),  # one replica by default
        (7, {"maxSurge": "100%", "maxUnavailable": "100%"}, 7, 7),
    ],
)
def test_fence_posts(replicas: int | None, rolling_update: dict[str, Any], surge: int, unavailable: int) -> None:
    found = strategy(replicas, **rolling_update)
    assert (found.surge, found.unavailable, found.recreate) == (surge, unavailable, False)
    assert found.most == found.replicas + surge


def test_no_strategy_is_a_rolling_update_and_recreate_takes_everything_down() -> None:
    spec = workload_objects.WorkloadSpec(replicas=8)
    assert pace(workload_objects.Deployment(kube_objects.ObjectMeta("web"), spec)) == Pace(8, 2, 2)
    spec.strategy = workload_objects.DeploymentStrategy("Recreate")
    assert pace(workload_objects.Deployment(kube_objects.ObjectMeta("web"), spec)) == Pace(8, 0, 8, recreate=True)


def test_what_cannot_be_read_is_bad_input() -> None:
    with pytest.raises(InputError, match=r"default/web: spec\.strategy\.type: got 'Canary'"):
        pace(
            workload_objects.Deployment(
                kube_objects.ObjectMeta("web"), workload_objects.WorkloadSpec(strategy=workload_objects.DeploymentStrategy("Canary"))
            )
        )
    with pytest.raises(InputError, match=r"rollingUpdate\.maxSurge: got 'many'"):
        strategy(2, maxSurge="many")
    assert scaled("50%", 3, up=True) == 2
    assert scaled("50%", 3, up=False) == 1


def test_least_is_never_negative() -> None:
    assert Pace(2, 0, 5).least == 0


@pytest.mark.parametrize(
    ("steps", "there", "created", "expected"),
    [
        (Pace(4, 1, 0), 4, 0, 1),
        (Pace(4, 1, 0), 4, 1, 0),
        (Pace(4, 1, 0), 3, 1, 1),
        (Pace(4, 9, 0), 4, 0, 4),  # never more than replicas
        (Pace(4, 0, 1), 4, 0, 0),
        (Pace(4, 1, 0), 7, 0, 0),  # scaled down, nothing to spare yet
        (Pace(4, 0, 4, recreate=True), 1, 0, 0),
        (Pace(4, 0, 4, recreate=True), 0, 0, 4),
    ],
)
def test_creations(steps: Pace, there: int, created: int, expected: int) -> None:
    assert creations(steps, there, created) == expected


def entry(name: str, *, node_name: str | None = "n1", available: bool = True, family: int = 0, cost: int = 0, born: int = 0) -> Old:
    return Old(0, name, node_name, available, family, (int(node_name is not None), 2, int(available), cost), (-born, name))


def names(found: list[Old]) -> list[str]:
    return [e.key for e in found]


def test_available_pods_go_as_far_as_enough_stay_available() -> None:
    old = [entry(f"p{i}", node_name=f"n{i}") for i in range(4)]
    alone = dict.fromkeys((f"n{i}" for i in range(4)), 1)
    assert names(deletions(Pace(4, 1, 0), old, alone.__getitem__, 0)) == []
    assert names(deletions(Pace(4, 1, 0), old, alone.__getitem__, 1)) == ["p0"]
    assert names(deletions(Pace(4, 1, 2), old, alone.__getitem__, 1)) == ["p0", "p1", "p2"]
    assert len(deletions(Pace(4, 0, 4, recreate=True), old, alone.__getitem__, 0)) == 4


def test_unavailable_pods_go_first_and_only_as_far_as_enough_pods_are_there() -> None:
    old = [entry("a"), entry("b", available=False), entry("c", available=False), entry("d", node_name=None, available=False)]
    assert names(deletions(Pace(4, 1, 0), old, lambda n: 1, 0)) == []  # 4 pods and none to spare: as upstream, not even broken ones
    assert names(deletions(Pace(4, 1, 1), old, lambda n: 1, 0)) == ["d"]
    assert names(deletions(Pace(4, 1, 1), old, lambda n: 1, 1)) == ["d", "b"]
    assert names(deletions(Pace(4, 1, 3), old, lambda n: 1, 0)) == ["d", "b", "c"]
    assert names(deletions(Pace(4, 1, 3), old, lambda n: 1, 1)) == ["d", "b", "c", "a"]


def test_which_pods_of_a_replica_set_go_first() -> None:
    old = [entry("old", node_name="n1", born=1), entry("young", node_name="n2", born=9), entry("dear", node_name="n1", cost=7)]
    old += [entry("crowded", node_name="n3", born=0), entry("cheap", node_name="n1", cost=-1)]
    on = {"n1": 2, "n2": 2, "n3": 3}
    ranked = deletions(Pace(5, 5, 0), old, on.__getitem__, 5)
    assert names(ranked) == ["cheap", "crowded", "young", "old", "dear"]


def test_the_oldest_replica_set_shrinks_first() -> None:
    old = [entry("late", family=1, cost=-9), entry("early", family=0), entry("broken", family=1, available=False)]
    assert names(deletions(Pace(3, 0, 1), old, lambda n: 1, 0)) == ["broken"]
    assert names(deletions(Pace(3, 0, 2), old, lambda n: 1, 0)) == ["early", "broken"]


def test_old_pods_are_read_as_the_controllers_see_them() -> None:
    objects = [node("n1"), deployment(), replica_set(), old(0, "n1"), old(1, None), old(2, "n1", ready=False), old(3, "n1")]
    objects[3]["metadata"]["creationTimestamp"] = "2026-01-02T00:00:00Z"
    objects[6]["metadata"]["deletionTimestamp"] = "2026-01-02T00:00:00Z"
    snapshot = priced(from_objects(objects), {"web-0ld-0": 3})
    found, going = old_pods(snapshot, range(4))
    assert [e.available for e in found] == [True, False, False]
    assert [e.before for e in found] == [(1, 2, 1, 3), (0, 0, 0, 0), (1, 2, 0, 0)]
    assert found[0].after[0] == -1767312000
    assert going == [3]


def test_replica_sets_are_told_apart_and_ordered_by_age() -> None:
    first, second = replica_set("web-b"), replica_set("web-a")
    first["metadata"]["creationTimestamp"], second["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"
    pods = [old(0, "n1"), old(1, "n1")]
    for each, owner in zip(pods, ("web-a", "web-b"), strict=True):
        each["metadata"]["ownerReferences"][0]["name"] = owner
    found, _ = old_pods(from_objects([node("n1"), first, second, *pods]), range(2))
    assert [e.family for e in found] == [1, 0]


# --- which Deployment -------------------------------------------------------------------------------------------------------


def named(name: str, namespace: str, **changes: Any) -> dict[str, Any]:
    found = deployment(**changes)
    found["metadata"] |= {"name": name, "namespace": namespace}
    return found


def test_the_template_of_the_manifest_counts_wherever_the_deployment_is() -> None:
    cluster = from_objects([node("n1"), named("web", "shop", replicas=2)])
    manifest = from_objects([named("web", "default", replicas=3, cpu="2", strategy=rolling(3, 0))])
    found = read(cluster, "web", manifest)
    assert found.workload == "shop/web"
    assert found.pace == Pace(3, 3, 0)
    assert [p.metadata.namespace for p in found.new] == ["shop"] * 3
    assert cluster.workloads["Deployment"][0].spec.replicas == 2  # the input is left as it was


def test_a_restart_makes_a_revision_of_its_own() -> None:
    cluster = from_objects([node("n1"), deployment(), replica_set(), old(0, "n1"), old(1, "n1")])
    found = read(cluster, "default/web", None)
    hashes = {(p.metadata.labels or {})["pod-template-hash"] for p in found.new}
    assert len(hashes) == 1
    assert hashes.isdisjoint({(p.metadata.labels or {})["pod-template-hash"] for p in cluster.pods})
    assert [e.key for e in found.old] == ["default/web-0ld-0", "default/web-0ld-1"]


def test_a_deployment_that_only_the_manifest_has_takes_pods_by_its_selector() -> None:
    bare = old(0, "n1")
    del bare["metadata"]["ownerReferences"]
    found = read(from_objects([node("n1"), bare]), "web", from_objects([deployment(replicas=1)]))
    assert [e.key for e in found.old] == ["default/web-0ld-0"]


def test_terminating_pods_are_none_that_count() -> None:
    going = old(1, "n1")
    going["metadata"]["deletionTimestamp"] = "2026-01-02T00:00:00Z"
    found = read(from_objects([node("n1"), deployment(), replica_set(), old(0, "n1"), going]), "web", None)
    assert ([e.index for e in found.old], found.going) == ([0], [1])


@pytest.mark.parametrize(
    ("name", "manifest", "message"),
    [
        ("nothing", None, "no such Deployment in the snapshot"),
        ("web", None, "2 Deployments have this name"),
        ("a/web", [named("db", "a")], "0 Deployments of the manifests"),
        ("new", [named("new", "a"), named("new", "b")], "2 Deployments of the manifests"),
    ],
)
def test_names_that_do_not_say_which(name: str, manifest: list[dict[str, Any]] | None, message: str) -> None:
    cluster = from_objects([node("n1"), named("web", "a"), named("web", "b")])
    with pytest.raises(InputError, match=message):
        read(cluster, name, None if manifest is None else from_objects(manifest))


def test_more_replicas_than_anybody_has_are_refused_before_pods_are_made() -> None:
    cluster = from_objects([node("n1"), deployment(replicas=2**31 - 1), replica_set()])
    with pytest.raises(InputError, match=r"--rollout web: spec\.replicas: got 2147483647, expected at most 1,000,000"):
        read(cluster, "web", None)
