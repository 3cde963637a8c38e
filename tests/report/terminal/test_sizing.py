"""The table of a Sizing for unusual answers."""

from __future__ import annotations

import msgspec
import pytest

from kubestow.models.documents.placement import SnapshotRef, TierResult
from kubestow.models.documents.sizing import Cost, Purchase, Replaced, Sizing, Utilisation, WorkloadCost
from kubestow.models.snapshot.snapshot import from_objects
from kubestow.report.terminal.canvas import Surface, render
from kubestow.report.terminal.capacity.sizing import limit, outcome, sizing, summary

BOUGHT = Sizing(
    SnapshotRef("", 2, 9, 9), "replace", "feasible", [Purchase("s", "a", 2, 0.1234, ["s-1", "s-2"])], Cost(0.2468, 0.24),
    TierResult("nodes", 2, 2),
)  # fmt: skip
_change = msgspec.structs.replace


def drawn(result: Sizing, *, everything: bool = False) -> str:
    return render(list(sizing(result, from_objects([]), Surface(everything=everything))), Surface()).decode()


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (BOUGHT, "buy 2 nodes of 1 shape for 0.2468 per hour, at most 2.8 % above the least"),
        (_change(BOUGHT, cost=Cost(0.2468, 0.2468)), "buy 2 nodes of 1 shape for 0.2468 per hour, proved the least"),
        (_change(BOUGHT, buy=[], cost=Cost(0, 0)), "buy nothing: everything has a place on the nodes that stay"),
        (_change(BOUGHT, status="infeasible", buy=[]), "no purchase places everything (proved)"),
        (_change(BOUGHT, status="unknown", buy=[]), "no purchase that places everything was found, and none is proved impossible"),
    ],
)
def test_the_answer_in_words(result: Sizing, text: str) -> None:
    assert outcome(result) == text
    assert drawn(result).splitlines()[0] == text
    assert summary(result, 1.0).startswith(text)


@pytest.mark.parametrize(
    ("gone", "text"),
    [
        (Replaced(3, 3, 0.5), "instead of 3 nodes for 0.50 per hour, which is 0.2532 per hour less (51 %)"),
        (Replaced(3, 3, 0.2), "instead of 3 nodes for 0.20 per hour, which is 0.0468 per hour more (23 %)"),
        (Replaced(3, 3, 0.2468), "instead of 3 nodes for 0.2468 per hour"),
        (Replaced(3, 2, 0.5), "instead of 3 nodes; the catalogue has 2, which cost 0.50 per hour"),
        (Replaced(3, 0, 0), "instead of 3 nodes, whose instance types are not in the catalogue"),
    ],
)
def test_what_goes_is_compared_where_its_price_is_known(gone: Replaced, text: str) -> None:
    assert text in drawn(_change(BOUGHT, replaced=gone)).splitlines()


def test_what_is_full_limits_and_what_is_not_does_not() -> None:
    cpu, memory = Utilisation("", "cpu", 3900, 0, 4000), Utilisation("", "memory", 10, 0, 100)
    assert limit([memory, cpu]) == "cpu, 98 % requested"
    assert limit([memory]).startswith("memory, 10 % requested; rules, or the available sizes")


def test_what_daemons_take_and_cost_is_said() -> None:
    entries = [Utilisation(shape, "cpu", 3000, 400, 4000) for shape in ("", "s")]
    costs = [WorkloadCost("Deployment shop/web", 3, 0.2), WorkloadCost("DaemonSet kube-system/agent", 2, 0.0468, daemon=True)]
    text = drawn(_change(BOUGHT, utilisation=entries, workloads=costs))
    assert "DaemonSets and static pods, which every node brings, take 10 % of cpu" in text
    assert "DaemonSets and static pods together: 0.0468 per hour, 19 %" in text


def test_long_lists_are_cut_unless_everything_is_asked_for() -> None:
    many = [WorkloadCost(f"Deployment shop/w{i:02}", 1, 0.01) for i in range(14)]
    result = _change(BOUGHT, workloads=many)
    assert "... and 4 more (--all lists them)" in drawn(result)
    assert "w13" not in drawn(result)
    assert "w13" in drawn(result, everything=True)


def test_hostile_names_stay_in_their_lines() -> None:
    result = _change(BOUGHT, buy=[Purchase("s\n\x1b[2Jx", "a\nb", 1, 0.1, [])])
    assert "\x1b" not in drawn(result)
    assert "s\\n\\x1b[2Jx" in drawn(result)
