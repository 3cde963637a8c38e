"""Policies of one plugin, and what becomes of planted snapshots under them."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

from kubestow.audit.descheduler import policy
from kubestow.audit.descheduler.run import judge
from kubestow.audit.settings import Settings
from kubestow.models.documents.findings.descheduler import DeschedulerAudit
from kubestow.models.documents.policy import DEFAULT
from kubestow.models.snapshot.snapshot import from_objects
from tests.objects import Object

BALANCE = ("RemoveDuplicates", "LowNodeUtilization", "HighNodeUtilization", "RemovePodsViolatingTopologySpreadConstraint")


def profile(plugin: str, args: Object | None = None, evictor: Object | None = None) -> Object:
    """A profile with one plugin."""
    config: list[Object] = [{"name": plugin, "args": args or {}}, {"name": "DefaultEvictor", "args": evictor or {}}]
    return {
        "name": "p",
        "pluginConfig": config,
        "plugins": {"balance" if plugin in BALANCE else "deschedule": {"enabled": [plugin]}},
    }


def policy_of(*profiles: Object, **limits: Any) -> Object:
    return {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy", "profiles": list(profiles), **limits}


def read(folder: Path, plain: object, things: list[Object]) -> policy.SimulatedPolicy:
    path = folder / "policy.json"
    path.write_text(json.dumps(plain), encoding="utf-8")
    return policy.read(str(path), from_objects(things))


def judged(folder: Path, plain: object, things: list[Object]) -> DeschedulerAudit:
    """Return the outcome of a policy on a snapshot."""
    settings = Settings(DEFAULT, (), 20.0, time.monotonic() + 600, threading.Event())
    return judge(from_objects(things), read(folder, plain, things), settings)


def evicted(found: DeschedulerAudit) -> list[str]:
    """The names of the pods that go, in their order."""
    return [entry.pod.removeprefix("default/") for entry in found.evictions if entry.refused is None]


def refused(found: DeschedulerAudit) -> dict[str, str]:
    """The pods that do not go, with what refuses it."""
    return {entry.pod.removeprefix("default/"): entry.refused for entry in found.evictions if entry.refused is not None}
