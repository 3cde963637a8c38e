"""What a simulation of kube-scheduler adds to the report on a Placement."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich.console import RenderableType

from kubestow.models.documents.placement import Placement, Unplaced
from kubestow.report.documents.output import counted
from kubestow.report.terminal.canvas import Surface, grid, heading, inset, plain
from kubestow.report.terminal.columns import Name
from kubestow.report.terminal.placement import examples

#: Maximum numbers of listed messages and outcomes.
_MAX_MESSAGES: Final = 20
_MAX_OUTCOMES: Final = 10


def tables(result: Placement, surface: Surface) -> Iterator[RenderableType]:
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
