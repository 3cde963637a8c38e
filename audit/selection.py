"""Which findings are reported: by code, by namespace, and without those that a baseline knows."""

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
from kubestow.models.workloads.ownership import Owners

#: A Job that a CronJob made is called ``NAME-<scheduled minute>``.
_OF_CRON_JOB: Final = re.compile(r"Job (.+)-\d{8,10}", re.ASCII)


def unknown(prefixes: Iterable[str], codes: Collection[str]) -> list[str]:
    """Return those of some prefixes that no code begins with, each once."""
    return [p for p in dict.fromkeys(prefixes) if not p or not any(code.startswith(p) for code in codes)]


@dataclass(frozen=True, slots=True)
class Chosen:
    """What is to be reported. ``select``, ``ignore``: codes and beginnings of codes; what the command line selects stands instead of what
    ``config`` does, what it ignores beside it. ``namespaces``: findings about others are left out, empty: none are. ``baseline``: what is
    known."""

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
        """Return whether a code is looked for: of the prefixes that it begins with the longest counts, of equal ones what is ignored."""
        selected = _longest(self.selected, code)
        if self.selected and selected is None:
            return False
        ignored = _longest(self.ignored, code)
        return ignored is None or len(selected or "") > len(ignored)

    def severity(self, finding: Finding) -> Severity:
        prefix = _longest(self.config.severities, finding.code)
        return self.config.severities[prefix] if prefix is not None else finding.severity

    def check(self, view: ClusterView) -> None:
        """Refuse namespaces of which the snapshot holds nothing.

        Raises:
            InputError: there are some.
        """
        spaces = {*view.snapshot.namespaces, *(s.namespace for s in view.subjects)}
        spaces.update(pod.metadata.namespace or "default" for pod in view.snapshot.pods)
        lacking = [name for name in self.namespaces if name not in spaces]
        if lacking:
            raise InputError([f"--namespace: {name}: no such namespace in the snapshot" for name in lacking])


EVERYTHING: Final = Chosen()


def _longest(prefixes: Iterable[str], code: str) -> str | None:
    return max((p for p in prefixes if code.startswith(p)), key=len, default=None)


@dataclass
class Reported:
    """``findings``: those that are reported; ``all``: those of the chosen codes and namespaces, as a baseline knows them; ``stale``: how
    many findings the baseline knows that there are no longer."""

    findings: list[Finding]
    selection: Selection | None
    all: AuditBaseline
    stale: int = 0


def report(view: ClusterView, found: Sequence[Finding], chosen: Chosen) -> Reported:
    """Choose from the findings of all checks, and give them their severity."""
    wanted = [msgspec.structs.replace(f, severity=chosen.severity(f)) for f in found if chosen.has(f.code)]
    here = [f for f in wanted if not chosen.namespaces or _touches(f, chosen.namespaces)]
    names = Names(view.snapshot)
    listed = chosen.baseline.findings if chosen.baseline is not None else ()
    known: Counter[tuple[str, str]] = Counter()
    for k in listed:
        known[k.code, k.object] += k.count
    there = Counter((f.code, names.of(f)) for f in here)
    fresh = []
    left = known.copy()
    for f in here:
        identity = f.code, names.of(f)
        if left[identity] > 0:
            left[identity] -= 1
        else:
            fresh.append(f)
    stale = sum(count for (code, obj), count in left.items() if count > 0 and _covered(chosen, code, obj))
    every = [KnownFinding(code, obj, count) for (code, obj), count in there.items()]
    every += [k for k in listed if not _covered(chosen, k.code, k.object)]
    selection = Selection(
        list(chosen.selected), list(chosen.ignored), list(chosen.namespaces), len(wanted) - len(here), len(here) - len(fresh)
    )
    return Reported(fresh, selection if selection != Selection() else None, AuditBaseline(findings=tuple(every)), stale)


def _touches(finding: Finding, namespaces: Collection[str]) -> bool:
    """Return whether a finding is about an object of one of some namespaces, or about a pod there."""
    return _namespace(finding.object) in namespaces or any(pod.partition("/")[0] in namespaces for pod in finding.pods)


def _namespace(obj: str) -> str | None:
    """The namespace of ``Kind namespace/name``."""
    kind, _, name = obj.partition(" ")
    return name.partition("/")[0] if "/" in name else name if kind == "Namespace" else None


def _covered(chosen: Chosen, code: str, obj: str) -> bool:
    """Return whether what is chosen would show a finding that a baseline knows."""
    return chosen.has(code) and (not chosen.namespaces or _namespace(obj) in chosen.namespaces)


class Names:
    """What findings are about, by names that outlive the pods."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._owners = Owners(snapshot)
        self._pods: dict[str, str] | None = None

    def of(self, finding: Finding) -> str:
        """Return what a finding is about: of a pod the workload that owns it."""
        obj = finding.object
        if obj.startswith("Pod "):
            obj = self._of_pods().get(obj.removeprefix("Pod ").partition(",")[0], obj)
        made = _OF_CRON_JOB.fullmatch(obj)
        return f"CronJob {made[1]}" if made else obj

    def _of_pods(self) -> dict[str, str]:
        """By key, what a pod goes by: its owner, or the beginning of a name that the API server made up."""
        if self._pods is None:
            self._pods = {}
            for pod in self._snapshot.pods:
                name = self._owners.of(pod)
                if name.startswith("Pod ") and pod.metadata.generateName:
                    name = f"Pod {pod.metadata.namespace or 'default'}/{pod.metadata.generateName}*"
                self._pods[pod_key(pod)] = name
        return self._pods
