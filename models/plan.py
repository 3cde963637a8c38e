"""The RebalancePlan document: what ``kubestow rebalance`` prints and ``kubestow verify`` replays.

A move stops a pod where it runs; its replacement is then placed. Moves of one wave may run in parallel and end in any order.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from models.placement import API_VERSION, Doc, FamilyResult, SearchPoint, Seconds, SnapshotRef, TierResult, Unmodelled, expect
from models.policy import Policy

Goal = Literal["repair", "improve", "consolidate", "admit"]
PlanStatus = Literal["optimal", "feasible"]

#: Why a running pod is left where it is, in the order in which the first that holds is given.
Exclusion = Literal[
    "terminating", "mirror", "daemonset", "do-not-disrupt", "bare", "owner", "gang", "local-storage", "budgets"
]  # fmt: skip


class Limits(Doc, omit_defaults=True):
    """What a plan may do at most. ``alsoMove``: exclusions that were lifted (bare, local-storage); ``maxFreed``: nodes
    that the goal consolidate frees, beside those that are free before; ``minGain``: preference points that each move of the goal improve
    has to bring."""

    maxMoves: int | None = None
    maxEvictions: int | None = None
    maxMovesPerNamespace: int | None = None
    maxMovesPerWorkload: int | None = None
    maxFreed: int | None = None
    allowEviction: bool = False
    alsoMove: list[str] = []
    minGain: int = 1


class Move(Doc, omit_defaults=True):
    """A pod goes ``from`` a node (None: it is pending) ``to`` another. ``step``: its place in the order of the plan, from 1, which moves
    of a ``gang`` that bind as a unit share; ``wave``: from 1. ``stopover``: not yet where the plan wants it: room is made for others."""

    step: int
    wave: int
    pod: str
    source: str | None = msgspec.field(name="from")
    to: str
    reason: str
    stopover: bool = False
    gang: str | None = None


class Eviction(Doc):
    """A pod goes, and nothing is placed in its stead: it will be pending."""

    step: int
    wave: int
    pod: str
    source: str = msgspec.field(name="from")
    reason: str


class NodeUse(Doc):
    """Pods on a node that are not over, and what they request of cpu (mCPU) and memory (bytes) of what is allocatable."""

    node: str
    pods: int
    cpu: int
    cpuAllocatable: int
    memory: int
    memoryAllocatable: int


class Summary(Doc, omit_defaults=True):
    """A cluster before or after a plan. ``nodes``: those whose pods the plan changes, by name; ``rules``: how many running pods break each
    rule (a filter that rejects the pod on its own node); ``emptyNodes``: nodes without pods but DaemonSet and static ones; ``pending``:
    pods without a node. ``preferences``: by family, raw points; ``balance``: of the strategy spread."""

    emptyNodes: int
    pending: int
    nodes: list[NodeUse] = []
    rules: dict[str, int] = {}
    preferences: list[FamilyResult] = []
    balance: int | None = None


class Excluded(Doc):
    """Running pods that the plan leaves where they are, and why."""

    reason: Exclusion
    pods: list[str]


class Obstacle(Doc, omit_defaults=True):
    """Something that a goal asks for and that the plan does not reach. ``pod`` or ``node``: what it is about; ``message``: the sentence;
    ``proved``: that no plan leaves less of its goal undone, though another may leave other pods."""

    goal: str
    message: str
    pod: str | None = None
    node: str | None = None
    proved: bool = False


class RebalancePlan(Doc):
    """A plan. ``goals``: in order of weight, ``drain`` first if nodes are to be drained; ``drain``: those nodes; ``freed``: nodes that the
    plan empties; ``moves`` and ``evictions`` by step; ``obstacles``: what is in the way of a goal that is not reached."""

    snapshot: SnapshotRef
    goals: list[str]
    engine: str
    status: PlanStatus
    objective: list[TierResult]
    moves: list[Move]
    evictions: list[Eviction]
    before: Summary
    after: Summary
    drain: list[str] = []
    freed: list[str] = []
    limits: Limits = msgspec.field(default_factory=Limits)
    obstacles: list[Obstacle] = []
    excluded: list[Excluded] = []
    unmodelled: list[Unmodelled] = []
    policy: Policy | None = None
    notes: list[str] = []
    seconds: Seconds | None = None
    search: list[SearchPoint] = []
    apiVersion: str = API_VERSION
    kind: str = "RebalancePlan"

    @property
    def waves(self) -> int:
        """How many waves the plan has."""
        return max([0, *(move.wave for move in self.moves), *(eviction.wave for eviction in self.evictions)])


_ORDER: Final = (
    "apiVersion", "kind", "snapshot", "goals", "drain", "limits", "engine", "status", "objective", "moves", "evictions", "freed", "before",
    "after", "obstacles", "excluded", "unmodelled", "policy", "notes", "seconds",
    "search",
)  # fmt: skip


def to_builtins(plan: RebalancePlan) -> dict[str, Any]:
    """Plain dicts and lists, in the document's order; ``seconds``, ``search`` and ``policy`` are left out where a run has none."""
    plain = msgspec.to_builtins(plan)
    return {key: plain[key] for key in _ORDER if plain[key] is not None and (key != "search" or plain[key])}


def from_builtins(plain: object) -> RebalancePlan:
    """Read a RebalancePlan document that was decoded from JSON or YAML.

    Raises:
        msgspec.ValidationError: a field is missing or has a wrong type; the message carries its path.
    """
    expect(plain, "RebalancePlan")
    return msgspec.convert(plain, RebalancePlan)
