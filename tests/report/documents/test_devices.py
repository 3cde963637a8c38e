"""Devices in words."""

from __future__ import annotations

from kubestow.models.documents.placement import DeviceResult
from kubestow.report.documents.devices import counted, listed, named

WHOLE = DeviceResult("a/p/c", "gpus", "gpu.example.com", "n1", "gpu-0")
SHARE = DeviceResult("a/p/c", "share/small", "gpu.example.com", "n1", "gpu-1", shareID="x", consumedCapacity={"memory": "10Gi"})
BARE_SHARE = DeviceResult("a/p/d", "gpus", "nic.example.com", "n1", "nic", shareID="y")
ADMIN = DeviceResult("a/p/d", "watch", "gpu.example.com", "n1", "gpu-0", adminAccess=True)


def test_a_device_is_named_as_in_the_status_of_a_claim_with_what_is_taken_of_it() -> None:
    assert named(WHOLE) == "gpu.example.com/n1/gpu-0"
    assert named(SHARE) == "gpu.example.com/n1/gpu-1 (10Gi memory)"
    assert named(BARE_SHARE) == "nic.example.com/n1/nic (a share)"
    assert named(ADMIN) == "gpu.example.com/n1/gpu-0 (admin access)"


def test_devices_are_listed_by_request_also_where_two_claims_name_theirs_alike() -> None:
    assert listed([WHOLE, SHARE, BARE_SHARE]) == (
        "gpus: gpu.example.com/n1/gpu-0; share/small: gpu.example.com/n1/gpu-1 (10Gi memory); gpus: nic.example.com/n1/nic (a share)"
    )


def test_devices_are_counted_by_driver() -> None:
    assert counted([BARE_SHARE, WHOLE, SHARE]) == "2 gpu.example.com, 1 nic.example.com"
    assert counted([]) == ""
