"""The cheapest changes after which pods that cannot be placed can be, each proved by solving again on the changed objects.

What is cheap, for an operator (ranks, and within a rank the size): quotas raised by what is missing, a maxSkew raised by 1 (0); a
cordoned node uncordoned, else nodes added (1, by their number), then those of a catalogue (by their cost); running pods of lower
priority evicted (2, the lowest priority first, then by their number); fewer replicas of one workload, a lower min-member or fewer
devices in a claim (3, by how many that loses); a maxSkew raised by more (4, by how much); a required rule dropped (5: a toleration added,
a required topology preferred, a spread ScheduleAnyway, anti-affinity, a constraint on devices, affinity, a node selector, a selector of
devices, a host port, the anti-affinity of running pods, in this order; of several owners at once 10 more each). Where nothing else
works: one pod moved to another node (6), else two relaxations together (7).
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
#: Rules that running pods make worse than an empty node is.
_FULL: Final = frozenset(
    {"NodeResourcesFit", "NodePorts", "InterPodAffinity", _SPREAD, "NodeVolumeLimits", "NodeResourceTopologyMatch", _DEVICES}
)
#: Rules that new nodes may help with, and rules that gone pods may help with.
_NODES: Final = _FULL | {"GangScheduling"}
_PODS: Final = _FULL | {"VolumeRestrictions"}
#: The share of the whole time that one question may take.
_EACH = 0.1
#: The share for adding nodes.
_GROWING = 0.4
#: The share for evictions.
_LEAVING = 0.4
#: The share for fewer pods: of replicas, and of members of a gang.
_FEWER = 0.2


def find_remedies(
    question: PlacementQuestion,
    rules: Collection[str],
    context: RunContext,
    *,
    most: int = 5,
) -> list[Remedy]:
    """Return at most ``most`` changes, the cheapest first, each of which alone makes it possible to place the pods.

    ``rules``: the scheduler plugins of a minimal cause: a change that frees must touch one of them, so only such changes are tried (none
    given: all). ``context``: its deadline is for everything; what is not decided within the share of one question is
    left out. Numbers (maxSkew, nodes, pods evicted) are the least that work and the number of pods that stay the greatest, unless the
    arguments say ``least`` or ``most``: ``unproved``.
    """
    clock = TimeSlices(context, context.deadline.left())
    search = _Search(question, frozenset(rules), clock, most)
    search.run()
    return search.found[:most]


@dataclass
class _Search:
    question: PlacementQuestion
    rules: frozenset[str]
    clock: TimeSlices
    most: int
    found: list[Remedy] = field(default_factory=list)

    def run(self) -> None:
        cluster = self.question.cluster()
        if not cluster.n_nodes:
            self.found += self._bought()
        if not cluster.n_nodes or not cluster.n_classes:
            return
        for stage in (self._nudged(), self._grown(cluster), self._freed(), self._fewer(), self._raised(), self._dropped(cluster)):
            for remedy in stage:
                self.found.append(remedy)
                if len(self.found) >= self.most:
                    return
        if not self.found:
            self.found += itertools.islice(self._moved(), 1)
        if not self.found:
            self._pairs(cluster)

    def _touches(self, rules: Collection[str]) -> bool:
        return not self.rules or not self.rules.isdisjoint(rules)

    def _works(self, remedy: Remedy) -> bool | None:
        return self.clock.ask(applied(self.question, remedy), _EACH)

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
        if self._touches(_NODES | {"NodeUnschedulable"}):
            for remedy in itertools.islice(add_nodes.uncordoned(cluster), self.most):
                if self._works(remedy):
                    yield remedy
                    break
        if self._touches(_NODES):
            found = add_nodes.fewest(self.question, cluster, self.clock, _GROWING)
            if found is not None:
                yield found
            yield from self._bought()

    def _bought(self) -> Iterator[Remedy]:
        """Nodes of the catalogue, where there is one."""
        catalogue = self.question.catalogue
        found = buy_nodes.cheapest(self.question, catalogue, self.clock, _GROWING) if catalogue is not None else None
        if found is not None:
            yield found

    def _freed(self) -> Iterator[Remedy]:
        if self._touches(_PODS):
            yield from preempt.victims(self.question, self.clock, _LEAVING)

    def _moved(self) -> Iterator[Remedy]:
        for remedy in moves(self.question) if self._touches(_PODS) else ():
            if self._works(remedy):
                yield remedy

    def _fewer(self) -> Iterator[Remedy]:
        """Whatever the cause is: pods that are not there need nothing."""
        fewer = fewer_pods.replicas(self.question, self.clock, _FEWER)
        members = fewer_pods.members(self.question, self.clock, _FEWER)
        yield from sorted([*fewer, *([members] if members is not None else []), *self._fewer_devices()], key=_lost)

    def _fewer_devices(self) -> Iterator[Remedy]:
        """Each request for several devices with as many of them as can be had."""
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
        """maxSkew by more than 1: beyond what all pods of the selector together make, a greater one says no more."""
        if not self._touches({_SPREAD}):
            return
        found: list[tuple[int, Remedy]] = []
        known = {remedy.message for remedy in self.found}
        for owner, constraint in spread_constraints(self.question):
            if raised(owner, constraint, constraint.maxSkew + 1).message in known:
                continue
            top = constraint.maxSkew + len(self.question.snapshot.pods)

            def asked(skew: int, owner: str = owner, constraint: TopologySpreadConstraint = constraint) -> bool | None:
                return self._works(raised(owner, constraint, skew))

            if not asked(top):
                continue
            skew = least(lambda k, top=top, asked=asked: k == top or asked(k), constraint.maxSkew + 1, top)  # type: ignore[misc]
            if skew is not None:
                remedy = raised(owner, constraint, skew[0])
                if not skew[1]:
                    remedy.arguments["least"] = "unproved"
                found.append((skew[0] - constraint.maxSkew, remedy))
        yield from (remedy for _, remedy in sorted(found, key=lambda f: (f[0], f[1].message)))

    def _dropped(self, cluster: Cluster) -> Iterator[Remedy]:
        known = {(remedy.arguments["workload"], remedy.arguments["constraint"]) for remedy in self.found if remedy.change == "raiseMaxSkew"}
        joint_done: set[str] = set()
        for idea in ideas(self.question, cluster):
            arguments = idea.remedy.arguments
            if not self._touches(self._loosens(idea)) or (arguments.get("workload"), arguments.get("constraint")) in known:
                continue
            kind = idea.remedy.change + "".join(f"{k}={v};" for k, v in sorted(arguments.items()) if k != "workload")
            if ";" in arguments.get("workload", "") and kind in joint_done:
                continue  # one owner alone does it
            if self._works(idea.remedy):
                joint_done.add(kind)
                yield idea.remedy

    def _loosens(self, idea: Idea) -> set[str]:
        """Return the rules that an idea may satisfy: where quotas charge opportunity cost, less anti-affinity is a smaller charge."""
        charged = self.question.policy.quotaCharge == "opportunityCost" and idea.remedy.arguments.get("kind") == "podAntiAffinity"
        return {idea.rule, raise_quotas.RULE} if charged else {idea.rule}

    def _pairs(self, cluster: Cluster) -> None:
        """Two relaxations, of which one touches the cause."""
        listed = [*self._skews(), *(idea for idea in ideas(self.question, cluster) if ";" not in idea.remedy.arguments.get("workload", ""))]
        pairs = sorted(itertools.combinations(range(len(listed)), 2), key=lambda p: (listed[p[0]].size + listed[p[1]].size, p))
        for a, b in pairs:
            if not self.clock.left() or len(self.found) >= self.most:
                return
            first, second = listed[a], listed[b]
            if self._touches(self._loosens(first) | self._loosens(second)) and not _same(first, second):
                remedy = together([first.remedy, second.remedy])
                if self._works(remedy):
                    self.found.append(remedy)

    def _skews(self) -> list[Idea]:
        return [Idea(_SPREAD, 0, raised(owner, c, c.maxSkew + 1)) for owner, c in spread_constraints(self.question)]


def _same(first: Idea, second: Idea) -> bool:
    """Return whether both are about the same constraint of the same owner."""
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
