"""Parameters of a simulated cluster and its server: actors, delays and faults."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

Object = dict[str, Any]
#: Modes of the scheduler.
#: at once: Bind every pod that fits before answering the request that made it fit.
#: slow: Bind after ``Behaviour.scheduling`` seconds.
#: random: Bind to any node that fits, after at most that time.
#: off: No scheduler.
Scheduler = Literal["at once", "slow", "random", "off"]


@dataclass(frozen=True)
class Faults:
    """Faults of requests, each a probability from 0 to 1 unless stated otherwise.

    Faults depend on the seed, the request and the number of its repetitions, but not on the order in which requests arrive.

    Attributes:
        error_before: Status 500, 502, 503 or 504; the request is not carried out.
        error_after: The same status codes; the request is carried out.
        lost_before: The connection ends without an answer; the request is not carried out.
        lost_after: The connection ends without an answer; the request is carried out.
        throttled: Status 429 with Retry-After; the request is not carried out.
        retry_after: The value of Retry-After, in seconds.
        most: Maximum number of consecutive failures of the same request.
        watch_events: Maximum number of events after which a watch ends; 0 means never.
        gone: Status 410 at the start of a watch.
        late: Maximum delay of answers and of watch events, in seconds, so that they overtake one another.
        only: Returns True if a request (method, path) can fail or be late. None means every request.
    """

    error_before: float = 0.0
    error_after: float = 0.0
    lost_before: float = 0.0
    lost_after: float = 0.0
    throttled: float = 0.0
    retry_after: int = 1
    most: int = 2
    watch_events: int = 0
    gone: float = 0.0
    late: float = 0.0
    only: Callable[[str, str], bool] | None = None


@dataclass(frozen=True)
class Behaviour:
    """The parameters of a simulated cluster. Delays are seconds of its clock, which follows the machine's while a server runs.

    Attributes:
        latency: Delay of every request.
        scheduling: Delay of a scheduler that is slow or random.
        recreate: Delay until a controller reacts.
        start: Delay until a bound pod is Running.
        ready: Further delay until it is Ready.
        stop: Delay until a terminating pod is gone.
        provision: Delay until a volume exists.
        budget: Delay until the status of budgets is updated.
        taint: Delay until a cordoned node has its taint.
        orphan: Delay until pods of a missing node are deleted.
        stuck: Returns True for pods that never terminate.
        unready: Returns True for pods that never become Ready.
        history: Number of past changes from which a watch can start.
        gone_as: Form of the error for a watch that starts earlier: an ERROR event, or the status of the answer.
        forbidden: Pairs of verb and resource refused to clients, such as (``patch``, ``nodes``) or (``create``, ``pods/eviction``).
    """

    seed: int = 0
    scheduler: Scheduler = "at once"
    controllers: bool = True
    kubelets: bool = True
    latency: float = 0.0
    scheduling: float = 0.01
    recreate: float = 0.0
    start: float = 0.002
    ready: float = 0.0
    stop: float = 0.002
    provision: float = 0.002
    budget: float = 0.0
    taint: float = 0.001
    orphan: float = 0.05
    stuck: Callable[[Object], bool] | None = None
    unready: Callable[[Object], bool] | None = None
    default_tolerations: bool = True
    history: int = 10_000
    bookmarks: float = 0.05
    gone_as: Literal["event", "status"] = "event"
    forbidden: frozenset[tuple[str, str]] = frozenset()
    faults: Faults = field(default_factory=Faults)
