"""Rows of a summary, read from the results of tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from kubestow.commands.batch.task import BatchTask
from kubestow.models.documents.batch import Row
from kubestow.models.documents.findings.audit import Audit
from kubestow.models.documents.placement import Placement, TierResult
from kubestow.report.documents.status_words import tier_apart

_SEVERITIES: Final = ("error", "warning", "info")


class _Origin(msgspec.Struct):
    cluster: str | None = None
    capturedAt: str | None = None


class _Cost(msgspec.Struct):
    value: float = 0.0


class _Placement(msgspec.Struct):
    assignments: list[msgspec.Raw] = []
    unplaced: list[msgspec.Raw] = []


class _Pod(msgspec.Struct):
    feasible: Any = 0


class _Result(msgspec.Struct):
    """The fields of any result that rows need."""

    kind: str = ""
    snapshot: _Origin = msgspec.field(default_factory=_Origin)
    status: str | None = None
    assignments: list[msgspec.Raw] | None = None
    unplaced: list[msgspec.Raw] = []
    placement: _Placement | None = None
    counts: dict[str, int] = {}
    cost: _Cost | None = None
    units: int | None = None
    certified: bool | None = None
    complete: bool | None = None
    blocked: list[msgspec.Raw] = []
    moves: list[msgspec.Raw] = []
    objective: list[TierResult] = []
    pods: list[_Pod] = []


def row(task: BatchTask, exit: int | None, said: Sequence[str], result: tuple[str, bytes] | None, seconds: float | None) -> Row:
    """Return the row of a task.

    Args:
        task: The task.
        exit: Exit code; None if there is none.
        said: Lines on standard error.
        result: File name and content of the result; None without one.
        seconds: Run time.
    """
    found = Row(task.id, list(task.files), task.command, list(task.options), exit=exit, set=task.label)
    if "--deterministic" not in task.options:
        found.seconds = seconds
    if result is None:
        found.reason = reason(said) or (f"ended with {exit} and no result" if exit is not None else "no result")
        return found
    found.result = result[0]
    document = msgspec.json.decode(result[1], type=_Result)
    found.cluster, found.capturedAt = document.snapshot.cluster, document.snapshot.capturedAt
    _fill(found, document)
    return found


def reason(said: Sequence[str]) -> str:
    """Return the reason for a missing result: the first line that is no note or warning, and the number of further ones."""
    lines = [line.removeprefix("kubestow: ") for line in said if not line.startswith(("note: ", "warning: "))]
    return f"{lines[0]} (and {len(lines) - 1} more)" if len(lines) > 1 else "".join(lines)


def _fill(found: Row, document: _Result) -> None:
    placement = document.placement
    if document.assignments is not None:
        found.placed, found.pods = len(document.assignments), len(document.assignments) + len(document.unplaced)
    elif placement is not None:
        found.placed, found.pods = len(placement.assignments), len(placement.assignments) + len(placement.unplaced)
    match document.kind:
        case Audit.__name__:
            found.findings = {severity: n for severity in _SEVERITIES if (n := document.counts.get(severity, 0))}
            found.verdict = next(iter(found.findings), "clean")
        case "Fit":
            found.verdict = f"{document.units} fit"
        case "Sizing":
            found.cost = document.cost.value if document.cost is not None else None
            found.verdict = document.status
        case "Survival":
            found.verdict = "certified" if document.certified else "not certified"
        case "Upgrade":
            found.verdict = "complete" if document.complete else "blocked" if document.blocked else "not finished"
        case Placement.__name__:
            left_out = [tier_apart(tier.tier) for tier in document.objective if tier.value != tier.bound]
            apart = f", but for the {' and the '.join(left_out)}" if left_out and document.status == "optimal" else ""
            found.verdict = f"{document.status}{apart}"
        case "RebalancePlan":
            found.verdict = f"{document.status}, {len(document.moves)} moves"
        case "":
            fit = sum(bool(pod.feasible) for pod in document.pods)
            found.verdict = f"{fit} of {len(document.pods)} fit"
        case _:
            found.verdict = document.status
