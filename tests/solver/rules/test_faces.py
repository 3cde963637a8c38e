"""What a rule must state for the engines, and engines without one of the rules."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from kubestow.checker import rules as checked_rules
from kubestow.models.cluster.cluster import Cluster, PodClass
from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.kube.selectors import Bools
from kubestow.models.snapshot.scope import select
from kubestow.models.snapshot.snapshot import from_objects
from kubestow.solver import rules
from kubestow.solver.rules.base import Rule
from kubestow.solver.rules.placement_faces import DECLARED, PlacementFaces
from kubestow.solver.rules.unread import SOFT_FIELDS
from kubestow.solver.runtime.options import Engine, Options
from kubestow.solver.solve import place
from tests.objects import Object, node, pod
from tests.solver.devices.test_shortage import claim, device, device_class, gpus, published

ENGINES: tuple[Engine, ...] = ("greedy", "exact", "lns", "auto")


@pytest.mark.parametrize("kind", rules.ALL, ids=lambda kind: str(kind.name))
@pytest.mark.parametrize("face", DECLARED)
def test_every_rule_declares_every_face(kind: type[Rule], face: str) -> None:
    own = [base for base in kind.__mro__ if issubclass(base, Rule) and base is not Rule]
    assert any(face in vars(base) for base in own), f"{kind.__name__} does not declare {face}: see {PlacementFaces.__name__}"


def test_every_field_that_distinguishes_pods_is_read_by_a_rule_or_a_preference() -> None:
    distinguishing = {field.name for field in fields(PodClass) if field.compare}
    assert SOFT_FIELDS.union(*(kind.reads for kind in rules.ALL)) == distinguishing


class OnePerZone(Rule):
    """A rule with nothing but the incremental face: the zones of placed pods are closed."""

    name = "OnePerZone"

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._codes, size = cluster.domains("zone")
        self._pods = np.zeros(size, dtype=np.int64)

    def rejects(self, g: int) -> Bools:
        return self._pods[self._codes] > 0

    def never(self, g: int) -> Bools:
        return np.zeros(self.cluster.n_nodes, dtype=bool)

    def place(self, g: int, n: int, k: int = 1) -> None:
        self._pods[self._codes[n]] += k

    def message(self, g: int, rejected: Bools) -> str:
        return "the zone has a pod"


def test_greedy_construction_and_ordering_obey_a_rule_that_declares_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "ALL", (*rules.ALL, OnePerZone))
    objects = [node(f"n{i}", labels={"zone": f"z{i % 3}"}) for i in range(9)]
    objects += [pod(f"p{i}", labels={"app": f"a{i % 2}"}) for i in range(5)]
    result = place(from_objects(objects), Options(engine="greedy", deterministic=True, causes=False))
    assert len({int(entry.node[1:]) % 3 for entry in result.assignments}) == len(result.assignments) == 3
    assert {reason.rule for entry in result.unplaced for reason in entry.reasons} == {"OnePerZone"}


def test_every_rule_is_static_or_stated_in_models() -> None:
    assert rules.unencoded() == [], "a rule that depends on other pods and has no encode"


@pytest.mark.parametrize("engine", ["exact", "auto"])
def test_no_engine_needs_a_model_of_a_rule_that_has_none(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "ALL", (*rules.ALL, OnePerZone))
    objects = [*(node(f"n{i}", labels={"zone": f"z{i % 2}"}) for i in range(4)), *(pod(f"p{i}") for i in range(3))]
    result = place(from_objects(objects), Options(engine=engine, deterministic=True, causes=False))
    assert (len(result.assignments), result.status, result.engine) == (2, "feasible", "greedy")
    assert "engine greedy, and no proof by search: no model states OnePerZone" in result.notes


def test_repair_and_local_search_leave_the_pods_of_a_rule_that_declares_nothing_where_they_are() -> None:
    rule = OnePerZone(compiled([node("n", labels={"zone": "z"}), pod("p")]))
    assert not rule.movable(0)
    assert not rule.repairable(0)
    assert not rule.survives_merging


def test_without_the_rule_of_devices_pods_are_placed_and_their_claims_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The checker has its own reading of devices, which is left out, too."""
    monkeypatch.setattr(rules, "ALL", tuple(kind for kind in rules.ALL if kind.name != "DynamicResources"))
    monkeypatch.setattr(checked_rules, "ALL", tuple(kind for kind in checked_rules.ALL if "DynamicResources" not in kind.names))
    asking = pod("p", resourceClaims=[{"name": "c", "resourceClaimName": "c"}])
    snapshot = from_objects([node("n1"), device_class("gpu"), published("n1", device("d1")), asking, pod("q"), claim(gpus(1))])
    for engine in ENGINES:
        result = place(snapshot, Options(engine=engine, deterministic=True, time_limit=1.0))
        assert [each.pod for each in result.assignments] == ["default/p", "default/q"]
        assert not any(each.devices for each in result.assignments)
        assert [(each.pod, each.field) for each in result.unmodelled] == [("default/p", "spec.resourceClaims")]


def compiled(objects: list[Object]) -> Cluster:
    snapshot = from_objects(objects)
    return compile_cluster(snapshot, select(snapshot))
