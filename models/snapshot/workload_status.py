"""The status of workloads: only what is read of it, and nothing that tells two captures of one object apart."""

from __future__ import annotations

from typing import Any

import msgspec

from kubestow.models.kube.workload_objects import WorkloadStatus


def trim(obj: Any) -> None:
    """Leave of a workload's status the number of pods and failures to create more; nothing of one that says nothing, as in manifests."""
    status = getattr(obj, "status", None)
    if not isinstance(status, WorkloadStatus):
        return
    failures = [condition for condition in status.conditions or () if condition.type == "ReplicaFailure"]
    given = status != WorkloadStatus()
    obj.status = WorkloadStatus(replicas=status.replicas or 0, conditions=failures or None) if given else None


def lasting(obj: Any) -> Any:
    """Return an object without what its controller counts from moment to moment."""
    counted = isinstance(getattr(obj, "status", None), WorkloadStatus)
    return msgspec.structs.replace(obj, status=None) if counted else obj
