"""The effects of a run are no drift; the later fate of its own pods is. Which messages appear, how often, and which facts are ignored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kubestow.commands.apply.remaining_steps import judge_rest
from kubestow.live.apply.differences.found import Drift, summed_up
from kubestow.live.apply.drift import Document, DoneChanges, DriftWatch, Now, Rejection, compare, remaining_document
from kubestow.models.documents.rebalance_plan import Eviction, RebalancePlan
from kubestow.models.snapshot.snapshot import Snapshot
from tests.live.apply.drift_cluster import DriftCluster, budget, claim, move, placement, plan, running, uid, verdict, volume
from tests.objects import node, pod

WEB = uid("Pod", "default/web-1")
#: web-1 goes to n2, and on to n3; low-1 goes for good.
PLAN = plan(
    move("web-1", "n1", "n2", stopover=True),
    move("web-1", "n2", "n3", step=3, wave=3),
    Eviction(2, 2, "default/low-1", "n2", "test"),
)


def _cluster() -> DriftCluster:
    return DriftCluster(
        [
            *(node(name) for name in ("n1", "n2", "n3")),
            running("web-1", "n1", "ReplicaSet/web"),
            running("low-1", "n2", "ReplicaSet/low"),
            running("bare-1", "n3", "ReplicaSet/bare"),
            budget("web", 1, minAvailable=0),
        ]
    )


def _after_one() -> tuple[DriftCluster, DoneChanges]:
    """web-1 is stopped, and web-9 has taken its place on n2; all nodes are closed."""
    now = _cluster()
    now.remove("Pod", "default/web-1")
    now.add(running("web-9", "n2", "ReplicaSet/web"))
    for name in ("n1", "n2", "n3"):
        now.node(name)["spec"] = {"unschedulable": True, "taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]}
    done = DoneChanges(
        {(1, "default/web-1")}, {WEB}, {"default/web-1": Now("default/web-9", uid("Pod", "default/web-9"), "n2")}, {"n1", "n2", "n3"}
    )
    return now, done


def _told(now: DriftCluster, done: DoneChanges) -> list[str]:
    return [drift.message for drift in compare(_cluster().loaded(), now.captured(), done)]


def test_replacements_and_closed_nodes_are_no_drift() -> None:
    now, done = _after_one()
    assert _told(now, done) == []
    assert verdict(_cluster(), now, PLAN, done).faults == []


def test_a_node_that_was_cordoned_before_is_not_opened_for_the_judge() -> None:
    before, (now, done) = _cluster(), _after_one()
    before.node("n3")["spec"] = {"unschedulable": True}
    now.node("n1")["metadata"]["labels"]["new"] = "label"
    assert any("NodeUnschedulable" in fault for fault in verdict(before, now, PLAN, done).faults)


def test_what_comes_after_an_eviction_for_good_is_the_doing_of_the_run_once() -> None:
    now, done = _after_one()
    now.remove("Pod", "default/low-1")
    done.steps.add((2, "default/low-1"))
    done.gone.add(uid("Pod", "default/low-1"))
    now.add(running("low-8", None, "ReplicaSet/low"))
    assert _told(now, done) == []
    now.add(running("low-9", None, "ReplicaSet/low"))
    assert _told(now, done) == ["Pod default/low-9 is new and waits for a node"]


def test_replacements_that_others_delete_or_move_end_the_run_where_they_go_on() -> None:
    now, done = _after_one()
    now.pod("web-9")["spec"]["nodeName"] = "n1"
    assert _told(now, done) == ["Pod default/web-9, which replaces default/web-1, is on node n1, this run put it on node n2"]
    label = "Pod default/web-9, which replaces default/web-1, of a coming step"
    assert verdict(_cluster(), now, PLAN, done).faults == [f"{label} is on node n1, it should be on node n2"]
    done.steps.add((3, "default/web-1"))
    assert verdict(_cluster(), now, PLAN, done).faults == []
    done.steps.remove((3, "default/web-1"))
    now.remove("Pod", "default/web-9")
    assert verdict(_cluster(), now, PLAN, done).faults == [f"{label} is gone"]


@pytest.mark.parametrize("replaced", [True, False])
def test_the_target_of_a_pod_that_is_under_way_is_spoken_for(replaced: bool) -> None:
    """Stopped by the run, and not bound yet, be there a replacement or none so far."""
    document = plan(move("web-1", "n1", "n2"), move("low-1", "n2", "n3", step=2, wave=2))
    now = _cluster()
    now.remove("Pod", "default/web-1")
    done = DoneChanges(set(), {WEB})
    if replaced:
        now.add(running("web-9", None, "ReplicaSet/web"))
        done.pods["default/web-1"] = Now("default/web-9", uid("Pod", "default/web-9"), None)
    assert verdict(_cluster(), now, document, done).faults == []
    now.add(running("big", "n2", "ReplicaSet/big", cpu="2500m"))
    found = verdict(_cluster(), now, document, done).faults
    assert len(found) == 1
    assert "on n2: NodeResourcesFit: step 1 (wave 1)" in found[0]
    assert "Pod default/big is new on node n2" in found[0]


def test_a_claim_that_a_pod_of_the_run_binds_is_no_drift() -> None:
    document = placement(("a", "n1"), ("b", "n2"))
    mounts: dict[str, Any] = {"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]}
    before = DriftCluster([node("n1"), node("n2"), pod("a", **mounts), pod("b"), claim("data", "")])
    before.get("PersistentVolumeClaim", "default/data")["status"]["phase"] = "Pending"
    now = before.copy()
    now.add(claim("data", "pv"))
    now.add(volume("pv", "data", "n1"))
    now.pod("a")["spec"]["nodeName"] = "n1"
    assert verdict(before, now, document).faults == ["Pod default/a of a coming step is on node n1, it should be without a node"]
    done = DoneChanges({(1, "default/a")}, set(), {"default/a": Now("default/a", uid("Pod", "default/a"), "n1")})
    found = verdict(before, now, document, done)
    assert (found.faults, found.harmless) == ([], [])


# --- budgets ------------------------------------------------------------------------------------------------------------------


def test_a_budget_that_is_used_up_ends_the_run_for_the_coming_wave_and_may_pass() -> None:
    now = _cluster()
    now.get("PodDisruptionBudget", "default/web")["status"]["disruptionsAllowed"] = 0
    first = verdict(_cluster(), now, plan(move("web-1", "n1", "n2")))
    assert first.passing
    assert first.faults == [
        "default/web-1 on n1: PodDisruptionBudget: wave 1 evicts 1 pods of budget default/web, which allows 0 then"
        " – PodDisruptionBudget default/web allows 0 disruptions now, 1 before"
    ]
    later = verdict(_cluster(), now, plan(move("low-1", "n2", "n1"), move("web-1", "n1", "n2", step=2, wave=2)))
    assert not later.faults
    assert [drift.what for drift in later.harmless] == ["disruptions"]


def test_a_budget_that_is_used_up_for_a_later_wave_is_asked_again_before_that_wave() -> None:
    now, document = _cluster(), plan(move("bare-1", "n3", "n1"), move("web-1", "n1", "n2", step=2, wave=2))
    now.get("PodDisruptionBudget", "default/web")["status"]["disruptionsAllowed"] = 0
    watch = DriftWatch(_cluster().loaded(), document, judge_rest)
    assert watch.check(now.captured(), DoneChanges()).faults == []
    now.pod("bare-1")["spec"]["nodeName"] = "n1"
    stands = {"default/bare-1": Now("default/bare-1", uid("Pod", "default/bare-1") + "-again", "n1")}
    now.again("Pod", "default/bare-1")
    done = DoneChanges({(1, "default/bare-1")}, {uid("Pod", "default/bare-1")}, stands)
    found = watch.check(now.captured(), done)
    assert found.passing
    assert found.faults


def test_a_budget_that_was_changed_ends_the_run_before_the_wave_that_it_is_about() -> None:
    now = _cluster()
    now.add(budget("web", 0, minAvailable=1))
    found = verdict(_cluster(), now, plan(move("low-1", "n2", "n1"), move("web-1", "n1", "n2", step=2, wave=2)))
    assert not found.passing
    assert "wave 2 evicts 1 pods" in found.faults[0]


def test_what_the_run_takes_of_a_budget_itself_is_no_drift_until_the_replacement_is_ready() -> None:
    now, done = _after_one()
    now.get("PodDisruptionBudget", "default/web")["status"]["disruptionsAllowed"] = 0
    now.pod("web-9")["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    assert _told(now, done) == []
    now.pod("web-9")["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    assert _told(now, done) == ["PodDisruptionBudget default/web allows 0 disruptions now, 1 before"]


# --- messages -----------------------------------------------------------------------------------------------------------------


def test_harmless_drift_is_judged_and_told_once() -> None:
    asked = []

    def judge(snapshot: Snapshot, left: Document) -> Sequence[Rejection]:
        asked.append(left)
        return ()

    document, now = plan(move("web-1", "n1", "n2")), _cluster()
    watch = DriftWatch(_cluster().loaded(), document, judge)
    assert watch.check(now.captured(), DoneChanges()).harmless == []
    assert not asked  # nothing differs from what was judged before
    now.add(pod("late"))
    assert [len(watch.check(now.captured(), DoneChanges()).new) for _ in range(2)] == [1, 0]
    assert len(asked) == 1
    now.node("n3")["metadata"]["labels"]["x"] = "y"
    found = watch.check(now.captured(), DoneChanges())
    assert ([drift.kind for drift in found.new], len(found.harmless), len(asked)) == (["Node"], 2, 2)


def test_what_is_not_readable_is_a_sentence() -> None:
    now = _cluster()
    now.add(pod("odd"))["metadata"]["annotations"] = {"kubestow.dev/gang": "g", "kubestow.dev/min-member": "many"}
    assert any(
        fault.startswith("the cluster cannot be judged: ") for fault in verdict(_cluster(), now, plan(move("web-1", "n1", "n2"))).faults
    )


def test_many_of_a_kind_are_summed_up() -> None:
    found = [Drift("Pod", f"default/p{i}", "gone", f"Pod default/p{i} is gone") for i in range(43)]
    found.append(Drift("Node", "n1", "gone", "Node n1 is gone"))
    assert summed_up(reversed(found)) == [
        "Node n1 is gone", "Pod default/p0 is gone", "Pod default/p1 is gone", "Pod default/p10 is gone",
        "and 40 more like this (Pod, gone)",
    ]  # fmt: skip


def test_the_rest_keeps_the_numbers_of_steps_and_waves() -> None:
    left = remaining_document(PLAN, _after_one()[1])
    assert isinstance(left, RebalancePlan)
    assert [(m.step, m.wave, m.pod, m.source, m.to) for m in left.moves] == [(3, 3, "default/web-9", "n2", "n3")]
    assert [(e.step, e.wave, e.pod) for e in left.evictions] == [(2, 2, "default/low-1")]
