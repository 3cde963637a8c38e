"""Deletion of the manifests' workloads that did not become whole."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from kubestow.live.api.answers import Api, Object
from kubestow.live.gates.replica_groups import ReplicaReader, workload_of
from kubestow.models.execution.template_nodes import GATE, TemplateNodes

_RESOURCES: Final = {
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments/{}",
    "ReplicaSet": "/apis/apps/v1/namespaces/{}/replicasets/{}",
    "StatefulSet": "/apis/apps/v1/namespaces/{}/statefulsets/{}",
    "Job": "/apis/batch/v1/namespaces/{}/jobs/{}",
    "CronJob": "/apis/batch/v1/namespaces/{}/cronjobs/{}",
    "ReplicationController": "/api/v1/namespaces/{}/replicationcontrollers/{}",
    "PodTemplate": "/api/v1/namespaces/{}/podtemplates/{}",
    "Pod": "/api/v1/namespaces/{}/pods/{}",
}


async def undo(
    api: Api,
    cluster: ReplicaReader,
    templates: Sequence[TemplateNodes],
    say: Callable[[str], None],
    keep: Callable[[TemplateNodes, Object], Awaitable[None]] | None = None,
) -> list[str]:
    """Delete these workloads with their pods, and return their names. All are printed before the first request.

    Only objects that the placement's snapshot did not have are deleted, by uid, and only with the gate in their template. ``keep`` records
    deletions in a journal.
    """
    found: list[tuple[TemplateNodes, Object]] = []
    for template in templates:
        if template.pod_set is not None:
            say(f"{template.ref} stays: delete {template.pod_set.kind} {template.pod_set.object} if it shall go")
            continue
        obj = workload_of(cluster, template)
        if obj is None:
            continue
        if template.exists:
            say(f"{template.ref} stays: it was there before")
        elif not is_gated(template.kind, obj):
            say(f"{template.ref} stays: there is no gate in its template")
        else:
            found.append((template, obj))
    for template, _ in found:
        say(f"deleting {template.ref} with its pods")
    if keep is not None:
        for template, obj in found:
            await keep(template, obj)
    undone = []
    for template, obj in found:
        path = _RESOURCES[template.kind].format(template.namespace, template.name)
        options = {"propagationPolicy": "Background", "preconditions": {"uid": obj["metadata"]["uid"]}}
        answer = await api.send("DELETE", path, {"apiVersion": "v1", "kind": "DeleteOptions", **options})
        if answer.ok:
            undone.append(template.ref)
        else:
            say(f"{template.ref} cannot be deleted: {answer.message}")
    return undone


def is_gated(kind: str, obj: Object) -> bool:
    """Return True if a workload's template, or a bare Pod, has the gate."""
    paths = {"CronJob": ("spec", "jobTemplate", "spec", "template"), "PodTemplate": ("template",), "Pod": ()}
    value: Any = obj
    for key in (*paths.get(kind, ("spec", "template")), "spec"):
        value = (value or {}).get(key)
    return any(gate.get("name") == GATE for gate in (value or {}).get("schedulingGates") or ())
