"""The API server's validation of how controllers replace and count their pods: update strategies and counts of Jobs, on plain data.

Sources: pkg/apis/{apps,batch}/validation/validation.go of https://github.com/kubernetes/kubernetes/tree/v1.36.2,
and the defaults of pkg/apis/apps/v1/defaults.go.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, TypeGuard

from kubestow.models.kube.validation.new_pods import Refused, mapping
from kubestow.models.kube.validation.texts import forbidden, invalid, required, unsupported

_PERCENT: Final = re.compile(r"[0-9]{1,9}%\Z", re.ASCII)
_NONNEGATIVE: Final = "must be greater than or equal to 0"
#: Fields of each kind that hold seconds, retries or revisions.
_COUNTS: Final = {
    "Deployment": ("minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"),
    "ReplicaSet": ("minReadySeconds",),
    "ReplicationController": ("minReadySeconds",),
    "DaemonSet": ("minReadySeconds", "revisionHistoryLimit"),
    "StatefulSet": ("minReadySeconds", "revisionHistoryLimit"),
    "Job": ("activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished", "backoffLimitPerIndex", "maxFailedIndexes"),
    "CronJob": ("startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"),
}
#: Default of progressDeadlineSeconds of a Deployment.
_PROGRESS_SECONDS: Final = 600
#: Largest parallelism of a Job with completionMode Indexed, in pods.
_MAX_INDEXED_PARALLELISM: Final = 100_000
_ROLLING: Final = "RollingUpdate"


def refused(kind: str, spec: Mapping[str, Any], path: str = "spec") -> Refused:
    """Yield the fields of a controller's spec that the server rejects, with its reasons."""
    for field in _COUNTS.get(kind, ()):
        value = spec.get(field)
        if _is_int(value) and value < 0:
            yield f"{path}.{field}", invalid(value, _NONNEGATIVE)
    if kind == "Deployment":
        yield from _deployment(spec, path)
    elif kind == "DaemonSet":
        yield from _daemon_set(spec, path)
    elif kind == "StatefulSet":
        yield from _stateful_set(spec, path)
    elif kind == "Job":
        yield from _job(spec, path)
    elif kind == "CronJob":
        policy = spec.get("concurrencyPolicy")
        if isinstance(policy, str) and policy not in ("", "Allow", "Forbid", "Replace"):
            yield f"{path}.concurrencyPolicy", unsupported(policy, ("Allow", "Forbid", "Replace"))
        yield from refused("Job", mapping(mapping(spec.get("jobTemplate")).get("spec")), f"{path}.jobTemplate.spec")


def _deployment(spec: Mapping[str, Any], path: str) -> Refused:
    strategy, where = mapping(spec.get("strategy")), f"{path}.strategy"
    kind = strategy.get("type") or _ROLLING
    rolling, at = mapping(strategy.get("rollingUpdate")), f"{where}.rollingUpdate"
    if kind == "Recreate":
        if strategy.get("rollingUpdate") is not None:
            yield at, forbidden("may not be specified when strategy `type` is 'Recreate'")
    elif kind != _ROLLING:
        yield where, unsupported(kind, ("Recreate", _ROLLING))
    else:
        unavailable, surge = _amount(rolling, "maxUnavailable", 25), _amount(rolling, "maxSurge", 25)
        if unavailable == 0 and surge == 0:
            yield f"{at}.maxUnavailable", invalid(rolling.get("maxUnavailable"), "may not be 0 when `maxSurge` is 0")
        yield from _at_most_all(rolling, "maxUnavailable", at)
    ready, deadline = spec.get("minReadySeconds") or 0, spec.get("progressDeadlineSeconds")
    deadline = _PROGRESS_SECONDS if deadline is None else deadline
    if _is_int(ready) and _is_int(deadline) and deadline <= ready:
        yield f"{path}.progressDeadlineSeconds", invalid(deadline, "must be greater than minReadySeconds")


def _daemon_set(spec: Mapping[str, Any], path: str) -> Refused:
    """Yield faults of a DaemonSet, which may use surge or unavailability but not both. maxUnavailable defaults to 1,
    also next to maxSurge.
    """
    strategy, where = mapping(spec.get("updateStrategy")), f"{path}.updateStrategy"
    kind = strategy.get("type") or _ROLLING
    if kind not in (_ROLLING, "OnDelete"):
        yield where, unsupported(kind, (_ROLLING, "OnDelete"))
    if kind != _ROLLING:
        return
    rolling, at = mapping(strategy.get("rollingUpdate")), f"{where}.rollingUpdate"
    unavailable, surge = _amount(rolling, "maxUnavailable", 1), _amount(rolling, "maxSurge", 0)
    if unavailable and surge:
        yield f"{at}.maxSurge", invalid(rolling.get("maxSurge"), "may not be set when maxUnavailable is non-zero")
    elif unavailable == 0 and surge == 0:
        yield f"{at}.maxUnavailable", required("cannot be 0 when maxSurge is 0")
    for field in ("maxUnavailable", "maxSurge"):
        yield from _at_most_all(rolling, field, at)


def _stateful_set(spec: Mapping[str, Any], path: str) -> Refused:
    policy = spec.get("podManagementPolicy")
    if isinstance(policy, str) and policy not in ("", "OrderedReady", "Parallel"):
        yield f"{path}.podManagementPolicy", invalid(policy, "must be 'OrderedReady' or 'Parallel'")
    strategy, where = mapping(spec.get("updateStrategy")), f"{path}.updateStrategy"
    kind = strategy.get("type") or _ROLLING
    rolling, at = mapping(strategy.get("rollingUpdate")), f"{where}.rollingUpdate"
    if kind == "OnDelete":
        if strategy.get("rollingUpdate") is not None:
            yield at, invalid(dict(rolling), f"only allowed for updateStrategy '{_ROLLING}'")
    elif kind != _ROLLING:
        yield where, invalid(dict(strategy), f"must be '{_ROLLING}' or 'OnDelete'")
    elif _is_int(rolling.get("partition")) and rolling["partition"] < 0:
        yield f"{at}.partition", invalid(rolling["partition"], _NONNEGATIVE)
    retention = mapping(spec.get("persistentVolumeClaimRetentionPolicy"))
    for field in ("whenDeleted", "whenScaled"):
        choice = retention.get(field)
        if isinstance(choice, str) and choice not in ("", "Retain", "Delete"):
            yield f"{path}.persistentVolumeClaimRetentionPolicy.{field}", unsupported(choice, ("Retain", "Delete"))


def _job(spec: Mapping[str, Any], path: str) -> Refused:
    mode, completions = spec.get("completionMode"), spec.get("completions")
    indexed = mode == "Indexed"
    if isinstance(mode, str) and mode not in ("Indexed", "NonIndexed"):
        yield f"{path}.completionMode", unsupported(mode, ("NonIndexed", "Indexed"))
    for field in ("backoffLimitPerIndex", "maxFailedIndexes"):
        if _is_int(spec.get(field)) and not indexed:
            yield f"{path}.{field}", invalid(spec[field], "requires indexed completion mode")
    failed = spec.get("maxFailedIndexes")
    if _is_int(failed) and spec.get("backoffLimitPerIndex") is None:
        yield f"{path}.backoffLimitPerIndex", required("when maxFailedIndexes is specified")
    if indexed and _is_int(failed) and _is_int(completions) and failed > completions:
        yield f"{path}.maxFailedIndexes", invalid(failed, "must be less than or equal to completions")
    parallel = spec.get("parallelism")
    if indexed and _is_int(parallel) and parallel > _MAX_INDEXED_PARALLELISM:
        reason = f"must be less than or equal to {_MAX_INDEXED_PARALLELISM} when completion mode is Indexed"
        yield f"{path}.parallelism", invalid(parallel, reason)
    restart = mapping(mapping(spec.get("template")).get("spec")).get("restartPolicy")
    if spec.get("podFailurePolicy") is not None and restart == "OnFailure":
        reason = 'only "Never" is supported when podFailurePolicy is specified'
        yield f"{path}.template.spec.restartPolicy", invalid(restart, reason)


def _is_int(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _amount(rolling: Mapping[str, Any], field: str, default: int) -> int | None:
    """Return a number of pods or a percentage; None for values that typed decoding rejects."""
    value = rolling.get(field)
    if value is None:
        return default
    if isinstance(value, str) and _PERCENT.match(value):
        return int(value[:-1])
    return value if _is_int(value) and value >= 0 else None


def _at_most_all(rolling: Mapping[str, Any], field: str, path: str) -> Refused:
    value = rolling.get(field)
    if isinstance(value, str) and _PERCENT.match(value) and int(value[:-1]) > 100:
        yield f"{path}.{field}", invalid(value, "must not be greater than 100%")
