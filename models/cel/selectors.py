"""Device selectors: an expression against one device."""

from __future__ import annotations

from models.kube.device_objects import Device
from models.kube.feature_gates import FeatureGates


class CelError(Exception):
    """An expression does not compile, or fails on a device; the message says why, in one line."""


class DeviceSelector:
    """One compiled expression."""

    def matches(self, driver: str, device: Device) -> bool:
        """Return whether the expression holds for a device of a driver.

        Raises:
            CelError: it fails at run time, or its result is no bool.
        """
        raise NotImplementedError


def available() -> bool:
    """Return whether there is a library that evaluates expressions on this platform."""
    raise NotImplementedError


def compile_selector(expression: str, gates: FeatureGates) -> DeviceSelector:
    """Return an expression's selector; equal expressions share one.

    Raises:
        CelError: it does not compile.
    """
    raise NotImplementedError
