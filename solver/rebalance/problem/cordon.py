"""The cordon of drained nodes. A drain begins with a cordon, so the plan is made for the cordoned cluster.

A cordon affects more than landings. Spread constraints with ``nodeTaintsPolicy: Honor`` ignore a node whose
taint the pod does not tolerate. The node lifecycle controller adds that taint to every cordoned node
(https://kubernetes.io/docs/reference/labels-annotations-taints/#node-kubernetes-io-unschedulable).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import msgspec

from kubestow.models.kube.objects import Node, NodeSpec
from kubestow.models.kube.selectors import UNSCHEDULABLE_TAINT
from kubestow.models.snapshot.snapshot import Snapshot


def cordoned(snapshot: Snapshot, names: Collection[str]) -> Snapshot:
    """Return a snapshot in which the named nodes are cordoned and carry the cordon's taint.

    Without names, return the snapshot itself.
    """
    if not names:
        return snapshot
    among = frozenset(names)
    return replace(snapshot, nodes=[_cordoned(node) if node.metadata.name in among else node for node in snapshot.nodes])


def _cordoned(node: Node) -> Node:
    spec = node.spec or NodeSpec()
    taints = list(spec.taints or ())
    if not any((taint.key, taint.effect) == (UNSCHEDULABLE_TAINT.key, UNSCHEDULABLE_TAINT.effect) for taint in taints):
        taints.append(UNSCHEDULABLE_TAINT)
    return msgspec.structs.replace(node, spec=msgspec.structs.replace(spec, unschedulable=True, taints=taints))
