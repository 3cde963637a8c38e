"""The devices of a result, in the form of documents."""

from __future__ import annotations

from collections.abc import Iterable

from kubestow.models.devices.inventory import Pick
from kubestow.models.devices.table import DeviceTable
from kubestow.models.documents.placement import DeviceResult, share_id
from kubestow.models.kube import quantity


def devices(table: DeviceTable, pod: int, picks: Iterable[Pick]) -> list[DeviceResult]:
    """Return the devices of a pod.

    Args:
        pod: Index into ``snapshot.pods``.
        picks: The devices. ``Pick.claim`` is a position among ``DeviceTable.names`` of the pod.
    """
    names, results = table.names[pod], []
    for pick in picks:
        claim, device = names[pick.claim], table.inventory.devices[pick.device]
        share = share_id(claim, pick.request, device.driver, device.pool, device.name) if pick.share else None
        consumed = {name: quantity.canonical(amount) for name, amount in pick.consumed}
        results.append(DeviceResult(claim, pick.request, device.driver, device.pool, device.name, pick.admin, share, consumed))
    return results
