"""The Lease ``kube-system/kubestow-apply``, which allows one run at a time, as in the leader election of Kubernetes components."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple, Self

from kubestow.live.api.answers import Api, Object, ServerAnswer, Unauthorized, Unreachable

NAMESPACE: Final = "kube-system"
NAME: Final = "kubestow-apply"
_MAX_ATTEMPTS: Final = 5


class LeaseKey(NamedTuple):
    """Namespace and name of a Lease."""

    namespace: str
    name: str

    @property
    def leases(self) -> str:
        """URL path of all Leases in the namespace."""
        return f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases"

    @property
    def path(self) -> str:
        """URL path of the Lease."""
        return f"{self.leases}/{self.name}"

    def __str__(self) -> str:
        """Return the name for messages."""
        return f"{self.namespace}/{self.name}"


#: The Lease of runs that move pods.
APPLY: Final = LeaseKey(NAMESPACE, NAME)


class LeaseTaken(Exception):
    """The Lease cannot be acquired; one sentence."""


class LeaseLost(Exception):
    """The Lease is lost, so no further request may be sent."""


@dataclass(frozen=True)
class Times:
    """Times in seconds.

    Attributes:
        duration: Validity of a Lease after its last renewal.
        renew: Interval between renewals.
        margin: Safety margin before the end, after which the Lease counts as lost.
        skew: Maximum difference of clocks. A Lease that expired less than this ago is observed for a while before it is taken over.
    """

    duration: int = 30
    renew: float = 10
    margin: float = 5
    skew: float = 300


@dataclass(frozen=True)
class Holder:
    """The holder of a Lease, and the end of its validity."""

    run: str
    until: datetime


def holder(lease: Object, now: datetime | None = None) -> Holder | None:
    """Return the holder of the Lease at this time; None if it was released or has expired."""
    spec = lease.get("spec") or {}
    run, renewed = spec.get("holderIdentity"), _parsed(spec.get("renewTime"))
    if not run or renewed is None:
        return None
    until = renewed + timedelta(seconds=spec.get("leaseDurationSeconds") or 0)
    return Holder(str(run), until) if until > (now or _now()) else None


async def live_run(api: Api) -> Holder | None:
    """Return the live run of the cluster; None if there is none.

    Raises:
        LeaseTaken: the Lease cannot be read.
        Unreachable: there was no answer.
    """
    answer = await api.send("GET", APPLY.path)
    if answer.code == 404:
        return None
    if not answer.ok:
        raise _refused(APPLY, "read", answer)
    return holder(answer.body)


class Lease:
    """The Lease of one run: ``async with Lease(api, run_id) as lease`` acquires, renews and releases it.

    Renewals need no journal, so ``api`` is the one without.
    """

    place = APPLY

    def __init__(
        self,
        api: Api,
        run_id: str,
        times: Times | None = None,
        clock: Callable[[], datetime] | None = None,
        tell: Callable[[str], object] | None = None,
    ) -> None:
        """Prepare the Lease. ``tell`` receives a sentence if acquiring takes long."""
        #: Set as soon as the Lease is lost.
        self.lost = asyncio.Event()
        #: Refused credentials, while renewals fail for this reason.
        self.denied: Unauthorized | None = None
        self._why = ""
        self._api = api
        self._run = run_id
        self._times = times or Times()
        self._clock = clock or _now
        self._tell = tell or (lambda _: None)
        self._lease: Object = {}
        self._acquired = ""
        self._good_until = (0.0, datetime.min.replace(tzinfo=UTC))
        self._renewal: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await self.take()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.release()

    @property
    def is_held(self) -> bool:
        """True if the Lease is held and valid long enough for a request."""
        steady, wall = self._good_until
        # After a suspend, only the wall clock has advanced.
        if not self.lost.is_set() and (time.monotonic() >= steady or self._clock() >= wall):
            self._lose("it could not be renewed in time")
        return not self.lost.is_set()

    def check(self) -> None:
        """Check before each request that the run may continue.

        Raises:
            Unauthorized: the Lease is lost because the server refuses the credentials.
            LeaseLost: the Lease is lost.
        """
        if not self.is_held:
            if self.denied is not None:
                raise self.denied
            raise LeaseLost(f"the Lease {self.place} is lost: {self._why}")

    async def take(self) -> None:
        """Acquire the Lease and keep renewing it. An expired Lease, or one of the same run, is taken over.

        Raises:
            LeaseTaken: another run holds it, or the server refuses.
            Unreachable: there was no answer.
        """
        lost: Unreachable | None = None
        for _ in range(_MAX_ATTEMPTS):
            sent = time.monotonic(), self._clock()
            read = await self._api.send("GET", self.place.path)
            if read.code == 404:
                written = "POST", self.place.leases, self._written({})
            elif read.ok:
                other = await self._other(read.body)
                if other is not None:
                    raise LeaseTaken(
                        f"run {other.run} is active in this cluster: it holds the Lease {self.place} until "
                        f"{other.until:%Y-%m-%dT%H:%M:%SZ}, and renews it while it runs"
                    )
                sent = time.monotonic(), self._clock()
                written = "PUT", self.place.path, self._written(read.body)
            else:
                raise _refused(self.place, "read", read)
            try:
                answer = await self._api.send(*written)
            except Unreachable as error:  # the request may have been executed, so read the Lease again
                lost = error
                continue
            if answer.ok:
                self._keep(answer.body, *sent)
                self._renewal = asyncio.create_task(self._renew())
                return
            if answer.code not in (404, 409) or read.code == answer.code == 404:
                raise _refused(self.place, "written", answer)
        raise lost or LeaseTaken(f"the Lease {self.place} cannot be acquired: others keep changing it")

    async def _other(self, lease: Object) -> Holder | None:
        """Return the other run that holds a Lease; None if there is none. A recently expired Lease is observed for a renewal first."""
        spec = lease.get("spec") or {}
        found = holder(lease, self._clock())
        if spec.get("holderIdentity") in (None, "", self._run):
            return None
        if found is None and holder(lease, self._clock() - timedelta(seconds=self._times.skew)) is not None:
            pause = self._times.renew * 1.2
            self._tell(f"run {spec['holderIdentity']} did not release the Lease {self.place}: waiting {pause:g} s to see if it renews it")
            await asyncio.sleep(pause)
            again = await self._api.send("GET", self.place.path)
            renewed = (again.body.get("spec") or {}) if again.ok else {}
            if renewed.get("holderIdentity") == spec["holderIdentity"] and renewed.get("renewTime") != spec.get("renewTime"):
                return Holder(spec["holderIdentity"], self._clock() + timedelta(seconds=self._times.duration))
        return found

    async def release(self) -> None:
        """Release the Lease, so that the next run need not wait. Without a held Lease, do nothing."""
        if self._renewal is not None:
            while not self._renewal.done():
                self._renewal.cancel()
                await asyncio.wait([self._renewal], timeout=1)
        self._renewal, lease, self._lease = None, self._lease, {}
        if not lease or self.lost.is_set():
            return
        self._lose("it was released")
        for _ in range(_MAX_ATTEMPTS):
            given_back = {**lease, "metadata": self._metadata(lease)}
            given_back["spec"] = {**lease["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}
            try:
                if (await self._api.send("PUT", self.place.path, given_back)).code != 409:
                    return
            except Unreachable:
                pass  # it may or may not be released
            try:
                read = await self._api.send("GET", self.place.path)
            except Unreachable:
                return  # it expires
            if not read.ok or not self._is_ours(read.body):
                return
            lease = read.body

    async def _renew(self) -> None:
        while self.is_held:
            await asyncio.sleep(self._times.renew)
            sent = time.monotonic(), self._clock()
            try:
                answer = await self._api.send("PUT", self.place.path, self._written(self._lease))
                if answer.code == 409:
                    answer = await self._api.send("GET", self.place.path)
                    if answer.ok and self._is_ours(answer.body):
                        answer = await self._api.send("PUT", self.place.path, self._written(answer.body))
                    elif answer.ok:
                        now = (answer.body.get("spec") or {}).get("holderIdentity")
                        self._lose(f"run {now} has it now" if now else "somebody released it")
                        return
            except Unreachable as error:
                self.denied = error if isinstance(error, Unauthorized) else None
                continue  # retry until the Lease expires
            self.denied = None
            if answer.ok:
                self._keep(answer.body, *sent)
            elif answer.code == 404:
                self._lose("somebody deleted it")

    def _metadata(self, lease: Object) -> Object:
        """Return the metadata to write, given the Lease as read (``{}`` if there is none)."""
        return lease.get("metadata") or {"name": self.place.name, "namespace": self.place.namespace}

    def _is_ours(self, lease: Object) -> bool:
        spec = lease.get("spec") or {}
        return spec.get("holderIdentity") == self._run and spec.get("acquireTime") == self._acquired

    def _keep(self, lease: Object, steady: float, wall: datetime) -> None:
        good = self._times.duration - self._times.margin
        self._lease, self._acquired = lease, lease["spec"]["acquireTime"]
        self._good_until = steady + good, wall + timedelta(seconds=good)

    def _lose(self, why: str) -> None:
        if not self.lost.is_set():
            self._why = why
            self.lost.set()

    def _written(self, lease: Object) -> Object:
        """Return the Lease held by this run and renewed now, with the resource version as read to detect conflicts."""
        now = self._clock().isoformat(timespec="microseconds").replace("+00:00", "Z")
        spec = lease.get("spec") or {}
        found: Object = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": self._metadata(lease),
        }
        mine = {"holderIdentity": self._run, "leaseDurationSeconds": self._times.duration, "renewTime": now}
        if self._acquired and self._is_ours(lease):
            return {**found, "spec": {**spec, **mine}}
        transitions = int(spec.get("leaseTransitions") or 0) + (1 if spec else 0)
        return {**found, "spec": {**spec, **mine, "acquireTime": now, "leaseTransitions": transitions}}


def _refused(place: LeaseKey, what: str, answer: ServerAnswer) -> LeaseTaken:
    return LeaseTaken(f"the Lease {place}, which excludes concurrent runs, cannot be {what}: {answer.message}")


def _parsed(text: object) -> datetime | None:
    try:
        found = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return found if found.tzinfo is not None else None


def _now() -> datetime:
    return datetime.now(UTC)
