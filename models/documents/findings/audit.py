"""The Audit document, which ``kubestow audit`` prints.

Every finding has a stable code. docs/audit.md explains each code, with an example that triggers it and one that does not.
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
#: Severities, most serious first.
SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warning", "info")


class Finding(Doc, omit_defaults=True):
    """A present or future problem of an object."""

    code: Annotated[str, Meta(description="KS and three digits. The meaning of a code never changes.")]
    name: Annotated[str, Meta(description="The name of the code, in kebab-case.")]
    severity: Annotated[Severity, Meta(description="The severity of the finding.")]
    object: Annotated[str, Meta(description="The object concerned, `Kind namespace/name` or `Kind name`.")]
    message: Annotated[str, Meta(description="The problem.")]
    why: Annotated[str, Meta(description="The consequence of the problem.")]
    fix: Annotated[str, Meta(description="The remedy.")]
    field: Annotated[str | None, Meta(description="The field of the object, or null.")] = None
    rule: Annotated[str | None, Meta(description="The scheduler plugin concerned, or null.")] = None
    pods: Annotated[list[str], Meta(description="The pods concerned, namespace/name.")] = []
    nodes: Annotated[list[str], Meta(description="The names of the nodes concerned.")] = []
    domain: Annotated[str | None, Meta(description="The topology domain concerned, key=value, or null.")] = None


class ClosedCapacity(Doc):
    """The capacity of nodes that pods close to others, beyond the requests of these pods."""

    nodes: Annotated[int | float, Meta(description="The number of closed nodes; an average is rounded to three decimals.")]
    cpu: Annotated[int, Meta(description="CPU beyond requests, in mCPU.")]
    memory: Annotated[int, Meta(description="Memory beyond requests, in bytes.")]


class OpportunityCost(Doc, omit_defaults=True):
    """The capacity that required anti-affinity closes beyond requests (docs/audit.md#opportunity-cost)."""

    level: Annotated[Literal["namespace", "workload", "pod"], Meta(description="The level of aggregation.")]
    object: Annotated[str, Meta(description="The namespace, workload or pod, `Kind namespace/name` or `Namespace name`.")]
    namespace: Annotated[str, Meta(description="The namespace of the object.")]
    pods: Annotated[int, Meta(description="The number of running or pending pods that close nodes.")]
    average: Annotated[ClosedCapacity, Meta(description="The capacity closed in domains of average size.")]
    largest: Annotated[ClosedCapacity, Meta(description="The capacity closed in the largest eligible domains.")]
    actual: Annotated[
        ClosedCapacity | None,
        Meta(description="The capacity that running pods close now, each node counted once; null for a pod without a node."),
    ] = None


class ComponentSpread(Doc):
    """The distribution of one control-plane component."""

    component: Annotated[str, Meta(description="The name of the component.")]
    instances: Annotated[int, Meta(description="The number of running instances.")]
    nodes: Annotated[int, Meta(description="The number of nodes that they run on.")]
    machines: Annotated[dict[str, int], Meta(description="Instances by machine, or by node if no label names machines.")]
    most: Annotated[int, Meta(description="The largest number of instances on one machine.")]
    survives: Annotated[
        int,
        Meta(description="Machines that can fail in sequence while a majority (etcd) or one instance (others) remains."),
    ]


class Stage(Doc, omit_defaults=True):
    """A stage of distribution over failure domains."""

    name: Annotated[Literal["machines", "zones", "clouds", "locations"], Meta(description="The kind of failure domain.")]
    domains: Annotated[int, Meta(description="The number of domains with control-plane nodes.")]
    survives: Annotated[int, Meta(description="Domain failures that every observed component survives.")]
    reached: Annotated[bool, Meta(description="True if the labels of this or a larger stage prove that one failure is survived.")]
    label: Annotated[
        str | None, Meta(description="The node label that names the domains, null if no label is on all control-plane nodes.")
    ] = None
    known: Annotated[
        bool,
        Meta(description="True if domains are known. Unknown machines are estimated by nodes (upper bound) or zones (lower bound)."),
    ] = True


class Requirement(Doc):
    """A requirement of a standard, judged from the snapshot (docs/control-plane.md#what-is-asked-for)."""

    standard: Annotated[str, Meta(description="The document that defines the requirement.")]
    level: Annotated[RequirementLevel, Meta(description="The requirement level that the document states.")]
    text: Annotated[str, Meta(description="The requirement.")]
    status: Annotated[RequirementStatus, Meta(description="The status that the snapshot proves: met, broken, or not provable.")]
    why: Annotated[str, Meta(description="The evidence, or the information that is missing.")]


class ControlPlane(Doc, omit_defaults=True):
    """How the control plane is distributed over failure domains (docs/control-plane.md)."""

    nodes: Annotated[list[str], Meta(description="The names of the control-plane nodes.")]
    etcd: Annotated[
        Etcd, Meta(description="The location of its members: on API server nodes (stacked), on other nodes (external), or unknown.")
    ]
    grade: Annotated[
        Grade, Meta(description="The furthest stage reached (zones count as machines). Non-distributed cannot survive one machine failure.")
    ]
    components: Annotated[list[ComponentSpread], Meta(description="The observed components.")] = []
    stages: Annotated[list[Stage], Meta(description="The stages of distribution, smallest domains first.")] = []
    workers: Annotated[dict[str, int], Meta(description="The number of worker nodes by machine.")] = {}
    machineLabel: Annotated[str | None, Meta(description="The node label that names machines.")] = None


class Selection(Doc, omit_defaults=True):
    """The filters that selected the findings."""

    select: Annotated[list[str], Meta(description="Selected codes or code prefixes; empty means all.")] = []
    ignore: Annotated[list[str], Meta(description="Ignored codes or code prefixes.")] = []
    namespaces: Annotated[list[str], Meta(description="Selected namespaces; empty means all.")] = []
    elsewhere: Annotated[int, Meta(description="The number of findings outside these namespaces, left out.")] = 0
    known: Annotated[int, Meta(description="The number of findings in the baseline, left out.")] = 0


class Audit(Doc):
    """The findings about a cluster."""

    snapshot: Annotated[SnapshotRef, Meta(description="The audited snapshot.")]
    counts: Annotated[dict[str, int], Meta(description="The number of findings of each severity.")]
    findings: Annotated[list[Finding], Meta(description="The findings, most serious first.")]
    controlPlane: Annotated[ControlPlane | None, Meta(description="The distribution of the control plane, if the snapshot shows one.")] = (
        None
    )
    notChecked: Annotated[list[str], Meta(description="Checks that were skipped, with the reason.")] = []
    unmodelled: Annotated[list[Unmodelled], Meta(description="Fields of the input that kubestow does not model.")] = []
    notes: Annotated[list[str], Meta(description="Parts of the input that are ignored.")] = []
    selection: Annotated[Selection | None, Meta(description="The filters that selected the findings, if not all are shown.")] = None
    descheduler: Annotated[DeschedulerAudit | None, Meta(description="The descheduler's evictions under the given policy, or null.")] = None
    karpenter: Annotated[KarpenterAudit | None, Meta(description="Karpenter's possible consolidation of the given NodePools, or null.")] = (
        None
    )
    requirements: Annotated[
        list[Requirement] | None,
        Meta(description="Requirements of the SCS standards, if the snapshot shows a control plane or their labels."),
    ] = None
    opportunityCosts: Annotated[
        list[OpportunityCost] | None, Meta(description="The capacity that required anti-affinity closes beyond requests, if any.")
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
    """Return the audit as plain dicts and lists, in printed order, without null fields."""
    plain = msgspec.to_builtins(audit)
    return {key: plain[key] for key in _ORDER if plain[key] is not None}
