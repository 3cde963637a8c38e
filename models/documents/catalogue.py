"""The catalogue of nodes that can be had: what ``--catalogue`` reads, and what documents carry of it.

Prices are decimal numbers of at most six places; :mod:`kubestow.models.catalogue` counts them in millionths.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

API_VERSION: Final = "kubestow.dev/v1alpha1"

Quantity = str | int | float
#: A decimal number, not negative, of at most six places.
Price = str | int | float


class ShapeTaint(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A taint of the nodes of a shape."""

    key: Annotated[str, Meta(description="The key.")]
    effect: Annotated[Literal["NoSchedule", "PreferNoSchedule", "NoExecute"], Meta(description="What it does to pods.")]
    value: Annotated[str, Meta(description="The value.")] = ""


class Shape(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A kind of node that can be had."""

    name: Annotated[str, Meta(description="Its name, such as m6i.2xlarge; nodes get it as node.kubernetes.io/instance-type.")]
    allocatable: Annotated[dict[str, Quantity], Meta(description="What a node has for pods, as in a Node's status.")]
    zones: Annotated[tuple[str, ...], Meta(description="The zones in which it can be had, topology.kubernetes.io/zone.")]
    price: Annotated[Price | dict[str, Price], Meta(description="What a node costs per hour, in all zones or by zone.")]
    capacity: Annotated[dict[str, Quantity], Meta(description="What the machine has in all, as allocatable unless said.")] = {}
    labels: Annotated[dict[str, str], Meta(description="Labels of its nodes, beside hostname, zone and instance type.")] = {}
    taints: Annotated[tuple[ShapeTaint, ...], Meta(description="Taints of its nodes.")] = ()
    most: Annotated[Annotated[int, Meta(ge=0)] | None, Meta(description="The most nodes of it, over all zones.")] = None
    spot: Annotated[bool, Meta(description="Whether its nodes may be taken away at any time; see mostSpot.")] = False
    fixedPrice: Annotated[Price, Meta(description="What each node costs per hour besides, such as licences.")] = 0
    volumes: Annotated[dict[str, int], Meta(description="Volumes that a node can attach, by CSI driver.")] = {}


class Catalogue(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A catalogue file."""

    shapes: Annotated[tuple[Shape, ...], Meta(description="The kinds of nodes that can be had.")]
    mostSpot: Annotated[int, Meta(ge=0, le=100, description="Per cent of the allocatable CPU bought that may be spot at most.")] = 100
    apiVersion: Literal["kubestow.dev/v1alpha1"] = API_VERSION
    kind: Literal["Catalogue"] = "Catalogue"
