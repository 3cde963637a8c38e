"""The report on a node pool upgrade for terminals: the verdict, blockers with remedies, and waves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from rich.console import RenderableType
from rich.text import Text

from kubestow.models.documents.upgrade import Blocker, Upgrade, UpgradeWave
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.report.documents.output import counted, some
from kubestow.report.terminal.canvas import Surface, grid, heading, inset, more, plain
from kubestow.report.terminal.capacity import headroom
from kubestow.report.terminal.columns import Name
from kubestow.report.terminal.placement import unmodelled_and_notes
from kubestow.report.terminal.workloads import owners

#: Maximum numbers of listed waves and blockers, and of nodes and workloads named in a line.
_MAX_WAVES: Final = 40
_MAX_BLOCKERS: Final = 20
_MAX_NAMED: Final = 3
_KINDS: Final = {
    "PodDisruptionBudget": "a budget",
    "localVolume": "a local volume",
    "barePod": "a bare pod",
    "room": "no room",
    "rule": "a rule",
    "notEvictable": "not evictable",
}


def verdict_line(found: Upgrade) -> str:
    """Return the verdict on an upgrade in one sentence."""
    done = sum(len(wave.drain) for wave in found.waves)
    total, waves = len(found.nodes), counted(len(found.waves), "wave")
    moves = counted(sum(len(wave.moves) for wave in found.waves), "move")
    if found.complete:
        return f"Gets through: {'all ' if total > 1 else ''}{counted(total, 'node')} of {found.pool} in {waves}, {moves} of pods"
    sure = "proved" if found.proved else "not proved"
    blocked_count = len({blocker.node for blocker in found.blocked})
    if not found.blocked:
        return f"Not finished: {done:,} of {counted(total, 'node')} of {found.pool} in {waves}, {moves} of pods"
    drainable_text = f"{done:,} can, in {waves}" if done else "no other can"
    return f"Blocked ({sure}): {blocked_count:,} of {counted(total, 'node')} of {found.pool} cannot be drained" + (
        f"; {drainable_text}" if blocked_count < total else ""
    )


def upgrade(found: Upgrade, snapshot: Snapshot, surface: Surface) -> Iterator[RenderableType]:
    """Yield the parts of the report on an upgrade: verdict, limits, blockers with remedies, waves, headroom, and notes."""
    yield Text(verdict_line(found), style="bold green" if found.complete else "bold red" if found.blocked else "bold yellow")
    yield plain(_limits(found), style="default")
    if found.blocked:
        yield from _blockers(found.blocked, surface)
        yield from _help(found)
    if found.waves:
        yield from _waves(found, snapshot, surface)
    yield from headroom.of_states(found.headroom, "wave", surface)
    yield from unmodelled_and_notes(found, surface)


def _limits(found: Upgrade) -> str:
    parts = [f"surge {found.surge:,}", f"at most {found.maxUnavailable:,} unavailable"]
    parts += [f"by {found.by}"] if found.by is not None else []
    return ", ".join([*parts, "new nodes are changed" if found.to is not None else "new nodes are clones of the old ones"])


def _blockers(blocked: Sequence[Blocker], surface: Surface) -> Iterator[RenderableType]:
    """Yield the blockers, merging equal ones of several nodes."""
    yield heading(f"Blockers ({len({b.node for b in blocked}):,} {'nodes' if len({b.node for b in blocked}) > 1 else 'node'})")
    by_cause: dict[tuple[str, str, bool], list[Blocker]] = {}
    for blocker in blocked:
        by_cause.setdefault((blocker.kind, blocker.message, blocker.proved), []).append(blocker)
    shown = list(by_cause.items())[: surface.limit(_MAX_BLOCKERS)]
    for (kind, message, proved), same in shown:
        line = plain(f"{_KINDS[kind]}: ", style="bold red").append_text(plain(message, style="default"))
        yield inset(line.append(" (proved)" if proved else "", style="dim"))
        yield inset(plain(f"on {_some([b.node for b in same], surface)}", style="dim"), 4)
        ways = list(dict.fromkeys(text for b in same for text in b.remedies))
        if ways:
            yield inset(
                plain("any one of these removes it (each was tried):" if len(ways) > 1 else "this removes it (tried):", style="dim"), 4
            )
        for text in ways:
            yield inset(plain(f"- {text}"), 6)
    yield from more(len(by_cause) - len(shown))


def _help(found: Upgrade) -> Iterator[RenderableType]:
    yield heading("Surge")
    if found.smallestSurge is not None:
        sure = "no smaller one is enough, proved" if found.smallestProved else "a smaller one may be enough"
        text, style = f"with --surge {found.smallestSurge:,} every drain gets through ({sure})", "green"
    elif found.smallestProved:
        text, style = "no surge helps: the blockers remain with any number of new nodes (proved)", "default"
    else:
        text, style = "no sufficient surge was found", "default"
    yield inset(plain(text, style=style))


def _waves(found: Upgrade, snapshot: Snapshot, surface: Surface) -> Iterator[RenderableType]:
    yield heading("Waves")
    shown = found.waves[: surface.limit(_MAX_WAVES)]
    owned = owners(snapshot, {move.pod for wave in shown for move in wave.moves}) if surface.wide or surface.everything else {}
    columns = [
        "wave",
        "drained",
        "new before",
        "new after",
        "pods",
        "to new nodes",
        "at once",
        *([found.by] if found.by is not None else []),
    ]
    table = grid(*columns, right=(0, 2, 3, 4, 5, 6))
    fresh: set[str] = set()
    for wave in shown:
        fresh |= {new.name for new in (*wave.surge, *wave.joined)}
        domain = [plain(wave.domain.partition("=")[2] if wave.domain else "")] if found.by is not None else []
        to_new = sum(move.to in fresh for move in wave.moves)
        numbers = (len(wave.surge), len(wave.joined), len(wave.moves), to_new, _at_once(wave))
        table.add_row(f"{wave.wave:,}", _nodes(wave.drain, surface), *(f"{number:,}" for number in numbers), *domain)
    yield inset(table)
    yield from more(len(found.waves) - len(shown), "... and {:,} more waves (--all lists all)")
    if owned:
        yield from _moves(shown, owned)


def _moves(waves: Sequence[UpgradeWave], owned: dict[str, str]) -> Iterator[RenderableType]:
    yield heading("Pods")
    table = grid("wave", "step", "pod", "of", "from", "to", right=(0, 1))
    for wave in waves:
        for move in wave.moves:
            table.add_row(
                f"{wave.wave:,}", f"{move.step:,}", Name(move.pod), Name(owned.get(move.pod, "")), Name(move.source or ""), Name(move.to)
            )
    yield inset(table)


def _at_once(wave: UpgradeWave) -> int:
    """Return the maximum number of pods that may be evicted at once."""
    return max(Counter(move.wave for move in wave.moves).values(), default=0)


def _nodes(names: Sequence[str], surface: Surface) -> Name | Text:
    return Name(names[0]) if len(names) == 1 else plain(_some(names, surface))


def _some(names: Sequence[str], surface: Surface) -> str:
    return some(list(dict.fromkeys(names)), surface.limit(_MAX_NAMED))
