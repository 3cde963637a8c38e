"""Engines on one instance: every result verified, bounds that hold against the proved optimum, none worse than greedy, all repeatable."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from kubestow.instances.generate.generator import Parameters, generate
from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.documents.placement import Placement
from kubestow.models.snapshot.scope import select
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from kubestow.solver import placed_tiers, rules
from kubestow.solver.construction.greedy import rank
from kubestow.solver.objective.preferences import Objective
from kubestow.solver.placed_steps import PARAMETERS, PlacedAnswer, PlacedParameters, PlacedSteps
from kubestow.solver.placed_tiers import CONSTRUCTION, EXACT, NEIGHBOURHOODS, TIGHTEN, PlacedSearch
from kubestow.solver.rules.eligibility import fits, possible
from kubestow.solver.runtime.options import Engine, Options, Progress
from kubestow.solver.runtime.progress_trace import ProgressReporter
from kubestow.solver.runtime.run_context import RunContext
from kubestow.solver.search import preference_search
from kubestow.solver.search.parameters import PreferenceSearchParameters
from kubestow.solver.solve import place
from tests import tiny, tiny_soft
from tests.objects import Object, node, pod

ENGINES: tuple[Engine, ...] = ("auto", "exact", "lns", "greedy")


def tiers(result: Placement, name: str) -> list[tuple[int, int]]:
    return [(t.value, t.bound) for t in result.objective if t.tier == name]


def values(result: Placement) -> list[int]:
    """Pods placed per priority, the highest first, then the soft points."""
    return [v for v, _ in tiers(result, "placed")] + [v for v, _ in tiers(result, "soft")]


def options(engine: Engine, *, seconds: float = 3.0, **more: Any) -> Options:
    return Options(engine=engine, deterministic=True, time_limit=seconds, **more)


def compare(snapshot: Snapshot, where: str, *, seconds: float = 3.0) -> dict[str, Placement]:
    """Place with every engine (each result is verified on the way) and assert what must hold between them."""
    found: dict[str, Placement] = {engine: place(snapshot, options(engine, seconds=seconds)) for engine in ENGINES}
    proved = next((r for r in (found["exact"], found["auto"]) if r.status == "optimal"), None)
    for engine, result in found.items():
        assert all(value <= bound for t in ("placed", "soft", "strategy") for value, bound in tiers(result, t)), f"{where} {engine}"
        assert [v for v, _ in tiers(result, "placed")] >= [v for v, _ in tiers(found["greedy"], "placed")], f"{where} {engine}"
        if engine != "greedy":
            assert values(result) >= values(found["greedy"]), f"{where}: {engine} is worse than greedy"
        if result.status == "optimal":
            assert all(value == bound for t in ("placed", "soft") for value, bound in tiers(result, t)), f"{where} {engine}"
        allowed = {"auto": {"greedy", "exact", "lns"}, "exact": {"exact"}, "lns": {"lns"}, "greedy": {"greedy"}}[engine]
        assert result.engine in allowed, f"{where}: {engine} says {result.engine}"
        if proved is not None:
            truth = {t: tiers(proved, t) for t in ("placed", "soft")}
            for t, best in truth.items():
                same = tiers(result, "placed") == truth["placed"] if t == "soft" else True
                if same and len(best) == len(tiers(result, t)):
                    for (value, bound), (optimum, _) in zip(tiers(result, t), best, strict=True):
                        assert value <= optimum <= bound, f"{where}: {engine} {t} {value} {bound}, optimum {optimum}"
    return found


def test_engines_agree_on_a_tiny_cluster() -> None:
    compare(from_objects(tiny_soft.snapshot(1, "mixed", nodes=4, pods=7)), "soft mixed seed 1", seconds=0.4)


@pytest.mark.full
@pytest.mark.parametrize("kind", tiny.ALL)
def test_engines_agree_on_tiny_clusters(kind: str) -> None:
    for seed in range(4):
        compare(from_objects(tiny.snapshot(seed, kind, nodes=4, pods=8)), f"{kind} seed {seed}", seconds=0.5)


@pytest.mark.full
@pytest.mark.parametrize("kind", tiny_soft.KINDS)
def test_engines_agree_on_tiny_clusters_with_preferences(kind: str) -> None:
    for seed in range(4):
        compare(from_objects(tiny_soft.snapshot(seed, kind, nodes=4, pods=7)), f"soft {kind} seed {seed}", seconds=0.4)


def generated(seed: int, *, nodes: int = 30, pods: int = 300) -> Snapshot:
    return from_objects(list(generate(Parameters(nodes=nodes, pods=pods, seed=seed)).objects()))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*tiny.ALL, *tiny_soft.KINDS])
def test_engines_agree_on_tiny_clusters_at_length(kind: str) -> None:
    for seed in range(4, 40):
        if kind in tiny.ALL:
            compare(from_objects(tiny.snapshot(seed, kind, nodes=4, pods=8)), f"{kind} seed {seed}")
        if kind in tiny_soft.KINDS:
            compare(from_objects(tiny_soft.snapshot(seed, kind, nodes=4, pods=7)), f"soft {kind} seed {seed}", seconds=1.5)


@pytest.mark.full
@pytest.mark.parametrize("seed", [1, 2])
def test_engines_on_a_generated_cluster(seed: int) -> None:
    result = compare(generated(seed, nodes=12, pods=80), f"generated seed {seed}", seconds=1.0)
    assert all(len(r.assignments) + len(r.unplaced) == 80 for r in result.values())


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_engines_on_a_larger_generated_cluster(seed: int) -> None:
    result = compare(generated(seed), f"generated seed {seed}", seconds=20.0)
    assert all(len(r.assignments) + len(r.unplaced) == 300 for r in result.values())


@pytest.mark.full
@pytest.mark.parametrize("engine", ENGINES)
def test_deterministic_runs_give_equal_documents(engine: Engine) -> None:
    for snapshot in (generated(3, nodes=8, pods=40), from_objects(tiny_soft.snapshot(4, "mixed", nodes=4, pods=8)), crowded()):
        assert place(snapshot, options(engine, seconds=0.7)) == place(snapshot, options(engine, seconds=0.7))


# --- the chosen engine, and messages about it -----------------------------------------------------------------------------------------


def crowded() -> Snapshot:
    """More asked for than there is, in sizes that no simple rule packs."""
    objects: list[Object] = [node(f"n{i}", cpu="9") for i in range(4)]
    for p, (size, count) in enumerate(((5, 4), (4, 4), (3, 4), (2, 3))):
        objects += [pod(f"s{size}-{i}", cpu=str(size), priority=p % 2) for i in range(count)]
    return from_objects(objects)


def searched(
    snapshot: Snapshot, chosen: Options, reported: list[Progress] | None = None, parameters: PlacedParameters = PARAMETERS
) -> PlacedAnswer:
    """The placed tiers alone."""
    cluster = compile_cluster(snapshot, select(snapshot))
    active = rules.build(cluster)
    context = RunContext.start(chosen, report=ProgressReporter(None if reported is None else reported.append))
    return PlacedSearch(Objective(cluster, active), active, possible(cluster, active), context, parameters).run()


def test_no_step_makes_an_answer_worse_or_raises_a_bound() -> None:
    cluster = compile_cluster(crowded(), select(crowded()))
    active = rules.build(cluster)
    search = PlacedSearch(Objective(cluster, active), active, possible(cluster, active), RunContext.start(options("auto", seconds=0.5)))
    answer = search.construct(cluster.per_priority(cluster.count))
    for step in (*CONSTRUCTION, TIGHTEN, EXACT, NEIGHBOURHOODS):
        after = step.take(search, answer)
        assert rank(cluster, after.counts) >= rank(cluster, answer.counts), step.guarantees
        assert all(after.bounds[priority] <= bound for priority, bound in answer.bounds.items()), step.guarantees
        answer = after
    assert search.complete(answer)


@pytest.mark.full
def test_auto_leaves_large_models_to_neighbourhoods_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    # no bound but that of room: nothing is proved before the engines
    monkeypatch.setattr(placed_tiers, "CONSTRUCTION", [step for step in CONSTRUCTION if step.run is not PlacedSteps.bound])
    monkeypatch.setattr(PlacedSteps, "tight", None)
    assert searched(crowded(), options("auto")).engine == "exact"
    reported: list[Progress] = []
    answer = searched(crowded(), options("auto"), reported, PlacedParameters(exact_limit=0))
    assert answer.engine == "lns"
    assert [note for note in answer.notes if "engine auto chose lns: an exact model would have" in note]
    assert [t.phase for t in reported if t.priority == 1] == ["greedy", "repair", "lns"]
    assert all(t.value is not None and t.bound is not None and t.value <= t.bound for t in reported)
    for name in ENGINES[1:]:
        assert searched(crowded(), options(name), parameters=PlacedParameters(exact_limit=0)).engine == name


def test_a_proof_by_construction_is_told() -> None:
    easy = from_objects([node("n"), pod("p")])
    assert "greedy construction placed every pod that fits anywhere: the placed tiers are proved" in place(easy, options("auto")).notes
    for engine in ENGINES[1:]:
        result = place(easy, options(engine))
        assert (result.engine, result.status, result.notes) == (engine, "optimal", [])


@pytest.mark.full
def test_preferences_of_a_large_model_go_to_neighbourhoods_and_are_said_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preference_search, "PARAMETERS", PreferenceSearchParameters(small_variables=-1, whole_variables=-1))
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "b"}}}
    repels = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 9, "podAffinityTerm": term}]}}
    pulls = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 4, "podAffinityTerm": term}]}}
    objects: list[Object] = [node(f"n{i}", cpu="4", labels={"zone": f"z{i % 2}"}) for i in range(4)]
    objects += [pod(f"b{i}", cpu="1", labels={"app": "b"}, affinity=repels) for i in range(5)]
    objects += [pod(f"c{i}", cpu="1", affinity=pulls) for i in range(8)]
    snapshot = from_objects(objects)
    best = tiers(place(snapshot, options("exact", seconds=2.0)), "soft")
    result = place(snapshot, options("auto", seconds=2.0))
    assert result.engine == "lns"
    assert any("chose lns for the preferences" in note for note in result.notes) or result.status == "optimal"
    (value, bound), (optimum, proved) = tiers(result, "soft")[0], best[0]
    assert optimum == proved
    assert value <= optimum <= bound


def test_bounds_are_those_of_room_where_nothing_is_in_the_way() -> None:
    snapshot = crowded()
    cluster = compile_cluster(snapshot, select(snapshot))
    answer = searched(snapshot, options("greedy"))
    upper = cluster.per_priority(fits(cluster, possible(cluster, rules.build(cluster))))
    placed = cluster.per_priority(answer.counts.sum(axis=1))
    assert all(placed[p] <= answer.bounds[p] <= upper[p] for p in upper)
    assert sum(answer.bounds.values()) < sum(upper.values())  # the relaxation knows that 64 do not fit in 36


def test_a_stopped_run_returns_what_it_has() -> None:
    stop = threading.Event()
    stop.set()
    for engine in ENGINES:
        result = place(crowded(), options(engine), stop=stop)
        assert (result.status, result.assignments) == ("unknown", []), engine
