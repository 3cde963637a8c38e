"""Reading of snapshots and manifests, and their preparation for a search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kubestow.commands.core.wrong_use import WrongUse
from kubestow.models.buffers.demand import demands, sentences
from kubestow.models.cluster.storage import never_bound
from kubestow.models.cluster.unknown_namespaces import SENTENCE, undecided
from kubestow.models.documents import policy as policies
from kubestow.models.documents.placement import Edits, SnapshotRef
from kubestow.models.documents.policy import Policy
from kubestow.models.documents.sizing import Sizing
from kubestow.models.edits.edits import apply
from kubestow.models.execution.execution_grace import time_of
from kubestow.models.gangs import unreadable
from kubestow.models.kube import kinds
from kubestow.models.kube.feature_gates import FeatureGates, GateError
from kubestow.models.numa import container_classes
from kubestow.models.numa.annotations import has_hints
from kubestow.models.snapshot import settling, sources
from kubestow.models.snapshot import snapshot as snapshots
from kubestow.models.snapshot.snapshot import InputError, Snapshot
from kubestow.models.workloads.checks import given_as_snapshot
from kubestow.models.workloads.expand import Expansion
from kubestow.report.documents.results import Result

#: How the sentence about CapacityBuffers ends.
_NO_ROOM: Final = "which hold no room against real pods"


@dataclass(frozen=True)
class Reading:
    """How a snapshot is read, and the rules that apply to it.

    Attributes:
        policy: The policy, for warnings about data that it needs.
        kubernetes_version: The version whose rules apply; None to detect it.
        feature_gates: Overrides of feature gates.
        result: A result whose version, feature gates and policy apply.
        of: The policy that applies, without warnings about data that it needs. None for that of the result, or else ``policy``.
        whole: True to require a cluster with nodes; False if only annotations are read.
        empty: True if the snapshot may have no nodes, as for a Sizing and for purchases.
        gangs: True to drop unreadable gang annotations of pending pods; False to leave them to the audit.
        where: Names of the files, or of the captured cluster, for messages.
    """

    policy: Policy | None = None
    kubernetes_version: str | None = None
    feature_gates: Mapping[str, bool] = field(default_factory=dict)
    result: Result | None = None
    of: Policy | None = None
    whole: bool = True
    empty: bool = False
    gangs: bool = True
    where: str = ""

    @property
    def applied(self) -> Policy:
        """The policy that applies."""
        return self.of or (self.result.policy if self.result is not None else None) or self.policy or policies.DEFAULT

    @property
    def may_be_empty(self) -> bool:
        """True if the snapshot may have no nodes."""
        edits = self.result.snapshot.edits if self.result is not None else None
        return self.empty or isinstance(self.result, Sizing) or (edits is not None and bool(edits.buy))


def settle(snapshot: Snapshot, request: Reading) -> list[str]:
    """Apply the settings to a snapshot in place and return its warnings. With a policy, also warn about data that the policy needs.

    Raises:
        InputError: no nodes, or manifests in the snapshot.
        WrongUse: an unknown version or feature gate, or one that contradicts the result.
    """
    policy = request.policy
    if request.whole:
        check_whole(snapshot, request.where, empty=request.may_be_empty)
    snapshot.assumed += set_gates(snapshot, request)
    snapshot.shared_gpus = request.applied.sharedGPUs
    snapshot.admission_plugins = frozenset(request.applied.admissionPlugins)
    _share(snapshot)
    warnings = list(snapshot.warnings)
    if request.whole and any(has_hints(pod) for pod in snapshot.pods):
        snapshot.omissions += container_classes.omissions(snapshot, policy or policies.DEFAULT)
        warnings += container_classes.warnings(snapshot, policy) if policy is not None else []
    if request.gangs:
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


def set_gates(snapshot: Snapshot, request: Reading) -> list[str]:
    """Set the Kubernetes version and feature gates of a snapshot; return notes about them."""
    result = request.result.snapshot if request.result is not None else None
    if result is None or not (result.kubernetesVersion or result.featureGates):
        try:
            snapshot.gates, notes = settling.gates_of(snapshot.capture, snapshot.nodes, request.kubernetes_version, request.feature_gates)
        except GateError as error:
            raise WrongUse(f"--feature-gate: {error}") from None
        return notes
    server, notes = snapshot.gates.version, set_gates_of(snapshot, result)
    said = snapshot.gates
    if request.kubernetes_version not in (None, said.version):
        raise WrongUse(f"--kubernetes-version {request.kubernetes_version}: expected that of the result, {said}")
    for gate, on in request.feature_gates.items():
        if said.enabled(gate) != on:
            raise WrongUse(f"--feature-gate {gate}={str(on).lower()}: expected that of the result, {said}")
    if snapshot.capture is not None and snapshot.capture.server_version and server != said.version:
        notes.append(f"the result was made for {said}, but the snapshot is of a server of {snapshot.capture.server_version}")
    return notes


def set_gates_of(snapshot: Snapshot, result: SnapshotRef) -> list[str]:
    """Apply the version and feature gates of a result to a snapshot; return notes about them.

    Some versions of kubestow record neither in a result. Then the snapshot stays unchanged.

    Raises:
        InputError: an unknown version or gate.
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
    """Refuse a snapshot without nodes, and manifests in a snapshot. ``where``: its files; ``empty``: nodes are optional.

    Raises:
        InputError: the problem, and the omissions of the snapshot.
    """
    found = given_as_snapshot(snapshot)
    if not snapshot.nodes and not empty:
        meant = "manifests are given with -w, in addition to" if found else "expected"
        why = f"{where}: holds no Node objects{_held(snapshot)}: {meant} a snapshot of the cluster, as of kubestow capture"
        raise InputError([why, *snapshot.omissions])
    if found:
        have = f"{found[0]} has" if len(found) == 1 else f"{found[0]} and {len(found) - 1} more have"
        meaning = "no pods, no uid and no status, which is a manifest and no part of a snapshot: it is given with -w"
        raise InputError([f"{where}: {have} {meaning}"])


def earlier(snapshot: Snapshot, name: str, paths: Sequence[str]) -> tuple[Snapshot, ...]:
    """Read earlier snapshots of the same cluster, one for each path. ``name``: the current snapshot, for messages.

    Raises:
        InputError: a snapshot without a capture time, of a later time, or of another cluster.
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
    """Return the names of files for messages."""
    return ", ".join(map(sources.label, paths))


def _held(snapshot: Snapshot) -> str:
    counts = {**snapshot.counts(), **snapshot.ignored}
    return f" (but {', '.join(f'{kind} {count}' for kind, count in sorted(counts.items()))})" if counts else ""


def _share(snapshot: Snapshot) -> None:
    if snapshot.shared_gpus != "none":
        from kubestow.models.devices.shared_gpus import adapter

        adapter.apply(snapshot, snapshot.shared_gpus)


def _name_undecided(snapshot: Snapshot) -> None:
    """Replace the omission about unknown namespaces by one for all current pods of the snapshot."""
    found = undecided(snapshot)
    if found is None:
        return
    at = next((i for i, text in enumerate(snapshot.omissions) if text.startswith(SENTENCE)), len(snapshot.omissions))
    snapshot.omissions[at : at + 1] = [found.sentence(snapshot)]


def _name_buffers(snapshot: Snapshot) -> None:
    """Replace the note about CapacityBuffers by one for the current snapshot, and add omissions for unreadable ones."""
    if not snapshot.capacity_buffers:
        return
    found = demands(snapshot)
    asking = [f"{demand.buffer} {demand.chunks}" for demand in found if demand.problem is None]
    several = "CapacityBuffers ask" if len(asking) > 1 else "CapacityBuffer asks"
    texts = [f"{len(asking)} {several} for chunks of headroom ({', '.join(asking)}), {_NO_ROOM}"] if asking else []
    at = next((i for i, text in enumerate(snapshot.assumed) if text.endswith(_NO_ROOM)), len(snapshot.assumed))
    snapshot.assumed[at : at + 1] = texts
    snapshot.omissions += [text for text in sentences(found) if text not in snapshot.omissions]


@dataclass(frozen=True)
class Manifests:
    """The files of manifests.

    Attributes:
        paths: The files.
        unknown_fields: True to ignore unknown fields instead of refusing them.
        namespace: Namespace of objects without one, unless there are edits, which have their own.
    """

    paths: Sequence[str] = ()
    unknown_fields: bool = False
    namespace: str | None = None

    def read(self, gates: FeatureGates, edits: Edits | None) -> Snapshot | None:
        """Return the manifests for an API server with these gates; None without files.

        Raises:
            InputError: invalid manifests, or none that creates pods.
        """
        if not self.paths:
            return None
        namespace = edits.namespace if edits is not None else self.namespace
        found = snapshots.load(self.paths, manifests=True, unknown_fields=self.unknown_fields, namespace=namespace, gates=gates)
        if not found.pods and not found.workloads and not found.capacity_buffers:
            where, reason = labels(self.paths), "pod templates of other kinds are read with --workload-kinds"
            hint = f" ({found.unread[0].reason or reason})" if found.unread else ""
            expected = f"expected a Pod or {' or '.join(kinds.WORKLOADS)}{hint}"
            raise InputError([f"{where}: holds nothing that creates pods{_held(found)}, {expected}"])
        return found

    def edit(self, snapshot: Snapshot, edits: Edits | None, added: Snapshot | None = None) -> Expansion:
        """Return the snapshot with manifests and what-if edits. ``added``: the manifests, if they are already read.

        New warnings, omissions and assumptions are appended to those of the snapshot.

        Raises:
            InputError: the manifests or edits do not match the snapshot.
        """
        added = added if added is not None else self.read(snapshot.gates, edits)
        if added is None and edits is None:
            return Expansion(snapshot)
        found = apply(snapshot, added, edits or Edits())
        _share(found.snapshot)
        _name_undecided(found.snapshot)
        _name_buffers(found.snapshot)
        found.snapshot.assumed += never_bound.sentences(found.snapshot, never_bound.names(snapshot))
        odd = found.snapshot.warnings[len(snapshot.warnings) :]
        if added is not None and not found.pods and not (edits and edits.replicas) and not added.capacity_buffers:
            raise InputError([f"{labels(self.paths)}: asks for no pods{''.join(f': {text}' for text in odd[:1])}"])
        return found


def stamp(document: SnapshotRef, snapshot: Snapshot) -> None:
    """Record the cluster and the capture time in a document, if the snapshot has them."""
    if snapshot.capture is not None:
        document.cluster, document.capturedAt = snapshot.capture.cluster or None, snapshot.capture.time or None
