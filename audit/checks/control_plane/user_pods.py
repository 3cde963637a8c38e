"""User pods on control-plane nodes."""

from __future__ import annotations

from collections.abc import Iterator

from kubestow.audit.checks.control_plane import codes
from kubestow.audit.checks.control_plane.layout import Layout
from kubestow.audit.view.finding import some
from kubestow.models.documents.findings.audit import Finding
from kubestow.models.kube.objects import Pod, controller_of
from kubestow.models.snapshot.scope import is_mirror

#: Prefixes of the namespaces that belong to a distribution's own components.
_SYSTEM = ("kube-", "openshift-", "openshift")


def check(found: Layout) -> Iterator[Finding]:
    """Yield a finding for each workload with such pods. If no node is a pure worker, user pods must run there, so there are none."""
    view = found.view
    workers = frozenset(found.workers)
    own = frozenset(found.members.nodes) - workers
    if not workers - set(found.members.nodes):
        return
    for subject in view.subjects:
        if subject.kind == "DaemonSet" or subject.namespace.startswith(_SYSTEM):
            continue
        pods = [i for i in subject.pods if view.snapshot.pods[i].spec.nodeName in own and _is_user(view.snapshot.pods[i])]
        if pods:
            nodes = sorted({view.snapshot.pods[i].spec.nodeName or "" for i in pods})
            text = (
                f"{len(pods)} of its {len(subject.pods)} pods run on {some(nodes)}" if len(subject.pods) > 1 else f"it runs on {nodes[0]}"
            )
            yield codes.USER_PODS.found(subject.name, text, pods=view.keys(pods), nodes=nodes)


def _is_user(pod: Pod) -> bool:
    owner = controller_of(pod)
    system = (pod.spec.priorityClassName or "").startswith("system-")
    return not (system or is_mirror(pod) or (owner is not None and owner.kind in ("DaemonSet", "Node")))
