"""The check of the headroom that a document says CapacityBuffers have: the chunks counted once more, and each of them bound in turn.

How many chunks a buffer asks for is read here from the raw objects, by rules written a second time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any, Final

from kubestow.checker.placement import rest_faults
from kubestow.checker.placement_document import why_not_pending
from kubestow.checker.rules import resources
from kubestow.checker.violation import Violation
from kubestow.models.buffers.chunks import buffer_of, with_chunks
from kubestow.models.documents.headroom import BufferRoom, Headroom
from kubestow.models.documents.placement import Assignment, Placement, SnapshotRef
from kubestow.models.documents.policy import Policy
from kubestow.models.documents.sizing import Sizing
from kubestow.models.kube import objects, quantity, workload_objects
from kubestow.models.snapshot.snapshot import Snapshot

RULE: Final = "CapacityBuffer"
#: What is not checked, as a reader should know it.
OPEN: Final = "that no more chunks of CapacityBuffers fit (the bounds): it takes a search"
_KNOWN: Final = (None, "", "buffer.x-k8s.io/active-capacity")


class Buffers:
    """The buffers of a snapshot, read once.

    Attributes:
        names: Of all buffers, sorted.
        wanted: By buffer the chunks that it asks for, None if nothing says how many.
        edited: The snapshot in which the chunks wait.
        chunks: The buffer of each chunk, by the key of the pod.
    """

    def __init__(self, base: Snapshot) -> None:
        self.names = sorted(base.capacity_buffers)
        self.wanted = {name: _wanted(base.capacity_buffers[name], name.partition("/")[0], base) for name in self.names}
        self.edited, _ = with_chunks(base)
        self.chunks = chunks_of(self.edited)

    def faults(self, room: Headroom) -> Iterator[Violation]:
        """Yield where the numbers of a state are not those of the buffers or of the assignments."""
        said = [each.buffer for each in room.buffers]
        if said != self.names:
            why = f"the buffers are said to be {', '.join(said) or 'none'}, they are {', '.join(self.names) or 'none'}"
            yield fault(room, why)
            return
        for why in _room_faults(self.wanted, room.buffers, self.chunks, room.assignments):
            yield fault(room, why)


def headroom_faults(base: Snapshot, room: Headroom, ref: SnapshotRef, policy: Policy | None) -> Iterator[Violation]:
    """Yield everything that is wrong with the headroom in one state. ``base``: the snapshot in this state, without chunks; ``ref``, as the
    document has it: which pods count and which namespaces are exempt.

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
    """Yield a fault if others of the real pods that wait are left than is said."""
    left = len(set(waiting) - {entry.pod for entry in room.assignments})
    if left != room.left:
        yield fault(room, f"{room.left} real pods are said to be left, {left} are")


def fault(room: Headroom, why: str) -> Violation:
    """Return a fault of the headroom in one state."""
    return Violation("", "", RULE, f"{room.state}: {why}")


def chunks_of(edited: Snapshot) -> dict[str, str]:
    """Return the buffer of each chunk, by the key of the pod."""
    return {objects.pod_key(pod): buffer for pod in edited.pods if (buffer := buffer_of(pod)) is not None}


def sizing_faults(edited: Snapshot, sizing: Sizing) -> Iterator[str]:
    """Yield what is wrong with the chunks that a Sizing says its nodes hold. ``edited``: with the chunks."""
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
    """Yield where the numbers of chunks are not those that buffers ask for, or that are assigned."""
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
    """Return the chunks that a buffer asks for; None if nothing says how many."""
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
    most = max(numbers) if numbers else None
    limit = _limit(spec.limits, buffer, base) if spec.limits is not None else None
    if limit is None:
        return most if spec.limits is None else None
    return limit if most is None else min(most, limit)


def _replicas(ref: workload_objects.ScalableReference, namespace: str, base: Snapshot) -> int | None:
    """Return the replicas that a workload has by its own account; of a Job the pods that it runs at a time."""
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
    return 1 if number is None else int(number)


def _limit(limits: objects.ResourceList, buffer: workload_objects.CapacityBuffer, base: Snapshot) -> int | None:
    """Return how many chunks the limits hold; None if they name nothing that a chunk requests."""
    key = f"{buffer.metadata.namespace or 'default'}/{buffer.metadata.name}"
    alone = base.copy()
    alone.capacity_buffers = {key: _without_limits(buffer)}
    chunk = next((pod for pod in with_chunks(alone)[0].pods if buffer_of(pod) == key), None)
    if chunk is None:
        return None
    requests = resources.pod_requests(chunk, base.gates, bound=False)
    held = []
    for name, raw in limits.items():
        amount = requests.get(name, 0)
        if amount > 0:
            exact = quantity.parse(raw) * (1000 if name == "cpu" else 1) / amount
            held.append(max(exact.numerator // exact.denominator, 0))
    return min(held) if held else None


def _without_limits(buffer: workload_objects.CapacityBuffer) -> workload_objects.CapacityBuffer:
    """Return the buffer as if it asked for one chunk."""
    spec = buffer.spec
    assert spec is not None
    one = workload_objects.CapacityBufferSpec(spec.provisioningStrategy, spec.podTemplateRef, spec.scalableRef, replicas=1)
    return workload_objects.CapacityBuffer(buffer.metadata, one, buffer.status)
