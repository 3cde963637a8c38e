"""Notation of amounts and percentages in tables, on the page (whose script does the same) and in messages."""

from __future__ import annotations

from typing import Final

from kubestow.models.kube import quantity

_BYTES: Final = frozenset({"memory", "ephemeral-storage", "storage"})


def percent(used: int, total: int) -> int:
    """Return a rounded percentage that is 100 only for exactly full, and above 100 only for overcommitted."""
    if total <= 0:
        return 101 if used > 0 else 0
    nearest = (200 * used + total) // (2 * total)
    return min(99, nearest) if used < total else max(101, nearest) if used > total else 100


def cpu(millis: int) -> str:
    """Return mCPU as Kubernetes writes them below one core, otherwise in cores: ``250m``, ``1.25``, ``1,290``."""
    return quantity.format_cpu(millis) if abs(millis) < 1_000 else quantity.rounded(millis, 1_000)


def amount(resource: str, value: int) -> str:
    """Return a readable amount of a resource given in base units (mCPU, bytes, numbers): ``250m``, ``1.5Gi``, ``1,200``."""
    if resource == "cpu":
        return cpu(value)
    large = abs(value) >= 1024 and (resource in _BYTES or resource.startswith("hugepages-"))
    return quantity.format_bytes(value) if large else f"{value:,}"
