"""Label selectors of stored pods that cannot be read, as an operator is not known: what kube-scheduler makes of their terms.

It rejects a pending pod everywhere, and drops all terms of the list for one that is bound
(https://github.com/kubernetes/kubernetes/blob/v1.36.2/pkg/scheduler/framework/types.go, PodInfo.Update).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from kubestow.models.kube import kinds, objects
from kubestow.models.kube.validation.pods import SELECTOR_OPERATORS, UnknownValue

#: No node has such a label, so that a constraint on it rejects all nodes.
_NOWHERE: Final = "kubestow.dev/unreadable"
#: The same by pod affinity: a term without a selector selects no pod, not even the one that has it.
_NOBODY: Final = objects.PodAffinityTerm(topologyKey="kubernetes.io/hostname")
_LISTS: Final = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "requiredDuringSchedulingRequiredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)


def forgive(obj: Any, problems: Iterable[str]) -> tuple[list[str], list[UnknownValue]]:
    """Return the problems of a stored object that are none of a later version's values, and these values, which count as far as they are
    understood."""
    problems = list(problems)
    unknown = [problem for problem in problems if isinstance(problem, UnknownValue)]
    template = kinds.pod_template(obj)
    spec = obj.spec if isinstance(obj, objects.Pod) else template[1].spec if template is not None else None
    if unknown and spec is not None:
        _settle(spec)
    return [problem for problem in problems if not isinstance(problem, UnknownValue)], unknown


def _settle(spec: objects.PodSpec) -> None:
    """Replace the terms and constraints of a pod that cannot be read: by none if it is bound, else by one that rejects every node.

    What they are part of is replaced as well, never changed.
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
        found = getattr(affinity, name)
        broken = [field for field in _LISTS if found is not None and not _all_readable(getattr(found, field))]
        if broken:
            whole, made[name] = False, msgspec.structs.replace(found, **dict.fromkeys(broken))
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
