"""The interface of a check: the codes that it may yield, and the creation of findings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kubestow.models.documents.findings.audit import Finding, Severity


@dataclass(frozen=True)
class Code:
    """A kind of finding.

    Attributes:
        code: KS and three digits. A code is never reused for another kind.
        name: Short name in kebab case.
        severity: Default severity.
        title: One sentence without a full stop.
        why: Consequences of the finding.
        fix: Remedy.
    """

    code: str
    name: str
    severity: Severity
    title: str
    why: str
    fix: str

    def found(
        self,
        obj: str,
        message: str,
        *,
        field: str | None = None,
        rule: str | None = None,
        pods: Iterable[str] = (),
        nodes: Iterable[str] = (),
        domain: str | None = None,
        severity: Severity | None = None,
        fix: str | None = None,
    ) -> Finding:
        """Return a finding of this kind. ``severity`` and ``fix`` override the defaults of the kind."""
        return Finding(
            self.code, self.name, severity or self.severity, obj, message, self.why, fix or self.fix,
            field=field, rule=rule, pods=list(pods), nodes=list(nodes), domain=domain,
        )  # fmt: skip


def some(names: Sequence[str], limit: int = 3) -> str:
    """Return a list of names for a sentence, shortened to the first ``limit`` names and the number of the others."""
    shown = ", ".join(names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"
