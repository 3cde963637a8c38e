"""Slices of a run's time: fractions, charges, patience, and stops."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from kubestow.solver.runtime.options import Options
from kubestow.solver.runtime.run_context import RunContext
from tests.solver.time_slices import checks


def test_a_slice_ends_at_its_fraction_of_the_capped_time() -> None:
    context = RunContext.start(Options(time_limit=100.0, deterministic=True))
    time = context.slice(0.5, cap=40.0)
    assert time.remaining() == pytest.approx(20.0)
    assert time.part(0.25).remaining() == pytest.approx(5.0)
    context.deadline.charge(19.0)
    assert not time.is_over()
    context.deadline.charge(1.0)
    assert time.is_over()
    assert not context.over()


def test_each_check_is_charged() -> None:
    time = checks(3)
    assert [time.is_over() for _ in range(4)] == [False, False, False, True]


def test_patience_counts_checks_since_the_last_improvement() -> None:
    time = replace(checks(100), patience=2)
    assert [time.is_over(), time.is_over()] == [False, True]
    time.improved()
    assert not time.is_over()


def test_a_stop_ends_every_slice() -> None:
    stop = threading.Event()
    time = RunContext.start(Options(time_limit=None), stop).slice()
    assert not time.is_over()
    stop.set()
    assert time.is_over()
