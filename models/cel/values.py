"""Values that the CEL library lacks: versions and quantities. Inside expressions each is a message of its own type.

Equal values are equal messages, so that comparisons inside lists and maps need no special code.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Final, TypeAlias

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, struct_pb2

from kubestow.models.cel.condition import no_overload
from kubestow.models.cel.semantic_versions import SemanticVersion

#: An instance of one of the classes below.
Opaque: TypeAlias = Any

SEMVER: Final = "kubernetes.Semver"
QUANTITY: Final = "kubernetes.Quantity"
OPAQUE: Final = (SEMVER, QUANTITY)

_STRING: Final = 9
_BOOL: Final = 8
_MESSAGE: Final = 11
_STRUCT: Final = ".google.protobuf.Struct"


def _file(package: str, name: str, fields: list[tuple[str, int, str | None]]) -> bytes:
    file = descriptor_pb2.FileDescriptorProto(name=f"kubestow/{name}.proto", package=package, syntax="proto3")
    message = file.message_type.add(name=name)
    for number, (field, kind, type_name) in enumerate(fields, start=1):
        message.field.add(name=field, number=number, label=1, type=kind, type_name=type_name)
        if type_name is not None and struct_pb2.DESCRIPTOR.name not in file.dependency:
            file.dependency.append(struct_pb2.DESCRIPTOR.name)
    return bytes(file.SerializeToString())


def _pool(*files: bytes) -> Any:
    pool = descriptor_pool.DescriptorPool()
    for file in (struct_pb2.DESCRIPTOR.serialized_pb, *files):
        pool.AddSerializedFile(file)
    return pool


#: Message types of the values during evaluation.
POOL: Final = _pool(
    *(_file(kind.rpartition(".")[0], kind.rpartition(".")[2], [("text", _STRING, None), ("computed", _BOOL, None)]) for kind in OPAQUE)
)
_DEVICE: Final = [("driver", _STRING, None), ("attributes", _MESSAGE, _STRUCT), ("capacity", _MESSAGE, _STRUCT)]
#: Message types of ``device`` for the checker where no field name follows, as in cel.bind(d, device, …).
DEVICE_POOL: Final = _pool(
    _file("kubernetes", "DRADevice", _DEVICE),
    _file("kubernetes", "DRADeviceWithShares", [*_DEVICE, ("allowMultipleAllocations", _BOOL, None)]),
)
_CLASSES: Final = {name: message_factory.GetMessageClass(POOL.FindMessageTypeByName(name)) for name in OPAQUE}


def opaque(kind: str, text: str, computed: bool = False) -> Opaque:
    """Return a value of one of the kinds :data:`OPAQUE`. ``text`` is canonical, equal for equal values."""
    return _CLASSES[kind](text=text, computed=computed)


def kind_of(value: object) -> str | None:
    """Return the kind of a value among :data:`OPAQUE`, or None."""
    return next((kind for kind, class_ in _CLASSES.items() if type(value) is class_), None)


def text_of(value: object, kind: str) -> str:
    """Return the text of a value of the given kind.

    Raises:
        Fault: the value has another kind.
    """
    opaque_: Opaque = value
    if kind_of(value) != kind:
        raise no_overload()
    return str(opaque_.text)


def semver(version: SemanticVersion) -> Opaque:
    """Return a version as a value."""
    return opaque(SEMVER, f"{version.major}.{version.minor}.{version.patch}" + (f"-{version.prerelease}" if version.prerelease else ""))


def quantity(amount: Fraction, computed: bool = False) -> Opaque:
    """Return a quantity as a value. ``computed`` marks results of add or sub, which Kubernetes compares differently."""
    return opaque(QUANTITY, str(amount), computed)
