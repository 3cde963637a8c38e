"""The headroom of CapacityBuffers in one state of a cluster: the most chunks that fit in addition to all real pods, with a bound.

The chunks of each buffer are a tier below all real pods (:mod:`kubestow.models.buffers.chunks`). So real pods
are placed first, then the chunks of the first buffer, and so on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from kubestow.models.buffers.chunks import buffer_of, priority_of, with_chunks
from kubestow.models.buffers.demand import BufferDemand
from kubestow.models.cluster.cluster import Cluster
from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.documents.headroom import BufferRoom, Headroom
from kubestow.models.documents.placement import Assignment
from kubestow.models.documents.policy import without_preferences
from kubestow.models.edits.binding import bound_as
from kubestow.models.kube.objects import pod_key
from kubestow.models.snapshot.scope import select
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.solver import rules
from kubestow.solver.explain.undecided import is_undecided
from kubestow.solver.objective.preferences import Objective
from kubestow.solver.placed_steps import PlacedAnswer
from kubestow.solver.placed_tiers import PlacedSearch
from kubestow.solver.rules.eligibility import possible
from kubestow.solver.runtime.run_context import RunContext
from kubestow.solver.solve import assignments_of


def headroom(snapshot: Snapshot, state: str, context: RunContext) -> Headroom:
    """Return the number of chunks of each buffer that fit into a snapshot, in which real pods may be pending.

    Args:
        state: Name of the state in the document.

    Raises:
        InputError: Quantities that cannot be summed.
    """
    edited, demands = with_chunks(snapshot)
    options = context.options
    scope = select(edited, include_gated=options.include_gated)
    cluster = compile_cluster(edited, scope, daemon_namespaces=options.exempt, policy=without_preferences(options.policy, "none"))
    return HeadroomReader(edited, demands, unsure=is_undecided(edited, scope.pending)).read(cluster, state, context)


@dataclass
class HeadroomReader:
    """A reader of the headroom of instances of one snapshot.

    Attributes:
        edited: The snapshot with the chunks.
        demands: The demand of each buffer.
        unsure: True if unknown labels decide, so that no bound is proved.
    """

    edited: Snapshot
    demands: Sequence[BufferDemand]
    unsure: bool
    keys: list[str] = field(init=False)
    chunks: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.keys = [pod_key(pod) for pod in self.edited.pods]
        buffers = map(buffer_of, self.edited.pods)
        self.chunks = {key: buffer for key, buffer in zip(self.keys, buffers, strict=True) if buffer is not None}

    def read(self, cluster: Cluster, state: str, context: RunContext) -> Headroom:
        """Return the headroom of an instance. Its pods are those of ``edited``."""
        active = rules.build(cluster)
        answer = PlacedSearch(Objective(cluster, active), active, possible(cluster, active), context).run()
        assignments, _ = assignments_of(cluster, answer, self.keys)
        fits = Counter(self.chunks[entry.pod] for entry in assignments if entry.pod in self.chunks)
        waiting = sum(self.keys[i] not in self.chunks for i in cluster.scope.pending)
        bounds = {} if self.unsure else _bounds(answer, cluster.per_priority(answer.counts.sum(axis=1)))
        rooms = []
        for place, demand in enumerate(self.demands):
            bound = bounds.get(priority_of(place), demand.chunks)
            rooms.append(BufferRoom(demand.buffer, demand.chunks, fits[demand.buffer], bound, demand.problem))
        return Headroom(state, rooms, assignments, waiting - (len(assignments) - fits.total()))


def headroom_with(snapshot: Snapshot, state: str, sure: Sequence[Assignment], context: RunContext) -> Headroom:
    """Return the headroom in addition to a valid placement of real pods.

    No bound is proved, because real pods could be placed differently.

    Args:
        sure: The placement, without devices.
    """
    at = {entry.pod: entry.node for entry in sure}
    result = headroom(
        bound_as(snapshot, [(i, at[key]) for i, pod in enumerate(snapshot.pods) if (key := pod_key(pod)) in at]), state, context
    )
    last = max((entry.order for entry in sure), default=0)
    later = [msgspec.structs.replace(entry, order=entry.order + last) for entry in result.assignments]
    rooms = [msgspec.structs.replace(room, bound=room.chunks) for room in result.buffers]
    return msgspec.structs.replace(result, buffers=rooms, assignments=[*sure, *later])


def _bounds(answer: PlacedAnswer, placed: dict[int, int]) -> dict[int, int]:
    """Return the proved bounds by priority. The bound of a tier holds only if all tiers above it are closed."""
    proved = {}
    for priority in sorted(answer.bounds, reverse=True):
        proved[priority] = max(placed[priority], answer.bounds[priority])
        if placed[priority] < proved[priority]:
            break
    return proved
