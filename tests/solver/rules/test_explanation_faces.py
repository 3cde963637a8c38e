"""Each rule declares its faces for explanations, and a rule that declares none of them gets safe defaults."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kubestow.models.kube.selectors import Bools
from kubestow.models.snapshot.scope import select
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from kubestow.solver import rules
from kubestow.solver.cpsat.model import PlacementModel
from kubestow.solver.explain.conflict.minimal_conflict import minimal_cause
from kubestow.solver.explain.conflict.placement_question import PlacementQuestion
from kubestow.solver.explain.remedy.search import find_remedies
from kubestow.solver.rules.base import Rule
from kubestow.solver.rules.explanation_faces import DECLARED, ExplanationFaces
from tests.objects import node, pod
from tests.solver.explain.questions import within


def undeclared(kind: type[Rule]) -> list[str]:
    """The faces that a rule takes from the defaults without saying so."""
    own = [vars(base) for base in kind.__mro__ if base not in (Rule, ExplanationFaces)]
    return [face for face in DECLARED if not any(face in names for names in own)]


@pytest.mark.parametrize("kind", rules.ALL, ids=lambda kind: kind.name)
def test_every_rule_declares_its_faces_for_explanations(kind: type[Rule]) -> None:
    assert not undeclared(kind)


def test_no_two_rules_are_left_out_in_the_same_place() -> None:
    ranks = [kind.drop_rank for kind in rules.ALL]
    assert len(set(ranks)) == len(ranks)


class Curfew(Rule):
    """A rule nobody has heard of: only one node accepts pods, and one pod in all."""

    name = "Curfew"

    def never(self, g: int) -> Bools:
        return np.arange(self.cluster.n_nodes) > 0

    def rejects(self, g: int) -> Bools:
        return self.never(g)

    def encode(self, encoding: PlacementModel) -> None:
        with encoding.about(("pods", "in all"), range(self.cluster.n_classes)):
            cells = encoding.cells(range(self.cluster.n_classes), range(self.cluster.n_nodes))
            encoding.model.add(encoding.sum(cells) <= 1)

    def message(self, g: int, rejected: Bools) -> str:
        assert rejected.any()
        return "after hours"


def cluster(*pods: dict[str, Any]) -> Snapshot:
    return from_objects([node("n1", cpu="4"), node("n2", cpu="4"), *pods])


def question(snapshot: Snapshot) -> PlacementQuestion:
    pending = tuple(select(snapshot).pending)
    return PlacementQuestion(snapshot, pending, len(pending))


def test_a_rule_without_faces_is_found_by_name() -> None:
    assert undeclared(Curfew) == list(DECLARED)


def test_an_unknown_rule_has_a_sentence_and_no_remedy_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "ALL", (*rules.ALL, Curfew))
    asked = question(cluster(pod("a", cpu="1"), pod("b", cpu="1")))
    cause = minimal_cause(asked, within(20.0))
    assert cause is not None
    assert [(fact.rule, fact.message) for fact in cause.facts] == [("Curfew", "Curfew does not admit the 2 pods default/a, default/b")]
    assert not find_remedies(asked, ["Curfew"], within(20.0))


def test_an_unknown_rule_that_excludes_nodes_says_how_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "ALL", (*rules.ALL, Curfew))
    cause = minimal_cause(question(cluster(pod("a", cpu="3"), pod("full", cpu="3", node_name="n1"))), within(20.0))
    assert cause is not None
    assert ("Curfew", "1 of 2 nodes reject default/a: after hours") in [(fact.rule, fact.message) for fact in cause.facts]


def test_an_unknown_rule_is_left_out_if_the_others_suffice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "ALL", (*rules.ALL, Curfew))
    cause = minimal_cause(question(cluster(pod("a", cpu="5"))), within(20.0))
    assert cause is not None
    assert {fact.rule for fact in cause.facts} == {"NodeResourcesFit"}
