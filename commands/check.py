"""``kubestow check``: check that manifests fit a cluster, and find problems in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import click

from kubestow.commands.common import options, selecting
from kubestow.commands.common.cluster import choice
from kubestow.commands.common.exit_codes import DONE, INCOMPLETE, VIOLATED, refuse, say
from kubestow.commands.common.help_text import GroupedCommand
from kubestow.commands.common.options import PolicyChoices, SearchChoices, Streams, bundled
from kubestow.commands.common.selecting import FindingSelection

if TYPE_CHECKING:
    from kubestow.audit.gate.gate import GateRequest, GateResult
    from kubestow.models.documents.policy import Policy
    from kubestow.models.kube.feature_gates import FeatureGates
    from kubestow.models.positions.find import Positions
    from kubestow.models.snapshot.snapshot import Snapshot


@click.command(cls=GroupedCommand)
@click.argument("more", metavar="[MANIFEST]...", nargs=-1, type=options.FILE)
@options.manifests("-w", "--manifests", "--workload", text="Manifests to check: files, folders, - for standard input; repeatable.")
@click.option(
    "--cluster",
    "snapshots",
    multiple=True,
    metavar="SNAPSHOT",
    type=options.FILE,
    help="Snapshot of the target cluster; repeatable.  [default: check the manifests alone]",
)
@choice.in_place
@click.option("--base", multiple=True, metavar="FILE", type=options.FILE, help="Previous manifests: report only new findings; repeatable.")
@click.option(
    "--chart",
    "charts",
    multiple=True,
    metavar="DIR",
    type=options.READ,
    help="Chart rendered to standard input: findings name its templates in DIR; repeatable.",
)
@click.option("--allow-unknown-kinds", is_flag=True, help="Ignore pod templates in unknown kinds instead of reporting them (KS809).")
@click.option("--show-known", is_flag=True, help="Also list findings that --base or --baseline knows.")
@selecting.fail_on
@selecting.codes
@selecting.known
@options.namespace
@options.table_output("Check")
@options.search
@options.exempting
@bundled(streams=Streams, search=SearchChoices, choices=PolicyChoices, chosen=FindingSelection)
def check(
    streams: Streams,
    search: SearchChoices,
    choices: PolicyChoices,
    chosen: FindingSelection,
    more: tuple[str, ...],
    base: tuple[str, ...],
    fail_on: str,
    namespace: str | None,
    *,
    charts: tuple[str, ...],
    allow_unknown_kinds: bool,
    show_known: bool,
) -> None:
    """Check that manifests fit a cluster, and find problems in them.

    Exit codes: 0 if everything fits, 3 if something does not fit or is not proved to, 4 if a new finding reaches the severity of
    --fail-on.
    """
    streams = replace(streams, manifests=(*streams.manifests, *more))
    refuse(not streams.manifests, "no manifests: name files or folders, or - for standard input")
    refuse("-" in base and "-" in (*streams.manifests, *streams.snapshots), "only one of the inputs can be standard input")
    streams.check()
    from kubestow.audit.catalogue import CODES
    from kubestow.audit.gate.gate import GateOptions
    from kubestow.audit.gate.gate import check as judge
    from kubestow.audit.run import AuditOptions
    from kubestow.commands import VERSION
    from kubestow.commands.common import inputs, output, searching
    from kubestow.models.documents.findings.check import failing, to_builtins, unfit
    from kubestow.report.findings import outcomes
    from kubestow.report.terminal.findings import check as terminal
    from kubestow.report.writers import WrittenResult

    picked = selecting.chosen(chosen, CODES)
    policy = inputs.read_policy(choices)
    run = searching.SearchRun(streams)
    request, where = _request(streams, policy, namespace, charts, base)
    if allow_unknown_kinds:
        _let_through(request)
    looked = AuditOptions(policy, choices.daemon_namespaces, time_limit=search.time_limit, chosen=picked)
    gate_options = GateOptions(searching.search_options(search, choices, policy), looked, show_known)
    checked = run.search(partial(judge, request, gate_options))
    found = checked.check
    _add_notes(checked, request, streams)
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
            lambda: outcomes.of_check(found, {code: rule for code, rule in CODES.items() if picked.has(code)}, fail_on),
        ),
    )
    code = VIOLATED if failing(found, fail_on) else INCOMPLETE if unfit(found) else DONE
    selecting.end(run, chosen, checked, code, terminal.summary(found))


def _let_through(request: GateRequest) -> None:
    """Drop the pod templates of unknown kinds from the request."""
    for manifests in (request.manifests, request.base):
        if manifests is not None:
            manifests.unread.clear()


def _add_notes(checked: GateResult, request: GateRequest, streams: Streams) -> None:
    """Print remaining warnings, and add the notes and the identity of the cluster to the document."""
    from kubestow.commands.common import inputs
    from kubestow.commands.core import reading

    inputs.warn([text for text in checked.warnings if text not in request.manifests.warnings], streams)
    found, cluster = checked.check, request.cluster
    found.notes += [*(cluster.notes if cluster is not None else ()), *request.manifests.notes]
    if cluster is not None and found.snapshot is not None:
        reading.stamp(found.snapshot, cluster)


def _request(
    streams: Streams, policy: Policy, namespace: str | None, charts: Sequence[str], base: Sequence[str]
) -> tuple[GateRequest, Snapshot]:
    """Read the cluster, the manifests and the base. The second value is the cluster, or an empty snapshot without one."""
    from kubestow.audit.gate import unread_fields
    from kubestow.audit.gate.gate import GateRequest
    from kubestow.commands.common import inputs
    from kubestow.models.snapshot import sources
    from kubestow.models.snapshot.snapshot import Snapshot

    with sources.keeping() as stored:
        cluster = inputs.load(streams, policy) if streams.snapshots or streams.cluster is not None else None
    where = cluster or Snapshot()
    if cluster is None:
        inputs.set_gates(where, streams)
    manifests, positions, files = _manifests(streams.manifests, streams, where.gates, namespace, charts)
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
    from kubestow.commands.common import inputs
    from kubestow.models.positions import find
    from kubestow.models.positions.charts import folders
    from kubestow.models.snapshot import snapshot as snapshots
    from kubestow.models.snapshot import sources

    named = inputs.checked(lambda: folders(charts))
    unknown = streams.allow_unknown_fields
    with sources.keeping() as files:
        found = inputs.checked(lambda: snapshots.load(paths, manifests=True, unknown_fields=unknown, namespace=namespace, gates=gates))
    return found, find.read(paths, files, namespace=namespace or "default", charts=named), files
