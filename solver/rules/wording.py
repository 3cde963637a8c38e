"""Names and numbers in the sentences of a cause."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kubestow.models.cluster.cluster import Cluster
from kubestow.models.kube import quantity
from kubestow.models.kube.objects import NodeSelectorRequirement, Pod
from kubestow.models.workloads.checks import describe

#: Maximum number of names; further ones are counted.
MAX_NAMES = 3
_BYTES = ("memory", "ephemeral-storage", "hugepages-")


def listed(names: Iterable[str], *, limit: int = MAX_NAMES) -> str:
    """Return ``a, b, c and 4 more``."""
    unique = list(dict.fromkeys(names))
    if len(unique) <= limit + 1:
        return ", ".join(unique)
    return f"{', '.join(unique[:limit])} and {len(unique) - limit} more"


def amount(resource: str, value: int) -> str:
    """Return ``7500m CPU``, ``1.5Gi memory`` or ``3 nvidia.com/gpu``."""
    if resource == "cpu":
        return f"{quantity.format_cpu(value)} CPU"
    if resource.startswith(_BYTES):
        return f"{quantity.format_bytes(value)} {resource}"
    if resource == "pods":
        return f"{value} pod slot{'s' * (value != 1)}"
    return f"{value} {resource}"


def amounts(resource: str, values: Sequence[int]) -> list[str]:
    """Return several amounts, in whole bytes if rounding would make them look equal."""
    texts = [amount(resource, value) for value in values]
    if len(set(texts)) == len(set(values)):
        return texts
    return [f"{value} bytes {resource}" for value in values]


def selector(cluster: Cluster, matcher: int) -> str:
    """Return a matcher as text: ``app=db``, ``app in (a, b), !tier``."""
    requirements = {r for _, selector in cluster.matchers.parts(matcher) for r in selector}
    return describe(tuple(sorted(requirements))) or "of any labels"


def node_rule(pod: Pod) -> str:
    """Return the pod's own node rule as text."""
    words = []
    if pod.spec.nodeSelector:
        words.append("nodeSelector " + ", ".join(f"{k}={v}" for k, v in sorted(pod.spec.nodeSelector.items())))
    affinity = pod.spec.affinity.nodeAffinity if pod.spec.affinity else None
    if affinity is not None and affinity.requiredDuringSchedulingIgnoredDuringExecution is not None:
        terms = affinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms or []
        alternatives = [", ".join(_requirement(r) for r in (*(t.matchExpressions or ()), *(t.matchFields or ()))) for t in terms]
        words.append("required node affinity " + " or ".join(alternatives[:MAX_NAMES]) + (" or …" if len(alternatives) > MAX_NAMES else ""))
    return " and ".join(words) or "node affinity"


def _requirement(requirement: NodeSelectorRequirement) -> str:
    values = requirement.values or []
    shown = f" ({', '.join(values[:MAX_NAMES])}{', …' if len(values) > MAX_NAMES else ''})" if values else ""
    return f"{requirement.key} {requirement.operator}{shown}"
