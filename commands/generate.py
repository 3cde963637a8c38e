"""``kubestow generate``: write a synthetic snapshot."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click

from kubestow.commands.common import options
from kubestow.commands.common.exit_codes import refuse, say
from kubestow.commands.common.help_text import GroupedCommand
from kubestow.commands.common.options import Streams, bundled

if TYPE_CHECKING:
    from kubestow.instances.generate.generator import Generated

_PERCENT = click.IntRange(0, 100)
#: Parameters that --planted accepts.
_OF_PLANTED = {"nodes", "pods", "seed", "zones", "rules"}


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
@bundled(streams=Streams)
def generate(streams: Streams, form: str, planted: int | None, worn: int | None, **chosen: int) -> None:
    """Write a synthetic snapshot.

    The same arguments give the same bytes.
    """
    streams.check()
    # Options that the user did not give take the defaults of the kind of cluster.
    source = click.get_current_context().get_parameter_source
    given = {name: value for name, value in chosen.items() if source(name) is not click.core.ParameterSource.DEFAULT}
    other = next((name for name in given if name not in _OF_PLANTED), None if worn is None else "worn")
    refuse(planted is not None and other, f"--planted and --{other} do not go together")
    refuse(worn is not None and "bound" in given, "--worn and --bound do not go together")
    try:
        made = _made(given, planted, worn)
    except ValueError as error:
        raise click.UsageError(f"--{'worn' if planted is None else 'planted'}: {error}") from None
    if made.unplanted and planted is None:
        say(f"warning: {made.unplanted} pods did not fit while the rules were drawn; a complete placement may not exist")
    from kubestow.commands.common import output

    output.write_snapshot(streams, _list_object(made.objects(), form))


def _made(given: dict[str, int], usage: int | None, gone: int | None) -> Generated:
    """Return the generated cluster.

    Args:
        given: Parameters from the command line.
        usage: Percentage of every node from which pods are cut (--planted).
        gone: Percentage of the pods that have left (--worn).

    Raises:
        ValueError: the numbers contradict each other.
    """
    if usage is not None:
        from kubestow.instances.generate.planted import Planted, planted

        return planted(Planted(**given, usage=usage))
    if gone is not None:
        from kubestow.instances.generate.worn import Worn, worn

        return worn(Worn(**given, gone=gone))
    from kubestow.instances.generate.generator import Parameters, generate

    return generate(Parameters(**given))


def _list_object(items: Iterable[object], form: str | None) -> Iterator[bytes]:
    """Yield a v1 List item by item, because the objects of a large cluster take gigabytes."""
    import msgspec

    from kubestow.report.documents import yaml_text

    if form == "yaml":
        yield b"apiVersion: v1\nkind: List\nitems:\n"
        for item in items:
            yield yaml_text.dump([item]).encode()
        return
    lead = b'{"apiVersion":"v1","kind":"List","items":[' + b"\n"
    for item in items:
        yield lead + msgspec.json.encode(item)
        lead = b",\n"
    yield b"\n]}\n"
