"""Values that CEL's library does not know: versions, quantities, URLs, addresses. Inside expressions each is a message of one type.

Equal values are equal messages, so that comparisons inside lists and maps need nothing of their own.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Final, TypeAlias

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from models.cel.semantic_versions import SemanticVersion

#: An instance of one of the classes below.
Opaque: TypeAlias = Any

SEMVER: Final = "kubernetes.Semver"
QUANTITY: Final = "kubernetes.Quantity"
URL: Final = "kubernetes.URL"
FORMAT: Final = "kubernetes.NamedFormat"
IP: Final = "net.IP"
CIDR: Final = "net.CIDR"
OPAQUE: Final = (SEMVER, QUANTITY, URL, FORMAT, IP, CIDR)

_STRING: Final = 9
_BOOL: Final = 8
_STRUCT: Final = ".google.protobuf.Struct"


def _pool() -> Any:
    from google.protobuf import struct_pb2

    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(struct_pb2.DESCRIPTOR.serialized_pb)
    for index, name in enumerate(OPAQUE):
        package, _, short = name.rpartition(".")
        file = descriptor_pb2.FileDescriptorProto(name=f"kubestow/value{index}.proto", package=package, syntax="proto3")
        message = file.message_type.add(name=short)
        message.field.add(name="text", number=1, label=1, type=_STRING)
        message.field.add(name="computed", number=2, label=1, type=_BOOL)
        pool.AddSerializedFile(file.SerializeToString())
    # The type that `device` is checked against where it is not followed by a field's name, as in cel.bind(d, device, …).
    for gate, shared in (("", False), ("WithShares", True)):
        file = descriptor_pb2.FileDescriptorProto(
            name=f"kubestow/device{gate}.proto", package="kubernetes", syntax="proto3", dependency=["google/protobuf/struct.proto"]
        )
        message = file.message_type.add(name=f"DRADevice{gate}")
        message.field.add(name="driver", number=1, label=1, type=_STRING)
        message.field.add(name="attributes", number=2, label=1, type=11, type_name=_STRUCT)
        message.field.add(name="capacity", number=3, label=1, type=11, type_name=_STRUCT)
        if shared:
            message.field.add(name="allowMultipleAllocations", number=4, label=1, type=_BOOL)
        pool.AddSerializedFile(file.SerializeToString())
    return pool


POOL: Final = _pool()
_CLASSES: Final = {name: message_factory.GetMessageClass(POOL.FindMessageTypeByName(name)) for name in OPAQUE}


def opaque(kind: str, text: str, computed: bool = False) -> Opaque:
    """Return a value of one of :data:`OPAQUE`; ``text`` is canonical, equal for equal values."""
    return _CLASSES[kind](text=text, computed=computed)


def kind_of(value: object) -> str | None:
    """Return which of :data:`OPAQUE` a value is, or None."""
    return next((kind for kind, class_ in _CLASSES.items() if type(value) is class_), None)


def semver(version: SemanticVersion) -> Opaque:
    """Return a version as a value."""
    return opaque(SEMVER, f"{version.major}.{version.minor}.{version.patch}" + (f"-{version.prerelease}" if version.prerelease else ""))


def quantity(amount: Fraction, computed: bool = False) -> Opaque:
    """Return a quantity as a value. ``computed``: of add or sub, which upstream compares otherwise."""
    return opaque(QUANTITY, str(amount), computed)


def amount_of(value: Opaque) -> Fraction:
    """Return the exact amount of a quantity."""
    return Fraction(value.text)
