"""Opportunity cost of required anti-affinity: terms that count, closed nodes, charges to quotas; the checker's own reading agrees."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import pytest

from kubestow.checker.rules.admission import quotas as checked
from kubestow.models.cluster.admission import refusals
from kubestow.models.cluster.anti_affinity.opportunity_cost import OpportunityCosts
from kubestow.models.documents.policy import Policy
from kubestow.models.kube.objects import pod_key
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from kubestow.models.workloads.expand import expand
from tests.objects import Object, node, pod

CHARGED = Policy(quotaCharge="opportunityCost")
HOST, ZONE, CLUSTER = "kubernetes.io/hostname", "topology.kubernetes.io/zone", "example.com/cluster"
ALL: Object = {"topologyKey": HOST, "labelSelector": {}, "namespaceSelector": {}}
NODES = [
    node("s1", cpu="2", memory="4Gi", labels={ZONE: "a", CLUSTER: "c"}),
    node("s2", cpu="4", memory="4Gi", labels={ZONE: "a", CLUSTER: "c"}),
    node("l1", cpu="8", memory="16Gi", labels={ZONE: "b", CLUSTER: "c"}),
]


def refusing(name: str, *terms: Object, variant: str = "requiredDuringSchedulingIgnoredDuringExecution", **more: Any) -> Object:
    return pod(name, **({"cpu": "10m"} | more), affinity={"podAntiAffinity": {variant: list(terms)}})


def quota(**hard: str) -> Object:
    named = {key.replace("_", "."): value for key, value in hard.items()}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "default"}, "spec": {"hard": named}}


def refused_pods(
    objects: list[Object], new: list[Object], policy: Policy = CHARGED, exempt: tuple[str, ...] = (), nodes: list[Object] = NODES
) -> dict[str, str]:
    """Why new pods are refused, by name; the checker refuses the same ones."""
    snapshot = expand(from_objects([*nodes, *objects]), from_objects(new, manifests=True)).snapshot
    found = {snapshot.pods[i].metadata.name or "": why for i, (_, why) in refusals(snapshot, policy, exempt).items()}
    assert {key.partition("/")[2] for key in checked.refused(snapshot, policy, exempt)} == found.keys()
    return found


def keys(made: Object, *others: Object, exempt: tuple[str, ...] = ()) -> tuple[str, ...]:
    snapshot = from_objects([*NODES, made, *others])
    return OpportunityCosts(snapshot, exempt).keys(snapshot.pods[0])


OWN = {"labels": {"app": "web"}}
ELSEWHERE = pod("x", namespace="other")


@pytest.mark.parametrize(
    ("term", "counts"),
    [
        ({"labelSelector": {}, "namespaceSelector": {}}, True),
        ({"labelSelector": {}}, True),  # every pod of its own namespace, not only its own kind
        ({"labelSelector": {"matchLabels": {"app": "web"}}}, False),  # replicas that keep apart
        ({"labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}}, False),
        ({"labelSelector": {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["db"]}]}}, True),
        ({"labelSelector": {"matchLabels": {"app": "db"}}}, True),  # pods of others
        ({"labelSelector": {"matchLabels": {"app": "web"}}, "namespaceSelector": {}}, True),
        ({"labelSelector": {"matchLabels": {"app": "web"}}, "namespaces": ["default"]}, False),
        ({"labelSelector": {"matchLabels": {"app": "web"}}, "namespaces": ["other"]}, True),
        ({"labelSelector": {"matchLabels": {"app": "web"}},
          "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}}, False),
        ({"labelSelector": {"matchLabels": {"app": "web"}},
          "namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}}, True),
        ({"namespaceSelector": {}}, False),  # a nil selector refuses nobody
        ({"labelSelector": {}, "matchLabelKeys": ["app"]}, False),
        ({"labelSelector": {}, "mismatchLabelKeys": ["app"]}, True),
    ],
)  # fmt: skip
def test_a_term_counts_unless_it_is_about_pods_like_its_own(term: Object, counts: bool) -> None:
    for variant in ("requiredDuringSchedulingIgnoredDuringExecution", "requiredDuringSchedulingRequiredDuringExecution"):
        made = refusing("p", {"topologyKey": HOST, **term}, variant=variant, **OWN)
        assert keys(made, ELSEWHERE) == ((HOST,) if counts else ())
        assert bool(refused_pods([quota(requests_cpu="1"), ELSEWHERE], [made])) is counts


def test_preferred_terms_and_exempt_namespaces_close_nothing() -> None:
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": ALL}]}
    assert keys(pod("p", affinity={"podAntiAffinity": preferred})) == ()
    assert keys(refusing("p", ALL), exempt=("default",)) == ()
    assert refused_pods([quota(requests_cpu="1")], [refusing("p", ALL)], exempt=("default",)) == {}
    daemons = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "web"}}, "namespaces": ["kube-system"]}
    assert keys(refusing("p", daemons), exempt=("kube-system",)) == ()


def test_a_pod_without_a_node_is_estimated_by_the_average_and_the_largest_domain() -> None:
    snapshot = from_objects(
        [*NODES, refusing("p", ALL), refusing("z", ALL | {"topologyKey": ZONE}), refusing("c", ALL | {"topologyKey": CLUSTER})]
    )
    costs = OpportunityCosts(snapshot)
    host, zone, cluster = (costs.estimate(each) for each in snapshot.pods)
    assert host is not None
    assert (host.average["cpu"], host.largest["cpu"], host.average_nodes, host.largest_nodes) == (Fraction(14000, 3), 8000, Fraction(1), 1)
    assert zone is not None
    assert (zone.average["cpu"], zone.average_nodes, zone.largest_nodes) == (Fraction(7000), Fraction(3, 2), 2)
    assert dict(zone.largest) == {"cpu": 8000, "memory": 16 * 2**30}
    assert cluster is not None
    assert (cluster.largest["cpu"], cluster.largest_nodes) == (14000, 3)


def test_node_affinity_and_a_node_make_it_exact() -> None:
    chosen = refusing("p", ALL, nodeSelector={HOST: "s2"})
    there = refusing("r", ALL, node_name="s1")
    both = refusing("b", ALL, ALL | {"topologyKey": ZONE}, node_name="s1")
    snapshot = from_objects([*NODES, chosen, there, both])
    costs = OpportunityCosts(snapshot)
    found = [costs.estimate(each) for each in snapshot.pods]
    assert [each.largest["cpu"] if each is not None else None for each in found] == [4000, 2000, 6000]
    assert [each.average["cpu"] if each is not None else None for each in found] == [4000, 2000, 6000]
    assert [sorted(costs.closed(each)) for each in snapshot.pods] == [[], [0], [0, 1]]


def test_a_key_that_no_node_has_closes_nothing() -> None:
    assert refused_pods([quota(requests_cpu="1")], [refusing("p", ALL | {"topologyKey": "no.one/has-it"})]) == {}


@pytest.mark.parametrize(("cpu", "fits"), [("8", True), ("7999m", False)])
def test_a_new_pod_is_charged_for_the_largest_node(cpu: str, fits: bool) -> None:
    found = refused_pods([quota(requests_cpu=cpu)], [refusing("p", ALL)])
    assert (not found) is fits
    assert refused_pods([quota(requests_cpu=cpu)], [refusing("p", ALL)], Policy()) == {}
    if found:
        assert found["p"] == (
            "exceeded quota: q, requested: requests.cpu=10m, used: requests.cpu=0, limited: requests.cpu=7999m, "
            "charged: requests.cpu=8 by opportunity cost over kubernetes.io/hostname"
        )


def test_the_charge_goes_down_to_the_node_that_the_pod_runs_on() -> None:
    there = refusing("r", ALL, node_name="s1")
    assert refused_pods([quota(requests_cpu="10"), there], [refusing("p", ALL)]) == {}
    assert refused_pods([quota(requests_cpu="9999m"), there], [refusing("p", ALL)]).keys() == {"p"}
    assert refused_pods([quota(requests_cpu="16"), refusing("waits", ALL)], [refusing("p", ALL)]) == {}
    assert refused_pods([quota(requests_cpu="15"), refusing("waits", ALL)], [refusing("p", ALL)]).keys() == {"p"}


def test_nodes_that_several_pods_close_count_once_and_requests_there_are_within() -> None:
    term = ALL | {"labelSelector": {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["s"]}]}}
    pair = [refusing(f"s-{i}", term, node_name="l1", cpu="3", labels={"app": "s"}) for i in range(2)]
    guest = pod("guest", cpu="1", node_name="l1", labels={"app": "s"})
    assert refused_pods([quota(requests_cpu="9"), *pair, guest], [pod("p", cpu="1")]) == {}
    assert refused_pods([quota(requests_cpu="8900m"), *pair, guest], [pod("p", cpu="1")]).keys() == {"p"}


def test_counts_and_limits_stay_as_stated_and_extended_resources_are_charged() -> None:
    found = [quota(pods="2", limits_cpu="1"), refusing("r", ALL, node_name="s1")]
    made = refusing("p", ALL)
    made["spec"]["containers"][0]["resources"]["limits"] = {"cpu": "1"}
    assert refused_pods(found, [made]) == {}
    gpus = [node("g", cpu="8", memory="8Gi")]
    gpus[0]["status"]["allocatable"]["nvidia.com/gpu"] = "4"
    limit = quota()
    limit["spec"]["hard"] = {"requests.nvidia.com/gpu": "3"}
    assert refused_pods([limit], [refusing("p", ALL)], nodes=gpus).keys() == {"p"}


def _random(rng: random.Random) -> tuple[list[Object], list[Object], list[Object]]:
    nodes = [
        node(f"n{i}", cpu=rng.choice(["2", "4"]), memory=rng.choice(["4Gi", "8Gi"]),
             labels={k: rng.choice("ab") for k in (ZONE, CLUSTER) if rng.random() < 0.7})
        for i in range(rng.randrange(1, 6))
    ]  # fmt: skip
    selectors: list[Object] = [
        {},
        {"matchLabels": {"app": "web"}},
        {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["db"]}]},
    ]
    spaces: list[Object] = [{}, {}, {"namespaceSelector": {}}, {"namespaces": ["other"]}, {"namespaces": ["kube-system"]},
                            {"namespaceSelector": {"matchLabels": {"team": "x"}}}]  # fmt: skip

    def made(name: str, **more: Any) -> Object:
        terms = [
            {"topologyKey": rng.choice([HOST, ZONE, CLUSTER]), "labelSelector": rng.choice(selectors), **rng.choice(spaces)}
            for _ in range(rng.choice([0, 1, 1, 2]))
        ]
        more |= {"nodeSelector": {ZONE: "a"}} if rng.random() < 0.3 else {}
        return refusing(name, *terms, labels={"app": rng.choice(["web", "db"])}, cpu=rng.choice(["100m", "1", "3"]), **more)

    there = [made(f"r{i}", **({"node_name": f"n{rng.randrange(len(nodes) + 1)}"} if rng.random() < 0.7 else {})) for i in range(3)]
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "third", "labels": rng.choice([{}, {"team": "x"}])}}
    hard = {"requests_cpu": str(rng.randrange(4, 24))} | ({"memory": f"{rng.randrange(8, 40)}Gi"} if rng.random() < 0.4 else {})
    return nodes, [quota(**hard), namespace, *there], [made(f"p{i}") for i in range(4)]


@pytest.mark.parametrize("seeds", [range(30), pytest.param(range(30, 600), marks=pytest.mark.full)], ids=["a few", "many"])
def test_the_checker_charges_the_same(seeds: range) -> None:
    """Random namespaces: some pods pass, some are refused, and opportunity cost decides of many."""
    refused = passed = decided = 0
    for seed in seeds:
        rng = random.Random(seed)
        nodes, objects, new = _random(rng)
        exempt = rng.choice([(), ("kube-system",)])
        found = refused_pods(objects, new, exempt=exempt, nodes=nodes)
        refused, passed = refused + len(found), passed + len(new) - len(found)
        decided += found.keys() != refused_pods(objects, new, Policy(), nodes=nodes).keys()
    assert min(refused, passed, decided) >= len(seeds) // 4


def test_a_choice_of_this_run_is_charged_as_a_pod_without_a_node() -> None:
    snapshot: Snapshot = from_objects([*NODES, refusing("r", ALL, node_name="s1")])
    costs = OpportunityCosts(snapshot)
    assert costs.home(snapshot.pods[0]) == 0
    snapshot.chosen_here = frozenset({pod_key(snapshot.pods[0])})
    assert OpportunityCosts(snapshot).home(snapshot.pods[0]) is None
