"""The failures of a snapshot: the nodes that each affects, and the snapshot it leaves."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from math import comb
from typing import Final

import msgspec

from kubestow.models.edits import nodes as edits_nodes
from kubestow.models.kube import objects
from kubestow.models.kube.lenient_decode import shorten
from kubestow.models.snapshot.scope import is_replicated
from kubestow.models.snapshot.snapshot import InputError, Snapshot
from kubestow.models.workloads.daemon_sets import is_daemon
from kubestow.solver.capacity.survive.options import SurviveOptions

#: Maximum number of combinations, regardless of the time limit.
MAX_COMBINATIONS: Final = 1_000_000
_change = msgspec.structs.replace


@dataclass(frozen=True, slots=True)
class After:
    """The cluster after a failure.

    Attributes:
        snapshot: The snapshot without the failed nodes. Only the pods that must return are pending. All have
            priority 0, because they are equally important here.
        back: Indices of these pods.
    """

    snapshot: Snapshot
    back: list[int]


def domains(snapshot: Snapshot, request: SurviveOptions) -> dict[str, list[str]]:
    """Return the nodes of each node or domain that can fail, in the order of the snapshot's nodes. Nodes without the key do not fail.

    Raises:
        InputError: Fewer domains than fail at once, or too many combinations.
    """
    members: dict[str, list[str]] = {}
    for node in snapshot.nodes:
        name = node.metadata.name or ""
        value = name if request.key is None else (node.metadata.labels or {}).get(request.key)
        if value is not None:
            members.setdefault(value, []).append(name)
    if len(members) < request.at_once:
        raise InputError([too_few(request, len(members))])
    if (count := comb(len(members), request.at_once)) > MAX_COMBINATIONS:
        raise InputError([f"--at-once {request.at_once}: {count} combinations of {len(members)}, expected at most {MAX_COMBINATIONS}"])
    return members


def too_few(request: SurviveOptions, number: int, option: str = "--fail") -> str:
    """Return the message that fewer domains exist than fail at once."""
    plural = "" if number == 1 else "s"
    what = f"node{plural}" if request.key is None else f"value{plural} of the node label {shorten(request.key)}"
    return f"{option} {shorten(request.fail)} --at-once {request.at_once}: the snapshot has {number or 'no'} {what}"


def returns(pod: objects.Pod, request: SurviveOptions) -> bool:
    """Return True if a pod has a priority that must return."""
    return request.priority is None or (pod.spec.priority or 0) >= request.priority


def after(snapshot: Snapshot, gone: Collection[str], request: SurviveOptions) -> After:
    """Return the cluster after the failure of some nodes. It leaves out pods that already wait, and pods that need not return."""
    edited = snapshot.copy()
    edited.pods = [pod for pod in snapshot.pods if pod.spec.nodeName or objects.is_terminal(pod)]
    edits_nodes.remove(edited, gone)
    pods, back = [], []
    for pod in edited.pods:
        if pod.spec.nodeName or objects.is_terminal(pod):
            pods.append(pod)
        elif returns(pod, request):
            back.append(len(pods))
            pods.append(_change(pod, spec=_change(pod.spec, priority=0, schedulingGates=None)))
    edited.pods = pods
    edited.to_create = []
    return After(edited, back)


def is_bare(pod: objects.Pod) -> bool:
    """Return True if a running pod is lost with its node: no controller, kubelet or DaemonSet recreates it."""
    return not (is_replicated(pod) or is_daemon(pod) or objects.is_terminating(pod) or objects.is_terminal(pod))
