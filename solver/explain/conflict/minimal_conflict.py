"""Minimal causes: smallest sets of rules and capacities that together rule out the placement of some pods.

The facts of the model (kubestow.solver.explain.conflict.fact_model) are first combined into coarse groups.
CP-SAT's assumptions yield a core if one is found quickly, and deletion reduces it to a minimal set. Its
members are then split by workload, term, claim and port, finally by topology domain, and reduced again, as
long as the set stays readable.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kubestow.models.documents.placement import Cause, Fact
from kubestow.models.kube.objects import pod_key
from kubestow.models.workloads.ownership import PodOwners
from kubestow.solver import rules
from kubestow.solver.explain.conflict.fact_model import FactEncoding, Tag
from kubestow.solver.explain.conflict.placement_question import PlacementQuestion
from kubestow.solver.explain.conflict.sentences import facts
from kubestow.solver.explain.conflict.subset_check import SubsetCheck
from kubestow.solver.explain.undecided import is_undecided
from kubestow.solver.rules.wording import listed
from kubestow.solver.runtime.run_context import RunContext

#: Maximum number of facts of one cause, unless coarser facts do not explain it.
MAX_FACTS = 20
#: Number of CP-SAT workers for one query, unless the run is deterministic. Queries are many and small.
WORKERS = 2


@dataclass(frozen=True)
class FactGroup:
    """Tags that form one fact.

    Attributes:
        domain: Topology domain (key, code) of its nodes, if all are in one.
    """

    tags: tuple[Tag, ...]
    domain: tuple[str, int] | None = None


def minimal_cause(question: PlacementQuestion, context: RunContext) -> Cause | None:
    """Return an inclusion-minimal set of facts that make it impossible to place the needed pods together.

    A cause is proved, unless it depends on labels of unknown namespaces. ``minimal`` is not set if time ran
    out before each fact was shown to be needed.

    Returns:
        None if the rules together allow a placement (its bind order is not checked), or if nothing is known
            in time.
    """
    seconds = context.deadline.remaining()
    pods = [pod_key(question.snapshot.pods[i]) for i in question.pods]
    hopeless = _hopeless(question)
    if hopeless is not None:
        return Cause(pods=pods, facts=[hopeless], minimal=True)
    cluster, conflict = question.cluster(), None
    context = replace(context, options=replace(context.options, workers=None if context.options.deterministic else WORKERS))
    unsure = is_undecided(question.snapshot, question.pods)
    if unsure:  # the other rules may suffice for a conflict
        known = [rule for rule in rules.build(cluster) if not rule.reads_namespace_labels]
        conflict = _reduced(FactEncoding(cluster, known, question.needed), question.needed, context, seconds / 2)
        seconds, unsure = seconds / 2, conflict is None
    conflict = conflict or _reduced(FactEncoding(cluster, rules.build(cluster), question.needed), question.needed, context, seconds)
    return None if conflict is None else Cause(pods=pods, facts=conflict[0], minimal=conflict[1], proved=not unsure)


def _reduced(encoding: FactEncoding, needed: int, context: RunContext, seconds: float) -> tuple[list[Fact], bool] | None:
    """Return the facts of a minimal conflict set, and True if each was shown to be needed; None if there is no conflict."""
    reduction = Reduction(SubsetCheck(encoding, context), seconds)
    groups = reduction.run()
    return None if groups is None else (facts(encoding, needed, [(g.tags, g.domain) for g in groups]), reduction.exact)


def _hopeless(question: PlacementQuestion) -> Fact | None:
    """Return the cause that numbers alone show: a gang larger than its pod count, or a cluster without nodes."""
    for kind in sorted(rules.ALL, key=lambda kind: kind.drop_rank):
        hopeless = kind.hopeless(question.needed, len(question.pods), len(question.snapshot.nodes))
        if hopeless is not None:
            owners = PodOwners(question.snapshot)
            whom = hopeless[0] or listed(owners.of(question.snapshot.pods[i]) for i in question.pods)
            return Fact(kind.name, whom, hopeless[1])
    return None


class Reduction:
    """A deletion algorithm over increasingly fine groups.

    Attributes:
        exact: True if each remaining group was shown to be needed.
    """

    def __init__(self, check: SubsetCheck, seconds: float) -> None:
        self._check, self._encoding, self._rules = check, check.encoding, check.encoding.rules
        self._seconds = seconds
        self._owners = PodOwners(self._encoding.cluster.snapshot)
        self.exact = True

    def run(self) -> list[FactGroup] | None:
        """Return the groups of a minimal set; None if the facts together are possible, or nothing is known in time."""
        first = [tag for tag in self._encoding.literals if self._rules[tag.rule].comes_first(tag.topic)]
        if not (first and self._check.impossible(first, self._seconds)):
            first = list(self._encoding.literals)
        groups = _grouped(first, lambda tag: (tag.rule, self._rules[tag.rule].fact_kind(tag.topic)))
        groups.sort(key=lambda group: self._rules[group.tags[0].rule].drop_rank)  # the hardest to understand first
        verdict, core = self._check.core([g.tags for g in groups], self._seconds)
        if verdict is None:
            verdict = self._impossible(groups, self._seconds)
        if not verdict:
            return None
        groups = [groups[i] for i in core] or groups
        needed = self._shrink([], groups, None) or []
        for split in (self._by_topic, self._by_owner, self._by_exclusion, self._by_domain):
            needed = self._refined(needed, split)
            if split == self._by_owner:
                needed = self._merged(needed)
        return needed

    def _merged(self, groups: list[FactGroup]) -> list[FactGroup]:
        """Return the groups, with those merged that exclude the same nodes by one rule for several owners."""
        merged: dict[Hashable, FactGroup] = {}
        for i, group in enumerate(groups):
            masks = {mask.tobytes() for tag in group.tags for mask in self._encoding.barred.get(tag, {}).values()}
            topics = {tag.topic for tag in group.tags}
            key: Hashable = (group.tags[0].rule, frozenset(masks)) if topics == {None} and masks else i
            merged[key] = FactGroup((*merged[key].tags, *group.tags)) if key in merged else group
        return list(merged.values())

    def _impossible(self, groups: Iterable[FactGroup], seconds: float) -> bool | None:
        return self._check.impossible([tag for group in groups for tag in group.tags], seconds)

    def _shrink(self, fixed: Sequence[FactGroup], candidates: Sequence[FactGroup], limit: int | None) -> list[FactGroup] | None:
        """Return the candidates that are needed in addition to ``fixed``, dropping halves while that succeeds.

        Args:
            limit: Maximum number of candidates. Return None if more are needed or time runs out, because a
                coarse minimal set is better.
        """
        kept: list[FactGroup] = []
        untested = list(candidates)
        size = len(untested) // 2 if len(untested) > 8 else 1
        while untested:
            share = max(1.0, self._seconds / 10)
            verdict = self._impossible([*fixed, *kept, *untested[size:]], share)
            if verdict:
                untested = untested[size:]
                size *= 2
            elif size > 1:
                size = max(1, size // 2)
            else:
                kept.append(untested.pop(0))
                if limit is not None and (verdict is None or len(kept) > limit):
                    return None
                self.exact &= verdict is not None
        return kept

    def _refined(self, groups: list[FactGroup], split: Callable[[FactGroup, list[FactGroup]], list[FactGroup]]) -> list[FactGroup]:
        """Return the groups, each replaced by its needed parts if these are not too many.

        Args:
            split: Returns the parts of a group, given all groups.
        """
        done: list[FactGroup] = []
        for i, group in enumerate(groups):
            parts = split(group, groups)
            others = [*done, *groups[i + 1 :]]
            needed = self._shrink(others, parts, max(1, MAX_FACTS - len(others))) if len(parts) > 1 else None
            done += [group] if needed is None else needed
        return done

    @staticmethod
    def _by_topic(group: FactGroup, _: list[FactGroup]) -> list[FactGroup]:
        return _grouped(group.tags, lambda tag: tag.topic)

    def _by_owner(self, group: FactGroup, _: list[FactGroup]) -> list[FactGroup]:
        topics = {tag.topic for tag in group.tags}
        if (len(topics) == 1 and None not in topics) or not self._rules[group.tags[0].rule].facts_by_owner:
            return [group]
        pods = [cls.pod for cls in self._encoding.cluster.classes]
        return _grouped(group.tags, lambda tag: tuple(sorted({self._owners.of(pods[g]) for g in tag.classes})))

    def _by_exclusion(self, group: FactGroup, groups: list[FactGroup]) -> list[FactGroup]:
        """Return the parts of a group whose nodes are alike for all exclusions of the cause."""
        if any(tag.cell is None for tag in group.tags):
            return [group]
        columns = [mask for other in groups for tag in other.tags for mask in self._encoding.barred.get(tag, {}).values()]
        first = np.unique(self._encoding.cell_of, return_index=True)[1]
        return _grouped(group.tags, lambda tag: tuple(bool(mask[first[tag.cell]]) for mask in columns))

    def _by_domain(self, group: FactGroup, groups: list[FactGroup]) -> list[FactGroup]:
        """Return the parts of a group by domain, under the first topology key of the cause's rules that distinguishes its nodes.

        Return the group itself if no key does.
        """
        if any(tag.cell is None for tag in group.tags):
            return [group]
        for key in self._topology(groups):
            codes = self._encoding.cluster.domains(key)[0]
            cells = self._encoding.cell_of
            first = np.unique(cells, return_index=True)[1]
            code = {tag: int(codes[first[tag.cell]]) for tag in group.tags}
            if len(set(code.values())) > 1:
                parts: dict[int, list[Tag]] = {}
                for tag, value in code.items():
                    parts.setdefault(value, []).append(tag)
                return [FactGroup(tuple(tags), (key, value)) for value, tags in sorted(parts.items())]
        return [group]

    def _topology(self, groups: Iterable[FactGroup]) -> list[str]:
        """Return the topology keys of the rules in these groups: those of gangs and affinity first, then those with few domains."""
        shared: dict[str, bool] = {}
        for tag in (tag for group in groups for tag in group.tags):
            for key, by_all in self._rules[tag.rule].fact_keys(tag.topic).items():
                shared[key] = shared.get(key, False) or by_all
        domains = self._encoding.cluster.domains
        return sorted(shared.keys() & set(self._encoding.keys), key=lambda key: (not shared[key], domains(key)[1], key))


def _grouped(tags: Iterable[Tag], key: Callable[[Tag], Hashable]) -> list[FactGroup]:
    tags_by_key: dict[Hashable, list[Tag]] = {}
    for tag in tags:
        tags_by_key.setdefault(key(tag), []).append(tag)
    return [FactGroup(tuple(members)) for members in tags_by_key.values()]
