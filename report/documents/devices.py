"""Text forms of claimed devices, for tables, comma-separated values and the page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from kubestow.models.documents.placement import DeviceResult


def named(device: DeviceResult) -> str:
    """Return driver, pool and name of a device, as in the claim's status, with the allocated part.

    Example: ``gpu.example.com/n1/gpu-0 (10Gi memory)``.
    """
    amounts = [f"{amount} {name}" for name, amount in sorted(device.consumedCapacity.items())]
    amounts += ["a share"] if device.shareID is not None and not amounts else []
    amounts += ["admin access"] if device.adminAccess else []
    return f"{device.driver}/{device.pool}/{device.device}" + (f" ({', '.join(amounts)})" if amounts else "")


def listed(devices: Iterable[DeviceResult]) -> str:
    """Return all devices of a pod by request: ``gpu: gpu.example.com/n1/gpu-0, gpu.example.com/n1/gpu-1``."""
    requests: dict[tuple[str, str], list[str]] = {}
    for device in devices:
        requests.setdefault((device.claim, device.request), []).append(named(device))
    return "; ".join(f"{request}: {', '.join(names)}" for (_, request), names in requests.items())


def counted(devices: Iterable[DeviceResult]) -> str:
    """Return the number of devices of a pod by driver: ``2 gpu.example.com, 1 nic.example.com``."""
    return ", ".join(f"{count} {driver}" for driver, count in sorted(Counter(device.driver for device in devices).items()))
