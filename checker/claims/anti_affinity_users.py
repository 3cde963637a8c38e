"""The checker's own reading of the policy's antiAffinityUsers: who may use required anti-affinity."""

from __future__ import annotations

from collections.abc import Iterator

from kubestow.models.documents.policy import Policy
from kubestow.models.kube import objects
from kubestow.models.snapshot.snapshot import Snapshot

_NODE_KEY = "kubernetes.io/hostname"


def not_granted(pod: objects.Pod, snapshot: Snapshot, policy: Policy) -> Iterator[str]:
    """Yield why the policy does not grant a pod its required anti-affinity, one sentence per topology key."""
    wanted = pod.spec.affinity.podAntiAffinity if pod.spec.affinity else None
    if wanted is None or not policy.antiAffinityUsers:
        return
    keys = [
        *(term.topologyKey for term in wanted.requiredDuringSchedulingIgnoredDuringExecution or ()),
        *(term.topologyKey for term in wanted.requiredDuringSchedulingRequiredDuringExecution or ()),
    ]
    space = pod.metadata.namespace or "default"
    named = {"namespaces": space, "serviceAccounts": f"{space}/{pod.spec.serviceAccountName or 'default'}"}
    named["priorityClasses"] = pod.spec.priorityClassName or _class_by_default(pod, snapshot)
    rights = {
        entry.keys
        for entry in policy.antiAffinityUsers
        if not any(getattr(entry, field) and name not in getattr(entry, field) for field, name in named.items())
    }
    for key in dict.fromkeys(keys):
        if "any" not in rights and (key != _NODE_KEY or "hostname" not in rights):
            yield f"the policy does not grant it required anti-affinity over {key}"


def _class_by_default(pod: objects.Pod, snapshot: Snapshot) -> str:
    """Return the class that admission assigns to a pod without one: the lowest global default, then the first by name."""
    chosen = sorted((found.value, name) for name, found in snapshot.priority_classes.items() if found.globalDefault)[:1]
    return next((name for value, name in chosen if value == pod.spec.priority), "")
