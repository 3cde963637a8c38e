"""Where a group would like to be if it were alone: found although others are in the way now."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from models.cluster.compile import compile_cluster
from models.snapshot.scope import select
from models.snapshot.snapshot import from_objects
from solver import rules
from solver.bounds.component_bounds import Components
from solver.objective.preferences import Objective
from solver.rules.eligibility import possible
from solver.search.annealing import LocalSearch
from solver.search.group_alone import look_alone
from tests.objects import Object, node, pod


def test_a_group_alone_fills_the_node_that_others_are_on() -> None:
    """Four pods that attract four others have one each on four nodes beside large pods; alone they share one node, 16 pairs and 100 points
    each."""
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "b"}}}
    pull = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": term}]}}
    objects: list[Object] = [node(f"n{i}", cpu="8", labels={"kubernetes.io/hostname": f"n{i}"}) for i in range(4)]
    objects += [pod(f"a{i}", cpu="1", labels={"app": "a"}, affinity=pull) for i in range(4)]
    objects += [pod(f"b{i}", cpu="1", labels={"app": "b"}) for i in range(4)]
    objects += [pod(f"large{i}", cpu="6", labels={"app": "c"}) for i in range(4)]
    snapshot = from_objects(objects)
    cluster = compile_cluster(snapshot, select(snapshot))
    active = rules.build(cluster)
    objective, limits = Objective(cluster, active), possible(cluster, active)
    counts = np.ones((3, 4), dtype=np.int64)
    cells = [(g, n, 1) for g in range(3) for n in range(4)]
    search = LocalSearch(objective, rules.replay(cluster, cells), limits, counts, seed=0)
    component = next(c for c in Components(cluster, objective, limits, {0: 0}).found if len(c.classes) == 2)

    def clock(_: LocalSearch, seconds: float, sweeps: float) -> Callable[[], float]:
        looks = iter(range(40))
        return lambda: next(looks, 40) / 40

    look_alone(component, search, 0, clock)
    assert component.counts is not None
    assert (component.counts.sum(axis=1) == 4).all()
    assert component.value == 1600
    assert component.proved
    assert (search.counts == counts).all()

    base = objective.total(objective.families(search.counts))
    assert base == 400
    assert search.relocate(component.classes, component.counts) is None  # nobody has to go ...
    assert (search.counts == counts).all()
