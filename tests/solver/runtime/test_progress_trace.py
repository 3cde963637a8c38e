"""Incumbents and bounds over time: nothing is recorded twice, every tier ends with its result, and many points are thinned out."""

from __future__ import annotations

from kubestow.models.documents.placement import TierResult
from kubestow.models.snapshot.snapshot import from_objects
from kubestow.solver.runtime.options import Options
from kubestow.solver.runtime.progress_trace import Trace
from kubestow.solver.solve import place
from tests.objects import node, pod


def test_points_that_say_nothing_new_are_left_out() -> None:
    trace = Trace()
    for seconds, value, bound in ((0.1, 3, None), (0.2, 3, None), (0.3, 4, None), (0.4, 4, 9), (0.5, 4, 9)):
        trace.note("placed", 0, seconds, value, bound)
    points = trace.finish([TierResult("placed", 4, 5, 0)], 1.0)
    assert [(p.seconds, p.value, p.bound) for p in points] == [(0.1, 3, None), (0.3, 4, None), (0.4, 4, 9), (1.0, 4, 5)]


def test_tiers_come_in_the_order_of_the_objective_and_end_with_their_results() -> None:
    trace = Trace()
    trace.note("soft", None, 0.5, 7, 9)
    trace.note("placed", 0, 0.1, 1, 2)
    trace.note("placed", 5, 0.2, 3, 3)
    points = trace.finish([TierResult("placed", 3, 3, 5), TierResult("placed", 2, 2, 0), TierResult("soft", 8, 8)], 1.0)
    assert [(p.tier, p.priority, p.value) for p in points] == [
        ("placed", 5, 3), ("placed", 0, 1), ("placed", 0, 2), ("soft", None, 7), ("soft", None, 8),
    ]  # fmt: skip


def test_many_points_are_thinned_out_between_first_and_last() -> None:
    trace = Trace()
    for i in range(5000):
        trace.note("soft", None, i / 1000, i, 10_000)
    points = trace.finish([TierResult("soft", 4999, 10_000)], 6.0)
    assert len(points) <= 202
    assert (points[0].value, points[-1].value) == (0, 4999)
    assert [p.value for p in points] == sorted(p.value for p in points)


def test_a_placement_says_how_its_tiers_came_about_unless_it_is_deterministic() -> None:
    snapshot = from_objects([node("n1"), node("n2"), *(pod(f"p{i}", cpu="1") for i in range(6))])
    placement = place(snapshot, Options(engine="exact", time_limit=20))
    last = {(p.tier, p.priority): (p.value, p.bound) for p in placement.search}
    assert last == {(t.tier, t.priority): (t.value, t.bound) for t in placement.objective}
    assert place(snapshot, Options(engine="greedy", deterministic=True)).search == []
