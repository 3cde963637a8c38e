"""What an Audit and a Check have in common for pipelines: outcomes of rules, each about an object, some at a place of a file."""

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


class Rule(Protocol):
    """A kind of outcome, as the catalogue of the audit has it."""

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
    """What a Check says beside the findings of the audit."""

    code: str
    name: str
    severity: Severity
    title: str
    why: str
    fix: str


DOES_NOT_FIT: Final = FitRule(
    "does-not-fit", "does-not-fit", "error", "A workload whose pods do not all fit",
    "It is proved that there is no way: some of its pods stay pending, or its rollout never comes to an end.",
    "The message names the cause, and where one was found, a change after which it fits.",
)  # fmt: skip
UNPROVED: Final = FitRule(
    "unproved", "unproved", "warning", "A workload of whose pods it is not known whether they all fit",
    "No way was found in time, and it is not proved that there is none.",
    "Give it more time (--time-limit), or look at the workload by itself.",
)  # fmt: skip
_OF_FIT: Final = {"does not fit": DOES_NOT_FIT, "unproved": UNPROVED}


#: How formats that take files alone name standard input.
STREAM: Final = "stdin"


@dataclass(frozen=True)
class Outcome:
    """Something that is to be shown. ``about``: the object, ``Kind namespace/name``; ``position``: where it is in the files, None if in
    none of them; ``fails``: whether it makes the run fail; ``known``: whether it is no news."""

    rule: Rule
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
        """Return what is wrong with which object, and what to do, in one line."""
        text = f"{self.about}: {self.message}{'' if self.message.endswith(('.', '!', '?')) else '.'}"
        return one_line(f"{text} {self.fix}" if self.fix else text)


@dataclass(frozen=True)
class Report:
    """What was found by a run of a ``command``. ``rules``: all that were looked at, by code; ``passed``: objects that were judged and are
    fine, by code; ``file``: where something is shown that is in none of the files, None for nowhere; ``compared``: whether outcomes were
    compared with known ones; ``remarks``: what else a reader must know, by kind."""

    command: str
    rules: Mapping[str, Rule]
    outcomes: Sequence[Outcome]
    passed: Mapping[str, Sequence[str]] = field(default_factory=dict)
    file: str | None = None
    compared: bool = False
    remarks: Mapping[str, Sequence[str]] = field(default_factory=dict)
    snapshot: SnapshotRef | None = None


def at_or_above(threshold: str) -> tuple[Severity, ...]:
    """Return the severities at or above ``threshold``; none of ``never``."""
    return tuple(s for i, s in enumerate(SEVERITIES) if threshold in SEVERITIES[i:])


#: Tells where an object and its field are: kind, namespace, name, field.
Locate = Callable[[str, str | None, str, str | None], Position | None]


def of_audit(audit: Audit, rules: Mapping[str, Rule], threshold: str, files: Sequence[str] = (), locate: Locate | None = None) -> Report:
    """Return what an audit found. ``files``: the snapshot's; ``locate``: tells where objects of manifests are."""
    counted_in = at_or_above(threshold)
    outcomes = []
    for finding in audit.findings:
        where = _parts(finding.object)
        position = locate(*where, finding.field) if locate is not None and where is not None else None
        outcomes.append(_found(Fault(finding, _hash(finding.code, finding.object, finding.field or ""), position), rules, counted_in))
    remarks = _remarks(audit.notChecked, audit.unmodelled, audit.notes)
    return Report("audit", rules, _numbered(outcomes), file=_first(files), remarks=remarks, snapshot=audit.snapshot)


def of_check(check: Check, rules: Mapping[str, Rule], threshold: str) -> Report:
    """Return what a check found: what does not fit, then the findings."""
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
            Outcome(
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


def _found(fault: Fault, rules: Mapping[str, Rule], counted_in: Sequence[Severity]) -> Outcome:
    finding = fault.finding
    rule = rules.get(finding.code) or FitRule(finding.code, finding.name, finding.severity, finding.name, finding.why, finding.fix)
    fails = finding.severity in counted_in and not fault.known
    return Outcome(
        rule, finding.severity, finding.object, finding.message, finding.why, finding.fix, fault.fingerprint, fails, finding.field,
        fault.position, fault.known, finding.pods,
    )  # fmt: skip


def _numbered(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """Tell outcomes of one fingerprint apart, in their order: formats take equal ones for one."""
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
    kind, space, rest = about.partition(" ")
    namespace, slash, name = rest.partition("/")
    return (kind, namespace if slash else None, name if slash else namespace) if space and rest else None


def _first(files: Sequence[str]) -> str | None:
    return next((file for file in files if file != STDIN), STREAM if files else None)


def _remarks(not_checked: Sequence[str], unmodelled: Sequence[Unmodelled], notes: Sequence[str]) -> dict[str, list[str]]:
    told = {
        "not-checked": list(not_checked),
        "not-modelled": [f"{entry.pod}: {entry.field}: {entry.effect}" for entry in unmodelled],
        "not-taken-into-account": list(notes),
    }
    return {kind: texts for kind, texts in told.items() if texts}
