"""Permission to use required anti-affinity: the terms of a pod that the policy refuses.

A small pod with required anti-affinity can close a whole domain to all other pods. Source: the safeguards against denial of service in
docs/sources.md#inter-pod-affinity: the refusal of all namespaces with a key other than the hostname, and capabilities.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from kubestow.models.cluster.anti_affinity.pod_terms import looks_everywhere, namespace_labels
from kubestow.models.documents.policy import AntiAffinityUser, Policy
from kubestow.models.kube.objects import Pod
from kubestow.models.snapshot.snapshot import Snapshot

HOSTNAME: Final = "kubernetes.io/hostname"
#: The pod spec fields with required terms. The RequiredDuringExecution variant is scheduled in the same way.
FIELDS: Final = ("requiredDuringSchedulingIgnoredDuringExecution", "requiredDuringSchedulingRequiredDuringExecution")


@dataclass(frozen=True)
class RefusedTerm:
    """A term that the policy refuses to its pod.

    Attributes:
        path: The field of the term, below ``spec``.
        key: Its topologyKey.
        everywhere: True if it is refused because it covers all namespaces, False because the pod lacks permission.
        text: The problem and the expected value.
    """

    path: str
    key: str
    everywhere: bool
    text: str


class AntiAffinityUsers:
    """The policy's rules on required anti-affinity, for one snapshot."""

    def __init__(self, snapshot: Snapshot, policy: Policy) -> None:
        self._users, self._refuse_all = policy.antiAffinityUsers, policy.refuseAllNamespacesAntiAffinity
        self._namespaces: Mapping[str, Mapping[str, str]] = namespace_labels(snapshot) if self._refuse_all else {}
        defaults = [(each.value, name) for name, each in snapshot.priority_classes.items() if each.globalDefault]
        self._default_class = min(defaults, default=None)

    @property
    def silent(self) -> bool:
        """True if the policy refuses no term."""
        return not self._users and not self._refuse_all

    def refused(self, pod: Pod) -> Iterator[RefusedTerm]:
        """Yield the required anti-affinity terms of a pod that the policy refuses."""
        part = pod.spec.affinity.podAntiAffinity if pod.spec.affinity is not None else None
        if part is None or self.silent:
            return
        granted = {user.keys for user in self._users if self._is(user, pod)}
        for field in FIELDS:
            for i, term in enumerate(getattr(part, field) or ()):
                path, key = f"affinity.podAntiAffinity.{field}[{i}]", term.topologyKey
                if self._refuse_all and key != HOSTNAME and looks_everywhere(term, self._namespaces):
                    text = f"required over all namespaces with topologyKey {key!r}, expected {HOSTNAME}"
                    yield RefusedTerm(path, key, True, f"{text} (policy: refuseAllNamespacesAntiAffinity)")
                if self._users and "any" not in granted and not (key == HOSTNAME and "hostname" in granted):
                    expected = f"a preferred term or {HOSTNAME}" if "hostname" in granted else "a preferred term"
                    text = f"required anti-affinity with topologyKey {key!r} is not granted to {self._whom(pod)}, expected {expected}"
                    yield RefusedTerm(path, key, False, f"{text} (policy: antiAffinityUsers)")

    def _is(self, user: AntiAffinityUser, pod: Pod) -> bool:
        """Return True if a policy entry matches the pod. An empty list matches every pod."""
        namespace, account, name = self._identity(pod)
        return (
            (not user.namespaces or namespace in user.namespaces)
            and (not user.serviceAccounts or account in user.serviceAccounts)
            and (not user.priorityClasses or name in user.priorityClasses)
        )

    def _identity(self, pod: Pod) -> tuple[str, str, str]:
        """Return the pod's namespace, service account (namespace/name) and priority class, with admission defaults."""
        namespace = pod.metadata.namespace or "default"
        name = pod.spec.priorityClassName or ""
        if not name and self._default_class is not None and pod.spec.priority == self._default_class[0]:
            name = self._default_class[1]
        return namespace, f"{namespace}/{pod.spec.serviceAccountName or 'default'}", name

    def _whom(self, pod: Pod) -> str:
        namespace, account, name = self._identity(pod)
        return f"namespace {namespace}, service account {account}, {f'priority class {name}' if name else 'no priority class'}"
