"""Time of the whole command next to another commit, side by side: the cost of a change that should cost nothing.

    python tests/benchmarks/bench_overhead.py COMMIT [--runs 7] [--options "--strategy none"] [--both] [--most 1.02] SNAPSHOT…

The other commit is checked out into a temporary folder and run by the same interpreter, run by run in turn; the table has medians, and the
geometric mean of the ratios. With ``--most`` it ends with exit code 1 where that is larger. ``--engine greedy`` among the options makes the
time that of the work, not that of the time limit.
"""

from __future__ import annotations

import argparse
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[2]


def run(root: Path, snapshot: str, options: list[str]) -> float:
    """Seconds of one `kubestow solve` from the sources in a folder."""
    command = [sys.executable, str(root / "cli.py"), "solve", snapshot, "-q", "-f", "json", "-o", str(root / "out.json"), *options]
    started = time.monotonic()
    subprocess.run(command, cwd=root, check=False, stdout=subprocess.DEVNULL)
    return time.monotonic() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit")
    parser.add_argument("snapshots", nargs="+", metavar="SNAPSHOT")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--options", default="", help="options of the newer command")
    parser.add_argument("--both", action="store_true", help="the older command has them, too")
    parser.add_argument("--most", type=float, help="the largest geometric mean of the ratios that is fine")
    arguments = parser.parse_args()
    options = shlex.split(arguments.options)
    ratios = []
    table = Table("snapshot", arguments.commit[:10], "here", "ratio", title="seconds of kubestow solve, medians")
    with tempfile.TemporaryDirectory() as folder:
        before, now = Path(folder) / "before", Path(folder) / "now"
        for target, commit in ((before, arguments.commit), (now, "HEAD")):
            subprocess.run(["git", "clone", "-q", str(ROOT), str(target)], check=True)
            subprocess.run(["git", "-C", str(target), "checkout", "-q", commit], check=True)
        for snapshot in arguments.snapshots:
            path = str(Path(snapshot).resolve())
            times: tuple[list[float], list[float]] = ([], [])
            for _ in range(arguments.runs + 1):  # the first one warms up
                times[0].append(run(before, path, options if arguments.both else []))
                times[1].append(run(now, path, options))
            old, new = (statistics.median(runs_seconds[1:]) for runs_seconds in times)
            ratios.append(new / old)
            table.add_row(Path(snapshot).name, f"{old:.2f}", f"{new:.2f}", f"{new / old:.3f}")
    mean = statistics.geometric_mean(ratios)
    table.add_row("geometric mean", "", "", f"{mean:.3f}")
    Console(width=100).print(table)
    if arguments.most is not None and mean > arguments.most:
        sys.exit(1)


if __name__ == "__main__":
    main()
