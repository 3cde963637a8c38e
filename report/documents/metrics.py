"""Results as metrics, in the OpenMetrics text format: for the textfile collector of node_exporter, and whatever reads that format.

Source: https://github.com/prometheus/OpenMetrics/blob/main/specification/OpenMetrics.md. All metrics are gauges: a run says how things are.
Names of nodes and pods are no labels, so that their number stays small whatever the cluster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import get_args

from models.documents.findings.audit import SEVERITIES, Audit
from models.documents.findings.check import Check, Fit
from models.documents.placement import Placement, SnapshotRef, Status, TierResult
from models.documents.survival import Survival
from models.snapshot.capture_info import instant

_Labels = Mapping[str, str]


@dataclass(frozen=True)
class Gauge:
    """A metric: its name without ``kubestow_``, what it means, and its samples."""

    name: str
    text: str
    samples: list[tuple[_Labels, int | float]] = field(default_factory=list)


def write(gauges: Iterator[Gauge], command: str, snapshot: SnapshotRef | None) -> bytes:
    """Return the text of metrics; those without samples are left out. Every sample says of which command and cluster it is, as several
    files of one folder are read together."""
    every = {"command": command}
    if snapshot is not None and snapshot.cluster:
        every["cluster"] = snapshot.cluster
    lines: list[str] = []
    for gauge in gauges:
        if gauge.samples:
            name = f"kubestow_{gauge.name}"
            lines += [f"# TYPE {name} gauge", f"# HELP {name} {_escaped(gauge.text)}"]
            lines += [f"{name}{_braced({**every, **labels})} {_number(value)}" for labels, value in gauge.samples]
    return "\n".join([*lines, "# EOF", ""]).encode()


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _braced(labels: _Labels) -> str:
    inner = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return f"{{{inner}}}"


def _number(value: int | float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.3f}"


def placement(document: Placement, version: str, seconds: float | None) -> bytes:
    """Return the metrics of ``solve``. ``seconds``: of the whole run, None where it does not tell."""
    return write(_of_placement(document, version, seconds), "solve", document.snapshot)


def _of_placement(document: Placement, version: str, seconds: float | None) -> Iterator[Gauge]:
    yield from _run(document.snapshot, version, seconds)
    waiting = [left for left in document.unplaced if not left.gated]
    yield Gauge("placed_pods", "Pods that the placement has a node for.", [({}, len(document.assignments))])
    yield Gauge("unplaced_pods", "Pods that it has no node for.", [({}, len(waiting))])
    yield Gauge("gated_pods", "Pods that wait for a scheduling gate.", [({}, len(document.unplaced) - len(waiting))])
    yield Gauge("status", "1 for the status of the result, 0 for the others.", _one_of(document.status, get_args(Status)))
    yield Gauge("objective_value", "What each tier of the objective reaches.", [(_tier(each), each.value) for each in document.objective])
    yield Gauge("objective_bound", "What no result can exceed, proved.", [(_tier(each), each.bound) for each in document.objective])
    yield _unmodelled(len(document.unmodelled))


def _tier(tier: TierResult) -> dict[str, str]:
    return {"tier": tier.tier} | ({"priority": str(tier.priority)} if tier.priority is not None else {})


def audit(document: Audit, version: str, seconds: float | None) -> bytes:
    """Return the metrics of ``audit``. ``seconds``: as of :func:`placement`."""
    return write(_of_audit(document, version, seconds), "audit", document.snapshot)


def _of_audit(document: Audit, version: str, seconds: float | None) -> Iterator[Gauge]:
    yield from _run(document.snapshot, version, seconds)
    yield Gauge("findings", "Findings that are reported.", [({"severity": each}, document.counts.get(each, 0)) for each in SEVERITIES])
    codes = Counter((each.code, each.name, each.severity) for each in document.findings)
    samples: list[tuple[_Labels, int | float]] = [
        ({"code": code, "name": name, "severity": severity}, count) for (code, name, severity), count in sorted(codes.items())
    ]
    yield Gauge("findings_by_code", "Findings that are reported, by what they are.", samples)
    yield Gauge(
        "known_findings", "Findings that the baseline or the base has, too.", [({}, document.selection.known if document.selection else 0)]
    )
    yield _unmodelled(len(document.unmodelled))


def check(document: Check, version: str, seconds: float | None) -> bytes:
    """Return the metrics of ``check``. ``seconds``: as of :func:`placement`."""
    return write(_of_check(document, version, seconds), "check", document.snapshot)


def _of_check(document: Check, version: str, seconds: float | None) -> Iterator[Gauge]:
    yield from _run(document.snapshot, version, seconds)
    yield Gauge("findings", "Findings that are reported.", [({"severity": each}, document.counts.get(each, 0)) for each in SEVERITIES])
    yield Gauge("known_findings", "Findings that the baseline or the base has, too.", [({}, document.known)])
    if document.snapshot is not None:
        fits = Counter(each.fit for each in document.workloads)
        samples: list[tuple[_Labels, int | float]] = [({"fit": each}, fits[each]) for each in get_args(Fit)]
        yield Gauge("workloads", "Workloads of the manifests, by whether they fit.", samples)
    yield _unmodelled(len(document.unmodelled))


def survival(document: Survival, version: str, seconds: float | None) -> bytes:
    """Return the metrics of ``survive``. ``seconds``: as of :func:`placement`."""
    return write(_of_survival(document, version, seconds), "survive", document.snapshot)


def _of_survival(document: Survival, version: str, seconds: float | None) -> Iterator[Gauge]:
    yield from _run(document.snapshot, version, seconds)
    of = {"fail": document.fail, "at_once": str(document.atOnce)}
    yield Gauge("survival_certified", "1 where every failure is survived, proved.", [(of, int(document.certified))])
    yield Gauge("failures", "Combinations of nodes or domains that fail at once.", [(of, document.scenarios.all)])
    yield Gauge("failures_undecided", "Distinct failures that were not decided in time.", [(of, document.scenarios.open)])
    yield Gauge("failures_not_survived", "Distinct failures after which not all pods come back.", [(of, len(document.counterexamples))])


def _run(snapshot: SnapshotRef | None, version: str, seconds: float | None) -> Iterator[Gauge]:
    """Return what all results tell."""
    about = {"version": version}
    if snapshot is not None and snapshot.kubernetesVersion:
        about["kubernetes_version"] = snapshot.kubernetesVersion
    yield Gauge("run", "Which version made these metrics, by the rules of which.", [(about, 1)])
    if seconds is not None:
        yield Gauge("run_seconds", "How long the run took.", [({}, seconds)])
    if snapshot is None:
        return
    yield Gauge("nodes", "Nodes of the snapshot.", [({}, snapshot.nodes)])
    yield Gauge("pods", "Pods of the snapshot.", [({}, snapshot.pods)])
    yield Gauge("pending_pods", "Pods of the snapshot that are to be placed.", [({}, snapshot.pending)])
    if (captured := instant(snapshot.capturedAt)) is not None:
        yield Gauge("captured_timestamp_seconds", "When the snapshot was captured, since 1970.", [({}, int(captured.timestamp()))])


def _one_of(value: str, values: tuple[str, ...]) -> list[tuple[_Labels, int | float]]:
    return [({"status": each}, int(each == value)) for each in values]


def _unmodelled(count: int) -> Gauge:
    return Gauge("unmodelled", "Fields of pods that are not modelled.", [({}, count)])
