"""A document's own assumptions, which nothing can contradict: policy, exemptions and edits. They can be compared with expected ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from kubestow.checker.violation import Violation
from kubestow.models.documents.capacity import Capacity
from kubestow.models.documents.fit import Fit
from kubestow.models.documents.placement import Placement
from kubestow.models.documents.policy import DEFAULT, Policy
from kubestow.models.documents.rebalance_plan import Limits, RebalancePlan
from kubestow.models.documents.sizing import Sizing
from kubestow.models.documents.survival import Survival
from kubestow.models.documents.upgrade import Upgrade

#: Claims of a Placement that are not checked, in words for users.
PLACEMENT: Final = (
    "bounds of tiers and the best of each family: no placement proves them",
    "facts and remedies of causes: they take a search; rules about NUMA zones, gangs and quotas as reasons",
    "words of messages and notes, seconds, the course of the search",
)
#: Claims of a plan that are not checked, in words for users.
PLAN: Final = (
    "bounds of tiers, and whether an obstacle can be overcome: no plan proves them",
    "words of reasons, obstacles and notes, seconds, the course of the search",
)
_MAX_TEXT_CHARACTERS: Final = 120


def not_checked(result: Placement | RebalancePlan, unjudged: int = 0, *, proved_grace: bool = False) -> list[str]:
    """Return the claims that a check of the document leaves open.

    Args:
        result: The document.
        unjudged: Number of unplaced pods that were not judged.
        proved_grace: True if the violations that a plan forgives were checked against earlier snapshots.
    """
    found = list(PLAN if isinstance(result, RebalancePlan) else PLACEMENT)
    if result.snapshot.rollout is not None:
        found.append("why new pods are stuck")
    if isinstance(result, Placement) and result.rollout is not None and result.rollout.worstEnds:
        found.append("the bounds on the skew after a rollout")
    if isinstance(result, RebalancePlan) and not proved_grace and result.executionGrace is not None and result.executionGrace.earlier:
        found.append("which rules that hold during execution are within their grace: the earlier snapshots are not given (--since)")
    return found + unjudged_pods(unjudged)


def unjudged_pods(pods: int) -> list[str]:
    """Return a clause about unplaced pods that were not judged, or nothing if there are none."""
    return [f"why {pods} of the unplaced pods fit nowhere: there are too many kinds of pods and nodes"] if pods else []


def assumptions(result: Placement | RebalancePlan | Capacity) -> list[str]:
    """Return the document's assumptions that differ from the defaults, one clause each."""
    ref = result.snapshot
    found = []
    if ref.kubernetesVersion is not None or ref.featureGates:
        gates = ", ".join(f"{gate} {'on' if on else 'off'}" for gate, on in ref.featureGates.items())
        found.append(f"the rules are those of Kubernetes {ref.kubernetesVersion or ''}{' with ' if gates else ''}{gates}")
    if ref.daemonNamespaces:
        found.append(f"pods of these namespaces are exempt from required anti-affinity: {', '.join(ref.daemonNamespaces)}")
    found += [f"the policy has {field} {_brief(value)} instead of {_brief(usual)}" for field, value, usual in _policy(result, DEFAULT)]
    if ref.fromScratch:
        found.append("running pods that may move are placed again")
    if ref.includeGated:
        found.append("pods with scheduling gates are placed too")
    if ref.workloads:
        found.append(f"manifests are added: {', '.join(ref.workloads)}")
    if ref.rollout is not None:
        found.append(f"a new revision of {ref.rollout} is rolled out")
    if ref.edits is not None:
        edits = msgspec.to_builtins(ref.edits)
        found += [
            f"the snapshot is edited: {field}{'' if value is True else f' {_brief(value)}'}" for field, value in edits.items() if value
        ]
    if isinstance(result, RebalancePlan) and result.executionGrace is not None:
        grace = result.executionGrace
        found.append(
            f"rules that hold during execution have a grace of {grace.seconds} s, and {len(grace.forgiven)} that are broken do not count"
        )
    if isinstance(result, RebalancePlan):
        limits = list(_differences(result.limits, Limits()))
        found += [f"the limits have {field} {_brief(value)} instead of {_brief(usual)}" for field, value, usual in limits]
    return [*found, *_question(result)]


def _question(result: Placement | RebalancePlan | Capacity) -> Iterator[str]:
    """Yield the parameters with which a document about capacity was requested."""
    match result:
        case Fit():
            if result.keep is not None:
                yield f"{result.keep.percent} per cent of every {result.keep.of} are kept free"
        case Sizing():
            yield {"add": "nodes are added", "replace": f"the nodes of {result.pool} are replaced"}.get(
                result.mode, "all nodes are chosen from scratch"
            )
            if result.series is not None:
                at = result.snapshot.capturedAt
                yield f"the bought nodes must suffice for {len(result.series)} snapshots, and the edits are those of {at}"
            if result.kinds is not None:
                yield f"at most {result.kinds} shapes are bought"
            if result.mostSpot != 100:
                yield f"at most {result.mostSpot} per cent of the CPU bought is spot"
        case Survival():
            unit = {"node": "nodes", "zone": "zones"}.get(result.fail, f"values of {result.fail}")
            yield f"what fails is any {result.atOnce} of the {unit} at once"
            if result.priority is not None:
                yield f"only pods of at least priority {result.priority} have to come back"
            if result.preemption:
                yield "pods of lower priority may be preempted"
        case Upgrade():
            limits_text = f"{result.maxUnavailable} may be missing and {result.surge} too many"
            yield f"the nodes of {result.pool} are upgraded; {limits_text} at once"
            if result.by is not None:
                yield f"one value of {result.by} is upgraded after the other"
            if result.to is not None:
                yield f"new nodes are changed: {_brief(result.to)}"


def policy_faults(result: Placement | RebalancePlan | Capacity, expected: Policy) -> Iterator[Violation]:
    """Yield differences between the document's policy, exemptions included, and the expected one."""
    for field, value, wanted in _policy(result, expected):
        yield Violation("", "", result.kind, f"the policy has {field} {_brief(value)}, expected {_brief(wanted)}")
    said, wanted = sorted(result.snapshot.daemonNamespaces), sorted(expected.daemonNamespaces)
    if said != wanted:
        why = f"namespaces exempt from required anti-affinity are {', '.join(said) or 'none'}, expected {', '.join(wanted) or 'none'}"
        yield Violation("", "", result.kind, why)


def exemption_faults(result: Placement | RebalancePlan | Capacity) -> Iterator[Violation]:
    """Yield a fault if the document exempts any namespaces."""
    if result.snapshot.daemonNamespaces:
        why = f"namespaces are exempt from required anti-affinity, expected none: {', '.join(result.snapshot.daemonNamespaces)}"
        yield Violation("", "", result.kind, why)


def _policy(result: Placement | RebalancePlan | Capacity, other: Policy) -> list[tuple[str, object, object]]:
    """Return the differences between the document's policy and another."""
    return list(_differences(result.policy or DEFAULT, other))


def _differences(one: msgspec.Struct, other: msgspec.Struct, path: str = "") -> Iterator[tuple[str, object, object]]:
    """Yield the path of each field that differs, with both values."""
    for field in one.__struct_fields__:
        mine, theirs = getattr(one, field), getattr(other, field)
        if isinstance(mine, msgspec.Struct) and type(mine) is type(theirs):
            yield from _differences(mine, theirs, f"{path}{field}.")
        elif mine != theirs:
            yield f"{path}{field}", mine, theirs


def _brief(value: object) -> str:
    """Return a value as text, shortened to :data:`_MAX_TEXT_CHARACTERS`."""
    if isinstance(value, list | tuple) and all(isinstance(each, str) for each in value):
        text = ", ".join(value) or "empty"
    else:
        text = msgspec.json.encode(value).decode() if not isinstance(value, str) else value or "empty"
    return text if len(text) <= _MAX_TEXT_CHARACTERS else f"{text[: _MAX_TEXT_CHARACTERS - 1]}…"
