"""A cluster of the stand-in in which gated manifests are applied, and what takes the gates off there."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kubestow.checker.journal.judge import Judgement, ReleaseClusters, judge_gated
from kubestow.commands.apply.remaining_steps import judge_rest
from kubestow.live.api.connect import connect
from kubestow.live.api.connection import ConnectionLimits
from kubestow.live.api.live_cluster import LiveCluster
from kubestow.live.apply.journal import Journal, JournaledApi, RunOrigin
from kubestow.live.gates.gates import Gates, ReleaseListener, ReleaseOptions
from kubestow.live.gates.places import GatePlaces
from kubestow.models.documents.journal import read
from kubestow.models.documents.placement import Assignment, GangResult, Placement, SnapshotRef
from kubestow.models.execution.template_nodes import GATE, TemplateNodes, template_nodes
from kubestow.models.kube.objects import pod_key
from kubestow.models.snapshot.snapshot import from_objects
from kubestow.models.workloads.expand import expand
from tests.api_server import Behaviour, Server, SimulatedCluster
from tests.objects import Object

LIMITS = ConnectionLimits(pause=0.001)


def workload(kind: str, name: str = "web", cpu: str = "1", affinity: Object | None = None, **spec: Any) -> Object:
    """Return a workload whose pods have this request."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    inner: Object = {"containers": [container], "schedulingGates": [{"name": GATE}]}
    if affinity is not None:
        inner["affinity"] = affinity
    template = {"metadata": {"labels": {"app": name}}, "spec": inner}
    api = "batch/v1" if kind == "Job" else "v1" if kind == "ReplicationController" else "apps/v1"
    labels = {"app": name} if kind == "ReplicationController" else {"matchLabels": {"app": name}}
    chosen = {} if kind == "Job" else {"selector": labels}
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": api, "kind": kind, "metadata": metadata, "spec": {**chosen, "template": template, **spec}}


class Told(ReleaseListener):
    """Keeps the calls of a listener."""

    def __init__(self) -> None:
        self.nodes: dict[str, str | None] = {}
        self.notes: list[str] = []

    def placed(self, pod: str, node: str | None) -> None:
        self.nodes[pod] = node

    def note(self, message: str) -> None:
        self.notes.append(message)


@dataclass
class Stage:
    """A world, and a placement of manifests in it: the nodes that the pods get in their order. ``journaled``: what is done is held against
    the placement by ``kubestow verify --journal``."""

    cluster: Sequence[Object]
    manifests: Sequence[Object]
    nodes: Sequence[str]
    orders: Sequence[int] = ()
    behaviour: Behaviour = field(default_factory=Behaviour)
    options: ReleaseOptions = field(default_factory=lambda: ReleaseOptions(timeout=60, pause=0.01))
    told: Told = field(default_factory=Told)
    journaled: bool = True

    def __post_init__(self) -> None:
        self.world = SimulatedCluster(self.behaviour)
        self.world.load(list(self.cluster))
        self.before = before = from_objects(self.world.items())
        self.added = added = expand(before, from_objects([_ungated(each) for each in self.manifests], manifests=True))
        waiting = [pod for pod in added.snapshot.pods if not pod.spec.nodeName and pod_key(pod) in added.snapshot.to_create]
        gangs = [(pod.metadata.annotations or {}).get("kubestow.dev/gang") for pod in waiting]
        names = [f"default/{gang}" if gang else None for gang in gangs]
        orders = self.orders or range(1, len(waiting) + 1)
        zipped = zip(waiting, self.nodes, orders, names, strict=False)
        assignments = [Assignment(pod_key(pod), node, order, gang) for pod, node, order, gang in zipped]
        found = sorted({name for name in names if name})
        results = [GangResult(gang, names.count(gang), names.count(gang), names.count(gang)) for gang in found]
        ref = SnapshotRef("", len(before.nodes), len(waiting), len(waiting), workloads=added.workloads)
        self.placement = Placement(ref, "exact", "optimal", [], assignments, gangs=results)
        self.templates: list[TemplateNodes] = template_nodes(before, added.snapshot, added.workloads, self.placement)

    def apply(self) -> None:
        """Create the objects that are not there."""
        for each in self.manifests:
            if self.world.get(each["kind"], f"default/{each['metadata']['name']}") is None:
                self.world.create(copy.deepcopy(each), "kubectl")

    def pods(self, app: str | None = None) -> dict[str, str]:
        """Return the nodes of pods by name, empty for none."""
        labelled = [pod for pod in self.world.all("Pod") if app is None or (pod["metadata"].get("labels") or {}).get("app") == app]
        return {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in labelled}

    def counts(self, app: str) -> dict[str, int]:
        """Return the number of a workload's pods on each node; unbound pods under an empty name."""
        nodes = sorted(self.pods(app).values())
        return {node: nodes.count(node) for node in nodes}

    def held(self) -> list[str]:
        """Return the pods behind the gate."""
        gated = [pod for pod in self.world.all("Pod") if {"name": GATE} in (pod["spec"].get("schedulingGates") or [])]
        return sorted(pod["metadata"]["name"] for pod in gated)

    def run(self, folder: Path, use: Callable[[Gates], Awaitable[Any]]) -> Any:
        """Let something be done with the gates, in the cluster as it is."""

        async def within() -> Any:
            async with self.gates(folder) as gates:
                return await use(gates)

        with Server(self.world) as self.server:
            done = asyncio.run(asyncio.wait_for(within(), 30))
        if self.journaled:
            judged = self.judged(folder)
            assert judged.violations == []
        return done

    def judged(self, folder: Path) -> Judgement:
        """Return the checker's judgement of the journal and the current world."""
        clusters = ReleaseClusters(self.added.snapshot, self.before, from_objects(self.world.items()))
        return judge_gated(read(str(folder / "p.journal.jsonl")), self.placement, clusters, digest="r")

    @asynccontextmanager
    async def gates(self, folder: Path, told: Told | None = None) -> AsyncIterator[Gates]:
        """Connect to the server that runs."""
        config = str(self.server.kubeconfig(folder / "config"))
        async with connect(config, limits=LIMITS) as api:
            cluster = LiveCluster(api)
            await cluster.start()
            try:
                gates = Gates(api, cluster, self.placement, self.templates, judge_rest, self.options, told or self.told)
                if self.journaled:
                    origin = RunOrigin("r", self.placement.snapshot.sha256, "https://127.0.0.1")
                    async with Journal.open(str(folder / "p.journal.jsonl"), origin, resume=True) as journal:
                        asking = JournaledApi(api, journal)
                        yield replace(gates, api=asking, places=GatePlaces(journal, asking.of, cluster, self.templates))
                else:
                    yield gates
            finally:
                await cluster.close()


def _ungated(manifest: Object) -> Object:
    found = copy.deepcopy(manifest)
    spec = found["spec"] if found["kind"] == "Pod" else found["spec"].get("template", {}).get("spec", {})
    spec.pop("schedulingGates", None)
    return found
