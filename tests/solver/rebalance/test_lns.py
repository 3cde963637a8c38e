"""Large-neighbourhood search: never worse than where it starts, better where a neighbourhood shows how, over when none does."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from kubestow.models.documents.rebalance_plan import Limits
from kubestow.models.snapshot.snapshot import from_objects
from kubestow.solver.rebalance import lns
from kubestow.solver.rebalance.lns import PlanLns
from kubestow.solver.rebalance.problem.options import PlanOptions
from kubestow.solver.rebalance.problem.problem import RebalanceProblem, Step, read_problem
from kubestow.solver.rebalance.result import PlanSearchResult
from kubestow.solver.rebalance.search import construct
from kubestow.solver.rebalance.tiers.objective import PlanObjective
from kubestow.solver.runtime.options import Options, Progress
from kubestow.solver.runtime.progress_trace import ProgressReporter
from kubestow.solver.runtime.run_context import RunContext
from tests.objects import node
from tests.plans import tiny
from tests.solver.rebalance.goals.test_move_builder import accepted, begin
from tests.solver.rebalance.problem.test_problem import budget, running

Object = dict[str, Any]


@pytest.fixture(autouse=True)
def soon_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lns, "MAX_IDLE_NEIGHBOURHOODS", 8)


class Search:
    """One search, not begun yet. ``greedy``: from the steps of the construction, else from none."""

    def __init__(
        self, objects: Sequence[Object], goals: Sequence[str], drain: Sequence[str] = (), limits: Limits | None = None,
        *, greedy: bool = False, seconds: float = 0.5, seed: int = 0, deterministic: bool = False,
    ) -> None:  # fmt: skip
        options = Options(engine="lns", time_limit=seconds, workers=1, seed=seed, deterministic=deterministic)
        plan_options = PlanOptions(tuple(goals), tuple(drain), limits or Limits(), options)
        self.problem: RebalanceProblem = read_problem(from_objects(objects), plan_options)
        self.values = PlanObjective(self.problem, goals)
        self.reports: list[tuple[str, str | None, int | None, int | None]] = []
        self.stop = threading.Event()
        self.lns = PlanLns(self.values, plan_options.goals, RunContext.start(options, self.stop, ProgressReporter(self._told)))
        steps = construct(begin(self.problem), self.values, goals) if greedy else []
        self.before = self.values.of_steps(steps)
        self.start = PlanSearchResult(steps, self.before, self.values.bounds())

    def _told(self, progress: Progress) -> None:
        self.reports.append((progress.phase, progress.tier, progress.value, progress.bound))

    def run(self) -> PlanSearchResult:
        found = self.lns.run(self.start)
        assert found.values == self.values.of_steps(found.steps) >= self.before
        return found


def _loose() -> list[Object]:
    """Six nodes whose pods fit on two, with a budget and pods of three sizes."""
    objects = [*(node(f"n{i}", cpu="4") for i in range(6)), budget("guard", "web", minAvailable=3)]
    objects += [running(f"web-{i}", f"n{i}", cpu="500m", labels={"app": "web"}) for i in range(4)]
    objects += [running(f"db-{i}", f"n{i + 2}", cpu="1") for i in range(4)]
    return [*objects, running("job", "n5", cpu="1500m")]


def test_nodes_are_freed_from_no_plan_at_all() -> None:
    search = Search(_loose(), ["consolidate"])
    found = search.run()
    assert (search.before[0], found.values[0], found.engine) == (0, 4, "lns")
    assert accepted(search.problem, found.steps)
    assert {phase for phase, *_ in search.reports} == {"lns"}
    values = [value for _, tier, value, _ in search.reports if tier == "freed"]
    assert values == sorted(values, key=lambda value: value or 0)
    assert values[-1] == 4


@pytest.mark.full
def test_two_runs_of_a_seed_are_the_same() -> None:
    runs = [Search(_loose(), ["consolidate"], seed=3, deterministic=True).run().steps for _ in range(2)]
    assert runs[0] == runs[1]
    assert runs[0]


@pytest.mark.full
@pytest.mark.parametrize("kind", ["consolidate", "mixed", "repair", "drain"])
def test_it_is_never_worse_than_its_start_and_its_steps_are_accepted(kind: str) -> None:
    for seed in range(5):
        goals, drain, limits = tiny.plan_options(seed, kind)
        search = Search(tiny.cluster(seed, kind), goals, drain, limits, greedy=True)
        found = search.run()
        gangs = any(cls.gang is not None for cls in search.problem.cluster.classes)
        assert gangs or accepted(search.problem, found.steps), seed


def test_a_neighbourhood_without_gain_changes_nothing() -> None:
    """Or the search would go on until its time is up."""
    search = Search([node("n0"), node("n1"), running("p", "n0"), running("q", "n0", cpu="1")], ["consolidate"])
    counts = search.problem.start.copy()
    assert [search.lns._step(counts) for _ in range(3)] == [False] * 3
    assert (counts == search.problem.start).all()
    search.stop.clear()
    assert search.run().steps == []


def test_a_neighbourhood_frees_a_node() -> None:
    search = Search([node("n0"), node("n1"), running("p", "n0"), running("q", "n1", cpu="1")], ["consolidate"])
    counts = search.problem.start.copy()
    assert search.lns._step(counts)
    assert sorted(counts.sum(axis=0).tolist()) == [0, 2]
    assert search.problem.moves(counts) == 1


def test_moves_in_vain_are_undone() -> None:
    search = Search([node("n0"), node("n1"), node("n2"), running("p", "n0"), running("q", "n1", cpu="1")], [], ["n0"])
    small, large = (0, 1) if search.problem.start[0, 0] else (1, 0)
    steps = [Step(small, 0, 1), Step(large, 1, 2)]
    search.start = PlanSearchResult(steps, search.values.of_steps(steps), [0, 0])
    found = search.run()
    assert found.values == (0, -1)
    assert [(step.g, step.a) for step in found.steps] == [(small, 0)]


def test_it_stops_when_told_to() -> None:
    search = Search(_loose(), ["consolidate"])
    search.stop.set()
    assert search.run().steps == []


def test_the_neighbourhood_is_of_open_nodes_or_those_to_be_emptied() -> None:
    search = Search(_loose(), [], ["n0", "n5"])
    search.lns.size = 30.0
    counts = search.problem.start.copy()
    for _ in range(10):
        nodes = search.lns._nodes(counts)
        assert len(set(nodes.tolist())) == len(nodes) >= 3
        part = search.lns._part(counts, nodes)
        assert part is not None
        assert {n for cells, _ in part.cells.values() for n in cells.tolist()} <= set(nodes.tolist())
        for g, number in part.pods.items():
            assert number == counts[g, nodes].sum()
    counts[:] = 0
    assert search.lns._part(counts, np.array([0, 1])) is None


@pytest.mark.full
def test_limits_hold() -> None:
    for max_moves, freed in ((0, 0), (1, 1), (2, 2)):
        search = Search(_loose(), ["consolidate"], limits=Limits(maxMoves=max_moves))
        found = search.run()
        assert (sum(step.k for step in found.steps), found.values[0]) == (freed, freed)
