"""The report on a Check for terminals: the verdict per workload, then findings with positions in the manifests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich.console import RenderableType
from rich.text import Text

from kubestow.models.documents.findings.check import Check, Fault, Position, WorkloadFit, unfit
from kubestow.report.documents.output import counted
from kubestow.report.terminal.canvas import FINDINGS, Surface, heading, inset, listed, more, plain
from kubestow.report.terminal.findings.audit import STYLES, per_severity
from kubestow.report.terminal.rollout import worst_end

_FIT: Final = {"fits": "bold green", "does not fit": "bold red", "unproved": "bold yellow"}
#: Maximum numbers of listed findings and workloads.
_MAX_ENTRIES: Final = 50


def summary(check: Check) -> str:
    """Return the workloads that do not fit and the number of new findings per severity in one line."""
    parts = []
    if check.snapshot is not None:
        wrong, known = unfit(check), sum(fit.known for fit in check.workloads)
        impossible = sum(fit.fit == "does not fit" for fit in wrong)
        parts += [f"{counted(impossible, 'workload')} {'does' if impossible == 1 else 'do'} not fit"] if impossible else []
        parts += [f"{len(wrong) - impossible} not proved to fit"] if len(wrong) > impossible else []
        number = len(check.workloads) - known
        parts += [f"{counted(number, 'workload')} fit{'s' * (number == 1)}"] if number and not wrong else []
        parts += [f"{known} not fitting as with the base"] if known else []
    parts += per_severity(check.counts) or [f"nothing{' new' * bool(check.known)} found"]
    return ", ".join(parts) + (f" ({counted(check.known, 'known finding')})" if check.known else "")


def check(found: Check, surface: Surface) -> Iterator[RenderableType]:
    """Yield the parts of the report on a check: summary, fit of each workload, findings, and notes."""
    yield Text(summary(found), style="bold")
    if found.workloads:
        yield heading("Fit")
        for fit in sorted(found.workloads, key=lambda each: list(_FIT).index(each.fit), reverse=True)[: surface.limit(_MAX_ENTRIES)]:
            yield from _fit(fit, surface)
        yield from more(len(found.workloads) - surface.limit(_MAX_ENTRIES), FINDINGS)
    if found.faults:
        yield heading("Findings")
        for fault in found.faults[: surface.limit(_MAX_ENTRIES)]:
            yield from _fault(fault)
        yield from more(len(found.faults) - surface.limit(_MAX_ENTRIES), FINDINGS)
    for title, texts in (
        ("Not checked", found.notChecked),
        ("Not taken into account", found.notes),
        ("Not modelled", [f"{entry.pod}: {entry.field}: {entry.effect}" for entry in found.unmodelled]),
    ):
        yield from listed(title, texts, surface.limit(_MAX_ENTRIES), FINDINGS)


def _fit(fit: WorkloadFit, surface: Surface) -> Iterator[RenderableType]:
    line = plain(fit.fit, style=_FIT[fit.fit]).append_text(plain(f"  {fit.workload}: {fit.change}, "))
    line.append_text(plain(f"{fit.placed} of {counted(fit.replicas, 'pod')} placed{', as with the base' * fit.known}"))
    yield inset(line)
    if fit.fit != "fits":
        yield from _details(place(fit.position), fit.cause, fit.fix)
    for end in fit.worstEnds:
        if end.skew is not None and end.skew > end.maxSkew:
            yield inset(plain(f"worst end for {end.topologyKey} (maxSkew {end.maxSkew}): ").append_text(worst_end(end, surface)), 4)
            yield from _details(None, None, "; or ".join(way.message for way in end.waysOut))


def _fault(fault: Fault) -> Iterator[RenderableType]:
    finding = fault.finding
    line = plain(finding.severity, style=STYLES[finding.severity]).append_text(plain(f"  {finding.code}  ", style="bold"))
    line.append_text(plain(f"{finding.object}: {finding.message}{' (known)' * fault.known}"))
    yield inset(line)
    yield from _details(place(fault.position), finding.why, finding.fix)


def _details(where: str | None, why: str | None, fix: str | None) -> Iterator[RenderableType]:
    if where is not None:
        yield inset(plain(where, style="cyan"), 4)
    if why:
        yield inset(plain(why, style="dim"), 4)
    if fix:
        yield inset(Text("→ ", style="green").append_text(plain(fix, style="green")), 4)


def place(position: Position | None) -> str | None:
    """Return ``file:line:column``, as far as known."""
    if position is None:
        return None
    return ":".join(str(part) for part in (position.file, position.line, position.column) if part is not None)
