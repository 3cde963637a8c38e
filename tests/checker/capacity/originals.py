"""Small valid documents about capacity, made by the engines, with the snapshots that they are of."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from kubestow.models.catalogue import catalogue as catalogues
from kubestow.models.documents.capacity import Capacity
from kubestow.models.documents.catalogue import Shape
from kubestow.models.documents.fit import Fit, Keep
from kubestow.models.documents.placement import Edits
from kubestow.models.documents.sizing import Sizing
from kubestow.models.documents.survival import Survival
from kubestow.models.documents.upgrade import Upgrade
from kubestow.models.edits.edits import apply
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from tests.objects import node, pod

ZONE = "topology.kubernetes.io/zone"
Object = dict[str, Any]


def deployment(name: str, cpu: str, replicas: int = 1) -> Object:
    template = {"metadata": {"labels": {"app": name}}, "spec": pod("x", cpu=cpu)["spec"]}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def _options(**more: Any) -> Any:
    from kubestow.solver.runtime.options import Options

    return Options(time_limit=20, deterministic=True, workers=1, **more)


def web(number: int, nodes: int, cpu: str = "900m", **more: Any) -> list[Object]:
    labels = {"app": "web"}
    return [pod(f"web-{i}", cpu=cpu, node_name=f"n{i % nodes}", owner="ReplicaSet/web", labels=labels, **more) for i in range(number)]


def _budget(most: int) -> Object:
    spec = {"maxUnavailable": most, "selector": {"matchLabels": {"app": "web"}}}
    metadata = {"name": "web", "namespace": "default"}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec}


def _set(replicas: int) -> Object:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": pod("x", cpu="900m")["spec"]}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web", "namespace": "default"}, "spec": spec}


@cache
def fit() -> tuple[Snapshot, Fit]:
    """Replicas in addition to the running pods, with a tenth of every node kept free."""
    from kubestow.solver.capacity.fit.fit import fit as engine

    before = from_objects([*(node(f"n{i}", cpu="4") for i in range(3)), *web(3, 3)])
    manifests = from_objects([deployment("more", "1")])
    found = engine(before, manifests, _options(), edits=Edits(withoutPending=True), keep=Keep(10, "node"))
    assert found.snapshot.edits is not None
    return apply(before, manifests, found.snapshot.edits).snapshot, found


@cache
def survival() -> tuple[Snapshot, Survival]:
    """Three like nodes of which any may fail; a fourth whose pods fit nowhere else; pods that must not share a node."""
    from kubestow.solver.capacity.survive.options import SurviveOptions
    from kubestow.solver.capacity.survive.survive import survive

    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "apart"}}}
    ]}}  # fmt: skip
    own = [
        pod(f"a{i}", cpu="100m", node_name=f"n{i}", owner="StatefulSet/apart", labels={"app": "apart"}, affinity=apart) for i in range(2)
    ]
    snapshot = from_objects([
        *(node(f"n{i}", cpu="4") for i in range(3)), node("big", cpu="16"), *web(6, 3), *own,
        pod("giant", cpu="12", node_name="big", owner="ReplicaSet/giant"),
        pod("low", cpu="100m", node_name="n2", owner="ReplicaSet/low", priority=-1), pod("bare", cpu="100m", node_name="n0"),
    ])  # fmt: skip
    return snapshot, survive(snapshot, SurviveOptions(), _options())


@cache
def upgrade() -> tuple[Snapshot, Upgrade]:
    """A pool of three nodes, upgraded one by one, under a budget of one."""
    from kubestow.solver.capacity.upgrade.pool import UpgradeOptions
    from kubestow.solver.capacity.upgrade.upgrade import upgrade as engine

    pool = {"pool": "x", ZONE: "a"}
    nodes = [node(f"n{i}", cpu="4", labels=pool) for i in range(3)]
    snapshot = from_objects([*nodes, node("other", cpu="500m"), *web(6, 3), _set(6), _budget(1)])
    asked = UpgradeOptions(pool="pool=x", surge="1", to={"metadata": {"labels": {"version": "2"}}}, options=_options())
    return snapshot, engine(snapshot, asked)


@cache
def sizing() -> tuple[Snapshot, Snapshot, Sizing]:
    """Pending pods for which nodes are added: before, with them, and the document."""
    from kubestow.solver.capacity.size.cost_accounting import account
    from kubestow.solver.capacity.size.options import SizeOptions
    from kubestow.solver.capacity.size.size import size

    before = from_objects(
        [node("n0", cpu="2", labels={ZONE: "a"}), *web(1, 1), *(pod(f"p{i}", cpu="3", owner="ReplicaSet/p") for i in range(3))]
    )
    room: dict[str, str | int | float] = {"cpu": "4", "memory": "16Gi", "pods": "110"}
    shapes = [
        Shape("small", room, ("a", "b"), {"a": "0.2", "b": 0.25}, most=2),
        Shape("spot", room, ("a",), 0.1, spot=True, fixedPrice=0.05),
        Shape("large", {**room, "cpu": "32"}, ("a",), 3),
    ]
    problems: list[str] = []
    offered = catalogues.Catalogue(catalogues.of_shapes(shapes, problems), most_spot=50)
    found = size(before, offered, SizeOptions(kinds=2), _options())
    assert found.snapshot.edits is not None
    edited = apply(before, None, found.snapshot.edits).snapshot
    if not found.workloads:
        account(found, edited)
    return before, edited, found


def copy(document: Capacity) -> Any:
    """A document of its own."""
    return msgspec.convert(msgspec.to_builtins(document), type(document))
