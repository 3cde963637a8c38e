"""Leader election of servers: only the holder of the Lease ``kube-system/kubestow-serve`` removes gates."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, Unpack

from kubestow.live.api.answers import Api, Body, Object, Sent, ServerAnswer, Unauthorized, Unreachable
from kubestow.live.apply.journal import JournaledApi
from kubestow.live.apply.lease import Lease, LeaseKey, LeaseLost, LeaseTaken, Times
from kubestow.live.gates.gates import Gates

SERVE: Final = LeaseKey("kube-system", "kubestow-serve")


#: Annotation of the Lease: a JSON list of uids of workloads whose gangs were released whole.
WHOLE: Final = "kubestow.dev/whole-gangs"
#: Maximum number of uids in the annotation. Annotations of an object are limited to 256 KiB, and a uid takes 40 bytes.
MAX_UIDS: Final = 5000


class ServeLease(Lease):
    """The Lease of a server. It also records the gangs that were released whole, because their pods may be gone later.

    Attributes:
        whole: Returns the uids of their workloads; see :attr:`kubestow.live.gates.gate_memory.GateMemory.whole`.
        learn: Receives the uids that an earlier server left in the Lease.
    """

    place = SERVE

    def __init__(
        self, api: Api, name: str, times: Times | None, whole: Callable[[], Collection[str]], learn: Callable[[Collection[str]], object]
    ) -> None:
        """Prepare the Lease of the server ``name``."""
        super().__init__(api, name, times)
        self.whole, self.learn = whole, learn

    def _metadata(self, lease: Object) -> Object:
        found = super()._metadata(lease)
        annotations = found.get("annotations") or {}
        if not self._acquired:
            self.learn(_uids(annotations.get(WHOLE)))
        kept = sorted(self.whole())[:MAX_UIDS]
        if not kept and WHOLE not in annotations:
            return found
        return {**found, "annotations": {**annotations, WHOLE: json.dumps(kept)}}


def _uids(text: object) -> list[str]:
    """Return the uids in an annotation; empty for an invalid one."""
    try:
        found = json.loads(text) if isinstance(text, str) else []
    except ValueError:
        return []
    return [uid for uid in found if isinstance(uid, str)] if isinstance(found, list) else []


@dataclass(frozen=True)
class LeasedApi:
    """An API that refuses changes after the Lease is lost."""

    api: Api
    lease: Lease

    def of(self, step: int, pod: str) -> LeasedApi:
        """Return the same API for requests about a document's pod, recorded in a journal if there is one."""
        return replace(self, api=self.api.of(step, pod)) if isinstance(self.api, JournaledApi) else self

    async def send(self, method: str, path: str, body: Body | None = None, **more: Unpack[Sent]) -> ServerAnswer:
        """Send a request; see :meth:`kubestow.live.api.answers.Api.send`.

        Raises:
            Unreachable: there was no answer.
            LeaseLost: the request would change something, but another server may be active.
        """
        if method != "GET":
            self.lease.check()
        return await self.api.send(method, path, body, **more)


async def serve(gates: Gates, name: str, times: Times | None = None) -> None:
    """Release pods as they appear while this server holds the Lease, until it is ended. ``name`` identifies the server.

    All state is in the cluster and the Lease, so that a restarted or another server continues where the last one stopped. A lost
    connection is reported and retried.
    """
    pause = (times or Times()).renew
    while not gates.ending.is_set():
        try:
            async with ServeLease(gates.api, name, times, lambda: gates.holding.whole, gates.holding.learn) as lease:
                gates.listener.note(f"serving: {name} has the Lease {SERVE}")
                await replace(gates, api=LeasedApi(gates.api, lease)).serve()
            return
        except LeaseTaken as taken:
            gates.say(str(taken))
        except LeaseLost as lost:
            gates.listener.note(str(lost))
        except Unauthorized as refused:
            gates.say(str(refused))
        except Unreachable as lost:
            gates.listener.note(f"no connection: {lost}")
        with suppress(TimeoutError):
            await asyncio.wait_for(gates.ending.wait(), pause)
