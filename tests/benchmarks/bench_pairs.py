"""Every pair of nodes of a large cluster: how many failures are left after symmetry and bounds, and what deciding them all would take.

    python tests/benchmarks/bench_pairs.py [--nodes 5000] [--pods 75000] [--only worn,tight,…] [--sample 400] [--seed 1]

Nothing is decided but single failures and a sample. Symmetry is counted by classes of nodes, and pairs whose certificates hold together as
they are, for all pairs at once; the millions of pairs are never listed. Of the rest a sample, uniform over distinct pairs, says which share
is decided by certificates put to the test of rules, by bounds, by construction, or is left to a search, and what one of each takes: in CPU
seconds, with the checker's replay. The projection is distinct pairs of each kind times their mean seconds; a search that a sample has none
of is said to be rarer than three in as many as there are in the sample (the rule of three, 95 %). The table is Markdown.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np

from kubestow.checker.capacity.survival import FailureJudge
from kubestow.instances.generate.generator import Parameters, generate
from kubestow.instances.generate.worn import Worn, worn
from kubestow.models.documents import survival as docs
from kubestow.models.documents.placement import SnapshotRef
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from kubestow.solver.capacity.survive.composition import Composition
from kubestow.solver.capacity.survive.decide import ScenarioVerdict
from kubestow.solver.capacity.survive.equal_failures import kinds
from kubestow.solver.capacity.survive.failures import domains
from kubestow.solver.capacity.survive.options import SurviveOptions
from kubestow.solver.capacity.survive.search import Failed, FailureSearch, Part
from kubestow.solver.runtime.options import Options
from kubestow.solver.runtime.run_context import RunContext

#: Seconds that a search may take for a pair of the sample.
SEARCH: Final = 60.0
PAIRS: Final = SurviveOptions(at_once=2)
#: How a pair of the sample was decided.
HOW: Final = ("tested", "bounded", "built", "searched", "open")
HEADER: Final = (
    "cluster", "pairs", "distinct", "nothing runs there", "certificates hold together as they are", "rest", "of the rest: tested",
    "by bounds", "built", "searched", "open", "CPU to count", "memory", "CPU a pair that holds; of the rest; its check", "all, on one core",
)  # fmt: skip


def clusters(nodes: int, pods: int, seed: int) -> dict[str, Iterator[dict[str, object]]]:
    """Return the objects of each cluster, in which everything runs: as `generate` makes them, worn, and with little room."""
    return {
        "bound": generate(Parameters(nodes=nodes, pods=pods, seed=seed, bound=100)).objects(),
        "worn": worn(Worn(nodes, pods, seed=seed, fill=45)).objects(),
        "tight": worn(Worn(nodes, pods, seed=seed, fill=85, gone=10)).objects(),
        "hetero": worn(Worn(nodes, pods, seed=seed, zones=20, rules=80, tainted=25, priorities=8, fill=60, gone=25)).objects(),
    }


@dataclass
class Counted:
    """Pairs by how they are decided, and CPU seconds. ``sample``: of the rest, how many of it are decided how; ``spent``: on these;
    ``holding``, ``checking``: on a pair whose certificates hold together, and for the check of any."""

    pairs: int
    distinct: int
    nothing: int
    free: int
    counting: float
    sample: Counter[str] = field(default_factory=Counter)
    spent: float = 0.0
    checking: float = 0.0
    holding: float = 0.0

    @property
    def rest(self) -> int:
        """Return the distinct pairs about which nothing is known without looking at them."""
        return self.distinct - self.nothing - self.free

    @property
    def each(self) -> float:
        """Return the seconds that one pair of the rest takes."""
        return self.spent / max(1, self.sample.total())

    @property
    def hours(self) -> float:
        """Return the hours of one core that all take, with their checks."""
        return (self.free * (self.holding + self.checking) + self.rest * (self.each + self.checking)) / 3600


class Pairs:
    """A cluster of which any two nodes fail."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.nodes = domains(snapshot, SurviveOptions())
        self.search = FailureSearch(snapshot, PAIRS, self.nodes, RunContext.start(Options(time_limit=None, workers=1, causes=False)))
        self.kind = kinds(self.search.instance, self.nodes)
        self.members: dict[int, list[str]] = {}
        for name, number in self.kind.items():
            self.members.setdefault(number, []).append(name)
        first = [name for listed in self.members.values() for name in listed[:2]]  # a pair of equal nodes takes two
        keys = self.search._keys
        verdicts = {name: [self.search.decided(Part((name,), how, None)) for how in ("even", "quick")] for name in first}
        self.composition = Composition(self.search.instance, self.nodes, verdicts, keys)
        self.place = {name: i for i, name in enumerate(self.composition.names)}

    def count(self, began: float) -> Counted:
        """Count all pairs, by classes."""
        number, classes = len(self.nodes), len(self.members)
        twice = [listed for listed in self.members.values() if len(listed) > 1]
        empty = [
            listed for listed in self.members.values() if not self.search.instance.returning[self.search.instance.nodes(listed[:1])[0]]
        ]
        nothing = len(empty) * (len(empty) - 1) // 2 + sum(len(listed) > 1 for listed in empty)
        composition, place = self.composition, self.place
        one = [place[listed[0]] for listed in self.members.values() if listed[0] in place]
        free = int(np.count_nonzero(composition.free[np.ix_(one, one)])) // 2
        free += sum(bool(composition.free[place[a], place[b]]) for a, b in (x[:2] for x in twice) if a in place and b in place)
        distinct = classes * (classes - 1) // 2 + len(twice)
        return Counted(number * (number - 1) // 2, distinct, nothing, free - nothing, time.process_time() - began)

    def drawn(self, random: Random) -> Iterator[Failed]:
        """Yield distinct pairs, each as likely, without end."""
        classes = list(self.members.values())
        twice = [listed for listed in classes if len(listed) > 1]
        different = len(classes) * (len(classes) - 1) // 2
        while True:
            if random.randrange(different + len(twice)) < different:
                a, b = random.sample(range(len(classes)), 2)
                yield classes[min(a, b)][0], classes[max(a, b)][0]
            else:
                yield tuple(random.choice(twice)[:2])

    def is_free(self, failed: Failed) -> bool:
        """Return whether the certificates of a pair hold together as they are."""
        place = self.place
        return all(name in place for name in failed) and bool(self.composition.free[place[failed[0]], place[failed[1]]])

    def decide(self, failed: Failed) -> tuple[str, ScenarioVerdict]:
        """Decide one remaining pair, and return the method."""
        verdict = self.composition.certificate(failed)
        if verdict is not None:
            return "tested", verdict
        verdict = self.search.decided(Part(failed, "quick", None))
        if verdict.by is not None:
            return "built" if verdict.by == "search" else "bounded", verdict
        verdict = self.search.decided(Part(failed, "whole", SEARCH))
        return "searched" if verdict.by is not None else "open", verdict


def measure(snapshot: Snapshot, sample: int, seed: int) -> Counted:
    """Count the pairs of a cluster, and decide a sample of those that are left."""
    began = time.process_time()
    pairs = Pairs(snapshot)
    counted = pairs.count(began)
    drawn = pairs.drawn(Random(seed))
    ref = SnapshotRef(snapshot.sha256, len(snapshot.nodes), len(snapshot.pods), 0)
    said = docs.Survival(ref, "node", False, docs.Scenarios(0, 0, 0, 0, 0, 0), [], [], atOnce=2)
    judge = FailureJudge(snapshot, said)
    measured = checked = 0
    for failed in drawn:
        if counted.sample.total() >= sample or (not counted.rest and measured >= sample):
            break
        free = pairs.is_free(failed)
        if free and measured >= sample:
            continue
        began = time.process_time()
        if free:
            verdict = pairs.composition.certificate(failed)
            assert verdict is not None
            counted.holding += time.process_time() - began
            measured += 1
        else:
            how, verdict = pairs.decide(failed)
            counted.sample[how] += 1
            counted.spent += time.process_time() - began
        scenario = _scenario(failed, verdict)
        if faults := list(judge.scenario(scenario)):
            raise SystemExit(f"the checker refuses {failed}: {faults[0]}")
        began = time.process_time()
        list(judge.scenario(scenario))  # cached by now, as in a run over all pairs
        counted.checking += time.process_time() - began
        checked += 1
    counted.holding /= max(1, measured)
    counted.checking /= max(1, checked)
    return counted


def _scenario(failed: Failed, verdict: ScenarioVerdict) -> docs.Scenario:
    outcome: docs.Outcome = "unknown" if verdict.by is None else "survives" if verdict.survives else "pending"
    pending = verdict.least if outcome == "pending" else 0
    assignments = verdict.assignments if outcome == "survives" else []
    return docs.Scenario(list(failed), outcome, verdict.by or "nothing", verdict.displaced, pending, [], assignments=assignments)


def cells(name: str, counted: Counted) -> Sequence[str]:
    """Return the row of a cluster as texts."""
    number = counted.sample.total()
    shares = [f"{100 * counted.sample[how] / max(1, number):.1f} %" if counted.sample[how] else f"0 of {number}" for how in HOW]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    each = f"{1000 * counted.holding:.2f} ms; {1000 * counted.each:.1f} ms; {1000 * counted.checking:.1f} ms"
    counts = [f"{n:,}" for n in (counted.pairs, counted.distinct, counted.nothing, counted.free, counted.rest)]
    return (name, *counts, *shares, f"{counted.counting:.0f} s", f"{memory:.1f} GB", each, f"{counted.hours:.1f} h")


def main() -> None:
    """Print the table, a row as soon as it is measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=75_000)
    parser.add_argument("--only", default="", help="bound, worn, tight, hetero; comma-separated")
    parser.add_argument("--sample", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    print(f"| {' | '.join(HEADER)} |\n|{'---|' * len(HEADER)}", flush=True)
    for name, objects in clusters(arguments.nodes, arguments.pods, arguments.seed).items():
        if not arguments.only or name in arguments.only.split(","):
            print(f"| {' | '.join(cells(name, measure(from_objects(list(objects)), arguments.sample, arguments.seed)))} |", flush=True)


if __name__ == "__main__":
    main()
