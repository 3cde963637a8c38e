"""The example instances of rebalancing do what their comments say: a table of expected plans. Pods are of the namespace default."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from kubestow import cli
from kubestow.checker.plan.plan import verify_plan
from kubestow.models.documents.placement import from_builtins
from kubestow.models.documents.rebalance_plan import RebalancePlan
from kubestow.models.snapshot.snapshot import Snapshot, from_objects, load
from kubestow.solver.rebalance.problem.options import PlanOptions
from kubestow.solver.rebalance.rebalance import rebalance
from kubestow.solver.runtime.options import Options
from tests.plans.carried_out import carried_out

INSTANCES = Path(__file__).resolve().parents[2] / "instances"


@dataclass(frozen=True)
class Row:
    """Expected result of a plan that is proved optimal.

    ``moves``: of running pods; ``waves``: moves of each wave, none to leave them open; ``to``: pod -> nodes, one of which it gets;
    ``evicted``, ``bound``: pods; ``freed``: how many nodes; ``tiers``: values by name; ``obstacles``: pod -> a part of the sentence;
    ``stays``: pods that are not moved; ``stopovers``: pods that stop over; ``exit``: status.
    """

    moves: int
    waves: tuple[int, ...] = ()
    to: Mapping[str, set[str]] = field(default_factory=dict)
    evicted: frozenset[str] = frozenset()
    bound: frozenset[str] = frozenset()
    freed: int = 0
    tiers: Mapping[str, int] = field(default_factory=dict)
    obstacles: Mapping[str, str] = field(default_factory=dict)
    stays: frozenset[str] = frozenset()
    stopovers: frozenset[str] = frozenset()
    exit: int = 0


TRAIN = frozenset({"train-1", "train-2"})
URGENT = frozenset({"urgent-1", "urgent-2"})

TABLE: dict[tuple[str, str], Row] = {
    ("admit", "--goal admit"): Row(
        2, to={"web-1": {"n1"}, "web-2": {"n1"}, "train-1": {"t1", "t2"}, "train-2": {"t1", "t2"}}, bound=TRAIN, stays=frozenset({"batch"}),
        obstacles=dict.fromkeys(URGENT, "no room for 2 pods of gang default/urgent at once"), exit=3,
    ),
    ("admit", "--goal admit --allow-eviction"): Row(
        2, to={"urgent-1": {"g1"}, "urgent-2": {"g1"}}, bound=TRAIN | URGENT, evicted=frozenset({"batch"}), tiers={"evictions": -1},
    ),
    ("broken", "--drain n1"): Row(
        2, waves=(1, 1), to={"z": {"n0"}, "needs-z": {"n0"}}, stays=frozenset({"alone"}), obstacles={"alone": "anti-affinity"},
        tiers={"drained": -1}, exit=3,
    ),
    ("consolidate", "--goal consolidate"): Row(3, freed=2, tiers={"freed": 2}, stays=frozenset({f"agent-n{i}" for i in range(1, 6)})),
    ("drain", "--drain n1"): Row(5, waves=(3, 2), stays=frozenset({"agent-n1"}), tiers={"drained": 0}),
    ("drain", "--drain n1 --max-waves 1"): Row(
        3, waves=(3,), obstacles={"web-3": "2 evictions in 1 wave", "web-4": "2 evictions"}, stays=frozenset({"agent-n1"}),
        tiers={"drained": -2}, exit=3,
    ),
    ("repair", "--goal repair"): Row(3, to={"db-0": {"b1"}}, stays=frozenset({"tool"}), tiers={"rules": 0}),
    ("stuck", "--drain n1"): Row(
        0, obstacles={"ledger-0": "PodDisruptionBudget"}, stays=frozenset({"ledger-0"}), tiers={"drained": -1}, exit=3
    ),
    ("stuck", "--drain n2"): Row(
        1, obstacles={"search-0": "insufficient cpu"}, stays=frozenset({"search-0"}), tiers={"drained": -1}, exit=3
    ),
    ("stuck", "--drain n3"): Row(1, tiers={"drained": 0}),
    ("swap", "--goal repair"): Row(
        4, waves=(1, 1, 1, 1), to={"p": {"right"}, "q": {"left"}, "r": {"spare"}}, stopovers=frozenset({"q"}), tiers={"rules": 0}
    ),
    ("swap", "--goal repair --max-moves 3"): Row(
        2, waves=(1, 1), to={"p": {"right"}, "q": {"spare"}}, stays=frozenset({"r"}), obstacles={"r": "NodeAffinity"},
        tiers={"rules": -1}, exit=3,
    ),
}  # fmt: skip
CASES = pytest.mark.parametrize(("name", "options"), TABLE, ids=[" ".join(key) for key in TABLE])


@cache
def snapshot(name: str) -> Snapshot:
    return load([str(INSTANCES / f"rebalance-{name}.yaml")])


@cache
def run(name: str, options: str) -> tuple[int, RebalancePlan]:
    """Exit status and plan of the command."""
    arguments = ["rebalance", str(INSTANCES / f"rebalance-{name}.yaml"), *options.split(), "-q", "-f", "json"]
    done = CliRunner().invoke(cli.main, arguments)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, from_builtins(json.loads(done.stdout), RebalancePlan)


def short(pod: str | None) -> str:
    """The name of a pod without its namespace."""
    return (pod or "").removeprefix("default/")


def test_every_instance_is_in_the_table() -> None:
    assert {path.stem for path in INSTANCES.glob("rebalance-*.yaml")} == {f"rebalance-{name}" for name, _ in TABLE}


@CASES
def test_it_does_what_its_comments_say(name: str, options: str) -> None:
    row, (status, plan) = TABLE[name, options], run(name, options)
    moved = [move for move in plan.moves if move.source is not None]
    assert (status, len(moved), plan.status) == (row.exit, row.moves, "optimal")
    assert {short(move.pod) for move in plan.moves if move.source is None} == row.bound
    assert {short(gone.pod) for gone in plan.evictions} == row.evicted
    assert {short(move.pod) for move in plan.moves if move.stopover} == row.stopovers
    assert len(plan.freed) == row.freed
    ends = {short(move.pod): move.to for move in plan.moves}
    for pod, nodes in row.to.items():
        assert ends[pod] in nodes, pod
    assert not row.stays & {*ends, *(short(gone.pod) for gone in plan.evictions)}
    if row.waves:
        assert tuple(Counter(move.wave for move in plan.moves).values()) == row.waves
    tiers = {tier.tier: tier.value for tier in plan.objective}
    assert {tier: tiers[tier] for tier in row.tiers} == row.tiers
    assert all(tier.value == tier.bound for tier in plan.objective)
    assert {short(obstacle.pod) for obstacle in plan.obstacles} == set(row.obstacles)
    for obstacle in plan.obstacles:
        assert row.obstacles[short(obstacle.pod)] in obstacle.message
        assert obstacle.proved


@CASES
def test_the_checker_has_nothing_against_the_plan(name: str, options: str) -> None:
    assert verify_plan(snapshot(name), run(name, options)[1]) == []


@pytest.mark.parametrize(("name", "options"), [key for key in TABLE if "--max-" not in key[1]], ids=str)
def test_planning_again_on_the_result_moves_nothing(name: str, options: str) -> None:
    objects = [thing for thing in yaml.safe_load_all((INSTANCES / f"rebalance-{name}.yaml").read_text()) if thing is not None]
    plan = run(name, options)[1]
    after = carried_out(objects, plan)
    goals, drain = tuple(goal for goal in plan.goals if goal != "drain"), tuple(plan.drain)
    again = rebalance(from_objects(after), PlanOptions(goals, drain, plan.limits, Options(time_limit=20.0, workers=1)))
    assert [(move.pod, move.to) for move in again.moves] == []
    assert again.evictions == []


# --- the sentences that the table does not hold -----------------------------------------------------------------------------------------


def test_a_gang_shares_a_wave() -> None:
    for options in ("--goal admit", "--goal admit --allow-eviction"):
        _, plan = run("admit", options)
        for gang in {move.gang for move in plan.moves if move.gang}:
            assert len({move.wave for move in plan.moves if move.gang == gang}) == 1


def test_pods_of_web_leave_two_at_a_time() -> None:
    _, plan = run("drain", "--drain n1")
    waves = Counter(move.wave for move in plan.moves if short(move.pod).startswith("web"))
    assert list(waves.values()) == [2, 2]
    assert all(move.to != "n1" for move in plan.moves)


def test_the_node_with_one_pod_is_freed_and_one_with_two() -> None:
    _, plan = run("consolidate", "--goal consolidate")
    assert "n5" in plan.freed
    assert {move.source for move in plan.moves} == set(plan.freed)


def test_one_move_mends_each_kind_of_broken_rule() -> None:
    _, plan = run("repair", "--goal repair")
    assert plan.before.rules == {"InterPodAffinity": 2, "NodeAffinity": 1, "PodTopologySpread": 3}
    assert plan.after.rules == {}
    assert sorted(short(move.pod).rstrip("0123456789-") for move in plan.moves) == ["api", "db", "web"]
    zone_b = {"b1", "b2", "b3"}
    assert all(move.to in zone_b for move in plan.moves if short(move.pod).startswith("api"))
