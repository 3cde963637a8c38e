"""A small cluster whose plans a change may or may not break: the ground for every kind of drift."""

from __future__ import annotations

import copy
from collections.abc import KeysView, Sequence
from typing import Any

import msgspec

from kubestow.commands.apply.remaining_steps import judge_rest
from kubestow.live.apply.drift import Document, DoneChanges, DriftVerdict, check
from kubestow.live.redact import Keeper
from kubestow.models.documents.placement import Assignment, Placement, SnapshotRef
from kubestow.models.documents.rebalance_plan import Eviction, Move, RebalancePlan, Summary
from kubestow.models.kube import kinds
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from tests import objects

Object = dict[str, Any]
ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"


def uid(kind: str, name: str) -> str:
    """Return the uid of an object; ``name``: with its namespace."""
    return f"{kind}.{name.replace('/', '.')}"


class DriftCluster:
    """Objects by kind and namespace/name, to be changed at will; each has a uid."""

    def __init__(self, items: Sequence[Object]) -> None:
        self._of: dict[tuple[str, str], Object] = {}
        for item in items:
            self.add(item)

    def add(self, item: Object) -> Object:
        metadata = item["metadata"]
        key = "/".join(part for part in (metadata.get("namespace"), metadata["name"]) if part)
        metadata.setdefault("uid", uid(item["kind"], key))
        self._of[item["kind"], key] = item
        return item

    def get(self, kind: str, name: str) -> Object:
        return self._of[kind, name]

    def keys(self) -> KeysView[tuple[str, str]]:
        """Return kind and name of each object."""
        return self._of.keys()

    def items(self) -> list[Object]:
        """Return the objects."""
        return list(self._of.values())

    def node(self, name: str) -> Object:
        return self.get("Node", name)

    def pod(self, name: str) -> Object:
        return self.get("Pod", f"default/{name}")

    def remove(self, kind: str, name: str) -> Object:
        return self._of.pop((kind, name))

    def again(self, kind: str, name: str) -> Object:
        """Delete an object and make it again."""
        item = self.get(kind, name)
        item["metadata"]["uid"] += "-again"
        return item

    def copy(self) -> DriftCluster:
        return DriftCluster(copy.deepcopy(list(self._of.values())))

    def loaded(self) -> Snapshot:
        """As ``kubectl get -o json`` has it."""
        return from_objects(copy.deepcopy(list(self._of.values())))

    def captured(self) -> Snapshot:
        """As ``kubestow capture`` has it, redacted."""
        found = []
        for (name, _), item in self._of.items():
            keeper = Keeper(kinds.KINDS[name], item["apiVersion"])
            found += [msgspec.json.decode(each) for each in keeper.single(msgspec.json.encode(item))]
            assert not keeper.problems
        return from_objects(found)


def replica_set(name: str, replicas: int, deployment: str | None = None) -> Object:
    metadata: Object = {"name": name, "namespace": "default"}
    if deployment is not None:
        metadata["ownerReferences"] = [
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "name": deployment,
                "uid": uid("Deployment", f"default/{deployment}"),
                "controller": True,
            }
        ]
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": {"replicas": replicas, **_template(name)}}


def deployment(name: str, replicas: int) -> Object:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {"replicas": replicas, **_template(name)}}


def stateful_set(name: str, replicas: int) -> Object:
    return {**deployment(name, replicas), "kind": "StatefulSet"}


def _template(app: str) -> Object:
    container = {"name": "c", "image": "i", "env": [{"name": "KEY", "value": "v"}], "resources": {"requests": {"cpu": "1"}}}
    return {
        "selector": {"matchLabels": {"app": app}},
        "template": {"metadata": {"labels": {"app": app}}, "spec": {"containers": [container]}},
    }


def named(kind: str, name: str, api: str = "v1", **fields: Any) -> Object:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name}, **fields}


def namespace(name: str, **labels: str) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def budget(app: str, allowed: int, namespace: str = "default", **spec: Any) -> Object:
    return {
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": app, "namespace": namespace},
        "spec": {"selector": {"matchLabels": {"app": app}}, **spec},
        "status": {"disruptionsAllowed": allowed, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2},
    }  # fmt: skip


def volume(name: str, claim: str, node: str) -> Object:
    terms = [{"matchExpressions": [{"key": HOST, "operator": "In", "values": node.split(",")}]}]
    claimed = {
        "kind": "PersistentVolumeClaim",
        "namespace": "default",
        "name": claim,
        "uid": uid("PersistentVolumeClaim", f"default/{claim}"),
    }
    spec = {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "local", "claimRef": claimed,
        "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
    }  # fmt: skip
    return named("PersistentVolume", name, spec=spec, status={"phase": "Bound"})


def claim(name: str, volume: str) -> Object:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "local",
        "volumeName": volume,
        "resources": {"requests": {"storage": "1Gi"}},
    }
    return {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": "default"},
        "spec": spec, "status": {"phase": "Bound"},
    }  # fmt: skip


def apart(**labels: str) -> Object:
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": labels}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def running(name: str, node: str | None, owner: str, **spec: Any) -> Object:
    labels = {"app": owner.partition("/")[2], **spec.pop("labels", {})}
    made = objects.pod(name, node_name=node, owner=owner, labels=labels, cpu=spec.pop("cpu", "1"), **spec)
    if node:
        made["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    return made


def move(pod: str, source: str | None, to: str, *, step: int = 1, wave: int = 1, **fields: Any) -> Move:
    return Move(step, wave, f"default/{pod}", source, to, "test", **fields)


def plan(*steps: Move | Eviction, goals: Sequence[str] = ("improve",)) -> RebalancePlan:
    """A plan of which only the steps count."""
    nothing, ref = Summary(0, 0), SnapshotRef("", 0, 0, 0)
    moves, evictions = [s for s in steps if isinstance(s, Move)], [s for s in steps if isinstance(s, Eviction)]
    return RebalancePlan(ref, list(goals), "exact", "feasible", [], moves, evictions, nothing, nothing)


def placement(*bound: tuple[str, str], gang: str | None = None) -> Placement:
    """``bound``: pods and their nodes."""
    entries = [Assignment(f"default/{pod}", node, 1 if gang else order, gang) for order, (pod, node) in enumerate(bound, 1)]
    return Placement(SnapshotRef("", 0, 0, len(bound)), "exact", "optimal", [], entries)


def verdict(before: DriftCluster, now: DriftCluster, document: Document, done: DoneChanges | None = None) -> DriftVerdict:
    return check(before.loaded(), now.captured(), document, done or DoneChanges(), judge_rest)
