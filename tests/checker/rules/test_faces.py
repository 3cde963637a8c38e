"""What a rule of the checker must state, and a rule that states nothing."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from kubestow import checker, solver
from kubestow.checker import rules
from kubestow.checker.judge import Judge
from kubestow.checker.plan.document import PlanEntry
from kubestow.checker.plan.state import Board
from kubestow.checker.plan.waves import NextWave
from kubestow.checker.rules.base import DECLARED, CheckedRule, Fault, Place, World
from kubestow.models.kube import objects
from kubestow.models.snapshot.snapshot import from_objects
from kubestow.solver import rules as solver_rules
from tests.objects import node, pod

#: Folders of solver/rules without a mirror, with the reason.
ELSEWHERE = {"node_resource_topology": "kubelets assign zones after all pods are bound: checker/objective/numa_zones.py replays them"}


@pytest.mark.parametrize("kind", rules.ALL, ids=lambda kind: str(kind.__name__))
@pytest.mark.parametrize("face", DECLARED)
def test_every_rule_declares_every_face(kind: rules.Kind, face: str) -> None:
    own = [base for base in kind.__mro__ if issubclass(base, CheckedRule) and base is not CheckedRule]
    assert any(face in vars(base) for base in own), f"{kind.__name__} does not declare {face}: see {CheckedRule.__module__}"


@pytest.mark.parametrize("kind", [kind for kind in rules.ALL if kind.for_moves], ids=lambda kind: str(kind.__name__))
def test_every_rule_about_moving_pods_has_a_plan_face(kind: rules.Kind) -> None:
    assert kind in rules.PLAN_FACES or kind.names == ("GangScheduling",), f"{kind.__name__} has no plan face in plans.py of its folder"


def test_every_folder_of_the_solver_has_a_mirror() -> None:
    ours, theirs = ({path.parent.name for path in (Path(package.__path__[0]) / "rules").glob("*/rule.py")} for package in (checker, solver))
    assert theirs - ours == set(ELSEWHERE), "a folder of solver/rules without one in checker/rules"
    assert ours <= theirs


def test_every_rule_of_the_solver_is_read_by_the_checker() -> None:
    elsewhere = {kind.name for kind in solver_rules.ALL if kind.__module__.split(".")[-2] in ELSEWHERE}
    assert {kind.name for kind in solver_rules.ALL} - elsewhere == {name for kind in rules.ALL for name in kind.names}


class OnePerZone(CheckedRule[str]):
    """A rule with nothing but the state: the zones of pods are closed."""

    names = ("OnePerZone",)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._pods: Counter[str] = Counter()

    def read(self, pod: objects.Pod, *, judged: bool) -> str | None:
        return (pod.metadata.labels or {}).get("alone")

    def faults(self, reading: str, pod: objects.Pod, place: Place) -> list[Fault]:
        return [("OnePerZone", "the zone has a pod")] if self._pods[self._zone(place)] else []

    def add(self, reading: str, pod: objects.Pod, place: Place, *, placed: bool) -> None:
        self._pods[self._zone(place)] += 1

    def remove(self, reading: str, pod: objects.Pod, place: Place, *, placed: bool) -> None:
        self._pods[self._zone(place)] -= 1

    @staticmethod
    def _zone(place: Place) -> str:
        return (place.node.metadata.labels or {})["zone"]


NODES = [node(f"n{i}", labels={"zone": f"z{i % 2}"}) for i in range(4)]


def test_a_rule_that_declares_nothing_is_judged_in_bind_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "ALL", (*rules.ALL, OnePerZone))
    snapshot = from_objects([*NODES, *(pod(f"p{i}", labels={"alone": "yes"}) for i in range(3)), pod("q")])
    judge = Judge(snapshot, snapshot.pods)
    found = [judge.bind_alone(each, name) for each, name in zip(snapshot.pods, ("n0", "n1", "n2", "n0"), strict=True)]
    assert found == [[], [], [("OnePerZone", "the zone has a pod")], []]


@pytest.mark.parametrize(
    ("moves", "faults"),
    [
        ([("a", "n0", "n2")], []),
        ([("a", "n0", "n1")], ["OnePerZone", "OnePerZone"]),  # the landing, and pod b, which is worse off
        ([("a", "n0", "n2"), ("b", "n1", "n3")], ["OnePerZone"]),  # two steps of one wave
        ([("a", "n0", "n2"), ("q", "n0", "n1")], []),
    ],
)
def test_waves_judge_a_rule_that_declares_nothing_one_step_after_the_other(
    monkeypatch: pytest.MonkeyPatch, moves: list[tuple[str, str, str]], faults: list[str]
) -> None:
    monkeypatch.setattr(rules, "ALL", (*rules.ALL, OnePerZone))
    alone = {"alone": "yes"}
    running = [pod("a", nodeName="n0", labels=alone), pod("b", nodeName="n1", labels=alone), pod("q", nodeName="n0")]
    board = Board(from_objects([*NODES, *running]), (), ())
    for runner in board.runners.values():
        runner.broke = board.broken(runner)
        board.settle_down(runner)
    steps = [[PlanEntry(i, 1, f"default/{name}", source, target)] for i, (name, source, target) in enumerate(moves, 1)]
    assert [fault.rule for fault in NextWave(board, steps).judge()] == faults
