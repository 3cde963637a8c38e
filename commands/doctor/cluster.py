"""Checks of kubectl, the cluster, and the user's permissions there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from kubestow.live.capture import CaptureOptions
from kubestow.live.capture_kinds import Resource, listed, served
from kubestow.live.capture_kubectl import Kubectl, KubectlError, RequestRefused
from kubestow.models.documents.doctor import Examined
from kubestow.report.documents.output import some

#: Kinds without which no snapshot can be captured.
_ESSENTIAL: Final = ("Pod", "Node")
#: Permissions of `kubestow apply` in addition to reading: verb, resource, namespace (None: all). docs/apply-role.yaml lists them too.
_APPLIES: Final = (
    ("patch", "nodes", None),
    ("patch", "pods", None),
    ("create", "pods/eviction", None),
    ("create", "pods/binding", None),
    ("watch", "pods", None),
    ("create", "leases.coordination.k8s.io", "kube-system"),
)
#: Number of kinds that a message names.
_MAX_NAMED: Final = 6


def examine(options: CaptureOptions, *, contact: bool, needed: bool) -> Iterator[Examined]:
    """Yield the checks. ``contact``: also check the cluster, which must answer. ``needed``: kubectl must be installed."""
    kubectl = Kubectl(options.kubectl, options.arguments(), options.timeout)
    try:
        version = kubectl.client_version()
    except KubectlError as error:
        why = "`capture` and `--context` need it, files do not: https://kubernetes.io/docs/tasks/tools/"
        yield Examined("kubectl", "failed" if needed else "note", "does not run", f"{error}; {why}")
        return
    yield Examined("kubectl", "ok", f"{version}, {options.kubectl}")
    if not contact:
        yield Examined("cluster", "ok", "not checked: --context NAME checks a cluster, and your permissions there")
        return
    try:
        yield Examined("context", "ok", options.context or kubectl.context() or "none (in a pod, for instance)")
        yield from _cluster(kubectl)
    except (KubectlError, RequestRefused) as error:
        yield Examined("cluster", "failed", "does not answer", str(error))


def _cluster(kubectl: Kubectl) -> Iterator[Examined]:
    yield Examined("cluster", "ok", f"Kubernetes {kubectl.server_version()}")
    resources = served(listed(kubectl.resources()[0])).resources
    denied = [each for each in resources if not kubectl.may("list", each.label)]
    yield _reading(resources, denied)
    refused = [(verb, what, where) for verb, what, where in _APPLIES if not kubectl.may(verb, what, where)]
    if not refused:
        yield Examined("apply may", "ok", "everything it needs")
        return
    found = ", ".join(f"{verb} {what}" for verb, what, _ in refused)
    yield Examined("apply may", "note", f"not {found}", "`kubestow apply` would be refused; docs/apply-role.yaml lists its permissions")


def _reading(resources: Sequence[Resource], denied: Sequence[Resource]) -> Examined:
    """Return whether the kinds that a capture reads may be listed, as a line of the report."""
    if not denied:
        return Examined("capture may", "ok", f"list all {len(resources)} kinds that it reads")
    names = [each.label for each in denied]
    essential = [each.label for each in denied if each.kind.name in _ESSENTIAL]
    meaning = f"no snapshot without {' and '.join(essential)}" if essential else "a snapshot without these is incomplete, with a note"
    found = f"not list {some(names, _MAX_NAMED)}"
    return Examined("capture may", "failed" if essential else "note", found, f"{meaning}; docs/capture-role.yaml lists its permissions")
