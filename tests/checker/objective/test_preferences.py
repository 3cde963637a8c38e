"""The checker's soft objective: hand-counted instances, kube-scheduler's recorded placements, and pairs counted one by one."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubestow.checker.objective.families import KINDS
from kubestow.checker.objective.preferences import SoftScore, score
from kubestow.models.documents.policy import DEFAULT, DefaultConstraint, Policy
from kubestow.models.kube import objects as kube_objects
from kubestow.models.snapshot.snapshot import from_objects, load
from tests.objects import Object, node, pod

DATA = Path(__file__).parents[2] / "benchmarks" / "data"
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
NO_DEFAULTS = Policy(defaultConstraints=())
FAMILIES = tuple(kind.name for kind in KINDS if kind.recounts != "none" and not kind.optional)


def scored(
    objects: list[Object], placed: dict[str, str], *, absent: tuple[str, ...] = (), unplaced: tuple[str, ...] = (), policy: Policy = DEFAULT
) -> SoftScore:
    """The score of a placement of pods of the namespace ``default``."""
    found = score(
        from_objects(objects),
        {_key(name): n for name, n in placed.items()},
        {_key(name) for name in absent},
        policy,
        pending={_key(name) for name in (*placed, *unplaced)},
    )
    assert tuple(found.families) == FAMILIES
    return found


def points(family: str, objects: list[Object], placed: dict[str, str], **others: Any) -> int:
    """The points of one family; all other families must have none."""
    families = scored(objects, placed, **others).families
    assert all(value == 0 for name, value in families.items() if name != family), families
    return families[family]


def _key(name: str) -> str:
    return name if "/" in name else f"default/{name}"


def zones(*names: str, **spec: Any) -> list[Object]:
    """A node n0, n1 … in each of the named zones."""
    return [node(f"n{i}", labels={ZONE: name}, **spec) for i, name in enumerate(names)]


def term(key: str = HOST, labels: dict[str, str] | None = None, **fields: Any) -> Object:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": "a"} if labels is None else labels}, **fields}


def likes(*terms: Object, weight: int = 10) -> Object:
    preferred = [{"weight": weight, "podAffinityTerm": t} for t in terms]
    return {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}


def dislikes(*terms: Object, weight: int = 10) -> Object:
    return {"podAntiAffinity": likes(*terms, weight=weight)["podAffinity"]}


def evenly(key: str = ZONE, skew: int = 1, **fields: Any) -> Object:
    selector = {"matchLabels": {"app": "a"}}
    return {"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": selector} | fields


def namespace(name: str, **labels: str) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def service(selector: dict[str, str] | None, name: str = "s", space: str = "default") -> Object:
    spec = {} if selector is None else {"selector": selector}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": space}, "spec": spec}


A = {"app": "a"}

# --- a pod and its node -----------------------------------------------------------------------------------------------------------------


def prefers(*preferences: tuple[int, Object]) -> Object:
    terms = [{"weight": weight, "preference": preference} for weight, preference in preferences]
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}


def in_zone(*values: str) -> Object:
    return {"matchExpressions": [{"key": ZONE, "operator": "In", "values": list(values)}]}


def test_preferred_node_affinity_counts_each_matching_preference_of_placed_pods() -> None:
    wish = prefers((7, in_zone("z0", "z1")), (5, in_zone("z0")), (90, {}), (3, {"matchFields": [_field("n1")]}))
    objects = [*zones("z0", "z1", "z2"), *(pod(f"p{i}", affinity=wish) for i in range(4)), pod("stays", affinity=wish, node_name="n0")]
    found = scored(objects, {"p0": "n0", "p1": "n1", "p2": "n2"}, unplaced=("p3",))
    assert found.families["nodeAffinity"] == 12 + 10
    assert found.pods == {"default/p0": 12, "default/p1": 10, "default/p2": 0}


def _field(name: str) -> Object:
    return {"key": "metadata.name", "operator": "In", "values": [name]}


def test_soft_taints_cost_a_hundred_each_unless_tolerated() -> None:
    taints = [{"key": "a", "effect": "PreferNoSchedule"}, {"key": "b", "value": "v", "effect": "PreferNoSchedule"}]
    hard = {"key": "c", "effect": "NoSchedule"}
    tolerant: list[list[Object]] = [
        [],
        [{"key": "a", "operator": "Exists"}],
        [{"key": "b", "value": "v", "effect": "NoSchedule"}],
        [{"operator": "Exists", "effect": "PreferNoSchedule"}],
    ]
    objects = [node("n0", taints=[*taints, hard]), *(pod(f"p{i}", tolerations=t) for i, t in enumerate(tolerant)), pod("q", node_name="n0")]
    found = scored(objects, {f"p{i}": "n0" for i in range(4)})
    assert found.pods == {"default/p0": -200, "default/p1": -100, "default/p2": -200, "default/p3": 0}
    assert found.families["taints"] == -500


def test_both_node_families_meet_in_the_points_of_a_pod() -> None:
    objects = [*zones("z0", taints=[{"key": "a", "effect": "PreferNoSchedule"}]), pod("p", affinity=prefers((7, in_zone("z0"))))]
    found = scored(objects, {"p": "n0"})
    assert (found.families["nodeAffinity"], found.families["taints"], found.pods) == (7, -100, {"default/p": -93})


# --- pairs ------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wish", ["likes", "dislikes"])
@pytest.mark.parametrize("owner", ["placed", "fixed"])
@pytest.mark.parametrize("other", ["placed", "fixed"])
def test_a_pair_counts_if_one_of_both_is_placed(wish: str, owner: str, other: str) -> None:
    affinity = likes(term()) if wish == "likes" else dislikes(term())
    at = {"p": owner, "q": other}
    objects = [
        node("n0"),
        pod("p", affinity=affinity, node_name="n0" if owner == "fixed" else None),
        pod("q", labels=A, node_name="n0" if other == "fixed" else None),
    ]
    found = points("podAffinity", objects, {name: "n0" for name, kind in at.items() if kind == "placed"})
    sign = 1 if wish == "likes" else -1
    assert found == (0 if owner == other == "fixed" else 10 * sign)


def test_pods_that_select_each_other_are_ordered_pairs_and_no_pod_is_a_pair_with_itself() -> None:
    objects = [*zones("z0", "z0", "z1"), *(pod(f"p{i}", labels=A, affinity=dislikes(term(ZONE))) for i in range(5))]
    spots = {"p0": "n0", "p1": "n0", "p2": "n1", "p3": "n2"}
    assert points("podAffinity", objects, spots, unplaced=("p4",)) == -10 * (3 * 2 + 0)
    assert points("podAffinity", objects, spots | {"p4": "n2"}) == -10 * (3 * 2 + 2 * 1)


def test_fixed_pods_that_select_each_other_meet_only_the_placed() -> None:
    affinity = likes(term(ZONE))
    objects = [
        *zones("z0", "z0"),
        pod("p", labels=A, affinity=affinity),
        *(pod(f"f{i}", labels=A, affinity=affinity, node_name="n1") for i in range(3)),
    ]
    assert points("podAffinity", objects, {"p": "n0"}) == 10 * (3 + 3)


def test_a_term_that_stands_twice_counts_twice() -> None:
    objects = [node("n0"), pod("p", labels=A, affinity=likes(term(), term())), pod("q", labels=A)]
    assert points("podAffinity", objects, {"p": "n0", "q": "n0"}) == 20


def test_both_nodes_need_the_key_and_one_value_of_it() -> None:
    objects = [node("bare0"), node("bare1"), *zones("z0", "z0", "z1"), pod("p", affinity=likes(term(ZONE))), pod("q", labels=A)]
    for p, q, expected in (("n0", "n1", 10), ("n0", "n2", 0), ("bare0", "n0", 0), ("n0", "bare0", 0), ("bare0", "bare0", 0)):
        assert points("podAffinity", objects, {"p": p, "q": q}) == expected, (p, q)


@pytest.mark.parametrize(
    ("fields", "here", "red", "unknown"),
    [
        ({}, 1, 0, 0),
        ({"namespaces": ["red"]}, 0, 1, 0),
        ({"namespaces": ["default", "unknown"]}, 1, 0, 1),
        ({"namespaceSelector": {"matchLabels": {"colour": "red"}}}, 0, 1, 0),
        ({"namespaceSelector": {}}, 1, 1, 1),
        ({"namespaceSelector": {"matchLabels": {"colour": "red"}}, "namespaces": ["default"]}, 1, 1, 0),
        ({"namespaceSelector": {"matchLabels": {"colour": "blue"}}, "namespaces": []}, 0, 0, 0),
        ({"namespaceSelector": {"matchExpressions": [{"key": "colour", "operator": "DoesNotExist"}]}}, 1, 0, 1),
    ],
)
def test_namespaces_of_terms(fields: Object, here: int, red: int, unknown: int) -> None:
    spaces = {"default": here, "red": red, "unknown": unknown}
    for space, expected in spaces.items():
        objects = [
            namespace("default"),
            namespace("red", colour="red"),
            node("n0"),
            pod("p", affinity=likes(term(**fields))),
            pod("q", labels=A, namespace=space),
        ]
        assert points("podAffinity", objects, {"p": "n0", f"{space}/q": "n0"}) == 10 * expected, space


def test_empty_and_missing_selectors() -> None:
    everything, nothing = term(labels={}), term()
    nothing["labelSelector"] = None
    for selects, expected in ((everything, 20), (nothing, 0)):
        objects = [node("n0"), pod("p", affinity=likes(selects)), pod("q"), pod("r", node_name="n0")]
        assert points("podAffinity", objects, {"p": "n0", "q": "n0"}) == expected


def test_match_label_keys_join_the_selector() -> None:
    def of(fields: Object) -> int:
        p = pod("p", labels={"rev": "1"}, affinity=likes(term(**fields)))
        return points("podAffinity", [node("n0"), p, *others], {"p": "n0", "same": "n0", "old": "n0", "none": "n0"})

    others = [pod("same", labels=A | {"rev": "1"}), pod("old", labels=A | {"rev": "0"}), pod("none", labels=A)]
    assert of({}) == 30
    assert of({"matchLabelKeys": ["rev"]}) == 10
    assert of({"mismatchLabelKeys": ["rev"]}) == 20
    assert of({"matchLabelKeys": ["absent"]}) == 30


def test_pods_that_share_their_terms_read_them_with_their_own_labels() -> None:
    affinity = likes(term(matchLabelKeys=["rev"]))
    objects = [node("n0"), *(pod(f"p{i}", labels=A | {"rev": str(i // 2)}, affinity=affinity) for i in range(4))]
    assert points("podAffinity", objects, {f"p{i}": "n0" for i in range(4)}) == 10 * 4


def test_terminating_pods_count_in_pairs_and_ended_ones_do_not() -> None:
    leaving, ended = pod("q", labels=A, node_name="n0"), pod("r", labels=A, node_name="n0")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    ended["status"]["phase"] = "Succeeded"
    lost = pod("s", labels=A, node_name="elsewhere")
    assert points("podAffinity", [node("n0"), pod("p", affinity=likes(term())), leaving, ended, lost], {"p": "n0"}) == 10


def test_absent_pods_count_only_where_they_are_placed_anew() -> None:
    objects = [node("n0"), node("n1"), pod("p", affinity=likes(term())), pod("q", labels=A, node_name="n0", owner="ReplicaSet/r")]
    assert points("podAffinity", objects, {"p": "n0"}) == 10
    assert points("podAffinity", objects, {"p": "n0"}, absent=("q",), unplaced=("q",)) == 0
    assert points("podAffinity", objects, {"p": "n0", "q": "n1"}, absent=("q",)) == 0
    assert points("podAffinity", objects, {"p": "n1", "q": "n1"}, absent=("q",)) == 10


def requires(*terms: Object, during: str = "Ignored") -> Object:
    return {"podAffinity": {f"requiredDuringScheduling{during}DuringExecution": list(terms)}}


@pytest.mark.parametrize("weight", [0, 1, 7])
def test_required_affinity_pulls_by_the_policys_weight(weight: int) -> None:
    policy = Policy(hardPodAffinityWeight=weight)
    affinity = requires(term(), term(ZONE), term(labels={"app": "other"}))
    objects = [*zones("z0", "z0"), pod("p", labels=A, affinity=affinity), pod("q", labels=A), pod("f", labels=A, node_name="n1")]
    # p-q on one node: both terms; p-f in one zone: one term; the third term selects nobody.
    assert points("requiredAffinity", objects, {"p": "n0", "q": "n0"}, policy=policy) == weight * 3


def test_required_affinity_of_fixed_pods_and_of_the_other_kind_pulls_too() -> None:
    fixed = [pod(f"f{i}", labels=A, affinity=requires(term(), during="Required"), node_name="n0") for i in range(3)]
    assert points("requiredAffinity", [node("n0"), *fixed, pod("q", labels=A)], {"q": "n0"}) == 3


def test_required_anti_affinity_has_no_points() -> None:
    affinity = {"podAntiAffinity": requires(term())["podAffinity"]}
    assert points("podAffinity", [node("n0"), pod("p", labels=A, affinity=affinity), pod("q", labels=A)], {"p": "n0", "q": "n0"}) == 0


LABELS = st.fixed_dictionaries({}, optional={"app": st.sampled_from("ab"), "rev": st.sampled_from("12")})
EXPRESSIONS = st.one_of(
    st.builds(lambda k, op, v: {"key": k, "operator": op, "values": v}, st.sampled_from(["app", "rev"]), st.sampled_from(["In", "NotIn"]),
              st.sampled_from([["a"], ["1"], ["a", "b"]])),
    st.builds(lambda k, op: {"key": k, "operator": op}, st.sampled_from(["app", "rev"]), st.sampled_from(["Exists", "DoesNotExist"])),
)  # fmt: skip
TERMS = st.builds(
    lambda key, expressions, fields: {"topologyKey": key, "labelSelector": {"matchExpressions": expressions}, **fields},
    st.sampled_from([HOST, ZONE]),
    st.lists(EXPRESSIONS, max_size=2),
    st.sampled_from([{}, {"namespaces": ["x"]}, {"namespaceSelector": {}}, {"namespaceSelector": {"matchLabels": {"l": "x"}}}]),
)
WEIGHTED = st.lists(st.tuples(st.booleans(), st.integers(1, 100), TERMS), max_size=2)
PODS = st.lists(
    st.tuples(st.sampled_from(["default", "x"]), LABELS, WEIGHTED, st.lists(TERMS, max_size=1), st.integers(0, 3), st.booleans()),
    max_size=7,
)


def _selected(t: Object, own: str, space: str, labels: dict[str, str]) -> bool:
    """Return whether a term of a pod of namespace ``own`` selects a pod, as the API documentation words it."""
    if "namespaceSelector" in t:
        if t["namespaceSelector"] and space != "x":
            return False
    elif space not in t.get("namespaces", [own]):
        return False
    for e in t["labelSelector"]["matchExpressions"]:
        value = labels.get(e["key"])
        if e["operator"] in ("In", "NotIn"):
            if (value in e["values"]) != (e["operator"] == "In"):
                return False
        elif (value is not None) != (e["operator"] == "Exists"):
            return False
    return True


@pytest.mark.full
@given(PODS, st.booleans())
def test_pairs_are_those_that_are_found_one_by_one(
    drawn: list[tuple[str, dict[str, str], list[Any], list[Object], int, bool]], symmetric: bool
) -> None:
    places: list[tuple[str, str | None]] = [("n0", "z0"), ("n1", "z0"), ("n2", "z1"), ("bare", None)]
    nodes = [node(n, labels={ZONE: z} if z else {}) for n, z in places]
    objects = [namespace("default"), namespace("x", l="x"), *nodes]
    placed: dict[str, str] = {}
    for i, (space, labels, wishes, needs, at, stays) in enumerate(drawn):
        affinity: Object = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": needs}, "podAntiAffinity": {}}
        for good, name in ((True, "podAffinity"), (False, "podAntiAffinity")):
            terms = [{"weight": w, "podAffinityTerm": t} for g, w, t in wishes if g == good]
            affinity[name]["preferredDuringSchedulingIgnoredDuringExecution"] = terms
        where = places[at][0]
        objects.append(pod(f"p{i}", namespace=space, labels=labels, affinity=affinity, node_name=where if stays else None))
        if not stays:
            placed[f"{space}/p{i}"] = where
    preferred = required = 0
    for i, (space, _, wishes, needs, at, stays) in enumerate(drawn):
        for j, (other, labels, _, _, there, settled) in enumerate(drawn):
            if i == j or (stays and settled):
                continue
            for weight, kind, t in [(w if good else -w, "preferred", t) for good, w, t in wishes] + [(1, "required", t) for t in needs]:
                column = (HOST, ZONE).index(t["topologyKey"])
                same = places[at][column] is not None and places[at][column] == places[there][column]
                if stays and kind == "preferred" and weight < 0 and not symmetric:
                    continue
                if same and _selected(t, space, other, labels):
                    preferred += weight if kind == "preferred" else 0
                    required += weight if kind == "required" else 0
    families = scored(objects, placed, policy=Policy(symmetricPreferredAntiAffinity=symmetric)).families
    assert (families["podAffinity"], families["requiredAffinity"]) == (preferred, required)


def test_preferred_anti_affinity_of_a_running_pod_counts_against_newcomers_only_under_a_symmetric_policy() -> None:
    refuses = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 20, "podAffinityTerm": term()}]}}
    objects = [node("n0"), pod("f", affinity=refuses, node_name="n0"), pod("q", labels=A)]
    assert points("podAffinity", objects, {"q": "n0"}) == -20
    assert points("podAffinity", objects, {"q": "n0"}, policy=Policy(symmetricPreferredAntiAffinity=False)) == 0


def test_an_asymmetric_policy_keeps_the_terms_of_pods_that_are_placed() -> None:
    refuses = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 20, "podAffinityTerm": term()}]}}
    objects = [node("n0"), pod("f", labels=A, node_name="n0"), pod("p", affinity=refuses), pod("q", labels=A)]
    assert points("podAffinity", objects, {"p": "n0", "q": "n0"}, policy=Policy(symmetricPreferredAntiAffinity=False)) == -40


def test_an_asymmetric_policy_keeps_preferred_affinity_of_running_pods() -> None:
    objects = [node("n0"), pod("f", affinity=likes(term()), node_name="n0"), pod("q", labels=A)]
    assert points("podAffinity", objects, {"q": "n0"}, policy=Policy(symmetricPreferredAntiAffinity=False)) == 10


# --- spread -----------------------------------------------------------------------------------------------------------------------------


def crowd(number: int, **fields: Any) -> list[Object]:
    return [pod(f"p{i}", labels=A, **fields) for i in range(number)]


def on(*nodes: str) -> dict[str, str]:
    return {f"p{i}": name for i, name in enumerate(nodes)}


def test_each_pod_above_the_minimum_and_skew_costs_a_hundred() -> None:
    objects = [*zones("z0", "z1", "z2"), *crowd(6, spread=[evenly()])]
    assert points("topologySpread", objects, on("n0", "n0", "n1", "n1", "n2", "n2")) == 0
    assert points("topologySpread", objects, on("n0", "n0", "n0", "n0", "n1", "n2")) == -200
    assert points("topologySpread", objects, on("n0", "n0", "n0", "n1", "n1", "n1")) == -400
    assert points("topologySpread", objects, on("n0", "n0", "n0", "n1"), unplaced=("p4", "p5")) == -200


def test_the_same_constraint_of_many_pods_costs_once_and_two_constraints_cost_both() -> None:
    spots = on("n0", "n0", "n0", "n0")
    assert points("topologySpread", [*zones("z0", "z1"), *crowd(4, spread=[evenly()])], spots) == -300
    looser = pod("q", labels=A, spread=[evenly(skew=2)])
    assert points("topologySpread", [*zones("z0", "z1"), *crowd(4, spread=[evenly()]), looser], spots, unplaced=("q",)) == -300 - 200
    assert points("topologySpread", [*zones("z0", "z1"), *crowd(4, spread=[evenly(), evenly(HOST)])], spots) == -300 - 300


def test_one_selector_written_in_two_ways_is_one_constraint() -> None:
    written = evenly(labelSelector={"matchExpressions": [{"key": "app", "operator": "In", "values": ["a", "a"]}]})
    objects = [*zones("z0", "z1"), *crowd(3, spread=[evenly()]), pod("q", labels=A, spread=[written])]
    assert points("topologySpread", objects, on("n0", "n0", "n0") | {"q": "n0"}) == -300


def test_unplaced_pods_bring_their_constraint() -> None:
    objects = [*zones("z0", "z1"), *crowd(2), pod("q", labels=A, spread=[evenly()])]
    assert points("topologySpread", objects, on("n0", "n0"), unplaced=("q",)) == -100


def test_fixed_pods_count_and_do_not_bring_their_own_constraint() -> None:
    fixed = [pod(f"f{i}", labels=A, spread=[evenly()], node_name="n0") for i in range(3)]
    assert points("topologySpread", [*zones("z0", "z1"), *fixed, *crowd(1)], on("n0")) == 0
    assert points("topologySpread", [*zones("z0", "z1"), *fixed, *crowd(1, spread=[evenly()])], on("n0")) == -300


def test_terminating_foreign_and_absent_pods_are_not_counted() -> None:
    leaving = pod("f0", labels=A, node_name="n0")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    foreign = pod("f1", labels=A, node_name="n0", namespace="other")
    movable = pod("f2", labels=A, node_name="n0", owner="ReplicaSet/r")
    objects = [*zones("z0", "z1"), leaving, foreign, movable, *crowd(1, spread=[evenly()])]
    assert points("topologySpread", objects, on("n0")) == -100
    assert points("topologySpread", objects, on("n0"), absent=("f2",), unplaced=("f2",)) == 0
    assert points("topologySpread", objects, on("n0") | {"f2": "n1"}, absent=("f2",)) == 0


@pytest.mark.parametrize("selector", [None, {}])
def test_selectors_without_requirements_count_nothing(selector: Object | None) -> None:
    objects = [*zones("z0", "z1"), *crowd(3, spread=[evenly(labelSelector=selector)])]
    assert points("topologySpread", objects, on("n0", "n0", "n0")) == 0


def test_match_label_keys_tell_constraints_apart() -> None:
    constraint = evenly(matchLabelKeys=["rev"])
    objects = [*zones("z0", "z1"), *(pod(f"p{i}", labels=A | {"rev": str(i % 2)}, spread=[constraint]) for i in range(4))]
    assert points("topologySpread", objects, on("n0", "n1", "n0", "n1")) == -100 - 100
    assert points("topologySpread", objects, on("n0", "n0", "n1", "n1")) == 0


def test_hard_constraints_have_no_points_and_keep_defaults_away() -> None:
    hard = evenly(whenUnsatisfiable="DoNotSchedule")
    objects = [*zones("z0", "z1"), service(A), *crowd(8, spread=[hard])]
    assert points("topologySpread", objects, on(*["n0"] * 8)) == 0


def test_nodes_without_one_of_the_keys_are_not_eligible() -> None:
    rack = evenly("rack", 100)
    nodes = [*zones("z0", "z1"), node("bare"), node("n3", labels={ZONE: "z2", "rack": "r"}), node("n4", labels={ZONE: "z3", "rack": "r"})]
    one = [*nodes, *crowd(4, spread=[evenly()])]
    assert points("topologySpread", one, on("bare", "bare", "n0", "n0")) == -100
    two = [*nodes, *crowd(4, spread=[evenly(), rack])]
    assert points("topologySpread", two, on("n0", "n0", "n1", "n1")) == 0
    assert points("topologySpread", two, on("n0", "n0", "n3", "n3")) == -100


def test_node_affinity_narrows_the_domains_unless_ignored() -> None:
    wanted = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [in_zone("z0", "z1")]}}}
    for constraint in (evenly(), evenly(nodeAffinityPolicy="Honor"), evenly(nodeAffinityPolicy="Ignore")):
        objects = [*zones("z0", "z1", "z2"), *crowd(4, spread=[constraint], affinity=wanted)]
        # No pod of this constraint can use z2: it never sets the minimum, be it eligible or not.
        assert points("topologySpread", objects, on("n0", "n0", "n0", "n1")) == -100, constraint
    strangers = [pod(f"s{i}", labels=A, node_name="n2") for i in range(4)]
    for policy, expected in (("Honor", 0), ("Ignore", -200)):
        objects = [*zones("z0", "z1", "z2"), *strangers, *crowd(2, spread=[evenly(nodeAffinityPolicy=policy)], affinity=wanted)]
        assert points("topologySpread", objects, on("n0", "n1")) == expected, policy


def test_node_selectors_and_named_nodes_narrow_the_domains() -> None:
    strangers = [pod(f"s{i}", labels=A, node_name="n2") for i in range(4)]
    named = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchFields": [_field("n0")]}, {"matchFields": [_field("n1")]}]}}}  # fmt: skip
    bounds: list[Object] = [{"affinity": named}, {"selector": {"disk": "ssd"}}]
    for narrow in bounds:
        nodes = [node(f"n{i}", labels={ZONE: f"z{i}", "disk": "hdd" if i == 2 else "ssd"}) for i in range(3)]
        objects = [*nodes, *strangers, *crowd(3, spread=[evenly()], **narrow)]
        assert points("topologySpread", objects, on("n0", "n1", "n1")) == 0, narrow
        assert points("topologySpread", objects, on("n1", "n1", "n1")) == -200, narrow


def test_taints_narrow_the_domains_only_where_the_constraint_says_so() -> None:
    tainted = node("n1", labels={ZONE: "z1"}, taints=[{"key": "t", "effect": "NoSchedule"}])
    strangers = [pod(f"s{i}", labels=A, node_name="n1") for i in range(4)]
    for policy, expected in (("Honor", 0), ("Ignore", -200)):
        objects = [*zones("z0"), tainted, *strangers, *crowd(1, spread=[evenly(nodeTaintsPolicy=policy)])]
        # The minimum is that of z0; z1 is counted where taints are ignored.
        assert points("topologySpread", objects, on("n0")) == expected, policy


CORDONED: Object = {"unschedulable": True}
TAINTED: Object = {"taints": [{"key": "t", "effect": "NoExecute"}]}


@pytest.mark.parametrize("closed", [CORDONED, TAINTED, {"cpu": "50m"}, {"pods": "0"}], ids=["cordon", "taint", "cpu", "slots"])
def test_a_domain_that_no_pod_of_the_constraint_can_use_sets_no_minimum(closed: Object) -> None:
    objects = [*zones("z0", "z1"), node("n2", labels={ZONE: "z2"}, **closed)]
    spots = on("n0", "n0", "n0", "n1", "n1")
    assert points("topologySpread", [*objects, *crowd(5, spread=[evenly()])], spots) == 0
    assert points("topologySpread", [*objects, node("n3", labels={ZONE: "z2"}), *crowd(5, spread=[evenly()])], spots) == -200 - 100


def test_usable_means_beside_the_pods_that_stay_and_nobody_else() -> None:
    full = [node("n0", cpu="1", labels={ZONE: "z0"}), node("n1", cpu="1", labels={ZONE: "z1"})]
    crowded = [*full, pod("f", cpu="950m", node_name="n1", owner="ReplicaSet/r"), *crowd(2, spread=[evenly()])]
    assert points("topologySpread", crowded, on("n0", "n0")) == 0
    assert points("topologySpread", crowded, on("n0", "n0"), absent=("f",), unplaced=("f",)) == -100
    assert points("topologySpread", crowded, on("n0", "n0") | {"f": "n1"}, absent=("f",)) == -100


def test_one_small_pod_of_the_constraint_makes_a_domain_usable() -> None:
    objects = [*zones("z0"), node("n1", cpu="100m", labels={ZONE: "z1"}), *crowd(2, cpu="200m", spread=[evenly()])]
    assert points("topologySpread", objects, on("n0", "n0")) == 0
    small = pod("q", cpu="100m", labels=A, spread=[evenly()])
    assert points("topologySpread", [*objects, small], on("n0", "n0"), unplaced=("q",)) == -100


def test_without_a_usable_domain_the_constraint_is_left_out() -> None:
    fixed = [pod(f"f{i}", labels=A, node_name="n0") for i in range(4)]
    closed = zones("z0", "z1", unschedulable=True)
    assert points("topologySpread", [*closed, *fixed, *crowd(1, spread=[evenly()])], {}, unplaced=("p0",)) == 0
    tolerant = crowd(1, spread=[evenly()], tolerations=[{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}])
    assert points("topologySpread", [*closed, *fixed, *tolerant], {}, unplaced=("p0",)) == -300


def test_a_mirror_pod_can_use_its_own_node_only() -> None:
    mirror = pod("p0", labels=A, spread=[evenly()], node_name="n0")
    mirror["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    objects = [*zones("z0", "z1"), mirror, *(pod(f"f{i}", labels=A, node_name="n0") for i in range(2))]
    assert points("topologySpread", objects, on("n0"), absent=("p0",)) == 0
    mirror["metadata"].pop("annotations")
    assert points("topologySpread", objects, on("n0"), absent=("p0",)) == -200


# --- default constraints ----------------------------------------------------------------------------------------------------------------


def replica_set(kind: str, selector: Object, name: str = "r") -> Object:
    version = "v1" if kind == "ReplicationController" else "apps/v1"
    spec = {"selector": selector, "template": {"metadata": {"labels": A}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def test_pods_of_a_service_get_the_default_constraints() -> None:
    objects = [*zones("z0", "z0", "z1"), *crowd(10)]
    spots = on(*["n0"] * 5, *["n1"] * 4, "n2")
    # hostname: 5, 4, 1 over minimum 1 + 3: 1; zone: 9 over 1 + 5: 3.
    assert points("topologySpread", [*objects, service(A)], spots) == -400
    assert points("topologySpread", objects, spots) == 0
    assert points("topologySpread", [*objects, service({"app": "b"})], spots) == 0
    assert points("topologySpread", [*objects, service({})], spots) == 0
    assert points("topologySpread", [*objects, service(None)], spots) == 0
    assert points("topologySpread", [*objects, service(A, space="other")], spots) == 0
    assert points("topologySpread", [*objects, service(A)], spots, policy=NO_DEFAULTS) == 0


@pytest.mark.parametrize(
    ("kind", "selector"),
    [
        ("ReplicaSet", {"matchLabels": A}),
        ("StatefulSet", {"matchExpressions": [{"key": "app", "operator": "Exists"}]}),
        ("ReplicationController", A),
    ],
)
def test_pods_of_a_controller_get_the_default_constraints(kind: str, selector: Object) -> None:
    policy = Policy(defaultConstraints=(DefaultConstraint(ZONE, 1),))
    objects = [*zones("z0", "z1"), *crowd(3, owner=f"{kind}/r")]
    assert points("topologySpread", [*objects, replica_set(kind, selector)], on("n0", "n0", "n0"), policy=policy) == -200
    assert points("topologySpread", [*objects, replica_set(kind, selector, "another")], on("n0", "n0", "n0"), policy=policy) == 0


def test_services_and_controller_are_joined() -> None:
    policy = Policy(defaultConstraints=(DefaultConstraint(ZONE, 1),))
    ours = [pod(f"p{i}", labels=A | {"tier": "t", "rev": "1"}, owner="ReplicaSet/r") for i in range(3)]
    others = [
        pod("o0", labels=A | {"tier": "t"}, node_name="n0"),
        pod("o1", labels={"tier": "t", "rev": "1"}, node_name="n0"),
        pod("o2", labels=A | {"rev": "1"}, node_name="n0"),
        pod("o3", labels=A | {"tier": "t", "rev": "1"}, node_name="n0"),
    ]
    objects = [
        *zones("z0", "z1"),
        *ours,
        *others,
        service(A),
        service({"tier": "t"}, "s2"),
        replica_set("ReplicaSet", {"matchLabels": {"rev": "1"}}),
    ]
    # Only o3 has all three labels.
    assert points("topologySpread", objects, on("n0", "n0", "n0"), policy=policy) == -300


def test_other_controllers_and_own_constraints_bring_no_defaults() -> None:
    policy = Policy(defaultConstraints=(DefaultConstraint(ZONE, 1),))
    job = replica_set("Job", {"matchLabels": A})
    assert points("topologySpread", [*zones("z0", "z1"), job, *crowd(3, owner="Job/r")], on("n0", "n0", "n0"), policy=policy) == 0
    own = crowd(3, spread=[evenly(skew=2)])
    assert points("topologySpread", [*zones("z0", "z1"), service(A), *own], on("n0", "n0", "n0"), policy=policy) == -100


def test_default_constraints_of_ones_own_need_the_keys_of_all() -> None:
    policy = Policy(defaultConstraints=(DefaultConstraint(ZONE, 1), DefaultConstraint("rack", 1)))
    objects = [*zones("z0", "z1"), node("n2", labels={"rack": "r0"}), node("n3", labels={"rack": "r1"}), service(A), *crowd(6)]
    assert points("topologySpread", objects, on("n0", "n0", "n0", "n2", "n2", "n2"), policy=policy) == 0
    both = [node(f"m{i}", labels={"rack": f"r{i}", ZONE: "z0"}) for i in range(2)]
    assert points("topologySpread", [*both, service(A), *crowd(4)], on("m0", "m0", "m0", "m0"), policy=policy) == -300


def test_the_systems_default_constraints_need_only_their_own_key() -> None:
    hosts = [node(f"h{i}", labels={"kubernetes.io/hostname": f"h{i}"}) for i in range(2)]
    assert points("topologySpread", [*hosts, service(A), *crowd(6)], on(*["h0"] * 6), policy=Policy()) == -300


def test_default_constraints_heed_node_affinity_and_no_taints() -> None:
    policy = Policy(defaultConstraints=(DefaultConstraint(ZONE, 1),))
    strangers = [pod(f"s{i}", labels=A, node_name="n1") for i in range(4)]
    tainted = node("n1", labels={ZONE: "z1"}, taints=[{"key": "t", "effect": "NoSchedule"}])
    objects = [node("n0", labels={ZONE: "z0"}), tainted, *strangers, service(A)]
    assert points("topologySpread", [*objects, *crowd(1)], on("n0"), policy=policy) == -200
    assert points("topologySpread", [*objects, *crowd(1, selector={ZONE: "z0"})], on("n0"), policy=policy) == 0


# --- documents about objects that do not exist, and recorded placements -----------------------------------------------------------------


def test_unknown_pods_and_nodes_count_nothing() -> None:
    objects = [node("n0"), pod("p", labels=A, affinity=dislikes(term())), pod("q", labels=A, node_name="n0", owner="ReplicaSet/r")]
    assert points("podAffinity", objects, {"p": "nowhere"}) == 0
    assert points("podAffinity", objects, {"p": "n0", "ghost": "n0"}) == -10
    assert points("podAffinity", objects, {"p": "n0", "q": "nowhere"}, absent=("q",)) == 0


def test_the_detail_of_pods_adds_up() -> None:
    found = recorded(0)
    assert len(found.pods) == 976
    assert sum(found.pods.values()) == found.families["nodeAffinity"] + found.families["taints"] == 6310


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_kube_schedulers_placements_score_as_recorded(seed: int) -> None:
    baseline: list[dict[str, Any]] = json.loads((DATA / "baseline-soft.json").read_text())
    entry = next(e for e in baseline if (e["family"], e["seed"]) == ("soft-60-70", seed))
    soft, families = entry["soft"], recorded(seed).families
    assert families == {
        "nodeAffinity": soft["node_affinity"],
        "taints": -100 * soft["prefer_no_schedule"],
        "podAffinity": soft["pod_affinity"],
        "requiredAffinity": soft["hard_affinity"],
        "topologySpread": -100 * soft["spread"],
    }
    assert sum(families.values()) == entry["total"]


def recorded(seed: int) -> SoftScore:
    snapshot = load([str(DATA / f"soft-60-70-s{seed}.json.gz")])
    placed = json.loads(gzip.decompress((DATA / f"kube-scheduler-soft-60-70-s{seed}.json.gz").read_bytes()))
    return score(snapshot, placed, (), DEFAULT, pending=[kube_objects.pod_key(p) for p in snapshot.pods])


@pytest.mark.parametrize("resource", ["example.com/gpu", "deviceclass.resource.kubernetes.io/gpu"])
def test_spread_of_pods_whose_resource_only_devices_provide_counts(resource: str) -> None:
    """The node lists none of it: NodeResourcesFit does not ask for it there, as in a bind."""
    device_class = {"selectors": [{"cel": {"expression": 'device.driver == "gpu.example.com"'}}], "extendedResourceName": "example.com/gpu"}
    asking = pod("p", spread=[evenly(labelSelector={"matchLabels": {"app": "web"}})])
    asking["spec"]["containers"][0]["resources"] = {"requests": {resource: "1"}, "limits": {resource: "1"}}
    objects = [
        node("n", labels={ZONE: "z"}), asking, *(pod(f"w{i}", labels={"app": "web"}) for i in range(3)),
        {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": device_class},
    ]  # fmt: skip
    assert scored(objects, dict.fromkeys(("p", "w0", "w1", "w2"), "n")).evenness() == -9
