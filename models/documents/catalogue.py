"""The catalogue of node shapes that can be bought. ``--catalogue`` reads it, and documents carry the shapes they use.

Prices are decimal numbers with at most six places. :mod:`kubestow.models.catalogue` computes in millionths.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

API_VERSION: Final = "kubestow.dev/v1alpha1"

Quantity = str | int | float
#: A non-negative decimal number with at most six places.
Price = str | int | float


class ShapeTaint(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A taint of the nodes of a shape."""

    key: Annotated[str, Meta(description="The key.")]
    effect: Annotated[Literal["NoSchedule", "PreferNoSchedule", "NoExecute"], Meta(description="The effect of the taint.")]
    value: Annotated[str, Meta(description="The value.")] = ""


class Shape(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A kind of node that can be bought."""

    name: Annotated[str, Meta(description="Its name, such as m6i.2xlarge. Nodes get it as node.kubernetes.io/instance-type.")]
    allocatable: Annotated[dict[str, Quantity], Meta(description="Allocatable resources of a node, as in a Node's status.")]
    zones: Annotated[tuple[str, ...], Meta(description="The zones that offer it, values of topology.kubernetes.io/zone.")]
    price: Annotated[Price | dict[str, Price], Meta(description="The price of a node per hour, in all zones or by zone.")]
    capacity: Annotated[dict[str, Quantity], Meta(description="Total resources of the machine; the default is `allocatable`.")] = {}
    labels: Annotated[dict[str, str], Meta(description="Labels of its nodes, in addition to hostname, zone and instance type.")] = {}
    taints: Annotated[tuple[ShapeTaint, ...], Meta(description="Taints of its nodes.")] = ()
    most: Annotated[
        Annotated[int, Meta(ge=0)] | None, Meta(description="The maximum number of nodes over all zones, null if unlimited.")
    ] = None
    spot: Annotated[bool, Meta(description="True for spot nodes, which the cloud can reclaim at any time; see mostSpot.")] = False
    fixedPrice: Annotated[Price, Meta(description="Additional cost of each node per hour, such as licences.")] = 0
    volumes: Annotated[dict[str, int], Meta(description="The number of volumes that a node can attach, by CSI driver.")] = {}


class Catalogue(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A catalogue file."""

    shapes: Annotated[tuple[Shape, ...], Meta(description="The kinds of nodes that can be bought.")]
    mostSpot: Annotated[
        int, Meta(ge=0, le=100, description="The maximum share of spot nodes in the purchased allocatable CPU, in per cent.")
    ] = 100
    apiVersion: Literal["kubestow.dev/v1alpha1"] = API_VERSION
    kind: Literal["Catalogue"] = "Catalogue"
