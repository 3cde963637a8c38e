"""The RebalancePlan document, which ``kubestow rebalance`` prints and ``kubestow verify`` replays.

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

#: Reasons to leave a running pod in place. A pod is listed under the first that applies.
Exclusion = Literal[
    "terminating", "mirror", "daemonset", "eviction-requested", "do-not-disrupt", "bare", "owner", "gang", "local-storage", "devices",
    "budgets",
]  # fmt: skip


class Limits(Doc, omit_defaults=True):
    """The limits of a plan. Null means unlimited."""

    maxMoves: Annotated[int | None, Meta(description="Moves in the whole plan, stopovers included.")] = None
    maxEvictions: Annotated[int | None, Meta(description="Pods evicted without a new place.")] = None
    maxMovesPerNamespace: Annotated[int | None, Meta(description="Moves per namespace.")] = None
    maxMovesPerWorkload: Annotated[int | None, Meta(description="Moves per workload.")] = None
    maxFreed: Annotated[int | None, Meta(description="Nodes that the goal consolidate frees; nodes already free do not count.")] = None
    allowEviction: Annotated[bool, Meta(description="True if pods may be evicted without a new place.")] = False
    alsoMove: Annotated[list[str], Meta(description="Exclusions that were lifted (bare, local-storage).")] = []
    minGain: Annotated[int, Meta(description="Preference points that each move of the goal improve must gain.")] = 1
    maxWaves: Annotated[int | None, Meta(description="Waves in the whole plan.")] = None


class Move(Doc, omit_defaults=True):
    """A move of a pod to another node."""

    step: Annotated[int, Meta(description="Its position in the plan, from 1. Moves of a gang that bind as a unit share one step.")]
    wave: Annotated[int, Meta(description="Its wave, from 1; moves of one wave may run in parallel.")]
    pod: Annotated[str, Meta(description="The pod, namespace/name.")]
    source: Annotated[str | None, Meta(description="The node that it leaves, null if it is pending.")] = msgspec.field(name="from")
    to: Annotated[str, Meta(description="The node that it goes to.")]
    reason: Annotated[str, Meta(description="The purpose, in a few words.")]
    stopover: Annotated[bool, Meta(description="True if the pod moves on from this node in a later step.")] = False
    gang: Annotated[str | None, Meta(description="The gang of the pod, namespace/name, or null.")] = None


class Eviction(Doc):
    """An eviction of a pod that gets no new place; its replacement stays pending."""

    step: Annotated[int, Meta(description="Its position in the plan, from 1.")]
    wave: Annotated[int, Meta(description="Its wave, from 1.")]
    pod: Annotated[str, Meta(description="The pod, namespace/name.")]
    source: Annotated[str, Meta(description="The node that it leaves.")] = msgspec.field(name="from")
    reason: Annotated[str, Meta(description="The purpose, in a few words.")]


class NodeUse(Doc):
    """The requested and allocatable resources of a node."""

    node: Annotated[str, Meta(description="The name of the node.")]
    pods: Annotated[int, Meta(description="The number of pods that run on it.")]
    cpu: Annotated[int, Meta(description="Requests of these pods, in mCPU.")]
    cpuAllocatable: Annotated[int, Meta(description="Allocatable for pods, in mCPU.")]
    memory: Annotated[int, Meta(description="Requests of these pods, in bytes.")]
    memoryAllocatable: Annotated[int, Meta(description="Allocatable for pods, in bytes.")]


class Summary(Doc, omit_defaults=True):
    """The state of the cluster before or after a plan."""

    emptyNodes: Annotated[int, Meta(description="Nodes without pods, except DaemonSet pods and static pods.")]
    pending: Annotated[int, Meta(description="Pods without a node.")]
    nodes: Annotated[list[NodeUse], Meta(description="The nodes whose pods the plan changes.")] = []
    rules: Annotated[
        dict[str, int],
        Meta(description="Running pods that violate each filter on their own node. Static pods ignore node affinity and taints."),
    ] = {}
    preferences: Annotated[list[FamilyResult], Meta(description="The points of each family, before multipliers.")] = []
    balance: Annotated[int | None, Meta(description="Evenness of utilisation in units of the strategy spread; 0 is best.")] = None


class Excluded(Doc):
    """Running pods that the plan leaves in place."""

    reason: Annotated[Exclusion, Meta(description="The reason why they may not move.")]
    pods: Annotated[list[str], Meta(description="The pods, namespace/name.")]


class Obstacle(Doc, omit_defaults=True):
    """A requirement of a goal that the plan does not meet."""

    goal: Annotated[str, Meta(description="The goal.")]
    message: Annotated[str, Meta(description="The unmet requirement and the obstacle.")]
    pod: Annotated[str | None, Meta(description="The pod concerned, or null.")] = None
    node: Annotated[str | None, Meta(description="The node concerned, or null.")] = None
    proved: Annotated[bool, Meta(description="True if no plan comes closer to this goal. Another plan may leave different pods.")] = False


class EarlierSnapshot(Doc):
    """An earlier snapshot of the cluster."""

    sha256: Annotated[str, Meta(description="SHA-256 of its files.")]
    capturedAt: Annotated[str, Meta(description="Capture time, RFC 3339.")]


class ForgivenRule(Doc):
    """A filter that a running pod violates only through RequiredDuringExecution rules still in their grace period."""

    pod: Annotated[str, Meta(description="The pod, namespace/name.")]
    rule: Annotated[str, Meta(description="The filter: NodeAffinity or InterPodAffinity.")]


class ExecutionGrace(Doc):
    """Violated RequiredDuringExecution rules that do not count yet."""

    seconds: Annotated[int, Meta(description="The grace period of pods that do not set one, in seconds.")]
    earlier: Annotated[list[EarlierSnapshot], Meta(description="The earlier snapshots that show when a violation began.")] = []
    forgiven: Annotated[list[ForgivenRule], Meta(description="Violations that the goal repair ignores.")] = []


class RebalancePlan(Doc):
    """A plan of moves and evictions."""

    snapshot: Annotated[SnapshotRef, Meta(description="The snapshot, and the options that change it.")]
    goals: Annotated[list[str], Meta(description="The goals in order of importance; drain comes first if nodes are drained.")]
    engine: Annotated[str, Meta(description="The engine that computed it: greedy, exact or lns. The last two use CP-SAT.")]
    status: Annotated[PlanStatus, Meta(description="Optimal if every tier is proved, otherwise feasible.")]
    objective: Annotated[list[TierResult], Meta(description="The tiers in their order of importance.")]
    moves: Annotated[list[Move], Meta(description="The moves by step, bindings of pending pods included.")]
    evictions: Annotated[list[Eviction], Meta(description="The evictions by step.")]
    before: Annotated[Summary, Meta(description="The cluster before the plan.")]
    after: Annotated[Summary, Meta(description="The cluster after the plan.")]
    drain: Annotated[list[str], Meta(description="Names of the nodes to drain, before all other goals.")] = []
    freed: Annotated[list[str], Meta(description="Nodes that the plan empties.")] = []
    limits: Annotated[Limits, Meta(description="The limits of the plan.")] = msgspec.field(default_factory=Limits)
    obstacles: Annotated[list[Obstacle], Meta(description="Obstacles to goals that are not reached.")] = []
    excluded: Annotated[list[Excluded], Meta(description="Pods that may not move.")] = []
    executionGrace: Annotated[
        ExecutionGrace | None,
        Meta(description="Violations of RequiredDuringExecution rules within the grace period, or null."),
    ] = None
    unmodelled: Annotated[list[Unmodelled], Meta(description="Fields of the input that kubestow does not model.")] = []
    policy: Annotated[Policy | None, Meta(description="The policy of the plan, if it is not the default.")] = None
    leastWaves: Annotated[
        int, Meta(description="Lower bound on the waves for these steps, from PodDisruptionBudgets and pods that wait for capacity.")
    ] = 0
    notes: Annotated[list[str], Meta(description="Remarks on the proof and on applying the plan.")] = []
    seconds: Annotated[Seconds | None, Meta(description="Run time by phase, absent in a deterministic run.")] = None
    search: Annotated[list[SearchPoint], Meta(description="The history of incumbents and bounds, absent in a deterministic run.")] = []
    apiVersion: str = API_VERSION
    kind: str = "RebalancePlan"

    @property
    def waves(self) -> int:
        """The number of waves in the plan."""
        return max([0, *(move.wave for move in self.moves), *(eviction.wave for eviction in self.evictions)])


_ORDER: Final = (
    "apiVersion", "kind", "snapshot", "goals", "drain", "limits", "engine", "status", "objective", "moves", "evictions",
    "leastWaves", "freed", "before", "after", "obstacles", "excluded", "executionGrace", "unmodelled", "policy", "notes", "seconds",
    "search",
)  # fmt: skip


def to_builtins(plan: RebalancePlan) -> dict[str, Any]:
    """Return the plan as plain dicts and lists, in printed order, without null fields and without an empty ``search``."""
    plain = msgspec.to_builtins(plan)
    return {key: plain[key] for key in _ORDER if plain[key] is not None and (key != "search" or plain[key])}
