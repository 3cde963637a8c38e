"""Pods that wait for a scheduler without any trace in the cluster."""

from __future__ import annotations

import pytest

from kubestow.audit.checks import schedulers
from kubestow.audit.view.view import ClusterView
from kubestow.models.snapshot.snapshot import from_objects
from tests.objects import Object, node, pod


def named(*things: Object) -> list[str]:
    return [finding.object for finding in schedulers.check(ClusterView(from_objects([node("n0"), *things])))]


WAITS = pod("w-0", owner="ReplicaSet/w", schedulerName="volcano")


def test_nothing_of_it_is_seen() -> None:
    assert named(WAITS) == ["ReplicaSet default/w"]
    assert named(pod("w-0", schedulerName="default-scheduler"), pod("x")) == []
    assert list(schedulers.check(ClusterView(from_objects([WAITS])))) == []  # no cluster


@pytest.mark.parametrize(
    "sign",
    [
        pod("volcano-scheduler-x", node_name="n0"),
        pod("x", node_name="n0", labels={"app": "volcano"}),
        pod("x", node_name="n0", schedulerName="volcano"),
    ],
)
def test_what_shows_that_it_runs(sign: Object) -> None:
    assert named(WAITS, sign) == []


@pytest.mark.parametrize("sign", [pod("volcano-x"), pod("x", node_name="n0", labels={"app": "volcano-x"})])
def test_what_does_not(sign: Object) -> None:
    assert named(WAITS, sign) == ["ReplicaSet default/w"]


def test_pods_that_are_not_its_business_yet() -> None:
    gated = pod("w-0", schedulerName="volcano", schedulingGates=[{"name": "example.com/later"}])
    assert named(gated) == []
