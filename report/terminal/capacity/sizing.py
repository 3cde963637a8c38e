"""The report on a Sizing for terminals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Final

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from kubestow.models.catalogue import money
from kubestow.models.documents.placement import Cause
from kubestow.models.documents.sizing import Replaced, Sizing, Utilisation, WorkloadCost
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.report.documents.numbers import percent
from kubestow.report.documents.output import counted
from kubestow.report.documents.tier_words import gap_text
from kubestow.report.terminal.canvas import Surface, bar, grid, heading, inset, more, plain
from kubestow.report.terminal.capacity import headroom
from kubestow.report.terminal.capacity.series import decided_by, moments
from kubestow.report.terminal.columns import Cell, Name
from kubestow.report.terminal.placement import STATUS_STYLES, assignments, examples, unmodelled_and_notes

#: Hours in a month, as cloud providers count.
MONTH_HOURS: Final = 730
#: Maximum numbers of listed workloads, groups of unplaceable pods, and shapes of each.
_MAX_ENTRIES: Final = 10
#: Per cent of utilisation from which a resource counts as the limit.
_FULL_PERCENT: Final = 90


def summary(sizing: Sizing, seconds: float) -> str:
    """Return the purchase, its quality and the wall-clock seconds in one line."""
    gap = [f"gap {_gap(sizing)}"] if sizing.status == "feasible" and _value(sizing) != _bound(sizing) else []
    decided = [decided_by(sizing)] if sizing.series is not None else []
    return "; ".join([outcome(sizing), *filter(None, decided), *gap, sizing.status, f"{seconds:.1f} s"])


def outcome(sizing: Sizing) -> str:
    """Return the answer: ``buy 12 nodes of 2 shapes for 4.56 per hour, proved the least``."""
    if sizing.status == "unknown":
        return "no purchase that places everything was found, and none is proved impossible"
    if sizing.status == "infeasible":
        lost = sum(len(misfit.pods) for misfit in sizing.misfits)
        return "no purchase places everything (proved)" + (f": {counted(lost, 'pod')} fit on no shape" if lost else "")
    least = ", proved the least" if _value(sizing) == _bound(sizing) else f", at most {_gap(sizing)} above the least"
    if not sizing.buy:
        return "buy nothing: everything has a place on the nodes that stay"
    shapes = counted(len({purchase.shape for purchase in sizing.buy}), "shape")
    return f"buy {counted(sizing.nodes.value, 'node')} of {shapes} for {money.text(_value(sizing))} per hour{least}"


def sizing(result: Sizing, snapshot: Snapshot, surface: Surface) -> Iterator[RenderableType]:
    """Yield the parts of the report: the answer, the purchase, its use and, last, the objective.

    ``snapshot`` contains the purchased nodes.
    """
    yield Text(outcome(result), style=STATUS_STYLES[result.status])
    if result.series is not None and (decided := decided_by(result)):
        yield plain(decided)
    if result.buy:
        yield from _purchase(result)
    if result.replaced is not None and result.replaced.nodes:
        yield from _replaced(result, result.replaced)
    yield from headroom.of_sizing(result, surface)
    if result.survival is not None:
        of = result.survival.fail + (f", {result.survival.atOnce} at once" if result.survival.atOnce > 1 else "")
        count = counted(result.survival.scenarios.all, "failure")
        text = f"certified: all comes back after any of {count}" if result.survival.certified else "not certified: something stays pending"
        yield Padding(plain(f"{text} ({of})"), (1, 0, 0, 0))
    yield from _misfits(result, surface)
    if result.series is not None:
        yield from moments(result, surface)
    if result.utilisation:
        yield from _utilisation(result.utilisation, surface)
    if result.workloads:
        yield from _costs(result.workloads, surface)
    if surface.wide and result.placement is not None and result.placement.assignments:
        yield from assignments(result.placement, snapshot, surface)
    yield from unmodelled_and_notes(result, surface)
    yield from _objective(result)


def _purchase(result: Sizing) -> Iterator[RenderableType]:
    table = grid("shape", "zone", "nodes", "each", "per hour", f"per month of {MONTH_HOURS} h", right=(2, 3, 4, 5), title="To buy")
    total = 0
    for purchase in result.buy:
        price = money.parse(purchase.price)
        total += price * purchase.count
        amounts = money.text(price), *_hour_and_month(price * purchase.count)
        table.add_row(Name(purchase.shape), plain(purchase.zone), f"{purchase.count:,}", *amounts)
    if len(result.buy) > 1:
        nodes = sum(purchase.count for purchase in result.buy)
        table.add_row(Text("all", style="bold"), "", f"{nodes:,}", "", *_hour_and_month(total))
    yield inset(table)


def _hour_and_month(millionths: int) -> tuple[str, str]:
    """Return the cost per hour and per month, rounded to the cent."""
    cents = (millionths * MONTH_HOURS + 5_000) // 10_000
    return money.text(millionths), money.text(cents * 10_000)


def _replaced(result: Sizing, gone: Replaced) -> Iterator[RenderableType]:
    """Yield the cost of the replaced nodes compared with the purchase."""
    nodes = counted(gone.nodes, "node")
    if not gone.priced:
        text = f"instead of {nodes}, whose instance types are not in the catalogue"
    elif gone.priced < gone.nodes:
        text = f"instead of {nodes}; the catalogue has {gone.priced:,}, which cost {money.text(money.parse(gone.cost))} per hour"
    else:
        before = money.parse(gone.cost)
        less = before - _value(result)
        word = "less" if less >= 0 else "more"
        change = f", which is {money.text(abs(less))} per hour {word} ({percent(abs(less), before)} %)" if less and before else ""
        text = f"instead of {nodes} for {money.text(before)} per hour{change}"
    yield Padding(plain(text), (1, 0, 0, 0))


def _misfits(result: Sizing, surface: Surface) -> Iterator[RenderableType]:
    """Yield pods that no shape takes, with the reasons per shape and the cause."""
    found = result.misfits
    if found:
        yield heading("Pods that fit on no shape")
    for misfit in found[: surface.limit(_MAX_ENTRIES)]:
        line = plain(f"{counted(len(misfit.pods), 'pod')}: ", style="bold red").append_text(
            plain(examples(misfit.pods, surface), "default")
        )
        yield inset(line)
        said: dict[tuple[str, str], list[str]] = {}
        for reason in misfit.reasons:
            said.setdefault((reason.rule, reason.message), []).append(reason.shape)
        for (rule, message), shapes in said.items():
            suffix = f" on {examples(list(dict.fromkeys(shapes)), surface)}{f': {message}' if message else ''}"
            yield inset(plain(rule, style="yellow").append_text(plain(suffix, style="default")), 6)
        cause = next((cause for cause in result.causes if set(cause.pods) & set(misfit.pods)), None)
        for fact in cause.facts if cause is not None else ():
            yield inset(plain(f"because {fact.message}"), 6)
    yield from more(len(found) - surface.limit(_MAX_ENTRIES), "... and {:,} more kinds of pods (--all lists them)")
    named = {pod for misfit in found for pod in misfit.pods}
    yield from _other_causes([cause for cause in result.causes if named.isdisjoint(cause.pods)], surface)


def _other_causes(causes: Sequence[Cause], surface: Surface) -> Iterator[RenderableType]:
    """Yield the causes of unplaced pods that fit some shape on their own."""
    if causes:
        yield heading("Conflicts")
    for cause in causes[: surface.limit(_MAX_ENTRIES)]:
        line = plain(f"{counted(len(cause.pods), 'pod')}: ", style="bold red")
        yield inset(line.append_text(plain(examples(cause.pods, surface), "default")))
        for fact in cause.facts:
            yield inset(plain(f"{fact.rule}: ", style="yellow").append_text(plain(fact.message, style="default")), 6)
    yield from more(len(causes) - surface.limit(_MAX_ENTRIES), "... and {:,} more (--all lists them)")


def _utilisation(found: Sequence[Utilisation], surface: Surface) -> Iterator[RenderableType]:
    """Yield a row per shape and a column per resource, then the limiting resource."""
    rows: dict[str, dict[str, Utilisation]] = {}
    for entry in found:
        rows.setdefault(entry.shape, {})[entry.resource] = entry
    whole = rows.pop("", {})
    names = list(whole)
    table = grid("shape", *names, title="Utilisation")
    for shape, cells in [*rows.items(), *([("", whole)] if len(rows) > 1 else [])]:
        first: Cell = Name(shape) if shape else Text("all", style="bold")
        drawn = [bar(cells[r].requested, cells[r].allocatable, r, surface) if r in cells else "" for r in names]
        table.add_row(first, *drawn)
    yield inset(table)
    own = ", ".join(f"{percent(e.daemons, e.allocatable)} % of {r}" for r, e in whole.items() if e.daemons and e.allocatable)
    if own:
        yield inset(plain(f"DaemonSets and static pods, which every node brings, take {own}"))
    yield inset(plain(f"Limit: {limit(whole.values())}"))


def limit(whole: Iterable[Utilisation]) -> str:
    """Return the fullest resource, and other limits of a purchase if it is not full."""
    fullest = max(whole, key=lambda e: Fraction(e.requested, max(1, e.allocatable)))
    share = percent(fullest.requested, fullest.allocatable)
    text = f"{fullest.resource}, {share} % requested"
    return text if share >= _FULL_PERCENT else f"{text}; rules, or the available sizes, zones and counts, limit the purchase more"


def _costs(found: Sequence[WorkloadCost], surface: Surface) -> Iterator[RenderableType]:
    """Yield the most expensive workloads, then the total cost of DaemonSets and static pods."""
    costs = [money.parse(entry.cost) for entry in found]
    total = sum(costs)
    table = grid("workload", "pods", "per hour", "share", right=(1, 2, 3), title="Cost of workloads, by their dominant resource")
    for entry, cost in list(zip(found, costs, strict=True))[: surface.limit(_MAX_ENTRIES)]:
        first: Cell = Name(entry.workload) if entry.workload else plain("(nodes without pods)", style="dim")
        table.add_row(first, f"{entry.pods:,}", money.text(cost), f"{percent(cost, total)} %")
    yield inset(table)
    yield from more(len(found) - surface.limit(_MAX_ENTRIES), "... and {:,} more (--all lists them)")
    own = sum(cost for entry, cost in zip(found, costs, strict=True) if entry.daemon)
    if own:
        yield inset(plain(f"DaemonSets and static pods together: {money.text(own)} per hour, {percent(own, total)} %"))


def _objective(result: Sizing) -> Iterator[RenderableType]:
    s = result.seconds
    took = f" ({s.load + s.compile + s.solve + s.verify:.1f} s)" if s is not None else ""
    yield heading("Objective: ").append(result.status, style=STATUS_STYLES[result.status]).append(took, style="dim")
    if result.status in ("infeasible", "unknown"):
        return
    table = grid("goal", "reached", "best possible", "gap", right=(1, 2, 3))
    nodes = result.nodes
    goals = [("cost per hour", money.text(_value(result)), money.text(_bound(result)), _gap(result))]
    if _value(result) == _bound(result):  # the number of nodes is minimised at the least cost only
        goals.append(("nodes at this cost", f"{nodes.value:,}", f"{nodes.bound:,}", gap_text(nodes.value, nodes.bound)))
    for name, reached, best, gap in goals:
        table.add_row(name, reached, best, Text(gap, style="green" if gap == "proved" else "yellow"))
    yield inset(table)


def _value(result: Sizing) -> int:
    return money.parse(result.cost.value)


def _bound(result: Sizing) -> int:
    return money.parse(result.cost.bound)


def _gap(result: Sizing) -> str:
    """Return the gap between cost and lower bound, in per cent of the cost."""
    return gap_text(_value(result), _bound(result))
