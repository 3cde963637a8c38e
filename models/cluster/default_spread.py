"""Cluster default spread constraints, for pods without own constraints that a Service or a controller selects.

Source: pkg/scheduler/framework/plugins/podtopologyspread/common.go (buildDefaultConstraints) and plugins/helper/spread.go
(DefaultSelector): the selectors of all Services that select the pod, and of the controller that owns it, joined.
"""

from __future__ import annotations

from collections.abc import Sequence

from kubestow.models.documents.policy import SYSTEM_CONSTRAINTS, DefaultConstraint, Policy
from kubestow.models.kube import objects
from kubestow.models.snapshot.snapshot import Snapshot

_OWNERS = ("ReplicaSet", "ReplicationController", "StatefulSet")
_Key = tuple[object, ...]


class DefaultSpread:
    """The default constraints of each pod of a snapshot: ScheduleAnyway ones of a policy, and DoNotSchedule ones of a scheduler."""

    def __init__(self, snapshot: Snapshot, policy: Policy, hard: Sequence[DefaultConstraint] = ()) -> None:
        self._constraints = policy.defaultConstraints if policy.multipliers.topologySpread else ()
        self._hard = hard
        #: Selectors by namespace and first label. Only pods with that label can be selected.
        self._services: dict[tuple[str, tuple[str, str]], list[dict[str, str]]] = {}
        for service in snapshot.services:
            selector = service.spec.selector if service.spec is not None else None
            if selector:
                key = service.metadata.namespace or "default", next(iter(selector.items()))
                self._services.setdefault(key, []).append(selector)
        self._owners: dict[tuple[str, str, str], objects.LabelSelector] = {}
        for kind in _OWNERS:
            for obj in snapshot.workloads.get(kind, ()):
                owning = obj.spec.selector if obj.spec is not None else None
                if isinstance(owning, dict):
                    owning = objects.LabelSelector(matchLabels=owning)
                if owning is not None:
                    self._owners[kind, obj.metadata.namespace or "default", obj.metadata.name or ""] = owning
        self._memo: dict[_Key, objects.LabelSelector | None] = {}
        self._any = bool((self._constraints or hard) and (self._services or self._owners))

    def key(self, pod: objects.Pod) -> object:
        """Return a key that is equal for pods with equal default constraints, or None for pods without any."""
        selector = self._selector(pod)
        return None if selector is None else (selector.matchLabels, selector.matchExpressions)

    def of(self, pod: objects.Pod) -> list[tuple[objects.TopologySpreadConstraint, tuple[str, ...]]]:
        """Return the default constraints of a pod, each with the topology keys that eligible nodes must have.

        For the system's defaults, that is the constraint's own key; otherwise the keys of all constraints (scoring.go,
        requireAllTopologies).
        """
        selector = self._selector(pod)
        if selector is None:
            return []
        keys = tuple(sorted({c.topologyKey for c in self._constraints}))
        return [
            (
                objects.TopologySpreadConstraint(
                    maxSkew=c.maxSkew, topologyKey=c.topologyKey, whenUnsatisfiable="ScheduleAnyway", labelSelector=selector
                ),
                (c.topologyKey,) if self._constraints == SYSTEM_CONSTRAINTS else keys,
            )
            for c in self._constraints
        ]

    def hard_of(self, pod: objects.Pod) -> list[objects.TopologySpreadConstraint]:
        """Return the DoNotSchedule default constraints of a pod."""
        selector = self._selector(pod) if self._hard else None
        if selector is None:
            return []
        return [
            objects.TopologySpreadConstraint(
                maxSkew=c.maxSkew, topologyKey=c.topologyKey, whenUnsatisfiable="DoNotSchedule", labelSelector=selector
            )
            for c in self._hard
        ]

    def _selector(self, pod: objects.Pod) -> objects.LabelSelector | None:
        if not self._any or pod.spec.topologySpreadConstraints:
            return None
        labels, namespace = pod.metadata.labels or {}, pod.metadata.namespace or "default"
        owner = objects.controller_of(pod)
        key = (namespace, tuple(sorted(labels.items())), (owner.kind, owner.name) if owner is not None else None)
        if key not in self._memo:
            self._memo[key] = self._joined(labels, namespace, owner)
        return self._memo[key]

    def _joined(self, labels: dict[str, str], namespace: str, owner: objects.OwnerReference | None) -> objects.LabelSelector | None:
        wanted: dict[str, str] = {}
        for label in sorted(labels.items()):
            for selector in self._services.get((namespace, label), ()):
                if all(labels.get(k) == v for k, v in selector.items()):
                    wanted.update(selector)
        owning = self._owners.get((owner.kind, namespace, owner.name)) if owner is not None else None
        expressions: list[objects.LabelSelectorRequirement] = []
        if owning is not None:
            if owner is not None and owner.kind == "ReplicationController":  # merged like a Service's selector
                wanted.update(owning.matchLabels or {})
            else:
                expressions += [objects.LabelSelectorRequirement(k, "In", [v]) for k, v in sorted((owning.matchLabels or {}).items())]
                expressions += owning.matchExpressions or []
        if not wanted and not expressions:
            return None
        return objects.LabelSelector(matchLabels=wanted or None, matchExpressions=expressions or None)
