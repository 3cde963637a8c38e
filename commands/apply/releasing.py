"""Applying a placement of manifests: their pods wait behind scheduling gates for their nodes."""

from __future__ import annotations

import asyncio
import os
import platform
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from secrets import token_hex

from kubestow.commands.apply.carrying_out import followed, journal_of
from kubestow.commands.apply.remaining_steps import judge_rest
from kubestow.commands.apply.reviewed import Reviewed
from kubestow.commands.apply.signals import heard
from kubestow.commands.common.exit_codes import DONE, INCOMPLETE, INTERRUPTED, fail, say
from kubestow.live.api.answers import Unreachable
from kubestow.live.apply.journal import JournaledApi, JournalLost
from kubestow.live.apply.lease import Lease, LeaseLost
from kubestow.live.gates.gates import Gates, ReleaseListener, ReleaseOptions
from kubestow.live.gates.places import GatePlaces
from kubestow.live.gates.replica_groups import replica_groups, workload_of
from kubestow.live.gates.serve_lease import LeasedApi
from kubestow.live.gates.serve_lease import serve as lead
from kubestow.models.documents.placement import Placement


@dataclass(frozen=True)
class _Shown(ReleaseListener):
    """Prints events; with ``verbose``, also each pod."""

    quiet: bool
    verbose: bool

    def placed(self, pod: str, node: str | None) -> None:
        """Print the node of a released pod."""
        if self.verbose:
            say(f"  {pod}: let go" + (f" to {node}" if node is not None else ", to a node of the scheduler's choice"))

    def note(self, message: str) -> None:
        """Print a message."""
        if not self.quiet:
            say(message)


async def look(review: Reviewed) -> int:
    """Print which pods of the manifests wait behind the gate; change nothing."""
    async with followed(review.choices, review.streams) as (_, cluster):
        for template in review.templates:
            waiting_pods = sum(len(replicas.gated) for replicas in replica_groups(cluster, template))
            there = "" if workload_of(cluster, template) is not None else "; it is not in the cluster yet"
            say(f"{template.ref}: {template.placed} pods have a node in the placement, {waiting_pods} wait behind the gate{there}")
        if not review.streams.quiet:
            say("nothing was touched; --yes lets the pods go to their nodes")
    return DONE


async def release(review: Reviewed) -> int:
    """Release the pods of the manifests to their nodes and wait until they are bound."""
    choices, streams = review.choices, review.streams
    async with followed(choices, streams) as (api, cluster):
        async with journal_of(review, api, cluster) as journal, Lease(api, journal.run, tell=say) as lease:
            options = ReleaseOptions(timeout=choices.timeout, undo=choices.undo)
            shown = _Shown(streams.quiet, streams.verbose)
            asking = LeasedApi(JournaledApi(api, journal), lease)  # in this order, so that the journal has only requests that are sent
            places = GatePlaces(journal, asking.of, cluster, review.templates)
            gates = Gates(asking, cluster, _placement(review), review.templates, judge_rest, options, shown, places=places)
            await journal.fact("wave", wave=1)
            try:
                async with _ended_by_signals(gates):
                    outcome = await gates.run()
            except (LeaseLost, Unreachable) as error:
                await journal.fact("stopped", message=str(error))
                raise
            except JournalLost as error:
                fail([str(error)], INCOMPLETE)
            message = f"{len(outcome.placed)} pods were let go to their nodes"
            await journal.fact("end" if outcome.state == "done" else "stopped", message="; ".join([message, *outcome.deviations]))
        for text in outcome.deviations:
            say(f"kubestow: {text}")
        for ref in outcome.undone:
            say(f"kubestow: deleted: {ref}")
        if not streams.quiet:
            say(f"{outcome.state}: {message}; journal: {journal.path}")
        return {"done": DONE, "interrupted": INTERRUPTED}.get(outcome.state, INCOMPLETE)


async def serve(review: Reviewed) -> int:
    """Release pods of the manifests as they appear, until the program is ended."""
    async with followed(review.choices, review.streams) as (api, cluster):
        options = ReleaseOptions(timeout=review.choices.timeout)
        gates = Gates(api, cluster, _placement(review), review.templates, judge_rest, options, _Shown(review.streams.quiet, verbose=True))
        async with _ended_by_signals(gates):
            await lead(gates, f"{platform.node()}-{os.getpid()}-{token_hex(4)}")
    return INTERRUPTED


@asynccontextmanager
async def _ended_by_signals(gates: Gates) -> AsyncIterator[None]:
    """Handle ^C and SIGTERM: the first finishes the gang under way, the second ends at once."""
    task = asyncio.current_task()

    def hear() -> None:
        if gates.ending.is_set() and task is not None:
            task.cancel()
        gates.ending.set()

    try:
        with heard(hear):
            yield
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


def _placement(review: Reviewed) -> Placement:
    assert isinstance(review.document, Placement), "only placements have manifests"
    return review.document
