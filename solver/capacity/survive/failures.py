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


def domains(snapshot: Snapshot, asked: SurviveOptions) -> dict[str, list[str]]:
    """Return the nodes of each node or domain that can fail, in the order of the snapshot's nodes. Nodes without the key do not fail.

    Raises:
        InputError: Fewer domains than fail at once, or too many combinations.
    """
    found: dict[str, list[str]] = {}
    for node in snapshot.nodes:
        name = node.metadata.name or ""
        value = name if asked.key is None else (node.metadata.labels or {}).get(asked.key)
        if value is not None:
            found.setdefault(value, []).append(name)
    if len(found) < asked.at_once:
        raise InputError([too_few(asked, len(found))])
    if (count := comb(len(found), asked.at_once)) > MAX_COMBINATIONS:
        raise InputError([f"--at-once {asked.at_once}: {count} combinations of {len(found)}, expected at most {MAX_COMBINATIONS}"])
    return found


def too_few(asked: SurviveOptions, number: int, option: str = "--fail") -> str:
    """Return the message that fewer domains exist than fail at once."""
    plural = "" if number == 1 else "s"
    what = f"node{plural}" if asked.key is None else f"value{plural} of the node label {shorten(asked.key)}"
    return f"{option} {shorten(asked.fail)} --at-once {asked.at_once}: the snapshot has {number or 'no'} {what}"


def returns(pod: objects.Pod, asked: SurviveOptions) -> bool:
    """Return True if a pod has a priority that must return."""
    return asked.priority is None or (pod.spec.priority or 0) >= asked.priority


def after(snapshot: Snapshot, gone: Collection[str], asked: SurviveOptions) -> After:
    """Return the cluster after the failure of some nodes. It leaves out pods that already wait, and pods that need not return."""
    edited = snapshot.copy()
    edited.pods = [pod for pod in snapshot.pods if pod.spec.nodeName or objects.is_terminal(pod)]
    edits_nodes.remove(edited, gone)
    pods, back = [], []
    for pod in edited.pods:
        if pod.spec.nodeName or objects.is_terminal(pod):
            pods.append(pod)
        elif returns(pod, asked):
            back.append(len(pods))
            pods.append(_change(pod, spec=_change(pod.spec, priority=0, schedulingGates=None)))
    edited.pods = pods
    edited.to_create = []
    return After(edited, back)


def is_bare(pod: objects.Pod) -> bool:
    """Return True if a running pod is lost with its node: no controller, kubelet or DaemonSet recreates it."""
    return not (is_replicated(pod) or is_daemon(pod) or objects.is_terminating(pod) or objects.is_terminal(pod))
