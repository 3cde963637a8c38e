"""What is captured of a cluster, said on standard error, and read as a snapshot without a file in between."""

from __future__ import annotations

from kubestow.commands.common.cluster.choice import ClusterChoice
from kubestow.commands.common.exit_codes import say
from kubestow.live.capture import Captured, CaptureOptions
from kubestow.live.capture import capture as capture_cluster
from kubestow.models.snapshot import sources
from kubestow.models.snapshot.snapshot import InputError, Snapshot, from_json
from kubestow.report.documents.output import gzipped, write_file


def capture(asked: CaptureOptions, *, quiet: bool, verbose: bool) -> Captured:
    """Capture a cluster, and say how much of what there is.

    Raises:
        InputError: nothing could be captured.
    """
    heard = (lambda name, count: say(f"{name}: {count}")) if verbose else None
    found = capture_cluster(asked, on_kind=heard)
    for note in found.notes if verbose else ():
        say(note)
    if not quiet:
        say("captured: " + (", ".join(f"{count} {kind}" for kind, count in found.counts.items()) or "nothing"))
    return found


def read(choice: ClusterChoice, *, quiet: bool, verbose: bool) -> Snapshot:
    """Return the snapshot that ``kubestow capture`` would write and a command would read, of all namespaces; kept in a file where that is
    asked for. What could not be read is among its omissions.

    Raises:
        InputError: nothing could be captured, or what the cluster has cannot be read.
        OSError: the file could not be written.
    """
    found = capture(CaptureOptions(choice.kubectl, choice.context, choice.kubeconfig), quiet=quiet, verbose=verbose)
    if choice.save is not None:
        write_file(choice.save, gzipped(found.parts()) if choice.save.endswith(".gz") else found.parts())
    if choice.namespace is not None:
        say(f"note: objects of manifests that name no namespace go to {choice.namespace}, the context's (-n chooses another)")
    name = where(found.info.cluster)
    try:
        data = sources.joined(found.parts())
    except ValueError as error:
        raise InputError([f"{name}: {error}"]) from None
    return from_json(data, name)


def where(context: str) -> str:
    """Return how messages name a cluster, by the name of its context."""
    return f"context {context}" if context else "the cluster"
