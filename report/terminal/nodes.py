"""A table of nodes, zones or namespaces with requests, free capacity and the largest pod that fits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from rich.console import RenderableType
from rich.text import Text

from kubestow.models.documents.answers import NodeRow, NodeTable
from kubestow.models.kube import quantity
from kubestow.report.documents.numbers import amount, percent
from kubestow.report.documents.output import counted
from kubestow.report.terminal.canvas import Surface, bar, grid, plain
from kubestow.report.terminal.columns import Cell, Grid, Name, UsageBar

_SHOWN = ("cpu", "memory", "pods")


def nodes_line(found: NodeTable) -> str:
    """Return the numbers of nodes and pods in one line."""
    waiting = f", {found.total.pending:,} pending" if found.total.pending else ""
    return (
        f"{counted(found.total.nodes, 'node')}, {counted(found.total.pods, 'pod')} on {'it' if found.total.nodes == 1 else 'them'}{waiting}"
    )


def nodes_table(found: NodeTable, surface: Surface) -> Iterator[RenderableType]:
    """Yield the table. Bars show requests as a fraction of allocatable."""
    legend = "" if found.by == "namespace" else "  (limits, free and largest pod: CPU / memory)"
    yield Text(nodes_line(found), style="bold").append(legend, style="dim")
    if not found.rows:
        return
    yield Text()
    yield _namespaces(found, surface) if found.by == "namespace" else _nodes(found, surface)
    for note in found.notes:
        yield plain(f"note: {note}", style="dim")


def _nodes(found: NodeTable, surface: Surface) -> Grid:
    of_nodes, more = found.by == "node", surface.wide
    marked = of_nodes and any(row.cordoned or row.taints for row in found.rows)
    others = sorted({name for row in found.rows for name in row.allocatable} - set(_SHOWN)) if more else []
    columns: dict[str, Callable[[NodeRow], Cell]] = {found.by: lambda row: _name(row, found)}
    if of_nodes and more:
        columns["zone"] = lambda row: plain(row.zone)
    if not of_nodes:
        columns["nodes"] = lambda row: f"{row.nodes:,}"
    columns |= {resource: partial(_bar, resource=resource, surface=surface) for resource in _SHOWN}
    columns |= {"limits": _limits, "free": _free, "largest pod": _largest}
    columns |= {name: partial(_use, resource=name) for name in others}
    drivers = sorted({driver for row in found.rows for driver in row.devices})
    columns |= {f"free {driver}": partial(_devices, driver=driver) for driver in drivers}
    right = [i for i, name in enumerate(columns) if name in ("nodes", "limits", "free", "largest pod", *others) or name.startswith("free ")]
    if marked:
        columns["only pods that tolerate"] = lambda row: plain(", ".join([*["cordon"] * row.cordoned, *row.taints]), style="yellow")
    table = grid(*columns, right=right, prose=(len(columns) - 1,) if marked else ())
    for row in [*found.rows, *([found.total] if len(found.rows) > 1 else [])]:
        table.add_row(*(cell(row) for cell in columns.values()))
    return table


def _name(row: NodeRow, found: NodeTable) -> Cell:
    if row is found.total:
        return plain("all", style="bold")
    return Name(row.name) if row.name else plain("no zone")


def _namespaces(found: NodeTable, surface: Surface) -> Grid:
    table = grid("namespace", "pods", "pending", "nodes", "cpu", "memory", "limits: cpu", "memory", right=(1, 2, 3, 6, 7))
    for row in found.rows:
        bars = [bar(row.requests.get(r, 0), found.total.allocatable.get(r, 0), r, surface) for r in _SHOWN[:2]]
        numbers = f"{row.pods:,}", f"{row.pending:,}" if row.pending else "", f"{row.nodes:,}"
        table.add_row(Name(row.name), *numbers, *bars, *(amount(r, row.limits.get(r, 0)) for r in _SHOWN[:2]))
    return table


def _bar(row: NodeRow, resource: str, surface: Surface) -> UsageBar:
    used = row.pods if resource == "pods" else row.requests.get(resource, 0)
    return bar(used, row.allocatable.get(resource, 0), resource, surface)


def _limits(row: NodeRow) -> Text:
    shares = [percent(row.limits.get(resource, 0), row.allocatable.get(resource, 0)) for resource in _SHOWN[:2]]
    return Text(" / ").join(Text(f"{share:,}%", style="yellow" if share > 100 else "") for share in shares)


def _free(row: NodeRow) -> str:
    return " / ".join(amount(resource, row.free.get(resource, 0)) for resource in _SHOWN[:2])


def _largest(row: NodeRow) -> Text:
    if not row.largest:
        return Text("none", style="red")
    # In the notation of manifests, rounded down so that it fits.
    largest = row.largest[0]
    memory = f"{largest.memory >> 20}Mi" if largest.memory >= 1 << 20 else str(largest.memory)
    return Text(f"{quantity.format_cpu(largest.cpu)} / {memory}", style="bold")


def _devices(row: NodeRow, driver: str) -> str:
    total = row.devices.get(driver, 0)
    return f"{row.freeDevices.get(driver, 0):,} of {total:,}" if total else ""


def _use(row: NodeRow, resource: str) -> str:
    return f"{amount(resource, row.requests.get(resource, 0))}/{amount(resource, row.allocatable.get(resource, 0))}"
