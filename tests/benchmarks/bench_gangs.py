"""Gangs whose answer is known: placed whole where that is possible, and explained where it is not.

    python tests/benchmarks/bench_gangs.py [--kind feasible|infeasible] [--count 12] [--seed 0] [--time-limit 60]

Planted-feasible gangs (tests/instances/planted/planted_gangs.py): 8 to 512 pods in up to 8 templates, on 50 to 1,000 nodes with 80 to 98
% of the CPUs
requested, each with the time limit, compared with a pod-by-pod scheduler (tests/gangs/pod_by_pod.py).
Planted-infeasible gangs (tests/instances/planted/gang_causes.py): one known cause each. Seconds are from objects to verified placement.
``--count 500`` is the full run. The table is Markdown; instances that went wrong or were slow are named on standard error.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.gangs import known, pod_by_pod
from tests.instances.planted.planted_gangs import CAUSES, feasible, infeasible


@dataclass(frozen=True)
class Placed:
    """A feasible gang. ``whole``: placed and verified; ``theirs``: whole pod by pod, ``share`` of its pods placed so."""

    seed: int
    family: str
    whole: bool
    seconds: float
    theirs: bool
    share: float

    @property
    def good(self) -> bool:
        return self.whole


@dataclass(frozen=True)
class Explained:
    """An infeasible gang. ``proved``: that it is; ``named``: the planted cause is in the minimal one; ``ways`` out, of which ``working``
    were shown to work."""

    seed: int
    family: str
    proved: bool
    named: bool
    minimal: bool
    ways: int
    working: int
    seconds: float

    @property
    def good(self) -> bool:
        return self.proved and self.named and self.working == self.ways


Row = TypeVar("Row", Placed, Explained)


def place(seed: int, seconds: float) -> Placed:
    """One feasible gang."""
    instance = feasible(seed)
    answer = known.solve(instance, seconds)
    theirs = pod_by_pod.schedule(known.expanded(instance), seed=seed)
    return Placed(seed, instance.shape, answer.whole, answer.seconds, theirs.whole == theirs.gangs, theirs.share)


def explain(seed: int, seconds: float) -> Explained:
    """One infeasible gang, of the cause whose turn it is."""
    instance = infeasible(seed, cause=CAUSES[seed % len(CAUSES)])
    answer = known.solve(instance, seconds)
    given = known.cause(answer, instance)
    if given is None:
        return Explained(seed, instance.cause, answer.proved, False, False, 0, 0, answer.seconds)
    ways = known.works(answer, instance, given, seconds)
    named = known.names(given, instance)
    return Explained(seed, instance.cause, answer.proved, named, given.minimal, len(ways), ways.count(True), answer.seconds)


def placed_table(rows: Sequence[Placed]) -> Iterator[str]:
    """Markdown lines: a row for each shape of gang, and all together."""
    yield "| Gangs | Placed whole, verified | Seconds, median | worst | Whole pod by pod | Their pods placed pod by pod |"
    yield "|---|--:|--:|--:|--:|--:|"
    for name, some in _families(rows, lambda row: row.family):
        whole, theirs = sum(r.whole for r in some), sum(r.theirs for r in some)
        ours, share = f"{whole} ({whole / len(some):.1%})", statistics.mean(r.share for r in some)
        yield f"| {name} ({len(some)}) | {ours} | {_times(some)} | {theirs} ({theirs / len(some):.1%}) | {share:.0%} |"


def explained_table(rows: Sequence[Explained]) -> Iterator[str]:
    """Markdown lines: a row for each planted cause, and all together."""
    yield "| Planted cause | Proved | Planted cause named | Shown minimal | Ways out that work | Seconds, median | worst |"
    yield "|---|--:|--:|--:|--:|--:|--:|"
    for name, some in _families(rows, lambda row: row.family):
        proved, named, minimal = sum(r.proved for r in some), sum(r.named for r in some), sum(r.minimal for r in some)
        ways = f"{sum(r.working for r in some)} of {sum(r.ways for r in some)}"
        yield f"| {name} ({len(some)}) | {proved} ({proved / len(some):.1%}) | {named} | {minimal} | {ways} | {_times(some)} |"


def _families(rows: Sequence[Row], family: Callable[[Row], str]) -> Iterator[tuple[str, list[Row]]]:
    for name in sorted({family(row) for row in rows}):
        yield name, [row for row in rows if family(row) == name]
    yield "all", list(rows)


def _times(rows: Iterable[Placed | Explained]) -> str:
    seconds = [row.seconds for row in rows]
    return f"{statistics.median(seconds):.1f} | {max(seconds):.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=("feasible", "infeasible"), default="feasible")
    parser.add_argument("--count", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0, help="of the first instance")
    parser.add_argument("--time-limit", type=float, default=60.0, help="of each instance")
    arguments = parser.parse_args()
    seeds = range(arguments.seed, arguments.seed + arguments.count)
    lines = (
        placed_table(list(_told(place, seeds, arguments.time_limit)))
        if arguments.kind == "feasible"
        else explained_table(list(_told(explain, seeds, arguments.time_limit)))
    )
    print("\n".join(lines))


def _told(run: Callable[[int, float], Row], seeds: Iterable[int], seconds: float) -> Iterator[Row]:
    for seed in seeds:
        row = run(seed, seconds)
        if not row.good or row.seconds > seconds / 2:
            print(row, file=sys.stderr, flush=True)
        yield row


if __name__ == "__main__":
    main()
