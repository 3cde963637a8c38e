"""The benchmark of fit: its random instances, and the results of its loop."""

from __future__ import annotations

from kubestow.solver.capacity.fit.question import read
from kubestow.solver.runtime.options import Options
from tests.benchmarks.bench_fit import _LEFT_OUT, cluster, measured, one_by_one, templates


def test_the_loop_never_has_more() -> None:
    rows = list(measured(3, 12, 60))
    assert [row.name for row in rows] == ["0", "1", "2"]
    assert all(row.loop <= row.units <= row.bound for row in rows)
    assert any(row.units for row in rows)


def test_the_loop_ends_with_the_first_pod_that_no_node_takes() -> None:
    snapshot, (_, manifests) = cluster(0, 12, 60), templates(0)
    question = read(snapshot, manifests, _LEFT_OUT, Options())
    assert one_by_one(question, 2) <= 2
    assert one_by_one(question, 40) == one_by_one(question, 50)
