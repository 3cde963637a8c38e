"""The gallery of pending pods: the cause, its hint, and the remedies in their order. Each remedy is applied and works."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from kubestow.models.snapshot.scope import select
from kubestow.models.snapshot.snapshot import load
from kubestow.solver.explain.conflict.minimal_conflict import minimal_cause
from kubestow.solver.explain.conflict.placement_question import PlacementQuestion
from kubestow.solver.explain.remedy.apply import applied
from kubestow.solver.explain.remedy.search import find_remedies
from tests.solver.explain.questions import within

PENDING = Path(__file__).resolve().parents[2] / "instances" / "pending"
HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"


@dataclass(frozen=True)
class Expected:
    """``rules``: of the cause. ``remedies``: all of them, in their order. ``hint``: the end of one of its sentences."""

    rules: set[str]
    remedies: tuple[str, ...]
    hint: str = ""


GALLERY = {
    "label-value-typo": Expected(
        {"NodeAffinity"},
        (
            "write disktype=ssd instead of disktype=sdd in the required node affinity of default/x",
            "drop disktype In [sdd] from the required node affinity of default/x",
        ),
        "no node has disktype=sdd: did you mean disktype=ssd (2 nodes)?",
    ),
    "label-key-typo": Expected(
        {"NodeAffinity"},
        (
            "write disktype=ssd instead of disk-type=ssd in the nodeSelector of default/x",
            "drop disk-type=ssd from the nodeSelector of default/x",
        ),
        "no node has disk-type=ssd: did you mean disktype=ssd (1 node)?",
    ),
    "label-typo-full": Expected(
        {"NodeAffinity"},
        ("drop disktype=sdd from the nodeSelector of default/x",),
        "no node has disktype=sdd: did you mean disktype=ssd (1 node)?",
    ),
    "label-of-a-series": Expected({"NodeAffinity"}, (f"drop {ZONE}=zone-c from the nodeSelector of default/x",)),
    "label-missing": Expected({"NodeAffinity"}, ("label n2 with pool=batch", "drop pool=batch from the nodeSelector of default/x")),
    "toleration-typo": Expected(
        {"TaintToleration"},
        (
            "tolerate dedicated=gpu:NoSchedule instead of dedicted=gpu:NoSchedule in default/x",
            "let default/x tolerate the taint dedicated=gpu:NoSchedule",
        ),
        "did you mean dedicated=gpu:NoSchedule (1 node)?",
    ),
    "node-not-ready": Expected(
        {"NodeUnschedulable", "TaintToleration"}, ("wait until n2 is Ready (NotReady since 2026-11-20T08:15:00Z)", "uncordon n1")
    ),
    "resource-name-typo": Expected(
        {"NodeResourcesFit"},
        ("request nvidia.com/gpu instead of nvidia.com/gpus in default/x",),
        "no node has nvidia.com/gpus: did you mean nvidia.com/gpu (7 free on n1)?",
    ),
    "request-too-large": Expected(
        {"NodeResourcesFit"}, ("request at most 10Gi ephemeral-storage instead of 20Gi in default/x (fits on n1)",)
    ),
    "request-hugepages": Expected({"NodeResourcesFit"}, ("request at most 1Gi hugepages-2Mi instead of 2Gi in default/x (fits on n1)",)),
    "request-of-containers": Expected({"NodeResourcesFit"}, ("request at most 4 CPU instead of 6 in default/x (fits on n1)",)),
    "move-aside": Expected(
        {"NodeResourcesFit"},
        (
            "add 1 node like n1",
            "request at most 2500m CPU instead of 3 in default/x (fits on n2)",
            "move default/f2 from n2 to n1 (kubestow rebalance --goal admit)",
        ),
    ),
    "move-two-aside": Expected(
        {"NodeResourcesFit"},
        (
            "add 1 node like n2",
            "request at most 2500m CPU instead of 4 in default/x (fits on n2)",
            "move default/f2 and default/f3 from n2 to n1 (kubestow rebalance --goal admit)",
        ),
    ),
    "spread-tainted-domain": Expected(
        {"PodTopologySpread", "TaintToleration"},
        (
            f"set nodeTaintsPolicy: Honor in the spread of default/web over {HOST}",
            f"raise maxSkew over {HOST} of default/web from 1 to 2",
            "add 1 node like n1",
            "let default/web tolerate the taint node-role.kubernetes.io/control-plane:NoSchedule",
        ),
    ),
    "spread-excluded-nodes": Expected(
        {"PodTopologySpread", "NodeAffinity"},
        (
            f"set nodeAffinityPolicy: Honor in the spread of default/web over {HOST}",
            f"raise maxSkew over {HOST} of default/web from 1 to 2",
            "add 1 node like n1",
            "drop pool=a from the nodeSelector of default/web",
        ),
    ),
    "spread-old-revision": Expected(
        {"PodTopologySpread", "NodeResourcesFit"},
        (
            f"set matchLabelKeys: [pod-template-hash] in the spread of default/web over {HOST}",
            f"raise maxSkew over {HOST} of default/web from 1 to 2",
            "add 1 node like n2",
            "request at most 100m CPU instead of 500m in default/web (fits on n2)",
        ),
    ),
    "spread-min-domains": Expected(
        {"PodTopologySpread"},
        (f"raise maxSkew over {ZONE} of default/web from 1 to 2", f"lower minDomains over {ZONE} of default/web from 3 to 2"),
    ),
    "claim-name-typo": Expected(
        {"VolumeBinding"},
        ("mount claim web-data instead of web-dta in default/x",),
        "claim default/web-dta does not exist: did you mean web-data (not bound)?",
    ),
    "affinity-label-typo": Expected(
        {"InterPodAffinity"},
        (
            f"write app=database instead of app=databse in the affinity of default/x over {HOST}",
            f"make the affinity of default/x over {HOST} (app=databse) preferred",
        ),
        "no pod there has app=databse: did you mean app=database (1 pod)?",
    ),
    "affinity-namespace-typo": Expected(
        {"InterPodAffinity"},
        (
            f"write storage instead of sotrage in the affinity of default/x over {HOST}",
            f"make the affinity of default/x over {HOST} (app=database) preferred",
        ),
        "namespace sotrage does not exist: did you mean storage (1 pod)?",
    ),
    "storage-class-typo": Expected(
        {"VolumeBinding"},
        ("use StorageClass standard instead of standrad in claim default/web-data (create it again)",),
        "StorageClass standrad does not exist: did you mean standard (0 claims)?; kube-scheduler does nothing until it is bound",
    ),
}


@pytest.mark.parametrize("name", sorted(GALLERY))
def test_cause_hint_and_remedies(name: str) -> None:
    expected = GALLERY[name]
    snapshot = load([str(PENDING / f"{name}.yaml")])
    pending = tuple(select(snapshot).pending)
    asked = PlacementQuestion(snapshot, pending, len(pending))
    cause = minimal_cause(asked, within(20))
    assert cause is not None
    assert {fact.rule for fact in cause.facts} == expected.rules
    hints = [fact.message for fact in cause.facts if "did you mean" in fact.message]
    assert [hint.endswith(expected.hint) for hint in hints] == [True] * bool(expected.hint)
    remedies = find_remedies(asked, expected.rules, within(20))
    assert tuple(remedy.message for remedy in remedies) == expected.remedies
    for remedy in remedies:
        assert applied(asked, remedy).feasible(within(20)) is True, remedy
