"""Public reports rebuilt as small inputs, with the expected output and its reason: a table by folder.

The folders of ``reports/`` were made by hand after the reports and have no text or names of theirs. A row has the command without
``kubestow``, its exit code, what the output has to say, and the reason. ``!`` before a text: the output must not say it.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner

from kubestow import cli

REPORTS = Path(__file__).parent / "reports"


class Row(NamedTuple):
    folder: str
    command: str
    code: int
    says: tuple[str, ...]
    why: str


ROWS = (
    Row(
        "01-hostnetwork-unset-hostport", "check new.yaml --cluster cluster.yaml", 4,
        ("NodePorts on 1 node (host port taken: 9033/TCP)", "maxUnavailable 1 instead of 0"),
        "on the host's network a container port is a host port, and a surge of one node's only pod has no other node",
    ),
    Row(
        "02-hostnetwork-notready", "audit cluster.yaml", 0, ("at most 2 can run, 3 once nodes are uncordoned or healthy",),
        "the pod on the lost node still counts, and each node that is well has its port taken",
    ),
    Row(
        "03-daemonset-surge-hostport", "check new.yaml --cluster cluster.yaml", 4,
        ("sticks on node n1", "host port 54323/TCP is taken", "maxUnavailable 1 and maxSurge 0", "!gang"),
        "with maxSurge the new pod must run next to the old one, whose host port it wants",
    ),
    Row(
        "03-daemonset-surge-hostport", "check cpu-new.yaml --cluster cpu-cluster.yaml", 4, ("sticks on node n1", "asks for 3 CPU"),
        "the same with CPU",
    ),
    Row(
        "03-daemonset-surge-hostport", "check anti-new.yaml --cluster anti-cluster.yaml", 4, ("sticks on node n1", "anti-affinity"),
        "the same with anti-affinity to itself",
    ),
    Row(
        "03-daemonset-surge-hostport", "check grow-new.yaml --cluster grow-cluster.yaml", 3, ("without a pod: node n2", "asks for 2 CPU"),
        "one of two nodes has no room for the larger pod, and it is named",
    ),
    Row(
        "05-daemonset-pending-full-node", "explain cluster.yaml", 0,
        ("w1 has 0 pod slots free", "move apps/filler-x-00 from w1 to w2", "!drop metadata.name"),
        "the controller makes the pod for this node; without the field it would make it again",
    ),
    Row(
        "05-daemonset-pending-full-node", "rebalance cluster.yaml --goal admit", 0, ("1 move and 1 binding", "w1 → w2"),
        "what makes room is a move of a pod that can run elsewhere",
    ),
    Row(
        "05-daemonset-pending-full-node", "explain lowprio.yaml", 0,
        ("evict 1 pod of lower priority: default/fill on n2", "!drop metadata.name"), "what makes room here is a pod of lower priority",
    ),
    Row(
        "05-daemonset-pending-full-node", "explain taint.yaml", 0, ("tolerate the taint gpu:NoSchedule", "!drop metadata.name"),
        "a DaemonSet has to tolerate what its node is tainted with",
    ),
    Row(
        "08-preemption-pdb", "explain cluster.yaml", 0,
        ("default/low on n1, against PodDisruptionBudget default/low (allows 0)", "default/high on n1", "!default/mid"),
        "the lowest priority goes first; where a budget forbids that, the eviction that budgets allow is offered as well",
    ),
    Row(
        "08-preemption-pdb", "rebalance cluster.yaml --goal admit --allow-eviction", 0, ("default/high n1 evicted",),
        "plans keep budgets: it evicts what explain says that budgets allow",
    ),
    Row(
        "07-zonal-outage-mindomains", "explain cluster.yaml", 0, ("2 of minDomains 3 exist, so none may hold more than 1",),
        "the zone that is out is no domain, and with fewer domains than minDomains the minimum counts as 0",
    ),
    Row("08-preemption-pdb", "explain prio-a.yaml", 0, ("default/v0 on n1", "!default/v100"), "priority 0 before priority 100"),
    Row("08-preemption-pdb", "explain prio-b.yaml", 0, ("default/v0 on n2", "!default/v100"), "the same with the nodes exchanged"),
    Row("08-preemption-pdb", "explain prio-c.yaml", 0, ("default/v5 on n1",), "the pod of priority 5 is enough"),
    Row(
        "09-preempt-antiaffinity", "explain cluster.yaml", 0,
        ("pods job=train run there already, on 2 of 2 nodes", "evict 1 pod of lower priority: default/low-"),
        "where one pod of lower priority runs, one eviction is enough",
    ),
    Row(
        "13-gpu-fragmentation", "explain eight-singles.yaml", 0, ("no node has more than 1 nvidia.com/gpu", "!add 1 node"),
        "eight GPUs on eight nodes are no eight of one node, and another node like these has no more",
    ),
    Row(
        "14-antiaffinity-zonal-volume", "explain cluster.yaml", 0,
        (
            "pods q=b run there already, on 1 of 4 nodes", "(claim default/data-queue-a-0) can be used only where",
            "that leaves 2 of 4 nodes",
        ),
        "the volume ties the pod to the zone whose only node of its pool runs the other queue",
    ),
    Row(
        "15-affinity-to-daemonset", "explain cluster.yaml", 0, ("n1 has 900m CPU free", "add 1 node like n1"),
        "a new node brings the pod of the DaemonSet that the affinity asks for",
    ),
    Row(
        "16-affinity-pinned-full-node", "explain cluster.yaml", 0,
        ("within reach of 1 of 3 nodes", "m1 has 500m CPU free", "!add 1 node"),
        "the pod that it follows is on the full node, so no new node helps",
    ),
    Row(
        "17-mindomains-two-zones", "explain cluster.yaml", 0, ("no node has more than 1 CPU", "add 1 node like a1"),
        "minDomains 2 is met by two zones; what lacks is room",
    ),
    Row(
        "18-numa-init-container", "solve two-pods.yaml", 3, ("cpu: 6 free of 32 in node-0, where its init containers are; 26 asked",),
        "CPUs that init containers leave tie the app containers to their zone",
    ),
    Row(
        "18-numa-init-container", "solve empty.yaml", 3, ("1 of 2 pods placed", "centos: node-0"),
        "on an empty node the same of the second pod",
    ),
    Row("18-numa-init-container", "solve v-restricted.yaml", 3, ("policy restricted (cpu: 6 free of 32 in node-0",), "and with restricted"),
    Row("18-numa-init-container", "solve v-big-init.yaml", 0, ("app: node-1",), "a large init container leaves its zone to the app"),
    Row(
        "19-sidecar-requests", "solve npu.yaml", 3, ("1 of 2 pods placed", "default/npu-b asks for 16 vendor.example/npu"),
        "a sidecar's request counts beside those of the containers, and only one node has 16",
    ),
    Row(
        "19-sidecar-requests", "solve order.yaml", 3, ("default/sidecar-first asks for 4 CPU", "1 default/init-first small"),
        "a sidecar counts for init containers that start after it, and not for those before it",
    ),
    Row(
        "20-csi-migration-limit", "solve cluster.yaml", 3, ("volume limit of ebs.csi.aws.com",),
        "an in-tree volume counts for the limit of the driver that it is migrated to",
    ),
    Row("20-csi-migration-limit", "solve all-csi.yaml", 3, ("volume limit of ebs.csi.aws.com",), "as volumes of the driver itself do"),
    Row(
        "20-csi-migration-limit", "solve beta-label.yaml", 0, ("1 of 1 pod placed",),
        "the beta zone key of a volume is read as the current one",
    ),
    Row(
        "21-runtimeclass-overhead", "solve cluster.yaml -w vm.yaml", 3, ("sandbox=kata leaves 1 of 2 nodes", "ask for 4300m CPU"),
        "the class selects its nodes, and its overhead counts for each pod",
    ),
    Row(
        "21-runtimeclass-overhead", "solve running.yaml -w vm.yaml", 3, ("k1 (sandbox=kata) has 1850m CPU free",),
        "the overhead of running pods is held as well",
    ),
    Row(
        "22-crashloop-pdb", "upgrade cluster.yaml --pool pool=a", 3,
        ("0 of its pods are healthy", "unhealthyPodEvictionPolicy: AlwaysAllow", "!replica more"),
        "of pods that crash one more would crash, too; only the policy lets them go",
    ),
    Row(
        "22-crashloop-pdb", "upgrade r-budget2.yaml --pool pool=a", 3, ("unhealthyPodEvictionPolicy: AlwaysAllow", "!raise maxUnavailable"),
        "a budget that wants no healthy pod still allows nothing as long as none is",
    ),
    Row("22-crashloop-pdb", "upgrade always.yaml --pool pool=a", 0, ("Gets through: all 2 nodes",), "AlwaysAllow is what helps"),
    Row(
        "23-statefulset-stuck-revision", "check fix.yaml --cluster cluster.yaml", 3, ("its update waits for pod db-0", "delete pod db-0"),
        "OrderedReady updates no pod before all are ready, and the pending one cannot become ready",
    ),
    Row(
        "23-statefulset-stuck-revision", "explain affinity.yaml", 0, ("pods comp=x run there already, on 1 of 1 node",),
        "the second replica may not share the only node with the first",
    ),
    Row("23b-check-share", "check dep.yaml --cluster cluster.yaml", 0, ("new, 3 of 3 pods placed",), "all replicas have room"),
    Row("23b-check-share", "check running-new.yaml --cluster running.yaml", 0, ("rolling update, 3 of 3",), "and its update has"),
    Row("23b-check-share", "check sts-up.yaml --cluster sts-running.yaml", 0, ("6 of 6 pods placed",), "scaled, all six count"),
    Row("24-spread-excluded-node", "explain honor.yaml", 0, ("feasible: worker", "!worker3"), "a node that is not selected is no domain"),
    Row("24-spread-excluded-node", "explain ignore.yaml", 0, ("feasible: worker3",), "with Ignore it is one"),
    Row(
        "25-nodeaffinitypolicy-ignore", "explain cluster.yaml", 0,
        ("kubernetes.io/hostname=master holds 0 matching pods and none of its nodes takes one",),
        "with Ignore the control plane counts as an empty domain",
    ),
    Row("25-nodeaffinitypolicy-ignore", "explain honor.yaml", 0, ("1 of 4 nodes feasible", "feasible: w1"), "with Honor it does not"),
    Row(
        "26-namespace-node-selector", "solve openshift.yaml -w dep.yaml", 3, ("0 of 3 pods placed",),
        "OpenShift merges the namespace's selector into each pod",
    ),
    Row(
        "26-namespace-node-selector", "solve cluster.yaml -w dep.yaml", 0,
        ("admissionPlugins does not name PodNodeSelector", "3 of 3 pods placed"),
        "elsewhere the plugin is off unless the policy says otherwise, and the annotation is named",
    ),
    Row("27-scale-down-skew", "audit cluster.yaml", 0, ("KS108", "a skew of 3 with maxSkew 1"), "scaling down does not look at the spread"),
    Row("27-scale-down-skew", "rebalance cluster.yaml --goal repair", 0, ("2 moves in 1 wave, 0 broken rules left",), "two moves mend it"),
    Row("27-scale-down-skew", "audit twelve.yaml", 0, ("!KS108", "KS407"), "before that nothing was wrong, but a rollout may do the same"),
    Row(
        "29-local-volume-hostport", "explain cluster.yaml", 0,
        (
            "host port 7000/TCP is taken on 1 of 2 nodes", "(claim default/d-ring-a-0) can be used only where",
            "that leaves 1 of 2 nodes", "!add 1 node",
        ),
        "its local volume is on the node whose port is taken",
    ),
    Row(
        "30-improve-antiaffinity", "rebalance cluster.yaml --goal improve", 0, ("2 moves in 1 wave", "hot → cold"),
        "what can move goes to the cold node; what anti-affinity holds stays",
    ),
    Row(
        "30-improve-antiaffinity", "rebalance pack.yaml --goal consolidate", 0, ("1 node freed (bound 1)", "low → big"),
        "the small one is freed",
    ),
    Row(
        "31-repair-zone-skew", "rebalance cluster.yaml --goal repair", 3, ("1 move in 1 wave, 3 broken rules left (bound 3)",),
        "the third zone has room for one pod only, so no plan mends the skew",
    ),
    Row(
        "31-repair-zone-skew", "audit cluster.yaml", 4, ("KS404", "if all 6 were placed again, at most 5 could run"),
        "six replicas never fit within this skew",
    ),
    Row(
        "32-gang-preempt", "explain cluster.yaml", 0, ("evict 1 pod of lower priority: default/lo-0 on v1",),
        "the gang needs both nodes, and one pod of lower priority holds one",
    ),
    Row(
        "32-gang-preempt", "explain whole-gangs.yaml", 0, ("default/lo-a-0 on v1, default/lo-a-1 on v2 (gang default/lo-a as a whole)",),
        "one pod of each gang would stop both gangs",
    ),
    Row(
        "32-gang-preempt", "rebalance whole-gangs.yaml --goal admit --allow-eviction", 3,
        ("no room for 2 pods of gang default/hi at once; a plan evicts no pods of running gangs",),
        "plans leave running gangs alone, which is why this finds none and explain an eviction",
    ),
    Row(
        "33-memory-units", "check exec.yaml --cluster cluster.yaml", 3, ("no more than 10 fit whole", "add 2 nodes like e0"),
        "sums of CPU suffice, whole pods do not fit",
    ),
    Row(
        "35-dra-gang-first-available", "explain gang.yaml", 0, ("at most 1 of 2 pods can be bound in any order", "0 of 1 free on g1"),
        "each claim takes the first alternative that is free, so the second pod finds none",
    ),
    Row("35-dra-gang-first-available", "solve single.yaml", 3, ("1 of 2 pods placed", "0 of 1 free on g1"), "without a gang one is placed"),
    Row(
        "36-pdb-rounding", "rebalance max40.yaml --drain n1", 0, ("3 moves in 2 waves (at least 2)",),
        "40 % of 3 pods is rounded up to two at a time",
    ),
    Row("36-pdb-rounding", "rebalance max1pct.yaml --drain n1", 0, ("2 moves in 2 waves",), "1 % of 2 pods is rounded up to one at a time"),
    Row(
        "36-pdb-rounding", "rebalance min50of7.yaml --drain n1", 0, ("7 moves in 3 waves",),
        "50 % of 7 pods is rounded up to four that stay",
    ),
    Row(
        "37-drain-keeps-spread", "rebalance cluster.yaml --drain n1", 0, ("3 moves in 1 wave", "soft-h-aaaaa n1 → n4", "!points of"),
        "of all nodes that have room the empty one keeps replicas apart",
    ),
    Row(
        "37-drain-keeps-spread", "rebalance stacked.yaml --drain n1", 0,
        ("9 moves in 1 wave", "points of podAffinity -600 0 +600", "points of topologySpread -200 0 +200"),
        "stacked replicas are spread over the three nodes that stay",
    ),
    Row(
        "38-size-zones", "size empty.yaml -w fake.yaml --catalogue cat.yaml", 0, ("r7.xl B 2 1.00", "r7.xl C 2 1.00", "proved the least"),
        "of purchases that cost the same the one that is even over all zones that can be had",
    ),
    Row(
        "38-size-zones", "size with-a.yaml -w fake.yaml --catalogue cat.yaml", 3,
        ("topology.kubernetes.io/zone=A holds 0 matching pods and none of its nodes takes one (TaintToleration)",),
        "zone A counts and takes no pod, so the others hold one pod each at most",
    ),
    Row(
        "38-size-zones", "size cap.yaml -w tb.yaml --catalogue cat.yaml", 3, ("nodepool_a=foo leaves 1 of 5 nodes", "ask for 9 CPU"),
        "no shape has the label that the pods select",
    ),
    Row(
        "43-gpu-fractions", "solve cluster.yaml -w fraction.yaml", 0,
        ("metadata.annotations[gpu-fraction]: ignored: the policy's sharedGPUs is not kai",),
        "shares of GPUs by annotation are named unless the policy reads them",
    ),
    Row(
        "44-pod-os", "solve cluster.yaml -w linux.yaml", 3, ("the kubelet refuses: spec.os is linux, the node runs windows",),
        "the scheduler does not look at spec.os, the kubelet does",
    ),
    Row(
        "46-suspended", "check job.yaml --cluster cluster.yaml", 0, ("is suspended: no pods are made", "0 of 0 pods"),
        "a suspended Job has no pods",
    ),
    Row(
        "49-ephemeral-storage", "explain cluster.yaml", 0, ("old has 0 ephemeral-storage free",),
        "a node that reports no ephemeral storage takes no pod that asks for it",
    ),
    Row(
        "49-ephemeral-storage", "explain init.yaml", 0, ("default/init-eph asks for 200Gi ephemeral-storage",),
        "the largest init container counts for ephemeral storage, too",
    ),
    Row(
        "50-gang-stranded", "explain cluster.yaml", 0, ("no node has more than 3 CPU", "add 1 node like v1"),
        "the last member lacks a node",
    ),
    Row(
        "51-deprecated-zone-key", "solve cluster.yaml -w sts.yaml", 0,
        ("2 of 2 pods placed", "has no effect: no node has this label (2 pods)",
         "use topology.kubernetes.io/zone, which 3 of 3 nodes have"),
        "anti-affinity over a label that clouds no longer set keeps nothing apart",
    ),
    Row(
        "51-deprecated-zone-key", "check sts.yaml --cluster cluster.yaml", 0, ("KS216", "use topology.kubernetes.io/zone"),
        "the manifest is warned about, with the label to use",
    ),
    Row(
        "52-hpa-replicas", "check no-replicas.yaml --cluster cluster.yaml", 0, ("rolling update, 10 of 10",),
        "a manifest without replicas keeps those that the autoscaler set",
    ),
    Row(
        "52-hpa-replicas", "check paused.yaml --cluster cluster.yaml", 0, ("it is paused",),
        "a paused Deployment replaces nothing until it is resumed",
    ),
    Row(
        "55-maxsurge-zero", "audit cluster.yaml", 0, ("KS505", "maxUnavailable 25% of 3 replicas rounds down to 0 pods"),
        "where both round to nothing the controller takes one pod",
    ),
    Row(
        "23-statefulset-stuck-revision", "solve cluster.yaml --rollout db=fix.yaml", 3,
        ("stuck until pod db-0 is deleted", "(proved)", "delete pod db-0"),
        "OrderedReady replaces no pod before all are ready, and db-0 can never be",
    ),
    Row(
        "28-nodename-wffc", "check sts.yaml --cluster cluster.yaml", 4,
        ("0 of 1 pod placed", "default/mail-0 never starts: nobody binds claim default/storage-mail-0", "instead of nodeName"),
        "a claim with WaitForFirstConsumer is bound by the scheduler, which does not see pods that name their node",
    ),
    Row(
        "28-nodename-wffc", "audit cluster.yaml", 4, ("KS116", "claim default/storage-mail-0 of class local waits for its first consumer"),
        "the same pod in the cluster",
    ),
    Row(
        "28-nodename-wffc", "solve empty.yaml -w sts.yaml", 0, ("pod default/mail-0 counts as running but never starts",),
        "there is nothing to place, and why the pod does not come up is said",
    ),
    Row(
        "34-invalid-manifests", "check a-request-above-limit.yaml --cluster cluster.yaml", 1,
        ("must be less than or equal to cpu limit of 1",),
        "the API server refuses it in these words",
    ),
    Row(
        "34-invalid-manifests", "check c-gpu-request-ne-limit.yaml --cluster cluster.yaml", 1,
        ("must be equal to nvidia.com/gpu limit of 2",),
        "extended resources cannot be overcommitted",
    ),
    Row("34-invalid-manifests", "check d-gpu-half.yaml --cluster cluster.yaml", 1, ("must be an integer",), "nor are there halves of them"),
    Row(
        "34-invalid-manifests", "check f-hostnetwork-port.yaml --cluster cluster.yaml", 1,
        ("must match `containerPort` when `hostNetwork` is true",), "on the host's network both are one port",
    ),
    Row(
        "34-invalid-manifests", "check k-memory-milli.yaml --cluster cluster.yaml", 0, ("KS810",),
        "128m of memory are an eighth of a byte: valid, and never meant",
    ),
    Row(
        "34-invalid-manifests", "check s-overhead-set.yaml --cluster cluster.yaml", 3,
        ("0 of 2 pods placed", "expected none without a RuntimeClass"),
        "the Deployment is accepted, its pods are not",
    ),
    Row(
        "34-invalid-manifests", "check dupport.yaml --cluster cluster.yaml", 1, ("Duplicate value", "Unsupported value"),
        "all errors of an object are told at once",
    ),
    Row(
        "34-invalid-manifests", "check neg.yaml --cluster cluster.yaml", 1, ("spec.template.metadata.labels: Invalid value",),
        "label values are judged beside other errors",
    ),
    Row(
        "39-rwo-rollout", "check new.yaml --cluster cluster.yaml", 3,
        ("volume pv-a is attached to node b1: it can be attached to only one node", "strategy Recreate"),
        "the new pod must wait for the volume, and the old one for the new pod",
    ),
    Row(
        "39-rwo-rollout", "check scaled.yaml --cluster cluster.yaml", 4, ("KS117", "its pods are on b1, b2"),
        "two pods on two nodes share a volume that one node can have",
    ),
    Row("39-rwo-rollout", "audit split.yaml", 4, ("KS117", "default/graf-h-bbbbb waits"), "the same, running"),
    Row("39-rwo-rollout", "audit two.yaml", 4, ("KS118", "can only go to b2"), "the only node with room does not have the volume"),
    Row(
        "39-rwo-rollout", "solve two.yaml", 0, ("1 of 1 pod placed", "default/graf-h-bbbbb waits"),
        "the scheduler places it, the attach controller keeps it waiting",
    ),
    Row(
        "40-formats", "nodes helm-dryrun.yaml", 1, ("is the output of helm install or helm upgrade", "helm template"),
        "it is no list of manifests",
    ),
    Row(
        "40-formats", "nodes utf16le-nobom.json", 1, ("is UTF-16LE without a byte order mark, expected UTF-8",),
        "JSON is UTF-8; the line says how to convert it",
    ),
    Row(
        "40-formats", "nodes warning-first.json", 1, ("is a message of the tool that wrote the file",),
        "kubectl's warning got into the file with 2>&1",
    ),
    Row("40-formats", "nodes raw-pods.json", 1, ("holds no Node objects (but Pod 6)",), "pods without nodes are no cluster"),
    Row("40-formats", "nodes trailing-comma.json", 1, ("trailing comma in object",), "malformed JSON is told with its place"),
    Row(
        "53-sts-partition", "solve cluster.yaml --rollout db=partition2.yaml", 0,
        ("completes in 2 waves", "1 of 1 pod placed", "partition 2 keeps 2 of 3 pods at their revision"),
        "only ordinals from the partition on are replaced",
    ),
    Row(
        "53-sts-partition", "solve cluster.yaml --rollout db=ondelete.yaml", 3, ("nothing rolls: with strategy OnDelete",),
        "the controller replaces a pod only when it is deleted",
    ),
    Row(
        "54-helm-hooks", "solve cluster.yaml -w rendered.yaml", 0,
        ("2 of 2 pods placed", "run before the release", "Job default/migrate", "Pod default/web-test-connection (test)"),
        "a hook that ends before the release takes no room from it, and a test pod is not part of it",
    ),
)  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=[f"{row.folder}: {row.command}" for row in ROWS])
@pytest.mark.full
def test_what_is_said_of_a_report_is_right(row: Row, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPORTS / row.folder)
    done = CliRunner().invoke(cli.main, [*shlex.split(row.command), "-f", "table"], env={"COLUMNS": "400"})
    said = " ".join((done.stdout + done.stderr).split())
    assert done.exit_code == row.code, said
    for text in row.says:
        assert (text.removeprefix("!") in said) != text.startswith("!"), f"{text}\n{said}"


def test_each_folder_has_a_row() -> None:
    assert {path.name for path in REPORTS.iterdir()} == {row.folder for row in ROWS}
