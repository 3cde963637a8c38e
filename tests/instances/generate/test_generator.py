"""Generated snapshots: the same bytes for the same arguments, as full as asked, and with a complete placement that the checker accepts."""

from __future__ import annotations

import dataclasses
import gzip
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner, Result

from kubestow import cli
from kubestow.checker.placement import verify
from kubestow.instances.generate.generator import Generated, Parameters, generate
from kubestow.instances.generate.planted import Planted, planted
from kubestow.instances.generate.planting import fill
from kubestow.models.documents.placement import Assignment, Placement, SnapshotRef, TierResult
from kubestow.models.kube import quantity
from kubestow.models.kube.objects import pod_key
from kubestow.models.snapshot import snapshot
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.solver.runtime.options import Options
from kubestow.solver.solve import place
from tests.tiers import sampled

Object = dict[str, Any]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli.main, ["generate", *arguments])


def read(made: Generated) -> Snapshot:
    found = snapshot.from_objects(made.objects())
    assert found.warnings == []
    assert found.ignored == {}
    return found


def document(found: Snapshot, assignments: list[tuple[str, str]]) -> Placement:
    """A Placement that places every pending pod of a snapshot, and says so."""
    pending = Counter(p.spec.priority or 0 for p in found.pods if not p.spec.nodeName)
    assert len(assignments) == pending.total()
    return Placement(
        SnapshotRef("", len(found.nodes), len(found.pods), pending.total()), "greedy", "feasible",
        [TierResult("placed", count, count, priority) for priority, count in sorted(pending.items(), reverse=True)],
        [Assignment(pod, node, order) for order, (pod, node) in enumerate(assignments, 1)],
    )  # fmt: skip


def running(made: Generated) -> Iterator[Object]:
    """The objects with the running pods alone, and these back in the queue."""
    for item in made.objects():
        if item["kind"] != "Pod":
            yield item
        elif "nodeName" in item["spec"]:
            yield {**item, "spec": {key: value for key, value in item["spec"].items() if key != "nodeName"}}


def usage(found: Snapshot) -> dict[str, float]:
    """Requested over allocatable, by resource."""
    asked: Counter[str] = Counter()
    offered: Counter[str] = Counter()
    for pod in found.pods:
        for container in pod.spec.containers or ():
            for name, raw in ((container.resources and container.resources.requests) or {}).items():
                asked[name] += quantity.ceil(quantity.parse(raw) * 1000)
        asked["pods"] += 1000
    for node in found.nodes:
        for name, raw in ((node.status and node.status.allocatable) or {}).items():
            offered[name] += quantity.ceil(quantity.parse(raw) * 1000)
    return {name: asked[name] / offered[name] for name in offered}


def hard(item: Object) -> bool:
    """Return whether a pod has a hard rule other than its dedicated pool."""
    spec = item["spec"]
    affinity = spec.get("affinity", {}).values()
    return (
        any("requiredDuringSchedulingIgnoredDuringExecution" in part for part in affinity)
        or any(c["whenUnsatisfiable"] == "DoNotSchedule" for c in spec.get("topologySpreadConstraints", ()))
        or any("hostPort" in port for container in spec["containers"] for port in container.get("ports", ()))
        or ("nodeSelector" in spec and "tolerations" not in spec)
    )


# --- the command --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "more",
    [
        (),
        ("--bound", "40", "--numa", "30", "--rules", "80", "--preferences", "80", "--tainted", "20", "--zones", "5", "--priorities", "0"),
        ("--planted", "97"),
        ("-f", "yaml"),
    ],
)
def test_the_same_arguments_give_the_same_bytes_and_another_seed_others(more: tuple[str, ...]) -> None:
    first, again, other = (run("--nodes", "30", "--pods", "400", "--seed", seed, *more) for seed in ("1", "1", "2"))
    assert first.exit_code == again.exit_code == other.exit_code == 0
    assert first.stderr == ""
    assert first.stdout_bytes == again.stdout_bytes
    assert first.stdout_bytes != other.stdout_bytes


def test_json_yaml_and_gzip_say_the_same(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a.json", "b.json.gz", "c.yaml")]
    for file in files:
        form = "yaml" if file.suffix == ".yaml" else "json"
        assert run("--nodes", "10", "--pods", "80", "--numa", "50", "--bound", "50", "-f", form, "-o", str(file)).exit_code == 0
    plain, packed, text = files
    assert gzip.decompress(packed.read_bytes()) == plain.read_bytes()
    assert packed.read_bytes()[4:8] == bytes(4)  # no time
    assert msgspec.json.decode(plain.read_bytes())["kind"] == "List"
    assert snapshot.load([str(plain)]).pods == snapshot.load([str(text)]).pods


@pytest.mark.parametrize(
    "arguments",
    [
        ("--pods", "10"),
        ("--nodes", "10"),
        *(
            ("--nodes", "10", "--pods", "10", *bad)
            for bad in (
                ("--nodes", "0"), ("--pods", "0"), ("--seed", "-1"), ("--zones", "0"), ("--fill", "0"), ("--fill", "101"),
                ("--bound", "-1"), ("--bound", "101"), ("--priorities", "-1"), ("--numa", "101"), ("--rules", "101"), ("--rules", "x"),
                ("--preferences", "101"), ("--tainted", "51"), ("--planted", "0"), ("--planted", "101"), ("-f", "table"),
                ("--planted", "90", "--bound", "5"), ("--planted", "90", "--fill", "60"), ("--planted", "90", "--pods", "9"),
            )
        ),
    ],
)  # fmt: skip
def test_bad_values_are_usage_errors(arguments: tuple[str, ...]) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""


def test_a_bad_path_gives_one_line(tmp_path: Path) -> None:
    result = run("--nodes", "3", "--pods", "5", "-o", str(tmp_path / "no" / "folder.json"))
    assert result.exit_code == 1
    assert result.stderr.startswith("kubestow: ")
    assert result.stderr.count("\n") == 1


# --- what the parameters do ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", sampled(range(3), every=3))
@pytest.mark.parametrize(
    ("nodes", "pods", "wanted", "bound"), [(40, 1000, 60, 0), (100, 3000, 85, 50), (60, 600, 30, 0), (300, 9000, 100, 0)]
)
def test_the_scarcest_resource_is_as_full_as_asked(seed: int, nodes: int, pods: int, wanted: int, bound: int) -> None:
    found = read(generate(Parameters(nodes, pods, seed=seed, fill=wanted, bound=bound)))
    assert len(found.nodes) == nodes
    assert len(found.pods) == pods
    used = usage(found)
    assert max(used, key=lambda name: used[name]) in ("cpu", "nvidia.com/gpu")
    assert max(used.values()) == pytest.approx(wanted / 100, abs=0.01)


@pytest.mark.full
@pytest.mark.parametrize(("nodes", "pods"), [(1, 1), (2, 1), (1, 300), (20, 3), (19, 19), (21, 6000)])
@pytest.mark.parametrize("bound", [0, 100])
def test_odd_shapes_are_sound(nodes: int, pods: int, bound: int) -> None:
    made = generate(Parameters(nodes, pods, seed=3, zones=5, bound=bound, tainted=50, numa=100))
    found = read(made)
    assert (len(found.nodes), len(found.pods), made.unplanted) == (nodes, pods, 0)
    assert max(usage(found).values()) < 0.62
    assert verify(found, document(found, made.assignments(bound=False))) == []


def test_parameters_give_what_they_say() -> None:
    made = generate(Parameters(400, 8000, seed=5, zones=4, bound=30, priorities=6, numa=25, rules=40, preferences=0, tainted=10))
    items = list(made.objects())
    kinds = Counter(item["kind"] for item in items)
    assert sum("nodeName" in item["spec"] for item in items if item["kind"] == "Pod") == 2400
    assert kinds["PriorityClass"] == 6 + 1  # and the node agents'
    assert kinds["DaemonSet"] == 2
    assert kinds["NodeResourceTopology"] == pytest.approx(100, abs=30)
    nodes = [item for item in items if item["kind"] == "Node"]
    assert sum(bool(node["spec"]) for node in nodes) == 40
    assert {node["metadata"]["labels"]["topology.kubernetes.io/zone"] for node in nodes} == {"zone-a", "zone-b", "zone-c", "zone-d"}
    firsts = {(p["metadata"]["namespace"], p["metadata"]["labels"]["app"]): p for p in items if p["kind"] == "Pod"}
    own = [p for (namespace, _), p in firsts.items() if namespace != "kube-system"]
    assert sum(map(hard, own)) / len(own) == pytest.approx(0.4, abs=0.12)
    text = b"".join(map(msgspec.json.encode, items))
    assert b"preferredDuringScheduling" not in text
    assert b"ScheduleAnyway" not in text


def test_shares_of_zero_leave_rules_out() -> None:
    made = generate(Parameters(100, 2000, rules=0, preferences=0, tainted=0, priorities=0, numa=0))
    items = list(made.objects())
    pods = [item for item in items if item["kind"] == "Pod"]
    assert all(not {"affinity", "topologySpreadConstraints", "tolerations", "priority"} & set(pod["spec"]) for pod in pods)
    assert {"PriorityClass", "NodeResourceTopology", "DaemonSet"}.isdisjoint(item["kind"] for item in items)


def test_every_kind_of_rule_and_preference_occurs() -> None:
    """Everything that docs/generate.md lists is in a cluster of some size."""
    text = b"".join(map(msgspec.json.encode, generate(Parameters(300, 9000, seed=1, rules=60, preferences=60)).objects())).decode()
    host, zone = '"topologyKey":"kubernetes.io/hostname"', '"topologyKey":"topology.kubernetes.io/zone"'
    for part in (
        f'"maxSkew":1,{zone},"whenUnsatisfiable":"DoNotSchedule"', f'"maxSkew":2,{zone},"whenUnsatisfiable":"DoNotSchedule"',
        f'{host},"whenUnsatisfiable":"DoNotSchedule"', f'{zone},"whenUnsatisfiable":"ScheduleAnyway"', '"hostPort"', '"nvidia.com/gpu":"1"',
        '"nodeSelector":{"kubernetes.io/arch"', '"nodeSelector":{"example.com/pool"', '"key":"node.kubernetes.io/instance-type"',
        '"podAffinity":{"requiredDuring', '"podAffinity":{"preferredDuring', '"podAntiAffinity":{"requiredDuring',
        '"podAntiAffinity":{"preferredDuring', '"nodeAffinity":{"requiredDuring', '"nodeAffinity":{"preferredDuring',
        '"kind":"Service"', '"kind":"PodDisruptionBudget"', '"kind":"StatefulSet"', '"kind":"Job"', '"kind":"ReplicaSet"',
    ):  # fmt: skip
        assert part in text


def test_replicas_are_heavy_tailed() -> None:
    made = generate(Parameters(1000, 30_000, seed=4))
    sizes = sorted(w.replicas for w in made.workloads)
    assert 600 < len(sizes) < 1300
    assert sizes[len(sizes) // 2] <= 12
    assert sizes[-1] > 400


def test_guaranteed_pods_come_with_numa() -> None:
    found = read(generate(Parameters(60, 1500, seed=2, numa=40)))
    whole = [p for p in found.pods if all(c.resources and c.resources.limits == c.resources.requests for c in p.spec.containers or ())]
    assert 0.05 < len(whole) / len(found.pods) < 0.6


# --- the placement that comes with it -----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", sampled(range(6), every=6))
@pytest.mark.parametrize(
    "more",
    [
        {"bound": 60},
        {"bound": 30, "fill": 90},
        {"bound": 40, "numa": 50, "rules": 100, "preferences": 100, "tainted": 20},
        {"bound": 50, "zones": 6, "rules": 100},
    ],
)
def test_what_runs_obeys_the_rules_and_the_rest_fits_beside_it(seed: int, more: dict[str, int]) -> None:
    made = generate(Parameters(40, 1000, seed=seed, **more))
    found = read(made)
    assert sum(bool(p.spec.nodeName) for p in found.pods) == 10 * more["bound"]
    assert made.unplanted == 0
    assert verify(found, document(found, made.assignments(bound=False))) == []
    alone = snapshot.from_objects(running(made))
    assert verify(alone, document(alone, made.assignments(bound=True))) == []


@pytest.mark.parametrize("seed", sampled(range(3), every=3))
@pytest.mark.parametrize("more", [{}, {"bound": 50, "numa": 30, "rules": 60}])
def test_small_clusters_are_placed_in_full(seed: int, more: dict[str, int]) -> None:
    found = read(generate(Parameters(50, 1000, seed=seed, **more)))
    result = place(found, Options(engine="greedy", time_limit=60.0))  # raises where the checker refuses
    assert [u.pod for u in result.unplaced] == []
    assert len(result.assignments) == sum(not p.spec.nodeName for p in found.pods)


def test_too_many_pods_are_told(tmp_path: Path) -> None:
    result = run("--nodes", "4", "--pods", "200", "--fill", "100", "--seed", "1", "-o", str(tmp_path / "full.json"))
    assert result.exit_code == 0
    assert "a complete placement may not exist" in result.stderr


# --- planted ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", sampled(range(8), every=9, full=3))
@pytest.mark.parametrize(
    ("nodes", "pods", "share", "zones", "rules"),
    [(12, 100, 97, 3, 50), (12, 100, 100, 3, 100), (40, 400, 100, 4, 50), (5, 300, 99, 1, 0), (250, 1500, 98, 7, 80)],
)
def test_a_planted_placement_is_complete_and_valid(seed: int, nodes: int, pods: int, share: int, zones: int, rules: int) -> None:
    made = planted(Planted(nodes, pods, share, seed=seed, zones=zones, rules=rules))
    found = read(made)
    assert (len(found.nodes), len(found.pods)) == (nodes, pods)
    assert verify(found, document(found, made.assignments())) == []
    used = usage(found)
    assert used["cpu"] == pytest.approx(share / 100, abs=0.005)
    assert used["memory"] == pytest.approx(share / 100, abs=0.005)
    assert len({p.spec.priority for p in found.pods}) == (4 if seed % 2 else 1)
    assert sum(w.replicas for w in made.workloads if w.replicas > 1) > pods // 2
    items = [item for item in made.objects() if item["kind"] == "Pod"]
    assert any(map(hard, items)) == (rules > 0)


@pytest.mark.parametrize("seed", range(4))
def test_at_a_hundred_percent_every_node_is_full(seed: int) -> None:
    made = planted(Planted(12, 100, 100, seed=seed))
    held: dict[str, Counter[str]] = {name: Counter() for name in made.node_names}
    pods = {pod_key(p): p for p in read(made).pods}
    for key, node in made.assignments():
        for container in pods[key].spec.containers or ():
            assert container.resources is not None
            for name, raw in (container.resources.requests or {}).items():
                held[node][name] += quantity.ceil(quantity.parse(raw) * 1000)
    for item in (item for item in made.objects() if item["kind"] == "Node"):
        for name in ("cpu", "memory"):
            assert held[item["metadata"]["name"]][name] == quantity.parse(item["status"]["allocatable"][name]) * 1000


def test_a_wrong_placement_is_refused() -> None:
    """The check above can fail: two pods of different nodes trade places."""
    made = planted(Planted(12, 100, 100, rules=0))
    found, assignments = read(made), made.assignments()
    (first, here), (last, there) = assignments[0], next(a for a in reversed(assignments) if a[1] != assignments[0][1])
    traded = [(pod, {first: there, last: here}.get(pod, node)) for pod, node in assignments]
    assert verify(found, document(found, traded))


def test_planting_needs_a_pod_for_each_node() -> None:
    with pytest.raises(ValueError, match="at least one for each"):
        planted(Planted(5, 4, 90))


# --- filling evenly -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("caps", "count", "expected"),
    [
        ([5, 5, 5], 7, [3, 2, 2]),
        ([1, 9, 2], 7, [1, 4, 2]),
        ([0, 0, 3], 3, [0, 0, 3]),
        ([2, 2], 4, [2, 2]),
        ([2, 2], 0, [0, 0]),
        ([2, 2], 5, None),
    ],
)
def test_fill(caps: list[int], count: int, expected: list[int] | None) -> None:
    given = fill(np.array(caps, dtype=np.int64), count)
    assert (None if given is None else given.tolist()) == expected


def test_the_options_say_the_defaults_of_the_parameters() -> None:
    """Options that are not given are not passed on: the defaults in the help are those of the dataclass."""
    shown = {p.name: p.default for p in cli.main.commands["generate"].params if not p.required}
    own = {field.name: field.default for field in dataclasses.fields(Parameters) if field.name in shown}
    assert own.pop("rules") == 30  # said in words
    assert {name: shown[name] for name in own} == own


def test_nodes_have_the_labels_that_every_kubelet_sets() -> None:
    """Selectors of Linux nodes, as in most published manifests, find some; no such node belongs to the control plane."""
    for node in read(generate(Parameters(nodes=30, pods=60, seed=3))).nodes:
        labels = node.metadata.labels or {}
        assert labels["kubernetes.io/os"] == labels["beta.kubernetes.io/os"] == "linux"
        assert labels["kubernetes.io/arch"] == labels["beta.kubernetes.io/arch"]
        assert labels["kubernetes.io/hostname"] == node.metadata.name
        assert not any(key.startswith("node-role.kubernetes.io/control-plane") or "exclude-from-external" in key for key in labels)
