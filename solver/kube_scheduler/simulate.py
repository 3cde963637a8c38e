"""Simulation of kube-scheduler: pending pods, one after the other in queue order, each to a node with the most points.

Source: https://github.com/kubernetes/kubernetes/blob/v1.36.2/pkg/scheduler/schedule_one.go (findNodesThatPassFilters, selectHost,
numFeasibleNodesToFind), plugins/queuesort/priority_sort.go and backend/cache/node_tree.go.

Pods that fit no node are tried again once all others were tried, as long as that places one. A pod that would preempt others stays
unplaced with the pods to be evicted: their room is free only when they are gone.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from kubestow.checker.placement import verify
from kubestow.checker.violation import insist
from kubestow.models.cluster.cluster import Ints
from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.disruption.pod_disruption_budgets import budgets
from kubestow.models.documents import placement as doc
from kubestow.models.kube.objects import pod_key
from kubestow.models.kube.selectors import Bools
from kubestow.models.scheduler.profiles import DEFAULT_PROFILE, Profile, profile_of
from kubestow.models.snapshot.scope import select
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.solver.kube_scheduler.cluster_state import ClusterState, message, priority_of
from kubestow.solver.kube_scheduler.preemption import Candidate, Preemption
from kubestow.solver.placed_steps import PlacedAnswer
from kubestow.solver.runtime.options import Options
from kubestow.solver.solve import document

ENGINE = "kube-scheduler"
#: Least number of nodes that are scored in a large cluster, and the least share of them in percent (schedule_one.go).
MIN_FEASIBLE_NODES = 100
MIN_FEASIBLE_PERCENT = 5
_ZONE_LABELS = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone")
#: Chooses among the nodes with the most points: the pod (index) and the nodes, int64.
Choice = Callable[[int, Ints], int]


@dataclass
class Outcome:
    """The end of a simulation.

    Attributes:
        placed: Pods and nodes in bind order, as indices.
        messages: kube-scheduler's message for each pod that stays, by index.
        preemptions: The node and the victims of each pod that would preempt others, by index.
    """

    placed: list[tuple[int, int]] = field(default_factory=list)
    messages: dict[int, str] = field(default_factory=dict)
    preemptions: dict[int, Candidate] = field(default_factory=dict)


class SchedulerQueue:
    """The pending pods of a snapshot under the scheduler's profiles.

    Args:
        profiles: Profiles by schedulerName. None: every pod has the default profile.
        choose: Chooses among the best nodes. None: at random from the seed of the options.
        is_apart: True if each pod comes only when the pods before it were tried, so that waiting pods are tried again in between.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        options: Options,
        profiles: Mapping[str, Profile] | None = None,
        *,
        choose: Choice | None = None,
        is_apart: bool = False,
    ) -> None:
        self.snapshot, self.options = snapshot, options
        self._profiles = profiles
        self.scope = select(snapshot, include_gated=options.include_gated)
        self._generator = random.Random(options.seed)
        self._choose = choose or (lambda _, best: int(best[self._generator.randrange(len(best))]))
        self._is_apart = is_apart
        self._states: dict[str, ClusterState] = {}
        self._preemption: dict[str, Preemption] = {}
        self._next_start = 0
        self._budgets = budgets(snapshot)
        self._needed: dict[int, int] = {}

    def run(self, stop: threading.Event | None = None) -> Outcome:
        """Place the pods one after the other."""
        outcome = Outcome()
        pods = self.snapshot.pods
        queue = sorted(self.scope.pending, key=lambda i: (-priority_of(pods[i]), pods[i].metadata.creationTimestamp or "", i))
        units = self._units(queue, outcome)
        waiting: list[tuple[int, ...]] = []
        for unit in units:
            if stop is not None and stop.is_set():
                break
            if not self._try_unit(unit, outcome):
                waiting.append(unit)
            elif self._is_apart:
                waiting = self._again(waiting, outcome)
        while len(rest := self._again(waiting, outcome)) < len(waiting):
            waiting = rest
        return outcome

    def _units(self, queue: Sequence[int], outcome: Outcome) -> list[tuple[int, ...]]:
        """Return the pods of the queue one by one, and the members of a gang together at the turn of the first."""
        profile = next(iter(self._profiles.values())) if self._profiles is not None else DEFAULT_PROFILE
        declared = self._state(profile, outcome).cluster
        gang_of = {i: k for k, gang in enumerate(declared.declared) for i in gang.pods}
        self._needed = {i: declared.gangs[k].needed for i, k in gang_of.items()}
        members: dict[int, list[int]] = {}
        for i in queue:
            members.setdefault(gang_of.get(i, -1 - i), []).append(i)
        return [tuple(unit) for unit in members.values()]

    def _again(self, waiting: Sequence[tuple[int, ...]], outcome: Outcome) -> list[tuple[int, ...]]:
        """Try the waiting pods once more, and return those that stay."""
        return [unit for unit in waiting if any(i in outcome.preemptions for i in unit) or not self._try_unit(unit, outcome)]

    def _try_unit(self, unit: tuple[int, ...], outcome: Outcome) -> bool:
        """Place a pod, or the members of a gang; fewer of them than the gang needs are taken back. Return True if all are placed."""
        before = len(outcome.placed)
        there = {i for i, _ in outcome.placed} if len(unit) > 1 else ()
        placed = [self._try(i, outcome) for i in unit if i not in there]
        needed = self._needed.get(unit[0], 1)
        if 0 < len(outcome.placed) - before < needed:
            while len(outcome.placed) > before:
                i, n = outcome.placed.pop()
                for state in self._states.values():
                    state.take(i, n)
                outcome.messages[i] = f"fewer than {needed} pods of its group fit"
            return False
        return all(placed)

    def _state(self, profile: Profile, outcome: Outcome) -> ClusterState:
        """Return the state under a profile, up to date."""
        if profile.name not in self._states:
            state = self._states[profile.name] = ClusterState(self.snapshot, self.scope, profile, self.options)
            self._preemption[profile.name] = Preemption(state, self._budgets)
            for i, n in outcome.placed:
                state.put(i, n)
        return self._states[profile.name]

    def _try(self, i: int, outcome: Outcome) -> bool:
        """Place pod i, or note why not. Return True if it is placed."""
        profile = profile_of(self.snapshot.pods[i], self._profiles)
        if profile is None:
            outcome.messages[i] = f"no profile has its schedulerName {self.snapshot.pods[i].spec.schedulerName}"
            return False
        state = self._state(profile, outcome)
        feasible = self._looked_at(state.feasible(i), profile.percentage)
        if feasible.any():
            n = self._best(i, state, feasible)
            for each in self._states.values():
                each.put(i, n)
            outcome.placed.append((i, n))
            outcome.messages.pop(i, None)
            return True
        refusals = state.refusals(i)
        candidate, ending = self._preemption[profile.name].find(i, refusals) if profile.preempts else (None, "")
        if profile.deallocates and ending:
            ending = f"no new claims to deallocate, {ending}"
        outcome.messages[i] = message(refusals, state.cluster.n_nodes, ending)
        if candidate is not None:
            outcome.preemptions[i] = candidate
        return False

    def _best(self, i: int, state: ClusterState, feasible: Bools) -> int:
        """Return the chosen node. A single feasible node is not scored."""
        nodes = np.flatnonzero(feasible)
        if len(nodes) == 1:
            return int(nodes[0])
        total = sum(state.points.of(state.class_of[i], feasible).values(), np.zeros(len(feasible), dtype=np.int64))
        best = nodes[total[nodes] == total[nodes].max()]
        return int(best[0]) if len(best) == 1 else self._choose(i, best)

    def _looked_at(self, feasible: Bools, percentage: int) -> Bools:
        """Return the feasible nodes that the scheduler finds before it stops looking, in the order of zones in turn."""
        n_nodes = len(feasible)
        percent = percentage or max(50 - n_nodes // 125, MIN_FEASIBLE_PERCENT)
        wanted = n_nodes if n_nodes < MIN_FEASIBLE_NODES else max(n_nodes * percent // 100, MIN_FEASIBLE_NODES)
        if wanted >= n_nodes:
            return feasible
        order = np.roll(self._node_order, -self._next_start)
        hits = np.cumsum(feasible[order])
        last = int(np.searchsorted(hits, wanted)) if hits[-1] >= wanted else n_nodes - 1
        self._next_start = (self._next_start + last + 1) % n_nodes
        found = np.zeros_like(feasible)
        found[order[: last + 1]] = True
        return found & feasible

    @cached_property
    def _node_order(self) -> Ints:
        """Return the nodes, int64[N]: one of each zone in turn (node_tree.go)."""
        zones: dict[tuple[str, ...], list[int]] = {}
        for n, node in enumerate(self.snapshot.nodes):
            labels = node.metadata.labels or {}
            zones.setdefault(tuple(labels.get(key, "") for key in _ZONE_LABELS), []).append(n)
        turns = [(turn, zone, n) for zone, members in enumerate(zones.values()) for turn, n in enumerate(members)]
        return np.array([n for _, _, n in sorted(turns)], dtype=np.int64)


def simulate(
    snapshot: Snapshot,
    options: Options,
    profiles: Mapping[str, Profile] | None = None,
    *,
    runs: int = 1,
    stop: threading.Event | None = None,
) -> doc.Placement:
    """Simulate kube-scheduler on the pending pods, and have the result checked.

    Args:
        profiles: Profiles by schedulerName. None: every pod has the default profile.
        runs: Number of simulations. The result is that of the first seed, with the different outcomes of all.
        stop: Ends the simulation where it is; the remaining pods stay unplaced.

    Raises:
        InternalFault: The independent checker found the result invalid.
    """
    queue = SchedulerQueue(snapshot, options, profiles)
    outcome = queue.run(stop)
    result = _document(queue, outcome)
    if runs > 1:
        result.outcomes = _outcomes(snapshot, options, profiles, outcome, runs, stop)
    insist(verify(snapshot, result))
    return result


def _outcomes(
    snapshot: Snapshot, options: Options, profiles: Mapping[str, Profile] | None, first: Outcome, runs: int, stop: threading.Event | None
) -> list[doc.SimulatedOutcome]:
    """Return the different outcomes of several seeds, the most frequent first."""
    pending = select(snapshot, include_gated=options.include_gated).pending
    found: dict[frozenset[tuple[int, int]], doc.SimulatedOutcome] = {}
    for seed in range(options.seed, options.seed + runs):
        if stop is not None and stop.is_set():
            break
        again = first if seed == options.seed else SchedulerQueue(snapshot, replace(options, seed=seed), profiles).run(stop)
        key = frozenset(again.placed)
        if key not in found:
            placed = {i for i, _ in again.placed}
            stay = [pod_key(snapshot.pods[i]) for i in pending if i not in placed]
            found[key] = doc.SimulatedOutcome(0, seed, len(placed), stay)
        found[key].times += 1
    return sorted(found.values(), key=lambda outcome: (-outcome.times, outcome.seed))


def _document(queue: SchedulerQueue, outcome: Outcome) -> doc.Placement:
    """Return the outcome as a Placement."""
    snapshot, options = queue.snapshot, queue.options
    scope = queue.scope
    cluster = compile_cluster(snapshot, scope, daemon_namespaces=options.exempt, policy=options.policy)
    class_of = {i: g for g, cls in enumerate(cluster.classes) for i in cls.pods}
    turn = {i: number for number, (i, _) in enumerate(outcome.placed)}
    for cls in cluster.classes:  # assignments are dealt to the pods of a class in this order
        cls.pods.sort(key=lambda i: (turn.get(i, len(turn)), i))
    counts = np.zeros((cluster.n_classes, cluster.n_nodes), dtype=np.int64)
    for i, n in outcome.placed:
        counts[class_of[i], n] += 1
    sequence = [(class_of[i], n, 1) for i, n in outcome.placed]
    bounds = cluster.per_priority(cluster.count)
    answer = PlacedAnswer(counts, sequence, bounds, ENGINE)
    result = document(cluster, options, answer)
    messages = {pod_key(snapshot.pods[i]): text for i, text in outcome.messages.items()}
    preemptions = {pod_key(snapshot.pods[i]): candidate for i, candidate in outcome.preemptions.items()}
    for entry in result.unplaced:
        entry.schedulerMessage = messages.get(entry.pod)
        if (candidate := preemptions.get(entry.pod)) is not None:
            victims = [pod_key(snapshot.pods[j]) for j in candidate.victims]
            entry.preemption = doc.Preemption(cluster.nodes.names[candidate.node], victims)
    return result
