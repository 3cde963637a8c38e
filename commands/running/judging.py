"""Checking of results."""

from __future__ import annotations

from collections.abc import Sequence

from kubestow.checker.capacity.series import check_series, parts
from kubestow.commands.common.exit_codes import fail, refuse
from kubestow.commands.common.options import Streams
from kubestow.commands.core import judging as core
from kubestow.commands.core import reading
from kubestow.commands.core.reading import Reading
from kubestow.commands.running import inputs
from kubestow.models.documents.rebalance_plan import RebalancePlan
from kubestow.models.documents.sizing import Sizing
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.report.documents import results
from kubestow.report.documents.output import counted
from kubestow.report.documents.results import Result


def read_result(path: str, streams: Streams, purpose: str) -> Result:
    """Read the document of --result. ``purpose`` is a participle for messages, such as "checked"."""
    return read_with_digest(path, streams, purpose)[0]


def read_with_digest(path: str, streams: Streams, purpose: str) -> tuple[Result, str]:
    """Read the document of --result, and return it with the SHA-256 that its journal records."""
    result, digest = results.read_with_digest(path)
    misused = core.manifests_misused(result, purpose)
    refuse(misused is not None and streams.manifests, misused or "")
    return result, digest


def judge(snapshot: Snapshot, result: Result, streams: Streams, since: Sequence[str] = ()) -> core.JudgedResult:
    """Return the judgement on a result, or end the command if its manifests are missing.

    A plan for another snapshot is not replayed. ``since``: paths of earlier snapshots, for plans with a grace period.
    """
    refuse(since and not isinstance(result, RebalancePlan), f"--since requires a RebalancePlan, not a {result.kind}")
    earlier = reading.earlier(snapshot, reading.labels(streams.snapshots), since)
    return core.judge(snapshot, result, inputs.manifests(streams), earlier)


def judge_series(streams: Streams, sizing: Sizing) -> tuple[core.JudgedResult, Snapshot]:
    """Return the judgement on a Sizing of several snapshots, one for each path, and the snapshot that it belongs to."""
    series = {moment.snapshot.capturedAt or "": moment.snapshot for moment in sizing.series or ()}
    if sizing.snapshot.workloads and not streams.manifests:
        fail([f"the result was made with manifests ({sizing.snapshot.workloads[0]}): give the same files with -w"])
    read = {
        snapshot.capture.time: snapshot
        for _, snapshot in inputs.load_over_time(streams, Reading(result=sizing))
        if snapshot.capture is not None
    }
    missing = [time for time in dict.fromkeys([*series, sizing.snapshot.capturedAt or ""]) if time not in read]
    strange = [time for time in read if time not in series]
    if missing or strange:
        more = f"{len(missing)} missing, among these that of {missing[0]}" if missing else ""
        fail([f"the result is of {counted(len(series), 'snapshot')}: {more or f'none has the time {strange[0]}'}"])
    manifests = inputs.manifests(streams)
    each = {part.snapshot.capturedAt or "": part for part in parts(sizing)}
    edited = {time: manifests.edit(read[time], part.snapshot.edits).snapshot for time, part in each.items()}
    verdict = check_series({time: (read[time], found) for time, found in edited.items()}, sizing)
    unsaid = [fault for time, part in each.items() for fault in core.unsaid_within(edited[time], part)]
    own = sizing.snapshot.capturedAt or ""
    return core.JudgedResult(edited[own], None, [*verdict.violations, *unsaid], verdict.open), read[own]
