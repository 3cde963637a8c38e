"""A journal of a run that did what its plan says has no fault; any change to it is found."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from kubestow.checker.journal.judge import Judgement, judge_journal
from kubestow.checker.journal.replay import JOURNAL
from kubestow.models.documents.answers import ClusterEnd, Outstanding, Share
from kubestow.models.documents.journal import Answered, Fact, Line, Record, Request, Run
from kubestow.models.kube.closed_nodes import CLOSED_BY, LET_IN
from kubestow.models.snapshot.snapshot import from_objects
from tests.checker.journal.runs import DIGEST, Driver, a_placement, a_plan, cluster, first_wave, second_wave, whole

SNAPSHOT, PLAN = a_plan()


def judged(lines: list[Line], end: Driver | None = None) -> Judgement:
    return judge_journal(Record(lines, 0, torn=False), PLAN, SNAPSHOT, digest=DIGEST, end=None if end is None else end.end)


def test_a_run_that_did_what_the_plan_says_has_no_fault() -> None:
    run = whole(PLAN)
    found = judged(run.lines, run)
    assert found.violations == []
    told = found.summary
    assert told is not None
    assert (told.moves, told.evictions, told.bindings) == (Share(4, 4), Share(1, 1), Share(1, 1))
    assert [(wave.wave, wave.pods, wave.done) for wave in told.waves] == [(1, 3, 3), (2, 3, 3)]
    assert all(wave.seconds is not None and wave.seconds > 0 for wave in told.waves)
    assert (told.left, told.leftClosed, told.nodesClosed) == ([], [], 4)
    assert (told.requests.evictions, told.requests.bindings, told.requests.refused, told.requests.unanswered) == (5, 4, 0, 0)
    assert told.messages == ["done"]
    assert told.ended is not None
    assert told.end is not None
    assert (told.end.missed, told.end.foreign) == ([], [])


def test_a_run_that_was_cut_off_says_what_is_left() -> None:
    run = first_wave(PLAN)
    run.fact("wave", wave=2)
    run.ask("POST", "/api/v1/namespaces/default/pods/new-0/binding", BINDING, code=409, step=5, pod="default/new-0")
    found = judged(run.lines)
    assert {violation.why.partition(": ")[2].partition(";")[0] for violation in found.violations} == {
        "the node was closed and never opened again"
    }
    told = found.summary
    assert told is not None
    assert told.left == [
        Outstanding(4, 2, "default/solo", "n2"),
        Outstanding(5, 2, "default/new-0", "n2", why="HTTP 409"),
        Outstanding(6, 2, "default/web-1", "n4"),
    ]
    assert (told.ended, told.leftClosed) == (None, ["n1", "n2", "n3", "n4"])


def test_a_resumed_run_is_one_run_and_its_pause_does_not_count() -> None:
    run, again = first_wave(PLAN), Run("r1", "2026-11-22T15:00:00Z", DIGEST, SNAPSHOT.sha256, "", "cluster-uid", resumes=True)
    at = next(i for i, line in enumerate(run.lines) if isinstance(line, Fact) and line.what == "done") + 1
    pause: list[Line] = [again, Fact("2026-11-22T15:00:01Z", "wave", wave=1)]
    later = [shifted(line) for line in run.lines[at:]]
    told = judged([*run.lines[:at], *pause, *later]).summary
    assert told is not None
    assert told.resumed == 1
    assert told.waves[0].seconds is not None
    assert told.waves[0].seconds < 100


def shifted(line: Line) -> Line:
    found = copy.deepcopy(line)
    found.time = found.time.replace("T13:00", "T15:00")
    return found


BINDING: dict[str, Any] = {"metadata": {"name": "new-0", "uid": "uid-new-0"}, "target": {"kind": "Node", "name": "n2"}}


# --- mutations ----------------------------------------------------------------------------------------------------------


Change = Callable[[list[Line]], None]


def request(lines: list[Line], ending: str, step: int | None = None) -> Request:
    return next(r for r in lines if isinstance(r, Request) and r.path.endswith(ending) and step in (None, r.step))


def put(ending: str, step: int, *path: str, value: Any) -> Change:
    """A change of a field of the body, None: it is missing."""

    def change(lines: list[Line]) -> None:
        found: Any = request(lines, ending, step).body
        for part in path[:-1]:
            found = found[part]
        if value is None:
            del found[path[-1]]
        else:
            found[path[-1]] = value

    return change


def path_of(ending: str, step: int, path: str) -> Change:
    def change(lines: list[Line]) -> None:
        request(lines, ending, step).path = path

    return change


def of_node(name: str, which: int, body: Any) -> Change:
    """Another body for the request of a node with this index."""

    def change(lines: list[Line]) -> None:
        [r for r in lines if isinstance(r, Request) and r.path == f"/api/v1/nodes/{name}"][which].body = body

    return change


def fact(what: str, step: int, /, **fields: Any) -> Change:
    def change(lines: list[Line]) -> None:
        found = next(f for f in lines if isinstance(f, Fact) and f.what == what and f.step == step)
        for name, value in fields.items():
            setattr(found, name, value)

    return change


def without_fact(what: str, step: int) -> Change:
    def change(lines: list[Line]) -> None:
        lines.remove(next(f for f in lines if isinstance(f, Fact) and f.what == what and f.step == step))

    return change


def without_request(ending: str, step: int) -> Change:
    """The request never was, nor its answer; numbers keep their gap."""

    def change(lines: list[Line]) -> None:
        found = request(lines, ending, step)
        lines[:] = [line for line in lines if not (isinstance(line, Request | Answered) and line.number == found.number)]

    return change


def refused(ending: str, step: int) -> Change:
    def change(lines: list[Line]) -> None:
        number = request(lines, ending, step).number
        next(a for a in lines if isinstance(a, Answered) and a.number == number).code = 403

    return change


def added(method: str, path: str, body: Any = None, *, at: int = -2, **about: Any) -> Change:
    def change(lines: list[Line]) -> None:
        lines.insert(at, Request(999, "2026-11-22T13:00:00Z", method, path, body=body, **about))

    return change


def moved(what: str, step: int, before: int) -> Change:
    """The request for a step comes before the first request of another."""

    def change(lines: list[Line]) -> None:
        found = request(lines, what, step)
        parts = [line for line in lines if isinstance(line, Request | Answered) and line.number == found.number]
        rest = [line for line in lines if line not in parts]
        at = next(i for i, line in enumerate(rest) if isinstance(line, Request) and line.step == before)
        lines[:] = [*rest[:at], *parts, *rest[at:]]

    return change


def marked(name: str | None = "r1 x", *, cordoned: bool | None = True, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"annotations": {CLOSED_BY: name}}, "spec": {"unschedulable": cordoned, **spec}}


A, OLD, NEW = list[dict[str, Any]]({"step": step, "pod": f"default/{name}"} for step, name in ((1, "web-0"), (3, "old-0"), (5, "new-0")))
PODS = "/api/v1/namespaces/default/pods"
EVICT = {"metadata": {"name": "rest-0"}, "deleteOptions": {"preconditions": {"uid": "uid-rest-0"}}}
GUEST = {"key": LET_IN, "value": "uid-new-0", "effect": "NoSchedule"}
MUTATIONS: list[tuple[str, Change, str]] = [
    ("an eviction of a foreign pod", added("POST", f"{PODS}/rest-0/eviction", EVICT), "an eviction of default/rest-0 that no step asks"),
    ("a step that is not", added("POST", f"{PODS}/rest-0/eviction", EVICT, step=9, pod="default/rest-0"), "that no step asks for"),
    ("another pod than the step's", path_of("/eviction", 1, f"{PODS}/rest-0/eviction"), "the pod of step 1 is default/web-0"),
    ("an eviction without uid", put("/eviction", 1, "deleteOptions", value=None), "without its uid"),
    ("an eviction with another uid", put("/eviction", 1, "deleteOptions", "preconditions", "uid", value="u"), "with uid u, that of step 1"),
    ("the replacement is evicted", added("POST", f"{PODS}/web-a/eviction", EVICT, **A), "an eviction of default/web-a"),
    ("the old pod of a stopover", path_of("/eviction", 6, f"{PODS}/web-1/eviction"), "the pod of step 6 is default/web-b"),
    ("an eviction of a pending pod", added("POST", f"{PODS}/new-0/eviction", EVICT, **NEW), "binds a pending pod"),
    ("a deletion", added("DELETE", f"{PODS}/web-0", **A), "no request that applies a document"),
    ("a Binding to another node", put("/binding", 1, "target", "name", value="n4"), "a Binding to n4, step 1 asks for n3"),
    ("a Binding without uid", put("/binding", 1, "metadata", "uid", value=None), "without its uid"),
    ("a Binding with the old uid", put("/binding", 1, "metadata", "uid", value="uid-web-0"), "has uid-web-a"),
    ("a Binding of a foreign pod", path_of("/binding", 1, f"{PODS}/rest-0/binding"), "the pod that represents default/web-0 is"),
    ("a Binding of what goes for good", added("POST", f"{PODS}/old-0/binding", BINDING, **OLD), "evicts the pod for good"),
    ("a Binding before the eviction", moved("/binding", 1, 1), "before step 1 has evicted"),
    ("wave 2 before wave 1", moved("/eviction", 4, 1), "step 4 of wave 2 before step 1 of wave 1 is done"),
    ("a step of wave 1 is not done", without_fact("done", 3), "of wave 2 before step 3 of wave 1 is done"),
    ("done without an eviction", without_request("/eviction", 3), "its pod was never evicted"),
    ("done though it was refused", refused("/eviction", 3), "its pod was never evicted"),
    ("done without a replacement", without_fact("replacement", 1), "nothing has replaced its pod"),
    ("a replacement that was there", fact("replacement", 1, uid="uid-rest-0"), "was there before"),
    ("a replacement twice", fact("replacement", 2, uid="uid-web-a"), "replaces that of step 1 already"),
    ("a replacement of what goes", fact("replacement", 1, **OLD), "does not move one"),
    ("done of a step that is not", fact("done", 6, step=7), "there is no such step"),
    ("a pod is created that has a controller", added("POST", PODS, {"metadata": {"name": "web-0"}}, **A), "controller"),
    ("a bare pod of another name", put("/pods", 4, "metadata", "name", value="duo"), "pod default/duo is created"),
    ("a bare pod on a node", put("/pods", 4, "spec", "nodeName", value="n3"), "created on n3, past all checks"),
    ("a bare pod is created too early", moved("/pods", 4, 4), "created before it was evicted"),
    ("a node is cordoned without a mark", of_node("n2", 0, {"spec": {"unschedulable": True}}), "without a mark of whose it is"),
    ("a node is marked for another run", of_node("n2", 0, marked("r2 x")), "the run is r1"),
    ("a node is marked and open", of_node("n2", 0, marked(cordoned=None)), "marked as closed and not cordoned"),
    ("a node stays cordoned", of_node("n2", -1, marked(None)), "stays cordoned without a mark"),
    ("a node is opened for all", of_node("n2", 1, {"spec": {"unschedulable": None, "taints": []}}), "while the run needs it closed"),
    ("a node is opened for a foreign pod", of_node("n2", 1, {"spec": {"taints": [{**GUEST, "value": "u"}]}}), "no step puts there"),
    ("a node is opened for more than one", of_node("n2", 1, {"spec": {"taints": [{**GUEST, "effect": "Prefer"}]}}), "keeps no other"),
    ("a node loses its labels", of_node("n2", 0, {**marked(), "status": {}}), "status of the node is changed"),
    ("a pod is changed otherwise", put("/new-0", 5, "spec", "priority", value=1), "spec.priority of the pod is changed"),
    ("a foreign pod is changed", path_of("/new-0", 5, f"{PODS}/rest-0"), "no step is about it"),
    ("something else", added("PUT", "/api/v1/namespaces/default/secrets/s", {}), "no request that applies a document"),
    ("an eviction after the end", added("POST", f"{PODS}/web-0/eviction", EVICT, at=999, **A), "had ended"),
    ("another document", lambda lines: setattr(lines[0], "result", "f" * 64), "the journal is of another document"),
    ("another snapshot", lambda lines: setattr(lines[0], "snapshot", "f" * 64), "the journal is of another snapshot"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "why"), [pytest.param(c, w, id=name) for name, c, w in MUTATIONS])
def test_what_contradicts_the_plan_is_found(change: Change, why: str) -> None:
    lines = copy.deepcopy(whole(PLAN).lines)
    change(lines)
    found = judged(lines).violations
    assert any(why in violation.why for violation in found), [violation.why for violation in found]
    assert {violation.rule for violation in found} == {JOURNAL}


def test_a_node_that_is_never_opened_is_found() -> None:
    lines = whole(PLAN).lines
    last = [r for r in lines if isinstance(r, Request) and r.path.endswith("/n4")][-1]
    next(a for a in lines if isinstance(a, Answered) and a.number == last.number).code = 403
    (found,) = judged(lines).violations
    assert (found.node, found.why.partition(": ")[2]) == (
        "n4",
        "the node was closed and never opened again; kubestow apply --open opens it",
    )


def test_lines_that_only_read_or_try_are_no_fault() -> None:
    lines = whole(PLAN).lines
    lines.insert(-2, Request(998, "", "POST", f"{PODS}/rest-0/eviction", params={"dryRun": "All"}, body=EVICT))
    lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
    lines.insert(1, Request(999, "", "POST", lease, body={}))
    lines.insert(2, Request(1000, "", "PUT", f"{lease}/kubestow-apply", body={}))
    assert judged(lines).violations == []


# --- the end ------------------------------------------------------------------------------------------------------------


def test_a_pod_that_is_elsewhere_at_the_end_is_found() -> None:
    run = whole(PLAN)
    run.find("Pod", "web-a")["spec"]["nodeName"] = "n4"
    found = judged(run.lines, run)
    assert [violation.why for violation in found.violations] == [
        "default/web-a, which replaces it, is on n4 at the end, and the run says that it put it on n3"
    ]
    assert "Pod default/web-a, which replaces default/web-0, is on node n4, it should be on node n3" in end_of(found).missed


def end_of(found: Judgement) -> ClusterEnd:
    assert found.summary is not None
    assert found.summary.end is not None
    return found.summary.end


def test_a_pod_that_is_said_to_be_evicted_and_is_there_is_found() -> None:
    run = whole(PLAN)
    run.objects.append(Driver(PLAN, cluster()).find("Pod", "old-0"))
    why = "the pod is said to be evicted, and still exists at the end"
    assert [violation.why for violation in judged(run.lines, run).violations] == [why]


def test_a_node_with_the_mark_of_the_run_is_found_and_one_that_apply_opened_is_not() -> None:
    run = first_wave(PLAN)
    second_wave(run)
    found = judged(run.lines, run)
    assert {v.node for v in found.violations} == {"n1", "n2", "n3", "n4"}
    lines = list(run.lines)
    run.open("n1", "n2", "n3", "n4")  # by apply --open, which this journal does not tell
    found = judged(lines, run)
    assert found.violations == []
    assert found.summary is not None
    assert found.summary.leftClosed == []


def test_what_others_did_is_told_and_no_fault() -> None:
    run = whole(PLAN)
    run.objects.remove(run.find("Pod", "rest-0"))
    run.objects.remove(run.find("Pod", "web-a"))
    run.find("Node", "n2")["metadata"]["annotations"] = {CLOSED_BY: "r2 2026-11-23T00:00:00Z"}
    found = judged(run.lines, run)
    assert found.violations == []
    assert "Pod default/web-a, which replaces default/web-0, is gone, it should be on node n3" in end_of(found).missed
    assert "Pod default/rest-0, which was on node n4, has gone" in end_of(found).foreign


def test_the_end_tells_what_is_left_of_the_plan() -> None:
    run = first_wave(PLAN)
    run.open("n1", "n2", "n3", "n4")
    found = judged(run.lines, run)
    assert found.violations == []
    assert "Pod default/new-0 is without a node, it should be on node n2" in end_of(found).missed


# --- placements ---------------------------------------------------------------------------------------------------------


def placed(*order: int, let_in: int = 0) -> Judgement:
    snapshot, placement = a_placement()
    things = [msgspec.to_builtins(thing) for thing in (*snapshot.nodes, *snapshot.pods)]
    run = Driver(placement, [thing | {"kind": "Node" if i < 2 else "Pod"} for i, thing in enumerate(things)])
    run.fact("wave", wave=1)
    for number in order:
        entry = placement.assignments[number - 1]
        put = run.let_in if number == let_in else run.bind
        put(entry.order, entry.pod, entry.pod.partition("/")[2], entry.node)
    if let_in:
        run.lines = [line for line in run.lines if not (isinstance(line, Fact) and line.step == let_in)]  # it takes until the end
        run.fact("done", step=let_in, pod=placement.assignments[let_in - 1].pod)
        run.open(placement.assignments[let_in - 1].node)
    run.fact("end")
    return judge_journal(run.record, placement, snapshot, digest=DIGEST, end=from_objects(run.objects))


def test_a_placement_binds_in_order_as_far_as_rules_ask_for_it() -> None:
    for found in (placed(1, 2, 3), placed(3, 1, 2), placed(1, 3, 2), placed(1, 2, 3, let_in=1)):
        assert found.violations == []
        assert found.summary is not None
        assert found.summary.bindings == Share(3, 3)
        assert end_of(found) == ClusterEnd([], [])
    assert [violation.why.partition(": ")[2] for violation in placed(2, 1, 3).violations] == [
        "default/x-1 counts other pods and is bound before default/x-0, which comes first"
    ]


def test_whenever_a_good_run_is_cut_off_only_closed_nodes_are_a_fault() -> None:
    lines = whole(PLAN).lines
    done = 0
    for length in range(1, len(lines) + 1):
        found = judged(lines[:length])
        assert all("closed and never opened" in violation.why for violation in found.violations), length
        assert found.summary is not None
        told = found.summary.moves.done + found.summary.evictions.done + found.summary.bindings.done
        assert done <= told == 6 - len(found.summary.left)
        done = told
    assert done == 6
