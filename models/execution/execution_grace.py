"""The grace period for which a broken rule that holds during execution does not count yet ("forgiveness").

A pod may state its own grace in an annotation. Other pods have that of the command line, or else that of the
policy (docs/rules.md#requiredduringexecution).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

import msgspec

from kubestow.models.kube import objects
from kubestow.models.kube.objects import Pod, pod_key
from kubestow.models.snapshot.capture_info import instant
from kubestow.models.snapshot.snapshot import InputError, Snapshot

ANNOTATION: Final = "kubestow.dev/execution-grace-seconds"
#: Seconds. About 31 years; a longer grace is a typing error.
MAX_SECONDS: Final = 10**9
#: The parts of an affinity whose rules can hold during execution.
FIELDS: Final = ("nodeAffinity", "podAffinity", "podAntiAffinity")

#: A rule of a pod: one of FIELDS, and the index among its terms (0 except for anti-affinity, which holds term by
#: term).
Rule = tuple[str, int]


@dataclass(frozen=True)
class History:
    """Information on the time before a snapshot.

    Attributes:
        grace: Seconds for which a broken rule is forgiven if its pod states no grace.
        earlier: Earlier snapshots of the same cluster, in any order. Each has a capture time.
    """

    grace: int = 0
    earlier: tuple[Snapshot, ...] = ()

    def within(self, time: datetime, seconds: int) -> list[Snapshot]:
        """Return the earlier snapshots within ``seconds`` before a time, the latest first."""
        since = time - timedelta(seconds=seconds)
        found = [(moment, snapshot) for snapshot in self.earlier if since <= (moment := time_of(snapshot)) <= time]
        return [snapshot for _, snapshot in sorted(found, key=lambda each: each[0], reverse=True)]


NO_HISTORY: Final = History()


def time_of(snapshot: Snapshot, name: str = "a snapshot") -> datetime:
    """Return the capture time of a snapshot.

    Raises:
        InputError: The snapshot has no capture time.
    """
    moment = instant(snapshot.capture.time) if snapshot.capture is not None else None
    if moment is None:
        raise InputError([f"{name}: does not say when it was captured (kubestow capture writes it), expected for --since"])
    return moment


def stated(pod: Pod) -> int | None:
    """Return the grace in seconds that a pod states; None if it states none or an unreadable one."""
    raw = (pod.metadata.annotations or {}).get(ANNOTATION)
    return int(raw) if raw is not None and _is_readable(raw) else None


def _is_readable(raw: str) -> bool:
    return raw.isascii() and raw.isdigit() and len(raw) <= 10 and int(raw) <= MAX_SECONDS


def unreadable(pod: Pod) -> str | None:
    """Return the problem of a pod's stated grace, or None."""
    raw = (pod.metadata.annotations or {}).get(ANNOTATION)
    if raw is None or _is_readable(raw):
        return None
    return f"metadata.annotations[{ANNOTATION}]: got {raw[:40]!r}, expected whole seconds from 0 to {MAX_SECONDS}"


def warnings(pods: Iterable[Pod]) -> Iterator[str]:
    """Yield a sentence for each pod with an unreadable grace."""
    for pod in pods:
        if (why := unreadable(pod)) is not None:
            yield f"Pod {pod_key(pod)}: {why}: the default grace applies"


def without(snapshot: Snapshot, rules: Iterable[tuple[int, Rule]], *, fields: Iterable[str] = FIELDS) -> Snapshot:
    """Return a snapshot without some rules that hold during execution.

    Args:
        rules: Each with the index of its pod.
        fields: Remove only rules of these fields.
    """
    chosen: dict[int, set[Rule]] = {}
    for i, rule in rules:
        if rule[0] in fields:
            chosen.setdefault(i, set()).add(rule)
    if not chosen:
        return snapshot
    return replace(snapshot, pods=[_without(pod, chosen[i]) if i in chosen else pod for i, pod in enumerate(snapshot.pods)])


def _without(pod: Pod, rules: set[Rule]) -> Pod:
    change, affinity = msgspec.structs.replace, pod.spec.affinity or objects.Affinity()
    parts = {}
    for field in FIELDS:
        part, gone = getattr(affinity, field), {k for name, k in rules if name == field}
        if part is not None and gone:
            terms = part.requiredDuringSchedulingRequiredDuringExecution
            kept = [term for k, term in enumerate(terms or ()) if k not in gone] if field == "podAntiAffinity" else []
            parts[field] = change(part, requiredDuringSchedulingRequiredDuringExecution=kept or None)
    return change(pod, spec=change(pod.spec, affinity=change(affinity, **parts)))
