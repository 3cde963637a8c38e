"""The documents of ``kubestow batch``: the plan of tasks that it reads, and the summary of results that it prints."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from kubestow.models.documents.placement import API_VERSION, Doc

#: Commands that a batch can run.
Batched = Literal["audit", "solve", "explain", "rebalance", "fit", "size", "survive", "upgrade"]
#: The value of an option: a flag, one value, several values, or null to omit the option.
OptionValue = str | int | float | bool | list[str | int | float] | None
_Options = Annotated[
    dict[str, OptionValue],
    Meta(description="Options by name without dashes: true for a flag, a list for one that may be given several times, null for none."),
]


class PlanSet(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A command and its options."""

    command: Annotated[Batched | None, Meta(description="The command, null for the plan's command.")] = None
    options: _Options = {}


class BatchPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A plan of tasks: every snapshot combined with every option set."""

    snapshots: Annotated[
        list[Annotated[str, Meta(min_length=1)]],
        Meta(min_length=1, description="Files, folders, and patterns such as snapshots/**/*.json, relative to the plan."),
    ]
    command: Annotated[Batched | None, Meta(description="The command of option sets that do not name one.")] = None
    options: _Options = {}
    matrix: Annotated[
        dict[str, list[Any]],
        Meta(
            description="Options by name, each with a list of values; every combination is an option set. The command can be varied too. "
            "include extends or adds combinations, exclude removes matching ones."
        ),
    ] = {}
    sets: Annotated[
        dict[str, PlanSet], Meta(description="Option sets by name, instead of a matrix. Their options override those of the plan.")
    ] = {}
    eachDirectory: Annotated[bool, Meta(description="True if a folder is one snapshot, false if each file in it is one.")] = False
    apiVersion: Literal["kubestow.dev/v1alpha1"] = "kubestow.dev/v1alpha1"
    kind: Literal["BatchPlan"] = "BatchPlan"


class Room(Doc, omit_defaults=True):
    """The capacity of a snapshot's nodes and its use. CPU is in mCPU, memory in bytes."""

    nodes: Annotated[int, Meta(description="The number of nodes.")]
    pods: Annotated[int, Meta(description="Pods on nodes, except terminated ones.")]
    pending: Annotated[int, Meta(description="Pods without a node.")]
    allocatable: Annotated[dict[str, int], Meta(description="Allocatable resources of the nodes.")]
    requests: Annotated[dict[str, int], Meta(description="Requests of the pods on nodes.")]
    typical: Annotated[dict[str, int], Meta(description="The median request over pods that request the resource, DaemonSet pods excluded.")]
    free: Annotated[dict[str, int], Meta(description="Free resources on nodes that accept pods without tolerations.")]
    stranded: Annotated[
        dict[str, int], Meta(description="The part of `free` on nodes where neither a typical pod nor any pending pod fits.")
    ]


class Row(Doc, omit_defaults=True):
    """A task and its result."""

    id: Annotated[str, Meta(description="The id of the task: a hash of its input, command and options.")]
    snapshot: Annotated[list[str], Meta(description="The files of the snapshot.")]
    command: Annotated[str, Meta(description="The command.")]
    options: Annotated[list[str], Meta(description="The options, as on the command line.")]
    exit: Annotated[int | None, Meta(description="The exit code of the command, null if its worker was lost.")] = None
    reason: Annotated[str | None, Meta(description="The reason for a missing result, in one line; null if there is a result.")] = None
    result: Annotated[str | None, Meta(description="The file of the result, relative to the folder of the summary.")] = None
    cluster: Annotated[str | None, Meta(description="The cluster, if the snapshot names it.")] = None
    capturedAt: Annotated[str | None, Meta(description="Capture time, RFC 3339, if the snapshot records it.")] = None
    set: Annotated[str | None, Meta(description="The name of the option set, if the plan names it.")] = None
    placed: Annotated[int | None, Meta(description="Pods placed by the result.")] = None
    pods: Annotated[int | None, Meta(description="Pods to place.")] = None
    findings: Annotated[dict[str, int], Meta(description="Findings of an audit, by severity.")] = {}
    cost: Annotated[float | None, Meta(description="Cost of a sizing, per hour.")] = None
    verdict: Annotated[str | None, Meta(description="The answer in a word: a status, certified or not, complete or blocked.")] = None
    seconds: Annotated[float | None, Meta(description="Run time in seconds, absent in a deterministic run.")] = None
    room: Annotated[Room | None, Meta(description="The capacity of the nodes and its use, with --series.")] = None


class Change(Doc):
    """A finding that appeared or disappeared."""

    code: Annotated[str, Meta(description="The code of the finding.")]
    object: Annotated[str, Meta(description="The object concerned.")]


class Point(Doc, omit_defaults=True):
    """A snapshot of a series."""

    row: Annotated[str, Meta(description="The id of its row.")]
    capturedAt: Annotated[str, Meta(description="Capture time, RFC 3339.")]
    utilisation: Annotated[dict[str, float], Meta(description="Requests divided by allocatable, of cpu and memory.")] = {}
    fragmentation: Annotated[dict[str, float], Meta(description="Stranded divided by free, of cpu and memory.")] = {}
    appeared: Annotated[list[Change], Meta(description="Audit findings that the previous snapshot did not have.")] = []
    went: Annotated[list[Change], Meta(description="Audit findings that only the previous snapshot had.")] = []


class Series(Doc, omit_defaults=True):
    """The snapshots of one cluster under one option set, by capture time."""

    cluster: Annotated[str, Meta(description="The cluster.")]
    command: Annotated[str, Meta(description="The command.")]
    options: Annotated[list[str], Meta(description="The options.")]
    points: Annotated[list[Point], Meta(description="The snapshots, oldest first.")]
    set: Annotated[str | None, Meta(description="The name of the option set, if the plan names it.")] = None


class BatchSummary(Doc):
    """The results of all tasks of a batch."""

    rows: Annotated[list[Row], Meta(description="The tasks, in the order of the plan.")]
    tasks: Annotated[int, Meta(description="The number of tasks.")]
    failed: Annotated[int, Meta(description="The number of tasks without a result.")]
    left: Annotated[int, Meta(description="The number of tasks not run because the batch was stopped or shards are missing.")] = 0
    shard: Annotated[str | None, Meta(description="The shard of the plan, I/N.")] = None
    notes: Annotated[list[str], Meta(description="Remarks on the results.")] = []
    series: Annotated[list[Series], Meta(description="Snapshots over time, with --series.")] = []
    apiVersion: str = API_VERSION
    kind: str = "BatchSummary"
