"""The grace that a pod states, and snapshots over time."""

from __future__ import annotations

import pytest

from kubestow.models.execution.execution_grace import MAX_SECONDS, History, stated, time_of, unreadable, warnings, without
from kubestow.models.kube.objects import Pod
from kubestow.models.snapshot.snapshot import from_objects
from tests.histories import NOW, snapshot
from tests.objects import node, pod


def stating(said: str) -> Pod:
    plain = pod("p")
    plain["metadata"]["annotations"] = {"kubestow.dev/execution-grace-seconds": said}
    return from_objects([plain]).pods[0]


@pytest.mark.parametrize(("said", "seconds"), [("0", 0), ("300", 300), ("007", 7), (str(MAX_SECONDS), MAX_SECONDS)])
def test_a_grace_that_can_be_read(said: str, seconds: int) -> None:
    found = stating(said)
    assert (stated(found), unreadable(found), list(warnings([found]))) == (seconds, None, [])


@pytest.mark.parametrize("said", ["", "5m", "-1", "1.5", " 3", "٣", "1000000001", "99999999999"])
def test_a_grace_that_cannot_be_read_is_named(said: str) -> None:
    found = stating(said)
    assert stated(found) is None
    (line,) = warnings([found])
    assert line.startswith("Pod default/p: metadata.annotations[kubestow.dev/execution-grace-seconds]: got ")
    assert line.endswith("expected whole seconds from 0 to 1000000000: the default grace applies")


def test_snapshots_within_a_grace_come_the_latest_first() -> None:
    earlier = tuple(snapshot([node("n")], ago) for ago in (10, 300, 301, 60))
    found = History(0, earlier).within(NOW, 300)
    assert [(NOW - time_of(each)).total_seconds() for each in found] == [10, 60, 300]


def test_a_snapshot_stays_as_it_is_where_nothing_is_lifted() -> None:
    found = from_objects([node("n"), pod("p")])
    assert without(found, []) is found
