"""``kubestow report``: write an HTML page about a cluster or a result."""

from __future__ import annotations

from dataclasses import dataclass

import click

from kubestow.commands.common import options
from kubestow.commands.common.exit_codes import refuse
from kubestow.commands.common.help_text import GroupedCommand
from kubestow.commands.common.options import PolicyChoices, Streams, requested


@dataclass(frozen=True)
class ReportRequest:
    """The options of ``kubestow report``."""

    streams: Streams
    choices: PolicyChoices
    time_limit: float
    namespace: str | None

    def check(self) -> None:
        """Refuse to write a page to a terminal, and options that the result records itself."""
        streams = self.streams
        streams.check()
        refuse(streams.output is None and options.on_terminal(), "an HTML page cannot be shown on a terminal: give -o FILE")
        text = "--policy, --shorthand, --daemon-namespaces and --include-gated cannot be combined with --result, which records them"
        refuse(streams.result is not None and self.choices != PolicyChoices(), text)
        text = "-n and --result exclude each other: the result records its namespace"
        refuse(self.namespace is not None and streams.result is not None, text)


@click.command(cls=GroupedCommand)
@options.snapshots
@options.result_file("Result to show: of solve, rebalance, fit, size, survive or upgrade.  [default: show the cluster]")
@options.manifests("-w", "--manifests", "--workload")
@options.namespace
@options.output_file("Write the page to FILE")
@options.time_limit(10.0, "Time limit for causes, without --result.")
@options.scoped
@requested(ReportRequest, streams=Streams, choices=PolicyChoices)
def report(request: ReportRequest) -> None:
    """Write a self-contained HTML page about a cluster, or about a result for it.

    Without --result, the page shows the cluster, why pods are pending, and the findings of the audit. With --result, give the manifests
    that the result was made with again with -w. The result is checked first, and the page shows violations.

    Exit codes: 0 if the page is written, 4 if the result has violations (the page is written).
    """
    request.check()
    from kubestow.commands.report.run import run

    run(request)
