"""The cordon of nodes to be drained: a drain begins with it, so a plan is made for the cluster that has it.

A cordon changes more than where pods may land. Spread constraints with ``nodeTaintsPolicy: Honor`` do not count a node whose taint the pod
does not tolerate. The node lifecycle controller adds that taint to every cordoned node
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
    """Return the snapshot with some nodes cordoned, each with the taint of a cordon; the snapshot itself if no node is named."""
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
