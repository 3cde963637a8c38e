"""What a run changes of nodes: closed, opened, or opened for one pod, each in one patch that fits the node as it was read."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar
from urllib.parse import quote

from kubestow.live.api.answers import Answer, Api, Object, Unauthorized, Unreachable
from kubestow.live.api.versions import is_well_formed, later, version_of
from kubestow.models.kube.closed_nodes import CLOSED_BY, LET_IN, OWN_TAINTS, UNSCHEDULABLE, ClosedBy, closed_by

T = TypeVar("T")

#: The body of a merge patch for a node as it is, None where there is nothing to change.
Change = Callable[[Object], Object | None]

#: Requests about nodes at a time: more than enough for 200 in a fraction of a second, and few beside what kubelets send.
_AT_ONCE: Final = 32
#: How often a node is looked at again that somebody else changes meanwhile.
_ATTEMPTS: Final = 10
#: How often a node that could not be opened is tried.
_TRIES: Final = 4


class FenceError(Exception):
    """Nodes cannot be closed or opened as a run needs them; one sentence."""


def annotation(node: Object) -> ClosedBy | None:
    """Return which run says that it closed the node."""
    return closed_by((node["metadata"].get("annotations") or {}).get(CLOSED_BY))


def is_closed(node: Object) -> bool:
    """Return whether the node takes no pods from the scheduler, ``spec.unschedulable``."""
    return bool((node.get("spec") or {}).get("unschedulable"))


def taints(node: Object) -> list[dict[str, Any]]:
    """Return the node's taints."""
    return list((node.get("spec") or {}).get("taints") or ())


def without(node: Object, keys: Iterable[str]) -> list[dict[str, Any]] | None:
    """Return the node's taints but for those of the keys, None if it has none of them."""
    found = taints(node)
    kept = [taint for taint in found if taint.get("key") not in set(keys)]
    return kept if len(kept) < len(found) else None


def closing(by: ClosedBy) -> Change:
    """Return the change that closes a node: cordoned, with the annotation and without taints that let one pod in.

    A node that is cordoned without annotation is somebody else's and stays as it is. That of another run, which is dead, is taken over.
    """

    def change(node: Object) -> Object | None:
        owner, fewer = annotation(node), without(node, (LET_IN,))
        if is_closed(node) and (owner is None or (owner.run == by.run and fewer is None)):
            return None
        spec: Object = {"unschedulable": True} if fewer is None else {"unschedulable": True, "taints": fewer or None}
        return {"metadata": {"annotations": {CLOSED_BY: str(by)}}, "spec": spec}

    return change


def opening(runs: Callable[[str], bool], *, cordoned: bool = False) -> Change:
    """Return the change that opens a node again which one of these runs closed; ``cordoned``: it stays so, and loses the marks only.

    A node without the annotation stays as it is: who takes the annotation away wants the node as it is.
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
    """Return the change that opens a node for one pod: the cordon goes and the taint comes in the same patch.

    The change raises FenceError where the node is not closed by the run: then it is not the run's to open.
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
    """Return whether the node has the taint that only this pod tolerates."""
    return any(taint.get("key") == LET_IN and taint.get("value") == uid for taint in taints(node))


@dataclass
class Nodes:
    """The nodes of a cluster as the server last described them, and the requests that change them.

    ``read`` returns the nodes as a watch has them. A watch may lag behind the run's own changes, and answers may overtake one another. The
    reading with the later resourceVersion counts (:mod:`kubestow.live.api.versions`).

    Attributes:
        denied: The refusal of the credentials, if the last changes met one.
    """

    api: Api
    read: Callable[[], Mapping[str, Object]]
    denied: Unauthorized | None = None
    _answered: dict[str, Object] = field(default_factory=dict)
    #: By node, the version that the watch had when an answer came that cannot be compared with it.
    _watched: dict[str, str] = field(default_factory=dict)
    #: The uids of nodes that the server no longer knows.
    _gone: set[str] = field(default_factory=set)
    #: Nodes with a change that may or may not have been carried out.
    _unsure: set[str] = field(default_factory=set)
    #: By node, how many patches were sent, and how many of these are not answered yet.
    _sent: Counter[str] = field(default_factory=Counter)
    _under_way: Counter[str] = field(default_factory=Counter)
    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))

    def all(self) -> dict[str, Object]:
        """Return the nodes as they were last seen, by name."""
        found: dict[str, Object] = {}
        for node in self.read().values():
            name = node["metadata"]["name"]
            if node["metadata"].get("uid") not in self._gone:
                silent = self._watched.get(name) == version_of(node)  # it has not heard of the answer yet
                found[name] = self._answered[name] if silent else self._latest(name, node)
        return found

    def get(self, name: str) -> Object | None:
        """Return a node as it was last seen."""
        return self.all().get(name)

    async def change_all(self, changes: Mapping[str, Change]) -> dict[str, str]:
        """Change nodes in parallel, each on its own; return why some could not be changed, by name.

        Who is cancelled meanwhile gets that when all are answered: a request given up may reach the server after the next one about the
        same node, and would leave it closed.
        """
        return await whole(self._change_all(changes))

    async def read_ahead(self, names: Iterable[str]) -> None:
        """Read nodes that are about to be changed together, so that all their changes reach the server at nearly the same time.

        A scheduler fills the first node that opens with the pods that wait. After this, each request finds an open connection and knows
        the current version, and none comes late.
        """
        await asyncio.gather(*(self._read_ahead(name) for name in names))

    async def _read_ahead(self, name: str) -> None:
        with contextlib.suppress(FenceError, Unreachable):  # the change itself reports what is wrong
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
        """Change a node as it is at that moment: a patch that meets a newer node is made anew. A node that is gone is left alone."""
        async with self._slots:
            node = None if known is None or self._is_unsure(name) else self._latest(name, known)
            for _ in range(_ATTEMPTS):
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
        raise FenceError(f"node {name} cannot be changed: something else changes it all the time")

    async def _patch(self, name: str, body: Object) -> Answer:
        """Send a patch. What became of it is unknown if no answer came, or one that tells of an error."""
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
        """Return a node as the server has it, None if it is gone. Only a reading that no patch overlaps settles what became of one."""
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
        """Keep an answer, unless a later one was kept meanwhile, and return the later one."""
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
    """Open nodes that these runs closed, in parallel and in the order given, and again after growing pauses where that fails.

    ``drained``: stay cordoned. Return why those that are left could not be opened, by name.
    """
    left = dict.fromkeys(names, "")
    for attempt in range(_TRIES):
        if attempt:
            await asyncio.sleep(pause * 2 ** (attempt - 1))
        left = await nodes.change_all({name: opening(runs, cordoned=name in drained) for name in left})
        if not left:
            break
    return left


async def tolerate(api: Api, pod: Object, uid: str) -> None:
    """Give a pod the toleration of the taint that lets it in alone.

    Raises:
        FenceError: the pod is gone or another one, or the server refuses.
    """
    metadata, name = pod["metadata"], f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
    toleration = {"key": LET_IN, "operator": "Equal", "value": uid, "effect": "NoSchedule"}
    path = f"/api/v1/namespaces/{quote(metadata['namespace'], safe='')}/pods/{quote(metadata['name'], safe='')}"
    found: Object | None = pod
    for _ in range(_ATTEMPTS):
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
    raise FenceError(f"pod {name} cannot be let in: something else changes it all the time")


async def whole(work: Coroutine[Any, Any, T]) -> T:
    """Carry work out to its end, even where the task is cancelled meanwhile; then it is."""
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
