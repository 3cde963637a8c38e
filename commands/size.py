"""``kubestow size``: the cheapest nodes of a catalogue that run all pods."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from kubestow.commands.common import options
from kubestow.commands.common.exit_codes import DONE, INCOMPLETE, fail, refuse
from kubestow.commands.common.help_text import GroupedCommand
from kubestow.commands.common.options import PolicyChoices, SearchChoices, Streams, bundled

if TYPE_CHECKING:
    from kubestow.models.documents.sizing import Mode
    from kubestow.models.snapshot.snapshot import Snapshot
    from kubestow.solver.capacity.size.options import SizeOptions


@dataclass(frozen=True)
class SizeChoices:
    """Options of the sizing problem.

    Attributes:
        pool: Label selector of the nodes to replace; None to add nodes.
        survive: Failure domain to survive: node, zone or a label key.
        at_once: Number of domains that fail at once.
        priority: Lowest priority that must be rescheduled after a failure.
        kinds: Maximum number of distinct shapes to buy.
        series: True if each snapshot is the cluster at another time.
        without_buffers: True to ignore CapacityBuffers.
    """

    pool: str | None
    survive: str | None
    at_once: int | None
    priority: int | None
    kinds: int | None
    series: bool
    without_buffers: bool

    def check(self, search: SearchChoices) -> None:
        """Refuse contradictory options."""
        refuse(
            self.pool is not None and search.from_scratch, "--pool and --from-scratch exclude each other: --from-scratch replaces all nodes"
        )
        given = self.at_once is not None or self.priority is not None
        refuse(given and self.survive is None, "--at-once and --priority require --survive")
        refuse(self.series and self.survive is not None, "--survive and --series exclude each other: failures concern one snapshot")
        refuse(self.survive == "", "--survive: expected node, zone or the key of a node label")

    def options(self, search: SearchChoices, snapshot: Snapshot, manifests: Snapshot | None, path: str = "") -> SizeOptions:
        """Return the engine's options. An invalid pool ends the command; ``path`` names the snapshot in messages."""
        from kubestow.models.disruption.node_selection import pool
        from kubestow.models.snapshot.snapshot import InputError
        from kubestow.solver.capacity.size.options import SizeOptions
        from kubestow.solver.capacity.survive.options import SurviveOptions

        failures = SurviveOptions(self.survive, self.at_once or 1, self.priority) if self.survive is not None else None
        buffers = not self.without_buffers
        if self.pool is None:
            mode: Mode = "from-scratch" if search.from_scratch else "add"
            return SizeOptions(mode, kinds=self.kinds, survive=failures, manifests=manifests, buffers=buffers)
        try:
            gone = pool(snapshot, self.pool)
        except InputError as error:
            fail([f"{path}{': ' if path else ''}{problem}" for problem in error.problems])
        return SizeOptions("replace", self.pool, tuple(gone), self.kinds, failures, manifests, buffers)


@click.command(cls=GroupedCommand)
@options.snapshots
@options.table_output("Sizing")
@click.option("--catalogue", required=True, metavar="FILE", type=options.READ, help="Catalogue of node shapes and prices.")
@click.option("--from-scratch", is_flag=True, help="Replace all nodes except the control plane: the cheapest cluster for all movable pods.")
@click.option("--pool", metavar="SELECTOR", help="Replace the nodes with these labels.")
@click.option(
    "--survive", metavar="node|zone|KEY", help="All pods must be rescheduled after the failure of any node, zone or domain of a label."
)
@click.option("--at-once", type=click.IntRange(1), metavar="K", help="With --survive: number of simultaneous failures.  [default: 1]")
@click.option("--priority", type=int, metavar="N", help="With --survive: lowest priority that must be rescheduled.  [default: all]")
@click.option("--series", is_flag=True, help="Each SNAPSHOT is the cluster at another time: find nodes that suffice at all times.")
@click.option("--without-buffers", is_flag=True, help="Ignore the headroom of CapacityBuffers.")
@click.option("--kinds", type=click.IntRange(1), metavar="K", help="Maximum number of distinct shapes to buy.")
@options.search
@options.manifests("-w", "--manifests", "--workload")
@options.namespace
@options.requests
@options.scoped
@bundled(streams=Streams, search=SearchChoices, choices=PolicyChoices, size_choices=SizeChoices)
def size(streams: Streams, search: SearchChoices, choices: PolicyChoices, size_choices: SizeChoices, catalogue: str, **edits: Any) -> None:
    """Find the cheapest nodes of a catalogue that run all pods.

    By default, add nodes for pending pods and for manifests given with -w. With --pool, replace the nodes of a pool; with --from-scratch,
    replace all nodes. The snapshot may have no nodes.

    Exit codes: 0 if a purchase places all pods, 3 if none does or none was found, 130 if interrupted (the best result so far is written).
    """
    size_choices.check(search)
    streams.check(catalogue)
    refuse(size_choices.series and len(streams.snapshots) < 2, "--series requires at least two SNAPSHOT arguments")
    from kubestow.commands.common import inputs, output, searching
    from kubestow.models.edits.edits import apply
    from kubestow.report.documents import results
    from kubestow.report.terminal.capacity import sizing as terminal
    from kubestow.report.writers import WrittenResult
    from kubestow.solver.capacity.series.series import size_series
    from kubestow.solver.capacity.size.size import size as engine

    changes = inputs.what_if(edits, streams)
    offered = inputs.read_catalogue(catalogue)
    assert offered is not None, "--catalogue is required"
    policy = inputs.read_policy(choices)
    run = searching.SearchRun(streams)
    several = inputs.load_over_time(streams, policy) if size_choices.series else [("", inputs.load(streams, policy, empty=True))]
    manifests = inputs.load_manifests(streams.manifests, streams, several[0][1].gates, changes)
    before = [inputs.edit(each, streams, changes, manifests) for _, each in several]
    questions = [size_choices.options(search, each, manifests, path) for path, each in several]
    run.loaded = run.seconds()
    chosen = searching.search_options(search, choices, policy, edits=changes)
    if size_choices.series:
        found = run.search(partial(size_series, [each for _, each in several], offered, questions, chosen))
    else:
        found = run.search(partial(engine, several[0][1], offered, questions[0], chosen))
    own = found.of_moment
    snapshot, given = several[own][1], before[own].snapshot
    after = apply(snapshot, manifests, found.snapshot.edits).snapshot if found.snapshot.edits is not None else given
    inputs.warn([text for text in after.warnings if text not in given.warnings], streams)
    run.accept(found, snapshot)
    output.write_document(
        streams,
        lambda surface: terminal.sizing(found, after, surface),
        lambda: results.result_document(found),
        WrittenResult(found, after),
    )
    run.end(DONE if found.status in ("optimal", "feasible") else INCOMPLETE, terminal.summary(found, run.seconds()))
