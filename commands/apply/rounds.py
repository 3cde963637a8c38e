"""Rounds of ``apply --until-done``: apply, plan again if the cluster has changed, and continue."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from dataclasses import replace
from hashlib import sha256
from typing import Any, Final

import msgspec

from kubestow.commands.apply import carrying_out, round_files
from kubestow.commands.apply.reviewed import Reviewed
from kubestow.commands.apply.unfinished_pods import UnfinishedPods, used_up
from kubestow.commands.common.exit_codes import DONE, INCOMPLETE, say
from kubestow.commands.core.reading import set_gates_of
from kubestow.live.api.live_cluster import LiveCluster
from kubestow.live.apply.lease import Lease
from kubestow.live.apply.run import RunOutcome
from kubestow.models.documents.placement import Placement
from kubestow.models.documents.policy import DEFAULT
from kubestow.models.documents.rebalance_plan import Limits, RebalancePlan
from kubestow.models.execution.execution_grace import NO_HISTORY, History, time_of
from kubestow.models.kube.lenient_decode import some
from kubestow.models.snapshot.snapshot import InputError, Snapshot, from_json
from kubestow.report.documents import results
from kubestow.report.documents.output import write_file
from kubestow.solver.rebalance.problem.options import PlanOptions
from kubestow.solver.rebalance.rebalance import rebalance
from kubestow.solver.runtime.options import Options
from kubestow.solver.solve import place

#: Annotation of a pod that must not be moved.
_NO_MOVE_ANNOTATION: Final = "karpenter.sh/do-not-disrupt"
#: Number of obstacles printed.
_MAX_LISTED: Final = 10
#: Pause in seconds before planning again if budgets allow nothing; doubled each time up to the maximum.
_MIN_PAUSE_SECONDS: Final = 2.0
_MAX_PAUSE_SECONDS: Final = 30.0


async def until_done(review: Reviewed) -> int:
    """Apply the document. If the run stops, plan again for the current cluster and continue, up to the given number of rounds.

    Each plan waits until unfinished pods have arrived. If used-up budgets keep a plan from reaching anything, it is searched again after a
    pause and does not count as a round. Nodes to drain stay closed between rounds.
    """
    choices, streams = review.choices, review.streams
    round_files.check(review.path, choices.rounds)
    async with carrying_out.followed(choices, streams) as (api, cluster):
        await carrying_out.announce(api, cluster, review)
        moved: set[str] = set()
        number = 1
        try:
            while True:
                async with carrying_out.journal_of(review, api, cluster) as journal, Lease(api, journal.run, tell=say) as lease:
                    hold = number < choices.rounds
                    outcome = await carrying_out.execute(review, api, cluster, journal, lease, hold_drained=hold)
                    code = carrying_out.report(outcome, journal, streams)
                    moved |= {each.uid for each in journal.progress.steps.values() if each.uid is not None and each.gone}
                reached = bool(outcome.done) or number == 1  # later rounds that reach nothing have waited for budgets already
                again = outcome.state == "stopped" or (outcome.state == "done" and reached and bool(_used_up(review.snapshot, review)))
                if not again or not hold:
                    return code if code != DONE else _told(review.document)
                number += 1
                review = await _next(review, cluster, outcome, number, () if choices.evict_again else moved)
                if not _is_work(review.document):
                    say(f"round {number}: nothing remains to be done")
                    return _told(review.document)
        finally:
            await carrying_out.open_all(api, cluster)


def _told(document: Placement | RebalancePlan) -> int:
    """Print the goals that are not reached and return the exit code."""
    if isinstance(document, Placement):
        unfinished = [f"{each.pod} has no place" for each in document.unplaced if not each.gated]
    else:
        unfinished = [obstacle.message for obstacle in document.obstacles]
    for text in unfinished[:_MAX_LISTED]:
        say(f"not reached: {text}")
    if len(unfinished) > _MAX_LISTED:
        say(f"and {len(unfinished) - _MAX_LISTED} more like this")
    return INCOMPLETE if unfinished else DONE


def _is_work(document: Placement | RebalancePlan) -> bool:
    """Return True if the document has work: moves, or nodes to drain, which are at least cordoned."""
    return _moves_pods(document) or (isinstance(document, RebalancePlan) and bool(document.drain))


def _moves_pods(document: Placement | RebalancePlan) -> bool:
    """Return True if a run of the document binds, moves or evicts a pod."""
    return bool(document.assignments if isinstance(document, Placement) else document.moves or document.evictions)


async def _next(review: Reviewed, cluster: LiveCluster, outcome: RunOutcome, number: int, stays: Collection[str]) -> Reviewed:
    """Plan the next round and keep its document and snapshot next to the first one."""
    files = round_files.of(review.path, number)
    round_files.make_room(files)
    way, deadline, pause = UnfinishedPods(cluster, review.snapshot), time.monotonic() + review.choices.timeout, _MIN_PAUSE_SECONDS
    while True:
        await way.arrived(max(0.0, deadline - time.monotonic()), lambda text: say(f"round {number}: {text}"))
        text, document, now = await _plan(review, cluster, outcome, files, stays)
        next_review = replace(review, document=document, path=files.document, snapshot=now)
        closed = [] if _moves_pods(document) else _used_up(now, next_review, review.snapshot)
        remaining_seconds = deadline - time.monotonic()
        if not closed or remaining_seconds <= 0:
            break
        pause = min(pause, remaining_seconds)
        say(f"round {number}: no eviction is allowed by PodDisruptionBudget {some(closed)}; next attempt in {pause:.0f} s")
        await asyncio.sleep(pause)
        pause = min(2 * pause, _MAX_PAUSE_SECONDS)
    encoded = results.encode(results.result_document(document), "json")
    write_file(files.snapshot, [text])
    write_file(files.document, [encoded])
    say(f"round {number}: {files.document}, of the snapshot {files.snapshot}")
    return replace(next_review, digest=sha256(encoded).hexdigest())


async def _plan(
    review: Reviewed, cluster: LiveCluster, outcome: RunOutcome, files: round_files.RoundFiles, stays: Collection[str]
) -> tuple[bytes, Placement | RebalancePlan, Snapshot]:
    """Return the text of the current snapshot, a plan for it, and the snapshot as read."""
    await cluster.refresh()
    now = await cluster.read_snapshot()
    text = _held(cluster.document(), stays)
    snapshot = from_json(text, files.snapshot)
    set_gates_of(snapshot, review.document.snapshot)
    say(f"round {files.number}: planning again for the current cluster")
    return text, await asyncio.to_thread(_search, snapshot, review, outcome), now


def _used_up(now: Snapshot, review: Reviewed, before: Snapshot | None = None) -> list[str]:
    """Return the budgets that are used up for now and may keep the plan from reaching more."""
    document = review.document
    return used_up(now, document, before if before is not None else Snapshot()) if isinstance(document, RebalancePlan) else []


def _held(text: bytes, stays: Collection[str]) -> bytes:
    """Return the snapshot with an annotation that keeps these pods (by uid) where they are."""
    document: dict[str, Any] = msgspec.json.decode(text)
    for item in document["items"]:
        if item["kind"] == "Pod" and item["metadata"].get("uid") in stays:
            item["metadata"].setdefault("annotations", {})[_NO_MOVE_ANNOTATION] = "true"
    return msgspec.json.encode(document)


def _search(snapshot: Snapshot, review: Reviewed, outcome: RunOutcome) -> Placement | RebalancePlan:
    """Return a document with the goals, limits and policy of the previous one. Steps already done count towards the limits."""
    before = review.document
    ref = before.snapshot
    options = Options(
        include_gated=ref.includeGated, daemon_namespaces=tuple(ref.daemonNamespaces), policy=before.policy or DEFAULT
    )  # fmt: skip
    if isinstance(before, Placement):
        return place(snapshot, options)
    goals = tuple(goal for goal in before.goals if goal != "drain")
    nodes = {node.metadata.name for node in snapshot.nodes}
    drain = tuple(name for name in before.drain if name in nodes)
    return rebalance(snapshot, PlanOptions(goals, drain, _left(before.limits, outcome), options, _history(snapshot, review)))


def _history(snapshot: Snapshot, review: Reviewed) -> History:
    """Return the history for grace periods: the previous round's snapshot, if it has a capture time."""
    grace = review.document.executionGrace if isinstance(review.document, RebalancePlan) else None
    if grace is None:
        return NO_HISTORY
    try:
        known = time_of(review.snapshot) <= time_of(snapshot)
    except InputError:
        known = False
    return History(grace.seconds, (review.snapshot,) if known else ())


def _left(limits: Limits, outcome: RunOutcome) -> Limits:
    moves = sum(step.kind in ("move", "recreate") for step in outcome.done)
    evictions = sum(step.kind == "evict" for step in outcome.done)
    waves = len({step.wave for step in outcome.done})
    return msgspec.structs.replace(
        limits,
        maxMoves=None if limits.maxMoves is None else max(0, limits.maxMoves - moves),
        maxWaves=None if limits.maxWaves is None else max(0, limits.maxWaves - waves),
        maxEvictions=None if limits.maxEvictions is None else max(0, limits.maxEvictions - evictions),
    )
