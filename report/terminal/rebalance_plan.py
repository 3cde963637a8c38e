"""The report on a RebalancePlan for terminals: gains, waves in the style of a diff, and unchanged pods with reasons."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from rich.console import RenderableType
from rich.text import Text

from kubestow.models.documents.rebalance_plan import Limits, NodeUse, RebalancePlan
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.report.documents.numbers import amount, percent
from kubestow.report.documents.output import counted, some
from kubestow.report.documents.tier_words import gap_text, tier_words
from kubestow.report.terminal.canvas import Surface, grid, heading, inset, more, plain
from kubestow.report.terminal.columns import Name, Sized, share, usage_style
from kubestow.report.terminal.placement import examples, objective_heading, unmodelled_and_notes
from kubestow.report.terminal.plan_waves import waves

#: Maximum numbers of listed nodes, obstacles and kinds of unmodelled fields.
_MAX_ENTRIES: Final = 20


def plan_line(plan: RebalancePlan, seconds: float) -> str:
    """Return steps, reached goals, status and wall-clock seconds in one line."""
    status = [plan.status] if plan.moves or plan.evictions else []
    return "; ".join([verdict(plan), *status, f"{seconds:.1f} s"])


def plan_table(plan: RebalancePlan, snapshot: Snapshot, surface: Surface) -> Iterator[RenderableType]:
    """Yield the parts of the report: reached goals, obstacles, steps and, last, the objective."""
    yield from _header(plan, surface)
    yield from _obstacles(plan, surface)
    if plan.moves or plan.evictions:
        yield from _gains(plan)
        yield from _nodes(plan, surface)
        yield from waves(plan, snapshot, surface)
    if plan.freed:
        yield heading(f"Freed: {counted(len(plan.freed), 'node')}")
        yield inset(plain(some(plan.freed, surface.limit(_MAX_ENTRIES))))
    if plan.excluded:
        table = grid("pods", "why", "", right=(0,), prose=(2,), title="Left where they are")
        for group in sorted(plan.excluded, key=lambda group: -len(group.pods)):
            table.add_row(f"{len(group.pods):,}", plain(group.reason, style="yellow"), plain(examples(group.pods, surface)))
        yield inset(table)
    yield from unmodelled_and_notes(plan, surface)
    yield objective_heading(plan)
    if plan.objective:
        yield _tiers(plan)


# --- the verdict ------------------------------------------------------------------------------------------------------


def verdict(plan: RebalancePlan) -> str:
    """Return ``12 moves in 4 waves (at least 3), 3 nodes freed (bound 3), 0 evictions``."""
    if not plan.moves and not plan.evictions:
        return _no_steps(plan)
    moved = sum(move.source is not None for move in plan.moves)
    bound = len(plan.moves) - moved
    steps = counted(moved, "move") + (f" and {counted(bound, 'binding')}" if bound else "")
    waves = counted(plan.waves, "wave") + (f" (at least {plan.leastWaves:,})" if plan.waves > 1 and plan.leastWaves else "")
    parts = [f"{steps} in {waves}", *_reached(plan), counted(len(plan.evictions), "eviction")]
    return ", ".join(parts)


def _no_steps(plan: RebalancePlan) -> str:
    sure = "proved" if plan.status == "optimal" else "not proved"
    if plan.obstacles:
        return f"no moves: {', '.join(_reached(plan)) or 'nothing can be reached'}, {counted(len(plan.obstacles), 'obstacle')} ({sure})"
    if plan.status != "optimal":
        return "no moves: no plan better than none was found in the time given (not proved)"
    return "nothing to do: no plan would be better than none (proved)"


def _reached(plan: RebalancePlan) -> list[str]:
    """Return the values of the goal tiers as text. Costs are negative in the document and positive here."""
    found: list[str] = []
    placed = [tier for tier in plan.objective if tier.tier == "placed"]
    for tier in plan.objective:
        value, bound = tier.value, tier.bound
        if tier.tier == "drained":
            done = f"{counted(len(plan.drain), 'node')} drained"
            found.append(done if not value else f"{counted(-value, 'pod')} left on nodes to drain (bound {-bound:,})")
        elif tier.tier == "rules":
            found.append(f"{counted(-value, 'broken rule')} left (bound {-bound:,})")
        elif tier.tier == "freed":
            priced = plan.policy is not None and plan.policy.priceLabel
            # The tier also counts nodes that were already empty.
            bound_text = f"cost {-value:,}, bound {-bound:,}" if priced else f"bound {len(plan.freed) + bound - value:,}"
            found.append(f"{counted(len(plan.freed), 'node')} freed ({bound_text})")
        elif tier.tier == "improve":
            found.append(f"score {value:,} (bound {bound:,})")
        elif placed and tier is placed[0]:
            total, most_placed = sum(t.value for t in placed), sum(t.bound for t in placed)
            found.append(f"{total:,} of {counted(plan.before.pending, 'pending pod')} placed (bound {most_placed:,})")
    return found


def _header(plan: RebalancePlan, surface: Surface) -> Iterator[Text]:
    yield plain(verdict(plan), style="bold yellow" if plan.obstacles else "bold green")
    goals = [f"drain {some(plan.drain, surface.limit(_MAX_ENTRIES))}" if goal == "drain" and plan.drain else goal for goal in plan.goals]
    limits = _limits(plan.limits)
    within = plain(f" ({', '.join(limits)})" if limits else "", style="dim")
    yield plain(f"goals: {', then '.join(goals)}", style="default").append_text(within)


def _limits(limits: Limits) -> list[str]:
    caps = {
        "moves": limits.maxMoves,
        "evictions": limits.maxEvictions,
        "moves per namespace": limits.maxMovesPerNamespace,
        "moves per workload": limits.maxMovesPerWorkload,
        "waves": limits.maxWaves,
        "nodes freed": limits.maxFreed,
    }
    found = [f"at most {cap:,} {what.replace('s', '', 1) if cap == 1 else what}" for what, cap in caps.items() if cap is not None]
    found += ["evictions allowed"] * limits.allowEviction + [f"also moves {what} pods" for what in limits.alsoMove]
    return found + [f"{limits.minGain:,} points per move"] * (limits.minGain != Limits().minGain)


def _tiers(plan: RebalancePlan) -> RenderableType:
    table = grid("goal", "reached", "best possible", "gap", right=(1, 2, 3))
    for tier in plan.objective:
        words = tier_words(tier, plan.policy)
        style = "green" if tier.value == tier.bound else "yellow"
        table.add_row(plain(words.name), f"{words.reached:,}", f"{words.best:,}", Text(gap_text(tier.value, tier.bound), style=style))
    return inset(table)


# --- before and after -------------------------------------------------------------------------------------------------


def _gains(plan: RebalancePlan) -> Iterator[RenderableType]:
    """Yield the overall changes of the plan, without figures that are zero before and after."""
    before, after = plan.before, plan.after
    rows: list[tuple[str, int, int, bool]] = [  # last field: True if more is better
        ("empty nodes", before.emptyNodes, after.emptyNodes, True),
        ("pending pods", before.pending, after.pending, False),
    ]
    rules = sorted({*before.rules, *after.rules})
    rows += [(f"pods that break {rule}", before.rules.get(rule, 0), after.rules.get(rule, 0), False) for rule in rules]
    was = {family.family: family.value for family in before.preferences}
    now = {family.family: family.value for family in after.preferences}
    rows += [(f"points of {family}", was.get(family, 0), now.get(family, 0), True) for family in dict.fromkeys([*was, *now])]
    if before.balance is not None and after.balance is not None:
        rows.append(("balance", before.balance, after.balance, True))
    rows = [row for row in rows if row[1] or row[2]]
    if not rows:
        return
    yield heading("Before and after")
    table = grid("", "before", "after", "", right=(1, 2, 3))
    for name, old, new, gains in rows:
        style = "dim" if old == new else "green" if (new > old) == gains else "red"
        table.add_row(plain(name), f"{old:,}", Text(f"{new:,}", style=style), Text(f"{new - old:+,}" if new != old else "=", style=style))
    yield inset(table)


def _nodes(plan: RebalancePlan, surface: Surface) -> Iterator[RenderableType]:
    """Yield the usage of changed nodes, largest change first. Nodes beyond the first few are summed up."""
    before, after = ({use.node: use for use in side.nodes} for side in (plan.before, plan.after))
    changed = [(before[name], after[name]) for name in before if name in after]
    if not changed:
        return
    changed.sort(key=lambda pair: (-_change(*pair), pair[0].node))
    table = grid("node", "pods", "cpu", "memory", title=f"Nodes that change ({len(changed):,})")
    limit = surface.limit(_MAX_ENTRIES)
    listed = changed if len(changed) <= limit else changed[: limit - 1]
    omitted = changed[len(listed) :]
    rows = [*listed, (_total(old for old, _ in omitted), _total(new for _, new in omitted))] if omitted else listed
    digits = max(len(f"{use.pods:,}") for old, new in rows for use in (old, new))
    arrow = "→" if surface.unicode else "->"
    for old, new in rows:
        style = "green" if not new.pods else ""
        cells = [
            _UsageChange(old.cpu, old.cpuAllocatable, new.cpu, new.cpuAllocatable, "cpu", arrow),
            _UsageChange(old.memory, old.memoryAllocatable, new.memory, new.memoryAllocatable, "memory", arrow),
        ]
        name = Name(old.node, style) if old.node else plain(f"{len(omitted):,} more")
        table.add_row(name, Text(f"{old.pods:{digits},} {arrow} {new.pods:{digits},}", style=style), *cells)
    yield inset(table)


def _change(old: NodeUse, new: NodeUse) -> int:
    """Return the change of a node as a sort key: the larger change in CPU or memory utilisation, in 1/10,000."""
    cpu = share(new.cpu, new.cpuAllocatable, 10_000) - share(old.cpu, old.cpuAllocatable, 10_000)
    memory = share(new.memory, new.memoryAllocatable, 10_000) - share(old.memory, old.memoryAllocatable, 10_000)
    return max(abs(cpu), abs(memory))


def _total(uses: Iterator[NodeUse]) -> NodeUse:
    total = NodeUse("", 0, 0, 0, 0, 0)
    for use in uses:
        total.pods += use.pods
        total.cpu, total.cpuAllocatable = total.cpu + use.cpu, total.cpuAllocatable + use.cpuAllocatable
        total.memory, total.memoryAllocatable = total.memory + use.memory, total.memoryAllocatable + use.memoryAllocatable
    return total


@dataclass(frozen=True)
class _UsageChange(Sized):
    """Usage of a resource before and after: ``40% → 75%``, with amounts if there is room."""

    old: int
    old_total: int
    new: int
    new_total: int
    resource: str
    arrow: str

    def drawn(self, width: int, *, amounts: bool) -> Text:
        now = percent(self.new, self.new_total)
        text = Text(f"{percent(self.old, self.old_total):3}% {self.arrow} ")
        text.append(f"{now:3}%", style="dim" if self.old == self.new else usage_style(now))
        if amounts:
            old, new, total = (amount(self.resource, value) for value in (self.old, self.new, self.new_total))
            text.append(f"  {old} {self.arrow} {new} of {total}", style="dim")
        return text


# --- obstacles --------------------------------------------------------------------------------------------------------


def _obstacles(plan: RebalancePlan, surface: Surface) -> Iterator[RenderableType]:
    if not plan.obstacles:
        return
    yield heading(f"Not reached ({len(plan.obstacles):,})")
    limit = surface.limit(_MAX_ENTRIES)
    for obstacle in plan.obstacles[:limit]:
        sure = "proved" if obstacle.proved else "not proved"
        line = plain(f"{obstacle.goal}: ", style="bold red").append_text(plain(obstacle.message, style="default"))
        yield inset(line.append(f" ({sure})", style="dim"))
    yield from more(len(plan.obstacles) - limit)
