"""Reports of RequiredDuringExecution rules that have been broken for their whole grace period.

Nothing is evicted here; ``kubestow rebalance --goal repair`` plans evictions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from kubestow.live.api.answers import Object
from kubestow.live.gates.replica_groups import ReplicaReader
from kubestow.models.execution.execution_grace import Rule, stated
from kubestow.models.kube.objects import pod_key
from kubestow.models.snapshot.snapshot import InputError

_FIELD: Final = "requiredDuringSchedulingRequiredDuringExecution"
_PARTS: Final = ("nodeAffinity", "podAffinity", "podAntiAffinity")
#: Seconds between two reads of the cluster.
_POLL_SECONDS: Final = 5.0


@dataclass
class BrokenRuleRecord:
    """The record of broken rules over time.

    Attributes:
        cluster: The watched cluster.
        grace: Grace period in seconds of pods without their own.
        exempt: Namespaces exempt from required anti-affinity.
        say: Receives messages for the user.
        pause: Seconds between two reads.
    """

    cluster: ReplicaReader
    grace: int
    exempt: tuple[str, ...]
    say: Callable[[str], None]
    pause: float = _POLL_SECONDS
    _since: dict[tuple[str, Rule], float] = field(default_factory=dict)
    _told: dict[tuple[str, Rule], str] = field(default_factory=dict)
    _next: float = 0.0

    async def look(self, now: float) -> None:
        """Read the cluster, at most once per pause. Report rules whose grace period is over, and rules that hold again.

        ``now``: seconds of a monotonic clock.
        """
        if now < self._next:
            return
        self._next = now + self.pause
        if not self._since and not any(_has_rule(pod) for pod in self.cluster.objects("Pod").values()):
            return
        from kubestow.solver.rebalance.problem.execution_violators import Enforced

        try:
            snapshot = await self.cluster.read_snapshot()
        except InputError:
            return  # invalid objects are reported when pods are released
        broken: dict[tuple[str, Rule], Any] = {}
        for i, rule in sorted(Enforced(snapshot, self.exempt).broken()):
            pod = snapshot.pods[i]
            broken[pod.metadata.uid or pod_key(pod), rule] = pod
        self._since = {key: self._since.get(key, now) for key in broken}
        for key in [key for key in self._told if key not in broken]:
            self.say(f"{self._told.pop(key)} holds again, or the pod is gone")
        for key, pod in broken.items():
            own = stated(pod)
            grace = self.grace if own is None else own
            if key not in self._told and now - self._since[key] >= grace:
                name = self._told[key] = f"Pod {pod_key(pod)} on {pod.spec.nodeName}: {key[1][0]} that holds during execution"
                self.say(f"{name} is broken for {grace} s or longer: plan with kubestow rebalance --goal repair")


def _has_rule(pod: Object) -> bool:
    affinity = pod.get("spec", {}).get("affinity") or {}
    return any((affinity.get(part) or {}).get(_FIELD) for part in _PARTS)
