"""``kubestow solve``: a Placement of pending pods, or of a rolling update."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from kubestow.commands.common import options
from kubestow.commands.common.exit_codes import DONE, INCOMPLETE, refuse
from kubestow.commands.common.help_text import GroupedCommand
from kubestow.commands.common.options import PolicyChoices, SearchChoices, Streams, bundled

if TYPE_CHECKING:
    from kubestow.models.documents.placement import Placement
    from kubestow.models.snapshot.snapshot import Snapshot
    from kubestow.solver.runtime.options import Options

#: What-if edits, which change the snapshot instead of adding manifests.
_WHAT_IF = ("addNodes", "removeNodes", "removeDomains", "replicas", "buy")


@click.command(cls=GroupedCommand)
@options.snapshots
@options.table_output("Placement")
@options.search
@click.option("--from-scratch", is_flag=True, help="Also place all movable bound pods again.")
@options.manifests("-w", "--manifests", "--workload")
@click.option("--gates", is_flag=True, help="With -f manifests: add a scheduling gate that `kubestow apply --serve` removes pod by pod.")
@options.edits
@options.catalogue("for --buy and for remedies that buy nodes")
@click.option(
    "--rollout",
    metavar="NAME[=FILE]",
    help="Simulate a rolling update of a workload to the pod template in FILE.  [default FILE: its current template]",
)
@click.option(
    "--strategy",
    type=click.Choice(["spread", "pack", "none"]),
    help="Tie-break after all preferences.  [default: the policy's, else spread]",
)
@options.scoped
@bundled(streams=Streams, search=SearchChoices, choices=PolicyChoices)
def solve(
    streams: Streams, search: SearchChoices, choices: PolicyChoices, rollout: str | None, gates: bool, catalogue: str | None, **edits: Any
) -> None:
    """Place pending pods, and the pods of manifests given with -w.

    Exit codes: 0 if all pods are placed, 3 if some are not (the result is written), 130 if interrupted (the best result so far is
    written).
    """
    _check_usage(streams, search, rollout, edits)
    refuse(gates and not streams.wants("manifests"), "--gates requires -f manifests")
    name, template = _rollout(rollout)
    from kubestow.commands import VERSION
    from kubestow.commands.common import inputs, output, searching
    from kubestow.models.execution.template_nodes import template_nodes
    from kubestow.models.snapshot import sources
    from kubestow.report.documents import manifests, results
    from kubestow.report.terminal import placement as terminal
    from kubestow.report.writers import WrittenResult

    nodes = inputs.read_catalogue(catalogue)
    changes = inputs.what_if(edits, streams, template, catalogue=nodes)
    streams.check(template)
    policy = inputs.read_policy(choices)
    run = searching.SearchRun(streams)
    snapshot = inputs.load(streams, policy, empty=bool(edits["buy"]))
    revision = inputs.load_manifests([template] if template else [], streams, snapshot.gates, changes)
    with sources.keeping() as files:
        edited = inputs.edit(snapshot, streams, changes)
    before, snapshot, run.loaded = snapshot, edited.snapshot, run.seconds()
    search_options = searching.search_options(
        search,
        choices,
        policy,
        search_strategy=choices.strategy is not None or policy.strategy != "spread",
        workloads=tuple(edited.workloads),
        edits=changes,
        catalogue=nodes.without(edits["buy"]) if nodes is not None else None,
        unmodelled=tuple(edited.unmodelled),
    )
    placement = run.search(_search(snapshot, name, revision, search_options))
    run.accept(placement, snapshot)
    templates = template_nodes(before, snapshot, edited.workloads, placement) if streams.wants("manifests") else []
    asked_for = manifests.ManifestRequest(files, templates, edits["namespace"], gates, streams.allow_unknown_fields, snapshot.sha256)
    output.write_document(
        streams,
        partial(terminal.placement, placement, snapshot),
        partial(results.result_document, placement),
        WrittenResult(placement, snapshot, VERSION, lambda: run.seconds() if placement.seconds is not None else None, manifests=asked_for),
    )
    searching.warn_of_gates(streams, choices, "create the bindings")
    without = results.without_binding(placement, snapshot) if streams.wants("kubectl") else []
    inputs.note([*without, *manifests.notes(templates, gates=gates)])
    halted = placement.rollout is not None and not placement.rollout.complete
    waiting = halted or any(not entry.gated for entry in placement.unplaced)
    run.end(INCOMPLETE if waiting or placement.status == "unknown" else DONE, terminal.summary(placement, run.seconds()))


def _check_usage(streams: Streams, search: SearchChoices, rollout: str | None, edits: dict[str, Any]) -> None:
    """End the command on contradictory options."""
    kubectl, whole = streams.wants("kubectl"), search.from_scratch
    refuse(kubectl and whole, "-f kubectl cannot move bound pods, as --from-scratch does: that needs evictions, and `kubestow rebalance`")
    refuse(
        kubectl and (streams.manifests or rollout or any(edits.values())),
        "-f kubectl cannot carry out what is not in the cluster yet: manifests, rollouts and what-if edits",
    )
    refuse(
        streams.wants("manifests") and (not streams.manifests or whole or any(edits[name] for name in _WHAT_IF)),
        "-f manifests needs -w, and a cluster as it is: neither --from-scratch nor what-if edits",
    )
    refuse(
        rollout is not None and (whole or streams.manifests or edits["partial"]),
        "--rollout goes with neither -w, --partial nor --from-scratch",
    )


def _rollout(value: str | None) -> tuple[str | None, str | None]:
    """Split NAME[=FILE] into the name and the file."""
    if value is None:
        return None, None
    name, _, path = value.partition("=")
    refuse(not name or (not path and "=" in value), f"--rollout: {value!r} is not of the form NAME or NAME=FILE")
    return name, path or None


def _search(snapshot: Snapshot, rollout: str | None, revision: Snapshot | None, search_options: Options) -> Callable[..., Placement]:
    """Return the function that searches for a placement, or simulates the rollout."""
    if rollout is None:
        from kubestow.solver.solve import place

        return partial(place, snapshot, search_options)
    from kubestow.solver.rollout.simulate import roll_out

    return partial(roll_out, snapshot, rollout, revision, search_options)
