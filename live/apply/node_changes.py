"""Changes of nodes by a run: close, open, or open for one pod, each as one patch for the node as it was read."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar
from urllib.parse import quote

from kubestow.live.api.answers import Api, Object, ServerAnswer, Unauthorized, Unreachable
from kubestow.live.api.versions import is_well_formed, later, version_of
from kubestow.models.kube.closed_nodes import CLOSED_BY, LET_IN, OWN_TAINTS, UNSCHEDULABLE, ClosedBy, closed_by

T = TypeVar("T")

#: A function from a node to the body of a merge patch; None if there is nothing to change.
Change = Callable[[Object], Object | None]

#: Concurrent requests about nodes: enough for 200 nodes in a fraction of a second, and few compared to kubelets.
_MAX_CONCURRENT_REQUESTS: Final = 32
#: Maximum number of attempts to change an object that others change at the same time.
_MAX_CONFLICTS: Final = 10
#: Maximum number of attempts to open a node.
_MAX_OPEN_ATTEMPTS: Final = 4


class FenceError(Exception):
    """Nodes cannot be closed or opened as needed; one sentence."""


def annotation(node: Object) -> ClosedBy | None:
    """Return the run in the node's annotation; None without one."""
    return closed_by((node["metadata"].get("annotations") or {}).get(CLOSED_BY))


def is_closed(node: Object) -> bool:
    """Return True if the node is cordoned (``spec.unschedulable``)."""
    return bool((node.get("spec") or {}).get("unschedulable"))


def taints(node: Object) -> list[dict[str, Any]]:
    """Return the node's taints."""
    return list((node.get("spec") or {}).get("taints") or ())


def without(node: Object, keys: Iterable[str]) -> list[dict[str, Any]] | None:
    """Return the node's taints without these keys; None if no taint has one of the keys."""
    found = taints(node)
    kept = [taint for taint in found if taint.get("key") not in set(keys)]
    return kept if len(kept) < len(found) else None


def closing(by: ClosedBy) -> Change:
    """Return the change that closes a node: cordoned, with the annotation and without taints that let one pod in.

    A node that is cordoned without the annotation belongs to somebody else and stays as it is. A node of another, dead run is taken over.
    """

    def change(node: Object) -> Object | None:
        owner, fewer = annotation(node), without(node, (LET_IN,))
        if is_closed(node) and (owner is None or (owner.run == by.run and fewer is None)):
            return None
        spec: Object = {"unschedulable": True} if fewer is None else {"unschedulable": True, "taints": fewer or None}
        return {"metadata": {"annotations": {CLOSED_BY: str(by)}}, "spec": spec}

    return change


def opening(runs: Callable[[str], bool], *, cordoned: bool = False) -> Change:
    """Return the change that reopens a node closed by one of these runs. ``cordoned``: keep the cordon and remove only the marks.

    A node without the annotation stays as it is, because somebody has removed the annotation on purpose.
    """

    def change(node: Object) -> Object | None:
        owner = annotation(node)
        if owner is None or not runs(owner.run):
            return None
        fewer = without(node, (LET_IN,) if cordoned else OWN_TAINTS)
        spec: Object = {"unschedulable": True} if cordoned else {"unschedulable": None}
        if fewer is not None:
            spec["taints"] = fewer or None
        return {"metadata": {"annotations": {CLOSED_BY: None}}, "spec": spec}

    return change


def letting_in(run: str, uid: str) -> Change:
    """Return the change that opens a node for one pod: one patch removes the cordon and adds the taint.

    The change raises FenceError if the node is not closed by this run.
    """
    taint = {"key": LET_IN, "value": uid, "effect": "NoSchedule"}

    def change(node: Object) -> Object | None:
        owner = annotation(node)
        if owner is None or owner.run != run:
            raise FenceError(f"node {node['metadata']['name']} is not closed by this run")
        if not is_closed(node) and is_open_for(node, uid) and without(node, (UNSCHEDULABLE,)) is None:
            return None
        kept = [each for each in taints(node) if each.get("key") not in OWN_TAINTS]
        return {"spec": {"unschedulable": None, "taints": [*kept, taint]}}

    return change


def is_open_for(node: Object, uid: str) -> bool:
    """Return True if the node has the taint that only this pod tolerates."""
    return any(taint.get("key") == LET_IN and taint.get("value") == uid for taint in taints(node))


@dataclass
class Nodes:
    """The last known nodes of a cluster, and the requests that change them.

    A watch may lag behind the run's own changes, and answers may overtake one another. The reading with the later resourceVersion counts
    (:mod:`kubestow.live.api.versions`).

    Attributes:
        api: Sends the requests.
        read: Returns the nodes as known from a watch.
        denied: Refused credentials, if the last changes failed for this reason.
    """

    api: Api
    read: Callable[[], Mapping[str, Object]]
    denied: Unauthorized | None = None
    _answered: dict[str, Object] = field(default_factory=dict)
    #: By node, the watch's version at the time of an answer with an incomparable version.
    _watched: dict[str, str] = field(default_factory=dict)
    #: The uids of nodes that the server no longer knows.
    _gone: set[str] = field(default_factory=set)
    #: Nodes with a change that may or may not have been executed.
    _unsure: set[str] = field(default_factory=set)
    #: By node, the number of patches sent, and of those not answered yet.
    _sent: Counter[str] = field(default_factory=Counter)
    _under_way: Counter[str] = field(default_factory=Counter)
    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_MAX_CONCURRENT_REQUESTS))

    def all(self) -> dict[str, Object]:
        """Return the last known nodes by name."""
        found: dict[str, Object] = {}
        for node in self.read().values():
            name = node["metadata"]["name"]
            if node["metadata"].get("uid") not in self._gone:
                silent = self._watched.get(name) == version_of(node)  # the watch does not know the answer yet
                found[name] = self._answered[name] if silent else self._latest(name, node)
        return found

    def get(self, name: str) -> Object | None:
        """Return a node in its last known state; None if there is none."""
        return self.all().get(name)

    async def change_all(self, changes: Mapping[str, Change]) -> dict[str, str]:
        """Change nodes in parallel. Return the reasons for failures by name.

        A cancellation is delayed until all requests are answered. An abandoned request could reach the server after the next one for the
        same node, and leave it closed.
        """
        return await whole(self._change_all(changes))

    async def read_ahead(self, names: Iterable[str]) -> None:
        """Read nodes that are about to change together, so that their changes reach the server almost at the same time.

        A scheduler would fill the first open node with the pending pods. After this call, each request has an open connection and the
        current version.
        """
        await asyncio.gather(*(self._read_ahead(name) for name in names))

    async def _read_ahead(self, name: str) -> None:
        with contextlib.suppress(FenceError, Unreachable):  # the change itself will report the problem
            async with self._slots:
                await self._get(name)

    async def _change_all(self, changes: Mapping[str, Change]) -> dict[str, str]:
        known, self.denied = self.all(), None
        found = await asyncio.gather(*(self._tried(name, change, known.get(name)) for name, change in changes.items()))
        return {name: why for name, why in zip(changes, found, strict=True) if why}

    async def _tried(self, name: str, change: Change, known: Object | None) -> str:
        try:
            await self._change(name, change, known)
        except (FenceError, Unreachable) as error:
            self.denied = error if isinstance(error, Unauthorized) else self.denied
            return str(error) or "no answer"
        return ""

    async def _change(self, name: str, change: Change, known: Object | None) -> None:
        """Change a node in its current state. After a conflict, make the patch again. A deleted node is skipped."""
        async with self._slots:
            node = None if known is None or self._is_unsure(name) else self._latest(name, known)
            for _ in range(_MAX_CONFLICTS):
                node = node if node is not None else await self._get(name)
                body = change(node) if node is not None else None
                if node is None or body is None:
                    return
                answer = await self._patch(name, {**body, "metadata": {**body.get("metadata", {}), "resourceVersion": version_of(node)}})
                if answer.ok:
                    self._keep(name, answer.body)
                elif answer.code == 404:
                    self._forget(node)
                elif answer.code != 409:
                    raise FenceError(f"node {name} cannot be changed: {answer.message}")
                if answer.ok or answer.code == 404:
                    return
                node = None
        raise FenceError(f"node {name} cannot be changed: something else keeps changing it")

    async def _patch(self, name: str, body: Object) -> ServerAnswer:
        """Send a patch. Its outcome is unknown without an answer, or after an error."""
        self._sent[name] += 1
        self._under_way[name] += 1
        answer = None
        try:
            answer = await self.api.send("PATCH", _path(name), body)
        finally:
            self._under_way[name] -= 1
            if answer is None or not (answer.ok or answer.code == 404):
                self._unsure.add(name)
        return answer

    async def _get(self, name: str) -> Object | None:
        """Read a node from the server; None if it is gone. Only a reading that overlaps no patch shows the outcome of earlier patches."""
        sent, alone = self._sent[name], not self._under_way[name]
        read = await self.api.send("GET", _path(name))
        if read.code == 404:
            self._forget(self._answered.get(name))
            return None
        if not read.ok:
            raise FenceError(f"node {name} cannot be read: {read.message}")
        if alone and sent == self._sent[name]:
            self._unsure.discard(name)
        return self._keep(name, read.body)

    def _is_unsure(self, name: str) -> bool:
        return name in self._unsure or self._under_way[name] > 0

    def _latest(self, name: str, node: Object) -> Object:
        return later(self._answered.get(name), node) or node

    def _keep(self, name: str, node: Object) -> Object:
        """Keep an answer unless a later one is known. Return the later one."""
        kept = self._answered[name] = self._latest(name, node)
        self._watched.pop(name, None)
        if not is_well_formed(version_of(kept)):
            self._watched.update((name, version_of(each)) for each in self.read().values() if each["metadata"]["name"] == name)
        return kept

    def _forget(self, node: Object | None) -> None:
        if node is not None:
            self._answered.pop(node["metadata"]["name"], None)
            self._watched.pop(node["metadata"]["name"], None)
            self._gone.update([node["metadata"]["uid"]] if node["metadata"].get("uid") else [])


def _path(name: str) -> str:
    return f"/api/v1/nodes/{quote(name, safe='')}"


async def open_nodes(
    nodes: Nodes, names: Collection[str], runs: Callable[[str], bool], *, drained: Collection[str] = (), pause: float = 0.5
) -> dict[str, str]:
    """Open nodes that these runs closed, in parallel and in the given order, with retries after growing pauses.

    ``drained`` nodes stay cordoned. Return the reasons for failures by name.
    """
    not_opened = dict.fromkeys(names, "")
    for attempt in range(_MAX_OPEN_ATTEMPTS):
        if attempt:
            await asyncio.sleep(pause * 2 ** (attempt - 1))
        not_opened = await nodes.change_all({name: opening(runs, cordoned=name in drained) for name in not_opened})
        if not not_opened:
            break
    return not_opened


async def tolerate(api: Api, pod: Object, uid: str) -> None:
    """Add the toleration for the let-in taint to a pod.

    Raises:
        FenceError: the pod is gone or was replaced, or the server refuses.
    """
    metadata, name = pod["metadata"], f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
    toleration = {"key": LET_IN, "operator": "Equal", "value": uid, "effect": "NoSchedule"}
    path = f"/api/v1/namespaces/{quote(metadata['namespace'], safe='')}/pods/{quote(metadata['name'], safe='')}"
    found: Object | None = pod
    for _ in range(_MAX_CONFLICTS):
        if found is None:
            read = await api.send("GET", path)
            if not read.ok or read.body["metadata"].get("uid") != uid:
                raise FenceError(f"pod {name} is gone")
            found = read.body
        known = (found.get("spec") or {}).get("tolerations") or []
        if toleration in known:
            return
        body = {"metadata": {"resourceVersion": version_of(found)}, "spec": {"tolerations": [*known, toleration]}}
        answer = await api.send("PATCH", path, body)
        if answer.ok:
            return
        if answer.code not in (404, 409):
            raise FenceError(f"pod {name} cannot be let in: {answer.message}")
        found = None
    raise FenceError(f"pod {name} cannot be let in: something else keeps changing it")


async def whole(work: Coroutine[Any, Any, T]) -> T:
    """Run work to its end even if the task is cancelled meanwhile, then raise the cancellation."""
    task = asyncio.ensure_future(work)
    cancelled = False
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        raise asyncio.CancelledError
    return task.result()
