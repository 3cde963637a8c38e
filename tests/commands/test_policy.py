"""Effects of a policy file on the command line: each switch on a snapshot where it decides, and messages about bad input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from kubestow import cli
from tests.objects import Object, node, pod

HOST = "kubernetes.io/hostname"
NRI = "resource-policy.nri.io"
CRI = "cri-resource-manager.intel.com"


def run(*args: str | Path) -> Result:
    result = CliRunner().invoke(cli.main, [str(arg) for arg in args])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


class Bench:
    """A snapshot, a policy file and the result, in a directory of its own."""

    def __init__(self, directory: Path) -> None:
        self.snapshot, self.policy, self.result = directory / "snapshot.json", directory / "policy.yaml", directory / "result.json"

    def invoke(self, command: str, items: list[Object], *options: str, policy: Object | None = None) -> Result:
        self.snapshot.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}), encoding="utf-8")
        given: list[str] = []
        if policy is not None:
            self.policy.write_text(yaml.safe_dump(policy), encoding="utf-8")
            given = ["--policy", str(self.policy)]
        return run(command, self.snapshot, *given, *options)

    def solve(self, items: list[Object], policy: Object | None = None, *options: str) -> Any:
        """The result, which has to carry the policy and to stand up to the checker on reading it back."""
        result = self.invoke("solve", items, "-f", "json", "-o", str(self.result), *options, policy=policy)
        assert result.exit_code == 0, result.stderr
        assert self.verify() == (0, [])
        return json.loads(self.result.read_text(encoding="utf-8"))

    def verify(self) -> tuple[int, list[str]]:
        verified = run("verify", self.snapshot, "--result", self.result, "-f", "json")
        return verified.exit_code, [violation["why"] for violation in json.loads(verified.stdout)["violations"]]

    def refused(self, items: list[Object], policy: Object | None = None, *options: str) -> str:
        """The one line that is said instead of a result."""
        result = self.invoke("solve", items, "-f", "json", "-o", str(self.result), *options, policy=policy)
        assert result.exit_code == 1, result.stderr
        assert result.stdout == ""
        assert not self.result.exists()
        (line,) = (line for line in result.stderr.splitlines() if not line.startswith("note: "))
        assert line.startswith("kubestow: ")
        return line.removeprefix("kubestow: ")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def where(placement: Any) -> dict[str, str]:
    return {a["pod"].removeprefix("default/"): a["node"] for a in placement["assignments"]}


def tier(placement: Any, name: str) -> int | None:
    return next((t["value"] for t in placement["objective"] if t["tier"] == name), None)


def likes(name: str, weight: int) -> Object:
    """Node affinity to one node."""
    term = {"matchExpressions": [{"key": HOST, "operator": "In", "values": [name]}]}
    terms = [{"weight": min(weight, 100), "preference": term}, {"weight": weight - 100, "preference": term}]
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms[: 1 + (weight > 100)]}}


def near(app: str) -> Object:
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": HOST}


def hinted(made: Object, prefix: str = NRI, **hints: str) -> Object:
    """The pod with annotations ``affinity`` and ``anti``."""
    names = {"affinity": "affinity", "anti": "anti-affinity"}
    made["metadata"]["annotations"] = {f"{prefix}/{names[kind]}": text for kind, text in hints.items()}
    return made


def containers(made: Object, *names: str, cpu: str = "1", limits: bool = True) -> Object:
    amounts = {"cpu": cpu, "memory": "256Mi"}
    resources = {"requests": amounts, "limits": amounts} if limits else {"requests": amounts}
    made["spec"]["containers"] = [{"name": name, "image": "i", "resources": resources} for name in names]
    return made


def zones(*cpus: str, nodes: tuple[str, ...] = ("n1",), sockets: bool = True, **found: Any) -> Object:
    listed = [
        {"name": f"node-{i}", "resources": {"cpu": cpu, "memory": "8Gi"}, **({"socket": f"s{i}"} if sockets else {})}
        for i, cpu in enumerate(cpus)
    ]
    return {"nodes": list(nodes), "zones": listed, **found}


def nodes(**first: Any) -> list[Object]:
    return [node("n1", **first), node("n2")]


# --- multipliers: every case goes to n2, and to n1 where the family has no say ----------------------------------------------


def by_node_affinity() -> list[Object]:
    return [node("n1"), node("n2", taints=[{"key": "old", "effect": "PreferNoSchedule"}]), pod("p", affinity=likes("n2", 150))]


def by_taints() -> list[Object]:
    return [*nodes(taints=[{"key": "old", "effect": "PreferNoSchedule"}]), pod("p", affinity=likes("n1", 50))]


def by_pod_affinity() -> list[Object]:
    wish = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 80, "podAffinityTerm": near("db")}]}}
    return [*nodes(), pod("db", labels={"app": "db"}, node_name="n2"), pod("p", affinity={**likes("n1", 50), **wish})]


def by_pod_anti_affinity() -> list[Object]:
    wish = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 80, "podAffinityTerm": near("db")}]}}
    return [*nodes(), pod("db", labels={"app": "db"}, node_name="n1"), pod("p", affinity={**likes("n1", 50), **wish})]


def by_required_affinity() -> list[Object]:
    """The term of the bound pod also pulls those that it selects: 50 of them here, one point each."""
    needs = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near("web")]}}
    db = [pod(f"db-{i}", affinity=needs, node_name="n2", cpu="10m") for i in range(50)]
    return [*nodes(), *db, pod("p", labels={"app": "web"}, affinity=likes("n1", 40))]


def by_topology_spread() -> list[Object]:
    constraint = {
        "maxSkew": 1,
        "topologyKey": HOST,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    web = pod("p", labels={"app": "web"}, affinity=likes("n1", 50), spread=[constraint])
    return [*nodes(), pod("web-0", labels={"app": "web"}, node_name="n1"), web]


def by_container_affinity() -> list[Object]:
    text = "c:\n- scope: {operator: AlwaysTrue}\n  match: {key: pod/labels/app, operator: Equals, values: [db]}\n  weight: 40\n"
    return [*nodes(), pod("db", labels={"app": "db"}, node_name="n2"), hinted(pod("p", affinity=likes("n1", 50)), affinity=text)]


FAMILIES = {
    "nodeAffinity": by_node_affinity,
    "taints": by_taints,
    "podAffinity": by_pod_affinity,
    "requiredAffinity": by_required_affinity,
    "topologySpread": by_topology_spread,
    "containerAffinity": by_container_affinity,
}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_set_to_0_has_no_say(bench: Bench, family: str) -> None:
    make = FAMILIES[family]
    told = bench.solve(make())
    assert where(told)["p"] == "n2"
    if family != "taints":  # without a loss there is nothing to say of them
        assert family in {f["family"] for f in told["preferences"]["families"]}
    assert "policy" not in told

    silent = bench.solve(make(), {"multipliers": {family: 0}})
    assert where(silent)["p"] == "n1"
    assert family not in {f["family"] for f in silent["preferences"]["families"]}
    assert silent["policy"] == {"multipliers": {family: 0}}
    assert family not in {u["family"] for u in silent["preferences"]["unmet"]}


def test_anti_affinity_is_of_the_same_family(bench: Bench) -> None:
    assert where(bench.solve(by_pod_anti_affinity()))["p"] == "n2"
    assert where(bench.solve(by_pod_anti_affinity(), {"multipliers": {"podAffinity": 0}}))["p"] == "n1"


@pytest.mark.parametrize(
    ("family", "points"),
    [("taints", 50), ("podAffinity", 240), ("requiredAffinity", 150), ("topologySpread", 50), ("containerAffinity", 240)],
)
def test_a_multiplier_counts_points_and_not_raw_values(bench: Bench, family: str, points: int) -> None:
    """With three for one, a family wins against node affinity of three times the weight; its raw points stay the same."""
    items = FAMILIES[family]()
    items[-1]["spec"]["affinity"].update(likes("n1", 110))
    assert where(bench.solve(items))["p"] == "n1"
    result = bench.solve(items, {"multipliers": {family: 3}, "strategy": "none"})
    assert where(result)["p"] == "n2"
    found = {f["family"]: (f["value"], f["multiplier"]) for f in result["preferences"]["families"]}
    assert found.get(family, (0, 3))[1] == 3
    assert tier(result, "soft") == sum(value * multiplier for value, multiplier in found.values())
    if points > 50:
        assert 3 * found[family][0] == points


def test_with_every_family_at_0_there_is_no_soft_tier(bench: Bench) -> None:
    items = by_pod_affinity()
    result = bench.solve(items, {"multipliers": dict.fromkeys(FAMILIES, 0)})
    assert tier(result, "soft") in (None, 0)
    assert not result.get("preferences", {}).get("unmet")
    assert tier(result, "strategy") is not None


# --- hardPodAffinityWeight, defaultConstraints ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("weight", "value", "expected"), [(None, 40, "n1"), (0, 40, "n1"), (39, 40, "n1"), (41, 41, "n2"), (100, 100, "n2")]
)
def test_hard_pod_affinity_weight(bench: Bench, weight: int | None, value: int, expected: str) -> None:
    needs = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near("web")]}}
    items = [*nodes(), pod("db", affinity=needs, node_name="n2"), pod("p", labels={"app": "web"}, affinity=likes("n1", 40))]
    result = bench.solve(items, None if weight is None else {"hardPodAffinityWeight": weight})
    assert (where(result)["p"], tier(result, "soft")) == (expected, value)


def service(name: str = "web") -> Object:
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "default"}, "spec": {"selector": {"app": "web"}}}


def fleet(running: int) -> list[Object]:
    """Pods on n1 that a Service selects, and one more that would rather be there too."""
    there = [pod(f"web-{i}", labels={"app": "web"}, node_name="n1") for i in range(running)]
    return [*nodes(), *there, pod("p", labels={"app": "web"}, affinity=likes("n1", 50))]


def test_the_default_constraints_are_those_of_the_scheduler(bench: Bench) -> None:
    assert where(bench.solve([*fleet(2), service()]))["p"] == "n1"  # 3 and 0: within maxSkew 3
    assert where(bench.solve([*fleet(3), service()]))["p"] == "n2"
    assert where(bench.solve(fleet(3)))["p"] == "n1", "nothing selects the pod"


def test_no_default_constraints(bench: Bench) -> None:
    result = bench.solve([*fleet(3), service()], {"defaultConstraints": []})
    assert where(result)["p"] == "n1"
    assert result["policy"] == {"defaultConstraints": []}


def test_other_default_constraints(bench: Bench) -> None:
    policy = {"defaultConstraints": [{"topologyKey": HOST, "maxSkew": 1}]}
    result = bench.solve([*fleet(1), service()], policy)
    assert where(result)["p"] == "n2"
    assert result["policy"] == policy
    own = fleet(1)
    own[-1]["spec"]["topologySpreadConstraints"] = [
        {"maxSkew": 5, "topologyKey": HOST, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {"matchLabels": {"app": "web"}}}
    ]
    assert where(bench.solve([*own, service()], policy))["p"] == "n1", "a pod with constraints of its own has no others"


# --- strategy and prices ----------------------------------------------------------------------------------------------------


def test_strategies(bench: Bench) -> None:
    items = [*nodes(), node("n3"), *(pod(f"p{i}", cpu="1") for i in range(3))]
    spread = bench.solve(items)
    assert len(set(where(spread).values())) == 3
    pack = bench.solve(items, {"strategy": "pack"})
    assert len(set(where(pack).values())) == 1
    assert (tier(pack, "strategy"), pack["policy"]) == (-1, {"strategy": "pack"})
    none = bench.solve(items, {"strategy": "none"})
    assert tier(none, "strategy") is None


def test_the_option_wins_against_the_policy(bench: Bench) -> None:
    items = [*nodes(), pod("a", cpu="1"), pod("b", cpu="1")]
    result = bench.solve(items, {"strategy": "pack", "hardPodAffinityWeight": 3}, "--strategy", "spread")
    assert len(set(where(result).values())) == 2
    assert result["policy"] == {"hardPodAffinityWeight": 3}
    result = bench.solve(items, {"strategy": "spread"}, "--strategy", "pack")
    assert len(set(where(result).values())) == 1
    assert result["policy"] == {"strategy": "pack"}


def test_preferences_come_before_the_strategy(bench: Bench) -> None:
    items = [*nodes(), pod("a", affinity=likes("n1", 1)), pod("b", affinity=likes("n2", 1))]
    assert where(bench.solve(items, {"strategy": "pack"})) == {"a": "n1", "b": "n2"}


def test_prices(bench: Bench) -> None:
    items = [
        node("big", cpu="8", labels={"price": "2.5"}),
        node("small-1", cpu="2", labels={"price": "0.75"}),
        node("small-2", cpu="2", labels={"price": "750m"}),
        *(pod(f"p{i}", cpu="2") for i in range(2)),
    ]
    # By number, one big machine; by price, two small ones.
    assert set(where(bench.solve(items, {"strategy": "pack"})).values()) == {"big"}
    result = bench.solve(items, {"strategy": "pack", "priceLabel": "price"})
    assert set(where(result).values()) == {"small-1", "small-2"}
    assert tier(result, "strategy") == -1500


@pytest.mark.parametrize("price", [None, "", "cheap", "-1", "1 EUR"])
def test_a_node_without_a_price(bench: Bench, price: str | None) -> None:
    items = [node("n1", labels={"price": "1"}), node("n2", labels={} if price is None else {"price": price}), pod("p")]
    line = bench.refused(items, {"strategy": "pack", "priceLabel": "price"})
    assert line.startswith("Node n2: metadata.labels[price]: ")
    assert where(bench.solve(items, {"strategy": "spread", "priceLabel": "price"})), "only pack asks for prices"


def test_a_price_beyond_64_bits(bench: Bench) -> None:
    items = [node("n1", labels={"price": "99999999999999999999"}), pod("p")]
    assert "n1" in bench.refused(items, {"strategy": "pack", "priceLabel": "price"})


def test_prices_whose_sum_is_beyond_64_bits(bench: Bench) -> None:
    huge = {"price": "9000000000000000"}
    items = [node("n1", labels=huge), node("n2", labels=huge), pod("a", cpu="3"), pod("b", cpu="3")]
    result = bench.invoke("solve", items, "-f", "json", policy={"strategy": "pack", "priceLabel": "price"})
    assert result.exit_code in (0, 1), result.stderr
    assert "internal fault" not in result.stderr


# --- container affinity -----------------------------------------------------------------------------------------------------

PAIR = "a:\n- match: {key: name, operator: Equals, values: [b]}\n  weight: 30\n"


def twins(**affinity: Any) -> list[Object]:
    """One pod of two containers of one CPU that want to be together."""
    return [*nodes(), hinted(containers(pod("p", **affinity), "a", "b"), affinity=PAIR)]


def listed(placement: Any, name: str = "p") -> dict[str, list[str]]:
    (found,) = [a for a in placement["assignments"] if a["pod"] == f"default/{name}"]
    return {c["name"]: c["zones"] for c in found["containers"]}


def test_topologies_say_where_containers_can_share_a_zone(bench: Bench) -> None:
    """On n1 each zone has one CPU, on n2 two; without topologies, all are as close as can be."""
    told = {"topologies": [zones("1", "1"), zones("2", "2", nodes=("n2",))]}
    result = bench.solve(twins(affinity=likes("n1", 50)), told)
    assert where(result) == {"p": "n2"}
    assert tier(result, "soft") == 60
    assert listed(result)["a"] == listed(result)["b"] != []
    blind = bench.solve(twins(affinity=likes("n1", 50)))
    assert where(blind) == {"p": "n1"}
    assert tier(blind, "soft") == 110


@pytest.mark.parametrize(
    ("closeness", "sockets", "value"),
    [
        ({}, True, 0),
        ({}, False, 30),
        ({"sameSocket": 2}, False, 60),
        ({"sameNode": 1}, True, 30),
        ({"sameZone": 7, "sameSocket": 7}, False, 210),
        ({"sameNode": -2}, True, -60),
    ],
)
def test_closeness(bench: Bench, closeness: Object, sockets: bool, value: int) -> None:
    """On a machine whose zones hold one container each."""
    policy: Object = {"topologies": [zones("1", "1", sockets=sockets)]} | ({"closeness": closeness} if closeness else {})
    result = bench.solve([node("n1"), *twins()[2:]], policy)
    assert tier(result, "soft") == value
    assert result["policy"] == json.loads(json.dumps(policy))


def test_closeness_decides(bench: Bench) -> None:
    told = {"topologies": [zones("1", "1"), zones("2", "2", nodes=("n2",))]}
    flat = {**told, "closeness": {"sameZone": 1, "sameSocket": 1, "sameNode": 1}}
    assert where(bench.solve(twins(affinity=likes("n1", 50)), flat)) == {"p": "n1"}


def test_topologies_can_reject(bench: Bench) -> None:
    """A kubelet with single-numa-node needs one zone for three CPUs."""
    items = [*nodes(), containers(pod("p", affinity=likes("n1", 50)), "c", cpu="3")]
    strict = {"topologies": [zones("2", "2", topologyManagerPolicy="single-numa-node")]}
    assert where(bench.solve(items, strict)) == {"p": "n2"}
    assert where(bench.solve(items, {"topologies": [zones("2", "2")]})) == {"p": "n1"}
    result = bench.invoke("explain", items, "--per-node", "-f", "json", policy=strict)
    (found,) = json.loads(result.stdout)["pods"]
    assert found["rejected"] == {"n1": ["NodeResourceTopologyMatch"]}
    alone = bench.invoke("solve", [items[0], items[2]], "-f", "json", policy=strict)
    assert alone.exit_code == 3
    (left,) = json.loads(alone.stdout)["unplaced"]
    assert [reason["rule"] for reason in left["reasons"]] == ["NodeResourceTopologyMatch"]


@pytest.mark.parametrize(
    ("policy", "options", "value", "written"),
    [
        (None, (), 2, None),
        ({"shorthand": "directed"}, (), 2, None),
        ({"shorthand": "symmetric"}, (), 4, {"shorthand": "symmetric"}),
        (None, ("--shorthand", "symmetric"), 4, {"shorthand": "symmetric"}),
        ({"shorthand": "symmetric"}, ("--shorthand", "directed"), 2, None),
    ],
)
def test_shorthand(bench: Bench, policy: Object | None, options: tuple[str, ...], value: int, written: Object | None) -> None:
    items = [node("n1"), hinted(containers(pod("p"), "a", "b"), affinity="a: [b]")]
    result = bench.solve(items, policy, *options)
    assert tier(result, "soft") == value
    assert result.get("policy") == written


def test_colocate_pods(bench: Bench) -> None:
    """Ten points between the containers of a pod, both ways; with zones, the machine that has one for both."""
    items = [*nodes(), containers(pod("p", affinity=likes("n1", 30)), "a", "b")]
    told = {"topologies": [zones("1", "1"), zones("2", "2", nodes=("n2",))]}
    assert where(bench.solve(items, told)) == {"p": "n1"}
    result = bench.solve(items, {**told, "colocatePods": True})
    assert where(result) == {"p": "n2"}
    assert tier(result, "soft") == 40


def test_colocate_pods_is_for_containers_without_entries(bench: Bench) -> None:
    items = [node("n1"), hinted(containers(pod("p"), "a", "b", "c"), affinity="a: [b]")]
    # a has an entry of its own (1); b and c have ten to each of the two others.
    assert tier(bench.solve(items, {"colocatePods": True}), "soft") == 2 * (1 + 4 * 10)


def test_colocate_namespaces(bench: Bench) -> None:
    items = [*nodes(), *(pod(f"{ns}-{i}", namespace=ns, cpu="1") for ns in ("a", "b") for i in range(2))]
    result = bench.solve(items, {"colocateNamespaces": True})
    found = where(result)
    assert found["a/a-0"] == found["a/a-1"]
    assert found["b/b-0"] == found["b/b-1"]
    assert found["a/a-0"] != found["b/b-0"], "the strategy spreads what has no say"
    assert tier(result, "soft") == 2 * 2 * 2 * 10
    assert tier(bench.solve(items), "soft") is None


# --- the rest of the switches -----------------------------------------------------------------------------------------------


def selfish(topology_key: str = HOST, **term: Any) -> Object:
    """Required anti-affinity to all pods of its namespace, or of all namespaces."""
    found = {"labelSelector": {}, "topologyKey": topology_key, **term}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [found]}}


def test_daemon_namespaces(bench: Bench) -> None:
    agent = pod("agent", namespace="kube-system", node_name="n1", affinity=selfish(namespaceSelector={}))
    items = [node("n1"), agent, pod("p")]
    assert bench.invoke("solve", items, "-f", "json").exit_code == 3
    result = bench.solve(items, {"daemonNamespaces": ["kube-system"]})
    assert where(result) == {"p": "n1"}
    assert result["snapshot"]["daemonNamespaces"] == ["kube-system"]
    # The option says instead which they are.
    other = bench.invoke("solve", items, "-f", "json", "--daemon-namespaces", "other", policy={"daemonNamespaces": ["kube-system"]})
    assert other.exit_code == 3
    explained = bench.invoke("explain", items, "-f", "json", policy={"daemonNamespaces": ["kube-system"]})
    assert json.loads(explained.stdout)["pods"][0]["feasible"] in (1, ["n1"])


def test_refuse_all_namespaces_anti_affinity(bench: Bench) -> None:
    labels = {"zone": "a"}
    items = [node("n1", labels=labels), pod("hog", affinity=selfish("zone", namespaceSelector={}))]
    assert where(bench.solve(items)) == {"hog": "n1"}
    bench.result.unlink()
    line = bench.refused(items, {"refuseAllNamespacesAntiAffinity": True})
    assert line.startswith("Pod default/hog: spec.affinity.podAntiAffinity: ")
    for harmless in (
        selfish(namespaceSelector={}),
        selfish("zone"),
        selfish("zone", namespaces=["a", "b"]),
        selfish("zone", namespaceSelector={"matchLabels": {"team": "a"}}),
    ):
        fine = [node("n1", labels=labels), pod("p", affinity=harmless)]
        assert where(bench.solve(fine, {"refuseAllNamespacesAntiAffinity": True})) == {"p": "n1"}
    # Running pods were admitted before.
    running = [node("n1", labels=labels), node("n2"), pod("hog", node_name="n1", affinity=selfish("zone", namespaceSelector={})), pod("p")]
    assert where(bench.solve(running, {"refuseAllNamespacesAntiAffinity": True})) == {"p": "n2"}


EVERYBODY_A_NODE: Object = {"antiAffinityUsers": [{"keys": "hostname"}, {"serviceAccounts": ["default/db"], "keys": "any"}]}


def test_who_may_use_required_anti_affinity(bench: Bench) -> None:
    zone, web = {"zone": "a"}, pod("web", affinity=selfish("zone"))
    items = [node("n1", labels=zone), web]
    assert where(bench.solve(items)) == {"web": "n1"}
    bench.result.unlink()
    line = bench.refused(items, EVERYBODY_A_NODE)
    assert line == (
        "Pod default/web: spec.affinity.podAntiAffinity: required anti-affinity with topologyKey 'zone' is not granted to namespace"
        " default, service account default/default, no priority class, expected a preferred term or kubernetes.io/hostname (policy:"
        " antiAffinityUsers)"
    )
    line = bench.refused([items[0], pod("own", affinity=selfish())], {"antiAffinityUsers": [{"keys": "none"}]})
    assert "expected a preferred term (policy: antiAffinityUsers)" in line
    for fine in (pod("web", affinity=selfish()), {**web, "spec": {**web["spec"], "serviceAccountName": "db"}}, pod("web")):
        assert where(bench.solve([items[0], fine], EVERYBODY_A_NODE)) == {"web": "n1"}
    running = [node("n1", labels=zone), node("n2"), pod("hog", node_name="n1", affinity=selfish("zone")), pod("p")]
    assert where(bench.solve(running, EVERYBODY_A_NODE))["p"] in ("n1", "n2")  # running pods were admitted before


@pytest.mark.parametrize(
    ("user", "refused"),
    [
        ({"namespaces": ["a"]}, False),
        ({"namespaces": ["b", "c"]}, True),
        ({"priorityClasses": ["high"]}, False),
        ({"priorityClasses": ["low"]}, True),
        ({"namespaces": ["a"], "priorityClasses": ["low"]}, True),  # all that is named has to hold
        ({"namespaces": ["a"], "priorityClasses": ["low", "high"], "serviceAccounts": ["a/default"]}, False),
        ({"keys": "hostname"}, True),
        ({}, False),
    ],
)
def test_users_of_required_anti_affinity_are_named_in_three_ways(bench: Bench, user: Object, refused: bool) -> None:
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 7, "globalDefault": True}
    items = [high, node("n1", labels={"zone": "a"}), pod("p", namespace="a", affinity=selfish("zone"))]
    if refused:
        assert "is not granted to namespace a, service account a/default, priority class high" in bench.refused(
            items, {"antiAffinityUsers": [user]}
        )
    else:
        assert where(bench.solve(items, {"antiAffinityUsers": [user]})) == {"a/p": "n1"}


def test_rebalance_admits_no_pod_whose_anti_affinity_is_not_granted(bench: Bench) -> None:
    items = [node("n1", labels={"zone": "a"}), pod("web", affinity=selfish("zone"))]
    result = bench.invoke("rebalance", items, "--goal", "admit", "-f", "json", policy=EVERYBODY_A_NODE)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "Pod default/web: spec.affinity.podAntiAffinity: required anti-affinity with topologyKey 'zone'" in result.stderr
    assert bench.invoke("rebalance", items, "--goal", "repair", "-f", "json", policy=EVERYBODY_A_NODE).exit_code == 0


def test_the_checker_knows_who_may_use_required_anti_affinity(bench: Bench) -> None:
    bench.solve([node("n1", labels={"zone": "a"}), pod("web", affinity=selfish("zone"))])
    document = json.loads(bench.result.read_text(encoding="utf-8"))
    bench.result.write_text(json.dumps(document | {"policy": EVERYBODY_A_NODE}), encoding="utf-8")
    code, why = bench.verify()
    assert (code, why) == (4, ["the policy does not grant it required anti-affinity over zone"])


def test_check_and_audit_name_required_anti_affinity_that_is_not_granted(bench: Bench, tmp_path: Path) -> None:
    cluster = tmp_path / "cluster.json"
    cluster.write_text(json.dumps(node("n1", labels={"zone": "a"})), encoding="utf-8")
    made = pod("web", affinity=selfish("zone"))
    found = bench.invoke("check", [made], "--cluster", str(cluster), "-f", "json", policy=EVERYBODY_A_NODE)
    assert found.exit_code == 4, found.stderr
    document = json.loads(found.stdout)
    assert "KS306" in [each["finding"]["code"] for each in document["faults"]]
    found = bench.invoke("audit", [node("n1", labels={"zone": "a"}), made], "-f", "json", policy=EVERYBODY_A_NODE)
    assert found.exit_code == 4
    (one,) = [each for each in json.loads(found.stdout)["findings"] if each["code"] == "KS306"]
    assert (one["object"], one["severity"]) == ("Pod default/web", "error")
    assert one["field"] == "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]"


def test_check_names_what_the_policy_refuses_over_all_namespaces(bench: Bench, tmp_path: Path) -> None:
    cluster = tmp_path / "cluster.json"
    cluster.write_text(json.dumps(node("n1", labels={"zone": "a"})), encoding="utf-8")
    made = pod("web", affinity=selfish("zone", namespaceSelector={}))
    found = bench.invoke("check", [made], "--cluster", str(cluster), "-f", "json", policy={"refuseAllNamespacesAntiAffinity": True})
    assert found.exit_code == 4, found.stderr
    assert [e["finding"]["severity"] for e in json.loads(found.stdout)["faults"] if e["finding"]["code"] == "KS301"] == ["error"]


def test_preferred_anti_affinity_without_symmetry(bench: Bench) -> None:
    """q would rather be on n1, where p would rather be without it: p came first, and may drive q away only where symmetry counts."""
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "q"}}}
    refuses = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": term}]}}
    running = pod("p", affinity=refuses, node_name="n1")
    items = [node("n1"), node("n2"), running, pod("q", labels={"app": "q"}, affinity=likes("n1", 10))]
    assert where(bench.solve(items)) == {"q": "n2"}
    found = bench.solve(items, {"symmetricPreferredAntiAffinity": False})
    assert where(found) == {"q": "n1"}
    assert tier(found, "soft") == 10
    coming = [*items[:2], pod("p", affinity=refuses), pod("q", labels={"app": "q"}, node_name="n1")]
    assert where(bench.solve(coming, {"symmetricPreferredAntiAffinity": False})) == {"p": "n2"}  # its own choice


def space(name: str, **labels: str) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def expressed(key: str, operator: str, *values: str) -> Object:
    return {"namespaceSelector": {"matchExpressions": [{"key": key, "operator": operator, **({"values": list(values)} if values else {})}]}}


#: Teams with an object each, or with nothing but pods.
_TEAMS = {"objects": [space("b", team="x"), space("c")], "pods": [pod("q", namespace="b"), pod("q", namespace="c")]}
_NAME = "kubernetes.io/metadata.name"


@pytest.mark.parametrize("teams", _TEAMS)
@pytest.mark.parametrize(
    "term",
    [
        expressed(_NAME, "NotIn", "nobody"),
        expressed(_NAME, "NotIn", "b"),  # all that are to come, and most of those there are
        expressed(_NAME, "Exists"),
        expressed(_NAME, "In", "a", "b", "c", "d"),
        expressed("nobody/has", "DoesNotExist"),
        {"namespaces": ["a"], **expressed(_NAME, "In", "b", "c")},
        {"namespaces": ["a", "b", "c"]},
    ],
)
def test_every_way_to_say_all_namespaces_is_refused(term: Object, teams: str, bench: Bench) -> None:
    hog = pod("hog", namespace="a", affinity=selfish("zone", **term))
    line = bench.refused([node("n1", labels={"zone": "z"}), hog, *_TEAMS[teams]], {"refuseAllNamespacesAntiAffinity": True})
    assert line.startswith("Pod a/hog: spec.affinity.podAntiAffinity: required over all namespaces with topologyKey 'zone'")


@pytest.mark.parametrize("term", [expressed(_NAME, "In", "a", "b"), {"namespaces": ["c"]}, expressed("team", "Exists"), {}])
def test_some_namespaces_are_not_all(term: Object, bench: Bench) -> None:
    hog = pod("hog", namespace="a", affinity=selfish("zone", **term))
    items = [node("n1", labels={"zone": "z"}), hog, *_TEAMS["objects"]]
    assert where(bench.solve(items, {"refuseAllNamespacesAntiAffinity": True})) == {"a/hog": "n1"}


# --- bad policies -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", [{"strategi": "pack"}, {"multipliers": {"taints": -1}}, {"closeness": {"sameZone": 0}}])
def test_a_bad_policy_is_one_line(bench: Bench, policy: Object) -> None:
    line = bench.refused([node("n1"), pod("p")], policy)
    assert line.startswith(f"{bench.policy}: Policy: ")


@pytest.mark.parametrize("command", ["solve", "explain"])
def test_a_policy_that_is_not_there(bench: Bench, command: str) -> None:
    result = bench.invoke(command, [node("n1"), pod("p")], "--policy", "nowhere.yaml")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.splitlines() == ["kubestow: nowhere.yaml: cannot be read: No such file or directory"]


@pytest.mark.parametrize(("quantity", "what"), [("99999999999999999999999", "64 bits"), ("1Zi", "quantity")])
def test_a_topology_that_cannot_be(bench: Bench, quantity: str, what: str) -> None:
    assert what in bench.refused([node("n1"), pod("p")], {"topologies": [zones(quantity)]})


# --- results carry the policy -----------------------------------------------------------------------------------------------


def test_the_checker_scores_by_the_policy_of_the_result(bench: Bench) -> None:
    bench.solve(by_pod_affinity(), {"multipliers": {"podAffinity": 4}})
    document = json.loads(bench.result.read_text(encoding="utf-8"))
    del document["policy"]
    bench.result.write_text(json.dumps(document), encoding="utf-8")
    code, why = bench.verify()
    assert code == 4
    assert any("tier soft" in text for text in why)


@pytest.mark.parametrize("name", ["soft", "strategy"])
@pytest.mark.parametrize("change", [1, -1])
@pytest.mark.parametrize("policy", [None, {"multipliers": {"containerAffinity": 2}}])
def test_a_changed_value_is_found_out(bench: Bench, name: str, change: int, policy: Object | None) -> None:
    bench.solve(by_container_affinity(), policy)
    document = json.loads(bench.result.read_text(encoding="utf-8"))
    for found in document["objective"]:
        if found["tier"] == name:
            found["value"] += change
            found["bound"] += change
    bench.result.write_text(json.dumps(document), encoding="utf-8")
    code, why = bench.verify()
    assert code == 4
    assert any(f"tier {name}" in text for text in why)


def test_a_changed_family_is_found_out(bench: Bench) -> None:
    bench.solve(by_container_affinity())
    document = json.loads(bench.result.read_text(encoding="utf-8"))
    document["preferences"]["families"][0]["value"] += 1
    bench.result.write_text(json.dumps(document), encoding="utf-8")
    code, why = bench.verify()
    assert code == 4
    assert any(text.startswith("preferences: ") for text in why)


def test_a_result_in_yaml_carries_the_policy_too(bench: Bench) -> None:
    policy = {"topologies": [zones("2", "2")], "defaultConstraints": [], "daemonNamespaces": ["kube-system"], "shorthand": "symmetric"}
    items = [node("n1"), hinted(containers(pod("p"), "a", "b"), affinity="a: [b]")]
    result = bench.invoke("solve", items, "-f", "yaml", "-o", str(bench.result), policy=policy)
    assert result.exit_code == 0, result.stderr
    assert yaml.safe_load(bench.result.read_text(encoding="utf-8"))["policy"] == policy
    assert bench.verify() == (0, [])


# --- annotations ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("a: [b, {match: {key: name, operator: Exists}}]", "container 'a', entry 1"),
        ("a: b", "container 'a'"),
        ("a:\n- match: {key: name, op: Equals, values: [b]}", "container 'a', entry 0"),
        ("a:\n- match: {key: name, operator: Equals, values: []}", "container 'a', entry 0"),
        ("a:\n- match: {key: name, operator: In, values: [b]}\n  weight: 1.5", "weight"),
        ("a:\n- match: {key: colour, operator: Exists}", "colour"),
        ("a: [b", "line"),
        ("nosuch:\n- {}", "container 'nosuch', entry 0"),
    ],
)
@pytest.mark.parametrize("kind", ["affinity", "anti"])
def test_a_bad_annotation_is_named_and_the_pod_placed_without_it(bench: Bench, text: str, what: str, kind: str) -> None:
    items = [node("n1"), hinted(containers(pod("p"), "a", "b"), **{kind: text})]
    assert where(bench.solve(items)) == {"p": "n1"}
    line = bench.invoke("solve", items, "-q").stderr
    assert line.startswith(f"note: Pod default/p: annotation {NRI}/{'affinity' if kind == 'affinity' else 'anti-affinity'}: ")
    assert what in line
    assert bench.invoke("solve", items, "--strict").exit_code == 4


def test_a_bad_annotation_does_not_matter_where_hints_do_not_count(bench: Bench) -> None:
    items = [node("n1"), hinted(containers(pod("p"), "a", "b"), affinity="a: b")]
    assert where(bench.solve(items, {"multipliers": {"containerAffinity": 0}})) == {"p": "n1"}


def test_a_running_pod_only_loses_its_say(bench: Bench) -> None:
    items = [node("n1"), hinted(containers(pod("q", node_name="n1"), "a", "b"), affinity="a: b"), pod("p")]
    assert where(bench.solve(items)) == {"p": "n1"}
    warned = [line for line in bench.invoke("solve", items, "-f", "json").stderr.splitlines() if line.startswith("warning: ")]
    assert len(warned) == 1
    assert "default/q" in warned[0]


WARNED = {
    "both names": ({f"{NRI}/affinity": "a: [b]", f"{CRI}/anti-affinity": "a: [b]"}, "ignored"),
    "weight 0": ({f"{NRI}/affinity": PAIR.replace("30", "0")}, "0"),
    "clamped": ({f"{NRI}/affinity": PAIR.replace("30", "2000")}, "1000"),
    "negative anti-affinity": ({f"{NRI}/anti-affinity": PAIR.replace("30", "-3")}, "-3"),
    "unknown container": ({f"{NRI}/affinity": "a: [zebra]"}, "zebra"),
}


@pytest.mark.parametrize("case", WARNED)
@pytest.mark.parametrize("command", ["solve", "explain"])
def test_warnings_on_standard_error(bench: Bench, command: str, case: str) -> None:
    annotations, what = WARNED[case]
    made = containers(pod("p"), "a", "b")
    made["metadata"]["annotations"] = annotations
    result = bench.invoke(command, [node("n1"), made], "-f", "json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)
    warned = [line for line in result.stderr.splitlines() if line.startswith("warning: ")]
    assert len(warned) == 1
    assert "default/p" in warned[0]
    assert what in warned[0]
    quiet = bench.invoke(command, [node("n1"), made], "-f", "json", "-q")
    assert (quiet.exit_code, quiet.stderr) == (0, "")
    off = bench.invoke(command, [node("n1"), made], "-f", "json", policy={"multipliers": {"containerAffinity": 0}})
    assert "warning" not in off.stderr


def test_the_current_name_counts_where_both_are_given(bench: Bench) -> None:
    made = containers(pod("p"), "a", "b")
    made["metadata"]["annotations"] = {f"{NRI}/affinity": "a: [b]", f"{CRI}/affinity": PAIR}
    assert tier(bench.solve([node("n1"), made]), "soft") == 2
    made["metadata"]["annotations"] = {f"{CRI}/affinity": PAIR}
    assert tier(bench.solve([node("n1"), made]), "soft") == 60


# --- explain --affinity -----------------------------------------------------------------------------------------------------


def farm() -> list[Object]:
    flock = hinted(
        containers(pod("meadow", namespace="farm"), "peter", "sheep", "wolf"),
        affinity="peter:\n- match: {key: name, operator: Equals, values: [sheep]}\n  weight: 5\n",
        anti="peter:\n- match: {key: name, operator: Equals, values: [wolf]}\n  weight: 7\n",
    )
    text = "dog:\n- scope: {key: namespace, operator: Equals, values: [farm]}\n  match: {key: name, operator: In, values: [sheep]}\n"
    guard = hinted(containers(pod("guard", namespace="farm"), "dog"), affinity=text)
    stray = containers(pod("meadow", namespace="other"), "sheep", "wolf")
    return [node("n1"), flock, guard, stray]


PAIRS = [
    {"from": "farm/meadow/peter", "to": "farm/meadow/sheep", "weight": 5},
    {"from": "farm/meadow/peter", "to": "farm/meadow/wolf", "weight": -7},
    {"from": "farm/guard/dog", "to": "farm/meadow/sheep", "weight": 1},
]


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_affinity_as_data(bench: Bench, form: str) -> None:
    result = bench.invoke("explain", farm(), "--affinity", "farm/meadow", "-f", form)
    assert (result.exit_code, result.stderr) == (0, "")
    found = json.loads(result.stdout) if form == "json" else yaml.safe_load(result.stdout)
    assert found["pod"] == "farm/meadow"
    assert found["containers"] == ["farm/meadow/peter", "farm/meadow/sheep", "farm/meadow/wolf"]
    assert found["affinity"] == PAIRS


def test_affinity_as_a_table(bench: Bench) -> None:
    result = bench.invoke("explain", farm(), "--affinity", "farm/meadow", "-f", "table")
    assert (result.exit_code, result.stderr) == (0, "")
    lines = [line.split() for line in result.stdout.splitlines() if line.strip()]
    assert lines[0][0] == "farm/meadow:"
    assert ["sheep", "wolf"] in lines
    assert ["peter", "+5", "-7"] in lines
    assert ["farm/guard/dog", "+1"] in lines


def test_affinity_of_a_pod_without_any(bench: Bench) -> None:
    result = bench.invoke("explain", farm(), "--affinity", "other/meadow", "-f", "json")
    assert json.loads(result.stdout) == {"pod": "other/meadow", "containers": ["other/meadow/sheep", "other/meadow/wolf"], "affinity": []}
    table = bench.invoke("explain", farm(), "--affinity", "other/meadow", "-f", "table")
    assert table.exit_code == 0
    assert "no container" in table.stdout


def deployment(text: str = "a: [b]", kind: str = "Deployment") -> Object:
    made = hinted(containers(pod("x"), "a", "b"), affinity=text)
    template = {"metadata": {"labels": {"app": "web"}, "annotations": made["metadata"]["annotations"]}, "spec": made["spec"]}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "web", "namespace": "shop"}, "spec": spec}


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"])
def test_affinity_of_a_workload(bench: Bench, kind: str) -> None:
    result = bench.invoke("explain", [node("n1"), deployment(kind=kind)], "--affinity", "shop/web", "-f", "json")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout) == {
        "pod": "shop/web",
        "containers": ["shop/web/a", "shop/web/b"],
        "affinity": [{"from": "shop/web/a", "to": "shop/web/b", "weight": 1}],
    }


@pytest.mark.parametrize("replicas", [1, 2])
def test_affinity_of_a_workload_with_pods_counts_each_replica_once(bench: Bench, replicas: int, tmp_path: Path) -> None:
    """All containers named "b" of the namespace: those of each other replica, and of no more than there are."""
    text = "a:\n- scope: {key: namespace, operator: Equals, values: [shop]}\n  match: {key: name, operator: Equals, values: [b]}\n"
    made = deployment(text)
    made["spec"]["replicas"] = replicas
    app = tmp_path / "app.yaml"
    app.write_text(json.dumps(made))
    result = bench.invoke("explain", [node("n1")], "-w", str(app), "--affinity", "shop/web", "-f", "json")
    found = json.loads(result.stdout)
    assert found["pod"].startswith("shop/web-")
    assert len([pair for pair in found["affinity"] if pair["from"] == found["containers"][0]]) == replicas


def test_affinity_of_a_running_container_by_its_id(bench: Bench) -> None:
    text = "dog:\n- scope: {operator: AlwaysTrue}\n  match: {key: id, operator: Equals, values: [4f2a]}\n  weight: 9\n"
    dog = hinted(containers(pod("guard", namespace="farm"), "dog"), affinity=text)
    sheep = containers(pod("meadow", namespace="farm", node_name="n1"), "sheep", "wolf")
    sheep["status"]["containerStatuses"] = [{"name": "sheep", "containerID": "containerd://4f2a"}, {"name": "wolf", "containerID": "x"}]
    result = bench.invoke("explain", [node("n1"), dog, sheep], "--affinity", "farm/guard", "-f", "json")
    assert json.loads(result.stdout)["affinity"] == [{"from": "farm/guard/dog", "to": "farm/meadow/sheep", "weight": 9}]


def test_affinity_with_a_malformed_pattern_is_named(bench: Bench) -> None:
    made = hinted(containers(pod("p"), "a", "b"), affinity="a: [{match: {key: name, operator: Matches, values: ['b[']}}]")
    result = bench.invoke("explain", [node("n1"), made], "--affinity", "default/p", "-f", "json")
    assert "entry 0, match: 'b[': malformed pattern: expected a character in a class, so that the pattern matches nothing" in result.stderr


def test_affinity_under_the_switches(bench: Bench) -> None:
    def pairs(*options: str, policy: Object | None = None) -> dict[tuple[str, str], int]:
        result = bench.invoke("explain", [node("n1"), deployment()], "--affinity", "shop/web", "-f", "json", *options, policy=policy)
        assert result.exit_code == 0, result.stderr
        return {(p["from"][-1], p["to"][-1]): p["weight"] for p in json.loads(result.stdout)["affinity"]}

    assert pairs() == {("a", "b"): 1}
    assert pairs("--shorthand", "symmetric") == {("a", "b"): 1, ("b", "a"): 1}
    assert pairs(policy={"shorthand": "symmetric"}) == {("a", "b"): 1, ("b", "a"): 1}
    assert pairs("--shorthand", "directed", policy={"shorthand": "symmetric"}) == {("a", "b"): 1}
    assert pairs(policy={"colocatePods": True}) == {("a", "b"): 1, ("b", "a"): 10}
    assert pairs(policy={"colocatePods": True, "colocateNamespaces": True}) == {("a", "b"): 1, ("b", "a"): 20}


@pytest.mark.parametrize("name", ["farm/nobody", "meadow/farm", "default/meadow"])
def test_affinity_of_an_unknown_name(bench: Bench, name: str) -> None:
    result = bench.invoke("explain", farm(), "--affinity", name, "-f", "json")
    assert (result.exit_code, result.stdout) == (1, "")
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"kubestow: --affinity: {name}: ")


@pytest.mark.parametrize("items", [[hinted(containers(pod("web", namespace="shop"), "a"), affinity="a: b")], [deployment("a: b")]])
def test_affinity_of_a_bad_annotation(bench: Bench, items: list[Object]) -> None:
    result = bench.invoke("explain", [node("n1"), *items], "--affinity", "shop/web", "-f", "json")
    assert (result.exit_code, result.stdout) == (1, "")
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"kubestow: Pod shop/web: annotation {NRI}/affinity: container 'a'")


def test_affinity_warnings(bench: Bench) -> None:
    made = hinted(containers(pod("p"), "a", "b"), affinity=PAIR.replace("30", "2000"))
    result = bench.invoke("explain", [node("n1"), made], "--affinity", "default/p", "-f", "json")
    assert json.loads(result.stdout)["affinity"][0]["weight"] == 1000
    (line,) = result.stderr.splitlines()
    assert line.startswith("warning: Pod default/p: ")
    quiet = bench.invoke("explain", [node("n1"), made], "--affinity", "default/p", "-f", "json", "-q")
    assert quiet.stderr == ""


@pytest.mark.parametrize("option", [("--pod", "farm/meadow"), ("--node", "n1"), ("--per-node",)])
def test_affinity_goes_alone(bench: Bench, option: tuple[str, ...]) -> None:
    result = bench.invoke("explain", farm(), "--affinity", "farm/meadow", *option)
    assert result.exit_code == 2


def test_affinity_needs_a_namespace(bench: Bench) -> None:
    assert bench.invoke("explain", farm(), "--affinity", "meadow").exit_code == 2


def test_images_draw_pods_where_the_policy_weighs_them(bench: Bench) -> None:
    holder = node("n2")
    holder["status"]["images"] = [{"names": ["registry.example/big:1"], "sizeBytes": 900 * 2**20}]
    items = [node("n1"), holder, *(pod(f"p{i}", containers=[{"name": "c", "image": "registry.example/big:1"}]) for i in range(2))]
    assert {a["node"] for a in bench.solve(items)["assignments"]} == {"n1", "n2"}
    found = bench.solve(items, {"multipliers": {"imageLocality": 2}})
    assert {a["node"] for a in found["assignments"]} == {"n2"}
    each = 100 * (450 - 23) // (1000 - 23)  # one of two nodes has it: half of its size counts
    assert found["preferences"]["families"] == [{"family": "imageLocality", "value": 2 * each, "best": 2 * each, "multiplier": 2}]
    assert next(t["value"] for t in found["objective"] if t["tier"] == "soft") == 4 * each


def test_images_that_no_node_lists_are_missed_aloud(bench: Bench) -> None:
    said = bench.invoke("solve", [node("n1"), pod("p")], "-f", "json", policy={"multipliers": {"imageLocality": 1}}).stderr
    assert "warning: the policy weighs imageLocality, and no node of the snapshot lists images" in said
