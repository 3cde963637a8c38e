"""The Audit document: what ``kubestow audit`` prints.

A finding has a stable code; what each means, with an example that triggers it and one that does not, is in docs/audit.md.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from kubestow.models.documents.findings.descheduler import DeschedulerAudit
from kubestow.models.documents.findings.karpenter import KarpenterAudit
from kubestow.models.documents.placement import API_VERSION, Doc, SnapshotRef, Unmodelled

Severity = Literal["error", "warning", "info"]
Etcd = Literal["stacked", "external", "unknown"]
Grade = Literal["non-distributed", "unknown", "machines", "clouds", "locations"]
RequirementLevel = Literal["MUST", "REQUIRED", "SHOULD", "RECOMMENDED"]
RequirementStatus = Literal["met", "broken", "not provable"]
#: The most serious first.
SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warning", "info")


class Finding(Doc, omit_defaults=True):
    """Something that is wrong, or will be."""

    code: Annotated[str, Meta(description="KS and three digits, which never change their meaning.")]
    name: Annotated[str, Meta(description="The code in words, in kebab-case.")]
    severity: Annotated[Severity, Meta(description="How serious the finding is.")]
    object: Annotated[str, Meta(description="The object that it is about, `Kind namespace/name` or `Kind name`.")]
    message: Annotated[str, Meta(description="What is wrong here.")]
    why: Annotated[str, Meta(description="Why it matters.")]
    fix: Annotated[str, Meta(description="What to do.")]
    field: Annotated[str | None, Meta(description="The field of the object.")] = None
    rule: Annotated[str | None, Meta(description="The scheduler plugin's name, where one is concerned.")] = None
    pods: Annotated[list[str], Meta(description="The pods concerned, namespace/name.")] = []
    nodes: Annotated[list[str], Meta(description="The names of the nodes concerned.")] = []
    domain: Annotated[str | None, Meta(description="The topology domain concerned, key=value.")] = None


class ClosedCapacity(Doc):
    """What nodes have that are closed to others, beyond the requests of the pods that close them."""

    nodes: Annotated[int | float, Meta(description="The number of nodes; an average is rounded to three decimals.")]
    cpu: Annotated[int, Meta(description="CPU beyond requests, in mCPU.")]
    memory: Annotated[int, Meta(description="Memory beyond requests, in bytes.")]


class OpportunityCost(Doc, omit_defaults=True):
    """What required anti-affinity takes away beyond requests (docs/audit.md#opportunity-cost)."""

    level: Annotated[Literal["namespace", "workload", "pod"], Meta(description="Whose pods are added up.")]
    object: Annotated[str, Meta(description="The namespace, the workload or the pod: `Kind namespace/name`, `Namespace name`.")]
    namespace: Annotated[str, Meta(description="Its namespace.")]
    pods: Annotated[int, Meta(description="The number of pods that close nodes, or will.")]
    average: Annotated[ClosedCapacity, Meta(description="What these pods close together on domains of average size.")]
    largest: Annotated[ClosedCapacity, Meta(description="What these pods close together on the largest domains that they may use.")]
    actual: Annotated[
        ClosedCapacity | None, Meta(description="What those that run close now, each node once; null: a pod that is not on a node.")
    ] = None


class ComponentSpread(Doc):
    """A component of the control plane."""

    component: Annotated[str, Meta(description="The name of the component.")]
    instances: Annotated[int, Meta(description="The number of instances that run.")]
    nodes: Annotated[int, Meta(description="The number of nodes that they run on.")]
    machines: Annotated[dict[str, int], Meta(description="Instances on each machine, or on each node where no label names machines.")]
    most: Annotated[int, Meta(description="Instances on the machine that holds the most.")]
    survives: Annotated[
        int,
        Meta(description="Machines that may fail, one after the other, with enough left: a majority of etcd's members, one of the others."),
    ]


class Stage(Doc, omit_defaults=True):
    """A stage of distribution."""

    name: Annotated[Literal["machines", "zones", "clouds", "locations"], Meta(description="What the stage distributes over.")]
    domains: Annotated[int, Meta(description="The number of domains that the control plane's nodes are in.")]
    survives: Annotated[int, Meta(description="Failures of domains that every component seen survives.")]
    reached: Annotated[
        bool, Meta(description="Whether one failure is shown to be survived, by this label or that of a stage with larger domains.")
    ]
    label: Annotated[
        str | None, Meta(description="The node label that names the domains; null: no label that all control-plane nodes carry.")
    ] = None
    known: Annotated[
        bool,
        Meta(description="Whether domains are known; where machines are not, nodes (at most so many) or zones (at least) are counted."),
    ] = True


class Requirement(Doc):
    """A requirement of a standard, as far as a snapshot shows it (docs/control-plane.md#what-is-asked-for)."""

    standard: Annotated[str, Meta(description="The document that asks for it.")]
    level: Annotated[RequirementLevel, Meta(description="The word that the document uses.")]
    text: Annotated[str, Meta(description="What is asked for.")]
    status: Annotated[RequirementStatus, Meta(description="Whether the snapshot shows that it is met, or broken, or neither.")]
    why: Annotated[str, Meta(description="What shows it, or what is missing.")]


class ControlPlane(Doc, omit_defaults=True):
    """How the control plane is distributed over failure domains (docs/control-plane.md)."""

    nodes: Annotated[list[str], Meta(description="The names of its nodes.")]
    etcd: Annotated[Etcd, Meta(description="Where its members run: beside API servers (stacked), on other nodes (external), or unknown.")]
    grade: Annotated[
        Grade, Meta(description="The furthest stage reached (zones count as machines); non-distributed: one machine's failure is too much.")
    ]
    components: Annotated[list[ComponentSpread], Meta(description="The components that were seen.")] = []
    stages: Annotated[list[Stage], Meta(description="The stages of distribution, the nearest first.")] = []
    workers: Annotated[dict[str, int], Meta(description="The number of worker nodes on each machine.")] = {}
    machineLabel: Annotated[str | None, Meta(description="The node label that names machines.")] = None


class Selection(Doc, omit_defaults=True):
    """What was chosen of the findings."""

    select: Annotated[list[str], Meta(description="The codes that were looked for, or their beginnings; all if empty.")] = []
    ignore: Annotated[list[str], Meta(description="The codes that were not looked for, or their beginnings.")] = []
    namespaces: Annotated[list[str], Meta(description="The namespaces that were asked for; all if empty.")] = []
    elsewhere: Annotated[int, Meta(description="Findings left out because they concern none of these namespaces.")] = 0
    known: Annotated[int, Meta(description="Findings left out because the baseline knows them.")] = 0


class Audit(Doc):
    """An audit."""

    snapshot: Annotated[SnapshotRef, Meta(description="What was audited.")]
    counts: Annotated[dict[str, int], Meta(description="The number of findings of each severity.")]
    findings: Annotated[list[Finding], Meta(description="The findings, the most serious first.")]
    controlPlane: Annotated[
        ControlPlane | None, Meta(description="How the control plane is distributed, where the snapshot shows one.")
    ] = None
    notChecked: Annotated[list[str], Meta(description="What could not be looked at, and why.")] = []
    unmodelled: Annotated[list[Unmodelled], Meta(description="What of the input kubestow does not model.")] = []
    notes: Annotated[list[str], Meta(description="What of the input is not taken into account.")] = []
    selection: Annotated[Selection | None, Meta(description="What was chosen of the findings, where not all are shown.")] = None
    descheduler: Annotated[
        DeschedulerAudit | None, Meta(description="What the descheduler would do under a policy, where one was given.")
    ] = None
    karpenter: Annotated[KarpenterAudit | None, Meta(description="What Karpenter could consolidate, where NodePools were given.")] = None
    requirements: Annotated[
        list[Requirement] | None, Meta(description="What the SCS standards ask for, where a control plane or their labels are seen.")
    ] = None
    opportunityCosts: Annotated[
        list[OpportunityCost] | None, Meta(description="What required anti-affinity takes beyond requests, where it takes anything.")
    ] = None
    apiVersion: str = API_VERSION
    kind: str = "Audit"


_ORDER: Final = (
    "apiVersion",
    "kind",
    "snapshot",
    "counts",
    "findings",
    "selection",
    "opportunityCosts",
    "controlPlane",
    "requirements",
    "descheduler",
    "karpenter",
    "notChecked",
    "unmodelled",
    "notes",
)


def to_builtins(audit: Audit) -> dict[str, Any]:
    """Return plain dicts and lists, in the document's order; parts that there are none of are left out."""
    plain = msgspec.to_builtins(audit)
    return {key: plain[key] for key in _ORDER if plain[key] is not None}
