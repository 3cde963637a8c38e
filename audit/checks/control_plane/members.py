"""Which nodes and pods are the control plane, and which nodes are workers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from kubestow.models.kube.objects import Pod, is_terminal, is_terminating
from kubestow.models.snapshot.scope import is_mirror
from kubestow.models.snapshot.snapshot import Snapshot

API_SERVER: Final = "kube-apiserver"
ETCD: Final = "etcd"
#: Components that every control plane has.
USUAL: Final = (API_SERVER, "kube-controller-manager", "kube-scheduler", ETCD)
#: What pods call a component: itself, or as kops calls the members of its two etcd clusters.
_NAMES: Final = {name: name for name in USUAL} | {
    "etcd-manager-main": ETCD,
    "etcd-manager-events": "etcd-events",
}
_NAMESPACES: Final = frozenset(
    {"kube-system", "openshift-etcd", *(f"openshift-{name}" for name in USUAL if name != ETCD)},
)
#: node-role.kubernetes.io/… of nodes of the control plane; the last two are the names of older releases and of RKE.
_ROLES: Final = tuple(f"node-role.kubernetes.io/{role}" for role in ("control-plane", "master", "controlplane"))
_ETCD_ROLE: Final = "node-role.kubernetes.io/etcd"
_WORKER_ROLE: Final = "node-role.kubernetes.io/worker"


@dataclass(frozen=True)
class Component:
    """A component. ``homes``: the node of each instance, by name, in the order of the snapshot; ``pods``: their indices, none where only
    the role of nodes tells of the instances."""

    name: str
    homes: tuple[str, ...]
    pods: tuple[int, ...] = ()

    @property
    def is_etcd(self) -> bool:
        return self.name.startswith(ETCD)

    @property
    def noun(self) -> str:
        """Return what several of them are called."""
        return f"members of {self.name}" if self.is_etcd else self.name

    @property
    def needed(self) -> int:
        """Return how many instances must be left for it to work: a majority of etcd's members, one of the others."""
        return len(self.homes) // 2 + 1 if self.is_etcd else 1


@dataclass(frozen=True)
class Members:
    """A control plane. ``nodes``: names of those that have the role or run a component, in the order of the snapshot; ``by_role``: of
    those that have the role."""

    nodes: tuple[str, ...]
    by_role: tuple[str, ...]
    components: tuple[Component, ...]

    @property
    def etcd(self) -> Literal["stacked", "external", "unknown"]:
        """Return whether etcd's members share nodes with API servers (with nodes of the role where no API server is seen)."""
        homes = {home for part in self.components if part.is_etcd for home in part.homes}
        served = {home for part in self.components if part.name == API_SERVER for home in part.homes} or set(self.by_role)
        if not homes or not served:
            return "unknown"
        return "stacked" if homes & served else "external"

    @property
    def parts(self) -> tuple[Component, ...]:
        """The components, or where none is seen the nodes as if each could serve alone."""
        return self.components or (Component("nodes", self.nodes),)


def find(snapshot: Snapshot) -> Members | None:
    """Return the control plane that a snapshot shows; None where no node has the role and no API server runs as a pod, as in managed
    clusters and those whose control plane another cluster hosts."""
    labels = labels_of(snapshot)
    role = [name for name, own in labels.items() if any(key in own for key in _ROLES)]
    components = list(_components(snapshot))
    if not role and all(part.name != API_SERVER for part in components):
        return None
    if all(part.name != ETCD for part in components):
        members = tuple(name for name, own in labels.items() if _ETCD_ROLE in own)
        components += [Component(ETCD, members)] if members else []
    there = {*role, *(home for part in components for home in part.homes)}
    nodes = [name for name in labels if name in there]
    lost = sorted(there - labels.keys())  # nodes that the snapshot lacks
    return Members((*nodes, *lost), tuple(role), tuple(components))


def labels_of(snapshot: Snapshot) -> dict[str, Mapping[str, str]]:
    """Return the labels of each node, by name."""
    return {node.metadata.name or "": node.metadata.labels or {} for node in snapshot.nodes}


def workers(snapshot: Snapshot, members: Members | None) -> list[str]:
    """Names of the nodes that are not the control plane's, and of those that have both roles."""
    own = frozenset(members.nodes if members else ())
    return [name for name, labels in labels_of(snapshot).items() if name not in own or _WORKER_ROLE in labels]


def _components(snapshot: Snapshot) -> Iterator[Component]:
    found: dict[str, list[int]] = {}
    for i, pod in enumerate(snapshot.pods):
        if pod.metadata.namespace in _NAMESPACES and pod.spec.nodeName and not is_terminal(pod) and not is_terminating(pod):
            name = component_of(pod)
            if name is not None:
                found.setdefault(name, []).append(i)
    for name in sorted(found, key=lambda name: (name not in USUAL, USUAL.index(name) if name in USUAL else 0, name)):
        yield Component(name, tuple(_homes(snapshot, found[name])), tuple(found[name]))


def _homes(snapshot: Snapshot, pods: Iterable[int]) -> Iterator[str]:
    for i in pods:
        yield snapshot.pods[i].spec.nodeName or ""


def component_of(pod: Pod) -> str | None:
    """Return the component that a bound pod of a system namespace is an instance of.

    By its labels: ``component`` (kubeadm, RKE2), ``k8s-app`` (kops, Talos), ``app`` (OpenShift); else by its name, which for a static pod
    ends in the name of its node. etcd must be a static pod or of the tier control-plane: other software brings an etcd of its own.
    """
    labels = pod.metadata.labels or {}
    static = is_mirror(pod) or labels.get("tier") == "control-plane"
    for key in ("component", "k8s-app", "app"):
        name = _NAMES.get(labels.get(key, "").removeprefix("openshift-"))
        if name is not None and (static or not name.startswith(ETCD)):
            return name
    name, suffix = pod.metadata.name or "", f"-{pod.spec.nodeName}"
    if name.endswith(suffix):
        return _NAMES.get(name.removesuffix(suffix).removeprefix("openshift-"))
    return None
