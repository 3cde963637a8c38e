"""The Fit document, the number of further replicas that fit: ``kubestow fit`` prints it, ``kubestow verify`` checks it."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from kubestow.models.documents.headroom import Headroom
from kubestow.models.documents.placement import API_VERSION, Cause, Doc, Placement, Seconds, SnapshotRef, Unmodelled
from kubestow.models.documents.policy import Policy


class TemplateFit(Doc, omit_defaults=True):
    """The number of further replicas of one PodTemplate that fit."""

    workload: Annotated[str, Meta(description="The workload, `Kind namespace/name`.")]
    fits: Annotated[int, Meta(description="The most further replicas for which a placement was found.")]
    bound: Annotated[int, Meta(description="The proved upper bound on further replicas.")]
    ratio: Annotated[int, Meta(description="Its replicas in one unit; 1 if there is only one template.")] = 1
    runs: Annotated[int, Meta(description="Its existing replicas, which stay and do not count in `fits`.")] = 0


class Growth(Doc, omit_defaults=True):
    """The further units that one more node of an existing kind makes fit."""

    like: Annotated[str, Meta(description="A node of the kind; the added node is a clone.")]
    nodes: Annotated[int, Meta(description="Nodes of the kind in the snapshot.")]
    units: Annotated[int, Meta(description="Lower bound on the further units that fit with the node.")]
    bound: Annotated[int, Meta(description="Upper bound on the further units that fit with the node.")]


class Keep(Doc):
    """Capacity that must stay free."""

    percent: Annotated[int, Meta(description="Per cent of the allocatable amount of each resource that the templates request.")]
    of: Annotated[Literal["node", "zone"], Meta(description="The domain in which it must stay free: every node, or every zone.")]


class Fit(Doc):
    """The most replicas of templates that fit in addition to the running pods."""

    snapshot: Annotated[SnapshotRef, Meta(description="The snapshot, and the options that change it.")]
    units: Annotated[int, Meta(description="The units that fit. A unit is one replica, or replicas of several templates in their ratio.")]
    bound: Annotated[int, Meta(description="The proved upper bound on units.")]
    templates: Annotated[list[TemplateFit], Meta(description="The templates, in the order of the manifests.")]
    placement: Annotated[Placement, Meta(description="A placement of all these replicas.")]
    cause: Annotated[
        Cause | None,
        Meta(
            description="The reason why one more unit does not fit, null if unknown. Its `pods` are the pods of that unit; `together` "
            "counts all replicas to place at once."
        ),
    ] = None
    growth: Annotated[list[Growth], Meta(description="The gain from one more node of each kind.")] = []
    headroom: Annotated[
        list[Headroom] | None, Meta(description="Headroom of CapacityBuffers, now and with all these replicas, or null.")
    ] = None
    keep: Annotated[Keep | None, Meta(description="Capacity that must stay free, or null.")] = None
    policy: Annotated[Policy | None, Meta(description="The policy, if it is not the default.")] = None
    unmodelled: Annotated[list[Unmodelled], Meta(description="Fields of the input that kubestow does not model.")] = []
    notes: Annotated[list[str], Meta(description="Remarks on the answer.")] = []
    seconds: Annotated[Seconds | None, Meta(description="Run time by phase, absent in a deterministic run.")] = None
    apiVersion: str = API_VERSION
    kind: str = "Fit"
