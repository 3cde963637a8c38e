"""Groups next to others: the place where one would be alone, and how others yield the slots."""

from __future__ import annotations

import numpy as np

from kubestow.models.cluster.cluster import Ints
from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.snapshot.scope import select
from kubestow.models.snapshot.snapshot import from_objects
from kubestow.solver import rules
from kubestow.solver.bounds.component import ClassComponent
from kubestow.solver.bounds.component_bounds import Components
from kubestow.solver.cpsat.run import CpSat
from kubestow.solver.objective.preferences import Objective
from kubestow.solver.objective.shapes import AssignedZones
from kubestow.solver.rules.eligibility import possible
from kubestow.solver.runtime.options import Options
from kubestow.solver.runtime.run_context import RunContext
from kubestow.solver.search.annealing import SearchClock
from kubestow.solver.search.groups import ClassGroups
from kubestow.solver.search.local_search import LocalSearch
from kubestow.solver.search.outcome import SoftOutcome
from tests.objects import Object, node, pod


class Scattered:
    """Four pods that attract four others have one each on four nodes, each next to a large pod; ``spare``: a node for large pods only."""

    def __init__(self, *, spare: bool) -> None:
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "b"}}}
        pull = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": term}]}}
        tolerations = [{"key": "large", "operator": "Exists"}]
        taints = [{"key": "large", "effect": "NoSchedule"}]
        objects: list[Object] = [node(f"n{i}", cpu="8", labels={"kubernetes.io/hostname": f"n{i}"}) for i in range(4)]
        objects += [node("n4", cpu="8", labels={"kubernetes.io/hostname": "n4"}, taints=taints)] if spare else []
        objects += [pod(f"a{i}", cpu="1", labels={"app": "a"}, affinity=pull) for i in range(4)]
        objects += [pod(f"b{i}", cpu="1", labels={"app": "b"}) for i in range(4)]
        objects += [pod(f"large{i}", cpu="6", labels={"app": "c"}, tolerations=tolerations) for i in range(4)]
        snapshot = from_objects(objects)
        cluster = compile_cluster(snapshot, select(snapshot))
        active = rules.build(cluster)
        self.objective, limits = Objective(cluster, active), possible(cluster, active)
        self.counts: Ints = np.zeros((3, cluster.n_nodes), dtype=np.int64)
        self.counts[:, :4] = 1
        cells = [(g, n, 1) for g in range(3) for n in range(4)]
        self.search = LocalSearch(self.objective, rules.replay(cluster, cells), limits, self.counts.copy(), seed=0)
        components = Components(cluster, self.objective, limits, {0: 0})
        self.component: ClassComponent = next(c for c in components.found if len(c.classes) == 2)
        context = RunContext.start(Options(deterministic=True, time_limit=60))
        clock = SearchClock(context, cluster.n_nodes, 1e-5)
        self.groups = ClassGroups(components, self.search, self.objective, CpSat(context), clock)
        self.best = SoftOutcome(self.counts, cells, AssignedZones(), self.points(), components.bound)

    def points(self) -> int:
        return self.objective.total(self.objective.families(self.search.counts))


def test_a_group_alone_fills_the_node_that_others_are_on() -> None:
    """Alone they share one node, 16 pairs and 100 points each."""
    at = Scattered(spare=False)
    at.groups.improve_alone(at.component)
    assert at.component.counts is not None
    assert (at.component.counts.sum(axis=1) == 4).all()
    assert at.component.value == 1600
    assert at.component.proved
    assert (at.search.counts == at.counts).all()
    assert at.points() == 400
    assert at.search.relocate(at.component.classes, at.component.counts) is None  # nobody has to go ...
    assert (at.search.counts == at.counts).all()


def test_others_give_way_to_a_group_that_knows_where_it_is_best_off() -> None:
    at = Scattered(spare=True)
    assert not at.groups.move_again(at.best, 10.0)  # it does not know yet
    at.groups.improve_alone(at.component)
    assert at.groups.losing() == set(at.component.classes)
    assert at.groups.move_again(at.best, 10.0)
    assert at.points() == 1600
    assert at.search.counts.sum(axis=1).tolist() == [4, 4, 4]
    assert not at.groups.losing()
    assert not at.groups.move_again(at.best, 10.0)


def test_a_group_that_nobody_can_give_way_to_stays() -> None:
    at = Scattered(spare=False)
    at.groups.improve_alone(at.component)
    assert at.groups.move_again(at.best, 10.0)
    assert (at.search.counts == at.counts).all()


def test_bounding_is_worth_it_while_most_of_the_gap_may_be_unknown() -> None:
    at = Scattered(spare=False)
    assert at.groups.worth_bounding(at.best)
    at.groups.improve_alone(at.component)
    assert not at.groups.worth_bounding(at.best)
