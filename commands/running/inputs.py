"""Reading of snapshots, manifests, policies and what-if edits. Bad input ends the command."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar

import click
import msgspec

from kubestow.commands.common.exit_codes import VIOLATED, fail, refuse, say
from kubestow.commands.common.options import PolicyChoices, Streams
from kubestow.commands.core import reading
from kubestow.commands.naming import examples
from kubestow.commands.running import capturing
from kubestow.models.catalogue import catalogue as catalogues
from kubestow.models.catalogue.catalogue import Catalogue
from kubestow.models.documents import policy as policies
from kubestow.models.documents.placement import Edits, SnapshotRef
from kubestow.models.documents.policy import Policy
from kubestow.models.execution import execution_grace
from kubestow.models.execution.execution_grace import History
from kubestow.models.kube.feature_gates import FeatureGates
from kubestow.models.right_sizing.read import read as read_requests
from kubestow.models.scheduler.profiles import Profile, read_profiles
from kubestow.models.snapshot import snapshot as snapshots
from kubestow.models.snapshot import sources
from kubestow.models.snapshot.capture_info import instant
from kubestow.models.snapshot.snapshot import InputError, Snapshot
from kubestow.models.workloads.expand import Expansion

_T = TypeVar("_T")

#: Number of warnings shown without -v.
_MAX_WARNINGS = 20


def checked(read: Callable[[], _T]) -> _T:
    """Return the result of ``read``; end the command if it reports bad input."""
    try:
        return read()
    except InputError as error:
        fail(error.problems)


def warn(warnings: Sequence[str], streams: Streams) -> None:
    """Print warnings: the first few, all with -v, none with -q."""
    shown = warnings if streams.verbose else warnings[:_MAX_WARNINGS]
    for warning in () if streams.quiet else shown:
        say(f"warning: {warning}")
    if len(shown) < len(warnings) and not streams.quiet:
        say(f"warning: {len(warnings) - len(shown)} more like these (-v shows all)")


def note_omissions(omissions: Sequence[str], streams: Streams) -> None:
    """Print omissions, also with -q. With --strict, end the command instead."""
    if streams.strict and omissions:
        fail([f"not taken into account: {text}" for text in omissions], VIOLATED)
    note(omissions)


def note(texts: Iterable[str]) -> None:
    """Print notes that a user must know, also with -q."""
    for text in texts:
        say(f"note: {text}")


def read_policy(choices: PolicyChoices) -> Policy:
    """Return the policy of the file with the overrides of the command line."""
    path = choices.policy_file
    policy = checked(lambda: policies.read(path)) if path is not None else policies.DEFAULT
    instead = {"strategy": choices.strategy, "shorthand": choices.shorthand}
    return msgspec.structs.replace(policy, **{name: value for name, value in instead.items() if value is not None})


def read_schedulers(path: str | None) -> dict[str, Profile] | None:
    """Return the profiles in a configuration of kube-scheduler by schedulerName, or None without a file."""
    return None if path is None else checked(lambda: read_profiles(path))


def load(
    streams: Streams,
    policy: Policy | None = None,
    *,
    whole: bool = True,
    gangs: bool = True,
    result: SnapshotRef | None = None,
    of: Policy | None = None,
    empty: bool = False,
) -> Snapshot:
    """Read the snapshot and print its warnings. With a ``policy``, also warn about data that the policy needs.

    The other parameters are those of :class:`kubestow.commands.core.reading.Reading`.
    """
    version, given = streams.kubernetes_version, dict(streams.feature_gates)
    snapshot = checked(lambda: _read(streams))
    request = reading.Reading(streams.snapshots, policy, version, given, result, of, whole, empty, gangs, _where(snapshot, streams))
    warnings = _used_well(lambda: reading.settle(snapshot, request))
    warn(warnings, streams)
    note_omissions(snapshot.omissions, streams)
    note(snapshot.assumed)
    if streams.verbose:
        say(f"read {len(snapshot.nodes)} nodes and {len(snapshot.pods)} pods")
        if snapshot.ignored:
            say("ignored: " + counted(snapshot.ignored))
    return snapshot


def _read(streams: Streams) -> Snapshot:
    if streams.cluster is None:
        return snapshots.load(streams.snapshots)
    return capturing.read(streams.cluster, quiet=streams.quiet, verbose=streams.verbose)


def _used_well(read: Callable[[], _T]) -> _T:
    """Return the result of ``read``; end the command on bad input or wrong usage."""
    try:
        return checked(read)
    except reading.WrongUse as error:
        raise click.UsageError(str(error)) from None


def set_gates(snapshot: Snapshot, streams: Streams) -> list[str]:
    """Set the Kubernetes version and feature gates of a snapshot; return notes about them."""
    request = reading.Reading((), kubernetes_version=streams.kubernetes_version, feature_gates=dict(streams.feature_gates))
    return _used_well(lambda: reading.set_gates(snapshot, request))


def note_gates(snapshot: Snapshot, result: SnapshotRef, streams: Streams) -> None:
    """Print the version whose rules apply, if the result records it."""
    if not streams.quiet and (result.kubernetesVersion is not None or result.featureGates):
        say(f"note: judged by the rules of {snapshot.gates}, as recorded in the result")


def load_over_time(
    streams: Streams, policy: Policy | None = None, *, result: SnapshotRef | None = None, of: Policy | None = None
) -> list[tuple[str, Snapshot]]:
    """Read several snapshots of one cluster, one for each path, and sort them by time. They may have no nodes.

    End the command if a snapshot records no cluster or time, two have the same time, or the clusters differ.

    Args:
        streams: Streams with the paths.
        policy: The policy, for warnings about data that it needs.
        result: Snapshot reference of a result, whose version and feature gates apply.
        of: Policy of that result.

    Returns:
        Pairs of path and snapshot.
    """
    found: dict[datetime, tuple[str, Snapshot]] = {}
    cluster: tuple[str, str] | None = None
    for path in streams.snapshots:
        snapshot, name = load(replace(streams, snapshots=(path,)), policy, result=result, of=of, empty=True), sources.label(path)
        time = instant(snapshot.capture.time) if snapshot.capture is not None else None
        if snapshot.capture is None or time is None or not snapshot.capture.cluster:
            fail([f"{name}: does not record its cluster and time, as snapshots of `kubestow capture` do"])
        if time in found:
            fail([f"{name}: is of {snapshot.capture.time}, as {sources.label(found[time][0])} is: expected one snapshot for each time"])
        if cluster is not None and cluster[0] != snapshot.capture.cluster:
            fail([f"{name}: is of cluster {snapshot.capture.cluster}, {cluster[1]} of {cluster[0]}: expected snapshots of one cluster"])
        found[time], cluster = (path, snapshot), cluster or (snapshot.capture.cluster, name)
    return [found[time] for time in sorted(found)]


def load_later(paths: Sequence[str], streams: Streams) -> Snapshot:
    """Read another snapshot of the cluster without repeating warnings."""
    found = checked(lambda: snapshots.load(paths))
    checked(lambda: reading.check_whole(found, reading.labels(paths)))
    return found


def _where(snapshot: Snapshot, streams: Streams) -> str:
    """Return the name of the captured cluster; empty if files were read."""
    if streams.cluster is None:
        return ""
    return capturing.where(snapshot.capture.cluster if snapshot.capture is not None else "")


def load_manifests(paths: Sequence[str], streams: Streams, gates: FeatureGates, edits: Edits | None = None) -> Snapshot | None:
    """Read manifests for an API server with these gates; None without paths.

    Objects without a namespace get that of the edits or, without edits, that of the captured cluster.
    """
    if not paths:
        return None
    namespace = edits.namespace if edits is not None else streams.cluster.namespace if streams.cluster is not None else None
    unknown = streams.allow_unknown_fields
    found = checked(lambda: reading.read_manifests(paths, gates, namespace, unknown_fields=unknown))
    if streams.verbose and found.ignored:
        say("not read of the manifests: " + counted(found.ignored))
    return found


def counted(ignored: Mapping[str, int]) -> str:
    """Format the number of objects of each kind."""
    return ", ".join(f"{count} {kind}" for kind, count in sorted(ignored.items()))


def read_catalogue(path: str | None) -> Catalogue | None:
    """Read the catalogue and print its notes. None without a path."""
    if path is None:
        return None
    found = checked(lambda: catalogues.read(path))
    note(found.notes)
    return found


def what_if(chosen: Mapping[str, Any], streams: Streams, *others: str | None, catalogue: Catalogue | None = None) -> Edits | None:
    """Return the what-if edits of the command line; None without edits. ``others``: further manifest files."""
    if not any(chosen.values()):
        return None
    edits = msgspec.convert({**chosen, "requests": []}, Edits)
    wrong = reading.misused(edits, [path for path in (*streams.manifests, *others) if path], catalogue is not None)
    example = examples.example("--catalogue", streams.snapshots) if edits.buy and catalogue is None else ""
    refuse(wrong is not None, f"{wrong}.{example}" if example else wrong or "")
    if chosen.get("requests"):
        odd: list[str] = []
        edits.requests = checked(lambda: read_requests(chosen["requests"], odd))
        warn(odd, streams)
    if catalogue is not None:
        edits.shapes = catalogue.used(edits.buy)
    return edits


def edit(snapshot: Snapshot, streams: Streams, edits: Edits | None = None, manifests: Snapshot | None = None) -> Expansion:
    """Return the snapshot with manifests and what-if edits, and print warnings. ``manifests``: those of -w if already read."""
    added = manifests if manifests is not None else load_manifests(streams.manifests, streams, snapshot.gates, edits)
    found = checked(lambda: reading.edit(snapshot, edits, added, streams.manifests))
    if found.snapshot is snapshot:
        return found
    warn(found.snapshot.warnings[len(snapshot.warnings) :], streams)
    note_omissions(found.snapshot.omissions[len(snapshot.omissions) :], streams)
    note(found.snapshot.assumed[len(snapshot.assumed) :])
    return found


def history(snapshot: Snapshot, paths: Sequence[str], seconds: int | None, policy: Policy, streams: Streams) -> History:
    """Read earlier snapshots and return the history of a snapshot.

    Args:
        snapshot: The current snapshot.
        paths: Earlier snapshots, each a file or a directory.
        seconds: The grace period of the command line; None for that of the policy.
        policy: The policy.
        streams: The inputs, for messages.
    """
    name = reading.labels(streams.snapshots) or "the snapshot"
    found = checked(lambda: reading.earlier(snapshot, name, paths))
    warn(list(execution_grace.warnings(snapshot.pods)), streams)
    return History(policy.executionGraceSeconds if seconds is None else seconds, found)
