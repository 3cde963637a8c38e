"""Findings of fuzzing: clusters that no API server would have, on which planner and checker must agree nevertheless."""

from __future__ import annotations

from typing import Any

import pytest

from kubestow.models.documents.rebalance_plan import Limits
from kubestow.models.snapshot.snapshot import from_objects
from kubestow.solver.rebalance.problem.options import PlanOptions
from kubestow.solver.rebalance.rebalance import rebalance
from kubestow.solver.runtime.options import Engine, Options
from kubestow.solver.solve import place
from tests.objects import node, pod

Object = dict[str, Any]
LOCAL: Object = {
    "kind": "StorageClass", "apiVersion": "storage.k8s.io/v1", "metadata": {"name": "local"}, "volumeBindingMode": "WaitForFirstConsumer",
}  # fmt: skip


def _with(thing: Object, claim: str) -> Object:
    thing["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]
    return thing


def _claim(name: str, *modes: str) -> Object:
    spec = {"storageClassName": "local", **({"accessModes": list(modes)} if modes else {})}
    return {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def _volume(name: str, *nodes: str, **spec: Any) -> Object:
    if nodes:
        terms = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": list(nodes)}]}]
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    return {
        "kind": "PersistentVolume", "apiVersion": "v1", "metadata": {"name": name}, "spec": {"storageClassName": "local", **spec},
        "status": {"phase": "Available"},
    }  # fmt: skip


def _plan(objects: list[Object], goal: str, engine: Engine = "auto", *, evict: bool = False) -> Any:
    limits = Limits(allowEviction=evict, alsoMove=["bare"] if goal == "repair" else [])
    return rebalance(from_objects(objects), PlanOptions((goal,), (), limits, Options(engine=engine, time_limit=10.0)))


def test_a_running_pod_whose_claim_is_missing_breaks_every_rule_about_volumes() -> None:
    found = _plan([node("n0"), _with(pod("p", node_name="n0"), "gone")], "repair")
    assert found.before.rules == found.after.rules
    assert set(found.before.rules) >= {"VolumeBinding", "VolumeRestrictions", "VolumeZone"}
    assert -found.objective[0].value == sum(found.before.rules.values())


def test_running_pods_that_share_an_open_claim_need_not_meet() -> None:
    """ReadWriteOnce says one node; the filter of a pod that comes does not ask for it."""
    objects = [node("n1"), node("n2"), LOCAL, _volume("pv1", accessModes=["ReadWriteOnce"]), _claim("c", "ReadWriteOnce")]
    objects += [_with(pod(name, node_name=at), "c") for name, at in (("a", "n1"), ("b", "n2"))]
    found = _plan(objects, "repair", evict=True)
    assert (found.before.rules, found.moves, found.evictions) == ({}, [], [])


@pytest.mark.full
@pytest.mark.parametrize("engine", ["greedy", "lns", "exact"])
def test_nobody_lands_who_would_choose_the_volume_of_a_pod_that_runs(engine: Engine) -> None:
    objects = [node("n1"), node("n2"), LOCAL, _volume("pv1", "n1"), _volume("pv3"), _claim("c")]
    objects += [_with(pod("runs", node_name="n2"), "c"), _with(pod("waits"), "c"), pod("free")]
    found = _plan(objects, "admit", engine)
    assert [move.pod for move in found.moves] == ["default/free"]


def test_nodes_that_run_with_far_more_than_they_have_do_not_overflow() -> None:
    objects = [node("small", memory="1Gi"), node("n"), pod("big", memory="8E", node_name="small"), pod("p")]
    found = place(from_objects(objects), Options(time_limit=10.0))
    assert [assignment.node for assignment in found.assignments] == ["n"]
    assert [tier.value for tier in found.objective if tier.tier == "strategy"] == [-(10**12) - 650 - 650 - 280]
    assert _plan(objects, "improve").moves == []
