"""Queries on the history of a simulated cluster: budget violations, bindings and cordons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.api_server.core import Core, Entry
from tests.api_server.resources import NODES
from tests.api_server.rules.budgets import budgets_of, demand
from tests.api_server.store import Change, is_ready

Object = dict[str, Any]
_INVOLUNTARY = {"kubelet", "controller", "scheduler", "provisioner"}


@dataclass(frozen=True)
class Violation:
    """A voluntary disruption that left a budget with fewer healthy pods than it requires."""

    entry: Entry
    budget: str
    healthy: int
    desired: int


@dataclass(frozen=True)
class Cordon:
    """A change of a node's cordon: set, or removed if ``closed`` is False."""

    time: float
    node: str
    closed: bool
    actor: str


def is_cordoned(node: Object) -> bool:
    """Return True if spec.unschedulable is set on a node."""
    return bool((node.get("spec") or {}).get("unschedulable"))


class Judge:
    """A listener that records violations, bindings and cordons from the start."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.violations: list[Violation] = []
        self.cordons: list[Cordon] = []
        core.listeners.append(self._hear)

    def _hear(self, change: Change, entry: Entry) -> None:
        if change.resource.kind == "Pod" and entry.verb in ("evict", "delete") and entry.actor not in _INVOLUNTARY:
            self._disrupted(change, entry)
        if change.resource is NODES:
            before, after = change.old is not None and is_cordoned(change.old), not change.deleted and is_cordoned(change.new)
            if before != after:
                self.cordons.append(Cordon(entry.time, change.key, after, entry.actor))

    def _disrupted(self, change: Change, entry: Entry) -> None:
        old = change.old
        if old is None or "deletionTimestamp" in old["metadata"] or not is_ready(old):
            return
        if not change.deleted and "deletionTimestamp" not in change.new["metadata"]:
            return
        for budget in budgets_of(self._core.store, old):
            found = demand(self._core.store, budget, disrupted=False)
            if found.healthy < found.desired:
                metadata = budget["metadata"]
                name = f"{metadata['namespace']}/{metadata['name']}"
                self.violations.append(Violation(entry, name, found.healthy, found.desired))
