"""Findings about stages beyond machines, about workers, and about labels of all nodes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from kubestow.audit.checks.control_plane import codes
from kubestow.audit.checks.control_plane.failure_domains import STAGE_LABELS, Labels, lacking, value
from kubestow.audit.checks.control_plane.layout import Layout, worker_machines
from kubestow.audit.checks.control_plane.machines import WHOLE, failures
from kubestow.audit.checks.control_plane.standard import REQUIRED_LABELS, sharing
from kubestow.audit.view.finding import some
from kubestow.audit.view.view import ClusterView
from kubestow.models.documents.findings.audit import Finding, Severity, Stage


def check(found: Layout) -> Iterator[Finding]:
    """Yield findings about a control plane that does not survive the failure of a zone, and about missing zone labels.

    Further stages are checked if their label was given. Most clusters are in one cloud and location on purpose.
    """
    stage_labels = found.view.stage_labels
    for stage in found.stages[1:]:
        key = stage_labels.get(stage.name, STAGE_LABELS[stage.name])
        if key is None:
            continue
        bare = lacking(found.labels, found.members.nodes, key)
        if bare and (len(bare) < len(found.members.nodes) or stage.name in stage_labels):
            everywhere = len(bare) == len(found.members.nodes)
            which = "no node of the control plane has" if everywhere else f"{some(bare)} of the control plane lacks"
            message = f"{which} {key}: the stage {stage.name} is not graded"
            severity: Severity | None = "warning" if everywhere else None  # given, but on no node: it may be misspelt
            yield codes.STAGE_LABEL.found(WHOLE, message, nodes=bare, field=f"metadata.labels[{key}]", severity=severity)
        elif not bare and found.stages[0].survives and not stage.survives and (stage.name == "zones" or stage.name in stage_labels):
            yield _stopped(found, stage, key)


def _stopped(found: Layout, stage: Stage, key: str) -> Finding:
    where = {node: value(found.labels, node, key) or "" for node in found.members.nodes}
    stopped = found.stopped(where)
    noun = stage.name.removesuffix("s")
    within = f"{stage.domains} {stage.name}" if stage.domains > 1 else f"one {noun}"
    first = next(iter(stopped))
    nodes = [node for node, domain in where.items() if domain == first]
    message = f"its {len(where)} nodes are in {within}; {failures(stopped, noun)}"
    return codes.STAGE.found(WHOLE, message, nodes=nodes, domain=f"{key}={first}")


def check_required_labels(labels: Labels) -> Iterator[Finding]:
    """Yield a finding for each required label that nodes lack."""
    for key in REQUIRED_LABELS:
        bare = lacking(labels, labels, key)
        if bare:
            verb = "lacks" if len(bare) == 1 else "lack"
            message = f"{len(bare)} of {len(labels)} nodes {verb} {key}: {some(bare)}"
            name = f"Node {bare[0]}" if len(bare) == 1 else "Nodes"
            yield codes.TOPOLOGY_LABELS.found(name, message, nodes=bare, field=f"metadata.labels[{key}]")


def check_labels(view: ClusterView, labels: Labels, workers: tuple[str, ...], key: str) -> Iterator[Finding]:
    """Yield findings from the label of physical machines: nodes without it, the distribution of workers, and
    contradictions.

    Args:
        view: The cluster.
        labels: Labels of all nodes.
        workers: Names of the worker nodes.
        key: The label.
    """
    bare = lacking(labels, labels, key)
    if bare:
        verb = "lacks" if len(bare) == 1 else "lack"
        message = f"{len(bare)} of {len(labels)} nodes {verb} {key}: {some(bare)}"
        message += f"; {sharing(labels, workers, [key])}" if workers else ""
        misspelt = key in view.machine_labels and len(bare) == len(labels)  # probably
        yield codes.UNLABELLED.found(
            f"Node {bare[0]}" if len(bare) == 1 else "Nodes", message, nodes=bare, field=f"metadata.labels[{key}]",
            severity="warning" if misspelt else None,
        )  # fmt: skip
    yield from _workers(labels, workers, key)
    for stage, default in STAGE_LABELS.items():
        wider = view.stage_labels.get(stage, default)
        if wider is not None and wider != key:
            yield from _contradictions(labels, key, stage, wider)


def _workers(labels: Labels, workers: tuple[str, ...], key: str) -> Iterator[Finding]:
    counts = worker_machines(labels, workers, key)
    machine, most = counts.most_common(1)[0] if counts else ("", 0)
    if len(workers) < 2 or 2 * most <= len(workers):
        return
    nodes = [name for name in workers if value(labels, name, key) == machine]
    how = f"all {most}" if most == len(workers) else f"{most} of {len(workers)}"
    severity: Severity | None = None if most == len(workers) else "info"
    message = f"{how} workers are on this machine"
    yield codes.WORKERS.found(f"Machine {machine}", message, nodes=nodes, domain=f"{key}={machine}", severity=severity)


def _contradictions(labels: Labels, key: str, stage: str, wider: str) -> Iterator[Finding]:
    places: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for name in labels:
        machine, domain = value(labels, name, key), value(labels, name, wider)
        if machine is not None and domain is not None:
            places[machine][domain].append(name)
    for machine, domains in places.items():
        if len(domains) > 1:
            where = ", ".join(f"{domain} ({some(names)})" for domain, names in domains.items())
            message = f"its nodes are in {len(domains)} {stage}: {where}"
            nodes = [name for names in domains.values() for name in names]
            yield codes.CONTRADICTION.found(
                f"Machine {machine}", message, nodes=nodes, field=f"metadata.labels[{wider}]", domain=f"{key}={machine}"
            )
