"""The entry: a journal against its document, the snapshot of that, and the cluster's end."""

from __future__ import annotations

from dataclasses import dataclass

from checker.ends import ends
from checker.journal.account import account
from checker.journal.end import closed_nodes, end_faults
from checker.journal.replay import JOURNAL, Replay
from checker.journal.tasks import tasks_of
from checker.violation import Violation
from models.documents.answers import CarriedOut, ClusterEnd
from models.documents.journal import Record
from models.documents.placement import Placement
from models.documents.rebalance_plan import RebalancePlan
from models.snapshot.snapshot import Snapshot


@dataclass(frozen=True)
class Judgement:
    """``violations``: what contradicts the document. ``told``: what the journal tells; None where it is of another document."""

    violations: list[Violation]
    told: CarriedOut | None


def judge_journal(
    record: Record, document: Placement | RebalancePlan, snapshot: Snapshot, *, digest: str, end: Snapshot | None = None
) -> Judgement:
    """Judge what a run asked of the cluster.

    ``snapshot``: the one that the document was made from. ``digest``: SHA-256 of the document's file. ``end``: the cluster after the run.

    Raises:
        QuantityError: as for :func:`checker.ends.ends`.
    """
    for what, said, own in (("document", record.run.result, digest), ("snapshot", record.run.snapshot, document.snapshot.sha256)):
        if said != own:
            why = f"the journal is of another {what}: its sha256 is {said[:12]}, that of this one {own[:12]}"
            return Judgement([Violation("", "", JOURNAL, why)], None)
    tasks = tasks_of(document, snapshot)
    replay = Replay(record, tasks)
    found = list(replay.faults())
    told = account(record, tasks, replay.state)
    if end is None:
        for name, number in sorted(replay.state.closed.items()):
            why = f"line {number}: the node was closed and never opened again; kubestow apply --open opens it"
            found.append(Violation("", name, JOURNAL, why))
    else:
        found += end_faults(end, tasks, replay.state, told.run)
        told.leftClosed = sorted(closed_nodes(end, told.run))
        compared = ends(snapshot, document, end, {pod: stands.key for pod, stands in replay.state.stands.items()})
        told.end = ClusterEnd(compared.missed, compared.foreign)
    return Judgement(found, told)
