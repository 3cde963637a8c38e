"""A snapshot during a node-pool upgrade: new nodes join, pods move, drained nodes leave.

``to`` describes the change from an old Node to a new one. It is either a patch of the fields of
:class:`NodeChange`, or a Node whose shape the new nodes have. A patch merges maps, in which null removes a key,
and replaces the taints.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar, get_args

import msgspec

from kubestow.models.catalogue.residents import Residents
from kubestow.models.documents import settings_file
from kubestow.models.documents.placement import SnapshotRef
from kubestow.models.documents.policy import Policy
from kubestow.models.documents.rebalance_plan import Limits, RebalancePlan, Summary
from kubestow.models.documents.upgrade import NewNode, UpgradeWave
from kubestow.models.edits import nodes as edits_nodes
from kubestow.models.kube import objects
from kubestow.models.kube.lenient_decode import shorten
from kubestow.models.kube.validation.pods import EFFECTS, Problems, check_choice, check_resources
from kubestow.models.snapshot.scope import is_mirror
from kubestow.models.snapshot.snapshot import InputError, Snapshot
from kubestow.models.workloads.daemon_sets import is_daemon

#: Exclusions that rebalancing respects and drains lift: upgrades use `kubectl drain --delete-emptydir-data`.
LIFTED: Final = ("local-storage",)
_V = TypeVar("_V")
_change = msgspec.structs.replace


# --- changes --------------------------------------------------------------------------------------------------
# --------------


class MetadataChange(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Labels and annotations; null removes one."""

    labels: dict[str, str | None] | None = None
    annotations: dict[str, str | None] | None = None


class SpecChange(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """All taints of the new node."""

    taints: list[objects.Taint] | None = None


class InfoChange(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The version of its kubelet."""

    kubeletVersion: str | None = None


class StatusChange(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Resources; null removes one."""

    allocatable: dict[str, objects.RawQuantity | None] | None = None
    capacity: dict[str, objects.RawQuantity | None] | None = None
    nodeInfo: InfoChange | None = None


class NodeChange(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A change of a Node. ``kind``: with Node, it is a complete Node except for its identity and location."""

    apiVersion: str | None = None
    kind: str | None = None
    metadata: MetadataChange | None = None
    spec: SpecChange | None = None
    status: StatusChange | None = None


def read(path: str) -> dict[str, Any]:
    """Return ``to`` from a YAML or JSON file: a patch, or a Node, whose fields outside :class:`NodeChange` are
    ignored.

    Raises:
        InputError: The file is unreadable, or has an unknown field or invalid value; one line per problem.
    """
    name = NodeChange.__name__
    plain = settings_file.document(path, name)
    whole = isinstance(plain, dict) and plain.get("kind") == "Node"
    change = settings_file.fitted(path, _known(plain, NodeChange) if whole else plain, NodeChange)
    problems: Problems = []
    if change.kind not in (None, "Node"):
        problems.append(f"kind: got {shorten(change.kind)}, expected Node or none")
    labels = change.metadata.labels if change.metadata is not None else None
    if not whole and edits_nodes.HOSTNAME in (labels or {}):
        problems.append(f"metadata.labels[{edits_nodes.HOSTNAME}]: every node has a value of its own")
    if change.spec is not None and change.spec.taints is not None:
        change.spec.taints = [taint for taint in change.spec.taints if not (whole and taint.key in edits_nodes.STATE_TAINTS)]
        for i, taint in enumerate(change.spec.taints):
            check_choice(taint.effect, EFFECTS, f"spec.taints[{i}].effect", problems)
    if change.status is not None:
        for field in ("allocatable", "capacity"):
            given = {key: value for key, value in (getattr(change.status, field) or {}).items() if value is not None}
            check_resources(given, f"status.{field}", problems)
    if problems:
        raise InputError([f"{path}: {name}: {problem}" for problem in problems])
    fields: dict[str, Any] = msgspec.to_builtins(change)
    if not fields:
        raise InputError([f"{path}: {name}: empty, expected changes of a Node: metadata, spec or status"])
    return fields


def _known(plain: object, kind: Any) -> object:
    """Return plain values without the fields that the struct lacks, recursively."""
    if not isinstance(plain, dict) or not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
        return plain
    fields = {field.name: field.type for field in msgspec.structs.fields(kind)}
    return {key: _known(value, _inner(fields[key])) for key, value in plain.items() if key in fields}


def _inner(kind: Any) -> Any:
    """Return the struct of an optional one."""
    return next((each for each in get_args(kind) if isinstance(each, type) and issubclass(each, msgspec.Struct)), None)


def changed(node: objects.Node, to: Mapping[str, Any] | None) -> objects.Node:
    """Return the new node that ``to`` describes (valid, see the module).

    Raises:
        msgspec.ValidationError: ``to`` does not have the form of :class:`NodeChange`.
    """
    if to is None:
        return node
    change = msgspec.convert(to, NodeChange)
    meta, spec, status = change.metadata or MetadataChange(), change.spec or SpecChange(), change.status or StatusChange()
    whole = change.kind == "Node"
    labels, old = node.metadata.labels or {}, node.status or objects.NodeStatus()
    start = {key: value for key, value in labels.items() if key in edits_nodes.IDENTITY_LABELS} if whole else labels
    wanted = {key: value for key, value in (meta.labels or {}).items() if not (whole and key in edits_nodes.IDENTITY_LABELS)}
    info = old.nodeInfo
    if status.nodeInfo is not None and status.nodeInfo.kubeletVersion is not None:
        info = _change(info or objects.NodeSystemInfo(), kubeletVersion=status.nodeInfo.kubeletVersion)
    return objects.Node(
        _change(
            node.metadata,
            labels=_merged(start, wanted),
            annotations=_merged({} if whole else node.metadata.annotations or {}, meta.annotations or {}) or None,
        ),
        objects.NodeSpec(taints=spec.taints if whole or spec.taints is not None else node.spec.taints if node.spec else None),
        _change(
            old,
            capacity=_merged({} if whole else old.capacity or {}, status.capacity or {}),
            allocatable=_merged({} if whole else old.allocatable or {}, status.allocatable or {}),
            nodeInfo=info,
        ),
    )


def _merged(old: Mapping[str, _V], new: Mapping[str, _V | None]) -> dict[str, _V]:
    merged = {**old, **new}
    return {key: value for key, value in merged.items() if value is not None}


# --- during the upgrade
# -------------------------------------------------------------------------------------------------


def new_name(used: set[str], old: str) -> str:
    """Return an unused name for the replacement of a node, and reserve it."""
    name = next(name for number in itertools.count(1) if (name := f"{old}-new{f'-{number}' * (number > 1)}") not in used)
    used.add(name)
    return name


def with_new(snapshot: Snapshot, new: Iterable[NewNode], to: Mapping[str, Any] | None) -> Snapshot:
    """Return a snapshot with new nodes, which run only pods of DaemonSets and static pods.

    The nodes that they resemble must be in the snapshot.
    """
    new = list(new)
    if not new:
        return snapshot
    edited = snapshot.copy()
    cloning = edits_nodes.Cloning(edited, snapshot, {each.like for each in new})
    nodes = {node.metadata.name: node for node in snapshot.nodes}
    crew = Residents(edited, snapshot) if to is not None else None
    for each in new:
        if crew is None:
            cloning.clone(nodes[each.like], each.name)
            continue
        cloning.clone(nodes[each.like], each.name, lambda node: changed(node, to), lambda pod, node: is_mirror(pod))
        edited.pods += [pod for pod in crew.on(edited.nodes[-1]) if not is_mirror(pod)]
    return edited


def before(snapshot: Snapshot, wave: UpgradeWave, to: Mapping[str, Any] | None) -> Snapshot:
    """Return the snapshot on which a wave drains: the previous wave's result, with the surge nodes added."""
    return with_new(snapshot, wave.surge, to)


def left_by(snapshot: Snapshot, wave: UpgradeWave, to: Mapping[str, Any] | None) -> Snapshot:
    """Return the snapshot after a wave, from that :func:`before` it: moves made, drained nodes gone, new nodes
    added.

    Moved pods are Ready again.
    """
    edited = with_new(moved(snapshot, wave), wave.joined, to).copy()
    edits_nodes.remove(edited, set(wave.drain))
    return edited


def moved(snapshot: Snapshot, wave: UpgradeWave) -> Snapshot:
    """Return a snapshot with the moves of a wave applied."""
    to, sources = {move.pod: move.to for move in wave.moves}, {move.source for move in wave.moves}
    pods = list(snapshot.pods)
    for i, pod in enumerate(pods):
        if pod.spec.nodeName in sources and (node := to.get(objects.pod_key(pod))) is not None:
            pods[i] = _change(pod, spec=_change(pod.spec, nodeName=node), status=objects.PodStatus(phase="Running"))
    return replace(snapshot, pods=pods)


def as_plan(wave: UpgradeWave, ref: SnapshotRef, policy: Policy | None = None) -> RebalancePlan:
    """Return the drain of a wave as a plan on the snapshot :func:`before` it, for the replay of plans.

    Its tiers and summaries are empty.
    """
    nothing = Summary(0, 0)
    return RebalancePlan(
        snapshot=ref,
        goals=["drain"],
        engine="greedy",
        status="feasible",
        objective=[],
        moves=wave.moves,
        evictions=[],
        before=nothing,
        after=nothing,
        drain=wave.drain,
        limits=Limits(alsoMove=list(LIFTED)),
        policy=policy,
    )


def stays(pods: Sequence[objects.Pod], drained: Iterable[str]) -> list[objects.Pod]:
    """Return the pods on drained nodes that a drain has to move.

    Pods of DaemonSets, static, finished and terminating pods are left out.
    """
    gone = set(drained)
    over = (objects.is_terminal, objects.is_terminating)
    return [pod for pod in pods if pod.spec.nodeName in gone and not is_daemon(pod) and not any(each(pod) for each in over)]
