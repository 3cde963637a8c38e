"""Series of captured snapshots of one cluster."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from kubestow.models.snapshot.snapshot import Snapshot, from_json
from tests.plans import tiny

Object = dict[str, Any]
_PLAIN = "requiredDuringSchedulingIgnoredDuringExecution"
_ENFORCED = "requiredDuringSchedulingRequiredDuringExecution"
#: Capture time of the latest snapshot.
NOW = datetime(2026, 11, 27, 10, 0, tzinfo=UTC)


def captured(objects: Sequence[Object], ago: int | None = 0, cluster: str = "lab") -> Object:
    """Return the List of a capture ``ago`` seconds before the latest one, or without a time if ``ago`` is None."""
    annotations = {"kubestow.dev/cluster": cluster}
    if ago is not None:
        annotations["kubestow.dev/captured-at"] = (NOW - timedelta(seconds=ago)).isoformat()
    return {"apiVersion": "v1", "kind": "List", "metadata": {"annotations": annotations}, "items": list(objects)}


def snapshot(objects: Sequence[Object], ago: int | None = 0, cluster: str = "lab") -> Snapshot:
    return from_json(json.dumps(captured(objects, ago, cluster)).encode(), f"{ago}.json")


def written(folder: Path, objects: Sequence[Object], ago: int | None = 0, cluster: str = "lab") -> str:
    """Write a capture, and return its path."""
    path = folder / f"{cluster}-{ago}.json"
    path.write_text(json.dumps(captured(objects, ago, cluster)), encoding="utf-8")
    return str(path)


def random_history(seed: int) -> tuple[Snapshot, list[Snapshot], int]:
    """Return a snapshot with violated rules, one to three earlier ones, and the grace period in seconds.

    In the earlier snapshots, some pods are on other nodes, are missing or have other labels.
    """
    rng = random.Random(f"history-{seed}")
    now = tiny.cluster(seed, rng.choice(("repair", "mixed")))
    for number, each in enumerate(now):
        if each["kind"] == "Pod":
            for part in (each["spec"].get("affinity") or {}).values():
                if _PLAIN in part and _ENFORCED not in part and rng.random() < 0.6:
                    part[_ENFORCED] = part.pop(_PLAIN)
            if rng.random() < 0.7:
                each["metadata"]["uid"] = f"u{number}"
            if rng.random() < 0.3:
                said = rng.choice(("0", "60", "200", "1000", "5m"))
                each["metadata"].setdefault("annotations", {})["kubestow.dev/execution-grace-seconds"] = said
    return snapshot(now), [snapshot(_before(now, rng), rng.choice((0, 30, 60, 90, 200, 600))) for _ in range(rng.randint(1, 3))], 90


def _before(now: Sequence[Object], rng: random.Random) -> list[Object]:
    """Return a possible earlier state of the cluster, in which most pods are unchanged."""
    found = copy.deepcopy(list(now))
    nodes = [each["metadata"]["name"] for each in found if each["kind"] == "Node"]
    kept = []
    for each in found:
        if each["kind"] == "Pod" and each["spec"].get("nodeName") and rng.random() < 0.3:
            change = rng.choice(("gone", "node", "label", "uid"))
            if change == "gone":
                continue
            if change == "node":
                each["spec"]["nodeName"] = rng.choice(nodes)
            elif change == "label":
                each["metadata"]["labels"] = {"app": rng.choice("abc")}
            elif "uid" in each["metadata"]:
                each["metadata"]["uid"] += "-old"
        kept.append(each)
    return kept
