"""Who waits because nodes are closed, and who does not mind."""

from __future__ import annotations

import pytest

from kubestow.live.apply.waiting import looked_at, slipping_notes, slips_through, verdict, waits
from kubestow.models.kube.closed_nodes import UNSCHEDULABLE
from kubestow.models.snapshot.snapshot import from_objects
from tests import objects


@pytest.mark.parametrize(
    ("toleration", "slips"),
    [
        ({"operator": "Exists"}, True),
        ({"key": UNSCHEDULABLE, "operator": "Exists"}, True),
        ({"key": UNSCHEDULABLE, "effect": "NoSchedule"}, True),
        ({"key": UNSCHEDULABLE, "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": UNSCHEDULABLE, "value": "x"}, False),
        ({"key": "other", "operator": "Exists"}, False),
    ],
)
def test_tolerations_of_cordons(toleration: objects.Object, slips: bool) -> None:
    pod = objects.pod("p", tolerations=[toleration])
    assert slips_through(pod) is slips
    assert waits(pod) is not slips


def test_bound_gated_and_terminating_pods_do_not_wait() -> None:
    assert waits(objects.pod("p"))
    assert not waits(objects.pod("p", node_name="n"))
    assert not waits(objects.pod("p", schedulingGates=[{"name": "g"}]))
    terminating = objects.pod("p")
    terminating["metadata"]["deletionTimestamp"] = "2026-11-22T12:03:00Z"
    assert not waits(terminating)


def test_workloads_and_bare_pods_that_slip_through_are_named_and_daemon_sets_are_not() -> None:
    everything = [{"operator": "Exists"}]
    spec = objects.pod("x", tolerations=everything)["spec"]
    template = {"metadata": {"labels": {"a": "b"}}, "spec": spec}
    workload = {"apiVersion": "apps/v1", "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}}
    found = from_objects(
        [
            objects.node("n"),
            objects.pod("bare", tolerations=everything),
            objects.pod("there", node_name="n", tolerations=everything),
            objects.pod("plain"),
            {**workload, "kind": "DaemonSet", "metadata": {"name": "d"}},
            {**workload, "kind": "Deployment", "metadata": {"name": "w"}},
        ]
    )
    said = f"closed nodes do not keep out pods that tolerate {UNSCHEDULABLE}; besides DaemonSets these are: "
    assert slipping_notes(found) == [said + "Deployment default/w, Pod default/bare"]
    assert slipping_notes(from_objects([objects.node("n"), objects.pod("plain")])) == []


@pytest.mark.parametrize(
    ("before", "now", "looked"),
    [
        ("5 node(s) were unschedulable", "5 node(s) were unschedulable", False),
        ("5 node(s) were unschedulable", "3 node(s) were unschedulable, 2 Insufficient cpu", False),
        ("5 node(s) were unschedulable", "1 node(s) were unschedulable, 4 Insufficient cpu", True),
        ("1 node(s) were unschedulable, 4 Insufficient cpu", "1 node(s) were unschedulable, 4 Insufficient cpu", True),
        ("5 node(s) were unschedulable", "5 Insufficient cpu", True),
        ("words of another scheduler", "words of another scheduler", False),
        ("words of another scheduler", "other words", True),
        (None, None, False),
        (None, "5 Insufficient cpu", True),
    ],
)
def test_the_scheduler_has_looked_if_it_blames_no_more_nodes_than_are_closed(before: str | None, now: str | None, looked: bool) -> None:
    def said(message: str | None) -> objects.Object:
        pod = objects.pod("p")
        if message is not None:
            pod["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "message": f"0/5 nodes are available: {message}."}]
        return pod

    assert looked_at(said(now), verdict(said(before)), closed=2) is looked
