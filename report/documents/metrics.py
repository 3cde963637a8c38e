"""Results as metrics in the OpenMetrics text format, for the textfile collector of node_exporter and other readers.

Source: https://github.com/prometheus/OpenMetrics/blob/main/specification/OpenMetrics.md. All metrics are gauges.
Node and pod names are not labels, which bounds the number of samples. The exception is the opportunity cost of
anti-affinity, labelled with the pods that close nodes, which are rarely more than the nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TypeVar, get_args

from kubestow.models.documents.findings.audit import SEVERITIES, Audit, ClosedCapacity, OpportunityCost
from kubestow.models.documents.findings.check import Check, Fit
from kubestow.models.documents.placement import Placement, SnapshotRef, Status, TierResult
from kubestow.models.documents.survival import Survival
from kubestow.models.snapshot.capture_info import instant

_Labels = Mapping[str, str]
_Document = TypeVar("_Document", Placement, Audit, Check, Survival)


@dataclass(frozen=True)
class Gauge:
    """A metric: name without ``kubestow_``, help text, and samples."""

    name: str
    text: str
    samples: list[tuple[_Labels, int | float]] = field(default_factory=list)


def write(gauges: Iterator[Gauge], command: str, snapshot: SnapshotRef | None) -> bytes:
    """Return the text of metrics, without those that have no samples.

    Every sample is labelled with command and cluster, because several files of one folder are read together.
    """
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


def _written(command: str) -> Callable[[Callable[[_Document], Iterator[Gauge]]], Callable[[_Document, str, float | None], bytes]]:
    """Decorate a function that yields the metrics of a command's document, so that it returns the text of all
    metrics.

    The decorated function also takes the version of kubestow and the seconds of the whole run (None if unknown).
    """

    def decorate(gauges: Callable[[_Document], Iterator[Gauge]]) -> Callable[[_Document, str, float | None], bytes]:
        def text(document: _Document, version: str, seconds: float | None) -> bytes:
            return write(chain(_run(document.snapshot, version, seconds), gauges(document)), command, document.snapshot)

        return text

    return decorate


@_written("solve")
def placement(document: Placement) -> Iterator[Gauge]:
    """Yield the metrics of ``solve``."""
    waiting = [entry for entry in document.unplaced if not entry.gated]
    yield Gauge("placed_pods", "Pods with a node in the placement.", [({}, len(document.assignments))])
    yield Gauge("unplaced_pods", "Pods without a node in the placement.", [({}, len(waiting))])
    yield Gauge("gated_pods", "Pods that wait for a scheduling gate.", [({}, len(document.unplaced) - len(waiting))])
    yield Gauge("status", "1 for the status of the result, 0 for the others.", _one_of(document.status, get_args(Status)))
    yield Gauge("objective_value", "Value of each tier of the objective.", [(_tier(each), each.value) for each in document.objective])
    yield Gauge("objective_bound", "Proved bound that no result exceeds.", [(_tier(each), each.bound) for each in document.objective])
    yield _unmodelled(len(document.unmodelled))


def _tier(tier: TierResult) -> dict[str, str]:
    return {"tier": tier.tier} | ({"priority": str(tier.priority)} if tier.priority is not None else {})


@_written("audit")
def audit(document: Audit) -> Iterator[Gauge]:
    """Yield the metrics of ``audit``."""
    yield Gauge("findings", "Reported findings.", [({"severity": each}, document.counts.get(each, 0)) for each in SEVERITIES])
    codes = Counter((each.code, each.name, each.severity) for each in document.findings)
    samples: list[tuple[_Labels, int | float]] = [
        ({"code": code, "name": name, "severity": severity}, count) for (code, name, severity), count in sorted(codes.items())
    ]
    yield Gauge("findings_by_code", "Reported findings by code.", samples)
    yield Gauge(
        "known_findings",
        "Findings that are also in the baseline or the base.",
        [({}, document.selection.known if document.selection else 0)],
    )
    yield from _opportunity_costs(document.opportunityCosts or ())
    yield _unmodelled(len(document.unmodelled))


def _opportunity_costs(found: Sequence[OpportunityCost]) -> Iterator[Gauge]:
    """Yield one metric per level, so that sums over a metric count each pod once."""
    for level in ("namespace", "workload", "pod"):
        samples: list[tuple[_Labels, int | float]] = []
        for entry in found:
            if entry.level == level:
                labels = {"namespace": entry.namespace} | ({} if level == "namespace" else {level: _short(entry)})
                for kind, amount in (("actual", entry.actual), ("average", entry.average), ("largest", entry.largest)):
                    if amount is not None:
                        samples += [({**labels, "estimate": kind, **of}, value) for of, value in _closed(amount)]
        text = f"Capacity that required anti-affinity takes beyond requests, by {level}: actual, average and largest."
        yield Gauge(f"{level}_opportunity_cost", text, samples)


def _short(entry: OpportunityCost) -> str:
    """Return the name of a pod, or kind and name of a workload. The namespace is a separate label."""
    kind, _, qualified_name = entry.object.partition(" ")
    name = qualified_name.partition("/")[2]
    return name if entry.level == "pod" else f"{kind}/{name}"


def _closed(amount: ClosedCapacity) -> Iterator[tuple[dict[str, str], int | float]]:
    yield {"resource": "cpu", "unit": "core"}, amount.cpu // 1000 if amount.cpu % 1000 == 0 else amount.cpu / 1000
    yield {"resource": "memory", "unit": "byte"}, amount.memory
    yield {"resource": "nodes", "unit": "integer"}, amount.nodes


@_written("check")
def check(document: Check) -> Iterator[Gauge]:
    """Yield the metrics of ``check``."""
    yield Gauge("findings", "Reported findings.", [({"severity": each}, document.counts.get(each, 0)) for each in SEVERITIES])
    yield Gauge("known_findings", "Findings that are also in the baseline or the base.", [({}, document.known)])
    if document.snapshot is not None:
        fits = Counter(each.fit for each in document.workloads)
        samples: list[tuple[_Labels, int | float]] = [({"fit": each}, fits[each]) for each in get_args(Fit)]
        yield Gauge("workloads", "Workloads of the manifests, by whether they fit.", samples)
    yield _unmodelled(len(document.unmodelled))


@_written("survive")
def survival(document: Survival) -> Iterator[Gauge]:
    """Yield the metrics of ``survive``."""
    of = {"fail": document.fail, "at_once": str(document.atOnce)}
    yield Gauge("survival_certified", "1 if every failure is proved to be survived.", [(of, int(document.certified))])
    yield Gauge("failures", "Combinations of nodes or domains that may fail at once.", [(of, document.scenarios.all)])
    yield Gauge("failures_undecided", "Distinct failures that were not decided in time.", [(of, document.scenarios.open)])
    yield Gauge("failures_not_survived", "Distinct failures after which not all pods come back.", [(of, len(document.counterexamples))])


def _run(snapshot: SnapshotRef | None, version: str, seconds: float | None) -> Iterator[Gauge]:
    """Yield the metrics common to all results."""
    about = {"version": version}
    if snapshot is not None and snapshot.kubernetesVersion:
        about["kubernetes_version"] = snapshot.kubernetesVersion
    yield Gauge("run", "Version of kubestow, and of Kubernetes whose rules were applied.", [(about, 1)])
    if seconds is not None:
        yield Gauge("run_seconds", "Duration of the run.", [({}, seconds)])
    if snapshot is None:
        return
    yield Gauge("nodes", "Nodes of the snapshot.", [({}, snapshot.nodes)])
    yield Gauge("pods", "Pods of the snapshot.", [({}, snapshot.pods)])
    yield Gauge("pending_pods", "Pods of the snapshot to place.", [({}, snapshot.pending)])
    if (captured := instant(snapshot.capturedAt)) is not None:
        yield Gauge("captured_timestamp_seconds", "Capture time of the snapshot, since 1970.", [({}, int(captured.timestamp()))])


def _one_of(value: str, values: tuple[str, ...]) -> list[tuple[_Labels, int | float]]:
    return [({"status": each}, int(each == value)) for each in values]


def _unmodelled(count: int) -> Gauge:
    return Gauge("unmodelled", "Fields of pods that are not modelled.", [({}, count)])
