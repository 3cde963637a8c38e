"""Every family of preferences declares its faces, in the solver and in the checker, and the engines take one that they do not know."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import pytest

from kubestow.checker.objective import families as checked
from kubestow.checker.objective.families import base as checked_base
from kubestow.models.cluster import node_scores
from kubestow.models.cluster.cluster import Cluster, Ints
from kubestow.models.documents.policy import Multipliers
from kubestow.solver import rules
from kubestow.solver.bounds.component_bounds import Components
from kubestow.solver.construction.greedy import construct
from kubestow.solver.objective import families, report
from kubestow.solver.objective.assign_zones import assign
from kubestow.solver.objective.families.base import Family
from kubestow.solver.objective.families.node_points import NodePoints, NodeScorePoints
from kubestow.solver.objective.incremental_score import SoftState
from kubestow.solver.objective.preferences import Objective
from kubestow.solver.rules.base import Rule
from kubestow.solver.rules.eligibility import possible
from kubestow.solver.rules.placement_model import build_model
from tests.solver.objective.test_encoding import best_in_model, compiled

#: Methods that a family with a shape of its own declares.
OWN_SHAPE = ("encode", "links", "node_bound", "bound", "best", "gains", "losses")


def declares(kind: type, face: str, base: type) -> bool:
    """Whether the class, or a class between it and the interface, says something of its own."""
    return any(face in vars(each) for each in kind.__mro__[: kind.__mro__.index(base)])


def test_every_multiplier_is_a_family_of_the_solver_and_of_the_checker() -> None:
    names = Multipliers.__struct_fields__
    assert tuple(kind.name for kind in families.KINDS) == names
    assert tuple(kind.name for kind in checked.KINDS) == names
    assert {kind.name for kind in node_scores.KINDS} == {k.name for k in families.KINDS if issubclass(k, NodeScorePoints)}


@pytest.mark.parametrize("kind", families.KINDS, ids=lambda kind: kind.name)
def test_a_family_declares_its_faces(kind: type[Family]) -> None:
    def declared(face: str) -> bool:
        return declares(kind, face, Family)

    assert not kind.__abstractmethods__
    assert declared("row") == declared("key"), "a row needs a key that is equal for classes with equal rows"
    shapes = [declared("row"), declared("__init__"), declared("involved")]
    assert any(shapes), "no points: a row, terms, constraints, or classes that are involved"
    if declares(kind, "encode", Family):
        assert not [face for face in OWN_SHAPE if not declared(face)]
    if issubclass(kind, NodePoints):
        assert kind.words


@pytest.mark.parametrize("kind", checked.KINDS, ids=lambda kind: kind.name)
def test_a_family_of_the_checker_declares_its_faces(kind: type[checked_base.Family]) -> None:
    def declared(face: str) -> bool:
        return declares(kind, face, checked_base.Family)

    assert not kind.__abstractmethods__
    if kind.recounts == "each":
        assert declared("recount") or (declared("terms") and declared("words")), "claims about its losses need words"


class Numbered(NodePoints):
    """A family that no engine knows: points by the number of class and node."""

    name, words = "numbered", "a node of a higher number"

    def __init__(self, cluster: Cluster, rules: Sequence[Rule]) -> None:
        self.cluster, self.multiplier, self.terms, self.tallies = cluster, 3, [], []

    def key(self, g: int) -> Hashable:
        return g % 3 or None

    def row(self, g: int) -> Ints:
        return np.arange(self.cluster.n_nodes, dtype=np.int64) * (g % 3) - 1


def test_every_engine_takes_a_family_that_it_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(families, "KINDS", (*families.KINDS, Numbered))
    seen = 0
    for seed in range(8):
        cluster = compiled(seed, "pods")
        active = rules.build(cluster)
        built = construct(cluster, rules.build(cluster), possible(cluster, active))
        objective = Objective(cluster, active)
        counts, sequence = built.counts, [(g, n, 1) for g, n, k in built.sequence for _ in range(k)]
        points = objective.families(counts)
        assert points["numbered"] == sum(k * (n * (g % 3) - 1) for g, n, k in built.sequence if g % 3)
        state, total = SoftState(objective), objective.total(objective.families(np.zeros_like(counts)))
        for g, n, _ in sequence:
            total += int(state.gain(g)[n])
            state.place(g, n)
        assert total == objective.total(points)
        assert best_in_model(cluster, build_model(cluster, rules.build(cluster)), objective, counts) == total
        unplaced = {int(p): int(sum(cluster.count)) for p in cluster.priority}
        assert Components(cluster, objective, possible(cluster, active), unplaced).bound >= total
        found = report.report(objective, counts, sequence, assign(cluster, objective.containers, sequence))
        assert cluster.n_classes == 1 or objective.scale() >= 3 * (cluster.n_nodes - 2)
        lost = sum(each.lost for each in found.unmet if each.family == "numbered")
        for own in (each for each in found.families if each.family == "numbered"):
            assert (own.value, own.multiplier, own.best) == (points["numbered"], 3, points["numbered"] + lost // 3)
        seen += lost > 0
    assert seen


def test_points_of_an_own_shape_never_lack_an_expression_or_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(families, "KINDS", (*families.KINDS, Numbered))
    monkeypatch.setattr(Numbered, "involved", (0,))
    cluster = compiled(0, "pods")
    active = rules.build(cluster)
    objective = Objective(cluster, active)
    assert [0] in [list(link) for family in objective.members for link in family.links()]
    with pytest.raises(NotImplementedError, match=r"family numbered: .* need (node_)?bound"):
        Components(cluster, objective, possible(cluster, active), {})
    with pytest.raises(NotImplementedError, match=r"family numbered: .* need encode"):
        best_in_model(cluster, build_model(cluster, active), objective, np.zeros((cluster.n_classes, cluster.n_nodes), dtype=np.int64))
