"""Engines on one instance: every result verified, bounds that hold against the proved optimum, none worse than greedy, all repeatable."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from instances.generator import Parameters, generate
from models.compile import compile_cluster
from models.placement import Placement
from models.scope import select
from models.snapshot import Snapshot, from_objects
from solver import placed_tiers, rules, soft_search
from solver.limits import fits, possible
from solver.objective import Objective
from solver.options import Engine, Options, Progress
from solver.place import place
from solver.placed_tiers import Answer, PlacedSearch
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


@pytest.mark.parametrize("kind", tiny.KINDS)
def test_engines_agree_on_tiny_clusters(kind: str) -> None:
    for seed in range(8):
        compare(from_objects(tiny.snapshot(seed, kind, nodes=4, pods=8)), f"{kind} seed {seed}")


@pytest.mark.parametrize("kind", tiny_soft.KINDS)
def test_engines_agree_on_tiny_clusters_with_preferences(kind: str) -> None:
    for seed in range(6):
        compare(from_objects(tiny_soft.snapshot(seed, kind, nodes=4, pods=7)), f"soft {kind} seed {seed}", seconds=1.5)


def generated(seed: int, *, nodes: int = 30, pods: int = 300) -> Snapshot:
    return from_objects(list(generate(Parameters(nodes=nodes, pods=pods, seed=seed)).objects()))
