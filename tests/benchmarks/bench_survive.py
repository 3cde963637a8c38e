"""How long certificates of survival take, how many failures have to be solved for them, and whether `solve` agrees.

    python tests/benchmarks/bench_survive.py [--only nodes,zones,pairs] [--sample 20] [--time-limit 60] [--seed 1] [--scale PERCENT]
    python tests/benchmarks/bench_survive.py --jobs 2 [--only loose,tight] [--rounds 3]

Each row is a worn cluster (`kubestow generate --worn`) in which every pod runs. Of the distinct failures some are decided by bounds, places
of some are composed of those of smaller failures or built by construction, the rest is solved. A sample of the failures, survived or
not, is decided once more: the nodes are removed as a what-if edit, the pods that wait then are placed by `solve`, and all of them have to
find a place where the certificate says so, and not all where it says not. The table is Markdown.

With `--jobs N` the other table: one process and N, in turn, on pairs of nodes of clusters, one of which is so full that pairs take a search
(`tight`): wall clock, and CPU seconds of this process and of its workers. Documents have to be the same, byte for byte.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import msgspec

from kubestow.instances.generate.worn import Worn, worn
from kubestow.models.documents.placement import Edits
from kubestow.models.documents.policy import DEFAULT
from kubestow.models.documents.survival import Scenario, Survival
from kubestow.models.edits.edits import apply
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from kubestow.solver.capacity.survive.decide import hard
from kubestow.solver.capacity.survive.options import SurviveOptions
from kubestow.solver.capacity.survive.survive import survive
from kubestow.solver.executors.pool import pool_of
from kubestow.solver.runtime.options import Options
from kubestow.solver.solve import place


@dataclass(frozen=True)
class Case:
    """A cluster and what fails in it. ``name``: by which ``--only`` chooses it."""

    name: str
    cluster: Worn
    fail: str
    at_once: int = 1


#: Of CPU 45 % are used where a third can be lost, 85 % where little can.
CASES: Final = (
    Case("nodes", Worn(1000, 15_000, fill=45), "node"),
    Case("nodes", Worn(1000, 15_000, fill=85, gone=10), "node"),
    Case("zones", Worn(1000, 15_000, fill=45), "zone"),
    Case("zones", Worn(1000, 15_000, fill=55, zones=10), "zone"),
    Case("zones", Worn(1000, 15_000, fill=85, gone=10), "zone"),
    Case("pairs", Worn(200, 3_000, fill=45), "node", 2),
    Case("pairs", Worn(200, 3_000, fill=85, gone=10), "node", 2),
)


#: What is shared: pairs of which most are put together by the process that hands them out, and pairs that take a construction or a search.
SHARED: Final = (
    Case("loose", Worn(200, 3_000, fill=45), "node", 2),
    Case("tight", Worn(40, 600, seed=1, fill=90, gone=5), "node", 2),
)
SHARED_HEADER: Final = (
    "cluster", "distinct pairs", "jobs", "wall", "CPU here", "CPU of workers", "wall of one process / wall",
)  # fmt: skip


@dataclass(frozen=True)
class Measured:
    """A row: the answer, how long it took (without reading) by the clock and in CPU time, and of how many failures of the sample `solve`
    says the same."""

    case: Case
    found: Survival
    seconds: float
    cpu: float
    sampled: int
    agree: int

    def cells(self) -> tuple[str, ...]:
        """Return the row as texts."""
        s, c = self.found.scenarios, self.case
        lost = sum(1 + len(each.alike) for each in self.found.outcomes if each.outcome == "pending")
        what = f"{c.fail}s" if c.at_once == 1 else f"{c.at_once} {c.fail}s at once"
        where = f"{c.cluster.nodes:,} nodes, {c.cluster.pods:,} pods, {c.cluster.zones} zones, {c.cluster.fill} % of CPU"
        built = sum(each.by == "search" for each in self.found.outcomes if each.outcome != "unknown")
        numbers = (s.all, s.distinct, s.bounded, s.composed, built, s.solved - s.composed - built, s.open)
        verdict = "certified" if self.found.certified else f"{lost:,} not survived"
        return (
            where,
            what,
            *(f"{number:,}" for number in numbers),
            verdict,
            f"{self.seconds:.1f} s",
            f"{self.cpu:.1f} s",
            f"{self.agree} of {self.sampled}",
        )


HEADER: Final = (
    "cluster",
    "fails",
    "failures",
    "distinct",
    "by bounds",
    "composed",
    "built",
    "solved",
    "open",
    "verdict",
    "time",
    "CPU",
    "`solve` agrees",
)


def survives(snapshot: Snapshot, gone: Sequence[str], seconds: float) -> bool | None:
    """Return whether `solve` places all pods of removed nodes; None if it does not know."""
    edited = apply(snapshot, None, Edits(removeNodes=list(gone))).snapshot
    placed = place(edited, Options(time_limit=seconds, causes=False, policy=hard(DEFAULT)))
    tiers = [tier for tier in placed.objective if tier.tier == "placed"]
    if len(placed.assignments) == placed.snapshot.pending:
        return True
    return False if sum(tier.bound for tier in tiers) < placed.snapshot.pending else None


def agreement(snapshot: Snapshot, case: Case, outcomes: Sequence[Scenario], number: int, seconds: float) -> tuple[int, int]:
    """Return the number of failures in a sample, and the number with the same outcome. Half are among those that are not
    survived, where there are any; equal failures count once each."""
    random = Random(1)
    every = [(failed, each.outcome) for each in outcomes if each.outcome != "unknown" for failed in (each.failed, *each.alike)]
    lost = [entry for entry in every if entry[1] == "pending"]
    chosen = random.sample(lost, min(len(lost), number // 2))
    survived = [entry for entry in every if entry[1] == "survives"]
    chosen += random.sample(survived, min(len(survived), number - len(chosen)))
    sampled = agree = 0
    for failed, outcome in chosen:
        key = "topology.kubernetes.io/zone" if case.fail == "zone" else None
        labels = {node.metadata.name or "": node.metadata.labels or {} for node in snapshot.nodes}
        gone = failed if key is None else [name for name, own in labels.items() if own.get(key) in failed]
        again = survives(snapshot, gone, seconds)
        if again is not None:
            sampled += 1
            agree += again == (outcome == "survives")
    return sampled, agree


def measure(case: Case, seconds: float, sample: int) -> Measured:
    """Measure one row."""
    snapshot = from_objects(list(worn(case.cluster).objects()))
    started, cpu = time.monotonic(), time.process_time()
    result = survive(snapshot, SurviveOptions(case.fail, case.at_once), Options(time_limit=seconds, causes=False))
    took = time.monotonic() - started, time.process_time() - cpu
    return Measured(case, result, *took, *agreement(snapshot, case, result.outcomes, sample, seconds))


def cases(only: Sequence[str], seed: int, scale: int) -> Iterator[Case]:
    """Yield the cases of these names, on clusters of ``scale`` per cent of the size."""
    for case in CASES:
        if not only or case.name in only:
            c = case.cluster
            size = {"nodes": max(c.zones, c.nodes * scale // 100), "pods": c.pods * scale // 100}
            cluster = Worn(**size, seed=seed, zones=c.zones, fill=c.fill, gone=c.gone)
            yield Case(case.name, cluster, case.fail, case.at_once)


def shared(case: Case, jobs: int, rounds: int, seconds: float) -> Iterator[tuple[str, ...]]:
    """Yield rows of one process and of several, in turn; the best of the rounds counts for each."""
    snapshot = from_objects(list(worn(case.cluster).objects()))
    request, options = SurviveOptions(case.fail, case.at_once), Options(time_limit=seconds, causes=False, deterministic=True, workers=1)
    best: dict[int, tuple[float, float, float]] = {}
    documents, result = set[bytes](), None
    for number in [1, jobs] * rounds:
        wall, here, there = time.monotonic(), time.process_time(), _children()
        with pool_of(number) or nullcontext() as pool:
            result = survive(snapshot, request, options, pool=pool)
        took = time.monotonic() - wall, time.process_time() - here, _children() - there
        best[number] = min(best.get(number, took), took)
        documents.add(msgspec.json.encode(result))
    if len(documents) != 1 or result is None:
        raise SystemExit("the documents differ")
    where = f"{case.cluster.nodes:,} nodes, {case.cluster.pods:,} pods, {case.cluster.fill} % of CPU"
    for number, (wall, here, there) in best.items():
        amounts = (f"{amount:.1f} s" for amount in (wall, here, there))
        yield where, f"{result.scenarios.distinct:,}", f"{number}", *amounts, f"{best[1][0] / wall:.2f}"


def _children() -> float:
    """Return the CPU seconds of processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Print the table, a row as soon as it is measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="nodes, zones, pairs; with --jobs loose, tight; comma-separated")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sample", type=int, default=20)
    parser.add_argument("--time-limit", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scale", type=int, default=100)
    options = parser.parse_args()
    only = [name for name in options.only.split(",") if name]
    if options.jobs > 1:
        print(f"| {' | '.join(SHARED_HEADER)} |\n|{'---|' * len(SHARED_HEADER)}", flush=True)
        for case in SHARED:
            for row in shared(case, options.jobs, options.rounds, 10_000.0) if not only or case.name in only else ():
                print(f"| {' | '.join(row)} |", flush=True)
        return
    print(f"| {' | '.join(HEADER)} |\n|{'---|' * len(HEADER)}", flush=True)
    for case in cases(only, options.seed, options.scale):
        print(f"| {' | '.join(measure(case, options.time_limit, options.sample).cells())} |", flush=True)


if __name__ == "__main__":
    main()
