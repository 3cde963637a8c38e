"""Solve a snapshot: choose an engine, run it, explain unplaced pods, and have the result checked."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from kubestow.checker.placement import verify
from kubestow.checker.violation import insist
from kubestow.models.admission.deprecated_labels import idle_terms
from kubestow.models.cluster import unmodelled
from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.cluster.storage.attachments import split_volumes
from kubestow.models.devices.allocating import allocated, released
from kubestow.models.devices.inventory import Pick
from kubestow.models.documents import placement as doc
from kubestow.models.documents.policy import DEFAULT
from kubestow.models.edits.binding import bound_as
from kubestow.models.kube.objects import Pod, pod_key
from kubestow.models.numa.containers import running
from kubestow.models.numa.node_topology import NumaTree
from kubestow.models.snapshot.gc_pause import no_gc, set_aside
from kubestow.models.snapshot.scope import select
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.solver import rules
from kubestow.solver.bind_order.gang_units import bundle
from kubestow.solver.devices.result import devices
from kubestow.solver.explain.placed_pods import placed_in
from kubestow.solver.explain.undecided import is_undecided, most_placed
from kubestow.solver.explain.unplaced import explain_left, left_of
from kubestow.solver.numa.zone_pools import bits
from kubestow.solver.objective.domain_evenness import DOMAINS
from kubestow.solver.objective.gap_notes import gap_notes
from kubestow.solver.objective.preferences import Objective
from kubestow.solver.objective.shapes import Pools
from kubestow.solver.objective.tie_break import Strategy, choose
from kubestow.solver.placed_steps import PlacedAnswer
from kubestow.solver.placed_tiers import PROVED, PlacedSearch
from kubestow.solver.refused_pods import refuse_domain_blocking
from kubestow.solver.rules.base import Rule
from kubestow.solver.rules.eligibility import possible
from kubestow.solver.rules.unread import unread
from kubestow.solver.runtime.deadline import Deadline, afterwards
from kubestow.solver.runtime.options import OnProgress, Options
from kubestow.solver.runtime.phase_seconds import phase_seconds
from kubestow.solver.runtime.progress_trace import ProgressReporter
from kubestow.solver.runtime.run_context import RunContext
from kubestow.solver.search.outcome import StartPlacement
from kubestow.solver.soft_tiers import improve

EXPLAIN_SECONDS = 20.0  #: Time limit for explaining unplaced pods.
#: Explanations are skipped unless the remaining time is at least this multiple of the compile time.
MIN_EXPLAIN_TO_COMPILE_RATIO = 4.0
#: Fraction of the time limit reserved for explanations if pods stay unplaced.
EXPLAIN_TIME_FRACTION = 0.15


def place(
    snapshot: Snapshot,
    options: Options,
    *,
    on_progress: OnProgress | None = None,
    stop: threading.Event | None = None,
    began: float | None = None,
) -> doc.Placement:
    """Place every pending pod.

    Args:
        stop: Event that ends the search with the best result so far. May be set from another thread or a signal handler.
        began: Start of the time limit on the monotonic clock. The search ends early enough for the check.

    Raises:
        InputError: Quantities cannot be summed.
        InternalFault: The independent checker found the result invalid.
    """
    started = time.monotonic()
    report = ProgressReporter(on_progress, started)
    began = started if began is None else began
    result, compiled, solved = _search(snapshot, options, report, stop or threading.Event(), began=began)
    report("verify")
    with set_aside():
        insist(verify(snapshot, result))
    result.seconds = phase_seconds(options, started, solved, compiled)
    if result.seconds is not None:
        result.search = report.trace.finish(result.objective, solved - started)
    return result


def _search(
    snapshot: Snapshot, options: Options, report: ProgressReporter, stop: threading.Event, *, began: float
) -> tuple[doc.Placement, float, float]:
    """Return the result to be checked, and the times when compiling and searching ended.

    The search takes far more memory than the snapshot and its result. That memory is freed before the checker starts."""
    started = time.monotonic()
    report("compile")
    scope = select(snapshot, from_scratch=options.from_scratch, include_gated=options.include_gated)
    refuse_domain_blocking(snapshot, scope, options.policy)
    with no_gc():
        cluster = compile_cluster(snapshot, scope, daemon_namespaces=options.exempt, policy=options.policy)
    unencoded = rules.unencoded() if options.strategy.searches else []
    options = replace(options, engine="greedy") if unencoded else options
    kinds = len(np.unique(cluster.node_classes()))
    report("compile", detail=f"{len(scope.pending)} pods in {cluster.n_classes} classes, {cluster.n_nodes} nodes in {kinds} classes")
    compiled = time.monotonic()
    clock = began - afterwards(started - began, compiled - started, options.time_limit)  # start of the search's time limit
    context = RunContext(options, Deadline(options, clock), stop, report)
    with set_aside():
        answer, eligibility = _answer(cluster, context, clock)
        if unencoded:
            answer = answer.noting(f"engine greedy, and no proof by search: no model states {', '.join(unencoded)}")
        if int(answer.counts.sum()) < len(scope.pending) and is_undecided(snapshot, scope.pending):
            unproved = tuple(note for note in answer.notes if not note.endswith(PROVED))
            answer = replace(answer, bounds=most_placed(cluster, eligibility), notes=unproved)
        solved = time.monotonic()
        answer, causes = _explained(cluster, answer, eligibility, compiled - started, context) if options.causes else (answer, [])
    with no_gc():
        result = document(cluster, options, answer)
    result.causes = causes
    return result, compiled, solved


def _answer(cluster: Cluster, context: RunContext, clock: float) -> tuple[PlacedAnswer, Ints]:
    """Return the best placement found and the eligibility int64[G, N]; ``clock``: start of the search's time limit."""
    options = context.options
    active = rules.build(cluster)
    eligibility = possible(cluster, active)
    strategy = choose(cluster, options.policy.strategy)  # rejects unreadable prices before the search
    objective = Objective(cluster, active)
    answer = PlacedSearch(objective, active, eligibility, context).run()
    if answer.counts.any():
        explains = options.causes and int(answer.counts.sum()) < len(cluster.scope.pending)
        kept = min(EXPLAIN_SECONDS, (options.time_limit or 0.0) * EXPLAIN_TIME_FRACTION) if explains else 0.0
        answer = improve_later(objective, eligibility, answer, strategy, context.until(Deadline(options, clock - kept)))
    return answer, eligibility


def _explained(
    cluster: Cluster, answer: PlacedAnswer, eligibility: Ints, compiling: float, context: RunContext
) -> tuple[PlacedAnswer, list[doc.Cause]]:
    """Explain unplaced pods, within the remaining time or slightly more. Return the causes, and the answer with lower bounds of
    tiers where pods are proved impossible alone."""
    if int(answer.counts.sum()) == len(cluster.scope.pending):
        return answer, []
    unplaced = left_of(cluster, [int(k) for k in answer.counts.sum(axis=1)])
    if not unplaced or context.stop.is_set():
        return answer, []
    options = context.options
    limit = options.time_limit or EXPLAIN_SECONDS
    spent = context.deadline.by_clock(context.deadline.elapsed(), otherwise=limit / 2)
    seconds = min(EXPLAIN_SECONDS, max(limit / 40, limit - spent))
    if seconds < MIN_EXPLAIN_TO_COMPILE_RATIO * compiling and not options.deterministic:
        return answer.noting("causes are left out: there was no time for them (--time-limit)"), []
    context.report("causes")
    next_pod = [0] * cluster.n_classes
    placed = []
    for g, n, k in answer.sequence:
        placed += [(i, cluster.nodes.names[n]) for i in cluster.classes[g].pods[next_pod[g] : next_pod[g] + k]]
        next_pod[g] += k
    moved = [(i, "") for i in cluster.scope.pending if cluster.snapshot.pods[i].spec.nodeName]
    incomplete = [k for k, gang in enumerate(cluster.gangs) if gang.needed > 1 and not answer.counts[list(gang.classes)].any()]
    for k in incomplete:
        running = sum(bool(cluster.snapshot.pods[i].spec.nodeName) for i in cluster.declared[k].pods)
        if running:
            answer = answer.noting(
                f"{running} pods of gang {cluster.gangs[k].name} run now; from scratch the gang is not whole, so none is placed"
            )
    before = bound_as(cluster.snapshot, moved) if moved else cluster.snapshot
    claims = None
    if cluster.devices is not None:
        before = replace(before, resource_claims=released(before, [cluster.snapshot.pods[i] for i, _ in moved]))
        claims = allocated(before, cluster.devices, _granted(cluster, answer))
    causes = explain_left(before, unplaced, placed, RunContext.start(replace(options, time_limit=seconds), context.stop), claims)
    if len(causes) < len(unplaced):
        answer = answer.noting(f"causes are given for {len(causes)} of {len(unplaced)} gangs and kinds of pods that are left")
    hopeless = sorted({g for entry, cause in causes if cause.alone and cause.proved for g in entry.classes})
    return answer.bounded(most_placed(cluster, eligibility, hopeless)), [cause for _, cause in causes]


def improve_later(
    objective: Objective, eligibility: Ints, answer: PlacedAnswer, strategy: Strategy | None, context: RunContext
) -> PlacedAnswer:
    """Return the answer with better preferences and tie-break, and the placed tiers held."""
    start = StartPlacement(answer.counts, answer.sequence, answer.encoding, answer.state)
    later = improve(objective, eligibility, start, strategy, context)
    return replace(
        answer.noting(*later.notes),
        counts=later.counts,
        sequence=later.sequence,
        engine=later.engine or answer.engine,
        interrupted=answer.interrupted or context.stop.is_set(),
        later=later,
        state=None,
    )


def document(cluster: Cluster, options: Options, answer: PlacedAnswer) -> doc.Placement:
    """Return the document of an answer without causes. The caller must have it checked."""
    snapshot = cluster.snapshot
    keys = [pod_key(snapshot.pods[i]) for i in range(len(snapshot.pods))]
    assignments, dealt = assignments_of(cluster, answer, keys)
    placed = answer.counts.sum(axis=1)
    tiers = []
    for priority in sorted(answer.bounds, reverse=True):
        value = int(placed[cluster.priority == priority].sum())
        tiers.append(doc.TierResult("placed", value, max(value, answer.bounds[priority]), priority))
    placed_proved = all(t.value == t.bound for t in tiers)
    if answer.later is not None:
        tiers += answer.later.tiers
    requested = options.search_strategy or options.policy.strategy != DEFAULT.strategy
    open_ = {DOMAINS} if requested else {DOMAINS, "strategy"}  # tiers that were not requested by name may stay unproved
    proved = all(t.value == t.bound for t in tiers if t.tier not in open_)
    status: doc.Status = "optimal" if proved else "feasible"
    if cluster.scope.pending and not assignments:
        unsure = answer.interrupted or is_undecided(snapshot, cluster.scope.pending)
        status = "infeasible" if placed_proved else "unknown" if unsure else "feasible"
    return doc.Placement(
        snapshot=doc.SnapshotRef(
            snapshot.sha256, len(snapshot.nodes), len(snapshot.pods), len(cluster.scope.pending),
            fromScratch=options.from_scratch, includeGated=options.include_gated, daemonNamespaces=list(options.exempt),
            kubernetesVersion=snapshot.gates.version, featureGates=dict(snapshot.gates.given),
            workloads=list(options.workloads), edits=options.edits,
        ),
        engine=answer.engine,
        status=status,
        objective=tiers,
        assignments=assignments,
        unplaced=_unplaced(cluster, answer, keys, dealt),
        gangs=[_gang(cluster, answer.counts, k) for k in range(len(cluster.gangs))],
        unmodelled=[
            *options.unmodelled,
            *unmodelled.find(snapshot, (snapshot.pods[i] for i in cluster.scope.pending), tiers=options.policy.networkTiers),
            *unread(cluster),
            *_zoneless(cluster, answer),
            *_held_zones(cluster),
        ],
        preferences=answer.later.preferences if answer.later is not None else None,
        policy=options.policy if options.policy != DEFAULT else None,
        notes=[
            *answer.notes,
            *gap_notes(tiers, open_, complete=int(placed.sum()) == len(cluster.scope.pending)),
            *_split_volumes(cluster, assignments),
            *idle_terms((snapshot.pods[i] for i in cluster.scope.pending), snapshot.nodes),
        ],
    )  # fmt: skip


def _split_volumes(cluster: Cluster, assignments: Sequence[doc.Assignment]) -> list[str]:
    """Return a sentence for each volume that only one node can mount at a time and whose pods are on several nodes."""
    snapshot = cluster.snapshot
    mounting = {pod_key(snapshot.pods[i]): i for cls in cluster.classes if cls.claims for i in cls.pods}
    placed = [(mounting[entry.pod], entry.node) for entry in assignments if entry.pod in mounting]
    if not placed or not snapshot.persistent_volumes:
        return []
    new = {i for i, _ in placed}
    return split_volumes(placed_in(snapshot, placed), [*cluster.scope.fixed, *new], new)


def assignments_of(cluster: Cluster, answer: PlacedAnswer, keys: Sequence[str]) -> tuple[list[doc.Assignment], list[int]]:
    """Return the assignments with order numbers (one number per unit), and the number of pods assigned per class."""
    snapshot = cluster.snapshot
    dealt = [0] * cluster.n_classes
    assignments: list[doc.Assignment] = []
    zones = {cell: list(pools) for cell, pools in answer.later.zones.pools.items()} if answer.later is not None else {}
    granted = _granted(cluster, answer)
    order = 0
    for unit, together in bundle(cluster, answer.sequence):
        order += together
        for g, n, k in unit:
            gang = cluster.classes[g].gang
            name = None if gang is None else cluster.gangs[gang].name
            for i in cluster.classes[g].pods[dealt[g] : dealt[g] + k]:
                order += not together
                entry = doc.Assignment(keys[i], cluster.nodes.names[n], order, name)
                if i in granted and cluster.devices is not None:
                    entry.devices = devices(cluster.devices, i, granted[i][1])
                if (g, n) in zones:
                    entry.containers = _containers(snapshot.pods[i], cluster.trees[n], zones[g, n].pop(0))
                assignments.append(entry)
            dealt[g] += k
    return assignments, dealt


def _granted(cluster: Cluster, answer: PlacedAnswer) -> dict[int, tuple[str, tuple[Pick, ...]]]:
    """Return the node and devices of each pod that gets devices, as the allocator assigns them in bind order."""
    found: dict[int, tuple[str, tuple[Pick, ...]]] = {}
    if cluster.devices is None:
        return found
    for rule in rules.having(cluster, lambda kind: kind.taken is not Rule.taken):
        dealt = [0] * cluster.n_classes
        for g, n, k in answer.sequence:
            for i in cluster.classes[g].pods[dealt[g] : dealt[g] + k] if rule.concerned(g) else ():
                rule.place(g, n)
                found[i] = cluster.nodes.names[n], rule.taken(g, n)[-1]
            dealt[g] += k
    return found


def _gang(cluster: Cluster, counts: Ints, k: int) -> doc.GangResult:
    gang, declared = cluster.gangs[k], cluster.declared[k]
    nodes = np.flatnonzero(counts[list(gang.classes)].sum(axis=0))
    domains: set[str | None] = set()
    if declared.key is not None and len(nodes):
        codes, values = cluster.nodes.column(declared.key)
        domains = {values[codes[n]] if codes[n] >= 0 else None for n in nodes}
    return doc.GangResult(
        gang.name,
        pending=len(declared.pods),
        placed=int(counts[list(gang.classes)].sum()),
        needed=gang.needed,
        bound=len(declared.bound),
        topologyKey=declared.key,
        domain=domains.pop() if len(domains) == 1 else None,
    )


def _containers(pod: Pod, tree: NumaTree, pools: Pools) -> list[doc.ContainerZones]:
    return [
        doc.ContainerZones(container.name or "", [tree.zones[z] for z in bits(pool)])
        for container, pool in zip(running(pod), pools, strict=True)
        if pool is not None
    ]


def _zoneless(cluster: Cluster, answer: PlacedAnswer) -> list[doc.Unmodelled]:
    """Return entries for containers with hints that are not in the model, because their pod has too many patterns."""
    zoneless = answer.later.zoneless if answer.later is not None else set()
    keys = [
        (pod_key(cluster.snapshot.pods[i]), running(cluster.snapshot.pods[i])[c].name)
        for g, c in sorted(zoneless)
        for i in cluster.classes[g].pods
    ]
    return [
        doc.Unmodelled(key, f"containers[{name}]", "its zones were chosen after those of the other containers, not together with them")
        for key, name in keys
    ]


def _held_zones(cluster: Cluster) -> list[doc.Unmodelled]:
    """Return entries for nodes whose published zones lack the part used by movable pods. The zones freed by moves are unknown."""
    movable = {cluster.snapshot.pods[i].spec.nodeName for i in cluster.scope.pending} - {None}
    names = [cluster.nodes.names[n] for n in sorted(cluster.trees) if cluster.nodes.names[n] in movable]
    return [
        doc.Unmodelled(
            f"Node/{name}", "NodeResourceTopology zones[].resources[].available", "zones of pods that are placed again count as taken"
        )
        for name in names
    ]


def _unplaced(cluster: Cluster, answer: PlacedAnswer, keys: Sequence[str], dealt: Sequence[int]) -> list[doc.Unplaced]:
    """Return the unplaced pods with every rule that rejects them in the final state and its number of nodes; gated pods last."""
    reasons: dict[int, list[doc.Reason]] = {}
    gang_of = {i: gang.name for gang in cluster.declared for i in gang.pods}
    if any(dealt[g] < cls.count for g, cls in enumerate(cluster.classes)):
        active = rules.replay(cluster, answer.sequence)
        for g, cls in enumerate(cluster.classes):
            unplaced = cls.pods[dealt[g] :]
            if unplaced:
                why = _reasons(active, g)
                why += [doc.Reason(r.name, cluster.n_nodes, text) for r in active if (text := r.incomplete(g, answer.counts)) is not None]
                reasons.update((i, why) for i in unplaced)
    found = [doc.Unplaced(keys[i], reasons[i], gang_of.get(i)) for i in cluster.scope.pending if i in reasons]
    for i in cluster.scope.gated:
        gates = ", ".join(gate.name for gate in cluster.snapshot.pods[i].spec.schedulingGates or ())
        found.append(doc.Unplaced(keys[i], [doc.Reason("SchedulingGates", cluster.n_nodes, f"waits for {gates}")]))
    return found


def _reasons(active: Sequence[Rule], g: int) -> list[doc.Reason]:
    reasons = []
    for rule in active:
        mask = rule.rejects(g) | rule.breaks(g)
        if mask.any():
            reasons.append(doc.Reason(rule.name, int(np.count_nonzero(mask)), rule.message(g, mask)))
    if not active[0].cluster.n_nodes:
        reasons.append(doc.Reason("NoNodes", 0, "the snapshot has no nodes"))
    return sorted(reasons, key=lambda r: (-r.nodes, r.rule))
