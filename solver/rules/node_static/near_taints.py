"""Near-misses of taints: tolerations that cover no taint, each with a similar taint of a node."""

from __future__ import annotations

from collections.abc import Iterator

from kubestow.models.cluster.cluster import HARD_EFFECTS, Cluster
from kubestow.models.cluster.near_misses import MAX_SUGGESTIONS
from kubestow.models.kube.lenient_decode import nearest
from kubestow.models.kube.objects import Pod, Taint, Toleration
from kubestow.models.kube.selectors import Tolerations


def taint_misses(cluster: Cluster, pod: Pod) -> Iterator[tuple[Toleration, Taint]]:
    """Yield tolerations that cover no taint, each with a taint of a node that may be meant and that the pod does not tolerate."""
    gates, known = cluster.snapshot.gates, hard_taints(cluster)
    every = Tolerations(pod.spec.tolerations, gates)
    for toleration in pod.spec.tolerations or ():
        if not toleration.key or any(Tolerations([toleration], gates).cover(taint) for taint in known):
            continue
        fitting = [t for t in known if toleration.effect in (None, "", t.effect) and not every.cover(t)]
        keys = {toleration.key, *nearest(toleration.key, [t.key for t in fitting])}
        value = toleration.value or ""
        values = {value, *nearest(value, [t.value or "" for t in fitting])}
        meant = [t for t in fitting if t.key in keys and (toleration.operator == "Exists" or (t.value or "") in values)]
        yield from ((toleration, taint) for taint in meant[:MAX_SUGGESTIONS])


def hard_taints(cluster: Cluster) -> list[Taint]:
    """Return each distinct taint that rejects pods."""
    taints: dict[tuple[str, str, str], Taint] = {}
    for n in range(cluster.n_nodes):
        for taint in cluster.nodes.taints(n):
            if taint.effect in HARD_EFFECTS:
                taints[taint.key, taint.value or "", taint.effect] = taint
    return [taint for _, taint in sorted(taints.items())]


def taint_text(taint: Taint | Toleration) -> str:
    """Return ``key=value:effect``."""
    return f"{taint.key}{f'={taint.value}' if taint.value else ''}{f':{taint.effect}' if taint.effect else ''}"


def tainted(cluster: Cluster, taint: Taint) -> int:
    """Return the number of nodes with a taint."""
    wanted = taint_text(taint)
    return sum(any(taint_text(own) == wanted for own in cluster.nodes.taints(n)) for n in range(cluster.n_nodes))
