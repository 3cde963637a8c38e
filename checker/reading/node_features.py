"""Kubelet features that pods require (KEP-5328).

Source: k8s.io/component-helpers (nodedeclaredfeatures), as of v1.36.
"""

from __future__ import annotations

from itertools import chain

from kubestow.models.kube import objects


def features_asked(spec: objects.PodSpec) -> frozenset[str]:
    """Return the kubelet features that a pod's spec requires (KEP-5328). Features that no spec can require are omitted."""
    features = set()
    for container in chain(spec.containers or (), spec.initContainers or ()):
        for rule in container.restartPolicyRules or ():
            if rule.action == "RestartAllContainers":
                features.add("RestartAllContainersOnContainerExits")
    if spec.hostUsers is False and spec.hostNetwork:
        features.add("UserNamespacesHostNetworkSupport")
    return frozenset(features)
