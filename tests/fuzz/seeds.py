"""Good input to be spoiled: this project's instances, small random clusters, one object of every kind, policies, and results."""

from __future__ import annotations

import copy
import functools
import json
import random
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml
from click.testing import CliRunner

from kubestow import cli
from kubestow.instances.generate.generator import Parameters, generate
from kubestow.instances.generate.worn import Worn, worn
from tests import tiny, tiny_soft
from tests.models.snapshot.test_snapshot_fuzz import sample
from tests.plans import tiny as tiny_plans

Object = dict[str, Any]

INSTANCES: Final = Path(__file__).resolve().parents[2] / "instances"
#: Maximum number of results to make, because each takes a run.
RESULTS: Final = 40

POLICIES: Final[tuple[Object, ...]] = (
    {},
    {"strategy": "pack", "multipliers": {"topologySpread": 5, "podAffinity": 2}, "hardPodAffinityWeight": 3},
    {"priceLabel": "price", "strategy": "pack", "defaultConstraints": []},
    {"closeness": {"sameZone": 5, "sameSocket": 2, "sameNode": 1}, "shorthand": "symmetric", "colocatePods": True,
    "colocateNamespaces": True},
    {"daemonNamespaces": ["kube-system"], "refuseAllNamespacesAntiAffinity": True, "networkTiers": ["zone", "rack"]},
    {"defaultConstraints": [{"topologyKey": "zone", "maxSkew": 1}], "multipliers": {"nodeAffinity": 0, "containerAffinity": 10}},
    {
        "topologies": [
            {
                "nodes": ["n0"], "nodeLabels": {"disk": "ssd"}, "topologyManagerPolicy": "single-numa-node",
                "zones": [
                    {"name": "node-0", "resources": {"cpu": "1", "memory": "1Gi"}, "socket": "s0"},
                    {"name": "node-1", "resources": {"cpu": "1", "memory": "1Gi"}, "socket": "s1"},
                ],
            }
        ]
    },
    {"moves": {"annotation": "kubestow.dev/move-cost", "priorities": [{"atLeast": 10, "cost": 5}], "ages": [{"atLeastHours": 24,
    "cost": 3}]}},
)  # fmt: skip


@functools.cache
def _files() -> tuple[Path, ...]:
    return tuple(sorted(INSTANCES.rglob("*.yaml")))


@functools.cache
def _read(path: Path) -> list[Any]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return [document for document in yaml.load_all(path.read_text(encoding="utf-8"), loader) if document is not None]


def snapshot(rng: random.Random) -> list[Object]:
    """The objects of a small cluster, ready to be changed in place."""
    seed = rng.randrange(10**6)
    match rng.randrange(10):
        case 0 | 1:
            found = _read(rng.choice(_files()))
            found = [item for each in found for item in (each.get("items", []) if each.get("kind") == "List" else [each])]
        case 2 | 3:
            found = tiny.snapshot(seed, rng.choice(tiny.KINDS))
        case 4:
            found = tiny_soft.snapshot(seed, rng.choice(tiny_soft.KINDS))
        case 5:
            found = tiny_plans.cluster(seed, rng.choice(tiny_plans.KINDS))
        case 6:
            found = tiny.with_gangs(tiny.snapshot(seed, rng.choice(tiny.KINDS)), seed)
        case 7:
            found = tiny.mutual(seed, rng.choice(("mutual", "ring", "woven")))
        case 8:
            numbers = (rng.randint(1, 5), rng.randint(1, 20))
            aged = rng.random() < 0.5
            made = worn(Worn(*numbers, seed=seed)) if aged else generate(Parameters(*numbers, seed=seed, bound=50, numa=50, rules=60))
            found = json.loads(json.dumps(list(made.objects())))
        case _:
            found = [*sample(), *tiny.snapshot(seed, "mixed")]
    return copy.deepcopy(found)


def manifests(rng: random.Random, objects: list[Any]) -> list[Object]:
    """Workloads to be added to a cluster of ``objects``, made of its pods, or some of an instance."""
    files = [path for path in _files() if path.stem.endswith("-workload")]
    pods = [each for each in objects if isinstance(each, dict) and each.get("kind") == "Pod" and isinstance(each.get("spec"), dict)]
    if not pods or rng.random() < 0.2:
        return copy.deepcopy(_read(rng.choice(files)))
    return [_workload(rng, copy.deepcopy(rng.choice(pods)), i) for i in range(rng.choice((1, 1, 2)))]


def _workload(rng: random.Random, pod: Object, number: int) -> Object:
    spec = {key: value for key, value in pod["spec"].items() if key not in ("nodeName", "priority")}
    labels = {"app": rng.choice(("a", "b", "new"))}
    metadata = {"labels": labels, "annotations": pod.get("metadata", {}).get("annotations", {})}
    template, count = {"metadata": metadata, "spec": spec}, rng.choice((1, 2, 3))
    name = {"name": f"w{number}", "namespace": pod.get("metadata", {}).get("namespace", "default")}
    kind = rng.choice(("Deployment", "StatefulSet", "ReplicaSet", "Job", "DaemonSet", "Pod", "PodTemplate", "CronJob"))
    if kind == "Pod":
        return {"apiVersion": "v1", "kind": kind, "metadata": {**name, **metadata}, "spec": spec}
    if kind == "PodTemplate":
        return {"apiVersion": "v1", "kind": kind, "metadata": name, "template": template}
    job = {"parallelism": count, "template": template}
    inner: Object = {"replicas": count, "selector": {"matchLabels": labels}, "template": template}
    if kind in ("Job", "CronJob"):
        inner = job if kind == "Job" else {"schedule": "* * * * *", "jobTemplate": {"spec": job}}
    return {"apiVersion": "batch/v1" if kind in ("Job", "CronJob") else "apps/v1", "kind": kind, "metadata": name, "spec": inner}


@dataclass(frozen=True)
class Result:
    """A result, the objects that it is of, and the manifests that it was made with. ``files``: both as bytes, whose hash it holds."""

    objects: list[Object]
    manifests: list[Object]
    document: Object
    files: tuple[bytes, bytes]


@functools.cache
def _result(number: int) -> Result:
    """A result by its number; the same in every run. Not every draw has one: then that of another number."""
    with tempfile.TemporaryDirectory() as folder:
        found = _made(number, Path(folder))
    return found or _result(number + RESULTS)


def _made(number: int, folder: Path) -> Result | None:
    rng = random.Random(f"result-{number}")
    objects, added = snapshot(rng), []
    files = [folder / "objects.json", folder / "manifests.json"]
    arguments = ["--deterministic", "--time-limit", "0.2", "--workers", "1", "-q", "-f", "json"]
    if number % 2:
        arguments += ["rebalance", "--goal", rng.choice(("repair", "improve", "consolidate", "admit")), "--also-move", "bare"]
    else:
        arguments += ["solve"]
        added = manifests(rng, objects) if rng.random() < 0.3 else []
        deployments = [each["metadata"]["name"] for each in objects if each.get("kind") == "Deployment"]
        if deployments and not added:
            arguments += ["--rollout", rng.choice(deployments)]
    for file, content in zip(files, (objects, added), strict=True):
        file.write_text(json.dumps(content), encoding="utf-8")
    arguments += ["-w", str(files[1])] if added else []
    at = next(i for i, word in enumerate(arguments) if word in ("solve", "rebalance"))
    done = CliRunner().invoke(cli.main, [arguments[at], str(files[0]), *arguments[:at], *arguments[at + 1 :]])
    if done.exit_code not in (0, 3):
        return None
    return Result(objects, added, json.loads(done.stdout), (files[0].read_bytes(), files[1].read_bytes()))


def result(rng: random.Random) -> Result:
    """A result, ready to be changed in place."""
    return copy.deepcopy(_result(rng.randrange(RESULTS)))
