"""Tables for the results of ``verify`` and ``explain``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from kubestow.models.documents.fit import Fit
from kubestow.models.documents.placement import Placement
from kubestow.models.documents.rebalance_plan import RebalancePlan
from kubestow.models.documents.survival import Survival
from kubestow.models.documents.upgrade import Upgrade
from kubestow.report.documents.output import counted
from kubestow.report.documents.results import Result, RuleViolation, nodes_per_rule
from kubestow.report.terminal.canvas import Surface, grid, inset, plain
from kubestow.report.terminal.columns import Name
from kubestow.report.terminal.placement import examples
from kubestow.report.terminal.workloads import pods_and_workloads

if TYPE_CHECKING:  # importing numpy takes longer than printing an answer
    from kubestow.solver.explain.affinity_matrix import Matrix
    from kubestow.solver.explain.per_node import PodVerdict

#: Maximum number of columns of a matrix. Wider ones are listed pair by pair.
_MAX_MATRIX_COLUMNS = 8
#: Maximum number of nodes in a table of points.
_MAX_SCORED_NODES = 20


def verdict_line(violations: Sequence[RuleViolation], result: Result) -> str:
    """Return the verdict in one line, with the number of checked assignments, moves, evictions and waves, or failures."""
    extent = _extent(result)
    return f"{counted(len(violations), 'violation')} in {extent}" if violations else f"valid: {extent}"


def _extent(result: Result) -> str:
    """Return the number of checked items, as text."""
    if isinstance(result, Placement):
        return counted(len(result.assignments), "assignment")
    if isinstance(result, RebalancePlan):
        parts = [(len(result.moves), "move"), (len(result.evictions), "eviction"), (result.waves, "wave")]
        return ", ".join(counted(number, noun) for number, noun in parts if number or noun == "move")
    if isinstance(result, Survival):
        return f"{counted(result.scenarios.all, 'failure')}, {counted(sum(len(o.assignments) for o in result.outcomes), 'assignment')}"
    if isinstance(result, Upgrade):
        return f"{counted(sum(len(wave.moves) for wave in result.waves), 'move')}, {counted(len(result.waves), 'wave')}"
    placed = counted(len(result.placement.assignments) if result.placement is not None else 0, "assignment")
    return placed if isinstance(result, Fit) else f"{counted(result.nodes.value, 'node')} to buy, {placed}"


def violations_table(
    violations: Sequence[RuleViolation], result: Result, says: Sequence[str] = (), not_checked: Sequence[str] = ()
) -> Iterator[RenderableType]:
    """Yield the verdict, the violations, the claims of the document about itself, and unchecked parts."""
    yield Text(verdict_line(violations, result), style="bold red" if violations else "bold green")
    if violations:
        yield Text()
        table = grid("pod", "node", "rule", "why", prose=(3,))
        for v in violations:
            table.add_row(Name(v.pod), Name(v.node or ""), plain(v.rule, style="yellow"), plain(v.why))
        yield inset(table)
    for title, clauses in (("Claims of the document", says), ("Not checked", not_checked)):
        if clauses:
            yield Text()
            yield Text(title, style="bold")
            yield from (inset(plain(clause)) for clause in clauses)


def affinity_table(matrix: Matrix) -> Iterator[RenderableType]:
    """Yield A(C1, C2) as a matrix. Rows are sources, columns are targets; pairs without affinity are blank."""
    yield plain(f"{matrix.pod}: container affinity A(row, column)", style="bold")
    if not matrix.pairs:
        yield plain("  no container affinity from or to these containers")
        return
    own = set(matrix.containers)
    prefix = f"{matrix.pod}/"
    rows = list(dict.fromkeys([*(p.source for p in matrix.pairs if p.source in own), *(p.source for p in matrix.pairs)]))
    columns = list(dict.fromkeys([*(p.target for p in matrix.pairs if p.target in own), *(p.target for p in matrix.pairs)]))
    weights = {(p.source, p.target): p.weight for p in matrix.pairs}
    if len(columns) <= _MAX_MATRIX_COLUMNS:
        table = grid("", *(c.removeprefix(prefix) for c in columns), right=tuple(range(1, len(columns) + 1)))
        for row in rows:
            table.add_row(plain(row.removeprefix(prefix)), *(_weight(weights.get((row, column))) for column in columns))
    else:
        table = grid("from", "to", "A", right=(2,))
        for pair in matrix.pairs:
            table.add_row(plain(pair.source.removeprefix(prefix)), plain(pair.target.removeprefix(prefix)), _weight(pair.weight))
    yield inset(table)


def _weight(weight: int | None) -> Text:
    return Text("" if weight is None else f"{weight:+d}", style="green" if (weight or 0) > 0 else "red")


def explanation(
    verdicts: Sequence[PodVerdict], surface: Surface, *, per_node: bool, owned: Mapping[str, str] | None = None
) -> Iterator[RenderableType]:
    """Yield the verdicts per rule or, with ``per_node``, per node.

    Pods with equal verdicts are grouped, in input order of the first. ``owned`` maps pods to their workloads.
    """
    if not verdicts:
        yield Text("no pending pods", style="bold")
    for group in _alike(verdicts):
        first = group[0]
        total = len(first.feasible) + len(first.rejected)
        title = plain(examples([v.pod for v in group], surface), style="bold")
        if len(group) > 1:
            who = pods_and_workloads([v.pod for v in group], owned or {})
            title = Text(f"{who}: ", style="bold").append_text(title)
        style = "green" if first.feasible else "red"
        if first.runs_on is not None:
            yield _where_it_runs(first)
        yield title.append(": ").append(f"{len(first.feasible):,} of {counted(total, 'node')} feasible", style=style)
        if first.scores is not None:
            yield from _scores(first.scores, surface)
        elif per_node:
            yield Padding(_matrix(first, surface), (0, 0, 1, 2))
        else:
            yield from _by_rule(first, surface)


def _alike(verdicts: Sequence[PodVerdict]) -> list[list[PodVerdict]]:
    """Return groups of equal verdicts. Pods of one class share their lists, which avoids most comparisons."""
    shared: dict[tuple[int, ...], list[PodVerdict]] = {}
    for v in verdicts:
        shared.setdefault((id(v.feasible), id(v.rejected), id(v.scores)), []).append(v)
    groups: dict[object, list[PodVerdict]] = {}
    for members in shared.values():
        v = members[0]
        key = (
            v.runs_on,
            repr(v.scores),
            tuple(v.feasible),
            tuple((n, tuple(r)) for n, r in v.rejected.items()),
            tuple(sorted(v.messages.items())),
        )
        groups.setdefault(key, []).extend(members)
    return list(groups.values())


def _where_it_runs(verdict: PodVerdict) -> Text:
    """Return the node of a bound pod, and whether the pod could be placed there now."""
    node = verdict.runs_on or ""
    text = plain(verdict.pod, style="bold").append_text(plain(f": runs on {node}", style="default"))
    if node in verdict.feasible:
        return text.append(", and could go there now", style="green")
    if node not in verdict.rejected:
        return text
    why = [f"{rule} ({message})" if (message := verdict.messages.get(rule)) else rule for rule in verdict.rejected[node]]
    return text.append_text(plain(f", where it could not go now: {'; '.join(why)}", style="red"))


def _by_rule(verdict: PodVerdict, surface: Surface) -> Iterator[RenderableType]:
    counts = nodes_per_rule(verdict)
    if counts:
        table = grid("rule", "nodes", "", right=(1,), prose=(2,))
        for rule, nodes in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
            table.add_row(plain(rule, style="yellow"), f"{nodes:,}", plain(verdict.messages.get(rule, "")))
        yield inset(table)
    if verdict.feasible:
        yield inset(plain(f"feasible: {examples(verdict.feasible, surface)}"))
    yield Text()


def _matrix(verdict: PodVerdict, surface: Surface) -> RenderableType:
    """Return a matrix of nodes and rules if the names fit side by side. Otherwise, list each node with its rules."""
    rules = list(nodes_per_rule(verdict))
    nodes = [*((n, frozenset[str]()) for n in verdict.feasible), *((n, frozenset(r)) for n, r in verdict.rejected.items())]
    longest = max((len(n) for n, _ in nodes), default=0)
    if surface.width is None or longest + sum(len(r) + 2 for r in rules) + 12 <= surface.width:
        table = grid("node", "", *rules)
        for node, rejecting in nodes:
            table.add_row(Name(node), *_mark(rejecting), *(Text("x" if r in rejecting else "", style="red") for r in rules))
        return table
    table = grid("node", "", "rejected by", prose=(2,))
    for node, rejecting in nodes:
        table.add_row(Name(node), *_mark(rejecting), plain(", ".join(sorted(rejecting)), style="yellow"))
    return table


def _scores(scores: Mapping[str, Mapping[str, int]], surface: Surface) -> Iterator[RenderableType]:
    """Yield a table of the points of each node by plugin, best first."""
    plugins = list(dict.fromkeys(plugin for points in scores.values() for plugin in points))
    shown = list(scores)[: surface.limit(_MAX_SCORED_NODES)]
    table = grid("node", "total", *plugins, right=tuple(range(1, len(plugins) + 2)))
    for node in shown:
        table.add_row(Name(node), f"{sum(scores[node].values()):,}", *(f"{scores[node].get(plugin, 0):,}" for plugin in plugins))
    if scores:
        yield inset(table)
    if len(shown) < len(scores):
        yield inset(plain(f"and {counted(len(scores) - len(shown), 'more node')} (--all lists them)"))
    yield Text()


def _mark(rejecting: frozenset[str]) -> tuple[Text]:
    return (Text("no", style="red") if rejecting else Text("yes", style="green"),)
