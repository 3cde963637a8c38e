"""Tiny random questions of what to buy, small enough to try every purchase."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from kubestow.models.catalogue.catalogue import Catalogue, of_shapes
from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.documents.catalogue import Price, Shape, ShapeTaint
from kubestow.models.documents.sizing import Mode
from kubestow.models.snapshot.capture_info import Capture
from kubestow.models.snapshot.scope import select
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from kubestow.solver.capacity.size.options import SizeOptions
from kubestow.solver.capacity.size.purchase_cluster import purchase_base
from kubestow.solver.runtime.options import Options
from kubestow.solver.runtime.run_context import RunContext
from kubestow.solver.search.exact import ExactEngine
from tests import tiny

Object = dict[str, Any]
ZONE = "topology.kubernetes.io/zone"
KINDS = ("resources", "static", "ports", "affinity", "anti", "spread", "volumes", "mixed")
MODES: tuple[Mode, ...] = ("add", "replace", "from-scratch")


def question(seed: int, kind: str) -> tuple[Snapshot, Catalogue, SizeOptions]:
    """Return a random cluster with pending pods, at most four offers, and the options of a sizing."""
    rng = random.Random(f"size-{kind}-{seed}")
    objects = _objects(seed, kind, rng, pods=rng.choice((3, 4, 5)))
    mode = rng.choice(MODES)
    kinds = rng.choice((None, None, 1, 2))
    snapshot, request = _asked(objects, mode, kinds, rng)
    return snapshot, catalogue(rng), request


def series(seed: int, kind: str) -> tuple[list[Snapshot], Catalogue, list[SizeOptions]]:
    """Return two or three random clusters, as snapshots of one, with a catalogue of at most four offers, and the
    options of each."""
    rng = random.Random(f"series-{kind}-{seed}")
    mode, kinds = rng.choice(MODES), rng.choice((None, None, 2))
    moments = []
    for k in range(rng.choice((2, 3))):
        objects = _objects(100 * seed + k, kind, rng, pods=rng.choice((2, 3, 4)))
        snapshot, request = _asked(objects, mode, kinds, rng)
        snapshot.capture = Capture("tiny", f"2026-11-0{k + 1}T20:00:00Z")
        moments.append((snapshot, request))
    return [snapshot for snapshot, _ in moments], catalogue(rng), [request for _, request in moments]


def _objects(seed: int, kind: str, rng: random.Random, *, pods: int) -> list[Object]:
    text = json.dumps(tiny.snapshot(seed, kind, nodes=rng.choice((1, 2)), pods=pods)).replace('"zone"', f'"{ZONE}"')
    objects: list[Object] = json.loads(text)
    return objects


def _asked(objects: list[Object], mode: Mode, kinds: int | None, rng: random.Random) -> tuple[Snapshot, SizeOptions]:
    """Return the cluster of some objects with the options of its sizing."""
    if mode != "add":
        _run(objects, rng)
    names = [o["metadata"]["name"] for o in objects if o["kind"] == "Node"]
    gone = tuple(sorted(rng.sample(names, rng.randint(1, len(names))))) if mode == "replace" else ()
    for found in objects:
        if found["kind"] == "Node" and found["metadata"]["name"] in gone:
            found["metadata"]["labels"]["pool"] = "old"
    request = SizeOptions(mode, pool="pool=old" if gone else None, gone=gone, kinds=kinds)
    if mode == "from-scratch" and rng.random() < 0.3:
        node = next(o for o in objects if o["kind"] == "Node")
        node["metadata"]["labels"]["node-role.kubernetes.io/control-plane"] = ""
    return from_objects(objects), request


def _run(objects: list[Object], rng: random.Random) -> None:
    """Have some pods that run be of a controller, so that they are movable."""
    for found in objects:
        if found["kind"] == "Pod" and "nodeName" in found["spec"] and rng.random() < 0.6:
            found["metadata"]["ownerReferences"] = [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "rs", "controller": True}
            ]


def catalogue(rng: random.Random) -> Catalogue:
    """Return two or three shapes in one or two zones."""
    shapes = []
    offers = 0
    for i in range(rng.choice((1, 2, 3))):
        zones = tuple(rng.sample(("z1", "z2"), rng.choice((1, 2)) if offers < 3 else 1))
        offers += len(zones)
        by_zone: dict[str, Price] = {zone: rng.choice((1, 2, "1.5")) for zone in zones}
        price: Price | dict[str, Price] = by_zone if rng.random() < 0.2 else rng.choice((1, 2, 3, "1.5"))
        labels = {"disk": rng.choice(("ssd", "hdd"))} | ({"rack": rng.choice(("r1", "r2"))} if rng.random() < 0.5 else {})
        shapes.append(
            Shape(
                f"s{i}",
                {"cpu": rng.choice(("1", "2", "3", "4")), "memory": rng.choice(("2Gi", "4Gi", "8Gi")), "pods": rng.choice((2, 3, 10))},
                zones,
                price,
                labels=labels,
                taints=(ShapeTaint("dedicated", "NoSchedule", "x"),) if rng.random() < 0.1 else (),
                most=rng.choice((None, None, 1, 2)),
                spot=rng.random() < 0.3,
                fixedPrice=rng.choice((0, 0, "0.5")),
            )
        )
    problems: list[str] = []
    found = Catalogue(of_shapes(shapes, problems), rng.choice((100, 100, 50)))
    assert not problems, problems
    return found


def brute(snapshot: Snapshot, offered: Catalogue, request: SizeOptions, options: Options, max_nodes: int) -> tuple[int, int] | None:
    """Return cost and number of nodes of the cheapest purchase of at most ``max_nodes`` nodes, by trying all,
    cheapest first."""
    return brute_series([snapshot], offered, [request], options, max_nodes)


def brute_series(
    snapshots: Sequence[Snapshot], offered: Catalogue, questions: Sequence[SizeOptions], options: Options, max_nodes: int
) -> tuple[int, int] | None:
    """Return the same of the cheapest purchase that does for each of several snapshots."""
    offers, request = offered.offers, questions[0]
    clusters = [purchase_base(snapshot, each, options.edits) for snapshot, each in zip(snapshots, questions, strict=True)]
    tried = []
    for counts in itertools.product(range(max_nodes + 1), repeat=len(offers)):
        by_shape: dict[str, int] = {}
        for offer, count in zip(offers, counts, strict=True):
            if count:
                by_shape[offer.shape.name] = by_shape.get(offer.shape.name, 0) + count
        total = sum(counts)
        cpu = {name: int(shape.allocatable["cpu"]) * by_shape.get(name, 0) for name, shape in offered.shapes.items()}
        spot = sum(cpu[name] for name in offered.spot)
        if (
            total <= max_nodes
            and all(by_shape.get(name, 0) <= limit for name, limit in offered.most.items())
            and 100 * spot <= offered.most_spot * sum(cpu.values())
            and (request.kinds is None or len(by_shape) <= request.kinds)
        ):
            tried.append((sum(o.cost * k for o, k in zip(offers, counts, strict=True)), total, counts))
    for cost, total, counts in sorted(tried):
        bought = list(zip(offers, counts, strict=True))
        if all(holds(cluster.expanded(bought).snapshot, request, options) for cluster in clusters):
            return cost, total
    return None


def holds(snapshot: Snapshot, request: SizeOptions, options: Options) -> bool:
    """Return whether everything that waits finds a place, by the exact engine alone."""
    cluster = compile_cluster(snapshot, select(snapshot, from_scratch=request.mode == "from-scratch"))
    nothing = np.zeros((cluster.n_classes, cluster.n_nodes), dtype=np.int64)
    found = ExactEngine(cluster, RunContext.start(options)).solve(nothing, [])
    return int(found.counts.sum()) == len(cluster.scope.pending)
