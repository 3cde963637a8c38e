"""The check of manifests against a cluster: builds the Check document."""

from __future__ import annotations

import hashlib
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from kubestow.audit.checks.rollouts import DEADLOCK, HALT, PREEMPTS
from kubestow.audit.gate.admission import waiting as sorted_waiting
from kubestow.audit.gate.changes import WorkloadChange, as_applied, changes, not_compared, put_in_place
from kubestow.audit.gate.fields import blamed, in_template, without_places
from kubestow.audit.gate.helm_hooks import judge_hooks
from kubestow.audit.gate.placing import Placing, PlacingOutcome
from kubestow.audit.gate.stepping import FitVerdict
from kubestow.audit.run import AuditOptions, examine
from kubestow.audit.selection import FindingFilters, FindingNames
from kubestow.models.documents.findings.audit import SEVERITIES, Audit, Finding
from kubestow.models.documents.findings.audit_selection import AuditBaseline, KnownFinding
from kubestow.models.documents.findings.check import Check, Fault, Position, WorkloadFit
from kubestow.models.documents.placement import SnapshotRef
from kubestow.models.kube.objects import pod_key
from kubestow.models.positions.find import Positions
from kubestow.models.snapshot.scope import select
from kubestow.models.snapshot.snapshot import InputError, Snapshot
from kubestow.models.workloads.merge import merge
from kubestow.models.workloads.ownership import given_as
from kubestow.models.workloads.view import listed, view
from kubestow.solver.runtime.options import OnProgress, Options

#: Prefix of codes about the control plane and node labels. Manifests of workloads do not change these.
_OF_NODES: Final = "KS9"
#: Prefix of codes for pods on nodes. For pods that this run placed, the placement was already validated.
_JUDGED: Final = "KS1"
#: Codes about the distribution of replicas. For pods that this run placed, the scheduler may choose differently.
_CHOSEN_HERE: Final = ("KS511", "KS512", "KS513", "KS514")
#: Codes about the next rollout, after the one that the manifests trigger.
_OF_NEXT_ROLLOUT: Final = tuple(code.code for code in (DEADLOCK, HALT, PREEMPTS))
#: Code that depends on objects outside the manifests.
_OF_OTHERS: Final = "KS201"
_NO_CLUSTER: Final = "whether the pods fit, and all checks that need nodes or running pods: no cluster is given (--cluster)"
#: Fraction of the remaining time for placing, and fraction of the rest for auditing the cluster without the
#: manifests.
_PLACING_TIME_FRACTION: Final = 0.6
_BASELINE_TIME_FRACTION: Final = 0.4


@dataclass(frozen=True)
class GateRequest:
    """The input of a check.

    Attributes:
        manifests: The manifests.
        positions: Line and column of their fields.
        files: Names of the files, as given.
        cluster: The cluster. None: judge the manifests alone.
        base: The manifests before the change. None: no comparison.
        base_files: Names of the files of ``base``.
        differing: The first differing field by workload, for templates that differ from the cluster's in fields
            that placement does not read.
        base_differing: The same for ``base``.
    """

    manifests: Snapshot
    positions: Positions
    files: Sequence[str]
    cluster: Snapshot | None = None
    base: Snapshot | None = None
    base_files: Sequence[str] = ()
    differing: Mapping[str, str] = field(default_factory=dict)
    base_differing: Mapping[str, str] = field(default_factory=dict)

    @property
    def before(self) -> GateRequest | None:
        """The same request for the manifests before the change, or None."""
        return None if self.base is None else replace(self, manifests=self.base, differing=self.base_differing)


@dataclass(frozen=True)
class GateOptions:
    """Options of a check.

    Attributes:
        search: Options of placement searches.
        audit: Options of the audit, including its ``chosen``.
        show_known: Also list known findings.
    """

    search: Options
    audit: AuditOptions
    show_known: bool = False


@dataclass
class GateResult:
    """The result of a check.

    Attributes:
        check: The document.
        all: Findings for a new baseline.
        stale: Number of findings in the old baseline that no longer occur.
        warnings: Warnings about the input.
    """

    check: Check
    all: AuditBaseline
    stale: int
    warnings: list[str]


@dataclass(frozen=True)
class _Located:
    """A finding with its object and field in a manifest."""

    finding: Finding
    ref: str
    field: str | None
    fingerprint: str


@dataclass
class _Side:
    """One side of the comparison.

    Attributes:
        verdicts: Results per workload.
        found: Findings with positions.
        audit: The audit of the cluster with the manifests.
        own: References of the objects in the manifests.
        known: Number of findings per fingerprint without the manifests.
        outcome: Result of placing the pods. None without a cluster.
    """

    verdicts: list[FitVerdict]
    found: list[_Located]
    audit: Audit
    own: set[str]
    known: Counter[str] = field(default_factory=Counter)
    outcome: PlacingOutcome | None = None


@dataclass(frozen=True)
class _Run:
    """A run of the check. ``until`` is its deadline for one side of the comparison, on the monotonic clock."""

    options: GateOptions
    stop: threading.Event
    until: float
    on_progress: OnProgress | None

    def remaining_seconds(self) -> float:
        """Return the remaining seconds."""
        limit = self.options.search.time_limit or 60.0
        return limit if self.options.search.deterministic else max(1.0, self.until - time.monotonic())


def check(
    request: GateRequest,
    options: GateOptions,
    *,
    on_progress: OnProgress | None = None,
    stop: threading.Event | None = None,
    began: float | None = None,
) -> GateResult:
    """Check whether manifests fit a cluster, and audit the result.

    Raises:
        InputError: An API server would reject the manifests, or quantities cannot be summed.
        InternalFault: The independent checker found a placement invalid.
    """
    started, limit = time.monotonic() if began is None else began, options.search.time_limit or 60.0
    run = _Run(options, stop or threading.Event(), started + limit, on_progress)
    first = run if request.base is None else replace(run, until=started + limit / 2)
    side, before = _side(request, first, compared=request.base is None), request.before
    base = _side(before, run, compared=False) if before is not None else None
    known = base.known + Counter(each.fingerprint for each in base.found) if base is not None else side.known
    faults: list[Fault] = []
    places = _Places(request, {verdict.change.ref: verdict.change for verdict in side.verdicts})
    known_counts, listed = known.copy(), Counter[tuple[str, str]]()
    baseline = Counter[tuple[str, str]]()
    for entry in options.audit.chosen.baseline.findings if options.audit.chosen.baseline is not None else ():
        baseline[entry.code, entry.object] += entry.count
    for each in side.found:
        mine = each.ref in side.own
        seen = (base is not None or not mine) and known_counts[each.fingerprint] > 0
        known_counts[each.fingerprint] -= seen
        if seen and not mine:
            continue
        identity = each.finding.code, each.ref
        listed[identity] += 1
        in_baseline = not seen and baseline[identity] > 0
        baseline[identity] -= in_baseline
        faults.append(Fault(each.finding, each.fingerprint, places.of(each.ref, each.field), known=seen or in_baseline))
    fits = [_fit(verdict, base, places) for verdict in side.verdicts] if request.cluster is not None else []
    return GateResult(
        _document(request, side, faults, fits, show_known=options.show_known),
        AuditBaseline(findings=tuple(KnownFinding(code, ref, count) for (code, ref), count in listed.items())),
        sum(count for count in baseline.values() if count > 0),
        side.outcome.warnings if side.outcome is not None else [],
    )


# --- one side of the comparison ------------------------------------------------------------------------------------------


def _side(request: GateRequest, run: _Run, *, compared: bool) -> _Side:
    """Judge one side of the comparison. With ``compared``, also audit the unchanged cluster."""
    cluster, manifests = request.cluster, request.manifests
    own = set(manifests.sources)
    if cluster is None:
        alone = manifests.copy()
        found, audit = _audited(alone, run, frozenset())
        verdicts = [FitVerdict(change, "unproved", 0, 0) for change in changes(Snapshot(), manifests, manifests)]
        return _Side(verdicts, [each for each in found if not _of_others(each.finding)], audit, own)
    manifests = as_applied(cluster, manifests)
    waiting = select(cluster, include_gated=True).pending
    known = _before(cluster, run) if compared else Counter[str]()
    start, found_changes, outcome = _placed(cluster, manifests, request, run)
    if waiting:
        outcome.notes.append(f"{len(waiting)} pod{'s' * (len(waiting) > 1)} that wait{'s' * (len(waiting) == 1)} in the cluster: left out")
    outcome.notes += [
        f"namespace {name} is in neither the cluster nor the manifests: it has to be made first"
        for name in _no_namespaces(start, manifests)
    ]
    outcome.notes += not_compared(found_changes)
    hooks = judge_hooks(cluster, manifests, outcome.verdicts, lambda before, there: _placed(before, there, request, run)[-1])
    outcome.notes += hooks.notes
    there = {pod_key(pod) for pod in cluster.pods}
    created = {key for pod in outcome.after.pods if (key := pod_key(pod)) not in there}
    after = replace(  # Drop the claims and classes that were assumed in order to place pods.
        outcome.after, persistent_volume_claims=start.persistent_volume_claims, storage_classes=start.storage_classes
    )
    found, audit = _audited(after, run, outcome.newcomers | created)
    return _Side([*outcome.verdicts, *hooks.verdicts], _next_rollouts(found, outcome.verdicts), audit, own, known, outcome)


def _placed(
    cluster: Snapshot, manifests: Snapshot, request: GateRequest, run: _Run
) -> tuple[Snapshot, list[WorkloadChange], PlacingOutcome]:
    """Place the pods of manifests in a cluster.

    Returns:
        The cluster with the objects of the manifests and without pending pods; the changes; the outcome.
    """
    waiting = set(select(cluster, include_gated=True).pending)
    problems: list[str] = []
    start = merge(replace(cluster, pods=[pod for i, pod in enumerate(cluster.pods) if i not in waiting]), manifests, problems)
    if problems:
        raise InputError(problems)
    put_in_place(start, manifests)
    until = time.monotonic() + run.remaining_seconds() * _PLACING_TIME_FRACTION
    found_changes = changes(cluster, manifests, start, request.differing)
    aside = sorted_waiting(cluster, waiting, found_changes)
    start.left_out = aside.others
    outcome = Placing(start, manifests, found_changes, run.options.search, until, run.stop, run.on_progress, aside).run()
    outcome.warnings = list(dict.fromkeys([*start.warnings[len(cluster.warnings) :], *outcome.warnings]))
    return start, found_changes, outcome


def _next_rollouts(found: Sequence[_Located], verdicts: Sequence[FitVerdict]) -> list[_Located]:
    """Add to findings about the next rollout that the rollout of this change completes, if it does."""
    complete = {verdict.change.ref for verdict in verdicts if verdict.fit == "fits" and verdict.change.rolls}
    new_findings = []
    for each in found:
        if each.ref in complete and each.finding.code in _OF_NEXT_ROLLOUT:
            message = f"the rollout of this change completes; {each.finding.message}"
            each = replace(each, finding=msgspec.structs.replace(each.finding, message=message))
        new_findings.append(each)
    return new_findings


def _no_namespaces(merged: Snapshot, manifests: Snapshot) -> list[str]:
    """Return the namespaces used by the manifests that do not exist. Empty if the cluster lists no namespaces."""
    named = {obj.metadata.namespace or "default" for obj in (*listed(manifests), *manifests.pods)}
    return sorted(named - merged.namespaces.keys()) if merged.namespaces else []


def _before(cluster: Snapshot, run: _Run) -> Counter[str]:
    part = replace(run.options.audit, time_limit=run.remaining_seconds() * _BASELINE_TIME_FRACTION)
    located, _ = _audited(cluster, replace(run, options=replace(run.options, audit=part)), frozenset())
    return Counter(each.fingerprint for each in located)


def _audited(snapshot: Snapshot, run: _Run, newcomers: frozenset[str]) -> tuple[list[_Located], Audit]:
    """Return the findings about a cluster. ``newcomers`` are pods that this run placed."""
    options = run.options.audit
    chosen = options.chosen
    ignored = chosen.ignore if any(code.startswith(_OF_NODES) for code in chosen.selected) else (*chosen.ignore, _OF_NODES)
    chosen = FindingFilters(chosen.select, ignored, (), chosen.config)
    limit = min(options.time_limit, run.remaining_seconds())
    audit, _ = examine(snapshot, replace(options, chosen=chosen, time_limit=limit), on_progress=run.on_progress, stop=run.stop)
    names = FindingNames(snapshot)
    workloads = {found.ref: found for found in map(view, listed(snapshot)) if found is not None}
    specs = {f"Pod {pod_key(pod)}": pod.spec for pod in snapshot.pods} | {ref: found.spec for ref, found in workloads.items()}
    located = []
    for finding in audit.findings:
        if finding.pods and newcomers.issuperset(finding.pods) and finding.code.startswith((_JUDGED, *_CHOSEN_HERE)):
            continue
        ref = names.of(finding)
        place = finding.field
        if finding.object.startswith("Pod ") and ref in workloads:
            place = in_template(place, workloads[ref].path)
        reported = msgspec.structs.replace(finding, pods=[pod for pod in finding.pods if pod not in newcomers])
        reported = msgspec.structs.replace(reported, object=ref, field=place) if ref in workloads else reported
        located.append(_Located(reported, ref, place, fingerprint(finding.code, ref, without_places(place, specs.get(ref)))))
    return located, audit


def fingerprint(code: str, ref: str, place: str) -> str:
    """Return a hash of code, object and field. ``place`` is the field in the form of
    :func:`kubestow.audit.gate.fields.without_places`.
    """
    return hashlib.sha256("\0".join((code, ref, place)).encode()).hexdigest()[:32]


def _of_others(finding: Finding) -> bool:
    """Return True if other pods, which the manifests alone do not show, may resolve the finding."""
    return finding.code == _OF_OTHERS and finding.severity == "info"


# --- the document ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Places:
    """Positions in the manifests."""

    request: GateRequest
    changes: Mapping[str, WorkloadChange]

    def of(self, ref: str, place: str | None) -> Position | None:
        """Return the position of an object's field. None for objects outside the manifests."""
        if ref not in self.request.manifests.sources:
            return None
        kind, _, name = ref.partition(" ")
        namespace, slash, short = name.rpartition("/")
        kind, short = given_as(self.request.manifests, kind, namespace, short)
        return self.request.positions.of(kind, namespace if slash else None, short, place)


def _fit(verdict: FitVerdict, base: _Side | None, places: _Places) -> WorkloadFit:
    ref = verdict.change.ref
    before = next((other for other in base.verdicts if other.change.ref == ref), None) if base is not None else None
    known = verdict.fit != "fits" and before is not None and before.fit in ("does not fit", verdict.fit)
    place = blamed(verdict.change, verdict.blame) if verdict.fit != "fits" else None
    return WorkloadFit(
        ref,
        verdict.fit,
        verdict.replicas,
        verdict.placed,
        verdict.change.action,
        verdict.cause,
        verdict.fix,
        places.of(ref, place),
        known,
        list(verdict.ends),
    )


def _document(request: GateRequest, side: _Side, faults: Sequence[Fault], fits: list[WorkloadFit], *, show_known: bool) -> Check:
    cluster, outcome = request.cluster, side.outcome
    fresh = [fault for fault in faults if not fault.known]
    shown = list(faults) if show_known else fresh
    shown.sort(key=lambda f: (SEVERITIES.index(f.finding.severity), f.finding.code, f.finding.object, f.finding.field or ""))
    unmodelled = outcome.unmodelled if outcome is not None else side.audit.unmodelled
    missing = [] if cluster is not None else [_NO_CLUSTER]
    return Check(
        None if cluster is None else _reference(cluster, request, side),
        list(request.files),
        fits,
        {severity: sum(fault.finding.severity == severity for fault in fresh) for severity in SEVERITIES},
        shown,
        list(request.base_files),
        len(faults) - len(fresh),
        [*missing, *side.audit.notChecked],
        unmodelled,
        [*(outcome.notes if outcome is not None else ())],
    )


def _reference(cluster: Snapshot, request: GateRequest, side: _Side) -> SnapshotRef:
    return SnapshotRef(
        cluster.sha256,
        len(cluster.nodes),
        len(cluster.pods),
        len(select(cluster).pending),
        daemonNamespaces=side.audit.snapshot.daemonNamespaces,
        workloads=[verdict.change.ref for verdict in side.verdicts],
        kubernetesVersion=cluster.gates.version,
        featureGates=dict(cluster.gates.given),
    )
