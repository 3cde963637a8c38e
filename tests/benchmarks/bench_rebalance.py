"""Plans compared with known optima and with other methods.

    python tests/benchmarks/bench_rebalance.py consolidation [--count 32] [--first 0] [--time-limit 20]
    python tests/benchmarks/bench_rebalance.py admit [--count 48] [--first 0] [--time-limit 20]
    python tests/benchmarks/bench_rebalance.py scale [--nodes 5000] [--pods 45000] [--goals consolidate,improve] [--reference] [OPTION…]
    python tests/benchmarks/bench_rebalance.py clusters [--time-limit 30]
    python tests/benchmarks/bench_rebalance.py improve [--count 8] [--first 0] [--nodes 200] [--pods 3000] [--time-limit 60]

``consolidation``: against two reference heuristics, see tests/benchmarks/consolidation.py. ``admit``: planted instances
(tests/instances/planted/planted_admit.py). ``scale``: one worn cluster, each goal a fresh process of ``kubestow rebalance``, from file to
written, verified plan; unknown options go to it. ``clusters``: the captured clusters of the shared data, where present. ``improve``:
clusters that a spreading scheduler filled, 60 % of the workloads with preferences: the tier before, by construction alone, after the
search, and its bound. All tables are Markdown.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import msgspec

from kubestow.instances.generate.generator import Parameters, generate
from kubestow.instances.generate.worn import Worn, worn
from kubestow.models.documents.placement import from_builtins
from kubestow.models.documents.rebalance_plan import Limits, RebalancePlan
from kubestow.models.kube.objects import is_terminal
from kubestow.models.snapshot.snapshot import Snapshot, from_objects, load
from kubestow.solver.rebalance.problem.options import PlanOptions
from kubestow.solver.rebalance.problem.problem import read_problem
from kubestow.solver.rebalance.rebalance import rebalance
from kubestow.solver.rebalance.tiers.improvement import BALANCE_PER_POINT
from kubestow.solver.rebalance.tiers.objective import PlanObjective
from kubestow.solver.runtime.options import Options
from tests.benchmarks import consolidation
from tests.benchmarks.bench_scale import ROOT, WRITTEN, command
from tests.benchmarks.consolidation_reference import HEURISTICS
from tests.instances.planted.planted_admit import planted_admit

Row = TypeVar("Row")
CLUSTERS: Final = ROOT.parent / "shared" / "data" / "clusters"
_CONTROL_PLANE: Final = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")


def plan(
    snapshot: Snapshot, seconds: float, *goals: str, drain: Sequence[str] = (), freed: int | None = None
) -> tuple[RebalancePlan, float]:
    """A verified plan, which frees ``freed`` nodes at most, and the seconds that it took."""
    started = time.monotonic()
    options = PlanOptions(goals=goals, drain=tuple(drain), limits=Limits(maxFreed=freed), options=Options(time_limit=seconds))
    return rebalance(snapshot, options), time.monotonic() - started


def consolidate(number: int, seconds: float) -> consolidation.Compared:
    """One worn cluster by all methods."""
    parameters = consolidation.cluster(number)
    snapshot = from_objects(worn(parameters).objects())
    result, took = plan(snapshot, seconds, "consolidate")
    return consolidation.compare(parameters, snapshot, result, took, lambda freed: plan(snapshot, seconds, "consolidate", freed=freed)[0])


# --- admit --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Admitted:
    """One planted instance. ``k``: the fewest moves; ``placed`` of ``waiting`` pods after ``moves``."""

    seed: int
    shape: str
    nodes: int
    k: int
    waiting: int
    placed: int
    moves: int
    waves: int
    status: str
    seconds: float

    @property
    def good(self) -> bool:
        return self.placed == self.waiting and self.moves <= self.k


def admit(seed: int, seconds: float) -> Admitted:
    """One planted instance."""
    instance = planted_admit(seed)
    snapshot = from_objects(instance.objects)
    result, took = plan(snapshot, seconds, "admit")
    placed = sum(move.source is None for move in result.moves)
    return Admitted(
        seed, instance.shape, len(snapshot.nodes), instance.k, len(instance.waiting), placed, len(result.moves) - placed, result.waves,
        result.status, took,
    )  # fmt: skip


def admit_table(rows: Sequence[Admitted]) -> Iterator[str]:
    """A row for each shape and k, and all together; instances that went wrong are named on standard error."""
    yield "| Shape | k | Instances | All placed | with k moves or fewer | proved | Seconds, median | worst |"
    yield "|---|--:|--:|--:|--:|--:|--:|--:|"
    groups = [((shape, str(k)), [r for r in rows if (r.shape, r.k) == (shape, k)]) for shape, k in sorted({(r.shape, r.k) for r in rows})]
    for (shape, k), some in [*groups, (("all", ""), list(rows))]:
        whole, good = sum(r.placed == r.waiting for r in some), sum(r.good for r in some)
        times = [r.seconds for r in some]
        proved = sum(r.status == "optimal" for r in some)
        yield f"| {shape} | {k} | {len(some)} | {whole} | {good} | {proved} | {statistics.median(times):.1f} | {max(times):.1f} |"
    for row in rows:
        if not row.good:
            print(row, file=sys.stderr)


# --- scale --------------------------------------------------------------------------------------------------------------


def scale(arguments: argparse.Namespace, options: Sequence[str]) -> Iterator[str]:
    """Seconds, peak memory and result of each goal on one large worn cluster."""
    with tempfile.TemporaryDirectory() as folder:
        path, target = Path(folder) / "cluster.json", Path(folder) / "plan.json"
        made = worn(Worn(arguments.nodes or 5000, arguments.pods or 45_000, seed=arguments.first))
        path.write_bytes(msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": list(made.objects())}))
        yield "| Goal | Seconds | Peak MiB | Moves | Waves | Empty nodes before | after | Status | Tiers | Seconds by phase |"
        yield "|---|--:|--:|--:|--:|--:|--:|---|---|---|"
        for goal in arguments.goals.split(","):
            started = time.monotonic()
            process = subprocess.Popen(command("rebalance", str(path), "--goal", goal, "-q", "-f", "json", "-o", str(target), *options))
            _, status, usage = os.wait4(process.pid, 0)  # the usage of this child alone
            took = time.monotonic() - started
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode not in WRITTEN:
                raise RuntimeError(f"rebalance --goal {goal}: exit {process.returncode}")
            result = from_builtins(msgspec.json.decode(target.read_bytes()), RebalancePlan)
            tiers = ", ".join(f"{tier.tier} {tier.value} of {tier.bound}" for tier in result.objective)
            phases = msgspec.to_builtins(result.seconds) if result.seconds is not None else {}
            shown = ", ".join(f"{name} {value:.1f}" for name, value in phases.items())
            free = f"{result.before.emptyNodes} | {result.after.emptyNodes}"
            moves = f"{len(result.moves)} | {result.waves}"
            yield f"| {goal} | {took:.1f} | {usage.ru_maxrss // 1024} | {moves} | {free} | {result.status} | {tiers} | {shown} |"
        if arguments.reference:
            snapshot = load([str(path)])
            for name, heuristic in HEURISTICS.items():
                started = time.monotonic()
                theirs = heuristic(snapshot)
                took = time.monotonic() - started
                yield f"| {name} | {took:.1f} | | {theirs.moves} | | {consolidation.trace(snapshot, [])[0]} | {len(theirs.nodes)} | | | |"


# --- captured clusters --------------------------------------------------------------------------------------------------


def clusters(seconds: float) -> Iterator[str]:
    """Each goal, and a drain of the worker with most pods, on each captured cluster."""
    yield "| Cluster | Goal | Status | Moves | Waves | Empty nodes before | after | Rules broken before | after | Obstacles | Stay | s |"
    yield "|---|---|---|--:|--:|--:|--:|--:|--:|--:|---|--:|"
    for path in sorted(CLUSTERS.glob("*.json")):
        snapshot = load([str(path)])
        asks = [(goal, (goal,), ()) for goal in ("repair", "improve", "consolidate")]
        worker = _worker(snapshot)
        for name, goals, drain in [*asks, (f"drain {worker}", (), (worker,))]:
            result, took = plan(snapshot, seconds, *goals, drain=drain)
            stay = ", ".join(f"{entry.reason} {len(entry.pods)}" for entry in result.excluded)
            sizes = f"{len(result.moves)} | {result.waves} | {result.before.emptyNodes} | {result.after.emptyNodes}"
            rules = f"{sum(result.before.rules.values())} | {sum(result.after.rules.values())} | {len(result.obstacles)}"
            yield f"| {path.stem} | {name} | {result.status} | {sizes} | {rules} | {stay} | {took:.1f} |"


def _worker(snapshot: Snapshot) -> str:
    """The node with most running pods that is not of the control plane."""
    pods = Counter(pod.spec.nodeName for pod in snapshot.pods if not is_terminal(pod))
    names = [node.metadata.name or "" for node in snapshot.nodes if not any(key in (node.metadata.labels or {}) for key in _CONTROL_PLANE)]
    return max(names, key=lambda name: (pods[name], name))


# --- improve ------------------------------------------------------------------------------------------------------------


def improved(seed: int, nodes: int, pods: int, seconds: float) -> str:
    """A row of the goal `improve` on one generated cluster, values in points."""
    snapshot = from_objects(generate(Parameters(nodes, pods, seed=seed, bound=100, preferences=60)).objects())
    values = PlanObjective(read_problem(snapshot, PlanOptions(goals=("improve",))), ("improve",))
    before, first_bound = values.of_steps([])[0], values.bounds()[0]
    options = [PlanOptions(goals=("improve",), options=Options(engine=engine, time_limit=seconds)) for engine in ("greedy", "auto")]
    built, (improved_plan, took) = rebalance(snapshot, options[0]), _timed(lambda: rebalance(snapshot, options[1]))
    tier, alone = improved_plan.objective[0], built.objective[0].value
    points = " | ".join(f"{value / BALANCE_PER_POINT:,.0f}" for value in (before, alone, tier.value, tier.bound, first_bound))
    gaps = [(tier.bound - value) / max(1, tier.bound - before) for value in (alone, tier.value)]
    moves = f"{len(built.moves):,} | {len(improved_plan.moves):,} | {improved_plan.waves}"
    return f"| {nodes:,} | {pods:,} | {seed} | {points} | {gaps[0]:.1%} | {gaps[1]:.1%} | {moves} | {took:.0f} |"


def _timed(run: Callable[[], RebalancePlan]) -> tuple[RebalancePlan, float]:
    started = time.monotonic()
    return run(), time.monotonic() - started


def improve_table(arguments: argparse.Namespace) -> Iterator[str]:
    """A row a seed. Left: of the distance from the value before to the bound."""
    yield "| Nodes | Pods | Seed | Before | Construction | Search | Bound | Bound before any search | left by construction | left | Moves, construction | Moves | Waves | Seconds |"  # fmt: skip  # noqa: E501
    yield "|--:" * 14 + "|"
    for seed in range(arguments.first, arguments.first + (arguments.count or 8)):
        yield improved(seed, arguments.nodes or 200, arguments.pods or 3000, arguments.time_limit)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("consolidation", "admit", "scale", "clusters", "improve"))
    parser.add_argument("--count", type=int, help="clusters or instances  [default: 32; admit: 48]")
    parser.add_argument("--first", type=int, default=0, help="the first number or seed")
    parser.add_argument("--time-limit", type=float, default=20.0, help="of each plan (not for scale, where the command has its own)")
    parser.add_argument("--nodes", type=int, help="default: 5000; improve: 200")
    parser.add_argument("--pods", type=int, help="default: 45000; improve: 3000")
    parser.add_argument("--goals", default="consolidate,improve")
    parser.add_argument("--reference", action="store_true", help="scale: run the heuristics too")
    arguments, options = parser.parse_known_args()
    if options and arguments.what != "scale":
        parser.error(f"unrecognized arguments: {' '.join(options)}")
    limit = arguments.time_limit
    if arguments.what == "scale":
        lines = scale(arguments, options)
    elif arguments.what == "clusters":
        lines = clusters(limit)
    elif arguments.what == "improve":
        lines = improve_table(arguments)
    elif arguments.what == "admit":
        lines = admit_table(_each(lambda seed: admit(seed, limit), arguments.first, arguments.count or 48))
    else:
        lines = consolidation.table(_each(lambda number: consolidate(number, limit), arguments.first, arguments.count or 32))
    for line in lines:
        print(line, flush=True)


def _each(run: Callable[[int], Row], first: int, count: int) -> list[Row]:
    return [run(number) for number in range(first, first + count)]


if __name__ == "__main__":
    main()
