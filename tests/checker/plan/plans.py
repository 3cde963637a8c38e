"""Hand-written plans for tests: documents whose summaries are filled in, and the checker's verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from kubestow.checker.plan.plan import summary, verify_plan
from kubestow.models.documents.placement import SnapshotRef, TierResult
from kubestow.models.documents.policy import Policy
from kubestow.models.documents.rebalance_plan import Eviction, Excluded, Limits, Move, RebalancePlan, Summary
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from tests import objects

Object = dict[str, Any]
HOST = "kubernetes.io/hostname"


def running(name: str, node: str | None, *, app: str | None = None, **spec: Any) -> Object:
    """A pod that runs (``node`` None: is pending), of a ReplicaSet ``app`` (default: its name up to the last dash)."""
    app = app or name.rpartition("-")[0]
    labels = {"app": app, **spec.pop("labels", {})}
    return objects.pod(name, node_name=node, labels=labels, owner=spec.pop("owner", f"ReplicaSet/{app}"), **spec)


def apart(app: str) -> Object:
    """Anti-affinity to pods of an app on one node."""
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": app}}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def together(app: str, key: str = HOST) -> Object:
    """Affinity to pods of an app."""
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def spread(app: str, skew: int = 1, key: str = HOST) -> list[Object]:
    """A hard spread constraint over pods of an app."""
    selector = {"matchLabels": {"app": app}}
    return [{"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}]


def budget(app: str, **fields: Any) -> Object:
    """A PodDisruptionBudget over pods of an app; ``status`` apart."""
    status = fields.pop("status", None)
    found: Object = {
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": app, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": app}}, **fields},
    }  # fmt: skip
    return found if status is None else {**found, "status": status}


def tier(name: str, value: int, priority: int | None = None) -> TierResult:
    return TierResult(name, value, value, priority)


def plan(
    things: Iterable[Object] | Snapshot,
    goals: Sequence[str],
    tiers: Sequence[TierResult],
    *steps: Move | Eviction,
    drain: Sequence[str] = (),
    freed: Sequence[str] = (),
    limits: Limits | None = None,
    excluded: Sequence[Excluded] = (),
    policy: Policy | None = None,
) -> tuple[Snapshot, RebalancePlan]:
    """A snapshot and a document for it, with summaries as the checker computes them."""
    snapshot = things if isinstance(things, Snapshot) else from_objects(things)
    nothing = Summary(0, 0)
    found = RebalancePlan(
        SnapshotRef(snapshot.sha256, len(snapshot.nodes), len(snapshot.pods), 0), list(goals), "exact", "feasible", list(tiers),
        [step for step in steps if isinstance(step, Move)], [step for step in steps if isinstance(step, Eviction)], nothing, nothing,
        drain=list(drain), freed=list(freed), limits=limits or Limits(), excluded=list(excluded), policy=policy,
    )  # fmt: skip
    found.before, found.after, found.leastWaves = summary(snapshot, found)
    found.snapshot.pending = found.before.pending
    return snapshot, found


def move(step: int, wave: int, pod: str, source: str | None, to: str, **more: Any) -> Move:
    return Move(step, wave, f"default/{pod}", source, to, "because", **more)


def evict(step: int, wave: int, pod: str, source: str) -> Eviction:
    return Eviction(step, wave, f"default/{pod}", source, "because")


def faults(snapshot: Snapshot, document: RebalancePlan) -> list[tuple[str, str]]:
    """Return the checker's violations: rules and reasons."""
    return [(fault.rule, fault.why) for fault in verify_plan(snapshot, document)]


def rules(snapshot: Snapshot, document: RebalancePlan) -> set[str]:
    return {rule for rule, _ in faults(snapshot, document)}
