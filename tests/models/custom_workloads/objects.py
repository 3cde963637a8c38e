"""Objects of custom workload kinds, and the pods and gangs that become of them."""

from __future__ import annotations

import re
from typing import Any

from kubestow.models.custom_workloads import pod_sets
from kubestow.models.gangs.gangs import Gang, find
from kubestow.models.kube import objects
from kubestow.models.snapshot import scope
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from kubestow.models.workloads.expand import expand
from tests.objects import node

Object = dict[str, Any]
#: What stands for random characters after the name a.
RANDOM = pod_sets._random("a")
NODES = [node("n1"), node("n2")]


def template(cpu: str = "100m", labels: Object | None = None, annotations: Object | None = None, **spec: Any) -> Object:
    metadata = {key: value for key, value in (("labels", labels), ("annotations", annotations)) if value}
    return {"metadata": metadata, "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}], **spec}}


def custom(api_version: str, kind: str, spec: Object, name: str = "a", **metadata: Any) -> Object:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec}


def job_set(*jobs: tuple[str, int, int], **more: Any) -> Object:
    listed = [
        {"name": name, "replicas": replicas, "template": {"spec": {"parallelism": pods, "completions": pods, "template": template()}}}
        for name, replicas, pods in jobs
    ]
    return custom("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": listed}, **more)


def lws(replicas: int, size: int, **more: Any) -> Object:
    spec = {"replicas": replicas, "leaderWorkerTemplate": {"size": size, "workerTemplate": template(), **more}}
    return custom("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", spec)


def grown(*manifests: Object, cluster: tuple[Object, ...] = (), **options: Any) -> Snapshot:
    return expand(from_objects([*NODES, *cluster]), from_objects(list(manifests), manifests=True), **options).snapshot


def stems(snapshot: Snapshot) -> list[str]:
    """Return the names of the new pods, random suffixes cut, hashes and what controllers choose replaced."""
    pods = {objects.pod_key(pod): pod for pod in snapshot.pods}
    names = [pods[key].metadata.generateName or pods[key].metadata.name or "" for key in snapshot.to_create]
    return [name.replace(f"-{RANDOM}-", "-RANDOM-") if RANDOM in name else re.sub(r"-[b-z0-9]{8,10}-\Z", "-HASH-", name) for name in names]


def gangs(snapshot: Snapshot) -> dict[str, tuple[int, int]]:
    """Return the number of pods of each gang, and of those that it needs."""
    found: list[Gang] = find(snapshot, scope.select(snapshot))
    return {gang.name.removeprefix("default/"): (len(gang.pods), gang.needed) for gang in found}


def owners(snapshot: Snapshot) -> list[str]:
    pods = {objects.pod_key(pod): pod for pod in snapshot.pods}
    controllers = [objects.controller_of(pods[key]) for key in snapshot.to_create]
    return [f"{owner.kind} {owner.name}" for owner in controllers if owner is not None]
