"""CSI migration for the checker: the CSI equivalent of an in-tree PersistentVolume on a node that has migrated its plugin.

Written from k8s.io/csi-translation-lib (plugins/*.go) and from the two lists of plugins in kube-scheduler
(nodevolumelimits/utils.go, volumebinding/binder.go): aws-ebs, gce-pd, azure-disk, cinder and portworx-volume.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

from kubestow.models.kube import objects, storage_objects

_MIGRATED: Final = "storage.alpha.kubernetes.io/migrated-plugins"
#: Driver and zone key by the last part of the plugin's name.
_DRIVERS: Final = {
    "aws-ebs": ("ebs.csi.aws.com", "topology.ebs.csi.aws.com/zone"),
    "gce-pd": ("pd.csi.storage.gke.io", "topology.gke.io/zone"),
    "azure-disk": ("disk.csi.azure.com", ""),
    "cinder": ("cinder.csi.openstack.org", "topology.cinder.csi.openstack.org/zone"),
    "portworx-volume": ("pxd.portworx.com", ""),
}
_UNCOUNTED: Final = ("kubernetes.io/azure-file", "kubernetes.io/vsphere-volume")


class Broken(ValueError):
    """A volume that cannot be translated, for which the scheduler reports an error."""


def plugins(csi_node: storage_objects.CSINode) -> frozenset[str]:
    """Return the plugins that a node has migrated according to its CSINode."""
    return frozenset((csi_node.metadata.annotations or {}).get(_MIGRATED, "").split(","))


def provisioned(provisioner: str, migrated: frozenset[str]) -> str | None:
    """Return the CSI driver towards whose limit on a node a new volume counts; None if it counts towards none.

    Args:
        provisioner: Provisioner of the StorageClass.
        migrated: Plugins that the node has migrated.
    """
    name = provisioner.removeprefix("kubernetes.io/")
    if provisioner.startswith("kubernetes.io/") and name in _DRIVERS:
        return _DRIVERS[name][0] if provisioner in migrated else None
    return None if provisioner in _UNCOUNTED else provisioner


def _kind(volume: storage_objects.PersistentVolume, migrated: frozenset[str]) -> str | None:
    """Return the in-tree plugin of a volume without its prefix, if the node has migrated it; otherwise None."""
    spec = volume.spec
    if spec is None or spec.csi is not None or not migrated:
        return None
    given = {
        "aws-ebs": spec.awsElasticBlockStore, "gce-pd": spec.gcePersistentDisk, "azure-disk": spec.azureDisk, "cinder": spec.cinder,
        "portworx-volume": spec.portworxVolume,
    }  # fmt: skip
    return next((name for name, source in given.items() if source is not None and f"kubernetes.io/{name}" in migrated), None)


def attached(volume: storage_objects.PersistentVolume, migrated: frozenset[str]) -> tuple[str, str] | None:
    """Return the CSI driver and volume handle as which a volume counts towards the limit of a node.

    None if the volume is neither of a CSI driver nor of a migrated plugin, or if it cannot be translated.

    Args:
        migrated: Plugins that the node has migrated.
    """
    if volume.spec is not None and volume.spec.csi is not None:
        return volume.spec.csi.driver, volume.spec.csi.volumeHandle
    kind = _kind(volume, migrated)
    try:
        return None if kind is None else (_DRIVERS[kind][0], _handle(volume, kind))
    except Broken:
        return None


def affinity(volume: storage_objects.PersistentVolume, migrated: frozenset[str]) -> objects.NodeSelector | None:
    """Return the node selector that the scheduler applies for a bound volume on a node.

    Raises:
        Broken: the volume cannot be translated.
    """
    own = volume.spec.nodeAffinity.required if volume.spec is not None and volume.spec.nodeAffinity is not None else None
    kind = _kind(volume, migrated)
    if kind is None:
        return own
    _handle(volume, kind)
    key = _DRIVERS[kind][1]
    return _moved(own, volume.metadata.labels or {}, key) if key else own


def _handle(volume: storage_objects.PersistentVolume, kind: str) -> str:
    """Return the CSI volume handle.

    Raises:
        Broken: the volume cannot be translated.
    """
    spec, labels = volume.spec, volume.metadata.labels or {}
    assert spec is not None
    if spec.awsElasticBlockStore is not None and kind == "aws-ebs":
        text = spec.awsElasticBlockStore.volumeID or ""
        path = urlsplit(text).path.strip("/") if text.startswith("aws://") else None
        if path is not None and re.fullmatch("vol-[^/]*", path) is None:
            raise Broken(text)
        return text if path is None else path
    if spec.gcePersistentDisk is not None and kind == "gce-pd":
        zones = (labels.get("failure-domain.beta.kubernetes.io/zone") or labels.get("topology.kubernetes.io/zone") or "").split("__")
        where = f"zones/{zones[0]}" if zones[0] else "zones/UNSPECIFIED"
        if len(zones) > 1:
            regions = {zone.rpartition("-")[0] for zone in zones}
            if len(regions) != 1 or any(zone.count("-") != 2 for zone in zones):
                raise Broken(str(zones))
            where = f"regions/{min(regions)}"
        return f"projects/UNSPECIFIED/{where}/disks/{spec.gcePersistentDisk.pdName or ''}"
    if spec.azureDisk is not None and kind == "azure-disk":
        if spec.azureDisk.kind is not None and spec.azureDisk.kind.lower() != "managed":
            raise Broken(spec.azureDisk.kind)
        return spec.azureDisk.diskURI or ""
    source = spec.cinder if kind == "cinder" else spec.portworxVolume
    return (source.volumeID if source is not None else None) or ""


def _asked(selector: objects.NodeSelector | None) -> Iterator[objects.NodeSelectorRequirement]:
    for term in (selector.nodeSelectorTerms if selector is not None else None) or ():
        yield from term.matchExpressions or ()


def _moved(own: objects.NodeSelector | None, labels: dict[str, str], key: str) -> objects.NodeSelector | None:
    """Return a volume's node selector with its zones under the topology key of the CSI driver.

    Zones of the labels are added if the node selector names none. The beta key of the region becomes the stable one.

    Args:
        own: Node selector of the volume.
        labels: Labels of the volume.
        key: Topology key of the driver.
    """
    stable, old = "topology.kubernetes.io/", "failure-domain.beta.kubernetes.io/"
    keys = [each.key for each in _asked(own)]
    order = [prefix for place in (keys, labels) for prefix in (stable, old) if f"{prefix}zone" in place]
    prefix = order[0] if order else stable
    named = {each.key for each in _asked(own) if each.values}
    swap = {}
    extra: list[objects.NodeSelectorRequirement] = []
    if f"{prefix}zone" in named:
        swap[f"{prefix}zone"] = key
    elif f"{prefix}zone" in labels:
        zones = sorted({zone.strip() for zone in labels[f"{prefix}zone"].split("__") if zone.strip()})
        extra = [objects.NodeSelectorRequirement(key=key, operator="In", values=zones)] if zones else []
    if prefix == old and f"{old}region" in named:
        swap[f"{old}region"] = f"{stable}region"
    if not swap and not extra:
        return own
    terms = (own.nodeSelectorTerms if own is not None else None) or [objects.NodeSelectorTerm()]
    return objects.NodeSelector(
        [
            objects.NodeSelectorTerm(
                matchExpressions=[
                    *(objects.NodeSelectorRequirement(swap.get(e.key, e.key), e.operator, e.values) for e in term.matchExpressions or ()),
                    *extra,
                ],
                matchFields=term.matchFields,
            )
            for term in terms
        ]
    )
