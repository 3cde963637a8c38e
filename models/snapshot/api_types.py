"""Kubernetes' own kinds, the fields of their types, and the likely meaning of misspelt names.

The table next to this module is generated from the package lightkube-models, which in turn is generated from
Kubernetes' OpenAPI document (tests/models/snapshot/test_api_types.py).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from kubestow.models.kube import kinds
from kubestow.models.kube.lenient_decode import did_you_mean, shorten


class _Table(msgspec.Struct):
    """The generated table.

    Attributes:
        heads: The type of each kind; also of ``group/version Kind`` if a version has another type.
        types: Per type, its fields with their types; "" for a field without fields of its own.
    """

    source: str
    groups: dict[str, list[str]]
    heads: dict[str, str]
    types: dict[str, dict[str, str]]


TABLE: Final[_Table] = msgspec.json.decode(Path(__file__).with_name("api_types.json").read_bytes(), type=_Table)
#: Kinds of old manifests and dumps that Kubernetes no longer has.
_FORMER: Final = {
    "extensions": ("DaemonSet", "Deployment", "Ingress", "NetworkPolicy", "PodSecurityPolicy", "ReplicaSet", "Scale"),
    "policy": ("PodSecurityPolicy",),
    "networking.k8s.io": ("ClusterCIDR",),
    "resource.k8s.io": ("PodSchedulingContext", "ResourceClass", "ResourceClassParameters", "ResourceClaimParameters"),
    "settings.k8s.io": ("PodPreset",),
}
_OWN: Final = {
    group: {*TABLE.groups.get(group, ()), *_FORMER.get(group, ())} | {kind.name for kind in kinds.KINDS.values() if group in kind.groups}
    for group in (*TABLE.groups, *_FORMER)
}
#: Group of each kind of Kubernetes. The most common group comes last and wins.
_GROUP: Final = {kind: group for group in reversed(_OWN) for kind in _OWN[group]} | {
    kind.name: ("" if "" in kind.groups else min(kind.groups)) for kind in kinds.KINDS.values()
}
#: Lower-case spelling, or resource name (``pods``), to kind.
_SPELT: Final = {spelling: kind for kind in (*_GROUP, "List") for spelling in (f"{kind.lower()}s", kind.lower())}
#: Kinds that kubectl and the API server return instead of objects.
_ANSWERS: Final = {
    "Status": "an answer of the API server, no object",
    "Table": "a table as kubectl prints it",
}

#: Documents of kubestow, and the options that read them.
_OWN_DOCUMENTS: Final = {"Placement": "--result", "RebalancePlan": "--result", "Policy": "--policy"}
#: Groups of configuration files, which no API server has, and the programs that read them.
_CONFIGURATIONS: Final = {
    "kubescheduler.config.k8s.io": "kube-scheduler",
    "kubelet.config.k8s.io": "the kubelet",
    "kubeadm.k8s.io": "kubeadm",
    "kubecontrollermanager.config.k8s.io": "kube-controller-manager",
    "kubeproxy.config.k8s.io": "kube-proxy",
    "apiserver.config.k8s.io": "kube-apiserver",
    "kind.x-k8s.io": "kind",
}


class Unread(NamedTuple):
    """An object of a kind that is not read.

    Attributes:
        value: Returns the object as plain data.
        source: The file.
        namespace: Namespace of objects that state none.
    """

    kind: str
    api_version: str | None
    value: Callable[[], Any]
    source: str
    namespace: str


def group_of(api_version: str | None) -> str:
    """Return the API group; "" for core/v1."""
    return (api_version or "").rpartition("/")[0]


def is_own_group(api_version: str | None) -> bool:
    """Return True if the API group is Kubernetes' own. False for an object without apiVersion."""
    return bool(api_version) and group_of(api_version) in _OWN


def is_kubernetes(api_version: str | None, kind: str) -> bool:
    """Return True if Kubernetes itself has this kind."""
    return kind in _OWN.get(group_of(api_version), ())


def is_list_kind(kind: str) -> bool:
    """Return True if a kind is the list of a kind of Kubernetes, such as IngressList. It may have ``items: null``."""
    return kind.endswith("List") and kind.removesuffix("List") in _GROUP


def misnamed(api_version: str | None, kind: str, value: Callable[[], Any], *, strict: bool) -> str | None:
    """Return the error in the name of a kind that is not read; None for kinds that may be ignored.

    Args:
        value: Returns the object.
        strict: Also reject unknown kinds in Kubernetes' own groups. A cluster of a later version may have them.
    """
    group = group_of(api_version)
    if kind in _ANSWERS and group in ("", "meta.k8s.io"):
        return f"kind: got {kind}, {_ANSWERS[kind]}{_said(value())}; expected objects, as of kubectl get -o json"
    if (api_version and group not in _OWN and group.lower() not in _OWN) or is_kubernetes(api_version, kind):
        return None
    meant = _SPELT.get(kind.lower())
    if meant is not None and meant != kind:
        return f"kind: got {shorten(kind)}, expected {meant}"
    if meant is not None and api_version and (strict or not group or group not in _OWN):
        home = _GROUP.get(kind, "")
        return f"apiVersion: got {shorten(api_version)}, expected {f'{home}/v1' if home else 'v1'} for a {kind}"
    if not strict:
        return None
    near = did_you_mean(kind, _GROUP)
    if not api_version:
        return f"kind: unknown kind {shorten(kind)}{near}" if near else None
    return f"kind: {api_version} of Kubernetes has no kind {shorten(kind)}{near}"


def ignored_document(unread: Unread) -> str | None:
    """Return the warning about a document that is no cluster object; None for other documents.

    Such documents are inputs of kubestow's options and configuration files of other programs.
    """
    kind, group = unread.kind, group_of(unread.api_version)
    if group == "kubestow.dev":
        option = f": pass it with {_OWN_DOCUMENTS[kind]}" if kind in _OWN_DOCUMENTS else ""
        return f"a {shorten(kind)} of kubestow is not part of a snapshot and was ignored{option}"
    if kind == "DeschedulerPolicy" and group == "descheduler":
        return f"{unread.source}: a DeschedulerPolicy is no object of a cluster and was ignored: pass it to audit with --descheduler-policy"
    if group in _CONFIGURATIONS:
        return f"{unread.source}: a {shorten(kind)} is a configuration file of {_CONFIGURATIONS[group]} and was ignored"
    return None


def _said(value: Any) -> str:
    """Return the message of a Status in parentheses."""
    message = value.get("message") if isinstance(value, dict) else None
    return f" ({message[:200]})" if isinstance(message, str) and message else ""
