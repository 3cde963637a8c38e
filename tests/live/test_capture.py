"""Queries of capture to kubectl, the use of the answers, and messages about failed queries."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kubestow.checker.placement import verify
from kubestow.live.capture import PAGE_OBJECTS, Captured, CaptureOptions, capture, now
from kubestow.live.capture_kinds import NOT_ASKED, ORDER, is_captured
from kubestow.models.custom_workloads import table
from kubestow.models.kube import kinds
from kubestow.models.kube.feature_gates import DEFAULT
from kubestow.models.snapshot.capture_info import Capture as CaptureInfo
from kubestow.models.snapshot.snapshot import InputError, Snapshot, from_objects, load
from kubestow.solver.runtime.options import Options
from kubestow.solver.solve import place
from tests.live.capture_objects import SECRET, cluster
from tests.live.capture_stand_in import Server, calls, install
from tests.live.test_redact import objects_of, says
from tests.models.custom_workloads.objects import job_set
from tests.objects import node, pod
from tests.terminals import heard

_ROOT = Path(__file__).resolve().parents[2]
_READ = [o for o in cluster() if kinds.find(o["apiVersion"], o["kind"])]
#: Kinds to go without where a test needs few: each costs a call.
_MOST = sorted({*kinds.KINDS, "JobSet"} - {"Pod", "Namespace", "StorageClass", "Node"})

Object = dict[str, Any]
Capture = Callable[..., Captured]


@pytest.fixture
def captured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Capture:
    """Captures a server by the stand-in, found on PATH."""

    def run(server: Server, **options: Any) -> Captured:
        install(tmp_path, server)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
        return capture(CaptureOptions(**{"timeout": 20.0, **options}))

    return run


def items(found: Captured) -> list[Object]:
    document = json.loads(b"".join(found.parts()))
    assert (document["apiVersion"], document["kind"]) == ("v1", "List")
    result: list[Object] = document["items"]
    return result


def names(found: Captured, kind: str) -> list[str]:
    return [o["metadata"]["name"] for o in items(found) if o["kind"] == kind]


def refusal(run: Callable[[], object]) -> str:
    """The one line with which it ends."""
    with pytest.raises(InputError) as caught:
        run()
    assert len(caught.value.problems) == 1
    assert "\n" not in caught.value.problems[0]
    return caught.value.problems[0]


# --- all well -----------------------------------------------------------------------------------------------------------


def test_a_cluster_is_captured_whole_and_reads_as_its_own_dump_does(captured: Capture, tmp_path: Path) -> None:
    found = captured(Server(cluster()))
    assert found.problems == []
    assert found.counts == {kind: sum(o["kind"] == kind for o in _READ) for kind in ORDER}
    path = tmp_path / "cluster.json"
    path.write_bytes(b"".join(found.parts()))
    read = load([str(path)])
    assert read.gates.version == "1.34"  # the nearest to the stand-in's
    read.capture, read.gates = None, DEFAULT
    assert says(read) == says(sorted_like(found, _READ))
    assert SECRET not in path.read_text()


def sorted_like(found: Captured, objects: list[Object]) -> Any:
    """The snapshot of these objects in the order in which they were captured."""
    key = [(o["apiVersion"], o["kind"], o["metadata"].get("namespace"), o["metadata"]["name"]) for o in items(found)]
    place_of = {each: i for i, each in enumerate(key)}
    ordered = sorted(objects, key=lambda o: place_of[o["apiVersion"], o["kind"], o["metadata"].get("namespace"), o["metadata"]["name"]])
    return from_objects(ordered)


def test_custom_workloads_are_captured_where_the_server_has_them(captured: Capture, tmp_path: Path) -> None:
    stored = job_set(("workers", 2, 2), namespace="default", uid="u")
    found = captured(Server([*cluster(), stored]))
    assert (names(found, "JobSet"), found.counts["jobsets.jobset.x-k8s.io"], found.problems) == (["a"], 1, [])
    path = tmp_path / "cluster.json"
    path.write_bytes(b"".join(found.parts()))
    assert [each.spec.replicas for each in load([str(path)]).workloads["JobSet"]] == [4]
    without = captured(Server([*cluster(), stored], lacking=["JobSet"]))
    assert (names(without, "JobSet"), without.problems) == ([], [])
    assert not any("JobSet" in note for note in without.notes)


@pytest.mark.full
def test_the_quickstart_solves_as_it_does_from_its_file(captured: Capture, tmp_path: Path) -> None:
    file = _ROOT / "instances/quickstart.yaml"
    found = captured(Server(objects_of(file)))
    path = tmp_path / "cluster.json"
    path.write_bytes(b"".join(found.parts()))
    snapshot = load([str(path)])
    options = Options(time_limit=20, deterministic=True)
    result, expected = place(snapshot, options), place(load([str(file)]), options)
    assert verify(snapshot, result) == []
    assert (result.status, len(result.assignments)) == ("optimal", 15)
    assert [tier.value for tier in result.objective] == [tier.value for tier in expected.objective]


def test_only_lists_are_asked_for_and_never_secrets(captured: Capture, tmp_path: Path) -> None:
    captured(Server(cluster()))
    first, *rest, context, version = calls(tmp_path)
    assert first == ["api-resources", "--verbs=list", "--no-headers"]
    assert (context, version) == (["config", "current-context"], ["get", "--raw", "/version"])
    assert [each[:2] for each in rest] == [["get", "--raw"]] * len(_asked(rest))
    assert _asked(rest) == [
        "/api/v1/pods",
        "/apis/scheduling.k8s.io/v1alpha2/podgroups",
        "/apis/scheduling.volcano.sh/v1beta1/podgroups",
        "/apis/scheduling.x-k8s.io/v1alpha1/podgroups",
        "/apis/scheduling.k8s.io/v1alpha1/workloads",
        "/apis/autoscaling.x-k8s.io/v1beta1/capacitybuffers",
        "/apis/apps/v1/replicasets",
        "/api/v1/replicationcontrollers",
        "/apis/apps/v1/deployments",
        "/apis/apps/v1/statefulsets",
        "/apis/apps/v1/daemonsets",
        "/apis/batch/v1/jobs",
        "/apis/batch/v1/cronjobs",
        "/api/v1/podtemplates",
        "/api/v1/services",
        "/api/v1/resourcequotas",
        "/api/v1/limitranges",
        "/apis/policy/v1/poddisruptionbudgets",
        "/apis/lifecycle.k8s.io/v1alpha1/evictionrequests",
        "/apis/resource.k8s.io/v1/resourceclaimtemplates",
        "/apis/resource.k8s.io/v1/resourceclaims",
        "/apis/resource.k8s.io/v1/deviceclasses",
        "/api/v1/persistentvolumeclaims",
        "/api/v1/persistentvolumes",
        "/apis/storage.k8s.io/v1/storageclasses",
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        "/apis/node.k8s.io/v1/runtimeclasses",
        "/api/v1/namespaces",
        "/apis/storage.k8s.io/v1/csidrivers",
        "/apis/storage.k8s.io/v1/csinodes",
        "/apis/resource.k8s.io/v1beta2/devicetaintrules",
        "/apis/resource.k8s.io/v1/resourceslices",
        "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies",
        "/apis/config.nri/v1alpha1/balloonspolicies",
        "/apis/config.nri/v1alpha1/topologyawarepolicies",
        "/api/v1/nodes",
        "/apis/batch.volcano.sh/v1alpha1/jobs",
        "/apis/jobset.x-k8s.io/v1alpha2/jobsets",
    ]
    assert set(ORDER) == set(kinds.KINDS) - NOT_ASKED


def test_fields_of_later_versions_that_pods_ask_for_are_named_in_the_file(captured: Capture, tmp_path: Path) -> None:
    waits, runs = pod("waits", tomorrow=1), pod("runs", node_name="n1", tomorrow=1)
    for each in (waits, runs):
        each["metadata"]["uid"] = each["metadata"]["name"]
    found = captured(Server([node("n1"), waits, runs]))
    sentence = "not understood: Pod default/waits: spec.tomorrow: unknown field, ignored"
    assert (found.problems, found.unasked) == ([], [sentence])
    path = tmp_path / "cluster.json"
    path.write_bytes(b"".join(found.parts()))
    assert load([str(path)]).omissions == [f"the snapshot lacks something: {sentence}"]


def _asked(each: list[list[str]]) -> list[str]:
    return [call[-1].partition("?")[0] for call in each]


def test_long_lists_come_in_pages(captured: Capture, tmp_path: Path) -> None:
    count = 2 * PAGE_OBJECTS + 34
    heard: list[tuple[str, int]] = []
    install(tmp_path, Server([node("n1"), *(pod(f"p{i}") for i in range(count))], lacking=_MOST))
    found = capture(CaptureOptions(kubectl=str(tmp_path / "kubectl")), on_kind=lambda name, n: heard.append((name, n)))
    assert names(found, "Pod") == [f"p{i}" for i in range(count)]
    assert heard[:3] == [("pods", PAGE_OBJECTS), ("pods", 2 * PAGE_OBJECTS), ("pods", count)]
    asked = [call[-1] for call in calls(tmp_path) if "/pods" in call[-1]]
    token = "%3D%2B%2F%26"
    assert asked == ["/api/v1/pods?limit=500", *(f"/api/v1/pods?limit=500&continue={n}{token}" for n in (PAGE_OBJECTS, 2 * PAGE_OBJECTS))]


def test_a_list_whose_pages_get_too_old_is_read_in_one_piece(captured: Capture) -> None:
    count = 3 * PAGE_OBJECTS
    found = captured(Server([node("n1"), *(pod(f"p{i}") for i in range(count))], lacking=_MOST, expires=2))
    assert names(found, "Pod") == [f"p{i}" for i in range(count)]
    assert not any("left out" in line for line in found.problems)


def test_whole_objects_are_kept_on_demand(captured: Capture) -> None:
    found = captured(Server(cluster()), redact=False)
    kept = items(found)
    assert len(kept) == len(_READ)
    assert {o["kind"] for o in kept} == set(ORDER)
    assert next(o for o in kept if o["kind"] == "Pod")["spec"]["containers"][0]["env"][0] == {"name": "PASSWORD", "value": SECRET}
    assert not any("managedFields" in o["metadata"] for o in kept)


def test_an_empty_cluster_is_a_snapshot(captured: Capture, tmp_path: Path) -> None:
    found = captured(Server())
    assert (found.counts, found.problems, items(found)) == ({}, [], [])
    (tmp_path / "empty.json").write_bytes(b"".join(found.parts()))
    assert load([str(tmp_path / "empty.json")]).counts() == {}


# --- missing kinds ------------------------------------------------------------------------------------------------------


def test_extensions_that_a_server_lacks_are_noted(captured: Capture) -> None:
    found = captured(Server(cluster(), lacking=["PodGroup", "Workload", "NodeResourceTopology"]))
    assert found.problems == []
    assert found.notes[0] == (
        "not on this server: PodGroup (scheduling.k8s.io), PodGroup (scheduling.sigs.k8s.io), PodGroup (scheduling.volcano.sh), "
        "PodGroup (scheduling.x-k8s.io), Workload (scheduling.k8s.io), NodeResourceTopology (topology.node.k8s.io)"
    )
    assert set(found.counts) == set(ORDER) - {"PodGroup", "Workload", "NodeResourceTopology"}


def test_a_kind_that_every_server_has_is_missed(captured: Capture) -> None:
    found = captured(Server(cluster(), lacking=["PodDisruptionBudget"]))
    assert found.problems == ["PodDisruptionBudget: the server does not list it"]


def test_groups_that_do_not_answer_matter_if_they_are_read(captured: Capture) -> None:
    complaint = "error: unable to retrieve the complete list of server APIs: {}: the server is currently unable to handle the request\n"
    for group, is_problem in (("metrics.k8s.io/v1beta1", False), ("scheduling.x-k8s.io/v1alpha1", True)):
        found = captured(Server(cluster(), lacking=_MOST, faults={"api-resources": {"stderr": complaint.format(group), "exit": 1}}))
        assert any(group in line for line in found.problems) == is_problem
        assert any(group in line for line in found.notes) != is_problem


def test_forbidden_kinds_are_left_out_and_named(captured: Capture) -> None:
    found = captured(Server(cluster(), forbidden=["/api/v1/persistentvolumes", "/apis/policy/v1/poddisruptionbudgets"]))
    assert found.problems == [
        'left out: poddisruptionbudgets.policy: poddisruptionbudgets is forbidden: User "dev" cannot list resource "poddisruptionbudgets"',
        'left out: persistentvolumes: persistentvolumes is forbidden: User "dev" cannot list resource "persistentvolumes"',
    ]
    assert set(found.counts) == set(ORDER) - {"PersistentVolume", "PodDisruptionBudget"}


def test_forbidden_pods_come_with_a_hint(captured: Capture) -> None:
    found = captured(Server(cluster(), lacking=_MOST, forbidden=["/api/v1/pods"]))
    assert [line for line in found.problems if line.endswith(" (kubestow capture -n NAMESPACE reads single namespaces)")] == found.problems[
        -1:
    ]
    assert found.counts["Node"] == 1


@pytest.mark.full
def test_a_list_that_fails_half_way_is_left_out_whole(captured: Capture) -> None:
    spaces = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"n{i}"}} for i in range(2 * PAGE_OBJECTS)]
    path = "/api/v1/namespaces"
    found = captured(Server([node("a"), *spaces], lacking=_MOST, later={path: (500, "InternalError", "etcd is away")}))
    assert found.problems[-1] == "left out: namespaces: etcd is away"
    assert found.counts == {"Node": 1}
    found = captured(Server([node("a"), *spaces], lacking=_MOST))
    assert found.counts == {"Namespace": 2 * PAGE_OBJECTS, "Node": 1}


def test_where_nothing_may_be_read_there_is_nothing_to_write(captured: Capture) -> None:
    paths = ["/api/v1/pods", "/api/v1/nodes"]
    line = refusal(lambda: captured(Server(cluster(), lacking=[*_MOST, "Namespace", "StorageClass"], forbidden=paths)))
    assert line.startswith("nothing may be read: pods: pods is forbidden")


@pytest.mark.parametrize("path", ["/api/v1/pods", "/api/v1/nodes"])
def test_without_pods_or_nodes_for_another_reason_it_ends(captured: Capture, path: str) -> None:
    line = refusal(lambda: captured(Server(cluster(), lacking=_MOST, errors={path: (504, "Timeout", "request did not complete")})))
    assert line == f"{path.rpartition('/')[2]}: request did not complete"


# --- what the file says of itself ---------------------------------------------------------------------------------------


def reread(found: Captured, folder: Path) -> Snapshot:
    path = folder / "cluster.json"
    path.write_bytes(b"".join(found.parts()))
    return load([str(path)])


def test_a_snapshot_says_of_which_cluster_and_time_it_is(captured: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubestow.live.capture.now", lambda: "2026-11-22T10:00:00Z")
    server = Server(cluster(), lacking=_MOST, context="größe/prod", version="v1.36.2+k3s1")
    found = reread(captured(server), tmp_path)
    assert found.capture == CaptureInfo(
        "größe/prod", "2026-11-22T10:00:00Z", "v1.36.2+k3s1", found.capture.left_out if found.capture else ()
    )
    named = captured(server, context="staging")
    assert reread(named, tmp_path).capture == replace(named.info, cluster="staging")
    assert all("--context=staging" in call for call in calls(tmp_path)[-3:])


def test_the_time_is_rfc_3339_in_utc(captured: Capture) -> None:
    before = now()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", before)
    assert before <= captured(Server(cluster(), lacking=_MOST)).info.time <= now()


@pytest.mark.parametrize(
    "server",
    [
        Server(cluster(), lacking=_MOST, context="", forbidden=["/version"]),
        Server(cluster(), lacking=_MOST, context="", errors={"/version": (500, "InternalError", "away")}),
        Server(cluster(), lacking=_MOST, context="", faults={"/version": {"stdout": "<html>"}}),
        Server(cluster(), lacking=_MOST, faults={"/version": {"signal": 9}, "current-context": {"signal": 9}}),
        Server(cluster(), lacking=_MOST, faults={"/version": {"stdout": "[]"}, "current-context": {"stdout": "", "exit": 1}}),
    ],
)
def test_a_cluster_without_a_name_or_version_is_captured_all_the_same(captured: Capture, server: Server) -> None:
    found = captured(server)
    assert (found.counts["Pod"], found.info.cluster, found.info.server_version) == (3, "", "")


def test_what_is_left_out_is_in_the_file_and_read_back(captured: Capture, tmp_path: Path) -> None:
    found = captured(Server(cluster(), forbidden=["/api/v1/persistentvolumes"]), namespaces=("shop",))
    read = reread(found, tmp_path)
    assert read.capture is not None
    told = [line.partition(": ")[0] for line in read.capture.left_out]
    assert told == ["persistentvolumes", "objects in other namespaces than shop"]
    assert [f"the snapshot lacks something: {line}" for line in read.capture.left_out] == read.omissions


# --- single namespaces --------------------------------------------------------------------------------------------------


def test_single_namespaces(captured: Capture, tmp_path: Path) -> None:
    found = captured(Server(cluster(), forbidden=["/api/v1/pods", "/api/v1/namespaces"]), namespaces=("office", "office"))
    assert (names(found, "Pod"), names(found, "Namespace"), names(found, "Node")) == (["alone"], ["office"], ["n1"])
    assert found.problems == []
    line = "objects in other namespaces than office: their pods use capacity, so the nodes look emptier than they are"
    assert (found.unasked, found.info.left_out) == ([line], (line,))
    assert "/api/v1/namespaces/office" in [call[-1] for call in calls(tmp_path)]
    both = captured(Server(cluster(), lacking=_MOST), namespaces=("shop", "office"))
    assert names(both, "Pod") == ["web-1-a", "web-1-b", "alone"]


def test_a_namespace_that_may_not_be_read_is_named(captured: Capture) -> None:
    forbidden = ["/api/v1/namespaces/shop/pods", "/api/v1/namespaces/shop"]
    found = captured(Server(cluster(), lacking=_MOST, forbidden=forbidden), namespaces=("shop", "office"))
    assert [line.partition(": ")[2].partition(": ")[0] for line in found.problems if line.startswith("left out")] == [
        "pods of namespace shop",
        "namespaces of namespace shop",
    ]
    assert names(found, "Pod") == ["alone"]


def test_a_namespace_that_is_not_there_ends_it(captured: Capture) -> None:
    line = refusal(lambda: captured(Server(cluster(), lacking=_MOST), namespaces=("shop", "shpo")))
    assert line == 'namespace shpo does not exist: namespaces "shpo" not found'


@pytest.mark.parametrize("name", ["", "..", "../../secrets", "a/b", "a?b", "Shop", "a,b", "-a", "a" * 64, "a\n"])
def test_names_that_no_namespace_has_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is not a namespace name"):
        CaptureOptions(namespaces=("shop", name))


@pytest.mark.parametrize("timeout", [0, -1, float("inf"), float("nan")])
def test_times_that_are_none_are_refused(timeout: float) -> None:
    with pytest.raises(ValueError, match="is not a positive number of seconds"):
        CaptureOptions(timeout=timeout)


# --- kubectl ------------------------------------------------------------------------------------------------------------


def test_options_are_passed_on_whatever_they_hold(captured: Capture, tmp_path: Path) -> None:
    odd = "--help; $(touch x) 'ü\n"
    captured(Server(cluster(), lacking=_MOST), context=odd, kubeconfig="my config/a,b")
    assert all(call[:2] == ["--kubeconfig=my config/a,b", f"--context={odd}"] for call in calls(tmp_path))
    assert not (tmp_path / "x").exists()


def test_another_kubectl(tmp_path: Path) -> None:
    program = install(tmp_path / "a folder", Server(cluster(), lacking=_MOST), name="oc")
    assert capture(CaptureOptions(kubectl=str(program))).counts["Pod"] == 3


def test_warnings_are_passed_on_once(captured: Capture) -> None:
    found = captured(Server(cluster(), lacking=_MOST, warn="v1 Endpoints is deprecated"))
    assert [line for line in found.notes if "deprecated" in line] == ["kubectl: Warning: v1 Endpoints is deprecated"]
    assert found.counts["Pod"] == 3


def test_kubectl_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert refusal(lambda: capture(CaptureOptions())) == "kubectl: not found; --kubectl says where kubectl is"
    assert refusal(lambda: capture(CaptureOptions(kubectl=str(tmp_path)))) == f"{tmp_path}: cannot be run: Permission denied"
    (tmp_path / "kubectl").write_text("neither a program nor a script")
    (tmp_path / "kubectl").chmod(0o755)
    assert refusal(lambda: capture(CaptureOptions())) == "kubectl: cannot be run: Exec format error"
    assert "cannot be run: embedded null byte" in refusal(lambda: capture(CaptureOptions(context="a\0b")))


_LOGS = 'E1121 22:07:49.150684   31516 memcache.go:265] "Unhandled Error" err="connection refused"\n'
_GONE = "The connection to the server 127.0.0.1:1 was refused - did you specify the right host or port?\n"


@pytest.mark.full
@pytest.mark.parametrize(
    ("where", "fault", "line"),
    [
        ("api-resources", {"stdout": "", "stderr": _LOGS * 3 + _GONE, "exit": 1}, f"kubectl api-resources: {_GONE.strip()}"),
        ("api-resources", {"stdout": "", "stderr": "a\nerror: b\nc\n", "exit": 1}, "kubectl api-resources: b"),
        ("api-resources", {"stdout": "", "exit": 3}, "kubectl api-resources: ended with exit code 3 without a message"),
        ("api-resources", {"stdout": "", "signal": 9}, "kubectl api-resources: killed by signal 9"),
        ("api-resources", {"stdout": "hello\n"}, "kubectl api-resources: expected a table of API resources, got 'hello'"),
        ("api-resources", {"stdout": ""}, "kubectl api-resources: expected a table of API resources, got ''"),
        ("/api/v1/pods", {"stdout": 40, "exit": 1}, "kubectl get --raw /api/v1/pods: ended with exit code 1 without a message"),
        ("/api/v1/pods", {"stdout": 40, "stderr": "unexpected EOF\n", "exit": 1}, "kubectl get --raw /api/v1/pods: unexpected EOF"),
        ("/api/v1/pods", {"stdout": 40}, "kubectl get --raw /api/v1/pods: expected an API list: Input data was truncated"),
        ("/api/v1/pods", {"stdout": ""}, "kubectl get --raw /api/v1/pods: expected an API list: Input data was truncated"),
        ("/api/v1/pods", {"signal": 15}, "kubectl get --raw /api/v1/pods: killed by signal 15"),
        (
            "/api/v1/pods",
            {"stdout": "", "stderr": "error: You must be logged in to the server (Unauthorized)\n", "exit": 1},
            "kubectl get --raw /api/v1/pods: You must be logged in to the server (Unauthorized)",
        ),
        (
            "/api/v1/pods",
            {"stdout": '{"kind": "PodList", "items": [], "metadata": {"continue": "same"}}'},
            "kubectl get --raw /api/v1/pods: the list has no end: two pages have the same continue token",
        ),
    ],
)
def test_failures_are_one_line(captured: Capture, where: str, fault: Object, line: str) -> None:
    assert refusal(lambda: captured(Server(cluster(), faults={where: fault}))) == line


@pytest.mark.full
@pytest.mark.parametrize("fault", [{"sleep": 60, "stdout": ""}, {"sleep": 60}, {"sleep": 60, "stdout": 30}])
def test_silence_is_not_waited_for(captured: Capture, fault: Object) -> None:
    said = {"stderr": "To sign in, enter the code ABC\n"} if fault.get("stdout") == "" else {}
    began = time.monotonic()
    line = refusal(lambda: captured(Server(cluster(), faults={"/api/v1/pods": {**fault, **said}}), timeout=1))
    assert time.monotonic() - began < 20
    words = "; it said: To sign in, enter the code ABC" if said else ""
    assert line == f"kubectl get --raw /api/v1/pods: no answer for 1 s (kubestow capture --timeout waits longer){words}"


@pytest.mark.full
def test_a_slow_answer_is_waited_for(captured: Capture) -> None:
    found = captured(Server(cluster(), lacking=_MOST, faults={"/api/v1/pods": {"pauses": 0.6}}), timeout=4)
    assert found.counts["Pod"] == 3


_DRIVER = """
import sys
from kubestow.live.capture import CaptureOptions, capture
try:
    capture(CaptureOptions(kubectl=sys.argv[1]), on_kind=lambda name, count: print(name, flush=True))
except KeyboardInterrupt:
    sys.exit(130)
"""


def test_an_interrupt_ends_it_and_kubectl_with_it(tmp_path: Path) -> None:
    program = install(tmp_path, Server(cluster(), faults={"/apis/scheduling.k8s.io/v1alpha2/podgroups": {"sleep": 600, "stdout": ""}}))
    program.write_text(program.read_text().replace("exec ", f"echo $$ >> {tmp_path}/pids\nexec "))
    driver = [sys.executable, "-c", _DRIVER, str(program)]
    with subprocess.Popen(driver, stdout=subprocess.PIPE, text=True, cwd=_ROOT, preexec_fn=heard) as process:
        assert process.stdout is not None
        while len(calls(tmp_path)) < 3:
            assert process.poll() is None
            time.sleep(0.02)
        assert process.stdout.readline() == "pods\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
    last = int((tmp_path / "pids").read_text().split()[-1])
    with pytest.raises(ProcessLookupError):
        os.kill(last, 0)


# --- what the page says -------------------------------------------------------------------------------------------------


def test_the_role_allows_what_is_asked_for_and_nothing_else() -> None:
    import yaml

    from tests.live.capture_stand_in import TABLE

    role = yaml.safe_load((_ROOT / "docs/capture-role.yaml").read_text())
    assert (role["apiVersion"], role["kind"]) == ("rbac.authorization.k8s.io/v1", "ClusterRole")
    assert [rule["verbs"] for rule in role["rules"]] == [["list"]] * len(role["rules"])
    allowed = {(group, each) for rule in role["rules"] for group in rule["apiGroups"] for each in rule["resources"]}
    read = {(row[2].rpartition("/")[0], row[0]) for row in TABLE if kinds.find(row[2], row[4]) is not None}
    read |= {(entry.group, f"{entry.kind.lower()}s") for entry in table.entries() if is_captured(entry)}
    assert allowed - {("scheduling.sigs.k8s.io", "podgroups")} == {(g, n) for g, n in read if g != "extensions"}
