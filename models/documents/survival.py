"""The Survival document, the outcome of node and domain failures: ``kubestow survive`` prints it, ``kubestow verify`` checks it."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta

from kubestow.models.documents.catalogue import Shape
from kubestow.models.documents.headroom import Headroom
from kubestow.models.documents.placement import API_VERSION, Assignment, Cause, Doc, Placement, Seconds, SnapshotRef, Unmodelled
from kubestow.models.documents.policy import Policy

_BY: Final = (
    "The method that decided it. nothing: no pod had to be rescheduled, or the outcome is unknown; bound: more pods than places; "
    "composition: the certificates of single failures, combined; search: construction; solver: search with a proof."
)
Outcome = Literal["survives", "pending", "unknown"]


class Scenarios(Doc):
    """The numbers of failures, by the way they were decided."""

    all: Annotated[int, Meta(description="All combinations of failing nodes or domains.")]
    distinct: Annotated[int, Meta(description="Combinations that remain after merging equivalent ones.")]
    bounded: Annotated[int, Meta(description="Distinct ones decided by a bound, or without a pod to reschedule.")]
    solved: Annotated[int, Meta(description="Distinct ones decided by a search.")]
    open: Annotated[int, Meta(description="Distinct ones not decided within the time limit.")]
    composed: Annotated[int, Meta(description="Solved ones decided by combining the certificates of single failures.")] = 0


class Scenario(Doc, omit_defaults=True):
    """A failure, with the failures equivalent to it."""

    failed: Annotated[list[str], Meta(description="The nodes or domains that fail together: node names, or values of the key.")]
    outcome: Annotated[
        Outcome, Meta(description="Survives if every required pod can be rescheduled, pending if not, both proved; or unknown.")
    ]
    by: Annotated[Literal["nothing", "bound", "composition", "search", "solver"], Meta(description=_BY)]
    displaced: Annotated[int, Meta(description="Pods that must be rescheduled.")] = 0
    pending: Annotated[int, Meta(description="Lower bound on the pods that stay pending, if the outcome is pending.")] = 0
    alike: Annotated[list[list[str]], Meta(description="Equivalent failures.")] = []
    assignments: Annotated[list[Assignment], Meta(description="The new places of the rescheduled pods, if the outcome is survives.")] = []
    preempted: Annotated[list[str], Meta(description="Preempted pods of lower priority, with --preemption.")] = []


class Consequence(Doc, omit_defaults=True):
    """The effect of a failure on a PodDisruptionBudget, a quorum or bare pods."""

    kind: Annotated[
        Literal["PodDisruptionBudget", "quorum", "lost"], Meta(description="The kind of object; lost means bare pods that are gone.")
    ]
    object: Annotated[str, Meta(description="The object, `Kind namespace/name`.")]
    message: Annotated[str, Meta(description="The effect as a sentence.")]


class Exposure(Doc, omit_defaults=True):
    """The effect of several failures on a PodDisruptionBudget, a quorum or bare pods."""

    kind: Annotated[
        Literal["PodDisruptionBudget", "quorum", "lost"], Meta(description="The kind of object; lost means bare pods that are gone.")
    ]
    object: Annotated[str, Meta(description="The object, `Kind namespace/name`; several bare pods are `Pod ns/a,ns/b`.")]
    failures: Annotated[int, Meta(description="The number of failures with this effect.")]
    worst: Annotated[list[str], Meta(description="The nodes or domains of the worst failure.")]
    message: Annotated[str, Meta(description="The effect of the worst failure as a sentence.")]


class Counterexample(Doc, omit_defaults=True):
    """A failure after which pods stay pending."""

    failed: Annotated[list[str], Meta(description="The nodes or domains that fail together.")]
    pending: Annotated[list[str], Meta(description="Pods that stay pending in the best placement found, namespace/name.")]
    least: Annotated[int, Meta(description="The proved lower bound on pending pods.")]
    cause: Annotated[Cause | None, Meta(description="A minimal cause, null if none was found within the time limit.")] = None
    consequences: Annotated[list[Consequence], Meta(description="The budgets and quorums that it violates.")] = []


class SurvivalRemedy(Doc, omit_defaults=True):
    """Additional nodes with which every failure is survived."""

    addNodes: Annotated[list[str], Meta(description="Clones of existing nodes, N:LIKE_NODE.")] = []
    buy: Annotated[list[str], Meta(description="Nodes of the catalogue, N:SHAPE@ZONE.")] = []
    shapes: Annotated[list[Shape], Meta(description="The catalogue entries of these shapes.")] = []
    cost: Annotated[float | None, Meta(description="The cost per hour, null for clones.")] = None
    bound: Annotated[float | None, Meta(description="The proved lower bound on the cost; for clones, on the number of nodes.")] = None
    certified: Annotated[bool, Meta(description="True if the certificate was computed again with these nodes.")] = False
    options: Annotated[list[str], Meta(description="Command-line options that apply it.")] = []


class Survival(Doc):
    """The outcome of every failure of nodes or domains."""

    snapshot: Annotated[SnapshotRef, Meta(description="The snapshot, and the options that change it.")]
    fail: Annotated[str, Meta(description="The failing domain: node, zone, or the label whose values are the domains.")]
    certified: Annotated[bool, Meta(description="True if it is proved that every failure is survived.")]
    scenarios: Annotated[Scenarios, Meta(description="The numbers of failures, by the way they were decided.")]
    counterexamples: Annotated[list[Counterexample], Meta(description="Failures that are not survived, worst first.")]
    outcomes: Annotated[list[Scenario], Meta(description="All distinct failures; after an interruption, the decided ones.")]
    placement: Annotated[
        Placement | None, Meta(description="The placement of pending pods before any failure, with manifests or what-if edits.")
    ] = None
    exposed: Annotated[list[Exposure], Meta(description="Effects on budgets, quorums and bare pods over all failures.")] = []
    atOnce: Annotated[int, Meta(description="The number of nodes or domains that fail together.")] = 1
    priority: Annotated[int | None, Meta(description="The lowest priority of pods that must be rescheduled, null for all pods.")] = None
    preemption: Annotated[bool, Meta(description="True if pods of lower priority may be preempted.")] = False
    remedy: Annotated[SurvivalRemedy | None, Meta(description="The cheapest additional nodes found that certify survival.")] = None
    headroom: Annotated[
        list[Headroom] | None,
        Meta(description="Headroom of CapacityBuffers after each failure, with all rescheduled pods placed; null if there are no buffers."),
    ] = None
    policy: Annotated[Policy | None, Meta(description="The policy, if it is not the default.")] = None
    unmodelled: Annotated[list[Unmodelled], Meta(description="Fields of the input that kubestow does not model.")] = []
    notes: Annotated[list[str], Meta(description="Remarks on the answer.")] = []
    seconds: Annotated[Seconds | None, Meta(description="Run time by phase, absent in a deterministic run.")] = None
    apiVersion: str = API_VERSION
    kind: str = "Survival"
