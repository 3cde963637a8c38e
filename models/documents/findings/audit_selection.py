"""The files that select the findings of ``kubestow audit``: its configuration (``--config``) and its baseline (``--baseline``)."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from kubestow.models.documents.findings.audit import Severity
from kubestow.models.documents.placement import API_VERSION

_Prefix = Annotated[str, Meta(pattern="^KS[0-9]{0,3}$", description="A code such as KS203, or a prefix of codes such as KS2 or KS.")]
_Name = Annotated[str, Meta(min_length=1)]


class AuditConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The codes that an audit reports, and their severities. If several prefixes match a code, the longest applies."""

    apiVersion: Literal["kubestow.dev/v1alpha1"] = "kubestow.dev/v1alpha1"
    kind: Literal["AuditConfig"] = "AuditConfig"
    select: Annotated[tuple[_Prefix, ...], Meta(description="Codes to report; empty means all.")] = ()
    ignore: Annotated[tuple[_Prefix, ...], Meta(description="Codes to ignore.")] = ()
    severities: Annotated[dict[_Prefix, Severity], Meta(description="Severities by code, instead of the defaults.")] = {}


class KnownFinding(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, order=True):
    """Findings of one code about one object."""

    code: Annotated[str, Meta(pattern="^KS[0-9]{3}$", description="The code.")]
    object: Annotated[_Name, Meta(description="The object, `Kind namespace/name` or `Kind name`; for a pod, the workload that owns it.")]
    count: Annotated[int, Meta(ge=1, description="The number of known findings.")] = 1


class AuditBaseline(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Known findings, which an audit does not report again."""

    apiVersion: Literal["kubestow.dev/v1alpha1"] = "kubestow.dev/v1alpha1"
    kind: Literal["AuditBaseline"] = "AuditBaseline"
    findings: Annotated[tuple[KnownFinding, ...], Meta(description="The findings, by code and object.")] = ()


NO_CONFIG: Final = AuditConfig()


def baseline_document(baseline: AuditBaseline) -> dict[str, Any]:
    """Return the baseline as plain dicts and lists, in the form of the file."""
    findings = msgspec.to_builtins(sorted(baseline.findings))
    return {"apiVersion": API_VERSION, "kind": "AuditBaseline", "findings": findings}
