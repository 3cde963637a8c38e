"""Nodes that are bought, as objects for a what-if: a file that is given beside the snapshot stands for the purchase."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Final

import msgspec

from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.models.workloads.daemon_sets import resident
from kubestow.report.documents import yaml_text

_HEAD: Final = """\
# Nodes that were bought, for a what-if: give this file beside the snapshot, as in `kubestow solve SNAPSHOT nodes.yaml`.
# DaemonSets' and static pods that such nodes run from the start are bound to them; CSINodes tell how many volumes they attach.
"""


def bought_nodes(snapshot: Snapshot, names: Collection[str]) -> bytes:
    """Return nodes of a snapshot as YAML, with their CSINodes and the DaemonSets' and static pods on them. ``snapshot``: with the edits
    that bought these nodes made."""
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
