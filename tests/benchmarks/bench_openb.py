"""GPU allocation on openb, a production cluster of 1,213 nodes with 6,212 GPUs: one task after the other, with moves, and all at once.

    python tests/benchmarks/bench_openb.py [--draws 10] [--at-once 10] [--moves 20] [--time-limit 55] [--workers 2]

A draw takes tasks of the trace at random until they ask for 130 % of the GPUs. A cell is the share of all GPUs that is allocated when
tasks that request that percentage have arrived: mean (least, most) of the draws. Published: ten draws of the evaluation of Weng et al.,
USENIX ATC 2023; they are not the draws here. Online: each task as it arrives on the node where it strands least (openb_online.py), by
kubestow's rules; with moves, after every 100 arrivals those that found no place are tried again and tasks go where they strand less. All
at once is `kubestow solve` of the snapshot in which all arrivals wait, and its bound holds for any placement (openb_bound.py); of the
bound, the least of the draws. Seconds are those of the slowest run.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.benchmarks import openb, openb_bound, openb_online
from tests.benchmarks.bench_devices import solve
from tests.benchmarks.bench_scale import Result
from tests.benchmarks.openb import Machine, Task

LOADS = (90, 95, 100, 110, 130)
#: Percent of the GPUs above which it matters which tasks are left out, more than how well those that stay are packed.
SCARCE = 105


def allocated(result: Result) -> int:
    """Return the thousandths of GPUs that a result allocates: the priority of a task encodes its request."""
    return sum((tier.priority or 0) % openb.FIRST * tier.value for tier in result.objective if tier.tier == "placed")


def at_once(nodes: list[Machine], arrivals: list[Task], options: Sequence[str]) -> tuple[int, int, float]:
    """Return the allocation of one kubestow process when all tasks wait, the bound, and the seconds of the process. Where clearly more is
    asked for than there is, tasks that are worth more than the room they take, by the bound's prices, have the higher priorities."""
    upper, kept = openb_bound.priced(nodes, arrivals)
    scarce = sum(task.load for task in arrivals) * 100 > openb.capacity(nodes) * SCARCE
    one = solve(openb.snapshot(nodes, arrivals, kept if scarce else ()), options)
    return allocated(one.result), upper, one.seconds


def row(name: str, cells: Iterable[tuple[float, float, float]], seconds: Sequence[float] = ()) -> str:
    """A line of the table, each cell from (mean, least, most)."""
    listed = [f"{mean:.2f} ({lowest:.2f}, {highest:.2f})" for mean, lowest, highest in cells]
    return f"| {' | '.join([name, *listed, f'{max(seconds):.0f}' if seconds else ''])} |"


def summed(draws: Sequence[Sequence[float]]) -> list[tuple[float, float, float]]:
    """Mean, least and most of the draws by load."""
    return [(sum(each) / len(each), min(each), max(each)) for each in zip(*draws, strict=True)]


def published() -> Iterator[str]:
    """Yield the lines of the published policies, the worst first."""
    percentages = {name: entry["allocated_percent_at_arrived_load"] for name, entry in openb.published().items()}
    for name in sorted(percentages, key=lambda policy: float(percentages[policy]["100"]["mean"])):
        cells = [percentages[name][str(load)] for load in LOADS]
        yield row(f"{name}, published", [(cell["mean"], cell["least"], cell["most"]) for cell in cells])


def online(nodes: list[Machine], seeds: Iterable[int], moves: int) -> str:
    """The line of tasks as they arrive."""
    full, draws, seconds, moved = openb.capacity(nodes), [], [], []
    for seed in seeds:
        started = time.monotonic()
        result, cluster = openb_online.run(nodes, openb.draw(nodes, seed, LOADS[-1]), LOADS, moves=moves)
        seconds.append(time.monotonic() - started)
        draws.append([100 * part / full for part in result])
        moved.append(cluster.moves)
        print("online", moves, seed, draws[-1], moved[-1], f"{seconds[-1]:.1f}", file=sys.stderr, flush=True)
    name = f"online, up to {moves} moves per 100 arrivals ({sum(moved) / len(moved):,.0f} in all)" if moves else "online, no moves"
    return row(name, summed(draws), seconds)


def whole(nodes: list[Machine], seeds: Iterable[int], options: Sequence[str]) -> Iterator[str]:
    """Yield the lines of all at once: the allocation, the bound, and their ratio."""
    full, draws, bounds, seconds = openb.capacity(nodes), [], [], []
    for seed in seeds:
        arrivals = openb.draw(nodes, seed, LOADS[-1])
        runs = [at_once(nodes, openb.until(nodes, arrivals, load), options) for load in LOADS]
        draws.append([100 * allocated_load / full for allocated_load, _, _ in runs])
        bounds.append([100 * upper / full for _, upper, _ in runs])
        seconds += [spent for _, _, spent in runs]
        print("at once", seed, draws[-1], bounds[-1], [f"{spent:.1f}" for _, _, spent in runs], file=sys.stderr, flush=True)
    yield row("all at once", summed(draws), seconds)
    yield row("its bound", summed(bounds))
    shares = [[100 * a / b for a, b in zip(*pair, strict=True)] for pair in zip(draws, bounds, strict=True)]
    yield f"| of the bound, at least | {' | '.join(f'{lowest:.2f}' for _, lowest, _ in summed(shares))} | |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=10, help="of tasks as they arrive; 0: none")
    parser.add_argument("--at-once", type=int, help="draws that are solved all at once, if not as many")
    parser.add_argument("--moves", type=int, default=20, help="per 100 arrivals")
    parser.add_argument("--time-limit", default="55", help="of each solve")
    parser.add_argument("--workers", default="2")
    arguments = parser.parse_args()
    nodes = openb.machines()
    print(f"| % allocated at % arrived | {' | '.join(map(str, LOADS))} | seconds |")
    print("|---" + "|--:" * (len(LOADS) + 1) + "|")
    for line in published():
        print(line)
    for moves in (0, arguments.moves) if arguments.draws else ():
        print(online(nodes, range(arguments.draws), moves), flush=True)
    number = arguments.draws if arguments.at_once is None else arguments.at_once
    for line in () if not number else whole(nodes, range(number), ("--time-limit", arguments.time_limit, "--workers", arguments.workers)):
        print(line, flush=True)


if __name__ == "__main__":
    main()
