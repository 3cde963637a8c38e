"""One of several servers at a time takes gates off: the one that has the Lease ``kube-system/kubestow-serve``."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, Unpack

from kubestow.live.api.answers import Answer, Api, Body, Object, Sent, Unauthorized, Unreachable
from kubestow.live.apply.journal import JournaledApi
from kubestow.live.apply.lease import Lease, LeaseLost, LeaseTaken, Place, Times
from kubestow.live.gates.gates import Gates

SERVE: Final = Place("kube-system", "kubestow-serve")


#: Annotation of the Lease: the uids of workloads whose gangs were let go whole, a JSON list.
WHOLE: Final = "kubestow.dev/whole-gangs"
#: Uids that the annotation holds. All annotations of an object may have 256 KiB, and each uid takes 40 bytes.
MAX_UIDS: Final = 5000


class ServeLease(Lease):
    """The Lease of a server, which also says which gangs were let go whole: by then no pod of theirs may be left that tells.

    Attributes:
        whole: Returns the uids of their workloads, as :attr:`kubestow.live.gates.holding.Holding.whole` has them.
        learn: Takes the uids that an earlier server has left in the Lease.
    """

    place = SERVE

    def __init__(
        self, api: Api, name: str, times: Times | None, whole: Callable[[], Collection[str]], learn: Callable[[Collection[str]], object]
    ) -> None:
        """Take what asks the server, and whose the Lease is to be."""
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
    """Return the uids of an annotation; of one that somebody has spoilt none."""
    try:
        found = json.loads(text) if isinstance(text, str) else []
    except ValueError:
        return []
    return [uid for uid in found if isinstance(uid, str)] if isinstance(found, list) else []


@dataclass(frozen=True)
class LeasedApi:
    """An API that changes nothing once the Lease is lost."""

    api: Api
    lease: Lease

    def of(self, step: int, pod: str) -> LeasedApi:
        """Return the same API for the requests of a pod of a document, if these are kept in a journal."""
        return replace(self, api=self.api.of(step, pod)) if isinstance(self.api, JournaledApi) else self

    async def send(self, method: str, path: str, body: Body | None = None, **more: Unpack[Sent]) -> Answer:
        """Send a request, as :meth:`kubestow.live.api.answers.Api.send` does.

        Raises:
            Unreachable: no answer came.
            LeaseLost: it would change something, and another server may be at it.
        """
        if method != "GET":
            self.lease.check()
        return await self.api.send(method, path, body, **more)


async def serve(gates: Gates, name: str, times: Times | None = None) -> None:
    """Treat pods as they come, until that is to end, whenever this server has the Lease; ``name`` tells it from the others.

    What is done is read off the cluster and the Lease, so that a server that starts again, or takes over from another one, goes on where
    that one was. A lost connection is told, and tried again.
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
