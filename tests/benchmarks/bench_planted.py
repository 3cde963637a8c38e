"""How full kubestow packs: instances whose complete placement is known to exist.

    python tests/benchmarks/bench_planted.py [--nodes 1000] [--pods 10000] [--time-limit 180] [--seeds 0,1,2] [PATTERN…]

``planted-U-sS``: ``kubestow generate --planted U --seed S``, pods cut from U % of every node. ``rules-200x12-97-sS``: recorded instances
with required affinity, anti-affinity and maxSkew, to be proved complete within 60 s. Nothing but the placed tiers is asked for (a policy
without strategy, weights or default constraints), so that seconds, those of the whole process, end with the proof or the time limit.
"""

from __future__ import annotations

import argparse
import fnmatch
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from rich.console import Console
from rich.table import Table

from tests.benchmarks.bench_scale import Run, generate, run

DATA = Path(__file__).parent / "data"
#: Required affinity does not pull, pods of a Service are not spread by default, nothing breaks ties.
PLACED_ONLY = "strategy: none\nhardPodAffinityWeight: 0\ndefaultConstraints: []\n"
#: Usage in percent, and the share of the pods that shall be placed.
GOALS = {97: 0.999, 100: 0.99}
RULES_SECONDS = 60.0


@dataclass(frozen=True)
class Instance:
    """``file`` writes or finds the snapshot in a temporary folder; ``share`` of the pods shall be placed, and with ``proved`` all placed
    tiers proved, in ``seconds`` of search."""

    name: str
    file: Callable[[Path], Path]
    share: float
    seconds: float
    proved: bool = False

    def met(self, one: Run) -> bool:
        placed = [t for t in one.result.objective if t.tier == "placed"]
        proved = all(t.value == t.bound for t in placed)
        return one.result.placed >= self.share * one.result.snapshot.pending and (proved or not self.proved)


def instances(nodes: int, pods: int, seeds: Sequence[int], seconds: float, patterns: Sequence[str]) -> list[Instance]:
    all_instances = [
        Instance(f"planted-{usage}-s{seed}", partial(_planted, nodes, pods, usage, seed), share, seconds)
        for usage, share in GOALS.items()
        for seed in seeds
    ]
    all_instances += [
        Instance(path.name.removesuffix(".json.gz"), partial(_recorded, path), 1.0, RULES_SECONDS, proved=True)
        for path in sorted(DATA.glob("rules-200x12-97-*.json.gz"))
    ]
    return [i for i in all_instances if any(fnmatch.fnmatch(i.name, p) for p in patterns)]


def _planted(nodes: int, pods: int, usage: int, seed: int, folder: Path) -> Path:
    return generate(folder / "planted.json", nodes, pods, seed, ("--planted", str(usage)))


def _recorded(path: Path, folder: Path) -> Path:
    return path


def solve(instance: Instance, options: Sequence[str] = ()) -> Run:
    """One process of kubestow on an instance; options come on top of the instance's time limit."""
    with tempfile.TemporaryDirectory() as folder:
        policy = Path(folder) / "policy.yaml"
        policy.write_text(PLACED_ONLY)
        return run(instance.file(Path(folder)), ("--policy", str(policy), "--time-limit", f"{instance.seconds:g}", *options))


def row(instance: Instance, one: Run) -> tuple[str, ...]:
    """Cells of the table."""
    result = one.result
    pending, bound = result.snapshot.pending, sum(t.bound for t in result.objective if t.tier == "placed")
    goal = f"{instance.share:.1%}{', proved' if instance.proved else ''}: {'met' if instance.met(one) else 'missed'}"
    cells = (f"{pending:,}", f"{result.placed:,}", f"{result.placed / pending:.2%}", f"{bound:,}", result.status, f"{one.seconds:.0f}")
    return instance.name, *cells, goal


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("patterns", nargs="*", default=["*"], metavar="PATTERN")
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--time-limit", type=float, default=180.0, help="of the generated instances")
    parser.add_argument("--engine", default="auto")
    arguments = parser.parse_args()
    seeds = [int(part) for part in arguments.seeds.split(",")]
    table = Table("instance", "pods", "placed", "share", "bound", "status", "seconds", "goal", title="pods placed where all fit")
    for column in table.columns[1:]:
        column.justify = "right"
    for instance in instances(arguments.nodes, arguments.pods, seeds, arguments.time_limit, arguments.patterns):
        cells = row(instance, solve(instance, ("--engine", arguments.engine)))
        table.add_row(*cells)
        print(*cells, file=sys.stderr, flush=True)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
