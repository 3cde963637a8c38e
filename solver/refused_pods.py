"""Pods to be placed that the policy refuses, because it does not grant them required anti-affinity."""

from __future__ import annotations

from kubestow.models.cluster.anti_affinity.users import AntiAffinityUsers
from kubestow.models.documents.policy import Policy
from kubestow.models.kube.objects import pod_key
from kubestow.models.snapshot.scope import Scope
from kubestow.models.snapshot.snapshot import InputError, Snapshot


def refuse_domain_blocking(snapshot: Snapshot, scope: Scope, policy: Policy) -> None:
    """Reject pods to be placed with required anti-affinity that the policy does not grant them.

    Raises:
        InputError: One line for each pod and term.
    """
    users = AntiAffinityUsers(snapshot, policy)
    if users.silent:
        return
    problems = [
        f"Pod {pod_key(pod)}: spec.affinity.podAntiAffinity: {refused.text}"
        for pod in (snapshot.pods[i] for i in scope.pending)
        for refused in users.refused(pod)
    ]
    if problems:
        raise InputError(list(dict.fromkeys(problems)))
