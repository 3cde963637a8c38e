"""The rules in the model of a plan's end state: arriving pods obey them, staying pods may go on breaking them.

Each way to break a rule has a literal that implies that the rule holds. Arrivals imply it, and so do staying
pods where they satisfied the rule. Other pods count as breaking the rule unless the literal is true. Literals
bind in one direction only: nothing forces them to be true unless required.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from kubestow.models.cluster.cluster import AffinityTerm, Cluster, Ids, Ints
from kubestow.models.kube.selectors import Bools
from kubestow.solver.ortools import cp_model
from kubestow.solver.rebalance.problem.problem import RebalanceProblem
from kubestow.solver.rebalance.problem.state import PlanState
from kubestow.solver.rebalance.target import affinity_openings
from kubestow.solver.rebalance.target.model import TargetModel
from kubestow.solver.rebalance.target.spread import Broken, SkewEncoder
from kubestow.solver.rules.base import Rule
from kubestow.solver.rules.inter_pod_affinity.encoding import Attraction
from kubestow.solver.rules.inter_pod_affinity.rule import InterPodAffinity
from kubestow.solver.rules.node_ports.rule import NodePorts, clash
from kubestow.solver.rules.node_resources_fit.rule import NodeResourcesFit
from kubestow.solver.rules.pod_topology_spread.rule import PodTopologySpread


@dataclass
class _Repulsion:
    """An anti-affinity term.

    Attributes:
        owners: Classes with the term.
        matches: Classes that the term matches, bool[G].
        owned: 1 for domains with fixed pods that have the term, int64[D].
        matched: Fixed pods per domain that the term matches, int64[D].
    """

    term: AffinityTerm
    codes: Ids
    owners: list[int]
    matches: Bools
    owned: Ints
    matched: Ints


class SharedRules:
    """Data shared by all models of a problem.

    Attributes:
        start: Per rule and class, the nodes where its pods break the rule at the start, bool[N].
        repulsions: The distinct anti-affinity terms.
    """

    def __init__(self, problem: RebalanceProblem) -> None:
        self.start: dict[str, dict[int, Bools]] = {}
        state = PlanState(problem)
        for g in np.flatnonzero(problem.subjects).tolist():
            nodes = np.flatnonzero(problem.start[g])
            for name, mask in state.breaks(g, nodes).items():
                where = np.zeros(problem.cluster.n_nodes, dtype=bool)
                where[nodes[mask]] = True
                self.start.setdefault(name, {})[g] = where
        self.repulsions = _repulsions(problem.cluster)


class TargetRules:
    """Adds the rules to a model.

    Attributes:
        broken: Per (class, node, rule) that may be broken at the end, the literals that must all hold for it
            not to be broken; an empty list if it is broken in any case.
    """

    def __init__(self, model: TargetModel, rules: Sequence[Rule], known: SharedRules | None = None) -> None:
        self.model, self.problem = model, model.problem
        self.known = known or SharedRules(self.problem)
        self.start = self.known.start
        self.broken: Broken = {}
        self._counts: dict[tuple[int, ...], cp_model.IntVar] = {}
        encode: dict[type[Rule], Callable[[Any], None]] = {
            NodePorts: self._ports,
            NodeResourcesFit: self._fit,
            InterPodAffinity: self._inter_pod_affinity,
            PodTopologySpread: self._spread,
        }
        for rule in rules:
            encode.get(type(rule), self._never)(rule)

    def _never(self, rule: Rule) -> None:
        """Mark pods on nodes where a rule never holds as broken in any case. Rules that depend on other pods count as repaired."""
        for g, n in self._cells(rule.name):
            if rule.static or rule.never(g)[n]:
                self.broken[g, n, rule.name] = []

    def _fit(self, rule: NodeResourcesFit) -> None:
        for g, n in self._cells(rule.name):
            self.broken[g, n, rule.name] = self.model.fits_on(n, g)
        for g in np.flatnonzero((self.problem.extra < 0).any(axis=1)).tolist():  # staying pods must not be crowded out of a waiting resize
            for n in np.flatnonzero(self.problem.start[g]).tolist():
                if not self._was_broken(rule.name, g, n):
                    for literal, clear in product(self.model.present([g], np.array([n])), self.model.fits_on(n, g)):
                        self.model.model.add_implication(literal, clear)

    def _inter_pod_affinity(self, rule: InterPodAffinity) -> None:
        self._anti(rule.name)
        self._affinity(rule)
        affinity_openings.encode(self.model, rule)

    def _spread(self, rule: PodTopologySpread) -> None:
        SkewEncoder(self.model, rule, self.start.get(rule.name, {}), self.broken).run()

    def _cells(self, name: str) -> list[tuple[int, int]]:
        """Return the (class, node) pairs where pods break a rule at the start."""
        return [(g, n) for g, mask in self.start.get(name, {}).items() for n in np.flatnonzero(mask).tolist()]

    def _was_broken(self, name: str, g: int, n: int) -> bool:
        mask = self.start.get(name, {}).get(g)
        return mask is not None and bool(mask[n])

    def _at_most(self, classes: Sequence[int], nodes: Ids | Ints, fixed: int, limit: int, literal: cp_model.IntVar) -> None:
        """Add: literal ⇒ pods of these classes on these nodes, plus ``fixed`` ones, are at most ``limit`` in number."""
        model = self.model
        total = model.sum(model.cells(classes, nodes))
        model.model.add(total <= limit - fixed - model.count_unmoved(classes, nodes)).only_enforce_if(literal)

    # --- host ports -----------------------------------------------------------------------------------------------------------

    def _ports(self, rule: NodePorts) -> None:
        model, cluster = self.model, self.problem.cluster
        asking = [g for g, cls in enumerate(cluster.classes) if cls.ports]
        against = {g: [h for h in asking if clash(cluster.classes[g].ports, cluster.classes[h].ports)] for g in asking}
        spoilt = {n for _, n in self._cells(rule.name)}
        for port in sorted({port for g in asking for port in cluster.classes[g].ports}) if not model.partial else ():
            group = [g for g in asking if cluster.classes[g].ports & {port, ("*", *port[1:])}]
            for n in sorted({n for g in group for n in model.nodes_of(g).tolist()} - spoilt):
                model.model.add(model.sum(model.cells(group, [n])) <= 1)
        for g in asking:
            blocked = rule.never(g)
            for n in model.nodes() if model.partial else sorted(spoilt):
                if not (model.upper(g, n) or model.unmoved[g, n]):
                    continue
                clear = model.model.new_bool_var("")
                self._at_most(against[g], np.array([n]), int(blocked[n]), 1, clear)
                for literal in model.arriving([g], np.array([n])):
                    model.model.add_implication(literal, clear)
                if self._was_broken(rule.name, g, n):
                    self.broken[g, n, rule.name] = [clear]

    # --- anti-affinity --------------------------------------------------------------------------------------------------------

    def _anti(self, name: str) -> None:
        model, start = self.model, self.problem.start
        for r in self.known.repulsions:
            matched = np.flatnonzero(r.matches).tolist()
            concerned = sorted({*r.owners, *matched})
            both = [g for g in r.owners if r.matches[g]]
            carriers = [g for g in r.owners if not r.matches[g]]
            targets = [g for g in matched if g not in r.owners]
            for d in model.domains(concerned, r.codes):
                nodes = self.problem.cluster.members(r.term.key)[d]
                owned, hit = int(r.owned[d]), int(r.matched[d])
                here = [int(start[np.asarray(group)[:, None], nodes].sum()) if group else 0 for group in (both, carriers, targets)]
                inside = sum(here) + owned + hit
                fine = inside == 0 or not (
                    (here[0] + here[1] and hit) or (here[0] + here[2] and owned) or here[0] > 1 or (here[0] and inside > 1)
                    or (here[1] and here[2])
                )  # fmt: skip
                if fine and not owned and not hit and not model.partial:
                    single = model.cells(both, nodes)
                    sides = [lit for group in (carriers, targets) for lit in model.present(group, nodes)]
                    if single or len(sides) > 1:
                        model.model.add(model.sum([*single, *sides]) <= 1)
                    continue
                # conflicts of each group: (classes, most pods of these, fixed pods)
                for group, others in (
                    (both, [(matched, 1, hit), (r.owners, 1, owned)]), (carriers, [(matched, 0, hit)]), (targets, [(r.owners, 0, owned)])
                ):  # fmt: skip
                    self._apart(name, group, nodes, others)

    def _apart(self, name: str, group: list[int], nodes: Ids, others: list[tuple[list[int], int, int]]) -> None:
        """Forbid pods of a group to arrive on some nodes of a domain while pods that conflict with them are there.

        Pods of the group that broke the rule there at the start may stay, but then count as breaking it.

        Args:
            name: The rule.
            group: The classes.
            nodes: The nodes of the domain.
            others: Conflicts of the group: classes, the maximum number of their pods, and the fixed pods that count to it.
        """
        model = self.model
        arriving = model.arriving(group, nodes)
        was = [(g, n) for g in group for n in nodes.tolist() if self._was_broken(name, g, n)]
        if not arriving and not was:
            return
        clear = model.model.new_bool_var("")
        for classes, limit, fixed in others:
            self._at_most(classes, nodes, fixed, limit, clear)
        for literal in arriving:
            model.model.add_implication(literal, clear)
        for g, n in was:
            self.broken.setdefault((g, n, name), []).append(clear)

    # --- affinity -------------------------------------------------------------------------------------------------------------

    def _affinity(self, rule: InterPodAffinity) -> None:
        """Add required affinity.

        The pod needs another pod that matches all terms in the domain of every key. Alternatively, it matches
        its own terms and no other pod does anywhere.
        """
        model = self.model
        for g, cls in enumerate(self.problem.cluster.classes):
            index = rule.attraction(g)
            if index is None or cls.affinity is None:
                continue
            a, own = rule.attractions[index], int(cls.affinity.itself)
            if g not in model.left and not any(a.matches[h] for h in model.left):
                continue
            cells: dict[tuple[int, ...], list[int]] = {}
            here = np.flatnonzero(model.unmoved[g]) if model.partial else np.zeros(0, dtype=np.int64)
            for n in sorted({*model.nodes_of(g).tolist(), *here.tolist()}):
                cells.setdefault(tuple(int(codes[n]) for codes in a.codes), []).append(n)
            providers = np.flatnonzero(a.matches).tolist()
            moving = {n for h in providers for n in model.nodes_of(h).tolist()} | set(model.nodes_of(g).tolist())
            alone = self._alone(index, providers, a.any_key) if own and not a.total else None
            for cell, nodes in cells.items():
                if min(cell) < 0:  # broken in any case
                    for n in nodes:
                        if self._was_broken(rule.name, g, n):
                            self.broken[g, n, rule.name] = []
                    continue
                if model.partial and not moving.intersection(nodes) and self._rests(a, cell, providers, moving, 1 + own):
                    continue
                near = []
                for key_index, d in enumerate(cell):
                    if not a.counts[key_index][d]:
                        members = self.problem.cluster.members(a.keys[key_index])[d]
                        near.append(self._near((index, key_index, d, own), providers, members, 1 + own))
                if not near:
                    continue
                clear = model.model.new_bool_var("")
                for literal in near:
                    model.model.add_bool_or([~clear, literal, *([] if alone is None else [alone])])
                fine = [n for n in nodes if not self._was_broken(rule.name, g, n)]
                for literal in (*model.present([g], np.array(fine, dtype=np.int64)), *model.arriving([g], np.array(nodes))):
                    model.model.add_implication(literal, clear)
                for n in set(nodes) - set(fine):
                    literals = self.broken.setdefault((g, n, rule.name), [])
                    literals.append(clear)

    def _rests(self, a: Attraction, cell: tuple[int, ...], providers: list[int], moving: set[int], least: int) -> bool:
        """Return True if every domain of a cell has a fixed pod that matches, or enough providers that cannot move.

        Args:
            a: The terms.
            cell: A domain for each key of the terms.
            providers: Classes that match the terms.
            moving: Nodes where the model moves pods of these classes, or of the class with the terms.
            least: Number of providers that are enough.
        """
        for key, d, counts in zip(a.keys, cell, a.counts, strict=True):
            members = self.problem.cluster.members(key)[d]
            if not counts[d] and (moving.intersection(members.tolist()) or self.model.count_unmoved(providers, members) < least):
                return False
        return True

    def _near(self, key: tuple[int, ...], providers: list[int], nodes: Ids, least: int) -> cp_model.IntVar:
        """Return a literal that implies at least ``least`` providers on these nodes.

        Args:
            key: Identifies the condition. Equal keys share one literal.
        """
        if key not in self._counts:
            model = self.model
            literal = self._counts[key] = model.model.new_bool_var("")
            total = model.sum(model.cells(providers, nodes)) + model.count_unmoved(providers, nodes)
            model.model.add(total >= least).only_enforce_if(literal)
        return self._counts[key]

    def _alone(self, index: int, providers: list[int], seen: Bools) -> cp_model.IntVar:
        """Return a literal that implies that at most one provider is on nodes that the terms see.

        Args:
            index: Number of the terms in the rule. Equal numbers share one literal.
        """
        if (index,) not in self._counts:
            literal = self._counts[index,] = self.model.model.new_bool_var("")
            self._at_most(providers, np.flatnonzero(seen), 0, 1, literal)
        return self._counts[index,]


def _repulsions(cluster: Cluster) -> list[_Repulsion]:
    found: dict[AffinityTerm, _Repulsion] = {}

    def get(term: AffinityTerm) -> _Repulsion:
        if term not in found:
            codes, size = cluster.domains(term.key)
            fixed = cluster.fixed_per_domain(term.matcher, term.key)
            found[term] = _Repulsion(term, codes, [], cluster.matches(term.matcher), np.zeros(size, dtype=np.int64), fixed)
        return found[term]

    for g, cls in enumerate(cluster.classes):
        for term in cls.anti:
            get(term).owners.append(g)
    for fixed_term in cluster.fixed_anti:
        repulsion = get(fixed_term.term)
        inside = repulsion.codes[fixed_term.nodes]
        repulsion.owned[inside[inside >= 0]] = 1
    return list(found.values())
