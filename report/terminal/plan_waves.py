"""The waves of a RebalancePlan in the style of a diff. Pods of one workload with equal steps and reasons share a line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Final

from rich.console import RenderableType
from rich.text import Text

from kubestow.models.documents.rebalance_plan import Eviction, Move, RebalancePlan
from kubestow.models.kube.objects import controller_of, pod_key
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.report.documents.output import counted, some
from kubestow.report.terminal.canvas import Surface, grid, heading, inset, more, plain
from kubestow.report.terminal.columns import GAP, NOTHING, Common

#: Maximum numbers of lines, and of source nodes per line.
_MAX_LINES: Final = 300
_MAX_SOURCES: Final = 4
#: Indent of the lines, in columns.
_INDENT: Final = 4

_STYLES: Final = {"~": "yellow", "+": "green", "-": "red"}


@dataclass
class _WaveLine:
    """Steps shown in one line.

    Attributes:
        sign: ``~`` moved, ``+`` bound, ``-`` evicted.
        workload: Name of the workload.
        target: Name of the target node.
        reason: Reason of the steps.
        mark: Remarks.
        pods: Keys of the pods.
        sources: Number of pods by source node.
    """

    sign: str
    workload: str
    target: str
    reason: str
    mark: str
    pods: list[str] = field(default_factory=list)
    sources: dict[str, int] = field(default_factory=dict)

    @property
    def called(self) -> str:
        return self.pods[0] if len(self.pods) == 1 else self.workload


def waves(plan: RebalancePlan, snapshot: Snapshot, surface: Surface) -> Iterator[RenderableType]:
    """Yield a heading and lines for each wave, grouped by reason, with names aligned over all waves."""
    found = _lines(plan, _workloads(plan, snapshot))
    by_wave: dict[int, list[Move | Eviction]] = {}
    for step in steps(plan):
        by_wave.setdefault(step.wave, []).append(step)
    every = [line for lines in found.values() for line in lines]
    layout = _Layout.of(every[: surface.limit(_MAX_LINES)], surface)
    if layout.note:
        yield Text()
        yield plain(f"({layout.note})", style="dim")
    left_out, shown = 0, 0
    for wave, lines in sorted(found.items()):
        room = lines[: max(0, surface.limit(_MAX_LINES) - shown)]
        shown += len(room)
        left_out += sum(len(line.pods) for line in lines[len(room) :])
        if room:
            yield heading(f"Wave {wave}  {sizes(by_wave[wave])}")
            yield from _wave(room, layout)
    yield from more(left_out, "... and {:,} more steps (--all lists all)", by=0)


def steps(plan: RebalancePlan) -> list[Move | Eviction]:
    """Return moves and evictions in plan order."""
    both: list[Move | Eviction] = [*plan.moves, *plan.evictions]
    return sorted(both, key=lambda step: (step.wave, step.step))


def _workloads(plan: RebalancePlan, snapshot: Snapshot) -> dict[str, str]:
    """Return ``namespace/name`` of the controller of each pod in the plan, or of the pod itself if it has none."""
    wanted = {step.pod for step in steps(plan)}
    found = {}
    for pod in snapshot.pods:
        if (key := pod_key(pod)) in wanted:
            owner = controller_of(pod)
            found[key] = key if owner is None else f"{pod.metadata.namespace or 'default'}/{owner.name}"
    return found


def _lines(plan: RebalancePlan, workloads: dict[str, str]) -> dict[int, list[_WaveLine]]:
    """Return the lines of each wave. Lines with the same reason are adjacent, in order of their first step."""
    grouped: dict[int, dict[str, dict[tuple[str, ...], _WaveLine]]] = {}
    for step in steps(plan):
        line = _line(step, workloads.get(step.pod, step.pod))
        reasons = grouped.setdefault(step.wave, {}).setdefault(step.reason, {})
        line = reasons.setdefault((line.sign, line.workload, line.target, line.mark), line)
        line.pods.append(step.pod)
        if step.source is not None:
            line.sources[step.source] = line.sources.get(step.source, 0) + 1
    return {wave: [line for lines in reasons.values() for line in lines.values()] for wave, reasons in grouped.items()}


def _line(step: Move | Eviction, workload: str) -> _WaveLine:
    if isinstance(step, Eviction):
        return _WaveLine("-", workload, "", step.reason, "evicted, stays pending")
    marks = [f"gang {step.gang}"] * (step.gang is not None) + ["stopover"] * step.stopover
    return _WaveLine("+" if step.source is None else "~", workload, step.to, step.reason, ", ".join(marks))


def sizes(members: Iterable[Move | Eviction]) -> str:
    """Return the numbers of steps by kind: ``3 moves, 1 eviction``."""
    found = Counter("eviction" if isinstance(step, Eviction) else "binding" if step.source is None else "move" for step in members)
    return ", ".join(counted(found[noun], noun) for noun in ("move", "binding", "eviction") if found[noun])


@dataclass(frozen=True)
class _Layout:
    """Format of all lines: omitted parts of names, and the width of names in columns."""

    surface: Surface
    pods: Common = NOTHING
    nodes: Common = NOTHING
    width: int = 0

    @classmethod
    def of(cls, lines: list[_WaveLine], surface: Surface) -> _Layout:
        """Return a layout with whole names if they fit, otherwise one without their common parts."""
        whole = cls(surface)
        if whole.fits(lines):
            return replace(whole, width=whole.names(lines))
        nodes = Common.of(node for line in lines for node in (*line.sources, *([line.target] if line.target else [])))
        cut = cls(surface, Common.of(line.called for line in lines), nodes)
        return replace(cut, width=cut.names(lines))

    @property
    def note(self) -> str:
        """The omitted parts of names, as text. Empty if nothing is omitted."""
        return ", ".join(common.note(what) for common, what in ((self.pods, "pods"), (self.nodes, "nodes")) if common)

    def names(self, lines: list[_WaveLine]) -> int:
        return max((len(self.name(line)) for line in lines), default=0)

    def fits(self, lines: list[_WaveLine]) -> bool:
        if self.surface.whole or self.surface.wide or self.surface.width is None:
            return True
        routes = max((len(self.route(line)) for line in lines), default=0)
        marks = max((len(line.mark) for line in lines), default=0)
        return _INDENT + 1 + 2 * GAP + self.names(lines) + routes + (GAP + marks if marks else 0) <= self.surface.width

    def name(self, line: _WaveLine) -> str:
        """Return the pod, or the workload with the number of pods."""
        return self.pods.cut(line.called) + ("" if len(line.pods) == 1 else f" ({len(line.pods):,} pods)")

    def route(self, line: _WaveLine) -> Text:
        """Return ``n1, n2 (2) → n3``: the source nodes, with the number of pods if above one, and the target."""
        several = len(line.sources) > 1
        sources = [f"{self.nodes.cut(node)}{f' ({k:,})' if several and k > 1 else ''}" for node, k in line.sources.items()]
        text = some(sources, self.surface.limit(_MAX_SOURCES))
        arrow = "→" if self.surface.unicode else "->"
        return plain(f"{text} {arrow} {self.nodes.cut(line.target)}".strip() if line.target else text)


def _wave(lines: list[_WaveLine], layout: _Layout) -> Iterator[RenderableType]:
    marked = any(line.mark for line in lines)  # omit an empty column
    for reason, members in groupby(lines, key=lambda line: line.reason):
        if reason:
            yield inset(plain(reason, style="dim"))
        table = grid("", "", "", *([""] if marked else []), prose=(2,))
        table.show_header, table.least = False, {1: layout.width}
        for line in members:
            style = _STYLES[line.sign]
            marks = [plain(line.mark, style=style)] if marked else []
            table.add_row(Text(line.sign, style=style), plain(layout.name(line)), layout.route(line), *marks)
        yield inset(table, _INDENT)
