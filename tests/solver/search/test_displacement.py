"""Groups that want a node of a kind take the one whose pods lose least by giving way."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from kubestow.models.cluster.cluster import Ints
from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.snapshot.scope import select
from kubestow.models.snapshot.snapshot import from_objects
from kubestow.solver import rules
from kubestow.solver.objective.preferences import Objective
from kubestow.solver.rules.eligibility import possible
from kubestow.solver.search.displacement import Displacement
from kubestow.solver.search.local_search import LocalSearch
from tests.objects import Object, node, pod

HOST = "kubernetes.io/hostname"


def attracting(app: str, weight: int) -> Object:
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": app}}}
    return {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": weight, "podAffinityTerm": term}]}}


class Placed:
    """``group``: three pods that want to be together, on nodes of their own; ``tied``: three like them on n0; ``flat``: pods that are as
    well off anywhere, three on n1 and two on n2; n3 has room for one pod more, the others for none. All nodes are alike."""

    def __init__(self) -> None:
        objects: list[Object] = [node(f"n{i}", cpu="4", labels={HOST: f"n{i}"}) for i in range(4)]
        objects += [pod(f"group{i}", cpu="1", labels={"app": "group"}, affinity=attracting("group", 10)) for i in range(3)]
        objects += [pod(f"tied{i}", cpu="1", labels={"app": "tied"}, affinity=attracting("tied", 10)) for i in range(3)]
        objects += [pod(f"flat{i}", cpu="1", labels={"app": "flat"}) for i in range(5)]
        snapshot = from_objects(objects)
        self.cluster = compile_cluster(snapshot, select(snapshot))
        active = rules.build(self.cluster)
        apps = [(snapshot.pods[cls.pods[0]].metadata.labels or {})["app"] for cls in self.cluster.classes]
        self.at = {app: g for g, app in enumerate(apps)}
        self.counts: Ints = np.zeros((3, 4), dtype=np.int64)
        self.counts[self.at["group"]] = [1, 1, 1, 0]
        self.counts[self.at["tied"]] = [3, 0, 0, 0]
        self.counts[self.at["flat"]] = [0, 3, 2, 0]
        cells = [(int(g), int(n), int(self.counts[g, n])) for g, n in zip(*np.nonzero(self.counts), strict=True)]
        objective = Objective(self.cluster, active)
        self.search = LocalSearch(objective, rules.replay(self.cluster, cells), possible(self.cluster, active), self.counts, seed=0)

    def least_loss(self, wanted: list[int], pools: list[int]) -> list[int]:
        target = np.array([wanted], dtype=np.int64)
        return [int(k) for k in Displacement(self.search, [self.at["group"]], np.array(pools)).least_loss(target)[0]]


def test_a_node_with_room_comes_first() -> None:
    assert Placed().least_loss([3, 0, 0, 0], [0, 0, 0, 0]) == [0, 0, 0, 3]


@pytest.mark.parametrize(("pools", "expected"), [([0, 0, 0, 1], [0, 0, 3, 0]), ([0, 0, 1, 1], [0, 3, 0, 0])])
def test_pods_that_lose_nothing_give_way_before_those_that_are_tied(pools: list[int], expected: list[int]) -> None:
    """n2 has a flat pod less in the way than n1; on n0 three pods would have to leave one another."""
    assert Placed().least_loss([3, 0, 0, 0], pools) == expected


def test_a_group_stays_in_its_pools() -> None:
    assert Placed().least_loss([3, 0, 0, 0], [0, 1, 2, 3]) == [3, 0, 0, 0]


def test_a_target_that_no_node_can_hold_stays_as_it_is() -> None:
    assert Placed().least_loss([5, 0, 0, 0], [0, 0, 0, 0]) == [5, 0, 0, 0]


@pytest.mark.parametrize("seed", range(20))
def test_each_pool_gets_what_it_would_have_had(seed: int) -> None:
    """The same numbers of pods together, on other nodes of the pool, none more than it can hold."""
    at, rng = Placed(), np.random.default_rng(seed)
    target = np.zeros((1, 4), dtype=np.int64)
    for n in rng.integers(4, size=3).tolist():
        target[0, n] += 1
    pools = rng.integers(2, size=4)
    result = Displacement(at.search, [at.at["group"]], pools).least_loss(target)
    assert [Counter(result[0, pools == p].tolist()) for p in range(2)] == [Counter(target[0, pools == p].tolist()) for p in range(2)]
    assert (at.search.counts == at.counts).all()


def test_pods_that_lose_something_by_leaving_keep_their_room() -> None:
    """Three pods that attract each other, one CPU each; neither the flat ones nor the group itself."""
    at = Placed()
    room, slots = Displacement(at.search, [at.at["group"]], np.zeros(4, dtype=np.int64)).immovable()
    assert room[:, at.cluster.resources.index("cpu")].tolist() == [3000, 0, 0, 0]
    assert slots.tolist() == [3, 0, 0, 0]
