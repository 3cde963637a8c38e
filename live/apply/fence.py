"""Keeps the scheduler out while pods move: all nodes are closed, so that no room which a run makes goes to pods that it did not plan."""

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
from kubestow.live.apply.room import Room, emptiest_first, more_room, offer, room_of
from kubestow.live.apply.waiting import Verdict, looked_at, verdict, waits
from kubestow.live.apply.whereabouts import key_of
from kubestow.models.documents.journal import What
from kubestow.models.kube.closed_nodes import LET_IN, ClosedBy
from kubestow.models.snapshot.snapshot import InputError, Snapshot

T = TypeVar("T")

#: A node that somebody else opens more often than this while a run needs it closed ends the run.
_REOPENED: Final = 3
_TRIES: Final = 4


class Cluster(Protocol):
    """What the fence reads, which :class:`kubestow.live.api.live_cluster.LiveCluster` has."""

    def objects(self, kind: str) -> Mapping[str, Object]: ...
    def pod(self, uid: str) -> Object | None: ...
    async def until(self, found: Callable[[], T | None], seconds: float) -> T | None: ...
    def snapshot(self) -> Snapshot: ...


class Facts(Protocol):
    """What the fence writes, which :class:`kubestow.live.apply.journal.Journal` has."""

    async def fact(self, what: What, **fields: Any) -> None: ...


@dataclass(frozen=True)
class Terms:
    """What of a plan decides which nodes may be open between its waves.

    ``keep``: nodes that the plan frees or drains, closed until the run ends. ``sources``: nodes that pods leave by the plan; they stay
    closed as long as they have more room than ``before``, in the snapshot that the plan was made from. ``planned``: uids of the pods that
    the plan moves or binds; others are foreign. ``targets``: nodes that pods move to, the first to be closed and the last to be opened.
    """

    keep: Collection[str] = frozenset()
    sources: Collection[str] = frozenset()
    planned: Collection[str] = frozenset()
    before: Snapshot | None = None
    targets: Collection[str] = frozenset()


@dataclass(frozen=True)
class Pauses:
    """Seconds. ``settle``: after nodes were closed, for a scheduler that decided just before or has not heard of it. Without it pods made
    right after the last answer go to closed nodes now and then; of a real scheduler 0.05 was enough. ``patience``: how long nodes are open
    between waves for pods that wait for the first time, the longest that the scheduler puts a pod off and a little more; ``again``: between
    attempts."""

    settle: float = 0.5
    patience: float = 12.0
    again: float = 0.5


class Fence:
    """The closed nodes of one run."""

    def __init__(self, api: Api, cluster: Cluster, run_id: str, journal: Facts, terms: Terms | None = None) -> None:
        """Take what the nodes are changed with; nothing is closed yet."""
        self.pauses = Pauses()
        #: What a user should know, a sentence each.
        self.notes: list[str] = []
        self._api = api
        self._cluster = cluster
        self._run = run_id
        self._journal = journal
        self._terms = terms or Terms()
        self._nodes = Nodes(api, lambda: cluster.objects("Node"))
        self._by = ClosedBy(run_id, datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"))
        self._guard: asyncio.Task[None] | None = None
        self._entering = asyncio.Lock()
        self._let_in: dict[str, str] = {}
        self._ours: set[str] = set()
        self._reopened: Counter[str] = Counter()
        self._fault = ""
        #: Pods that found no place when all was open that may be; None before the first node is closed.
        self._tried: set[str] | None = None
        #: When nodes were last asked about: on which ones foreign pods were, and what of each could be opened.
        self._last: tuple[dict[str, str], frozenset[str]] = ({}, frozenset())

    def inherit(self, names: Iterable[str]) -> None:
        """Take over nodes that an earlier part of the run may have left closed: in the end each is open, which the journal then says."""
        self._ours.update(names)

    # --- closing ----------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Close every node that takes pods, and those that appear from now on, at once.

        A node that was cordoned before is left alone. One that a dead run closed is taken over.

        Raises:
            FenceError: some cannot be closed, or somebody else opens one again and again. What is closed stays so until :meth:`open`.
        """
        await self._stop_guard()
        self.check()
        self._remember(self.waiting())
        if await self._close(self._astray()):
            await asyncio.sleep(self.pauses.settle)
        self._guard = asyncio.create_task(self._watch())

    def check(self) -> None:
        """Ask whether the fence holds, before each request that relies on it.

        Raises:
            FenceError: a node that appeared, or that somebody opened, could not be closed.
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
        for some in self._stages(names)[::-1]:  # so that no pod is turned to a target because the others are closed already
            refused |= await self._nodes.change_all({name: self._wanted(name) for name in some})
        now = self._nodes.all()
        closed = [name for name in names if name in now and self._is_ours(now[name])]
        if closed:
            await self._journal.fact("closed", nodes=closed)
        if refused:
            raise self._failed("closed", refused)
        return closed

    def _failed(self, done: str, refused: Mapping[str, str]) -> Exception:
        """Return the error for nodes that could not be changed: the refusal of the credentials if that is why."""
        if self._nodes.denied is not None:
            return self._nodes.denied
        name, why = next(iter(sorted(refused.items())))
        others = f" (and {len(refused) - 1} more nodes)" if len(refused) > 1 else ""
        return FenceError(f"node {name} cannot be {done}: {why}{others}")

    def _wanted(self, name: str) -> Change:
        uid = self._let_in.get(name)
        return closing(self._by) if uid is None else letting_in(self._run, uid)

    def _astray(self) -> list[str]:
        """Return the nodes that are not as they should be while a wave runs."""
        found = []
        for name, node in self._nodes.all().items():
            try:
                if self._wanted(name)(node) is not None:
                    found.append(name)
            except FenceError:  # said by who lets the pod in
                continue
        return found

    def _is_ours(self, node: Object) -> bool:
        by = annotation(node)
        return by is not None and by.run == self._run

    def _is_opened(self, node: Object) -> bool:
        """Return whether somebody else has opened a node of ours."""
        return self._is_ours(node) and not is_closed(node) and without(node, (LET_IN,)) is None

    async def _watch(self) -> None:
        """Close nodes that appear or that somebody opens while a wave runs."""
        while not self._fault:
            astray = await self._cluster.until(lambda: self._astray() or None, 60)
            if not astray:
                continue
            nodes = self._nodes.all()
            self._reopened.update(name for name in astray if name in nodes and self._is_opened(nodes[name]))
            often = next((name for name in astray if self._reopened[name] > _REOPENED), None)
            if often is not None:
                self._fault = f"node {often} is opened again and again by somebody else"
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
        """Open what may be open between two waves, if foreign pods wait; then give the scheduler the time to look at them.

        Nodes that the plan frees or drains, and those with more room than before it because pods left them, stay closed. Nodes to which
        pods are to move are opened last, and only if pods still wait then. A pod that the scheduler has found no open node for, since or
        before the run began, is no reason to open them again, unless a foreign pod has left one since, or there is one more or another one.
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
        """Remember, before the first node is closed, for which pods the scheduler found no place while all were open.

        What an earlier part of the run, or a dead one, has closed spoils that: its words are then of closed nodes.
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
        """Return nodes in the order in which to open them. If pods wait, the emptiest nodes are first, and all are read in advance.

        The scheduler places the first pods before it has heard of all nodes, on those that it has heard of.
        """
        if not waiting:
            return sorted(names)
        await self._nodes.read_ahead(names)
        with contextlib.suppress(InputError):
            return emptiest_first(names, self._cluster.snapshot())
        return sorted(names)

    def _stages(self, names: Iterable[str]) -> list[list[str]]:
        """Return nodes that pods of the plan do not move to, then those that they do; what is empty is left out."""
        stages: tuple[list[str], list[str]] = [], []
        for name in names:
            stages[name in self._terms.targets].append(name)
        return [stage for stage in stages if stage]

    async def _open_for(self, waiting: Mapping[str, Object], names: Sequence[str]) -> None:
        """Open nodes, and wait until the scheduler has placed these pods or knows that they fit on none of what is open."""
        before = {uid: verdict(pod) for uid, pod in waiting.items()}
        refused = await self._nodes.change_all({name: opening(self._same_run) for name in names})
        pods = "a pod that waits" if len(waiting) == 1 else f"{len(waiting)} pods that wait"
        await self._journal.fact("opened", nodes=[name for name in names if name not in refused], message=f"for {pods}")
        closed = sum(map(is_closed, self._nodes.all().values()))
        await self._cluster.until(lambda: True if self._looked_at(before, closed) else None, self.pauses.patience)

    def waiting(self) -> dict[str, Object]:
        """Return the foreign pods that wait for a node, by uid."""
        planned = self._terms.planned
        return {uid: pod for uid, pod in self._cluster.objects("Pod").items() if uid not in planned and waits(pod)}

    def _may_open(self, nodes: Mapping[str, Object]) -> list[str]:
        ours = [name for name, node in nodes.items() if self._is_ours(node) and is_closed(node) and name not in self._terms.keep]
        sources = set(self._terms.sources).intersection(ours)
        if not sources:
            return ours
        if self._terms.before is None:
            return [name for name in ours if name not in sources]
        before: Room = room_of(self._terms.before, sources)
        now: Room = room_of(self._cluster.snapshot(), sources)
        return [name for name in ours if name not in sources or not more_room(before[name], now[name])]

    def _changed(self, may_open: Collection[str]) -> bool:
        """Return whether a foreign pod has left one of these nodes since the last time, or whether there are more or other ones."""
        planned = self._terms.planned
        pods = self._cluster.objects("Pod").items()
        now = {uid: str(pod["spec"]["nodeName"]) for uid, pod in pods if uid not in planned and (pod.get("spec") or {}).get("nodeName")}
        nodes = self._nodes.all()
        (were_on, could), self._last = self._last, (now, frozenset(offer(nodes[name]) for name in may_open if name in nodes))
        return not could.issuperset(self._last[1]) or any(uid not in now and node in may_open for uid, node in were_on.items())

    def _looked_at(self, before: Mapping[str, Verdict], closed: int) -> bool:
        """Return whether no pod waits any more that the scheduler has not looked at since so many nodes are closed."""
        pods = ((self._cluster.pod(uid), said) for uid, said in before.items())
        return all(pod is None or not waits(pod) or looked_at(pod, said, closed) for pod, said in pods)

    async def open(self, *, drained: Collection[str] = (), held: Collection[str] = ()) -> list[str]:
        """Open all nodes that the run has closed, each on its own and several times if need be; return those that could not be opened.

        ``drained``: stay cordoned, without the annotation. ``held``: stay closed, with it, for a run that comes after. A node without the
        annotation of the run is somebody else's by now and is left as it is. Called twice it tries again what is left.
        """
        await self._stop_guard()
        todo: Collection[str] = ({name for name, node in self._nodes.all().items() if self._is_ours(node)} | self._ours) - {*held}
        todo = await self._in_order(todo, self.waiting())
        try:
            left = await open_nodes(self._nodes, todo, self._same_run, drained=drained, pause=self.pauses.again)
        except JournalLost:
            if isinstance(self._api, JournaledApi):  # better opened without a line than left closed
                self._nodes.api = self._api.api
            left = await open_nodes(self._nodes, todo, self._same_run, drained=drained, pause=self.pauses.again)
        self._ours = set(left)
        opened = sorted({*todo} - left.keys())
        with contextlib.suppress(JournalLost):
            await self._journal.fact("opened", nodes=opened)
        return sorted(left)

    def any_open(self) -> bool:
        """Return True if some node takes pods from the scheduler."""
        return any(not is_closed(node) for node in self._nodes.all().values())

    def _same_run(self, run: str) -> bool:
        return run == self._run

    # --- one pod through the scheduler ------------------------------------------------------------------------------

    @asynccontextmanager
    async def let_in(self, pod: Object, node: str) -> AsyncIterator[None]:
        """Open a node for one pod alone, until the block ends; the caller waits there for the pod to be bound.

        The node is uncordoned and gets a taint in one patch; only this pod tolerates the taint, and all other nodes are closed. One pod at
        a time is let in. Whatever happens in the block, the node is closed again in one patch; if that fails, the taint keeps others out.

        Raises:
            FenceError: the pod is gone or another one, or the server refuses.
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
        """Open a node for one pod. If somebody changes the node right after that, it is opened again."""
        for _ in range(_TRIES):
            refused = await self._nodes.change_all({node: letting_in(self._run, uid)})
            seen = self._nodes.get(node)
            if refused or seen is None:
                raise self._nodes.denied or FenceError(f"pod {pod} cannot be let in: {refused.get(node) or f'node {node} is gone'}")
            if is_open_for(seen, uid):
                return
        raise FenceError(f"pod {pod} cannot be let in: somebody else takes the taint {LET_IN} off node {node} all the time")

    async def _close_behind(self, node: str) -> None:
        for attempt in range(_TRIES):
            refused = await self._nodes.change_all({node: closing(self._by)})
            if not refused:
                return
            await asyncio.sleep(self.pauses.again * 2**attempt)
        raise self._failed("closed", refused)
