"""From templates to a verified Fit: the most units, their placement, why no more, and what one node more brings."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import numpy as np

from kubestow.checker.capacity.fit import check_fit
from kubestow.checker.violation import insist
from kubestow.models.cluster.unknown_namespaces import SENTENCE, undecided
from kubestow.models.documents import fit as doc
from kubestow.models.documents.placement import Cause, Edits, Placement, Seconds, Unmodelled
from kubestow.models.kube.objects import is_terminal
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.solver.capacity.buffers.states import of_fit
from kubestow.solver.capacity.fit.cause import cause_of, one_more
from kubestow.solver.capacity.fit.growth import growth
from kubestow.solver.capacity.fit.question import Ceiling, Question, read
from kubestow.solver.capacity.fit.units import SHORT, Most, most
from kubestow.solver.explain.undecided import is_undecided
from kubestow.solver.placed_tiers import Answer
from kubestow.solver.refused_pods import refuse_domain_blocking
from kubestow.solver.runtime.deadline import Deadline
from kubestow.solver.runtime.options import OnProgress, Options
from kubestow.solver.runtime.progress_trace import ProgressReporter
from kubestow.solver.runtime.run_context import RunContext
from kubestow.solver.solve import document

#: Shares of the time that is left: for the answer itself, and then for its cause.
ANSWER = 0.5
CAUSE = 0.4
#: ... and before that for CapacityBuffers, where there are any.
HEADROOM = 0.2
#: Seconds of the limit that are left to the check of the document, as a share of it.
CHECK = 0.1
#: ... and at least so many times as long as compiling took.
CHECKING = 8.0


def fit(
    snapshot: Snapshot,
    manifests: Snapshot,
    options: Options,
    *,
    edits: Edits | None = None,
    keep: doc.Keep | None = None,
    on_progress: OnProgress | None = None,
    stop: threading.Event | None = None,
    began: float | None = None,
) -> doc.Fit:
    """Return the most units of the templates of ``manifests`` that fit beside what runs in ``snapshot``. ``edits``: what-if edits; pods
    that wait are placed, too, unless these leave them out. ``stop`` ends it early with what is certain by then; ``began``: as in
    :func:`kubestow.solver.solve.place`.

    Raises:
        InputError: manifests without a ratio, edits that cannot be made.
        InternalFault: the independent checker found the placement invalid.
    """
    started = time.monotonic()
    report = ProgressReporter(on_progress, started)
    report("compile")
    question = read(snapshot, manifests, edits or Edits(), options, keep)
    timed = replace(options, time_limit=None if options.time_limit is None else options.time_limit * (1 - CHECK))
    context = RunContext(timed, Deadline(timed, started if began is None else began), stop or threading.Event(), report)
    question = replace(question, options=timed)
    limited = context.part(max(SHORT, context.deadline.left() * ANSWER), report)
    one = question.at(1)
    refuse_domain_blocking(one.snapshot, one.scope, options.policy)
    ceiling = Ceiling.of(question)
    report("fit", "units", 0, ceiling.units)
    found = most(question, ceiling, limited)
    report("fit", "units", found.units, found.bound)
    context.deadline.charge(limited.deadline.elapsed())
    edited, placement = _placement(replace(question, options=options), found)
    headroom = None if context.stop.is_set() else of_fit(edited, placement, context.part(max(SHORT, context.deadline.left() * HEADROOM)))
    cause, grown, notes = _beyond(question, ceiling, found, context)
    found.bound, grown = (max(found.bound, _unruled(question)), []) if _unsure(question) else (found.bound, grown)
    solved = time.monotonic()
    report("verify")
    result = doc.Fit(
        snapshot=placement.snapshot,
        units=found.units,
        bound=found.bound,
        templates=[
            doc.TemplateFit(t.ref, found.units * t.ratio, found.bound * t.ratio, t.ratio, t.runs) for t in question.templates
        ],
        placement=placement,
        cause=cause,
        growth=grown,
        headroom=headroom,
        keep=keep,
        policy=placement.policy,
        unmodelled=_unmodelled(placement),
        notes=[*_left_out(question), *notes],
    )  # fmt: skip
    insist(check_fit(edited, result).violations)
    if not options.deterministic:
        result.seconds = Seconds(solve=round(solved - started, 3), verify=round(time.monotonic() - solved, 3))
    return result


def _unsure(question: Question) -> bool:
    """Return whether labels of namespaces that are not known decide what rules of a unit's pods match."""
    probe = question.at(1)
    return is_undecided(probe.snapshot, probe.scope.pending)


def _unruled(question: Question) -> int:
    """Return the units that resources alone admit."""
    return Ceiling.of(question, ruled=False).units


def _beyond(question: Question, ceiling: Ceiling, found: Most, context: RunContext) -> tuple[Cause | None, list[doc.Growth], list[str]]:
    """What ends it, and what one node more brings, as far as there is time; with what a reader must know of that."""
    if context.stop.is_set():
        more = ", nor was the headroom of CapacityBuffers" if question.snapshot.capacity_buffers else ""
        return None, [], [f"interrupted: neither cause nor growth was looked for{more}"]
    if not context.options.causes:
        return None, [], []
    context.report("cause", "units", found.units, found.bound)
    began = time.monotonic()
    instance, asked = one_more(question, found)
    if not context.options.deterministic:  # what is large to compile is large to check
        checking = CHECKING * (time.monotonic() - began)
        context = context.part(max(SHORT, context.deadline.left() - checking), context.report)
    limited = context.part(max(SHORT, context.deadline.left() * CAUSE))
    cause = cause_of(question, found, instance, asked, limited)
    context.deadline.charge(limited.deadline.elapsed())
    grown = list(growth(question, ceiling, found, instance, asked, context))
    notes = [] if cause is not None else ["why one unit more does not fit was not found in time"]
    missing = grown.count(None)
    if missing:
        notes.append(f"what one node more brings is known of {len(grown) - missing} of {len(grown)} kinds of nodes")
    return cause, [entry for entry in grown if entry is not None], notes


def _placement(question: Question, found: Most) -> tuple[Snapshot, Placement]:
    """The snapshot with all units, and the document of their placement."""
    instance = question.at(found.units, kept=False)
    cluster, policy = instance.cluster, question.options.policy
    counts = np.zeros((cluster.n_classes, cluster.n_nodes), dtype=np.int64)
    for g, n, k in found.sequence:
        counts[g, n] += k
    answer = Answer(counts, list(found.sequence), cluster.per_priority(cluster.count), found.engine)
    options = replace(
        question.options,
        workloads=tuple(instance.expansion.workloads),
        edits=question.edits_at(found.units),
        unmodelled=tuple(instance.expansion.unmodelled),
    )
    cluster.policy = policy
    return instance.snapshot, document(cluster, options, answer)


def _unmodelled(placement: Placement) -> list[Unmodelled]:
    """What is not modelled, once of all pods that it is said of."""
    return list({(entry.field, entry.effect): entry for entry in reversed(placement.unmodelled)}.values())[::-1]


def _left_out(question: Question) -> list[str]:
    """What of the snapshot has no part in the answer."""
    probe = question.at(1).snapshot
    unsure = undecided(probe)
    notes = [] if unsure is None or any(text.startswith(SENTENCE) for text in probe.omissions) else [unsure.sentence(probe)]
    if question.edits.withoutPending:
        waiting = sum(not pod.spec.nodeName and not is_terminal(pod) for pod in question.snapshot.pods)
        if waiting:
            notes.append(
                f"{waiting} pod{'s' * (waiting > 1)} of the snapshot without a node left out: --with-pending places what waits, too"
            )
    if question.keep is not None:
        notes.append("room is kept of what the templates request of nodes; pod slots, volumes and devices are not kept")
    return notes
