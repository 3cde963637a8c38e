"""Figures of the page: tiers, facts, notes, preferences, and search progress over time."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from kubestow.models.cluster import unmodelled
from kubestow.models.documents.findings.audit import Audit
from kubestow.models.documents.placement import FamilyResult, Placement, SearchPoint, TierResult, Unmodelled
from kubestow.models.documents.rebalance_plan import RebalancePlan
from kubestow.models.edits import edits
from kubestow.models.kube.objects import pod_key
from kubestow.models.snapshot.snapshot import InputError, Snapshot
from kubestow.report.documents.numbers import percent
from kubestow.report.documents.output import counted
from kubestow.report.documents.results import RuleViolation
from kubestow.report.documents.status_words import status_words
from kubestow.report.documents.tier_words import gap_text, tier_words
from kubestow.report.page import words
from kubestow.report.page.nodes import left_to_drain
from kubestow.report.page.owners import short
from kubestow.report.page.places import GATED, MOVED, PENDING, PodPlaces, Result, policy_of

#: Maximum number of list entries.
_MAX_ENTRIES: Final = 1_000
#: Maximum number of named pods per unmodelled field.
_MAX_NAMED_PODS: Final = 20


def kind(result: Result) -> str:
    if isinstance(result, Placement):
        return "Rollout" if result.rollout is not None else "Placement"
    return "RebalancePlan" if result is not None else "Snapshot"


def title(snapshot: Snapshot, result: Result) -> str:
    if isinstance(result, Placement):
        if result.rollout is not None:
            return f"Rollout of {result.rollout.workload}: {counted(len(result.rollout.waves), 'wave')}"
        return f"Placement of {counted(result.snapshot.pending, 'pod')}"
    if result is not None:
        return f"Rebalancing plan: {_steps(result)}"
    return f"Snapshot of {counted(len(snapshot.nodes), 'node')}, {counted(len(snapshot.pods), 'pod')}"


def _steps(plan: RebalancePlan) -> str:
    """Return ``2 moves and 4 bindings``. Pending pods that get a node count as bindings."""
    moved = sum(move.source is not None for move in plan.moves)
    bound = len(plan.moves) - moved
    return counted(moved, "move") + (f" and {counted(bound, 'binding')}" if bound else "")


def figures(
    snapshot: Snapshot, result: Result, places: PodPlaces, usage: Sequence[Mapping[str, Sequence[int]]], nodes: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the figures of ``summary`` of the page. ``nodes`` are its columns."""
    return {
        "status": result.status if result is not None else None,
        "statusWords": status_words(result) if result is not None else [],
        "engine": result.engine if result is not None else None,
        "seconds": _seconds(result),
        "tiers": _tiers(snapshot, result),
        "facts": [list(fact) for fact in _facts(snapshot, result, places, usage, nodes)],
    }


def remarks(
    snapshot: Snapshot, result: Result, pending: Sequence[int], violations: Sequence[RuleViolation], notes: Sequence[str]
) -> dict[str, Any]:
    """Return the rest of ``summary``: notes (also ``notes`` from building the page), unmodelled fields and broken rules."""
    said = list(result.notes) if result is not None else [*snapshot.notes, *snapshot.warnings]
    if result is not None and result.snapshot.edits is not None:
        said = [*edits.describe(result.snapshot.edits), *said]
    if result is not None:
        found = result.unmodelled
    else:
        try:
            found = unmodelled.find(snapshot, [snapshot.pods[i] for i in pending], tiers=policy_of(result).networkTiers)
        except InputError as error:
            found, said = [], [*said, *error.problems]
    shown = [{"pod": v.pod, "node": v.node or "", "rule": v.rule, "why": v.why} for v in violations[:_MAX_ENTRIES]]
    if len(violations) > _MAX_ENTRIES:
        said.append(f"{len(violations) - _MAX_ENTRIES:,} more violations are left out")
    return {
        "notes": list(dict.fromkeys([*said, *notes])),
        "unmodelled": unmodelled_rows(found),
        "violations": shown,
    }


def _seconds(result: Result) -> dict[str, float] | None:
    """Return seconds by phase. None if one is not finite (YAML allows .nan)."""
    found: dict[str, float] = msgspec.to_builtins(result.seconds) if result is not None and result.seconds is not None else {}
    return found if found and all(map(math.isfinite, found.values())) else None


def _tiers(snapshot: Snapshot, result: Result) -> list[dict[str, Any]]:
    if result is None:
        return []
    of: Counter[int] = Counter()
    if isinstance(result, Placement):
        priorities = {pod_key(pod): pod.spec.priority or 0 for pod in snapshot.pods}
        of.update(
            priorities.get(pod, 0) for pod in [*(a.pod for a in result.assignments), *(u.pod for u in result.unplaced if not u.gated)]
        )
    found = []
    for tier in result.objective:
        words = tier_words(tier, result.policy)
        total = _of(tier, of) if isinstance(result, Placement) else None
        gap = gap_text(tier.value, tier.bound)
        found.append({"label": words.name, "value": words.reached, "bound": words.best, "gap": gap, "of": total})
    return found


def _of(tier: TierResult, of: Counter[int]) -> int | None:
    """Return the number of pods of the tier to place."""
    if tier.tier != "placed":
        return None
    return of[tier.priority] if tier.priority is not None else of.total()


def _facts(
    snapshot: Snapshot, result: Result, places: PodPlaces, usage: Sequence[Mapping[str, Sequence[int]]], nodes: Mapping[str, Any]
) -> list[tuple[str, ...]]:
    """Return name and text of each fact, and for some a note in smaller letters."""
    states = Counter(places.state)
    running = [f"{sum(1 for node in view if node >= 0):,}" for view in places.place]
    found: list[tuple[str, ...]] = [("Nodes", f"{len(snapshot.nodes):,}"), ("Pods running", _change(running))]
    if isinstance(result, Placement):
        waves = result.rollout.waves if isinstance(result, Placement) and result.rollout is not None else []
        placed = len(result.assignments) - sum(entry.old for wave in waves for entry in wave.create)
        found.append(("Placed", f"{placed:,} of {result.snapshot.pending:,}"))
    elif isinstance(result, RebalancePlan):
        found += _of_plan(result, snapshot, places)
    if isinstance(result, Placement) and result.rollout is not None:
        found += [("Waves", f"{len(result.rollout.waves):,}"), ("Rollout", "completes" if result.rollout.complete else "gets stuck")]
    elif isinstance(result, Placement) and states[MOVED]:
        found.append(("Moved", f"{states[MOVED]:,}"))
    found += [(name, f"{states[state]:,}") for name, state in (("Pending", PENDING), ("Gated", GATED)) if states[state]]
    lost = sum(1 for pod, node in zip(places.pods, places.place[0], strict=True) if pod.spec.nodeName and node < 0)
    found += [("On nodes not in the snapshot", f"{lost:,}")] if lost else []
    over = len(snapshot.pods) - len(places.pods)
    found += [("Pods that have ended", f"{over:,}")] if over else []
    for name, resource in (("CPU requested", "cpu"), ("Memory requested", "memory")):
        total = sum(nodes[resource])
        if total:
            shares = [f"{percent(sum(view[resource]), total)}%" for view in usage]
            found.append((name, _change(shares), f"of {words.offer(resource, total)}"))
    used = [f"{sum(1 for count in view['pods'] if count):,}" for view in usage]
    found.append(("Nodes with pods", _change(used)))
    return found


def _of_plan(plan: RebalancePlan, snapshot: Snapshot, places: PodPlaces) -> list[tuple[str, ...]]:
    moved = sum(move.source is not None for move in plan.moves)
    found: list[tuple[str, ...]] = [("Moves", f"{moved:,}")]
    found += [("Bindings", f"{len(plan.moves) - moved:,}", "pending pods that get a node")] if moved < len(plan.moves) else []
    found += [
        ("Evictions", f"{len(plan.evictions):,}"),
        ("Waves", f"{plan.waves:,}", *_least_waves(plan)),
    ]
    if plan.freed:
        found.append(("Nodes freed", f"{len(plan.freed):,}", *_bound_of_freed(plan)))
    if plan.drain:
        drain_pending = {snapshot.nodes[n].metadata.name for n in left_to_drain(plan, places)}
        done = sum(name not in drain_pending for name in plan.drain)
        found.append(("Nodes drained", f"{done:,}" if done == len(plan.drain) else f"{done:,} of {len(plan.drain):,}"))
    return found


def _least_waves(plan: RebalancePlan) -> list[str]:
    return [f"at least {plan.leastWaves:,}"] if plan.waves > 1 and plan.leastWaves else []


def _bound_of_freed(plan: RebalancePlan) -> list[str]:
    """Return the bound as in the terminal: the tier counts nodes that were already free, but the plan does not free them."""
    tier = next((tier for tier in plan.objective if tier.tier == "freed"), None)
    if tier is None:
        return []
    if plan.policy is not None and plan.policy.priceLabel:
        return [f"cost {-tier.value:,}, bound {-tier.bound:,}"]
    before = tier.value - len(plan.freed)
    return [f"bound {tier.bound - before:,}" + (f"; {before:,} more {'was' if before == 1 else 'were'} free before" if before > 0 else "")]


def _change(values: Sequence[str]) -> str:
    return " → ".join(dict.fromkeys(values))


def unmodelled_rows(found: Sequence[Unmodelled]) -> list[dict[str, str]]:
    """Return the first pods per field and effect, and the number of the others."""
    groups: dict[tuple[str, str], list[str]] = {}
    for entry in found:
        groups.setdefault((entry.field, entry.effect), []).append(entry.pod)
    rows = []
    for (field, effect), names in groups.items():
        listed = names[:_MAX_NAMED_PODS] + ([f"and {len(names) - _MAX_NAMED_PODS:,} more"] if len(names) > _MAX_NAMED_PODS else [])
        rows += [{"pod": name, "field": field, "effect": effect} for name in listed]
    return rows[:_MAX_ENTRIES]


def audit(found: Audit | None) -> dict[str, Any] | None:
    """Return the findings of an audit and the number left out. None without an audit."""
    if found is None:
        return None
    return {
        "findings": [
            {"severity": each.severity, "code": each.code, "object": each.object, "message": each.message, "fix": each.fix}
            for each in found.findings[:_MAX_ENTRIES]
        ],
        "more": max(0, len(found.findings) - _MAX_ENTRIES),
        "notChecked": list(found.notChecked),
    }


# --- preferences, rules, search -------------------------------------------------------------------------------------------


def preferences(result: Result) -> dict[str, Any] | None:
    """Return the points gained and lost. For a plan, return the points before and after, which have no bound."""
    if isinstance(result, RebalancePlan):
        before = {f.family: f.value for f in result.before.preferences}
        families = [
            {"family": f.family, "before": before.get(f.family, 0), "value": f.value, "multiplier": f.multiplier}
            for f in result.after.preferences
        ]
        return {"families": families, "workloads": [], "unmet": []} if families else None
    found = result.preferences if result is not None else None
    if found is None:
        return None
    return {
        "families": _families(found.families),
        "workloads": [{"workload": short(w.workload), "value": w.value, "lost": w.lost} for w in found.workloads[:_MAX_ENTRIES]],
        "unmet": [
            {"workload": short(u.workload), "family": u.family, "preference": u.preference, "pods": u.pods, "lost": u.lost}
            for u in found.unmet[:_MAX_ENTRIES]
        ],
    }


def _families(found: Sequence[FamilyResult]) -> list[dict[str, Any]]:
    return [{"family": f.family, "value": f.value, "best": f.best, "multiplier": f.multiplier} for f in found]


def rules_broken(result: Result) -> dict[str, dict[str, int]] | None:
    """Return the number of running pods that break each rule, before and after a plan."""
    if not isinstance(result, RebalancePlan):
        return None
    return {"before": dict(sorted(result.before.rules.items())), "after": dict(sorted(result.after.rules.items()))}


def obstacles(result: Result) -> list[dict[str, Any]]:
    if not isinstance(result, RebalancePlan):
        return []
    return [
        {"goal": each.goal, "message": each.message, "proved": each.proved, "about": each.pod or each.node or ""}
        for each in result.obstacles[:_MAX_ENTRIES]
    ]


def search(result: Result) -> list[dict[str, Any]]:
    """Return incumbent and bound over time, by tier. For a minimised tier (``fewer``), both are costs and the bound is a lower bound."""
    found: dict[tuple[str, int | None], list[SearchPoint]] = {}
    for point in (each for each in (result.search if result is not None else ()) if math.isfinite(each.seconds)):
        found.setdefault((point.tier, point.priority), []).append(point)
    curves = []
    for (tier, priority), points in found.items():
        words = tier_words(TierResult(tier, 0, 0, priority), result.policy if result is not None else None)
        sign = -1 if words.fewer else 1
        points.sort(key=lambda p: p.seconds)
        ends = [[p.seconds, sign * p.value, sign * p.bound if p.bound is not None else None] for p in points]
        curves.append({"label": words.name, "fewer": words.fewer, "points": ends})
    return curves
