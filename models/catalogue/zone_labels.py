"""Location labels of a zone, inferred from the cluster's nodes: region, and the topologies of CSI drivers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kubestow.models.catalogue.checks import HOSTNAME, ZONE
from kubestow.models.snapshot.snapshot import Snapshot

_BETA: Final = "failure-domain.beta.kubernetes.io"
_REGION: Final = "topology.kubernetes.io/region"
_REGIONS: Final = (_REGION, f"{_BETA}/region")


def zone_labels(snapshot: Snapshot, zone: str) -> dict[str, str]:
    """Return the location labels of a node in a zone, without the zone label: keys with one value in every zone that is no node name.

    In a zone without nodes, a key whose values equal the zone names gets the zone, and a region key gets the region if there is only one.
    """
    keys = {f"{_BETA}/zone", *_REGIONS}
    for csi in snapshot.csi_nodes.values():
        keys.update(key for driver in (csi.spec.drivers if csi.spec else None) or () for key in driver.topologyKeys or ())
    found = {}
    for key in sorted(keys - {HOSTNAME, ZONE}):
        value = _value(_by_zone(snapshot, key), key, zone)
        if value is not None:
            found[key] = value
    return found


def _by_zone(snapshot: Snapshot, key: str) -> Mapping[str, set[str]]:
    """Return the values of a label by zone, or nothing if the label identifies nodes or varies within a zone."""
    found: dict[str, set[str]] = {}
    for node in snapshot.nodes:
        labels = node.metadata.labels or {}
        if key not in labels or ZONE not in labels:
            continue
        if labels[key] in (node.metadata.name, labels.get(HOSTNAME)):
            return {}
        found.setdefault(labels[ZONE], set()).add(labels[key])
    return found if all(len(values) == 1 for values in found.values()) else {}


def _value(by_zone: Mapping[str, set[str]], key: str, zone: str) -> str | None:
    if zone in by_zone:
        return min(by_zone[zone])
    if by_zone and all(values == {name} for name, values in by_zone.items()):
        return zone
    values = {value for each in by_zone.values() for value in each}
    return min(values) if key in _REGIONS and len(values) == 1 else None
