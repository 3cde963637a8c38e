"""CapacityBuffers whose headroom does not fit now, or that ask for nothing that is known."""

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
    "KS228", "buffer-asks-for-nothing", "error", "A CapacityBuffer asks for nothing that is known",
    "cluster-autoscaler keeps no headroom for such a buffer: a burst that it is to absorb waits for new nodes.",
    "Correct the reference, the strategy or the numbers of the buffer; create the PodTemplate or the workload that it names. To accept a"
    " strategy of another autoscaler, ignore this code.",
)  # fmt: skip
SHORT: Final = Code(
    "KS522", "buffer-does-not-fit", "warning", "The headroom of a CapacityBuffer does not fit now",
    "A burst of as many pods as the buffer stands for waits for new nodes, which the buffer is to prevent; where no autoscaler adds nodes,"
    " it waits for ever.",
    "Look whether the autoscaler is at its limits; add nodes (kubestow size says which), or ask for fewer chunks.",
)  # fmt: skip
CODES: Final[tuple[Code, ...]] = (NOTHING, SHORT)
#: Seconds for the search at most. Buffers that fit are placed by construction.
_LIMIT: Final = 10.0


def check(view: ClusterView) -> Iterator[Finding]:
    """Yield a finding for each buffer that asks for nothing, and for each of which some chunk has no place."""
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
    left = view.search_until() - time.monotonic()
    if left <= 0 or view.stop.is_set():
        view.not_checked.append("the headroom of CapacityBuffers (KS522): there was no time")
        return
    options = Options(time_limit=min(_LIMIT, left), daemon_namespaces=view.exempt, policy=view.policy, workers=1)
    room = headroom(snapshot, "now", RunContext.start(options, view.stop))
    vain = "pod that waits" if room.left == 1 else "pods that wait"
    beside = f", beside {room.left} {vain} in vain" if room.left else ""
    for each in room.buffers:
        if each.fits == each.chunks:
            continue
        if each.bound == each.chunks:
            view.not_checked.append(f"whether all chunks of CapacityBuffer {each.buffer} fit (KS522): {each.fits} were placed in time")
            continue
        proof = "proved" if each.fits == each.bound else f"no more than {each.bound}, proved"
        fit = "fits" if each.fits == 1 else "fit"
        message = f"{each.fits} of {each.chunks} chunk{'s' * (each.chunks != 1)} {fit} now ({proof}){beside}"
        yield SHORT.found(f"CapacityBuffer {each.buffer}", message, field="spec")
