"""The closed nodes of a run. While pods move, all nodes are closed, so that unplanned pods cannot take the capacity that a run frees."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Protocol, TypeVar

from kubestow.live.api.answers import Api, Object, Unauthorized
from kubestow.live.apply.journal import JournaledApi, JournalLost
from kubestow.live.apply.node_changes import (
    Change,
    FenceError,
    Nodes,
    annotation,
    closing,
    is_closed,
    is_open_for,
    letting_in,
    open_nodes,
    opening,
    tolerate,
    whole,
    without,
)
from kubestow.live.apply.node_usage import NodeUsage, emptiest_first, has_freed, offer, usage_of
from kubestow.live.apply.pod_locations import key_of
from kubestow.live.apply.waiting import Verdict, looked_at, verdict, waits
from kubestow.models.documents.journal import What
from kubestow.models.kube.closed_nodes import LET_IN, ClosedBy
from kubestow.models.snapshot.snapshot import InputError, Snapshot

T = TypeVar("T")

#: The run ends if somebody else opens a node more often than this.
_MAX_REOPENINGS: Final = 3
_MAX_ATTEMPTS: Final = 4


class FenceReader(Protocol):
    """Read access of the fence, implemented by :class:`kubestow.live.api.live_cluster.LiveCluster`."""

    def objects(self, kind: str) -> Mapping[str, Object]: ...
    def pod(self, uid: str) -> Object | None: ...
    async def until(self, found: Callable[[], T | None], seconds: float) -> T | None: ...
    def snapshot(self) -> Snapshot: ...


class FenceFactWriter(Protocol):
    """Write access of the fence, implemented by :class:`kubestow.live.apply.journal.Journal`."""

    async def fact(self, what: What, **fields: Any) -> None: ...


@dataclass(frozen=True)
class FenceTerms:
    """The parts of a plan that decide which nodes may be open between its waves.

    Attributes:
        keep: Nodes that the plan frees or drains; they stay closed until the run ends.
        sources: Nodes that pods leave; they stay closed while they have more free capacity than in ``before``.
        planned: Uids of the pods that the plan moves or binds; all others are foreign.
        before: Snapshot of the plan.
        targets: Nodes that pods move to; they are closed first and opened last.
    """

    keep: Collection[str] = frozenset()
    sources: Collection[str] = frozenset()
    planned: Collection[str] = frozenset()
    before: Snapshot | None = None
    targets: Collection[str] = frozenset()


@dataclass(frozen=True)
class Pauses:
    """Pauses in seconds.

    Attributes:
        settle: Pause after nodes were closed, for a scheduler that does not know it yet. Without it, pods created right after the last
            answer sometimes go to closed nodes; 0.05 was enough for a real scheduler.
        patience: Time that nodes are open between waves for newly pending pods: the longest backoff of the scheduler plus a margin.
        again: Pause between attempts.
    """

    settle: float = 0.5
    patience: float = 12.0
    again: float = 0.5


class Fence:
    """The closed nodes of one run."""

    def __init__(self, api: Api, cluster: FenceReader, run_id: str, journal: FenceFactWriter, terms: FenceTerms | None = None) -> None:
        """Prepare the fence without closing nodes."""
        self.pauses = Pauses()
        #: Notes for the user, one sentence each.
        self.notes: list[str] = []
        self._api = api
        self._cluster = cluster
        self._run = run_id
        self._journal = journal
        self._terms = terms or FenceTerms()
        self._nodes = Nodes(api, lambda: cluster.objects("Node"))
        self._by = ClosedBy(run_id, datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"))
        self._guard: asyncio.Task[None] | None = None
        self._entering = asyncio.Lock()
        self._let_in: dict[str, str] = {}
        self._ours: set[str] = set()
        self._reopened: Counter[str] = Counter()
        self._fault = ""
        #: Pods that fitted nowhere while all permitted nodes were open; None before the first node is closed.
        self._tried: set[str] | None = None
        #: At the last check: the nodes of foreign pods, and the offers of nodes that could be opened.
        self._last: tuple[dict[str, str], frozenset[str]] = ({}, frozenset())

    def inherit(self, names: Iterable[str]) -> None:
        """Take over nodes that an earlier part of the run may have left closed, so that they are opened in the end."""
        self._ours.update(names)

    # --- closing ----------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Close every open node at once, and nodes that appear later.

        Nodes that were cordoned before stay as they are. Nodes closed by a dead run are taken over.

        Raises:
            FenceError: a node cannot be closed, or somebody else opens one repeatedly. Closed nodes stay closed until :meth:`open`.
        """
        await self._stop_guard()
        self.check()
        self._remember(self.waiting())
        if await self._close(self._astray()):
            await asyncio.sleep(self.pauses.settle)
        self._guard = asyncio.create_task(self._watch())

    def check(self) -> None:
        """Check that the fence holds, before each request that depends on it.

        Raises:
            FenceError: a new or reopened node could not be closed.
        """
        if self._fault:
            raise FenceError(self._fault)

    async def _close(self, names: Iterable[str]) -> list[str]:
        seen = self._nodes.all()
        names = [name for name in names if name in seen]
        for name in names:
            by = annotation(seen[name])
            if by is not None and by.run != self._run and is_closed(seen[name]):
                self.notes.append(f"node {name}, which run {by.run} left closed, is taken over and opened in the end")
        self._ours.update(names)
        refused: dict[str, str] = {}
        # Targets first. Otherwise the scheduler would turn to them while the others are already closed.
        for some in self._stages(names)[::-1]:
            refused |= await self._nodes.change_all({name: self._wanted(name) for name in some})
        now = self._nodes.all()
        closed = [name for name in names if name in now and self._is_ours(now[name])]
        if closed:
            await self._journal.fact("closed", nodes=closed)
        if refused:
            raise self._failed("closed", refused)
        return closed

    def _failed(self, done: str, refused: Mapping[str, str]) -> Exception:
        """Return the error for nodes that could not be changed: refused credentials if they are the reason."""
        if self._nodes.denied is not None:
            return self._nodes.denied
        name, why = next(iter(sorted(refused.items())))
        others = f" (and {len(refused) - 1} more nodes)" if len(refused) > 1 else ""
        return FenceError(f"node {name} cannot be {done}: {why}{others}")

    def _wanted(self, name: str) -> Change:
        uid = self._let_in.get(name)
        return closing(self._by) if uid is None else letting_in(self._run, uid)

    def _astray(self) -> list[str]:
        """Return the nodes that are in the wrong state during a wave."""
        found = []
        for name, node in self._nodes.all().items():
            try:
                if self._wanted(name)(node) is not None:
                    found.append(name)
            except FenceError:  # reported by let_in
                continue
        return found

    def _is_ours(self, node: Object) -> bool:
        by = annotation(node)
        return by is not None and by.run == self._run

    def _is_opened(self, node: Object) -> bool:
        """Return True if somebody else has opened a node of this run."""
        return self._is_ours(node) and not is_closed(node) and without(node, (LET_IN,)) is None

    async def _watch(self) -> None:
        """Close nodes that appear or are opened by others during a wave."""
        while not self._fault:
            astray = await self._cluster.until(lambda: self._astray() or None, 60)
            if not astray:
                continue
            nodes = self._nodes.all()
            self._reopened.update(name for name in astray if name in nodes and self._is_opened(nodes[name]))
            often = next((name for name in astray if self._reopened[name] > _MAX_REOPENINGS), None)
            if often is not None:
                self._fault = f"node {often} is repeatedly opened by somebody else"
                return
            try:
                await self._close(astray)
            except (FenceError, Unauthorized) as error:
                self._fault = str(error)

    async def _stop_guard(self) -> None:
        guard, self._guard = self._guard, None
        if guard is not None:
            while not guard.done():
                guard.cancel()
                await asyncio.wait([guard], timeout=1)
            if not guard.cancelled() and guard.exception() is not None:
                self._fault = str(guard.exception())

    # --- opening ----------------------------------------------------------------------------------------------------

    async def between_waves(self) -> None:
        """Open the permitted nodes between two waves if foreign pods are pending, and give the scheduler time to place them.

        Nodes that the plan frees or drains stay closed, and so do nodes that have gained free capacity because pods left them. Targets of
        moves are opened last, and only if pods are still pending then. A pod that the scheduler has already rejected on all open nodes is
        no reason to open them again, unless a foreign pod has left one since, or nodes have changed.
        """
        self.check()
        waiting, tried = self.waiting(), self._tried or set()
        may_open = self._may_open(self._nodes.all())
        if not may_open:
            return
        again = self._changed(may_open)
        if not waiting or not (again or waiting.keys() - tried):
            return
        await self._stop_guard()
        for stage in self._stages(await self._in_order(may_open, waiting)):
            if waiting:
                await self._open_for(waiting, stage)
                waiting = {uid: pod for uid, pod in self.waiting().items() if uid in waiting}
        self._tried = tried | waiting.keys()

    def _remember(self, waiting: Mapping[str, Object]) -> None:
        """Remember the pods that the scheduler rejected while all nodes were open, before the first node is closed.

        If an earlier or dead run has left nodes closed, nothing is remembered, because the scheduler may have seen closed nodes.
        """
        if self._tried is not None:
            return
        nodes = self._nodes.all()
        self._tried = set()
        if not any(annotation(node) is not None for node in nodes.values()):
            closed = sum(map(is_closed, nodes.values()))
            self._tried.update(uid for uid, pod in waiting.items() if looked_at(pod, (), closed))
            self._changed([name for name, node in nodes.items() if not is_closed(node) and name not in self._terms.keep])

    async def _in_order(self, names: Collection[str], waiting: Mapping[str, Object]) -> list[str]:
        """Return nodes in the order in which to open them. If pods are pending, read all nodes in advance and start with the emptiest.

        The scheduler places the first pods before it knows that all nodes are open.
        """
        if not waiting:
            return sorted(names)
        await self._nodes.read_ahead(names)
        with contextlib.suppress(InputError):
            return emptiest_first(names, self._cluster.snapshot())
        return sorted(names)

    def _stages(self, names: Iterable[str]) -> list[list[str]]:
        """Split nodes into those that are no targets of moves, and targets. Empty groups are left out."""
        stages: tuple[list[str], list[str]] = [], []
        for name in names:
            stages[name in self._terms.targets].append(name)
        return [stage for stage in stages if stage]

    async def _open_for(self, waiting: Mapping[str, Object], names: Sequence[str]) -> None:
        """Open nodes and wait until the scheduler has placed or rejected each of these pods."""
        before = {uid: verdict(pod) for uid, pod in waiting.items()}
        refused = await self._nodes.change_all({name: opening(self._same_run) for name in names})
        pods = "a pod that waits" if len(waiting) == 1 else f"{len(waiting)} pods that wait"
        await self._journal.fact("opened", nodes=[name for name in names if name not in refused], message=f"for {pods}")
        closed = sum(map(is_closed, self._nodes.all().values()))
        await self._cluster.until(lambda: True if self._looked_at(before, closed) else None, self.pauses.patience)

    def waiting(self) -> dict[str, Object]:
        """Return the pending foreign pods by uid."""
        planned = self._terms.planned
        return {uid: pod for uid, pod in self._cluster.objects("Pod").items() if uid not in planned and waits(pod)}

    def _may_open(self, nodes: Mapping[str, Object]) -> list[str]:
        ours = [name for name, node in nodes.items() if self._is_ours(node) and is_closed(node) and name not in self._terms.keep]
        sources = set(self._terms.sources).intersection(ours)
        if not sources:
            return ours
        if self._terms.before is None:
            return [name for name in ours if name not in sources]
        before: NodeUsage = usage_of(self._terms.before, sources)
        now: NodeUsage = usage_of(self._cluster.snapshot(), sources)
        return [name for name in ours if name not in sources or not has_freed(before[name], now[name])]

    def _changed(self, may_open: Collection[str]) -> bool:
        """Return True if a foreign pod has left one of these nodes since the last call, or if nodes were added or changed."""
        planned = self._terms.planned
        pods = self._cluster.objects("Pod").items()
        now = {uid: str(pod["spec"]["nodeName"]) for uid, pod in pods if uid not in planned and (pod.get("spec") or {}).get("nodeName")}
        nodes = self._nodes.all()
        (were_on, could), self._last = self._last, (now, frozenset(offer(nodes[name]) for name in may_open if name in nodes))
        return not could.issuperset(self._last[1]) or any(uid not in now and node in may_open for uid, node in were_on.items())

    def _looked_at(self, before: Mapping[str, Verdict], closed: int) -> bool:
        """Return True if the scheduler has considered every pending pod with this number of closed nodes."""
        pods = ((self._cluster.pod(uid), said) for uid, said in before.items())
        return all(pod is None or not waits(pod) or looked_at(pod, said, closed) for pod, said in pods)

    async def open(self, *, drained: Collection[str] = (), kept_closed: Collection[str] = ()) -> list[str]:
        """Open all nodes that the run has closed, with several attempts. A second call retries the remaining nodes.

        A node without the annotation of the run now belongs to somebody else and stays as it is.

        Args:
            drained: Nodes that stay cordoned, without the annotation.
            kept_closed: Nodes that stay closed, with the annotation, for a following run.

        Returns:
            The nodes that could not be opened.
        """
        await self._stop_guard()
        todo: Collection[str] = ({name for name, node in self._nodes.all().items() if self._is_ours(node)} | self._ours) - {*kept_closed}
        todo = await self._in_order(todo, self.waiting())
        try:
            not_opened = await open_nodes(self._nodes, todo, self._same_run, drained=drained, pause=self.pauses.again)
        except JournalLost:
            if isinstance(self._api, JournaledApi):  # better to open nodes without a journal than to leave them closed
                self._nodes.api = self._api.api
            not_opened = await open_nodes(self._nodes, todo, self._same_run, drained=drained, pause=self.pauses.again)
        self._ours = set(not_opened)
        opened = sorted({*todo} - not_opened.keys())
        with contextlib.suppress(JournalLost):
            await self._journal.fact("opened", nodes=opened)
        return sorted(not_opened)

    def any_open(self) -> bool:
        """Return True if some node is open for the scheduler."""
        return any(not is_closed(node) for node in self._nodes.all().values())

    def _same_run(self, run: str) -> bool:
        return run == self._run

    # --- one pod through the scheduler ------------------------------------------------------------------------------

    @asynccontextmanager
    async def let_in(self, pod: Object, node: str) -> AsyncIterator[None]:
        """Open a node for one pod alone during the block, in which the caller waits for the pod to be bound.

        One patch uncordons the node and adds a taint that only this pod tolerates. All other nodes are closed. Only one pod at a time is
        let in. After the block, one patch closes the node again; if that fails, the taint still keeps other pods out.

        Raises:
            FenceError: the pod is gone or was replaced, or the server refuses.
        """
        uid = pod["metadata"]["uid"]
        async with self._entering:
            self.check()
            await tolerate(self._api, self._cluster.pod(uid) or pod, uid)
            self._let_in[node] = uid
            try:
                await self._open_for_one(key_of(pod), node, uid)
                yield
            finally:
                del self._let_in[node]
                await whole(self._close_behind(node))

    async def _open_for_one(self, pod: str, node: str, uid: str) -> None:
        """Open a node for one pod, and again if somebody changes the node right afterwards."""
        for _ in range(_MAX_ATTEMPTS):
            refused = await self._nodes.change_all({node: letting_in(self._run, uid)})
            seen = self._nodes.get(node)
            if refused or seen is None:
                raise self._nodes.denied or FenceError(f"pod {pod} cannot be let in: {refused.get(node) or f'node {node} is gone'}")
            if is_open_for(seen, uid):
                return
        raise FenceError(f"pod {pod} cannot be let in: somebody else keeps removing the taint {LET_IN} from node {node}")

    async def _close_behind(self, node: str) -> None:
        for attempt in range(_MAX_ATTEMPTS):
            refused = await self._nodes.change_all({node: closing(self._by)})
            if not refused:
                return
            await asyncio.sleep(self.pauses.again * 2**attempt)
        raise self._failed("closed", refused)
