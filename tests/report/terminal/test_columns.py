"""Names stay whole: bars shrink, what names share is left out and said, columns go below each other, and pipes get lines as long as they
are."""

from __future__ import annotations

import re

import pytest
from rich.text import Text

from kubestow.models.documents.placement import Assignment, Placement, Preferences, SnapshotRef, TierResult, Unmet, Unplaced
from kubestow.models.kube.objects import Container, Node, NodeStatus, ObjectMeta, Pod, PodSpec, ResourceRequirements
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.report.terminal.canvas import Surface, a_file, grid, render
from kubestow.report.terminal.columns import Common, Name, UsageBar, folded
from kubestow.report.terminal.placement import placement

WIDTHS = [80, 100, 140]


def long_names(*, alike: bool) -> tuple[Placement, Snapshot]:
    """Pods and nodes with names of 63 characters; ``alike``: that begin and end alike."""
    nodes = (
        [f"gke-production-cluster-default-pool-{i:03}-europe-west4-a.internal" for i in range(4)]
        if alike
        else ["abcd"[i] * 63 for i in range(4)]
    )
    pods = (
        [f"checkout-payments-gateway-europe-production-blue-7d9f8b6c5-{i:04}" for i in range(4)]
        if alike
        else [f"{'efgh'[i]}{'y' * 62}" for i in range(4)]
    )
    assert {len(name) for name in (*nodes, *pods)} == {63}
    containers = [Container(name="app", resources=ResourceRequirements(requests={"cpu": "1", "memory": "1Gi"}))]
    snapshot = Snapshot(
        nodes=[Node(metadata=ObjectMeta(name=n), status=NodeStatus(allocatable={"cpu": "4", "memory": "8Gi", "pods": "9"})) for n in nodes],
        pods=[Pod(metadata=ObjectMeta(name=p, namespace="shop"), spec=PodSpec(containers=containers)) for p in pods],
    )
    found = Placement(
        snapshot=SnapshotRef("", 4, 4, 4),
        engine="greedy",
        status="feasible",
        objective=[TierResult("placed", 3, 4, 0)],
        assignments=[Assignment(f"shop/{p}", n, i) for i, (p, n) in enumerate(zip(pods[:3], nodes, strict=False), 1)],
        unplaced=[Unplaced(f"shop/{pods[3]}", [])],
        preferences=Preferences(unmet=[Unmet(f"Job shop/{pods[0]}", "nodeAffinity", "prefers a disk of the fast kind", 1, 10)]),
    )
    return found, snapshot


def draw(found: Placement, snapshot: Snapshot, surface: Surface) -> list[str]:
    return render(list(placement(found, snapshot, surface)), surface).decode().splitlines()


def names(found: Placement, snapshot: Snapshot) -> list[str]:
    return [*(a.pod for a in found.assignments), *(n.metadata.name or "" for n in snapshot.nodes)]


@pytest.mark.parametrize("alike", [True, False])
@pytest.mark.parametrize("columns", ["", "80", "100", "140"])
def test_a_pipe_gets_complete_names_beside_each_other(columns: str, alike: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    found, snapshot = long_names(alike=alike)
    lines = draw(found, snapshot, a_file())
    for assignment in found.assignments:
        assert any(assignment.pod in line and assignment.node in line for line in lines)
    for name in names(found, snapshot):
        assert any(name in line and "%" in line for line in lines) or "/" in name
    assert not any(" without " in line for line in lines)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("alike", [True, False])
def test_on_a_terminal_no_name_is_folded_and_no_line_too_long(width: int, alike: bool) -> None:
    """The omitted common part is in the heading, so that every name is complete."""
    found, snapshot = long_names(alike=alike)
    lines = draw(found, snapshot, Surface(width))
    assert max(map(len, lines)) <= width
    own = [re.search(r"(?<=-)00\d+", name) for name in names(found, snapshot) if alike]
    assert all(part is not None and any(part[0] in re.split("[ -]", line) for line in lines) for part in own)
    if not alike:
        assert all(any(name.rpartition("/")[2] in line for line in lines) for name in names(found, snapshot))


@pytest.mark.parametrize("width", WIDTHS)
def test_what_all_names_share_is_said_in_the_heading_where_it_is_left_out(width: int) -> None:
    found, snapshot = long_names(alike=True)
    text = " ".join(draw(found, snapshot, Surface(width)))
    pods = "shop/checkout-payments-gateway-europe-production-blue-7d9f8b6c5-"
    shared = "gke-production-cluster-default-pool- and -europe-west4-a.internal"
    assert (f"Assignments, in bind order (pods without {pods}, nodes without {shared})" in text) == (width < 140)
    assert (f"Nodes (names without {shared})" in text) == (width == 80)


def test_bars_shrink_before_names_are_cut() -> None:
    table = grid("node", "cpu")
    for name in ("gke-pool-1", "gke-pool-2"):
        table.add_row(Name(name), UsageBar(1, 2, "1/2"))

    def rows(width: int) -> list[str]:
        return [line.plain.rstrip() for part in table.lines(width) for line in part]

    assert rows(60)[1] == "gke-pool-1  ██████······  50% 1/2"
    assert rows(40)[1] == "gke-pool-1  ████····  50%"
    assert rows(22)[1] == "gke-pool-1  ██··  50%"
    assert rows(17)[1] == "gke-pool-1   50%"
    assert rows(15)[:4] == ["(names without", "gke-pool-)", "node  cpu", "1     ██··  50%"]
    assert [line.plain for line in table.lines(5)[1]] == ["node", "    cpu", "1", "     50%", "2", "     50%"]


def test_running_text_is_broken_at_blanks_only() -> None:
    assert [line.plain for line in folded(Text("a kube-system/averylongname b"), 6)] == ["a", "kube-system/averylongname", "b"]
    table = grid("why", prose=(0,))
    table.add_row("one two three four five six seven eight")
    assert [line.plain for line in table.lines(24)[1]] == ["why", "one two three four five", "six seven eight"]


@pytest.mark.parametrize(
    ("given", "before", "after"),
    [
        (["n1"], "", ""),
        (["gke-a-1", "gke-a-2"], "gke-a-", ""),
        (["n1.eu.internal", "n2.eu.internal"], "", ".eu.internal"),
        (["ip-10-0-0-1.ec2", "ip-10-0-0-2.ec2"], "ip-10-0-0-", ".ec2"),
        (["abc", "abd"], "", ""),
        (["ab-c-", "ab-c-d"], "ab-", ""),
        (["web-1", "web-1-x"], "web-", ""),
        (["a-x", "b-x"], "", ""),
    ],
)
def test_common_parts_end_at_separators_and_leave_something(given: list[str], before: str, after: str) -> None:
    found = Common.of(given)
    assert (found.before, found.after) == (before, after)
    assert len({found.cut(name) for name in given}) == len(set(given))


def test_wide_shows_amounts_zones_and_workloads() -> None:
    found, snapshot = long_names(alike=False)
    text = "\n".join(draw(found, snapshot, Surface(80, wide=True)))
    assert "1Gi/8Gi" in text
    assert f"Pod {found.assignments[0].pod}" in text


def test_everything_cuts_no_list() -> None:
    found, snapshot = long_names(alike=False)
    found.assignments = [Assignment(f"shop/p{i}", "n", i) for i in range(500)]
    cut, whole = (draw(found, snapshot, Surface(100, everything=everything)) for everything in (False, True))
    assert "... and 460 more (--all lists all)" in "\n".join(cut)
    assert sum("shop/p" in line for line in whole) == 500


def test_what_is_left_out_goes_on_after_a_number() -> None:
    table = grid("node", title="Nodes that change (2)")
    for name in ("gke-pool-1", "gke-pool-2"):
        table.add_row(Name(name))
    heading, _ = table.lines(8)
    assert " ".join(line.plain for line in heading) == " Nodes that change (2), names without gke-pool-"
