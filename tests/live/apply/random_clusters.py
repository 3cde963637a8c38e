"""Random clusters with something to do in them, and pods that compete for its room."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from kubestow.models.documents.placement import Placement
from kubestow.models.documents.rebalance_plan import Limits, RebalancePlan
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from kubestow.solver.rebalance.problem.options import PlanOptions
from kubestow.solver.rebalance.rebalance import rebalance
from kubestow.solver.runtime.options import Options
from kubestow.solver.solve import place
from tests.api_server import Behaviour, Faults, SimulatedCluster
from tests.plans import tiny

Object = dict[str, Any]

#: Kinds of documents that are run in a world.
TASKS: Final = ("drain", "repair", "consolidate", "improve", "admit", "placement", "gang")
#: How pods are called that nobody planned.
RIVAL: Final = "rival"
_FAST: Final = Options(engine="greedy", time_limit=5.0, workers=1, deterministic=True, causes=False)
_TRIES: Final = 60


@dataclass
class Posed:
    """A cluster, and a document of its snapshot that has something to do. ``start``: what was there then."""

    world: SimulatedCluster
    snapshot: Snapshot
    document: RebalancePlan | Placement
    seed: int
    start: list[Object]

    @property
    def cordoned(self) -> list[str]:
        """Return the nodes that nobody opens: cordoned before."""
        return sorted(node.metadata.name or "" for node in self.snapshot.nodes if node.spec is not None and node.spec.unschedulable)


def posed(task: str, seed: int, faults: Faults | None = None) -> Posed:
    """Return the first random cluster from this seed on in which the task leaves something to do."""
    for number in range(seed * _TRIES, (seed + 1) * _TRIES):
        objects = _cluster(task, number)
        if objects is None:
            continue
        world = SimulatedCluster(behaviour(task, number, faults))
        world.load(objects, templates_of_pods=True)
        if task not in ("placement", "gang"):
            world.settle()
        start = world.items()
        snapshot = from_objects(start)
        document = _asked(task, number, snapshot)
        if (document.moves or document.evictions) if isinstance(document, RebalancePlan) else document.assignments:
            return Posed(world, snapshot, document, number, start)
    raise AssertionError(f"no cluster for {task} from seed {seed}")


def behaviour(task: str, seed: int, faults: Faults | None = None) -> Behaviour:
    """Return the behaviour of a seed's world. If pods wait that fit somewhere, its scheduler is slower than the run."""
    rng = random.Random(f"behaviour-{task}-{seed}")
    slow = task in ("placement", "gang")
    return Behaviour(
        seed=seed,
        scheduler="slow" if slow else rng.choice(("at once", "random")),
        scheduling=30.0 if slow else 0.01,
        latency=rng.choice((0.0, 0.001)),
        recreate=rng.choice((0.0, 0.003)),
        start=rng.choice((0.0, 0.004)),
        ready=rng.choice((0.0, 0.004)),
        stop=rng.choice((0.0, 0.006)),
        budget=rng.choice((0.0, 0.002)),
        faults=faults or Faults(),
    )


def _cluster(task: str, seed: int) -> list[Object] | None:
    kind = {"improve": "consolidate", "placement": "mixed", "gang": "admit"}.get(task, task)
    found = tiny.cluster(seed, kind)
    gangs = any("kubestow.dev/gang" in (one["metadata"].get("annotations") or {}) for one in found if _waits(one))
    if task == "gang" and not gangs:
        return None
    if task in ("placement", "gang"):
        for one in found:
            if _waits(one) and task == "placement":
                one["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "100m"}}
    found = [one for one in found if "deletionTimestamp" not in one["metadata"]]
    if task == "admit" and seed % 3 == 1:
        found += _volumes(found)
    for one in found:
        if one["kind"] in ("ReplicaSet", "StatefulSet"):
            one["spec"]["replicas"] = sum(_owner(pod) == one["metadata"]["name"] for pod in found)
    return found


def _volumes(found: list[Object]) -> list[Object]:
    """Give each waiting pod a claim whose volume is made only when the scheduler has chosen a node; return class and claims."""
    claims: list[Object] = []
    for pod in filter(_waits, found):
        metadata = {"name": f"of-{pod['metadata']['name']}", "namespace": pod["metadata"]["namespace"]}
        spec = {"storageClassName": "late", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        claims.append({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec})
        pod["spec"].setdefault("volumes", []).append({"name": "data", "persistentVolumeClaim": {"claimName": metadata["name"]}})
    late = {"provisioner": "example.com/disk", "volumeBindingMode": "WaitForFirstConsumer", "metadata": {"name": "late"}}
    return [{"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", **late}, *claims]


def _owner(pod: Object) -> str:
    return next((str(each["name"]) for each in pod["metadata"].get("ownerReferences") or ()), "")


def _waits(one: Object) -> bool:
    return one["kind"] == "Pod" and "nodeName" not in one["spec"]


def _asked(task: str, seed: int, snapshot: Snapshot) -> RebalancePlan | Placement:
    if task in ("placement", "gang"):
        return place(snapshot, _FAST)
    limits = Limits(allowEviction=seed % 3 == 0, alsoMove=["bare", "local-storage"] if seed % 2 else [])
    if task == "drain":
        return rebalance(snapshot, PlanOptions((), (f"n{seed % 3}",), limits, _FAST))
    return rebalance(snapshot, PlanOptions((task,), (), limits, _FAST))


def add_rivals(posed: Posed) -> None:
    """Let pods that nobody planned appear at random requests of the run, which may fit where those of the document are to go."""
    rng = random.Random(f"rivals-{posed.seed}")
    for number in range(rng.randint(1, 3)):
        cpu = rng.choice((50, 100, 250, 500, 1000, 2000))
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": f"{cpu}m", "memory": "16Mi"}}}
        metadata = {"name": f"{RIVAL}-{number}", "namespace": "default"}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}
        posed.world.on_request(rng.randint(1, 14), partial(posed.world.create, pod))
