"""Rollouts that ResourceQuotas and LimitRanges stop, and every interleaving of the controllers behind them."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from kubestow.checker.rollout import verify_rollout
from kubestow.models.documents.placement import Placement, Remedy
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from kubestow.solver.rollout.simulate import OVERTAKEN, roll_out
from kubestow.solver.runtime.options import Options
from tests.models.cluster.test_admission import limits, quota
from tests.objects import Object, node, pod
from tests.solver.rollout.interleavings import Case, Interleavings, case
from tests.solver.rollout.rollouts import Brute, apart, deployment, old, replica_set, rolling, tiny
from tests.tiers import sampled

QUICK = Options(time_limit=20.0, workers=1)
ROOM = node("n0", cpu="100", pods="100")


def web(count: int, strategy: Object | None = None, *, cpu: str = "100m", after: str | None = None, **spec: Any) -> list[Object]:
    """As many old pods as replicas on a node with room for everything. ``after``: the CPU of new pods."""
    pods = [old(i, "n0", cpu=cpu) for i in range(count)]
    return [ROOM, deployment(count, strategy=strategy or rolling(1, 0), cpu=after or cpu, **spec), replica_set(), *pods]


def solve(objects: list[Object], manifest: Object | None = None) -> Placement:
    snapshot = from_objects(objects)
    manifests = None if manifest is None else from_objects([manifest], manifests=True)
    found = roll_out(snapshot, "web", manifests, QUICK)
    assert verify_rollout(snapshot, found, manifests) == []
    return found


def verdict(placement: Placement) -> tuple[bool, bool, int]:
    """Return whether the rollout completes, whether a deadlock is proved, and the number of placed new pods."""
    assert placement.rollout is not None
    return placement.rollout.complete, placement.rollout.proved, len(placement.assignments)


def refused(placement: Placement) -> str:
    assert placement.rollout is not None
    assert placement.rollout.refused is not None
    return f"{placement.rollout.refused.rule}: {placement.rollout.refused.message}"


def messages(placement: Placement) -> list[str]:
    assert placement.rollout is not None
    return [way.message for way in placement.rollout.waysOut]


def test_a_quota_without_room_for_the_surge_stops_it_before_it_begins() -> None:
    found = solve([*web(4), quota(pods="4")])
    assert verdict(found) == (False, True, 0)
    assert refused(found) == "ResourceQuota: cannot be created: exceeded quota: q, requested: pods=1, used: pods=4, limited: pods=4"
    assert found.status == "infeasible"
    assert {entry.reasons[0].rule for entry in found.unplaced} == {"ResourceQuota"}
    assert messages(found)[:2] == ["maxUnavailable 1 instead of 0", "raise quota q: pods 5 instead of 4"]
    assert verdict(solve([*web(4, rolling(1, 1)), quota(pods="4")])) == (True, True, 4)
    assert verdict(solve([*web(4), quota(pods="5")])) == (True, True, 4)


@pytest.mark.parametrize(
    ("hard", "over"),
    [
        ({"requests_cpu": "450m"}, "requested: requests.cpu=100m, used: requests.cpu=400m, limited: requests.cpu=450m"),
        ({"cpu": "400m"}, "requested: cpu=100m, used: cpu=400m, limited: cpu=400m"),
        ({"count__pods": "4"}, "requested: count/pods=1, used: count/pods=4, limited: count/pods=4"),
        ({"pods": "4", "memory": "1"}, "requested: memory=128Mi,pods=1, used: memory=512Mi,pods=4, limited: memory=1,pods=4"),
    ],
)
def test_resources_of_quotas(hard: Object, over: str) -> None:
    assert over in refused(solve([*web(4), quota(**hard)]))


def test_limits_count_with_what_a_limit_range_fills_in() -> None:
    """The old pods have no limits; a new one gets 200m, and two of them are above the quota."""
    defaults = limits(default={"cpu": "200m", "memory": "1Gi"})
    found = solve([*web(2, rolling(0, 1)), quota(limits_cpu="300m"), defaults])
    assert verdict(found) == (False, True, 1)
    assert "requested: limits.cpu=200m, used: limits.cpu=200m, limited: limits.cpu=300m" in refused(found)
    assert "raise quota q: limits.cpu 400m instead of 300m" in messages(found)
    without = solve([*web(2, rolling(0, 1)), quota(limits_cpu="300m")])
    assert refused(without) == "ResourceQuota: cannot be created: failed quota: q: must specify limits.cpu for: c"
    assert not any("quota" in message for message in messages(without))


@pytest.mark.parametrize(
    ("item", "why"),
    [
        ({"max": {"cpu": "500m"}}, "container c: request of 1 cpu is above its limit of 500m"),
        ({"min": {"cpu": "2"}, "default": {"cpu": "4"}}, "container c: 1 cpu is below the minimum of 2"),
        ({"default": {"cpu": "2"}, "maxLimitRequestRatio": {"cpu": "1"}}, "container c: limit 2 cpu is more than 1 times the request 1"),
    ],
)
def test_a_limit_range_that_refuses_the_new_pods_stops_it(item: Object, why: str) -> None:
    """With one pod that may be missing an old one goes, and nothing comes in its place."""
    found = solve([*web(2, rolling(0, 1), after="1"), limits(**item)])
    assert verdict(found) == (False, True, 0)
    assert refused(found) == f"LimitRanger: cannot be created: {why}"
    assert found.rollout is not None
    assert [len(wave.delete) for wave in found.rollout.waves] == [1]
    assert messages(found) == []


@pytest.mark.parametrize(
    ("scopes", "select", "spec", "stopped"),
    [
        (["NotBestEffort"], None, {}, True), (["BestEffort"], None, {}, False), (["NotTerminating"], None, {}, True),
        (["Terminating"], None, {}, False), (["Terminating"], None, {"activeDeadlineSeconds": 9}, False),
        (["CrossNamespacePodAffinity"], None, {}, False),
        (None, ("In", ["high"]), {"priorityClassName": "high"}, False), (None, ("NotIn", ["high"]), {}, True),
        (None, ("DoesNotExist", None), {}, True), (None, ("Exists", None), {}, False),
    ],
)  # fmt: skip
def test_scopes_of_old_and_new_pods(
    scopes: list[str] | None, select: tuple[str, list[str] | None] | None, spec: Object, stopped: bool
) -> None:
    """Two pods are allowed: where old ones do not count, there is room for the new ones."""
    chosen = [{"scopeName": "PriorityClass", "operator": select[0], **({"values": select[1]} if select[1] else {})}] if select else None
    classes = [{"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 5}]
    assert verdict(solve([*classes, *web(2, **spec), quota(scopes=scopes, select=chosen, pods="2")]))[0] is not stopped


def test_pods_of_a_class_whose_quota_is_too_small_stop_half_way() -> None:
    select = [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]
    classes = [{"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 5}]
    found = solve([*classes, *web(3, priorityClassName="high"), quota(select=select, pods="2")])
    assert verdict(found) == (False, True, 2)
    assert [(tier.value, tier.bound) for tier in found.objective] == [(2, 2)]
    assert "raise quota q: pods 3 instead of 2" in messages(found)


def test_larger_pods_take_the_quota_as_the_old_ones_leave() -> None:
    """900m hold three new pods, but not two new ones with two old ones."""
    found = solve([*web(3, rolling(2, 0), after="300m"), quota(requests_cpu="900m")])
    assert verdict(found) == (False, True, 2)
    assert "raise quota q: requests.cpu 1 instead of 900m" in messages(found)
    assert verdict(solve([*web(3, rolling(2, 1), after="300m"), quota(requests_cpu="900m")])) == (True, True, 3)


def test_recreate_needs_room_for_the_new_pods_only() -> None:
    recreate: Object = {"type": "Recreate"}
    assert verdict(solve([*web(2, recreate), quota(pods="2")])) == (True, True, 2)
    found = solve([*web(2, recreate, after="200m"), quota(requests_cpu="300m")])
    assert verdict(found) == (False, True, 1)


def test_pods_of_others_that_wait_or_are_over_count_as_the_api_server_has_it() -> None:
    waits, over = pod("waits"), pod("over", node_name="n0")
    over["status"]["phase"] = "Succeeded"
    assert not verdict(solve([*web(2), waits, quota(pods="3")]))[0]
    assert verdict(solve([*web(2), over, quota(pods="3")]))[0]
    assert not verdict(solve([*web(2), over, quota(count__pods="3")]))[0]
    going = old(9, "n0")
    going["metadata"]["deletionTimestamp"] = "2026-01-02T00:00:00Z"
    assert verdict(solve([*web(2), going, quota(pods="3")]))[0]


def test_two_quotas_are_raised_together() -> None:
    found = solve([*web(2), quota("a", pods="2"), quota("b", requests_cpu="200m")])
    assert "raise quota a: pods 3 instead of 2; and raise quota b: requests.cpu 300m instead of 200m" in messages(found)
    assert found.rollout is not None
    [way] = [way for way in found.rollout.waysOut if way.change == "raiseQuota"]
    assert way.arguments == {"default/a": "pods=3", "default/b": "requests.cpu=300m"}


def test_nodes_and_quotas_together() -> None:
    """One new pod waits for a node; another may not be created, and no wave goes on."""
    nodes = [node("n0"), node("n1")]
    pods = [old(i, f"n{i}", affinity=apart()) for i in range(2)]
    objects = [*nodes, deployment(2, strategy=rolling(2, 0), affinity=apart()), replica_set(), *pods, quota(pods="3")]
    found = solve(objects)
    assert verdict(found) == (False, True, 0)
    assert found.rollout is not None
    assert [len(wave.waiting) for wave in found.rollout.waves] == [1]
    assert [reason.rule for reason in found.rollout.stuck[0].reasons] == ["InterPodAffinity"]
    assert refused(found).startswith("ResourceQuota: ")


def test_a_quota_of_replica_sets_is_named() -> None:
    limited = quota()
    limited["spec"]["hard"] = {"count/replicasets.apps": "1"}
    found = solve([*web(1), limited])
    assert verdict(found)[0]
    assert [(entry.pod, entry.field) for entry in found.unmodelled] == [("ResourceQuota/default/q", "spec.hard.count/replicasets.apps")]
    assert solve([*web(1), quota(pods="9")]).unmodelled == []


# --- documents that say otherwise -------------------------------------------------------------------------------------------


def test_the_checker_counts_quotas_for_itself() -> None:
    free = from_objects(web(2))
    found = roll_out(free, "web", None, QUICK)
    tight = from_objects([*web(2), quota(pods="2")])
    faults = {(fault.rule, fault.why.partition(": ")[2]) for fault in verify_rollout(tight, found)}
    assert ("ResourceQuota", "quota q: pods used up") in faults
    narrow = from_objects([*web(2), limits(max={"cpu": "50m"})])
    assert "LimitRanger" in {fault.rule for fault in verify_rollout(narrow, found)}
    stuck = roll_out(tight, "web", None, QUICK)
    assert "another new pod could be created" in str(verify_rollout(free, stuck))
    silent = copy.deepcopy(stuck)
    assert silent.rollout is not None
    silent.rollout.refused = None
    assert "rollout.refused does not say what refuses the next pod" in str(verify_rollout(tight, silent))


# --- against every interleaving ---------------------------------------------------------------------------------------------


def asked(case: Case) -> Placement:
    return roll_out(from_objects(case.objects), "web", from_objects([case.manifest], manifests=True), QUICK)


def taken(case: Case, way: Remedy) -> Case:
    """The case with a way out taken by hand."""
    objects, manifest = copy.deepcopy(case.objects), copy.deepcopy(case.manifest)
    if way.change == "raiseQuota":
        for each in (each for each in objects if each["kind"] == "ResourceQuota"):
            more = way.arguments.get(f"default/{each['metadata']['name']}")
            each["spec"]["hard"] |= dict(part.split("=") for part in more.split(",")) if more else {}
    else:
        manifest["spec"]["strategy"] = {"type": "Recreate"} if way.change == "strategy" else copy.deepcopy(manifest["spec"]["strategy"])
        if way.change != "strategy":
            manifest["spec"]["strategy"]["rollingUpdate"][way.change] = int(way.arguments["to"])
    return Case(objects, manifest)


def compared(seeds: range, *, scaled: bool = False) -> dict[tuple[bool, bool], int]:
    """Compare rollouts with all interleavings: none completes that may halt, and none halts that may complete."""
    outcomes: dict[tuple[bool, bool], int] = {}
    for seed in seeds:
        found = case(seed, scaled=scaled)
        ends, result = Interleavings(found).outcomes, asked(found)
        assert result.rollout is not None
        open_ = OVERTAKEN in result.notes
        assert result.rollout.proved, seed
        assert ends == {result.rollout.complete} or (open_ and result.rollout.complete), (seed, ends)
        outcomes[result.rollout.complete, open_] = outcomes.get((result.rollout.complete, open_), 0) + 1
    return outcomes


@pytest.fixture
def unaided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubestow.solver.rollout.simulate.RolloutRemedies.find", lambda self: [])


@pytest.mark.usefixtures("unaided")
def test_thirty_rollouts_end_as_all_interleavings_of_controllers_do() -> None:
    found = compared(range(30))
    assert min(found[True, False], found[False, False]) > 5


@pytest.mark.full
@pytest.mark.usefixtures("unaided")
def test_rollouts_that_are_scaled_as_well_end_as_all_interleavings_do() -> None:
    """If the old ReplicaSet may take the remaining quota, a note says so."""
    found = compared(range(200, 260), scaled=True)
    assert found[True, True] >= 1


@pytest.mark.slow
@pytest.mark.usefixtures("unaided")
@pytest.mark.parametrize("block", range(20))
def test_many_rollouts_end_as_all_interleavings_do(block: int) -> None:
    for scaled in (False, True):
        compared(range(block * 100, block * 100 + 100), scaled=scaled)


@pytest.mark.full
def test_ways_out_of_a_quota_work_in_every_interleaving_and_raise_no_more_than_needed() -> None:
    kinds: dict[str, int] = {}
    for seed in range(60):
        found = case(seed)
        rollout = asked(found).rollout
        assert rollout is not None
        for way in rollout.waysOut:
            if way.change in ("raiseQuota", "maxUnavailable", "maxSurge", "strategy"):
                kinds[way.change] = kinds.get(way.change, 0) + 1
                assert Interleavings(taken(found, way)).outcomes == {True}, (seed, way)
            if way.change == "raiseQuota" and list(way.arguments.values()) == [f"pods={(most := _pods(way))}"]:
                assert Interleavings(taken(found, msgspec.structs.replace(way, arguments=_less(way, most)))).outcomes == {False}, (
                    seed,
                    way,
                )
    assert min(kinds.get(kind, 0) for kind in ("raiseQuota", "maxUnavailable")) > 5


def _pods(way: Remedy) -> int:
    text = next(iter(way.arguments.values()))
    return int(text.removeprefix("pods=")) if text.startswith("pods=") and text.removeprefix("pods=").isdigit() else -1


def _less(way: Remedy, limit: int) -> dict[str, str]:
    return dict.fromkeys(way.arguments, f"pods={limit - 1}")


# --- with nodes, against brute force ----------------------------------------------------------------------------------------


class Limited(Brute):
    """Brute force with a quota of pods and CPU: as many new pods are created as it allows in addition to the old ones."""

    def __init__(self, snapshot: Snapshot, pods: int, cpu: int) -> None:
        super().__init__(snapshot)
        self.most = pods, cpu

    def _create(self, now: Any) -> Any:
        then = super()._create(now)
        alive = [self.old[name] for name in now.alive]
        strangers = [p for p in self.snapshot.pods if (p.metadata.labels or {}).get("app") != "web"]
        there = [_cpu(p) for p in (*alive, *strangers)]
        number = now.created
        while number < then.created:
            each = _cpu(self.new[0])
            if len(there) + number + 1 > self.most[0] or sum(there) + (number + 1) * each > self.most[1]:
                break
            number += 1
        return replace(then, created=number)


def _cpu(found: Any) -> int:
    return sum(int(c.resources.requests["cpu"].removesuffix("m")) for c in found.spec.containers)


@pytest.mark.usefixtures("unaided")
@pytest.mark.parametrize("block", sampled(range(6), every=6))
def test_nodes_and_quotas_agree_with_brute_force(block: int) -> None:
    stopped = 0
    for number in range(block * 25, block * 25 + 25):
        snapshot = tiny(number)
        count = len(snapshot.pods) + number % 3
        cpu = sum(map(_cpu, snapshot.pods)) + (number % 5) * 100
        limit = quota(pods=str(count), requests_cpu=f"{cpu}m")
        limited = replace(snapshot, resource_quotas=from_objects([limit]).resource_quotas)
        found = roll_out(limited, "web", None, QUICK).rollout
        assert found is not None
        assert (found.complete, found.proved) == (Limited(limited, count, cpu).completes(), True), number
        stopped += found.refused is not None
    assert stopped > 3
