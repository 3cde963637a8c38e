"""CapacityBuffers that request no known headroom, or whose headroom does not fit now."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from kubestow.audit.view.finding import Code
from kubestow.audit.view.view import ClusterView
from kubestow.models.buffers.demand import demands
from kubestow.models.documents.findings.audit import Finding, Severity
from kubestow.solver.capacity.buffers.headroom import headroom
from kubestow.solver.runtime.options import Options
from kubestow.solver.runtime.run_context import RunContext

NOTHING: Final = Code(
    "KS228", "buffer-asks-for-nothing", "error", "A CapacityBuffer requests no known headroom",
    "cluster-autoscaler keeps no headroom for such a buffer, so a burst of pods has to wait for new nodes.",
    "Correct the reference, the strategy or the numbers of the buffer, or create the PodTemplate or workload that it names. To accept the"
    " strategy of another autoscaler, ignore this code.",
)  # fmt: skip
SHORT: Final = Code(
    "KS522", "buffer-does-not-fit", "warning", "The headroom of a CapacityBuffer does not fit now",
    "The buffer is meant to absorb a burst of pods, but such a burst has to wait for new nodes. Without an autoscaler it stays pending.",
    "Check whether the autoscaler has reached its limits. Add nodes (kubestow size finds the cheapest), or request fewer chunks.",
)  # fmt: skip
CODES: Final[tuple[Code, ...]] = (NOTHING, SHORT)
#: Seconds for the search. Buffers that fit are placed by the greedy construction.
_SEARCH_LIMIT_SECONDS: Final = 10.0


def check(view: ClusterView) -> Iterator[Finding]:
    """Yield a finding for each buffer that requests nothing known, and for each buffer with an unplaced chunk."""
    snapshot = view.snapshot
    if not snapshot.capacity_buffers:
        return
    found = demands(snapshot)
    for demand in found:
        if demand.problem is not None and (snapshot.nodes or not demand.missing):
            severity: Severity = "warning" if demand.foreign else "error"
            yield NOTHING.found(f"CapacityBuffer {demand.buffer}", demand.problem, field="spec", severity=severity)
    if not snapshot.nodes or not any(demand.chunks for demand in found):
        return
    remaining_seconds = view.search_until() - time.monotonic()
    if remaining_seconds <= 0 or view.stop.is_set():
        view.not_checked.append("the headroom of CapacityBuffers (KS522): no time was left")
        return
    options = Options(
        time_limit=min(_SEARCH_LIMIT_SECONDS, remaining_seconds), daemon_namespaces=view.exempt, policy=view.policy, workers=1
    )
    room = headroom(snapshot, "now", RunContext.start(options, view.stop))
    noun = "pod" if room.left == 1 else "pods"
    shortage = f", in addition to {room.left} pending {noun} without a place" if room.left else ""
    for each in room.buffers:
        if each.fits == each.chunks:
            continue
        if each.bound == each.chunks:
            view.not_checked.append(f"whether all chunks of CapacityBuffer {each.buffer} fit (KS522): {each.fits} were placed in time")
            continue
        proof = "proved" if each.fits == each.bound else f"no more than {each.bound}, proved"
        fit = "fits" if each.fits == 1 else "fit"
        message = f"{each.fits} of {each.chunks} chunk{'s' * (each.chunks != 1)} {fit} now ({proof}){shortage}"
        yield SHORT.found(f"CapacityBuffer {each.buffer}", message, field="spec")
