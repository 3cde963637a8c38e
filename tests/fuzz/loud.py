"""Input that a tool might pass over in silence: unknown kinds and fields, duplicate keys, other files, bundles, tables for programs.

Each case knows what must be said, so that nothing can pass in silence: ``python -m tests.fuzz.loud --first 0 --count 1000``. The number of
a case is all that it takes to repeat it.
"""

from __future__ import annotations

import argparse
import copy
import csv
import io
import json
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from tests import tiny
from tests.fuzz import mutate
from tests.fuzz.run import Outcome, here
from tests.fuzz.seeds import Object

_SEARCH: Final = ("--engine", "greedy", "--time-limit", "1", "--workers", "1")
#: Commands that read a snapshot, with their other arguments.
COMMANDS: Final[dict[str, tuple[str, ...]]] = {
    "solve": (*_SEARCH, "-f", "json"),
    "rebalance": ("--goal", "repair", *_SEARCH, "-f", "json"),
    "explain": ("-f", "json", "--time-limit", "1"),
    "audit": ("-f", "json", "--fail-on", "never"),
    "report": ("--time-limit", "1"),
}
#: Of groups that are not Kubernetes' own.
_FOREIGN: Final = (
    ("kafka.strimzi.io/v1beta2", "Kafka"), ("argoproj.io/v1alpha1", "Workflow"), ("monitoring.coreos.com/v1", "Prometheus"),
    ("example.com/v1", "Deployment"), ("x.y.z/v1", "Thing"), ("cert-manager.io/v1", "Certificate"),
)  # fmt: skip
_MISSPELT: Final = (
    ("apps/v1", "Deploymnt"), ("apps/v1", "Statefulset"), ("batch/v1", "Jobs"), ("v1", "Podd"), ("apps/v1", "deployment"), ("v1", "pod"),
    ("batch/v1", "Cronjob"), ("apps/v1", "DaemonSets"),
)  # fmt: skip
#: Letters that a misspelt field gets or loses.
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"

Fault = Iterator[str]


class Ground:
    """The ground of a case: random numbers, an empty folder, a small cluster without mistakes, and a manifest that fits it."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.rng = random.Random(f"loud-{seed}")
        self.folder = folder
        self.objects: list[Object] = tiny.snapshot(self.rng.randrange(10**6), self.rng.choice(tiny.KINDS))
        self.manifest = self.workload()

    def workload(self) -> Object:
        """Return a Deployment of one to three pods that ask for little."""
        labels = {"app": "loud"}
        container = {"name": "c", "resources": {"requests": {"cpu": "1m", "memory": "1Mi"}}, "ports": [{"containerPort": 80}]}
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "other"}}}
        spec = {
            "containers": [container],
            "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoSchedule"}],
            "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
            "topologySpreadConstraints": [
                {
                    "maxSkew": 5,
                    "topologyKey": "kubernetes.io/hostname",
                    "whenUnsatisfiable": "ScheduleAnyway",
                    "labelSelector": {"matchLabels": labels},
                }
            ],
        }
        template = {"metadata": {"labels": labels}, "spec": spec}
        inner = {"replicas": self.rng.randint(1, 3), "selector": {"matchLabels": labels}, "template": template}
        return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "loud"}, "spec": inner}

    def put(self, name: str, content: Any) -> str:
        """Write JSON or YAML, as one document or several."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            path.write_text(content, encoding="utf-8")
        elif name.endswith(".json"):
            wrapped = {"apiVersion": "v1", "kind": "List", "items": content} if isinstance(content, list) else content
            path.write_text(json.dumps(wrapped, indent=self.rng.choice((None, 2))), encoding="utf-8")
        else:
            path.write_text(yaml.safe_dump_all(content if isinstance(content, list) else [content]), encoding="utf-8")
        return str(path)

    def cluster(self) -> str:
        """Write the cluster."""
        return self.put(self.rng.choice(("cluster.json", "cluster.yaml")), self.objects)

    def added(self, content: list[Object]) -> str:
        """Write manifests."""
        return self.put(self.rng.choice(("added.json", "added.yaml")), content)

    def ask(self, command: str, *words: str) -> Outcome:
        """Run a command on what ``words`` name."""
        return here([command, *words, *COMMANDS[command]])


def _refused(done: Outcome, *names: str) -> Fault:
    """Yield the faults of an answer that must be a refusal naming ``names``."""
    if done.trace:
        yield f"traceback: {done.trace}"
    if done.code != 1:
        yield f"exit code {done.code} instead of 1: {done.err[-400:]}"
    if done.out:
        yield "output in spite of bad input"
    yield from (f"does not name {name!r}: {done.err[-400:]}" for name in names if name not in done.err)
    yield from (
        f"not one line of ours: {line!r}" for line in done.err.splitlines() if not line.startswith(("kubestow: ", "warning: ", "note: "))
    )


def _accepted(done: Outcome, *names: str) -> Fault:
    """Yield the faults of an answer that must be a result, with ``names`` on standard error."""
    if done.trace:
        yield f"traceback: {done.trace}"
    if done.code not in (0, 3):
        yield f"exit code {done.code} instead of 0 or 3: {done.err[-400:]}"
    yield from (f"does not name {name!r}: {done.err[-400:]}" for name in names if name not in done.err)


def unknown_kinds(on: Ground) -> Fault:
    """Objects that create no pods are named, or refused where Kubernetes has no such kind."""
    rng = on.rng
    command = rng.choice(("solve", "explain"))
    if rng.random() < 0.4:
        version, kind = rng.choice(_MISSPELT)
        yield from _refused(
            on.ask(command, on.cluster(), "-w", on.added([on.manifest, on.workload() | {"apiVersion": version, "kind": kind}])), kind
        )
        return
    several = [rng.choice(_FOREIGN) for _ in range(rng.randint(1, 4))]
    objects = [
        {"apiVersion": version, "kind": kind, "metadata": {"name": f"x{i}"}, "spec": mutate.odd(rng)}
        for i, (version, kind) in enumerate(several)
    ]
    objects = [each for each in objects if _encodes(each)]
    kinds = sorted({str(each["kind"]) for each in objects})
    content = [*objects, on.manifest]
    rng.shuffle(content)
    cluster, added = on.cluster(), on.added(content)
    done = on.ask(command, cluster, "-w", added, *rng.choice(((), ("-q",))))
    yield from _accepted(done, *kinds)
    if done.code in (0, 3) and objects and not any(str(kind) in " ".join(json.loads(done.out)["notes"]) for kind in kinds):
        yield "the document's notes do not name them"
    if objects:
        strict = on.ask(command, cluster, "-w", added, "--strict")
        if strict.code != 4 or strict.out:
            yield f"--strict ends with {strict.code}"
        yield from _refused(on.ask(command, cluster, "-w", on.added(objects)))  # no pods at all


def _encodes(value: Object) -> bool:
    try:
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
        return bool(yaml.safe_load(yaml.safe_dump(value)) == value) and all(abs(n) < 2**53 for n in _numbers(value))
    except (ValueError, yaml.YAMLError, UnicodeError):
        return False


def _numbers(value: Any) -> Iterator[float]:
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _numbers(inner)
    elif isinstance(value, int | float):
        yield value


def no_snapshot(on: Ground) -> Fault:
    """Every command refuses files that are no snapshot."""
    rng = on.rng
    nodes = [each for each in on.objects if each["kind"] == "Node"]
    rest = [each for each in on.objects if each["kind"] != "Node"]
    wrong = copy.deepcopy(on.objects)
    spoilt = rng.choice(wrong)
    spoilt["kind"] = rng.choice((spoilt["kind"].lower(), spoilt["kind"].upper()))
    status = {"apiVersion": "v1", "kind": "Status", "status": "Failure", "message": "forbidden", "code": 403, "metadata": {}}
    table = {"apiVersion": "meta.k8s.io/v1", "kind": "Table", "metadata": {}, "columnDefinitions": [], "rows": []}
    shape: list[Object] = rng.choice(
        (
            [],
            rest,
            [on.manifest],
            [on.manifest, on.workload() | {"metadata": {"name": "two"}}],
            [*nodes, on.manifest],
            wrong,
            [*on.objects, status],
            [*on.objects, table],
            [status],
            [table],
        )
    )
    if shape == rest and not rest:
        return
    name = rng.choice(("odd.json", "odd.yaml"))
    content: Any = shape[0] if len(shape) == 1 and rng.random() < 0.5 else shape
    path = on.put(name, content)
    for command in COMMANDS if rng.random() < 0.3 else (rng.choice(tuple(COMMANDS)),):
        yield from (f"{command}: {fault}" for fault in _refused(on.ask(command, path)))


def duplicate_keys(on: Ground) -> Fault:
    """A duplicate key in one object is refused with its name, in any spelling."""
    rng = on.rng
    manifests = rng.random() < 0.4
    objects: list[Object] = [on.manifest] if manifests else on.objects
    each = rng.choice(objects)
    paths = [path for path in [(), *mutate.spots(each)] if isinstance(mutate.at(each, path), dict) and mutate.at(each, path)]
    path = rng.choice(paths)
    inside = mutate.at(each, path)
    key = rng.choice(sorted(inside))
    mark = "\u0001here"
    again = copy.deepcopy(objects)
    mutate.at(again[objects.index(each)], path)[mark] = copy.deepcopy(
        rng.choice((inside[key], None, mutate.odd(rng) if rng.random() < 0.5 else {}))
    )
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": again}, indent=rng.choice((None, 1)))
    spelt = json.dumps(key)
    if rng.random() < 0.3:
        at = rng.randrange(len(key))
        spelt = f'"{key[:at]}\\u{ord(key[at]):04x}{key[at + 1 :]}"'
    text = text.replace(json.dumps(mark), spelt)
    if rng.random() < 0.2:
        text = text.replace('": ', '"\n\t:')
    try:
        msgspec.json.decode(text)
    except msgspec.DecodeError:  # more is wrong with it than the key
        return
    name = on.put(rng.choice(("odd.json", "odd.json", "odd")), text)
    words = (on.cluster(), "-w", name) if manifests else (name,)
    command = rng.choice(("solve", "explain")) if manifests else rng.choice(tuple(COMMANDS))
    yield from _refused(on.ask(command, *words), Path(name).name, key if key.isprintable() else "")


def unknown_fields(on: Ground) -> Fault:
    """A misspelt field of a manifest is refused with its name, and taken with --allow-unknown-fields."""
    rng = on.rng
    free = ("labels", "annotations", "matchLabels", "requests", "limits", "nodeSelector")
    paths = [
        path
        for path in mutate.spots(on.manifest)
        if isinstance(path[-1], str) and path[-1] not in ("apiVersion", "kind", "name", "metadata")
    ]
    paths = [path for path in paths if len(path) < 2 or path[-2] not in free]
    path = rng.choice(paths)
    inside = mutate.at(on.manifest, path[:-1])
    odd = _misspelt(rng, path[-1])
    if odd in inside:
        return
    changed = copy.deepcopy(on.manifest)
    into = mutate.at(changed, path[:-1])
    into[odd] = into[path[-1]]  # the field itself stays, so that nothing else is wrong
    command = rng.choice(("solve", "explain"))
    cluster, added = on.cluster(), on.added([changed])
    yield from _refused(on.ask(command, cluster, "-w", added), odd, path[-1])
    yield from _accepted(on.ask(command, cluster, "-w", added, "--allow-unknown-fields"))


def _misspelt(rng: random.Random, word: str) -> str:
    at = rng.randrange(1, len(word))
    match rng.randrange(3):
        case 0:
            return word[:at] + word[at + 1 :] if len(word) > 4 else word + word[-1]
        case 1:
            return word[:at] + rng.choice(_LETTERS) + word[at:]
        case _:
            return word[: at - 1] + word[at] + word[at - 1] + word[at + 1 :] if word[at] != word[at - 1] else word + "s"


def bundles(on: Ground) -> Fault:
    """Directories of must-gather and of support bundles read as their objects do, and messages name other files."""
    rng = on.rng
    must_gather = rng.random() < 0.5
    root = "bundle"
    for each in on.objects if must_gather else ():
        meta = each["metadata"]
        namespace = f"namespaces/{meta.get('namespace', 'default')}" if each["kind"] not in _CLUSTER_SCOPED else "cluster-scoped-resources"
        group = each.get("apiVersion", "v1").rpartition("/")[0] or "core"
        on.put(f"{root}/quay-io-sha256/{namespace}/{group}/{each['kind'].lower()}s/{meta['name']}.yaml", each)
    for kind in sorted({each["kind"] for each in on.objects}) if not must_gather else ():
        listed = [each for each in on.objects if each["kind"] == kind]
        version = listed[0].get("apiVersion", "v1")
        on.put(
            f"{root}/cluster-resources/{kind.lower()}s.json", json.dumps({"kind": f"{kind}List", "apiVersion": version, "items": listed})
        )
    plain = on.ask("solve", on.put("plain.json", on.objects))
    stray = {
        "values.yaml": "image:\n  tag: 1\n",
        "notes.json": '{"a": [1, 2]}',
        "kustomization.yaml": "resources: [a.yaml]\n",
        "events.json": '["x"]',
    }
    names = rng.sample(sorted(stray), rng.randint(0, len(stray)))
    for name in names:
        on.put(f"{root}/{rng.choice(('', 'deep/er/'))}{name}", stray[name])
    done = on.ask("solve", str(on.folder / root))
    if plain.code in (0, 3):
        yield from _accepted(done, *names)
        if done.code in (0, 3) and (_places(done) != _places(plain)):
            yield "the bundle and its objects give different counts"
        if names and on.ask("solve", str(on.folder / root), "--strict").code != 4:
            yield "--strict takes stray files"


_CLUSTER_SCOPED: Final = (
    "Node", "Namespace", "PriorityClass", "PersistentVolume", "StorageClass", "CSINode", "CSIDriver", "NodeResourceTopology",
    "ResourceSlice", "DeviceClass", "DeviceTaintRule", "RuntimeClass",
)  # fmt: skip


def _places(done: Outcome) -> tuple[int, int, int]:
    found = json.loads(done.out)
    return found["snapshot"]["nodes"], found["snapshot"]["pods"], len(found["assignments"])


def tables(on: Ground) -> Fault:
    """Tables for programs hold every pod in one row, with its whole name."""
    rng = on.rng
    long = {"a": "x" * rng.choice((1, 40, 63)), "b": "-".join(["long"] * rng.randint(1, 12))}
    for each in on.objects:
        if each["kind"] == "Pod" and rng.random() < 0.5:
            each["metadata"]["name"] = f"{each['metadata']['name']}-{long[rng.choice('ab')]}"
    cluster = on.cluster()
    document = on.ask("solve", cluster)
    if document.code not in (0, 3):
        return
    found = json.loads(document.out)
    done = here(["solve", cluster, *_SEARCH, "-f", "csv"])
    yield from _accepted(done)
    rows = list(csv.reader(io.StringIO(done.out.decode())))
    cells = {cell for row in rows for cell in row}
    if len({len(row) for row in rows}) > 1:
        yield "rows of several lengths"
    pods = [each["pod"] for each in (*found["assignments"], *found["unplaced"])]
    for pod in pods:
        if pod not in cells and not any(pod.split("/")[1] in row and pod.split("/")[0] in row for row in rows):
            yield f"no row has {pod}"
    wide = here(["solve", cluster, *_SEARCH, "-f", "wide", "--all"])
    yield from _accepted(wide)
    lines = wide.out.decode().splitlines()
    yield from (f"no line has the whole of {pod}" for pod in pods if not any(pod.split("/")[1] in line for line in lines))


PATHS: Final[tuple[Callable[[Ground], Fault], ...]] = (unknown_kinds, no_snapshot, duplicate_keys, unknown_fields, bundles, tables)


def judge(seed: int, folder: Path) -> list[str]:
    """Run the case of a number in an empty folder: what passed in silence, or went wrong."""
    case = PATHS[seed % len(PATHS)]
    return [f"{case.__name__}: {fault}" for fault in case(Ground(seed, folder))]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    asked = parser.parse_args()
    failed = 0
    for seed in range(asked.first, asked.first + asked.count):
        folder = Path(tempfile.mkdtemp(prefix="loud-"))
        try:
            found = judge(seed, folder)
        finally:
            shutil.rmtree(folder)
        if found:
            failed += 1
            print(f"case {seed}:", *found, sep="\n  ", flush=True)
    print(f"{asked.count} cases from {asked.first}: {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
