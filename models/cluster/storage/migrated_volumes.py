"""In-tree volumes under CSI migration.

On nodes whose CSINode lists the plugin as migrated, the scheduler reads them as volumes of the CSI driver.

Sources: k8s.io/csi-translation-lib; isCSIMigrationOn of nodevolumelimits/utils.go and tryTranslatePVToCSI of volumebinding/binder.go in
pkg/scheduler/framework/plugins. The scheduler translates neither azure-file nor vsphere-volume.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

import msgspec

from kubestow.models.kube import objects
from kubestow.models.kube.storage_objects import CSINode, PersistentVolume

ANNOTATION: Final = "storage.alpha.kubernetes.io/migrated-plugins"
_ZONE: Final = "topology.kubernetes.io/zone"
_REGION: Final = "topology.kubernetes.io/region"
_BETA_ZONE: Final = "failure-domain.beta.kubernetes.io/zone"
_BETA_REGION: Final = "failure-domain.beta.kubernetes.io/region"
_AWS_PREFIX: Final = "aws://"
_AWS_VOLUME: Final = re.compile(r"vol-[^/]*")
_change = msgspec.structs.replace


class Plugin(NamedTuple):
    """An in-tree plugin whose volumes the scheduler translates.

    Attributes:
        driver: The CSI driver that replaces it.
        topology: The zone key of the driver. None if the translation does not change the node affinity.
    """

    driver: str
    topology: str | None


#: Plugins that the scheduler translates, by name.
PLUGINS: Final = {
    "kubernetes.io/aws-ebs": Plugin("ebs.csi.aws.com", "topology.ebs.csi.aws.com/zone"),
    "kubernetes.io/gce-pd": Plugin("pd.csi.storage.gke.io", "topology.gke.io/zone"),
    "kubernetes.io/azure-disk": Plugin("disk.csi.azure.com", None),
    "kubernetes.io/cinder": Plugin("cinder.csi.openstack.org", "topology.cinder.csi.openstack.org/zone"),
    "kubernetes.io/portworx-volume": Plugin("pxd.portworx.com", None),
}
#: Plugins with a CSI driver that the scheduler does not translate. Their volumes count for no limit.
NEVER_COUNTED: Final = frozenset(("kubernetes.io/azure-file", "kubernetes.io/vsphere-volume"))


def migrated(csi_node: CSINode | None) -> frozenset[str]:
    """Return the translated plugins that a node has migrated."""
    text = (csi_node.metadata.annotations or {}).get(ANNOTATION) if csi_node is not None else None
    return frozenset((text or "").split(",")).intersection(PLUGINS)


def plugin_of(volume: PersistentVolume) -> str | None:
    """Return the plugin of an in-tree volume that the scheduler translates, or None for other volumes."""
    spec = volume.spec
    if spec is None or spec.csi is not None:
        return None
    sources = (spec.awsElasticBlockStore, spec.gcePersistentDisk, spec.azureDisk, spec.cinder, spec.portworxVolume)
    return next((name for name, source in zip(PLUGINS, sources, strict=True) if source is not None), None)


def handle(volume: PersistentVolume) -> str | None:
    """Return the CSI handle of a volume of :func:`plugin_of`, or None if it cannot be translated, which is an error."""
    spec, labels = volume.spec, volume.metadata.labels or {}
    if spec is None:
        return None
    if spec.awsElasticBlockStore is not None:
        return aws_volume(spec.awsElasticBlockStore.volumeID or "")
    if spec.gcePersistentDisk is not None:
        place = _gce_place((labels.get(_BETA_ZONE) or labels.get(_ZONE) or "").split("__"))
        return None if place is None else f"projects/UNSPECIFIED/{place}/disks/{spec.gcePersistentDisk.pdName or ''}"
    if spec.azureDisk is not None:
        return (spec.azureDisk.diskURI or "") if (spec.azureDisk.kind or "managed").lower() == "managed" else None
    source = spec.cinder if spec.cinder is not None else spec.portworxVolume
    return None if source is None else source.volumeID or ""


def aws_volume(text: str) -> str | None:
    """Return the volume of an ID such as ``aws://zone/vol-1`` or ``vol-1``, or None if malformed (KubernetesVolumeIDToEBSVolumeID)."""
    if not text.startswith(_AWS_PREFIX):
        return text
    volume = text.removeprefix(_AWS_PREFIX).partition("/")[2].partition("?")[0].strip("/")
    return volume if _AWS_VOLUME.fullmatch(volume) else None


def _gce_place(zones: list[str]) -> str | None:
    if len(zones) == 1:
        return f"zones/{zones[0] or 'UNSPECIFIED'}"
    parts = [zone.split("-") for zone in zones]
    regions = {"-".join(each[:2]) for each in parts}
    return f"regions/{regions.pop()}" if len(regions) == 1 and all(len(each) == 3 for each in parts) else None


def node_affinity(volume: PersistentVolume, key: str) -> objects.NodeSelector | None:
    """Return the node affinity of a volume after translation to the driver's zone ``key`` (translateTopologyFromInTreeToCSI)."""
    affinity = volume.spec.nodeAffinity if volume.spec is not None else None
    required = affinity.required if affinity is not None else None
    terms = (required.nodeSelectorTerms if required is not None else None) or []
    labels = volume.metadata.labels or {}
    inside = {expression.key for term in terms for expression in term.matchExpressions or ()}
    beta = _ZONE not in inside and (_BETA_ZONE in inside or (_ZONE not in labels and _BETA_ZONE in labels))
    zone = _BETA_ZONE if beta else _ZONE
    renamed = {_BETA_REGION: _REGION} if beta and _values(terms, _BETA_REGION) else {}
    added: list[objects.NodeSelectorRequirement] = []
    if _values(terms, zone):
        renamed[zone] = key
    elif zone in labels:
        zones = sorted({part.strip() for part in labels[zone].split("__")} - {""})
        added = [objects.NodeSelectorRequirement(key, "In", zones)] if zones else []
        terms = terms or ([objects.NodeSelectorTerm()] if zones else [])
    if not (renamed or added):
        return required
    return objects.NodeSelector([_term(term, renamed, added) for term in terms])


def _values(terms: list[objects.NodeSelectorTerm], key: str) -> bool:
    return any(each.key == key and each.values for term in terms for each in term.matchExpressions or ())


def _term(
    term: objects.NodeSelectorTerm, renamed: dict[str, str], added: list[objects.NodeSelectorRequirement]
) -> objects.NodeSelectorTerm:
    kept = [_change(each, key=renamed.get(each.key, each.key)) for each in term.matchExpressions or ()]
    return _change(term, matchExpressions=[*kept, *added] or None)
