"""The waves of a RebalancePlan like a diff: pods of one workload that do the same thing for the same reason share a line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from models.documents.rebalance_plan import Eviction, Move, RebalancePlan
from models.kube.objects import controller_of, pod_key
from models.snapshot.snapshot import Snapshot
from report.documents.output import counted
from report.terminal.canvas import Surface, heading, plain
from report.terminal.placement import shared_domain

#: Lines listed; nodes named that the pods of one line leave.
_LINES: Final = 300
_SOURCES: Final = 4
#: Columns left of the lines, and between the columns of their tables.
_INDENT: Final = 4
_GAP: Final = 2

_STYLES: Final = {"~": "yellow", "+": "green", "-": "red"}


@dataclass
class _Line:
    """Steps that are shown as one. ``sign``: ``~`` moved, ``+`` bound, ``-`` evicted; ``sources``: nodes they leave, with how many pods."""

    sign: str
    workload: str
    target: str
    reason: str
    mark: str
    pods: list[str] = field(default_factory=list)
    sources: dict[str, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.pods[0] if len(self.pods) == 1 else f"{self.workload} ({len(self.pods):,} pods)"


def waves(plan: RebalancePlan, snapshot: Snapshot, surface: Surface) -> Iterator[RenderableType]:
    """Yield a heading for each wave, and its lines: reason by reason, the names aligned over all waves."""
    found = _lines(plan, _workloads(plan, snapshot))
    by_wave: dict[int, list[Move | Eviction]] = {}
    for step in steps(plan):
        by_wave.setdefault(step.wave, []).append(step)
    suffix = nodes_domain(plan)
    names = _name_width([line for lines in found.values() for line in lines][:_LINES], suffix, surface)
    left_out, shown = 0, 0
    for wave, lines in sorted(found.items()):
        room = lines[: max(0, _LINES - shown)]
        shown += len(room)
        left_out += sum(len(line.pods) for line in lines[len(room) :])
        if room:
            yield heading(f"Wave {wave}  {sizes(by_wave[wave])}")
            yield from _wave(room, names, suffix, surface)
    if left_out:
        yield plain(f"... and {left_out:,} more steps (-f json lists all)", style="dim")


def nodes_domain(plan: RebalancePlan) -> str:
    """Return the domain that all nodes of the plan's steps and of its summary end in, or nothing."""
    names = {use.node for side in (plan.before, plan.after) for use in side.nodes}
    names.update(step.source for step in steps(plan) if step.source is not None)
    names.update(move.to for move in plan.moves)
    return shared_domain(names)


def steps(plan: RebalancePlan) -> list[Move | Eviction]:
    """Return moves and evictions in the order of the plan."""
    both: list[Move | Eviction] = [*plan.moves, *plan.evictions]
    return sorted(both, key=lambda step: (step.wave, step.step))


def _workloads(plan: RebalancePlan, snapshot: Snapshot) -> dict[str, str]:
    """Return ``namespace/name`` of the controller of each of the plan's pods, or of the pod if it has none."""
    wanted = {step.pod for step in steps(plan)}
    found = {}
    for pod in snapshot.pods:
        if (key := pod_key(pod)) in wanted:
            owner = controller_of(pod)
            found[key] = key if owner is None else f"{pod.metadata.namespace or 'default'}/{owner.name}"
    return found


def _lines(plan: RebalancePlan, workloads: dict[str, str]) -> dict[int, list[_Line]]:
    """Return the lines of each wave; lines of one reason stand together, in the order of its first step."""
    grouped: dict[int, dict[str, dict[tuple[str, ...], _Line]]] = {}
    for step in steps(plan):
        line = _line(step, workloads.get(step.pod, step.pod))
        reasons = grouped.setdefault(step.wave, {}).setdefault(step.reason, {})
        line = reasons.setdefault((line.sign, line.workload, line.target, line.mark), line)
        line.pods.append(step.pod)
        if step.source is not None:
            line.sources[step.source] = line.sources.get(step.source, 0) + 1
    return {wave: [line for lines in reasons.values() for line in lines.values()] for wave, reasons in grouped.items()}


def _line(step: Move | Eviction, workload: str) -> _Line:
    if isinstance(step, Eviction):
        return _Line("-", workload, "", step.reason, "evicted, stays pending")
    marks = [f"gang {step.gang}"] * (step.gang is not None) + ["stopover"] * step.stopover
    return _Line("+" if step.source is None else "~", workload, step.to, step.reason, ", ".join(marks))


def sizes(members: Iterable[Move | Eviction]) -> str:
    """Return what some steps are: ``3 moves, 1 eviction``."""
    found = Counter("eviction" if isinstance(step, Eviction) else "binding" if step.source is None else "move" for step in members)
    return ", ".join(counted(found[noun], noun) for noun in ("move", "binding", "eviction") if found[noun])


def _wave(lines: list[_Line], names: int, suffix: str, surface: Surface) -> Iterator[RenderableType]:
    reason, table = None, None
    marked = any(line.mark for line in lines)  # an empty column would take room
    for line in lines:
        if table is None or line.reason != reason:
            if table is not None:
                yield Padding(table, (0, 0, 0, _INDENT))
            reason, table = line.reason, _table(names, marked=marked)
            if reason:
                yield Padding(plain(reason, style="dim"), (0, 0, 0, 2))
        style = _STYLES[line.sign]
        marks = [plain(line.mark, style=style)] if marked else []
        table.add_row(Text(line.sign, style=style), plain(line.name), _route(line, suffix, surface), *marks)
    if table is not None:
        yield Padding(table, (0, 0, 0, _INDENT))


def _name_width(lines: list[_Line], suffix: str, surface: Surface) -> int:
    """Return the width of the names in columns: what routes and marks leave of the surface, at least nearly half of it, and no more than
    the longest needs."""
    widest = max((len(line.name) for line in lines), default=0)
    routes = max((len(_route(line, suffix, surface)) for line in lines), default=0)
    marks = max((len(line.mark) for line in lines), default=0)
    room = surface.width - _INDENT - 1 - 2 * _GAP - routes - (_GAP + marks if marks else 0)
    return min(widest, max(20, surface.width // 2 - 6, room))


def _table(names: int, *, marked: bool) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), show_header=False)
    table.add_column(width=1)
    table.add_column(width=names, overflow="fold")
    for _ in range(1 + marked):
        table.add_column(overflow="fold")
    return table


def _route(line: _Line, suffix: str, surface: Surface) -> Text:
    """Return ``n1, n2 (2) → n3``: the nodes left, with the number of pods if it is more than one of several, and the target."""
    several = len(line.sources) > 1
    left = [f"{node.removesuffix(suffix)}{f' ({k:,})' if several and k > 1 else ''}" for node, k in line.sources.items()]
    text = ", ".join(left[:_SOURCES]) + (f" and {len(left) - _SOURCES:,} more" if len(left) > _SOURCES else "")
    arrow = "→" if surface.unicode else "->"
    return plain(f"{text} {arrow} {line.target.removesuffix(suffix)}".strip() if line.target else text)
