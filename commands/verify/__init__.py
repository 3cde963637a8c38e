"""``kubestow verify``: check a result independently of the solver."""

from __future__ import annotations

from dataclasses import dataclass

import click

from kubestow.commands.common import options
from kubestow.commands.common.execution_grace import since
from kubestow.commands.common.exit_codes import refuse
from kubestow.commands.common.help_text import GroupedCommand
from kubestow.commands.common.options import Streams, requested


@dataclass(frozen=True)
class VerifyRequest:
    """The options of ``kubestow verify``."""

    streams: Streams
    expect_policy: str | None
    expect_no_exemptions: bool
    journal: str | None
    end: tuple[str, ...]
    since: tuple[str, ...]

    def check(self) -> None:
        """Refuse contradictory options."""
        self.streams.check(*self.end, *self.since)
        refuse(self.end and self.journal is None, "--end requires --journal, which maps the document's pods to their replacements")


@click.command(cls=GroupedCommand)
@options.snapshot_files
@options.result_file("Result to check (JSON or YAML): of solve, rebalance, fit, size, survive or upgrade.", required=True)
@options.manifests("-w", "--manifests", "--workload")
@click.option(
    "--expect-policy", metavar="FILE", type=options.READ, help="Refuse a document made under another policy or other exemptions (exit 4)."
)
@click.option(
    "--expect-no-exemptions", is_flag=True, help="Refuse a document that exempts namespaces from required anti-affinity (exit 4)."
)
@click.option("--journal", metavar="FILE", type=click.Path(), help="Also check this journal of a run of `kubestow apply`.")
@click.option(
    "--end",
    multiple=True,
    metavar="SNAPSHOT",
    type=click.Path(),
    help="Snapshot of the cluster after that run; repeatable.",
)
@since
@options.output("table", "json", "yaml")
@options.judged
@requested(VerifyRequest, streams=Streams)
def verify(request: VerifyRequest) -> None:
    """Check a result against the raw objects, independently of the solver.

    The result is a Placement, RebalancePlan, Fit, Sizing, Survival or Upgrade. Give manifests that were added or rolled out again with -w;
    what-if edits are repeated from the document. A plan is replayed step by step, an upgrade wave by wave, a survival failure by failure.
    Policy, exemptions and edits are the document's own: they are always printed, and options below refuse unexpected ones.

    With --journal, compare the requests of a run of apply with the document: steps done, steps remaining, and requests that belong to no
    step (violations). With --end, compare the cluster after the run with the document.

    Exit codes: 0 if the result is valid, 3 if steps remain or the cluster ended in another state, 4 if there are violations.
    """
    request.check()
    from kubestow.commands.verify.run import run

    run(request)
