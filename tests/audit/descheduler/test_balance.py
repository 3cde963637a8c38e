"""Balancing strategies, on clusters whose evictions and benefits can be worked out by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubestow.audit.descheduler import cycle
from kubestow.audit.descheduler.cluster_state import ClusterFacts, ClusterState
from kubestow.models.documents.findings.descheduler import Range
from kubestow.models.snapshot.snapshot import from_objects
from tests.audit.descheduler.planted import evicted, judged, policy_of, profile, read
from tests.objects import Object, node, pod

DUPLICATES = "RemoveDuplicates"
SPREAD = "RemovePodsViolatingTopologySpreadConstraint"
LOW = "LowNodeUtilization"
HIGH = "HighNodeUtilization"


def many(prefix: str, number: int, at: str, **more: object) -> list[Object]:
    return [pod(f"{prefix}{k}", node_name=at, owner=f"ReplicaSet/{prefix}", **more) for k in range(number)]  # type: ignore[arg-type]


# --- RemoveDuplicates -----------------------------------------------------------------------------------------------------------------


def test_what_a_node_has_of_an_owner_beyond_the_average_goes(tmp_path: Path) -> None:
    # 5 pods on 3 nodes: 2 a node are even. n1 has 4; the third and the fourth go.
    things = [node("n1"), node("n2"), node("n3"), *many("a", 4, "n1"), pod("a9", node_name="n2", owner="ReplicaSet/a")]
    found = judged(tmp_path, policy_of(profile(DUPLICATES)), things)
    assert evicted(found) == ["a2", "a3"]
    assert {entry.helps for entry in found.evictions} == {"sometimes"}  # they may come back
    assert found.strategies[0].again == Range(0, 2)


def test_owners_of_excluded_kinds_and_pods_of_other_images_are_no_duplicates(tmp_path: Path) -> None:
    things = [node("n1"), node("n2"), *many("a", 2, "n1")]
    assert evicted(judged(tmp_path, policy_of(profile(DUPLICATES, {"excludeOwnerKinds": ["ReplicaSet"]})), things)) == []
    assert evicted(judged(tmp_path, policy_of(profile(DUPLICATES)), things)) == ["a1"]
    things[-1]["spec"]["containers"][0]["image"] = "else"
    assert evicted(judged(tmp_path, policy_of(profile(DUPLICATES)), things)) == []


def test_pods_that_only_one_node_could_have_are_let_be(tmp_path: Path) -> None:
    things = [node("n1", labels={"a": "b"}), node("n2"), *many("a", 3, "n1", selector={"a": "b"})]
    found = judged(tmp_path, policy_of(profile(DUPLICATES)), things)
    assert evicted(found) == []
    assert found.strategies[0].notes == ["ReplicaSet default/a: fewer than two nodes could have its pods"]


# --- RemovePodsViolatingTopologySpreadConstraint --------------------------------------------------------------------------------------


def zoned(number: int, at: str, when: str = "DoNotSchedule", start: int = 0, **more: object) -> list[Object]:
    spread = [
        {
            "maxSkew": 1,
            "topologyKey": "zone",
            "whenUnsatisfiable": when,
            "labelSelector": {"matchLabels": {"app": "a"}},
        }
    ]
    return [
        pod(f"p{k}", node_name=at, owner="ReplicaSet/a", labels={"app": "a"}, spread=spread, **more)  # type: ignore[arg-type]
        for k in range(start, start + number)
    ]


def zones(*names: str) -> list[Object]:
    return [node(f"n-{name}", cpu="20", memory="100Gi", labels={"zone": name}) for name in names]


def sized(sizes: tuple[int, ...]) -> list[Object]:
    """Make a zone for each size, with one node and this number of pods."""
    names = "abcdef"[: len(sizes)]
    pods = [zoned(size, f"n-{name}", start=100 * k) for k, (name, size) in enumerate(zip(names, sizes, strict=True))]
    return [*zones(*names), *(each for listed in pods for each in listed)]


@pytest.mark.parametrize(("sizes", "gone"), [((3, 1), 1), ((5, 0), 2), ((4, 4), 0), ((2, 1), 0), ((6, 0, 0), 4)])
def test_large_domains_give_up_what_brings_them_near_the_average(tmp_path: Path, sizes: tuple[int, ...], gone: int) -> None:
    found = judged(tmp_path, policy_of(profile(SPREAD)), sized(sizes))
    assert len(evicted(found)) == gone
    assert all(entry.helps == "always" and entry.node == "n-a" for entry in found.evictions)  # maxSkew keeps them from coming back
    assert [(plan.goal, plan.again) for plan in found.instead] == [("repair", 0)]


@pytest.mark.parametrize(
    ("sizes", "skew", "gone"),
    [((5, 2), 1, 1), ((4, 0), 1, 2), ((0, 1, 3, 5), 1, 3), ((2, 6), 2, 1), ((8, 7, 0), 1, 5), ((5, 5, 5), 1, 0), ((0, 1, 50), 1, 33)],
)
def test_how_many_go_is_what_the_descheduler_itself_counts(tmp_path: Path, sizes: tuple[int, ...], skew: int, gone: int) -> None:
    # The numbers of the descheduler's own tests; the last case has half as many pods, a third to be in each domain.
    things = sized(sizes)
    for thing in things:
        for constraint in thing["spec"].get("topologySpreadConstraints", ()):
            constraint["maxSkew"] = skew
    facts = ClusterFacts(from_objects(things))
    done = cycle.run(read(tmp_path, policy_of(profile(SPREAD)), things), ClusterState.of(facts))
    assert len(done.evictions) == gone


def test_soft_constraints_count_where_they_are_named_and_pods_may_come_back(tmp_path: Path) -> None:
    things = [*zones("a", "b"), *zoned(3, "n-a", "ScheduleAnyway")]
    assert evicted(judged(tmp_path, policy_of(profile(SPREAD)), things)) == []
    found = judged(tmp_path, policy_of(profile(SPREAD, {"constraints": ["ScheduleAnyway"]})), things)
    assert len(evicted(found)) == 1
    assert [(entry.helps, entry.returns) for entry in found.evictions] == [("sometimes", "sometimes")]


def test_the_most_important_pod_without_wishes_goes_first(tmp_path: Path) -> None:
    # Its page says that low priorities go first; its code takes the end of an ascending list.
    things = [*zones("a", "b"), *zoned(1, "n-a", priority=5), *zoned(1, "n-a", start=1, priority=7), *zoned(1, "n-a", start=2, priority=6)]
    assert evicted(judged(tmp_path, policy_of(profile(SPREAD)), things)) == ["p1"]


def test_pods_that_fit_no_small_domain_stay_unless_that_is_not_asked(tmp_path: Path) -> None:
    things = [node("n-a", labels={"zone": "a"}), node("n-b", labels={"zone": "b"}, cpu="50m"), *zoned(3, "n-a")]
    assert evicted(judged(tmp_path, policy_of(profile(SPREAD)), things)) == []
    found = judged(tmp_path, policy_of(profile(SPREAD, {"topologyBalanceNodeFit": False})), things)
    assert [(entry.helps, entry.pending) for entry in found.evictions] == [("never", "always")]


# --- LowNodeUtilization, HighNodeUtilization ------------------------------------------------------------------------------------------


def low(**more: object) -> Object:
    return {"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 50}, **more}


def test_a_node_over_the_target_gives_pods_up_to_it(tmp_path: Path) -> None:
    # n1: 8 × 500m of 4 = 100 %, down to 50 % after four; n2: empty, with room for 2 up to its target, used up after four.
    things = [node("n1"), node("n2"), *many("a", 8, "n1", cpu="500m")]
    found = judged(tmp_path, policy_of(profile(LOW, low())), things)
    assert evicted(found) == ["a0", "a1", "a2", "a3"]
    assert {(entry.helps, entry.returns) for entry in found.evictions} == {("sometimes", "sometimes")}
    (instead,) = found.instead
    assert (instead.goal, instead.again) == ("improve", 0)
    assert instead.againAfter.most > 0


@pytest.mark.parametrize(
    ("args", "gone"),
    [
        ({"evictionLimits": {"node": 2}}, 2),
        ({"numberOfNodes": 1}, 0),
        ({"evictableNamespaces": {"exclude": ["default"]}}, 0),
        ({"useDeviationThresholds": True, "thresholds": {"cpu": 10}, "targetThresholds": {"cpu": 10}}, 4),
    ],
)
def test_limits_and_deviations(tmp_path: Path, args: Object, gone: int) -> None:
    # Deviations: 50 % on average, so 40 % and 60 %; n2 has room for 2.4 CPUs, n1 is at 62.5 % after three and at 50 % after four.
    things = [node("n1"), node("n2"), *many("a", 8, "n1", cpu="500m")]
    found = judged(tmp_path, policy_of(profile(LOW, {**low(), **args})), things)
    assert len(evicted(found)) == gone


def test_all_nodes_low_or_none_high_is_nothing_to_do(tmp_path: Path) -> None:
    things = [node("n1"), node("n2"), *many("a", 1, "n1")]
    found = judged(tmp_path, policy_of(profile(LOW, low())), things)
    assert found.strategies[0].notes == ["all nodes are below the thresholds"]
    things += many("b", 3, "n1", cpu="400m")
    found = judged(tmp_path, policy_of(profile(LOW, low())), things)
    assert found.strategies[0].notes == ["no node is over the target thresholds"]


def test_what_is_at_a_threshold_falls_where_the_floats_of_the_descheduler_put_it(tmp_path: Path) -> None:
    # 7 of 100 is 7.000000000000001 % in floats: the node is not below a threshold of 7.
    things = [node("n1", cpu="100"), node("n2", cpu="100"), *many("a", 7, "n1", cpu="1"), *many("b", 9, "n2", cpu="10")]
    args = {"thresholds": {"cpu": 7}, "targetThresholds": {"cpu": 50}}
    assert judged(tmp_path, policy_of(profile(LOW, args)), things).strategies[0].notes == ["no node is below the thresholds"]


def test_actual_utilisation_is_not_known_and_that_is_said(tmp_path: Path) -> None:
    things = [node("n1"), node("n2"), *many("a", 8, "n1", cpu="500m")]
    found = judged(tmp_path, policy_of(profile(LOW, low(metricsUtilization={"source": "KubernetesMetrics"}))), things)
    assert evicted(found) == []
    why = "a snapshot has no actual usage; its evictions are not simulated"
    assert found.notModelled == [f"profile p: LowNodeUtilization: metricsUtilization: {why}"]


def test_high_utilisation_empties_a_node_only_if_its_pods_go_elsewhere(tmp_path: Path) -> None:
    # n1 at 5 % is below 20 %; n2 at 75 % takes its pods. They may as well come back: nothing keeps them off.
    things = [node("n1"), node("n2"), *many("a", 2, "n1"), *many("b", 3, "n2", cpu="1")]
    found = judged(tmp_path, policy_of(profile(HIGH, {"thresholds": {"cpu": 20}})), things)
    assert evicted(found) == ["a0", "a1"]
    assert {entry.helps for entry in found.evictions} == {"sometimes"}
    assert (found.emptyBefore, found.emptyAfter.least, found.emptyAfter.most) == (0, 0, 1)
    (instead,) = found.instead
    assert (instead.goal, instead.moves, instead.emptyNodes) == ("consolidate", 2, 1)


def test_a_node_with_a_pod_that_stays_is_not_freed_so_nothing_helps(tmp_path: Path) -> None:
    things = [node("n1"), node("n2"), *many("a", 1, "n1"), pod("bare", node_name="n1"), *many("b", 3, "n2", cpu="1")]
    found = judged(tmp_path, policy_of(profile(HIGH, {"thresholds": {"cpu": 20}})), things)
    assert evicted(found) == ["a0"]
    assert found.evictions[0].helps == "never"


def test_only_pods_that_request_a_resource_of_the_thresholds_may_be_asked_for(tmp_path: Path) -> None:
    things = [node("n1"), node("n2"), *many("a", 1, "n1"), *many("b", 3, "n2", cpu="1")]
    del things[2]["spec"]["containers"][0]["resources"]["requests"]["cpu"]
    args = {"thresholds": {"cpu": 20}}
    assert evicted(judged(tmp_path, policy_of(profile(HIGH, args)), things)) == ["a0"]
    assert evicted(judged(tmp_path, policy_of(profile(HIGH, {**args, "evictionModes": ["OnlyThresholdingResources"]})), things)) == []
