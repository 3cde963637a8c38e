"""The Sizing document: which nodes to buy, which ``kubestow size`` prints and ``kubestow verify`` judges.

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
    count: Annotated[int, Meta(description="How many nodes.")]
    price: Annotated[float, Meta(description="What one of them costs, the fixed price included.")]
    nodes: Annotated[list[str], Meta(description="The names that they have in the placement.")]


class Cost(Doc):
    """What the nodes cost together."""

    value: Annotated[float, Meta(description="What the nodes to buy cost.")]
    bound: Annotated[float, Meta(description="No purchase that places everything costs less, proved.")]
    unit: Annotated[str, Meta(description="The unit.")] = "per hour"


class Utilisation(Doc):
    """How much of a resource of the nodes bought is asked for."""

    shape: Annotated[str, Meta(description="The shape, empty for all of them together.")]
    resource: Annotated[str, Meta(description="The resource.")]
    requested: Annotated[int, Meta(description="What pods ask for: mCPU, bytes, or numbers.")]
    daemons: Annotated[int, Meta(description="What of it DaemonSets' and static pods ask for.")]
    allocatable: Annotated[int, Meta(description="What there is for pods.")]


class WorkloadCost(Doc, omit_defaults=True):
    """What a workload costs. A pod weighs on its node as much as the share that it takes of the resource that it takes most of; the
    price of each node, with what nobody uses of it, is parted in the ratio of these weights, so that costs add up to what is paid."""

    workload: Annotated[
        str,
        Meta(description="The workload, `Kind namespace/name`; of static pods without the node's name; empty: of nodes without pods."),
    ]
    pods: Annotated[int, Meta(description="Its pods on nodes that are bought.")]
    cost: Annotated[float, Meta(description="Their share of the cost.")]
    daemon: Annotated[bool, Meta(description="Whether every node brings it: a DaemonSet's or a static pod.")] = False


class Replaced(Doc):
    """What the nodes that go cost, by the prices of the catalogue."""

    nodes: Annotated[int, Meta(description="How many nodes go.")]
    priced: Annotated[int, Meta(description="Those whose node.kubernetes.io/instance-type and zone are in the catalogue.")]
    cost: Annotated[float, Meta(description="What these cost per hour.")]


class ShapeReason(Doc):
    """Why a shape does not take pods."""

    shape: Annotated[str, Meta(description="The name of the shape.")]
    rule: Annotated[str, Meta(description="The scheduler plugin's name.")]
    message: Annotated[str, Meta(description="What is wrong, in a few words.")]


class Misfit(Doc):
    """Pods that fit on no shape of the catalogue, not even on an empty node of it, nor on a node that stays."""

    pods: Annotated[list[str], Meta(description="The pods, namespace/name.")]
    reasons: Annotated[list[ShapeReason], Meta(description="The rules that reject them, by shape.")]


class Moment(Doc):
    """A snapshot of a series, for which the nodes of the answer do, too."""

    snapshot: Annotated[SnapshotRef, Meta(description="The cluster then, with its time; edits: with the nodes bought.")]
    alone: Annotated[Cost | None, Meta(description="What the cheapest nodes for this snapshot alone cost; null: none were found.")]
    decides: Annotated[
        bool,
        Meta(
            description="Whether its pods decide what is bought: alone they need nodes that cost as much as is proved of all snapshots;"
            " where no snapshot does, it is proved of those that decide together."
        ),
    ]
    buy: Annotated[list[Purchase], Meta(description="What is bought, the same for all snapshots but the names of the nodes.")]
    placement: Annotated[
        Placement | None,
        Meta(description="The placement on the cluster then, with these nodes; null: it is the document's own, or there is none."),
    ] = None
    removed: Annotated[list[str], Meta(description="Names of nodes that go.")] = []
    replaced: Annotated[Replaced | None, Meta(description="What the nodes that go cost; null where none go.")] = None
    utilisation: Annotated[list[Utilisation], Meta(description="How full the nodes bought are then.")] = []


class Sizing(Doc):
    """The cheapest nodes that hold everything; of a series: every snapshot of it. Then all of it that is of one snapshot is of the one that
    decides."""

    snapshot: Annotated[SnapshotRef, Meta(description="The cluster before, and how the question was asked; edits: with nodes bought.")]
    mode: Annotated[Mode, Meta(description="Whether nodes are added, replaced, or everything is built anew.")]
    status: Annotated[
        Literal["optimal", "feasible", "infeasible", "unknown"],
        Meta(description="Optimal: cost and number of nodes are proved; infeasible: proved that no purchase places everything."),
    ]
    buy: Annotated[list[Purchase], Meta(description="What to buy, by shape and zone.")]
    cost: Annotated[Cost, Meta(description="What it costs per hour.")]
    nodes: Annotated[TierResult, Meta(description="How many nodes are bought; bound: no fewer at this cost, proved.")]
    placement: Annotated[Placement | None, Meta(description="The placement on the cluster with these nodes that proves it.")] = None
    causes: Annotated[list[Cause], Meta(description="Why no purchase places everything, where that is proved.")] = []
    pool: Annotated[str | None, Meta(description="The selector of the nodes that are replaced.")] = None
    removed: Annotated[list[str], Meta(description="Names of nodes that go.")] = []
    kinds: Annotated[int | None, Meta(description="The most shapes that may be bought, null: any number.")] = None
    mostSpot: Annotated[int, Meta(description="Per cent of the allocatable CPU bought that may be spot at most.")] = 100
    replaced: Annotated[Replaced | None, Meta(description="What the nodes that go cost; null where none go.")] = None
    misfits: Annotated[list[Misfit], Meta(description="Pods that no purchase places, with what every shape lacks.")] = []
    survival: Annotated[Survival | None, Meta(description="The certificate for --survive.")] = None
    series: Annotated[
        list[Moment] | None,
        Meta(description="The snapshots of a series by their times, all of them; null: there is one snapshot."),
    ] = None
    utilisation: Annotated[list[Utilisation], Meta(description="How full the nodes bought are.")] = []
    workloads: Annotated[list[WorkloadCost], Meta(description="What each workload costs, the dearest first.")] = []
    withoutBuffers: Annotated[
        Cost | None,
        Meta(description="What the cheapest nodes cost that hold no chunks of CapacityBuffers; null: there are none, or none were found."),
    ] = None
    buffers: Annotated[
        list[BufferRoom] | None, Meta(description="The chunks of CapacityBuffers in its placement, null where nodes hold none.")
    ] = None
    policy: Annotated[Policy | None, Meta(description="The policy, if it is not the default.")] = None
    unmodelled: Annotated[list[Unmodelled], Meta(description="What of the input kubestow does not model.")] = []
    notes: Annotated[list[str], Meta(description="What a reader must know to read the answer.")] = []
    seconds: Annotated[Seconds | None, Meta(description="How long it took, absent in a deterministic run.")] = None
    apiVersion: str = API_VERSION
    kind: str = "Sizing"

    @property
    def of_moment(self) -> int:
        """Return which snapshot of its series the document is of; 0 where there is one."""
        times = [moment.snapshot.capturedAt for moment in self.series or ()]
        return times.index(self.snapshot.capturedAt) if self.snapshot.capturedAt in times else 0
