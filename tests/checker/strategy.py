"""The strategy tier of any placement, with what nodes hold added up pod by pod."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from kubestow.checker.objective import tie_break
from kubestow.checker.reading import resources
from kubestow.models.documents.policy import Policy
from kubestow.models.kube.objects import is_terminal, pod_key
from kubestow.models.snapshot.snapshot import Snapshot


def points(snapshot: Snapshot, placed: Mapping[str, str], absent: Collection[str], policy: Policy) -> int | None:
    used: dict[str, Counter[str]] = {}
    for pod in snapshot.pods:
        key = pod_key(pod)
        node = placed.get(key, pod.spec.nodeName)
        if node and (key in placed or not (is_terminal(pod) or key in absent)):
            used.setdefault(node, Counter()).update(resources.pod_requests(pod, snapshot.gates, bound=key not in placed))
    capacity = {node.metadata.name or "": resources.node_capacity(node) for node in snapshot.nodes}
    return tie_break.points(snapshot, placed, absent, policy, used=used, capacity=capacity)
