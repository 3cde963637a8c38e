"""The benchmark of openb on every fortieth node: allocations agree with the rules' state and do not exceed the bound."""

from __future__ import annotations

from collections import Counter
from itertools import product

import pytest

from tests.benchmarks import bench_openb, openb, openb_bound, openb_online
from tests.benchmarks.bench_scale import Result, Tier, _Pending
from tests.benchmarks.openb import WHOLE, Machine, Task

NODES = openb.machines()[::40]
LOADS = (90, 100, 130)


@pytest.fixture(scope="module")
def arrivals() -> list[Task]:
    return openb.draw(NODES, 0, LOADS[-1])


def test_the_trace_is_what_its_authors_say() -> None:
    nodes = openb.machines()
    assert (len(nodes), openb.capacity(nodes)) == (1_213, 6_212 * WHOLE)
    assert all(task.share == WHOLE for task in openb.tasks() if task.gpus > 1)
    assert openb.published()["FGD"]["allocated_percent_at_arrived_load"]["100"]["mean"] == 95.23


def test_arrivals_end_where_the_load_is_reached(arrivals: list[Task]) -> None:
    full = openb.capacity(NODES)
    for load in LOADS:
        part = openb.until(NODES, arrivals, load)
        assert sum(task.load for task in part[:-1]) * 100 < load * full <= sum(task.load for task in part) * 100


@pytest.mark.parametrize("moves", [0, 20])
def test_tasks_run_as_they_are_noted_and_below_the_bound(arrivals: list[Task], moves: int) -> None:
    result, cluster = openb_online.run(NODES, arrivals, LOADS, moves=moves)
    for load, allocated in zip(LOADS, result, strict=True):
        part = openb.until(NODES, arrivals, load)
        assert allocated <= openb_bound.bound(NODES, part) <= openb.capacity(NODES)
        assert allocated * 100 > 80 * openb.capacity(NODES)
    assert bool(cluster.moves) == bool(moves)
    assert cluster.moves <= moves * (len(arrivals) // openb_online.BATCH)
    running = Counter({task: len(allocations) for here in cluster.running for task, allocations in here.items()})
    assert all(running[task] <= count for task, count in Counter(arrivals).items())
    for node, room, here in zip(NODES, cluster.room, cluster.running, strict=True):
        listed = [(task, allocations) for task, each in here.items() for allocations in each]
        assert room[0] == node.cpu - sum(task.cpu for task, _ in listed) >= 0
        assert room[1] == node.memory - sum(task.memory for task, _ in listed) >= 0
        assert all(len(allocations) == task.gpus for task, allocations in listed)
        for k, free in enumerate(room[2]):
            assert free == WHOLE - sum(task.share for task, allocations in listed if k in allocations) >= 0


def test_the_bound_is_reached_where_everything_fits_and_cuts_what_cannot() -> None:
    node = Machine("a", 96_000, 400_000, 2)
    half, larger = Task(1_000, 1_000, 1, 500), Task(1_000, 1_000, 1, 600)
    assert openb_bound.bound([node], [half] * 4) == 2 * WHOLE
    assert openb_bound.bound([node], [larger] * 4) == 1_200  # one on each GPU
    assert openb_bound.bound([Machine("a", 1_500, 400_000, 2)], [half] * 4) == 750  # CPU for one and a half
    assert openb_bound.bound([node], [Task(1, 1, 4, WHOLE)]) == 0


def test_what_leaves_little_to_others_is_left_out_rather() -> None:
    pair, wasting = Task(1_000, 1_000, 1, 500), Task(1_000, 1_000, 1, 800)
    upper, kept = openb_bound.priced([Machine("a", 96_000, 400_000, 2)], [pair] * 3 + [wasting] * 3)
    assert upper == 1_500 + 400  # as if half of another GPU had room for half of a task
    assert kept == {pair}


def test_the_bound_holds_for_every_placement_of_few_tasks() -> None:
    nodes = [Machine("a", 3_000, 9_000, 1), Machine("b", 2_000, 9_000, 2)]
    tasks = [Task(1_000, 1, 1, 700), Task(1_000, 1, 1, 300), Task(1_500, 1, 1, 400), Task(1_000, 1, 2, WHOLE), Task(500, 1, 1, 600)]
    best = 0
    for places in product((None, 0, 1), repeat=len(tasks)):
        rooms: list[openb_online.Room | None] = [(node.cpu, node.memory, (WHOLE,) * node.gpus) for node in nodes]
        chosen = [(task, n) for task, n in zip(tasks, places, strict=True) if n is not None]
        for task, n in chosen:
            room = rooms[n]
            rooms[n] = None if room is None else openb_online.after(room, task)
        if None not in rooms:
            best = max(best, sum(task.load for task, _ in chosen))
    assert 0 < best <= openb_bound.bound(nodes, tasks) < sum(task.load for task in tasks)


def test_what_a_result_allocates_is_read_from_its_tiers() -> None:
    tiers = [
        Tier("placed", 2, 3, 1_000),
        Tier("placed", 5, 5, 470),
        Tier("placed", 3, 3, openb.FIRST + 20),
        Tier("placed", 4, 4, 0),
        Tier("strategy", 7, 9),
    ]
    assert bench_openb.allocated(Result("feasible", "lns", _Pending(15), tiers)) == 2 * 1_000 + 5 * 470 + 3 * 20


@pytest.mark.slow
def test_all_at_once_is_no_worse_than_one_after_the_other(arrivals: list[Task]) -> None:
    part = openb.until(NODES, arrivals, 100)
    together, upper, _ = bench_openb.at_once(NODES, part, ("--time-limit", "20", "--workers", "1"))
    (online,), _ = openb_online.run(NODES, part, (100,))
    assert online <= together <= upper


def test_the_lines_of_the_table() -> None:
    assert bench_openb.row("x", bench_openb.summed([[90.0, 95.0], [92.0, 95.5]]), [3.2]) == (
        "| x | 91.00 (90.00, 92.00) | 95.25 (95.00, 95.50) | 3 |"
    )
    assert [line.split(",")[0] for line in bench_openb.published()][-1] == "| FGD"
