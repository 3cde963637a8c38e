"""The report on the Karpenter simulation for terminals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich.console import RenderableType

from kubestow.models.catalogue import money
from kubestow.models.documents.findings.karpenter import Command, KarpenterAudit, Optimum
from kubestow.report.documents.output import counted
from kubestow.report.terminal.canvas import FINDINGS, Surface, grid, heading, inset, more, plain

#: Maximum numbers of listed steps and blocked nodes.
_MAX_ENTRIES: Final = 10
_METHODS: Final = {"empty": "empty nodes", "multi": "several at once", "single": "one"}


def karpenter_table(found: KarpenterAudit, surface: Surface) -> Iterator[RenderableType]:
    """Yield the pools, the steps, blocked nodes, the optimum, and unmodelled parts."""
    yield heading(f"Karpenter: {summary(found)}")
    pools = grid("pool", "nodes", "policy", "after", "Empty", "Underutilized", right=(1, 4, 5))
    for pool in found.pools:
        allowed = (str(pool.allowed.get(reason, 0)) for reason in ("Empty", "Underutilized"))
        pools.add_row(*map(plain, (pool.name, str(pool.nodes), pool.policy, pool.consolidateAfter or "never", *allowed)))
    yield inset(pools)
    if found.commands:
        table = grid("step", "method", "nodes", "moves", "replaced by", "saves", "lost", right=(0, 3, 5), prose=(2,), title="Steps")
        for command in found.commands[: surface.limit(_MAX_ENTRIES)]:
            table.add_row(*map(plain, _step(command)))
        yield inset(table)
        yield from more(len(found.commands) - surface.limit(_MAX_ENTRIES), FINDINGS)
    if found.blocked:
        table = grid("node", "pool", "why", prose=(2,), title="Nodes that stay")
        for entry in found.blocked[: surface.limit(_MAX_ENTRIES)]:
            table.add_row(plain(entry.node), plain(entry.pool), plain(entry.why))
        yield inset(table)
        yield from more(len(found.blocked) - surface.limit(_MAX_ENTRIES), FINDINGS)
    if found.optimum is not None:
        yield heading("Optimum")
        yield from (inset(plain(text)) for text in _optimum(found.optimum, surface))
    for text in found.notModelled:
        yield inset(plain(f"not modelled: {text}"))


def summary(found: KarpenterAudit) -> str:
    """Return the result of all steps as a phrase: nodes removed and replaced, and the cost per hour before and after."""
    gone = sum(len(command.nodes) for command in found.commands)
    made = sum(command.replacement is not None for command in found.commands)
    text = f"{counted(gone, 'node')} would go in {counted(len(found.commands), 'step')}"
    text += f", {made:,} replaced by {counted(made, 'cheaper one')}" if made else ""
    if found.costBefore is not None and found.costAfter is not None:
        text += f"; {_money(found.costBefore)} → {_money(found.costAfter)} per hour"
    return text


def _step(command: Command) -> tuple[str, ...]:
    saves = "" if command.saves is None else _money(command.saves)
    texts = (
        _METHODS[command.method],
        ", ".join(command.nodes),
        f"{command.moves:,}",
        command.replacement or "",
        saves,
        ", ".join(command.lost),
    )
    return str(command.step), *texts


def _optimum(found: Optimum, surface: Surface) -> Iterator[str]:
    proved = "proved: no plan frees more" if found.proved else f"no plan frees more than {found.bound:,}"
    saves = f", which cost {_money(found.saves)} per hour" if found.saves is not None else ""
    shown = found.freed[: surface.limit(_MAX_ENTRIES)]
    names = f" ({', '.join(shown)}{', …' * (len(shown) < len(found.freed))})" if shown else ""
    already_empty = f", in addition to {found.emptyBefore:,} already empty" if found.emptyBefore else ""
    freed = f"{counted(len(found.freed), 'node')} freed by {counted(found.moves, 'move')}{names}{already_empty}"
    yield f"rebalance --goal consolidate: {freed}; {proved}"
    if found.freed:
        yield f"{found.ofPools:,} belong{'s' * (found.ofPools == 1)} to these pools{saves}"
    if found.cheapest is not None and found.cheapestBound is not None:
        least = "proved" if found.cheapest == found.cheapestBound else f"no less than {_money(found.cheapestBound)}"
        yield f"size --pool: the cheapest replacement for all nodes of the pool costs {_money(found.cheapest)} per hour; {least}"


def _money(amount: float) -> str:
    return money.text(money.rounded(amount))
