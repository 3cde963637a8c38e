"""What a rollout starts from: the Deployment with its new template, its pods in the cluster, and the pods of the new revision."""

from __future__ import annotations

from dataclasses import dataclass, replace

import msgspec

from models.documents.placement import Edits, Unmodelled
from models.kube import objects, workload_objects
from models.snapshot.snapshot import InputError, Snapshot
from models.workloads import claims
from models.workloads.deployment_rollout import Old, Pace, old_pods, pace
from models.workloads.expand import MOST_PODS, owned, revision_pods
from models.workloads.merge import merge


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


def read(snapshot: Snapshot, name: str, manifests: Snapshot | None, edits: Edits | None = None) -> Revision:
    """``name``: ``[NAMESPACE/]NAME`` of a Deployment; ``manifests``: what holds its new template (None: the template stays). ``edits``:
    those that are in the snapshot already: where they scale the Deployment, its manifest's replicas do not count.

    Raises:
        InputError: there is no such Deployment, or several; its strategy, template or other manifests cannot be used.
    """
    merged, deployment = _updated(snapshot, name, manifests)
    here = _named(snapshot, name)
    if manifests is not None and here and _scaled(here[0], edits) and deployment.spec is not None and here[0].spec is not None:
        deployment = msgspec.structs.replace(deployment, spec=msgspec.structs.replace(deployment.spec, replicas=here[0].spec.replicas))
    template = deployment.spec.template if deployment.spec is not None else None
    if template is not None and template.spec is not None and template.spec.nodeName:
        raise InputError([f"--rollout {name}: spec.template.spec.nodeName: its pods are not scheduled, expected none"])
    namespace, short = deployment.metadata.namespace or "default", deployment.metadata.name or ""
    steps = pace(deployment)
    if steps.replicas > MOST_PODS:
        raise InputError([f"--rollout {name}: spec.replicas: got {steps.replicas}, expected at most {MOST_PODS:,}"])
    old, going = old_pods(merged, owned(_undeleted(merged), "Deployment", namespace, short))
    new, _ = revision_pods(merged, deployment, steps.replicas)
    merged = merged.copy()
    unmodelled = claims.provide(merged, new, {}, ())
    return Revision(f"{namespace}/{short}", deployment, merged, steps, old, new, going, unmodelled)


def _scaled(deployment: workload_objects.Deployment, edits: Edits | None) -> bool:
    names = {text.rpartition("=")[0] for text in edits.replicas} if edits is not None else set()
    key, short = _key(deployment), deployment.metadata.name or ""
    return not names.isdisjoint({short, key, f"Deployment/{short}", f"Deployment/{key}"})


def _undeleted(snapshot: Snapshot) -> Snapshot:
    """The snapshot as if no pod were being deleted."""
    pods = [
        msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, deletionTimestamp=None))
        if objects.is_terminating(pod)
        else pod
        for pod in snapshot.pods
    ]
    return replace(snapshot, pods=pods)


def _updated(snapshot: Snapshot, name: str, manifests: Snapshot | None) -> tuple[Snapshot, workload_objects.Deployment]:
    """The cluster with the manifests, and the Deployment."""
    here = _named(snapshot, name)
    if len(here) > 1:
        raise InputError(
            [f"--rollout {name}: {len(here)} Deployments are called so ({', '.join(map(_key, here))}), expected NAMESPACE/NAME"]
        )
    if manifests is None:
        if not here:
            raise InputError([f"--rollout {name}: no such Deployment in the snapshot, expected one, or NAME=FILE with its manifest"])
        return snapshot, here[0]
    there = _named(manifests, name)
    if here:
        there = [d for d in there if _key(d) == _key(here[0])] or _moved(manifests, here[0])
    if len(there) != 1:
        raise InputError([f"--rollout {name}: {len(there)} Deployments of the manifests are called so, expected one"])
    problems: list[str] = []
    merged = merge(snapshot, replace(manifests, workloads={"Deployment": there}), problems)
    if problems:
        raise InputError(problems)
    return merged, next(d for d in _named(merged, name) if _key(d) == _key(there[0]))


def _key(deployment: workload_objects.Deployment) -> str:
    return f"{deployment.metadata.namespace or 'default'}/{deployment.metadata.name or ''}"


def _named(snapshot: Snapshot, name: str) -> list[workload_objects.Deployment]:
    found: list[workload_objects.Deployment] = snapshot.workloads.get("Deployment", [])
    return [d for d in found if name in (_key(d), d.metadata.name)]


def _moved(manifests: Snapshot, like: workload_objects.Deployment) -> list[workload_objects.Deployment]:
    """Manifests often name no namespace: then it is where the Deployment of the snapshot is."""
    found = [d for d in _named(manifests, like.metadata.name or "") if (d.metadata.namespace or "default") == "default"]
    moved = [msgspec.structs.replace(d.metadata, namespace=like.metadata.namespace) for d in found]
    return [msgspec.structs.replace(d, metadata=metadata) for d, metadata in zip(found, moved, strict=True)]
