"""The entry point of ``size``: a snapshot and a catalogue in, a verified Sizing out."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Unpack

import numpy as np

from kubestow.checker.capacity.sizing import check_sizing
from kubestow.checker.violation import insist
from kubestow.models.buffers.chunks import buffer_of
from kubestow.models.buffers.demand import demands
from kubestow.models.catalogue.catalogue import Catalogue
from kubestow.models.catalogue.money import number
from kubestow.models.cluster import unmodelled
from kubestow.models.documents import placement as doc
from kubestow.models.documents.headroom import BufferRoom
from kubestow.models.documents.policy import DEFAULT
from kubestow.models.documents.sizing import Cost, Purchase, Sizing
from kubestow.models.documents.survival import Survival
from kubestow.models.edits.binding import bound_as
from kubestow.models.kube.objects import pod_key
from kubestow.models.snapshot.scope import select
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.solver.bind_order.dealing import deal
from kubestow.solver.capacity.size.brands import Menu, menu, unlimited
from kubestow.solver.capacity.size.cost_accounting import account, notes, replaced
from kubestow.solver.capacity.size.misfits import misfits
from kubestow.solver.capacity.size.options import SizeOptions
from kubestow.solver.capacity.size.purchase_cluster import PurchaseBase, purchase_base
from kubestow.solver.capacity.size.search import MAX_REFUTATION_NODES, SizeOutcome, SizeSearch, spent
from kubestow.solver.capacity.size.surviving import MAX_CERTIFICATES, certificate, check_label, combined
from kubestow.solver.capacity.size.trial import PurchaseTrial, Start, attempt
from kubestow.solver.explain.conflict.minimal_conflict import minimal_cause
from kubestow.solver.explain.conflict.order_conflict import order_cause
from kubestow.solver.explain.conflict.placement_question import PlacementQuestion
from kubestow.solver.explain.unplaced import left_of
from kubestow.solver.objective.tie_break import choose
from kubestow.solver.runtime.invocation import Caller, Invocation
from kubestow.solver.runtime.options import Options
from kubestow.solver.runtime.run_context import RunContext
from kubestow.solver.solve import document, improve_later

#: Reserve up to this multiple of the compile time for the steps after the search.
MAX_CHECK_TO_COMPILE_RATIO = 1.5
#: Fraction of the time limit for preferences in the placement that is shown.
PREFERENCE_TIME_FRACTION = 0.05
#: Number of (class, node) pairs above which preferences are not improved, because one pass would exceed that
#: time.
MAX_PREFERENCE_PAIRS = 1_000_000
#: Fraction of the time limit for surviving failures.
CERTIFICATION_TIME_FRACTION = 0.5
#: Fraction of the remaining time for a sizing without the chunks of CapacityBuffers.
WITHOUT_BUFFERS_TIME_FRACTION = 0.3
#: Maximum number of causes to look for if some pods fit on no node.
MAX_CAUSES = 8


def size(
    snapshot: Snapshot,
    catalogue: Catalogue,
    request: SizeOptions,
    options: Options,
    **caller: Unpack[Caller],
) -> Sizing:
    """Find the cheapest nodes that hold all pending pods.

    Args:
        snapshot: The cluster before manifests and the edits of ``options``.

    Raises:
        InputError: Quantities that cannot be summed, edits that cannot be made, or failures of domains that
            cannot exist.
        InternalFault: The independent checker found the result invalid.
    """
    run = Invocation(caller)
    report = run.report
    report("compile")
    if request.mode == "from-scratch":
        options = replace(options, from_scratch=True)
    cluster = purchase_base(snapshot, request, options.edits)
    if request.survive is not None:
        check_label(snapshot.nodes, catalogue, request.survive)
    offered = menu(cluster, catalogue, options, request.survive.key if request.survive is not None else None)
    pods, shapes = int(offered.count.sum()), len(offered.brands)
    report("compile", detail=f"{pods} pods in {offered.cluster.n_classes} classes, {len(catalogue.offers)} offers, {shapes} are distinct")
    checking = checking_seconds(run, options)
    context = run.context(options, checking)
    later = min(10.0, (options.time_limit or 100.0) * PREFERENCE_TIME_FRACTION)
    if request.survive is not None:
        later += (options.time_limit or 100.0) * CERTIFICATION_TIME_FRACTION
    searching = run.context(options, checking + later)
    without = _without_buffers(snapshot, catalogue, request, searching) if cluster.base.buffers else None
    search = SizeSearch(cluster, offered, catalogue, request, searching)
    outcome = SizeOutcome(infeasible=True) if offered.hopeless() else search.run()
    run.lap("solve")
    result = answer(search, outcome, context)
    result.withoutBuffers = without
    result.seconds = run.seconds(options)
    return result


def checking_seconds(run: Invocation, options: Options) -> float:
    """End the compile phase. Return the seconds of the time limit that are reserved for the steps after the search."""
    return min(MAX_CHECK_TO_COMPILE_RATIO * run.lap("compile"), (options.time_limit or 0.0) / 3)


def answer(search: SizeSearch, outcome: SizeOutcome, context: RunContext) -> Sizing:
    """Return the checked document of a result of a search, without seconds.

    Raises:
        InternalFault: The independent checker found it invalid.
    """
    cluster, offered, request, options, survival = search.purchase_base, search.menu, search.request, context.options, None
    placement = None if outcome.trial is None else _placement(cluster, outcome.trial, options, context)
    if outcome.trial is not None and placement is not None and request.survive is not None:
        placement, survival = _survive(search, outcome, placement, context)
    result = _sizing(search, options, outcome)
    result.placement, result.survival = placement, survival
    if placement is not None and outcome.trial is not None and cluster.base.buffers:
        result.buffers = _buffers(outcome.trial.expansion.snapshot, placement)
    result.unmodelled = _unmodelled(cluster, options) if placement is None else placement.unmodelled
    context.report("verify")
    if outcome.trial is not None:
        account(result, outcome.trial.expansion.snapshot)
        insist(check_sizing(cluster.snapshot, outcome.trial.expansion.snapshot, result).violations)
    elif hopeless := offered.hopeless():
        result.misfits = misfits(offered.cluster, offered.active, offered.shapes, hopeless)
        result.causes = _causes(offered, hopeless, context)
    elif outcome.refuted is not None:
        result.causes = _together(outcome.refuted, context)
    elif outcome.infeasible:
        result.causes, why = _much_bought(cluster, offered, context)
        result.notes.append(why)
    return result


def _without_buffers(snapshot: Snapshot, catalogue: Catalogue, request: SizeOptions, context: RunContext) -> Cost | None:
    """Return the cost of the cheapest nodes that need not hold the chunks of CapacityBuffers; None if none are found."""
    request, options = replace(request, buffers=False), context.options
    cluster = purchase_base(snapshot, request, options.edits)
    offered = menu(cluster, catalogue, options, request.survive.key if request.survive is not None else None)
    if offered.hopeless():
        return None
    with context.charged(WITHOUT_BUFFERS_TIME_FRACTION, 1.0) as limited:
        outcome = SizeSearch(cluster, offered, catalogue, request, limited).run()
    return None if outcome.trial is None else Cost(float(number(outcome.cost)), float(number(outcome.bound)))


def _buffers(snapshot: Snapshot, placement: doc.Placement) -> list[BufferRoom]:
    """Return the number of chunks of each buffer that a placement holds.

    Args:
        snapshot: The cluster with the chunks.
    """
    chunks = {pod_key(pod): buffer for pod in snapshot.pods if (buffer := buffer_of(pod)) is not None}
    fits = Counter(chunks[entry.pod] for entry in placement.assignments if entry.pod in chunks)
    return [BufferRoom(d.buffer, d.chunks, fits[d.buffer], d.chunks, d.problem) for d in demands(snapshot)]


def _survive(
    search: SizeSearch, outcome: SizeOutcome, placement: doc.Placement, context: RunContext
) -> tuple[doc.Placement | None, Survival | None]:
    """Add what failures need to the incumbent, in place; return the final placement and its certificate.

    Without a certificate there is no purchase.
    """
    why: str | None = "no certificate was found in time (--time-limit)"
    for _ in range(MAX_CERTIFICATES):
        assert outcome.trial is not None
        survival, more, why = certificate(outcome.trial, placement, search.catalogue, search.request, context)
        if survival is not None:
            return placement, survival
        if more is None or context.stop.is_set():
            break
        start = Start([[entry.pod] for entry in placement.assignments], [], placed_at(placement))
        trial = attempt(search.purchase_base, combined(outcome.trial.bought, more), context, start)
        if not trial.complete:
            why = "with more nodes not all pods fit, because a spread constraint counts the added nodes"
            break
        outcome.trial, outcome.cost, outcome.count = trial, spent(trial.bought), sum(count for _, count in trial.bought)
        outcome.least = 0
        placement = document(trial.cluster, _shown(search.purchase_base, trial, context.options), trial.answer)
    outcome.trial, outcome.cost, outcome.count, outcome.least = None, 0, 0, 0
    outcome.notes.append(f"--survive: {why}")
    return None, None


def placed_at(placement: doc.Placement) -> dict[str, dict[int, int]]:
    """Return the pods on each node, each as a class of its own."""
    counts: dict[str, dict[int, int]] = {}
    for i, entry in enumerate(placement.assignments):
        counts.setdefault(entry.node, {})[i] = 1
    return counts


def _sizing(search: SizeSearch, options: Options, outcome: SizeOutcome) -> Sizing:
    cluster, catalogue, request, trial = search.purchase_base, search.catalogue, search.request, outcome.trial
    snapshot = cluster.before.snapshot if trial is None else trial.expansion.snapshot
    edits = cluster.base if trial is None else cluster.edits(trial.bought)
    bought: dict[tuple[str, str], Purchase] = {}
    names = iter(() if trial is None else trial.names)
    for offer, count in () if trial is None else trial.bought:
        empty = Purchase(offer.shape.name, offer.zone, 0, float(number(offer.cost)), [])
        own = bought.setdefault((offer.shape.name, offer.zone), empty)
        own.count += count
        own.nodes += [next(names) for _ in range(count)]
    return Sizing(
        snapshot=reference(snapshot, options, cluster, edits),
        mode=request.mode,
        status="infeasible" if outcome.infeasible else "unknown" if trial is None else "optimal" if outcome.optimal else "feasible",
        buy=list(bought.values()),
        cost=Cost(float(number(outcome.cost)), float(number(0 if outcome.infeasible else outcome.bound))),
        nodes=doc.TierResult("nodes", outcome.count, outcome.least),
        pool=request.pool,
        removed=list(cluster.removed),
        kinds=request.kinds,
        mostSpot=catalogue.most_spot,
        replaced=replaced([n for n in cluster.snapshot.nodes if n.metadata.name in set(cluster.removed)], catalogue)
        if cluster.removed
        else None,
        policy=options.policy if options.policy != DEFAULT else None,
        notes=[*catalogue.notes, *outcome.notes, *notes(cluster.snapshot, cluster.removed, include_gated=options.include_gated)],
    )


def _unmodelled(cluster: PurchaseBase, options: Options) -> list[doc.Unmodelled]:
    """Return the unmodelled fields of pending pods, for a result without a placement."""
    snapshot = cluster.before.snapshot
    pending = select(snapshot, from_scratch=options.from_scratch, include_gated=options.include_gated).pending
    named = unmodelled.find(snapshot, (snapshot.pods[i] for i in pending), tiers=options.policy.networkTiers)
    return [*options.unmodelled, *cluster.before.unmodelled, *named]


def reference(snapshot: Snapshot, options: Options, cluster: PurchaseBase, edits: doc.Edits) -> doc.SnapshotRef:
    """Return the reference to the cluster that an answer is about."""
    pending = select(snapshot, from_scratch=options.from_scratch, include_gated=options.include_gated).pending
    return doc.SnapshotRef(
        snapshot.sha256, len(snapshot.nodes), len(snapshot.pods), len(pending),
        fromScratch=options.from_scratch, includeGated=options.include_gated, daemonNamespaces=list(options.exempt),
        kubernetesVersion=snapshot.gates.version, featureGates=dict(snapshot.gates.given),
        workloads=list(cluster.before.workloads), edits=edits,
    )  # fmt: skip


def _placement(cluster: PurchaseBase, trial: PurchaseTrial, options: Options, context: RunContext) -> doc.Placement:
    """Return the placement that proves a purchase, with improved preferences."""
    shown = _shown(cluster, trial, options)
    if trial.answer.counts.any() and not context.over() and int(np.count_nonzero(trial.eligibility)) <= MAX_PREFERENCE_PAIRS:
        seconds = min((options.time_limit or 100.0) * PREFERENCE_TIME_FRACTION, 10.0, max(0.1, context.deadline.remaining()))
        strategy = choose(trial.cluster, options.policy.strategy) if options.search_strategy else None
        within = RunContext.start(replace(shown, time_limit=seconds), context.stop, context.report)
        trial.answer = improve_later(trial.objective, trial.eligibility, trial.answer, strategy, within)
    return document(trial.cluster, shown, trial.answer)


def _shown(cluster: PurchaseBase, trial: PurchaseTrial, options: Options) -> Options:
    """Return the options for the placement of a trial."""
    return replace(
        options,
        edits=cluster.edits(trial.bought),
        workloads=tuple(trial.expansion.workloads),
        unmodelled=(*options.unmodelled, *trial.expansion.unmodelled),
    )


def _together(trial: PurchaseTrial, context: RunContext) -> list[doc.Cause]:
    """Return the causes why a trial leaves pods unplaced.

    There are no remedies, because they would count nodes that nobody has bought.
    """
    cluster, options = trial.cluster, context.options
    causes = list[doc.Cause]()
    before = bound_as(cluster.snapshot, [(i, "") for i in cluster.scope.pending if cluster.snapshot.pods[i].spec.nodeName])
    together = bound_as(before, list(deal(cluster, trial.answer.sequence)))
    for entry in left_of(cluster, trial.answer.counts.sum(axis=1).tolist())[:MAX_CAUSES]:
        for snapshot in (before, together) if entry.unaided else (together,):
            question = PlacementQuestion(snapshot, entry.ask, entry.needed, options.exempt, options.policy)
            cause = minimal_cause(question, context.part(5.0)) or order_cause(question, context.part(5.0))
            if cause is not None:
                cause.pods, cause.gang = [pod_key(cluster.snapshot.pods[i]) for i in entry.pods], entry.gang
                cause.alone, cause.together = snapshot is before, entry.needed
                causes.append(cause)
                break
    return causes


def _much_bought(cluster: PurchaseBase, offered: Menu, context: RunContext) -> tuple[list[doc.Cause], str]:
    """Return the causes why pods stay unplaced with many nodes of every offer, and a note that names that purchase."""
    each = max(1, min(int(offered.count.sum()), MAX_REFUTATION_NODES // max(1, len(offered.brands))))
    bought = [(unlimited(offer), count) for offer, count in offered.purchase([each] * len(offered.brands))]
    trial = attempt(cluster, bought, context.part(10.0))
    if trial.complete:
        return [], "every pod fits on some node, but the limits of the catalogue or the options (most, mostSpot, kinds) allow no purchase"
    what = f"with {each} node{'s' if each > 1 else ''} of each offer" if bought else "without a purchase, as no offer takes a pod"
    return _together(trial, context), f"every pod fits on some node, but not all together; the causes are those {what}"


def _causes(offered: Menu, hopeless: list[int], context: RunContext) -> list[doc.Cause]:
    """Return the causes why pods fit on no node, existing or offered."""
    causes, options = [], context.options
    snapshot = offered.cluster.snapshot
    for g in hopeless[:MAX_CAUSES]:
        pods = offered.cluster.classes[g].pods
        question = PlacementQuestion(snapshot, (pods[0],), 1, options.exempt, options.policy)
        cause = minimal_cause(question, context.part(5.0))
        if cause is not None:
            cause.pods, cause.alone = [pod_key(snapshot.pods[i]) for i in pods], True
            causes.append(cause)
    return causes
