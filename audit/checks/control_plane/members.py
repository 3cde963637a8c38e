"""Nodes and pods of the control plane, and the worker nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from kubestow.models.kube.objects import Pod, is_terminal, is_terminating
from kubestow.models.snapshot.scope import is_mirror
from kubestow.models.snapshot.snapshot import Snapshot

API_SERVER: Final = "kube-apiserver"
ETCD: Final = "etcd"
#: Components of every control plane.
USUAL: Final = (API_SERVER, "kube-controller-manager", "kube-scheduler", ETCD)
#: Component by the name that pods use: its own, or those of kops for its two etcd clusters.
_NAMES: Final = {name: name for name in USUAL} | {
    "etcd-manager-main": ETCD,
    "etcd-manager-events": "etcd-events",
}
_NAMESPACES: Final = frozenset(
    {"kube-system", "openshift-etcd", *(f"openshift-{name}" for name in USUAL if name != ETCD)},
)
#: Roles of control-plane nodes. The last two are the names of older releases and of RKE.
_ROLES: Final = tuple(f"node-role.kubernetes.io/{role}" for role in ("control-plane", "master", "controlplane"))
_ETCD_ROLE: Final = "node-role.kubernetes.io/etcd"
_WORKER_ROLE: Final = "node-role.kubernetes.io/worker"


@dataclass(frozen=True)
class ControlPlaneComponent:
    """A component of the control plane.

    Attributes:
        name: Name of the component.
        homes: Node name of each instance, in snapshot order.
        pods: Indices of the instances. Empty if only node roles show them.
    """

    name: str
    homes: tuple[str, ...]
    pods: tuple[int, ...] = ()

    @property
    def is_etcd(self) -> bool:
        return self.name.startswith(ETCD)

    @property
    def noun(self) -> str:
        """The plural noun for its instances."""
        return f"members of {self.name}" if self.is_etcd else self.name

    @property
    def needed(self) -> int:
        """The number of instances that must remain: a majority for etcd, one for other components."""
        return len(self.homes) // 2 + 1 if self.is_etcd else 1


@dataclass(frozen=True)
class Members:
    """A control plane.

    Attributes:
        nodes: Names of the nodes that have the role or run a component, in snapshot order.
        by_role: Names of the nodes that have the role.
        components: The components.
    """

    nodes: tuple[str, ...]
    by_role: tuple[str, ...]
    components: tuple[ControlPlaneComponent, ...]

    @property
    def etcd(self) -> Literal["stacked", "external", "unknown"]:
        """Position of etcd: stacked if members share nodes with API servers (if none is visible, with nodes of the role)."""
        homes = {home for part in self.components if part.is_etcd for home in part.homes}
        served = {home for part in self.components if part.name == API_SERVER for home in part.homes} or set(self.by_role)
        if not homes or not served:
            return "unknown"
        return "stacked" if homes & served else "external"

    @property
    def parts(self) -> tuple[ControlPlaneComponent, ...]:
        """The components. If none is visible, the nodes, as if each could serve alone."""
        return self.components or (ControlPlaneComponent("nodes", self.nodes),)


def find(snapshot: Snapshot) -> Members | None:
    """Return the control plane of a snapshot.

    None if no node has the role and no API server runs as a pod, as in managed clusters or with a control plane
    hosted in another cluster.
    """
    labels = labels_of(snapshot)
    role = [name for name, own in labels.items() if any(key in own for key in _ROLES)]
    components = list(_components(snapshot))
    if not role and all(part.name != API_SERVER for part in components):
        return None
    if all(part.name != ETCD for part in components):
        members = tuple(name for name, own in labels.items() if _ETCD_ROLE in own)
        components += [ControlPlaneComponent(ETCD, members)] if members else []
    there = {*role, *(home for part in components for home in part.homes)}
    nodes = [name for name in labels if name in there]
    lost = sorted(there - labels.keys())  # nodes missing from the snapshot
    return Members((*nodes, *lost), tuple(role), tuple(components))


def labels_of(snapshot: Snapshot) -> dict[str, Mapping[str, str]]:
    """Return the labels of each node, by name."""
    return {node.metadata.name or "": node.metadata.labels or {} for node in snapshot.nodes}


def workers(snapshot: Snapshot, members: Members | None) -> list[str]:
    """Return the names of nodes outside the control plane, and of nodes with both roles."""
    own = frozenset(members.nodes if members else ())
    return [name for name, labels in labels_of(snapshot).items() if name not in own or _WORKER_ROLE in labels]


def _components(snapshot: Snapshot) -> Iterator[ControlPlaneComponent]:
    found: dict[str, list[int]] = {}
    for i, pod in enumerate(snapshot.pods):
        if pod.metadata.namespace in _NAMESPACES and pod.spec.nodeName and not is_terminal(pod) and not is_terminating(pod):
            name = component_of(pod)
            if name is not None:
                found.setdefault(name, []).append(i)
    for name in sorted(found, key=lambda name: (name not in USUAL, USUAL.index(name) if name in USUAL else 0, name)):
        yield ControlPlaneComponent(name, tuple(_homes(snapshot, found[name])), tuple(found[name]))


def _homes(snapshot: Snapshot, pods: Iterable[int]) -> Iterator[str]:
    for i in pods:
        yield snapshot.pods[i].spec.nodeName or ""


def component_of(pod: Pod) -> str | None:
    """Return the component to which a bound pod of a system namespace belongs.

    The component follows from the label ``component`` (kubeadm, RKE2), ``k8s-app`` (kops, Talos) or ``app``
    (OpenShift). Otherwise it follows from the name, which for a static pod ends with the node name. etcd must be a
    static pod or of the tier control-plane, because other software includes its own etcd.
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
