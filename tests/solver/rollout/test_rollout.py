from __future__ import annotations

import json
import threading
from dataclasses import replace
from functools import cache
from pathlib import Path

import msgspec
import pytest

from kubestow.checker.rollout import verify_rollout
from kubestow.models.documents import placement as doc
from kubestow.models.documents.placement import Edits, Placement, Remedy
from kubestow.models.edits.edits import apply
from kubestow.models.kube import objects as kube_objects
from kubestow.models.kube import workload_objects
from kubestow.models.snapshot.snapshot import InputError, Snapshot, from_objects, load
from kubestow.models.workloads.rollout_input import read
from kubestow.report.terminal.canvas import Surface, render
from kubestow.report.terminal.rollout import rollout as drawn
from kubestow.solver.rollout.exhaustive import node_classes
from kubestow.solver.rollout.remedies import least
from kubestow.solver.rollout.search import RolloutSearch
from kubestow.solver.rollout.simulate import problem_of, roll_out
from kubestow.solver.rollout.state import compiled
from kubestow.solver.runtime.options import Options, Progress
from kubestow.solver.runtime.run_context import RunContext
from tests.objects import Object, node, pod
from tests.solver.rollout.rollouts import APP, HOST, ZONE, Brute, apart, deployment, even, old, replica_set, rolling, tiny
from tests.tiers import sampled

INSTANCES = Path(__file__).resolve().parents[3] / "instances"
QUICK = Options(time_limit=20.0, workers=1)


def solve(objects: list[Object], manifests: list[Object] | None = None, options: Options = QUICK) -> Placement:
    return roll_out(from_objects(objects), "web", None if manifests is None else from_objects(manifests), options)


def story(placement: Placement) -> list[tuple[int, int, int]]:
    """Per wave: pods placed, pods that wait, old pods that go."""
    assert placement.rollout is not None
    return [(len(w.create), len(w.waiting), len(w.delete)) for w in placement.rollout.waves]


def changes(placement: Placement) -> dict[str, dict[str, str]]:
    assert placement.rollout is not None
    return {way.change: way.arguments for way in placement.rollout.waysOut}


# --- the seed's story -------------------------------------------------------------------------------------------------------


@cache
def seed(name: str) -> Placement:
    return roll_out(load([str(INSTANCES / name)]), "app", None, QUICK)


def test_two_replicas_on_two_nodes_that_keep_apart_deadlock() -> None:
    found = seed("rollout-deadlock.yaml")
    assert found.status == "infeasible"
    assert found.rollout is not None
    assert (found.rollout.complete, found.rollout.proved) == (False, True)
    assert (found.rollout.maxSurge, found.rollout.maxUnavailable) == (1, 0)
    assert story(found) == [(0, 1, 0)]
    assert [reason.rule for reason in found.rollout.stuck[0].reasons] == ["InterPodAffinity"]
    assert [(t.value, t.bound) for t in found.objective] == [(0, 0)]
    assert len(found.unplaced) == 2
    assert [reason.rule for reason in found.unplaced[1].reasons] == ["Deployment"]


def test_what_frees_the_deadlock() -> None:
    """Not the new template's anti-affinity made preferred: the running pods require theirs towards every newcomer."""
    assert changes(seed("rollout-deadlock.yaml")) == {
        "maxUnavailable": {"to": "1"},
        "addNodes": {"count": "1", "like": "n1"},
        "reduceReplicas": {"workload": "Deployment default/app", "to": "1"},
        "strategy": {"to": "Recreate"},
    }


def test_a_third_node_lets_it_through() -> None:
    found = seed("rollout-three-nodes.yaml")
    assert found.status == "optimal"
    assert story(found) == [(1, 0, 1), (1, 0, 1)]
    assert found.assignments[0].node == "n3"
    assert found.assignments[1].node in ("n1", "n2")
    assert found.rollout is not None
    assert found.rollout.waysOut == []


def test_a_revision_that_counts_only_itself_goes_through_at_once() -> None:
    affinity = apart(matchLabelKeys=["pod-template-hash"])
    pods = [old(i, f"n{i}", affinity=affinity) for i in range(2)]
    found = solve([node("n0"), node("n1"), deployment(affinity=affinity), replica_set(), *pods])
    assert story(found) == [(1, 0, 1), (1, 0, 1)]


def test_anti_affinity_that_only_the_new_template_requires_may_be_made_preferred() -> None:
    pods = [old(i, f"n{i}") for i in range(2)]
    found = solve([node("n0"), node("n1"), deployment(affinity=apart()), replica_set(), *pods])
    assert found.rollout is not None
    assert json.loads(changes(found)["preferTerm"]["term"])["topologyKey"] == HOST
    assert found.status == "infeasible"


def table(placement: Placement) -> str:
    assert placement.rollout is not None
    return render(list(drawn(placement.rollout, Surface(120))), Surface(120)).decode()


def test_the_table_tells_it() -> None:
    stuck, through = table(seed("rollout-deadlock.yaml")), table(seed("rollout-three-nodes.yaml"))
    assert "Rollout of Deployment default/app: 2 replicas, maxSurge 1, maxUnavailable 0" in stuck
    assert "deadlock with 0 of 2 new pods placed, 0 old pods gone (proved" in stuck
    assert "  maxUnavailable 1 instead of 0\n" in stuck
    assert "  1 more node like n1  (--add-nodes 1:n1)\n" in stuck
    assert "completes in 2 waves" in through
    assert " on n3 " in through


# --- spread -----------------------------------------------------------------------------------------------------------------


def zoned(constraint: Object) -> Placement:
    """Zone z1 has one node, z2 two; four replicas, surge 1. Old: two in each zone."""
    nodes = [node(name, pods="3", labels={ZONE: zone}) for name, zone in (("a", "z1"), ("b", "z2"), ("c", "z2"))]
    pods = [old(i, where) for i, where in enumerate(("a", "a", "b", "c"))]
    strategy = rolling(1, 0)
    return solve([*nodes, deployment(4, strategy=strategy, spread=[constraint]), replica_set(), *pods])


def test_spread_by_revision_keeps_the_new_pods_even_at_every_step() -> None:
    found = zoned(even(matchLabelKeys=["pod-template-hash"]))
    assert found.status == "optimal"
    zones = ["z1" if a.node == "a" else "z2" for a in found.assignments]
    for step in range(1, 5):
        assert abs(zones[:step].count("z1") - zones[:step].count("z2")) <= 1


def test_spread_over_all_revisions_follows_what_has_gone() -> None:
    assert zoned(even()).status == "optimal"


def test_a_zone_without_room_halts_a_spread_rollout() -> None:
    """z1 is full and stays so: the second new pod may not join the first in z2."""
    nodes = [node("a", pods="1", labels={ZONE: "z1"}), node("b", pods="9", labels={ZONE: "z2"})]
    blocked = [*nodes, pod("x", node_name="a"), deployment(2, strategy=rolling(1, 0), spread=[even(matchLabelKeys=["pod-template-hash"])])]
    found = solve([*blocked, replica_set(), old(0, "b"), old(1, "b")])
    assert found.rollout is not None
    assert (found.rollout.complete, found.rollout.proved) == (False, True)
    assert story(found)[0] == (1, 0, 1)
    assert found.status == "feasible"
    assert [(t.value, t.bound) for t in found.objective] == [(1, 1)]
    assert "scheduleAnyway" in changes(found)
    assert changes(found)["addNodes"] == {"count": "1", "like": "a"}


# --- strategies and resources -----------------------------------------------------------------------------------------------


def test_without_surge_old_pods_go_first() -> None:
    pods = [old(i, f"n{i}", affinity=apart()) for i in range(3)]
    nodes = [node(f"n{i}") for i in range(3)]
    found = solve([*nodes, deployment(3, strategy=rolling(0, 1), affinity=apart()), replica_set(), *pods])
    assert story(found) == [(0, 0, 1), (1, 0, 1), (1, 0, 1), (1, 0, 0)]


def test_recreate_takes_all_down_first() -> None:
    pods = [old(i, f"n{i}", affinity=apart()) for i in range(2)]
    found = solve([node("n0"), node("n1"), deployment(2, strategy={"type": "Recreate"}, affinity=apart()), replica_set(), *pods])
    assert story(found) == [(0, 0, 2), (2, 0, 0)]
    assert found.rollout is not None
    assert found.rollout.strategy == "Recreate"


def test_percentages_are_of_the_replicas() -> None:
    """30 % of 5: two above, one missing."""
    pods = [old(i, "n0") for i in range(5)]
    found = solve([node("n0"), deployment(5, strategy=rolling("30%", "30%")), replica_set(), *pods])
    assert found.rollout is not None
    assert (found.rollout.maxSurge, found.rollout.maxUnavailable) == (2, 1)
    assert story(found) == [(2, 0, 3), (3, 0, 2)]


def test_no_room_for_the_surge() -> None:
    """Two nodes of two pods each, all taken: one may be missing, so one goes, and the rest follows one at a time."""
    full = [node("n0", pods="2"), node("n1", pods="2"), replica_set(), *(old(i, f"n{i % 2}") for i in range(4))]
    stuck = solve([*full, deployment(4, strategy=rolling(1, 0))])
    assert stuck.rollout is not None
    assert (stuck.rollout.proved, changes(stuck)["maxUnavailable"]) == (True, {"to": "1"})
    assert {r.rule for r in stuck.rollout.stuck[0].reasons} == {"NodeResourcesFit"}
    found = solve([*full, deployment(4, strategy=rolling(1, 1))])
    assert story(found)[0] == (0, 1, 1)
    assert found.status == "optimal"


def test_larger_pods_that_do_not_fit_even_alone() -> None:
    """The final state is impossible: no strategy helps, only room and fewer replicas do."""
    pods = [old(i, "n0", cpu="1") for i in range(4)]
    found = solve([node("n0", cpu="6"), replica_set(), *pods], [deployment(4, cpu="2", strategy=rolling(1, 1))])
    assert found.rollout is not None
    assert (found.rollout.complete, found.rollout.proved) == (False, True)
    assert changes(found) == {
        "addNodes": {"count": "1", "like": "n0"}, "reduceReplicas": {"workload": "Deployment default/web", "to": "3"},
    }  # fmt: skip


def test_old_pods_that_do_not_serve_go_first() -> None:
    pods = [old(0, "n0"), old(1, "n0", ready=False), old(2, None)]
    found = solve([node("n0"), deployment(3, strategy=rolling(1, 1)), replica_set(), *pods])
    assert found.rollout is not None
    assert found.rollout.waves[0].delete == ["default/web-0ld-2", "default/web-0ld-1"]
    assert found.status == "optimal"


def crossroads() -> list[Object]:
    """New pods lie in zones of their own: x and v in z0, y, which is full, in z1. On x the first one shares the node with an old pod, which
    therefore is the one to go, and y stays full; on v it does not, and the younger old pod goes, that of y."""
    nodes = [node("x", pods="2", labels={ZONE: "z0"}), node("v", labels={ZONE: "z0"}), node("y", pods="1", labels={ZONE: "z1"})]
    pods = [old(0, "x"), old(1, "y")]
    pods[0]["metadata"]["creationTimestamp"], pods[1]["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"
    anti = apart(ZONE, matchLabelKeys=["pod-template-hash"])
    return [*nodes, deployment(2, strategy=rolling(1, 0), affinity=anti), replica_set(), *pods]


def test_where_the_first_pod_goes_decides_whether_the_second_has_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a final placement to go for, the first node is taken, and the search has to come back to it."""
    monkeypatch.setattr(RolloutSearch, "_target", lambda self, state: {})
    found = solve(crossroads())
    assert found.status == "optimal"
    assert [a.node for a in found.assignments] == ["v", "y"]
    problem = problem_of(read(from_objects(crossroads()), "web", None), QUICK)
    assert not RolloutSearch(problem, RunContext.start(QUICK), 0).run().complete


def test_old_pods_may_lend_the_new_ones_what_they_require() -> None:
    """The new pods require a pod of version 1 on their node; without the old ones none could be placed, and yet it goes through."""
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"version": "1"}}}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    pods = [old(i, "n0") for i in range(2)]
    for each in pods:
        each["metadata"]["labels"]["version"] = "1"
    found = solve([node("n0"), deployment(2, labels={**APP, "version": "2"}, affinity=affinity), replica_set(), *pods])
    assert story(found) == [(1, 0, 1), (1, 0, 1)]


def lent() -> Snapshot:
    """As above, but n0 has no room for the second new pod."""
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"version": "1"}}}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    pods = [old(i, "n0") for i in range(2)]
    for each in pods:
        each["metadata"]["labels"]["version"] = "1"
    template = deployment(2, labels={**APP, "version": "2"}, affinity=affinity, cpu="2500m")
    return from_objects([node("n0"), node("n1"), template, replica_set(), *pods])


def test_a_halt_that_was_not_searched_to_the_end_is_not_proved() -> None:
    problem = problem_of(read(lent(), "web", None), QUICK)
    found = {}
    for states in (0, 100):
        found[states] = RolloutSearch(problem, RunContext.start(QUICK), states).run()
    assert [(c.complete, c.placed, c.proved) for c in found.values()] == [(False, 1, False), (False, 1, True)]
    assert found[0].bound == 2
    assert found[100].bound == 1


def test_zones_that_old_pods_leave_are_not_known() -> None:
    """Both zones are published as taken: the new pod is refused after the old one has gone, but that proves nothing."""
    zones = [
        {"name": f"node-{i}", "type": "Node", "resources": [{"name": "cpu", "capacity": "2", "allocatable": "2", "available": "0"}]}
        for i in range(2)
    ]
    topology = {
        "apiVersion": "topology.node.k8s.io/v1alpha2", "kind": "NodeResourceTopology", "metadata": {"name": "n0"},
        "topologyPolicies": ["SingleNUMANodeContainerLevel"], "zones": zones,
    }  # fmt: skip
    whole: Object = {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "2", "memory": "1Gi"}}}]}
    found = solve([node("n0"), topology, deployment(1, strategy=rolling(0, 1), **whole), replica_set(), old(0, "n0", **whole)])
    assert found.rollout is not None
    assert (found.rollout.complete, found.rollout.proved) == (False, False)
    assert [r.rule for r in found.rollout.stuck[0].reasons] == ["NodeResourceTopologyMatch"]
    assert [t.bound for t in found.objective] == [1]
    assert found.status == "feasible"
    assert found.notes == ["the NUMA zones of old pods count as taken after the pods have gone, because the released zones are unknown"]


def test_nodes_that_are_alike() -> None:
    """Equal but for the name; a label that is shared, other taints or another pod on it make a difference."""
    nodes = [node(f"n{i}") for i in range(4)] + [node("n4", labels={"rack": "r"}), node("n5", unschedulable=True)]
    objects = [*nodes, deployment(1), pod("x", node_name="n1"), pod("y", node_name="n2"), pod("z", cpu="1", node_name="n3")]
    problem = problem_of(read(from_objects(objects), "web", None), QUICK)
    assert node_classes(problem, compiled(problem)) == [0, 1, 1, 2, 3, 4]
    racks = [node("a", labels={"rack": "a"}), node("b", labels={"rack": "b"}), node("c", labels={"rack": "a"})]
    problem = problem_of(read(from_objects([*racks, deployment(1)]), "web", None), QUICK)
    assert node_classes(problem, compiled(problem)) == [0, 1, 0]


# --- the document -----------------------------------------------------------------------------------------------------------


def test_other_pods_keep_waiting_and_terminating_ones_are_gone() -> None:
    going = old(2, "n0", affinity=apart())
    going["metadata"]["deletionTimestamp"] = "2026-01-02T00:00:00Z"
    pods = [old(0, "n1", affinity=apart()), going, pod("other")]
    found = solve([node("n0"), node("n1"), deployment(1, affinity=apart()), replica_set(), *pods])
    assert found.status == "optimal"
    assert found.notes == [
        "other pending pods are left out of the rollout: 1 (default/other)",
        "terminating pods of the Deployment are taken as gone: 1",
    ]


def test_the_document_reads_back_and_names_the_rollout() -> None:
    plain = json.loads(json.dumps(doc.to_builtins(seed("rollout-three-nodes.yaml"))))
    again = doc.from_builtins(plain, doc.Placement)
    assert again.snapshot.rollout == "app"
    assert verify_rollout(load([str(INSTANCES / "rollout-three-nodes.yaml")]), again) == []
    assert list(plain).index("rollout") < list(plain).index("notes")


def test_deterministic_runs_give_the_same_bytes() -> None:
    options = Options(time_limit=20.0, deterministic=True, workers=1)
    twice = [msgspec.json.encode(roll_out(tiny(11), "web", None, options)) for _ in range(2)]
    assert twice[0] == twice[1]


def test_progress_stop_and_no_nodes() -> None:
    heard: list[Progress] = []
    stop = threading.Event()
    stop.set()
    found = roll_out(load([str(INSTANCES / "rollout-deadlock.yaml")]), "app", None, QUICK, on_progress=heard.append, stop=stop)
    assert found.status == "unknown"
    assert found.rollout is not None
    assert (found.rollout.proved, found.rollout.waysOut) == (False, [])
    assert {p.phase for p in heard} == {"compile", "search", "verify"}
    nothing = solve([deployment(1)])
    assert nothing.status == "infeasible"
    assert [r.rule for r in nothing.unplaced[0].reasons] == ["NoNodes"]


def test_no_replicas_and_no_such_deployment() -> None:
    found = solve([node("n0"), deployment(0), replica_set(), old(0, "n0")])
    assert (found.status, story(found), found.objective) == ("optimal", [(0, 0, 1)], [])
    with pytest.raises(InputError, match="no such Deployment"):
        roll_out(from_objects([node("n0")]), "web", None, QUICK)


@pytest.mark.parametrize(("low", "high", "first", "expected"), [(1, 8, 5, 5), (1, 8, 1, 1), (1, 8, 8, 8), (1, 8, 9, None), (3, 2, 0, None)])
def test_least(low: int, high: int, first: int, expected: int | None) -> None:
    assert least(low, high, lambda n: n >= first) == expected


# --- against brute force ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", sampled(range(10), every=5))
def test_a_rollout_completes_iff_brute_force_completes_it(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubestow.solver.rollout.simulate.RolloutRemedies.find", lambda self: [])  # judged below
    for number in range(block * 30, block * 30 + 30):
        snapshot = tiny(number)
        found = roll_out(snapshot, "web", None, QUICK).rollout
        assert found is not None
        assert (found.complete, found.proved) == (Brute(snapshot).completes(), True), number


def changed(snapshot: Snapshot, way: Remedy) -> Snapshot:
    """The snapshot with a way out taken by hand, on the Deployment's object or by an edit."""
    if way.change in ("addNodes", "reduceReplicas"):
        edits = Edits(addNodes=way.options[1:]) if way.change == "addNodes" else Edits(replicas=way.options[1:])
        return apply(snapshot, None, edits).snapshot
    found: workload_objects.Deployment = snapshot.workloads["Deployment"][0]
    spec = found.spec
    assert spec is not None
    if way.change == "strategy":
        new = msgspec.structs.replace(spec, strategy=workload_objects.DeploymentStrategy(way.arguments["to"]))
    elif way.change in ("maxSurge", "maxUnavailable"):
        steps = read(snapshot, "web", None).pace
        update = workload_objects.RollingUpdate(maxSurge=steps.surge, maxUnavailable=steps.unavailable)
        setattr(update, way.change, int(way.arguments["to"]))
        new = msgspec.structs.replace(spec, strategy=workload_objects.DeploymentStrategy("RollingUpdate", update))
    else:
        assert spec.template is not None
        assert spec.template.spec is not None
        plain = msgspec.to_builtins(spec.template.spec)
        if way.change == "scheduleAnyway":
            constraint = json.loads(way.arguments["constraint"])
            plain["topologySpreadConstraints"].remove(constraint)
        else:
            term = json.loads(way.arguments["term"])
            plain["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"].remove(term)
        template = msgspec.structs.replace(spec.template, spec=msgspec.convert(plain, kube_objects.PodSpec))
        new = msgspec.structs.replace(spec, template=template)
    return replace(snapshot, workloads={**snapshot.workloads, "Deployment": [msgspec.structs.replace(found, spec=new)]})


@pytest.mark.full
def test_every_way_out_works_when_applied() -> None:
    kinds = set()
    for number in range(400, 440):
        snapshot = tiny(number)
        found = roll_out(snapshot, "web", None, QUICK).rollout
        assert found is not None
        for way in found.waysOut:
            kinds.add(way.change)
            assert Brute(changed(snapshot, way)).completes(), (number, way)
    assert len(kinds) >= 5


def test_a_paused_deployment_is_pointed_out() -> None:
    paused = deployment(1)
    paused["spec"]["paused"] = True
    assert any("paused" in note for note in solve([node("a"), node("b"), paused]).notes)
    assert not any("paused" in note for note in solve([node("a"), node("b"), deployment(1)]).notes)
