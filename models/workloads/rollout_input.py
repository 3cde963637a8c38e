"""What a rollout starts from: the Deployment with its new template, its pods in the cluster, and the pods of the new revision."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import msgspec

from kubestow.models.documents.placement import Edits, Unmodelled
from kubestow.models.kube import objects, workload_objects
from kubestow.models.snapshot.snapshot import InputError, Snapshot
from kubestow.models.workloads import claims
from kubestow.models.workloads.deployment_rollout import Old, Pace, old_pods, pace
from kubestow.models.workloads.expand import MOST_PODS, owned, revision_pods
from kubestow.models.workloads.merge import merge
from kubestow.models.workloads.view import split

Kind = Literal["Deployment", "StatefulSet", "DaemonSet"]
#: Kinds that can be rolled out.
ROLLING: Final[tuple[Kind, ...]] = ("Deployment", "StatefulSet", "DaemonSet")
_NOR: Final = {"Deployment": ", nor a StatefulSet or DaemonSet"}


@dataclass(frozen=True)
class Revision:
    """``workload``: ``namespace/name`` of the ``deployment``, which is as it is to be; ``snapshot``: the cluster with what the manifests
    say and the claims of the new pods, but without these; ``new``: as many as there are to be replicas. ``going``: indices into
    ``snapshot.pods`` of pods of the Deployment that are being deleted already. ``unmodelled``: what is only supposed of the new pods'
    claims."""

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
        """Return True if the controller rolls nothing until the Deployment is resumed."""
        return bool(self.deployment.spec is not None and self.deployment.spec.paused)


def read(snapshot: Snapshot, name: str, manifests: Snapshot | None, edits: Edits | None = None) -> Revision:
    """``name``: ``[Deployment/][NAMESPACE/]NAME``; ``manifests``: what holds its new template (None: the template stays). ``edits``:
    those that are in the snapshot already: where they scale the Deployment, its manifest's replicas do not count.

    Raises:
        InputError: there is no such Deployment, or several; its strategy, template or other manifests cannot be used.
    """
    name = name.removeprefix("Deployment/")
    merged, deployment = updated(snapshot, "Deployment", name, manifests, edits)
    template = deployment.spec.template if deployment.spec is not None else None
    if template is not None and template.spec is not None and template.spec.nodeName:
        raise InputError([f"--rollout {name}: spec.template.spec.nodeName: its pods are not scheduled, expected none"])
    namespace, short = deployment.metadata.namespace or "default", deployment.metadata.name or ""
    steps = pace(deployment)
    if steps.replicas > MOST_PODS:
        raise InputError([f"--rollout {name}: spec.replicas: got {steps.replicas}, expected at most {MOST_PODS:,}"])
    old, going = old_pods(merged, owned(undeleted(merged), "Deployment", namespace, short))
    new, _ = revision_pods(merged, deployment, steps.replicas)
    merged = merged.copy()
    unmodelled = claims.provide(merged, new, {}, ())
    return Revision(f"{namespace}/{short}", deployment, merged, steps, old, new, going, unmodelled)


def kind_of(snapshot: Snapshot, name: str, manifests: Snapshot | None) -> tuple[Kind, str]:
    """Return the kind of the workload that ``[KIND/][NAMESPACE/]NAME`` means, and the rest of the name.

    Raises:
        InputError: workloads of several kinds are called so, or a kind that is not rolled out.
    """
    kind, short = split(name)
    if kind is not None:
        known = next((each for each in ROLLING if each == kind), None)
        if known is None:
            raise InputError([f"--rollout {name}: got a {kind}, expected one of {', '.join(ROLLING)}"])
        return known, short
    for among in (snapshot, manifests):
        found = [each for each in ROLLING if among is not None and _named(among, each, short)]
        if len(found) > 1:
            raise InputError([f"--rollout {name}: a {' and a '.join(found)} are called so, expected KIND/NAMESPACE/NAME"])
        if found:
            return found[0], short
    return "Deployment", short


def updated(snapshot: Snapshot, kind: str, name: str, manifests: Snapshot | None, edits: Edits | None = None) -> tuple[Snapshot, Any]:
    """Return the cluster with the manifests, and the workload as it is to be.

    Args:
        snapshot: The cluster.
        kind: Of the workload.
        name: ``[NAMESPACE/]NAME``.
        manifests: What holds the new template; None: it stays.
        edits: Those that are in the snapshot already: where they scale the workload, its manifest's replicas do not count.

    Raises:
        InputError: there is no such workload, or several, or the manifests contradict the cluster.
    """
    here = _named(snapshot, kind, name)
    if len(here) > 1:
        raise InputError([f"--rollout {name}: {len(here)} {kind}s are called so ({', '.join(map(_key, here))}), expected NAMESPACE/NAME"])
    if manifests is None:
        if not here:
            raise InputError(
                [f"--rollout {name}: no such {kind} in the snapshot{_NOR.get(kind, '')}, expected one, or NAME=FILE with its manifest"]
            )
        return snapshot, here[0]
    there = _named(manifests, kind, name)
    if here:
        there = [d for d in there if _key(d) == _key(here[0])] or _moved(manifests, kind, here[0])
    if len(there) != 1:
        raise InputError([f"--rollout {name}: {len(there)} {kind}s of the manifests are called so, expected one"])
    problems: list[str] = []
    merged = merge(snapshot, replace(manifests, workloads={kind: there}), problems)
    if problems:
        raise InputError(problems)
    found = next(d for d in _named(merged, kind, name) if _key(d) == _key(there[0]))
    if here and _scaled(here[0], edits) and found.spec is not None and here[0].spec is not None:
        found = msgspec.structs.replace(found, spec=msgspec.structs.replace(found.spec, replicas=here[0].spec.replicas))
    return merged, found


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
    """Manifests often name no namespace: then it is where the workload of the snapshot is."""
    found = [d for d in _named(manifests, kind, like.metadata.name or "") if (d.metadata.namespace or "default") == "default"]
    moved = [msgspec.structs.replace(d.metadata, namespace=like.metadata.namespace) for d in found]
    return [msgspec.structs.replace(d, metadata=metadata) for d, metadata in zip(found, moved, strict=True)]
