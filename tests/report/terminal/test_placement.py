from __future__ import annotations

from collections.abc import Callable

import pytest

from kubestow.models.documents.placement import Assignment, DeviceResult, Placement, TierResult, Unmodelled, Unplaced
from kubestow.models.kube.objects import Node, Pod
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.report.terminal import placement as terminal_placement
from kubestow.report.terminal.canvas import Surface, render


def draw(
    placement: Placement, snapshot: Snapshot, width: int = 80, *, colour: bool = False, encoding: str = "utf-8", wide: bool = False
) -> str:
    surface = Surface(width, colour, encoding, wide=wide)
    return render(list(terminal_placement.placement(placement, snapshot, surface)), surface).decode(encoding)


def test_summary_line(placement: Placement) -> None:
    said = "2 of 4 pods placed, 2 could not be (not proved); on 2 nodes; feasible; 0.4 s"
    assert terminal_placement.summary(placement, 0.44) == said


def test_an_open_tie_break_is_not_called_optimal(placement: Placement, snapshot: Snapshot) -> None:
    placement.status = "optimal"
    placement.objective = [TierResult("placed", 2, 2, 10), TierResult("soft", 3, 3), TierResult("strategy", -1_879_400, -629_213)]
    said = "placed and preferences: optimal; evenness of the nodes: gap 66.6 %"
    assert f"; {said}; 1.0 s" in terminal_placement.summary(placement, 1)
    assert f"\nObjective: {said} (exact engine, 0.7 s)\n" in draw(placement, snapshot, 100)


def test_what_is_left_is_proved_or_not(placement: Placement) -> None:
    assert terminal_placement.outcome(placement) == "2 of 4 pods placed, 2 could not be (not proved)"
    for tier in placement.objective:
        tier.bound = tier.value
    placement.objective.append(TierResult("soft", 3, 9))
    assert terminal_placement.outcome(placement) == "2 of 4 pods placed, 2 cannot be (proved)"
    placement.objective = []
    assert terminal_placement.outcome(placement) == "2 of 4 pods placed, 2 could not be (not proved)"
    placement.snapshot.pending = 2
    assert terminal_placement.outcome(placement) == "2 of 2 pods placed"
    placement.snapshot.pending, placement.assignments = 0, []
    assert terminal_placement.summary(placement, 1) == "nothing to place; feasible; 1.0 s"


def test_header_tiers_and_groups(placement: Placement, snapshot: Snapshot) -> None:
    text = draw(placement, snapshot)
    lines = [line.split() for line in text.splitlines()]
    assert text.startswith("2 of 4 pods placed, 2 could not be (not proved)\n\nNot placed (2 pods)\n")
    assert "\nObjective: feasible (exact engine, 0.7 s)\n" in text
    assert ["pods", "placed,", "priority", "10", "2", "2", "2", "proved"] in lines
    assert ["pods", "placed,", "priority", "0", "0", "2", "1", "100", "%"] in lines
    assert "  2 pods: prod/db-0, prod/db-1\n      NodeResourcesFit on 3 nodes: insufficient cpu\n" in text
    assert text.index("prod/web-1") < text.index("prod/web-2")
    parts = [text.index(part) for part in ("\nNot placed", "\nNodes", "\nAssignments", "\nObjective")]
    assert parts == sorted(parts)


def test_nodes_stand_under_their_zones(placement: Placement, snapshot: Snapshot) -> None:
    lines = draw(placement, snapshot).split("Nodes\n")[1].splitlines()
    assert [line.split()[0] for line in lines[1:7]] == ["a", "n1", "b", "n2", "no", "n3"]
    assert lines[2].split() == ["n1", "+1", "████····", "50%", "██······", "25%", "▏·······", "2%"]


@pytest.mark.parametrize("width", [80, 160])
@pytest.mark.parametrize("nodes", [3, 60])
def test_no_line_is_wider_than_the_terminal(
    placement: Placement, snapshot: Snapshot, make_node: Callable[..., Node], width: int, nodes: int
) -> None:
    snapshot.nodes += [make_node(f"ip-10-0-0-{i}.eu-west-1.compute.internal", f"eu-west-1{'abc'[i % 3]}") for i in range(nodes)]
    assert max(len(line) for line in draw(placement, snapshot, width).splitlines()) <= width


def test_amounts_are_shown_where_there_is_room(placement: Placement, snapshot: Snapshot) -> None:
    assert "2Gi/8Gi" in draw(placement, snapshot, 160)
    assert "2Gi/8Gi" not in draw(placement, snapshot, 80)


def test_many_nodes_are_summed_by_zone(placement: Placement, snapshot: Snapshot, make_node: Callable[..., Node]) -> None:
    snapshot.nodes += [make_node(f"m{i}", "a") for i in range(60)]
    text = draw(placement, snapshot)
    assert "Zones (63 nodes)" in text
    assert "  a (61)" in text
    fullest = text.split("fullest nodes\n")[1].split("\n\n")[0].splitlines()
    assert [line.split()[0] for line in fullest[:3]] == ["node", "n1", "n2"]
    assert len(fullest) == 11


def test_a_domain_that_all_nodes_share_is_said_once(placement: Placement, make_node: Callable[..., Node]) -> None:
    """In a narrow terminal the common domain is in the heading instead of in every name; bars are omitted first."""
    snapshot = Snapshot(nodes=[make_node("n1.eu.internal"), make_node("n2.eu.internal")])
    text = draw(placement, snapshot, 40)
    assert "Nodes (names without .eu.internal)" in text
    assert text.count(".eu.internal") == 1
    assert draw(placement, snapshot, 60).count(".eu.internal") == 2


def test_markup_and_control_characters_in_names_are_shown_as_they_are(
    placement: Placement, snapshot: Snapshot, make_pod: Callable[..., Pod]
) -> None:
    placement.assignments.append(Assignment("prod/[red]x[/red]", "n1", 3))
    placement.assignments.append(Assignment("prod/\x1b[2J:smile:", "n1", 4))
    placement.unplaced.append(Unplaced("prod/[/bold]", []))
    placement.notes.append("see [link=x]")
    text = draw(placement, snapshot, 100)
    for name in ("prod/[red]x[/red]", "prod/\\x1b[2J:smile:", "prod/[/bold]", "see [link=x]"):
        assert name in text
    assert "\x1b" not in text


def test_colour_only_when_asked(placement: Placement, snapshot: Snapshot) -> None:
    assert "\x1b[" in draw(placement, snapshot, colour=True)
    assert "\x1b[" not in draw(placement, snapshot)


def test_a_terminal_without_unicode_gets_ascii(placement: Placement, snapshot: Snapshot) -> None:
    placement.assignments.append(Assignment("prod/köln", "n1", 3))
    text = draw(placement, snapshot, encoding="ascii")
    assert "prod/k?ln" in text
    assert "####...." in text


def test_what_is_not_modelled_is_summed_up(placement: Placement, snapshot: Snapshot) -> None:
    placement.unmodelled = [Unmodelled(f"prod/p{i}", "spec.resourceClaims", "ignored") for i in range(5)]
    assert "spec.resourceClaims: ignored (5: prod/p0, prod/p1, prod/p2, ...)" in draw(placement, snapshot)


def test_long_lists_are_cut_and_say_so(placement: Placement, snapshot: Snapshot) -> None:
    placement.assignments = [Assignment(f"prod/p{i}", "n1", i + 1, gang="g") for i in range(100)]
    text = draw(placement, snapshot)
    assert "... and 60 more (--all lists all)" in text
    assert "gang" in text


def test_pods_with_devices_say_how_many_and_where_there_is_room_which(placement: Placement, snapshot: Snapshot) -> None:
    assert "devices" not in draw(placement, snapshot)
    found = [DeviceResult("prod/p/c", "gpus", "gpu.example.com", "n1", name) for name in ("gpu-0", "gpu-1")]
    placement.assignments = [Assignment("prod/p", "n1", 1, devices=found)]
    assert "2 gpu.example.com" in draw(placement, snapshot, 120)
    text = draw(placement, snapshot, 200, wide=True)
    assert "gpus: gpu.example.com/n1/gpu-0, gpu.example.com/n1/gpu-1" in text


def test_an_empty_placement_is_no_error(placement: Placement) -> None:
    placement.assignments, placement.unplaced, placement.objective, placement.seconds = [], [], [], None
    assert draw(placement, Snapshot()).splitlines() == [
        "0 of 4 pods placed, 4 could not be (not proved)",
        "",
        "Objective: feasible (exact engine)",
    ]
