"""The search for the cheapest changes after which unplaceable pods can be placed, each proved by solving the changed objects.

Changes are tried in order of cost for an operator, by rank, then by size: docs/algorithms/causes.md lists the ranks.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from kubestow.models.cluster.cluster import Cluster
from kubestow.models.documents.placement import Remedy
from kubestow.models.kube.objects import TopologySpreadConstraint
from kubestow.solver.explain.conflict.placement_question import PlacementQuestion
from kubestow.solver.explain.remedy import add_nodes, buy_nodes, device_edits, fewer_pods, preempt, raise_quotas
from kubestow.solver.explain.remedy.apply import applied
from kubestow.solver.explain.remedy.relax_rules import Idea, ideas, raised, spread_constraints
from kubestow.solver.explain.remedy.smallest_working import least
from kubestow.solver.explain.remedy.time_slices import TimeSlices
from kubestow.solver.explain.remedy.victims import moves
from kubestow.solver.runtime.run_context import RunContext

__all__ = ["applied", "find_remedies"]

_SPREAD: Final = "PodTopologySpread"
_DEVICES: Final = device_edits.RULE
#: Rules for which running pods make a node less eligible than an empty one.
_POD_DEPENDENT_RULES: Final = frozenset(
    {"NodeResourcesFit", "NodePorts", "InterPodAffinity", _SPREAD, "NodeVolumeLimits", "NodeResourceTopologyMatch", _DEVICES}
)
#: Rules that new nodes may satisfy, and rules that absent pods may satisfy.
_RULES_OF_NEW_NODES: Final = _POD_DEPENDENT_RULES | {"GangScheduling"}
_RULES_OF_FEWER_PODS: Final = _POD_DEPENDENT_RULES | {"VolumeRestrictions"}
#: Fraction of the whole time for one query.
_QUERY_TIME_FRACTION = 0.1
#: Fraction of the whole time for adding nodes.
_ADD_NODES_TIME_FRACTION = 0.4
#: Fraction of the whole time for evictions.
_EVICTION_TIME_FRACTION = 0.4
#: Fraction of the whole time for fewer pods, each for replicas and for members of a gang.
_FEWER_PODS_TIME_FRACTION = 0.2


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
    clock = TimeSlices(context, context.deadline.left())
    search = _RemedyQuery(question, frozenset(rules), clock, limit)
    search.run()
    return search.remedies[:limit]


@dataclass
class _RemedyQuery:
    question: PlacementQuestion
    rules: frozenset[str]
    clock: TimeSlices
    limit: int
    remedies: list[Remedy] = field(default_factory=list)

    def run(self) -> None:
        cluster = self.question.cluster()
        if not cluster.n_nodes:
            self.remedies += self._bought()
        if not cluster.n_nodes or not cluster.n_classes:
            return
        for stage in (self._nudged(), self._grown(cluster), self._freed(), self._fewer(), self._raised(), self._dropped(cluster)):
            for remedy in stage:
                self.remedies.append(remedy)
                if len(self.remedies) >= self.limit:
                    return
        if not self.remedies:
            self.remedies += itertools.islice(self._moved(), 1)
        if not self.remedies:
            self._pairs(cluster)

    def _touches(self, rules: Collection[str]) -> bool:
        return not self.rules or not self.rules.isdisjoint(rules)

    def _works(self, remedy: Remedy) -> bool | None:
        return self.clock.ask(applied(self.question, remedy), _QUERY_TIME_FRACTION)

    def _nudged(self) -> Iterator[Remedy]:
        for remedy in raise_quotas.candidates(self.question) if self._touches({raise_quotas.RULE}) else ():
            if self._works(remedy):
                yield remedy
                break
        if self._touches({_SPREAD}):
            for owner, constraint in spread_constraints(self.question):
                remedy = raised(owner, constraint, constraint.maxSkew + 1)
                if self._works(remedy):
                    yield remedy

    def _grown(self, cluster: Cluster) -> Iterator[Remedy]:
        if self._touches(_RULES_OF_NEW_NODES | {"NodeUnschedulable"}):
            for remedy in itertools.islice(add_nodes.uncordoned(cluster), self.limit):
                if self._works(remedy):
                    yield remedy
                    break
        if self._touches(_RULES_OF_NEW_NODES):
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

    def _freed(self) -> Iterator[Remedy]:
        if self._touches(_RULES_OF_FEWER_PODS):
            yield from preempt.victims(self.question, self.clock, _EVICTION_TIME_FRACTION)

    def _moved(self) -> Iterator[Remedy]:
        for remedy in moves(self.question) if self._touches(_RULES_OF_FEWER_PODS) else ():
            if self._works(remedy):
                yield remedy

    def _fewer(self) -> Iterator[Remedy]:
        """Yield smaller numbers of pods, regardless of the cause."""
        fewer = fewer_pods.replicas(self.question, self.clock, _FEWER_PODS_TIME_FRACTION)
        members = fewer_pods.members(self.question, self.clock, _FEWER_PODS_TIME_FRACTION)
        yield from sorted([*fewer, *([members] if members is not None else []), *self._fewer_devices()], key=_lost)

    def _fewer_devices(self) -> Iterator[Remedy]:
        """Yield each request for several devices, reduced to the largest number available."""
        for count, fewer in device_edits.counts(self.question) if self._touches({_DEVICES}) else ():

            def enough(lost: int, count: int = count, fewer: Callable[[int], Remedy] = fewer) -> bool | None:
                return self._works(fewer(count - lost))

            lost = least(enough, 1, count - 1)
            if lost is not None:
                remedy = fewer(count - lost[0])
                if not lost[1]:
                    remedy.arguments["most"] = "unproved"
                yield remedy

    def _raised(self) -> Iterator[Remedy]:
        """Yield maxSkews raised by more than 1, up to the number of all pods, beyond which they have no effect."""
        if not self._touches({_SPREAD}):
            return
        raises: list[tuple[int, Remedy]] = []
        known = {remedy.message for remedy in self.remedies}
        for owner, constraint in spread_constraints(self.question):
            if raised(owner, constraint, constraint.maxSkew + 1).message in known:
                continue
            top = constraint.maxSkew + len(self.question.snapshot.pods)

            def skew_works(skew: int, owner: str = owner, constraint: TopologySpreadConstraint = constraint) -> bool | None:
                return self._works(raised(owner, constraint, skew))

            if not skew_works(top):
                continue
            skew = least(lambda k, top=top, works=skew_works: k == top or works(k), constraint.maxSkew + 1, top)  # type: ignore[misc]
            if skew is not None:
                remedy = raised(owner, constraint, skew[0])
                if not skew[1]:
                    remedy.arguments["least"] = "unproved"
                raises.append((skew[0] - constraint.maxSkew, remedy))
        yield from (remedy for _, remedy in sorted(raises, key=lambda f: (f[0], f[1].message)))

    def _dropped(self, cluster: Cluster) -> Iterator[Remedy]:
        known = {
            (remedy.arguments["workload"], remedy.arguments["constraint"]) for remedy in self.remedies if remedy.change == "raiseMaxSkew"
        }
        joint_done: set[str] = set()
        for idea in ideas(self.question, cluster):
            arguments = idea.remedy.arguments
            if not self._touches(self._loosens(idea)) or (arguments.get("workload"), arguments.get("constraint")) in known:
                continue
            kind = idea.remedy.change + "".join(f"{k}={v};" for k, v in sorted(arguments.items()) if k != "workload")
            if ";" in arguments.get("workload", "") and kind in joint_done:
                continue  # one owner alone suffices
            if self._works(idea.remedy):
                joint_done.add(kind)
                yield idea.remedy

    def _loosens(self, idea: Idea) -> set[str]:
        """Return the rules that a change may satisfy. If quotas charge opportunity cost, less anti-affinity reduces the charge."""
        charged = self.question.policy.quotaCharge == "opportunityCost" and idea.remedy.arguments.get("kind") == "podAntiAffinity"
        return {idea.rule, raise_quotas.RULE} if charged else {idea.rule}

    def _pairs(self, cluster: Cluster) -> None:
        """Find pairs of relaxations of which at least one touches the cause."""
        listed = [*self._skews(), *(idea for idea in ideas(self.question, cluster) if ";" not in idea.remedy.arguments.get("workload", ""))]
        pairs = sorted(itertools.combinations(range(len(listed)), 2), key=lambda p: (listed[p[0]].size + listed[p[1]].size, p))
        for a, b in pairs:
            if not self.clock.left() or len(self.remedies) >= self.limit:
                return
            first, second = listed[a], listed[b]
            if self._touches(self._loosens(first) | self._loosens(second)) and not _same(first, second):
                remedy = together([first.remedy, second.remedy])
                if self._works(remedy):
                    self.remedies.append(remedy)

    def _skews(self) -> list[Idea]:
        return [Idea(_SPREAD, 0, raised(owner, c, c.maxSkew + 1)) for owner, c in spread_constraints(self.question)]


def _same(first: Idea, second: Idea) -> bool:
    """Return True if both concern the same constraint of the same owner."""
    one, two = first.remedy.arguments, second.remedy.arguments
    return "constraint" in one and one["constraint"] == two.get("constraint") and one.get("workload") == two.get("workload")


def _lost(remedy: Remedy) -> tuple[int, str]:
    return int(remedy.arguments["from"]) - int(remedy.arguments["to"]), remedy.message


def together(remedies: Sequence[Remedy]) -> Remedy:
    """Return several changes as one remedy."""
    arguments = {"changes": str(len(remedies))}
    for i, remedy in enumerate(remedies, 1):
        arguments |= {f"{i}.change": remedy.change, **{f"{i}.{key}": value for key, value in remedy.arguments.items()}}
    return Remedy(
        "combination", "; and ".join(remedy.message for remedy in remedies), arguments, [o for remedy in remedies for o in remedy.options]
    )
