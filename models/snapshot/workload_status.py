"""The status of workloads, reduced to the fields that are read and do not differ between two captures of an object."""

from __future__ import annotations

from typing import Any

import msgspec

from kubestow.models.kube.workload_objects import WorkloadStatus


def trim(obj: Any) -> None:
    """Reduce a workload's status to the number of pods and failures to create more; drop an empty one, as in manifests."""
    status = getattr(obj, "status", None)
    if not isinstance(status, WorkloadStatus):
        return
    failures = [condition for condition in status.conditions or () if condition.type == "ReplicaFailure"]
    given = status != WorkloadStatus()
    obj.status = WorkloadStatus(replicas=status.replicas or 0, conditions=failures or None) if given else None


def lasting(obj: Any) -> Any:
    """Return an object without the status that its controller updates continually."""
    counted = isinstance(getattr(obj, "status", None), WorkloadStatus)
    return msgspec.structs.replace(obj, status=None) if counted else obj
