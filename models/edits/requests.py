"""Changed container requests in running pods, waiting pods and templates of workloads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from kubestow.models.documents.placement import ContainerRequests
from kubestow.models.kube import kinds, objects, quantity
from kubestow.models.kube.lenient_decode import some
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.models.workloads.ownership import PodOwners
from kubestow.models.workloads.view import listed

_Wanted = dict[tuple[str, str], dict[str, str]]
_change = msgspec.structs.replace


def resize(snapshots: Sequence[Snapshot], given: Sequence[ContainerRequests]) -> None:
    """Change the requests of containers.

    A pod represents all pods of its workload. Among several pods of a workload the largest amount counts, among
    several recommendations for a workload the last. A limit below a request is raised to it. In-place resizes
    of running pods no longer count. ``warnings`` of the first snapshot list recommendations without a match,
    and empty ones.

    Args:
        snapshots: The cluster and, if given, the manifests; changed.
    """
    owners = [_Workloads(snapshot) for snapshot in snapshots]
    wanted, lost = _settled(owners, [each for each in given if each.requests])
    unknown = list(dict.fromkeys(f"{each.workload}: container {each.container}" for each in given if not each.requests))
    raised: set[tuple[str, str]] = set()
    kept: set[str] = set()
    for snapshot, known in zip(snapshots, owners, strict=True):
        change = _Resizing(wanted, raised, kept)
        snapshot.pods = [change.pod(pod, known.of(pod)) for pod in snapshot.pods]
        for kind, objs in snapshot.workloads.items():
            snapshot.workloads[kind] = [change.workload(obj, known.of_object(obj)) for obj in objs]
    warnings = snapshots[0].warnings
    warnings += _warning("recommended for containers that the snapshot lacks", lost)
    warnings += _warning("without a recommendation, requests stay as they are", unknown)
    warnings += _warning("limits were raised to recommended requests", [f"{owner}: {container}" for owner, container in sorted(raised)])
    warnings += _warning("pod-level requests stay as they are, recommendations apply to containers only", sorted(kept))


def _warning(what: str, names: Sequence[str]) -> list[str]:
    return [f"--requests: {what}: {some(names)}"] if names else []


class _Workloads:
    """Owners as text, ``Kind namespace/name``. Pods of Jobs belong to the CronJob, pods of ReplicaSets to the Deployment."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.owners = PodOwners(snapshot)
        self._jobs: dict[str, str] = {}
        for job in snapshot.workloads.get("Job", ()):
            owner = objects.controller_of(job)
            if owner is not None:
                namespace = job.metadata.namespace or "default"
                self._jobs[f"Job {namespace}/{job.metadata.name}"] = f"{owner.kind} {namespace}/{owner.name}"
        self.containers: dict[str, set[str]] = {}
        self.by_pod: dict[str, str] = {}
        for pod in snapshot.pods:
            workload = self.by_pod[objects.pod_key(pod)] = self.of(pod)
            self._add(workload, pod.spec)
        for obj in listed(snapshot):
            template = kinds.pod_template(obj)
            if template is not None and template[1].spec is not None:
                self._add(self.of_object(obj), template[1].spec)

    def _add(self, owner: str, spec: objects.PodSpec) -> None:
        names = self.containers.setdefault(owner, set())
        names.update(container.name or "" for container in [*(spec.initContainers or ()), *(spec.containers or ())])

    def of(self, pod: objects.Pod) -> str:
        """Return the workload of a pod."""
        owner = self.owners.of(pod)
        return self._jobs.get(owner, owner)

    def of_object(self, obj: Any) -> str:
        """Return the workload that an object is or belongs to."""
        namespace, owner = obj.metadata.namespace or "default", objects.controller_of(obj)
        kind = kinds.name_of(obj)
        if owner is not None and (kind, owner.kind) in (("ReplicaSet", "Deployment"), ("Job", "CronJob")):
            return f"{owner.kind} {namespace}/{owner.name}"
        return f"{kind} {namespace}/{obj.metadata.name}"


def _settled(owners: Sequence[_Workloads], given: Iterable[ContainerRequests]) -> tuple[_Wanted, list[str]]:
    """Return the requests by workload and container, and the recommendations without a match."""
    wanted: _Wanted = {}
    by_pods: dict[tuple[str, str, str], bool] = {}
    lost: dict[str, None] = {}
    for each in given:
        kind, _, key = each.workload.partition(" ")
        owner: str | None = each.workload
        if kind == "Pod":
            owner = next((known.by_pod[key] for known in owners if key in known.by_pod), None)
        if owner is None or not any(each.container in known.containers.get(owner, ()) for known in owners):
            lost[f"{each.workload}: container {each.container}"] = None
            continue
        one_of_several = owner != each.workload
        requests = wanted.setdefault((owner, each.container), {})
        for resource, amount in each.requests.items():
            place = (owner, each.container, resource)
            others = one_of_several and by_pods.get(place, False)
            if not others or quantity.parse(requests[resource]) < quantity.parse(amount):
                requests[resource] = amount
            by_pods[place] = one_of_several
    return wanted, list(lost)


class _Resizing:
    """Changes pods and templates. Equal parts that pods share are changed once, and shared again."""

    def __init__(self, wanted: Mapping[tuple[str, str], dict[str, str]], raised: set[tuple[str, str]], kept: set[str]) -> None:
        self._wanted, self._raised, self._kept = wanted, raised, kept
        self._owners = {owner for owner, _ in wanted}
        self._specs: dict[tuple[int, str], tuple[objects.PodSpec, objects.PodSpec]] = {}
        self._statuses: dict[tuple[int, str], tuple[objects.PodStatus, objects.PodStatus]] = {}

    def pod(self, pod: objects.Pod, owner: str) -> objects.Pod:
        """Return a pod with its workload's new requests."""
        if owner not in self._owners:
            return pod
        return _change(pod, spec=self._spec(pod.spec, owner), status=self._status(pod, owner))

    def workload(self, obj: Any, owner: str) -> Any:
        """Return a workload whose template has its new requests."""
        located = kinds.pod_template(obj)
        if owner not in self._owners or located is None or located[1].spec is None:
            return obj
        path, template = located
        return _within(obj, path.split("."), _change(template, spec=self._spec(located[1].spec, owner)))

    def _spec(self, spec: objects.PodSpec, owner: str) -> objects.PodSpec:
        known = self._specs.get((id(spec), owner))
        if known is None:
            if spec.resources is not None and spec.resources.requests:
                self._kept.add(owner)
            changed = _change(
                spec,
                containers=[self._container(each, owner) for each in spec.containers or ()],
                initContainers=[self._container(each, owner) for each in spec.initContainers]
                if spec.initContainers
                else spec.initContainers,
            )
            known = self._specs[id(spec), owner] = (spec, changed)  # keeps the old spec alive, so that its id stays unique
        return known[1]

    def _container(self, container: objects.Container, owner: str) -> objects.Container:
        wanted = self._wanted.get((owner, container.name or ""))
        if wanted is None:
            return container
        resources = container.resources or objects.ResourceRequirements()
        limits = dict(resources.limits or {})
        for resource, amount in wanted.items():
            if resource in limits and quantity.parse(limits[resource]) < quantity.parse(amount):
                limits[resource] = amount
                self._raised.add((owner, container.name or ""))
        return _change(container, resources=_change(resources, requests={**(resources.requests or {}), **wanted}, limits=limits or None))

    def _status(self, pod: objects.Pod, owner: str) -> objects.PodStatus | None:
        """Return the status without the kubelet's allocations to containers with new requests."""
        status = pod.status
        if status is None:
            return None
        known = self._statuses.get((id(status), owner))
        if known is None:
            fields: dict[str, Any] = {
                name: self._cleared(getattr(status, name), owner) for name in ("containerStatuses", "initContainerStatuses")
            }
            if pod.spec.resources is None:  # otherwise it is allocated to the pod
                fields |= {"resources": None, "allocatedResources": None}
            known = self._statuses[id(status), owner] = (status, _change(status, **fields))
        return known[1]

    def _cleared(self, statuses: list[objects.ContainerStatus] | None, owner: str) -> list[objects.ContainerStatus] | None:
        if not statuses:
            return statuses
        return [
            _change(each, resources=None, allocatedResources=None) if (owner, each.name or "") in self._wanted else each
            for each in statuses
        ]


def _within(obj: Any, path: Sequence[str], value: Any) -> Any:
    """Return a copy of an object with another value at a path of fields."""
    first, *inner = path
    return _change(obj, **{first: _within(getattr(obj, first), inner, value) if inner else value})
