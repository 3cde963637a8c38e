"""Place published applications on a cluster and account for every object: ``python -m tests.applications CLUSTER DIRECTORY…``.

Each directory holds the published manifests of one application, which are not part of this repository. An independent reader counts the
pods of workloads from ``spec.replicas`` and similar fields, and checks every other object by name. Exits with 1 if a pod or an object is
ignored without a note.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml
from click.testing import CliRunner

from kubestow import cli

_SUFFIXES: Final = (".yaml", ".yml", ".json")
#: API groups of Kubernetes itself. Objects of these groups that create no pods need no note.
_OWN: Final = ("", "apps", "batch", "policy", "autoscaling", "extensions")


def objects(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of all files below a folder, Lists unfolded."""
    for path in sorted(folder.rglob("*")):
        if path.suffix not in _SUFFIXES:
            continue
        for document in yaml.load_all(path.read_text(encoding="utf-8"), yaml.BaseLoader):  # reads every scalar as text
            if isinstance(document, dict) and isinstance(document.get("items"), list):
                yield from document["items"]
            elif isinstance(document, dict) and "kind" in document:
                yield document


def pods(each: dict[str, Any]) -> int | None:
    """Return the number of pods that an object creates, or None if it depends on the nodes (DaemonSet)."""
    spec = each.get("spec") or {}
    match each["kind"]:
        case "Deployment" | "StatefulSet" | "ReplicaSet" | "ReplicationController":
            return int(spec.get("replicas", 1))
        case "Job":
            return min(int(spec.get("parallelism", 1)), int(spec.get("completions", spec.get("parallelism", 1))))
        case "Pod":
            return 1
        case "DaemonSet":
            return None
    return 0


def own(each: dict[str, Any]) -> bool:
    """Return True if the kind belongs to an API group of Kubernetes itself."""
    group = each.get("apiVersion", "").rpartition("/")[0]
    return group in _OWN or (group.endswith(".k8s.io") and group not in ("metrics.k8s.io",))


def account(cluster: str, folder: Path, *options: str) -> tuple[str, list[str]]:
    """Place an application, and return a summary line and the list of unaccounted objects."""
    asked = ["solve", cluster, "-w", str(folder), "-f", "json", "--time-limit", "10", *options]
    done = CliRunner().invoke(cli.main, asked)
    if done.exit_code not in (0, 3):
        return f"{folder.name}: exit {done.exit_code}: {done.stderr.strip()[:300]}", [f"exit code {done.exit_code}"]
    result = json.loads(done.stdout)
    named = Counter(each["pod"].partition("/")[2] for each in (*result["assignments"], *result["unplaced"]))
    before = {each.get("metadata", {}).get("name") for each in _items(cluster)}
    found = [name for name in named if name not in before]
    lost: list[str] = []
    expected = 0
    every = list(objects(folder))
    workloads = {each["metadata"]["name"] for each in every if pods(each) != 0}
    for each in every:
        name, count = each.get("metadata", {}).get("name", "?"), pods(each)
        mine = sum(1 for pod in found if _of(pod, name, workloads))
        if count is None:
            expected += mine
            if not mine:
                lost.append(f"DaemonSet {name} has no pod")
        elif count:
            expected += count
            if mine != count:
                lost.append(f"{each['kind']} {name}: {mine} pods of {count}")
        elif not own(each) and not any(each["kind"] in note for note in result["notes"]):
            lost.append(f"{each['apiVersion']} {each['kind']} {name} is not named")
    if expected != len(found):
        lost.append(f"{len(found)} pods, expected {expected}")
    waiting = sum(1 for each in result["unplaced"] if each["pod"].partition("/")[2] in found)
    return f"{folder.name}: {len(found) - waiting} of {len(found)} pods placed, {len(every)} objects; {'; '.join(result['notes'])}", lost


def _of(pod: str, name: str, workloads: set[str]) -> bool:
    """Return True if a pod's name belongs to the workload, and to no workload with a longer name."""
    owners = [each for each in workloads if pod == each or pod.startswith(f"{each}-")]
    return bool(owners) and max(owners, key=len) == name


def _items(cluster: str) -> list[dict[str, Any]]:
    found = json.loads(Path(cluster).read_text(encoding="utf-8"))
    return list(found["items"])


def main() -> int:
    """Print one line for each application, and return 1 if an object is unaccounted for."""
    cluster, *folders = sys.argv[1:]
    failed = 0
    for folder in folders:
        line, lost = account(cluster, Path(folder))
        print(line, flush=True)
        for text in lost:
            print(f"  {text}", flush=True)
        failed += bool(lost)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
