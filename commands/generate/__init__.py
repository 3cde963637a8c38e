"""``kubestow generate``: write a synthetic snapshot."""

from __future__ import annotations

from dataclasses import dataclass

import click

from kubestow.commands.common import options
from kubestow.commands.common.exit_codes import refuse
from kubestow.commands.common.help_text import GroupedCommand
from kubestow.commands.common.options import Streams, requested

_PERCENT = click.IntRange(0, 100)
#: Parameters that --planted accepts.
_OF_PLANTED = {"nodes", "pods", "seed", "zones", "rules"}


@dataclass(frozen=True)
class GenerateRequest:
    """The options of ``kubestow generate``. ``parameters``: those of the cluster, by name."""

    streams: Streams
    form: str
    planted: int | None
    worn: int | None
    parameters: dict[str, int]

    @property
    def given(self) -> dict[str, int]:
        """The parameters that the user gave. Others take the defaults of the kind of cluster."""
        source = click.get_current_context().get_parameter_source
        return {name: value for name, value in self.parameters.items() if source(name) is not click.core.ParameterSource.DEFAULT}

    def check(self) -> None:
        """Refuse contradictory options."""
        self.streams.check()
        other = next((name for name in self.given if name not in _OF_PLANTED), None if self.worn is None else "worn")
        refuse(self.planted is not None and other, f"--planted and --{other} do not go together")
        refuse(self.worn is not None and "bound" in self.given, "--worn and --bound do not go together")


@click.command(cls=GroupedCommand)
@click.option("--nodes", type=click.IntRange(1, 100_000), required=True, metavar="N", help="Number of nodes.")
@click.option("--pods", type=click.IntRange(1, 10_000_000), required=True, metavar="P", help="Number of pods.")
@click.option("--seed", type=options.SEED, default=0, metavar="S", help="Seed of the random numbers.")
@click.option("--zones", type=click.IntRange(1, 1000), default=3, metavar="N", help="Number of zones.")
@click.option(
    "--fill", type=click.IntRange(1, 100), default=60, metavar="PERCENT", help="Utilisation of the scarcest resource; 45 with --worn."
)
@click.option("--bound", type=_PERCENT, default=0, metavar="PERCENT", help="Share of pods that already run.")
@click.option("--priorities", type=_PERCENT, default=3, metavar="N", help="Number of PriorityClasses.")
@click.option("--numa", type=_PERCENT, default=0, metavar="PERCENT", help="Share of nodes with a NodeResourceTopology.")
@click.option(
    "--rules",
    type=_PERCENT,
    metavar="PERCENT",
    help="Share of workloads with hard rules.  [default: 30; 40 with --worn, 50 with --planted]",
)
@click.option("--preferences", type=_PERCENT, default=30, metavar="PERCENT", help="Share of workloads with preferences.")
@click.option("--tainted", type=click.IntRange(0, 50), default=5, metavar="PERCENT", help="Share of nodes in dedicated, tainted pools.")
@click.option(
    "--planted",
    type=click.IntRange(1, 100),
    metavar="USAGE",
    help="Cut the pods from this percentage of every node, so that a tight complete placement exists.",
)
@click.option(
    "--worn",
    type=click.IntRange(0, 90),
    metavar="PERCENT",
    help="Bind all pods, after this percentage of an earlier peak has left: a cluster to rebalance.",
)
@click.option("-f", "--format", "form", type=click.Choice(["json", "yaml"]), default="json", help="Output format.")
@options.output_file("Write the snapshot to FILE (gzip if it ends in .gz)")
@requested(GenerateRequest, streams=Streams, parameters=dict)
def generate(request: GenerateRequest) -> None:
    """Write a synthetic snapshot.

    The same arguments give the same bytes.
    """
    request.check()
    from kubestow.commands.generate.run import run

    run(request)
