"""A document applied to a stand-in cluster over HTTP, as the command does it, and processes that are killed while they do."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kubestow.checker.final_state import Ends, ends
from kubestow.checker.journal.judge import judge_journal
from kubestow.commands.apply.remaining_steps import judge_rest
from kubestow.live.api.connect import connect
from kubestow.live.api.connection import ConnectionLimits
from kubestow.live.api.live_cluster import LiveCluster
from kubestow.live.apply.fence import Pauses
from kubestow.live.apply.journal import Journal, RunOrigin
from kubestow.live.apply.lease import Lease, Times
from kubestow.live.apply.run import Execution, RunOptions, RunOutcome
from kubestow.models.documents.journal import read
from kubestow.models.documents.placement import Placement
from kubestow.models.documents.rebalance_plan import RebalancePlan
from kubestow.models.snapshot.snapshot import Snapshot
from tests.api_server import Server

#: As long as a busy machine may take; nothing waits that long when all goes well.
PATIENT = RunOptions(timeout=60.0, pause=0.01)
_LEASE = Times(skew=0.0)

#: Futures that killed processes were waiting for.
_GRAVES: list[object] = []


@dataclass
class Applying:
    """``document`` of ``snapshot`` on the cluster of a kubeconfig; ``path``: the folder of the journal."""

    server: Server
    document: RebalancePlan | Placement
    snapshot: Snapshot
    path: Path
    options: RunOptions = field(default_factory=lambda: PATIENT)
    execution: Execution | None = None
    journal: Journal | None = None

    def __post_init__(self) -> None:
        self.kubeconfig = str(self.server.kubeconfig(self.path / "config"))

    async def go(self) -> RunOutcome:
        """Apply the remaining steps of the document."""
        journal = str(self.path / "plan.journal.jsonl")
        async with connect(self.kubeconfig, limits=ConnectionLimits(pause=0.002, silence=5)) as api:
            cluster = LiveCluster(api)
            try:
                await cluster.start()
                origin = RunOrigin("r", self.document.snapshot.sha256, self.server.url)
                self.journal = Journal.open(journal, origin, resume=True)
                async with self.journal as written, Lease(api, written.run, _LEASE) as lease:
                    self.execution = Execution(
                        api, cluster, written, self.document, self.snapshot, judge_rest, self.options, lease=lease, judge_end=self._end
                    )
                    self.execution.fence.pauses = Pauses(settle=0.01, patience=0.1, again=0.01)
                    return await self.execution.run()
            finally:
                await cluster.close()

    def __call__(self) -> RunOutcome:
        """Carry it out in a loop of its own; its journal is held against the document."""
        outcome = asyncio.run(asyncio.wait_for(self.go(), 120))
        found = judge_journal(read(str(self.path / "plan.journal.jsonl")), self.document, self.snapshot, digest="r")
        assert found.violations == []
        assert found.summary is not None
        assert len(found.summary.left) == len(outcome.remaining_steps)
        return outcome

    def _end(self, now: Snapshot, stands: Mapping[str, str]) -> Ends:
        return ends(self.snapshot, self.document, now, stands)

    def killed(self, arm: Callable[[Callable[[], None]], None]) -> RunOutcome | None:
        """Carry it out in a process that may be killed: None if it was. ``arm`` gets what kills it, from any thread."""
        loop = asyncio.new_event_loop()

        def kill() -> None:
            loop.call_soon_threadsafe(loop.stop)

        arm(kill)
        task = loop.create_task(self.go())
        task.add_done_callback(lambda _: loop.stop())
        loop.run_forever()
        if task.done():
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()
            return task.result()
        left = asyncio.all_tasks(loop)
        for each in left:
            each._log_destroy_pending = False  # type: ignore[attr-defined]
        _GRAVES.extend([loop, *left])
        _close_sockets(loop)
        if self.journal is not None:
            self.journal._thread.shutdown()  # the lock lasts as long as something is being written
            os.close(self.journal._file)
            self.journal._file = -1
        self.journal = self.execution = None
        return None


def _close_sockets(loop: asyncio.AbstractEventLoop) -> None:
    """Close the connections of a loop that nobody runs any longer, as the end of its process would."""
    for key in list(loop._selector.get_map().values()):  # type: ignore[attr-defined]
        for handle in key.data:
            transport = getattr(getattr(handle, "_callback", None), "__self__", None)
            connection = getattr(transport, "_sock", None)
            if connection is not None:
                loop._selector.unregister(key.fileobj)  # type: ignore[attr-defined]
                connection.close()
                break
