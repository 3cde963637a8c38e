"""CapacityBuffers whose headroom does not fit now, or that ask for nothing that is known."""

from __future__ import annotations

import time

from kubestow.audit.checks import capacity_buffers
from kubestow.audit.view.view import ClusterView
from kubestow.models.snapshot.snapshot import from_objects
from tests.buffers import buffer, nodes, template
from tests.objects import Object, pod


def told(*things: Object) -> list[tuple[str, str, str]]:
    found = capacity_buffers.check(ClusterView(from_objects([*nodes(1), *things])))
    return [(finding.code, finding.severity, finding.message) for finding in found]


def test_chunks_that_do_not_fit() -> None:
    assert told(template("t"), buffer("b", "t", 3)) == [("KS522", "warning", "2 of 3 chunks fit now (proved)")]
    assert told(template("t"), buffer("b", "t", 2)) == []
    assert told(template("t"), buffer("b", "t", 2), pod("p", cpu="2", node_name="n0"))[0][2] == "1 of 2 chunks fits now (proved)"


def test_pods_that_wait_in_vain_are_named() -> None:
    found = told(template("t"), buffer("b", "t", 3), pod("p", cpu="9"))
    assert found[0][2] == "2 of 3 chunks fit now (proved), in addition to 1 pending pod without a place"


def test_what_is_missing_is_an_error_and_what_is_not_known_a_warning() -> None:
    assert [each[:2] for each in told(buffer("b", "t", 3))] == [("KS228", "error")]
    assert [each[:2] for each in told(template("t"), buffer("b", "t", 3, provisioningStrategy="x"))] == [("KS228", "warning")]


def test_without_nodes_nothing_has_to_fit() -> None:
    view = ClusterView(from_objects([template("t"), buffer("b", "t", 3)]))
    assert list(capacity_buffers.check(view)) == []


def test_without_time_it_is_said() -> None:
    view = ClusterView(from_objects([*nodes(1), template("t"), buffer("b", "t", 3)]), deadline=time.monotonic() - 1)
    assert list(capacity_buffers.check(view)) == []
    assert view.not_checked == ["the headroom of CapacityBuffers (KS522): no time was left"]
