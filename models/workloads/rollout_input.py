"""The start of a rollout: the Deployment with its new template, its pods in the cluster, and those of the new revision."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import msgspec

from kubestow.models.documents.placement import Edits, Unmodelled
from kubestow.models.kube import objects, workload_objects
from kubestow.models.kube.lenient_decode import near_keys
from kubestow.models.snapshot.snapshot import InputError, Snapshot
from kubestow.models.workloads import claims
from kubestow.models.workloads.deployment_rollout import Old, Pace, old_pods, pace
from kubestow.models.workloads.expand import MAX_PODS, owned, revision_pods
from kubestow.models.workloads.merge import merge
from kubestow.models.workloads.view import split

Kind = Literal["Deployment", "StatefulSet", "DaemonSet"]
#: Kinds that can be rolled out.
ROLLING: Final[tuple[Kind, ...]] = ("Deployment", "StatefulSet", "DaemonSet")
_NOR: Final = {"Deployment": ", nor a StatefulSet or DaemonSet"}


@dataclass(frozen=True)
class Revision:
    """The start of a Deployment's rollout.

    Attributes:
        workload: ``namespace/name`` of the Deployment.
        deployment: The Deployment as it is to be.
        snapshot: The cluster with the manifests and the claims of the new pods, but without these pods.
        old: Pods of old revisions.
        new: As many new pods as the Deployment has replicas.
        going: Pods of the Deployment that are being deleted, as indices into ``snapshot.pods``.
        unmodelled: Assumptions about the new pods' claims.
    """

    workload: str
    deployment: workload_objects.Deployment
    snapshot: Snapshot
    pace: Pace
    old: list[Old]
    new: list[objects.Pod]
    going: list[int]
    unmodelled: list[Unmodelled]

    @property
    def paused(self) -> bool:
        """True if the controller rolls out nothing until the Deployment is resumed."""
        return bool(self.deployment.spec is not None and self.deployment.spec.paused)


def read(snapshot: Snapshot, name: str, manifests: Snapshot | None, edits: Edits | None = None) -> Revision:
    """Return the start of a Deployment's rollout.

    Args:
        name: ``[Deployment/][NAMESPACE/]NAME``.
        manifests: Holds the new template; None: the template stays.
        edits: Edits already applied to the snapshot. If they scale the Deployment, its manifest's replicas do
            not count.

    Raises:
        InputError: No such Deployment, or several; or its strategy, template or other manifests are unusable.
    """
    name = name.removeprefix("Deployment/")
    merged, deployment = updated(snapshot, "Deployment", name, manifests, edits)
    template = deployment.spec.template if deployment.spec is not None else None
    if template is not None and template.spec is not None and template.spec.nodeName:
        raise InputError([f"--rollout {name}: spec.template.spec.nodeName: its pods are not scheduled, expected none"])
    namespace, short = deployment.metadata.namespace or "default", deployment.metadata.name or ""
    steps = pace(deployment)
    if steps.replicas > MAX_PODS:
        raise InputError([f"--rollout {name}: spec.replicas: got {steps.replicas}, expected at most {MAX_PODS:,}"])
    old, going = old_pods(merged, owned(undeleted(merged), "Deployment", namespace, short))
    new, _ = revision_pods(merged, deployment, steps.replicas)
    merged = merged.copy()
    unmodelled = claims.provide(merged, new, {}, ())
    return Revision(f"{namespace}/{short}", deployment, merged, steps, old, new, going, unmodelled)


def kind_of(snapshot: Snapshot, name: str, manifests: Snapshot | None) -> tuple[Kind, str]:
    """Return the kind of the workload that ``[KIND/][NAMESPACE/]NAME`` refers to, and the name without kind.

    Raises:
        InputError: Workloads of several kinds have this name, or the kind cannot be rolled out.
    """
    kind, short = split(name)
    if kind is not None:
        known = next((each for each in ROLLING if each == kind), None)
        if known is None:
            raise InputError([f"--rollout {name}: got a {kind}, expected one of {', '.join(ROLLING)}"])
        return known, short
    for among in (snapshot, manifests):
        matching = [each for each in ROLLING if among is not None and _named(among, each, short)]
        if len(matching) > 1:
            raise InputError([f"--rollout {name}: a {' and a '.join(matching)} have this name, expected KIND/NAMESPACE/NAME"])
        if matching:
            return matching[0], short
    return "Deployment", short


def updated(snapshot: Snapshot, kind: str, name: str, manifests: Snapshot | None, edits: Edits | None = None) -> tuple[Snapshot, Any]:
    """Return the cluster with the manifests, and the workload as it is to be.

    Args:
        snapshot: The cluster.
        kind: Kind of the workload.
        name: ``[NAMESPACE/]NAME``.
        manifests: Hold the new template; None: it stays.
        edits: Edits already applied to the snapshot. If they scale the workload, its manifest's replicas do not
            count.

    Raises:
        InputError: No such workload, or several, or the manifests contradict the cluster.
    """
    here = _named(snapshot, kind, name)
    if len(here) > 1:
        raise InputError([f"--rollout {name}: {len(here)} {kind}s have this name ({', '.join(map(_key, here))}), expected NAMESPACE/NAME"])
    if manifests is None:
        if not here:
            near = near_keys(name, (f"{each}/{_key(d)}" for each in ROLLING for d in snapshot.workloads.get(each, ())))
            expected = f"{_NOR.get(kind, '')}, expected one, or NAME=FILE with its manifest"
            raise InputError([f"--rollout {name}: no such {kind} in the snapshot{expected}{near}"])
        return snapshot, here[0]
    there = _named(manifests, kind, name)
    if here:
        there = [d for d in there if _key(d) == _key(here[0])] or _moved(manifests, kind, here[0])
    if len(there) != 1:
        raise InputError([f"--rollout {name}: {len(there)} {kind}s of the manifests have this name, expected one"])
    problems: list[str] = []
    merged = merge(snapshot, replace(manifests, workloads={kind: there}), problems)
    if problems:
        raise InputError(problems)
    changed = next(d for d in _named(merged, kind, name) if _key(d) == _key(there[0]))
    if here and _scaled(here[0], edits) and changed.spec is not None and here[0].spec is not None:
        changed = msgspec.structs.replace(changed, spec=msgspec.structs.replace(changed.spec, replicas=here[0].spec.replicas))
    return merged, changed


def _scaled(obj: Any, edits: Edits | None) -> bool:
    names = {text.rpartition("=")[0] for text in edits.replicas} if edits is not None else set()
    kind, key, short = type(obj).__name__, _key(obj), obj.metadata.name or ""
    return not names.isdisjoint({short, key, f"{kind}/{short}", f"{kind}/{key}"})


def undeleted(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot as if no pod were being deleted."""
    pods = [
        msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, deletionTimestamp=None))
        if objects.is_terminating(pod)
        else pod
        for pod in snapshot.pods
    ]
    return replace(snapshot, pods=pods)


def _key(obj: Any) -> str:
    return f"{obj.metadata.namespace or 'default'}/{obj.metadata.name or ''}"


def _named(snapshot: Snapshot, kind: str, name: str) -> list[Any]:
    return [d for d in snapshot.workloads.get(kind, []) if name in (_key(d), d.metadata.name)]


def _moved(manifests: Snapshot, kind: str, like: Any) -> list[Any]:
    """Return the manifest's workloads in the namespace of the snapshot's, because manifests often state no namespace."""
    unplaced = [d for d in _named(manifests, kind, like.metadata.name or "") if (d.metadata.namespace or "default") == "default"]
    moved = [msgspec.structs.replace(d.metadata, namespace=like.metadata.namespace) for d in unplaced]
    return [msgspec.structs.replace(d, metadata=metadata) for d, metadata in zip(unplaced, moved, strict=True)]
