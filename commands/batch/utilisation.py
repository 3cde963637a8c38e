"""Utilisation and stranded capacity of a snapshot's nodes, as exact sums without a search."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

from kubestow.models.documents.batch import Room
from kubestow.models.kube.objects import Pod, is_terminal
from kubestow.models.kube.pod_requests import pod_request
from kubestow.models.kube.quantity import QuantityError
from kubestow.models.snapshot import snapshot as snapshots
from kubestow.models.snapshot.snapshot import InputError, Snapshot
from kubestow.report.documents import node_rows

RESOURCES: Final = ("cpu", "memory")
_Class = tuple[int, ...]


def measured(files: Sequence[str], digests: tuple[tuple[str, str], ...]) -> Room | None:
    """Return the utilisation of a snapshot; None if it cannot be read. ``digests`` is the cache key for each worker."""
    return _measured(tuple(files), digests)


@lru_cache(maxsize=64)
def _measured(files: tuple[str, ...], digests: tuple[tuple[str, str], ...]) -> Room | None:
    try:
        return of(snapshots.load(files))
    except (InputError, OSError, QuantityError):
        return None


def of(snapshot: Snapshot) -> Room:
    """Return the utilisation of the nodes.

    Raises:
        QuantityError: an amount is not a quantity, or exceeds 64 bits.
    """
    table = node_rows.table(snapshot)
    total = table.total
    typical, pending = _classes(snapshot)
    classes = {each for each in (typical, *pending) if any(each)}
    free, stranded = [0] * len(RESOURCES), [0] * len(RESOURCES)
    for row in table.rows:
        if row.cordoned or row.taints:
            continue
        free_amounts = [max(0, row.free.get(name, 0)) for name in RESOURCES]
        fits = row.free.get("pods", 0) > 0 and any(all(a <= b for a, b in zip(each, free_amounts, strict=True)) for each in classes)
        for i, amount in enumerate(free_amounts):
            free[i] += amount
            stranded[i] += 0 if fits else amount
    return Room(
        nodes=total.nodes,
        pods=total.pods,
        pending=total.pending,
        allocatable=_named(total.allocatable.get(name, 0) for name in RESOURCES),
        requests=_named(total.requests.get(name, 0) for name in RESOURCES),
        typical=_named(typical),
        free=_named(free),
        stranded=_named(stranded if classes else [0] * len(RESOURCES)),
    )


def _named(amounts: Iterable[int]) -> dict[str, int]:
    return dict(zip(RESOURCES, amounts, strict=True))


def _classes(snapshot: Snapshot) -> tuple[_Class, set[_Class]]:
    """Return the median request (lower median, by resource), and the requests of pending pods.

    DaemonSet pods do not count, because they come with their nodes. Neither do pods without requests.
    """
    requests: list[_Class] = []
    pending: set[_Class] = set()
    for pod in snapshot.pods:
        if is_terminal(pod) or _is_daemon(pod):
            continue
        request = pod_request(pod, snapshot.gates)
        each = tuple(request.get(name, 0) for name in RESOURCES)
        requests.append(each)
        if not pod.spec.nodeName:
            pending.add(each)
    median = [sorted(amount for each in requests if (amount := each[i])) for i in range(len(RESOURCES))]
    return tuple(amounts[(len(amounts) - 1) // 2] if amounts else 0 for amounts in median), pending


def _is_daemon(pod: Pod) -> bool:
    return any(owner.kind == "DaemonSet" for owner in pod.metadata.ownerReferences or ())
