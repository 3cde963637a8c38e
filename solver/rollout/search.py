"""The search for a course of a rollout: wave by wave towards a final placement, then all courses if that halts."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

import msgspec
import numpy as np

from kubestow.models.cluster.cluster import Cluster
from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.kube import objects
from kubestow.models.snapshot.scope import Scope
from kubestow.solver import rules
from kubestow.solver.bind_order.order import find_order
from kubestow.solver.cpsat.run import CpSat
from kubestow.solver.ortools import cp_model
from kubestow.solver.rollout import quota_flow
from kubestow.solver.rollout.exhaustive import RolloutExplorer
from kubestow.solver.rollout.state import Binds, RolloutCourse, RolloutProblem, RolloutState, RolloutStep, compiled, ungrouped
from kubestow.solver.rules.placement_model import build_model
from kubestow.solver.runtime.run_context import RunContext

#: Maximum number of assignments without a bind order to cut off before a packing is given up.
MAX_CUTS = 20
#: Maximum number of states of a rollout to visit.
MAX_STATES = 20_000
#: The same if it is proved that no course completes, because its progress matters less.
MAX_HOPELESS_STATES = 2_000
#: Fraction of the remaining time for one packing.
PACKING_TIME_FRACTION = 0.25
#: Weight of a placed pod, which exceeds any number of preferred nodes.
PLACED_WEIGHT = 1_000_000


@dataclass
class RolloutPacking:
    """The result of a packing.

    Attributes:
        binds: The largest number of pods found, with their nodes.
        proved: True if it is proved that no more can be placed.
    """

    binds: Binds
    proved: bool


@dataclass
class RolloutSearch:
    """The search for one rollout.

    Attributes:
        states: Maximum number of states of the exhaustive part.
        brief: True if the progress of an incomplete rollout does not matter.
    """

    problem: RolloutProblem
    context: RunContext
    states: int = MAX_STATES
    brief: bool = False
    cluster: Cluster = field(init=False)

    def __post_init__(self) -> None:
        self.cluster = compiled(self.problem)

    def run(self) -> RolloutCourse:
        """Return the first course that completes, or the one that places the most pods."""
        course = self._course()
        if not course.complete and self.zones_held():
            return replace(course, proved=False, bound=self.problem.pace.replicas)
        return course

    def zones_held(self) -> bool:
        """Return True if old pods run where the kubelet aligns NUMA zones.

        Which zones they release is unknown, so their zones count as taken.
        """
        names = {name: n for n, name in enumerate(self.cluster.nodes.names)}
        nodes = (names.get(entry.node or "", -1) for entry in self.problem.old)
        return any(self.cluster.trees[n].rejects for n in nodes if n in self.cluster.trees)

    def _course(self) -> RolloutCourse:
        state = RolloutState(self.problem, self.cluster)
        course = self._guided(state)
        if course.complete or self.context.over():
            return course
        hopeless = self._hopeless()
        if hopeless and self.brief:
            return replace(course, proved=True)
        states = min(self.states, MAX_HOPELESS_STATES) if hopeless else self.states
        explored = RolloutExplorer(self.problem, self.cluster, course, states, self.context).run()
        if hopeless:
            explored.proved, explored.bound = True, min(explored.bound, self.problem.pace.replicas - 1)
        return explored

    # --- towards a final placement ------------------------------------------------------------------------------------------

    def _guided(self, state: RolloutState) -> RolloutCourse:
        steps: list[RolloutStep] = []
        target: dict[int, int] = {}
        known = False
        while not state.complete and not self.context.stop.is_set():
            made = state.create()
            before = dict(state.placed)
            if state.waiting() and not known and any(len(state.accepted(i)) for i in state.heads()):
                target, known = self._target(state), True
            binds = self._fill(state, target)
            for _, n in binds:
                if target.get(n, 0):
                    target[n] -= 1
                else:
                    known = False  # off the plan: make a new one
            doomed = state.doomed()
            waiting = state.waiting()
            state.delete(doomed)
            if made or doomed or len(state.placed) > len(before):
                steps.append(RolloutStep(binds, waiting, doomed))
            else:
                break
        return RolloutCourse(steps, state.complete, len(state.placed), state.complete, self.problem.pace.replicas)

    def _target(self, state: RolloutState) -> dict[int, int]:
        """Return the number of new pods still to come on each node: one packing of these pods with all old pods gone.

        Nodes that accept pods now are preferred.
        """
        coming = [i for i in range(len(self.problem.new)) if i not in state.placed]
        now = {n for i in state.heads() for n in state.accepted(i).tolist()}
        counts: dict[int, int] = {}
        for _, n in self.pack(state, coming, with_old=False, prefer=now).binds:
            counts[n] = counts.get(n, 0) + 1
        return counts

    def _fill(self, state: RolloutState, target: dict[int, int]) -> Binds:
        """Bind waiting pods greedily, or by a packing if that places more. Return (pod, node) of each.

        Args:
            target: Number of pods to come on each node; these nodes are preferred.
        """
        room = state.room()
        binds = self._greedy(state, dict(target))
        if not state.waiting() or len(binds) in (0, room) or self.context.over():
            return binds
        for i, _ in reversed(binds):
            state.unbind(i)
        packing = self.pack(state, state.waiting(), with_old=True, prefer={n for n, k in target.items() if k})
        chosen = packing.binds if len(packing.binds) > len(binds) else binds
        done: Binds = []
        for i, n in chosen:
            if n in state.accepted(i):
                state.bind(i, n)
                done.append((i, n))
        return done + self._greedy(state, {})

    def _greedy(self, state: RolloutState, wanted: dict[int, int]) -> Binds:
        binds: Binds = []
        while True:
            candidates = [(i, n) for i in state.heads() for n in state.accepted(i).tolist()]
            if not candidates:
                return binds
            levels = {state.kind(i): state.level(i) for i, _ in candidates}
            i, n = min(candidates, key=lambda c: (wanted.get(c[1], 0) <= 0, levels[state.kind(c[0])][c[1]], c[0], c[1]))
            state.bind(i, n)
            binds.append((i, n))
            wanted[n] = wanted.get(n, 0) - 1

    # --- exact packings -----------------------------------------------------------------------------------------------------

    def pack(
        self, state: RolloutState, wanted: Sequence[int], *, with_old: bool, prefer: Collection[int] = (), lenient: bool = False
    ) -> RolloutPacking:
        """Place as many of some new pods as possible in addition to those already placed. The state is unchanged.

        Args:
            wanted: Indices of the new pods to place.
            with_old: True if the remaining old pods are present.
            prefer: Preferred nodes.
            lenient: True to ignore required affinity and spread.
        """
        cluster = self._frozen(state, wanted, with_old=with_old)
        if lenient:
            cluster = replace(cluster, classes=[replace(c, affinity=None, spread=()) for c in cluster.classes])
        if not cluster.n_nodes:
            return RolloutPacking([], proved=True)
        encoding = build_model(cluster, rules.build(cluster))
        variables, weights = [], []
        for (_, n), variable in encoding.x.items():
            variables.append(variable)
            weights.append(PLACED_WEIGHT + (n in prefer))
        encoding.model.maximize(encoding.weighted_sum(variables, weights))
        cpsat, sure = CpSat(self.context), True
        for _ in range(MAX_CUTS):
            answer = cpsat.run(encoding.model, self.context.deadline.remaining() * PACKING_TIME_FRACTION)
            if answer.solution is None:
                return RolloutPacking([], proved=False)
            counts = encoding.counts(answer.solution)
            order = find_order(cluster, counts, seed=self.context.options.seed)
            if order.sequence is not None:
                places = {i: k for k, i in enumerate(self.problem.new)}
                pods = [list(cls.pods) for cls in cluster.classes]
                binds = [(places[pods[g].pop(0)], n) for g, n, number in order.sequence for _ in range(number)]
                return RolloutPacking(binds, proved=sure and answer.status == cp_model.OPTIMAL)
            sure &= order.exhausted
            encoding.forbid(counts, order.stuck, order.node)
        return RolloutPacking([], proved=False)

    def _frozen(self, state: RolloutState, wanted: Sequence[int], *, with_old: bool) -> Cluster:
        """Return the instance of one moment: pods placed so far are bound, ``wanted`` are to be placed."""
        problem, pods = self.problem, list(self.problem.snapshot.pods)
        names = self.cluster.nodes.names
        known = set(names)
        for i, n in state.placed.items():
            pods[problem.new[i]] = bound(pods[problem.new[i]], names[n])
        fixed = [*problem.others, *(problem.new[i] for i in state.placed)]
        if with_old:
            fixed += [problem.old[k].index for k in state.alive if problem.old[k].node in known]
        scope = Scope(fixed=sorted(fixed), pending=[problem.new[i] for i in wanted])
        snapshot = replace(problem.snapshot, pods=pods)
        return ungrouped(compile_cluster(snapshot, scope, daemon_namespaces=problem.exempt, policy=problem.policy))

    def _hopeless(self) -> bool:
        """Return True if it is proved that the new pods do not fit into the cluster even without the old ones.

        Old pods help new ones only if required affinity or spread selects them; then these rules are ignored.
        If it does not matter to quotas which old pods leave, quotas are checked as if every new pod had a
        node at once.
        """
        problem, state = self.problem, RolloutState(self.problem, self.cluster)
        if problem.admission.uniform and quota_flow.halts(problem.admission, problem.pace, problem.old):
            return True
        old = {entry.index for entry in problem.old}
        helping = np.array([not old.isdisjoint(cls.pods) for cls in self.cluster.classes])
        new = [cls for cls in self.cluster.classes if old.isdisjoint(cls.pods)]
        read = {s.matcher for cls in new for s in cls.spread if s.matcher is not None} | {c.affinity.full for c in new if c.affinity}
        lenient = any((self.cluster.matches(m) & helping).any() for m in read)
        packing = self.pack(state, range(len(problem.new)), with_old=False, lenient=lenient)
        return packing.proved and len(packing.binds) < problem.pace.replicas


def bound(pod: objects.Pod, node: str) -> objects.Pod:
    """Return the pod as it is when it runs on a node."""
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, nodeName=node), status=objects.PodStatus(phase="Running"))
