"""The report on a Placement for terminals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, Protocol

from rich.console import RenderableType
from rich.text import Text

from kubestow.models.documents.placement import Assignment, Placement, Preferences, Unmodelled, Unplaced
from kubestow.models.documents.rebalance_plan import RebalancePlan
from kubestow.models.kube.objects import pod_key
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.report.documents import devices
from kubestow.report.documents.node_rows import zone_of
from kubestow.report.documents.output import counted
from kubestow.report.documents.status_words import status_words
from kubestow.report.documents.tier_words import gap_text, tier_words
from kubestow.report.terminal.canvas import Surface, bar, grid, heading, inset, listed, more, plain
from kubestow.report.terminal.causes import causes, gangs
from kubestow.report.terminal.columns import Cell, Grid, Name
from kubestow.report.terminal.rollout import rollout
from kubestow.report.terminal.usage import RESOURCES, Usage, per_node, per_zone
from kubestow.report.terminal.workloads import added, added_pods, owners, pods_and_workloads

#: Maximum number of listed nodes. Above it, only zones and the fullest nodes are listed.
_MAX_NODES: Final = 40
_FULLEST_NODES: Final = 10
#: Maximum numbers of listed assignments, kinds of unplaced pods, and example names.
_MAX_ASSIGNMENTS: Final = 40
_MAX_GROUPS: Final = 20
_MAX_EXAMPLES: Final = 3
#: Maximum numbers of listed workloads and preferences.
_MAX_LOSING: Final = 10
#: Maximum numbers of listed messages and outcomes.
_MAX_MESSAGES: Final = 20
_MAX_OUTCOMES: Final = 10

STATUS_STYLES: Final = {"optimal": "bold green", "feasible": "bold yellow", "infeasible": "bold red", "unknown": "bold red"}


def summary(placement: Placement, seconds: float) -> str:
    """Return placed pods, nodes, score, status and wall-clock seconds in one line."""
    nodes = len({a.node for a in placement.assignments})
    parts = [outcome(placement), f"on {counted(nodes, 'node')}" if nodes else None, score_line(placement), *status_words(placement)]
    return "; ".join([*filter(None, parts), f"{seconds:.1f} s"])


def outcome(placement: Placement) -> str:
    """Return the numbers of placed and unplaced pods: ``80 of 87 pods placed, 7 cannot be (proved)``."""
    pending, placed = placement.snapshot.pending, _placed(placement)
    if not pending:
        return "nothing to place"
    text = f"{placed:,} of {counted(pending, 'pod')} placed"
    if placed == pending:
        return text
    tiers = [tier for tier in placement.objective if tier.tier == "placed"]
    proved = tiers and all(tier.value == tier.bound for tier in tiers)
    return f"{text}, {pending - placed:,} {'cannot be (proved)' if proved else 'could not be (not proved)'}"


def _placed(placement: Placement) -> int:
    """Return the number of placed pods, without pending pods of an old revision."""
    waves = placement.rollout.waves if placement.rollout is not None else []
    return len(placement.assignments) - sum(entry.old for wave in waves for entry in wave.create)


def placement(result: Placement, snapshot: Snapshot, surface: Surface) -> Iterator[RenderableType]:
    """Yield the parts of the report: placed pods, reasons for unplaced pods, nodes, preferences and, last, the objective."""
    pending, placed = result.snapshot.pending, _placed(result)
    yield Text(outcome(result), style="bold green" if placed == pending else "bold yellow" if placed else "bold red")
    if result.rollout is not None:
        yield from rollout(result.rollout, surface)
    if result.rollout is None or result.rollout.workload.startswith("Deployment "):
        yield from added(result, snapshot, surface)  # pods replaced in place keep their names or nodes
    yield from gangs(result.gangs)
    owned = owners(snapshot, (u.pod for u in result.unplaced))
    if result.unplaced:
        yield from _unplaced(result.unplaced, owned, surface)
    yield from causes(result.causes, owned)
    if result.rollout is None:  # in a rollout, old and new pods use the nodes in turn
        usages = per_node(snapshot, result)
        if usages:
            yield from _nodes(usages, surface)
        if result.assignments:
            yield from assignments(result, snapshot, surface)
    if result.preferences is not None:
        yield from _preferences(result, result.preferences, surface)
    yield from unmodelled_and_notes(result, surface)
    yield objective_heading(result)
    if result.objective:
        yield _tiers(result, snapshot)


def objective_heading(result: Placement | RebalancePlan) -> Text:
    """Return ``Objective: optimal (exact engine, 0.4 s)``, with the time if the run recorded it.

    Tiers outside the status follow: ``Objective: placed: optimal; evenness of the nodes: gap 3.2 % (greedy
    engine)``.
    """
    s = result.seconds
    took = f", {s.load + s.compile + s.solve + s.verify:.1f} s" if s is not None else ""
    status, *apart = status_words(result)
    text = heading("Objective: ").append(status, style=STATUS_STYLES[result.status])
    for part in apart:
        text.append_text(plain("; ")).append_text(plain(part, style="bold yellow"))
    return text.append_text(plain(f" ({result.engine} engine{took})", style="dim"))


def _tiers(result: Placement, snapshot: Snapshot) -> RenderableType:
    """Return the tiers with value and bound. Placed tiers include the number of pods of that priority."""
    priorities = {pod_key(pod): pod.spec.priority or 0 for pod in snapshot.pods}
    to_place = [*(a.pod for a in result.assignments), *(u.pod for u in result.unplaced if not u.gated)]
    # The snapshot lacks the new pods of a rollout. They have the priority of their template, which is the tier's.
    new = next((tier.priority or 0 for tier in result.objective if tier.tier == "placed"), 0)
    of = Counter(priorities.get(pod, new) for pod in to_place)
    table = grid("goal", "reached", "of", "best possible", "gap", right=(1, 2, 3, 4))
    for tier in result.objective:
        total = "" if tier.tier != "placed" else f"{of[tier.priority] if tier.priority is not None else of.total():,}"
        words = tier_words(tier, result.policy)
        gap = gap_text(tier.value, tier.bound)
        style = "green" if tier.value == tier.bound else "yellow"
        table.add_row(plain(words.name), f"{words.reached:,}", total, f"{words.best:,}", Text(gap, style=style))
    return inset(table)


# --- preferences ------------------------------------------------------------------------------------------------------


def score_line(result: Placement) -> str | None:
    """Return the soft tier as text, ``score 340 of at most 360, proved``, or None."""
    tier = next((t for t in result.objective if t.tier == "soft"), None)
    if tier is None:
        return None
    proof = "proved" if tier.value == tier.bound else f"gap {gap_text(tier.value, tier.bound)}"
    return f"score {tier.value:,} of at most {tier.bound:,}, {proof}"


def _preferences(result: Placement, found: Preferences, surface: Surface) -> Iterator[RenderableType]:
    """Yield the score, the families, the workloads that lost most, and unmet preferences."""
    yield heading(f"Preferences: {score_line(result)}")
    table = grid("family", "points", "best alone", "weight", right=(1, 2, 3))
    for family in found.families:
        table.add_row(plain(family.family), f"{family.value:,}", f"{family.best:,}", f"x{family.multiplier}")
    yield inset(table)
    losing = [w for w in found.workloads if w.lost]
    if losing:
        title = f"Workloads that lost most ({len(losing):,} of {counted(len(found.workloads), 'workload')} with preferences)"
        table = grid("workload", "points", "lost", right=(1, 2), title=title)
        for workload in losing[: surface.limit(_MAX_LOSING)]:
            table.add_row(Name(workload.workload), f"{workload.value:,}", Text(f"{workload.lost:,}", style="yellow"))
        yield inset(table)
    if found.unmet:
        table = grid("lost", "workload", "preference", "pods", right=(0, 3), prose=(2,), title="Not met, the costliest first")
        for unmet in found.unmet[: surface.limit(_MAX_LOSING)]:
            table.add_row(Text(f"{unmet.lost:,}", style="yellow"), Name(unmet.workload), plain(unmet.preference), f"{unmet.pods:,}")
        yield inset(table)
        yield from more(len(found.unmet) - surface.limit(_MAX_LOSING), "... and {:,} more (--all lists them)")


# --- nodes ------------------------------------------------------------------------------------------------------------


def _nodes(usages: list[Usage], surface: Surface) -> Iterator[RenderableType]:
    zones = per_zone(usages)
    if len(usages) <= surface.limit(_MAX_NODES):
        table = _usage_table("node", "Nodes")
        for zone in zones:
            if len(zones) > 1 or zone.zone is not None:
                table.add_row(plain(zone.name, style="bold"), *[""] * (1 + len(RESOURCES)))
            for usage in usages:
                if usage.zone == zone.zone:
                    _usage_row(table, Name(usage.name, indent=2), usage, surface)
        yield inset(table)
        return
    table = _usage_table("zone (nodes)", f"Zones ({len(usages):,} nodes)")
    for zone in zones:
        _usage_row(table, plain(f"{zone.name} ({zone.nodes:,})"), zone, surface)
    yield inset(table)
    table = _usage_table("node", f"The {_FULLEST_NODES} fullest nodes")
    for usage in sorted(usages, key=lambda u: ([-part for part in u.fullness()], u.name))[:_FULLEST_NODES]:
        _usage_row(table, Name(usage.name), usage, surface)
    yield inset(table)


def _usage_table(first: str, title: str) -> Grid:
    return grid(first, "new", *RESOURCES, right=(1,), title=title)


def _usage_row(table: Grid, name: Cell, usage: Usage, surface: Surface) -> None:
    table.add_row(name, f"+{usage.new:,}" if usage.new else "", *(bar(usage.used[r], usage.allocatable[r], r, surface) for r in RESOURCES))


# --- pods -------------------------------------------------------------------------------------------------------------


def assignments(result: Placement, snapshot: Snapshot, surface: Surface) -> Iterator[RenderableType]:
    """Yield the assignments in bind order, those of pods in manifests first."""
    ordered = sorted(result.assignments, key=lambda a: a.order)
    added = {pod for pods in added_pods(snapshot, result.snapshot.workloads).values() for pod in pods}
    yield from _listed([a for a in ordered if a.pod in added], "Assignments of the manifests, in bind order", snapshot, surface)
    of = " of the snapshot" if added else ""
    yield from _listed([a for a in ordered if a.pod not in added], f"Assignments{of}, in bind order", snapshot, surface)


def _listed(found: Sequence[Assignment], title: str, snapshot: Snapshot, surface: Surface) -> Iterator[RenderableType]:
    if not found:
        return
    shown = found[: surface.limit(_MAX_ASSIGNMENTS)]
    columns: dict[str, Callable[[Assignment], Cell]] = {
        "#": lambda a: f"{a.order:,}",
        "pod": lambda a: Name(a.pod),
        "node": lambda a: Name(a.node),
    }
    if surface.wide:
        owned = owners(snapshot, (a.pod for a in shown))
        zones = {node.metadata.name or "": zone_of(node) or "" for node in snapshot.nodes}
        columns |= {"zone": lambda a: plain(zones.get(a.node, "")), "workload": lambda a: Name(owned.get(a.pod, ""))}
    if any(a.gang for a in found):
        columns["gang"] = lambda a: plain(a.gang or "")
    if any(a.containers for a in found):
        columns["NUMA zones"] = lambda a: plain(numa_zones(a))
    if any(a.devices for a in found):
        columns["devices"] = lambda a: plain((devices.listed if surface.wide else devices.counted)(a.devices))
    table = grid(*columns, right=(0,), prose=(list(columns).index("devices"),) if "devices" in columns else (), title=title)
    for a in shown:
        table.add_row(*(cell(a) for cell in columns.values()))
    yield inset(table)
    yield from more(len(found) - len(shown))


def numa_zones(assignment: Assignment) -> str:
    """Return the NUMA zones of the containers: ``app: node-0+node-1, sidecar: node-0``."""
    return ", ".join(f"{c.name}: {'+'.join(c.zones)}" for c in assignment.containers)


def examples(names: Sequence[str], surface: Surface | None = None) -> str:
    """Return the first names, with an ellipsis if there are more. A ``surface`` that shows everything gets all names."""
    limit = _MAX_EXAMPLES if surface is None else surface.limit(_MAX_EXAMPLES)
    return ", ".join(names[:limit]) + (", ..." if len(names) > limit else "")


def _unplaced(unplaced: Sequence[Unplaced], owned: Mapping[str, str], surface: Surface) -> Iterator[RenderableType]:
    """Yield groups of pods with equal reasons, largest group first."""
    yield heading(f"Not placed ({counted(len(unplaced), 'pod')})")
    groups: dict[tuple[tuple[str, int, str], ...], list[str]] = {}
    for entry in unplaced:
        groups.setdefault(tuple((r.rule, r.nodes, r.message) for r in entry.reasons), []).append(entry.pod)
    ordered = sorted(groups.items(), key=lambda item: -len(item[1]))
    limit = surface.limit(_MAX_GROUPS)
    for reasons, pods in islice(ordered, limit):
        line = Text(pods_and_workloads(pods, owned), style="bold red").append(": ", style="default")
        yield inset(line.append_text(plain(examples(pods, surface), style="default")))
        for rule, nodes, message in reasons:
            on = f" on {counted(nodes, 'node')}" if nodes else ""
            said = f": {message}" if message else ""
            yield inset(plain(rule, style="yellow").append_text(plain(on + said, style="default")), 6)
    omitted_text = counted(sum(len(pods) for _, pods in ordered[limit:]), "pod")
    yield from more(
        len(ordered) - limit, f"... and {omitted_text} with {counted(len(ordered) - limit, 'other set')} of reasons (--all lists all)"
    )


class Noted(Protocol):
    """A document with unmodelled features and notes."""

    unmodelled: list[Unmodelled]
    notes: list[str]


def unmodelled_and_notes(result: Noted, surface: Surface) -> Iterator[RenderableType]:
    """Yield unmodelled features of the input by field and effect, then the notes."""
    groups: dict[tuple[str, str], list[str]] = {}
    for entry in result.unmodelled:
        groups.setdefault((entry.field, entry.effect), []).append(entry.pod)
    if groups:
        yield heading("Not modelled")
    for (field, effect), names in groups.items():
        text = plain(f"{field}: {effect}", style="yellow").append_text(plain(f" ({len(names):,}: {examples(names, surface)})", "default"))
        yield inset(text)
    yield from listed("Notes", result.notes)


def simulation(result: Placement, surface: Surface) -> Iterator[RenderableType]:
    """Yield the scheduler's messages on the pods that stay, the pods that it would evict, and the outcomes of several runs."""
    by_message: dict[str, list[Unplaced]] = {}
    for entry in result.unplaced:
        if entry.schedulerMessage is not None:
            by_message.setdefault(entry.schedulerMessage, []).append(entry)
    if by_message:
        yield heading("kube-scheduler says")
        for text, entries in list(by_message.items())[: surface.limit(_MAX_MESSAGES)]:
            yield inset(plain(f"{examples([entry.pod for entry in entries], surface)}: {text}"))
        if len(by_message) > surface.limit(_MAX_MESSAGES):
            yield inset(plain(f"and {counted(len(by_message) - _MAX_MESSAGES, 'more message')} (--all lists them)"))
    preempting = [entry for entry in result.unplaced if entry.preemption is not None]
    if preempting:
        yield heading("Preemption")
        table = grid("pod", "gets node", "once these are gone", prose=(2,))
        for entry in preempting[: surface.limit(_MAX_MESSAGES)]:
            if entry.preemption is not None:
                table.add_row(Name(entry.pod), Name(entry.preemption.node), plain(", ".join(entry.preemption.victims)))
        yield inset(table)
    if result.outcomes:
        yield heading(f"Outcomes of {counted(sum(outcome.times for outcome in result.outcomes), 'run')}")
        table = grid("times", "placed", "seed", "stay", right=(0, 1, 2), prose=(3,))
        for outcome in result.outcomes[: surface.limit(_MAX_OUTCOMES)]:
            table.add_row(f"{outcome.times:,}", f"{outcome.placed:,}", str(outcome.seed), plain(examples(outcome.unplaced, surface)))
        yield inset(table)
