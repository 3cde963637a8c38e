"""The gate decides if manifests fit, in which order the changes happen, and which findings are new."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from kubestow.audit.gate.gate import GateOptions, GateRequest, GateResult, check
from kubestow.audit.run import AuditOptions
from kubestow.audit.selection import FindingFilters
from kubestow.models.documents.findings.audit_selection import AuditBaseline, KnownFinding
from kubestow.models.documents.findings.check import WorkloadFit, failing, unfit
from kubestow.models.documents.policy import Policy
from kubestow.models.positions.find import Positions
from kubestow.models.snapshot.snapshot import Snapshot, from_objects
from kubestow.solver.runtime.options import Options
from tests.audit.gate.test_changes import workload
from tests.objects import Object, node, pod

TWO = [node("n1", cpu="4"), node("n2", cpu="4")]


def gate(
    there: list[Object] | None, manifests: list[Object], base: list[Object] | None = None, *, stopped: bool = False, **options: Any
) -> GateResult:
    cluster = None if there is None else from_objects(there)
    before = None if base is None else _manifests(base)
    stop = threading.Event()
    if stopped:
        stop.set()
    asked = GateOptions(
        Options(time_limit=60.0, workers=1, policy=options.pop("policy", Policy())),
        AuditOptions(chosen=options.pop("chosen", FindingFilters())),
        options.pop("show_known", False),
    )
    return check(GateRequest(_manifests(manifests), Positions([]), ["x.yaml"], cluster, before), asked, stop=stop)


def _manifests(objects: list[Object]) -> Snapshot:
    found = from_objects(objects, manifests=True)
    for place in found.sources:
        found.sources[place] = "x.yaml"
    return found


def fits(found: GateResult) -> dict[str, tuple[str, int, int]]:
    return {fit.workload: (fit.fit, fit.placed, fit.replicas) for fit in found.check.workloads}


def only(found: GateResult) -> WorkloadFit:
    (fit,) = found.check.workloads
    return fit


def codes(found: GateResult) -> list[tuple[str, str]]:
    return [(fault.finding.code, fault.finding.object) for fault in found.check.faults]


def running(kind: str, *places: str, cpu: str = "1", **spec: Any) -> list[Object]:
    """A workload shop/web with a pod on each of some nodes."""
    owner = {"Deployment": "ReplicaSet/web-1", "StatefulSet": "StatefulSet/web", "DaemonSet": "DaemonSet/web"}[kind]
    labels = {"app": "web"} | ({"pod-template-hash": "1"} if kind == "Deployment" else {})
    pods = [
        pod(f"web-{i}", namespace="shop", labels=labels, cpu=cpu, memory="0", node_name=place, owner=owner)
        for i, place in enumerate(places)
    ]
    return [workload(kind, replicas=len(places), cpu=cpu, **spec), *pods]


def named(name: str, **given: Any) -> Object:
    """A workload of its own."""
    made = workload(**given)
    made["metadata"]["name"] = name
    made["spec"]["selector"] = {"matchLabels": {"app": name}}
    made["spec"]["template"]["metadata"]["labels"] = {"app": name}
    return made


def on(made: Object, place: str) -> Object:
    made["spec"]["template"]["spec"]["nodeSelector"] = {"kubernetes.io/hostname": place}
    return made


# --- fit ------------------------------------------------------------------------------------------------------------------


def test_a_template_is_placed_whole_or_not_at_all() -> None:
    assert fits(gate(TWO, [workload(replicas=8)])) == {"Deployment shop/web": ("fits", 8, 8)}
    found = gate(TWO, [workload(replicas=9)])
    assert fits(found) == {"Deployment shop/web": ("does not fit", 0, 9)}
    assert "the 9 pods of shop/web ask for 9 CPU" in (only(found).cause or "")
    assert "8 replicas" in (only(found).fix or "")


def test_manifests_are_placed_together() -> None:
    found = gate(TWO, [named("a", replicas=5), named("b", replicas=5)])
    assert sorted(fit.fit for fit in found.check.workloads) == ["does not fit", "fits"]
    assert len(unfit(found.check)) == 1


def test_pods_that_wait_in_the_cluster_take_no_place() -> None:
    found = gate([*TWO, *(pod(f"p{i}", cpu="1") for i in range(8))], [workload(replicas=8)])
    assert only(found).fit == "fits"
    assert found.check.notes == ["8 pods that wait in the cluster: left out"]


def test_what_scales_down_makes_room() -> None:
    assert fits(gate([*TWO, *running("Deployment", *["n1"] * 4, *["n2"] * 4)], [workload(replicas=2), named("b", replicas=6)])) == {
        "Deployment shop/web": ("fits", 2, 2),
        "Deployment shop/b": ("fits", 6, 6),
    }


def test_a_workload_that_stays_counts_what_runs() -> None:
    found = gate([*TWO, *running("Deployment", "n1", "n2")], [workload()])
    assert (only(found).change, fits(found)["Deployment shop/web"]) == ("unchanged", ("fits", 2, 2))


def test_a_rollout_without_room_for_its_surge_gets_stuck() -> None:
    strict = {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    there = [node("n1", cpu="2"), *running("Deployment", "n1", "n1", strategy=strict)]
    found = gate(there, [workload(image="web:2", strategy=strict)])
    fit = only(found)
    assert (fit.fit, fit.change, fit.placed) == ("does not fit", "rolling update", 0)
    assert "comes to a halt" in (fit.cause or "")
    assert "maxUnavailable 1" in (fit.fix or "")
    assert ("KS501", "Deployment shop/web") in codes(gate([node("n1", cpu="2")], [workload(image="web:2", strategy=strict)]))
    loose = {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
    assert only(gate(there, [workload(image="web:2", strategy=loose)])).fit == "fits"
    assert only(gate(there, [workload(image="web:2", strategy={"type": "Recreate"})])).fit == "fits"


def test_a_rollout_that_another_change_may_help_is_not_proved_to_get_stuck() -> None:
    """Proved is what holds without the pods of all others that change."""
    strict = {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    other = [
        named("other", replicas=1, cpu="2", strategy=strict),
        pod("o", namespace="shop", labels={"app": "other"}, cpu="2", node_name="n1"),
    ]
    there = [node("n1", cpu="3"), *running("Deployment", "n1"), *other]
    loose = {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
    web = workload(replicas=1, image="web:2", strategy=loose)
    fit = gate(there, [web, named("other", replicas=1, cpu="2", image="o:2", strategy=strict)]).check.workloads
    assert {each.workload: each.fit for each in fit} == {"Deployment shop/web": "fits", "Deployment shop/other": "does not fit"}
    wide = [node("n1", cpu="4"), *there[1:]]
    fit = gate(wide, [web, named("other", replicas=1, cpu="2", image="o:2", strategy=strict)]).check.workloads
    assert {each.workload: each.fit for each in fit} == {"Deployment shop/web": "fits", "Deployment shop/other": "unproved"}


def test_rollouts_come_before_what_takes_their_room() -> None:
    """The surge pod needs the place that the newcomer has in the end."""
    there = [node("n1", cpu="3"), *running("Deployment", "n1", "n1")]
    found = gate(there, [workload(image="web:2"), named("late", replicas=1)])
    assert [fit.fit for fit in found.check.workloads] == ["fits", "fits"]


def test_what_is_new_comes_first_where_rollouts_would_take_its_place() -> None:
    """Rolled out first, the web pods of the new template may go to the only node for the newcomer."""
    there = [node("n1", cpu="2"), node("n2", cpu="8"), *running("Deployment", "n2", "n2")]
    found = gate(there, [workload(image="web:2", replicas=2), on(named("bound", replicas=2), "n1")])
    assert [fit.fit for fit in found.check.workloads] == ["fits", "fits"]


def test_a_stateful_set_replaces_its_pods_one_by_one() -> None:
    there = [*TWO, *running("StatefulSet", "n1", "n2", cpu="3")]
    assert only(gate(there, [workload("StatefulSet", cpu="4")])).fit == "fits"
    stuck = only(gate(there, [on(workload("StatefulSet", cpu="2"), "n1")]))
    assert (stuck.fit, stuck.placed) == ("does not fit", 0)
    assert "comes to a halt at pod web-1, 0 of 2 replaced" in (stuck.cause or "")
    assert only(gate(there, [on(workload("StatefulSet", cpu="1"), "n1")])).fit == "fits"


def test_a_daemon_set_is_judged_by_its_end() -> None:
    there = [*TWO, *running("DaemonSet", "n1", "n2", cpu="3")]
    assert fits(gate(there, [workload("DaemonSet", cpu="4")])) == {"DaemonSet shop/web": ("fits", 2, 2)}
    assert only(gate(there, [workload("DaemonSet", cpu="5")])).fit == "does not fit"


def test_what_an_api_server_refuses_does_not_fit_and_hinders_nothing_else() -> None:
    wrong = named("wrong")
    wrong["spec"]["template"]["spec"]["priorityClassName"] = "hihg"
    found = gate(TWO, [wrong, named("right")])
    assert fits(found) == {"Deployment shop/wrong": ("does not fit", 0, 2), "Deployment shop/right": ("fits", 2, 2)}
    assert found.check.workloads[0].cause is not None
    assert found.check.workloads[0].cause.startswith("spec.template.spec.priorityClassName: no PriorityClass 'hihg' in the input")


def test_a_namespace_that_is_nowhere_is_named() -> None:
    space: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}
    note = "namespace shop is in neither the cluster nor the manifests: it has to be made first"
    assert gate([*TWO, space], [workload()]).check.notes == [note]
    made = {**space, "metadata": {"name": "shop"}}
    assert gate([*TWO, space], [workload(), made]).check.notes == gate(TWO, [workload()]).check.notes == []


def test_bare_pods_jobs_and_templates_count() -> None:
    job = workload("Job", completions=3, parallelism=3)
    found = gate(TWO, [pod("p", cpu="2"), job, {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "t"}, "template": {
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}}])  # fmt: skip
    assert fits(found) == {"Job shop/web": ("fits", 3, 3), "PodTemplate default/t": ("fits", 1, 1), "Pod default/p": ("fits", 1, 1)}
    assert only(gate(TWO, [pod("p", cpu="5")])).fit == "does not fit"


def test_pods_behind_gates_need_places_too() -> None:
    gated = workload(replicas=3)
    gated["spec"]["template"]["spec"]["schedulingGates"] = [{"name": "example.com/wait"}]
    assert fits(gate(TWO, [gated])) == {"Deployment shop/web": ("fits", 3, 3)}
    assert only(gate([node("n1", cpu="2")], [gated])).fit == "does not fit"


def test_claims_of_manifests_hold_their_pods_to_where_the_volume_is() -> None:
    claim = {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "shop"},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "volumeName": "disk", "storageClassName": "", "resources": {"requests": {"storage": "1Gi"}},
        },
    }  # fmt: skip
    volume = {
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "disk"},
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "claimRef": {"namespace": "shop", "name": "data"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n2"]}]}]}},
        },
    }  # fmt: skip
    mounting = workload(replicas=1, cpu="3")
    mounting["spec"]["template"]["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    assert only(gate([*TWO, volume], [mounting, claim])).fit == "fits"
    full = only(gate([*TWO, volume, pod("p", cpu="2", node_name="n2")], [mounting, claim]))
    assert full.fit == "does not fit"
    assert "data" in (full.cause or "")


def test_a_search_that_is_stopped_passes_nothing_that_was_not_placed() -> None:
    """The greedy packing fails: without a search it is not known whether another one succeeds."""
    parts = [named(f"w{i}", replicas=1, cpu=cpu) for i, cpu in enumerate(("2", "2", "2", "3", "3"))]
    there = [node("n1", cpu="6"), node("n2", cpu="6")]
    assert {fit.fit for fit in gate(there, parts).check.workloads} == {"fits"}
    stopped = gate(there, parts, stopped=True)
    assert all(fit.fit == "fits" or fit.fit == "unproved" for fit in stopped.check.workloads)
    assert all(fit.placed == fit.replicas for fit in stopped.check.workloads if fit.fit == "fits")


def test_rollouts_that_there_was_no_time_for_are_no_pass() -> None:
    there = [*TWO, *running("Deployment", "n1", "n2")]
    late = only(gate(there, [workload(image="web:2")], stopped=True))
    assert (late.fit, late.change) == ("unproved", "rolling update")
    assert "was not judged to its end" in (late.cause or "")
    stateful = [*TWO, *running("StatefulSet", "n1", "n2")]
    assert only(gate(stateful, [workload("StatefulSet", cpu="2")], stopped=True)).fit == "unproved"


# --- findings -------------------------------------------------------------------------------------------------------------

BUDGET: Object = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "web", "namespace": "shop"},
    "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}},
}


def budget(name: str = "web", **spec: Any) -> Object:
    return {**BUDGET, "metadata": {"name": name, "namespace": "shop"}, "spec": {"selector": BUDGET["spec"]["selector"], **spec}}


def test_an_object_of_the_manifests_replaces_the_clusters() -> None:
    there = [*TWO, *running("Deployment", "n1", "n2"), budget(maxUnavailable=0)]
    assert codes(gate(there, [budget(maxUnavailable=1)])) == []
    assert codes(gate(there, [budget(maxUnavailable="0%")])) == [("KS601", "PodDisruptionBudget shop/web")]
    assert codes(gate(there, [budget(minAvailable=1)])) == [], "maxUnavailable is stated no more"


def test_findings_about_others_are_reported_where_the_change_brings_them() -> None:
    """Of two budgets over the same pods the one in the manifests is at fault; what was wrong before is not reported."""
    there = [
        *TWO,
        *running("Deployment", "n1", "n2"),
        budget(maxUnavailable=1),
        pod("bare", node_name="n1"),
        budget("idle", maxUnavailable=0),
    ]
    there[-1]["spec"]["selector"] = {"matchLabels": {"app": "none"}}
    found = gate(there, [budget("second", maxUnavailable=1)])
    assert codes(found) == [("KS605", "Deployment shop/web")]
    assert found.check.faults[0].position is None


def test_a_change_that_takes_the_room_for_anothers_next_rollout_is_told() -> None:
    strict = {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    there = [node("n1", cpu="2"), node("n2", cpu="2"), *running("Deployment", "n1", "n2", strategy=strict)]
    found = gate(there, [named("late", replicas=2)], chosen=FindingFilters(select=("KS5",)))
    assert only(found).fit == "fits"
    assert ("KS501", "Deployment shop/web") in codes(found)
    assert ("KS501", "Deployment shop/web") not in codes(gate(there, [named("late", replicas=1)], chosen=FindingFilters(select=("KS5",))))


def test_pods_that_are_not_there_yet_are_not_named() -> None:
    found = gate([*TWO, *running("Deployment", "n1", "n2")], [workload(replicas=4), budget(maxUnavailable=0)])
    (fault,) = [fault for fault in found.check.faults if fault.finding.code == "KS601"]
    assert fault.finding.pods == ["shop/web-0", "shop/web-1"]


def test_only_what_the_base_does_not_bring_is_reported() -> None:
    before, after = [workload(), budget(maxUnavailable=0)], [workload(), budget(maxUnavailable=0), budget("b", maxUnavailable=0)]
    found = gate(TWO, after, before)
    assert ("KS601", "PodDisruptionBudget shop/b") in codes(found)
    assert ("KS601", "PodDisruptionBudget shop/web") not in codes(found)
    assert found.check.known > 0
    assert failing(found.check, "warning") == sum(found.check.counts[s] for s in ("error", "warning"))
    shown = gate(TWO, after, before, show_known=True)
    assert [fault.known for fault in shown.check.faults].count(True) == found.check.known
    assert shown.check.counts == found.check.counts


def test_what_did_not_fit_before_is_known() -> None:
    large = [workload(replicas=9)]
    found = gate(TWO, large, large)
    assert (only(found).fit, only(found).known, unfit(found.check)) == ("does not fit", True, [])
    assert [fit.known for fit in gate(TWO, large, [workload(replicas=8)]).check.workloads] == [False]


def test_a_place_in_a_list_that_moves_makes_no_finding_new() -> None:
    bare = named("bare")
    bare["spec"]["template"]["spec"]["containers"][0]["resources"] = {}
    more = named("bare")
    more["spec"]["template"]["spec"]["containers"] = [
        {"name": "first", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}, {"name": "c", "resources": {}}
    ]  # fmt: skip
    assert ("KS801", "Deployment shop/bare") in codes(gate(TWO, [bare]))
    assert ("KS801", "Deployment shop/bare") not in codes(gate(TWO, [more], [bare]))


def test_a_baseline_knows_findings_by_code_and_object() -> None:
    manifests = [workload(), budget(maxUnavailable=0)]
    every = gate(TWO, manifests)
    assert every.all.findings
    known = gate(TWO, manifests, chosen=FindingFilters(baseline=every.all))
    assert (codes(known), known.check.known, known.stale) == ([], len(codes(every)), 0)
    gone = AuditBaseline(findings=(*every.all.findings, KnownFinding("KS601", "PodDisruptionBudget shop/gone")))
    assert gate(TWO, manifests, chosen=FindingFilters(baseline=gone)).stale == 1


def test_codes_can_be_chosen() -> None:
    manifests = [workload(), budget(maxUnavailable=0)]
    assert codes(gate(TWO, manifests, chosen=FindingFilters(select=("KS6",)))) == [("KS601", "PodDisruptionBudget shop/web")]
    assert "KS601" not in {code for code, _ in codes(gate(TWO, manifests, chosen=FindingFilters(ignore=("KS601",))))}


def test_without_a_cluster_what_depends_on_it_is_named() -> None:
    selects_others = named("front", replicas=1)
    selects_others["spec"]["template"]["spec"]["affinity"] = {
        "podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "elsewhere"}}}
            ]
        }
    }
    selects_others["spec"]["template"]["spec"]["priorityClassName"] = "of-the-cluster"
    found = gate(None, [selects_others, budget(maxUnavailable=0), workload()])
    assert {code for code, _ in codes(found)} == {"KS601", "KS801"}
    assert found.check.snapshot is None
    assert found.check.workloads == []
    assert any("--cluster" in text for text in found.check.notChecked)
    assert any("PriorityClasses" in text for text in found.check.notChecked)


@pytest.mark.parametrize("severity", ["error", "warning", "info", "never"])
def test_failing_counts_from_a_severity_on(severity: str) -> None:
    check_ = gate(TWO, [workload(), budget(maxUnavailable=0)]).check
    check_.counts = {"error": 1, "warning": 2, "info": 4}
    assert failing(check_, severity) == {"error": 1, "warning": 3, "info": 7, "never": 0}[severity]


def test_a_finding_that_moves_to_another_container_is_new() -> None:
    """The first container is a different one once another is inserted before it."""

    def lacking(*names: str, first: str = "") -> Object:
        made = named("a", replicas=1)
        pattern = made["spec"]["template"]["spec"]["containers"][0]
        containers = [{**pattern, "name": name, "resources": {} if name in names else pattern["resources"]} for name in ("c", "d")]
        made["spec"]["template"]["spec"]["containers"] = ([{**pattern, "name": first}] if first else []) + containers
        return made

    (fault,) = gate(TWO, [lacking("c")]).check.faults
    moved = gate(TWO, [lacking("d")], [lacking("c")]).check
    assert [each.finding.code for each in moved.faults] == [fault.finding.code]
    shifted = gate(TWO, [lacking("c", first="b")], [lacking("c")]).check
    assert (shifted.faults, shifted.known) == ([], 1)


def test_a_finding_about_the_next_rollout_says_so_where_this_one_completes() -> None:
    there = [*TWO, *running("Deployment", "n1", "n2", cpu="100m")]
    (change,) = [each for each in running("Deployment", "n1", "n2", cpu="100m") if each["kind"] == "Deployment"]
    change["spec"]["strategy"] = {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    change["spec"]["template"]["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
    found = gate(there, [change])
    assert (only(found).change, only(found).fit, only(found).placed) == ("rolling update", "fits", 2)
    (message,) = [fault.finding.message for fault in found.check.faults if fault.finding.code == "KS501"]
    assert message.startswith(
        "the rollout of this change completes; its next rollout, with maxSurge 1, maxUnavailable 0 pods: 0 of 2 new pods placed"
    )
