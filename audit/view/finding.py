"""What every check offers: the codes of what it may find, and a function from a view of the snapshot to findings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kubestow.models.documents.findings.audit import Finding, Severity


@dataclass(frozen=True)
class Code:
    """A kind of finding. ``code``: KS and three digits, never given to another kind; ``name``: in words, kebab-case; ``title``: a sentence
    without a full stop; ``why``: why it matters; ``fix``: what to do."""

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
        """Return a finding of this kind. ``severity``, ``fix``: where they differ from those of the kind."""
        return Finding(
            self.code, self.name, severity or self.severity, obj, message, self.why, fix or self.fix,
            field=field, rule=rule, pods=list(pods), nodes=list(nodes), domain=domain,
        )  # fmt: skip


def some(names: Sequence[str], most: int = 3) -> str:
    """Names in a sentence: all of a few, the first of many and how many more there are."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
