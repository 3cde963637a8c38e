"""The report on a Survival for terminals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from rich.console import RenderableType
from rich.text import Text

from kubestow.models.documents.placement import Fact
from kubestow.models.documents.survival import Counterexample, Scenario, Survival, SurvivalRemedy
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.report.documents.output import counted
from kubestow.report.terminal.canvas import Surface, grid, heading, inset, more, plain
from kubestow.report.terminal.capacity import headroom
from kubestow.report.terminal.columns import Name
from kubestow.report.terminal.placement import examples, unmodelled_and_notes
from kubestow.report.terminal.workloads import owners

#: Maximum numbers of listed counterexamples, failures and exposed objects.
_MAX_COUNTEREXAMPLES: Final = 5
_MAX_FAILURES: Final = 40
_MAX_EXPOSED: Final = 12
#: Maximum numbers of workloads and nodes named in a line.
_MAX_NAMED: Final = 4
_BY: Final = {
    "nothing": "no pods affected",
    "bound": "a bound",
    "composition": "single failures",
    "search": "a construction",
    "solver": "the solver",
}
_STYLE: Final = {"survives": "green", "pending": "red", "unknown": "yellow"}
_OUTCOME: Final = {"survives": "all come back", "pending": "pods stay pending", "unknown": "unknown"}


def verdict_line(found: Survival) -> str:
    """Return the verdict in one sentence."""
    several = found.atOnce > 1
    total = found.scenarios.all
    whose = ("their" if several else "its") + " pods"
    come = f"{whose} of priority {found.priority:,} or more" if found.priority is not None else whose
    if found.certified:
        who = (
            f"any {found.atOnce} of the {_noun(found, 2)} may fail at once ({total:,} ways)"
            if several
            else f"each of {_every(found)} may fail"
        )
        return f"Certified: {who}, and all {come} come back"
    lost, unsure = _failures(found.outcomes, "pending"), _failures(found.outcomes, "unknown")
    way = f"of {total:,} ways in which {found.atOnce} {_noun(found, 2)} fail at once" if several else f"of {_every(found)}"
    parts = []
    if lost:
        parts.append(
            f"{lost:,} {way} leave{'s' if lost == 1 else ''} pods pending" if several else f"{lost:,} {way} may not fail: pods stay pending"
        )
    if unsure:
        parts.append(f"{unsure:,}{'' if parts else ' ' + way} {'is' if unsure == 1 else 'are'} undecided")
    return f"Not certified: {'; '.join(parts)}"


def survival(found: Survival, snapshot: Snapshot, surface: Surface) -> Iterator[RenderableType]:
    """Yield the parts of the report: verdict, pending pods with causes, remedies, other effects, and the proof."""
    style = "bold green" if found.certified else "bold red" if found.counterexamples else "bold yellow"
    yield Text(verdict_line(found), style=style)
    yield from _counterexamples(found, snapshot, surface)
    if found.remedy is not None:
        yield from _remedy(found.remedy)
    yield from _exposed(found, surface)
    yield from headroom.of_states(found.headroom, "failure", surface)
    if surface.wide or surface.everything:
        yield from _outcomes(found, surface)
    yield from unmodelled_and_notes(found, surface)
    yield heading("Proof")
    yield inset(plain(_proof(found)))


def _noun(found: Survival, number: int) -> str:
    one = found.fail if found.fail in ("node", "zone") else "domain"
    of = "" if one == found.fail else f" of {found.fail}"
    return f"{one}{'' if number == 1 else 's'}{of}"


def _every(found: Survival) -> str:
    return f"{found.scenarios.all:,} {_noun(found, found.scenarios.all)}"


def _failures(outcomes: Sequence[Scenario], outcome: str) -> int:
    return sum(1 + len(each.alike) for each in outcomes if each.outcome == outcome)


def _proof(found: Survival) -> str:
    """Return the ways in which the failures were decided."""
    s = found.scenarios
    parts = [f"{counted(s.all, 'failure')}", f"{s.distinct:,} distinct" if s.distinct < s.all else ""]
    composed = f" ({s.composed:,} by combining single failures)" if s.composed else ""
    parts += [f"{s.bounded:,} decided by bounds", f"{s.solved:,} solved{composed}", f"{s.open:,} open" if s.open else ""]
    took = f"; {found.seconds.load + found.seconds.compile + found.seconds.solve + found.seconds.verify:.1f} s" if found.seconds else ""
    return ", ".join(part for part in parts if part) + took


# --- counterexamples ---------------------------------------------------------------------------------------------------


def _counterexamples(found: Survival, snapshot: Snapshot, surface: Surface) -> Iterator[RenderableType]:
    if not found.counterexamples:
        return
    shown = found.counterexamples[: surface.limit(_MAX_COUNTEREXAMPLES)]
    yield heading(f"Pods that do not come back, the worst failure{'s' if len(shown) > 1 else ''} first")
    owned = owners(snapshot, {pod for each in shown for pod in each.pending})
    of = {tuple(scenario.failed): scenario for scenario in found.outcomes}
    for each in shown:
        yield inset(_failure(found, each, of.get(tuple(each.failed))))
        yield inset(plain(_by_workload(each.pending, owned, surface)), 4)
        if each.cause is not None:
            yield from _why(each.cause.facts, each.cause.pods)
            for way in each.cause.waysOut[: surface.limit(_MAX_NAMED)]:
                yield inset(Text("- ").append_text(plain(way.message, style="green")), 6)
        for consequence in each.consequences:
            yield inset(plain(f"{consequence.object}: ", style="yellow").append_text(plain(consequence.message, style="default")), 4)
    shown_failures = sum(1 + len(scenario.alike) for each in shown if (scenario := of.get(tuple(each.failed))) is not None)
    omitted = _failures(found.outcomes, "pending") - shown_failures
    yield from more(omitted, f"... and {counted(omitted, 'more failure')} (--all lists all)")


def _failure(found: Survival, each: Counterexample, scenario: Scenario | None) -> Text:
    """Return the effect of a failure: ``zone a: 3 of 12 pods stay pending``."""
    text = plain(f"{_noun(found, len(each.failed))} {', '.join(each.failed)}", style="bold red")
    total = f" of {scenario.displaced:,}" if scenario is not None else ""
    least = f"{each.least:,}{total} pod{'s' if each.least != 1 or total else ''}"
    stay = "stays" if each.least == 1 and not total else "stay"
    if len(each.pending) > each.least:
        least, stay = f"at least {least}", f"stay pending, {len(each.pending):,} in the best answer found"
    else:
        stay += " pending"
    equal = len(scenario.alike) if scenario is not None else 0
    alike = f"; {counted(equal, 'more failure')} {'is' if equal == 1 else 'are'} equal to it" if equal else ""
    return text.append(f": {least} {stay}{alike}", style="default")


def _by_workload(pods: Sequence[str], owned: Mapping[str, str], surface: Surface) -> str:
    """Return ``2 of Deployment prod/web, 1 of StatefulSet prod/db: prod/web-1, ...``."""
    counts = Counter(owned.get(pod, f"Pod {pod}") for pod in pods).most_common()
    limit = surface.limit(_MAX_NAMED)
    named = ", ".join(f"{number:,} of {owner}" for owner, number in counts[:limit])
    suffix = f" and {len(counts) - limit:,} more workloads" if len(counts) > limit else ""
    return f"{named}{suffix}: {examples(pods, surface)}" if pods else ""


def _why(facts: Sequence[Fact], pods: Sequence[str]) -> Iterator[RenderableType]:
    who = f"{pods[0]} and {len(pods) - 1:,} more" if len(pods) > 1 else pods[0] if pods else ""
    yield inset(plain(f"why {who}:" if who else "why:", style="dim"), 4)
    for fact in facts:
        said = plain(f"{fact.rule}: ", style="yellow").append_text(plain(fact.message.removeprefix(f"{fact.rule}: "), style="default"))
        yield inset(said, 6)


# --- remedies and other effects ------------------------------------------------------------------------------------------


def _remedy(remedy: SurvivalRemedy) -> Iterator[RenderableType]:
    """Yield the additional nodes for a certificate, their cost, and the options to try them."""
    yield heading("Certified with" if remedy.certified else "Possible remedy (its certificate was not completed)")
    for text in (*remedy.addNodes, *remedy.buy):
        number, _, what = text.partition(":")
        kind, _, zone = what.partition("@")
        like = (
            f"node{'' if number == '1' else 's'} like {what}" if text in remedy.addNodes else f"{kind}{f' in zone {zone}' if zone else ''}"
        )
        yield inset(plain(f"{number} {like}", style="green"))
    yield inset(plain(_cost(remedy)))
    if remedy.options:
        yield inset(plain(" ".join(remedy.options), style="dim"))


def _cost(remedy: SurvivalRemedy) -> str:
    nodes = sum(int(text.partition(":")[0]) for text in (*remedy.addNodes, *remedy.buy))
    value = nodes if remedy.cost is None else remedy.cost
    what = counted(nodes, "node") + ("" if remedy.cost is None else f", {remedy.cost:g} per hour")
    if remedy.bound is None:
        return what
    if remedy.bound >= value:
        return f"{what}: {'fewer are' if remedy.cost is None else 'less is'} not enough, proved"
    unit = "nodes are" if remedy.cost is None else "per hour is"
    return f"{what}: at least {remedy.bound:g} {unit} needed, proved"


def _exposed(found: Survival, surface: Surface) -> Iterator[RenderableType]:
    if not found.exposed:
        return
    table = grid("failures", "object", "the worst", "effect", right=(0,), prose=(3,), title="Other effects of failures")
    for each in found.exposed[: surface.limit(_MAX_EXPOSED)]:
        name = each.object if each.kind != "lost" else examples([f"Pod {pod}" for pod in each.object[4:].split(",")])
        table.add_row(f"{each.failures:,} of {found.scenarios.all:,}", Name(name), plain(", ".join(each.worst)), plain(each.message))
    yield inset(table)
    yield from more(len(found.exposed) - surface.limit(_MAX_EXPOSED))


def _outcomes(found: Survival, surface: Surface) -> Iterator[RenderableType]:
    table = grid("fails", "equal", "pods", "pending", "outcome", "decided by", right=(1, 2, 3), title="Failures")
    shown = found.outcomes[: surface.limit(_MAX_FAILURES)]
    for each in shown:
        by = "" if each.outcome == "unknown" else _BY[each.by]
        equal = f"+{len(each.alike):,}" if each.alike else ""
        pending = f"{each.pending:,}" if each.pending else ""
        outcome = Text(_OUTCOME[each.outcome], style=_STYLE[each.outcome])
        table.add_row(Name(", ".join(each.failed)), equal, f"{each.displaced:,}", pending, outcome, plain(by))
    yield inset(table)
    yield from more(len(found.outcomes) - len(shown))
