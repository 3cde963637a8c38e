"""The exact engine: brute force as the judge of every tier, hints, limits, interruption."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
from ortools.sat.python import cp_model

from kubestow.checker.placement import verify
from kubestow.models.cluster.cluster import Cluster
from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.snapshot import snapshot as snapshots
from kubestow.models.snapshot.scope import select
from kubestow.report.documents.results import encode, result_document
from kubestow.solver import rules
from kubestow.solver.construction.greedy import construct
from kubestow.solver.rules.eligibility import possible
from kubestow.solver.rules.placement_model import build_model
from kubestow.solver.runtime.options import Options
from kubestow.solver.runtime.run_context import RunContext
from kubestow.solver.search.exact import ExactEngine
from kubestow.solver.solve import place
from tests import tiny
from tests.objects import node, pod
from tests.solver.rules.test_agreement import accepted, assignments, orders, reachable
from tests.tiers import seeds

#: Instances per kind of rule in the tiers quick, full and slow.
FEW, CI, LONG = 3, 20, 60


def score(cluster: Cluster, state: tuple[int, ...]) -> tuple[int, ...]:
    """Placed pods per priority, highest first."""
    placed = np.array(state, dtype=np.int64).reshape(cluster.n_classes, cluster.n_nodes).sum(axis=1)
    return tuple(int(placed[cluster.priority == p].sum()) for p in sorted({*cluster.priority.tolist()}, reverse=True))


def check_optimum(seed: int, kind: str) -> None:
    """Assert that no assignment that would be better in the lexicographic order has a bind order that the checker accepts."""
    snapshot = snapshots.from_objects(tiny.snapshot(seed, kind))
    snapshot.gates = tiny.GATES if kind == "gated" else snapshot.gates
    cluster = compile_cluster(snapshot, select(snapshot))
    result = place(snapshot, Options(engine="exact", workers=2, time_limit=30))
    assert result.status in ("optimal", "infeasible"), f"{kind} seed {seed}"
    value = tuple(t.value for t in result.objective if t.tier == "placed")
    if not cluster.n_classes:
        assert value == ()
        return
    best = max(score(cluster, s) for s, order in reachable(cluster).items() if accepted(cluster, order))
    assert value == best, f"{kind} seed {seed}"
    if seed % 4 == 0:  # the same without the incremental rules: every better assignment, in every order
        better = [s for s in assignments(cluster) if score(cluster, s) > value]
        assert not any(accepted(cluster, order) for s in better for order in orders(s, cluster.n_nodes, 24)), f"{kind} seed {seed}"


@pytest.mark.parametrize("kind", tiny.ALL)
def test_every_tier_of_a_few_is_the_optimum_of_brute_force(kind: str) -> None:
    for seed in range(1, 1 + FEW):
        check_optimum(seed, kind)


@pytest.mark.full
@seeds(CI, LONG)
@pytest.mark.parametrize("kind", tiny.ALL)
def test_every_tier_is_the_optimum_of_brute_force(kind: str, seeds: range) -> None:
    for seed in seeds:
        check_optimum(seed, kind)


def packing(nodes: int, pods: int, seed: int = 0) -> list[tiny.Object]:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 9, size=pods)
    return [
        *(node(f"n{i}", cpu="10", memory="64Gi") for i in range(nodes)),
        *(pod(f"p{i}", cpu=str(int(k)), memory="1Gi") for i, k in enumerate(sizes)),
    ]


def test_greedy_is_a_complete_feasible_hint() -> None:
    snapshot = snapshots.from_objects(packing(6, 20))
    cluster = compile_cluster(snapshot, select(snapshot))
    built = construct(cluster, rules.build(cluster), possible(cluster, rules.build(cluster)))
    encoding = build_model(cluster, rules.build(cluster))
    values = encoding.assignment(built.counts)
    assert values is not None
    encoding.model.minimize(encoding.sum([*encoding.unplaced.values()]))
    for index, value in enumerate(values):
        encoding.model.add_hint(encoding.model.get_int_var_from_proto_index(index), value)
    solver = cp_model.CpSolver()
    solver.parameters.log_search_progress = True
    solver.parameters.num_workers = 1
    lines: list[str] = []
    solver.log_callback = lines.append
    solver.solve(encoding.model)
    assert any("complete" in line and "feasible" in line and "hint" in line for line in "\n".join(lines).splitlines())


def test_time_limit_returns_the_best_verified_answer_with_its_bound() -> None:
    snapshot = snapshots.from_objects(packing(30, 90, seed=3))
    result = place(snapshot, Options(engine="exact", time_limit=1.0))
    assert verify(snapshot, result) == []
    assert all(t.bound >= t.value > 0 for t in result.objective if t.tier == "placed")
    assert all(t.bound >= t.value for t in result.objective)


@pytest.mark.full
def test_a_search_that_ends_before_it_knows_anything_proves_nothing() -> None:
    """CP-SAT's bound is an unset 0 then; it must not pass for a proof (the incumbent is not the optimum here)."""
    objects = [node(f"n{i}", cpu="10") for i in range(12)]
    rng = np.random.default_rng(3)
    for i in range(120):
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"a": str((i * 7) % 25)}}}
        affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        objects.append(pod(f"p{i}", cpu=f"{rng.integers(300, 2600)}m", memory="0", labels={"a": str(i % 25)}, affinity=affinity))
    snapshot = snapshots.from_objects(objects)
    best = len(place(snapshot, Options(time_limit=4)).assignments)
    for limit in (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.5):
        result = place(snapshot, Options(time_limit=limit))
        assert sum(t.bound for t in result.objective if t.tier == "placed") >= best
        assert result.status == "feasible" or len(result.assignments) >= best


def test_stop_returns_the_best_answer_so_far() -> None:
    snapshot = snapshots.from_objects(packing(40, 130, seed=5))
    stop = threading.Event()
    threading.Timer(0.5, stop.set).start()
    started = time.monotonic()
    result = place(snapshot, Options(engine="exact", time_limit=None), stop=stop)
    assert time.monotonic() - started < 60  # it had no time limit: only the stop ended it
    assert result.assignments
    assert verify(snapshot, result) == []


def test_a_result_of_the_greedy_engine_carries_a_bound() -> None:
    snapshot = snapshots.from_objects(packing(6, 30))
    result = place(snapshot, Options(engine="greedy"))
    assert result.engine == "greedy"
    assert all(t.bound >= t.value for t in result.objective)
    assert verify(snapshot, result) == []


def test_higher_priority_wins_the_room() -> None:
    snapshot = snapshots.from_objects(
        [node("n1", cpu="4"), *(pod(f"low-{i}", cpu="1", priority=0) for i in range(4)), pod("high", cpu="3", priority=100)]
    )
    result = place(snapshot, Options(engine="exact"))
    assert result.status == "optimal"
    assert [(t.priority, t.value, t.bound) for t in result.objective if t.tier == "placed"] == [(100, 1, 1), (0, 1, 1)]
    assert "default/high" in {a.pod for a in result.assignments}


@pytest.mark.full
def test_an_assignment_without_a_bind_order_is_cut_off() -> None:
    """The two-constraint case: one more pod each for h2 and h3 obeys every inequality, but no order is accepted."""

    def member(name: str, at: str | None, only: str | None = None) -> tiny.Object:
        spread = [
            {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "a"}}}
            for key in ("zone", "host")
        ]
        return pod(
            name,
            labels={"app": "a"},
            node_name=at,
            spread=spread if at is None else None,
            selector=None if only is None else {"host": only},
        )

    objects = [
        node("h1", labels={"zone": "z1", "host": "h1"}), node("h2", labels={"zone": "z1", "host": "h2"}),
        node("h3", labels={"zone": "z2", "host": "h3"}),
        member("old-1", "h1"), member("old-2", "h1"), member("old-3", "h3"), member("new-1", None), member("new-2", None),
    ]  # fmt: skip
    snapshot = snapshots.from_objects(objects)
    cluster = compile_cluster(snapshot, select(snapshot))
    options = Options(engine="exact")
    exact = ExactEngine(cluster, RunContext.start(options))
    both = np.array([[0, 1, 1]])
    assert exact.encoding.assignment(both) is not None
    result = place(snapshot, options)
    assert result.status == "infeasible"  # neither pod can go first
    assert result.assignments == []
    assert any("bind order" in note for note in result.notes)
    assert verify(snapshot, result) == []


@pytest.mark.full
def test_deterministic_runs_give_the_same_bytes() -> None:
    snapshot = snapshots.from_objects(packing(8, 28, seed=2))
    options = Options(engine="exact", deterministic=True, time_limit=5)
    first = encode(result_document(place(snapshot, options)), "json")
    assert all(encode(result_document(place(snapshot, options)), "json") == first for _ in range(2))
