"""Which workload each pod belongs to, by the name that an operator would use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from models import kube
from models.scope import is_mirror
from models.snapshot import Snapshot
from models.workload_owned import HASH

_encoder: Final = msgspec.json.Encoder(order="deterministic")


def of_pods(snapshot: Snapshot, pods: Sequence[kube.Pod]) -> tuple[list[tuple[str, str]], list[int]]:
    """The workloads as (``Kind namespace/name``, namespace), by first pod, and the place in that list of each pod's workload.

    A ReplicaSet stands for its Deployment: by its own owner reference, else by the pod-template-hash. Static pods are one workload over
    all nodes; bare pods of equal labels and spec are one.
    """
    above = {
        f"{obj.metadata.namespace or 'default'}/{obj.metadata.name}": owner.name
        for obj in snapshot.workloads.get("ReplicaSet", ())
        for owner in obj.metadata.ownerReferences or ()
        if owner.controller and owner.kind == "Deployment"
    }
    names: list[tuple[str, str]] = []
    ids: dict[object, int] = {}
    bare: dict[int, list[int]] = {}
    found = []
    memo: dict[tuple[int, int, str], int] = {}
    for i, pod in enumerate(pods):
        metadata = pod.metadata
        namespace = metadata.namespace or "default"
        known = (id(metadata.ownerReferences), id(metadata.labels), namespace)
        plain = metadata.ownerReferences is None or is_mirror(pod)
        at = None if plain else memo.get(known)
        if at is None:
            key, name = _owner(pod, namespace, above)
            at = ids.setdefault(key, len(ids))
            if at == len(names):
                names.append((name, namespace))
            if not plain:
                memo[known] = at
        if names[at][0].startswith("Pod "):
            bare.setdefault(at, []).append(i)
        found.append(at)
    for at, members in bare.items():
        if len(members) > 1:
            names[at] = (f"{names[at][0]} and {len(members) - 1} more", names[at][1])
    return names, found


def _owner(pod: kube.Pod, namespace: str, above: dict[str, str]) -> tuple[object, str]:
    """What tells a workload apart, and its name."""
    if is_mirror(pod):
        name = (pod.metadata.name or "").removesuffix(f"-{pod.spec.nodeName}")
        text = f"Static {namespace}/{name}"
        return text, text
    owner = kube.controller_of(pod)
    if owner is None:
        spec = msgspec.structs.replace(pod.spec, nodeName=None)
        try:
            key: object = _encoder.encode((namespace, pod.metadata.labels, spec))
        except (ValueError, OverflowError):  # lone surrogates, numbers beyond 64 bits: alike to no other pod
            key = kube.pod_key(pod), id(pod)
        return key, f"Pod {kube.pod_key(pod)}"
    text = f"{owner.kind} {namespace}/{owner.name}"
    if owner.kind == "ReplicaSet":
        suffix = (pod.metadata.labels or {}).get(HASH)
        deployment = above.get(f"{namespace}/{owner.name}")
        if deployment is None and suffix and owner.name.endswith(f"-{suffix}"):
            deployment = owner.name.removesuffix(f"-{suffix}")
        if deployment is not None:
            text = f"Deployment {namespace}/{deployment}"
    return text, text


def short(workload: str) -> str:
    """A workload of a result document: bare pods that are looked at together (``Pod ns/a,ns/b``) by their first."""
    first, comma, rest = workload.partition(",")
    return f"{first} and {rest.count(',') + 1} more" if comma and workload.startswith("Pod ") else workload
