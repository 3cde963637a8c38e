"""The Fit document: how many more pods of a template fit, which ``kubestow fit`` prints and ``kubestow verify`` judges."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from kubestow.models.documents.headroom import Headroom
from kubestow.models.documents.placement import API_VERSION, Cause, Doc, Placement, Seconds, SnapshotRef, Unmodelled
from kubestow.models.documents.policy import Policy


class TemplateFit(Doc, omit_defaults=True):
    """How many replicas of one PodTemplate fit."""

    workload: Annotated[str, Meta(description="The workload, `Kind namespace/name`.")]
    fits: Annotated[int, Meta(description="The most replicas more for which a placement was found.")]
    bound: Annotated[int, Meta(description="No more than these fit, proved.")]
    ratio: Annotated[int, Meta(description="Its replicas in one unit of the templates together, 1 of a template alone.")] = 1
    runs: Annotated[int, Meta(description="Its replicas that are there already; they stay, and are not among those that fit.")] = 0


class Growth(Doc, omit_defaults=True):
    """How the answer grows by one node more of a kind that is present."""

    like: Annotated[str, Meta(description="A node of the kind; the node that is added is a clone of it.")]
    nodes: Annotated[int, Meta(description="Nodes of the kind in the snapshot.")]
    units: Annotated[int, Meta(description="How many units more fit with the node, at least.")]
    bound: Annotated[int, Meta(description="How many units more fit with the node, at most.")]


class Keep(Doc):
    """Room that has to stay free."""

    percent: Annotated[int, Meta(description="Per cent of what is allocatable, of each resource that the templates request.")]
    of: Annotated[Literal["node", "zone"], Meta(description="Whether of every node, or of every zone.")]


class Fit(Doc):
    """The most replicas of templates that fit beside what runs."""

    snapshot: Annotated[SnapshotRef, Meta(description="What they are to fit into, and how that was asked for.")]
    units: Annotated[int, Meta(description="The units that fit: of one template replicas, of several replicas in their ratio.")]
    bound: Annotated[int, Meta(description="No more units than these fit, proved.")]
    templates: Annotated[list[TemplateFit], Meta(description="The templates, in the order of the manifests.")]
    placement: Annotated[Placement, Meta(description="A placement of all these replicas.")]
    cause: Annotated[
        Cause | None,
        Meta(
            description="Why one unit more does not fit, null if that is not known. Its `pods` are those of this unit; `together` counts "
            "all replicas that are asked for at once."
        ),
    ] = None
    growth: Annotated[list[Growth], Meta(description="What one node more of each kind brings.")] = []
    headroom: Annotated[
        list[Headroom] | None, Meta(description="What CapacityBuffers have, now and with all these replicas; null where there are none.")
    ] = None
    keep: Annotated[Keep | None, Meta(description="Room that stays free, null if none has to.")] = None
    policy: Annotated[Policy | None, Meta(description="The policy, if it is not the default.")] = None
    unmodelled: Annotated[list[Unmodelled], Meta(description="What of the input kubestow does not model.")] = []
    notes: Annotated[list[str], Meta(description="What a reader must know to read the answer.")] = []
    seconds: Annotated[Seconds | None, Meta(description="How long it took, absent in a deterministic run.")] = None
    apiVersion: str = API_VERSION
    kind: str = "Fit"
