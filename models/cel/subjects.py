"""Devices in the form that expressions read."""

from __future__ import annotations

import threading
from typing import Any, Final

from kubestow.models.cel import environment, semantic_versions, values
from kubestow.models.cel.condition import CelError
from kubestow.models.kube import quantity
from kubestow.models.kube.device_objects import Device, DeviceAttribute
from kubestow.models.kube.quantity import QuantityError

#: Largest number of cached devices of different content. The cache is then cleared.
_MAX_CACHED_DEVICES: Final = 200_000


class _Subjects(threading.local):
    """Cached devices per thread. Our functions fail on values that another thread has created."""

    def __init__(self) -> None:
        self.made: dict[tuple[bytes, bool], Any] = {}


_subjects: Final = _Subjects()


def subject(content: bytes, driver: str, device: Device, list_attributes: bool) -> Any:
    """Return the activation on which an expression is evaluated for a device. ``content`` is equal for equal devices.

    Raises:
        CelError: a value of the device cannot be read.
    """
    made = _subjects.made
    activation = made.get((content, list_attributes))
    if activation is None:
        if len(made) >= _MAX_CACHED_DEVICES:
            made.clear()
        activation = environment.evaluation().Activation({"device": _value(driver, device, list_attributes)})
        made[content, list_attributes] = activation
    return activation


def _value(driver: str, device: Device, list_attributes: bool) -> dict[str, object]:
    attributes: dict[str, dict[str, object]] = {}
    for name, attribute in (device.attributes or {}).items():
        domain, identifier = _qualified(name, driver)
        attributes.setdefault(domain, {})[identifier] = _attribute(name, attribute, list_attributes)
    capacity: dict[str, dict[str, object]] = {}
    for name, entry in (device.capacity or {}).items():
        domain, identifier = _qualified(name, driver)
        try:
            capacity.setdefault(domain, {})[identifier] = values.quantity(quantity.parse(entry.value))
        except QuantityError as error:
            raise CelError(f"capacity {name}: {error}") from None
    return {
        "driver": driver,
        "attributes": attributes,
        "capacity": capacity,
        "allowMultipleAllocations": bool(device.allowMultipleAllocations),
    }


def _qualified(name: str, driver: str) -> tuple[str, str]:
    domain, slash, identifier = name.partition("/")
    return (domain, identifier) if slash else (driver, name)


def _attribute(name: str, attribute: DeviceAttribute, list_attributes: bool) -> object:
    try:
        if list_attributes:
            for items in (attribute.ints, attribute.bools, attribute.strings):
                if items is not None:
                    return list(items)
            if attribute.versions is not None:
                return [values.semver(semantic_versions.parse(version)) for version in attribute.versions]
        for value in (attribute.int, attribute.bool, attribute.string):
            if value is not None:
                return value
        if attribute.version is not None:
            return values.semver(semantic_versions.parse(attribute.version))
    except ValueError as error:
        raise CelError(f"attribute {name}: {error}") from None
    raise CelError(f"attribute {name}: unsupported attribute value")
