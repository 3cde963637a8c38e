"""How amounts and shares are written: the same in tables, on the page (whose script does as this module does) and in messages."""

from __future__ import annotations

from typing import Final

from kubestow.models.kube import quantity

_BYTES: Final = frozenset({"memory", "ephemeral-storage", "storage"})


def percent(used: int, total: int) -> int:
    """Return a share in per cent, rounded to the nearest; 100 only for what is exactly full, more only for what is over."""
    if total <= 0:
        return 101 if used > 0 else 0
    nearest = (200 * used + total) // (2 * total)
    return min(99, nearest) if used < total else max(101, nearest) if used > total else 100


def cpu(millis: int) -> str:
    """Return mCPU, below a core as Kubernetes writes them, otherwise in cores: ``250m``, ``1.25``, ``1,290``."""
    return quantity.format_cpu(millis) if abs(millis) < 1_000 else quantity.rounded(millis, 1_000)


def amount(resource: str, value: int) -> str:
    """Return an amount of a resource in base units (mCPU, bytes, numbers) for people: ``250m``, ``1.5Gi``, ``1,200``."""
    if resource == "cpu":
        return cpu(value)
    large = abs(value) >= 1024 and (resource in _BYTES or resource.startswith("hugepages-"))
    return quantity.format_bytes(value) if large else f"{value:,}"
