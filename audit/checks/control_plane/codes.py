"""Codes of findings about the redundancy of a control plane (docs/control-plane.md; codes KS901 to KS929)."""

from __future__ import annotations

from typing import Final

from kubestow.audit.checks.control_plane.failure_domains import HOST_ID
from kubestow.audit.view.finding import Code

_LABEL: Final = (
    f"Label each node with {HOST_ID}=… (any unique name of the machine), or pass the label that names machines with --machine-label"
)

NOT_DOUBLED: Final = Code(
    "KS901",
    "control-plane-not-doubled",
    "error",
    "The control plane, or one of its components, runs only once",
    "The SCS decision requires at least two instances of every component. While the only instance is down, nothing is scheduled, repaired "
    "or changed. Losing the only etcd member can destroy the cluster state.",
    "Add control-plane nodes on other machines. With three, etcd keeps its majority if one fails.",
)
HALF: Final = Code(
    "KS902",
    "control-plane-half-on-one-machine",
    "warning",
    "More than half of a component's instances run on one physical machine",
    "A failure of this machine stops more than half of the instances, which breaks the majority of etcd.",
    "Move control-plane nodes to other machines until no machine has more than half of the instances.",
)
NOT_DISTRIBUTED: Final = Code(
    "KS903",
    "control-plane-not-distributed",
    "warning",
    "A failure of one machine stops the control plane",
    "This is the first stage of the SCS decision, a cluster that is not distributed. Running pods continue, but none is replaced until the "
    "machine is back. Without a majority of its members, etcd rejects every write.",
    "Spread the control plane over at least three machines, so that any failure leaves a majority of etcd and one of each other component.",
)
EVEN: Final = Code(
    "KS904",
    "etcd-even-members",
    "info",
    "The number of etcd members is even",
    "A majority is more than half, so the last member adds a machine that can fail, but no additional failure that etcd survives.",
    "Add a member, or remove one.",
)
MACHINES_UNKNOWN: Final = Code(
    "KS905",
    "control-plane-machines-unknown",
    "info",
    "The physical machines of the control plane are unknown",
    "Virtual machines may share a physical machine and then fail together. Hostname and zone labels do not show this.",
    f"{_LABEL}. If each node is a physical machine, pass --machine-label kubernetes.io/hostname.",
)
STAGE: Final = Code(
    "KS906",
    "stage-not-survived",
    "info",
    "The control plane survives the failure of a machine, but not of a domain of a further stage",
    "A domain may fail as a whole, for example a zone whose power or network fails.",
    "Distribute the control plane over three domains, so that any failure leaves a majority of etcd. Two are never enough for etcd.",
)
STAGE_LABEL: Final = Code(
    "KS907",
    "stage-not-labelled",
    "info",
    "Control-plane nodes lack the label of a stage",
    "A stage is graded only if every control-plane node has its label.",
    "Label the nodes, or pass another label with --stage-label.",
)
UNLABELLED: Final = Code(
    "KS908",
    "machine-label-missing",
    "info",
    "Nodes lack the label that names physical machines",
    "The SCS record asks for labels that show which nodes share a machine. Without them, rules cannot separate pods by machine.",
    f"{_LABEL}.",
)
WORKERS: Final = Code(
    "KS909",
    "workers-on-one-machine",
    "warning",
    "The workers are not distributed over physical machines",
    "The SCS decision recommends distributing them, because pods on different nodes fail together if the nodes share a machine.",
    "Move workers to other machines. Soft anti-affinity of their virtual machines is sufficient.",
)
CONTRADICTION: Final = Code(
    "KS910",
    "machine-in-two-domains",
    "warning",
    "A physical machine is labelled with two domains of a stage",
    "A machine has one location, so one of the labels is wrong or two domains share the machine. Rules over these domains are unreliable.",
    "Correct the label of the machine or of the domain.",
)
ETCD_UNSEEN: Final = Code(
    "KS911",
    "etcd-not-seen",
    "info",
    "The snapshot does not show the members of etcd",
    "The cluster survives a failure only if etcd keeps its majority. The other findings cover the other components only.",
    "Check etcd directly: it needs an odd number of members, at least three, each on its own machine.",
)
USER_PODS: Final = Code(
    "KS912",
    "user-pods-on-control-plane",
    "warning",
    "User pods run on control-plane nodes",
    "They compete with the control plane: an API server or etcd that runs short of memory or disk affects the whole cluster. An attacker "
    "who escapes from such a pod reaches the cluster's keys.",
    "Taint the nodes (node-role.kubernetes.io/control-plane:NoSchedule) and move the pods, or remove their toleration.",
)
TOPOLOGY_LABELS: Final = Code(
    "KS913",
    "zone-or-region-missing",
    "info",
    "Nodes lack labels for their zone or region",
    "The SCS standard scs-0214-v2 requires topology.kubernetes.io/zone and topology.kubernetes.io/region on every node. Without "
    "them, pods cannot be spread over zones, and zone failures are not graded.",
    "Have the cloud controller set the labels, or label the nodes and keep the labels up to date.",
)
HALVES: Final = Code(
    "KS914",
    "component-halves-not-apart",
    "warning",
    "The two halves of a component share physical machines",
    "The SCS decision record says that half of every component should be on a different node on a different physical machine than the "
    "other half.",
    "Move instances so that two groups of machines have one half of the component each. With an odd number, one group has one more.",
)
CODES: Final[tuple[Code, ...]] = (
    NOT_DOUBLED, HALF, NOT_DISTRIBUTED, EVEN, MACHINES_UNKNOWN, STAGE, STAGE_LABEL, UNLABELLED, WORKERS, CONTRADICTION, ETCD_UNSEEN,
    USER_PODS, TOPOLOGY_LABELS, HALVES,
)  # fmt: skip
