"""Certificates of survival, compared with the exact engine over the raw objects that every failure leaves."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import combinations

import pytest

from kubestow.checker.placement import verify
from kubestow.models.documents.survival import Scenario, Survival
from kubestow.models.snapshot.snapshot import InputError, Snapshot, from_objects
from kubestow.solver.capacity.survive.failures import domains
from kubestow.solver.capacity.survive.options import ZONE_KEY, SurviveOptions
from kubestow.solver.capacity.survive.survive import survive
from kubestow.solver.runtime.options import Options, Progress
from kubestow.solver.solve import place
from tests import tiny
from tests.objects import Object, node, pod
from tests.solver.capacity.survive.clusters import EXACT, comes_back, doubled, running, without

KINDS = (*tiny.ALL, "gangs")
#: Clusters of each kind in the full tier, and at length: 300 in all.
CLUSTERS, MANY = 3, 28
ASKED = (
    SurviveOptions(),
    SurviveOptions("zone"),
    SurviveOptions(at_once=2),
    SurviveOptions("rack"),
    SurviveOptions(priority=10),
    SurviveOptions("zone", at_once=2, priority=10),
)
OPTIONS = Options(time_limit=20, workers=1, causes=False)


def failures(result: Survival) -> Iterator[tuple[Scenario, list[str]]]:
    """Every failure, with the scenario that it is or that is equal to it."""
    for scenario in result.outcomes:
        for failed in (scenario.failed, *scenario.alike):
            yield scenario, failed


def check(snapshot: Snapshot, request: SurviveOptions) -> None:
    """Assert that brute force says the same of every failure, and that certificates hold."""
    try:
        nodes = domains(snapshot, request)
    except InputError:
        return
    result = survive(snapshot, request, OPTIONS)
    listed = [tuple(failed) for _, failed in failures(result)]
    assert sorted(listed) == sorted(combinations(nodes, request.at_once))
    counts = result.scenarios
    assert counts.all == len(listed)
    assert counts.distinct == len(result.outcomes) == counts.bounded + counts.solved + counts.open
    worst = {tuple(found.failed): found for found in result.counterexamples}
    assert result.certified == (not worst)
    for scenario, failed in failures(result):
        gone = [name for domain in failed for name in nodes[domain]]
        waiting, back = comes_back(snapshot, gone, request.priority)
        assert scenario.displaced == waiting, failed
        assert scenario.outcome == ("survives" if back == waiting else "pending"), failed
        if failed == scenario.failed:
            found = worst.get(tuple(failed))
            assert (found.least if found else 0) == scenario.pending == waiting - back, failed
            assert len(found.pending if found else []) == waiting - back, failed
            recheck(without(snapshot, gone, request.priority), scenario)


def recheck(remaining: Snapshot, scenario: Scenario) -> None:
    """Assert that the independent checker accepts a certificate on what the failure leaves."""
    if scenario.outcome == "survives" and scenario.displaced:
        placement = place(remaining, EXACT)
        assert {a.pod for a in placement.assignments} == {a.pod for a in scenario.assignments}
        placement.assignments = scenario.assignments
        assert [fault for fault in verify(remaining, placement) if fault.pod] == []


@pytest.mark.parametrize(("kind", "asked"), list(zip(KINDS, ASKED * 2, strict=True)))
def test_a_few_clusters_survive_what_brute_force_says_they_do(kind: str, asked: SurviveOptions) -> None:
    check(running(1, kind), asked)


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
def test_clusters_survive_what_brute_force_says_they_do(kind: str) -> None:
    for seed in range(CLUSTERS):
        check(running(seed, kind), ASKED[seed % len(ASKED)])


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_many_clusters_survive_what_brute_force_says_they_do(kind: str) -> None:
    for seed in range(CLUSTERS, CLUSTERS + MANY):
        for request in ASKED:
            check(running(seed, kind), request)


@pytest.mark.parametrize("kind", ["spread", "anti"])
def test_failures_that_are_said_to_be_equal_end_alike(kind: str) -> None:
    check(doubled(3, kind), SurviveOptions(at_once=2))
    check(doubled(3, kind), SurviveOptions("zone"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_failures_that_are_said_to_be_equal_end_alike_in_many_clusters(kind: str) -> None:
    for seed in range(4, 16):
        check(doubled(seed, kind), ASKED[seed % 4])


# --- kinds of failures ------------------------------------------------------------------------------------------------------------


def cluster(nodes: int = 4, pods: int = 8, zones: int = 2, *, cpu: str = "4", **spec: object) -> list[Object]:
    """Nodes of 4 CPUs in turn in zones, and pods of one each of one ReplicaSet on them in turn."""
    return [
        *(node(f"n{i}", cpu=cpu, labels={ZONE_KEY: f"z{i % zones}"}) for i in range(nodes)),
        *(pod(f"p{i}", cpu="1", node_name=f"n{i % nodes}", owner="ReplicaSet/r", **spec) for i in range(pods)),  # type: ignore[arg-type]
    ]


def ask(objects: list[Object], request: SurviveOptions | None = None, options: Options = OPTIONS) -> Survival:
    return survive(from_objects(objects), request or SurviveOptions(), options)


def test_equal_nodes_fail_once() -> None:
    result = ask(cluster(6, 12, zones=1), SurviveOptions(at_once=2))
    assert result.certified
    assert (result.scenarios.all, result.scenarios.distinct) == (15, 1)
    assert len(result.outcomes[0].alike) == 14


def test_equal_zones_fail_once() -> None:
    result = ask(cluster(6, 12, zones=3), SurviveOptions("zone"))
    assert (result.scenarios.all, result.scenarios.distinct) == (3, 1)


def test_a_domain_that_fails_sets_no_minimum_for_spread() -> None:
    selector = {"matchLabels": {"app": "a"}}
    spread = [{"maxSkew": 1, "topologyKey": ZONE_KEY, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}]
    assert ask(cluster(4, 4, spread=spread, labels={"app": "a"}), SurviveOptions("zone")).certified
    (found,) = ask(cluster(4, 4, spread=[{**spread[0], "minDomains": 2}], labels={"app": "a"}), SurviveOptions("zone")).counterexamples
    assert found.least == 2


def test_a_volume_of_the_failed_zone_keeps_its_pod_pending() -> None:
    terms = [{"matchExpressions": [{"key": ZONE_KEY, "operator": "In", "values": ["z0"]}]}]
    volume: Object = {
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v"},
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "",
            "claimRef": {"namespace": "default", "name": "c"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}}, "csi": {"driver": "d", "volumeHandle": "h"},
        },
        "status": {"phase": "Bound"},
    }  # fmt: skip
    claim: Object = {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c", "namespace": "default"},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "", "volumeName": "v", "resources": {"requests": {"storage": "1Gi"}},
        },
        "status": {"phase": "Bound"},
    }  # fmt: skip
    user = pod("db-0", node_name="n0", owner="StatefulSet/db", volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}])
    objects = [*cluster(4, 4), volume, claim, user]
    assert ask(objects).certified
    result = ask(objects, SurviveOptions("zone"), Options(time_limit=20, workers=1))
    (found,) = result.counterexamples
    assert (found.failed, found.pending, found.least) == (["z0"], ["default/db-0"], 1)
    assert found.cause is not None
    assert found.cause.facts[0].rule == "VolumeBinding"


def test_pods_that_wait_and_pods_that_nothing_makes_anew_are_named() -> None:
    objects = [*cluster(2, 2), pod("waiting", cpu="100"), pod("bare", cpu="1", node_name="n1")]
    result = ask(objects)
    assert result.certified
    assert [note for note in result.notes if "default/waiting" in note]
    assert [note for note in result.notes if "default/bare" in note]


def test_only_pods_of_the_priority_have_to_come_back() -> None:
    objects = [*cluster(2, 6), *(pod(f"vip{i}", cpu="1", node_name=f"n{i}", owner="ReplicaSet/vip", priority=100) for i in range(2))]
    assert not ask(objects).certified
    result = ask(objects, SurviveOptions(priority=100))
    assert [scenario.displaced for scenario in result.outcomes] == [1]
    assert not result.certified  # both nodes are full
    assert ask(objects, SurviveOptions(priority=100, preemption=True)).certified


def test_nodes_without_the_label_do_not_fail() -> None:
    result = ask([*cluster(2, 2), node("other")], SurviveOptions("zone"))
    assert {name for _, failed in failures(result) for name in failed} == {"z0", "z1"}
    assert any("1 node without the label" in note for note in result.notes)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (SurviveOptions("rack"), "--fail 'rack' --at-once 1: the snapshot has no values of the node label 'rack'"),
        (SurviveOptions("zone", at_once=3), f"--fail 'zone' --at-once 3: the snapshot has 2 values of the node label '{ZONE_KEY}'"),
        (SurviveOptions(at_once=5), "--fail 'node' --at-once 5: the snapshot has 4 nodes"),
    ],
)  # fmt: skip
def test_failures_that_cannot_be_are_bad_input(asked: SurviveOptions, expected: str) -> None:
    with pytest.raises(InputError) as caught:
        ask(cluster(), asked)
    assert caught.value.problems == [expected]


def test_all_nodes_may_fail_at_once() -> None:
    result = ask(cluster(2, 3), SurviveOptions(at_once=2))
    assert [(found.failed, found.least) for found in result.counterexamples] == [(["n0", "n1"], 3)]


def test_daemon_pods_and_static_pods_do_not_come_back() -> None:
    daemon = pod("agent", cpu="4", node_name="n0", owner="DaemonSet/agent")
    static = pod("proxy-n1", cpu="4", node_name="n1", owner="Node/n1")
    result = ask([node("n0"), node("n1"), daemon, static])
    assert {(scenario.displaced, scenario.by) for scenario, _ in failures(result)} == {(0, "nothing")}


# --- running out of time ----------------------------------------------------------------------------------------------------------


def test_what_is_certain_is_kept_when_it_is_interrupted() -> None:
    stop = threading.Event()

    def on_progress(progress: Progress) -> None:
        if progress.detail is not None and "distinct failures decided" in progress.detail:
            stop.set()

    objects = [node(f"n{i}", cpu=str(4 + i), labels={ZONE_KEY: "z"}) for i in range(120)]
    objects += [pod(f"p{i}", cpu="1", node_name=f"n{i % 120}", owner="ReplicaSet/r") for i in range(240)]
    result = survive(from_objects(objects), SurviveOptions(), OPTIONS, on_progress=on_progress, stop=stop)
    outcomes = [scenario.outcome for scenario in result.outcomes]
    assert outcomes[:50] == ["survives"] * 50
    assert set(outcomes[50:]) == {"unknown"}
    assert not result.certified
    assert (result.scenarios.all, result.scenarios.solved, result.scenarios.open) == (120, 50, 70)
    assert any("interrupted" in note for note in result.notes)


def test_a_deterministic_run_says_the_same_again() -> None:
    options = Options(time_limit=5, deterministic=True)
    snapshot = running(2, "spread")
    first, again = (survive(snapshot, SurviveOptions(at_once=2), options) for _ in range(2))
    assert first == again
    assert first.seconds is None


# --- certificates put together ----------------------------------------------------------------------------------------------------


def composed(seed: int, kind: str, at_once: int = 2) -> int:
    """Return the number of failures of a random larger cluster that composed certificates decide. All are
    checked against brute force."""
    snapshot = running(seed, kind, nodes=6, pods=7)
    if len(snapshot.nodes) < at_once:
        return 0
    check(snapshot, SurviveOptions(at_once=at_once))
    return survive(snapshot, SurviveOptions(at_once=at_once), OPTIONS).scenarios.composed


@pytest.mark.full
def test_certificates_of_single_failures_are_put_together() -> None:
    assert composed(1, "anti")


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_certificates_of_single_failures_are_put_together_where_that_is_right(kind: str) -> None:
    for seed in range(12):
        composed(seed, kind, at_once=2 + seed % 2)
