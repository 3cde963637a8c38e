"""What many tasks are, each a command on a snapshot, and what became of them: the plan that ``kubestow batch`` reads, and its summary."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from kubestow.models.documents.placement import API_VERSION, Doc

#: Commands whose results can be put side by side.
Batched = Literal["audit", "solve", "explain", "rebalance", "fit", "size", "survive", "upgrade"]
#: What an option can be given: a flag, one value, several, or null: not at all.
OptionValue = str | int | float | bool | list[str | int | float] | None
_Options = Annotated[
    dict[str, OptionValue],
    Meta(description="Options by name without dashes: true for a flag, a list for one that may be given several times, null for none."),
]


class PlanSet(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A command with its options, by a name."""

    command: Annotated[Batched | None, Meta(description="The command, null: that of the plan.")] = None
    options: _Options = {}


class BatchPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Every snapshot times every set of options."""

    snapshots: Annotated[
        list[Annotated[str, Meta(min_length=1)]],
        Meta(min_length=1, description="Files, patterns such as snapshots/**/*.json, and folders; relative to the plan."),
    ]
    command: Annotated[Batched | None, Meta(description="The command of all sets that name none.")] = None
    options: _Options = {}
    matrix: Annotated[
        dict[str, list[Any]],
        Meta(
            description="Options by name, each with the values that it takes: every combination is a set. command is one, too. include "
            "adds to combinations or adds some, exclude leaves out those that it matches."
        ),
    ] = {}
    sets: Annotated[dict[str, PlanSet], Meta(description="Sets by name, in place of a matrix; their options go before those of all.")] = {}
    eachDirectory: Annotated[bool, Meta(description="Whether a folder is one snapshot, instead of one for each file in it.")] = False
    apiVersion: Literal["kubestow.dev/v1alpha1"] = "kubestow.dev/v1alpha1"
    kind: Literal["BatchPlan"] = "BatchPlan"


class Room(Doc, omit_defaults=True):
    """What a snapshot's nodes have, and what is taken of it: cpu in mCPU, memory in bytes."""

    nodes: Annotated[int, Meta(description="Nodes.")]
    pods: Annotated[int, Meta(description="Pods on nodes, but those that have ended.")]
    pending: Annotated[int, Meta(description="Pods without a node.")]
    allocatable: Annotated[dict[str, int], Meta(description="What nodes offer to pods.")]
    requests: Annotated[dict[str, int], Meta(description="What pods on nodes request.")]
    typical: Annotated[dict[str, int], Meta(description="The median request of pods, of those that request some; daemons do not count.")]
    free: Annotated[dict[str, int], Meta(description="What is left on nodes that take pods without tolerations.")]
    stranded: Annotated[dict[str, int], Meta(description="How much of that is on nodes where neither a typical nor any pending pod fits.")]


class Row(Doc, omit_defaults=True):
    """A task and what became of it."""

    id: Annotated[str, Meta(description="Its name: a hash of the content of its input, the command and its options.")]
    snapshot: Annotated[list[str], Meta(description="The files of the snapshot.")]
    command: Annotated[str, Meta(description="The command.")]
    options: Annotated[list[str], Meta(description="Its options, as on the command line.")]
    exit: Annotated[int | None, Meta(description="The exit code of the command, null if its worker was lost.")] = None
    reason: Annotated[str | None, Meta(description="Why there is no result, in one line, null if there is one.")] = None
    result: Annotated[str | None, Meta(description="The file of the result, as seen from the folder of the summary.")] = None
    cluster: Annotated[str | None, Meta(description="The cluster, where the snapshot names it.")] = None
    capturedAt: Annotated[str | None, Meta(description="When it was captured, RFC 3339, where the snapshot tells.")] = None
    set: Annotated[str | None, Meta(description="The name of the option set, where the plan names it.")] = None
    placed: Annotated[int | None, Meta(description="Pods that the result places.")] = None
    pods: Annotated[int | None, Meta(description="Pods that were to be placed.")] = None
    findings: Annotated[dict[str, int], Meta(description="Findings by severity, of an audit.")] = {}
    cost: Annotated[float | None, Meta(description="Cost per hour, of a sizing.")] = None
    verdict: Annotated[str | None, Meta(description="The answer in a word: a status, certified or not, complete or blocked.")] = None
    seconds: Annotated[float | None, Meta(description="Seconds that it took, absent in a deterministic run.")] = None
    room: Annotated[Room | None, Meta(description="What of the nodes is taken, with --series.")] = None


class Change(Doc):
    """A finding that is new, or gone."""

    code: Annotated[str, Meta(description="Its code.")]
    object: Annotated[str, Meta(description="The object that it is about.")]


class Point(Doc, omit_defaults=True):
    """A snapshot of a series."""

    row: Annotated[str, Meta(description="The id of its row.")]
    capturedAt: Annotated[str, Meta(description="When it was captured, RFC 3339.")]
    utilisation: Annotated[dict[str, float], Meta(description="Requests divided by allocatable, of cpu and memory.")] = {}
    fragmentation: Annotated[dict[str, float], Meta(description="Stranded divided by free, of cpu and memory.")] = {}
    appeared: Annotated[list[Change], Meta(description="Findings of an audit that the snapshot before did not have.")] = []
    went: Annotated[list[Change], Meta(description="Findings that only the snapshot before had.")] = []


class Series(Doc, omit_defaults=True):
    """The snapshots of one cluster under one set of options, by capture time."""

    cluster: Annotated[str, Meta(description="The cluster.")]
    command: Annotated[str, Meta(description="The command.")]
    options: Annotated[list[str], Meta(description="Its options.")]
    points: Annotated[list[Point], Meta(description="The snapshots, the oldest first.")]
    set: Annotated[str | None, Meta(description="The name of the option set, where the plan names it.")] = None


class BatchSummary(Doc):
    """What became of all tasks of a batch."""

    rows: Annotated[list[Row], Meta(description="The tasks, in the order of the plan.")]
    tasks: Annotated[int, Meta(description="How many there are.")]
    failed: Annotated[int, Meta(description="How many of them have no result.")]
    left: Annotated[int, Meta(description="How many were not done when it was stopped, or are of shares that are missing.")] = 0
    shard: Annotated[str | None, Meta(description="Which share of the plan it is, I/N.")] = None
    notes: Annotated[list[str], Meta(description="What a reader must know.")] = []
    series: Annotated[list[Series], Meta(description="Snapshots over time, with --series.")] = []
    apiVersion: str = API_VERSION
    kind: str = "BatchSummary"
