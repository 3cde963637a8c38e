"""The report on the descheduler simulation for terminals."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.padding import Padding

from kubestow.models.documents.findings.descheduler import DeschedulerAudit, Often, PlanInstead, PolicyEviction, Range, StrategyResult
from kubestow.report.documents.output import counted
from kubestow.report.terminal.canvas import FINDINGS, Surface, grid, heading, inset, more, plain

#: Maximum number of listed evictions.
_MAX_EVICTIONS = 10


def descheduler_table(found: DeschedulerAudit, surface: Surface) -> Iterator[RenderableType]:
    """Yield the strategies with their benefit, the evictions, alternative plans, and unmodelled parts."""
    yield heading(f"Descheduler: {summary(found)}")
    if found.skipped:
        yield inset(plain(found.skipped))
    if found.strategies:
        yield inset(_strategies(found))
    for result in found.strategies:
        yield from (inset(plain(f"{result.plugin}: {note}", style="dim")) for note in result.notes)
    if found.evictions:
        table = grid("plugin", "pod", "node", "why", "helps", "", prose=(3, 5), title="Evictions")
        for entry in found.evictions[: surface.limit(_MAX_EVICTIONS)]:
            table.add_row(*map(plain, (entry.plugin, entry.pod, entry.node, entry.why, entry.helps or "", _outcome(entry))))
        yield inset(table)
        yield from more(len(found.evictions) - surface.limit(_MAX_EVICTIONS), FINDINGS)
    if found.instead:
        table = grid("goal", "moves", "instead of", "requested again", "status", title="rebalance, for the same aims")
        for plan in found.instead:
            table.add_row(*map(plain, _plan(plan)))
        yield inset(table)
    yield Padding(plain(_continuations(found), style="dim"), (1, 0, 0, 2))
    for text in found.notModelled:
        yield inset(plain(f"not modelled: {text}"))


def summary(found: DeschedulerAudit) -> str:
    """Return the result of the evictions as a phrase."""
    granted = [entry for entry in found.evictions if entry.refused is None]
    helps: dict[Often, int] = {"always": 0, "sometimes": 0, "never": 0}
    for entry in granted:
        if entry.helps is not None:
            helps[entry.helps] += 1
    refused = len(found.evictions) - len(granted)
    parts = [counted(len(granted), "eviction")]
    parts += [f"{number:,} help{'s' * (number == 1)} {often}" for often, number in helps.items() if number]
    return ", ".join(parts) + (f"; {refused:,} refused" if refused else "")


def _strategies(found: DeschedulerAudit) -> RenderableType:
    headers = ("profile", "plugin", "evictions", "refused", "help", "may return", "may wait", "requested again")
    table = grid(*headers, right=(2, 3, 4, 5, 6, 7))
    for result in found.strategies:
        table.add_row(plain(result.profile), plain(result.plugin), *map(plain, _numbers(result)))
    return table


def _numbers(result: StrategyResult) -> tuple[str, ...]:
    always, sometimes = result.helps.get("always", 0), result.helps.get("sometimes", 0)
    helps = f"{always:,}–{always + sometimes:,}" if sometimes else f"{always:,}"
    again = _ranged(result.again) if result.again is not None else ""
    return f"{result.evictions:,}", f"{result.refused:,}", helps, f"{result.returns:,}", f"{result.pending:,}", again


def _ranged(found: Range) -> str:
    return f"{found.least:,}" if found.least == found.most else f"{found.least:,}–{found.most:,}"


def _outcome(entry: PolicyEviction) -> str:
    if entry.refused is not None:
        return f"refused: {entry.refused}"
    if not entry.recreated:
        return "gone: no controller recreates it"
    texts = ((entry.returns, "comes back to its node"), (entry.pending, "finds no node"))
    return "; ".join(f"{often} {text}" for often, text in texts if often not in (None, "never"))


def _plan(plan: PlanInstead) -> tuple[str, ...]:
    again = f"{plan.again:,}, not {_ranged(plan.againAfter)}"
    return plan.goal, f"{plan.moves:,}", f"{counted(plan.evictions, 'eviction')} by {', '.join(plan.plugins)}", again, plan.status


def _continuations(found: DeschedulerAudit) -> str:
    number = counted(found.continuations, "continuation")
    whole = "all possible ones" if found.exhaustive else "a sample"
    empty = f"{counted(found.emptyBefore, 'empty node')} before, {_ranged(found.emptyAfter)} after the cycle"
    return f"{number} ({whole}) of the scheduling after the evictions; {empty}"
