"""Merging of the summaries of shards or of several batches."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from kubestow.commands.batch.folder import SUMMARY
from kubestow.models.documents.batch import BatchSummary, Row
from kubestow.models.documents.placement import from_builtins
from kubestow.models.snapshot.snapshot import InputError


def merged(folders: Sequence[str], into: str) -> BatchSummary:
    """Merge the summaries of all folders and of the shards in them.

    Results stay in place; rows name them relative to ``into``. Notes list missing shards and duplicate tasks.

    Raises:
        InputError: a summary is missing or unreadable, or shards belong to different divisions.
    """
    found = [(place, _read(place)) for folder in folders for place in _places(folder)]
    notes: list[str] = []
    shares = _shares(found, notes)
    rows: dict[str, Row] = {}
    twice = 0
    for place, summary in found:
        for row in summary.rows:
            if row.result is not None:
                row.result = os.path.relpath(os.path.join(place, row.result), into)
            before = rows.get(row.id)
            twice += before is not None
            if before is None or (before.result is None and row.result is not None):
                rows[row.id] = row
        notes += [f"{place}: {note}" for note in summary.notes]
    if twice:
        what = "task is" if twice == 1 else "tasks are"
        notes.append(f"{twice:,} {what} in several summaries; each counts once, with a result if one has it")
    unfinished = sum(summary.left for _, summary in found)
    in_order = sorted(rows.values(), key=lambda r: (r.cluster or "", r.snapshot, r.capturedAt or "", r.command, r.set or "", r.options))
    failed = sum(row.result is None for row in in_order)
    return BatchSummary(in_order, tasks=len(in_order) + unfinished, failed=failed, left=unfinished + shares, notes=notes)


def summaries_of(folders: Sequence[str]) -> list[str]:
    """Return the paths of the summaries to merge."""
    return [os.path.join(place, SUMMARY) for folder in folders for place in _places(folder)]


def _places(folder: str) -> list[str]:
    """Return the folders of the shards in a folder; the folder itself without shards."""
    shares = sorted(str(path.parent) for path in Path(folder).glob(f"shard-*-of-*/{SUMMARY}"))
    if shares or not os.path.isfile(os.path.join(folder, SUMMARY)):
        return shares or [folder]
    return [folder]


def _read(folder: str) -> BatchSummary:
    path = os.path.join(folder, SUMMARY)
    try:
        return from_builtins(msgspec.json.decode(Path(path).read_bytes()), BatchSummary)
    except OSError as error:
        raise InputError([f"{path}: {error.strerror or error}"]) from None
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise InputError([f"{path}: not a BatchSummary: {error}"]) from None


def _shares(found: Sequence[tuple[str, BatchSummary]], notes: list[str]) -> int:
    """Return the number of missing shards, and append their names to ``notes``."""
    have: dict[int, set[int]] = {}
    for _, summary in found:
        if summary.shard is not None:
            share, _, of = summary.shard.partition("/")
            have.setdefault(int(of), set()).add(int(share))
    if len(have) > 1:
        raise InputError([f"shards of different divisions: {', '.join(f'N = {of}' for of in sorted(have))} (expected one N)"])
    missing = [f"{share}/{of}" for of, shares in have.items() for share in range(1, of + 1) if share not in shares]
    if missing:
        notes.append(f"missing: {'shard' if len(missing) == 1 else 'shards'} {', '.join(missing)}")
    return len(missing)
