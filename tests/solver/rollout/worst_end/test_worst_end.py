"""The worst ends of rollouts, compared with brute force, and their bounds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kubestow.models.documents.placement import Rollout
from kubestow.models.snapshot.snapshot import from_objects
from kubestow.models.workloads.rollout_input import read
from kubestow.solver.rollout.simulate import problem_of, roll_out
from kubestow.solver.rollout.worst_end.bound import bounds
from kubestow.solver.rollout.worst_end.ends import SpreadEnd, WorstEnds
from kubestow.solver.rollout.worst_end.reader import RolloutReader, RolloutStart
from kubestow.solver.runtime.options import Options
from tests.objects import Object, node
from tests.solver.rollout.rollouts import ZONE, apart, deployment, even, old, replica_set, rolling
from tests.solver.rollout.worst_end.brute import tiny
from tests.tiers import seeds


def reader_of(objects: list[Object]) -> RolloutReader:
    problem = problem_of(read(from_objects(objects), "web", None), Options())
    start = RolloutStart(problem.pace, problem.old, problem.snapshot.pods[problem.new[0]])
    return RolloutReader(problem.snapshot, [start], problem.others, problem.policy, problem.exempt)


def ends_of(objects: list[Object]) -> list[SpreadEnd]:
    return WorstEnds(reader_of(objects)).of(0)


@seeds(30, 1500)
def test_the_search_finds_what_brute_force_finds(seeds: list[int]) -> None:
    found = 0
    for seed in seeds:
        rollout = tiny(seed)
        worst = rollout.worst_skew()
        (end,) = ends_of(rollout.objects())
        assert (end.skew, end.exact) == (worst, True), seed
        if worst is not None:
            found += 1
            follow = rollout.constraint["whenUnsatisfiable"] == "ScheduleAnyway"
            (limit,) = bounds(reader_of(rollout.objects()).read(0, follow=follow).problem)
            assert worst == end.bound <= limit, seed
    assert found


@seeds(30, 600)
def test_match_label_keys_keep_what_they_promise(seeds: list[int]) -> None:
    offered = 0
    for seed in seeds:
        rollout = tiny(seed)
        (end,) = ends_of(rollout.objects())
        if end.remedied is not None:
            offered += 1
            worst = replace(rollout, by_revision=True, seen=set()).worst_skew()
            assert worst is not None
            assert worst <= end.remedied, seed
    assert offered


def two_zones(skew: int = 2, **spec: Any) -> list[Object]:
    """Three replicas on two nodes in each of two zones, with hard spread."""
    nodes = [node(f"{zone}{i}", labels={ZONE: zone}) for zone in "ab" for i in (1, 2)]
    pods = [old(i, name) for i, name in enumerate(("a1", "a2", "b1"))]
    return [*nodes, deployment(3, spread=[even(skew=skew)], **spec), replica_set(), *pods]


def test_one_zone_can_get_all_pods() -> None:
    (end,) = ends_of(two_zones())
    assert (end.key, end.when, end.max_skew, end.skew, end.bound, end.remedied) == (ZONE, "DoNotSchedule", 2, 3, 3, 1)
    assert list(end.counts.values()) == [3]


def test_a_larger_surge_allows_what_a_smaller_one_does_not() -> None:
    assert [end.skew for end in ends_of(two_zones(skew=1))] == [1]
    assert [end.skew for end in ends_of(two_zones(skew=1, strategy=rolling(2, 0)))] == [3]


def test_revisions_that_never_run_together_have_no_worst_end() -> None:
    assert ends_of(two_zones(strategy={"type": "Recreate"})) == []


def test_a_constraint_that_counts_one_revision_has_no_worst_end() -> None:
    objects = two_zones()
    objects[4]["spec"]["template"]["spec"]["topologySpreadConstraints"][0]["matchLabelKeys"] = ["pod-template-hash"]
    assert ends_of(objects) == []


def test_a_tainted_zone_counts_unless_taints_are_honoured() -> None:
    tainted = node("c1", labels={ZONE: "c"}, taints=[{"key": "closed", "effect": "NoSchedule"}])
    assert [end.skew for end in ends_of([tainted, *two_zones(skew=2)])] == [2]  # at most 2 in a zone, as c stays empty
    objects = [tainted, *two_zones(skew=2)]
    objects[5]["spec"]["template"]["spec"]["topologySpreadConstraints"][0]["nodeTaintsPolicy"] = "Honor"
    assert [end.skew for end in ends_of(objects)] == [3]


def test_a_large_rollout_has_a_bound_at_least() -> None:
    nodes = [node(f"{zone}{i}", labels={ZONE: zone}) for zone in "abc" for i in range(4)]
    pods = [old(i, f"{'abc'[i % 3]}{i // 3 % 4}") for i in range(24)]
    (end,) = ends_of([*nodes, deployment(24, spread=[even()]), replica_set(), *pods])
    assert end.skew is not None
    assert end.bound == 6  # of 30 pods at most 10 in a zone, and so of 24 new ones at least 4 in the last one
    assert 1 < end.skew <= end.bound


def rolled(objects: list[Object]) -> Rollout:
    found = roll_out(from_objects(objects), "web", None, Options(time_limit=20.0)).rollout
    assert found is not None
    return found


def test_a_course_that_another_rule_forbids_is_not_claimed() -> None:
    apart_in_zones = apart(ZONE, matchLabelKeys=["pod-template-hash"])
    nodes = [node(f"{zone}1", labels={ZONE: zone}) for zone in "abc"]
    spread = [even(skew=2, whenUnsatisfiable="ScheduleAnyway")]
    objects = [*nodes, deployment(2, spread=spread, affinity=apart_in_zones), replica_set(), old(0, "a1"), old(1, "b1")]
    (end,) = rolled(objects).worstEnds
    assert end.skew in (None, 1)
    assert end.bound >= 1


def test_a_document_has_the_course_and_the_remedy() -> None:
    (end,) = rolled(two_zones()).worstEnds
    assert (end.constraint, end.skew, end.bound) == ("spec.template.spec.topologySpreadConstraints[0]", 3, 3)
    assert [len(wave.create) for wave in end.waves] == [1, 1, 1]
    (way,) = end.waysOut
    assert (way.change, way.arguments["to"]) == ("matchLabelKeys", "pod-template-hash")
    assert "the skew is at most 1" in way.message


def quota(pods: int) -> Object:
    metadata = {"name": "q", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": {"pods": str(pods)}}}


def test_a_quota_that_leaves_no_room_for_surge_is_respected() -> None:
    assert [end.skew for end in rolled([quota(4), *two_zones()]).worstEnds] == [3]  # 3 replicas and 1 more
    (end,) = rolled([quota(3), *two_zones(strategy=rolling(1, 1))]).worstEnds
    assert end.bound >= (end.skew or 0)
