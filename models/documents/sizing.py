"""The Sizing document, the nodes to buy: ``kubestow size`` prints it, ``kubestow verify`` checks it.

Money is a number of at most six decimal places, per hour, in the currency of the catalogue.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from kubestow.models.documents.headroom import BufferRoom
from kubestow.models.documents.placement import API_VERSION, Cause, Doc, Placement, Seconds, SnapshotRef, TierResult, Unmodelled
from kubestow.models.documents.policy import Policy
from kubestow.models.documents.survival import Survival

Mode = Literal["add", "replace", "from-scratch"]


class Purchase(Doc):
    """Nodes of one shape in one zone."""

    shape: Annotated[str, Meta(description="The name of the shape.")]
    zone: Annotated[str, Meta(description="The zone.")]
    count: Annotated[int, Meta(description="The number of nodes.")]
    price: Annotated[float, Meta(description="The price of one node per hour, the fixed price included.")]
    nodes: Annotated[list[str], Meta(description="Their names in the placement.")]


class Cost(Doc):
    """The total cost of the nodes to buy, with its lower bound."""

    value: Annotated[float, Meta(description="The cost of the nodes to buy.")]
    bound: Annotated[float, Meta(description="The proved lower bound on the cost of placing everything.")]
    unit: Annotated[str, Meta(description="The unit of both.")] = "per hour"


class Utilisation(Doc):
    """The requested and allocatable amounts of a resource on the purchased nodes."""

    shape: Annotated[str, Meta(description="The shape; empty for all shapes together.")]
    resource: Annotated[str, Meta(description="The resource.")]
    requested: Annotated[int, Meta(description="The requests of pods, in mCPU, bytes or units.")]
    daemons: Annotated[int, Meta(description="The part requested by DaemonSet pods and static pods.")]
    allocatable: Annotated[int, Meta(description="The allocatable amount.")]


class WorkloadCost(Doc, omit_defaults=True):
    """The cost attributed to a workload. A pod's weight is its largest fraction of any resource of its node (dominant share). The price of
    a node, unused capacity included, is divided in the ratio of these weights, so that the costs add up to the total."""

    workload: Annotated[
        str,
        Meta(description="The workload, `Kind namespace/name`; of static pods without the node's name; empty for nodes without pods."),
    ]
    pods: Annotated[int, Meta(description="Its pods on purchased nodes.")]
    cost: Annotated[float, Meta(description="The part of the cost attributed to them.")]
    daemon: Annotated[bool, Meta(description="True if every node runs it: a DaemonSet's pod or a static pod.")] = False


class Replaced(Doc):
    """The cost of the removed nodes, at catalogue prices."""

    nodes: Annotated[int, Meta(description="The number of removed nodes.")]
    priced: Annotated[int, Meta(description="Removed nodes whose node.kubernetes.io/instance-type and zone are in the catalogue.")]
    cost: Annotated[float, Meta(description="The cost of the priced nodes per hour.")]


class ShapeReason(Doc):
    """A rule that rejects pods on nodes of a shape."""

    shape: Annotated[str, Meta(description="The name of the shape.")]
    rule: Annotated[str, Meta(description="The scheduler plugin's name.")]
    message: Annotated[str, Meta(description="The problem in a few words.")]


class Misfit(Doc):
    """Pods that fit neither on an empty node of any shape of the catalogue nor on a node that stays."""

    pods: Annotated[list[str], Meta(description="The pods, namespace/name.")]
    reasons: Annotated[list[ShapeReason], Meta(description="The rules that reject them, by shape.")]


class Moment(Doc):
    """A snapshot of a series, for which the purchased nodes also suffice."""

    snapshot: Annotated[SnapshotRef, Meta(description="The cluster at that time. The edits include the purchased nodes.")]
    alone: Annotated[Cost | None, Meta(description="The lowest cost for this snapshot alone, null if no purchase was found.")]
    decides: Annotated[
        bool,
        Meta(
            description="True if the snapshot determines the purchase: its own lower bound equals that of the series. If no single "
            "snapshot does, true for the set of snapshots with that bound."
        ),
    ]
    buy: Annotated[list[Purchase], Meta(description="The purchase, equal for all snapshots except for the names of the nodes.")]
    placement: Annotated[
        Placement | None,
        Meta(description="The placement on that cluster with these nodes; null if it is the document's own or does not exist."),
    ] = None
    removed: Annotated[list[str], Meta(description="Names of the removed nodes.")] = []
    replaced: Annotated[Replaced | None, Meta(description="The cost of the removed nodes, null if there are none.")] = None
    utilisation: Annotated[list[Utilisation], Meta(description="The utilisation of the purchased nodes at that time.")] = []


class Sizing(Doc):
    """The cheapest nodes on which all pods fit, for one snapshot or for every snapshot of a series. In a series, fields that describe one
    snapshot describe the one that determines the purchase."""

    snapshot: Annotated[
        SnapshotRef, Meta(description="The cluster before the purchase, with the options. The edits include the purchased nodes.")
    ]
    mode: Annotated[Mode, Meta(description="Add nodes, replace a pool, or build the cluster from scratch.")]
    status: Annotated[
        Literal["optimal", "feasible", "infeasible", "unknown"],
        Meta(description="Optimal if cost and node count are proved; infeasible if it is proved that no purchase places everything."),
    ]
    buy: Annotated[list[Purchase], Meta(description="The nodes to buy, by shape and zone.")]
    cost: Annotated[Cost, Meta(description="The cost per hour.")]
    nodes: Annotated[TierResult, Meta(description="The number of nodes to buy. Its bound is the proved minimum at this cost.")]
    placement: Annotated[Placement | None, Meta(description="The placement on the cluster with these nodes, as proof.")] = None
    causes: Annotated[list[Cause], Meta(description="Causes why no purchase places everything, if that is proved.")] = []
    pool: Annotated[str | None, Meta(description="The selector of the nodes to replace.")] = None
    removed: Annotated[list[str], Meta(description="Names of the removed nodes.")] = []
    kinds: Annotated[int | None, Meta(description="The maximum number of different shapes, null if unlimited.")] = None
    mostSpot: Annotated[int, Meta(description="The maximum share of spot nodes in the purchased allocatable CPU, in per cent.")] = 100
    replaced: Annotated[Replaced | None, Meta(description="The cost of the removed nodes, null if there are none.")] = None
    misfits: Annotated[list[Misfit], Meta(description="Pods that no purchase places, with the reasons by shape.")] = []
    survival: Annotated[Survival | None, Meta(description="The certificate for --survive.")] = None
    series: Annotated[
        list[Moment] | None,
        Meta(description="All snapshots of the series, by time; null for a single snapshot."),
    ] = None
    utilisation: Annotated[list[Utilisation], Meta(description="The utilisation of the purchased nodes.")] = []
    workloads: Annotated[list[WorkloadCost], Meta(description="The cost of each workload, most expensive first.")] = []
    withoutBuffers: Annotated[
        Cost | None,
        Meta(description="The lowest cost without the chunks of CapacityBuffers; null if there are no chunks, or no purchase was found."),
    ] = None
    buffers: Annotated[list[BufferRoom] | None, Meta(description="The chunks of CapacityBuffers in the placement, or null.")] = None
    policy: Annotated[Policy | None, Meta(description="The policy, if it is not the default.")] = None
    unmodelled: Annotated[list[Unmodelled], Meta(description="Fields of the input that kubestow does not model.")] = []
    notes: Annotated[list[str], Meta(description="Remarks on the answer.")] = []
    seconds: Annotated[Seconds | None, Meta(description="Run time by phase, absent in a deterministic run.")] = None
    apiVersion: str = API_VERSION
    kind: str = "Sizing"

    @property
    def of_moment(self) -> int:
        """The index of the document's snapshot in its series; 0 without a series."""
        times = [moment.snapshot.capturedAt for moment in self.series or ()]
        return times.index(self.snapshot.capturedAt) if self.snapshot.capturedAt in times else 0
