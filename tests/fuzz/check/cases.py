"""Cases of ``check``: manifests and a cluster of which something is spoiled, judged by the forms of findings, and by their places.

``python -m tests.fuzz.check.cases --first 0 --count 1000``; a case is repeated by its number.
"""

from __future__ import annotations

import argparse
import copy
import json
import random
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import yaml

from kubestow.models.documents.findings.check import Check
from kubestow.models.documents.placement import from_builtins
from tests.fuzz import mutate, run, seeds
from tests.fuzz.cases import Case, is_manifests, is_snapshot
from tests.fuzz.meaning import meaning

_FORMS: Final = ("json",) * 4 + ("table", "wide", "csv", "yaml", "junit", "sarif", "github", "gitlab", "openmetrics")


class _Maker:
    def __init__(self, seed: int, folder: Path) -> None:
        self.rng, self.folder = random.Random(f"check-{seed}"), folder
        self.case = Case("check", form="json")

    def make(self) -> Case:
        rng, case = self.rng, self.case
        objects = seeds.snapshot(rng)
        added = seeds.manifests(rng, objects)
        for each in added:
            if each.get("kind") == "DaemonSet":
                each["spec"].pop("replicas", None)
        before = copy.deepcopy(added) if rng.random() < 0.35 else None
        if rng.random() < 0.7:
            added = self.spoiled(added, is_manifests)
        if rng.random() < 0.3:
            objects = self.spoiled(objects, is_snapshot)
        for i, part in enumerate([added[:1], added[1:]] if rng.random() < 0.3 and len(added) > 1 else [added]):
            case.inputs += self.manifests(f"manifests {i}", part)
        if before is not None:
            case.inputs += ["--base", self.put("base", before)]
        if rng.random() < 0.85:
            case.inputs += ["--cluster", self.put("cluster", objects)]
        case.form = rng.choice(_FORMS)
        case.arguments += ["-f", case.form, "--time-limit", rng.choice(("0.3", "1")), "--workers", "1", "--engine", "greedy"]
        case.arguments += rng.choice(([], [], ["-q"], ["--show-known"], ["-n", "other"], ["--select", "KS2"], ["--ignore", "KS2"]))
        case.arguments += rng.choice(([], ["--fail-on", rng.choice(("error", "warning", "info", "never"))]))
        return case

    def spoiled(self, content: list[Any], good: Callable[[Any], bool]) -> list[Any]:
        """``content`` with some changes; mostly such as leave it ``good``, or nothing would ever be placed."""
        rng = self.rng
        mild = rng.random() < 0.85
        for _ in range(rng.choice((1, 1, 2, 3))):
            for _ in range(6):
                found = copy.deepcopy(content)
                if rng.random() < 0.7:
                    meaning(rng, found)
                else:
                    found = mutate.structure(rng, found)
                if isinstance(found, list) and (not mild or good(found)):
                    content = found
                    break
        return content

    def manifests(self, name: str, content: list[Any]) -> list[str]:
        """As a file, or, once, on standard input, with or without Helm's comments."""
        if self.case.given is not None or self.rng.random() < 0.8:
            return ["-w", self.put(name, content)]
        parts = yaml.dump_all(content, Dumper=yaml.SafeDumper, explicit_start=True).split("---\n")
        source = "# Source: web/charts/db/templates/set.yaml\n" if self.rng.random() < 0.6 else ""
        self.case.given = "".join(f"---\n{source}{part}" for part in parts if part).encode("utf-8", "surrogatepass")
        return ["-"]

    def put(self, name: str, content: list[Any]) -> str:
        """Write YAML or JSON, with line ends, marks and bytes that are odd now and then."""
        rng = self.rng
        if rng.random() < 0.4:
            data = json.dumps({"apiVersion": "v1", "kind": "List", "items": content}, indent=rng.choice((None, 2))).encode()
        else:
            text = yaml.dump_all(content, Dumper=yaml.SafeDumper, default_flow_style=rng.choice((None, False)))
            data = rng.choice(("{}", "{}", "\ufeff{}", "# a\n---\n---\n{}")).replace("{}", text).encode("utf-8", "surrogatepass")
        data = data.replace(b"\n", b"\r\n") if rng.random() < 0.1 else data
        data = mutate.text(rng, data) if rng.random() < 0.08 else data
        path = self.folder / f"{name}.yaml"
        path.write_bytes(data)
        return str(path)


def _document(case: Case, data: bytes, code: int) -> list[str]:
    """Return the contradictions within a Check, and between it and the files."""
    found = from_builtins(json.loads(data), Check)
    wrong = [f"{fit.workload}: {fit.placed} of {fit.replicas} placed" for fit in found.workloads if not 0 <= fit.placed <= fit.replicas]
    unfit = any(fit.fit != "fits" and not fit.known for fit in found.workloads)
    if code == 0 and unfit:
        wrong.append("exit code 0, and something does not fit")
    if code == 3 and not unfit:
        wrong.append("exit code 3, and all fits")
    return wrong + _places(case, found)


def _places(case: Case, found: Check) -> list[str]:
    """Positions that are in none of the files."""
    wrong = []
    lines: dict[str, list[str]] = {}
    for place in [*(fault.position for fault in found.faults), *(fit.position for fit in found.workloads)]:
        if place is None or place.line is None:
            continue
        if place.file not in lines:
            data = (case.given or b"") if place.file == "-" else Path(place.file).read_bytes()
            text = data.decode("utf-8-sig", "replace").replace("\r\n", "\n")
            lines[place.file] = text.split("\n")
        here = lines[place.file]
        if not 1 <= place.line <= len(here) or not 1 <= (place.column or 1) <= len(here[place.line - 1]):
            wrong.append(f"{place.file}:{place.line}:{place.column} is not in the file")
    return wrong


def judge(case: Case, *, process: bool = False) -> list[str]:
    """Run a case, and return its forbidden effects."""
    done = (run.apart if process else run.here)(case.words(), case.given)
    found = run.faults(case, done)
    if found or done.code not in (0, 3, 4):
        return found
    found = run.shown(case, done.out)
    return found or (_document(case, done.out, done.code) if case.form == "json" else [])


def make(seed: int, folder: Path) -> Case:
    """The case of a number; its files go into an empty ``folder``."""
    return _Maker(seed, folder).make()


def several(first: int, count: int) -> dict[int, list[str]]:
    """Run cases, and return the faults by number."""
    wrong: dict[int, list[str]] = {}
    for seed in range(first, first + count):
        with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
            case = make(seed, Path(folder))
            found = judge(case)
            if found:
                wrong[seed] = [" ".join(case.words()), *found]
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    asked = parser.parse_args()
    wrong = several(asked.first, asked.count)
    for seed, lines in wrong.items():
        print(f"case {seed}: ", *lines, sep="\n  ", flush=True)
    print(f"{asked.count} cases from {asked.first}: {len(wrong)} failed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
