"""The benchmark of certificates: what is decided again is decided on its own, and the table says what was measured."""

from __future__ import annotations

import pytest

from instances.generate.worn import Worn
from models.documents.survival import Scenario
from models.snapshot.snapshot import from_objects
from tests.benchmarks.bench_survive import HEADER, Case, agreement, cases, measure, survives
from tests.objects import node, pod

ROOM = [node("n0"), node("n1"), *(pod(f"web-{i}", node_name=f"n{i}", owner="ReplicaSet/web", cpu=f"{1 + 2 * i}") for i in range(2))]


def test_solve_decides_again() -> None:
    assert survives(from_objects(ROOM), ["n0"], 5.0) is True
    assert survives(from_objects([*ROOM, pod("web-2", node_name="n1", owner="ReplicaSet/web", cpu="1")]), ["n0"], 5.0) is False


def test_a_wrong_certificate_is_not_agreed_with() -> None:
    snapshot = from_objects(ROOM)
    right = [Scenario([name], "survives", "search") for name in ("n0", "n1")]
    wrong = [Scenario([name], "pending", "bound", pending=1) for name in ("n0", "n1")]
    case = Case("nodes", Worn(2, 2), "node")
    assert agreement(snapshot, case, right, 4, 5.0) == (2, 2)
    assert agreement(snapshot, case, wrong, 4, 5.0) == (2, 0)


@pytest.mark.full
def test_a_row_has_a_cell_for_each_column() -> None:
    for case in cases(["pairs"], seed=3, scale=4):
        row = measure(case, 20.0, 4)
        assert len(row.cells()) == len(HEADER)
        assert row.agree == row.sampled > 0
        assert row.found.scenarios.all == 28
