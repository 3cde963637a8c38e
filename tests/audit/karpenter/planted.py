"""NodePools, their nodes, and what becomes of planted snapshots under them."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

from kubestow.audit.karpenter import pools
from kubestow.audit.karpenter.run import KarpenterInput, judge
from kubestow.audit.settings import Settings
from kubestow.models.catalogue.catalogue import Catalogue
from kubestow.models.catalogue.catalogue import read as read_catalogue
from kubestow.models.documents.findings.karpenter import KarpenterAudit
from kubestow.models.documents.policy import DEFAULT
from kubestow.models.snapshot.snapshot import from_objects
from tests.objects import Object, node, pod


def machine(name: str, kind: str = "small", *, cpu: str = "4", pool: str = "p", spot: bool = False, **labels: str) -> Object:
    """A node of a pool."""
    own = {
        "karpenter.sh/nodepool": pool,
        "karpenter.sh/capacity-type": "spot" if spot else "on-demand",
        "karpenter.sh/initialized": "true",
        "topology.kubernetes.io/zone": "a",
        "node.kubernetes.io/instance-type": kind,
    }
    return node(name, cpu=cpu, labels={**own, **labels})


def runs(name: str, at: str, cpu: str = "1", **more: Any) -> Object:
    """A pod with a controller."""
    return pod(name, node_name=at, cpu=cpu, owner="ReplicaSet/r", labels={"app": "a"}, **more)


def node_pool(
    name: str = "p", *, budgets: list[Object] | None = None, requirements: list[Object] | None = None, **disruption: Any
) -> Object:
    found: Object = {"disruption": {"budgets": budgets or [{"nodes": "100%"}], **disruption}}
    if requirements is not None:
        found["template"] = {"spec": {"requirements": requirements}}
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name}, "spec": found}


def read(folder: Path, plain: object, captured: str = "") -> pools.NodePools:
    path = folder / "pool.json"
    path.write_text(json.dumps(plain), encoding="utf-8")
    return pools.read([str(path)], captured)


def catalogue(folder: Path, *shapes: Object) -> Catalogue:
    path = folder / "catalogue.json"
    path.write_text(json.dumps({"apiVersion": "kubestow.dev/v1alpha1", "kind": "Catalogue", "shapes": shapes}), encoding="utf-8")
    return read_catalogue(str(path))


def shape(name: str, cpu: str, price: float, **more: Any) -> Object:
    return {"name": name, "allocatable": {"cpu": cpu, "memory": "8Gi", "pods": 110}, "zones": ["a"], "price": price, **more}


def judged(folder: Path, plain: object, things: list[Object], offers: Catalogue | None = None) -> KarpenterAudit:
    """Return the outcome of pools on a snapshot."""
    settings = Settings(DEFAULT, (), 20.0, time.monotonic() + 600, threading.Event())
    return judge(from_objects(things), KarpenterInput(read(folder, plain), offers), settings)


def steps(found: KarpenterAudit) -> list[tuple[str, list[str]]]:
    return [(command.method, sorted(command.nodes)) for command in found.commands]


def stays(found: KarpenterAudit) -> dict[str, str]:
    return {entry.node: entry.why for entry in found.blocked}
