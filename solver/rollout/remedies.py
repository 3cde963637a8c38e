"""The smallest single changes with which a halted rollout completes, each proved by simulating it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from kubestow.models.cluster.rollout_admission import arguments, sentence, with_quotas
from kubestow.models.documents.placement import Remedy
from kubestow.models.edits import nodes
from kubestow.models.kube import objects
from kubestow.models.kube.selectors import taints_key
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.models.workloads.deployment_rollout import Old, Pace
from kubestow.solver.explain.remedy.apply import POD_CHANGES
from kubestow.solver.rollout import quota_flow
from kubestow.solver.rollout.search import RolloutSearch
from kubestow.solver.rollout.state import RolloutProblem
from kubestow.solver.rules.remedies import text
from kubestow.solver.runtime.run_context import RunContext

#: Maximum number of node kinds that are tried.
MAX_KINDS: Final = 6
#: Maximum number of nodes of one kind that are added.
MAX_ADDED_NODES: Final = 16
#: Maximum number of states of the exhaustive part for one change.
MAX_STATES: Final = 2_000


@dataclass
class RolloutRemedies:
    """The search for remedies of one rollout.

    Attributes:
        problem: The rollout that halted.
        workload: ``namespace/name`` of the Deployment.
        paced: Returns its strategy for a number of replicas.
    """

    problem: RolloutProblem
    context: RunContext
    workload: str
    paced: Callable[[int], Pace]

    def find(self) -> list[Remedy]:
        """Return remedies, first those that change no rules and cost no capacity. On timeout, return those found so far."""
        kinds = (self._surge, self._unavailable, self._quotas, self._preferred, self._nodes, self._replicas, self._recreate)
        return [remedy for kind in kinds for remedy in kind(self.problem)]

    def _completes(self, problem: RolloutProblem) -> bool:
        return not self.context.over() and RolloutSearch(problem, self.context, MAX_STATES, brief=True).run().complete

    # --- strategy -------------------------------------------------------------------------------------------------------------

    def _surge(self, problem: RolloutProblem) -> list[Remedy]:
        return self._paced("maxSurge", problem.pace.surge, lambda n: replace(problem, pace=replace(problem.pace, surge=n)))

    def _unavailable(self, problem: RolloutProblem) -> list[Remedy]:
        pace = problem.pace
        return self._paced("maxUnavailable", pace.unavailable, lambda n: replace(problem, pace=replace(pace, unavailable=n)))

    def _paced(self, field: str, before: int, changed: Callable[[int], RolloutProblem]) -> list[Remedy]:
        """Return a remedy with the smallest larger value of a strategy field with which the rollout completes.

        Args:
            field: Name of the field.
            before: Its present value.
            changed: Returns the problem with another value.
        """
        pace = self.problem.pace
        number = None if pace.recreate else least(before + 1, pace.replicas, lambda n: self._completes(changed(n)))
        return [] if number is None else [Remedy(field, f"{field} {number} instead of {before}", {"to": str(number)})]

    def _recreate(self, problem: RolloutProblem) -> list[Remedy]:
        replicas = problem.pace.replicas
        if problem.pace.recreate or not self._completes(replace(problem, pace=Pace(replicas, 0, replicas, recreate=True))):
            return []
        return [Remedy("strategy", "strategy Recreate: all old pods leave before the first new one is created", {"to": "Recreate"})]

    # --- quotas -----------------------------------------------------------------------------------------------------------------

    def _quotas(self, problem: RolloutProblem) -> list[Remedy]:
        """Return one remedy that raises all quotas by the missing amounts, if the rollout then completes."""
        raised = quota_flow.raised(problem.admission, problem.pace, problem.old)
        if not raised or not self._completes(replace(problem, snapshot=with_quotas(problem.snapshot, raised))):
            return []
        return [Remedy("raiseQuota", sentence(problem.snapshot, raised), arguments(raised))]

    # --- rules of the template --------------------------------------------------------------------------------------------------

    def _preferred(self, problem: RolloutProblem) -> list[Remedy]:
        remedies: list[Remedy] = []
        if not problem.new:
            return remedies
        for remedy in relaxations(problem.snapshot.pods[problem.new[0]].spec):
            pods = list(problem.snapshot.pods)
            for i in problem.new:
                pods[i] = POD_CHANGES[remedy.change].edit(pods[i], remedy.arguments)
            if self._completes(replace(problem, snapshot=replace(problem.snapshot, pods=pods))):
                remedies.append(remedy)
        return remedies

    # --- capacity -------------------------------------------------------------------------------------------------------------

    def _nodes(self, problem: RolloutProblem) -> list[Remedy]:
        """Return remedies that add nodes, one for each existing kind of node that needs the fewest."""
        best: list[tuple[int, str]] = []
        for like in kinds_of_nodes(problem.snapshot):
            limit = min([problem.pace.replicas, MAX_ADDED_NODES, *(number for number, _ in best)])

            def works(number: int, like: objects.Node = like) -> bool:
                return self._completes(with_nodes(problem, like, number))

            number = least(1, limit, works)
            if number is not None:
                best = [entry for entry in best if entry[0] <= number] + [(number, like.metadata.name or "")]
        return [
            Remedy(
                "addNodes", f"{number} more node{'s' * (number > 1)} like {like}", {"count": str(number), "like": like},
                ["--add-nodes", f"{number}:{like}"],
            )
            for number, like in best
        ]  # fmt: skip

    def _replicas(self, problem: RolloutProblem) -> list[Remedy]:
        """Return a remedy with the largest smaller number of replicas that completes, with old pods scaled down first."""
        replicas = problem.pace.replicas

        def works(fewer: int) -> bool:
            number = replicas - fewer
            kept = _scaled_down(problem, number)
            scaled_down = [entry.index for entry in problem.old if entry not in kept]
            gone = (*problem.gone, *problem.new[number:], *scaled_down)
            return self._completes(replace(problem, pace=self.paced(number), old=kept, new=problem.new[:number], gone=gone))

        fewer = least(1, replicas - 1, works)
        if fewer is None:
            return []
        number = replicas - fewer
        arguments = {"workload": f"Deployment {self.workload}", "to": str(number)}
        message = f"{number} replica{'s' * (number > 1)} instead of {replicas}"
        return [Remedy("reduceReplicas", message, arguments, ["--replicas", f"Deployment/{self.workload}={number}"])]


def least(low: int, high: int, works: Callable[[int], bool]) -> int | None:
    """Return a number from ``low`` to ``high`` that works while its predecessor does not (or is below ``low``).

    Return None if neither end works. The search is a bisection, so a smaller number may work if works is not monotone.
    """
    if low > high:
        return None
    if works(low):
        return low
    if low == high or not works(high):
        return None
    while high - low > 1:  # low fails, high works
        middle = (low + high) // 2
        if works(middle):
            high = middle
        else:
            low = middle
    return high


def _scaled_down(problem: RolloutProblem, number: int) -> tuple[Old, ...]:
    """Return the old pods that remain when the Deployment is first scaled down to ``number`` replicas."""
    on: dict[str | None, int] = {}
    for entry in problem.old:
        on[entry.node] = on.get(entry.node, 0) + 1
    ranked = sorted(problem.old, key=lambda e: (e.before, -on[e.node], e.after))
    gone = set(ranked[: max(0, len(ranked) - number)])
    return tuple(entry for entry in problem.old if entry not in gone)


def relaxations(spec: objects.PodSpec) -> Iterator[Remedy]:
    """Yield each required anti-affinity term and each DoNotSchedule constraint, made preferred."""
    anti = spec.affinity.podAntiAffinity if spec.affinity is not None else None
    for field in ("requiredDuringSchedulingIgnoredDuringExecution", "requiredDuringSchedulingRequiredDuringExecution"):
        for term in (getattr(anti, field) if anti is not None else None) or ():
            message = f"the template's anti-affinity over {term.topologyKey} preferred instead of required"
            yield Remedy("preferTerm", message, {"kind": "podAntiAffinity", "term": text(term)})
    for constraint in spec.topologySpreadConstraints or ():
        if constraint.whenUnsatisfiable == "DoNotSchedule":
            message = f"the template's spread constraint over {constraint.topologyKey} ScheduleAnyway instead of DoNotSchedule"
            yield Remedy("scheduleAnyway", message, {"constraint": text(constraint)})


def kinds_of_nodes(snapshot: Snapshot) -> list[objects.Node]:
    """Return the first node of each kind: equal taints, size and labels, except labels with its name."""
    nodes: dict[bytes, objects.Node] = {}
    for node in snapshot.nodes:
        labels = {k: v for k, v in (node.metadata.labels or {}).items() if v != node.metadata.name}
        taints = taints_key((node.spec.taints if node.spec is not None else None) or ())
        nodes.setdefault(msgspec.json.encode([labels, taints, node.status], order="deterministic"), node)
    return list(nodes.values())[:MAX_KINDS]


def with_nodes(problem: RolloutProblem, like: objects.Node, number: int) -> RolloutProblem:
    """Return the problem with more nodes like one of its own, including the pods that run on every such node."""
    edited = problem.snapshot.copy()
    before = len(edited.pods)
    nodes.add(edited, problem.snapshot, like, number)
    return replace(problem, snapshot=edited, others=(*problem.others, *range(before, len(edited.pods))))
