"""Every example instance does what its comments say: a table of expected outcomes, checked against the engine.

Pods without a namespace in the tables are in ``default``. ``instances/README.md`` holds the same outcomes in words.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from kubestow import cli
from kubestow.checker.placement import verify
from kubestow.models.catalogue.catalogue import read as read_catalogue
from kubestow.models.documents.placement import Placement
from kubestow.models.snapshot.snapshot import Snapshot, load
from kubestow.solver.capacity.series.series import size_series
from kubestow.solver.capacity.size.options import SizeOptions
from kubestow.solver.explain.per_node import explain
from kubestow.solver.rollout.simulate import roll_out
from kubestow.solver.runtime.options import Options
from kubestow.solver.solve import place
from tests.tiers import sampled

INSTANCES = Path(__file__).resolve().parents[2] / "instances"
HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"


@dataclass(frozen=True)
class Row:
    """Expected result of a solve.

    ``unplaced``: pod -> a rule among its reasons; all other pending pods are placed. ``on``: pod -> nodes, one of which it gets.
    ``together``/``apart``: (node label, pods) that share one value of it, or have a value each. ``before``: bind order.
    """

    unplaced: Mapping[str, str] = field(default_factory=dict)
    on: Mapping[str, set[str]] = field(default_factory=dict)
    together: tuple[tuple[str, tuple[str, ...]], ...] = ()
    apart: tuple[tuple[str, tuple[str, ...]], ...] = ()
    before: tuple[tuple[str, str], ...] = ()


def numbered(name: str, count: int, first: int = 1) -> tuple[str, ...]:
    return tuple(f"{name}-{i}" for i in range(first, first + count))


TABLE: dict[str, Row] = {
    "karpenter.yaml": Row(),
    "quickstart.yaml": Row(
        apart=((HOST, numbered("shop/db", 3, 0)), (ZONE, numbered("shop/db", 3, 0)), (HOST, numbered("shop/cache", 2, 0))),
        on={"shop/db-2": {"a2", "b2", "c1"}, "shop/report-0": {"a1", "b1"}, "shop/report-1": {"a1", "b1"}},
    ),
    "peter-sheep-wolf.yaml": Row(),
    "two-socket-joint.yaml": Row(),
    "survive-three-zones.yaml": Row(),
    "upgrade-pools.yaml": Row(),
    "buffers.yaml": Row(),
    "scs-control-plane.yaml": Row(
        unplaced={"gamma/gamma-cp-7": "InterPodAffinity"},
        apart=(
            (ZONE, numbered("alpha/alpha-cp", 3)),
            (HOST, numbered("beta/beta-cp", 3)),
            (HOST, numbered("gamma/gamma-cp", 6)),
        ),
    ),
    "rules/node-unschedulable.yaml": Row(
        unplaced={"needs-ssd": "NodeUnschedulable"},
        on={"web": {"n2"}, "maintenance": {"n1"}},
    ),
    "rules/node-name.yaml": Row(on={"web": {"n2"}}),
    "rules/taint-toleration.yaml": Row(
        unplaced={"wrong-value": "TaintToleration", "wrong-effect": "TaintToleration"},
        on={"web": {"plain", "aging"}, "train": {"gpu"}, "agent": {"draining"}},
    ),
    "rules/node-declared-features.yaml": Row(
        unplaced={"both": "NodeDeclaredFeatures"},
        on={"restarts": {"new", "restarting"}, "network": {"new"}},
    ),
    "rules/pod-os.yaml": Row(unplaced={"agent": "NodeAffinity"}, on={"web": {"lin", "unknown"}, "iis": {"win", "unknown"}}),
    "rules/balloons-policy.yaml": Row(
        unplaced={"strange": "BalloonsPolicy"},
        on={"fast": {"main"}, "large": {"main", "own"}},
    ),
    "rules/topology-aware-policy.yaml": Row(unplaced={"four": "TopologyAwarePolicy"}, on={"two": {"many", "bare"}}),
    "rules/node-affinity.yaml": Row(
        unplaced={"too-new": "NodeAffinity", "empty-term": "NodeAffinity"},
        on={
            "newer": {"n2"},
            "older": {"n1"},
            "not-hdd": {"n1", "n3", "n4"},
            "no-disk": {"n4"},
            "either": {"n2", "n3", "n4"},
            "by-name": {"n3"},
            "both": {"n1"},
        },
    ),
    "rules/node-ports.yaml": Row(
        unplaced={"dns-all-ips": "NodePorts", "exporter": "NodePorts"},
        on={"gateway": {"n2", "n3"}, "dns-second-ip": {"n2"}, "dns-tcp": {"n2"}},
        apart=((HOST, numbered("agent", 3)),),
    ),
    "rules/node-resources-fit.yaml": Row(
        unplaced={"one-more": "NodeResourcesFit", "three-gpus": "NodeResourcesFit", "too-big": "NodeResourcesFit"},
        on={
            "init-heavy": {"big"},
            "sidecar": {"big", "gpu"},
            "overhead": {"big", "gpu"},
            "pod-level": {"big"},
            "gpu-1": {"gpu"},
            "gpu-2": {"gpu"},
            "no-requests": {"shrunk"},
        },
    ),
    "rules/inter-pod-affinity.yaml": Row(
        unplaced={"ring-1": "InterPodAffinity", "haunted": "InterPodAffinity", "picky": "InterPodAffinity"},
        on={"easy": {"b1", "b2"}},
        together=((ZONE, numbered("group", 3)), (HOST, ("front", "middle")), (ZONE, ("middle", "store"))),
        before=(("store", "middle"), ("middle", "front")),
    ),
    "rules/inter-pod-anti-affinity.yaml": Row(
        unplaced={"noisy-n1": "InterPodAffinity", "spare-3": "InterPodAffinity"},
        on={"noisy": {"n2", "n3", "n4"}, "shop/card": {"n1", "n3", "n4"}, "spare-2": {"n4"}},
        apart=((HOST, numbered("quorum", 3)),),
    ),
    "rules/pod-topology-spread.yaml": Row(
        unplaced={"even-7": "PodTopologySpread", "wide-3": "PodTopologySpread"},
        on={"even-honor": {"a1", "b1"}} | {pod: {"b1", "c1"} for pod in numbered("fill", 4)},
    ),
    "rules/volume-binding.yaml": Row(
        unplaced={"scratch-large": "VolumeBinding", "early": "VolumeBinding"},
        on={"db": {"a1"}, "scratch": {"b1"}, "pair-1": {"b1", "b2"}},
        together=((HOST, ("pair-1", "pair-2")),),
    ),
    "rules/volume-zone.yaml": Row(
        unplaced={"gone-zone": "VolumeZone"},
        on={"one-zone": {"a1", "bare"}, "two-zones": {"a1", "b1", "bare"}},
    ),
    "rules/volume-restrictions.yaml": Row(unplaced={"ledger-1": "VolumeRestrictions", "standby": "VolumeRestrictions"}),
    "rules/node-volume-limits.yaml": Row(
        unplaced={"new-n1": "NodeVolumeLimits", "one-over": "NodeVolumeLimits"},
        on={"shared": {"n1"}, "free": {"n2"}, "roots": {"n2"}},
    ),
    "rules/dynamic-resources.yaml": Row(
        unplaced=dict.fromkeys(("four", "huge", "typo", "lost"), "DynamicResources"),
        on={"big": {"n2"}, "pair": {"n1"}, "maintainer": {"n2"}},
        together=((HOST, ("reader-1", "reader-2")),),
    ),
    "rules/scheduling-gates.yaml": Row(unplaced={"gated": "SchedulingGates"}),
    "rules/priority.yaml": Row(
        unplaced=dict.fromkeys(numbered("batch", 3), "NodeResourcesFit"),
        on={"urgent": {"wide"}, "steady": {"narrow"}},
    ),
    **dict.fromkeys((f"rebalance-{goal}.yaml" for goal in ("repair", "swap", "drain", "stuck", "broken", "consolidate")), Row()),
    "size-pool.yaml": Row(),
    "rebalance-admit.yaml": Row(unplaced=dict.fromkeys((*numbered("train", 2), *numbered("urgent", 2)), "NodeResourcesFit")),
    "pending/capacity.yaml": Row(unplaced={"db-0": "NodeResourcesFit"}),
    "pending/devices.yaml": Row(unplaced={"train": "DynamicResources"}),
    "pending/numa.yaml": Row(unplaced={"solver": "NodeResourceTopologyMatch"}),
    "pending/label-value-typo.yaml": Row(unplaced={"x": "NodeAffinity"}),
    "pending/label-key-typo.yaml": Row(unplaced={"x": "NodeAffinity"}),
    "pending/label-typo-full.yaml": Row(unplaced={"x": "NodeAffinity"}),
    "pending/label-of-a-series.yaml": Row(unplaced={"x": "NodeAffinity"}),
    "pending/label-missing.yaml": Row(unplaced={"x": "NodeAffinity"}),
    "pending/toleration-typo.yaml": Row(unplaced={"x": "TaintToleration"}),
    "pending/node-not-ready.yaml": Row(unplaced={"x": "TaintToleration"}),
    "pending/resource-name-typo.yaml": Row(unplaced={"x": "NodeResourcesFit"}),
    "pending/request-too-large.yaml": Row(unplaced={"x": "NodeResourcesFit"}),
    "pending/request-hugepages.yaml": Row(unplaced={"x": "NodeResourcesFit"}),
    "pending/request-of-containers.yaml": Row(unplaced={"x": "NodeResourcesFit"}),
    "pending/spread-tainted-domain.yaml": Row(unplaced={"web-2": "PodTopologySpread"}),
    "pending/spread-excluded-nodes.yaml": Row(unplaced={"web-2": "PodTopologySpread"}),
    "pending/spread-old-revision.yaml": Row(unplaced={"web-7b9c8d6f55-3": "PodTopologySpread"}),
    "pending/spread-min-domains.yaml": Row(unplaced={"web-2": "PodTopologySpread"}),
    "pending/affinity-label-typo.yaml": Row(unplaced={"x": "InterPodAffinity"}),
    "pending/affinity-namespace-typo.yaml": Row(unplaced={"x": "InterPodAffinity"}),
    "pending/claim-name-typo.yaml": Row(unplaced={"x": "VolumeBinding"}),
    "pending/storage-class-typo.yaml": Row(unplaced={"x": "VolumeBinding"}),
    "pending/move-aside.yaml": Row(unplaced={"x": "NodeResourcesFit"}),
    "pending/move-two-aside.yaml": Row(unplaced={"x": "NodeResourcesFit"}),
    "pending/preemption-never.yaml": Row(unplaced={"urgent": "NodeResourcesFit", "urgent2": "NodeResourcesFit"}),
    "pending/volume-class-misspelt.yaml": Row(unplaced={"db-0": "VolumeBinding"}),
    "pending/volume-class-without-volumes.yaml": Row(unplaced={"db-0": "VolumeBinding"}),
    "pending/volume-claim-immediate.yaml": Row(unplaced={"db-0": "VolumeBinding"}),
    "pending/volume-claim-lost.yaml": Row(unplaced={"db-0": "VolumeBinding"}),
    "pending/volume-claim-missing.yaml": Row(unplaced={"hub-ann": "VolumeBinding"}),
    "pending/volume-claim-misspelt.yaml": Row(unplaced={"hub-ann": "VolumeBinding"}),
    "pending/volume-claim-one-pod.yaml": Row(unplaced={"writer-2": "VolumeRestrictions"}),
    "pending/volume-claim-without-class.yaml": Row(unplaced={"minio": "VolumeBinding"}),
    "pending/volume-limit.yaml": Row(unplaced={"db-0": "NodeVolumeLimits"}),
    "pending/volume-local-access-mode.yaml": Row(unplaced={"web": "VolumeBinding"}),
    "pending/volume-local-node-gone.yaml": Row(unplaced={"jenkins": "VolumeBinding"}),
    "pending/volume-local-taken.yaml": Row(unplaced={"db-0": "VolumeBinding"}),
    "pending/volume-local-too-small.yaml": Row(unplaced={"db-0": "VolumeBinding"}),
    "pending/volume-selected-node-gone.yaml": Row(unplaced={"db-0": "VolumeBinding"}),
    "pending/volume-topologies-without-nodes.yaml": Row(unplaced={"db-0": "VolumeBinding"}),
    "pending/volume-zone-full.yaml": Row(unplaced={"db-0": "VolumeBinding"}),
    "pending/volume-zone-label.yaml": Row(unplaced={"db-0": "VolumeZone"}),
    "pending/volume-zone-without-nodes.yaml": Row(unplaced={"db-0": "VolumeBinding"}),
    "seeds/container-sockets.yaml": Row(),
    "seeds/container-expressions.yaml": Row(),
    "seeds/affinity-four-terms.yaml": Row(on={"p": {"b1"}}),
    "seeds/affinity-service-in-one-zone.yaml": Row(on={pod: {"b1", "b2"} for pod in numbered("shop", 4)}),
    "seeds/affinity-s1-with-s2.yaml": Row(
        unplaced={"s3-user": "InterPodAffinity"},
        on={"s1-1": {"b1", "b2"}, "s1-2": {"b1", "b2"}, "licensed": {"a2"}},
    ),
    "seeds/affinity-a-follows-b.yaml": Row(
        together=(("kind.zone", (*numbered("service-a", 3), "service-b-1")),),
        before=tuple(("service-b-1", pod) for pod in numbered("service-a", 3)),
    ),
    "seeds/affinity-namespaces.yaml": Row(
        unplaced={"clients/by-default": "InterPodAffinity"},
        on={"clients/by-list": {"b1"}, "clients/by-selector": {"b1"}},
    ),
    "seeds/anti-affinity-spread-service.yaml": Row(
        unplaced={"db-4": "InterPodAffinity"},
        apart=((ZONE, numbered("db", 3)),),
    ),
    "seeds/anti-affinity-exclusive-node.yaml": Row(
        unplaced={"alone-n1": "InterPodAffinity"},
        on={"alone": {"n2", "n3"}},
        apart=tuple((HOST, ("alone", pod)) for pod in numbered("team/web", 3)),
    ),
    "seeds/anti-affinity-only-own-service.yaml": Row(
        unplaced={"s-3": "InterPodAffinity"},
        on={pod: {"n2", "n3", "n4"} for pod in ("s-1", "s-2", "plain-1", "t-1")},
        together=((HOST, ("s-1", "s-2")),),
        apart=((HOST, ("s-1", "plain-1", "t-1")),),
    ),
    "seeds/anti-affinity-evil-service.yaml": Row(
        unplaced={"evil-n2": "InterPodAffinity"},
        on={"good-1": {"n2", "n3"}, "evil-1": {"n1", "n3"}},
        apart=((HOST, ("good-1", "evil-1")),),
    ),
    "seeds/anti-affinity-hog.yaml": Row(
        unplaced={"tenants/tenant-a": "InterPodAffinity"},
        on={"tenants/tenant-1": {"b1", "b2"}},
    ),
    "seeds/anti-affinity-daemons.yaml": Row(unplaced={"alone": "InterPodAffinity"}, on={"kube-system/agent-3": {"n3"}}),
    "seeds/preferred-symmetric.yaml": Row(on={"s2": {"n2", "n3"}, "f2": {"n2"}}),
    "seeds/execution-affinity.yaml": Row(),
    "seeds/execution-affinity-before.yaml": Row(),
    "seeds/execution-affinity-captured.yaml": Row(),
    "seeds/execution-anti-affinity.yaml": Row(),
    "seeds/limit-per-rack.yaml": Row(unplaced={"web-7": "PodTopologySpread"}),
    "seeds/workers-on-machines.yaml": Row(
        apart=((HOST, numbered("by-host", 3)), ("topology.scs.community/host-id", numbered("by-machine", 3))),
    ),
    "seeds/spread-stacked.yaml": Row(on={"web-5": {"a2", "b1", "b2"}, "shop-5": {"a1", "a2", "b1", "b2"}}),
    "seeds/spread-across-apps.yaml": Row(on={pod: {"b1", "c1"} for pod in numbered("blue", 2)}),
    "seeds/rolling-upgrade-stuck.yaml": Row(unplaced={"app-v2-1": "InterPodAffinity"}),
    "seeds/rolling-upgrade-spread.yaml": Row(on={"app-v2-1": {"n1", "n2"}}),
    "seeds/spread-1-1-0.yaml": Row(unplaced={"strict-1": "PodTopologySpread"}, on={"strict": {"zone3"}}),
    "seeds/spread-3-2-1.yaml": Row(on={"by-zone": {"node3a"}, "by-node": {"node1c", "node2b", "node2c"}}),
    "seeds/spread-1-1-0-infeasible.yaml": Row(unplaced={"hard": "PodTopologySpread"}, on={"soft": {"zone1", "zone2"}}),
    "seeds/spread-2-1-0-infeasible.yaml": Row(unplaced={"hard": "PodTopologySpread"}, on={"soft": {"zone1", "zone2"}}),
    "seeds/spread-3-3-0-infeasible.yaml": Row(unplaced={"hard": "PodTopologySpread"}, on={"soft": {"zone1", "zone2"}}),
    "seeds/spread-1-1-1-infeasible.yaml": Row(on={"hard": {"zone1", "zone2"}, "soft": {"zone1", "zone2"}}),
    "seeds/spread-2-1-1-infeasible.yaml": Row(on={"hard": {"zone2"}, "soft": {"zone1", "zone2"}}),
    "seeds/spread-node-affinity.yaml": Row(on={"both": {"zone1", "zone2"}, "everywhere": {"zone3"}}),
}

#: Snapshots that go with manifests (tests/instances/planted/test_planted_gangs.py has the outcomes).
WITH = {
    f"{name}.yaml": f"{name}-workload.yaml"
    for name in (
        "gang-one-order",
        "gang-mutual",
        "gang-self-affine",
        "spread-infeasible-zone",
        "rules/namespace-limits",
        "rules/namespace-annotations",
        "rules/runtime-class",
        "seeds/quota-opportunity-cost",  # tests/commands/test_quota_charge.py has its outcome
    )
}

#: Snapshots with a workload `app` to be rolled out, and whether that completes.
ROLLOUTS = {
    "rollout-daemonset.yaml": False,
    "rollout-deadlock.yaml": False,
    "rollout-quota.yaml": False,
    "rollout-statefulset.yaml": False,
    "rollout-skew-host.yaml": True,
    "rollout-skew-soft.yaml": True,
    "rollout-skew-zone.yaml": True,
    "rollout-three-nodes.yaml": True,
}

#: Requests that other tools recommend, and the CPU that size-pool.yaml requests with them (mCPU): tests/commands/test_requests.py.
RECOMMENDED = {"right-sizing/krr.json": 8220, "right-sizing/prometheus-cpu.json": 8700, "right-sizing/vertical-pod-autoscalers.yaml": 9480}
#: Catalogues of nodes, no snapshots, and how many shapes and offers they have.
CATALOGUES = {"catalogue.yaml": (6, 16), "karpenter-instance-types.json": (3, 5)}

#: Snapshots of one cluster, which has no nodes yet, and what `size` says that each needs alone from the catalogue.
SERIES = {"series/night.yaml": 1.02, "series/noon.yaml": 0.7012}

#: Settings of other controllers, no snapshots, which commands read in addition to one.
OTHERS = {"descheduler-policy.yaml", "node-pool.yaml", "rules/namespace-annotations-policy.yaml", "scheduler.yaml"}

#: (file, pod) -> nodes and the rules that reject the pod there, judged alone against the bound pods; other nodes are feasible.
REJECTS: dict[tuple[str, str], dict[str, list[str]]] = {
    ("rules/node-unschedulable.yaml", "needs-ssd"): {"n1": ["NodeUnschedulable"], "n2": ["NodeAffinity"]},
    ("rules/node-unschedulable.yaml", "maintenance"): {"n2": ["NodeAffinity"]},
    ("rules/node-name.yaml", "kube-system/etcd-n1"): {"n2": ["NodeName"]},
    ("rules/taint-toleration.yaml", "web"): {"gpu": ["TaintToleration"], "draining": ["TaintToleration"]},
    ("rules/taint-toleration.yaml", "wrong-effect"): {
        "plain": ["NodeAffinity"],
        "aging": ["NodeAffinity"],
        "gpu": ["NodeAffinity", "TaintToleration"],
        "draining": ["TaintToleration"],
    },
    ("rules/node-declared-features.yaml", "plain"): {},
    ("rules/node-declared-features.yaml", "restarts"): {"old": ["NodeDeclaredFeatures"]},
    ("rules/node-declared-features.yaml", "network"): {"restarting": ["NodeDeclaredFeatures"], "old": ["NodeDeclaredFeatures"]},
    ("rules/pod-os.yaml", "anywhere"): {},
    ("rules/pod-os.yaml", "web"): {"win": ["PodOS"]},
    ("rules/pod-os.yaml", "iis"): {"lin": ["PodOS"]},
    ("rules/pod-os.yaml", "agent"): {"lin": ["NodeAffinity"], "unknown": ["NodeAffinity"], "win": ["PodOS"]},
    ("rules/balloons-policy.yaml", "plain"): {},
    ("rules/balloons-policy.yaml", "fast"): {"own": ["BalloonsPolicy"], "edge": ["BalloonsPolicy"], "bare": ["NodeResourcesFit"]},
    ("rules/balloons-policy.yaml", "large"): {"edge": ["BalloonsPolicy"], "bare": ["NodeResourcesFit"]},
    ("rules/topology-aware-policy.yaml", "one"): {},
    ("rules/topology-aware-policy.yaml", "two"): {"few": ["TopologyAwarePolicy"]},
    ("rules/node-affinity.yaml", "not-hdd"): {"n2": ["NodeAffinity"]},
    ("rules/node-affinity.yaml", "newer"): {n: ["NodeAffinity"] for n in ("n1", "n3", "n4")},
    ("rules/node-affinity.yaml", "empty-term"): {n: ["NodeAffinity"] for n in ("n1", "n2", "n3", "n4")},
    ("rules/node-ports.yaml", "gateway"): {"n1": ["NodePorts"]},
    ("rules/node-ports.yaml", "exporter"): {"n1": ["NodeAffinity"], "n2": ["NodeAffinity"], "n3": ["NodePorts"]},
    ("rules/node-resources-fit.yaml", "init-heavy"): {n: ["NodeResourcesFit"] for n in ("gpu", "full", "shrunk")},
    ("rules/node-resources-fit.yaml", "sidecar"): {n: ["NodeResourcesFit"] for n in ("full", "shrunk")},
    ("rules/node-resources-fit.yaml", "no-requests"): {
        "big": ["NodeAffinity"],
        "gpu": ["NodeAffinity"],
        "full": ["NodeAffinity", "NodeResourcesFit"],
    },
    ("rules/inter-pod-affinity.yaml", "group-1"): {},
    ("rules/inter-pod-affinity.yaml", "easy"): {"a1": ["InterPodAffinity"], "a2": ["InterPodAffinity"]},
    ("rules/inter-pod-affinity.yaml", "picky"): {n: ["InterPodAffinity"] for n in ("a1", "a2", "b1", "b2")},
    ("rules/inter-pod-anti-affinity.yaml", "shop/card"): {"n2": ["InterPodAffinity"]},
    ("rules/inter-pod-anti-affinity.yaml", "spare-2"): {n: ["InterPodAffinity"] for n in ("n1", "n2", "n3")},
    ("rules/pod-topology-spread.yaml", "even-7"): {
        "a1": ["PodTopologySpread"],
        "b1": ["PodTopologySpread"],
        "c1": ["TaintToleration"],
        "bare": ["PodTopologySpread"],
    },
    ("rules/pod-topology-spread.yaml", "even-honor"): {"c1": ["TaintToleration"], "bare": ["PodTopologySpread"]},
    ("rules/volume-binding.yaml", "scratch"): {"a1": ["VolumeBinding"], "b2": ["VolumeBinding"]},
    ("rules/volume-binding.yaml", "early"): {n: ["VolumeBinding", "VolumeZone"] for n in ("a1", "b1", "b2")},
    ("rules/volume-zone.yaml", "one-zone"): {"b1": ["VolumeZone"]},
    ("rules/volume-restrictions.yaml", "ledger-1"): {n: ["VolumeRestrictions"] for n in ("n1", "n2")},
    ("rules/node-volume-limits.yaml", "new-n1"): {"n1": ["NodeVolumeLimits"], "n2": ["NodeAffinity"]},
    ("rules/node-volume-limits.yaml", "shared"): {"n2": ["NodeAffinity"]},
    ("rules/scheduling-gates.yaml", "gated"): {},
    ("rules/priority.yaml", "batch-1"): {},
    ("seeds/affinity-namespaces.yaml", "clients/by-selector"): {"a1": ["InterPodAffinity"]},
    ("seeds/anti-affinity-evil-service.yaml", "evil-1"): {"n2": ["InterPodAffinity"]},
    ("seeds/anti-affinity-hog.yaml", "tenants/tenant-1"): {"a1": ["InterPodAffinity"], "a2": ["InterPodAffinity"]},
    ("seeds/rolling-upgrade-stuck.yaml", "app-v2-1"): {n: ["InterPodAffinity"] for n in ("n1", "n2")},
    ("seeds/affinity-four-terms.yaml", "p"): {n: ["InterPodAffinity"] for n in ("a2", "a3")},
    ("seeds/spread-across-apps.yaml", "blue-1"): {n: ["PodTopologySpread"] for n in ("a1", "b1")},
    ("seeds/spread-1-1-0.yaml", "loose"): {},
    ("seeds/spread-2-1-1-infeasible.yaml", "hard"): {"zone1": ["PodTopologySpread"], "zone3": ["TaintToleration"]},
    ("seeds/spread-3-3-0-infeasible.yaml", "hard"): {
        "zone1": ["PodTopologySpread"],
        "zone2": ["PodTopologySpread"],
        "zone3": ["TaintToleration"],
    },
}


def key(pod: str) -> str:
    return pod if "/" in pod else f"default/{pod}"


@cache
def snapshot(name: str) -> Snapshot:
    return load([str(INSTANCES / name)])


@cache
def solved(name: str) -> Placement:
    return place(snapshot(name), Options(time_limit=20.0))


#: Results of `check` for manifests on check/cluster.yaml: workloads that do not fit, and codes.
CHECKS: dict[str, tuple[list[str], list[str]]] = {
    "check/shop-before.yaml": ([], []),
    "check/shop.yaml": (["Deployment shop/web", "Deployment shop/report"], ["KS211", "KS501", "KS601"]),
}


def files() -> set[str]:
    """All but the pairs of files for the audit's codes, which tests/audit/test_catalogue.py covers."""
    found = {p.relative_to(INSTANCES).as_posix() for p in INSTANCES.rglob("*") if p.suffix in (".yaml", ".json")}
    return {name for name in found if not name.startswith("audit/")}


def test_every_file_has_a_row() -> None:
    assert files() == {*TABLE, *WITH, *WITH.values(), *ROLLOUTS, *CATALOGUES, *RECOMMENDED, *SERIES, *OTHERS, *CHECKS, "check/cluster.yaml"}


@pytest.mark.parametrize("name", sorted(CATALOGUES))
def test_catalogues_have_their_shapes_and_offers(name: str) -> None:
    found = read_catalogue(str(INSTANCES / name))
    assert (len(found.shapes), len(found.offers)) == CATALOGUES[name]


def test_snapshots_of_a_series_decide_together_what_is_bought() -> None:
    snapshots = [load([str(INSTANCES / name)]) for name in sorted(SERIES, reverse=True)]
    offered = read_catalogue(str(INSTANCES / "catalogue.yaml"))
    found = size_series(snapshots, offered, [SizeOptions()] * 2, Options(workers=1))
    assert (found.status, found.cost.value) == ("optimal", 1.1492)
    assert [(m.alone.value, m.decides) for m in found.series or () if m.alone is not None] == [(0.7012, True), (1.02, True)]


@pytest.mark.parametrize("name", sorted(CHECKS))
def test_changes_fit_or_not(name: str) -> None:
    arguments = [str(INSTANCES / name), "--cluster", str(INSTANCES / "check" / "cluster.yaml"), "-q", "-f", "json"]
    found = json.loads(CliRunner().invoke(cli.main, ["check", *arguments]).stdout)
    assert [w["workload"] for w in found["workloads"] if w["fit"] != "fits"] == CHECKS[name][0]
    assert [fault["finding"]["code"] for fault in found["faults"]] == CHECKS[name][1]


@pytest.mark.parametrize("name", sorted(ROLLOUTS))
def test_rollouts_complete_or_not(name: str) -> None:
    found = roll_out(snapshot(name), "app", None, Options(time_limit=20.0)).rollout
    assert found is not None
    assert (found.complete, found.proved) == (ROLLOUTS[name], True)


def test_every_file_is_in_the_readme() -> None:
    text = (INSTANCES / "README.md").read_text(encoding="utf-8")
    assert {name for name in (*TABLE, *WITH, *WITH.values(), *ROLLOUTS, *CATALOGUES, *SERIES, *CHECKS) if f"`{name}`" not in text} == set()


@pytest.mark.parametrize("name", sorted(TABLE))
def test_pods_and_nodes_are_as_the_api_server_takes_them(name: str) -> None:
    documents = list(yaml.safe_load_all((INSTANCES / name).read_text(encoding="utf-8")))
    for item in (each for document in documents for each in document.get("items", [document])):  # a capture is a List
        assert item["apiVersion"]
        assert item["metadata"]["name"]
        if item["kind"] == "Node":
            assert {"cpu", "memory", "pods"} <= set(item["status"]["allocatable"])
        if item["kind"] == "Pod":
            assert item["metadata"]["namespace"]
            assert item["spec"]["containers"]
            for container in item["spec"]["containers"] + item["spec"].get("initContainers", []):
                assert container["name"]
                assert container["image"]


@pytest.mark.parametrize("name", sorted(TABLE))
def test_nothing_is_left_unread(name: str) -> None:
    assert snapshot(name).warnings == []
    assert snapshot(name).ignored == {}


@pytest.mark.parametrize("name", sampled(sorted(TABLE), every=6))
def test_placement_is_valid(name: str) -> None:
    assert verify(snapshot(name), solved(name)) == []


@pytest.mark.parametrize("name", sorted(TABLE))
def test_unplaced_pods_and_their_rules(name: str) -> None:
    found = {u.pod: {r.rule for r in u.reasons} for u in solved(name).unplaced}
    expected = {key(pod): rule for pod, rule in TABLE[name].unplaced.items()}
    assert set(found) == set(expected)
    assert {pod: rule for pod, rule in expected.items() if rule not in found[pod]} == {}


@pytest.mark.parametrize("name", sorted(TABLE))
def test_placed_pods_and_what_is_said_of_them(name: str) -> None:
    row = TABLE[name]
    node = {a.pod: a.node for a in solved(name).assignments}
    order = {a.pod: a.order for a in solved(name).assignments}
    labels = {n.metadata.name: n.metadata.labels or {} for n in snapshot(name).nodes}
    pending = {f"{p.metadata.namespace}/{p.metadata.name}" for p in snapshot(name).pods if not p.spec.nodeName}
    assert set(node) == pending - {key(pod) for pod in row.unplaced}
    for pod, allowed in row.on.items():
        assert node[key(pod)] in allowed, pod
    for label, pods in row.together:
        assert len({labels[node[key(pod)]][label] for pod in pods}) == 1, (label, pods)
    for label, pods in row.apart:
        assert len({labels[node[key(pod)]][label] for pod in pods}) == len(pods), (label, pods)
    for first, then in row.before:
        assert order[key(first)] < order[key(then)], (first, then)


@pytest.mark.parametrize(("name", "pod"), sorted(REJECTS))
def test_rejecting_rules(name: str, pod: str) -> None:
    (verdict,) = explain(snapshot(name), pod=key(pod))
    expected = REJECTS[name, pod]
    assert verdict.rejected == expected
    assert verdict.feasible == [n.metadata.name for n in snapshot(name).nodes if n.metadata.name not in expected]


def test_gated_pods_are_placed_on_request() -> None:
    source = snapshot("rules/scheduling-gates.yaml")
    placement = place(source, Options(time_limit=20.0, include_gated=True))
    assert {a.pod for a in placement.assignments} == {"default/open", "default/gated"}
    assert verify(source, placement) == []
