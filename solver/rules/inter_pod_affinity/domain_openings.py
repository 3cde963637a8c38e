"""Domains that required affinity can ever open. Only the first pod of its kind opens a domain without a match.

A pod that matches its own terms is accepted without a matching pod near if there is none anywhere (upstream:
interpodaffinity/filtering.go, satisfyPodAffinity). The same holds for gang members that bind as a unit. If only
pods with these terms match them, the pod that opens a domain is alone with its unit, and all later pods must be
near them. So the end domains either had such pods at the start, or all such pods share one domain.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kubestow.models.cluster.cluster import Ids, Ints, domain_sum
from kubestow.models.kube.selectors import Bools
from kubestow.solver.ortools import cp_model
from kubestow.solver.rules.end_states import EndStateModel
from kubestow.solver.rules.inter_pod_affinity.rule import InterPodAffinity
from kubestow.solver.rules.plan_state import PlanProblem


@dataclass
class AffinityOpenings:
    """The domains of one key that pods with some affinity terms can occupy at the end.

    At the end, they are only in domains of ``start_domains``, or all in one other domain.

    Attributes:
        key: The topology key.
        members: The classes that have the terms; only these match them.
        codes: Domain of each node, int32[N].
        start_domains: Domains with some of these pods at the start, bool[D].
        bound: True if too many of these pods always stay for any other domain to be opened.
    """

    key: str
    members: list[int]
    codes: Ids
    start_domains: Bools
    bound: bool

    def allows(self, counts: Ints) -> bool:
        """Return True if steps can lead to an end state int64[G, N] as far as these terms are concerned."""
        used = domain_sum(self.codes, len(self.start_domains), counts[self.members].sum(axis=0)) > 0
        return not (used & ~self.start_domains).any() or (not self.bound and int(np.count_nonzero(used)) == 1)


def openings(problem: PlanProblem, rule: InterPodAffinity, counts: Ints) -> list[AffinityOpenings]:
    """Return the :class:`AffinityOpenings` of each key, for affinity terms that no fixed pod and only their owners match.

    Args:
        rule: InterPodAffinity in the state of the fixed pods and of ``counts``.
        counts: Running pods that ``rule`` counts, int64[G, N].
    """
    found: list[AffinityOpenings] = []
    for index, a in enumerate(rule.attractions):
        members = np.flatnonzero(a.matches).tolist()
        fixed = a.total - int(counts[members][:, a.any_key].sum())
        if fixed or not members or any(rule.attraction(g) != index for g in members):
            continue
        running = int(problem.start[members][:, a.any_key].sum())
        going = int(problem.start[[g for g in members if problem.evictable[g]]].sum())
        for key, codes, size in zip(a.keys, a.codes, a.sizes, strict=True):
            occupied = domain_sum(codes, size, problem.start[members].sum(axis=0)) > 0
            found.append(AffinityOpenings(key, members, codes, np.asarray(occupied, dtype=bool), running - going > 1))
    return found


def encode(model: EndStateModel, rule: InterPodAffinity) -> None:
    """Add the constraints of :class:`AffinityOpenings` to the model of the end state.

    Args:
        rule: InterPodAffinity in the state of the fixed pods.
    """
    for opening in openings(model.problem, rule, np.zeros_like(model.problem.start)):
        nodes = model.problem.cluster.members(opening.key)
        resting = domain_sum(opening.codes, len(opening.start_domains), model.unmoved[opening.members].sum(axis=0)) > 0
        used: dict[int, cp_model.IntVar] = {}
        for d in sorted({*model.domains(opening.members, opening.codes), *np.flatnonzero(resting).tolist()}):
            present = model.present(opening.members, nodes[d])
            if present:
                used[d] = present[0]
        opened = [d for d in used if not opening.start_domains[d]]
        if opening.bound:
            for d in opened:
                model.model.add(used[d] == 0)
        else:
            model.model.add_at_most_one([used[d] for d in opened])
            for d in opened:
                for other in used.keys() - {*opened}:
                    model.model.add_bool_or([~used[d], ~used[other]])
