"""Pods with device requests on clusters whose devices are all used in the end, compared with a pod-by-pod scheduler.

    python tests/benchmarks/bench_devices.py [--nodes 64] [--seeds 0,1,2] [--time-limit 30] [--workers 2] [FAMILY…]
    python tests/benchmarks/bench_devices.py fleet [--nodes 1000] [--pods 5000] [--seeds 0] [SOLVE OPTION…]

Planted instances (tests/instances/planted/planted_devices.py): claims cut from nodes of 8 GPUs, with constraints, partitions and shares, so
that everything fits and nothing is left over; goal: all placed and proved in 30 s on 64 nodes. Pod by pod (tests/gangs/pod_by_pod.py): the
same filters and the scheduler's first-fit choice of devices in the order of arrival, on the first node that takes a pod, and on the one
that is least allocated. ``fleet``: pods of 1 to 8 GPUs, drawn and not cut, compared with their requests. Only the placed tiers are
asked for. Seconds are those of the whole process.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from kubestow.models.snapshot.snapshot import from_objects
from tests.benchmarks.bench_planted import PLACED_ONLY
from tests.benchmarks.bench_scale import Run, run
from tests.gangs import pod_by_pod
from tests.instances.planted.planted_devices import FAMILIES, drawn_devices, planted_devices

FLEET = "fleet"


def solve(objects: Sequence[dict[str, Any]], options: Sequence[str]) -> Run:
    """One process of kubestow on these objects."""
    with tempfile.TemporaryDirectory() as folder:
        policy, snapshot = Path(folder) / "policy.yaml", Path(folder) / "devices.json"
        policy.write_text(PLACED_ONLY)
        snapshot.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))
        return run(snapshot, ("--policy", str(policy), *options))


def row(name: str, objects: Sequence[dict[str, Any]], options: Sequence[str]) -> str:
    """A line of the table."""
    one = solve(objects, options)
    pods, placed = one.result.snapshot.pending, one.result.placed
    bound = sum(tier.bound for tier in one.result.objective if tier.tier == "placed")
    theirs = [len(pod_by_pod.schedule(from_objects(list(objects)), first=first).pods) for first in (True, False)]
    others = " | ".join(f"{k} ({k / pods:.1%})" for k in theirs)
    proved = "yes" if placed == bound else f"no, at most {bound}"
    return f"| {name} | {pods} | {placed} ({placed / pods:.1%}) | {proved} | {one.seconds:.1f} | {others} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("families", nargs="*", choices=[*FAMILIES, FLEET], default=list(FAMILIES), metavar="FAMILY")
    parser.add_argument("--nodes", type=int)
    parser.add_argument("--pods", type=int, default=5_000, help="of fleets")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--time-limit", default="30")
    parser.add_argument("--workers", default="2")
    arguments, solver_options = parser.parse_known_args()
    options = ("--time-limit", arguments.time_limit, "--workers", arguments.workers, *solver_options)
    print("| instance | pods | placed | proved | seconds | pod by pod, first node | least allocated |")
    print("|---|--:|--:|---|--:|--:|--:|")
    for family in arguments.families:
        nodes = arguments.nodes or (1_000 if family == FLEET else 64)
        for seed in map(int, arguments.seeds.split(",")):
            fleet = family == FLEET
            objects = drawn_devices(nodes, arguments.pods, seed) if fleet else planted_devices(family, seed, nodes=nodes).objects
            print(row(f"devices-{nodes}x8-{family}-s{seed}", objects, options), flush=True)


if __name__ == "__main__":
    main()
