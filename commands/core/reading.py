"""Snapshots, manifests and what-if edits, read and made ready for a search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kubestow.models.buffers.demand import demands, sentences
from kubestow.models.cluster.storage import never_bound
from kubestow.models.cluster.unknown_namespaces import SENTENCE, undecided
from kubestow.models.documents import policy as policies
from kubestow.models.documents.capacity import Capacity
from kubestow.models.documents.placement import Edits, Placement, SnapshotRef
from kubestow.models.documents.policy import Policy
from kubestow.models.documents.rebalance_plan import RebalancePlan
from kubestow.models.execution.execution_grace import time_of
from kubestow.models.kube import kinds
from kubestow.models.kube.feature_gates import FeatureGates, GateError
from kubestow.models.numa.annotations import has_hints
from kubestow.models.snapshot import settling, sources
from kubestow.models.snapshot import snapshot as snapshots
from kubestow.models.snapshot.snapshot import InputError, Snapshot
from kubestow.models.workloads.checks import given_as_snapshot
from kubestow.models.workloads.expand import Expansion

#: How the sentence about CapacityBuffers ends.
_NO_ROOM: Final = "which hold no room against real pods"


class WrongUse(ValueError):
    """What was asked for does not go together, whatever the input is; the command line ends with exit code 2 then."""


@dataclass(frozen=True)
class Reading:
    """Of which files a snapshot is read, and by whose rules it is judged.

    ``result``: what a result says that it is of, by whose version and feature gates the snapshot is judged then; ``of``: its policy.
    ``whole``: the snapshot is to be a cluster's, with nodes; else it is only asked about annotations, by what tells of these itself.
    ``empty``: it may have no nodes yet, as those of a result need not have that were bought.
    ``where``: what was read in place of files, for messages.
    ``gangs``: pending pods whose gang annotations cannot be read lose them; without it they are left for the audit to name.
    """

    paths: Sequence[str]
    policy: Policy | None = None
    kubernetes_version: str | None = None
    feature_gates: Mapping[str, bool] = field(default_factory=dict)
    result: SnapshotRef | None = None
    of: Policy | None = None
    whole: bool = True
    empty: bool = False
    gangs: bool = True
    where: str = ""


def read(asked: Reading) -> tuple[Snapshot, list[str]]:
    """Return the snapshot, and what is odd about it; with a policy also about what the policy asks of it.

    Raises:
        InputError: what is wrong with the files.
        WrongUse: no such version or feature gate, or others than the result's.
    """
    snapshot = snapshots.load(asked.paths)
    return snapshot, settle(snapshot, asked)


def settle(snapshot: Snapshot, asked: Reading) -> list[str]:
    """Have a snapshot (changed) judged as is asked, and return what is odd about it. Raises what :func:`read` does."""
    policy = asked.policy
    if asked.whole:
        bought = asked.result is not None and asked.result.edits is not None and bool(asked.result.edits.buy)
        check_whole(snapshot, asked.where or labels(asked.paths), empty=asked.empty or bought)
    snapshot.assumed += set_gates(snapshot, asked)
    snapshot.shared_gpus = (asked.of or policy or policies.DEFAULT).sharedGPUs
    snapshot.admission_plugins = frozenset((asked.of or policy or policies.DEFAULT).admissionPlugins)
    _share(snapshot)
    warnings = list(snapshot.warnings)
    if asked.whole and any(has_hints(pod) for pod in snapshot.pods):
        from kubestow.models.numa import container_classes

        snapshot.omissions += container_classes.omissions(snapshot, policy or policies.DEFAULT)
        warnings += container_classes.warnings(snapshot, policy) if policy is not None else []
    if asked.gangs:
        from kubestow.models.gangs import unreadable

        snapshot.omissions += unreadable.set_aside(snapshot)
    _name_undecided(snapshot)
    _name_buffers(snapshot)
    snapshot.assumed += never_bound.sentences(snapshot)
    if (
        policy is not None
        and policy.multipliers.imageLocality
        and not any(n.status is not None and n.status.images for n in snapshot.nodes)
    ):
        warnings.append(
            "the policy weighs imageLocality, and no node of the snapshot lists images: `kubestow capture --no-redact` keeps them"
        )
    return warnings


def set_gates(snapshot: Snapshot, asked: Reading) -> list[str]:
    """Set by which version and feature gates a snapshot is judged, and return what is to be said of that."""
    result = asked.result
    if result is None or not (result.kubernetesVersion or result.featureGates):
        try:
            snapshot.gates, notes = settling.gates_of(snapshot.capture, snapshot.nodes, asked.kubernetes_version, asked.feature_gates)
        except GateError as error:
            raise WrongUse(f"--feature-gate: {error}") from None
        return notes
    server, notes = snapshot.gates.version, set_gates_of(snapshot, result)
    said = snapshot.gates
    if asked.kubernetes_version not in (None, said.version):
        raise WrongUse(f"--kubernetes-version {asked.kubernetes_version}: the result is of {said}, by which it is judged")
    for gate, on in asked.feature_gates.items():
        if said.enabled(gate) != on:
            raise WrongUse(f"--feature-gate {gate}={str(on).lower()}: the result is of {said}, by which it is judged")
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


def check_whole(snapshot: Snapshot, where: str, *, empty: bool = False) -> None:
    """Refuse what is no cluster's snapshot, and manifests among it. ``where``: its files; ``empty``: a cluster may have no nodes.

    Raises:
        InputError: what is wrong, and what the snapshot lacks.
    """
    found = given_as_snapshot(snapshot)
    if not snapshot.nodes and not empty:
        meant = "manifests are given with -w, beside" if found else "expected"
        why = f"{where}: holds no Node objects{_held(snapshot)}: {meant} a snapshot of the cluster, as of kubestow capture"
        raise InputError([why, *snapshot.omissions])
    if found:
        have = f"{found[0]} has" if len(found) == 1 else f"{found[0]} and {len(found) - 1} more have"
        told = "no pods, no uid and no status, which is a manifest and no part of a snapshot: it is given with -w"
        raise InputError([f"{where}: {have} {told}"])


def earlier(snapshot: Snapshot, name: str, paths: Sequence[str]) -> tuple[Snapshot, ...]:
    """Return earlier snapshots of the same cluster, each path one of them. ``name``: that of the snapshot, for messages.

    Raises:
        InputError: a snapshot that does not say when it was captured, that is later, or that is of another cluster.
    """
    now = time_of(snapshot, name) if paths else None
    found = []
    for path in paths:
        before, label = snapshots.load([path]), sources.label(path)
        check_whole(before, label)
        then = time_of(before, label)
        assert now is not None
        assert before.capture is not None
        assert snapshot.capture is not None
        if then > now:
            raise InputError([f"{label}: is of {before.capture.time}, expected no later than {snapshot.capture.time}, the time of {name}"])
        clusters = before.capture.cluster, snapshot.capture.cluster
        if all(clusters) and clusters[0] != clusters[1]:
            raise InputError([f"{label}: is of cluster {clusters[0]}, expected {clusters[1]}, that of {name}"])
        before.gates, before.shared_gpus = snapshot.gates, snapshot.shared_gpus
        found.append(before)
    return tuple(found)


def labels(paths: Sequence[str]) -> str:
    """Return files as messages name them."""
    return ", ".join(map(sources.label, paths))


def _held(snapshot: Snapshot) -> str:
    counts = {**snapshot.counts(), **snapshot.ignored}
    return f" (but {', '.join(f'{kind} {count}' for kind, count in sorted(counts.items()))})" if counts else ""


def read_manifests(paths: Sequence[str], gates: FeatureGates, namespace: str | None, *, unknown_fields: bool = False) -> Snapshot:
    """Read manifests for an API server with these gates. ``namespace``: of objects that name none.

    Raises:
        InputError: what is wrong with them; nothing that creates pods.
    """
    found = snapshots.load(paths, manifests=True, unknown_fields=unknown_fields, namespace=namespace, gates=gates)
    if not found.pods and not found.workloads and not found.capacity_buffers:
        where = labels(paths)
        raise InputError([f"{where}: holds nothing that creates pods{_held(found)}, expected a Pod or {' or '.join(kinds.WORKLOADS)}"])
    return found


def _share(snapshot: Snapshot) -> None:
    if snapshot.shared_gpus != "none":
        from kubestow.models.devices.shared_gpus import adapter

        adapter.apply(snapshot, snapshot.shared_gpus)


def _name_undecided(snapshot: Snapshot) -> None:
    """Say once which namespaces lack an object whose labels decide, of all pods that are there now (the snapshot's omissions change)."""
    found = undecided(snapshot)
    if found is None:
        return
    at = next((i for i, text in enumerate(snapshot.omissions) if text.startswith(SENTENCE)), len(snapshot.omissions))
    snapshot.omissions[at : at + 1] = [found.sentence(snapshot)]


def _name_buffers(snapshot: Snapshot) -> None:
    """Say once which headroom CapacityBuffers ask for now, and which of them ask for nothing that is known (the snapshot changes)."""
    if not snapshot.capacity_buffers:
        return
    found = demands(snapshot)
    asking = [f"{demand.buffer} {demand.chunks}" for demand in found if demand.problem is None]
    several = "CapacityBuffers ask" if len(asking) > 1 else "CapacityBuffer asks"
    texts = [f"{len(asking)} {several} for chunks of headroom ({', '.join(asking)}), {_NO_ROOM}"] if asking else []
    at = next((i for i, text in enumerate(snapshot.assumed) if text.endswith(_NO_ROOM)), len(snapshot.assumed))
    snapshot.assumed[at : at + 1] = texts
    snapshot.omissions += [text for text in sentences(found) if text not in snapshot.omissions]


def edit(snapshot: Snapshot, edits: Edits | None, manifests: Snapshot | None, paths: Sequence[str] = ()) -> Expansion:
    """Return the snapshot with manifests and what-if edits; what is odd about them comes after the snapshot's own warnings, omissions and
    assumptions. ``paths``: of the manifests, for messages.

    Raises:
        InputError: manifests or edits that do not go with the snapshot.
    """
    if manifests is None and edits is None:
        return Expansion(snapshot)
    from kubestow.models.edits.edits import apply

    found = apply(snapshot, manifests, edits or Edits())
    _share(found.snapshot)
    _name_undecided(found.snapshot)
    _name_buffers(found.snapshot)
    found.snapshot.assumed += never_bound.sentences(found.snapshot, never_bound.names(snapshot))
    odd = found.snapshot.warnings[len(snapshot.warnings) :]
    if manifests is not None and not found.pods and not (edits and edits.replicas) and not manifests.capacity_buffers:
        raise InputError([f"{labels(paths)}: asks for no pods{''.join(f': {text}' for text in odd[:1])}"])
    return found


def misused(edits: Edits, manifests: Sequence[object], catalogue: bool) -> str | None:
    """Return what edits lack, None if nothing. ``manifests``: those that there are; ``catalogue``: whether there is one."""
    if edits.partial and not manifests:
        return "--partial needs manifests, given with -w"
    if edits.buy and not catalogue:
        return "--buy needs a catalogue of nodes, given with --catalogue"
    if edits.namespace and not manifests:
        return "-n is for manifests that name no namespace, and there are none (-w)"
    return None


def sign(result: Placement | RebalancePlan | Capacity, snapshot: Snapshot) -> None:
    """Note in a result what every reader must know of its input, and which cluster it is of, as it was when."""
    result.notes += snapshot.notes
    stamp(result.snapshot, snapshot)
    within: Placement | None = getattr(result, "placement", None)
    if within is not None:
        stamp(within.snapshot, snapshot)


def stamp(document: SnapshotRef, snapshot: Snapshot) -> None:
    """Note in a document which cluster its snapshot is of, and of when, where the snapshot tells."""
    if snapshot.capture is not None:
        document.cluster, document.capturedAt = snapshot.capture.cluster or None, snapshot.capture.time or None
