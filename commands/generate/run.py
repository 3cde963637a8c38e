"""The work of ``kubestow generate``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import click
import msgspec

from kubestow.commands.common.exit_codes import say
from kubestow.commands.generate import GenerateRequest
from kubestow.commands.running import raw_output
from kubestow.instances.generate.generator import Generated, Parameters, generate
from kubestow.instances.generate.planted import Planted, planted
from kubestow.instances.generate.worn import Worn, worn
from kubestow.report.documents import yaml_text


def run(request: GenerateRequest) -> None:
    """Generate the cluster and write its snapshot."""
    try:
        made = _made(request)
    except ValueError as error:
        raise click.UsageError(f"--{'worn' if request.planted is None else 'planted'}: {error}") from None
    if made.unplanted and request.planted is None:
        say(f"warning: {made.unplanted} pods did not fit while the rules were drawn; a complete placement may not exist")
    raw_output.write_snapshot(request.streams, _list_object(made.objects(), request.form))


def _made(request: GenerateRequest) -> Generated:
    """Return the generated cluster.

    Raises:
        ValueError: the numbers contradict each other.
    """
    if request.planted is not None:
        return planted(Planted(**request.given, usage=request.planted))
    if request.worn is not None:
        return worn(Worn(**request.given, gone=request.worn))
    return generate(Parameters(**request.given))


def _list_object(items: Iterable[object], form: str | None) -> Iterator[bytes]:
    """Yield a v1 List item by item, because the objects of a large cluster take gigabytes."""
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
