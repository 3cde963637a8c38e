"""The worst ends of one rollout as parts of its document, each replayed under every rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kubestow.models.cluster.cluster import Cluster
from kubestow.models.documents import placement as doc
from kubestow.models.kube.objects import TopologySpreadConstraint, pod_key
from kubestow.models.workloads.ownership import HASH
from kubestow.solver.rollout.state import RolloutProblem, RolloutState
from kubestow.solver.rollout.worst_end.ends import SpreadEnd, WorstEnds
from kubestow.solver.rollout.worst_end.reader import Place, RolloutReader, RolloutStart, may_refuse
from kubestow.solver.rules.remedies import text
from kubestow.solver.runtime.run_context import RunContext

#: Deterministic seconds charged for each state.
SECONDS_PER_STATE: Final = 0.0005


def worst_ends(problem: RolloutProblem, cluster: Cluster, context: RunContext) -> list[doc.WorstEnd]:
    """Return the worst ends of a rollout that completes.

    Args:
        cluster: The compiled cluster of the problem.

    Raises:
        InputError: The cluster cannot be compiled.
    """
    if not problem.new or not problem.old or problem.pace.recreate:
        return []
    new = problem.snapshot.pods[problem.new[0]]
    if not new.spec.topologySpreadConstraints:
        return []

    def over() -> bool:
        context.deadline.charge(SECONDS_PER_STATE)
        return context.over()

    limited = may_refuse(problem.admission, problem.pace, len(problem.old))
    start = RolloutStart(problem.pace, problem.old, new, limited)
    reader = RolloutReader(problem.snapshot, [start], problem.others, problem.policy, problem.exempt)
    ends = WorstEnds(reader, over=over).of(0)
    return [_document(problem, cluster, end, new.spec.topologySpreadConstraints) for end in ends]


def _document(problem: RolloutProblem, cluster: Cluster, end: SpreadEnd, constraints: Sequence[TopologySpreadConstraint]) -> doc.WorstEnd:
    index = next(i for i, c in enumerate(constraints) if (c.topologyKey, c.whenUnsatisfiable) == (end.key, end.when))
    waves = [] if end.skew is None else _Replay(problem, cluster, end).waves()
    skew = end.skew if waves else None  # a rule beyond nodes and spread forbids the course
    ways = []
    if end.skew is not None and end.skew > end.max_skew and end.remedied is not None and end.remedied < end.skew:
        message = f"matchLabelKeys: [{HASH}] in every spread constraint of the template: the skew is at most {end.remedied}"
        ways.append(doc.Remedy("matchLabelKeys", message, {"constraint": text(constraints[index]), "to": HASH}))
    return doc.WorstEnd(
        constraint=f"spec.template.spec.topologySpreadConstraints[{index}]",
        topologyKey=end.key,
        whenUnsatisfiable=end.when,
        maxSkew=end.max_skew,
        skew=skew,
        bound=end.bound,
        counts=end.counts if skew is not None else {},
        waves=waves,
        waysOut=ways,
    )


class _Replay:
    """The replay of a course on the state that judges every rule."""

    def __init__(self, problem: RolloutProblem, cluster: Cluster, end: SpreadEnd) -> None:
        self.problem, self.cluster, self.end = problem, cluster, end
        self.state = RolloutState(problem, cluster)
        self.old: dict[tuple[Place, int], list[int]] = {}
        nodes = {name: n for n, name in enumerate(cluster.nodes.names)}
        for k, (entry, kind) in enumerate(zip(problem.old, end.numbers.kinds, strict=True)):
            self.old.setdefault((nodes.get(entry.node or "", entry.node or ""), kind), []).append(k)

    def waves(self) -> list[doc.Wave]:
        """Return the waves of the course, or an empty list if a rule forbids a step."""
        problem, state, places = self.problem, self.state, self.end.numbers.places
        keys = [pod_key(problem.snapshot.pods[i]) for i in problem.new]
        waves: list[doc.Wave] = []
        create: list[doc.RolloutPod] = []
        order = 0
        for step in self.end.course:
            state.create()
            if isinstance(step, int):
                n = places[step]
                if order >= state.created or not isinstance(n, int) or n not in state.accepted(order):
                    return []
                state.bind(order, n)
                order += 1
                create.append(doc.RolloutPod(keys[order - 1], self.cluster.nodes.names[n], order))
                continue
            waiting = [keys[i] for i in state.waiting()]
            gone = [self.old[places[n], kind].pop(0) for n, kind in step]
            state.delete(gone)
            if state.unattached():
                return []
            waves.append(doc.Wave(len(waves) + 1, create, waiting, [problem.old[k].key for k in gone]))
            create = []
        if create:
            waves.append(doc.Wave(len(waves) + 1, create, [], []))
        return waves if state.complete else []
