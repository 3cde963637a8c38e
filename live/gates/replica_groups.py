"""The pods of a placement's workloads in the cluster, grouped by controller."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from kubestow.live.api.answers import Object
from kubestow.live.gates.gated_pods import controller_uid, is_held, is_living, is_over, key_of, node_of
from kubestow.models.execution.template_nodes import TemplateNodes
from kubestow.models.kube.workload_objects import PodSetSpec
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.models.workloads.ownership import owner_names, shared_labels

T = TypeVar("T")
#: Workloads that create pods through another kind.
_BETWEEN: Final = {"Deployment": "ReplicaSet", "CronJob": "Job"}
_REVISION: Final = "deployment.kubernetes.io/revision"


class ReplicaReader(Protocol):
    """Read access to a cluster, implemented by :class:`kubestow.live.api.live_cluster.LiveCluster`."""

    def objects(self, kind: str) -> Mapping[str, Object]: ...
    def named(self, kind: str, name: str, namespace: str | None = None) -> Object | None: ...
    def pod(self, uid: str) -> Object | None: ...
    def pods_of(self, owner_uid: str) -> list[Object]: ...
    def mentioning(self, kind: str, words: Collection[bytes]) -> Iterator[Object]: ...
    async def refresh(self) -> None: ...
    async def until(self, found: Callable[[], T | None], seconds: float) -> T | None: ...
    async def read_snapshot(self) -> Snapshot: ...


@dataclass(frozen=True)
class ReplicaGroup:
    """The pods of one template with the same controller.

    Each ReplicaSet of a Deployment is a group of its own, because during a rollout the next one gets as many pods.

    Attributes:
        template: The workload of the placement.
        owner: Uid of the controller.
        pods: Live pods, the oldest first.
        over: Number of finished pods.
    """

    template: TemplateNodes
    owner: str
    pods: list[Object]
    over: int = 0

    @property
    def gated(self) -> list[Object]:
        """The pods behind the gate."""
        return [pod for pod in self.pods if is_held(pod)]

    def short(self) -> list[str]:
        """Return the nodes with missing pods of the template in bind order, once for each missing pod."""
        lacking = Counter(self.template.nodes)
        lacking.subtract(node_of(pod) for pod in self.pods if not is_held(pod))
        ordered = [assignment.node for assignment in self.template.assignments]
        ordered += sorted((Counter(self.template.nodes) - Counter(ordered)).elements())  # nodes of pods that ran before
        found = []
        for node in ordered:
            if lacking[node] > 0:
                lacking[node] -= 1
                found.append(node)
        return found

    def chosen(self, missing: Collection[str] = ()) -> list[tuple[Object, str | None]]:
        """Return the held pods with their nodes; None for pods beyond the planned number.

        ``missing``: nodes that do not exist. They come last, which matters if there are fewer held pods than nodes.
        """
        if self.template.by_name:
            return [(pod, self.template.by_name.get(pod["metadata"]["name"])) for pod in self.gated]
        nodes: list[str | None] = [*sorted(self.short(), key=lambda node: node in missing)]
        gated = self.gated
        return list(zip(gated, [*nodes, *([None] * len(gated))], strict=False))


def workload_of(cluster: ReplicaReader, template: TemplateNodes) -> Object | None:
    """Return the object of a workload; None if it does not exist."""
    return cluster.named(template.kind, template.name, template.namespace)


def replica_groups(cluster: ReplicaReader, template: TemplateNodes) -> list[ReplicaGroup]:
    """Return the pods of a workload by controller, the newest last; empty if the workload does not exist."""
    if template.pod_set is not None:
        return [_group(template, "", list(_pods_of_set(cluster, template.pod_set, template.namespace)))]
    found = workload_of(cluster, template)
    if found is None or template.kind == "PodTemplate":
        return []
    if template.kind == "Pod":
        return [_group(template, "", [found])]
    controllers = [found]
    if template.kind in _BETWEEN:
        uid = found["metadata"]["uid"]
        controllers = [obj for obj in cluster.objects(_BETWEEN[template.kind]).values() if controller_uid(obj) == uid]
        controllers.sort(key=_age)
    return [_group(template, uid, cluster.pods_of(uid)) for uid in (controller["metadata"]["uid"] for controller in controllers)]


def _pods_of_set(cluster: ReplicaReader, spec: PodSetSpec, namespace: str) -> Iterator[Object]:
    """Yield the pods of a custom workload, by their controllers' names and their labels: its own object is not read."""
    names, labels = owner_names(spec), shared_labels(spec)
    for pod in cluster.objects("Pod").values():
        owner = next((each for each in pod["metadata"].get("ownerReferences") or () if each.get("controller")), None)
        if owner is None or spec.owner is None or pod["metadata"].get("namespace") != namespace or owner.get("kind") != spec.owner.kind:
            continue
        if names.fullmatch(owner.get("name", "")) and labels.items() <= (pod["metadata"].get("labels") or {}).items():
            yield pod


def asked_for(cluster: ReplicaReader, template: TemplateNodes) -> int:
    """Return the number of pods that a gang needs: as placed, or fewer if the workload was scaled down."""
    planned = sum(template.nodes.values())
    spec = (workload_of(cluster, template) or {}).get("spec") or {}
    stated = spec.get("replicas", spec.get("parallelism"))
    return min(planned, stated) if isinstance(stated, int) and template.kind != "Pod" else planned


def scaled_down(cluster: ReplicaReader, template: TemplateNodes) -> str:
    """Return a sentence for a workload that was scaled down below the placement; empty for others."""
    planned, desired = sum(template.nodes.values()), asked_for(cluster, template)
    return f"{template.ref} was scaled to {desired}: its placement has {planned} pods" if desired < planned else ""


def _group(template: TemplateNodes, owner: str, pods: list[Object]) -> ReplicaGroup:
    living = [pod for pod in pods if is_living(pod)]
    living.sort(key=lambda pod: (pod["metadata"].get("creationTimestamp") or "", key_of(pod)))
    return ReplicaGroup(template, owner, living, sum(map(is_over, pods)))


def _age(controller: Object) -> tuple[int, str]:
    revision: Any = (controller["metadata"].get("annotations") or {}).get(_REVISION, "0")
    return int(revision) if str(revision).isdigit() else 0, controller["metadata"].get("creationTimestamp") or ""
