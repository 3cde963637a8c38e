"""One of several servers at a time takes gates off: the one that has the Lease ``kube-system/kubestow-serve``."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, Unpack

from live.api.answers import Answer, Api, Body, Sent, Unauthorized, Unreachable
from live.apply.journal import JournaledApi
from live.apply.lease import Lease, LeaseLost, LeaseTaken, Place, Times
from live.gates.gates import Gates

SERVE: Final = Place("kube-system", "kubestow-serve")


class ServeLease(Lease):
    """The Lease of a server."""

    place = SERVE


@dataclass(frozen=True)
class LeasedApi:
    """An API that changes nothing once the Lease is lost."""

    api: Api
    lease: Lease

    def of(self, step: int, pod: str) -> LeasedApi:
        """Return the same API for the requests of a pod of a document, if these are kept in a journal."""
        return replace(self, api=self.api.of(step, pod)) if isinstance(self.api, JournaledApi) else self

    async def send(self, method: str, path: str, body: Body | None = None, **more: Unpack[Sent]) -> Answer:
        """Send a request, as :meth:`live.api.answers.Api.send` does.

        Raises:
            Unreachable: no answer came.
            LeaseLost: it would change something, and another server may be at it.
        """
        if method != "GET":
            self.lease.check()
        return await self.api.send(method, path, body, **more)


async def serve(gates: Gates, name: str, times: Times | None = None) -> None:
    """Treat pods as they come, until that is to end, whenever this server has the Lease; ``name`` tells it from the others.

    What is done is read off the cluster each time, so that a server that starts again, or takes over from another one, goes on where that
    one was. A lost connection is told, and tried again.
    """
    pause = (times or Times()).renew
    while not gates.ending.is_set():
        try:
            async with ServeLease(gates.api, name, times) as lease:
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
