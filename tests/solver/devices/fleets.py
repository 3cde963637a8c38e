"""Small fleets of nodes with GPUs, and pods that request some."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tests.objects import node, pod

Object = dict[str, Any]
DRIVER: Final = "gpu.example.com"
API: Final = "resource.k8s.io/v1"


def fleet(nodes: int, gpus: int, requests: Sequence[int]) -> list[Object]:
    """``nodes`` nodes of ``gpus`` GPUs each, and a pod for each number in ``requests``."""
    found: list[Object] = [
        {
            "apiVersion": API, "kind": "DeviceClass", "metadata": {"name": "gpu"},
            "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]},
        }
    ]  # fmt: skip
    for n in range(nodes):
        name = f"n{n}"
        devices = [{"name": f"gpu-{i}"} for i in range(gpus)]
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": devices}
        found += [node(name, cpu="64"), {"apiVersion": API, "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}]
    for i, count in enumerate(requests):
        asking = pod(f"p{i}")
        asking["metadata"]["uid"] = f"uid-{i}"
        asking["spec"]["resourceClaims"] = [{"name": "gpus", "resourceClaimTemplateName": f"gpus-{count}"}]
        asking["status"] = {"resourceClaimStatuses": [{"name": "gpus", "resourceClaimName": f"p{i}-gpus"}]}
        owner = {"apiVersion": "v1", "kind": "Pod", "name": f"p{i}", "uid": f"uid-{i}", "controller": True}
        request = {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}}
        claim = {"name": f"p{i}-gpus", "namespace": "default", "ownerReferences": [owner]}
        found += [asking, {"apiVersion": API, "kind": "ResourceClaim", "metadata": claim, "spec": {"devices": {"requests": [request]}}}]
    return found
