"""Which findings ``kubestow audit`` reports: its configuration (``--config``) and its baseline (``--baseline``), both files."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from kubestow.models.documents.findings.audit import Severity
from kubestow.models.documents.placement import API_VERSION

_Prefix = Annotated[str, Meta(pattern="^KS[0-9]{0,3}$", description="A code, or what several codes begin with: KS203, KS2, KS.")]
_Name = Annotated[str, Meta(min_length=1)]


class AuditConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How an audit judges a cluster: which codes count, and how serious each is. Of several prefixes of a code the longest counts."""

    apiVersion: Literal["kubestow.dev/v1alpha1"] = "kubestow.dev/v1alpha1"
    kind: Literal["AuditConfig"] = "AuditConfig"
    select: Annotated[tuple[_Prefix, ...], Meta(description="The codes that are looked for; all if none is given.")] = ()
    ignore: Annotated[tuple[_Prefix, ...], Meta(description="Codes that are not looked for.")] = ()
    severities: Annotated[dict[_Prefix, Severity], Meta(description="The severity of codes, instead of their own.")] = {}


class KnownFinding(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, order=True):
    """Findings of one code about one object."""

    code: Annotated[str, Meta(pattern="^KS[0-9]{3}$", description="The code.")]
    object: Annotated[
        _Name, Meta(description="What they are about, `Kind namespace/name` or `Kind name`; of a pod the workload that owns it.")
    ]
    count: Annotated[int, Meta(ge=1, description="How many of them are known.")] = 1


class AuditBaseline(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Findings that are known, and are not reported again."""

    apiVersion: Literal["kubestow.dev/v1alpha1"] = "kubestow.dev/v1alpha1"
    kind: Literal["AuditBaseline"] = "AuditBaseline"
    findings: Annotated[tuple[KnownFinding, ...], Meta(description="The findings, by code and object.")] = ()


NO_CONFIG: Final = AuditConfig()


def baseline_document(baseline: AuditBaseline) -> dict[str, Any]:
    """Return plain dicts and lists, as the file has them."""
    findings = msgspec.to_builtins(sorted(baseline.findings))
    return {"apiVersion": API_VERSION, "kind": "AuditBaseline", "findings": findings}
