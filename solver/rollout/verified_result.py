"""The last step of every rollout: the document is completed and judged by the independent checker."""

from __future__ import annotations

from collections.abc import Sequence

from kubestow.checker.rollout import verify_rollout
from kubestow.checker.violation import insist
from kubestow.models.documents import placement as doc
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.solver.runtime.phase_seconds import phase_seconds
from kubestow.solver.runtime.run_context import RunContext


def verified(
    result: doc.Placement,
    remedies: Sequence[doc.Remedy],
    snapshot: Snapshot,
    manifests: Snapshot | None,
    context: RunContext,
    *,
    started: float,
    solved: float,
) -> doc.Placement:
    """Return the document of a rollout with its remedies, once the checker has accepted it.

    Args:
        result: The document of the rollout. It is changed.
        remedies: Changes with which a halted rollout completes.
        snapshot: The cluster before the rollout.
        manifests: The manifests with the new template; None if the template is unchanged.
        context: The context of the run.
        started: Start of the run, on the monotonic clock.
        solved: End of the search, before the document was built, on the same clock.

    Raises:
        InternalFault: The checker found the document invalid.
    """
    rollout = result.rollout
    assert rollout is not None
    rollout.waysOut = list(remedies)
    result.snapshot.workloads = [rollout.workload] if manifests is not None else []
    if context.stop.is_set() and not rollout.complete and not result.assignments:
        result.status = "unknown"
    context.report("verify")
    insist(verify_rollout(snapshot, result, manifests))
    result.seconds = phase_seconds(context.options, started, solved)
    return result
