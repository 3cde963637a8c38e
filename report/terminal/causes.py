"""Causes of unplaced pods with remedies, and results of gangs, as text."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.console import RenderableType
from rich.text import Text

from kubestow.models.documents.placement import Cause, GangResult
from kubestow.report.documents.output import counted
from kubestow.report.terminal.canvas import grid, heading, inset, plain
from kubestow.report.terminal.columns import Name
from kubestow.report.terminal.workloads import pods_and_workloads


@dataclass(frozen=True)
class _CauseGroup:
    """Causes that differ only in the names of their pods, workloads and gangs.

    Attributes:
        causes: The causes.
        facts: Rules and messages in common.
        remedies: Remedies in common, each with its command line options.
    """

    causes: list[Cause]
    facts: list[tuple[str, str]]
    remedies: list[tuple[str, str]]


def causes(found: Sequence[Cause], owned: Mapping[str, str] | None = None) -> Iterator[RenderableType]:
    """Yield each cause with its facts and remedies, cheapest remedy first. Equal causes are grouped.

    ``owned`` maps pods to their workloads.
    """
    if not found:
        return
    yield heading("Why not, and what would help")
    owned = owned or {}
    for group in _alike(found, owned):
        cause = group.causes[0]
        yield inset(_title(group.causes, owned))
        for rule, message in group.facts:
            yield inset(plain(f"{rule}: ", style="yellow").append_text(plain(message, style="default")), 4)
        several = len(group.causes) > 1
        if group.remedies:
            who = "one of them" if not several and cause.gang is None and 1 == cause.together < len(cause.pods) else "it"
            each = "for each pod, " if several else ""
            yield inset(plain(f"{each}any one of these lets {who} be placed (each was tried):", style="dim"), 4)
        for message, options in group.remedies:
            line = plain(message, style="green")
            if options:
                line.append_text(plain(f"   {options}", style="dim"))
            yield inset(Text("- ").append_text(line), 6)
        untried = list(dict.fromkeys(kind for each in group.causes for kind in each.untried))
        words = [] if group.remedies else [f"no {'change that was tried' if untried else 'single change'} lets it be placed"]
        words += [f"not all tried: {', '.join(untried)}"] if untried else []
        if words:
            yield inset(plain("; ".join(words), style="dim"), 4)


def _alike(found: Sequence[Cause], owned: Mapping[str, str]) -> list[_CauseGroup]:
    """Return groups of equal causes, in order of their first members."""
    groups: dict[object, _CauseGroup] = {}
    for cause in found:
        facts = [(f.rule, f.message.removeprefix(f"{f.rule}: ")) for f in cause.facts]
        remedies = [(way.message, shlex.join(way.options)) for way in cause.waysOut]
        nameless = _Nameless(cause, owned)
        general = [(rule, nameless(text)) for rule, text in facts], [(nameless(text), nameless(options)) for text, options in remedies]
        key = (cause.gang is None, cause.alone, cause.minimal, cause.proved, cause.together, tuple(general[0]), tuple(general[1]))
        if key not in groups:
            groups[key] = _CauseGroup([cause], facts, remedies)
        else:
            group = groups[key]
            group.causes.append(cause)
            group.facts[:], group.remedies[:] = general
    return list(groups.values())


class _Nameless:
    """Replaces the names of a cause's pods, workloads and gang in a text."""

    def __init__(self, cause: Cause, owned: Mapping[str, str]) -> None:
        words = {owned[pod].partition(" ")[2]: "its workload" for pod in cause.pods if pod in owned}
        if cause.gang is not None:
            words[cause.gang] = "the gang"
        words |= dict.fromkeys(cause.pods, "the pod")
        names = sorted(words, key=len, reverse=True)
        self._words = words
        self._names = re.compile(r"(?<![\w./-])(?:" + "|".join(map(re.escape, names)) + r")(?![\w/-]|\.\w)")

    def __call__(self, text: str) -> str:
        return self._names.sub(lambda match: self._words[match[0]], text)


def _title(found: Sequence[Cause], owned: Mapping[str, str]) -> Text:
    cause = found[0]
    pods = [pod for each in found for pod in each.pods]
    if len(found) > 1 and cause.gang is not None:
        who = f"{counted(len(pods), 'pod')} of {len(found):,} gangs ({cause.gang}, ...)"
    elif len(pods) > 1:
        name = f"gang {cause.gang}, " if cause.gang is not None else ""
        who = f"{name}{pods_and_workloads(pods, owned)} ({pods[0]}, ...)"
    else:
        who = (f"gang {cause.gang}, " if cause.gang is not None else "") + pods[0]
    text = plain(who, style="bold red")
    how = "cannot be placed" if cause.proved else "no place was found"
    because = "these rules and capacities together rule it out" if len(cause.facts) > 1 else "this alone rules it out"
    if not cause.alone:
        because += ", given the places of the other pods"
    if not cause.minimal:
        because += " (not minimal: the time was up)"
    return text.append(f": {how}; {because}:")


def gangs(found: Sequence[GangResult]) -> Iterator[RenderableType]:
    """Yield the placement of each gang in a table: whole, in part, or none."""
    if not found:
        return
    table = grid("gang", "placed", "of", "needed", "running", "topology", right=(1, 2, 3, 4), title="Gangs")
    for gang in found:
        style = "green" if gang.placed == gang.pending else "yellow" if gang.placed else "red"
        where = "" if gang.topologyKey is None else f"{gang.topologyKey}{'=' + gang.domain if gang.domain else ''}"
        numbers = f"{gang.pending:,}", f"{gang.needed:,}", f"{gang.bound:,}" if gang.bound else ""
        table.add_row(Name(gang.gang), Text(f"{gang.placed:,}", style=style), *numbers, plain(where))
    yield inset(table)
