"""Stored pods whose label selectors have an unknown operator, treated as by kube-scheduler.

The scheduler rejects such a pending pod on every node. For a bound pod it drops all terms of the list
(https://github.com/kubernetes/kubernetes/blob/v1.36.2/pkg/scheduler/framework/types.go, PodInfo.Update).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from kubestow.models.kube import kinds, objects
from kubestow.models.kube.validation.pods import SELECTOR_OPERATORS, UnknownValue

#: Label that no node has, so that a constraint on it rejects all nodes.
_NOWHERE: Final = "kubestow.dev/unreadable"
#: Pod affinity term that rejects all nodes: without a selector it matches no pod, not even its own.
_NOBODY: Final = objects.PodAffinityTerm(topologyKey="kubernetes.io/hostname")
_LISTS: Final = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "requiredDuringSchedulingRequiredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)


def forgive(obj: Any, problems: Iterable[str]) -> tuple[list[str], list[UnknownValue]]:
    """Split the problems of a stored object into real problems and unknown values of a later version.

    Unknown values are applied as far as their meaning is known.
    """
    problems = list(problems)
    unknown = [problem for problem in problems if isinstance(problem, UnknownValue)]
    template = kinds.pod_template(obj)
    spec = obj.spec if isinstance(obj, objects.Pod) else template[1].spec if template is not None else None
    if unknown and spec is not None:
        _settle(spec)
    return [problem for problem in problems if not isinstance(problem, UnknownValue)], unknown


def _settle(spec: objects.PodSpec) -> None:
    """Replace a pod's unreadable terms and constraints: by none if it is bound, or else by one that rejects every node.

    The containing objects are replaced, never modified.
    """
    bound = bool(spec.nodeName)
    if spec.affinity is not None:
        spec.affinity = _affinity(spec.affinity, bound=bound)
    constraints = spec.topologySpreadConstraints
    if constraints and not all(_readable(each.labelSelector) for each in constraints):
        nowhere = objects.TopologySpreadConstraint(1, _NOWHERE, "DoNotSchedule", nodeAffinityPolicy="Honor", nodeTaintsPolicy="Ignore")
        spec.topologySpreadConstraints = None if bound else [nowhere]


def _affinity(affinity: objects.Affinity, *, bound: bool) -> objects.Affinity:
    made, whole = {}, True
    for name in ("podAffinity", "podAntiAffinity"):
        part = getattr(affinity, name)
        broken = [field for field in _LISTS if part is not None and not _all_readable(getattr(part, field))]
        if broken:
            whole, made[name] = False, msgspec.structs.replace(part, **dict.fromkeys(broken))
    if whole:
        return affinity
    if not bound:
        made["podAffinity"] = objects.PodAffinity([_NOBODY])
    return msgspec.structs.replace(affinity, **made)


def _all_readable(terms: Iterable[objects.PodAffinityTerm | objects.WeightedPodAffinityTerm] | None) -> bool:
    bare = (each.podAffinityTerm if isinstance(each, objects.WeightedPodAffinityTerm) else each for each in terms or ())
    return all(_readable(each.labelSelector) and _readable(each.namespaceSelector) for each in bare)


def _readable(selector: objects.LabelSelector | None) -> bool:
    return selector is None or all(each.operator in SELECTOR_OPERATORS for each in selector.matchExpressions or ())
