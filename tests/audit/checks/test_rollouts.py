"""Rollouts that come to a halt are found, and only those: held against a search over all courses."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from itertools import chain

import msgspec
import pytest

from kubestow.audit.checks import rollouts
from kubestow.audit.checks.rollout_flow import RolloutFlow
from kubestow.audit.view.view import ClusterView
from kubestow.models.documents.findings.audit import Finding
from kubestow.models.documents.policy import Policy
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from kubestow.models.workloads.deployment_rollout import pace
from kubestow.solver.executors.pool import WorkerPool, pool_of
from tests.objects import Object, node, pod
from tests.solver.executors.test_pool import Inline
from tests.solver.rollout.rollouts import HOST, Brute, apart, deployment, old, replica_set, rolling, tiny
from tests.tiers import sampled


def found(snapshot: Snapshot) -> list[Finding]:
    return list(rollouts.check(ClusterView(snapshot)))


def codes(objects: list[Object]) -> list[str]:
    return [finding.code for finding in found(from_objects(objects))]


def runs(snapshot: Snapshot) -> bool:
    """Return whether the Deployment has all its pods, each on a node."""
    pods = [p for p in snapshot.pods if (p.metadata.labels or {}).get("app") == "web"]
    return all(p.spec.nodeName for p in pods) and len(pods) >= snapshot.workloads["Deployment"][0].spec.replicas


@pytest.mark.parametrize("seed", sampled(range(0, 240, 24), every=10, full=2))
def test_a_halt_is_found_exactly_where_no_course_completes(seed: int) -> None:
    seen: Counter[bool] = Counter()
    for s in range(seed, seed + 24):
        snapshot = tiny(s)
        if not runs(snapshot):
            continue
        completes = Brute(snapshot).completes()
        halts = {f.code for f in found(snapshot)} & {"KS501", "KS502", "KS503"}
        assert halts == (set() if completes else {"KS501"}), s
        seen[completes] += 1
    assert seen[True]


@pytest.mark.full
def test_what_is_told_without_a_search_is_true_and_told_often() -> None:
    told = Counter[tuple[str | None, bool]]()
    for seed in range(400):
        snapshot = tiny(seed)
        if not runs(snapshot):
            continue
        view = ClusterView(snapshot)
        subject = next(s for s in view.subjects if s.name == "Deployment default/web")
        flow = RolloutFlow(view, [subject])
        steps = pace(snapshot.workloads["Deployment"][0])
        before = [rule.rejects(0).tolist() for rule in flow._rules]
        sure = flow.verdict(0, steps)
        assert [rule.rejects(0).tolist() for rule in flow._rules] == before  # nothing is left behind for the next one
        told[sure, Brute(snapshot).completes()] += 1
    assert told["complete", False] == told["deadlock", True] == 0
    assert told["complete", True] > 5 * told[None, True]
    assert told["deadlock", False] > told[None, False]


def spread_out(count: int, nodes: int, *, strategy: Object | None = None, cpu: str = "100m") -> list[Object]:
    return [
        *(node(f"n{i}") for i in range(nodes)),
        deployment(count, strategy=strategy, cpu=cpu, affinity=apart()),
        replica_set(),
        *(old(i, f"n{i}", cpu=cpu, affinity=apart()) for i in range(count)),
    ]


def test_a_deadlock_names_its_rule_and_the_proved_ways_out() -> None:
    [finding] = found(from_objects(spread_out(2, 2)))
    assert (finding.code, finding.severity, finding.object) == ("KS501", "error", "Deployment default/web")
    assert finding.rule == "InterPodAffinity"
    assert "0 of 2 new pods placed" in finding.message
    assert "maxUnavailable 1" in finding.fix
    assert finding.pods == ["default/web-0ld-0", "default/web-0ld-1"]


def test_a_free_node_or_a_pod_that_goes_first_is_enough() -> None:
    assert codes(spread_out(2, 3)) == []
    assert codes(spread_out(2, 2, strategy=rolling(0, 1))) == []


def test_pods_that_are_being_deleted_hold_nobody_up() -> None:
    objects = [*spread_out(1, 1, cpu="2"), pod("late", cpu="2", node_name="n0")]
    assert codes(objects) == ["KS501"]
    objects = [node("n1", cpu="2"), pod("late", cpu="2", node_name="n1"), *spread_out(1, 1, cpu="2")]
    objects[1]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert codes(objects) == []


def test_room_that_preemption_would_make_is_another_finding() -> None:
    objects = [
        node("n0", cpu="2"), deployment(1, cpu="1", priority=10), replica_set(), old(0, "n0", cpu="1", priority=10),
        pod("low", cpu="1", node_name="n0", priority=1),
    ]  # fmt: skip
    assert codes(objects) == ["KS503"]
    objects[1]["spec"]["template"]["spec"]["preemptionPolicy"] = "Never"
    assert codes(objects) == ["KS501"]
    objects[1]["spec"]["template"]["spec"].pop("preemptionPolicy")
    objects[4]["spec"]["priority"] = 10
    assert codes(objects) == ["KS501"]


def test_deployments_with_pods_that_wait_are_not_judged() -> None:
    objects = [*spread_out(2, 2)]
    objects[-1]["spec"].pop("nodeName")
    view = ClusterView(from_objects(objects))
    assert list(rollouts.check(view)) == []
    assert any("Deployment default/web" in line for line in view.not_checked)


def searched() -> Iterator[Snapshot]:
    """Clusters where only a search can tell what becomes of a rollout."""
    for seed in range(400):
        snapshot = tiny(seed)
        view = ClusterView(snapshot)
        subject = next(s for s in view.subjects if s.name == "Deployment default/web")
        if runs(snapshot) and RolloutFlow(view, [subject]).verdict(0, pace(snapshot.workloads["Deployment"][0])) is None:
            yield snapshot


@pytest.mark.parametrize("late", [True, False])
def test_what_there_is_no_time_for_is_said(late: bool) -> None:
    view = ClusterView(next(searched()))
    if late:
        view.deadline = time.monotonic()
    else:
        view.stop = threading.Event()
        view.stop.set()
    assert list(rollouts.check(view)) == []
    assert any("Deployment default/web" in line and "--time-limit" in line for line in view.not_checked)


def test_a_deadlock_from_the_start_needs_no_time() -> None:
    view = ClusterView(from_objects(spread_out(2, 2)), deadline=time.monotonic())
    [finding] = rollouts.check(view)
    assert (finding.code, finding.rule, finding.fix) == ("KS501", "InterPodAffinity", rollouts.DEADLOCK.fix)
    assert finding.message == found(from_objects(spread_out(2, 2)))[0].message
    assert view.not_checked == []
    low = [
        node("n0", cpu="2"), deployment(1, cpu="1", priority=10), replica_set(), old(0, "n0", cpu="1", priority=10),
        pod("low", cpu="1", node_name="n0", priority=1),
    ]  # fmt: skip
    [finding] = rollouts.check(ClusterView(from_objects(low), deadline=time.monotonic()))
    assert (finding.code, finding.rule) == ("KS503", "NodeResourcesFit")


def test_searches_get_a_quarter_of_the_time() -> None:
    now = time.monotonic()
    assert now + 15 <= ClusterView(from_objects([]), began=now, deadline=now + 60).search_until() < now + 20
    assert ClusterView(from_objects([]), began=now - 58, deadline=now + 2).search_until() == now + 2


def stuck(number: int, *, nodes: int = 3) -> Snapshot:
    """Make Deployments in separate namespaces; no rollout of these can complete."""
    teams = [msgspec.json.decode(msgspec.json.encode(spread_out(nodes, nodes, strategy=rolling(1, 0))[nodes:])) for _ in range(number)]
    for k, objects in enumerate(teams):
        for each in objects:
            each["metadata"]["namespace"] = f"team-{k}"
    return from_objects([*(node(f"n{i}") for i in range(nodes)), *chain.from_iterable(teams)])


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.full)])
def test_whoever_searches_the_findings_are_the_same(jobs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With time enough for every remedy, however busy the machine is."""
    monkeypatch.setattr(rollouts, "ROLLOUT_LIMIT_SECONDS", 300)
    snapshot, now = stuck(3 * jobs), time.monotonic()
    alone, expected = ClusterView(snapshot, began=now, deadline=now + 3000), 3 * jobs
    findings = list(rollouts.check(alone))
    assert [finding.code for finding in findings] == ["KS501"] * expected
    assert all("maxUnavailable 1" in finding.fix for finding in findings)
    with pool_of(jobs) or WorkerPool(Inline, 2) as pool:
        shared = ClusterView(snapshot, pool=pool, began=now, deadline=now + 3000)
        assert list(rollouts.check(shared)) == findings
        assert shared.not_checked == alone.not_checked
        assert pool.at_hand


def test_without_nodes_only_strategies_are_judged() -> None:
    view = ClusterView(from_objects([deployment(2, strategy=rolling(0, 0), affinity=apart())]))
    assert [f.code for f in rollouts.check(view)] == ["KS504"]
    assert view.not_checked == []


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        (rolling(0, 0), ["KS504"]),
        (rolling("0%", "0%"), ["KS504"]),
        (rolling(None, 0), []),  # maxSurge is 25 % then
        (rolling(0, None), ["KS505"]),
        (rolling(0, "33%"), ["KS505"]),
        (rolling(0, "34%"), []),
        (rolling("1%", 0), []),  # rounded up
        ({"type": "Recreate"}, []),
    ],
)
def test_strategies(strategy: Object, expected: list[str]) -> None:
    assert codes([deployment(3, strategy=strategy)]) == expected


@pytest.mark.parametrize(
    ("surge", "unavailable", "expected"), [(1, 1, ["KS504"]), (0, 0, ["KS504"]), (1, 0, []), (None, 1, []), (1, None, ["KS504"])]
)
def test_a_daemon_set_surges_or_lacks(surge: int | None, unavailable: int | None, expected: list[str]) -> None:
    template = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"selector": {"matchLabels": {"app": "a"}}, "template": template, "updateStrategy": rolling(surge, unavailable)}
    assert codes([{"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "a"}, "spec": spec}]) == expected


def limit(hard: Object, kind: str = "ResourceQuota") -> Object:
    spec = {"hard": hard} if kind == "ResourceQuota" else {"limits": [{"type": "Container", **hard}]}
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": "q", "namespace": "default"}, "spec": spec}


def test_a_quota_without_room_for_the_surge_is_a_deadlock() -> None:
    objects = spread_out(2, 4)
    [finding] = found(from_objects([*objects, limit({"pods": "2"})]))
    assert (finding.code, finding.rule) == ("KS501", "ResourceQuota")
    over = "exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2"
    assert f"the next one is rejected by ResourceQuota (cannot be created: {over})" in finding.message
    assert "raise quota q: pods 3 instead of 2" in finding.fix
    assert codes([*objects, limit({"pods": "3"})]) == []
    assert codes([*objects, limit({"max": {"cpu": "50m"}}, "LimitRange")]) == ["KS501"]


def test_preemption_gives_back_nothing_of_a_quota() -> None:
    """A pod of lower priority counts in the quota, too, and no scheduler deletes it for that."""
    objects = [
        node("n0"), node("n1"), deployment(1, priority=10), replica_set(), old(0, "n0", priority=10),
        pod("low", node_name="n1", priority=1), limit({"pods": "2"}),
    ]  # fmt: skip
    assert codes(objects) == ["KS501"]


@pytest.mark.parametrize(
    "term",
    [
        {"labelSelector": {}},
        # a namespace without an object, known by a pod of its own
        {"labelSelector": {}, "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "other"}}},
    ],
)
def test_a_quota_that_charges_opportunity_cost_refuses_the_surge(term: Object) -> None:
    anti = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": HOST, **term}]}}
    nodes = [node(f"n{i}", cpu="4") for i in range(3)]
    web = [deployment(1, strategy=rolling(1, 0), affinity=anti), replica_set(), old(0, "n0", affinity=anti)]
    snapshot = from_objects([*nodes, *web, pod("o", namespace="other", node_name="n2"), limit({"requests.cpu": "7"})])
    [finding] = rollouts.check(ClusterView(snapshot, policy=Policy(quotaCharge="opportunityCost")))
    assert (finding.code, finding.rule) == ("KS501", "ResourceQuota")
    assert "used: requests.cpu=4, limited: requests.cpu=7, charged: requests.cpu=4 by opportunity cost over" in finding.message
    assert found(snapshot) == []
