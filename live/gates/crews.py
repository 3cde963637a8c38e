"""Which pods of the cluster are those of a placement's workloads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from kubestow.live.api.answers import Object
from kubestow.live.gates.held import controller_uid, is_held, is_living, is_over, key_of, node_of
from kubestow.models.execution.template_nodes import TemplateNodes
from kubestow.models.snapshot.snapshot import Snapshot

T = TypeVar("T")
#: What a workload makes that then makes the pods.
_BETWEEN: Final = {"Deployment": "ReplicaSet", "CronJob": "Job"}
_REVISION: Final = "deployment.kubernetes.io/revision"


class Cluster(Protocol):
    """What is read of a cluster, which :class:`kubestow.live.api.live_cluster.LiveCluster` has."""

    def objects(self, kind: str) -> Mapping[str, Object]: ...
    def named(self, kind: str, name: str, namespace: str | None = None) -> Object | None: ...
    def pod(self, uid: str) -> Object | None: ...
    def pods_of(self, owner_uid: str) -> list[Object]: ...
    def mentioning(self, kind: str, words: Collection[bytes]) -> Iterator[Object]: ...
    async def refresh(self) -> None: ...
    async def until(self, found: Callable[[], T | None], seconds: float) -> T | None: ...
    async def read_snapshot(self) -> Snapshot: ...


@dataclass(frozen=True)
class Crew:
    """The pods of one template that one controller made. Each ReplicaSet of a Deployment counts by itself: the next one is to have as many
    pods while the Deployment is rolled out.

    ``owner``: the controller's uid. ``pods``: those that live, the oldest first. ``over``: how many have ended.
    """

    template: TemplateNodes
    owner: str
    pods: list[Object]
    over: int = 0

    @property
    def held(self) -> list[Object]:
        """Return the pods behind the gate."""
        return [pod for pod in self.pods if is_held(pod)]

    def short(self) -> list[str]:
        """Return the nodes that have fewer pods of the template than it is to have there, in bind order, each as often as pods lack."""
        lacking = Counter(self.template.nodes)
        lacking.subtract(node_of(pod) for pod in self.pods if not is_held(pod))
        ordered = [assignment.node for assignment in self.template.assignments]
        ordered += sorted((Counter(self.template.nodes) - Counter(ordered)).elements())  # of pods that ran before
        found = []
        for node in ordered:
            if lacking[node] > 0:
                lacking[node] -= 1
                found.append(node)
        return found

    def chosen(self, missing: Collection[str] = ()) -> list[tuple[Object, str | None]]:
        """Return the held pods with the nodes that they are to get; None for those beyond what the template is to have.

        ``missing``: nodes that are not there. They come last, which matters where fewer pods are held than nodes are short of one.
        """
        if self.template.by_name:
            return [(pod, self.template.by_name.get(pod["metadata"]["name"])) for pod in self.held]
        nodes: list[str | None] = [*sorted(self.short(), key=lambda node: node in missing)]
        held = self.held
        return list(zip(held, [*nodes, *([None] * len(held))], strict=False))


def workload_of(cluster: Cluster, template: TemplateNodes) -> Object | None:
    """Return the object of a workload."""
    return cluster.named(template.kind, template.name, template.namespace)


def crews(cluster: Cluster, template: TemplateNodes) -> list[Crew]:
    """Return the pods of a workload by controller, the newest controller last; none where nothing of it is there."""
    found = workload_of(cluster, template)
    if found is None or template.kind == "PodTemplate":
        return []
    if template.kind == "Pod":
        return [_crew(template, "", [found])]
    controllers = [found]
    if template.kind in _BETWEEN:
        uid = found["metadata"]["uid"]
        controllers = [obj for obj in cluster.objects(_BETWEEN[template.kind]).values() if controller_uid(obj) == uid]
        controllers.sort(key=_age)
    return [_crew(template, uid, cluster.pods_of(uid)) for uid in (controller["metadata"]["uid"] for controller in controllers)]


def asked_for(cluster: Cluster, template: TemplateNodes) -> int:
    """Return how many pods are to be there before a gang may go: those of the placement, or fewer where the workload was scaled down."""
    planned = sum(template.nodes.values())
    spec = (workload_of(cluster, template) or {}).get("spec") or {}
    stated = spec.get("replicas", spec.get("parallelism"))
    return min(planned, stated) if isinstance(stated, int) and template.kind != "Pod" else planned


def scaled_down(cluster: Cluster, template: TemplateNodes) -> str:
    """Return a sentence for a workload that asks for fewer pods than the placement has, empty for others."""
    planned, asked = sum(template.nodes.values()), asked_for(cluster, template)
    return f"{template.ref} was scaled to {asked}: the placement has {planned} pods of it" if asked < planned else ""


def _crew(template: TemplateNodes, owner: str, pods: list[Object]) -> Crew:
    living = [pod for pod in pods if is_living(pod)]
    living.sort(key=lambda pod: (pod["metadata"].get("creationTimestamp") or "", key_of(pod)))
    return Crew(template, owner, living, sum(map(is_over, pods)))


def _age(controller: Object) -> tuple[int, str]:
    revision: Any = (controller["metadata"].get("annotations") or {}).get(_REVISION, "0")
    return int(revision) if str(revision).isdigit() else 0, controller["metadata"].get("creationTimestamp") or ""
