"""kubectl, the cluster that it reaches, and what may be done there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from kubestow.live.capture import CaptureOptions
from kubestow.live.capture_kinds import Resource, listed, served
from kubestow.live.capture_kubectl import Kubectl, KubectlError, Refused
from kubestow.models.documents.doctor import Examined
from kubestow.report.documents.output import some

_ESSENTIAL: Final = ("Pod", "Node")
#: What `kubestow apply` does beside reading: verb, resource, namespace (None: in all). docs/apply-role.yaml has the same.
_APPLIES: Final = (
    ("patch", "nodes", None),
    ("patch", "pods", None),
    ("create", "pods/eviction", None),
    ("create", "pods/binding", None),
    ("watch", "pods", None),
    ("create", "leases.coordination.k8s.io", "kube-system"),
)
_NAMED: Final = 6


def examine(options: CaptureOptions, *, asked: bool, needed: bool) -> Iterator[Examined]:
    """Yield what kubectl says. ``asked``: a cluster was asked for, so that it has to answer; else only kubectl itself is looked at.
    ``needed``: kubectl has to be there."""
    kubectl = Kubectl(options.kubectl, options.arguments(), options.timeout)
    try:
        version = kubectl.client_version()
    except KubectlError as error:
        why = "`capture` and `--context` need it, files do not: https://kubernetes.io/docs/tasks/tools/"
        yield Examined("kubectl", "failed" if needed else "note", "does not run", f"{error}; {why}")
        return
    yield Examined("kubectl", "ok", f"{version}, {options.kubectl}")
    if not asked:
        yield Examined("cluster", "ok", "not asked: --context NAME looks at one, and at what may be read and done there")
        return
    try:
        yield Examined("context", "ok", options.context or kubectl.context() or "none (in a pod, for instance)")
        yield from _cluster(kubectl)
    except (KubectlError, Refused) as error:
        yield Examined("cluster", "failed", "does not answer", str(error))


def _cluster(kubectl: Kubectl) -> Iterator[Examined]:
    yield Examined("cluster", "ok", f"Kubernetes {kubectl.server_version()}")
    resources = served(listed(kubectl.resources()[0])).resources
    denied = [each for each in resources if not kubectl.may("list", each.label)]
    yield _reading(resources, denied)
    refused = [(verb, what, where) for verb, what, where in _APPLIES if not kubectl.may(verb, what, where)]
    if not refused:
        yield Examined("apply may", "ok", "all that it does")
        return
    found = ", ".join(f"{verb} {what}" for verb, what, _ in refused)
    yield Examined("apply may", "note", f"not {found}", "`kubestow apply` would be refused; docs/apply-role.yaml has its rights")


def _reading(resources: Sequence[Resource], denied: Sequence[Resource]) -> Examined:
    """Judge what may be listed."""
    if not denied:
        return Examined("capture may", "ok", f"list all {len(resources)} kinds that it reads")
    names = [each.label for each in denied]
    essential = [each.label for each in denied if each.kind.name in _ESSENTIAL]
    meaning = f"no snapshot without {' and '.join(essential)}" if essential else "a snapshot without these is incomplete, and says so"
    found = f"not list {some(names, _NAMED)}"
    return Examined("capture may", "failed" if essential else "note", found, f"{meaning}; docs/capture-role.yaml has its rights")
