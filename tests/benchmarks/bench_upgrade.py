"""How long upgrades of whole pools take, whether planted blockers are named, and whether brute force agrees on tiny pools.

    python tests/benchmarks/bench_upgrade.py [scale|planted|brute …] [--scale PERCENT] [--count 100]

``scale``: worn clusters (`kubestow generate --worn`, without bare pods) of which all nodes are the pool. ``planted``: random pools with
blockers of nine kinds, and the same without (tests/solver/capacity/upgrade/planted.py). ``brute``: tiny random pools and every order of
nodes and every destination (tests/solver/capacity/upgrade/brute.py). All tables are Markdown.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Final

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from kubestow.checker.capacity.upgrade import check_upgrade
from kubestow.instances.generate.worn import Worn, worn
from kubestow.models.documents.upgrade import Upgrade
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from kubestow.solver.capacity.upgrade.pool import UpgradeOptions
from kubestow.solver.capacity.upgrade.upgrade import upgrade
from kubestow.solver.runtime.options import Options
from tests.solver.capacity.upgrade.planted import KINDS, TO, Planted
from tests.solver.capacity.upgrade.test_brute_force import compare

#: Nodes, pods, use of CPU, surge, nodes that may be missing.
CASES: Final = (
    (100, 1_500, 60, "1", "0"),
    (100, 1_500, 60, "10%", "0"),
    (100, 1_500, 90, "0", "1"),
    (1_000, 15_000, 60, "10%", "0"),
    (1_000, 15_000, 60, "0", "5%"),
    (1_000, 15_000, 60, "1", "0"),
)
PLANTED: Final = 50
HEADER: Final = ("nodes", "pods", "CPU used", "surge", "missing", "answer", "waves", "moves", "search", "check", "waves replayed")


def measure(nodes: int, pods: int, fill: int, surge: str, missing: str) -> tuple[str, ...]:
    """Return a row of the table."""
    cluster = Worn(nodes, pods, seed=1, fill=fill, gone=20 if fill <= 75 else 5, bare=0)
    snapshot = from_objects(list(worn(cluster).objects()))
    result = upgrade(snapshot, UpgradeOptions("!node-role.kubernetes.io/control-plane", missing, surge, options=Options()))
    seconds = result.seconds
    assert seconds is not None
    moves = sum(len(wave.moves) for wave in result.waves)
    numbers = f"{len(result.waves):,}", f"{moves:,}", f"{seconds.compile + seconds.solve:.1f} s", f"{seconds.verify:.1f} s"
    return f"{nodes:,}", f"{pods:,}", f"{fill} %", surge, missing, answer(result), *numbers, replayed(snapshot, result)


def answer(result: Upgrade) -> str:
    """The result, in short."""
    if result.complete:
        return "gets through"
    sure = "proved" if result.proved else "not proved"
    kinds = ", ".join(sorted({blocker.kind for blocker in result.blocked}))
    return f"{len({blocker.node for blocker in result.blocked})} nodes blocked ({kinds}; {sure})"


def replayed(snapshot: Snapshot, result: Upgrade) -> str:
    """Return the number of waves that the checker replays, of a document's waves."""
    open_claims = (
        [text for text in check_upgrade(snapshot, result).open if "rules and budgets in" in text] if len(result.waves) > 100 else []
    )
    return f"{len(result.waves) - int(open_claims[0].split()[4])}" if open_claims else "all"


def planted() -> tuple[int, int, int]:
    """Return the pools whose planted blockers are named exactly, the number of blockers, and the pools that get through without."""
    named = blockers = through = 0
    for seed in range(PLANTED):
        made = Planted(seed, tuple(KINDS[(seed + i) % len(KINDS)] for i in range(1 + seed % 4)))
        result = upgrade(from_objects(made.objects), UpgradeOptions("pool=p", to=TO))
        named += {(each.node, each.kind, each.object) for each in result.blocked} == made.held
        blockers += len(made.held)
        through += upgrade(from_objects(Planted(seed).objects), UpgradeOptions("pool=p")).complete
    return named, blockers, through


def brute(count: int) -> str:
    """Compare brute force and the search on tiny pools, in a sentence."""
    comparisons = [compare(seed, kind) for kind in ("drain", "tight", "repair") for seed in range(count)]
    known = [(bool(truth), complete, proved) for truth, complete, proved in comparisons if truth is not None]
    through, blocked = sum(truth for truth, _, _ in known), sum(not truth for truth, _, _ in known)
    same = sum(truth == complete for truth, complete, _ in known)
    proofs = sum(proved for truth, _, proved in known if not truth)
    return f"{same} of {len(known)} alike ({through} get through, {blocked} do not); {proofs} of the {blocked} proved"


def main() -> None:
    """Print the requested rows, each as soon as it is measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", default=["scale", "planted", "brute"], choices=["scale", "planted", "brute"])
    parser.add_argument("--scale", type=int, default=100, help="per cent of the size")
    parser.add_argument("--count", type=int, default=100, help="tiny pools of each kind")
    options = parser.parse_args()
    started = time.monotonic()
    if "scale" in options.what:
        print(f"| {' | '.join(HEADER)} |\n|{'---|' * len(HEADER)}", flush=True)
        for nodes, pods, fill, surge, missing in CASES:
            row = measure(nodes * options.scale // 100, pods * options.scale // 100, fill, surge, missing)
            print(f"| {' | '.join(row)} |", flush=True)
    if "planted" in options.what:
        named, blockers, through = planted()
        print(f"\nplanted: {named} of {PLANTED} pools with all of their blockers named and no other ({blockers}); "
              f"{through} of {PLANTED} get through without", flush=True)  # fmt: skip
    if "brute" in options.what:
        print(f"\nbrute force: {brute(options.count)}", flush=True)
    print(f"\n{time.monotonic() - started:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
