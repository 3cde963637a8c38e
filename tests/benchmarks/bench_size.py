"""Prices of ``kubestow size``, compared with two heuristics and the planted purchase, and on one's own clusters and manifests.

    python tests/benchmarks/bench_size.py [--clusters 30] [--nodes 60] [--pods 900] [--time-limit 60]
    python tests/benchmarks/bench_size.py --planted [--nodes 100] [--pods 1000] [--clusters 3] [--time-limit 60]
    python tests/benchmarks/bench_size.py DIRECTORY

Generated clusters are bought from scratch with the catalogue of their kinds of nodes (size_instances.py); ``saved`` is of what the cheaper
heuristic (size_heuristics.py) pays. Of a directory every snapshot with nodes is bought from scratch, and every manifest on an empty
cluster, with ``instances/catalogue.yaml``. Seconds are of the whole process.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from rich.console import Console
from rich.table import Table

from kubestow.models.catalogue import catalogue as catalogues
from kubestow.models.catalogue import money
from kubestow.models.snapshot import yaml_reader
from kubestow.models.snapshot.snapshot import from_objects
from tests.benchmarks import size_instances
from tests.benchmarks.size_heuristics import Bought, by_price, provisioned
from tests.instances.planted.planted_sizing import planted_sizing

ROOT = Path(__file__).resolve().parents[2]
#: Maximum number of nodes for which a heuristic that knows every possible node is run for comparison.
_COMPARED = 200
EMPTY = {"apiVersion": "v1", "kind": "List", "items": []}


@dataclass(frozen=True)
class Run:
    """A process of kubestow: exit code, output and duration. Money in millionths."""

    code: int
    sizing: dict[str, Any]
    seconds: float
    said: str

    @property
    def cost(self) -> int:
        return money.parse(self.sizing["cost"]["value"])

    @property
    def bound(self) -> int:
        return money.parse(self.sizing["cost"]["bound"])

    @property
    def answered(self) -> bool:
        """Return whether there is a purchase."""
        return bool(self.sizing) and self.sizing["status"] in ("optimal", "feasible")

    @property
    def gap(self) -> float:
        return (self.cost - self.bound) / max(1, self.cost)


def run(snapshot: Path, catalogue: Path, time_limit: float, *options: str) -> Run:
    """Run ``kubestow size``."""
    command = [
        sys.executable,
        str(ROOT / "cli.py"),
        "size",
        str(snapshot),
        "--catalogue",
        str(catalogue),
        "--time-limit",
        f"{time_limit:g}",
    ]
    started = time.monotonic()
    done = subprocess.run([*command, "-q", "-f", "json", *options], capture_output=True, text=True, check=False)
    return Run(done.returncode, json.loads(done.stdout) if done.stdout else {}, time.monotonic() - started, done.stderr.strip())


def written(folder: str, name: str, document: object) -> Path:
    path = Path(folder) / name
    path.write_text(json.dumps(document))
    return path


def listed(objects: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return EMPTY | {"items": list(objects)}


def say(*cells: object) -> None:
    print(*cells, file=sys.stderr, flush=True)


# --- generated clusters -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Compared:
    """One cluster bought in three ways."""

    seed: int
    pods: int
    karpenter: Bought
    price: Bought
    kubestow: Run

    @property
    def saved(self) -> float:
        """The share of what the cheaper heuristic that places everything pays."""
        theirs = [bought.cost for bought in (self.karpenter, self.price) if not bought.unplaced]
        return 1 - self.kubestow.cost / min(theirs) if theirs else 0.0

    def saved_of(self, bought: Bought) -> float:
        return 1 - self.kubestow.cost / bought.cost


def compare(seed: int, nodes: int, pods: int, time_limit: float) -> Compared:
    """Buy a generated cluster."""
    objects, catalogue = size_instances.cluster(seed, nodes, pods)
    with tempfile.TemporaryDirectory() as folder:
        there = written(folder, "catalogue.json", catalogue)
        snapshot, offered = from_objects(objects), catalogues.read(str(there))
        theirs = provisioned(snapshot, offered), by_price(snapshot, offered)
        ours = run(written(folder, "cluster.json", listed(objects)), there, time_limit)
    return Compared(seed, len(snapshot.pods), *theirs, ours)


def generated(count: int, nodes: int, pods: int, time_limit: float) -> Table:
    table = _table("seed", "pods", "Karpenter's way", "best price", "kubestow", "nodes", "bound", "gap", "saved", "seconds")
    comparisons = []
    for seed in range(count):
        one = compare(seed, nodes, pods, time_limit)
        cells = [str(seed), f"{one.pods:,}", *(_paid(b) for b in (one.karpenter, one.price))]
        if not one.kubestow.answered:
            cells += [*_none(one.kubestow), "", f"{one.kubestow.seconds:.0f}"]
        else:
            comparisons.append(one)
            cells += [*_result(one.kubestow), f"{one.saved:.2%}", f"{one.kubestow.seconds:.0f}"]
        table.add_row(*cells)
        say(*cells)
    if comparisons:
        for name, shares in (
            ("saved of the cheaper heuristic", [one.saved for one in comparisons]),
            ("saved of Karpenter's way", [one.saved_of(one.karpenter) for one in comparisons if not one.karpenter.unplaced]),
            ("saved of best price", [one.saved_of(one.price) for one in comparisons if not one.price.unplaced]),
        ):
            say(f"{name}: median {statistics.median(shares):.2%}, least {min(shares):.2%}, most {max(shares):.2%} ({len(shares)} clusters)")
        gaps = [one.kubestow.gap for one in comparisons]
        say(f"gap: median {statistics.median(gaps):.2%}, worst {max(gaps):.2%}; proved {sum(not gap for gap in gaps)} of {len(gaps)}")
    return table


def _paid(bought: Bought) -> str:
    return money.text(bought.cost) + (f" ({bought.unplaced} left)" if bought.unplaced else "")


def _result(one: Run) -> list[str]:
    """Cost, nodes, bound and gap."""
    return [money.text(one.cost), f"{one.sizing['nodes']['value']:,}", money.text(one.bound), f"{one.gap:.2%}"]


def _none(one: Run) -> list[str]:
    """Cells of a run without a purchase."""
    return [one.said or one.sizing["status"], "", "", ""]


# --- planted ----------------------------------------------------------------------------------------------------------------


def planted(count: int, nodes: int, pods: int, time_limit: float) -> Table:
    table = _table("seed", "pods", "planted", "Karpenter's way", "kubestow", "nodes", "bound", "gap", "above planted", "seconds")
    for seed in range(count):
        instance = planted_sizing(seed, nodes, pods)
        with tempfile.TemporaryDirectory() as folder:
            there = written(folder, "catalogue.json", instance.catalogue)
            few = nodes <= _COMPARED
            theirs = _paid(provisioned(from_objects(instance.objects), catalogues.read(str(there)), nodes)) if few else ""
            one = run(written(folder, "cluster.json", listed(instance.objects)), there, time_limit)
        cells = [str(seed), f"{pods:,}", money.text(instance.cost), theirs]
        above = f"{one.cost / instance.cost - 1:.2%}" if one.answered else ""
        cells += [*(_result(one) if one.answered else _none(one)), above, f"{one.seconds:.0f}"]
        table.add_row(*cells)
        say(*cells)
    return table


# --- one's own --------------------------------------------------------------------------------------------------------------


def directory(path: Path, time_limit: float) -> Table:
    """Everything below a directory: snapshots from scratch, and manifests on an empty cluster."""
    table = _table("file", "pods", "cost", "nodes", "bound", "gap", "status", "now", "seconds")
    for file in sorted(p for p in path.rglob("*") if p.suffix in (".json", ".yaml", ".yml")):
        documents = [d for d in yaml_reader.documents(file.read_bytes()) if isinstance(d, dict)]
        items = [item for d in documents for item in (d.get("items") or [d]) if isinstance(item, dict)]
        nodes = [item for item in items if item.get("kind") == "Node"]
        if not nodes and not any("spec" in item for item in items):
            continue
        with tempfile.TemporaryDirectory() as folder:
            there = written(folder, "catalogue.json", size_instances.catalogue_for(nodes, ROOT / "instances/catalogue.yaml"))
            if nodes:
                one = run(file, there, time_limit, "--from-scratch")
            else:
                one = run(written(folder, "empty.json", EMPTY), there, time_limit, "-w", str(file), "--allow-unknown-fields")
        cells = [file.name]
        if one.sizing:
            replaced = one.sizing.get("replaced") or {}
            now = f"{replaced['cost']:g} ({replaced['priced']} of {replaced['nodes']} nodes)" if replaced.get("priced") else ""
            amounts = _result(one) if one.answered else ["", "", money.text(one.bound), ""]
            cells += [f"{one.sizing['snapshot']['pending']:,}", *amounts, one.sizing["status"], now]
        else:
            cells += ["", one.said, *[""] * 5]
        cells.append(f"{one.seconds:.1f}")
        table.add_row(*cells)
        say(*cells)
    return table


def _table(*columns: str) -> Table:
    table = Table(*columns)
    for column in table.columns[1:]:
        column.justify = "right"
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", nargs="?", type=Path)
    parser.add_argument("--planted", action="store_true")
    parser.add_argument("--clusters", type=int)
    parser.add_argument("--nodes", type=int)
    parser.add_argument("--pods", type=int)
    parser.add_argument("--time-limit", type=float, default=60.0)
    arguments = parser.parse_args()
    if arguments.directory is not None:
        table = directory(arguments.directory, arguments.time_limit)
    elif arguments.planted:
        table = planted(arguments.clusters or 3, arguments.nodes or 100, arguments.pods or 1000, arguments.time_limit)
    else:
        table = generated(arguments.clusters or 30, arguments.nodes or 60, arguments.pods or 900, arguments.time_limit)
    Console(width=130).print(table)


if __name__ == "__main__":
    main()
