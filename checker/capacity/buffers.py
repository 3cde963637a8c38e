"""The checker of the headroom that a document claims for CapacityBuffers.

It counts the chunks of each buffer again and binds the assigned ones one after the other. The number of chunks is
read from the raw objects by a second implementation of the rules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any, Final

from kubestow.checker.placement import rest_faults
from kubestow.checker.placement_document import why_not_pending
from kubestow.checker.reading import resources
from kubestow.checker.violation import Violation
from kubestow.models.buffers.chunks import buffer_of, with_chunks
from kubestow.models.documents.headroom import BufferRoom, Headroom
from kubestow.models.documents.placement import Assignment, Placement, SnapshotRef
from kubestow.models.documents.policy import Policy
from kubestow.models.documents.sizing import Sizing
from kubestow.models.kube import objects, quantity, workload_objects
from kubestow.models.snapshot.snapshot import Snapshot

RULE: Final = "CapacityBuffer"
#: The part of the headroom that is not checked, in words for users.
UNCHECKED: Final = "that no more chunks of CapacityBuffers fit (the bounds): it takes a search"
_KNOWN: Final = (None, "", "buffer.x-k8s.io/active-capacity")


class Buffers:
    """The buffers of a snapshot, read once.

    Attributes:
        names: Names of all buffers, sorted.
        wanted: Chunks that each buffer asks for, by its name; None if no field determines the number.
        edited: The snapshot with the chunks as pending pods.
        chunks: Name of the buffer of each chunk, by pod key.
    """

    def __init__(self, base: Snapshot) -> None:
        self.names = sorted(base.capacity_buffers)
        self.wanted = {name: _wanted(base.capacity_buffers[name], name.partition("/")[0], base) for name in self.names}
        self.edited, _ = with_chunks(base)
        self.chunks = chunks_of(self.edited)

    def faults(self, room: Headroom) -> Iterator[Violation]:
        """Yield differences between a state's numbers and those of the buffers or the assignments."""
        said = [each.buffer for each in room.buffers]
        if said != self.names:
            why = f"the buffers are said to be {', '.join(said) or 'none'}, they are {', '.join(self.names) or 'none'}"
            yield fault(room, why)
            return
        for why in _room_faults(self.wanted, room.buffers, self.chunks, room.assignments):
            yield fault(room, why)


def headroom_faults(base: Snapshot, room: Headroom, ref: SnapshotRef, policy: Policy | None) -> Iterator[Violation]:
    """Yield all faults of the headroom in one state.

    Args:
        base: The snapshot in this state, without chunks.
        room: The headroom that the document claims.
        ref: The document's snapshot reference; it determines which pods count and which namespaces are exempt.
        policy: The document's policy.

    Raises:
        QuantityError, InputError: as for :func:`kubestow.checker.placement.verify`.
    """
    found = Buffers(base)
    yield from found.faults(room)
    document = Placement(
        SnapshotRef("", 0, 0, 0, includeGated=ref.includeGated, daemonNamespaces=ref.daemonNamespaces),
        "",
        "feasible",
        [],
        room.assignments,
        policy=policy,
    )
    for each in rest_faults(found.edited, document):
        yield Violation(each.pod, each.node, each.rule, f"{RULE}, {room.state}: {each.why}")
    nodes = frozenset(node.metadata.name or "" for node in base.nodes)
    waiting = {objects.pod_key(pod) for pod in base.pods if why_not_pending(pod, nodes, document.snapshot) is None}
    yield from left_faults(room, waiting)


def left_faults(room: Headroom, waiting: Collection[str]) -> Iterator[Violation]:
    """Yield a fault if the number of unplaced real pods differs from the document's."""
    missing = len(set(waiting) - {entry.pod for entry in room.assignments})
    if missing != room.left:
        yield fault(room, f"{room.left} real pods are said to be left, {missing} are")


def fault(room: Headroom, why: str) -> Violation:
    """Return a violation about the headroom in one state."""
    return Violation("", "", RULE, f"{room.state}: {why}")


def chunks_of(edited: Snapshot) -> dict[str, str]:
    """Return the name of each chunk's buffer, by pod key."""
    return {objects.pod_key(pod): buffer for pod in edited.pods if (buffer := buffer_of(pod)) is not None}


def sizing_faults(edited: Snapshot, sizing: Sizing) -> Iterator[str]:
    """Yield the faults of the chunks that a Sizing claims to hold.

    Args:
        edited: The snapshot with the chunks.
        sizing: The document.
    """
    edits = sizing.snapshot.edits
    if (sizing.buffers is not None) != (edits is not None and edits.buffers and sizing.placement is not None):
        yield "the edits and the numbers of chunks contradict each other"
    if sizing.buffers is None or sizing.placement is None:
        return
    if [each.buffer for each in sizing.buffers] != sorted(edited.capacity_buffers):
        yield "the buffers are others than those of the snapshot"
        return
    wanted = {name: _wanted(found, name.partition("/")[0], edited) for name, found in edited.capacity_buffers.items()}
    yield from _room_faults(wanted, sizing.buffers, chunks_of(edited), sizing.placement.assignments)
    if any(each.fits < each.chunks for each in sizing.buffers):
        yield "not every chunk has a place"


def _room_faults(
    numbers: Mapping[str, int | None], rooms: Iterable[BufferRoom], chunks: Mapping[str, str], entries: Iterable[Assignment]
) -> Iterator[str]:
    """Yield chunk counts that differ from those that the buffers request, or from the assignments."""
    made = Counter(chunks.values())
    fits = Counter(chunks[entry.pod] for entry in entries if entry.pod in chunks)
    for each in rooms:
        wanted = numbers[each.buffer]
        if each.problem is None and wanted is None:
            yield f"{each.buffer} is said to ask for {each.chunks} chunks, and it says nowhere how many"
        if each.problem is None and wanted is not None and wanted != each.chunks:
            yield f"{each.buffer} is said to ask for {each.chunks} chunks, it asks for {wanted}"
        if each.problem is not None and (each.chunks or made[each.buffer]):
            yield f"{each.buffer} is said to ask for nothing, and has {each.chunks} chunks"
        if each.fits != fits[each.buffer]:
            yield f"{each.fits} chunks of {each.buffer} are said to fit, {fits[each.buffer]} are assigned"
        if not 0 <= each.fits <= each.bound <= each.chunks:
            yield f"{each.fits} chunks of {each.buffer} are said to fit, at most {each.bound}, of {each.chunks}"


# --- how many chunks ------------------------------------------------------------------------------------------------------


def _wanted(buffer: workload_objects.CapacityBuffer, namespace: str, base: Snapshot) -> int | None:
    """Return the number of chunks that a buffer asks for, or None if no field determines it."""
    spec, status = buffer.spec, buffer.status
    if spec is None or spec.provisioningStrategy not in _KNOWN:
        return None
    if status is not None and status.replicas is not None:
        return max(status.replicas, 0)
    numbers = [] if spec.replicas is None else [max(spec.replicas, 0)]
    replicas = _replicas(spec.scalableRef, namespace, base) if spec.scalableRef is not None else None
    if spec.percentage is not None and replicas is not None:
        exact = Fraction(max(spec.percentage, 0) * max(replicas, 0), 100)
        numbers.append(exact.numerator // exact.denominator + (exact.denominator > 1))
    requested = max(numbers) if numbers else None
    limit = _limit(spec.limits, buffer, base) if spec.limits is not None else None
    if limit is None:
        return requested if spec.limits is None else None
    return limit if requested is None else min(requested, limit)


def _replicas(ref: workload_objects.ScalableReference, namespace: str, base: Snapshot) -> int | None:
    """Return the replica count that a workload reports; of a Job, its parallelism."""
    for obj in base.workloads.get(ref.kind or "", ()):
        if obj.metadata.name != ref.name or (obj.metadata.namespace or "default") != namespace:
            continue
        if ref.kind == "Job":
            return _or_one(obj.spec.parallelism if obj.spec is not None else None)
        if obj.status is not None:
            return int(obj.status.replicas or 0)
        return _or_one(obj.spec.replicas if obj.spec is not None else None)
    return None


def _or_one(number: Any) -> int:
    """Return the number as an int, or 1 if there is none."""
    return 1 if number is None else int(number)


def _limit(limits: objects.ResourceList, buffer: workload_objects.CapacityBuffer, base: Snapshot) -> int | None:
    """Return the number of chunks that the limits allow, or None if they name no resource that a chunk requests."""
    key = f"{buffer.metadata.namespace or 'default'}/{buffer.metadata.name}"
    alone = base.copy()
    alone.capacity_buffers = {key: _without_limits(buffer)}
    chunk = next((pod for pod in with_chunks(alone)[0].pods if buffer_of(pod) == key), None)
    if chunk is None:
        return None
    requests = resources.pod_requests(chunk, base.gates, bound=False)
    allowed = []
    for name, raw in limits.items():
        amount = requests.get(name, 0)
        if amount > 0:
            exact = quantity.parse(raw) * (1000 if name == "cpu" else 1) / amount
            allowed.append(max(exact.numerator // exact.denominator, 0))
    return min(allowed) if allowed else None


def _without_limits(buffer: workload_objects.CapacityBuffer) -> workload_objects.CapacityBuffer:
    """Return a copy of the buffer that asks for one chunk without limits."""
    spec = buffer.spec
    assert spec is not None
    one = workload_objects.CapacityBufferSpec(spec.provisioningStrategy, spec.podTemplateRef, spec.scalableRef, replicas=1)
    return workload_objects.CapacityBuffer(buffer.metadata, one, buffer.status)
