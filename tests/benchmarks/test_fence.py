"""Facts behind the table of fencing methods: closed nodes prevent every fault, and the measure detects faults of other methods."""

from __future__ import annotations

import pytest

from tests.benchmarks.bench_fence import closed, gated, measure

pytestmark = pytest.mark.slow


def test_closed_nodes_keep_everybody_off_the_room_of_the_run() -> None:
    measurement = measure(closed, 10, 1)
    assert (measurement.moves, measurement.elsewhere, measurement.on_our_room, measurement.extra_evictions) == (10, 0, 0, 0)


def test_pods_that_wait_take_the_room_of_the_run_where_nodes_are_open() -> None:
    assert measure(gated, 10, 1).on_our_room > 0
