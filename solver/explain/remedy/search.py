"""The search for the cheapest changes after which unplaceable pods can be placed, each proved by solving the changed objects.

Changes are tried in order of cost for an operator, by rank, then by size: docs/algorithms/causes.md lists the ranks.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from kubestow.models.cluster.cluster import Cluster
from kubestow.models.documents.placement import Remedy
from kubestow.models.kube.lenient_decode import some
from kubestow.models.kube.objects import pod_key
from kubestow.models.kube.pod_spec import preempts_never
from kubestow.solver import rules as scheduling_rules
from kubestow.solver.explain.conflict.placement_question import PlacementQuestion
from kubestow.solver.explain.remedy import add_nodes, buy_nodes, fewer_pods, preempt, raise_quotas
from kubestow.solver.explain.remedy.apply import applied
from kubestow.solver.explain.remedy.relax_rules import ideas
from kubestow.solver.explain.remedy.smallest_working import least
from kubestow.solver.explain.remedy.time_slices import TimeSlices
from kubestow.solver.explain.remedy.victims import moves
from kubestow.solver.rules.base import Rule
from kubestow.solver.rules.remedies import LOWER_REQUEST, Idea, Number
from kubestow.solver.runtime.run_context import RunContext

__all__ = ["applied", "find_remedies", "search_remedies"]

#: The command that carries moves out.
REBALANCE = "kubestow rebalance --goal admit"
#: The name of kube-scheduler in pods.
_SCHEDULER = "default-scheduler"
#: Fraction of the whole time for one query.
_QUERY_TIME_FRACTION = 0.1
#: Fraction of the whole time for adding nodes.
_ADD_NODES_TIME_FRACTION = 0.4
#: Fraction of the whole time for evictions.
_EVICTION_TIME_FRACTION = 0.4
#: Fraction of the whole time for fewer pods, each for replicas and for members of a gang.
_FEWER_PODS_TIME_FRACTION = 0.2
#: Maximum number of moves that are tried if nothing else works, or only a lower request.
_MAX_MOVES = 20
#: Maximum number of moves that are tried if another change works.
_MAX_MOVES_BESIDE = 3


def find_remedies(
    question: PlacementQuestion,
    rules: Collection[str],
    context: RunContext,
    *,
    limit: int = 5,
) -> list[Remedy]:
    """Return up to ``limit`` changes, the cheapest first, each of which alone makes it possible to place the pods.

    Numbers (maxSkew, nodes, evicted pods) are the smallest that work, and the number of remaining pods is the
    largest. Otherwise argument ``least`` or ``most`` is ``unproved``.

    Args:
        rules: Scheduler plugins of a minimal cause. Only changes that touch one of these are tried; if empty,
            all changes are.
        context: Its deadline is for all queries. Changes that are not decided within the fraction of one
            query are left out.
    """
    return search_remedies(question, rules, context, limit=limit).remedies


def search_remedies(question: PlacementQuestion, rules: Collection[str], context: RunContext, *, limit: int = 5) -> RemedySearch:
    """Return the changes of :func:`find_remedies`, and the kinds of changes of which not all were tried."""
    search = RemedySearch(question, frozenset(rules), TimeSlices(context, context.deadline.remaining()), limit)
    search.run()
    del search.remedies[limit:]
    return search


@dataclass
class RemedySearch:
    """A search for remedies.

    Attributes:
        remedies: The changes that work, the cheapest first.
        untried: Kinds of changes of which not all were tried, and none works, because the time or a limit was reached.
    """

    question: PlacementQuestion
    rules: frozenset[str]
    clock: TimeSlices
    limit: int
    remedies: list[Remedy] = field(default_factory=list)
    untried: list[str] = field(default_factory=list)

    def run(self) -> None:
        cluster = self.question.cluster()
        if not cluster.n_nodes:
            self._stage("more nodes", self._bought())
        if not cluster.n_nodes or not cluster.n_classes:
            return
        for kind, stage in (
            ("corrections", self._corrected),
            ("larger quotas", self._nudged),
            ("changes of nodes", self._restored),
            ("more nodes", self._grown),
            ("evictions", self._freed),
            ("fewer pods and smaller requests", self._fewer),
            ("a larger maxSkew", self._raised),
            ("rules dropped", self._dropped),
        ):
            if self._stage(kind, stage(cluster)):
                return
        self._stage("moves of running pods", self._moved())
        if not self.remedies:
            self._stage("two changes together", self._pairs(cluster))

    def _stage(self, kind: str, found: Iterable[Remedy]) -> bool:
        """Collect the remedies of a kind, and note the kind if queries stay open and none works. Return True if the limit is reached."""
        opened, known = self.clock.open_queries, len(self.remedies)
        for remedy in found:
            self.remedies.append(remedy)
            if len(self.remedies) >= self.limit:
                return True
        if self.clock.open_queries > opened and len(self.remedies) == known:
            self.untried.append(kind)
        return False

    def _touches(self, helped: Callable[[type[Rule]], bool]) -> bool:
        """Return True if the cause has a rule of this kind, or is unknown."""
        return not self.rules or any(kind.name in self.rules and helped(kind) for kind in scheduling_rules.ALL)

    def _numbers(self, numbers: Callable[[type[Rule]], Iterator[Number]]) -> Iterator[Number]:
        """Yield the numbers of the rules that the cause has, of all rules if it is unknown."""
        return (number for kind in scheduling_rules.ALL if not self.rules or kind.name in self.rules for number in numbers(kind))

    def _works(self, remedy: Remedy) -> bool | None:
        return self.clock.ask(applied(self.question, remedy), _QUERY_TIME_FRACTION)

    def _first(self, remedies: Iterable[Remedy], limit: int | None = None) -> Iterator[Remedy]:
        """Yield the first remedy that works.

        Args:
            limit: Maximum number to try; None for that of all remedies.
        """
        for tried, remedy in enumerate(remedies):
            if tried == (limit or self.limit):
                self.clock.leave_open()
                return
            if self._works(remedy):
                yield remedy
                return

    def _corrected(self, cluster: Cluster) -> Iterator[Remedy]:
        """Yield corrections of what the pods ask for by mistake."""
        distinct = {idea.remedy.message: idea.remedy for idea in self._ideas(lambda kind: kind.corrections(cluster))}
        return filter(self._works, distinct.values())

    def _restored(self, cluster: Cluster) -> Iterator[Remedy]:
        """Yield the first change of a node that works, for each kind of change."""
        tried: dict[str, list[Idea]] = {}
        open_otherwise = add_nodes.OpenOtherwise(cluster)
        for idea in self._ideas(lambda kind: kind.node_changes(cluster)):
            kinds = tried.setdefault(idea.remedy.change, [])
            if open_otherwise.concerns(idea):
                kinds.append(idea)
        for kinds in tried.values():
            yield from self._first(idea.remedy for idea in kinds)

    def _ideas(self, of: Callable[[type[Rule]], Iterator[Idea]]) -> Iterator[Idea]:
        """Yield the ideas of the rules that the cause has, of all rules if it is unknown."""
        return (idea for kind in scheduling_rules.ALL if not self.rules or kind.name in self.rules for idea in of(kind))

    def _nudged(self, cluster: Cluster) -> Iterator[Remedy]:
        for remedy in raise_quotas.candidates(self.question) if self._touches(lambda kind: kind.helped_by_quota) else ():
            if self._works(remedy):
                yield remedy
                break
        for number in self._numbers(lambda kind: kind.raises(cluster)):
            remedy = number.after(1)
            if self._works(remedy):
                yield remedy

    def _grown(self, cluster: Cluster) -> Iterator[Remedy]:
        if self._touches(lambda kind: kind.helped_by_new_nodes or kind.helped_by_uncordoning):
            yield from self._first(add_nodes.uncordoned(cluster))
        if self._touches(lambda kind: kind.helped_by_new_nodes):
            fewest = add_nodes.fewest(self.question, cluster, self.clock, _ADD_NODES_TIME_FRACTION)
            if fewest is not None:
                yield fewest
            yield from self._bought()

    def _bought(self) -> Iterator[Remedy]:
        """Yield nodes of the catalogue, if there is one."""
        catalogue = self.question.catalogue
        cheapest = buy_nodes.cheapest(self.question, catalogue, self.clock, _ADD_NODES_TIME_FRACTION) if catalogue is not None else None
        if cheapest is not None:
            yield cheapest

    def _freed(self, _: Cluster) -> Iterator[Remedy]:
        if self._touches(lambda kind: kind.helped_by_fewer_pods):
            for remedy in preempt.victims(self.question, self.clock, _EVICTION_TIME_FRACTION):
                remedy.message += self._preempted(remedy)
                yield remedy

    def _preempted(self, remedy: Remedy) -> str:
        """Return a clause on kube-scheduler's part in an eviction for one pod: it preempts such pods, or never does.

        It preempts pods of one node, where the pod then fits, and releases no devices (plugins/defaultpreemption).
        """
        pods = self.question.snapshot.pods
        pod = pods[self.question.pods[0]]
        if self.question.needed != 1 or (pod.spec.schedulerName or _SCHEDULER) != _SCHEDULER:
            return ""
        if preempts_never(pod):
            return "; kube-scheduler never does: preemptionPolicy is Never"
        gone = set(remedy.arguments["pods"].split(","))
        nodes = {each.spec.nodeName for each in pods if pod_key(each) in gone}
        if len(nodes) != 1 or "budgets" in remedy.arguments or pod.spec.resourceClaims:
            return ""
        return "; kube-scheduler preempts such pods by itself" if nodes <= set(accepting(applied(self.question, remedy))) else ""

    def _moved(self) -> Iterator[Remedy]:
        """Yield the first move of running pods that works. If another change works, only a few likely moves are tried."""
        if not self._touches(lambda kind: kind.helped_by_fewer_pods):
            return
        needed = all(remedy.change == LOWER_REQUEST for remedy in self.remedies)
        if needed and self.question.needed < len(self.question.pods):
            self.clock.leave_open()  # moved pods must be placed, too, and the question allows any pods to be left
        found = moves(self.question, only_room=not needed)
        yield from map(self._targeted, self._first(found if needed else itertools.islice(found, _MAX_MOVES_BESIDE), _MAX_MOVES))

    def _targeted(self, move: Remedy) -> Remedy:
        """Return a move with the new nodes of its pods."""
        changed = applied(self.question, move)
        places = changed.places(self.clock.section(_QUERY_TIME_FRACTION).context)
        targets = {pod_key(changed.snapshot.pods[i]): node for i, node in places.items()}
        keys, node = move.arguments["pod"].split(","), move.arguments["node"]
        by_target: dict[str, list[str]] = {}
        for key in keys if targets.keys() >= set(keys) else ():
            by_target.setdefault(targets[key], []).append(key)
        if by_target:
            move.arguments["to"] = ",".join(targets[key] for key in keys)
            move.message = " and ".join(f"move {' and '.join(pods)} from {node} to {target}" for target, pods in by_target.items())
        move.message += f" ({REBALANCE})"
        return move

    def _fewer(self, cluster: Cluster) -> Iterator[Remedy]:
        """Yield smaller numbers of pods, regardless of the cause."""
        fewer = fewer_pods.replicas(self.question, self.clock, _FEWER_PODS_TIME_FRACTION)
        members = fewer_pods.members(self.question, self.clock, _FEWER_PODS_TIME_FRACTION)
        yield from sorted([*fewer, *([members] if members is not None else []), *self._lowered(cluster)], key=_lost)

    def _lowered(self, cluster: Cluster) -> Iterator[Remedy]:
        """Yield the numbers of rules that can be lowered, each with the largest value that works."""
        for number in self._numbers(lambda kind: kind.lowers(cluster)):
            lost = self._least_change(number)
            if lost is not None:
                yield self._placed(_remedy(number, lost[0], sure=lost[1] and number.exact, unproved="most"))

    def _raised(self, cluster: Cluster) -> Iterator[Remedy]:
        """Yield the numbers of rules that can be raised by more than 1, each with the smallest value that works."""
        raises: list[tuple[int, Remedy]] = []
        known = {remedy.message for remedy in self.remedies}
        for number in self._numbers(lambda kind: kind.raises(cluster)):
            if number.after(1).message in known or not self._works(number.after(number.steps)):
                continue
            more = self._least_change(number, works=number.steps)
            if more is not None:
                raises.append((more[0], _remedy(number, more[0], sure=more[1], unproved="least")))
        yield from (remedy for _, remedy in sorted(raises, key=lambda f: (f[0], f[1].message)))

    def _least_change(self, number: Number, works: int | None = None) -> tuple[int, bool] | None:
        """Return the fewest steps of a number that work, and True if fewer do not; None if none are found.

        Args:
            works: Steps that are known to work.
        """
        return least(lambda steps: steps == works or self._works(number.after(steps)), 1, number.steps)

    def _placed(self, remedy: Remedy) -> Remedy:
        """Return a lower request of one pod with the nodes that then take it, and other remedies as they are."""
        if remedy.change == LOWER_REQUEST and self.question.needed == 1:
            nodes = accepting(applied(self.question, remedy))
            remedy.message += f" (fits on {some(nodes)})" if nodes else ""
        return remedy

    def _dropped(self, cluster: Cluster) -> Iterator[Remedy]:
        known = {
            (remedy.arguments.get("workload"), remedy.arguments["constraint"])
            for remedy in self.remedies
            if "constraint" in remedy.arguments
        }
        joint_done: set[str] = set()
        for idea in ideas(cluster):
            arguments = idea.remedy.arguments
            if not self._touches(self._loosens(idea)) or (arguments.get("workload"), arguments.get("constraint")) in known:
                continue
            kind = idea.remedy.change + "".join(f"{k}={v};" for k, v in sorted(arguments.items()) if k != "workload")
            if ";" in arguments.get("workload", "") and kind in joint_done:
                continue  # one owner alone suffices
            if self._works(idea.remedy):
                joint_done.add(kind)
                yield idea.remedy

    def _loosens(self, idea: Idea) -> Callable[[type[Rule]], bool]:
        """Return a test for the rules that a change may satisfy.

        If quotas charge opportunity cost, less anti-affinity reduces the charge.
        """
        charged = self.question.policy.quotaCharge == "opportunityCost" and idea.remedy.arguments.get("kind") == "podAntiAffinity"
        return lambda kind: kind.name == idea.rule or (charged and kind.helped_by_quota)

    def _pairs(self, cluster: Cluster) -> Iterator[Remedy]:
        """Yield pairs of relaxations of which at least one touches the cause."""
        nodes = (itertools.islice(kind.node_changes(cluster), self.limit) for kind in scheduling_rules.ALL)
        corrections = (kind.corrections(cluster) for kind in scheduling_rules.ALL)
        lone = (idea for idea in ideas(cluster) if ";" not in idea.remedy.arguments.get("workload", ""))
        listed = [*_raises(cluster), *itertools.chain(*nodes, *corrections), *lone]
        pairs = sorted(itertools.combinations(range(len(listed)), 2), key=lambda p: (listed[p[0]].size + listed[p[1]].size, p))
        for a, b in pairs:
            if not self.clock.remaining():
                self.clock.leave_open()
                return
            first, second = listed[a], listed[b]
            if (self._touches(self._loosens(first)) or self._touches(self._loosens(second))) and not _same(first, second):
                remedy = together([first.remedy, second.remedy])
                if self._works(remedy):
                    yield remedy


def _raises(cluster: Cluster) -> list[Idea]:
    """Return the increase of each number of a rule by 1."""
    return [Idea(kind.name, 0, number.after(1)) for kind in scheduling_rules.ALL for number in kind.raises(cluster)]


def _remedy(number: Number, steps: int, *, sure: bool, unproved: str) -> Remedy:
    """Return the remedy that changes a number. If a smaller change might do, argument ``unproved`` says so."""
    remedy = number.after(steps)
    if not sure:
        remedy.arguments[unproved] = "unproved"
    return remedy


def _same(first: Idea, second: Idea) -> bool:
    """Return True if both concern the same constraint of the same owner."""
    one, two = first.remedy.arguments, second.remedy.arguments
    return "constraint" in one and one["constraint"] == two.get("constraint") and one.get("workload") == two.get("workload")


def _lost(remedy: Remedy) -> tuple[bool, int, str]:
    """Return the key by which fewer pods are sorted. Lower amounts of resources come after them."""
    request = remedy.change == LOWER_REQUEST
    return request, 0 if request else int(remedy.arguments["from"]) - int(remedy.arguments["to"]), remedy.message


def accepting(question: PlacementQuestion) -> list[str]:
    """Return the nodes that accept the first pod of a question."""
    cluster = question.cluster()
    rejected = np.logical_or.reduce([rule.rejects(0) for rule in scheduling_rules.build(cluster)])
    return [cluster.nodes.names[n] for n in np.flatnonzero(~rejected).tolist()]


def together(remedies: Sequence[Remedy]) -> Remedy:
    """Return several changes as one remedy."""
    arguments = {"changes": str(len(remedies))}
    for i, remedy in enumerate(remedies, 1):
        arguments |= {f"{i}.change": remedy.change, **{f"{i}.{key}": value for key, value in remedy.arguments.items()}}
    return Remedy(
        "combination", "; and ".join(remedy.message for remedy in remedies), arguments, [o for remedy in remedies for o in remedy.options]
    )
