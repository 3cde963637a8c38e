"""Random small clusters with templates, and the most units of them found by adding unit after unit until the exact engine has no place."""

from __future__ import annotations

import random
from typing import Any

from kubestow.models.documents.placement import Edits
from kubestow.models.edits.edits import apply
from kubestow.models.snapshot import snapshot as snapshots
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.solver.runtime.options import Options
from kubestow.solver.solve import place
from tests import tiny

Object = dict[str, Any]

#: Nothing random needs more time than this.
SURE = Options(engine="exact", time_limit=30.0, workers=1, causes=False)
LEFT_OUT = Edits(withoutPending=True)


def drawn(seed: int, kind: str, templates: int = 1) -> tuple[Snapshot, Snapshot]:
    """Return a random cluster, and Deployments made of some of its pending pods."""
    rng = random.Random(f"fit-{kind}-{seed}")
    objects = tiny.snapshot(seed, kind, nodes=3, pods=5)
    pending = [o for o in objects if o["kind"] == "Pod" and "nodeName" not in o["spec"]]
    chosen = rng.sample(pending, min(templates, len(pending)))
    made = [deployment(f"t{i}", pod, rng.choice((1, 1, 2, 3))) for i, pod in enumerate(chosen)]
    snapshot, manifests = snapshots.from_objects(objects), snapshots.from_objects(made, manifests=True)
    snapshot.gates = manifests.gates = tiny.GATES if kind == "gated" else snapshot.gates
    return snapshot, manifests


def with_gangs(seed: int, kind: str) -> tuple[Snapshot, Snapshot]:
    """Return the same with one template or two that state gangs: of one name or their own, with a minimum, in one domain."""
    rng = random.Random(f"fit-gangs-{kind}-{seed}")
    snapshot, manifests = drawn(seed, kind, rng.choice((1, 1, 2)))
    for made in manifests.workloads.get("Deployment", ()):
        notes = {}
        if rng.random() < 0.5:
            notes["kubestow.dev/gang"] = "g"
        if rng.random() < 0.4:
            notes["kubestow.dev/min-member"] = str(rng.randint(1, 4))
        if rng.random() < 0.5:
            notes["kubestow.dev/required-topology"] = rng.choice((tiny.ZONE, tiny.RACK, tiny.HOST))
        made.spec.template.metadata.annotations = notes or None
    return snapshot, manifests


def deployment(name: str, pod: Object, replicas: int) -> Object:
    """Return a Deployment whose template is a pod's."""
    labels = {**pod["metadata"]["labels"], "deployment": name}
    spec = {key: value for key, value in pod["spec"].items() if key not in ("nodeName", "schedulingGates")}
    spec["containers"] = [_with_limits(container) for container in spec["containers"]]
    if "initContainers" in spec:
        spec["initContainers"] = [_with_limits(container) for container in spec["initContainers"]]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": pod["metadata"]["namespace"]},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"deployment": name}},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def _with_limits(container: Object) -> Object:
    """Return a container whose extended resources have limits equal to its requests, without which an API server refuses it."""
    requests = container.get("resources", {}).get("requests", {})
    limits = {name: amount for name, amount in requests.items() if "/" in name}
    return {**container, "resources": {**container["resources"], "limits": limits}} if limits else container


def all_fit(snapshot: Snapshot, manifests: Snapshot, replicas: list[str], *, partial: bool = True) -> bool:
    """Return whether the exact engine places every replica; it has to know."""
    edits = Edits(replicas=replicas, partial=partial, withoutPending=True)
    edited = apply(snapshot, manifests, edits).snapshot
    result = place(edited, SURE)
    tiers = [tier for tier in result.objective if tier.tier == "placed"]
    pending = result.snapshot.pending
    assert all(tier.value == tier.bound for tier in tiers) or len(result.assignments) == pending, "the exact engine does not know"
    return len(result.assignments) == pending
