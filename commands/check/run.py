"""The work of ``kubestow check``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NoReturn

from kubestow.audit.catalogue import CODES
from kubestow.audit.gate import unread_fields
from kubestow.audit.gate.gate import GateOptions, GateRequest, GateResult
from kubestow.audit.gate.gate import check as judge
from kubestow.audit.run import AuditOptions
from kubestow.commands import VERSION
from kubestow.commands.check import CheckRequest
from kubestow.commands.common.exit_codes import DONE, INCOMPLETE, VIOLATED, say
from kubestow.commands.common.options import Streams
from kubestow.commands.core.reading import Reading, stamp
from kubestow.commands.running import findings, inputs, output, searching
from kubestow.models.documents.findings.check import failing, to_builtins, unfit
from kubestow.models.documents.policy import Policy
from kubestow.models.kube.feature_gates import FeatureGates
from kubestow.models.positions import find
from kubestow.models.positions.charts import folders
from kubestow.models.positions.find import Positions
from kubestow.models.snapshot import snapshot as snapshots
from kubestow.models.snapshot import sources
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.report.findings import outcomes
from kubestow.report.terminal.findings import check as terminal
from kubestow.report.writers import WrittenResult


def run(request: CheckRequest) -> NoReturn:
    """Check the manifests and write the findings."""
    streams = request.streams
    picked = findings.chosen(request.chosen, CODES)
    policy = inputs.read_policy(request.choices)
    run = searching.SearchRun(streams)
    gate, where = _gate_request(request, policy)
    if request.allow_unknown_kinds:
        _let_through(gate)
    looked = AuditOptions(policy, request.choices.daemon_namespaces, time_limit=request.search.time_limit, chosen=picked)
    gate_options = GateOptions(searching.search_options(request.search, request.choices, policy), looked, request.show_known)
    checked = run.search(partial(judge, gate, gate_options))
    found = checked.check
    _add_notes(checked, gate, streams)
    run.refuse(found.unmodelled)
    output.write_document(
        streams,
        partial(terminal.check, found),
        partial(to_builtins, found),
        WrittenResult(
            found,
            where,
            VERSION,
            run.seconds,
            lambda: outcomes.of_check(found, {code: rule for code, rule in CODES.items() if picked.has(code)}, request.fail_on),
        ),
    )
    code = VIOLATED if failing(found, request.fail_on) else INCOMPLETE if unfit(found) else DONE
    findings.end(run, request.chosen, checked, code, terminal.summary(found))


def _let_through(request: GateRequest) -> None:
    """Drop the pod templates of unknown kinds from the request."""
    for manifests in (request.manifests, request.base):
        if manifests is not None:
            manifests.unread.clear()


def _add_notes(checked: GateResult, request: GateRequest, streams: Streams) -> None:
    """Print remaining warnings, and add the notes and the identity of the cluster to the document."""
    inputs.warn([text for text in checked.warnings if text not in request.manifests.warnings], streams)
    found, cluster = checked.check, request.cluster
    found.notes += [*(cluster.notes if cluster is not None else ()), *request.manifests.notes]
    if cluster is not None and found.snapshot is not None:
        stamp(found.snapshot, cluster)


def _gate_request(request: CheckRequest, policy: Policy) -> tuple[GateRequest, Snapshot]:
    """Read the cluster, the manifests and the base. The second value is the cluster, or an empty snapshot without one."""
    streams, namespace, base = request.streams, request.namespace, request.base
    with sources.keeping() as stored:
        cluster = inputs.load(streams, Reading(policy)) if streams.snapshots or streams.cluster is not None else None
    where = cluster or Snapshot()
    if cluster is None:
        inputs.set_gates(where, streams)
    manifests, positions, files = _manifests(streams.manifests, streams, where.gates, namespace, request.charts)
    before, _, base_files = _manifests(base, streams, where.gates, namespace) if base else (None, None, {})
    refs = {*manifests.sources, *(before.sources if before is not None else ())} if stored else set()
    there = unread_fields.templates(stored, refs, "default")
    differing = [
        unread_fields.differing(unread_fields.templates(each, refs, namespace or "default"), there) for each in (files, base_files)
    ]
    inputs.warn(manifests.warnings, streams)
    inputs.note_omissions(manifests.omissions, streams)
    if streams.verbose and manifests.ignored:
        say("not read of the manifests: " + inputs.counted(manifests.ignored))
    return GateRequest(manifests, positions, streams.manifests, cluster, before, base, *differing), where


def _manifests(
    paths: Sequence[str], streams: Streams, gates: FeatureGates, namespace: str | None, charts: Sequence[str] = ()
) -> tuple[Snapshot, Positions, dict[str, bytes]]:
    """Read manifests. Return them, the positions of their fields, and the content of their files by path.

    Args:
        paths: Files and folders.
        streams: The options for reading.
        gates: Feature gates of the cluster.
        namespace: Namespace of objects that have none.
        charts: Folders of the rendered charts.
    """
    named = folders(charts)
    unknown = streams.allow_unknown_fields
    with sources.keeping() as files:
        found = snapshots.load(paths, manifests=True, unknown_fields=unknown, namespace=namespace, gates=gates)
    return found, find.read(paths, files, namespace=namespace or "default", charts=named), files
