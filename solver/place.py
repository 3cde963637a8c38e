"""From a snapshot to a verified Placement: choose an engine, run it, explain what is left, have the result judged."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from models import placement as doc
from models import unmodelled
from models.cluster import Cluster, Ints
from models.compile import compile_cluster
from models.kube import pod_key
from models.scope import select
from models.snapshot import Snapshot
from solver import rules
from solver.greedy import complete, construct
from solver.limits import fits, possible
from solver.options import OnProgress, Options, Progress
from solver.ordering import Sequence_
from solver.rules.base import Rule
from solver.verify import verify

#: Above this many (class, node) pairs `auto` leaves the exact model alone: building it alone would take minutes.
EXACT_LIMIT = 600_000
GREEDY_TRIES = 8


class _Tell(Protocol):
    """Progress: phase, and for a tier its priority, incumbent and bound."""

    def __call__(
        self, phase: str, priority: int | None = None, value: int | None = None, bound: int | None = None, detail: str | None = None
    ) -> None: ...


class InternalFault(Exception):
    """The checker refused a result: a fault of kubestow's own, so nothing is returned."""


@dataclass
class _Answer:
    counts: Ints
    sequence: Sequence_
    bounds: dict[int, int]
    engine: str
    notes: list[str] = field(default_factory=list)
    interrupted: bool = False


def place(
    snapshot: Snapshot, options: Options, *, on_progress: OnProgress | None = None, stop: threading.Event | None = None
) -> doc.Placement:
    """Place every pending pod. ``stop`` may be set from another thread or a signal handler: the best answer so far is returned.

    Raises:
        InputError: quantities that cannot be summed.
        InternalFault: the independent checker found the result invalid.
    """
    started = time.monotonic()
    stop = stop or threading.Event()

    def tell(
        phase: str, priority: int | None = None, value: int | None = None, bound: int | None = None, detail: str | None = None
    ) -> None:
        if on_progress is not None:
            tier = None if priority is None else "placed"
            on_progress(Progress(phase, tier, priority, value, bound, time.monotonic() - started, detail))

    tell("compile")
    scope = select(snapshot, from_scratch=options.from_scratch, include_gated=options.include_gated)
    cluster = compile_cluster(snapshot, scope, daemon_namespaces=options.daemon_namespaces)
    kinds = len(np.unique(cluster.node_classes()))
    tell("compile", detail=f"{len(scope.pending)} pods in {cluster.n_classes} classes, {cluster.n_nodes} nodes in {kinds} classes")
    compiled = time.monotonic()
    answer = _search(cluster, options, stop, tell, compiled)
    solved = time.monotonic()
    result = _document(cluster, options, answer)
    tell("verify")
    faults = verify(snapshot, result)
    if faults:
        raise InternalFault("; ".join(f"{f.pod} on {f.node}: {f.rule}: {f.why}" for f in faults[:3]))
    if not options.deterministic:
        result.seconds = doc.Seconds(
            compile=round(compiled - started, 3), solve=round(solved - compiled, 3), verify=round(time.monotonic() - solved, 3)
        )
    return result


def _search(cluster: Cluster, options: Options, stop: threading.Event, tell: _Tell, started: float) -> _Answer:
    active = rules.build(cluster)
    limits = possible(cluster, active)
    bounds = _fits_per_priority(cluster, limits)
    tell("greedy")
    deadline = None if options.time_limit is None or options.deterministic else started + options.time_limit
    built = construct(cluster, limits, seed=options.seed, tries=GREEDY_TRIES, deadline=deadline, stop=stop)
    answer = _Answer(built.counts, built.sequence, bounds, "greedy", interrupted=stop.is_set())
    for priority, value in sorted(built.per_priority(cluster).items(), reverse=True):
        tell("greedy", priority, value, bounds[priority])
    complete_already = all(built.per_priority(cluster)[p] == bound for p, bound in bounds.items())
    pairs = int(np.count_nonzero(limits))
    if options.engine == "greedy" or stop.is_set():
        return answer
    if complete_already:
        if options.engine == "auto":
            if cluster.scope.pending:
                answer.notes.append("greedy construction placed every pod that fits anywhere: nothing is left to prove")
        else:
            answer.engine = "exact"
        return answer
    if options.engine == "auto" and pairs > EXACT_LIMIT:
        answer.notes.append(f"engine auto chose greedy: an exact model would have {pairs} variables (limit {EXACT_LIMIT})")
        return answer
    from solver.exact import Budget, Exact

    for priority, value in sorted(built.per_priority(cluster).items(), reverse=True):
        tell("exact", priority, value, bounds[priority])
    exact = Exact(cluster, options, Budget(options, started), stop, lambda p, value, bound: tell("exact", p, value, bound))
    outcome = exact.solve(built.counts, built.sequence)
    counts, sequence = complete(cluster, limits, outcome.counts, outcome.sequence)
    return _Answer(counts, sequence, outcome.bounds, "exact", outcome.notes, outcome.interrupted)


def _fits_per_priority(cluster: Cluster, limits: Ints) -> dict[int, int]:
    """Per priority, the pods that fit somewhere at all: a bound that holds before any search."""
    found: dict[int, int] = {}
    for priority, k in zip(cluster.priority.tolist(), fits(cluster, limits).tolist(), strict=True):
        found[priority] = found.get(priority, 0) + k
    return found


def _document(cluster: Cluster, options: Options, answer: _Answer) -> doc.Placement:
    snapshot = cluster.snapshot
    keys = [pod_key(snapshot.pods[i]) for i in range(len(snapshot.pods))]
    dealt = [0] * cluster.n_classes
    assignments: list[doc.Assignment] = []
    for g, n, k in answer.sequence:
        for i in cluster.classes[g].pods[dealt[g] : dealt[g] + k]:
            assignments.append(doc.Assignment(keys[i], cluster.nodes.names[n], len(assignments) + 1))
        dealt[g] += k
    placed = answer.counts.sum(axis=1)
    tiers = []
    for priority in sorted(answer.bounds, reverse=True):
        value = int(placed[cluster.priority == priority].sum())
        tiers.append(doc.TierResult("placed", value, max(value, answer.bounds[priority]), priority))
    proved = all(t.value == t.bound for t in tiers)
    status: doc.Status = "optimal" if proved else "feasible"
    if cluster.scope.pending and not assignments:
        status = "infeasible" if proved else ("unknown" if answer.interrupted else "feasible")
    return doc.Placement(
        snapshot=doc.SnapshotRef(
            snapshot.sha256, len(snapshot.nodes), len(snapshot.pods), len(cluster.scope.pending),
            fromScratch=options.from_scratch, includeGated=options.include_gated, daemonNamespaces=list(options.daemon_namespaces),
        ),
        engine=answer.engine,
        status=status,
        objective=tiers,
        assignments=assignments,
        unplaced=_unplaced(cluster, answer, keys, dealt),
        unmodelled=unmodelled.find(snapshot, (snapshot.pods[i] for i in cluster.scope.pending)),
        notes=answer.notes,
    )  # fmt: skip


def _unplaced(cluster: Cluster, answer: _Answer, keys: Sequence[str], dealt: Sequence[int]) -> list[doc.Unplaced]:
    """The pods that are left, each with every rule that rejects it in the final state, and on how many nodes; gated ones last."""
    reasons: dict[int, list[doc.Reason]] = {}
    if any(dealt[g] < cls.count for g, cls in enumerate(cluster.classes)):
        active = rules.build(cluster)
        for g, n, k in answer.sequence:
            for rule in active:
                rule.place(g, n, k)
        for g, cls in enumerate(cluster.classes):
            left = cls.pods[dealt[g] :]
            if left:
                why = _reasons(active, g)
                reasons.update((i, why) for i in left)
    found = [doc.Unplaced(keys[i], reasons[i]) for i in cluster.scope.pending if i in reasons]
    for i in cluster.scope.gated:
        gates = ", ".join(gate.name for gate in cluster.snapshot.pods[i].spec.schedulingGates or ())
        found.append(doc.Unplaced(keys[i], [doc.Reason("SchedulingGates", cluster.n_nodes, f"waits for {gates}")]))
    return found


def _reasons(active: Sequence[Rule], g: int) -> list[doc.Reason]:
    found = []
    for rule in active:
        mask = rule.rejects(g) | rule.breaks(g)
        if mask.any():
            found.append(doc.Reason(rule.name, int(np.count_nonzero(mask)), rule.message(g, mask)))
    if not active[0].cluster.n_nodes:
        found.append(doc.Reason("NoNodes", 0, "the snapshot has no nodes"))
    return sorted(found, key=lambda r: (-r.nodes, r.rule))
