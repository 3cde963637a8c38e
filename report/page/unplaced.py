"""Pods without a node, grouped by equal reasons, with causes and remedies."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from kubestow.models.documents.placement import Cause, Placement, Remedy, Unplaced
from kubestow.report.documents.output import counted
from kubestow.report.documents.results import nodes_per_rule
from kubestow.report.page.places import Result

if TYPE_CHECKING:  # importing numpy takes longer than building a page
    from kubestow.solver.explain.per_node import PodVerdict

#: Maximum numbers of named pods per group, and of groups.
_MAX_NAMED_PODS: Final = 50
_MAX_GROUPS: Final = 1_000

_Reasons = tuple[tuple[str, int, str], ...]
_Entry = tuple[str, str | None, _Reasons]


def unplaced(result: Result, verdicts: Sequence[PodVerdict], causes: Sequence[Cause]) -> list[dict[str, Any]]:
    """Return ``unplaced`` of the page, largest group first: unplaced pods of a Placement, or pending pods with ``verdicts``."""
    stuck = _stuck(result)
    if isinstance(result, Placement):
        # The halt of a rollout already covers its stuck pods.
        entries, why = [each for each in _of_placement(result) if each[0] not in stuck], [*result.causes, *causes]
    else:
        entries, why = [(v.pod, None, _judged(v)) for v in verdicts], list(causes)
        judged = {v.pod for v in verdicts}
        entries += [(pod, cause.gang, ()) for cause in why for pod in dict.fromkeys(cause.pods) if pod not in judged]
    cause_of = {pod: i for i, cause in reversed(list(enumerate(why))) for pod in cause.pods}
    groups: dict[tuple[str | None, _Reasons, int], list[str]] = {}
    for pod, gang, reasons in entries:
        groups.setdefault((gang, reasons, cause_of.get(pod, -1)), []).append(pod)
    ordered = sorted(groups.items(), key=lambda item: -len(item[1]))
    found = [_group(pods, gang, reasons, why[at] if at >= 0 else None) for (gang, reasons, at), pods in ordered[:_MAX_GROUPS]]
    omitted_pods = [pod for _, pods in ordered[_MAX_GROUPS:] for pod in pods]
    if omitted_pods:
        found.append(
            _group(omitted_pods, None, (("Other", 0, f"{len(ordered) - _MAX_GROUPS:,} other sets of reasons, left out here"),), None)
        )
    return [*_halt(result), *found]


def _group(pods: Sequence[str], gang: str | None, reasons: _Reasons, cause: Cause | None) -> dict[str, Any]:
    return {
        "pods": list(pods[:_MAX_NAMED_PODS]),
        "count": len(pods),
        "gang": gang,
        "reasons": [{"rule": rule, "nodes": nodes, "message": message} for rule, nodes, message in reasons],
        "cause": cause_data(cause) if cause is not None else None,
    }


def _stuck(result: Result) -> dict[str, Unplaced]:
    """Return the new pods that fit nowhere when a rollout halts, or those that may not be created."""
    rollout = result.rollout if isinstance(result, Placement) else None
    if rollout is None or rollout.complete or not isinstance(result, Placement):
        return {}
    refused = result.unplaced if rollout.refused is not None else []
    return {each.pod: each for each in rollout.stuck or refused}


def _of_placement(result: Placement) -> list[_Entry]:
    return [(each.pod, each.gang, _reasons(each)) for each in result.unplaced]


def _reasons(found: Unplaced) -> _Reasons:
    return tuple((reason.rule, reason.nodes, _without_count(reason.message, reason.nodes)) for reason in found.reasons)


def _without_count(message: str, nodes: int) -> str:
    """Return ``insufficient cpu on 3`` without the number of nodes, which is shown next to it."""
    stem = message.removesuffix(f" on {nodes}")
    return message if re.search(r" on \d", stem) else stem


def _judged(verdict: PodVerdict) -> _Reasons:
    """Return the rules that reject a pod, and the number of nodes that would accept it."""
    found = [(rule, nodes, verdict.messages.get(rule, "")) for rule, nodes in nodes_per_rule(verdict).items()]
    if verdict.feasible:
        found.append(("Feasible", len(verdict.feasible), "would accept the pod now"))
    return tuple(found)


def cause_data(found: Cause) -> dict[str, Any]:
    return {
        "facts": [{"rule": fact.rule, "object": fact.object, "message": fact.message} for fact in found.facts],
        "alone": found.alone,
        "minimal": found.minimal,
        "proved": found.proved,
        "waysOut": [_remedy(way) for way in found.waysOut],
        "untried": found.untried,
    }


def _remedy(way: Remedy) -> dict[str, Any]:
    return {"message": way.message, "options": list(map(shlex.quote, way.options))}


def _halt(result: Result) -> Iterator[dict[str, Any]]:
    """Yield the point at which a rollout halts, and remedies."""
    rollout = result.rollout if isinstance(result, Placement) else None
    if rollout is None or rollout.complete:
        return
    stuck = _stuck(result)
    sure = "wherever its pods are placed (proved)" if rollout.proved else "as far as the search found in time"
    message = f"the rollout of {rollout.workload} gets stuck after {counted(len(rollout.waves), 'wave')}, {sure}"
    reasons = dict.fromkeys(reason for each in stuck.values() for reason in _reasons(each))
    yield {
        "pods": list(stuck)[:_MAX_NAMED_PODS],
        "count": len(stuck),
        "gang": None,
        "reasons": [{"rule": rule, "nodes": nodes, "message": said} for rule, nodes, said in [("Rollout", 0, message), *reasons]],
        "cause": {
            "facts": [], "alone": True, "minimal": True, "proved": rollout.proved, "waysOut": [_remedy(way) for way in rollout.waysOut],
            "untried": ["changes of other workloads"],
        },
    }  # fmt: skip
