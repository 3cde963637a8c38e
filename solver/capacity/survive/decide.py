"""The decision of one failure: whether all pods that must return can be placed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.documents import placement as doc
from kubestow.models.documents.policy import Policy, without_preferences
from kubestow.models.kube.objects import pod_key
from kubestow.models.snapshot.scope import select
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.solver import rules
from kubestow.solver.capacity.survive.failures import after
from kubestow.solver.capacity.survive.options import SurviveOptions
from kubestow.solver.construction.greedy import construct
from kubestow.solver.objective.preferences import Objective
from kubestow.solver.placed_steps import PlacedAnswer
from kubestow.solver.placed_tiers import PlacedSearch
from kubestow.solver.rules.eligibility import demand_with_slots, fits, possible, room_with_slots
from kubestow.solver.runtime.options import Options
from kubestow.solver.runtime.run_context import RunContext
from kubestow.solver.solve import assignments_of

By = Literal["nothing", "bound", "composition", "search", "solver"]


@dataclass(slots=True)
class ScenarioVerdict:
    """The knowledge about a failure.

    Attributes:
        displaced: Number of pods that must return.
        bound: Upper bound on returning pods.
        assignments: The best placement found, in bind order.
        pending: Pods (namespace/name) that stay pending in it.
        preempted: Pods preempted for it.
        by: The method that decided the failure; None while it is open.
    """

    displaced: int
    bound: int
    assignments: list[doc.Assignment] = field(default_factory=list)
    pending: list[str] = field(default_factory=list)
    preempted: list[str] = field(default_factory=list)
    by: By | None = None

    @property
    def survives(self) -> bool:
        return self.by is not None and not self.pending

    @property
    def least(self) -> int:
        """Lower bound on the pods that stay pending."""
        return self.displaced - self.bound

    @property
    def closed(self) -> bool:
        """True if the best placement is proved optimal."""
        return self.bound == len(self.assignments)


def hard(policy: Policy) -> Policy:
    """Return a policy without preferences, which do not affect the decision."""
    return without_preferences(policy, "none")


def compiled(snapshot: Snapshot, gone: Sequence[str], request: SurviveOptions, options: Options) -> Cluster:
    """Return the instance after a failure, compiled from its objects."""
    remaining_snapshot = after(snapshot, gone, request).snapshot
    return compile_cluster(remaining_snapshot, select(remaining_snapshot), daemon_namespaces=options.exempt, policy=hard(options.policy))


def decide(cluster: Cluster, context: RunContext, *, quick: bool = False, even: bool = False, keys: Sequence[str] = ()) -> ScenarioVerdict:
    """Decide an instance whose pending pods are those that must return.

    Args:
        quick: True to use only bounds and greedy construction.
        even: True if construction fills nodes evenly.
        keys: Keys of all pods of the snapshot, if they are known already.
    """
    waiting = len(cluster.scope.pending)
    if not waiting:
        return ScenarioVerdict(0, 0, by="nothing")
    active = rules.build(cluster)
    eligibility = possible(cluster, active)
    room_bound = _most(cluster, eligibility)
    if quick:
        built = construct(cluster, active, eligibility, context, even=even)
        answer = PlacedAnswer(built.counts, built.sequence, {0: room_bound}, "greedy")
    else:
        answer = PlacedSearch(Objective(cluster, active), active, eligibility, context).run()
        answer = answer.bounded(dict.fromkeys(answer.bounds, room_bound))
    verdict = verdict_of(cluster, answer, keys or [pod_key(pod) for pod in cluster.snapshot.pods])
    if room_bound < waiting:
        verdict.by = "bound"
    elif not verdict.pending:
        verdict.by = "search" if answer.engine == "greedy" else "solver"
    elif verdict.bound < waiting:
        verdict.by = "solver"
    return verdict


def _most(cluster: Cluster, eligibility: Ints) -> int:
    """Return an upper bound on returning pods from the total free room of each resource.

    For each resource, drop the largest requests until the rest fits on all usable nodes together.
    """
    could = fits(cluster, eligibility)
    usable = eligibility.any(axis=0)
    demand = demand_with_slots(cluster)
    room = np.maximum(room_with_slots(cluster)[usable], 0)
    total = int(could.sum())
    upper = total
    for r in range(demand.shape[1]):
        over = int(demand[:, r] @ could) - int(room[:, r].sum())
        gone = 0
        for g in np.argsort(-demand[:, r], kind="stable").tolist() if over > 0 else ():
            size = int(demand[g, r])
            here = min(int(could[g]), -(-over // size)) if over > 0 and size else 0
            gone, over = gone + here, over - here * size
        upper = min(upper, total - gone)
    return upper


def verdict_of(cluster: Cluster, answer: PlacedAnswer, keys: Sequence[str]) -> ScenarioVerdict:
    """Return an answer's verdict on the pods that must return."""
    placed, dealt = assignments_of(cluster, answer, keys)
    pending = sorted(i for g, cls in enumerate(cluster.classes) for i in cls.pods[dealt[g] :])
    bound = max(sum(answer.bounds.values()), len(placed))
    return ScenarioVerdict(len(cluster.scope.pending), bound, placed, [keys[i] for i in pending])
