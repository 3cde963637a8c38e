"""What-if edits: the snapshot with other nodes, manifests and numbers of replicas.

The result is an ordinary snapshot. The order is: requests, omission of waiting pods, nodes, manifests,
replicas, chunks of CapacityBuffers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kubestow.models.buffers.chunks import with_chunks
from kubestow.models.catalogue.catalogue import of_shapes
from kubestow.models.catalogue.nodes import Newcomers
from kubestow.models.documents.catalogue import Shape
from kubestow.models.documents.placement import Edits
from kubestow.models.edits import nodes as edits_nodes
from kubestow.models.edits.requests import resize
from kubestow.models.kube import objects
from kubestow.models.kube.lenient_decode import did_you_mean, near_names, shorten
from kubestow.models.snapshot.snapshot import InputError, Snapshot
from kubestow.models.workloads.expand import Expansion, expand, owned, top_up
from kubestow.models.workloads.ownership import named
from kubestow.models.workloads.view import find

#: More nodes than this are most likely a typing error.
_MAX_NODES: Final = 100_000
#: More pods than this are most likely a typing error.
_MAX_PODS: Final = 1_000_000
Ref = tuple[str, str, str]


@dataclass
class _Request:
    """The parsed edits.

    Attributes:
        add: Number of clones, the node to clone, and the labels that differ.
        buy: Number of nodes, shape and zone.
        remove: Names of removed nodes.
        replicas: Number of pods of each workload, by name as given.
    """

    add: list[tuple[int, objects.Node, dict[str, str]]] = field(default_factory=list)
    buy: list[tuple[int, Shape, str]] = field(default_factory=list)
    remove: set[str] = field(default_factory=set)
    replicas: dict[str, int] = field(default_factory=dict)


def apply(snapshot: Snapshot, manifests: Snapshot | None, edits: Edits) -> Expansion:
    """Return the snapshot as edited, with the pods of ``manifests``; neither input is changed.

    ``sha256`` of the result is that of both inputs. Clones of ``addNodes`` copy nodes of the snapshot, also
    removed ones. Clones and bought nodes are never removed. Pods of removed nodes wait again if a controller
    would recreate them, and vanish otherwise. Pods that ``replicas`` adds to a workload of the snapshot are
    placed one by one; those of a manifest belong to its gang.

    Args:
        manifests: Loaded with ``manifests=True``.

    Raises:
        InputError: One line per problem.
    """
    problems: list[str] = []
    request = _read(snapshot, edits, problems)
    inputs = [snapshot] if manifests is None else [manifests, snapshot]
    counts = _resolved(inputs, request.replicas, problems)
    if problems:
        raise InputError(problems)
    edited = snapshot.copy()
    if edits.requests:
        manifests = manifests.copy() if manifests is not None else None
        resize([edited, manifests] if manifests is not None else [edited], edits.requests)
    if edits.withoutPending:
        edited.pods = [pod for pod in edited.pods if pod.spec.nodeName or objects.is_terminal(pod)]
    edits_nodes.remove(edited, request.remove, rehouse=edits.rehouse)
    for count, like, labels in request.add:
        edits_nodes.add(edited, snapshot, like, count, labels)
    newcomers = Newcomers(edited, snapshot)
    for count, shape, zone in request.buy:
        newcomers.buy(shape, zone, count)
    expansion = Expansion(edited)
    brought: set[Ref] = set()
    if manifests is not None:
        brought = {ref for ref in counts if named(manifests, *ref) is not None}
        own = {"/".join(ref): counts[ref] for ref in brought}
        expansion = expand(edited, manifests, partial=edits.partial, replicas=own)
        expansion.snapshot.warnings += _unknown_namespace(snapshot, manifests, edits.namespace)
    for ref, count in counts.items():
        if ref not in brought:
            expansion.snapshot, notes = top_up(expansion.snapshot, *ref, count)
            expansion.unmodelled += notes
        shrink(expansion.snapshot, ref, count)
    if edits.buffers:
        expansion.snapshot, _ = with_chunks(expansion.snapshot)
    return expansion


def _unknown_namespace(snapshot: Snapshot, manifests: Snapshot, namespace: str | None) -> list[str]:
    """Return a warning if the namespace of the manifests is probably a misspelling of one in the snapshot."""
    known = {*snapshot.namespaces, *manifests.namespaces}
    near = near_names(namespace, known) if namespace is not None and namespace not in known else ""
    return [f"-n {namespace}: no such namespace in the snapshot{near}"] if near else []


def describe(edits: Edits) -> list[str]:
    """Return the edits as sentences, in the order in which they take effect."""
    parts = ["without the pods that wait"] if edits.withoutPending else []
    if edits.requests:
        workloads = len({each.workload for each in edits.requests})
        parts.append(f"with other requests of {workloads} workload{'' if workloads == 1 else 's'}")
    if edits.removeNodes:
        parts.append(f"without node{'s' if len(edits.removeNodes) > 1 else ''} {', '.join(edits.removeNodes)}")
    parts += [f"without the nodes labelled {domain}" for domain in edits.removeDomains]
    if edits.rehouse:
        parts.append("pods of these nodes that no controller would replace wait again, too")
    for text in edits.addNodes:
        count, _, like = text.partition(":")
        like, _, labels = like.partition(",")
        located = f" with {labels.replace(',', ', ')}" if labels else ""
        parts.append(f"with {count} more node{'' if count == '1' else 's'} like {like}{located}")
    for text in edits.buy:
        count, _, offer = text.partition(":")
        shape, _, zone = offer.rpartition("@")
        parts.append(f"with {count} bought node{'' if count == '1' else 's'} of shape {shape} in zone {zone}")
    if edits.namespace is not None:
        parts.append(f"manifests that name no namespace are in {edits.namespace}")
    if edits.partial:
        parts.append("manifests may be placed in part")
    for text in edits.replicas:
        name, _, count = text.rpartition("=")
        parts.append(f"with {count} replica{'' if count == '1' else 's'} of {name}")
    if edits.buffers:
        parts.append("with the chunks of CapacityBuffers")
    return parts


# --- reading ----------------------------------------------------------------------------------------------------------


def _resolved(inputs: Sequence[Snapshot], replicas: Mapping[str, int], problems: list[str]) -> dict[Ref, int]:
    """Return the number of pods that each workload is to have."""
    counts: dict[Ref, int] = {}
    for text, count in replicas.items():
        try:
            ref = find(inputs, text)
        except InputError as error:
            problems += [f"--replicas: {problem}" for problem in error.problems]
            continue
        if ref[0] == "DaemonSet":
            problems.append(f"--replicas: workload {shorten(text)}: a DaemonSet cannot be scaled, it has a pod per node")
        elif ref in counts:
            problems.append(f"--replicas: workload {shorten(text)}: is given twice, expected each workload once")
        counts[ref] = count
    return counts


def _count(text: str, limit: int = _MAX_NODES) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 and int(text) <= limit else None


def _read(snapshot: Snapshot, edits: Edits, problems: list[str]) -> _Request:
    nodes = {node.metadata.name or "": node for node in snapshot.nodes}
    request = _Request()
    for text in edits.addNodes:
        number, _, rest = text.partition(":")
        like, *labels = rest.split(",")
        count, pairs = _count(number), [label.partition("=") for label in labels]
        if not count or not like:
            problems.append(f"--add-nodes {shorten(text)}: expected N:LIKE_NODE, N a whole number within 1..{_MAX_NODES}")
        elif like not in nodes:
            problems.append(f"--add-nodes {shorten(text)}: no node {shorten(like)} in the snapshot{near_names(like, nodes)}")
        elif not all(key and equals for key, equals, _ in pairs):
            problems.append(f"--add-nodes {shorten(text)}: expected KEY=VALUE of a node label after each comma")
        else:
            request.add.append((count, nodes[like], {key: value for key, _, value in pairs}))
    _read_purchases(edits, request, problems)
    for name in edits.removeNodes:
        if name not in nodes:
            problems.append(f"--remove-node {shorten(name)}: no such node in the snapshot{near_names(name, nodes)}")
        request.remove.add(name)
    for text in edits.removeDomains:
        key, equals, value = text.partition("=")
        names = {name for name, node in nodes.items() if (node.metadata.labels or {}).get(key) == value}
        if not equals or not key:
            problems.append(f"--remove-domain {shorten(text)}: expected KEY=VALUE of a node label")
        elif not names:
            problems.append(f"--remove-domain {shorten(text)}: no node of the snapshot has this label")
        request.remove |= names
    if not problems and not request.add and not request.buy and not edits.rehouse and nodes and request.remove >= nodes.keys():
        problems.append("--remove-node, --remove-domain: no node of the snapshot is left, expected at least one")
    for text in edits.replicas:
        name, equals, number = text.rpartition("=")
        count = _count(number, _MAX_PODS)
        if not equals or not name or count is None:
            problems.append(f"--replicas {shorten(text)}: expected NAME=N, N a whole number within 0..{_MAX_PODS}")
        elif name in request.replicas:
            problems.append(f"--replicas {shorten(text)}: {shorten(name)} is given twice, expected each workload once")
        else:
            request.replicas[name] = count
    return request


def _read_purchases(edits: Edits, request: _Request, problems: list[str]) -> None:
    odd: list[str] = []
    shapes = of_shapes(edits.shapes, odd)
    problems += [f"--catalogue: {problem}" for problem in odd]
    for text in edits.buy:
        number, _, offer = text.partition(":")
        name, _, zone = offer.rpartition("@")
        count = _count(number)
        if not count or not name or not zone:
            problems.append(f"--buy {shorten(text)}: expected N:SHAPE@ZONE, N a whole number within 1..{_MAX_NODES}")
        elif name not in shapes:
            problems.append(f"--buy {shorten(text)}: no shape {shorten(name)} in the catalogue{did_you_mean(name, shapes)}")
        elif zone not in shapes[name].zones:
            zones = ", ".join(shapes[name].zones)
            problems.append(f"--buy {shorten(text)}: shape {shorten(name)} is not offered in zone {shorten(zone)}, expected one of {zones}")
        else:
            request.buy.append((count, shapes[name], zone))
    bought = Counter(name for count, shape, _ in request.buy for name in [shape.name] * count)
    for name, count in bought.items():
        limit = shapes[name].most
        if limit is not None and count > limit:
            problems.append(f"--buy: {count} nodes of shape {shorten(name)}, expected at most {limit}, as the catalogue says")


# --- fewer pods -------------------------------------------------------------------------------------------------------


def shrink(snapshot: Snapshot, ref: Ref, count: int) -> None:
    """Remove a workload's surplus pods from a snapshot (changed)."""
    indices = owned(snapshot, *ref)
    if len(indices) <= count:
        return
    gone = set(_stateful(snapshot, indices, ref, count) if ref[0] == "StatefulSet" else _ranked(snapshot, indices)[: len(indices) - count])
    snapshot.pods = [pod for i, pod in enumerate(snapshot.pods) if i not in gone]


def _stateful(snapshot: Snapshot, indices: Sequence[int], ref: Ref, count: int) -> list[int]:
    """Return all pods except those with the lowest ordinals."""

    def ordinal(i: int) -> tuple[int, str]:
        name = snapshot.pods[i].metadata.name or ""
        tail = name.removeprefix(f"{ref[2]}-")
        return (int(tail) if tail.isascii() and tail.isdigit() else 10**9), name

    return sorted(indices, key=ordinal)[count:]


def _ranked(snapshot: Snapshot, indices: Sequence[int]) -> list[int]:
    """Return pods in the order in which a ReplicaSet deletes them.

    Pods without a node come first, then not running, not ready, with more of their kind on the node, and
    younger ones. Upstream leaves other ties open; here the name decides (pkg/controller/controller_utils.go,
    ActivePodsWithRanks).
    """
    pods = snapshot.pods
    together = Counter(pods[i].spec.nodeName for i in indices)

    def rank(i: int) -> tuple[int, int, int, int]:
        status, node = pods[i].status or objects.PodStatus(), pods[i].spec.nodeName
        unready = any(c.type == "Ready" and c.status != "True" for c in status.conditions or ())
        phase = {"Pending": 0, "Unknown": 1}.get(status.phase or "", 2)
        return int(bool(node)), phase, int(not unready), -together[node] if node else 0

    named_ = sorted(indices, key=lambda i: pods[i].metadata.name or "")
    young = sorted(named_, key=lambda i: pods[i].metadata.creationTimestamp or "", reverse=True)
    return sorted(young, key=rank)
