"""Taints that reflect the state of a node and disappear with it. Pods that they repel are not misconfigured."""

from __future__ import annotations

from typing import Final

from kubestow.models.kube.objects import Taint
from kubestow.models.kube.selectors import UNSCHEDULABLE_TAINT

_NODE: Final = "node.kubernetes.io/"
#: Set by the node lifecycle controller, cloud providers, Cluster API and autoscalers, network and storage plugins that are starting.
#: Source: the well-known taints of Kubernetes' reference; cluster-autoscaler/utils/taints; karpenter's pkg/apis/v1/taints.go.
_KEYS: Final = frozenset(
    {
        UNSCHEDULABLE_TAINT.key,
        *(_NODE + state for state in ("not-ready", "unreachable", "memory-pressure", "disk-pressure", "pid-pressure")),
        *(_NODE + state for state in ("network-unavailable", "out-of-service")),
        "node.cloudprovider.kubernetes.io/uninitialized", "node.cloudprovider.kubernetes.io/shutdown",
        "node.cluster.x-k8s.io/uninitialized", "node.cluster.x-k8s.io/outdated-revision",
        "ToBeDeletedByClusterAutoscaler", "DeletionCandidateOfClusterAutoscaler",
        "karpenter.sh/disrupted", "karpenter.sh/disruption", "karpenter.sh/unregistered",
        "node.cilium.io/agent-not-ready", "ebs.csi.aws.com/agent-not-ready",
    }
)  # fmt: skip


def is_transient(taint: Taint) -> bool:
    """Return True if a taint (for example a cordon) follows the state of its node instead of restricting who may use it."""
    return taint.key in _KEYS
