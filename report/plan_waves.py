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

from models.kube import controller_of, pod_key
from models.plan import Eviction, Move, RebalancePlan
from models.snapshot import Snapshot
from report.canvas import Surface, heading, plain
from report.terminal import counted

#: Lines listed; nodes named that the pods of one line leave.
_LINES: Final = 300
_SOURCES: Final = 4

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
    """A heading for each wave, and its lines: reason by reason, the names aligned over all waves."""
    found = _lines(plan, _workloads(plan, snapshot))
    by_wave: dict[int, list[Move | Eviction]] = {}
    for step in steps(plan):
        by_wave.setdefault(step.wave, []).append(step)
    suffix = shared_domain(plan)
    listed = [line for lines in found.values() for line in lines][:_LINES]
    widest = max((len(line.name) for line in listed), default=0)
    names = min(widest, max(20, surface.width // 2 - 6))
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


def shared_domain(plan: RebalancePlan) -> str:
    """The domain that all nodes of the plan's steps and of its summary end in (``.eu-west-1.compute.internal``), or nothing."""
    names = {use.node for side in (plan.before, plan.after) for use in side.nodes}
    names.update(step.source for step in steps(plan) if step.source is not None)
    names.update(move.to for move in plan.moves)
    shared: list[str] = []
    for parts in zip(*(reversed(name.split(".")[1:]) for name in sorted(names)), strict=False):
        if len(set(parts)) > 1:
            break
        shared.insert(0, f".{parts[0]}")
    return "".join(shared) if len(names) > 1 else ""


def steps(plan: RebalancePlan) -> list[Move | Eviction]:
    """Moves and evictions in the order of the plan."""
    both: list[Move | Eviction] = [*plan.moves, *plan.evictions]
    return sorted(both, key=lambda step: (step.wave, step.step))


def _workloads(plan: RebalancePlan, snapshot: Snapshot) -> dict[str, str]:
    """Of the plan's pods: ``namespace/name`` of the controller, of a pod without one its own name."""
    wanted = {step.pod for step in steps(plan)}
    found = {}
    for pod in snapshot.pods:
        if (key := pod_key(pod)) in wanted:
            owner = controller_of(pod)
            found[key] = key if owner is None else f"{pod.metadata.namespace or 'default'}/{owner.name}"
    return found


def _lines(plan: RebalancePlan, workloads: dict[str, str]) -> dict[int, list[_Line]]:
    """The lines of each wave; lines of one reason stand together, in the order of its first step."""
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
    """``3 moves, 1 eviction``: what some steps are."""
    found = Counter("eviction" if isinstance(step, Eviction) else "binding" if step.source is None else "move" for step in members)
    return ", ".join(counted(found[noun], noun) for noun in ("move", "binding", "eviction") if found[noun])


def _wave(lines: list[_Line], names: int, suffix: str, surface: Surface) -> Iterator[RenderableType]:
    reason, table = None, None
    for line in lines:
        if table is None or line.reason != reason:
            if table is not None:
                yield Padding(table, (0, 0, 0, 4))
            reason, table = line.reason, _table(names)
            if reason:
                yield Padding(plain(reason, style="dim"), (0, 0, 0, 2))
        style = _STYLES[line.sign]
        table.add_row(Text(line.sign, style=style), plain(line.name), _route(line, suffix, surface), plain(line.mark, style=style))
    if table is not None:
        yield Padding(table, (0, 0, 0, 4))


def _table(names: int) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(width=1)
    table.add_column(width=names, overflow="fold")
    table.add_column(overflow="fold")
    table.add_column(overflow="fold")
    return table


def _route(line: _Line, suffix: str, surface: Surface) -> Text:
    """``n1, n2 (2) → n3``: the nodes left, with the number of pods where it is more than one of several, and the one that is gone to."""
    several = len(line.sources) > 1
    left = [f"{node.removesuffix(suffix)}{f' ({k:,})' if several and k > 1 else ''}" for node, k in line.sources.items()]
    text = ", ".join(left[:_SOURCES]) + (f" and {len(left) - _SOURCES:,} more" if len(left) > _SOURCES else "")
    arrow = "→" if surface.unicode else "->"
    return plain(f"{text} {arrow} {line.target.removesuffix(suffix)}".strip() if line.target else text)
