"""The report on an Audit for terminals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

from rich.console import RenderableType
from rich.text import Text

from kubestow.models.documents.findings.audit import (
    SEVERITIES,
    Audit,
    ClosedCapacity,
    ControlPlane,
    Finding,
    OpportunityCost,
    Requirement,
    Selection,
)
from kubestow.models.kube import quantity
from kubestow.report.documents.output import counted, some
from kubestow.report.findings.outcomes import at_or_above
from kubestow.report.terminal.canvas import FINDINGS, Surface, grid, heading, inset, listed, more, plain
from kubestow.report.terminal.findings.descheduler import descheduler_table
from kubestow.report.terminal.findings.karpenter import karpenter_table

STYLES: Final = {"error": "bold red", "warning": "bold yellow", "info": "bold blue"}
#: Maximum number of listed findings per code, and of example pods.
_MAX_FINDINGS: Final = 10
_MAX_EXAMPLES: Final = 4
_GRADES: Final = {
    "non-distributed": "not distributed",
    "unknown": "distribution unknown",
    "machines": "distributed over machines",
    "clouds": "distributed over clouds",
    "locations": "distributed over locations",
}


def failing(audit: Audit, threshold: str) -> int:
    """Return the number of findings at or above ``threshold``: a severity or ``never``."""
    counted_in = at_or_above(threshold)
    return sum(finding.severity in counted_in for finding in audit.findings)


def audit_line(audit: Audit) -> str:
    """Return the number of findings per severity in one line."""
    known = audit.selection.known if audit.selection is not None else 0
    known_note = f" ({known:,} known from the baseline)" if known else ""
    if not audit.findings:
        return f"nothing{' new' * bool(known)} found{known_note}"
    return ", ".join(per_severity(audit.counts)) + known_note


def per_severity(counts: Mapping[str, int]) -> list[str]:
    """Return the numbers of findings by severity, without zeros."""
    found = [(severity, counts[severity]) for severity in SEVERITIES if counts.get(severity)]
    return [counted(number, severity) if severity != "info" else f"{number:,} info" for severity, number in found]


def audit_table(audit: Audit, titles: Mapping[str, str], surface: Surface) -> Iterator[RenderableType]:
    """Yield the parts of the report: findings by code, most severe first, other results of the audit, and notes.

    ``titles`` maps codes to sentences.
    """
    ref = audit.snapshot
    yield Text(audit_line(audit), style="bold").append(f"  ({counted(ref.nodes, 'node')}, {counted(ref.pods, 'pod')})", style="dim")
    for (severity, code), group in groupby(audit.findings, key=lambda f: (f.severity, f.code)):
        findings = list(group)
        title = Text("\n").append_text(plain(severity, style=STYLES[severity]))
        yield title.append_text(plain(f"  {code}  ", style="bold")).append_text(plain(titles.get(code, findings[0].name)))
        yield inset(plain(findings[0].why, style="dim"))
        for finding in findings[: surface.limit(_MAX_FINDINGS)]:
            yield inset(_entry(finding, surface))
        yield from more(len(findings) - surface.limit(_MAX_FINDINGS), FINDINGS)
        for fix in dict.fromkeys(finding.fix for finding in findings[: surface.limit(_MAX_FINDINGS)]):
            yield inset(Text("→ ", style="green").append_text(plain(fix, style="green")))
    if audit.opportunityCosts:
        yield from _opportunity_costs(audit.opportunityCosts, surface)
    if audit.controlPlane is not None:
        yield from _control_plane(audit.controlPlane)
    if audit.requirements:
        yield heading("SCS standards")
        yield inset(_requirements(audit.requirements))
    if audit.descheduler is not None:
        yield from descheduler_table(audit.descheduler, surface)
    if audit.karpenter is not None:
        yield from karpenter_table(audit.karpenter, surface)
    if audit.selection is not None:
        yield heading("Not shown")
        yield from (inset(plain(text)) for text in _left_out(audit.selection))
    yield from listed("Not checked", audit.notChecked)
    yield from listed("Not taken into account", audit.notes)
    unmodelled = [f"{entry.pod}: {entry.field}: {entry.effect}" for entry in audit.unmodelled]
    yield from listed("Not modelled", unmodelled, surface.limit(_MAX_FINDINGS), "… and {} more")


def _left_out(selection: Selection) -> Iterator[str]:
    if selection.select:
        yield f"codes other than {', '.join(selection.select)}"
    if selection.ignore:
        yield f"codes {', '.join(selection.ignore)}"
    if selection.namespaces:
        yield f"{counted(selection.elsewhere, 'finding')} about other namespaces than {', '.join(selection.namespaces)}"
    if selection.known:
        yield f"{counted(selection.known, 'finding')} known from the baseline"


def _entry(finding: Finding, surface: Surface) -> Text:
    text = Text("- ").append_text(plain(finding.object, style="bold")).append_text(plain(f": {finding.message}"))
    if finding.pods and not all(pod in finding.message or pod in finding.object for pod in finding.pods):
        text.append_text(plain(f" [{some(finding.pods, surface.limit(_MAX_EXAMPLES))}]", style="dim"))
    return text


def _requirements(found: Sequence[Requirement]) -> RenderableType:
    table = grid("", "", "requirement", "", "", prose=(2, 4))
    for entry in found:
        style = {"met": "green", "broken": "red", "not provable": "yellow"}[entry.status]
        table.add_row(entry.standard, entry.level, entry.text, Text(entry.status, style=style), plain(entry.why))
    return table


def _opportunity_costs(found: Sequence[OpportunityCost], surface: Surface) -> Iterator[RenderableType]:
    """Yield a row per namespace and workload. Pods are in the document only."""
    rows = [entry for entry in found if entry.level != "pod"]
    yield heading("Opportunity cost of required anti-affinity, beyond requests")
    table = grid("object", "pods", "closed now", "average", "largest", right=(1,))
    for entry in rows[: surface.limit(_MAX_FINDINGS)]:
        now, average, largest = (_capacity(amount) for amount in (entry.actual, entry.average, entry.largest))
        table.add_row(plain(entry.object), f"{entry.pods:,}", now, average, largest)
    yield inset(table)
    yield from more(len(rows) - surface.limit(_MAX_FINDINGS), "… and {} more")


def _capacity(amount: ClosedCapacity | None) -> str:
    if amount is None or not amount.nodes:
        return "none"
    cpu, memory = quantity.format_cpu(amount.cpu), quantity.format_bytes(amount.memory)
    return f"{amount.nodes:g} node{'s' * (amount.nodes != 1)}, {cpu} CPU, {memory}"


def _control_plane(found: ControlPlane) -> Iterator[RenderableType]:
    yield heading("Control plane")
    on = f", machines by {found.machineLabel}" if found.machineLabel else ""
    yield inset(plain(f"{counted(len(found.nodes), 'node')}, etcd {found.etcd}{on}; {_GRADES[found.grade]}"))
    if found.components:
        table = grid("component", "instances", "nodes", "machines", "most on one", "survives", right=(1, 2, 3, 4, 5))
        for part in found.components:
            numbers = part.instances, part.nodes, len(part.machines), part.most, part.survives
            table.add_row(plain(part.component), *(str(number) for number in numbers))
        yield inset(table)
    if found.stages:
        table = grid("stage", "label", "domains", "survives", "", right=(2, 3))
        for stage in found.stages:
            mark = Text("reached", style="green") if stage.reached else Text("not reached" if stage.known else "not shown", style="yellow")
            counts = (str(stage.domains), str(stage.survives)) if stage.label else ("", "")
            table.add_row(plain(stage.name), plain(stage.label or "unknown"), *counts, mark)
        yield inset(table)
