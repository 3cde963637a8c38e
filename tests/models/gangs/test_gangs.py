"""Gangs as the objects of a snapshot declare them, in every dialect."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubestow.models.gangs import gangs
from kubestow.models.gangs import markers as gangs_markers
from kubestow.models.gangs.gangs import Gang
from kubestow.models.kube import objects as kube_objects
from kubestow.models.snapshot.scope import Scope, select
from kubestow.models.snapshot.snapshot import InputError, Snapshot, from_objects
from tests.objects import Object, node, pod

KUEUE = "kueue.x-k8s.io"
COSCHEDULING = "scheduling.x-k8s.io/pod-group"
VOLCANO = "scheduling.k8s.io/group-name"


def member(name: str, annotations: Object | None = None, labels: Object | None = None, phase: str | None = None, **fields: Any) -> Object:
    found = pod(name, labels=labels, **fields)
    found["metadata"]["annotations"] = annotations or {}
    if phase is not None:
        found["status"] = {"phase": phase}
    return found


def own(name: str, *, gang: str = "train", phase: str | None = None, node_name: str | None = None, **annotations: str) -> Object:
    """A member by this project's annotations, dashes written as underscores."""
    found = {f"kubestow.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
    return member(name, {"kubestow.dev/gang": gang, **found}, phase=phase, node_name=node_name)


def pod_group(name: str, api: str, **spec: Any) -> Object:
    return {"apiVersion": api, "kind": "PodGroup", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def native(name: str, **spec: Any) -> Object:
    return pod_group(name, "scheduling.k8s.io/v1alpha2", **spec)


def volcano(name: str, **spec: Any) -> Object:
    return pod_group(name, "scheduling.volcano.sh/v1beta1", **spec)


def coscheduling(name: str, minimum: int) -> Object:
    return pod_group(name, "scheduling.x-k8s.io/v1alpha1", minMember=minimum)


def workload(name: str, **groups: Object) -> Object:
    spec = {"podGroups": [{"name": group, "policy": policy} for group, policy in groups.items()]}
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha1",
        "kind": "Workload",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


def find(*objects: Object, tiers: tuple[str, ...] = (), include_gated: bool = False) -> list[Gang]:
    snapshot = from_objects([node("n1"), *objects])
    return gangs.find(snapshot, select(snapshot, include_gated=include_gated), tiers=tiers)


def only(*objects: Object, **options: Any) -> Gang:
    (gang,) = find(*objects, **options)
    return gang


def problems(*objects: Object) -> list[str]:
    with pytest.raises(InputError) as caught:
        find(*objects)
    return caught.value.problems


# --- this project's annotations -----------------------------------------------------------------------------------------


def test_a_gang_is_its_members_pending_and_running_ones() -> None:
    gang = only(own("a"), pod("other"), own("b"), own("c", node_name="n1"))
    assert gang == Gang("default/train", (0, 2), (3,), None)
    assert gang.needed == 2
    assert gang.source == "kubestow.dev/gang"


def test_the_minimum_counts_running_members() -> None:
    gang = only(own("a", min_member="3"), own("b"), own("c"), own("d", node_name="n1"))
    assert gang.minimum == 3
    assert gang.needed == 2


def test_of_several_minima_the_largest_counts() -> None:
    assert only(own("a", min_member="2"), own("b", min_member="3"), own("c")).minimum == 3


def test_a_minimum_beyond_the_members_is_kept() -> None:
    assert only(own("a", min_member="7")).needed == 7


def test_a_gang_may_span_namespaces_by_its_full_name() -> None:
    there = own("b", gang="default/train")
    there["metadata"]["namespace"] = "other"
    assert only(own("a"), there).pods == (0, 1)


def test_gangs_of_one_name_in_two_namespaces_are_two() -> None:
    there = own("b")
    there["metadata"]["namespace"] = "other"
    assert [gang.name for gang in find(there, own("a"))] == ["default/train", "other/train"]


def test_a_gang_without_pending_members_is_none() -> None:
    assert find(own("a", node_name="n1"), pod("b")) == []


def test_an_empty_name_is_no_gang() -> None:
    assert find(own("a", gang="")) == []


def test_terminating_and_finished_members_do_not_count() -> None:
    leaving = own("leaving", node_name="n1")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    gang = only(own("a", min_member="2"), leaving, own("done", phase="Succeeded"), own("failed", phase="Failed", node_name="n1"))
    assert gang.bound == ()
    assert gang.needed == 2 > len(gang.pods)


def test_members_on_nodes_that_the_snapshot_lacks_are_taken_off_the_minimum() -> None:
    gang = only(own("a", min_member="3"), own("away", node_name="gone"), own("here", node_name="n1"))
    assert gang.bound == (2,)
    assert gang.needed == 1


def test_gated_members_keep_the_gang_from_being_whole() -> None:
    gated = member("g", {"kubestow.dev/gang": "train"}, schedulingGates=[{"name": "wait"}])
    gang = only(own("a"), own("b", node_name="n1"), gated)
    assert gang.pods == (0,)
    assert gang.needed == 2
    assert only(own("a"), gated, include_gated=True).needed == 2 == len(only(own("a"), gated, include_gated=True).pods)


@pytest.mark.parametrize(("annotation", "required"), [("required_topology", True), ("preferred_topology", False)])
def test_a_topology_goes_with_a_minimum(annotation: str, required: bool) -> None:
    gang = only(own("a", min_member="2", **{annotation: "example.com/rack"}), own("b"))
    assert (gang.minimum, gang.key, gang.required) == (2, "example.com/rack", required)


def test_required_wins_over_preferred_of_the_same_key() -> None:
    gang = only(own("a", preferred_topology="zone"), own("b", required_topology="zone"))
    assert (gang.key, gang.required) == ("zone", True)


@pytest.mark.parametrize("value", ["", "0", "-1", "2.5", "three", "٣", " 2", "1" * 30])
def test_a_minimum_that_is_no_count_is_bad_input(value: str) -> None:
    assert problems(own("a"), own("b", min_member=value)) == [
        f"Pod default/b: metadata.annotations[kubestow.dev/min-member]: got {value!r}, expected a whole number of at least 1"
    ]


@pytest.mark.parametrize("value", ["", "a b", "-zone", "Example.com/zone", "a/b/c", "/zone", "zone/", "x" * 64, "a" * 254 + "/zone", "z\n"])
def test_a_topology_that_is_no_label_key_is_bad_input(value: str) -> None:
    (line,) = problems(own("a", required_topology=value))
    assert line.startswith("Pod default/a: metadata.annotations[kubestow.dev/required-topology]: got '")
    assert line.endswith("expected a node label key such as topology.kubernetes.io/zone")
    assert line.isprintable()


@pytest.mark.parametrize("value", ["zone", "Zone_1.x", "topology.kubernetes.io/zone", "a" * 253 + "/zone", "x" * 63])
def test_label_keys_are_taken(value: str) -> None:
    assert only(own("a", required_topology=value)).key == value


@pytest.mark.parametrize("value", ["a/b/c", "/a", "a/", "-a", "a b", "a\n"])
def test_a_gang_that_cannot_be_a_name_is_bad_input(value: str) -> None:
    assert problems(own("a", gang=value)) == [
        f"Pod default/a: metadata.annotations[kubestow.dev/gang]: got {value!r}, expected a name such as train, or namespace/name"
    ]


@pytest.mark.parametrize(
    ("first", "second"),
    [("required_topology", "required_topology"), ("preferred_topology", "preferred_topology"), ("required_topology", "preferred_topology")],
)
def test_two_topologies_contradict_each_other(first: str, second: str) -> None:
    names = [f"kubestow.dev/{each.replace('_', '-')}" for each in (first, second)]
    found = problems(own("a", **{first: "zone"}), own("b", **{second: "rack"}), own("c", **{second: "rack"}))
    assert found == [
        f"Pod default/b: metadata.annotations[{names[1]}]: got 'rack', expected one topology of the gang 'default/train': "
        f"Pod default/a has 'zone' in {names[0]}"
    ]


def test_the_problems_of_all_gangs_are_told_at_once() -> None:
    assert len(problems(own("a", min_member="x"), own("b", min_member="y"), own("c", gang="other", required_topology="!"))) == 3


def test_running_members_only_belong() -> None:
    gang = only(own("a"), own("old", node_name="n1", min_member="no", required_topology="rack"))
    assert (gang.minimum, gang.key, gang.bound) == (None, None, (1,))


# --- scheduling.k8s.io --------------------------------------------------------------------------------------------------


def refers(name: str, group: str = "workers", key: str | None = None) -> Object:
    return member(name, workloadRef={"name": "job", "podGroup": group, **({"podGroupReplicaKey": key} if key else {})})


def test_a_workload_gives_the_minimum_of_its_pod_groups() -> None:
    found = find(
        workload("job", workers={"gang": {"minCount": 2}}, drivers={"basic": {}}), refers("a"), refers("b"), refers("d", "drivers")
    )
    assert [(g.name, g.pods, g.minimum, g.source) for g in found] == [("default/job-workers", (0, 1), 2, "spec.workloadRef")]


def test_replicas_of_a_pod_group_are_gangs_apart() -> None:
    found = find(workload("job", workers={"gang": {"minCount": 2}}), *(refers(f"p{i}", key=str(i % 2)) for i in range(4)))
    assert [(g.name, g.pods, g.needed) for g in found] == [("default/job-workers-0", (0, 2), 2), ("default/job-workers-1", (1, 3), 2)]


@pytest.mark.parametrize("objects", [(), (workload("job", others={"basic": {}}),), (workload("jab", workers={"basic": {}}),)])
def test_a_missing_workload_or_pod_group_needs_all_members(objects: tuple[Object, ...]) -> None:
    assert only(*objects, refers("a"), refers("b")).minimum is None


def grouped(name: str, **fields: Any) -> Object:
    return member(name, schedulingGroup={"podGroupName": "train"}, **fields)


def test_a_native_pod_group_gives_minimum_and_topology() -> None:
    group = native(
        "train", schedulingPolicy={"gang": {"minCount": 2}}, schedulingConstraints={"topology": [{"key": "topology.kubernetes.io/rack"}]}
    )
    gang = only(group, grouped("a"), grouped("b"), grouped("c"))
    assert gang == Gang("default/train", (0, 1, 2), (), 2, "topology.kubernetes.io/rack", True, "spec.schedulingGroup")


def test_the_basic_policy_is_no_gang_but_may_have_a_topology() -> None:
    assert find(native("train", schedulingPolicy={"basic": {}}), grouped("a"), grouped("b")) == []
    gang = only(native("train", schedulingPolicy={"basic": {}}, schedulingConstraints={"topology": [{"key": "zone"}]}), grouped("a"))
    assert (gang.needed, gang.key, gang.required) == (0, "zone", True)


def test_a_missing_pod_group_needs_all_members() -> None:
    assert only(grouped("a"), grouped("b")).minimum is None


def test_an_object_without_api_version_may_be_anybodys() -> None:
    group = native("train", schedulingPolicy={"gang": {"minCount": 2}})
    del group["apiVersion"]
    assert only(group, grouped("a"), grouped("b"), grouped("c")).minimum == 2


# --- scheduler-plugins, Volcano -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("label", "api"),
    [(COSCHEDULING, "scheduling.x-k8s.io/v1alpha1"), ("pod-group.scheduling.sigs.k8s.io", "scheduling.sigs.k8s.io/v1alpha1")],
)
def test_coscheduling_in_both_spellings(label: str, api: str) -> None:
    pods = [member(name, labels={label: "train"}) for name in "abc"]
    assert only(pod_group("train", api, minMember=2), *pods) == Gang("default/train", (0, 1, 2), (), 2, source=COSCHEDULING)


@pytest.mark.parametrize("annotation", [VOLCANO, "scheduling.volcano.sh/group-name"])
def test_volcano_in_both_spellings(annotation: str) -> None:
    pods = [member(name, {annotation: "train"}) for name in "abc"]
    assert only(volcano("train", minMember=2), *pods) == Gang("default/train", (0, 1, 2), (), 2, source=VOLCANO)


def test_the_pod_group_that_volcano_makes_for_every_pod_is_no_gang() -> None:
    assert find(volcano("podgroup-1", minMember=1), member("a", {VOLCANO: "podgroup-1"})) == []
    assert find(volcano("podgroup-1"), member("a", {VOLCANO: "podgroup-1"})) == []


def test_a_minimum_of_one_with_a_topology_is_one() -> None:
    gang = only(volcano("g", minMember=1, networkTopology={"highestTierAllowed": 1}), member("a", {VOLCANO: "g"}), tiers=("rack",))
    assert (gang.needed, gang.key, gang.required) == (1, "rack", True)


@pytest.mark.parametrize(
    ("asked", "tiers", "expected"),
    [
        ({"mode": "hard", "highestTierAllowed": 2}, ("rack", "row"), ("row", True)),
        ({"highestTierAllowed": 1}, ("rack", "row"), ("rack", True)),
        ({"mode": "hard"}, ("rack", "row"), ("rack", True)),
        ({"mode": "soft", "highestTierAllowed": 2}, ("rack", "row"), ("rack", False)),
        ({"mode": "hard", "highestTierAllowed": 3}, ("rack", "row"), (None, False)),
        ({"mode": "hard", "highestTierAllowed": 0}, ("rack", "row"), (None, False)),
        ({"mode": "hard", "highestTierName": "spine"}, ("rack", "row"), (None, False)),
        ({"mode": "hard", "highestTierAllowed": 1}, (), (None, False)),
        ({"mode": "soft"}, (), (None, False)),
    ],
)
def test_volcanos_tiers_are_the_labels_of_the_policy(asked: Object, tiers: tuple[str, ...], expected: tuple[str | None, bool]) -> None:
    pods = [member(name, {VOLCANO: "train"}) for name in "ab"]
    gang = only(volcano("train", minMember=2, networkTopology=asked), *pods, tiers=tiers)
    assert (gang.key, gang.required) == expected


def typed(name: str, **annotations: str) -> kube_objects.Pod:
    """A pod with Volcano's own annotations."""
    volcanic = {f"volcano.sh/network-topology-{key.replace('_', '-')}": value for key, value in annotations.items()}
    return kube_objects.Pod(kube_objects.ObjectMeta(name=name, annotations={gangs.GANG: "g", **volcanic}), kube_objects.PodSpec())


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({"mode": "hard", "highest_tier": "2"}, ("row", True)),
        ({"highest_tier": "2"}, ("row", True)),
        ({"mode": "Soft"}, ("rack", False)),
        ({"mode": "hard", "highest_tier": "many"}, ("rack", True)),
    ],
)
def test_volcanos_annotations_where_no_pod_group_is_made_of_them_yet(annotations: dict[str, str], expected: tuple[str, bool]) -> None:
    snapshot = Snapshot(pods=[typed("a", **annotations), typed("b", **annotations)])
    (gang,) = gangs.find(snapshot, Scope(pending=[0, 1]), tiers=("rack", "row"))
    assert (gang.key, gang.required) == expected
    for each in snapshot.pods:
        annotations_left = {k: v for k, v in (each.metadata.annotations or {}).items() if k != gangs.GANG}
        each.metadata.annotations = {**annotations_left, VOLCANO: "g"}
    (gang,) = gangs.find(snapshot, Scope(pending=[0, 1]), tiers=("rack", "row"))
    assert (gang.source, gang.key, gang.required) == (VOLCANO, *expected)
    snapshot.pod_groups = from_objects([volcano("g", minMember=2)]).pod_groups
    (gang,) = gangs.find(snapshot, Scope(pending=[0, 1]), tiers=("rack", "row"))
    assert gang.key is None


def test_volcanos_annotations_on_some_members_only() -> None:
    snapshot = Snapshot(pods=[typed("a", mode="hard"), typed("b", mode="hard"), typed("c")])
    (gang,) = gangs.find(snapshot, Scope(pending=[0, 1]), tiers=("rack",))
    assert gang.key == "rack"
    (gang,) = gangs.find(snapshot, Scope(pending=[0, 1, 2]), tiers=("rack", "row"))
    assert gang.key is None


# --- Kueue ----------------------------------------------------------------------------------------------------------------


def queued(name: str, count: str | None = "3", labels: Object | None = None, **fields: Any) -> Object:
    annotations = {f"{KUEUE}/{key.replace('_', '-')}": fields.pop(key) for key in list(fields) if key.startswith("podset_")}
    if count is not None:
        annotations[f"{KUEUE}/pod-group-total-count"] = count
    return member(name, annotations, {f"{KUEUE}/pod-group-name": "train", **(labels or {})}, **fields)


def test_a_kueue_group_needs_its_total_count() -> None:
    gang = only(queued("a"), queued("b"), queued("c"))
    assert gang == Gang("default/train", (0, 1, 2), (), 3, source=f"{KUEUE}/pod-group-name")
    assert only(queued("a"), queued("b")).needed == 3


def test_what_succeeded_is_part_of_kueues_total_count() -> None:
    assert only(queued("a"), queued("b", node_name="n1"), queued("c", phase="Succeeded")).needed == 1
    assert only(queued("a"), queued("b", node_name="n1"), queued("c", phase="Failed")).needed == 2


def test_an_own_minimum_counts_members_that_run() -> None:
    pods = [queued("a"), queued("b", phase="Succeeded"), queued("c", phase="Succeeded")]
    pods[0]["metadata"]["annotations"]["kubestow.dev/min-member"] = "2"
    assert only(*pods).needed == 2


def test_kueues_gated_pods_are_missing_from_the_group() -> None:
    gates = [{"name": f"{KUEUE}/admission"}]
    pods = [queued("a"), queued("b", schedulingGates=gates), queued("c", schedulingGates=gates)]
    assert only(*pods).needed == 3 > len(only(*pods).pods)
    assert only(*pods, include_gated=True).pods == (0, 1, 2)


@pytest.mark.parametrize("count", [None, "0", "many"])
def test_without_a_readable_total_count_all_pods_are_needed(count: str | None) -> None:
    assert only(queued("a", count), queued("b", count)).minimum is None


def test_kueues_topology_of_a_pod_set() -> None:
    gang = only(*(queued(name, podset_required_topology="rack") for name in "abc"))
    assert (gang.key, gang.required) == ("rack", True)
    gang = only(*(queued(name, podset_preferred_topology="rack") for name in "abc"))
    assert (gang.key, gang.required) == ("rack", False)
    assert only(*(queued(name, podset_unconstrained_topology="true") for name in "abc")).key is None


def test_kueues_topology_of_one_pod_set_among_others_is_not_that_of_the_gang() -> None:
    assert only(queued("a", podset_required_topology="rack"), queued("b"), queued("c")).key is None
    leader, worker = {f"{KUEUE}/podset": "leader"}, {f"{KUEUE}/podset": "worker"}
    apart = [queued("a", labels=leader, podset_required_topology="rack"), queued("b", labels=worker, podset_required_topology="rack")]
    assert only(*apart).key is None
    together = [
        queued(name, labels=labels, podset_required_topology="rack", podset_group_name="all")
        for name, labels in (("a", leader), ("b", worker))
    ]
    assert only(*together).key == "rack"


def test_the_pods_of_a_job_that_kueue_placed_by_topology_are_a_gang() -> None:
    admitted = {f"{KUEUE}/workload": "job-x", f"{KUEUE}/podset-required-topology": "rack"}
    pods = [member(name, admitted, {f"{KUEUE}/podset": "main"}) for name in "ab"]
    gang = only(*pods, member("c", {f"{KUEUE}/workload": "job-y"}), member("d", {f"{KUEUE}/podset-required-topology": "rack"}))
    assert gang == Gang("default/job-x-main", (0, 1), (), None, "rack", True, f"{KUEUE}/podset-required-topology")


def test_pod_sets_that_share_a_group_are_one_gang() -> None:
    admitted = {f"{KUEUE}/workload": "lws", f"{KUEUE}/podset-required-topology": "rack"}
    sets = {"a": "leader", "b": "worker"}
    pods = [member(name, admitted, {f"{KUEUE}/podset": pod_set}) for name, pod_set in sets.items()]
    assert [gang.name for gang in find(*pods)] == ["default/lws-leader", "default/lws-worker"]
    for each in pods:
        each["metadata"]["annotations"] = admitted | {f"{KUEUE}/podset-group-name": "all"}
    assert (only(*pods).name, only(*pods).key) == ("default/lws-all", "rack")


def test_an_own_gang_takes_kueues_topology_unless_it_has_its_own() -> None:
    requested = {f"{KUEUE}/podset-preferred-topology": "block", "kubestow.dev/gang": "train"}
    assert only(member("a", requested), member("b", requested)).key == "block"
    gang = only(member("a", {**requested, "kubestow.dev/required-topology": "rack"}), member("b", requested))
    assert (gang.key, gang.required) == ("rack", True)


# --- several of them ------------------------------------------------------------------------------------------------------


def test_own_annotations_relax_what_a_groups_object_asks_for() -> None:
    pods = [member(name, {VOLCANO: "train", "kubestow.dev/min-member": "2", "kubestow.dev/preferred-topology": "zone"}) for name in "abc"]
    gang = only(volcano("train", minMember=3, networkTopology={"mode": "hard", "highestTierAllowed": 1}), *pods, tiers=("rack",))
    assert (gang.minimum, gang.key, gang.required, gang.source) == (2, "zone", False, VOLCANO)


SOURCES = ["kubestow.dev/gang", "spec.workloadRef", "spec.schedulingGroup", COSCHEDULING, VOLCANO, f"{KUEUE}/pod-group-name"]


@given(st.sets(st.sampled_from(SOURCES), min_size=1))
def test_of_several_groups_the_first_source_counts(sources: set[str]) -> None:
    everything = member(
        "a",
        {k: "g" for k in ("kubestow.dev/gang", VOLCANO) if k in sources},
        {k: "g" for k in (COSCHEDULING, f"{KUEUE}/pod-group-name") if k in sources},
    )
    if "spec.workloadRef" in sources:
        everything["spec"]["workloadRef"] = {"name": "g", "podGroup": "w"}
    if "spec.schedulingGroup" in sources:
        everything["spec"]["schedulingGroup"] = {"podGroupName": "g"}
    assert only(everything).source == min(sources, key=SOURCES.index)


def test_pod_groups_of_one_name_are_not_mixed_up() -> None:
    groups = [
        native("train", schedulingPolicy={"gang": {"minCount": 2}}),
        coscheduling("train", 3),
        volcano("train", minMember=4),
    ]
    pods = [
        *(grouped(f"n{i}") for i in range(5)),
        *(member(f"c{i}", labels={COSCHEDULING: "train"}) for i in range(5)),
        *(member(f"v{i}", {VOLCANO: "train"}) for i in range(5)),
        *(queued(f"k{i}", "5") for i in range(5)),
        *(own(f"o{i}") for i in range(5)),
    ]
    expected = {
        "default/train": (None, 20),
        "default/train@kueue.x-k8s.io": (5, 15),
        "default/train@scheduling.k8s.io": (2, 0),
        "default/train@scheduling.volcano.sh": (4, 10),
        "default/train@scheduling.x-k8s.io": (3, 5),
    }
    for order in (groups, groups[::-1]):
        found = find(*order, *pods)
        assert {g.name: (g.minimum, g.pods[0]) for g in found} == expected
        assert all(len(g.pods) == 5 for g in found)


def test_the_same_pod_group_twice_is_bad_input_and_of_two_apis_is_not() -> None:
    assert len(from_objects([coscheduling("train", 2), volcano("train", minMember=3)]).pod_groups) == 2
    assert len(from_objects([coscheduling("train", 2), coscheduling("train", 2)]).pod_groups) == 1
    with pytest.raises(InputError, match="with other content"):
        from_objects([coscheduling("train", 2), coscheduling("train", 3)])


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        (native("g", schedulingPolicy={"gang": {"minCount": -1}}), "spec.schedulingPolicy.gang.minCount: got -1, expected a whole number"),
        (volcano("g", networkTopology={"mode": "Hard"}), "spec.networkTopology.mode: got 'Hard', expected hard or soft"),
        (workload("g", w={"gang": {"minCount": 2**31}}), "spec.podGroups[0].policy.gang.minCount: got 2147483648, expected a whole number"),
    ],
)
def test_groups_that_no_api_server_would_take_are_bad_input(wrong: Object, line: str) -> None:
    with pytest.raises(InputError, match=re.escape(line)):
        from_objects([wrong])


PATHS = st.tuples(st.sampled_from(["default", "other"]), st.sampled_from(["a", "a-b", "a-b-c", "b"]))
MARKERS = st.one_of(
    st.builds(
        lambda path, rest: gangs_markers.Marker("spec.workloadRef", (*path, *rest)),
        PATHS,
        st.tuples(*[st.sampled_from(["", "b", "c"])] * 2),
    ),
    st.builds(gangs_markers.Marker, st.sampled_from([s for s in SOURCES if s != "spec.workloadRef"]), PATHS),
)


@given(st.lists(MARKERS, unique=True), st.randoms())
def test_names_differ_and_do_not_depend_on_the_order(markers: list[gangs_markers.Marker], random: Any) -> None:
    found = gangs_markers.names(markers)
    assert set(found) == set(markers)
    assert len(set(found.values())) == len(markers)
    assert all(name.startswith(each.name) for each, name in found.items())
    random.shuffle(markers)
    assert gangs_markers.names(markers) == found


# --- any snapshot -----------------------------------------------------------------------------------------------------------


@st.composite
def anyone(draw: st.DrawFn) -> Object:
    annotations = draw(st.dictionaries(st.sampled_from(["kubestow.dev/gang", VOLCANO]), st.sampled_from(["g", "h"]), max_size=2))
    annotations |= draw(
        st.dictionaries(st.sampled_from(["kubestow.dev/min-member", f"{KUEUE}/pod-group-total-count"]), st.sampled_from("1234"))
    )
    labels = draw(st.dictionaries(st.sampled_from([COSCHEDULING, f"{KUEUE}/pod-group-name"]), st.sampled_from(["g", "h"]), max_size=1))
    spec: Object = draw(st.sampled_from([{}, {}, {"schedulingGroup": {"podGroupName": "g"}}, {"schedulingGates": [{"name": "x"}]}]))
    found = member(
        "?", annotations, labels, draw(st.sampled_from([None, None, "Succeeded"])), node_name=draw(st.sampled_from([None, "n1", "gone"]))
    )
    if draw(st.booleans()) and not found["spec"].get("nodeName"):
        found["spec"] |= spec
    if draw(st.integers(0, 5)) == 0:
        found["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return found


@pytest.mark.full
@settings(deadline=None)
@given(st.lists(anyone(), max_size=12), st.booleans())
def test_each_pod_is_in_the_gang_it_names_and_in_no_other(pods: list[Object], include_gated: bool) -> None:
    for i, each in enumerate(pods):
        each["metadata"]["name"] = f"p{i}"
    snapshot = from_objects([node("n1"), volcano("g", minMember=2), native("g", schedulingPolicy={"basic": {}}), *pods])
    scope = select(snapshot, include_gated=include_gated)
    found = gangs.find(snapshot, scope)
    assert [g.name for g in found] == sorted({g.name for g in found})
    seen = [i for g in found for i in (*g.pods, *g.bound)]
    assert len(seen) == len(set(seen))
    for gang in found:
        named = {gangs_markers.marker(snapshot.pods[i]) for i in (*gang.pods, *gang.bound)}
        assert len(named) == 1
        assert gang.pods == tuple(i for i in scope.pending if gangs_markers.marker(snapshot.pods[i]) in named)
        still = [i for i in scope.fixed if not kube_objects.is_terminating(snapshot.pods[i])]
        assert gang.bound == tuple(i for i in still if gangs_markers.marker(snapshot.pods[i]) in named)
        waiting = any(gangs_markers.marker(snapshot.pods[i]) in named for i in scope.gated)
        assert gang.minimum is not None or not waiting
        assert gang.needed >= 0
    whole = {i for g in found for i in g.pods}
    assert not any(gangs.GANG in (snapshot.pods[i].metadata.annotations or {}) for i in scope.pending if i not in whole)


def test_pods_that_name_no_group_are_passed_over_by_their_shared_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    """150,000 pods cost next to nothing: each is recognised by the identity of its shared labels."""
    calls: list[kube_objects.Pod] = []
    monkeypatch.setattr(gangs_markers, "marker", calls.append)
    snapshot = from_objects([member(f"p{i}", {"kubestow.dev/x": str(i)}, {"app": "web"}) for i in range(50)])
    assert gangs.find(snapshot, select(snapshot)) == []
    assert calls == []
