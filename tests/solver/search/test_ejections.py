"""Pods change places on full nodes: no rule is violated on the way, and the gain is that of the objective."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from kubestow.solver import rules
from kubestow.solver.bind_order.order import find_order
from kubestow.solver.rules.node_resources_fit.rule import NodeResourcesFit
from kubestow.solver.search.local_search import LocalSearch
from tests.objects import Object, node, pod
from tests.solver.search.test_unit_moves import ZONE, annealed, likes_zone, near, searching, value


def full(weights: tuple[int, int] = (10, 10)) -> list[Object]:
    """Two full nodes of two zones, and pods that prefer them, half the pods each."""
    objects = [node(f"n{z}", cpu="4", labels={ZONE: f"z{z}"}) for z in range(2)]
    for z in (1, 0):
        objects += [pod(f"p{z}{i}", cpu="1", labels={"app": f"a{z}"}, affinity=likes_zone(f"z{z}", weights[z])) for i in range(4)]
    return objects


def exchanged(search: LocalSearch) -> LocalSearch:
    """The same search, from where all pods are in the zone that the others prefer."""
    points = np.stack([search.objective.node_points(g) for g in range(search.cluster.n_classes)])
    search.go_to(np.where(points > 0, 0, search.cluster.count[:, None]))
    return search


def test_pods_that_want_each_others_places_get_them() -> None:
    search = exchanged(searching(full()))
    assert (value(search), annealed(search)) == (0, 0)
    search.ejecting = True
    assert annealed(search) == 80
    assert value(search) == 80


def test_larger_ones_give_way_to_smaller_ones_and_go_where_room_was_left() -> None:
    """The node that both want takes the small pod and not the large one as well; the large one finds room beyond."""
    objects = [node("n0", cpu="2", labels={ZONE: "z0"}), node("n1", cpu="1", labels={ZONE: "z1"}), node("n2", cpu="2", labels={ZONE: "z1"})]
    objects += [pod("large", cpu="2", affinity=likes_zone("z0", 1)), pod("small", cpu="1", affinity=likes_zone("z0", 5))]
    search = searching(objects)
    counts = search.counts.copy()
    large, small = (next(g for g in range(2) if search.cluster.demand[g, 0] == cpu) for cpu in (2000, 1000))
    counts[:] = 0
    counts[large, 0] = counts[small, 1] = 1
    search.go_to(counts)
    search.ejecting = True
    assert annealed(search) == 4
    assert search.counts[small, 0] == search.counts[large, 2] == 1


def test_pods_that_rules_tie_to_others_do_not_change_places() -> None:
    objects = full()
    for i, thing in enumerate(objects[2:]):
        thing["spec"]["containers"][0]["ports"] = [{"hostPort": 80 + i, "containerPort": 80}]
    search = exchanged(searching(objects))
    search.ejecting = True
    assert not any(search.free_of_rules(g) for g in range(search.cluster.n_classes))
    assert (value(search), annealed(search)) == (0, 0)


@pytest.mark.parametrize("seed", range(12))
def test_what_is_gained_is_what_the_objective_says_and_no_rule_is_broken(seed: int) -> None:
    rng = random.Random(f"ejections-{seed}")
    objects = [node(f"n{i}", cpu=rng.choice("23"), pods=rng.choice(("3", "20")), labels={ZONE: f"z{i % 3}"}) for i in range(6)]
    for c in range(8):
        affinity = likes_zone(f"z{rng.randrange(3)}", rng.choice((1, 10, 50)))
        if rng.random() < 0.4:
            affinity["podAffinity"] = near(f"a{rng.randrange(8)}", rng.choice((1, 20)))
        if rng.random() < 0.2:
            apart = {"labelSelector": {"matchLabels": {"app": f"a{c}"}}, "topologyKey": "kubernetes.io/hostname"}
            affinity["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}
        shape: dict[str, Any] = {"cpu": rng.choice(("300m", "500m", "1")), "labels": {"app": f"a{c}"}}
        objects += [pod(f"p{c}-{i}", affinity=affinity, **shape) for i in range(rng.randint(1, 3))]
    search = searching(objects, seed)
    placed, before = search.counts.sum(axis=1), value(search)
    search.ejecting = True
    gained = annealed(search)
    assert value(search) == before + gained
    assert (search.counts.sum(axis=1) == placed).all()
    ordering = find_order(search.cluster, search.counts, seed=0)
    assert ordering.sequence is not None
    again = rules.replay(search.cluster, ordering.sequence)
    assert (search.fit.free == NodeResourcesFit.of(again).free).all()
    assert (search.fit.free >= 0).all()
