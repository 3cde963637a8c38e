"""Carrying out, planning anew where the cluster has changed, and going on (``apply --until-done``)."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import replace
from hashlib import sha256
from typing import Any, Final

import msgspec

from commands.applying import carrying_out
from commands.applying.reviewed import Reviewed
from commands.common.exit_codes import DONE, INCOMPLETE, say
from commands.core.reading import set_gates_of
from live.api.live_cluster import LiveCluster
from live.apply.lease import Lease
from live.apply.run import Outcome
from models.documents.placement import Placement
from models.documents.policy import DEFAULT
from models.documents.rebalance_plan import Limits, RebalancePlan
from models.execution.execution_grace import NO_HISTORY, History, time_of
from models.snapshot.snapshot import InputError, Snapshot, from_json
from report.documents import results
from report.documents.output import write_file
from solver.rebalance.problem.options import PlanOptions
from solver.rebalance.rebalance import rebalance
from solver.runtime.options import Options
from solver.solve import place

#: Says of a pod that it is not to be moved.
_STAYS: Final = "karpenter.sh/do-not-disrupt"
#: Obstacles that are named.
_LISTED: Final = 10


async def until_done(asked: Reviewed) -> int:
    """Carry the document out; where that stops, plan anew for the cluster as it is then, and go on, as often as was asked for. Nodes to be
    drained stay closed from one round to the next."""
    choices, streams = asked.choices, asked.streams
    async with carrying_out.followed(choices, streams) as (api, cluster):
        await carrying_out.announce(api, cluster, asked)
        moved: set[str] = set()
        number = 1
        try:
            while True:
                async with carrying_out.journal_of(asked, api, cluster) as journal, Lease(api, journal.run, tell=say) as lease:
                    hold = number < choices.rounds
                    outcome = await carrying_out.execute(asked, api, cluster, journal, lease, hold_drained=hold)
                    code = carrying_out.report(outcome, journal, streams)
                    moved |= {each.uid for each in journal.progress.steps.values() if each.uid is not None and each.gone}
                if outcome.state != "stopped" or not hold:
                    return code if code != DONE else _told(asked.document)
                number += 1
                asked = await _next(asked, cluster, outcome, number, () if choices.evict_again else moved)
                if not _is_work(asked.document):
                    say(f"round {number}: there is nothing more to be done")
                    return _told(asked.document)
        finally:
            await carrying_out.open_all(api, cluster)


def _told(document: Placement | RebalancePlan) -> int:
    """Say what of the goals is not reached, and return the exit code."""
    if isinstance(document, Placement):
        left = [f"{each.pod} has no place" for each in document.unplaced if not each.gated]
    else:
        left = [obstacle.message for obstacle in document.obstacles]
    for text in left[:_LISTED]:
        say(f"not reached: {text}")
    if len(left) > _LISTED:
        say(f"and {len(left) - _LISTED} more like this")
    return INCOMPLETE if left else DONE


def _is_work(document: Placement | RebalancePlan) -> bool:
    """Return whether a run has something to do: nodes to be drained are at least cordoned."""
    return bool(document.assignments if isinstance(document, Placement) else document.moves or document.evictions or document.drain)


async def _next(asked: Reviewed, cluster: LiveCluster, outcome: Outcome, number: int, stays: Collection[str]) -> Reviewed:
    """Return the document of the next round, kept with its snapshot beside the first one."""
    await cluster.refresh()
    now = await cluster.read_snapshot()
    text = _held(cluster.document(), stays)
    stem = asked.path.removesuffix(f".round-{number - 1}.json")
    snapshot = from_json(text, f"{stem}.round-{number}.snapshot.json")
    set_gates_of(snapshot, asked.document.snapshot)
    say(f"round {number}: planning anew for the cluster as it is now")
    document = await asyncio.to_thread(_search, snapshot, asked, outcome)
    encoded = results.encode(results.result_document(document), "json")
    path = f"{stem}.round-{number}.json"
    write_file(f"{stem}.round-{number}.snapshot.json", [text])
    write_file(path, [encoded])
    say(f"round {number}: {path}, of the snapshot {stem}.round-{number}.snapshot.json")
    return replace(asked, document=document, path=path, digest=sha256(encoded).hexdigest(), snapshot=now)


def _held(text: bytes, stays: Collection[str]) -> bytes:
    """Return a snapshot in which these pods, by uid, are not to be moved."""
    document: dict[str, Any] = msgspec.json.decode(text)
    for item in document["items"]:
        if item["kind"] == "Pod" and item["metadata"].get("uid") in stays:
            item["metadata"].setdefault("annotations", {})[_STAYS] = "true"
    return msgspec.json.encode(document)


def _search(snapshot: Snapshot, asked: Reviewed, outcome: Outcome) -> Placement | RebalancePlan:
    """Return a document for the goals, limits and policy of the one before; what that did counts towards its limits. Its snapshot is an
    earlier one of the cluster."""
    before = asked.document
    ref = before.snapshot
    options = Options(
        include_gated=ref.includeGated, daemon_namespaces=tuple(ref.daemonNamespaces), policy=before.policy or DEFAULT
    )  # fmt: skip
    if isinstance(before, Placement):
        return place(snapshot, options)
    goals = tuple(goal for goal in before.goals if goal != "drain")
    nodes = {node.metadata.name for node in snapshot.nodes}
    drain = tuple(name for name in before.drain if name in nodes)
    return rebalance(snapshot, PlanOptions(goals, drain, _left(before.limits, outcome), options, _history(snapshot, asked)))


def _history(snapshot: Snapshot, asked: Reviewed) -> History:
    """Return what is known of the time before a round, if its plan forgives rules: the snapshot of the round before, if that has a time."""
    grace = asked.document.executionGrace if isinstance(asked.document, RebalancePlan) else None
    if grace is None:
        return NO_HISTORY
    try:
        known = time_of(asked.snapshot) <= time_of(snapshot)
    except InputError:
        known = False
    return History(grace.seconds, (asked.snapshot,) if known else ())


def _left(limits: Limits, outcome: Outcome) -> Limits:
    moves = sum(step.kind in ("move", "recreate") for step in outcome.done)
    evictions = sum(step.kind == "evict" for step in outcome.done)
    waves = len({step.wave for step in outcome.done})
    return msgspec.structs.replace(
        limits,
        maxMoves=None if limits.maxMoves is None else max(0, limits.maxMoves - moves),
        maxWaves=None if limits.maxWaves is None else max(0, limits.maxWaves - waves),
        maxEvictions=None if limits.maxEvictions is None else max(0, limits.maxEvictions - evictions),
    )
