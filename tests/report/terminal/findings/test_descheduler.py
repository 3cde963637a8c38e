"""The evictions of the descheduler as a table."""

from __future__ import annotations

from kubestow.models.documents.findings.descheduler import DeschedulerAudit, PlanInstead, PolicyEviction, Range, StrategyResult
from kubestow.report.terminal.canvas import Surface, render
from kubestow.report.terminal.findings.descheduler import descheduler_table, summary


def _audit(number: int) -> DeschedulerAudit:
    evictions = [
        PolicyEviction("p", "RemoveDuplicates", f"a/pod-{k:02}", "n1", "two are on its node", None, "sometimes", "sometimes", "never")
        for k in range(number)
    ]
    evictions.append(PolicyEviction("p", "RemoveDuplicates", "a/kept", "n1", "two are on its node", "PodDisruptionBudget a/b allows none"))
    evictions.append(PolicyEviction("p", "RemoveDuplicates", "a/bare", "n1", "it asks", None, "never", "never", "always", recreated=False))
    strategy = StrategyResult("p", "RemoveDuplicates", number + 1, 1, {"sometimes": number, "never": 1}, number, 1, Range(0, 2), ["a word"])
    plan = PlanInstead("improve", ["RemoveDuplicates"], "optimal", 2, number + 1, 0, Range(0, 2), 1)
    return DeschedulerAudit(
        "policy.yaml", [strategy], evictions, 3, True, 0, Range(0, 1), [plan], "a reason", ["minPodAge: not read"],
    )  # fmt: skip


def _text(found: DeschedulerAudit, surface: Surface) -> str:
    return render(list(descheduler_table(found, surface)), surface).decode()


def test_all_that_the_section_says_is_in_the_table() -> None:
    text = _text(_audit(2), Surface(width=None))
    for said in (
        "3 evictions, 2 help sometimes, 1 helps never; 1 refused",
        "a reason",
        "a word",
        "a/pod-01",
        "sometimes comes back to its node",
        "refused: PodDisruptionBudget a/b allows none",
        "gone: no controller recreates it",
        "0, not 0–2",
        "3 continuations (all possible ones)",
        "not modelled: minPodAge: not read",
    ):
        assert said in text


def test_long_lists_are_cut_unless_all_is_asked_for() -> None:
    assert "and 4 more" in _text(_audit(12), Surface(width=None))
    assert "a/bare" in _text(_audit(12), Surface(width=None, everything=True))


def test_nothing_to_do_is_said_in_a_line() -> None:
    nothing = DeschedulerAudit("policy.yaml", [], [], 1, True, 2, Range(2, 2))
    assert summary(nothing) == "0 evictions"
    assert "2 empty nodes before, 2 after the cycle" in _text(nothing, Surface(width=None))
