"""The search of the soft tier: tiers that it must never trade, the validity of its bound, and its reports."""

from __future__ import annotations

from typing import Any

import pytest

from kubestow.checker.placement import check, verify
from kubestow.models.cluster.cluster import Ints
from kubestow.models.cluster.compile import compile_cluster
from kubestow.models.documents.placement import Placement
from kubestow.models.snapshot.scope import select
from kubestow.models.snapshot.snapshot import from_objects
from kubestow.solver import rules
from kubestow.solver.bind_order.order import Sequence_
from kubestow.solver.bounds.component_bounds import Components
from kubestow.solver.objective.assign_zones import value_of
from kubestow.solver.objective.preferences import Objective
from kubestow.solver.objective.shapes import AssignedZones
from kubestow.solver.rules.eligibility import possible
from kubestow.solver.runtime.options import Options
from kubestow.solver.search import preference_search
from kubestow.solver.search.outcome import SoftOutcome
from kubestow.solver.search.parameters import PreferenceSearchParameters
from kubestow.solver.search.preference_moves import PreferenceMoves
from kubestow.solver.search.preference_search import PreferenceSearch
from kubestow.solver.solve import place
from tests.objects import Object, node, pod

ZONE = "zone"


def repels(app: str, weight: int = 1, key: str = ZONE) -> Object:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    return {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": weight, "podAffinityTerm": term}]}}


def tier(result: Placement, name: str) -> Any:
    return next(t for t in result.objective if t.tier == name)


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every model counts as large: annealing and groups have their turn."""
    monkeypatch.setattr(preference_search, "PARAMETERS", PreferenceSearchParameters(small_variables=-1))


@pytest.mark.full
@pytest.mark.usefixtures("large")
def test_no_placed_pod_is_given_away_for_points() -> None:
    """More pods than room, and each group alone would rather leave its pods out than have them repel each other."""
    objects = [node(f"n{i}", cpu="4", labels={ZONE: f"z{i % 3}"}) for i in range(12)]
    for c in range(12):
        objects += [pod(f"p{c}-{i}", cpu="1", labels={"app": f"a{c}"}, affinity=repels(f"a{c}", 100)) for i in range(5)]
    result = place(from_objects(objects), Options(time_limit=6))
    assert (tier(result, "placed").value, tier(result, "placed").bound) == (48, 48)
    assert tier(result, "soft").value <= tier(result, "soft").bound


@pytest.mark.usefixtures("large")
def test_a_soft_spread_constraint_binds_its_owners_and_those_it_counts_together() -> None:
    spread = [{"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {"matchLabels": {"app": "web"}}}]
    objects = [node(f"n{i}", cpu="8", labels={ZONE: f"z{i % 2}"}) for i in range(6)]
    objects += [pod(f"fix{i}", labels={"app": "web"}, node_name="n0") for i in range(6)]
    objects += [pod(f"own{i}", labels={"app": "own"}, affinity=repels("own"), spread=spread) for i in range(3)]
    objects += [pod(f"web{i}", labels={"app": "web"}) for i in range(5)]
    snapshot = from_objects(objects)
    cluster = compile_cluster(snapshot, select(snapshot))
    active = rules.build(cluster)
    components = Components(cluster, Objective(cluster, active), possible(cluster, active), {0: 0})
    assert len(components.found) == 1
    result = place(snapshot, Options(time_limit=10))
    # All five web pods in the other zone leave 6 to 5: nothing above maxSkew. Three own pods over two zones repel in one pair, both ways.
    assert (tier(result, "soft").value, tier(result, "soft").bound) == (-2, -2)


@pytest.mark.usefixtures("large")
def test_followers_do_not_leave_their_provider() -> None:
    """Pods with required affinity that nobody needs may move, but only within reach; annealing's result has a bind order."""
    follow = {
        "podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "prov"}}}]
        },
        **repels("f", 3, "kubernetes.io/hostname"),
    }
    objects = [node(f"n{i}", cpu="4", labels={ZONE: f"z{i % 3}"}) for i in range(12)]
    objects.append(pod("prov", labels={"app": "prov"}, selector={ZONE: "z1"}))
    objects += [pod(f"f{i}", labels={"app": "f"}, affinity=follow) for i in range(6)]
    for c in range(8):
        objects += [pod(f"o{c}-{i}", labels={"app": f"o{c}"}, cpu="500m", affinity=repels(f"o{c}", 10)) for i in range(4)]
    result = place(from_objects(objects), Options(engine="greedy"))
    # Four pods over three zones: one pair, both ways. Six followers on four nodes of the provider's zone: two pairs, and 6 pods that the
    # provider pulls.
    assert tier(result, "soft").value == -8 * 20 - 2 * 2 * 3 + 6


def test_a_bind_order_may_interleave_pods_of_one_class() -> None:
    """First fit depends on the order of arrival: only A, C, A, B binds all four."""
    zones = [("8", "7Gi"), ("5", "8Gi"), ("6", "6Gi")]
    topology: Object = {
        "apiVersion": "topology.node.k8s.io/v1alpha2", "kind": "NodeResourceTopology", "metadata": {"name": "n"},
        "attributes": [
            {"name": "topologyManagerPolicy", "value": "single-numa-node"}, {"name": "topologyManagerScope", "value": "pod"},
        ],
        "zones": [
            {"name": f"node-{z}", "type": "Node", "resources": [
                {"name": "cpu", "capacity": cpu, "allocatable": cpu, "available": cpu},
                {"name": "memory", "capacity": memory, "allocatable": memory, "available": memory},
            ]}
            for z, (cpu, memory) in enumerate(zones)
        ],
    }  # fmt: skip
    objects = [node("n", cpu="64", memory="256Gi"), topology]
    for name, cpu, memory in (("a0", "5", "5Gi"), ("a1", "5", "5Gi"), ("b", "1", "4Gi"), ("c", "2", "4Gi")):
        found = pod(name, cpu=cpu, memory=memory)
        resources = found["spec"]["containers"][0]["resources"]
        resources["limits"] = resources["requests"]
        objects.append(found)
    result = place(from_objects(objects), Options())
    assert (tier(result, "placed").value, tier(result, "placed").bound) == (4, 4)


@pytest.mark.parametrize("memory", ["16Pi", "2Ei", "7Ei"])
def test_enormous_nodes(memory: str) -> None:
    objects = [node(f"n{i}", memory=memory) for i in range(2)] + [pod(f"p{i}", memory="1Ei") for i in range(2)]
    result = place(from_objects(objects), Options(engine="exact", search_strategy=True, time_limit=5))
    assert len(result.assignments) == (0 if memory == "16Pi" else 2)


def test_losses_are_those_of_the_workloads_whose_pods_lost() -> None:
    prefer = [{"weight": 9, "preference": {"matchExpressions": [{"key": "good", "operator": "Exists"}]}}]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": prefer}}
    objects = [node("good", cpu="1", labels={"good": "y"}), node("other")]
    for owner in "ab":
        objects += [pod(f"{owner}{i}", cpu="1", affinity=affinity, owner=f"ReplicaSet/{owner}") for i in range(2)]
    result = place(from_objects(objects), Options())
    assert result.preferences is not None
    lost = {w.workload: w.lost for w in result.preferences.workloads}
    assert lost == {"ReplicaSet default/b": 18, "ReplicaSet default/a": 9}
    assert sum(u.lost for u in result.preferences.unmet) == 27


def test_losses_of_pods_with_an_owner_that_is_no_controller_are_their_own() -> None:
    """They share the reference, and have names of their own."""
    prefer = [{"weight": 9, "preference": {"matchExpressions": [{"key": "good", "operator": "Exists"}]}}]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": prefer}}
    pods = [pod(name, cpu="1", affinity=affinity) for name in "ab"]
    for each in pods:
        each["metadata"]["ownerReferences"] = [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}]
    snapshot = from_objects([node("good", cpu="1", labels={"good": "y"}), node("other"), *pods])
    result = place(snapshot, Options())
    assert result.preferences is not None
    assert sorted((w.workload, w.value, w.lost) for w in result.preferences.workloads) == [("Pod default/a", 9, 0), ("Pod default/b", 0, 9)]
    assert not check(snapshot, result).violations


def test_false_claims_about_tiers_and_families_are_violations() -> None:
    objects = [node("n"), pod("p", affinity=repels("x")), pod("q", labels={"app": "x"})]
    objects += [pod("w", affinity={"podAffinity": repels("x")["podAntiAffinity"]})]
    snapshot = from_objects(
        [{**o, "metadata": {**o["metadata"], "labels": {**o["metadata"].get("labels", {}), ZONE: "z"}}} for o in objects]
    )

    def claims(change: Any) -> int:
        result = place(snapshot, Options())
        assert verify(snapshot, result) == []
        change(result)
        return len(verify(snapshot, result))

    assert claims(lambda r: r.objective.insert(1, type(r.objective[0])("soft", 999, 999)))
    assert claims(lambda r: r.objective.append(type(r.objective[0])("cost", 1, 1)))
    assert claims(lambda r: r.objective.reverse())
    assert claims(lambda r: setattr(r.preferences.families[0], "multiplier", 9))
    assert claims(lambda r: setattr(r.preferences.families[0], "best", -100))
    assert claims(lambda r: setattr(r.preferences.families[0], "value", 77))


# --- turns and the clock ----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize(("first", "begun"), [(0.0, [90.0, 52.0]), (20.0, [70.0]), (30.0, [])])
def test_no_turn_begins_whose_result_could_not_be_taken_over(monkeypatch: pytest.MonkeyPatch, first: float, begun: list[float]) -> None:
    """A turn of 10 s by a clock of its own, whose result takes 28 s to be taken over. Until that has been seen it is guessed from what the
    first value takes."""
    remaining_seconds, seen = 100.0, []

    def take(seconds: float) -> bool:
        nonlocal remaining_seconds
        remaining_seconds -= seconds
        return True

    def adopt(self: PreferenceSearch, best: SoftOutcome, counts: Ints) -> bool:
        seen.append(remaining_seconds)
        return take(28.0)

    def valued(objective: Objective, counts: Ints, sequence: Sequence_) -> tuple[int, AssignedZones]:
        take(first)
        return value_of(objective, counts, sequence)

    monkeypatch.setattr(preference_search, "value_of", valued)
    monkeypatch.setattr(PreferenceSearch, "_remaining", lambda _: remaining_seconds)
    monkeypatch.setattr(PreferenceSearch, "_finished", lambda *_: remaining_seconds <= 0)
    monkeypatch.setattr(PreferenceSearch, "_anneal", lambda *_: None)
    monkeypatch.setattr(PreferenceSearch, "_adopt", adopt)
    monkeypatch.setattr(PreferenceMoves, "by_name", lambda *_, **__: {"anneal": lambda *_: take(10.0)})
    objects = [node(f"n{i}", cpu="4", labels={ZONE: f"z{i % 2}"}) for i in range(4)]
    objects += [pod(f"p{i}", cpu="1", labels={"app": "a"}, affinity=repels("a")) for i in range(4)]
    place(from_objects(objects), Options(engine="lns", workers=1))
    assert seen == begun
