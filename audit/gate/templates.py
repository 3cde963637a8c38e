"""Comparison of the pod template of a manifest with that of the cluster, as server-side apply and the controllers
compare them.

API server defaults, empty fields and labels added by a Job's controller are ignored. Parts that a redacted snapshot
lacks are not compared; :func:`unknown` names them. Annotations are compared by digests, which captures keep.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kubestow.models.kube.objects import Container
from kubestow.models.workloads.ownership import HASH
from kubestow.models.workloads.template import DIGESTS, annotation_digest, annotation_digests, essence, read_digests
from kubestow.models.workloads.view import WorkloadView

#: Labels that the API server adds to the template of a Job (pkg/registry/batch/job/strategy.go, generateSelector).
_OF_JOBS: Final = ("controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name")
#: Annotations that other tools add to templates. Applying a manifest without them keeps them, because another field
#: manager owns them.
_OF_OTHERS: Final = (
    "kubectl.kubernetes.io/restartedAt",
    "reloader.stakater.com/last-reloaded-from",
    "cattle.io/timestamp",
)
#: Parts of templates that every redacted snapshot lacks.
_REDACTED: Final = "images, environment, commands, probes and other fields that placement does not read"


def same(new: WorkloadView, old: WorkloadView) -> bool:
    """Return True if applying the manifest's template would not change the known parts of the cluster's template."""
    return _alike(new, old) and _annotations(new, old, _OF_OTHERS)


def same_revision(one: WorkloadView, other: WorkloadView) -> bool:
    """Return True if the known parts of two objects' templates are equal."""
    return _alike(one, other) and _annotations(one, other, ())


def unknown(workload: WorkloadView) -> str:
    """Return the unknown parts of a workload's template, as text. Empty if everything is known."""
    if not _redacted(workload):
        return ""
    return _REDACTED if _digests(workload) is not None else f"annotations, {_REDACTED}"


def _alike(new: WorkloadView, old: WorkloadView) -> bool:
    generated = (HASH, *_OF_JOBS) if new.kind == "Job" else (HASH,)
    if essence(new.template, generated) != essence(old.template, generated):
        return False
    return all(before in (None, now) for before, now in zip(_images(old), _images(new), strict=True))


def _annotations(new: WorkloadView, old: WorkloadView, of_others: Sequence[str]) -> bool:
    stated, known = _digests(new), _digests(old)
    if stated is None:
        return True
    if known is None:  # a capture without digests: only the kept annotations are known
        kept = (old.template.metadata.annotations if old.template.metadata is not None else None) or {}
        found = {annotation_digest("", key): annotation_digest("", key, value) if value else None for key, value in kept.items()}
        return all(key in stated and value in (None, stated[key]) for key, value in found.items())
    left_alone = {annotation_digest("", key) for key in of_others}
    return all(known.get(key) == value for key, value in stated.items()) and all(key in stated or key in left_alone for key in known)


def _digests(workload: WorkloadView) -> Mapping[str, str] | None:
    """Return digests of the annotations of a template, or None if unknown."""
    written = (workload.obj.metadata.annotations or {}).get(DIGESTS)
    if written is not None:
        return read_digests(written)
    return None if _redacted(workload) else annotation_digests(workload.template)


def _containers(workload: WorkloadView) -> Sequence[Container]:
    return [*(workload.spec.containers or ()), *(workload.spec.initContainers or ())]


def _images(workload: WorkloadView) -> Sequence[str | None]:
    return [container.image for container in _containers(workload)]


def _redacted(workload: WorkloadView) -> bool:
    """Return True if images are missing, which every template on an API server has: the capture has removed them."""
    return None in _images(workload)
