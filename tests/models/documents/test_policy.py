"""The policy file: its fields and defaults, refused files and messages, and the nodes that get a topology."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from kubestow.models.documents.placement import Placement, SnapshotRef, from_builtins, to_builtins
from kubestow.models.documents.policy import (
    DEFAULT,
    SYSTEM_CONSTRAINTS,
    AgeCost,
    AntiAffinityUser,
    Closeness,
    DefaultConstraint,
    Moves,
    Multipliers,
    Policy,
    PriorityCost,
    Topology,
    TopologyZone,
)
from kubestow.models.documents.policy import node_topologies as topologies
from kubestow.models.documents.policy import read as read_file
from kubestow.models.kube import topology_objects
from kubestow.models.numa import node_topology
from kubestow.models.snapshot.snapshot import InputError, Snapshot, from_objects
from tests.objects import Object, node

Read = Callable[[str | bytes], Policy]

#: Every field with a value other than its default.
FULL: Object = {
    "apiVersion": "kubestow.dev/v1alpha1",
    "kind": "Policy",
    "multipliers": {name: 1000 - i for i, name in enumerate(Multipliers.__struct_fields__)},
    "hardPodAffinityWeight": 100,
    "defaultConstraints": [{"topologyKey": "rack", "maxSkew": 2}],
    "networkTiers": ["example.com/rack"],
    "sharedGPUs": "kai",
    "admissionPlugins": ["PodNodeSelector"],
    "moves": {
        "annotation": "controller.kubernetes.io/pod-deletion-cost",
        "priorities": [{"atLeast": 1000, "cost": 5}],
        "ages": [{"atLeastHours": 24, "cost": 2}],
    },
    "strategy": "pack",
    "priceLabel": "example.com/price",
    "closeness": {"sameCache": 12, "sameZone": 10, "sameSocket": 3, "sameNode": -1},
    "shorthand": "symmetric",
    "colocatePods": True,
    "colocateNamespaces": True,
    "daemonNamespaces": ["kube-system", "monitoring"],
    "refuseAllNamespacesAntiAffinity": True,
    "quotaCharge": "opportunityCost",
    "antiAffinityUsers": [
        {"namespaces": ["db"], "serviceAccounts": ["db/main"], "priorityClasses": ["critical"], "keys": "hostname"},
        {"keys": "none"},
    ],
    "symmetricPreferredAntiAffinity": False,
    "executionGraceSeconds": 300,
    "topologies": [
        {
            "nodes": ["n1"],
            "nodeLabels": {"pool": "big"},
            "topologyManagerPolicy": "restricted",
            "topologyManagerScope": "pod",
            "zones": [
                {"name": "node-0", "socket": "s0", "resources": {"cpu": "8", "memory": "16Gi"}},
                {"name": "node-1", "socket": "s1", "resources": {"cpu": 8}},
            ],
        }
    ],
}


def test_a_service_account_of_a_user_has_a_namespace(read: Read) -> None:
    line = refused(read, "antiAffinityUsers: [{serviceAccounts: [db]}]")
    assert line.startswith("Policy: antiAffinityUsers[0].serviceAccounts[0]: ")
    assert "[^/]+/[^/]+" in line


@pytest.fixture
def read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Read:
    monkeypatch.chdir(tmp_path)

    def parse(text: str | bytes) -> Policy:
        Path("policy.yaml").write_bytes(text.encode() if isinstance(text, str) else text)
        return read_file("policy.yaml")

    return parse


def refused(read: Read, text: str | bytes) -> str:
    with pytest.raises(InputError) as caught:
        read(text)
    (line,) = caught.value.problems
    assert line.startswith("policy.yaml: ")
    assert line.isprintable(), line
    return line.removeprefix("policy.yaml: ")


# --- accepted files ------------------------------------------------------------------------------------------------------


def test_every_field_is_read(read: Read) -> None:
    policy = read(yaml.safe_dump(FULL))
    assert policy.multipliers == Multipliers(*(1000 - i for i in range(len(Multipliers.__struct_fields__))))
    assert policy.hardPodAffinityWeight == 100
    assert policy.defaultConstraints == (DefaultConstraint("rack", 2),)
    assert (policy.strategy, policy.priceLabel, policy.shorthand) == ("pack", "example.com/price", "symmetric")
    assert policy.closeness == Closeness(10, 3, -1, 12)
    assert policy.colocatePods is policy.colocateNamespaces is policy.refuseAllNamespacesAntiAffinity is True
    assert policy.symmetricPreferredAntiAffinity is False
    assert policy.executionGraceSeconds == 300
    assert policy.antiAffinityUsers == (AntiAffinityUser(("db",), ("db/main",), ("critical",), "hostname"), AntiAffinityUser(keys="none"))
    assert policy.daemonNamespaces == ("kube-system", "monitoring")
    assert policy.moves == Moves("controller.kubernetes.io/pod-deletion-cost", (PriorityCost(1000, 5),), (AgeCost(24, 2),))
    zones = (TopologyZone("node-0", {"cpu": "8", "memory": "16Gi"}, "s0"), TopologyZone("node-1", {"cpu": 8}, "s1"))
    assert policy.topologies == (Topology(zones, ("n1",), {"pool": "big"}, "restricted", "pod"),)


def test_the_example_leaves_no_field_at_its_default() -> None:
    for kind, given in (
        (Policy, FULL),
        (Multipliers, FULL["multipliers"]),
        (Closeness, FULL["closeness"]),
        (Topology, FULL["topologies"][0]),
        (Moves, FULL["moves"]),
    ):
        assert {field.name for field in msgspec.structs.fields(kind)} == set(given)
    policy = msgspec.convert(FULL, Policy)
    same = {name for name in FULL if getattr(policy, name) == getattr(DEFAULT, name)}
    assert same == {"apiVersion", "kind"}


@pytest.mark.parametrize(
    "text", ["", "# only a comment\n", "---\n", "null\n", "{}\n", "---\n---\n{}\n", "apiVersion: kubestow.dev/v1alpha1\nkind: Policy\n"]
)
def test_what_says_nothing_is_the_default(read: Read, text: str) -> None:
    assert read(text) == DEFAULT


def test_defaults() -> None:
    assert Policy() == DEFAULT
    assert {name for name, weight in msgspec.structs.asdict(DEFAULT.multipliers).items() if weight != 1} == {"imageLocality"}
    assert DEFAULT.multipliers.imageLocality == 0
    assert DEFAULT.hardPodAffinityWeight == 1
    assert [(c.topologyKey, c.maxSkew) for c in DEFAULT.defaultConstraints] == [
        ("kubernetes.io/hostname", 3),
        ("topology.kubernetes.io/zone", 5),
    ]
    assert DEFAULT.defaultConstraints == SYSTEM_CONSTRAINTS
    assert (DEFAULT.strategy, DEFAULT.priceLabel, DEFAULT.shorthand) == ("spread", "", "directed")
    assert (DEFAULT.closeness.sameZone, DEFAULT.closeness.sameSocket, DEFAULT.closeness.sameNode) == (2, 1, 0)
    assert DEFAULT.colocatePods is DEFAULT.colocateNamespaces is DEFAULT.refuseAllNamespacesAntiAffinity is False
    assert (DEFAULT.daemonNamespaces, DEFAULT.topologies) == ((), ())


def test_json_and_a_byte_order_mark_are_fine(read: Read) -> None:
    assert read('{"strategy": "pack"}').strategy == "pack"
    assert read(b"\xef\xbb\xbfstrategy: none\n").strategy == "none"


def test_empty_default_constraints_are_not_the_default(read: Read) -> None:
    policy = read("defaultConstraints: []")
    assert policy.defaultConstraints == ()
    assert policy != DEFAULT


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("multipliers: {taints: 0}", 0),
        ("multipliers: {taints: 1000}", 1000),
        ("hardPodAffinityWeight: 0", 0),
        ("hardPodAffinityWeight: 100", 100),
        ("closeness: {sameZone: 100}", 100),
        ("closeness: {sameNode: -100}", -100),
        ("closeness: {sameZone: 1, sameSocket: 1, sameNode: 1}", 1),
        ("defaultConstraints: [{topologyKey: a, maxSkew: 1}]", 1),
        ("defaultConstraints: [{topologyKey: a, maxSkew: 2147483647}]", 2**31 - 1),
    ],
)
def test_limits_themselves_are_allowed(read: Read, text: str, value: int) -> None:
    def leaves(plain: Any) -> list[Any]:
        if isinstance(plain, dict | list | tuple):
            return [leaf for item in (plain.values() if isinstance(plain, dict) else plain) for leaf in leaves(item)]
        return [plain]

    policy = read(text)
    named = yaml.safe_load(text)
    assert set(leaves(msgspec.to_builtins({key: getattr(policy, key) for key in named}))) >= {value}


# --- round trips ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [{}, FULL, {"multipliers": {"taints": 0}}, {"defaultConstraints": []}, {"closeness": {"sameNode": 1}}])
def test_round_trip(read: Read, given: Object) -> None:
    policy = read(yaml.safe_dump(given))
    written = msgspec.json.decode(msgspec.json.encode(policy))
    header = ("apiVersion", "kind")
    assert {k: v for k, v in written.items() if k not in header} == {k: v for k, v in given.items() if k not in header}, (
        "what differs from the defaults, and nothing else"
    )
    assert read(msgspec.json.encode(policy)) == policy
    document = Placement(SnapshotRef("abc", 0, 0, 0), "greedy", "optimal", [], [], policy=policy)
    assert from_builtins(to_builtins(document), Placement).policy == policy


def test_a_result_without_a_policy_has_none() -> None:
    assert "policy" not in to_builtins(Placement(SnapshotRef("abc", 0, 0, 0), "greedy", "optimal", [], []))


# --- refused files -------------------------------------------------------------------------------------------------------

_ZONES = "zones: [{name: z, resources: {cpu: 1}}]"


@pytest.mark.parametrize(
    ("text", "field", "what"),
    [
        # unknown fields, at each level
        ("strategi: pack", "", "strategi"),
        ("multipliers: {podaffinity: 1}", "multipliers", "podaffinity"),
        ("closeness: {sameRack: 1}", "closeness", "sameRack"),
        (
            "defaultConstraints: [{topologyKey: a, maxSkew: 1, whenUnsatisfiable: DoNotSchedule}]",
            "defaultConstraints[0]",
            "whenUnsatisfiable",
        ),
        (f"topologies: [{{nodes: [a], {_ZONES}, policy: none}}]", "topologies[0]", "policy"),
        ("topologies: [{nodes: [a], zones: [{name: z, resources: {cpu: 1}, parent: s}]}]", "topologies[0].zones[0]", "parent"),
        # types
        ("hardPodAffinityWeight: high", "hardPodAffinityWeight", "str"),
        ("hardPodAffinityWeight: '1'", "hardPodAffinityWeight", "str"),
        ("multipliers: {taints: 1.5}", "multipliers.taints", "float"),
        ("multipliers: {taints: true}", "multipliers.taints", "bool"),
        ("multipliers: [1]", "multipliers", "array"),
        ("colocatePods: 1", "colocatePods", "int"),
        ("colocateNamespaces: 'yes'", "colocateNamespaces", "str"),
        ("refuseAllNamespacesAntiAffinity: 0", "refuseAllNamespacesAntiAffinity", "int"),
        ("priceLabel: 5", "priceLabel", "int"),
        ("daemonNamespaces: kube-system", "daemonNamespaces", "str"),
        ("daemonNamespaces: [a, 1]", "daemonNamespaces[1]", "int"),
        ("defaultConstraints: null", "defaultConstraints", "null"),
        ("topologies: {}", "topologies", "object"),
        (f"topologies: [{{nodeLabels: {{a: 1}}, {_ZONES}}}]", "topologies[0].nodeLabels", "int"),
        ("topologies: [{nodes: [a], zones: [{name: z, resources: {cpu: null}}]}]", "topologies[0].zones[0].resources", "null"),
        # values
        ("strategy: binpack", "strategy", "binpack"),
        ("shorthand: both", "shorthand", "both"),
        ("apiVersion: v1", "apiVersion", "v1"),
        ("kind: ConfigMap", "kind", "ConfigMap"),
        (f"topologies: [{{nodes: [a], topologyManagerPolicy: strict, {_ZONES}}}]", "topologies[0].topologyManagerPolicy", "strict"),
        (f"topologies: [{{nodes: [a], topologyManagerScope: node, {_ZONES}}}]", "topologies[0].topologyManagerScope", "node"),
        # ranges
        ("multipliers: {nodeAffinity: -1}", "multipliers.nodeAffinity", "0"),
        ("multipliers: {nodeAffinity: 1001}", "multipliers.nodeAffinity", "1000"),
        ("hardPodAffinityWeight: -1", "hardPodAffinityWeight", "0"),
        ("hardPodAffinityWeight: 101", "hardPodAffinityWeight", "100"),
        (f"hardPodAffinityWeight: {10**30}", "hardPodAffinityWeight", "100"),
        ("closeness: {sameZone: 101}", "closeness.sameZone", "100"),
        ("closeness: {sameNode: -101}", "closeness.sameNode", "-100"),
        ("closeness: {sameZone: 0}", "closeness", "sameZone"),
        ("closeness: {sameCache: 1}", "closeness", "sameCache"),
        ("closeness: {sameNode: 2}", "closeness", "sameNode"),
        ("defaultConstraints: [{topologyKey: a, maxSkew: 0}]", "defaultConstraints[0].maxSkew", "1"),
        ("defaultConstraints: [{topologyKey: a, maxSkew: 2147483648}]", "defaultConstraints[0].maxSkew", "2147483647"),
        ("defaultConstraints: [{topologyKey: '', maxSkew: 1}]", "defaultConstraints[0].topologyKey", "1"),
        # missing fields
        ("defaultConstraints: [{maxSkew: 1}]", "defaultConstraints[0]", "topologyKey"),
        ("defaultConstraints: [{topologyKey: a}]", "defaultConstraints[0]", "maxSkew"),
        ("topologies: [{nodes: [a]}]", "topologies[0]", "zones"),
        ("topologies: [{nodes: [a], zones: []}]", "topologies[0].zones", "1"),
        ("topologies: [{nodes: [a], zones: [{name: z}]}]", "topologies[0].zones[0]", "resources"),
        ("topologies: [{nodes: [a], zones: [{name: '', resources: {}}]}]", "topologies[0].zones[0].name", "1"),
        (f"topologies: [{{{_ZONES}}}]", "topologies[0]", "nodes or nodeLabels"),
        (f"topologies: [{{nodes: [], nodeLabels: {{}}, {_ZONES}}}]", "topologies[0]", "nodes or nodeLabels"),
        # zones
        (
            "topologies: [{nodes: [a], zones: [{name: z, resources: {}}, {name: y, resources: {}}, {name: z, resources: {}}]}]",
            "topologies[0]",
            "zone names",
        ),
        ("topologies: [{nodes: [a], zones: [{name: z, resources: {cpu: 1x}}]}]", "topologies[0]", "zone z: resources[cpu]"),
    ],
)
def test_a_bad_field_gives_one_line_that_names_it(read: Read, text: str, field: str, what: str) -> None:
    line = refused(read, text)
    assert line.startswith(f"Policy: {field}" if field else "Policy: ")
    assert what in line


def test_the_second_entry_is_named_by_its_place(read: Read) -> None:
    entries = f"{{nodes: [a], {_ZONES}}}, {{nodes: [b], zones: [{{name: z, resources: {{cpu: 1}}}}, {{name: z, resources: {{cpu: 1}}}}]}}"
    assert refused(read, f"topologies: [{entries}]").startswith("Policy: topologies[1]: ")


@pytest.mark.parametrize("text", ["[]", "5", "pack", "- strategy: pack"])
def test_a_document_that_is_no_mapping(read: Read, text: str) -> None:
    assert refused(read, text).startswith("Policy: ")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("strategy: pack\n---\nstrategy: none\n", "2 documents"),
        ("{}\n---\n{}\n---\n{}\n", "3 documents"),
        ("strategy: [pack\n", "line"),
        ("strategy: pack\nstrategy: none\n", "line 2: duplicate key 'strategy'"),
        ("multipliers:\n  taints: 1\n  taints: 2\n", "line 3: duplicate key 'taints'"),
        ("\tstrategy: pack\n", "line 1"),
        ("strategy: !!python/name:os.system x\n", "line 1"),
        ("strategy: *nowhere\n", "line 1"),
        (b"\xff\xfe\x00", "UTF-8"),
        (b"strategy: \x00pack", "character"),
        (b"\x1f\x8b\x08\x00binary", "gzip"),
    ],
)
def test_what_is_not_one_yaml_document(read: Read, text: str | bytes, what: str) -> None:
    assert what in refused(read, text)


def test_a_missing_file_and_a_directory_are_named(tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere.yaml", tmp_path):
        with pytest.raises((InputError, OSError)) as caught:
            read_file(str(path))
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)


# --- topologies ----------------------------------------------------------------------------------------------------------


def listed(*names: str, policy: str = "none", **found: Any) -> Object:
    zones = [{"name": name, "resources": {"cpu": "2"}} for name in names]
    return {"zones": zones, "topologyManagerPolicy": policy, **found}


def nrt(name: str, *zones: str) -> Object:
    resources = [{"name": "cpu", "capacity": "4", "allocatable": "4", "available": "4"}]
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": name},
        "zones": [{"name": zone, "type": "Node", "resources": resources} for zone in zones],
    }


def policy_of(*entries: Object) -> Policy:
    return msgspec.convert({"topologies": list(entries)}, Policy)


def zones_of(policy: Policy, snapshot: Snapshot) -> dict[str, list[str]]:
    return {name: [zone.name for zone in found.zones or ()] for name, found in topologies(policy, snapshot).items()}


def test_without_entries_only_the_objects_count() -> None:
    snapshot = from_objects([node("n1"), node("n2"), nrt("n1", "node-0", "node-1")])
    assert zones_of(DEFAULT, snapshot) == {"n1": ["node-0", "node-1"]}


def test_the_object_of_a_node_wins() -> None:
    snapshot = from_objects([node("n1"), node("n2"), nrt("n1", "node-0", "node-1")])
    policy = policy_of(listed("node-7", nodes=["n1", "n2"]))
    assert zones_of(policy, snapshot) == {"n1": ["node-0", "node-1"], "n2": ["node-7"]}


def test_an_object_without_zones_leaves_its_node_without_a_topology() -> None:
    snapshot = from_objects([node("n1"), nrt("n1")])
    assert zones_of(policy_of(listed("node-7", nodes=["n1"])), snapshot) == {}


def test_the_first_entry_that_covers_a_node_counts() -> None:
    snapshot = from_objects([node("n1", labels={"pool": "a"}), node("n2", labels={"pool": "a"}), node("n3", labels={"pool": "b"})])
    policy = policy_of(
        listed("first", nodes=["n2"]),
        listed("second", nodeLabels={"pool": "a"}),
        listed("third", nodes=["n1", "n2", "n3"]),
    )
    assert zones_of(policy, snapshot) == {"n1": ["second"], "n2": ["first"], "n3": ["third"]}


def test_all_labels_have_to_match() -> None:
    made = [
        node("both", labels={"pool": "a", "disk": "ssd"}),
        node("one", labels={"pool": "a"}),
        node("other", labels={"pool": "a", "disk": "hdd"}),
    ]
    policy = policy_of(listed("node-0", nodeLabels={"pool": "a", "disk": "ssd"}))
    assert set(zones_of(policy, from_objects(made))) == {"both"}
    # Names and labels: either will do.
    policy = policy_of(listed("node-0", nodes=["one"], nodeLabels={"pool": "a", "disk": "ssd"}))
    assert set(zones_of(policy, from_objects(made))) == {"both", "one"}


def test_nodes_that_are_not_there_do_not_matter() -> None:
    assert zones_of(policy_of(listed("node-0", nodes=["nowhere"])), from_objects([node("n1")])) == {}
    bare = from_objects([{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "bare"}}])
    assert zones_of(policy_of(listed("node-0", nodeLabels={"pool": "a"})), bare) == {}


def test_an_entry_says_what_an_object_would() -> None:
    given = listed("node-0", "node-1", "node-2", policy="restricted", topologyManagerScope="pod", nodes=["n1"])
    for zone, socket in zip(given["zones"], ("s0", "s1", "s0"), strict=True):
        zone["socket"] = socket
        zone["resources"]["memory"] = "1Gi"
    found = topologies(policy_of(given), from_objects([node("n1")]))["n1"]
    assert found.metadata.name == "n1"
    tree = node_topology.tree(found)
    assert tree == node_topology.NumaTree(
        zones=("node-0", "node-1", "node-2"),
        socket=(0, 1, 0),
        available=({"cpu": 2000, "memory": 2**30},) * 3,
        capacity=({"cpu": 2000, "memory": 2**30},) * 3,
        policy="restricted",
        scope="pod",
    )


def test_without_sockets_all_zones_share_one() -> None:
    found = topologies(policy_of(listed("node-0", "node-1", nodes=["n1"])), from_objects([node("n1")]))["n1"]
    tree = node_topology.tree(found)
    assert tree is not None
    assert (tree.socket, tree.policy, tree.scope) == ((0, 0), "none", "container")


def test_names_that_the_dialects_do_not_know_are_zones_too() -> None:
    """Zones of a policy may have any names."""
    given = listed("left", "right", nodes=["n1"])
    for zone in given["zones"]:
        zone["socket"] = f"socket-{zone['name']}"
    found: topology_objects.NodeResourceTopology = topologies(policy_of(given), from_objects([node("n1")]))["n1"]
    tree = node_topology.tree(found)
    assert tree is not None
    assert (tree.zones, tree.socket) == (("left", "right"), (0, 1))
