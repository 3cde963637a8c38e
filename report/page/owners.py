"""The workload of each pod, by the name that an operator would use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from kubestow.models.kube import objects
from kubestow.models.snapshot.scope import is_mirror
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.models.workloads.ownership import PodOwners

_encoder: Final = msgspec.json.Encoder(order="deterministic")


def of_pods(snapshot: Snapshot, pods: Sequence[objects.Pod]) -> tuple[list[tuple[str, str]], list[int]]:
    """Return the workloads as (``Kind namespace/name``, namespace), in order of their first pods, and each pod's
    workload index.

    Pods of a ReplicaSet count for its Deployment (:class:`kubestow.models.workloads.ownership.PodOwners`). Static pods
    form one workload over all nodes, and bare pods with equal labels and spec form one workload.
    """
    owners = PodOwners(snapshot)
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
            key, name = _owner(pod, namespace, owners)
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


def _owner(pod: objects.Pod, namespace: str, owners: PodOwners) -> tuple[object, str]:
    """Return the identity of a workload, and its name."""
    if is_mirror(pod):
        name = (pod.metadata.name or "").removesuffix(f"-{pod.spec.nodeName}")
        text = f"Static {namespace}/{name}"
        return text, text
    text = owners.of(pod)
    if objects.controller_of(pod) is not None:
        return text, text
    spec = msgspec.structs.replace(pod.spec, nodeName=None)
    try:
        key: object = _encoder.encode((namespace, pod.metadata.labels, spec))
    except (ValueError, OverflowError):  # lone surrogates or numbers beyond 64 bits: equal to no other pod
        key = objects.pod_key(pod), id(pod)
    return key, text


def short(workload: str) -> str:
    """Return the short name of a workload in a result document. Grouped bare pods (``Pod ns/a,ns/b``) are named by the first."""
    first, comma, others = workload.partition(",")
    return f"{first} and {others.count(',') + 1} more" if comma and workload.startswith("Pod ") else workload
