"""The report on a rollout for terminals: waves, the point where it halts, and remedies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from rich.console import RenderableType
from rich.text import Text

from kubestow.models.documents.placement import Rollout, Wave, WorstEnd
from kubestow.report.terminal.canvas import Surface, grid, heading, inset, more, plain

#: Maximum numbers of listed waves, including the last one, and of pods per cell.
_MAX_WAVES: Final = 20
_MAX_PODS: Final = 4
#: Maximum number of listed domains.
_MAX_DOMAINS: Final = 6


def rollout(found: Rollout, surface: Surface) -> Iterator[RenderableType]:
    """Yield the parts of the report on a rollout: pace, verdict, waves, and remedies."""
    yield heading(f"Rollout of {found.workload}: {_pace(found)}")
    yield inset(_verdict(found))
    if found.waves:
        yield inset(_waves(found.waves, surface))
        yield from more(len(found.waves) - surface.limit(_MAX_WAVES), "{:,} waves in between are left out (--all lists all)")
    for end in found.worstEnds:
        yield heading(f"Worst end for {end.topologyKey} ({end.whenUnsatisfiable}, maxSkew {end.maxSkew})")
        yield inset(worst_end(end, surface))
        for way in end.waysOut:
            yield inset(plain(f"remedy: {way.message}"))
    if found.waysOut:
        yield heading("Completes with any one of")
        for way in found.waysOut:
            options = f"  ({' '.join(way.options)})" if way.options else ""
            yield inset(plain(way.message).append_text(plain(options, style="dim")))


def _pace(found: Rollout) -> str:
    what = "node" if found.workload.startswith("DaemonSet ") else "replica"
    replicas = f"{found.replicas:,} {what}{'s' * (found.replicas != 1)}"
    if found.strategy != "RollingUpdate":
        return f"{replicas}, {found.strategy}"
    if found.podManagementPolicy is not None:
        partition = f", partition {found.partition:,}" if found.partition else ""
        return f"{replicas}, {found.podManagementPolicy}, maxUnavailable {found.maxUnavailable:,}{partition}"
    return f"{replicas}, maxSurge {found.maxSurge:,}, maxUnavailable {found.maxUnavailable:,}"


def _verdict(found: Rollout) -> Text:
    """Return the outcome: complete, or where it halts and whether this is proved."""
    waves = f"{len(found.waves):,} wave{'s' * (len(found.waves) != 1)}"
    if found.complete:
        return plain(f"completes in {waves}", style="bold green")
    placed = sum(not entry.old for wave in found.waves for entry in wave.create)
    gone = sum(len(wave.delete) for wave in found.waves)
    desired = found.replicas - (found.partition or 0)
    sure = "proved: it does so wherever the new pods are placed" if found.proved else "not proved: no other course was found in time"
    if found.halted is not None:
        sure = "proved" if found.proved else "not proved"
        text = plain(found.halted, style="bold red").append_text(plain(f" ({sure}); ", style="default"))
        return text.append_text(plain(f"{placed:,} of {desired:,} new pods placed, {gone:,} old pods gone", style="default"))
    text = plain(f"deadlock with {placed:,} of {found.replicas:,} new pods placed, {gone:,} old pods gone", style="bold red")
    return text.append_text(plain(f" ({sure})", style="default"))


def worst_end(end: WorstEnd, surface: Surface) -> Text:
    """Return the worst skew with the pods by domain, and whether a worse end is excluded."""
    if end.skew is None:
        return plain(f"skew at most {end.bound:,} (proved); no course to such an end was found that all rules allow")
    domains = sorted(end.counts.items(), key=lambda item: (-item[1], item[0]))
    limit = surface.limit(_MAX_DOMAINS)
    shown = ", ".join(f"{count:,} in {name}" for name, count in domains[:limit])
    shown += f" and {len(domains) - limit:,} more" * (len(domains) > limit)
    sure = "no end is worse" if end.skew == end.bound else f"no end is worse than {end.bound:,}"
    assumed = " if each new pod goes to a domain with the fewest pods" * (end.whenUnsatisfiable == "ScheduleAnyway")
    text = plain(f"skew {end.skew:,}", style="bold red" if end.skew > end.maxSkew else "bold green")
    return text.append_text(plain(f": {shown} (proved: {sure}{assumed})", style="default"))


def _waves(waves: Sequence[Wave], surface: Surface) -> RenderableType:
    table = grid("wave", "new pods", "wait", "old pods that go", right=(0,), prose=(1, 2, 3))
    shown = waves if len(waves) <= surface.limit(_MAX_WAVES) else [*waves[: _MAX_WAVES - 1], waves[-1]]
    for wave in shown:
        create = [f"{entry.pod} on {entry.node}{' (old revision)' * entry.old}" for entry in wave.create]
        table.add_row(str(wave.wave), _named(create, surface), _named(wave.waiting, surface), _named(wave.delete, surface))
    return table


def _named(names: Sequence[str], surface: Surface) -> Text:
    limit = surface.limit(_MAX_PODS)
    lines = [plain(name) for name in names[:limit]]
    if len(names) > limit:
        lines.append(plain(f"and {len(names) - limit:,} more", style="dim"))
    return Text("\n").join(lines)
