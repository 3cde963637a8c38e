"""The RebalancePlan document: what ``kubestow rebalance`` prints and ``kubestow verify`` replays.

A move stops a pod where it runs; its replacement is then placed. Moves of one wave may run in parallel and end in any order.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from models.documents.placement import API_VERSION, Doc, FamilyResult, SearchPoint, Seconds, SnapshotRef, TierResult, Unmodelled, expect
from models.documents.policy import Policy

Goal = Literal["repair", "improve", "consolidate", "admit"]
PlanStatus = Literal["optimal", "feasible"]

#: Why a running pod is left where it is, in the order in which the first that holds is given.
Exclusion = Literal[
    "terminating", "mirror", "daemonset", "do-not-disrupt", "bare", "owner", "gang", "local-storage", "budgets"
]  # fmt: skip


class Limits(Doc, omit_defaults=True):
    """What a plan may do at most; None: as much as it takes. ``maxMoves``: moves of the whole plan, stopovers included; ``maxEvictions``:
    pods that go for good; ``maxMovesPerNamespace``: moves of the pods of any one namespace; ``maxMovesPerWorkload``: moves of the pods of
    any one workload; ``maxFreed``: nodes that the goal consolidate frees, beside those that are free before; ``allowEviction``: whether
    pods may go for good; ``alsoMove``: exclusions that were lifted (bare, local-storage); ``minGain``: preference points that each move of
    the goal improve has to bring."""

    maxMoves: int | None = None
    maxEvictions: int | None = None
    maxMovesPerNamespace: int | None = None
    maxMovesPerWorkload: int | None = None
    maxFreed: int | None = None
    allowEviction: bool = False
    alsoMove: list[str] = []
    minGain: int = 1


class Move(Doc, omit_defaults=True):
    """A pod goes to another node. ``step``: its place in the order of the plan, from 1; moves of a gang that bind as a unit share it;
    ``wave``: the number of its wave, from 1; moves of one wave may run at once; ``pod``: the pod, namespace/name; ``from``: the node that
    it leaves, None if it is pending; ``to``: the node that it gets; ``reason``: what it goes for, in a few words; ``stopover``: whether it
    makes room for others there and goes on later; ``gang``: its gang, namespace/name, if it is in one."""

    step: int
    wave: int
    pod: str
    source: str | None = msgspec.field(name="from")
    to: str
    reason: str
    stopover: bool = False
    gang: str | None = None


class Eviction(Doc):
    """A pod goes, and nothing is placed in its stead: it will be pending. ``step``: its place in the order of the plan, from 1; ``wave``:
    the number of its wave, from 1; ``pod``: the pod, namespace/name; ``from``: the node that it leaves; ``reason``: what it goes for, in a
    few words."""

    step: int
    wave: int
    pod: str
    source: str = msgspec.field(name="from")
    reason: str


class NodeUse(Doc):
    """How full a node is. ``node``: its name; ``pods``: how many run on it; ``cpu``: what these request, in mCPU; ``cpuAllocatable``: what
    the node has for pods, in mCPU; ``memory``: what these request, in bytes; ``memoryAllocatable``: what the node has for pods, in
    bytes."""

    node: str
    pods: int
    cpu: int
    cpuAllocatable: int
    memory: int
    memoryAllocatable: int


class Summary(Doc, omit_defaults=True):
    """A cluster before or after a plan. ``emptyNodes``: nodes without pods but DaemonSet and static ones; ``pending``: pods without a node;
    ``nodes``: those whose pods the plan changes, by name; ``rules``: how many running pods break each rule (a filter that rejects the pod
    on its own node; node affinity and taints are none of a static pod's); ``preferences``: the points of each family, before multipliers;
    ``balance``: how even the utilisation is, in the units of the strategy spread, at most 0."""

    emptyNodes: int
    pending: int
    nodes: list[NodeUse] = []
    rules: dict[str, int] = {}
    preferences: list[FamilyResult] = []
    balance: int | None = None


class Excluded(Doc):
    """Running pods that the plan leaves where they are. ``reason``: why they may not move; ``pods``: those pods, namespace/name."""

    reason: Exclusion
    pods: list[str]


class Obstacle(Doc, omit_defaults=True):
    """Something that a goal asks for and that the plan does not reach. ``goal``: which one; ``message``: what is left, and what is in the
    way; ``pod``: the pod it is about, if it is one; ``node``: the node it is about, if it is one; ``proved``: whether no plan leaves less
    of this goal undone, though another may leave other pods."""

    goal: str
    message: str
    pod: str | None = None
    node: str | None = None
    proved: bool = False


class RebalancePlan(Doc):
    """A plan. ``snapshot``: what it is a plan of, and how it was asked for; ``goals``: in order of weight, the goal drain first if nodes
    are to be drained; ``engine``: what made it, greedy, or exact or lns where CP-SAT took part; ``status``: optimal where every tier is
    proved, else feasible; ``objective``: the tiers, the first counts before all others; ``moves``: in order of steps, bindings of pending
    pods included; ``evictions``: pods that go for good, in order of steps; ``before``: the cluster as it is; ``after``: the cluster once
    all is done; ``drain``: names of nodes that are to be emptied before all goals; ``freed``: nodes that the plan empties; ``limits``: what
    it was allowed; ``obstacles``: what is in the way of a goal that is not reached; ``excluded``: pods that may not move; ``unmodelled``:
    what of the input is not honoured; ``policy``: the policy that it was made under, where it is not the default; ``notes``: what a reader
    must know to read the proof or to carry the plan out; ``seconds``: how long it took, absent in a deterministic run; ``search``: how
    incumbent and bound came about, where the run kept time."""

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
