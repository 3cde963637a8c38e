"""Common form of an Audit and a Check for pipelines: outcomes of rules, each about an object, with an optional file position."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from kubestow.models.documents.findings.audit import SEVERITIES, Audit, Severity
from kubestow.models.documents.findings.check import Check, Fault, Position
from kubestow.models.documents.placement import SnapshotRef, Unmodelled
from kubestow.models.snapshot.sources import STDIN
from kubestow.report.documents.output import one_line


class OutcomeRule(Protocol):
    """A kind of outcome, as in the catalogue of the audit."""

    @property
    def code(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def severity(self) -> Severity: ...
    @property
    def title(self) -> str: ...
    @property
    def why(self) -> str: ...
    @property
    def fix(self) -> str: ...


@dataclass(frozen=True)
class FitRule:
    """A kind of outcome that only a Check has."""

    code: str
    name: str
    severity: Severity
    title: str
    why: str
    fix: str


DOES_NOT_FIT: Final = FitRule(
    "does-not-fit", "does-not-fit", "error", "Not all pods of a workload fit",
    "It is proved that some of its pods stay pending, or that its rollout never completes.",
    "See the message for the cause and, if one was found, a change after which the workload fits.",
)  # fmt: skip
UNPROVED: Final = FitRule(
    "unproved", "unproved", "warning", "It is unknown whether all pods of a workload fit",
    "No placement was found in time, and none is proved impossible.",
    "Increase the time limit (--time-limit), or check the workload alone.",
)  # fmt: skip
_OF_FIT: Final = {"does not fit": DOES_NOT_FIT, "unproved": UNPROVED}


#: Name of standard input in formats that accept files only.
STREAM: Final = "stdin"


@dataclass(frozen=True)
class ReportOutcome:
    """A result to report.

    Attributes:
        rule: The kind of outcome.
        severity: Its severity.
        about: The object, ``Kind namespace/name``.
        message: The problem.
        why: Its consequences.
        fix: Remedy, if any.
        fingerprint: Stable identity of the outcome.
        fails: True if it fails the run.
        field: Field of the object, if known.
        position: Position in the files. None if the object is in none of the files.
        known: True if it is in the baseline or the base.
        pods: Keys of affected pods.
    """

    rule: OutcomeRule
    severity: Severity
    about: str
    message: str
    why: str
    fix: str | None
    fingerprint: str
    fails: bool
    field: str | None = None
    position: Position | None = None
    known: bool = False
    pods: Sequence[str] = ()

    @property
    def sentences(self) -> str:
        """The object, the problem and the remedy in one line."""
        text = f"{self.about}: {self.message}{'' if self.message.endswith(('.', '!', '?')) else '.'}"
        return one_line(f"{text} {self.fix}" if self.fix else text)


@dataclass(frozen=True)
class Report:
    """The results of a command.

    Attributes:
        command: Name of the command.
        rules: All evaluated rules, by code.
        outcomes: The outcomes.
        passed: Objects without problems, by code.
        file: File for outcomes without a position. None: no file.
        compared: True if outcomes were compared with known ones.
        remarks: Further remarks, by kind.
        snapshot: Reference to the snapshot.
    """

    command: str
    rules: Mapping[str, OutcomeRule]
    outcomes: Sequence[ReportOutcome]
    passed: Mapping[str, Sequence[str]] = field(default_factory=dict)
    file: str | None = None
    compared: bool = False
    remarks: Mapping[str, Sequence[str]] = field(default_factory=dict)
    snapshot: SnapshotRef | None = None


def at_or_above(threshold: str) -> tuple[Severity, ...]:
    """Return the severities at or above ``threshold``. Empty for ``never``."""
    return tuple(s for i, s in enumerate(SEVERITIES) if threshold in SEVERITIES[i:])


#: Returns the position of an object's field, given kind, namespace, name and field.
Locate = Callable[[str, str | None, str, str | None], Position | None]


def of_audit(
    audit: Audit, rules: Mapping[str, OutcomeRule], threshold: str, files: Sequence[str] = (), locate: Locate | None = None
) -> Report:
    """Return the report of an audit. ``files`` are those of the snapshot; ``locate`` finds objects of manifests."""
    counted_in = at_or_above(threshold)
    outcomes = []
    for finding in audit.findings:
        where = _parts(finding.object)
        position = locate(*where, finding.field) if locate is not None and where is not None else None
        outcomes.append(_found(Fault(finding, _hash(finding.code, finding.object, finding.field or ""), position), rules, counted_in))
    remarks = _remarks(audit.notChecked, audit.unmodelled, audit.notes)
    return Report("audit", rules, _numbered(outcomes), file=_first(files), remarks=remarks, snapshot=audit.snapshot)


def of_check(check: Check, rules: Mapping[str, OutcomeRule], threshold: str) -> Report:
    """Return the report of a check: workloads that do not fit, then findings."""
    counted_in = at_or_above(threshold)
    outcomes, fitting = [], []
    for fit in check.workloads:
        if fit.fit == "fits":
            fitting.append(fit.workload)
            continue
        rule = _OF_FIT[fit.fit]
        message = f"{fit.change}, {fit.placed} of {fit.replicas} pods placed" + (f": {fit.cause}" if fit.cause else "")
        mark = _hash(rule.code, fit.workload)
        outcomes.append(
            ReportOutcome(
                rule, rule.severity, fit.workload, message, rule.why, fit.fix, mark, not fit.known, position=fit.position, known=fit.known
            )
        )
    outcomes += [_found(fault, rules, counted_in) for fault in check.faults]
    looked = {rule.code: rule for rule in _OF_FIT.values()} if check.snapshot is not None else {}
    return Report(
        "check",
        {**looked, **rules},
        _numbered(outcomes),
        {DOES_NOT_FIT.code: fitting} if fitting else {},
        _first(check.files),
        bool(check.base or check.known or any(outcome.known for outcome in outcomes)),
        _remarks(check.notChecked, check.unmodelled, check.notes),
        check.snapshot,
    )


def _found(fault: Fault, rules: Mapping[str, OutcomeRule], counted_in: Sequence[Severity]) -> ReportOutcome:
    finding = fault.finding
    rule = rules.get(finding.code) or FitRule(finding.code, finding.name, finding.severity, finding.name, finding.why, finding.fix)
    fails = finding.severity in counted_in and not fault.known
    return ReportOutcome(
        rule, finding.severity, finding.object, finding.message, finding.why, finding.fix, fault.fingerprint, fails, finding.field,
        fault.position, fault.known, finding.pods,
    )  # fmt: skip


def _numbered(outcomes: Iterable[ReportOutcome]) -> list[ReportOutcome]:
    """Append numbers to equal fingerprints, because formats treat equal fingerprints as one outcome."""
    seen = Counter[str]()
    numbered = []
    for outcome in outcomes:
        seen[outcome.fingerprint] += 1
        numbered.append(replace(outcome, fingerprint=f"{outcome.fingerprint}:{seen[outcome.fingerprint]}"))
    return numbered


def _hash(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _parts(about: str) -> tuple[str, str | None, str] | None:
    """Return kind, namespace and name of ``Kind namespace/name`` or ``Kind name``."""
    kind, space, qualified_name = about.partition(" ")
    namespace, slash, name = qualified_name.partition("/")
    return (kind, namespace if slash else None, name if slash else namespace) if space and qualified_name else None


def _first(files: Sequence[str]) -> str | None:
    return next((file for file in files if file != STDIN), STREAM if files else None)


def _remarks(not_checked: Sequence[str], unmodelled: Sequence[Unmodelled], notes: Sequence[str]) -> dict[str, list[str]]:
    texts_by_kind = {
        "not-checked": list(not_checked),
        "not-modelled": [f"{entry.pod}: {entry.field}: {entry.effect}" for entry in unmodelled],
        "not-taken-into-account": list(notes),
    }
    return {kind: texts for kind, texts in texts_by_kind.items() if texts}
