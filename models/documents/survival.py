"""The Survival document: what comes back when nodes or domains fail, which ``kubestow survive`` prints and ``kubestow verify`` judges."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta

from kubestow.models.documents.catalogue import Shape
from kubestow.models.documents.headroom import Headroom
from kubestow.models.documents.placement import API_VERSION, Assignment, Cause, Doc, Placement, Seconds, SnapshotRef, Unmodelled
from kubestow.models.documents.policy import Policy

_BY: Final = (
    "What decided it. nothing: no pod had to come back, or it is unknown; bound: more pods than there can be places; composition: the "
    "certificates of single failures, put together; search: construction; solver: search with a proof."
)
Outcome = Literal["survives", "pending", "unknown"]


class Scenarios(Doc):
    """How many failures were looked at, and how they were decided."""

    all: Annotated[int, Meta(description="All combinations of failing nodes or domains.")]
    distinct: Annotated[int, Meta(description="Those that differ; others are equal to one of them.")]
    bounded: Annotated[
        int, Meta(description="Distinct ones that a bound decided without a search, or after which no pod has to come back.")
    ]
    solved: Annotated[int, Meta(description="Distinct ones that were solved.")]
    open: Annotated[int, Meta(description="Distinct ones that were not decided in time.")]
    composed: Annotated[int, Meta(description="Of those solved, so many by the certificates of single failures, put together.")] = 0


class Scenario(Doc, omit_defaults=True):
    """One failure, and those that are equal to it."""

    failed: Annotated[list[str], Meta(description="The nodes or domains that fail at once: node names, or values of the key.")]
    outcome: Annotated[Outcome, Meta(description="Whether all pods that must come back find a place, proved; or it is not known.")]
    by: Annotated[Literal["nothing", "bound", "composition", "search", "solver"], Meta(description=_BY)]
    displaced: Annotated[int, Meta(description="Pods that must come back.")] = 0
    pending: Annotated[int, Meta(description="Pods that stay pending at least, where the outcome is pending.")] = 0
    alike: Annotated[list[list[str]], Meta(description="Other failures that are equal to it.")] = []
    assignments: Annotated[list[Assignment], Meta(description="Where the pods that come back go, where it survives.")] = []
    preempted: Annotated[list[str], Meta(description="Pods of lower priority that make room, with --preemption.")] = []


class Consequence(Doc, omit_defaults=True):
    """What a failure does to a PodDisruptionBudget or to a quorum."""

    kind: Annotated[Literal["PodDisruptionBudget", "quorum", "lost"], Meta(description="What it is about; lost: bare pods that are gone.")]
    object: Annotated[str, Meta(description="The object, `Kind namespace/name`.")]
    message: Annotated[str, Meta(description="What becomes of it, as a sentence.")]


class Exposure(Doc, omit_defaults=True):
    """What some of the failures do to a PodDisruptionBudget or to a quorum, or the bare pods that they take."""

    kind: Annotated[Literal["PodDisruptionBudget", "quorum", "lost"], Meta(description="What it is about; lost: bare pods that are gone.")]
    object: Annotated[str, Meta(description="The object, `Kind namespace/name`; of several bare pods `Pod ns/a,ns/b`.")]
    failures: Annotated[int, Meta(description="How many of all failures do this.")]
    worst: Annotated[list[str], Meta(description="The nodes or domains whose failure takes the most of it.")]
    message: Annotated[str, Meta(description="What the worst of them does, as a sentence.")]


class Counterexample(Doc, omit_defaults=True):
    """A failure after which pods stay pending."""

    failed: Annotated[list[str], Meta(description="The nodes or domains that fail at once.")]
    pending: Annotated[list[str], Meta(description="Pods that stay pending in the best answer found, namespace/name.")]
    least: Annotated[int, Meta(description="So many at least stay pending, proved.")]
    cause: Annotated[Cause | None, Meta(description="A minimal cause, null if none was found in time.")] = None
    consequences: Annotated[list[Consequence], Meta(description="Budgets and quorums that it breaks.")] = []


class SurvivalRemedy(Doc, omit_defaults=True):
    """Nodes with which every failure is survived."""

    addNodes: Annotated[list[str], Meta(description="Clones of nodes that are there, N:LIKE_NODE.")] = []
    buy: Annotated[list[str], Meta(description="Nodes of the catalogue, N:SHAPE@ZONE.")] = []
    shapes: Annotated[list[Shape], Meta(description="The shapes of these.")] = []
    cost: Annotated[float | None, Meta(description="What they cost per hour, null for clones.")] = None
    bound: Annotated[float | None, Meta(description="No remedy is cheaper, proved; of clones: nodes.")] = None
    certified: Annotated[bool, Meta(description="Whether the certificate was run again with them.")] = False
    options: Annotated[list[str], Meta(description="Options of the command line that try it.")] = []


class Survival(Doc):
    """What survives the failure of nodes or domains."""

    snapshot: Annotated[SnapshotRef, Meta(description="The cluster, and how it was asked for.")]
    fail: Annotated[str, Meta(description="What fails: node, zone, or the label whose values are the domains.")]
    certified: Annotated[bool, Meta(description="Whether every failure is survived, proved.")]
    scenarios: Annotated[Scenarios, Meta(description="How many failures there are, and how they were decided.")]
    counterexamples: Annotated[list[Counterexample], Meta(description="Failures that are not survived, the worst first.")]
    outcomes: Annotated[list[Scenario], Meta(description="All distinct failures; those decided when it was interrupted.")]
    placement: Annotated[Placement | None, Meta(description="Where what waited goes first, with manifests or what-if edits.")] = None
    exposed: Annotated[list[Exposure], Meta(description="Budgets, quorums and bare pods, over all failures, survived or not.")] = []
    atOnce: Annotated[int, Meta(description="How many nodes or domains fail at once.")] = 1
    priority: Annotated[int | None, Meta(description="Pods of at least this priority must come back, null: all.")] = None
    preemption: Annotated[bool, Meta(description="Whether pods of lower priority may be preempted.")] = False
    remedy: Annotated[SurvivalRemedy | None, Meta(description="The cheapest nodes found that make it certified.")] = None
    headroom: Annotated[
        list[Headroom] | None,
        Meta(
            description="What CapacityBuffers have after each failure once all pods that come back are placed, null where there are none."
        ),
    ] = None
    policy: Annotated[Policy | None, Meta(description="The policy, if it is not the default.")] = None
    unmodelled: Annotated[list[Unmodelled], Meta(description="What of the input kubestow does not model.")] = []
    notes: Annotated[list[str], Meta(description="What a reader must know to read the answer.")] = []
    seconds: Annotated[Seconds | None, Meta(description="How long it took, absent in a deterministic run.")] = None
    apiVersion: str = API_VERSION
    kind: str = "Survival"
