"""The exhaustive search over courses of a rollout, until one completes or it is proved that none does."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import msgspec

from kubestow.models.cluster.cluster import Cluster
from kubestow.solver.rollout.state import Binds, RolloutCourse, RolloutProblem, RolloutState, RolloutStep
from kubestow.solver.runtime.run_context import RunContext

#: Deterministic seconds charged for each state.
SECONDS_PER_STATE = 0.0002
_ENCODER = msgspec.json.Encoder(order="deterministic")


def node_classes(problem: RolloutProblem, cluster: Cluster) -> list[int]:
    """Return a number for each node, equal for nodes that are interchangeable for new pods, apart from the Deployment's pods on them.

    Such nodes are equal except for their names, all selectors treat them equally, and equal pods run on them.
    """
    nodes = problem.snapshot.nodes
    if cluster.trees or any(cls.claims for cls in cluster.classes):  # volumes and zones distinguish nodes by name
        return list(range(len(nodes)))
    here: dict[str, list[bytes]] = {}
    for i in problem.others:
        pod = problem.snapshot.pods[i]
        spec, going = msgspec.structs.replace(pod.spec, nodeName=None), bool(pod.metadata.deletionTimestamp)
        part = (pod.metadata.namespace, pod.metadata.labels, spec, pod.status, going)
        here.setdefault(pod.spec.nodeName or "", []).append(_ENCODER.encode(part))
    shared = Counter(label for node in nodes for label in (node.metadata.labels or {}).items())
    numbers: dict[object, int] = {}
    classes = []
    for n, node in enumerate(nodes):
        name = node.metadata.name or ""
        labels = sorted((k, None if v == name and shared[k, v] == 1 else v) for k, v in (node.metadata.labels or {}).items())
        chosen = tuple(bool(mask[n]) for mask in cluster.node_sets)
        content = (_ENCODER.encode((labels, node.spec, node.status)), chosen, tuple(sorted(here.get(name, ()))))
        classes.append(numbers.setdefault(content, len(numbers)))
    return classes


_Event = tuple[str, int, tuple[int, ...]]  # what, new pod or number, node or old pods


class RolloutExplorer:
    """A depth-first search over every way to place the waiting pods of each wave one by one until no further pod fits.

    It remembers the states seen. The controller's steps are deterministic.
    """

    def __init__(self, problem: RolloutProblem, cluster: Cluster, fallback: RolloutCourse, states: int, context: RunContext) -> None:
        """Start a search.

        Args:
            fallback: The best course so far.
            states: Maximum number of states to visit.
        """
        self.problem, self.best, self.states, self.context = problem, fallback, states, context
        self.state = RolloutState(problem, cluster)
        self.events: list[_Event] = []
        self.seen: set[tuple[object, ...]] = set()
        self.most_placed = 0
        self.node_classes = node_classes(problem, cluster)

    def run(self) -> RolloutCourse:
        self._create()
        stack = [(0, self._settle())]
        while stack:
            if self.state.complete:
                return self._course(complete=True)
            mark, choices = stack[-1]
            if not choices:
                stack.pop()
                self._back(mark)
                continue
            if len(self.seen) > self.states or self.context.over():
                return replace(self.best, proved=False)
            mark = len(self.events)
            i, n = choices.pop()
            self.state.bind(i, n)
            self.events.append(("bind", i, (n,)))
            stack.append((mark, self._settle()))
        return replace(self.best, proved=True, bound=self.most_placed)

    def _settle(self) -> Binds:
        """Continue until there is a choice. Return no choices if the rollout is complete, halted, or in a known state."""
        while True:
            key = self.state.key()
            if key in self.seen:
                return []
            self.seen.add(key)
            self.context.deadline.charge(SECONDS_PER_STATE)
            choices = [(i, n) for i in self.state.heads() for n in self.state.accepted(i).tolist()]
            if choices:
                levels = {self.state.kind(i): self.state.level(i) for i, _ in choices}
                return sorted(self._distinct(choices), key=lambda c: -int(levels[self.state.kind(c[0])][c[1]]))
            doomed = self.state.doomed()
            self.state.delete(doomed)
            self.events.append(("delete", 0, tuple(doomed)))
            if self.state.complete:
                return []
            if not self._create() and not doomed:
                self._halt()
                return []

    def _distinct(self, choices: Binds) -> Binds:
        """Return the choices with only the first of equivalent nodes, which also hold the same old and new pods."""
        there = self.state.contents()
        first: dict[tuple[object, ...], tuple[int, int]] = {}
        for i, n in choices:
            first.setdefault((self.state.kind(i), self.node_classes[n], tuple(there.get(n, ()))), (i, n))
        return list(first.values())

    def _create(self) -> int:
        made = self.state.create()
        self.events.append(("create", made, ()))
        return made

    def _back(self, mark: int) -> None:
        while len(self.events) > mark:
            what, number, places = self.events.pop()
            if what == "bind":
                self.state.unbind(number)
            elif what == "delete":
                self.state.undelete(places)
            else:
                self.state.uncreate(number)

    def _halt(self) -> None:
        self.most_placed = max(self.most_placed, len(self.state.placed))
        if len(self.state.placed) > self.best.placed:
            self.best = self._course(complete=False)

    def _course(self, *, complete: bool) -> RolloutCourse:
        steps: list[RolloutStep] = []
        binds: Binds = []
        created, done, made = 0, 0, 0
        for what, number, places in self.events:
            if what == "create":
                created, made = created + number, number
            elif what == "bind":
                binds.append((number, places[0]))
            else:
                placed = {i for step in steps for i, _ in step.binds} | {i for i, _ in binds}
                if made or binds or places:
                    steps.append(RolloutStep(binds, [i for i in range(created) if i not in placed], list(places)))
                done, binds, made = len(placed), [], 0
        return RolloutCourse(steps, complete, done, complete, self.problem.pace.replicas)
