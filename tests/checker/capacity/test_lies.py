"""Each lie in a document about capacity is found, and the documents of the engines hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kubestow.checker.capacity.document import check_capacity
from kubestow.checker.capacity.fit import check_fit
from kubestow.checker.capacity.sizing import check_sizing
from kubestow.checker.capacity.survival import check_survival
from kubestow.checker.capacity.upgrade import check_upgrade
from kubestow.checker.violation import Violation
from kubestow.models.documents.fit import Keep
from kubestow.models.documents.placement import Assignment
from kubestow.models.documents.survival import Counterexample, Scenario
from kubestow.models.documents.upgrade import Blocker, NewNode
from tests.checker.capacity import originals

Lie = Callable[[Any], object]


def put(name: str, value: Any) -> Lie:
    """Set the field at the end of a path such as ``outcomes.0.displaced``."""

    def lie(document: Any) -> None:
        *path, last = name.split(".")
        for part in path:
            document = document[int(part)] if part.isdigit() else getattr(document, part)
        setattr(document, last, value)

    return lie


def raised(name: str, by: float = 1) -> Lie:
    """Add to a number at the end of a path."""

    def lie(document: Any) -> None:
        *path, last = name.split(".")
        for part in path:
            document = document[int(part)] if part.isdigit() else getattr(document, part)
        setattr(document, last, getattr(document, last) + by)

    return lie


def all_of(*lies: Lie) -> Lie:
    return lambda document: [lie(document) for lie in lies]


def found(violations: list[Violation], told: str) -> None:
    assert any(told in f"{each.rule}: {each.why}" for each in violations), violations


def test_what_the_engines_say_holds() -> None:
    for snapshot, document in (originals.fit(), originals.survival(), originals.upgrade()):
        assert check_capacity(snapshot, snapshot, originals.copy(document)).violations == []
    before, edited, sizing = originals.sizing()
    assert check_capacity(before, edited, sizing).violations == []


def _onto(node: str) -> Lie:
    def lie(document: Any) -> None:
        for each in document.placement.assignments:
            each.node = node

    return lie


FITS: list[tuple[Lie, str]] = [
    (raised("units"), "replicas are said to fit, 7 units have 7"),
    (all_of(raised("units"), raised("bound"), raised("templates.0.fits"), raised("templates.0.bound")), "the templates make 6 pods"),
    (put("bound", 5), "and no more than 5"),
    (raised("templates.0.runs"), "the edits scale"),
    (raised("templates.0.ratio"), "units have 12"),
    (put("keep", Keep(40, "node")), "with 40 per cent kept"),
    (put("keep", Keep(60, "zone")), "with 60 per cent kept"),
    (lambda fit: fit.placement.assignments.pop(), "neither assigned nor listed"),
    (put("placement.assignments.0.node", "nowhere"), "the snapshot has no such node"),
    (_onto("n0"), "NodeResourcesFit"),
    (put("growth.0.like", "ghost"), "no node ghost"),
    (put("growth.0.bound", -1), "and no more than -1"),
    (put("snapshot.sha256", "other"), "another snapshot"),
    (lambda fit: fit.templates.append(fit.templates[0]), "listed twice"),
]  # fmt: skip


@pytest.mark.parametrize(("lie", "told"), FITS, ids=[told for _, told in FITS])
def test_a_lie_in_a_fit_is_found(lie: Lie, told: str) -> None:
    snapshot, fit = originals.fit()
    document = originals.copy(fit)
    lie(document)
    found(check_fit(snapshot, document).violations, told)


def _alike(first: str, *others: str) -> Lie:
    """Have failures proved by another one."""

    def lie(survival: Any) -> None:
        gone = [scenario for scenario in survival.outcomes if scenario.failed[0] in others]
        survival.outcomes = [scenario for scenario in survival.outcomes if scenario not in gone]
        next(each for each in survival.outcomes if each.failed == [first]).alike = [scenario.failed for scenario in gone]
        survival.scenarios.distinct -= len(gone)
        survival.scenarios.solved = sum(each.by in ("search", "solver") for each in survival.outcomes)
        survival.scenarios.bounded = sum(each.by in ("nothing", "bound") for each in survival.outcomes)

    return lie


def _places(*nodes: str) -> Lie:
    def lie(survival: Any) -> None:
        for each, name in zip(survival.outcomes[0].assignments, nodes, strict=True):
            each.node = name

    return lie


SURVIVALS: list[tuple[Lie, str]] = [
    (raised("scenarios.all"), "5 failures are said to be all, there are 4"),
    (raised("scenarios.distinct"), "are said to be distinct"),
    (raised("scenarios.solved"), "4 distinct failures are said to be solved, 3 are"),
    (raised("scenarios.open"), "1 distinct failures are said to be open, 0 are"),
    (put("certified", True), "not every failure is survived"),
    (put("atOnce", 2), "2 do at once"),
    (put("fail", "zone"), "there is no n0 that could fail"),
    (lambda s: s.outcomes.pop(0), "3 distinct failures are said to be solved, 2 are"),
    (lambda s: s.outcomes.append(s.outcomes[0]), "given twice"),
    (put("outcomes.0.failed", ["ghost"]), "there is no ghost"),
    (raised("outcomes.0.displaced"), "4 pods are said to have to come back, 3 have to"),
    (put("outcomes.0.by", "nothing"), "nothing is said to have decided it"),
    (put("outcomes.0.pending", 1), "and it is survived"),
    (lambda s: s.outcomes[0].assignments.pop(), "have no place"),
    (lambda s: s.outcomes[0].assignments.append(Assignment("default/bare", "n1", 9)), "the pod does not have to come back"),
    (lambda s: s.outcomes[0].assignments.append(s.outcomes[0].assignments[0]), "put in two places"),
    (_places("n0", "n1", "n2"), "the node is not there"),
    (_places("n1", "n1", "n1"), "InterPodAffinity"),
    (
        all_of(put("outcomes.3.outcome", "survives"), put("outcomes.3.assignments", [Assignment("default/giant", "n0", 1)])),
        "NodeResourcesFit: failure of big",
    ),
    (put("outcomes.0.preempted", ["default/low"]), "none may be"),
    (all_of(put("preemption", True), put("outcomes.0.preempted", ["default/web-1"])), "none of a higher priority"),
    (all_of(put("preemption", True), put("outcomes.0.preempted", ["default/ghost"])), "runs nowhere"),
    (put("outcomes.3.pending", 0), "0 pods are said to stay pending"),
    (put("outcomes.3.pending", 2), "2 pods are said to stay pending, of 1"),
    (all_of(put("outcomes.3.outcome", "survives"), put("outcomes.3.pending", 0)), "have no place"),
    (all_of(put("outcomes.0.outcome", "pending"), put("outcomes.0.pending", 1), put("outcomes.0.assignments", [])), "all find a place"),
    (_alike("n0", "big"), "1 pods have to come back, 3 there"),
    (put("priority", 0), "3 pods are said to have to come back, 2 have to"),
    (lambda s: s.counterexamples.append(Counterexample(["n0"], ["default/web-0"], 1)), "no outcome says"),
    (put("counterexamples", [Counterexample(["big"], ["default/low"], 1)]), "does not have to come back"),
    (put("counterexamples", [Counterexample(["big"], ["default/giant"], 2)]), "1 pods stay pending, at least 2"),
    (put("snapshot.sha256", "other"), "is of snapshot other"),
]  # fmt: skip


@pytest.mark.parametrize(("lie", "told"), SURVIVALS, ids=[str(i) for i in range(len(SURVIVALS))])
def test_a_lie_in_a_survival_is_found(lie: Lie, told: str) -> None:
    snapshot, survival = originals.survival()
    document = originals.copy(survival)
    lie(document)
    found(check_survival(snapshot, document).violations, told)


def test_an_equal_failure_is_proved_by_places_of_its_own() -> None:
    snapshot, survival = originals.survival()
    document = originals.copy(survival)
    _alike("n0", "n1")(document)
    assert check_survival(snapshot, document).violations == []
    # Without the pods that have no place in n1's failure the failure of n2 has as many, and is not like it.
    wrong = originals.copy(survival)
    _alike("n0", "big")(wrong)
    wrong.priority = None
    assert check_survival(snapshot, wrong).violations


def test_a_failure_that_is_not_survived_is_not_equal_to_one_that_is() -> None:
    from kubestow.models.snapshot.snapshot import from_objects
    from tests.objects import node, pod

    snapshot = from_objects([
        node("a", cpu="4"), node("b", cpu="8"), node("c", cpu="3"),
        pod("small", cpu="2", node_name="a", owner="ReplicaSet/x"), pod("large", cpu="6", node_name="b", owner="ReplicaSet/x"),
    ])  # fmt: skip
    document = originals.copy(originals.survival()[1])
    document.snapshot.sha256 = ""
    document.counterexamples, document.certified = [], True
    document.scenarios.all, document.scenarios.distinct, document.scenarios.solved, document.scenarios.bounded = 3, 2, 1, 1
    small = Scenario(["a"], "survives", "search", 1, alike=[["b"]], assignments=[Assignment("default/small", "c", 1)])
    document.outcomes = [small, Scenario(["c"], "survives", "nothing")]
    found(check_survival(snapshot, document).violations, "its pods find no places like these: default/large finds none")


def _wave(number: int, **fields: Any) -> Lie:
    return all_of(*(put(f"waves.{number}.{name}", value) for name, value in fields.items()))


UPGRADES: list[tuple[Lie, str]] = [
    (lambda u: u.waves[0].moves.pop(), "left on a node that is drained"),
    (lambda u: u.waves.pop(), "it is said to be complete, 2 of 3 nodes"),
    (lambda u: u.nodes.pop(), "nodes of pool pool=x are others"),
    (put("pool", "pool!=x"), "nodes of pool pool!=x are others"),
    (put("waves.0.moves.0.to", "n0"), "would have to go on"),
    (put("waves.0.moves.0.to", "other"), "NodeResourcesFit: wave 1"),
    (put("waves.0.moves.0.to", "n1"), "wave"),
    (put("waves.0.moves.1.wave", 1), "PodDisruptionBudget: wave 1: wave 1 evicts 2 pods"),
    (put("waves.0.moves.0.pod", "default/web-1"), "no pod of a node that is drained"),
    (lambda u: u.waves[0].moves.append(u.waves[0].moves[0]), "moves twice"),
    (put("surge", 0), "1 nodes are there beyond the pool, 0 may be"),
    (all_of(put("surge", 0), put("maxUnavailable", 0)), "expected at least one in total"),
    (_wave(0, surge=[], joined=[NewNode("n0-new", "n0")]), "1 nodes of the pool are missing, 0 may be"),
    (_wave(0, drain=["n0", "n1"]), "no new node replaces n1"),
    (_wave(0, drain=["n0", "other"]), "is drained, and is no old node of the pool"),
    (_wave(0, drain=["n0", "n0"]), "drained twice"),
    (_wave(0, drain=[]), "no node is drained"),
    (_wave(1, surge=[NewNode("n1-new", "n1"), NewNode("n2-new", "n2")]), "2 nodes are there beyond the pool, 1 may be"),
    (_wave(1, surge=[NewNode("n0-new", "n1")]), "there is a node n0-new already"),
    (_wave(1, surge=[NewNode("n1-new", "n0")]), "which is replaced already"),
    (put("waves.1.wave", 7), "not numbered"),
    (put("complete", False), "it is said not to be complete"),
    (lambda u: u.blocked.append(Blocker("n0", "room", "Node n0", "full")), "blocked, and is drained"),
    (lambda u: u.blocked.append(Blocker("ghost", "room", "Node n0", "full")), "none of the pool"),
    (put("smallestSurge", 1), "it is complete, and obstacles are listed"),
    (all_of(put("by", "zone"), _wave(0, domain="zone=a")), "it is said to be of zone=a"),
    (put("snapshot.sha256", "other"), "is of snapshot other"),
]  # fmt: skip


@pytest.mark.parametrize(("lie", "told"), UPGRADES, ids=[str(i) for i in range(len(UPGRADES))])
def test_a_lie_in_an_upgrade_is_found(lie: Lie, told: str) -> None:
    snapshot, upgrade = originals.upgrade()
    document = originals.copy(upgrade)
    lie(document)
    found(check_upgrade(snapshot, document).violations, told)


SIZINGS: list[tuple[Lie, str]] = [
    (raised("buy.0.price", 0.01), "small in a is said to cost"),
    (raised("buy.0.count"), "is said to be bought, the edits buy"),
    (put("buy.0.zone", "c"), "where it is not offered"),
    (put("buy.0.shape", "spot"), "spot"),
    (put("buy.0.shape", "free"), "the document has no such shape"),
    (put("buy.0.nodes", ["n0", "small-a-2"]), "was there before"),
    (put("buy.0.nodes", ["small-a-1", "small-a-1"]), "a node is bought twice"),
    (raised("cost.value", -0.1), "the purchases cost 550000 millionths"),
    (put("cost.bound", 0.6), "the claimed minimum cost 0.6 is not between"),
    (put("cost.bound", 0.5), "and cost or number of nodes has a gap"),
    (raised("nodes.value"), "4 nodes are said to be bought, 3 are"),
    (raised("nodes.bound"), "the claimed minimum of 4 nodes is not between"),
    (put("kinds", 1), "2 shapes are bought, 1 may be"),
    (put("mostSpot", 30), "4000 of 12000 mCPU are spot, 30 per cent may be"),
    (put("mode", "replace"), "no pool is named"),
    (all_of(put("mode", "replace"), put("pool", "pool=x"), put("removed", ["n0"])), "node n0 is said to go, and stays"),
    (put("removed", ["ghost"]), "there is none"),
    (put("mode", "from-scratch"), "which is not of the control plane, stays"),
    (put("status", "infeasible"), "and there is a placement"),
    (put("placement", None), "and there is no placement"),
    (raised("utilisation.0.requested"), "listed as requested"),
    (raised("utilisation.0.allocatable"), "listed as allocatable"),
    (raised("utilisation.0.daemons"), "requested by daemons"),
    (lambda s: s.utilisation.pop(0), "is missing"),
    (raised("workloads.0.cost", 0.000001), "its share is"),
    (raised("workloads.0.pods"), "on the bought nodes, it has 3"),
    (put("workloads.0.daemon", True), "a DaemonSet or static pod, contrary to its row"),
    (put("workloads.0.workload", "Deployment default/x"), "is missing"),
    (lambda s: s.placement.assignments.pop(), "neither assigned nor listed"),
    (_onto("small-a-1"), "NodeResourcesFit"),
    (put("survival", originals.survival()[1]), "is not certified to"),
]  # fmt: skip


@pytest.mark.parametrize(("lie", "told"), SIZINGS, ids=[str(i) for i in range(len(SIZINGS))])
def test_a_lie_in_a_sizing_is_found(lie: Lie, told: str) -> None:
    before, edited, sizing = originals.sizing()
    document = originals.copy(sizing)
    lie(document)
    found(check_sizing(before, edited, document).violations, told)


def test_of_too_many_waves_made_anew_some_are_replayed_and_the_others_told() -> None:
    snapshot, upgrade = originals.upgrade()
    document = originals.copy(upgrade)
    told = check_upgrade(snapshot, document, max_replayed_pods=2 * len(snapshot.pods))
    assert told.violations == []
    assert told.open[-1].startswith("rules and budgets in 1 of the 3 waves")
    document.waves[1].moves[0].to = "other"
    assert check_upgrade(snapshot, document, max_replayed_pods=2 * len(snapshot.pods)).violations == []
    found(check_upgrade(snapshot, document).violations, "NodeResourcesFit: wave 2")
