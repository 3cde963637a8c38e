"""The Check document: what ``kubestow check`` prints of manifests and the cluster that they are for."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from kubestow.models.documents.findings.audit import SEVERITIES, Finding
from kubestow.models.documents.placement import API_VERSION, Doc, SnapshotRef, Unmodelled

#: What becomes of a workload's pods. ``unproved``: not all were placed, and it is not proved that they cannot be.
Fit = Literal["fits", "does not fit", "unproved"]
#: What applying a manifest does to a workload of the cluster. ``changed``: pods that are made from now on are of the new template.
Action = Literal["new", "rolling update", "recreated", "scaled", "changed", "unchanged"]


class Position(Doc, omit_defaults=True):
    """A place in a file."""

    file: Annotated[str, Meta(description="The file as it was named, `-` for standard input; of rendered charts the template's.")]
    line: Annotated[int | None, Meta(description="The line, from 1; null where only the file is known.")] = None
    column: Annotated[int | None, Meta(description="The column, from 1, in characters.")] = None


class Fault(Doc, omit_defaults=True):
    """A finding of the audit, with the place of what causes it."""

    finding: Annotated[Finding, Meta(description="What was found, as `kubestow audit` says it.")]
    fingerprint: Annotated[str, Meta(description="A hash of code, object and field, by which findings of two runs are compared.")]
    position: Annotated[Position | None, Meta(description="Where the field is that causes it; null: in no manifest.")] = None
    known: Annotated[bool, Meta(description="Whether the base or the baseline has it, too.")] = False


class WorkloadFit(Doc, omit_defaults=True):
    """Whether the pods of a workload find places."""

    workload: Annotated[str, Meta(description="`Kind namespace/name`.")]
    fit: Annotated[Fit, Meta(description="Whether all its pods fit, all manifests together.")]
    replicas: Annotated[int, Meta(description="The pods that it asks for.")]
    placed: Annotated[int, Meta(description="How many of them were placed.")]
    change: Annotated[
        Action,
        Meta(
            description="What applying the manifest does to the workload in the cluster; "
            "changed: pods that are made from now on are of the new template."
        ),
    ]
    cause: Annotated[str | None, Meta(description="Why it does not fit, or where its rolling update gets stuck.")] = None
    fix: Annotated[str | None, Meta(description="Changes after which it fits, each proved by solving again.")] = None
    position: Annotated[Position | None, Meta(description="Where the manifest begins, or the field that the cause names.")] = None
    known: Annotated[bool, Meta(description="Whether it does not fit with the base, either.")] = False


class Check(Doc, omit_defaults=True):
    """What manifests bring to a cluster."""

    snapshot: Annotated[SnapshotRef | None, Meta(description="The cluster; null: none was given, and only the manifests were judged.")]
    files: Annotated[list[str], Meta(description="The files of the manifests, as they were named.")]
    workloads: Annotated[list[WorkloadFit], Meta(description="Each workload of the manifests; empty without a cluster.")]
    counts: Annotated[dict[str, int], Meta(description="New findings of each severity.")]
    faults: Annotated[list[Fault], Meta(description="The findings, the most serious first; known ones are left out unless asked for.")]
    base: Annotated[list[str], Meta(description="The files of the base, with which the manifests are compared.")] = []
    known: Annotated[int, Meta(description="Findings that the base or the baseline has, too.")] = 0
    notChecked: Annotated[list[str], Meta(description="What could not be looked at, and why.")] = []
    unmodelled: Annotated[list[Unmodelled], Meta(description="What of the input kubestow does not model.")] = []
    notes: Annotated[list[str], Meta(description="What of the input is not taken into account.")] = []
    apiVersion: str = API_VERSION
    kind: str = "Check"


def unfit(check: Check) -> list[WorkloadFit]:
    """Return the workloads that do not fit, or are not proved to, and did with the base."""
    return [fit for fit in check.workloads if fit.fit != "fits" and not fit.known]


def failing(check: Check, threshold: str) -> int:
    """Return the number of new findings of a severity or a higher one; of ``never`` none."""
    return sum(check.counts.get(s, 0) for i, s in enumerate(SEVERITIES) if threshold in SEVERITIES[i:])


def to_builtins(check: Check) -> dict[str, Any]:
    """Return plain dicts and lists, in the document's order."""
    plain: dict[str, Any] = msgspec.to_builtins(check)
    head = {
        key: plain.pop(key, getattr(check, key)) for key in ("apiVersion", "kind", "snapshot", "files", "workloads", "counts", "faults")
    }
    return head | plain
