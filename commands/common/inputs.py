"""Reading of snapshots, manifests, policies and what-if edits; what is wrong with them ends the command."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from commands.common.exit_codes import VIOLATED, fail, refuse, say
from commands.common.options import PolicyChoices, Streams
from models.documents import policy as policies
from models.documents.placement import Edits, SnapshotRef
from models.documents.policy import Policy
from models.kube import kinds
from models.kube.feature_gates import FeatureGates, GateError
from models.numa.annotations import has_hints
from models.snapshot import settling, sources
from models.snapshot import snapshot as snapshots
from models.snapshot.capture_info import instant
from models.snapshot.snapshot import InputError, Snapshot
from models.workloads.checks import given_as_snapshot
from models.workloads.expand import Expansion

if TYPE_CHECKING:
    from models.catalogue.catalogue import Catalogue

_T = TypeVar("_T")

#: Warnings shown without -v.
_WARNINGS = 20


def checked(read: Callable[[], _T]) -> _T:
    """Return what ``read`` gives, or end the command with what is wrong with the input."""
    try:
        return read()
    except InputError as error:
        fail(error.problems)


def warn(warnings: Sequence[str], streams: Streams) -> None:
    """Show warnings, the first few without -v, none with -q."""
    shown = warnings if streams.verbose else warnings[:_WARNINGS]
    for warning in () if streams.quiet else shown:
        say(f"warning: {warning}")
    if len(shown) < len(warnings) and not streams.quiet:
        say(f"warning: {len(warnings) - len(shown)} more like these (-v shows all)")


def note_omissions(omissions: Sequence[str], streams: Streams) -> None:
    """Say what is not taken into account, with -q too; end the command where --strict refuses it."""
    if streams.strict and omissions:
        fail([f"not taken into account: {text}" for text in omissions], VIOLATED)
    for text in omissions:
        say(f"note: {text}")


def note_assumed(assumed: Sequence[str]) -> None:
    """Say what is taken otherwise than the input has it, with -q too."""
    for text in assumed:
        say(f"note: {text}")


def stamp(document: SnapshotRef, snapshot: Snapshot) -> None:
    """Note in a document which cluster its snapshot is of, and of when, where the snapshot tells."""
    if snapshot.capture is not None:
        document.cluster, document.capturedAt = snapshot.capture.cluster or None, snapshot.capture.time or None


def read_policy(choices: PolicyChoices) -> Policy:
    """Return the policy of the file with what the command line says instead."""
    path = choices.policy_file
    policy = checked(lambda: policies.read(path)) if path is not None else policies.DEFAULT
    instead = {"strategy": choices.strategy, "shorthand": choices.shorthand}
    return msgspec.structs.replace(policy, **{name: value for name, value in instead.items() if value is not None})


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
    """Read the snapshot and say what is odd about it; with a ``policy`` also about what the policy asks of it.

    ``result``: what a result says that it is of, by whose version and feature gates the snapshot is judged then; ``of``: its policy.
    ``whole``: the snapshot is to be a cluster's, with nodes; else it is only asked about annotations, by what tells of these itself.
    ``empty``: it may have no nodes yet, as those of a result need not have that were bought.
    ``gangs``: pending pods whose gang annotations cannot be read lose them; without it they are left for the audit to name.
    """
    snapshot = checked(lambda: _read(streams))
    if whole:
        _check_whole(snapshot, streams, empty=empty or (result is not None and result.edits is not None and bool(result.edits.buy)))
    snapshot.assumed += set_gates(snapshot, streams, result)
    snapshot.shared_gpus = (of or policy or policies.DEFAULT).sharedGPUs
    _share(snapshot)
    warnings = list(snapshot.warnings)
    if whole and any(has_hints(pod) for pod in snapshot.pods):
        from models.numa import container_classes

        snapshot.omissions += container_classes.omissions(snapshot, policy or policies.DEFAULT)
        warnings += container_classes.warnings(snapshot, policy) if policy is not None else []
    if gangs:
        from models.gangs import unreadable

        snapshot.omissions += unreadable.set_aside(snapshot)
    if (
        policy is not None
        and policy.multipliers.imageLocality
        and not any(n.status is not None and n.status.images for n in snapshot.nodes)
    ):
        warnings.append(
            "the policy weighs imageLocality, and no node of the snapshot lists images: `kubestow capture --no-redact` keeps them"
        )
    warn(warnings, streams)
    note_omissions(snapshot.omissions, streams)
    note_assumed(snapshot.assumed)
    if streams.verbose:
        say(f"read {len(snapshot.nodes)} nodes and {len(snapshot.pods)} pods")
        if snapshot.ignored:
            say("ignored: " + _counted(snapshot.ignored))
    return snapshot


def _read(streams: Streams) -> Snapshot:
    if streams.cluster is None:
        return snapshots.load(streams.snapshots)
    from commands.common.cluster import capturing

    return capturing.read(streams.cluster, quiet=streams.quiet, verbose=streams.verbose)


def set_gates(snapshot: Snapshot, streams: Streams, result: SnapshotRef | None = None) -> list[str]:
    """Set by which version and feature gates a snapshot is judged, and return what is to be said of that."""
    asked, given = streams.kubernetes_version, dict(streams.feature_gates)
    if result is None or not (result.kubernetesVersion or result.featureGates):
        try:
            snapshot.gates, notes = settling.gates_of(snapshot.capture, snapshot.nodes, asked, given)
        except GateError as error:
            raise click.UsageError(f"--feature-gate: {error}") from None
        return notes
    server, notes = snapshot.gates.version, checked(lambda: set_gates_of(snapshot, result))
    said = snapshot.gates
    refuse(asked not in (None, said.version), f"--kubernetes-version {asked}: the result is of {said}, by which it is judged")
    for gate, on in given.items():
        refuse(said.enabled(gate) != on, f"--feature-gate {gate}={str(on).lower()}: the result is of {said}, by which it is judged")
    if snapshot.capture is not None and snapshot.capture.server_version and server != said.version:
        notes.append(f"the result is of {said}, the snapshot of a server of {snapshot.capture.server_version}")
    return notes


def set_gates_of(snapshot: Snapshot, result: SnapshotRef) -> list[str]:
    """Have a snapshot judged by the version and feature gates of a result, and return what is to be said of that. A result of other
    versions of kubestow may tell none: then the snapshot stays as it is.

    Raises:
        InputError: there is no such version or gate.
    """
    if result.kubernetesVersion is None and not result.featureGates:
        return []
    try:
        gates, notes = settling.gates_of(snapshot.capture, snapshot.nodes, result.kubernetesVersion, result.featureGates)
    except GateError as error:
        raise InputError([f"the result: snapshot: {error}"]) from None
    snapshot.gates = gates
    return notes


def note_gates(snapshot: Snapshot, result: SnapshotRef, streams: Streams) -> None:
    """Say by whose rules a result is judged, where it tells."""
    if not streams.quiet and (result.kubernetesVersion is not None or result.featureGates):
        say(f"note: judged by the rules of {snapshot.gates}, as the result says")


def load_over_time(
    streams: Streams, policy: Policy | None = None, *, result: SnapshotRef | None = None, of: Policy | None = None
) -> list[tuple[str, Snapshot]]:
    """Read snapshots of one cluster at several times, each path one of them, as :func:`load` reads one; return them with their paths in the
    order of their times. They may have no nodes yet."""
    found: dict[datetime, tuple[str, Snapshot]] = {}
    cluster: tuple[str, str] | None = None
    for path in streams.snapshots:
        snapshot, name = load(replace(streams, snapshots=(path,)), policy, result=result, of=of, empty=True), sources.label(path)
        time = instant(snapshot.capture.time) if snapshot.capture is not None else None
        if snapshot.capture is None or time is None or not snapshot.capture.cluster:
            fail([f"{name}: does not say of which cluster and when it is, as `kubestow capture` writes it"])
        if time in found:
            fail([f"{name}: is of {snapshot.capture.time}, as {sources.label(found[time][0])} is: expected one snapshot of a time"])
        if cluster is not None and cluster[0] != snapshot.capture.cluster:
            fail([f"{name}: is of cluster {snapshot.capture.cluster}, {cluster[1]} of {cluster[0]}: expected snapshots of one cluster"])
        found[time], cluster = (path, snapshot), cluster or (snapshot.capture.cluster, name)
    return [found[time] for time in sorted(found)]


def load_later(paths: Sequence[str], streams: Streams) -> Snapshot:
    """Read another snapshot of a cluster, of which nothing is said that was said of the first."""
    found = checked(lambda: snapshots.load(paths))
    _check_whole(found, replace(streams, snapshots=tuple(paths)))
    return found


def _check_whole(snapshot: Snapshot, streams: Streams, *, empty: bool = False) -> None:
    """Refuse what is no cluster's snapshot, and manifests among it. ``empty``: a cluster may have no nodes."""
    where = ", ".join(map(sources.label, streams.snapshots)) or _where(snapshot)
    found = given_as_snapshot(snapshot)
    if not snapshot.nodes and not empty:
        meant = "manifests are given with -w, beside" if found else "expected"
        fail(
            [
                f"{where}: holds no Node objects{_held(snapshot)}: {meant} a snapshot of the cluster, as of kubestow capture",
                *snapshot.omissions,
            ]
        )
    if found:
        have = f"{found[0]} has" if len(found) == 1 else f"{found[0]} and {len(found) - 1} more have"
        fail([f"{where}: {have} no pods, no uid and no status, which is a manifest and no part of a snapshot: it is given with -w"])


def _where(snapshot: Snapshot) -> str:
    from commands.common.cluster import capturing

    return capturing.where(snapshot.capture.cluster if snapshot.capture is not None else "")


def _held(snapshot: Snapshot) -> str:
    counts = {**snapshot.counts(), **snapshot.ignored}
    return f" (but {', '.join(f'{kind} {count}' for kind, count in sorted(counts.items()))})" if counts else ""


def load_manifests(paths: Sequence[str], streams: Streams, gates: FeatureGates, edits: Edits | None = None) -> Snapshot | None:
    """Read manifests, where there are any, for an API server with these gates, in the namespace that the edits say."""
    if not paths:
        return None
    namespace = edits.namespace if edits is not None else streams.cluster.namespace if streams.cluster is not None else None
    unknown = streams.allow_unknown_fields
    found = checked(lambda: snapshots.load(paths, manifests=True, unknown_fields=unknown, namespace=namespace, gates=gates))
    if not found.pods and not found.workloads:
        where = ", ".join(map(sources.label, paths))
        fail([f"{where}: holds nothing that creates pods{_held(found)}, expected a Pod or {' or '.join(kinds.WORKLOADS)}"])
    if streams.verbose and found.ignored:
        say("not read of the manifests: " + _counted(found.ignored))
    return found


def _counted(ignored: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in sorted(ignored.items()))


def read_catalogue(path: str | None) -> Catalogue | None:
    """Return the catalogue of the file, where there is one, and say what is left out of it."""
    if path is None:
        return None
    from models.catalogue.catalogue import read

    found = checked(lambda: read(path))
    note_assumed(found.notes)
    return found


def what_if(chosen: Mapping[str, Any], streams: Streams, *others: str | None, catalogue: Catalogue | None = None) -> Edits | None:
    """Return the what-if edits of the command line, None if there are none. ``others``: manifests beside those of -w."""
    refuse(chosen.get("partial") and not streams.manifests, "--partial needs manifests, given with -w")
    refuse(chosen.get("buy") and catalogue is None, "--buy needs a catalogue of nodes, given with --catalogue")
    refuse(
        chosen.get("namespace") and not any((*streams.manifests, *others)),
        "-n is for manifests that name no namespace, and there are none (-w)",
    )
    if not any(chosen.values()):
        return None
    edits = msgspec.convert({**chosen, "requests": []}, Edits)
    if chosen.get("requests"):
        from models.right_sizing.read import read as read_requests

        edits.requests = checked(lambda: read_requests(chosen["requests"]))
    if catalogue is not None:
        edits.shapes = catalogue.used(edits.buy)
    return edits


def _share(snapshot: Snapshot) -> None:
    if snapshot.shared_gpus != "none":
        from models.devices.shared_gpus import adapter

        adapter.apply(snapshot, snapshot.shared_gpus)


def edit(snapshot: Snapshot, streams: Streams, edits: Edits | None = None, manifests: Snapshot | None = None) -> Expansion:
    """Return the snapshot with the manifests and what-if edits, and say what is odd about them. ``manifests``: those of -w, where they were
    read already."""
    added = manifests if manifests is not None else load_manifests(streams.manifests, streams, snapshot.gates, edits)
    if added is None and edits is None:
        return Expansion(snapshot)
    from models.edits.edits import apply

    found = checked(lambda: apply(snapshot, added, edits or Edits()))
    _share(found.snapshot)
    odd = found.snapshot.warnings[len(snapshot.warnings) :]
    if added is not None and not found.pods and not (edits and edits.replicas):
        fail([f"{', '.join(map(sources.label, streams.manifests))}: asks for no pods{''.join(f': {text}' for text in odd[:1])}"])
    warn(odd, streams)
    note_omissions(found.snapshot.omissions[len(snapshot.omissions) :], streams)
    note_assumed(found.snapshot.assumed[len(snapshot.assumed) :])
    return found
