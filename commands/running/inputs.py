"""Reading of snapshots, manifests, policies and what-if edits, with their messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import msgspec

from kubestow.commands.common.exit_codes import VIOLATED, fail, say
from kubestow.commands.common.options import PolicyChoices, Streams
from kubestow.commands.core import given as core
from kubestow.commands.core import reading
from kubestow.commands.core.given import WhatIf
from kubestow.commands.core.reading import Manifests, Reading
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
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.models.workloads.expand import Expansion

#: Number of warnings shown without -v.
_MAX_WARNINGS = 20


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
    policy = policies.read(path) if path is not None else policies.DEFAULT
    instead = {"strategy": choices.strategy, "shorthand": choices.shorthand}
    return msgspec.structs.replace(policy, **{name: value for name, value in instead.items() if value is not None})


def read_schedulers(path: str | None) -> dict[str, Profile] | None:
    """Return the profiles in a configuration of kube-scheduler by schedulerName, or None without a file."""
    return None if path is None else read_profiles(path)


def load(streams: Streams, how: Reading) -> Snapshot:
    """Read the snapshot and print its warnings. The version, the feature gates and the names of files in ``how`` come from ``streams``."""
    if streams.cluster is None:
        snapshot, where = snapshots.load(streams.snapshots), reading.labels(streams.snapshots)
    else:
        snapshot = capturing.read(streams.cluster, quiet=streams.quiet, verbose=streams.verbose)
        where = capturing.where(snapshot.capture.cluster if snapshot.capture is not None else "")
    version, gates = streams.kubernetes_version, dict(streams.feature_gates)
    warn(reading.settle(snapshot, replace(how, kubernetes_version=version, feature_gates=gates, where=where)), streams)
    note_omissions(snapshot.omissions, streams)
    note(snapshot.assumed)
    if streams.verbose:
        say(f"read {len(snapshot.nodes)} nodes and {len(snapshot.pods)} pods")
        if snapshot.ignored:
            say("ignored: " + counted(snapshot.ignored))
    return snapshot


def set_gates(snapshot: Snapshot, streams: Streams) -> list[str]:
    """Set the Kubernetes version and feature gates of a snapshot; return notes about them."""
    return reading.set_gates(snapshot, Reading(kubernetes_version=streams.kubernetes_version, feature_gates=dict(streams.feature_gates)))


def note_gates(snapshot: Snapshot, result: SnapshotRef, streams: Streams) -> None:
    """Print the version whose rules apply, if the result records it."""
    if not streams.quiet and (result.kubernetesVersion is not None or result.featureGates):
        say(f"note: judged by the rules of {snapshot.gates}, as recorded in the result")


def load_over_time(streams: Streams, how: Reading) -> list[tuple[str, Snapshot]]:
    """Read several snapshots of one cluster, one for each path, and sort them by time. Return pairs of path and snapshot.

    End the command if a snapshot records no cluster or time, two have the same time, or the clusters differ.
    """
    found: dict[datetime, tuple[str, Snapshot]] = {}
    cluster: tuple[str, str] | None = None
    for path in streams.snapshots:
        snapshot, name = load(replace(streams, snapshots=(path,)), how), sources.label(path)
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
    found = snapshots.load(paths)
    reading.check_whole(found, reading.labels(paths))
    return found


def counted(ignored: Mapping[str, int]) -> str:
    """Format the number of objects of each kind."""
    return ", ".join(f"{count} {kind}" for kind, count in sorted(ignored.items()))


def read_catalogue(path: str | None) -> Catalogue | None:
    """Read the catalogue and print its notes. None without a path."""
    if path is None:
        return None
    found = catalogues.read(path)
    note(found.notes)
    return found


@dataclass(frozen=True)
class _PrintedManifests(Manifests):
    """The manifests of -w, which print their warnings."""

    streams: Streams = field(default_factory=Streams)

    def read(self, gates: FeatureGates, edits: Edits | None) -> Snapshot | None:
        found = super().read(gates, edits)
        if found is not None and self.streams.verbose and found.ignored:
            say("not read of the manifests: " + counted(found.ignored))
        return found

    def edit(self, snapshot: Snapshot, edits: Edits | None, added: Snapshot | None = None) -> Expansion:
        found = super().edit(snapshot, edits, added)
        warn(found.snapshot.warnings[len(snapshot.warnings) :], self.streams)
        note_omissions(found.snapshot.omissions[len(snapshot.omissions) :], self.streams)
        note(found.snapshot.assumed[len(snapshot.assumed) :])
        return found


def manifests(streams: Streams, paths: Sequence[str] | None = None) -> Manifests:
    """Return the manifests of -w, or of other paths. Objects without a namespace get that of the captured cluster."""
    namespace = streams.cluster.namespace if streams.cluster is not None else None
    return _PrintedManifests(streams.manifests if paths is None else paths, streams.allow_unknown_fields, namespace, streams)


def what_if(streams: Streams, chosen: Mapping[str, Any], catalogue: Catalogue | None = None, template: str | None = None) -> WhatIf:
    """Return manifests and what-if edits of the command line. ``chosen``: fields of edits; ``template``: a further manifest file."""
    edits = msgspec.convert({**chosen, "requests": []}, Edits) if any(chosen.values()) else None
    found = core.what_if(manifests(streams), edits, catalogue, template)
    if edits is not None and chosen.get("requests"):
        odd: list[str] = []
        edits.requests = read_requests(chosen["requests"], odd)
        warn(odd, streams)
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
    found = reading.earlier(snapshot, name, paths)
    warn(list(execution_grace.warnings(snapshot.pods)), streams)
    return History(policy.executionGraceSeconds if seconds is None else seconds, found)
