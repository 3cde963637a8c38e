"""The encoding of claims for devices, for :mod:`solver.rules.dynamic_resources`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DeviceShortage:
    """The topic of rows over devices: requests of the classes compete for devices of these drivers, for the counters of their pool, or for
    the capacity of shared ones. ``pool``: its name where several nodes share it; None: each node has devices of its own, and the row is
    about one node."""

    drivers: tuple[str, ...]
    pool: str | None = None


@dataclass(frozen=True, slots=True)
class SharedClaim:
    """The topic of rows over a claim that pods share (``namespace/name``): it is allocated once, and all its pods are where its devices
    serve."""

    key: str
