"""``kubestow generate``: a synthetic snapshot from a seed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click

from kubestow.commands.common import options
from kubestow.commands.common.exit_codes import refuse, say
from kubestow.commands.common.help_text import Command
from kubestow.commands.common.options import Streams, bundled

if TYPE_CHECKING:
    from kubestow.instances.generate.generator import Generated

_PERCENT = click.IntRange(0, 100)
#: What a cluster has that pods are cut from.
_OF_PLANTED = {"nodes", "pods", "seed", "zones", "rules"}


@click.command(cls=Command)
@click.option("--nodes", type=click.IntRange(1, 100_000), required=True, metavar="N", help="Number of nodes.")
@click.option("--pods", type=click.IntRange(1, 10_000_000), required=True, metavar="P", help="Number of pods.")
@click.option("--seed", type=options.SEED, default=0, metavar="S", help="Seed of all draws.")
@click.option("--zones", type=click.IntRange(1, 1000), default=3, metavar="N", help="Number of zones.")
@click.option("--fill", type=click.IntRange(1, 100), default=60, metavar="PERCENT", help="Use of CPU by all pods; with --worn 45.")
@click.option("--bound", type=_PERCENT, default=0, metavar="PERCENT", help="Pods that run already.")
@click.option("--priorities", type=_PERCENT, default=3, metavar="N", help="Number of PriorityClasses.")
@click.option("--numa", type=_PERCENT, default=0, metavar="PERCENT", help="Nodes with a NodeResourceTopology.")
@click.option(
    "--rules", type=_PERCENT, metavar="PERCENT", help="Workloads with hard rules.  [default: 30; with --worn 40, with --planted 50]"
)
@click.option("--preferences", type=_PERCENT, default=30, metavar="PERCENT", help="Workloads with preferences.")
@click.option("--tainted", type=click.IntRange(0, 50), default=5, metavar="PERCENT", help="Nodes of dedicated, tainted pools.")
@click.option(
    "--planted",
    type=click.IntRange(1, 100),
    metavar="USAGE",
    help="Cut the pods from this share of every node instead: a tight complete placement exists.",
)
@click.option(
    "--worn", type=click.IntRange(0, 90), metavar="PERCENT", help="Everything runs, on nodes that such a share of the pods has left."
)
@click.option("-f", "--format", "form", type=click.Choice(["json", "yaml"]), default="json", help="Form of the output.")
@options.output_file("Write to FILE (gzip if it ends in .gz)")
@bundled(streams=Streams)
def generate(streams: Streams, form: str, planted: int | None, worn: int | None, **chosen: int) -> None:
    """Write a synthetic snapshot; the same arguments give the same bytes."""
    streams.check()
    # What is not given has the defaults of the kind of cluster.
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
        say(f"warning: {made.unplanted} pods found no room while the rules were drawn; a complete placement may not exist")
    from kubestow.commands.common import output

    output.write_snapshot(streams, _list_object(made.objects(), form))


def _made(given: dict[str, int], usage: int | None, gone: int | None) -> Generated:
    """Return the cluster: cut from ``usage`` percent of its nodes, or with ``gone`` percent of its pods away, or as it is drawn.

    Raises:
        ValueError: the numbers do not go together.
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
    """Yield a v1 List, item by item: as a whole, the objects of a large cluster take gigabytes."""
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
