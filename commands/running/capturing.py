"""Capture of a cluster, with a summary on standard error, and conversion to a snapshot without a file."""

from __future__ import annotations

from kubestow.commands.common.cluster_choice import ClusterChoice
from kubestow.commands.common.exit_codes import say
from kubestow.live.capture import Captured, CaptureOptions
from kubestow.live.capture import capture as capture_cluster
from kubestow.models.snapshot import sources
from kubestow.models.snapshot.snapshot import InputError, Snapshot, from_json
from kubestow.report.documents.output import gzipped, write_file


def capture(options: CaptureOptions, *, quiet: bool, verbose: bool) -> Captured:
    """Capture a cluster and print the number of objects of each kind.

    Raises:
        InputError: nothing could be captured.
    """
    heard = (lambda name, count: say(f"{name}: {count}")) if verbose else None
    found = capture_cluster(options, on_kind=heard)
    for note in found.notes if verbose else ():
        say(note)
    if not quiet:
        say("captured: " + (", ".join(f"{count} {kind}" for kind, count in found.counts.items()) or "nothing"))
    return found


def read(choice: ClusterChoice, *, quiet: bool, verbose: bool) -> Snapshot:
    """Capture all namespaces and return the snapshot, as if read from a file of ``kubestow capture``.

    With --save-snapshot the file is written as well. Kinds that could not be read are among the snapshot's omissions.

    Raises:
        InputError: nothing could be captured, or the objects are invalid.
        OSError: the file could not be written.
    """
    found = capture(CaptureOptions(choice.kubectl, choice.context, choice.kubeconfig), quiet=quiet, verbose=verbose)
    if choice.save is not None:
        write_file(choice.save, gzipped(found.parts()) if choice.save.endswith(".gz") else found.parts())
    if choice.namespace is not None:
        say(f"note: manifest objects without a namespace go to {choice.namespace}, that of the context (-n chooses another)")
    name = where(found.info.cluster)
    try:
        data = sources.joined(found.parts())
    except ValueError as error:
        raise InputError([f"{name}: {error}"]) from None
    return from_json(data, name)


def where(context: str) -> str:
    """Return the cluster's name for messages: that of its context."""
    return f"context {context}" if context else "the cluster"
