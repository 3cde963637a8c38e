"""Purchased nodes as a file of Kubernetes objects that can be added to the snapshot."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Final

import msgspec

from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.models.workloads.daemon_sets import resident
from kubestow.report.documents import yaml_text

_HEAD: Final = """\
# Purchased nodes, for a what-if: pass this file in addition to the snapshot, as in `kubestow solve SNAPSHOT nodes.yaml`.
# It contains the DaemonSet and static pods of these nodes, and CSINodes with their volume limits.
"""


def bought_nodes(snapshot: Snapshot, names: Collection[str]) -> bytes:
    """Return nodes of a snapshot as YAML, with their CSINodes, DaemonSet pods and static pods.

    ``snapshot`` includes the purchased nodes.
    """
    return "---\n".join([_HEAD, *(yaml_text.dump(each) for each in _objects(snapshot, set(names)))]).encode()


def _objects(snapshot: Snapshot, names: set[str]) -> Iterator[dict[str, Any]]:
    for node in snapshot.nodes:
        if node.metadata.name in names:
            yield {"apiVersion": "v1", "kind": "Node", **msgspec.to_builtins(node)}
    for name, csi in snapshot.csi_nodes.items():
        if name in names:
            yield {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", **msgspec.to_builtins(csi)}
    for pod in snapshot.pods:
        if pod.spec.nodeName in names and resident(pod):
            yield {"apiVersion": "v1", "kind": "Pod", **msgspec.to_builtins(msgspec.structs.replace(pod, containerIds=None))}
