"""The Deployment controller: it creates and scales ReplicaSets, and rolls out changed templates."""

from __future__ import annotations

from typing import Any

from tests.api_server.actors.worker import Controller
from tests.api_server.core import Core, Entry
from tests.api_server.resources import DEPLOYMENTS, REPLICA_SETS
from tests.api_server.store import Change, controller_of, copy, is_active
from tests.api_server.writes.objects import create

Object = dict[str, Any]
_HASH = "pod-template-hash"
_REVISION = "deployment.kubernetes.io/revision"


def _share(value: int | str | None, total: int, *, up: bool) -> int:
    """Return a number or a percentage of a total. The default is 25%."""
    value = "25%" if value is None else value
    if isinstance(value, int):
        return value
    exact = int(value.removesuffix("%")) * total
    return -(-exact // 100) if up else exact // 100


def _replicas(obj: Object) -> int:
    found = (obj.get("spec") or {}).get("replicas")
    return 1 if found is None else int(found)


def _ready(obj: Object) -> int:
    return int((obj.get("status") or {}).get("readyReplicas") or 0)


class Deployments(Controller):
    """A controller that assigns an existing ReplicaSet to the current template until the template changes."""

    resource = DEPLOYMENTS

    def __init__(self, core: Core, delay: float) -> None:
        super().__init__(core, delay)
        #: Template and matching ReplicaSet, by uid of the Deployment.
        self._current: dict[str, tuple[Object, str]] = {}

    def hear(self, change: Change, entry: Entry) -> None:
        super().hear(change, entry)
        if change.resource is REPLICA_SETS:
            owner = controller_of(change.new)
            if owner is not None and owner["kind"] == "Deployment":
                self.note(f"{change.new['metadata']['namespace']}/{owner['name']}")

    def work(self, key: str) -> None:
        owner = self.current(key)
        if owner is None or (owner.get("spec") or {}).get("paused"):
            return
        uid = owner["metadata"]["uid"]
        sets = [obj for resource, obj in self.core.store.owned(uid) if resource is REPLICA_SETS]
        template = (owner.get("spec") or {}).get("template") or {}
        if uid not in self._current and sets:
            newest = max(sets, key=lambda one: (_replicas(one), one["metadata"]["name"]))
            self._current[uid] = template, newest["metadata"]["name"]
        if uid not in self._current or self._current[uid][0] != template:
            self._current[uid] = template, self._create(owner, template, older=len(sets))
            return
        new = next((one for one in sets if one["metadata"]["name"] == self._current[uid][1]), None)
        if new is None:
            del self._current[uid]
            self.note(key)
            return
        self._roll(owner, new, [one for one in sets if one is not new and _replicas(one)])
        fields = {"replicas": sum(map(_replicas, sets)), "readyReplicas": sum(map(_ready, sets)), "updatedReplicas": _replicas(new)}
        generation = owner["metadata"].get("generation", 1)
        self.set_status(DEPLOYMENTS, key, **fields, availableReplicas=fields["readyReplicas"], observedGeneration=generation)

    def _create(self, owner: Object, template: Object, *, older: int) -> str:
        """Create the ReplicaSet of a template, with all replicas if there is no older one, and return its name."""
        metadata, digest = owner["metadata"], self.core.suffix("template", owner["metadata"]["name"]) * 2
        labels = ((template.get("metadata") or {}).get("labels") or {}) | {_HASH: digest}
        selector = copy((owner.get("spec") or {}).get("selector") or {})
        selector["matchLabels"] = (selector.get("matchLabels") or {}) | {_HASH: digest}
        made = copy(template)
        made["metadata"] = (made.get("metadata") or {}) | {"labels": labels}
        reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": metadata["name"], "uid": metadata["uid"], "controller": True}
        annotations = {_REVISION: str(older + 1)}
        body = {
            "metadata": {
                "name": f"{metadata['name']}-{digest}",
                "labels": labels,
                "ownerReferences": [reference],
                "annotations": annotations,
            },
            "spec": {"replicas": 0 if older else _replicas(owner), "selector": selector, "template": made},
        }
        found = create(self.core, self.caller, REPLICA_SETS, metadata["namespace"], body)
        return str(found["metadata"]["name"])

    def _roll(self, owner: Object, new: Object, old: list[Object]) -> None:
        """Scale the new ReplicaSet up and the old ones down, as far as the strategy allows now."""
        wanted, strategy = _replicas(owner), (owner.get("spec") or {}).get("strategy") or {}
        if not old:
            self._scale(new, wanted)
            return
        if strategy.get("type") == "Recreate":
            for one in old:
                self._scale(one, 0)
            if not any(is_active(pod) for one in old for pod in self.core.store.pods_of(one["metadata"]["uid"])):
                self._scale(new, wanted)
            return
        rolling = strategy.get("rollingUpdate") or {}
        surge = _share(rolling.get("maxSurge"), wanted, up=True)
        unavailable = _share(rolling.get("maxUnavailable"), wanted, up=False)
        if not surge and not unavailable:
            unavailable = 1
        total = _replicas(new) + sum(map(_replicas, old))
        if _replicas(new) < wanted:
            self._scale(new, min(wanted, _replicas(new) + max(0, wanted + surge - total)))
        spare = _ready(new) + sum(map(_ready, old)) - (wanted - unavailable)
        for one in sorted(old, key=lambda each: str(each["metadata"]["name"])):
            fewer = min(_replicas(one), max(0, spare))
            if fewer:
                self._scale(one, _replicas(one) - fewer)
                spare -= fewer

    def _scale(self, replica_set: Object, replicas: int) -> None:
        if _replicas(replica_set) != replicas:
            new = copy(replica_set)
            new["spec"]["replicas"] = replicas
            metadata = new["metadata"]
            self.core.commit(self.caller, "update", REPLICA_SETS, f"{metadata['namespace']}/{metadata['name']}", new)
