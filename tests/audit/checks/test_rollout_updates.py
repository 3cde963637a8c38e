"""KS501 and KS502 of DaemonSets that surge."""

from __future__ import annotations

from typing import Any

import pytest

from kubestow.audit.checks import rollout_updates, rollouts
from kubestow.audit.view.view import ClusterView
from kubestow.models.documents.findings.audit import Finding
from kubestow.models.snapshot.snapshot import from_objects
from tests.objects import Object, node
from tests.solver.rollout.updates.test_updates import SURGE, old, rolling, workload

NODES = [node("n1", cpu="2"), node("n2", cpu="2")]


def found(objects: list[Object]) -> list[Finding]:
    return [each for each in rollouts.check(ClusterView(from_objects(objects))) if each.code in ("KS501", "KS502")]


def daemons(cpu: str, **strategy: Any) -> list[Object]:
    return [*NODES, workload("DaemonSet", cpu=cpu, **strategy), *old("DaemonSet", "n1", "n2", cpu=cpu)]


def test_a_surge_without_room_is_a_deadlock() -> None:
    (finding,) = found(daemons("2", **SURGE))
    assert (finding.code, finding.object) == ("KS501", "DaemonSet default/db")
    assert "0 of 2 new pods placed: stuck on node n1: the new pod does not fit next to the old one" in finding.message
    assert finding.fix == "one of: maxUnavailable 1 and maxSurge 0 instead of maxSurge 1"


@pytest.mark.parametrize("strategy", [SURGE, rolling(maxUnavailable=1), {"updateStrategy": {"type": "OnDelete"}}])
def test_updates_that_go_through_are_no_finding(strategy: Object) -> None:
    assert found(daemons("1" if strategy is SURGE else "2", **strategy)) == []


def test_large_daemon_sets_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollout_updates, "MAX_SIMULATED_PODS", 1)
    assert found(daemons("2", **SURGE)) == []
