"""The nodes that Karpenter could consolidate, as a table."""

from __future__ import annotations

from kubestow.models.documents.findings.karpenter import BlockedNode, Command, KarpenterAudit, NodePoolState, Optimum
from kubestow.report.terminal.canvas import Surface, render
from kubestow.report.terminal.findings.karpenter import karpenter_table, summary


def _audit(number: int, *, priced: bool = True) -> KarpenterAudit:
    commands = [Command(k + 1, "single", [f"n{k:02}"], 2, None, 0.5 if priced else None) for k in range(number)]
    commands.append(Command(number + 1, "multi", ["x1", "x2"], 3, "small@a" if priced else None, 0.25 if priced else None, ["a/bare"]))
    blocked = [BlockedNode(f"m{k:02}", "p", "a reason") for k in range(number)]
    pools = [NodePoolState("p", 9, "WhenEmpty", {"Empty": 3, "Underutilized": 1}, "5m"), NodePoolState("q", 1, "Balanced", {})]
    optimum = Optimum(["n00", "n01"], 1, 4, 3, False, 1, *((0.75, 1.5, 1.25) if priced else ()))
    before, after = (4, 3.5) if priced else (None, None)
    return KarpenterAudit(pools, commands, blocked, 2, before, after, optimum, ["minValues: not read"])


def _text(found: KarpenterAudit, surface: Surface) -> str:
    return render(list(karpenter_table(found, surface)), surface).decode()


def test_all_that_the_section_says_is_in_the_table() -> None:
    text = _text(_audit(2), Surface(width=None))
    for said in (
        "4 nodes would go in 3 steps, 1 replaced by 1 cheaper one; 4.00 → 3.50 per hour",
        "never",
        "several at once",
        "x1, x2",
        "small@a",
        "a/bare",
        "a reason",
        "2 nodes freed by 4 moves (n00, n01), in addition to 1 already empty; no plan frees more than 3",
        "1 belongs to these pools, which cost 0.75 per hour",
        "costs 1.50 per hour; no less than 1.25",
        "not modelled: minValues: not read",
    ):
        assert said in text, said


def test_without_prices_none_are_shown() -> None:
    found = _audit(1, priced=False)
    assert summary(found) == "3 nodes would go in 2 steps"
    assert "per hour" not in _text(found, Surface(width=None))


def test_long_lists_are_cut_unless_all_is_asked_for() -> None:
    assert "and 3 more" in _text(_audit(12), Surface(width=None))
    assert "m11" in _text(_audit(12), Surface(width=None, everything=True))
