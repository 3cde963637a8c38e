"""How a world and its server behave: who acts in it, how fast, and what goes wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

Object = dict[str, Any]
#: ``at once``: every pod that fits is bound before the request that made it fit is answered. ``slow``: after ``Behaviour.scheduling``
#: seconds. ``random``: after up to that long, to any node that fits. ``off``: there is none.
Scheduler = Literal["at once", "slow", "random", "off"]


@dataclass(frozen=True)
class Faults:
    """What goes wrong with requests, each as a share of them from 0 to 1. Which ones is drawn by the seed from what is asked for and how
    often it was asked for before, so that it does not depend on the order in which requests arrive.

    ``error_before``, ``error_after``: 500, 502, 503 or 504 without, or with, the request being carried out. ``lost_before``,
    ``lost_after``: the connection ends without an answer. ``throttled``: 429 with Retry-After of ``retry_after`` seconds, not carried out.
    ``most``: of the same request repeated, at most so many fail in a row. ``watch_events``: a watch ends after up to so many events; 0:
    never. ``gone``: a share of watches is told 410 at once. ``late``: up to so many seconds pass between what a request did and its answer,
    and between a change and its event on a watch, so that answers and events overtake one another. ``only``: whether a request (method,
    path) may fail or be late at all.
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
    """Seconds are those of the world's clock, which is that of the machine while a server runs.

    ``latency``: of every request. ``recreate``: until a controller notices. ``start``, ``ready``: until a bound pod is Running, and then
    Ready. ``stop``: until a terminating pod is gone. ``provision``: until a volume is there. ``budget``: until the status of budgets is
    renewed. ``taint``: until a cordon has its taint. ``orphan``: until pods of a missing node are deleted.
    ``stuck``, ``unready``: pods that never go, or never become Ready. ``history``: changes that watches may start from.
    ``gone_as``: how a watch from before that is told: an ERROR event, or the status of the answer. ``forbidden``: pairs of verb and
    resource (``patch``, ``nodes``; ``create``, ``pods/eviction``) that clients are refused.
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
