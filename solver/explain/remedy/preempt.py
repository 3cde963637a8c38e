"""Remedies by eviction: the fewest running pods of the highest priority, then of the next, whose eviction makes a placement possible.

The scheduler's preemption prefers victims in this order, too
(https://kubernetes.io/docs/concepts/scheduling-eviction/pod-priority-preemption/). A running gang keeps its
minimum or is evicted whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kubestow.models.cluster.cluster import Ids, Ints
from kubestow.models.disruption.pod_disruption_budgets import DisruptionBudget, budgets
from kubestow.models.documents.placement import Remedy
from kubestow.models.kube.lenient_decode import some
from kubestow.models.kube.objects import pod_key
from kubestow.models.kube.selectors import Bools
from kubestow.solver import rules
from kubestow.solver.cpsat.cells import Cells
from kubestow.solver.cpsat.model import PlacementModel
from kubestow.solver.explain.conflict.placement_question import PlacementQuestion
from kubestow.solver.explain.remedy.apply import applied
from kubestow.solver.explain.remedy.time_slices import TimeSlices
from kubestow.solver.explain.remedy.victims import EvictionProblem, candidates, eviction_problem, relevant, running_gangs
from kubestow.solver.ortools import cp_model
from kubestow.solver.rules.eligibility import fits, possible
from kubestow.solver.rules.placement_model import build_model

#: Maximum number of placements without a bind order to cut off before the question stays open.
MAX_CUTS = 20
#: Maximum number of candidates that are queried one by one if no model applies.
MAX_QUERIED_CANDIDATES = 100
#: Maximum number of candidates of which each is first tried alone.
MAX_SINGLE_CANDIDATES = 20
#: Number of slots per pod of the question on the nodes that are tried first.
SLOTS_PER_POD = 2
#: Maximum number of pod names in one sentence.
MAX_NAMED_PODS = 5
#: Maximum total weight of all candidates, so that CP-SAT can sum it.
MAX_WEIGHT = 2**50


@dataclass
class _EvictionModel:
    problem: EvictionProblem
    encoding: PlacementModel
    gone: cp_model.LinearExprT  # total weight of evicted candidates
    weights: dict[int, int]  # weight of a pod of each candidate class
    exact: bool  # no candidate had to be excluded


def victims(question: PlacementQuestion, clock: TimeSlices, share: float) -> list[Remedy]:
    """Return the eviction of the pods of lowest priority, and another one if PodDisruptionBudgets do not allow the first.

    Argument ``least`` is ``unproved`` if a lower priority or fewer pods might suffice.

    Args:
        share: Fraction of the whole time for all solves together.
    """
    section = clock.section(share)
    chosen = candidates(question)
    first = _best(question, chosen, section)
    if first is None or "budgets" not in first.arguments:
        return [] if first is None else [first]
    second = _best(question, allowed(question, chosen), section)
    return [first] if second is None else [first, second]


def _best(question: PlacementQuestion, chosen: Sequence[int], section: TimeSlices) -> Remedy | None:
    if not chosen:
        return None
    built = _build(question, chosen, section)
    remedy = _solved(question, built, section) if built is not None else None
    if remedy is not None:
        return remedy
    holding = holders(question, chosen)  # the model does not know that evictions release devices
    if holding and (len(chosen) > MAX_QUERIED_CANDIDATES or (built is not None and built.exact)):
        chosen = holding
    elif built is not None and built.exact:
        return None
    return _search_without_model(question, chosen, section)


def holders(question: PlacementQuestion, chosen: Sequence[int]) -> list[int]:
    """Return the candidates that hold devices."""
    snapshot = question.snapshot
    owners = {owner.uid for claim in snapshot.resource_claims.values() for owner in claim.metadata.ownerReferences or () if owner.uid}
    return [i for i in chosen if snapshot.pods[i].spec.resourceClaims or snapshot.pods[i].metadata.uid in owners]


def _solved(question: PlacementQuestion, built: _EvictionModel, section: TimeSlices) -> Remedy | None:
    sure = built.exact
    for _ in range(MAX_CUTS):
        solution, optimal = _fewest(built, section)
        if solution is None:
            return None
        sure &= optimal
        counts = built.encoding.counts(solution)
        gone = [i for g in built.problem.victims for n, pods in built.problem.at[g].items() for i in pods[int(counts[g, n]) :]]
        remedy = _remedy(question, gone, sure=sure)
        verdict = section.ask(applied(question, remedy), 0.5)
        if verdict:
            return remedy
        sure &= verdict is False
        built.encoding.forbid(counts, built.problem.victims)
    section.leave_open()
    return None


def _fewest(built: _EvictionModel, section: TimeSlices) -> tuple[list[int] | None, bool]:
    """Return the best solution found, and True if it is optimal.

    Parts of the cluster are solved first, because they give good solutions fast. For a gang in one domain
    these are the domains, which are exhaustive. Otherwise it is the nodes with the cheapest room, and then
    all nodes.
    """
    problem, encoding = built.problem, built.encoding
    gang = next((gang for gang in problem.cluster.gangs if gang.key is not None), None)
    best: list[int] | None = None
    optimal = True
    if gang is not None and gang.key is not None:
        codes = problem.cluster.domains(gang.key)[0]
        parts = [(codes == d, 0.5) for d in encoding.domains(gang.classes, codes)]
    else:
        parts = [(cheap, 0.3) for cheap in [_cheap(built)] if not cheap.all()] + [(np.ones(problem.cluster.n_nodes, dtype=bool), 0.4)]
    for inside, share in parts:
        model = encoding.model.clone()
        for g in problem.own if gang is None else gang.classes:
            for n in encoding.nodes_of(g).tolist():
                if not inside[n]:
                    model.add(encoding.x[g, n] == 0)
        if best is not None:
            model.add(built.gone <= _value(built, best) - 1)
        model.minimize(built.gone)
        answer = section.solve(model, share, tight=True)
        best = answer.solution or best
        proved = answer.status in (cp_model.OPTIMAL, cp_model.INFEASIBLE)
        optimal = proved if gang is None else optimal and proved
    return best, optimal


def _cheap(built: _EvictionModel) -> Bools:
    """Return bool[N], for each class to be placed the nodes where its first pod evicts the fewest candidates.

    The nodes have room for :data:`SLOTS_PER_POD` times its pods.
    """
    problem, encoding = built.problem, built.encoding
    chosen = np.zeros(problem.cluster.n_nodes, dtype=bool)
    for g in problem.own:
        price = {n: _price(problem, g, n) for n in encoding.nodes_of(g).tolist()}
        wanted = SLOTS_PER_POD * encoding.fits[g]
        for n in sorted(price, key=lambda n: (price[n], n)):
            if wanted <= 0:
                break
            chosen[n] = True
            wanted -= encoding.upper(g, n)
    return chosen


def _price(problem: EvictionProblem, g: int, n: int) -> int:
    """Return a lower bound on the candidates, the largest first, that leave a node for one pod of a class."""
    here = [(h, len(nodes[n])) for h, nodes in problem.at.items() if n in nodes]
    demand, price = problem.cluster.demand, 0
    for r in np.flatnonzero(demand[g]).tolist():
        short = int(demand[g, r]) - int(problem.cluster.free[n, r]) + sum(int(demand[h, r]) * k for h, k in here)
        count = 0
        for size, k in sorted(((int(demand[h, r]), k) for h, k in here), reverse=True):
            if short <= 0 or not size:
                break
            evicted = min(k, -(-short // size))
            count, short = count + evicted, short - evicted * size
        price = max(price, count)
    return price


def _value(built: _EvictionModel, solution: Sequence[int]) -> int:
    return sum(built.weights[g] * solution[built.encoding.unplaced[g].index] for g in built.problem.victims)


def _search_without_model(question: PlacementQuestion, chosen: Sequence[int], section: TimeSlices) -> Remedy | None:
    """Return an eviction without a model, for running pods that break rules among themselves or hold devices.

    A unit is a gang, or a pod without one. First try each unit alone. Then evict all candidates, and retain
    one unit after another, the highest priority first.
    """
    units = _units(question, chosen)
    if len(units) <= MAX_SINGLE_CANDIDATES:
        for unit in reversed(units):
            if section.ask(applied(question, _remedy(question, unit, sure=True))):
                return _remedy(question, unit, sure=True)
    gone = [i for unit in units for i in unit]
    if len(gone) > MAX_QUERIED_CANDIDATES:
        section.leave_open()
        return None
    if not section.ask(applied(question, _remedy(question, gone, sure=False))):
        return None
    for unit in units:
        fewer = [i for i in gone if i not in unit]
        if section.ask(applied(question, _remedy(question, fewer, sure=False))):
            gone = fewer
    return _remedy(question, gone, sure=False)


def _units(question: PlacementQuestion, chosen: Sequence[int]) -> list[list[int]]:
    """Return candidates that are evicted together, the highest priority first, without gangs that cannot be evicted whole."""
    among, units, gang_pods = set(chosen), list[list[int]](), set[int]()
    for gang in running_gangs(question):
        gang_pods |= gang.pods
        if gang.pods <= among:
            units.append(sorted(gang.pods))
    units += [[i] for i in chosen if i not in gang_pods]
    pods = question.snapshot.pods
    return sorted(units, key=lambda unit: (-max(pods[i].spec.priority or 0 for i in unit), -len(unit), unit))


def allowed(question: PlacementQuestion, chosen: Sequence[int]) -> list[int]:
    """Return candidates that PodDisruptionBudgets allow to evict together, the lowest priority first."""
    pods, remaining = question.snapshot.pods, list(chosen)
    for budget in budgets(question.snapshot):
        charged = sorted(
            (i for i in remaining if i in budget.pods and i not in budget.free),
            key=lambda i: (pods[i].spec.priority or 0, i),
        )
        kept = set(remaining) - set(charged[budget.allowed :])
        remaining = [i for i in remaining if i in kept]
    return remaining


def _build(question: PlacementQuestion, chosen: Sequence[int], section: TimeSlices) -> _EvictionModel | None:
    """Return the model of the relevant candidates. Running pods that break rules among themselves are excluded."""
    chosen = relevant(question, chosen)
    exact = True
    for _ in range(2):
        if not chosen:
            return None
        problem = eviction_problem(question, chosen)
        encoding = encode(problem)
        placed = sum(encoding.fits[g] for g in problem.own) - encoding.sum([encoding.unplaced[g] for g in problem.own])
        weights = weights_of(problem)
        gone = encoding.weighted_sum([encoding.unplaced[g] for g in problem.victims], [weights[g] for g in problem.victims])
        trial = encoding.model.clone()
        trial.add(placed == 0)
        trial.minimize(gone)
        answer = section.solve(trial)
        if answer.solution is None:
            return None
        odd = {
            i
            for g in problem.victims
            for n, pods in problem.at[g].items()
            for i in pods[answer.solution[encoding.x[g, n].index] :]
        }  # fmt: skip
        if not odd:
            encoding.model.add(placed >= question.needed)
            _keep_gangs(problem, encoding)
            return _EvictionModel(problem, encoding, gone, weights, exact)
        exact = False
        chosen = [i for i in chosen if i not in odd]
    return None


def weights_of(problem: EvictionProblem) -> dict[int, int]:
    """Return the weight of a pod of each class, which exceeds the total weight of lower priorities.

    If the total would exceed :data:`MAX_WEIGHT`, the lowest priorities share one weight.
    """
    priority = problem.cluster.priority
    levels = sorted({int(priority[g]) for g in problem.victims})
    pods = {p: sum(problem.cluster.classes[g].count for g in problem.victims if priority[g] == p) for p in levels}
    for joined in range(len(levels)):
        weight, total, weights = 1, 0, dict[int, int]()
        for k, level in enumerate(levels):
            weight = total + 1 if k > joined else 1
            weights[level] = weight
            total += weight * pods[level]
        if total < MAX_WEIGHT:
            break
    return {g: weights[int(priority[g])] for g in problem.victims}


def _keep_gangs(problem: EvictionProblem, encoding: PlacementModel) -> None:
    """Require that each running gang keeps its minimum, or is evicted whole."""
    for gang in problem.gangs:
        members = sum(problem.cluster.classes[g].count for g in gang.classes)
        staying = members - encoding.sum([encoding.unplaced[g] for g in gang.classes])
        if not gang.whole:
            encoding.model.add(staying >= gang.least)
            continue
        kept = encoding.model.new_bool_var("")
        encoding.model.add(staying >= gang.least).only_enforce_if(kept)
        encoding.model.add(staying == 0).only_enforce_if(~kept)


def encode(problem: EvictionProblem) -> PlacementModel:
    """Return the model of an instance in which running pods may leave."""
    cluster = problem.cluster
    active = rules.build(cluster)
    limits = possible(cluster, active)
    cells: dict[int, tuple[Ids, Ints]] = {}
    for g in problem.own:
        nodes = np.flatnonzero(limits[g]).astype(np.int32)
        cells[g] = (nodes, limits[g, nodes])
    for g in problem.victims:
        here = sorted((n, len(pods)) for n, pods in problem.at[g].items())
        cells[g] = (np.array([n for n, _ in here], dtype=np.int32), np.array([k for _, k in here], dtype=np.int64))
    upper = fits(cluster, limits).tolist()
    pods = {g: int(upper[g]) for g in problem.own} | {g: cluster.classes[g].count for g in problem.victims}
    return build_model(cluster, active, Cells(cells, pods), leavers=problem)


def _remedy(question: PlacementQuestion, gone: Sequence[int], *, sure: bool) -> Remedy:
    pods = sorted((question.snapshot.pods[i] for i in gone), key=pod_key)
    named = [f"{pod_key(pod)} on {pod.spec.nodeName}" for pod in pods[:MAX_NAMED_PODS]]
    more = ", …" if len(pods) > MAX_NAMED_PODS else ""
    message = f"evict {len(pods)} pod{'s' if len(pods) != 1 else ''} of lower priority: {', '.join(named)}{more}"
    arguments = {"pods": ",".join(pod_key(pod) for pod in pods)}
    whole = [gang.name for gang in running_gangs(question) if gang.pods <= set(gone)]
    if whole:
        message += f" (gang{'s' if len(whole) > 1 else ''} {some(whole)} as a whole)"
    broken = [budget for budget in budgets(question.snapshot) if _evictions_needed(budget, gone) > budget.allowed]
    if broken:
        arguments["budgets"] = ",".join(budget.name for budget in broken)
        which = some([f"{budget.name} (allows {budget.allowed})" for budget in broken])
        message += f", against PodDisruptionBudget{'s' if len(broken) > 1 else ''} {which}"
    if not sure:
        arguments["least"] = "unproved"
    return Remedy("evict", message, arguments)


def _evictions_needed(budget: DisruptionBudget, gone: Sequence[int]) -> int:
    """Return the number of evictions that the budget has to allow."""
    return sum(i in budget.pods and i not in budget.free for i in gone)
