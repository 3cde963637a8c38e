"""The entry point of ``fit``: templates in, a verified Fit out with the most units, their placement, the cause and the growth."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Unpack

from kubestow.checker.capacity.fit import check_fit
from kubestow.checker.violation import insist
from kubestow.models.cluster.unknown_namespaces import SENTENCE, undecided
from kubestow.models.documents import fit as doc
from kubestow.models.documents.placement import Cause, Edits, Placement, Unmodelled
from kubestow.models.kube.objects import is_terminal
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.solver.capacity.buffers.states import HEADROOM_TIME_FRACTION, of_fit
from kubestow.solver.capacity.fit.cause import cause_of, one_more
from kubestow.solver.capacity.fit.growth import growth
from kubestow.solver.capacity.fit.question import Ceiling, FitQuestion, read
from kubestow.solver.capacity.fit.units import UnitsFound, most_units
from kubestow.solver.explain.undecided import is_undecided
from kubestow.solver.placed_steps import PlacedAnswer
from kubestow.solver.refused_pods import refuse_domain_blocking
from kubestow.solver.runtime.invocation import Caller, Invocation
from kubestow.solver.runtime.options import Options
from kubestow.solver.runtime.run_context import MIN_PART_SECONDS, RunContext
from kubestow.solver.solve import document

#: Fractions of the remaining time: for the answer, and then for its cause.
ANSWER_TIME_FRACTION = 0.5
CAUSE_TIME_FRACTION = 0.4
#: Fraction of the time limit that is reserved for checking the document.
CHECK_TIME_FRACTION = 0.1
#: Reserve at least this multiple of the compile time for checking.
MIN_CHECK_TO_COMPILE_RATIO = 8.0


def fit(
    snapshot: Snapshot,
    manifests: Snapshot,
    options: Options,
    *,
    edits: Edits | None = None,
    keep: doc.Keep | None = None,
    **caller: Unpack[Caller],
) -> doc.Fit:
    """Return the most units of the templates in ``manifests`` that fit next to the running pods of ``snapshot``. Pending pods are placed,
    too, unless ``edits`` leave them out.

    Raises:
        InputError: Manifests without a ratio, or edits that cannot be made.
        InternalFault: The independent checker found the placement invalid.
    """
    run = Invocation(caller)
    report = run.report
    report("compile")
    question = read(snapshot, manifests, edits or Edits(), options, keep)
    timed = replace(options, time_limit=None if options.time_limit is None else options.time_limit * (1 - CHECK_TIME_FRACTION))
    context = run.context(timed)
    question = replace(question, options=timed)
    limited = context.part(max(MIN_PART_SECONDS, context.deadline.remaining() * ANSWER_TIME_FRACTION), report)
    one = question.at(1)
    refuse_domain_blocking(one.snapshot, one.scope, options.policy)
    ceiling = Ceiling.of(question)
    report("fit", "units", 0, ceiling.units)
    outcome = most_units(question, ceiling, limited)
    report("fit", "units", outcome.units, outcome.bound)
    context.deadline.charge(limited.deadline.elapsed())
    edited, placement = _placement(replace(question, options=options), outcome)
    headroom = None if context.stop.is_set() else of_fit(edited, placement, context.fraction(HEADROOM_TIME_FRACTION))
    cause, grown, notes = _beyond(question, ceiling, outcome, context)
    outcome.bound, grown = (max(outcome.bound, _unruled(question)), []) if _unsure(question) else (outcome.bound, grown)
    run.lap("solve")
    report("verify")
    result = doc.Fit(
        snapshot=placement.snapshot,
        units=outcome.units,
        bound=outcome.bound,
        templates=[
            doc.TemplateFit(t.ref, outcome.units * t.ratio, outcome.bound * t.ratio, t.ratio, t.runs) for t in question.templates
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
    result.seconds = run.seconds(options)
    return result


def _unsure(question: FitQuestion) -> bool:
    """Return True if unknown namespace labels decide whether rules match the pods of a unit."""
    probe = question.at(1)
    return is_undecided(probe.snapshot, probe.scope.pending)


def _unruled(question: FitQuestion) -> int:
    """Return the number of units that resources alone admit."""
    return Ceiling.of(question, ruled=False).units


def _beyond(
    question: FitQuestion, ceiling: Ceiling, outcome: UnitsFound, context: RunContext
) -> tuple[Cause | None, list[doc.Growth], list[str]]:
    """Return the cause and the growth as far as time allows, with notes on missing parts."""
    if context.stop.is_set():
        more = ", or for the headroom of CapacityBuffers" if question.snapshot.capacity_buffers else ""
        return None, [], [f"interrupted before looking for cause or growth{more}"]
    if not context.options.causes:
        return None, [], []
    context.report("cause", "units", outcome.units, outcome.bound)
    began = time.monotonic()
    beyond = one_more(question, outcome)
    if not context.options.deterministic:  # a cluster that is slow to compile is slow to check
        checking = MIN_CHECK_TO_COMPILE_RATIO * (time.monotonic() - began)
        context = context.part(max(MIN_PART_SECONDS, context.deadline.remaining() - checking), context.report)
    with context.charged(CAUSE_TIME_FRACTION) as limited:
        cause = cause_of(question, outcome, beyond, limited)
    grown = list(growth(question, ceiling, outcome, beyond, context))
    notes = [] if cause is not None else ["no cause was found in time for why one more unit does not fit"]
    missing = grown.count(None)
    if missing:
        notes.append(f"growth by one more node is known for {len(grown) - missing} of {len(grown)} kinds of nodes")
    return cause, [entry for entry in grown if entry is not None], notes


def _placement(question: FitQuestion, outcome: UnitsFound) -> tuple[Snapshot, Placement]:
    """Return the snapshot with all units, and the document of their placement."""
    instance = question.at(outcome.units, kept=False)
    cluster, policy = instance.cluster, question.options.policy
    answer = PlacedAnswer(outcome.counts(cluster), list(outcome.sequence), cluster.per_priority(cluster.count), outcome.engine)
    options = replace(
        question.options,
        workloads=tuple(instance.expansion.workloads),
        edits=question.edits_at(outcome.units),
        unmodelled=tuple(instance.expansion.unmodelled),
    )
    cluster.policy = policy
    return instance.snapshot, document(cluster, options, answer)


def _unmodelled(placement: Placement) -> list[Unmodelled]:
    """Return one entry for each unmodelled field and effect of the placement."""
    return list({(entry.field, entry.effect): entry for entry in reversed(placement.unmodelled)}.values())[::-1]


def _left_out(question: FitQuestion) -> list[str]:
    """Return notes on the parts of the snapshot that the answer leaves out."""
    probe = question.at(1).snapshot
    unsure = undecided(probe)
    notes = [] if unsure is None or any(text.startswith(SENTENCE) for text in probe.omissions) else [unsure.sentence(probe)]
    if question.edits.withoutPending:
        waiting = sum(not pod.spec.nodeName and not is_terminal(pod) for pod in question.snapshot.pods)
        if waiting:
            notes.append(
                f"{waiting} pod{'s' * (waiting > 1)} of the snapshot without a node left out; use --with-pending to place pending pods, too"
            )
    if question.keep is not None:
        notes.append("room is kept of what the templates request of nodes; pod slots, volumes and devices are not kept")
    return notes
