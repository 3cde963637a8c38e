"""Applying a document to a cluster: the preview, the run, and the report of its outcome."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from functools import partial
from secrets import token_hex
from typing import Any

from kubestow.checker.final_state import ends
from kubestow.commands.apply import run_progress
from kubestow.commands.apply.apply_choices import ApplyChoices
from kubestow.commands.apply.remaining_steps import judge_rest
from kubestow.commands.apply.reviewed import Reviewed
from kubestow.commands.apply.signals import heard
from kubestow.commands.common.exit_codes import DONE, INCOMPLETE, INTERRUPTED, fail, say
from kubestow.commands.common.options import Streams
from kubestow.live.api import other_controllers
from kubestow.live.api.answers import Unauthorized, Unreachable
from kubestow.live.api.connect import connect
from kubestow.live.api.live_cluster import LiveCluster
from kubestow.live.apply import leftovers
from kubestow.live.apply.drift import DoneChanges, check, summed_up
from kubestow.live.apply.journal import Journal, RunOrigin, journal_path
from kubestow.live.apply.lease import Lease, LeaseLost, LeaseTaken, live_run
from kubestow.live.apply.run import Execution, RunOptions, RunOutcome
from kubestow.live.apply.waiting import slipping_notes
from kubestow.models.disruption import eviction_requests

#: Number of differences printed without -v.
_MAX_LISTED = 20


def run(work: Callable[[], Awaitable[int]]) -> int:
    """Run an operation on a cluster and return its exit code. Errors before its start end the command."""
    try:
        return asyncio.run(_awaited(work))
    except (LeaseTaken, LeaseLost) as error:
        fail([str(error)], INCOMPLETE)
    except Unauthorized as error:
        fail([str(error)], INCOMPLETE)
    except Unreachable as error:
        fail([f"the API server does not answer: {error}"], INCOMPLETE)


async def _awaited(work: Callable[[], Awaitable[int]]) -> int:
    return await work()


@asynccontextmanager
async def followed(choices: ApplyChoices, streams: Streams) -> AsyncIterator[tuple[Any, LiveCluster]]:
    """Connect to the cluster and watch its objects."""
    async with connect(choices.kubeconfig, choices.context) as api:
        cluster = LiveCluster(api)
        await cluster.start()
        try:
            for problem in cluster.problems:
                say(f"note: not read: {problem}")
            for text in cluster.notes if streams.verbose else ():
                say(text)
            yield api, cluster
        finally:
            await cluster.close()


async def look(review: Reviewed) -> int:
    """Print how the cluster differs from the snapshot and what would block the run; change nothing."""
    async with followed(review.choices, review.streams) as (api, cluster):
        await announce(api, cluster, review)
        other = await live_run(api)
        if other is not None:
            say(f"run {other.run} holds the lock of this cluster until {other.until:%H:%M:%S} UTC, and renews it while it runs")
        verdict = check(review.snapshot, await cluster.read_snapshot(), review.document, DoneChanges(), judge_rest)
        _tell([f"harmless: {text}" for text in summed_up(verdict.harmless)], review.streams)
        for fault in verdict.faults:
            say(f"in the way: {fault}")
        if not review.streams.quiet:
            way = "it would stop before its first step" if verdict.faults else "it can be carried out: --yes does so"
            say(f"nothing was touched; {way}")
        return INCOMPLETE if verdict.faults or other is not None else DONE


async def carry_out(review: Reviewed) -> int:
    """Apply the document."""
    async with followed(review.choices, review.streams) as (api, cluster):
        await announce(api, cluster, review)
        async with journal_of(review, api, cluster) as journal, Lease(api, journal.run, tell=say) as lease:
            return report(await execute(review, api, cluster, journal, lease), journal, review.streams)


def journal_of(review: Reviewed, api: Any, cluster: LiveCluster) -> Journal:
    """Open the journal next to the document."""
    namespace = cluster.named("Namespace", "kube-system")
    uid = str(namespace["metadata"].get("uid") or "") if namespace is not None else ""  # identifies the cluster
    origin = RunOrigin(review.digest, review.document.snapshot.sha256, api.server, uid)
    journal = Journal.open(journal_path(review.path), origin, resume=review.choices.resume)
    if journal.kept:
        say(f"note: the journal of an earlier, finished run is kept as {journal.kept}")
    return journal


async def execute(
    review: Reviewed, api: Any, cluster: LiveCluster, journal: Journal, lease: Lease, *, hold_drained: bool = False
) -> RunOutcome:
    """Run the document and show its progress. ``hold_drained``: keep drained nodes closed for a following run."""
    choices, streams = review.choices, review.streams
    options = RunOptions(
        timeout=choices.timeout, wave=choices.wave, pause_between=choices.pause_between is not None, hold_drained=hold_drained
    )  # fmt: skip
    with run_progress.choose(review.document, choices.pause_between, quiet=streams.quiet, verbose=streams.verbose) as shown:
        end = partial(ends, review.snapshot, review.document)
        execution = Execution(api, cluster, journal, review.document, review.snapshot, judge_rest, options, shown, lease, end)
        return await _interruptible(execution)


async def announce(api: Any, cluster: LiveCluster, review: Reviewed) -> None:
    """Print notes about the cluster before the run begins."""
    found = [*slipping_notes(review.snapshot), *leftovers.describe(leftovers.find(cluster.objects("Node").values()))]
    for text in [*map(str, await other_controllers.find(api, cluster)), *found]:
        say(f"note: {text}")
    _tell([f"note: {text}" for text in eviction_requests.notes(cluster.objects("EvictionRequest"))], review.streams)


def _tell(lines: list[str], streams: Streams) -> None:
    shown = lines if streams.verbose else lines[:_MAX_LISTED]
    for text in () if streams.quiet else shown:
        say(text)
    if len(shown) < len(lines) and not streams.quiet:
        say(f"and {len(lines) - len(shown)} more (-v shows all)")


async def _interruptible(execution: Execution) -> RunOutcome:
    """Run with handlers for ^C and SIGTERM: the first finishes steps under way, the second ends at once."""
    received: list[int] = []

    def hear() -> None:
        received.append(1)
        say("kubestow: finishing the steps under way (^C again to end at once)" if len(received) == 1 else "kubestow: ending at once")
        execution.interrupt()

    with heard(hear):
        return await execution.run()


def report(outcome: RunOutcome, journal: Journal, streams: Streams) -> int:
    """Print the outcome of a run and return the exit code.

    It is INTERRUPTED after an interruption. It is DONE if the run is done or paused, the cluster is as planned, and no node
    stayed closed. Otherwise it is INCOMPLETE.
    """
    for text in outcome.missed:
        say(f"kubestow: the cluster ended in another state than planned: {text}")
    _tell([f"changed by others: {text}" for text in outcome.foreign], streams)
    if outcome.not_opened:
        names = ", ".join(outcome.not_opened)
        say(f"kubestow: could not be opened again: {names} (try again with kubestow apply --open --yes)")
    if not streams.quiet or outcome.state not in ("done", "paused"):
        say(f"{outcome.state}: {outcome.message}; journal: {journal.path}")
    if outcome.state == "interrupted":
        return INTERRUPTED
    return DONE if outcome.state in ("done", "paused") and not (outcome.missed or outcome.not_opened) else INCOMPLETE


async def open_all(api: Any, cluster: LiveCluster) -> None:
    """Open the nodes that earlier runs kept closed for later ones."""
    await cluster.refresh()
    closed_nodes = leftovers.find(cluster.objects("Node").values())
    if closed_nodes:
        await _open(api, closed_nodes)


async def _open(api: Any, found: Collection[leftovers.Leftover]) -> int:
    """Open nodes, print the reasons for those that stay closed, and return their number."""
    async with Lease(api, f"open-{token_hex(4)}", tell=say) as lease:
        not_opened = await leftovers.open_leftovers(api, found, lease)
    for name, why in not_opened.items():
        say(f"kubestow: {name}: {why}")
    return len(not_opened)


async def open_nodes(choices: ApplyChoices, streams: Streams) -> int:
    """Open the nodes that finished runs left closed; without --yes, only list them."""
    async with followed(choices, streams) as (api, cluster):
        closed_nodes = leftovers.find(cluster.objects("Node").values())
        for text in leftovers.describe(closed_nodes):
            say(text)
        if not closed_nodes:
            say("no node is closed by a run of kubestow")
            return DONE
        if not choices.yes:
            say("nothing was touched; --yes opens them")
            return DONE
        not_opened_count = await _open(api, closed_nodes)
        if not streams.quiet:
            say(f"{len(closed_nodes) - not_opened_count} of {len(closed_nodes)} nodes opened")
        return INCOMPLETE if not_opened_count else DONE
