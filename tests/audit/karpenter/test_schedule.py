"""Budgets with a schedule count when cron says so, in UTC."""

from __future__ import annotations

import pytest

from kubestow.audit.karpenter import schedule


def at(text: str) -> int:
    found = schedule.seconds(text)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("cron", "duration", "now", "active"),
    [
        ("0 9 * * *", "8h", "2026-03-04T09:00:00Z", True),  # hit at this very moment
        ("0 9 * * *", "8h", "2026-03-04T16:59:59Z", True),
        ("0 9 * * *", "8h", "2026-03-04T17:00:00Z", False),  # exactly its duration ago
        ("0 9 * * *", "8h", "2026-03-04T08:59:59Z", False),
        ("0 9 * * *", "8h", "2026-03-04T11:30:00+02:00", True),
        ("0 9 * * mon-fri", "8h", "2026-03-07T10:00:00Z", False),  # a Saturday
        ("0 9 * * 6", "8h", "2026-03-07T10:00:00Z", True),
        ("0 9 1 * 6", "8h", "2026-03-07T10:00:00Z", True),  # day or weekday, where both are given
        ("0 9 */2 * 6", "8h", "2026-03-03T10:00:00Z", True),  # an odd day; a star with a step is no star, and so either will do
        ("0 9 */2 * 6", "8h", "2026-03-14T10:00:00Z", True),  # a Saturday
        ("0 9 */2 * 6", "8h", "2026-03-04T10:00:00Z", False),
        ("0 9 */1 * 6", "8h", "2026-03-04T10:00:00Z", False),
        ("0 9 1,* * 6", "8h", "2026-03-04T10:00:00Z", False),  # a star among others is one
        ("*/15 * * * *", "5m", "2026-03-04T10:49:00Z", True),
        ("*/15 * * * *", "5m", "2026-03-04T10:51:00Z", False),
        ("@daily", "10m", "2026-03-04T00:09:30Z", True),
        ("@monthly", "24h", "2026-03-04T00:00:00Z", False),
        ("30 22 * * *", "4h30m", "2026-03-04T02:00:00Z", True),  # over midnight
        ("0 0 1 jan *", "10000h", "2026-03-04T00:00:00Z", True),
    ],
)
def test_a_budget_counts_for_its_duration_after_each_hit(cron: str, duration: str, now: str, active: bool) -> None:
    assert schedule.problem(cron, duration) is None
    assert schedule.active(cron, duration, at(now)) is active


@pytest.mark.parametrize(
    ("cron", "duration", "said"),
    [
        ("* * * *", "1h", "4 fields"),
        ("60 * * * *", "1h", "expected 0 to 59"),
        ("* * 0 * *", "1h", "expected 1 to 31"),
        ("*/0 * * * *", "1h", "expected 0 to 59"),
        ("5-1 * * * *", "1h", "expected 0 to 59"),
        ("x * * * *", "1h", "'x' is not a value"),
        ("@sometimes", "1h", "1 fields"),
        ("@daily", "30s", "duration: '30s'"),
        ("@daily", None, "duration: None"),
    ],
)
def test_what_is_no_schedule_is_said(cron: str, duration: str | None, said: str) -> None:
    problem = schedule.problem(cron, duration)
    assert problem is not None
    assert said in problem


def test_a_time_that_is_none_is_not_known() -> None:
    assert schedule.seconds("") is None
    assert schedule.seconds("yesterday") is None
