"""The kinds of findings about the redundancy of a control plane (docs/control-plane.md; codes KS901 to KS929)."""

from __future__ import annotations

from typing import Final

from kubestow.audit.checks.control_plane.failure_domains import HOST_ID
from kubestow.audit.view.finding import Code

_LABEL: Final = f"Label each node with {HOST_ID}=… (any name that is the machine's own), or name the label that does with --machine-label"

NOT_DOUBLED: Final = Code(
    "KS901",
    "control-plane-not-doubled",
    "error",
    "The control plane, or a component of it, runs only once",
    "The SCS decision requires every component at least twice: while the only one is down, nothing is scheduled, repaired or changed, and "
    "with the only member of etcd the state of the cluster can be lost.",
    "Add control-plane nodes on other machines; three in all, so that etcd keeps its majority when one fails.",
)
HALF: Final = Code(
    "KS902",
    "control-plane-half-on-one-machine",
    "warning",
    "More than half of a component is on one physical machine",
    "One machine that fails takes more than half of the instances, and with etcd the majority.",
    "Move control-plane nodes to other machines, until none holds more than half of the instances.",
)
NOT_DISTRIBUTED: Final = Code(
    "KS903",
    "control-plane-not-distributed",
    "warning",
    "The failure of one machine stops the control plane",
    "This is the first stage of the SCS decision, a cluster that is not distributed: pods go on running, but none is replaced, until the "
    "machine is back; etcd without a majority of its members refuses every write.",
    "Spread the control plane over three machines or more, so that without any one a majority of etcd is left, and one of the others.",
)
EVEN: Final = Code(
    "KS904",
    "etcd-even-members",
    "info",
    "An even number of etcd members",
    "The majority of an even number is one more than half: the last member adds a machine that can fail and no failure that is outlived.",
    "Add a member, or remove one.",
)
MACHINES_UNKNOWN: Final = Code(
    "KS905",
    "control-plane-machines-unknown",
    "info",
    "The physical machines of the control plane are not known",
    "Nodes that are virtual machines may share a physical one, and then fail together; a hostname or a zone does not tell.",
    f"{_LABEL}; where each node is a physical machine, --machine-label kubernetes.io/hostname says so.",
)
STAGE: Final = Code(
    "KS906",
    "stage-not-survived",
    "info",
    "The control plane outlives a machine, but not one domain of a further stage",
    "Domains of a stage fail as a whole, as a zone does when its power or network fails.",
    "Distribute the control plane over three domains, so that without any one a majority of etcd is left; two are never enough for etcd.",
)
STAGE_LABEL: Final = Code(
    "KS907",
    "stage-not-labelled",
    "info",
    "Control-plane nodes lack the label of a stage",
    "A stage is graded only where its label tells the domain of every node of the control plane.",
    "Label the nodes, or name another label with --stage-label.",
)
UNLABELLED: Final = Code(
    "KS908",
    "machine-label-missing",
    "info",
    "Nodes lack the label that names physical machines",
    "The SCS record asks for labels that show which nodes share a machine; without them pods cannot be kept on different machines.",
    f"{_LABEL}.",
)
WORKERS: Final = Code(
    "KS909",
    "workers-on-one-machine",
    "warning",
    "The workers are not distributed over physical machines",
    "The SCS decision recommends it: pods that keep to different nodes fail together when the nodes share a machine.",
    "Move workers to other machines; soft anti-affinity of their virtual machines is enough.",
)
CONTRADICTION: Final = Code(
    "KS910",
    "machine-in-two-domains",
    "warning",
    "A physical machine is labelled with two domains of a stage",
    "A machine stands in one place: one of the labels is wrong, or two domains share a machine, and rules that rely on them do not hold.",
    "Correct the label of the machine or of the domain.",
)
ETCD_UNSEEN: Final = Code(
    "KS911",
    "etcd-not-seen",
    "info",
    "The members of etcd are not seen",
    "Whether the cluster outlives a failure depends on etcd's majority; what is said here holds for the other components only.",
    "Look at etcd itself: three members or more, an odd number, each on a machine of its own.",
)
USER_PODS: Final = Code(
    "KS912",
    "user-pods-on-control-plane",
    "warning",
    "Pods of users run on nodes of the control plane",
    "What they use is missing there: an API server or etcd that runs short of memory or disk takes the whole cluster with it, and who gets "
    "out of such a pod is beside its keys.",
    "Taint the nodes (node-role.kubernetes.io/control-plane:NoSchedule) and move the pods, or take their toleration away.",
)
TOPOLOGY_LABELS: Final = Code(
    "KS913",
    "zone-or-region-missing",
    "info",
    "Nodes lack the labels of their zone and region",
    "The SCS standard scs-0214-v2 says that every node must carry topology.kubernetes.io/zone and topology.kubernetes.io/region. Without "
    "them pods cannot be spread over zones, and failures of zones are not graded.",
    "Let the cloud controller set the labels, or label the nodes, and keep the labels up to date.",
)
HALVES: Final = Code(
    "KS914",
    "component-halves-not-apart",
    "warning",
    "Half of a component is not on other physical machines than its other half",
    "The SCS decision record asks for it in these words: half of every component should be on a different node on a different physical "
    "machine than the other half.",
    "Move instances, so that two groups of machines hold one half of the component each (of an odd number, one more in one of them).",
)
CODES: Final[tuple[Code, ...]] = (
    NOT_DOUBLED, HALF, NOT_DISTRIBUTED, EVEN, MACHINES_UNKNOWN, STAGE, STAGE_LABEL, UNLABELLED, WORKERS, CONTRADICTION, ETCD_UNSEEN,
    USER_PODS, TOPOLOGY_LABELS, HALVES,
)  # fmt: skip
