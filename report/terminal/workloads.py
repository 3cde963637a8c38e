"""The workloads of manifests, one row each: placed pods, nodes and zones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from rich.console import RenderableType
from rich.text import Text

from kubestow.models.documents.placement import Placement
from kubestow.models.kube.objects import is_terminal, pod_key
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.models.workloads.ownership import PodOwners
from kubestow.report.documents.node_rows import zone_of
from kubestow.report.documents.output import counted, some
from kubestow.report.terminal.canvas import Surface, grid, inset, more, plain
from kubestow.report.terminal.columns import Name

#: Maximum numbers of listed workloads, and of zones or nodes per workload.
_MAX_WORKLOADS: Final = 40
_MAX_PLACES: Final = 4


def owners(snapshot: Snapshot, pods: Iterable[str]) -> dict[str, str]:
    """Return the owner (``Kind namespace/name``) by pod (``namespace/name``). Pods missing from the snapshot are left out."""
    wanted, found = set(pods), PodOwners(snapshot)
    return {key: found.of(pod) for pod in snapshot.pods if (key := pod_key(pod)) in wanted} if wanted else {}


def pods_and_workloads(pods: Iterable[str], owned: Mapping[str, str]) -> str:
    """Return ``7 pods of 7 workloads``, or ``2 pods`` if all belong to one workload or some to none."""
    named = list(pods)
    workloads = {owned.get(pod, "Pod") for pod in named}
    several = len(workloads) > 1 and not any(workload.startswith("Pod") for workload in workloads)
    return counted(len(named), "pod") + (f" of {counted(len(workloads), 'workload')}" if several else "")


def added_pods(snapshot: Snapshot, workloads: Iterable[str]) -> dict[str, list[str]]:
    """Return the pods of each workload (``Kind namespace/name``) that have not terminated."""
    found: dict[str, list[str]] = {workload: [] for workload in workloads}
    if found:
        of = PodOwners(snapshot)
        for pod in snapshot.pods:
            if not is_terminal(pod) and (members := found.get(of.of(pod))) is not None:
                members.append(pod_key(pod))
    return found


def added(result: Placement, snapshot: Snapshot, surface: Surface) -> Iterator[RenderableType]:
    """Yield the workloads that manifests added."""
    listed = added_pods(snapshot, result.snapshot.workloads)
    if not listed:
        return
    goes = {a.pod: a.node for a in result.assignments}
    left_out = {u.pod for u in result.unplaced}
    everyone = {pod for pods in listed.values() for pod in pods}
    runs = {
        key: pod.spec.nodeName
        for pod in snapshot.pods
        if pod.spec.nodeName and (key := pod_key(pod)) in everyone and key not in goes and key not in left_out
    }
    zones = {node.metadata.name or "": zone_of(node) for node in snapshot.nodes}
    detailed = surface.wide or surface.everything
    headers = ["workload", "placed", "of", *(["running before"] if runs else []), "nodes", *(["on"] if detailed else []), "zones"]
    right = tuple(range(1, 5 if runs else 4))
    table = grid(*headers, right=right, prose=range(right[-1] + 1, len(headers)), title="Workloads of the manifests")
    for workload, pods in list(listed.items())[: surface.limit(_MAX_WORKLOADS)]:
        where = Counter(node for pod in pods if (node := goes.get(pod, runs.get(pod))) is not None)
        placed = where.total()
        style = "green" if placed == len(pods) else "yellow" if placed else "bold red"
        cells: list[Text | Name | str] = [Name(workload), Text(f"{placed:,}", style=style), f"{len(pods):,}"]
        cells += [f"{sum(pod in runs for pod in pods):,}"] if runs else []
        cells += [f"{len(where):,}"] + ([plain(_places(where, surface))] if detailed else [])
        by_zone: Counter[str] = Counter()
        for node, number in where.items():
            by_zone[zones.get(node) or "no zone"] += number
        table.add_row(*cells, plain(_places(by_zone, surface) if set(by_zone) != {"no zone"} else ""))
    yield inset(table)
    yield from more(len(listed) - surface.limit(_MAX_WORKLOADS))


def _places(found: Mapping[str, int], surface: Surface) -> str:
    """Return places with their numbers of pods: ``a 3, b 1``."""
    named = [f"{name} {number:,}" for name, number in sorted(found.items())]
    return some(named, surface.limit(_MAX_PLACES))
