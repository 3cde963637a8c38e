"""Placement of the pods of Helm hooks, one hook after another, before or after the release.

A hook before the release runs in the cluster without the release. A hook after it runs next to the release's pods.
Helm has deleted the hook of an earlier release, unless the deletion policy says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from kubestow.audit.gate.placing import PlacingOutcome
from kubestow.audit.gate.stepping import FitVerdict
from kubestow.models.helm.hooks import Hook, is_hook, running_before
from kubestow.models.kube import kinds
from kubestow.models.kube.objects import pod_key
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.models.workloads.expand import owned
from kubestow.models.workloads.ownership import named

_THERE: Final = "metadata.annotations: the cluster has this hook already, expected helm.sh/hook-delete-policy before-hook-creation"
_NOT_RUN: Final = "Helm hooks that run after the release are not judged: the release itself does not fit"

#: Function that places the pods of manifests in a cluster.
Judge = Callable[[Snapshot, Snapshot], PlacingOutcome]


@dataclass
class JudgedHooks:
    """The verdicts on the hooks of manifests."""

    verdicts: list[FitVerdict]
    notes: list[str]


def judge_hooks(cluster: Snapshot, manifests: Snapshot, release: Sequence[FitVerdict], judge: Judge) -> JudgedHooks:
    """Judge each hook that does not stay, one at a time. Hooks that stay are judged with the release.

    Args:
        cluster: The cluster without the release.
        manifests: The release, with its hooks.
        release: The verdicts on the release.
        judge: Places the pods of manifests in a cluster.

    Raises:
        InputError: An API server would reject the manifests.
    """
    fits = all(verdict.fit == "fits" for verdict in release)
    found, verdicts_by_ref = JudgedHooks([], []), dict[str, FitVerdict]()
    for hook in manifests.hooks:
        if hook.stays:
            continue
        if hook.time == "after" and not fits:
            found.notes = [_NOT_RUN]
            continue
        start = _without(cluster, hook) if hook.replaces else cluster
        verdicts = judge(start, _with(manifests, hook)).verdicts
        verdict = _verdict(hook, verdicts)
        if verdict is None:
            continue
        if not hook.replaces and _exists(cluster, hook):
            verdict = replace(verdict, fit="does not fit", placed=0, cause=_THERE, blame=(("", _THERE),), fix=None)
        before = verdicts_by_ref.get(hook.ref)
        if before is None or before.fit == "fits":
            verdicts_by_ref[hook.ref] = verdict
    found.verdicts = list(verdicts_by_ref.values())
    return found


def _verdict(hook: Hook, verdicts: Sequence[FitVerdict]) -> FitVerdict | None:
    """Return the verdict on a hook that was placed together with other objects.

    None if the verdicts lack the hook because another object of the manifests creates it. If the hook fits and another
    object does not, the hook gets that object's result: a hook must not displace the release.
    """
    mine = next((verdict for verdict in verdicts if verdict.change.ref == hook.ref), None)
    if mine is None:
        return None
    other = next((verdict for verdict in verdicts if verdict.fit != "fits"), mine)
    if mine.fit != "fits" or other.fit == "fits":
        return mine
    return replace(mine, fit=other.fit, placed=0, cause=f"next to the release: {other.change.ref}: {other.cause}", fix=other.fix)


def _with(manifests: Snapshot, hook: Hook) -> Snapshot:
    """Return the manifests that exist when a hook runs: before the release, only its hooks."""
    merged = manifests.copy()
    running = running_before(manifests.hooks, hook)
    objects: list[Any] = [hook.obj, *(each.obj for each in running if hook.time == "before" or not each.stays)]
    if hook.time == "before":
        merged.pods, merged.workloads = [], {}
        for kind in kinds.KINDS.values():
            if kind.name != "Namespace" and kind.name not in kinds.WORKLOADS:
                _keep_hooks(merged.collection(kind.name))
    for obj in objects:
        kind_name = type(obj).__name__
        listed = merged.pods if kind_name == "Pod" else merged.workloads.setdefault(kind_name, [])
        listed.append(obj)
    return merged


def _keep_hooks(collection: Any) -> None:
    if isinstance(collection, dict):
        for key in [key for key, obj in collection.items() if not is_hook(obj, "before")]:
            del collection[key]
    else:
        collection[:] = [obj for obj in collection if is_hook(obj, "before")]


def _exists(cluster: Snapshot, hook: Hook) -> bool:
    namespace, name = hook.obj.metadata.namespace or "default", hook.obj.metadata.name or ""
    if hook.kind == "Pod":
        return any(pod_key(pod) == f"{namespace}/{name}" for pod in cluster.pods)
    return named(cluster, hook.kind, namespace, name) is not None


def _without(cluster: Snapshot, hook: Hook) -> Snapshot:
    """Return the cluster without the object that has the hook's name, and without its pods."""
    if not _exists(cluster, hook):
        return cluster
    namespace, name = hook.obj.metadata.namespace or "default", hook.obj.metadata.name or ""
    remaining = cluster.copy()
    if hook.kind == "Pod":
        remaining.pods = [pod for pod in cluster.pods if pod_key(pod) != f"{namespace}/{name}"]
        return remaining
    gone = set(owned(cluster, hook.kind, namespace, name))
    remaining.pods = [pod for i, pod in enumerate(cluster.pods) if i not in gone]
    old = named(cluster, hook.kind, namespace, name)
    remaining.workloads[hook.kind] = [obj for obj in cluster.workloads[hook.kind] if obj is not old]
    return remaining
