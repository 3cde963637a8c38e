"""A Placement as a table for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from models.documents.placement import Placement, Preferences, TierResult, Unplaced
from models.documents.rebalance_plan import RebalancePlan
from models.kube import quantity
from models.kube.objects import pod_key
from models.snapshot.snapshot import Snapshot
from report.documents.output import counted
from report.terminal.canvas import Surface, grid, heading, plain
from report.terminal.causes import causes, gangs
from report.terminal.progress import gap_text
from report.terminal.rollout import rollout
from report.terminal.usage import RESOURCES, Usage, per_node, per_zone, share

#: Above this many nodes they are summed by zone, and only the fullest are listed.
_MANY_NODES: Final = 40
_FULLEST: Final = 10
#: Assignments listed one by one; kinds of unplaced pods; names given as examples.
_LISTED: Final = 40
_GROUPS: Final = 20
_EXAMPLES: Final = 3
#: Workloads and preferences listed.
_LOSING: Final = 10

_STATUS_STYLE: Final = {"optimal": "bold green", "feasible": "bold yellow", "infeasible": "bold red", "unknown": "bold red"}


def summary(placement: Placement, seconds: float) -> str:
    """Return one line: how many pods were placed, on how many nodes, how well, in what time (wall-clock seconds)."""
    nodes = len({a.node for a in placement.assignments})
    parts = [outcome(placement), f"on {counted(nodes, 'node')}" if nodes else None, score_line(placement), placement.status]
    return "; ".join([*filter(None, parts), f"{seconds:.1f} s"])


def outcome(placement: Placement) -> str:
    """Return what was placed and what was not: ``80 of 87 pods placed, 7 cannot be (proved)``."""
    pending, placed = placement.snapshot.pending, len(placement.assignments)
    if not pending:
        return "nothing to place"
    text = f"{placed:,} of {counted(pending, 'pod')} placed"
    if placed == pending:
        return text
    tiers = [tier for tier in placement.objective if tier.tier == "placed"]
    proved = tiers and all(tier.value == tier.bound for tier in tiers)
    return f"{text}, {pending - placed:,} {'cannot be (proved)' if proved else 'could not be (not proved)'}"


def placement(result: Placement, snapshot: Snapshot, surface: Surface) -> Iterator[RenderableType]:
    """Yield the parts of the report: what was placed, why the rest was not, nodes, preferences; how good that is comes last."""
    pending, placed = result.snapshot.pending, len(result.assignments)
    yield Text(outcome(result), style="bold green" if placed == pending else "bold yellow" if placed else "bold red")
    if result.rollout is not None:
        yield from rollout(result.rollout)
    yield from gangs(result.gangs)
    if result.unplaced:
        yield from _unplaced(result.unplaced)
    yield from causes(result.causes)
    if result.rollout is None:  # in a rollout nodes are used by old and new pods in turn
        usages = per_node(snapshot, result)
        if usages:
            yield from _nodes(usages, surface)
        if result.assignments:
            yield from _assignments(result)
    if result.preferences is not None:
        yield from _preferences(result, result.preferences)
    yield from unmodelled_and_notes(result)
    yield objective_heading(result)
    if result.objective:
        yield _tiers(result, snapshot)


def objective_heading(result: Placement | RebalancePlan) -> Text:
    """Return ``Objective: optimal (exact engine, 0.4 s)``, the time where the run kept it."""
    s = result.seconds
    took = f", {s.load + s.compile + s.solve + s.verify:.1f} s" if s is not None else ""
    text = heading("Objective: ").append(result.status, style=_STATUS_STYLE[result.status])
    return text.append_text(plain(f" ({result.engine} engine{took})", style="dim"))


def _tiers(result: Placement, snapshot: Snapshot) -> RenderableType:
    """Return the tiers with value and bound; the placed tiers also say how many pods of that priority there were to place."""
    priorities = {pod_key(pod): pod.spec.priority or 0 for pod in snapshot.pods}
    to_place = [*(a.pod for a in result.assignments), *(u.pod for u in result.unplaced if not u.gated)]
    of = Counter(priorities.get(pod, 0) for pod in to_place)
    table = grid("tier", "value", "of", "bound", "gap", right=(1, 2, 3, 4))
    for tier in result.objective:
        total = "" if tier.tier != "placed" else str(of[tier.priority] if tier.priority is not None else of.total())
        name = tier.tier if tier.priority is None else f"{tier.tier}, priority {tier.priority}"
        gap = gap_text(tier.value, tier.bound)
        table.add_row(plain(name), str(tier.value), total, str(tier.bound), Text(gap, style=_gap_style(tier)))
    return Padding(table, (0, 0, 0, 2))


def _gap_style(tier: TierResult) -> str:
    return "green" if tier.value == tier.bound else "yellow"


# --- preferences ------------------------------------------------------------------------------------------------------


def score_line(result: Placement) -> str | None:
    """Return the soft tier in words, ``score 340 of at most 360, proved``; None without one."""
    tier = next((t for t in result.objective if t.tier == "soft"), None)
    if tier is None:
        return None
    proof = "proved" if tier.value == tier.bound else f"gap {gap_text(tier.value, tier.bound)}"
    return f"score {tier.value:,} of at most {tier.bound:,}, {proof}"


def _preferences(result: Placement, found: Preferences) -> Iterator[RenderableType]:
    """Yield the score, then by family, then the workloads that lost most, then what was not met."""
    yield heading(f"Preferences: {score_line(result)}")
    table = grid("family", "points", "best alone", "weight", right=(1, 2, 3))
    for family in found.families:
        table.add_row(plain(family.family), f"{family.value:,}", f"{family.best:,}", f"x{family.multiplier}")
    yield Padding(table, (0, 0, 0, 2))
    losing = [w for w in found.workloads if w.lost]
    if losing:
        yield heading(f"Workloads that lost most ({len(losing):,} of {counted(len(found.workloads), 'workload')} with preferences)")
        table = grid("workload", "points", "lost", right=(1, 2))
        for workload in losing[:_LOSING]:
            table.add_row(plain(workload.workload), f"{workload.value:,}", Text(f"{workload.lost:,}", style="yellow"))
        yield Padding(table, (0, 0, 0, 2))
    if found.unmet:
        yield heading("Not met, the costliest first")
        table = grid("lost", "workload", "preference", "pods", right=(0, 3))
        for unmet in found.unmet[:_LOSING]:
            table.add_row(Text(f"{unmet.lost:,}", style="yellow"), plain(unmet.workload), plain(unmet.preference), f"{unmet.pods:,}")
        yield Padding(table, (0, 0, 0, 2))
        if len(found.unmet) > _LOSING:
            yield Padding(plain(f"... and {len(found.unmet) - _LOSING:,} more (-f json lists them)", style="dim"), (0, 0, 0, 2))


# --- nodes ------------------------------------------------------------------------------------------------------------


def _nodes(usages: list[Usage], surface: Surface) -> Iterator[RenderableType]:
    zones = per_zone(usages)
    suffix = shared_domain(u.name for u in usages)
    without = f" (names without {suffix})" if suffix else ""
    if len(usages) <= _MANY_NODES:
        yield heading(f"Nodes{without}")
        table = _usage_table("node", surface)
        for zone in zones:
            if len(zones) > 1 or zone.zone is not None:
                table.add_row(plain(_zone_name(zone), style="bold"))
            for usage in usages:
                if usage.zone == zone.zone:
                    _usage_row(table, f"  {usage.name.removesuffix(suffix)}", usage, surface)
        yield Padding(table, (0, 0, 0, 2))
        return
    yield heading(f"Zones ({len(usages):,} nodes)")
    table = _usage_table("zone (nodes)", surface)
    for zone in zones:
        _usage_row(table, f"{_zone_name(zone)} ({zone.nodes:,})", zone, surface)
    yield Padding(table, (0, 0, 0, 2))
    yield heading(f"The {_FULLEST} fullest nodes{without}")
    table = _usage_table("node", surface)
    for usage in sorted(usages, key=lambda u: ([-part for part in u.fullness()], u.name))[:_FULLEST]:
        _usage_row(table, usage.name.removesuffix(suffix), usage, surface)
    yield Padding(table, (0, 0, 0, 2))


def shared_domain(names: Iterable[str]) -> str:
    """Return the domain that all node names end in (``.eu-west-1.compute.internal``), or nothing."""
    different, shared = set(names), list[str]()
    for parts in zip(*(reversed(name.split(".")[1:]) for name in different), strict=False):
        if len(set(parts)) > 1:
            break
        shared.insert(0, f".{parts[0]}")
    return "".join(shared) if len(different) > 1 else ""


def _zone_name(zone: Usage) -> str:
    return zone.name if zone.zone is not None else "no zone"


def _wide(surface: Surface) -> bool:
    return surface.width >= 150


def _usage_table(first: str, surface: Surface) -> Table:
    table = grid(first, "new", *RESOURCES, right=(1,))
    for column in table.columns[2:]:
        column.no_wrap = True
    return table


def _usage_row(table: Table, name: str, usage: Usage, surface: Surface) -> None:
    cells = [_bar(usage.used[r], usage.allocatable[r], r, surface) for r in RESOURCES]
    table.add_row(plain(name), f"+{usage.new:,}" if usage.new else "", *cells)


def _bar(used: int, total: int, resource: str, surface: Surface) -> Text:
    """Return a bar, the percentage, and the amounts where there is room."""
    percent = share(used, total)
    width = 12 if _wide(surface) else 8
    style = "red" if percent >= 95 else "yellow" if percent >= 80 else "green"
    eighths = min(share(used, total, width * 8), width * 8)
    text = Text()
    if surface.unicode:
        text.append("█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip(), style=style)
        text.append("·" * (width - len(text)), style="dim")
    else:
        text.append("#" * (eighths // 8), style=style)
        text.append("." * (width - len(text)), style="dim")
    text.append(f" {percent:3}%")
    if _wide(surface):
        text.append(f" {f'{amount(used, resource)}/{amount(total, resource)}':15}", style="dim")
    return text


def amount(value: int, resource: str) -> str:
    """Return an amount as Kubernetes writes it: ``250m``, ``1.5Gi``, ``110``."""
    if resource == "cpu":
        return quantity.format_cpu(value)
    return quantity.format_bytes(value) if resource == "memory" else str(value)


# --- pods -------------------------------------------------------------------------------------------------------------


def _assignments(result: Placement) -> Iterator[RenderableType]:
    ordered = sorted(result.assignments, key=lambda a: a.order)
    in_gangs, zones = any(a.gang for a in ordered), any(a.containers for a in ordered)
    yield heading("Assignments, in bind order")
    table = grid("#", "pod", "node", *(["gang"] if in_gangs else []), *(["NUMA zones"] if zones else []), right=(0,))
    for a in ordered[:_LISTED]:
        extra = [plain(a.gang or "")] if in_gangs else []
        extra += [plain(", ".join(f"{c.name}: {'+'.join(c.zones)}" for c in a.containers))] if zones else []
        table.add_row(str(a.order), plain(a.pod), plain(a.node), *extra)
    yield Padding(table, (0, 0, 0, 2))
    if len(ordered) > _LISTED:
        yield Padding(plain(f"... and {len(ordered) - _LISTED:,} more (-f json lists all)", style="dim"), (0, 0, 0, 2))


def examples(names: Sequence[str]) -> str:
    """Return the first few names, with an ellipsis if there are more."""
    return ", ".join(names[:_EXAMPLES]) + (", ..." if len(names) > _EXAMPLES else "")


def _unplaced(unplaced: Sequence[Unplaced]) -> Iterator[RenderableType]:
    """Yield pods with the same reasons together, the largest group first."""
    yield heading(f"Not placed ({counted(len(unplaced), 'pod')})")
    groups: dict[tuple[tuple[str, int, str], ...], list[str]] = {}
    for entry in unplaced:
        groups.setdefault(tuple((r.rule, r.nodes, r.message) for r in entry.reasons), []).append(entry.pod)
    ordered = sorted(groups.items(), key=lambda item: -len(item[1]))
    for reasons, pods in islice(ordered, _GROUPS):
        line = Text("  ").append(counted(len(pods), "pod"), style="bold red").append(": ").append_text(plain(examples(pods)))
        yield line
        for rule, nodes, message in reasons:
            on = f" on {counted(nodes, 'node')}" if nodes else ""
            said = f": {message}" if message else ""
            yield Padding(plain(rule, style="yellow").append_text(plain(on + said, style="default")), (0, 0, 0, 6))
    if len(ordered) > _GROUPS:
        rest = sum(len(pods) for _, pods in ordered[_GROUPS:])
        yield plain(f"  ... and {counted(rest, 'pod')} with {counted(len(ordered) - _GROUPS, 'other set')} of reasons", style="dim")


def unmodelled_and_notes(result: Placement | RebalancePlan) -> Iterator[RenderableType]:
    """Yield what of the input is not modelled, by field and effect, then the notes."""
    groups: dict[tuple[str, str], list[str]] = {}
    for entry in result.unmodelled:
        groups.setdefault((entry.field, entry.effect), []).append(entry.pod)
    if groups:
        yield heading("Not modelled")
    for (field, effect), names in groups.items():
        text = plain(f"{field}: {effect}", style="yellow").append_text(plain(f" ({len(names):,}: {examples(names)})", style="default"))
        yield Padding(text, (0, 0, 0, 2))
    if result.notes:
        yield heading("Notes")
    for note in result.notes:
        yield Padding(plain(note), (0, 0, 0, 2))
