"""Selection of findings by code, namespace and baseline."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from kubestow.audit.view.view import ClusterView
from kubestow.models.documents.findings.audit import Finding, Selection, Severity
from kubestow.models.documents.findings.audit_selection import NO_CONFIG, AuditBaseline, AuditConfig, KnownFinding
from kubestow.models.kube.objects import pod_key
from kubestow.models.snapshot.snapshot import InputError, Snapshot
from kubestow.models.workloads.ownership import PodOwners

#: A CronJob names its Jobs ``NAME-<scheduled minute>``.
_OF_CRON_JOB: Final = re.compile(r"Job (.+)-\d{8,10}", re.ASCII)


def unknown(prefixes: Iterable[str], codes: Collection[str]) -> list[str]:
    """Return the prefixes that match no code, without duplicates."""
    return [p for p in dict.fromkeys(prefixes) if not p or not any(code.startswith(p) for code in codes)]


@dataclass(frozen=True, slots=True)
class FindingFilters:
    """Filters for the findings to report.

    Attributes:
        select: Codes and prefixes of codes from the command line. They replace those of ``config``.
        ignore: Codes and prefixes of codes from the command line. They are added to those of ``config``.
        namespaces: Report only findings that concern these namespaces. Empty: all.
        config: Selection and severities from a file.
        baseline: Known findings, which are not reported again.
    """

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    config: AuditConfig = NO_CONFIG
    baseline: AuditBaseline | None = None

    @property
    def selected(self) -> tuple[str, ...]:
        return self.select or self.config.select

    @property
    def ignored(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.config.ignore, *self.ignore)))

    def has(self, code: str) -> bool:
        """Return True if a code is selected. The longest matching prefix decides; on a tie, ``ignore`` wins."""
        selected = _longest(self.selected, code)
        if self.selected and selected is None:
            return False
        ignored = _longest(self.ignored, code)
        return ignored is None or len(selected or "") > len(ignored)

    def severity(self, finding: Finding) -> Severity:
        prefix = _longest(self.config.severities, finding.code)
        return self.config.severities[prefix] if prefix is not None else finding.severity

    def check(self, view: ClusterView) -> None:
        """Check that the snapshot contains the selected namespaces.

        Raises:
            InputError: A namespace does not occur in the snapshot.
        """
        spaces = {*view.snapshot.namespaces, *(s.namespace for s in view.subjects)}
        spaces.update(pod.metadata.namespace or "default" for pod in view.snapshot.pods)
        lacking = [name for name in self.namespaces if name not in spaces]
        if lacking:
            raise InputError([f"--namespace: {name}: no such namespace in the snapshot" for name in lacking])


EVERYTHING: Final = FindingFilters()


def _longest(prefixes: Iterable[str], code: str) -> str | None:
    return max((p for p in prefixes if code.startswith(p)), key=len, default=None)


@dataclass
class Reported:
    """The result of a selection.

    Attributes:
        findings: Findings to report.
        selection: The filters as recorded in the document. None if nothing was filtered.
        all: Findings of the selected codes and namespaces, in the form of a baseline.
        stale: Number of findings in the baseline that no longer occur.
    """

    findings: list[Finding]
    selection: Selection | None
    all: AuditBaseline
    stale: int = 0


def report(view: ClusterView, found: Sequence[Finding], chosen: FindingFilters) -> Reported:
    """Select from the findings of all checks and assign the configured severities."""
    wanted = [msgspec.structs.replace(f, severity=chosen.severity(f)) for f in found if chosen.has(f.code)]
    here = [f for f in wanted if not chosen.namespaces or _touches(f, chosen.namespaces)]
    names = FindingNames(view.snapshot)
    listed = chosen.baseline.findings if chosen.baseline is not None else ()
    known: Counter[tuple[str, str]] = Counter()
    for k in listed:
        known[k.code, k.object] += k.count
    there = Counter((f.code, names.of(f)) for f in here)
    fresh = []
    unmatched = known.copy()
    for f in here:
        identity = f.code, names.of(f)
        if unmatched[identity] > 0:
            unmatched[identity] -= 1
        else:
            fresh.append(f)
    stale = sum(count for (code, obj), count in unmatched.items() if count > 0 and _covered(chosen, code, obj))
    every = [KnownFinding(code, obj, count) for (code, obj), count in there.items()]
    every += [k for k in listed if not _covered(chosen, k.code, k.object)]
    selection = Selection(
        list(chosen.selected), list(chosen.ignored), list(chosen.namespaces), len(wanted) - len(here), len(here) - len(fresh)
    )
    return Reported(fresh, selection if selection != Selection() else None, AuditBaseline(findings=tuple(every)), stale)


def _touches(finding: Finding, namespaces: Collection[str]) -> bool:
    """Return True if a finding concerns an object or a pod in one of the namespaces."""
    return _namespace(finding.object) in namespaces or any(pod.partition("/")[0] in namespaces for pod in finding.pods)


def _namespace(obj: str) -> str | None:
    """Return the namespace of ``Kind namespace/name``."""
    kind, _, name = obj.partition(" ")
    return name.partition("/")[0] if "/" in name else name if kind == "Namespace" else None


def _covered(chosen: FindingFilters, code: str, obj: str) -> bool:
    """Return True if the filters would report this finding of a baseline."""
    return chosen.has(code) and (not chosen.namespaces or _namespace(obj) in chosen.namespaces)


class FindingNames:
    """Names of the objects of findings that stay stable when pods are replaced."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._owners = PodOwners(snapshot)
        self._pods: dict[str, str] | None = None

    def of(self, finding: Finding) -> str:
        """Return the stable name of the finding's object. For a pod, this is the workload that owns it."""
        obj = finding.object
        if obj.startswith("Pod "):
            obj = self._of_pods().get(obj.removeprefix("Pod ").partition(",")[0], obj)
        made = _OF_CRON_JOB.fullmatch(obj)
        return f"CronJob {made[1]}" if made else obj

    def _of_pods(self) -> dict[str, str]:
        """Return the stable name per pod key: its owner, or the ``generateName`` prefix of a bare pod."""
        if self._pods is None:
            self._pods = {}
            for pod in self._snapshot.pods:
                name = self._owners.of(pod)
                if name.startswith("Pod ") and pod.metadata.generateName:
                    name = f"Pod {pod.metadata.namespace or 'default'}/{pod.metadata.generateName}*"
                self._pods[pod_key(pod)] = name
        return self._pods
