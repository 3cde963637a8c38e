"""The RebalancePlan document: what ``kubestow rebalance`` prints and ``kubestow verify`` replays.

A move stops a pod where it runs; its replacement is then placed. Moves of one wave may run in parallel and end in any order.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from kubestow.models.documents.placement import API_VERSION, Doc, FamilyResult, SearchPoint, Seconds, SnapshotRef, TierResult, Unmodelled
from kubestow.models.documents.policy import Policy

Goal = Literal["repair", "improve", "consolidate", "admit"]
PlanStatus = Literal["optimal", "feasible"]

#: Why a running pod is left where it is, in the order in which the first that holds is given.
Exclusion = Literal[
    "terminating", "mirror", "daemonset", "eviction-requested", "do-not-disrupt", "bare", "owner", "gang", "local-storage", "devices",
    "budgets",
]  # fmt: skip


class Limits(Doc, omit_defaults=True):
    """What a plan may do at most; null: as much as it takes."""

    maxMoves: Annotated[int | None, Meta(description="Moves of the whole plan, stopovers included.")] = None
    maxEvictions: Annotated[int | None, Meta(description="Pods that are evicted and not placed again.")] = None
    maxMovesPerNamespace: Annotated[int | None, Meta(description="Moves of the pods of any one namespace.")] = None
    maxMovesPerWorkload: Annotated[int | None, Meta(description="Moves of the pods of any one workload.")] = None
    maxFreed: Annotated[int | None, Meta(description="Nodes that the goal consolidate frees, beside those that are free before.")] = None
    allowEviction: Annotated[bool, Meta(description="Whether pods may be evicted without being placed again.")] = False
    alsoMove: Annotated[list[str], Meta(description="Exclusions that were lifted (bare, local-storage).")] = []
    minGain: Annotated[int, Meta(description="Preference points that each move of the goal improve has to bring.")] = 1
    maxWaves: Annotated[int | None, Meta(description="Waves of the whole plan.")] = None


class Move(Doc, omit_defaults=True):
    """A move of a pod to another node."""

    step: Annotated[int, Meta(description="Its position in the plan, from 1; moves of a gang that bind as a unit share it.")]
    wave: Annotated[int, Meta(description="The number of its wave, from 1; moves of one wave may run at once.")]
    pod: Annotated[str, Meta(description="The pod, namespace/name.")]
    source: Annotated[str | None, Meta(description="The node that it leaves, null if it is pending.")] = msgspec.field(name="from")
    to: Annotated[str, Meta(description="The node that it goes to.")]
    reason: Annotated[str, Meta(description="The purpose, in a few words.")]
    stopover: Annotated[bool, Meta(description="Whether it makes room for others there and goes on later.")] = False
    gang: Annotated[str | None, Meta(description="The gang of the pod, namespace/name, if it is in one.")] = None


class Eviction(Doc):
    """An eviction of a pod that nothing replaces: it will be pending."""

    step: Annotated[int, Meta(description="Its position in the plan, from 1.")]
    wave: Annotated[int, Meta(description="The number of its wave, from 1.")]
    pod: Annotated[str, Meta(description="The pod, namespace/name.")]
    source: Annotated[str, Meta(description="The node that it leaves.")] = msgspec.field(name="from")
    reason: Annotated[str, Meta(description="The purpose, in a few words.")]


class NodeUse(Doc):
    """How full a node is."""

    node: Annotated[str, Meta(description="The name of the node.")]
    pods: Annotated[int, Meta(description="The number of pods that run on it.")]
    cpu: Annotated[int, Meta(description="What these pods request, in mCPU.")]
    cpuAllocatable: Annotated[int, Meta(description="What the node has for pods, in mCPU.")]
    memory: Annotated[int, Meta(description="What these pods request, in bytes.")]
    memoryAllocatable: Annotated[int, Meta(description="What the node has for pods, in bytes.")]


class Summary(Doc, omit_defaults=True):
    """A cluster before or after a plan."""

    emptyNodes: Annotated[int, Meta(description="Nodes with no pods other than those of DaemonSets and static ones.")]
    pending: Annotated[int, Meta(description="Pods without a node.")]
    nodes: Annotated[list[NodeUse], Meta(description="The nodes whose pods the plan changes.")] = []
    rules: Annotated[
        dict[str, int],
        Meta(description="Running pods that break each filter on their own node; static pods ignore node affinity and taints."),
    ] = {}
    preferences: Annotated[list[FamilyResult], Meta(description="The points of each family, before multipliers.")] = []
    balance: Annotated[int | None, Meta(description="How even the utilisation is, in the units of the strategy spread, at most 0.")] = None


class Excluded(Doc):
    """Running pods that the plan leaves where they are."""

    reason: Annotated[Exclusion, Meta(description="Why they may not move.")]
    pods: Annotated[list[str], Meta(description="The pods, namespace/name.")]


class Obstacle(Doc, omit_defaults=True):
    """Something that a goal asks for and that the plan does not reach."""

    goal: Annotated[str, Meta(description="The goal.")]
    message: Annotated[str, Meta(description="What is left, and what is in the way.")]
    pod: Annotated[str | None, Meta(description="The pod it is about, if it is one.")] = None
    node: Annotated[str | None, Meta(description="The node it is about, if it is one.")] = None
    proved: Annotated[bool, Meta(description="Whether no plan leaves less of this goal undone; another may leave other pods.")] = False


class EarlierSnapshot(Doc):
    """An earlier snapshot of the cluster."""

    sha256: Annotated[str, Meta(description="Hash of its files.")]
    capturedAt: Annotated[str, Meta(description="When it was captured, RFC 3339.")]


class ForgivenRule(Doc):
    """A filter that a running pod breaks by rules alone that hold during execution and are within their grace."""

    pod: Annotated[str, Meta(description="The pod, namespace/name.")]
    rule: Annotated[str, Meta(description="The filter: NodeAffinity or InterPodAffinity.")]


class ExecutionGrace(Doc):
    """Which broken rules that hold during execution do not count yet."""

    seconds: Annotated[int, Meta(description="The grace of pods that state none of their own.")]
    earlier: Annotated[list[EarlierSnapshot], Meta(description="What was known of the time before.")] = []
    forgiven: Annotated[list[ForgivenRule], Meta(description="What does not count for the goal repair.")] = []


class RebalancePlan(Doc):
    """A plan of moves and evictions."""

    snapshot: Annotated[SnapshotRef, Meta(description="What it is a plan of, and how it was asked for.")]
    goals: Annotated[list[str], Meta(description="The goals in order of importance, drain first if nodes are to be drained.")]
    engine: Annotated[str, Meta(description="What computed it: greedy, or exact or lns where CP-SAT took part.")]
    status: Annotated[PlanStatus, Meta(description="Optimal where every tier is proved, else feasible.")]
    objective: Annotated[list[TierResult], Meta(description="The tiers in their order of importance.")]
    moves: Annotated[list[Move], Meta(description="The moves in order of their steps, bindings of pending pods included.")]
    evictions: Annotated[list[Eviction], Meta(description="The evictions in order of their steps.")]
    before: Annotated[Summary, Meta(description="The cluster as it is.")]
    after: Annotated[Summary, Meta(description="The cluster once all is done.")]
    drain: Annotated[list[str], Meta(description="Names of nodes that are to be emptied before all goals.")] = []
    freed: Annotated[list[str], Meta(description="Nodes that the plan empties.")] = []
    limits: Annotated[Limits, Meta(description="What the plan may do at most.")] = msgspec.field(default_factory=Limits)
    obstacles: Annotated[list[Obstacle], Meta(description="What is in the way of a goal that is not reached.")] = []
    excluded: Annotated[list[Excluded], Meta(description="Pods that may not move.")] = []
    executionGrace: Annotated[
        ExecutionGrace | None, Meta(description="What is forgiven of rules that hold during execution, null if nothing was asked.")
    ] = None
    unmodelled: Annotated[list[Unmodelled], Meta(description="What of the input kubestow does not model.")] = []
    policy: Annotated[Policy | None, Meta(description="The policy that it was computed under, if it is not the default.")] = None
    leastWaves: Annotated[
        int, Meta(description="In fewer waves no order takes these steps: by PodDisruptionBudgets and by pods that wait for room.")
    ] = 0
    notes: Annotated[list[str], Meta(description="What a reader must know to read the proof or to carry the plan out.")] = []
    seconds: Annotated[Seconds | None, Meta(description="How long it took, absent in a deterministic run.")] = None
    search: Annotated[list[SearchPoint], Meta(description="How incumbents and bounds developed, where the run kept time.")] = []
    apiVersion: str = API_VERSION
    kind: str = "RebalancePlan"

    @property
    def waves(self) -> int:
        """Return the number of waves."""
        return max([0, *(move.wave for move in self.moves), *(eviction.wave for eviction in self.evictions)])


_ORDER: Final = (
    "apiVersion", "kind", "snapshot", "goals", "drain", "limits", "engine", "status", "objective", "moves", "evictions",
    "leastWaves", "freed", "before", "after", "obstacles", "excluded", "executionGrace", "unmodelled", "policy", "notes", "seconds",
    "search",
)  # fmt: skip


def to_builtins(plan: RebalancePlan) -> dict[str, Any]:
    """Return plain dicts and lists, in the document's order; ``seconds``, ``search`` and ``policy`` are left out where a run has none."""
    plain = msgspec.to_builtins(plan)
    return {key: plain[key] for key in _ORDER if plain[key] is not None and (key != "search" or plain[key])}
