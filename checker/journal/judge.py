"""The entry point: judge a journal against its document, the document's snapshot, and the final cluster."""

from __future__ import annotations

from dataclasses import dataclass

from kubestow.checker.final_state import ends
from kubestow.checker.journal.final_state import closed_nodes, end_faults, gated_ends, gated_faults
from kubestow.checker.journal.gated import GatedReplay
from kubestow.checker.journal.progress import account
from kubestow.checker.journal.replay import JOURNAL, JournalReplay
from kubestow.checker.journal.tasks import gated_of, tasks_of, with_sets
from kubestow.checker.violation import Violation
from kubestow.models.documents.answers import CarriedOut, ClusterEnd
from kubestow.models.documents.journal import Record
from kubestow.models.documents.placement import Placement
from kubestow.models.documents.rebalance_plan import RebalancePlan
from kubestow.models.snapshot.snapshot import Snapshot


@dataclass(frozen=True)
class Judgement:
    """The result of judging a journal.

    Attributes:
        violations: Contradictions to the document.
        summary: Summary of the run, or None if the journal belongs to another document.
    """

    violations: list[Violation]
    summary: CarriedOut | None


@dataclass(frozen=True)
class ReleaseClusters:
    """The clusters of a run that removes scheduling gates.

    Attributes:
        snapshot: The snapshot of the document, with the pods of its manifests.
        before: The same without these pods.
        end: The cluster after the run, or None.
    """

    snapshot: Snapshot
    before: Snapshot
    end: Snapshot | None = None


def judge_journal(
    record: Record, document: Placement | RebalancePlan, snapshot: Snapshot, *, digest: str, end: Snapshot | None = None
) -> Judgement:
    """Judge the requests of a run.

    Args:
        record: The journal.
        document: The document that the run applied.
        snapshot: The snapshot of the document.
        digest: SHA-256 of the document's file.
        end: The cluster after the run, or None.

    Raises:
        QuantityError: as for :func:`kubestow.checker.final_state.ends`.
    """
    if (other := _of_another(record, document, digest)) is not None:
        return other
    tasks = tasks_of(document, snapshot)
    replay = JournalReplay(record, tasks)
    found = list(replay.faults())
    summary = account(record, tasks, replay.state)
    if end is None:
        for name, number in sorted(replay.state.closed.items()):
            why = f"line {number}: the node was closed and never opened again; kubestow apply --open opens it"
            found.append(Violation("", name, JOURNAL, why))
    else:
        found += end_faults(end, tasks, replay.state, summary.run)
        summary.leftClosed = sorted(closed_nodes(end, summary.run))
        compared = ends(snapshot, document, end, {pod: stands.key for pod, stands in replay.state.stands.items()})
        summary.end = ClusterEnd(compared.missed, compared.foreign)
    return Judgement(found, summary)


def judge_gated(record: Record, document: Placement, clusters: ReleaseClusters, *, digest: str) -> Judgement:
    """Judge the requests of a run that removed scheduling gates from the pods of manifests.

    Args:
        record: The journal.
        document: The document that the run applied.
        clusters: Its snapshots, and the cluster after the run.
        digest: SHA-256 of the document's file.

    Raises:
        QuantityError: as for :func:`kubestow.checker.final_state.ends`.
    """
    if (other := _of_another(record, document, digest)) is not None:
        return other
    end = None if clusters.end is None else with_sets(clusters.end, clusters.snapshot)
    tasks, gated = gated_of(document, clusters.before, clusters.snapshot)
    replay = GatedReplay(record, tasks, gated)
    found = list(replay.faults())
    summary = account(record, tasks, replay.state)
    if end is not None:
        found += [*end_faults(end, tasks, replay.state, summary.run), *gated_faults(end, replay, gated)]
        compared = gated_ends(clusters.before, document, end, replay, gated)
        summary.end = ClusterEnd(compared.missed, compared.foreign)
    return Judgement(found, summary)


def _of_another(record: Record, document: Placement | RebalancePlan, digest: str) -> Judgement | None:
    """Return a judgement if the journal belongs to another document or snapshot, else None."""
    for what, said, own in (("document", record.run.result, digest), ("snapshot", record.run.snapshot, document.snapshot.sha256)):
        if said != own:
            why = f"the journal is of another {what}: its sha256 is {said[:12]}, that of this one {own[:12]}"
            return Judgement([Violation("", "", JOURNAL, why)], None)
    return None
