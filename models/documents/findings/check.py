"""The Check document, which ``kubestow check`` prints for manifests and their target cluster."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from kubestow.models.documents.findings.audit import SEVERITIES, Finding
from kubestow.models.documents.placement import API_VERSION, Doc, SnapshotRef, Unmodelled, WorstEnd

#: The result for a workload's pods. ``unproved``: not all pods were placed, but it is not proved that they cannot be.
Fit = Literal["fits", "does not fit", "unproved"]
#: The effect of a manifest on a workload in the cluster. ``changed``: only pods created later use the new template.
Action = Literal["new", "rolling update", "recreated", "scaled", "changed", "unchanged"]


class Position(Doc, omit_defaults=True):
    """A place in a file."""

    file: Annotated[
        str, Meta(description="The file as named on the command line, `-` for standard input; for a rendered chart, the template.")
    ]
    line: Annotated[int | None, Meta(description="The line, from 1; null if only the file is known.")] = None
    column: Annotated[int | None, Meta(description="The column, from 1, in characters.")] = None


class Fault(Doc, omit_defaults=True):
    """An audit finding with the position of the field that causes it."""

    finding: Annotated[Finding, Meta(description="The finding, as in `kubestow audit`.")]
    fingerprint: Annotated[str, Meta(description="A hash of code, object and field, by which findings of two runs are compared.")]
    position: Annotated[Position | None, Meta(description="The position of the field that causes it, null if it is in no manifest.")] = None
    known: Annotated[bool, Meta(description="True if the base or the baseline has it too.")] = False


class WorkloadFit(Doc, omit_defaults=True):
    """The result for one workload of the manifests."""

    workload: Annotated[str, Meta(description="`Kind namespace/name`.")]
    fit: Annotated[Fit, Meta(description="The result for its pods, with all manifests applied.")]
    replicas: Annotated[int, Meta(description="The desired number of pods.")]
    placed: Annotated[int, Meta(description="The number of pods placed.")]
    change: Annotated[
        Action,
        Meta(
            description="The effect of the manifest on the workload in the cluster; "
            "changed means that only pods created later use the new template."
        ),
    ]
    cause: Annotated[str | None, Meta(description="The reason why it does not fit, or the position at which its rolling update halts.")] = (
        None
    )
    fix: Annotated[str | None, Meta(description="Changes after which it fits, each proved by solving again.")] = None
    position: Annotated[Position | None, Meta(description="The position of the field that the cause names, or of the manifest.")] = None
    known: Annotated[bool, Meta(description="True if it does not fit with the base either.")] = False
    worstEnds: Annotated[
        list[WorstEnd], Meta(description="The worst ends of a Deployment's rolling update, by constraint that counts old revisions.")
    ] = []


class Check(Doc, omit_defaults=True):
    """The effect of manifests on a cluster."""

    snapshot: Annotated[SnapshotRef | None, Meta(description="The cluster, null if none was given and only the manifests were checked.")]
    files: Annotated[list[str], Meta(description="The files of the manifests, as named on the command line.")]
    workloads: Annotated[list[WorkloadFit], Meta(description="The workloads of the manifests; empty without a cluster.")]
    counts: Annotated[dict[str, int], Meta(description="The number of new findings of each severity.")]
    faults: Annotated[list[Fault], Meta(description="The findings, most serious first. Known ones are left out unless requested.")]
    base: Annotated[list[str], Meta(description="The files of the base that the manifests are compared with.")] = []
    known: Annotated[int, Meta(description="The number of findings that the base or the baseline has too.")] = 0
    notChecked: Annotated[list[str], Meta(description="Checks that were skipped, with the reason.")] = []
    unmodelled: Annotated[list[Unmodelled], Meta(description="Fields of the input that kubestow does not model.")] = []
    notes: Annotated[list[str], Meta(description="Parts of the input that are ignored.")] = []
    apiVersion: str = API_VERSION
    kind: str = "Check"


def unfit(check: Check) -> list[WorkloadFit]:
    """Return the workloads that are not proved to fit, except those that did not fit with the base."""
    return [fit for fit in check.workloads if fit.fit != "fits" and not fit.known]


def failing(check: Check, threshold: str) -> int:
    """Return the number of new findings of at least the given severity, or 0 if ``threshold`` is ``never``."""
    return sum(check.counts.get(s, 0) for i, s in enumerate(SEVERITIES) if threshold in SEVERITIES[i:])


def to_builtins(check: Check) -> dict[str, Any]:
    """Return the document as plain dicts and lists, in printed order."""
    plain: dict[str, Any] = msgspec.to_builtins(check)
    head = {
        key: plain.pop(key, getattr(check, key)) for key in ("apiVersion", "kind", "snapshot", "files", "workloads", "counts", "faults")
    }
    return head | plain
