"""Capture of a cluster, with a summary on standard error, and conversion to a snapshot without a file."""

from __future__ import annotations

import threading
from concurrent.futures import Future

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
    return _reported(_capture(options, verbose), quiet=quiet, verbose=verbose)


def begin(choice: ClusterChoice, *, verbose: bool) -> None:
    """Begin the capture of :func:`read` in the background, while the modules of a command are imported.

    The thread is a daemon, so that the program may end before it.
    """
    begun: Future[Captured] = Future()

    def work() -> None:
        try:
            begun.set_result(_capture(_options(choice), verbose))
        except BaseException as error:  # noqa: BLE001 (raised again by read)
            begun.set_exception(error)

    choice.begun.append(begun)
    threading.Thread(target=work, daemon=True).start()


def _options(choice: ClusterChoice) -> CaptureOptions:
    return CaptureOptions(choice.kubectl, choice.context, choice.kubeconfig)


def _capture(options: CaptureOptions, verbose: bool) -> Captured:
    return capture_cluster(options, on_kind=(lambda name, count: say(f"{name}: {count}")) if verbose else None)


def _reported(found: Captured, *, quiet: bool, verbose: bool) -> Captured:
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
    captured = choice.begun.pop().result() if choice.begun else _capture(_options(choice), verbose)
    found = _reported(captured, quiet=quiet, verbose=verbose)
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
