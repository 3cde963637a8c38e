"""A journal of a run that took gates off as its placement says has no fault; any change to it is found."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubestow.models.documents.answers import Share
from kubestow.models.documents.journal import Fact, Line, Request, parse
from kubestow.models.snapshot.snapshot import InputError
from tests.checker.journal.gated_runs import PLACEMENT, REQUIRED, GatedDriver, body, judged, whole
from tests.checker.journal.test_spoiled import VALUES


def whys(lines: list[Line], end: GatedDriver | None = None) -> list[str]:
    return [violation.why for violation in judged(lines, end).violations]


def test_a_run_that_did_what_the_placement_says_has_no_fault() -> None:
    run = whole()
    found = judged(run.lines, run)
    assert found.violations == []
    told = found.summary
    assert told is not None
    assert (told.bindings, told.left, told.messages) == (Share(4, 4), [], ["done"])
    assert told.end is not None
    assert (told.end.missed, told.end.foreign) == ([], [])


def test_what_was_not_let_go_is_left() -> None:
    run = GatedDriver()
    pod = run.held("db-0", "StatefulSet", "db")
    run.stands(3, pod)
    run.let_go(3, pod)
    run.fact("stopped", message="time is up")
    found = judged(run.lines, run)
    assert found.violations == []
    assert found.summary is not None
    assert [(each.step, each.begun) for each in found.summary.left] == [(1, False), (1, False), (2, False), (3, True)]
    assert found.summary.end is not None
    assert found.summary.end.missed == [
        "Deployment default/web has 0 pods on node n1, the placement has 2",
        "Deployment default/web has 0 pods on node n2, the placement has 1",
        "StatefulSet default/db has 0 pods on node n2, the placement has 1",
    ]
    assert found.summary.end.foreign == []


PATCH, FIRST, BINDING = 2, 5, 6  # the requests for web-5d9-a, db-0, and the first Binding


def term(lines: list[Line]) -> Any:
    return body(lines, PATCH)["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]


def request(lines: list[Line], number: int) -> Request:
    return next(line for line in lines if isinstance(line, Request) and line.number == number)


def fact(lines: list[Line], what: str, at: int = 0) -> Fact:
    return [line for line in lines if isinstance(line, Fact) and line.what == what][at]


def orphan(run: GatedDriver) -> None:
    metadata = run.find("Pod", "web-5d9-a")["metadata"]
    metadata["ownerReferences"], metadata["labels"] = [], {}


def lonely(lines: list[Line]) -> None:
    """The patch of db-0 becomes a Binding."""
    found = request(lines, FIRST)
    found.method, found.path = "POST", f"{found.path}/binding"


def unsent(lines: list[Line]) -> None:
    lines[:] = [line for line in lines if getattr(line, "number", 0) != FIRST]


def claim(lines: list[Line]) -> None:
    found = request(lines, PATCH)
    found.method, found.path = "DELETE", "/api/v1/namespaces/default/persistentvolumeclaims/a"


SPOILT: list[tuple[str, Callable[[list[Line]], Any]]] = [
    ("spec.schedulingGates of default/web-5d9-a is None", lambda ls: body(ls, PATCH)["spec"].update(schedulingGates=None)),
    ("spec.schedulingGates of default/web-5d9-a is left out", lambda ls: body(ls, PATCH)["spec"].pop("schedulingGates")),
    ("nodeSelectorTerms of default/web-5d9-a is", lambda ls: term(ls)[0]["matchFields"][0].update(values=["n2"])),
    ("nodeSelectorTerms of default/web-5d9-a is", lambda ls: term(ls)[0]["matchFields"][0].update(operator="NotIn")),
    ("nodeSelectorTerms of default/web-5d9-a is", lambda ls: term(ls)[0].pop("matchExpressions")),
    ("nodeSelectorTerms of default/web-5d9-a is", lambda ls: term(ls).append({"matchFields": term(ls)[0]["matchFields"]})),
    ("placed-on of default/web-5d9-a is", lambda ls: body(ls, PATCH)["metadata"]["annotations"].update({"kubestow.dev/placed-on": "n2"})),
    ("metadata.annotations.a of default/web-5d9-a is changed", lambda ls: body(ls, PATCH)["metadata"]["annotations"].update(a="b")),
    ("metadata.labels of default/web-5d9-a is changed", lambda ls: body(ls, PATCH)["metadata"].update(labels={"a": "b"})),
    ("spec.tolerations of default/web-5d9-a is changed", lambda ls: body(ls, PATCH)["spec"].update(tolerations=[])),
    ("spec.affinity.podAffinity of default/web-5d9-a is", lambda ls: body(ls, PATCH)["spec"]["affinity"].update(podAffinity=None)),
    ("metadata.uid of default/web-5d9-a is left out", lambda ls: body(ls, PATCH)["metadata"].pop("uid")),
    ("metadata.uid of default/web-5d9-a is 'other'", lambda ls: body(ls, PATCH)["metadata"].update(uid="other")),
    ("metadata.resourceVersion of default/web-5d9-a is left out", lambda ls: body(ls, PATCH)["metadata"].pop("resourceVersion")),
    ("metadata.resourceVersion of default/web-5d9-a is '8'", lambda ls: body(ls, PATCH)["metadata"].update(resourceVersion="8")),
    ("is no merge patch", lambda ls: setattr(request(ls, PATCH), "patch", "strategic")),
    ("default/web-5d9-b is let go, the pod that represents", lambda ls: setattr(request(ls, PATCH), "path", request(ls, 3).path)),
    ("the journal does not say which pod", lambda ls: setattr(request(ls, PATCH), "step", None)),
    ("the journal does not say which pod", lambda ls: setattr(request(ls, PATCH), "step", 9)),
    ("was not behind the gate", lambda ls: [f.object["spec"].update(schedulingGates=[]) for f in ls if isinstance(f, Fact) and f.object]),
    ("does not say that it represents", lambda ls: ls.remove(fact(ls, "replacement", 1))),
    ("in the place of another pod", lambda ls: ls.remove(fact(ls, "gone"))),
    ("and is not named like a pod of Deployment", lambda ls: setattr(fact(ls, "replacement"), "now", "default/other-1")),
    ("is not named like a pod of StatefulSet", lambda ls: setattr(fact(ls, "replacement", 3), "now", "default/db-1")),
    ("without its uid", lambda ls: setattr(fact(ls, "replacement"), "uid", None)),
    ("was let go as", lambda ls: setattr(fact(ls, "replacement", 5), "uid", "uid-web-5d9-a")),
    ("was gone before", lambda ls: setattr(fact(ls, "replacement", 5), "uid", "uid-web-5d9-c")),
    ("its pod was never let go", unsent),
    ("the placement has no such pod", lambda ls: setattr(fact(ls, "done"), "step", 8)),
    ("of the Binding of default/web-5d9-a is 'n2'", lambda ls: body(ls, BINDING)["target"].update(name="n2")),
    ("of the Binding of default/web-5d9-a is left out", lambda ls: body(ls, BINDING)["metadata"].pop("uid")),
    ("before it was let go", lambda ls: ls.insert(6, request(ls, BINDING))),
    ("shares its place in the bind order with no other", lonely),
    ("nothing that takes gates off", lambda ls: setattr(request(ls, PATCH), "path", "/api/v1/nodes/n1")),
    ("nothing that takes gates off", claim),
    ("Pod default/web-5d9-a is deleted, which is none of the manifests", lambda ls: setattr(request(ls, PATCH), "method", "DELETE")),
    ("after the run had ended", lambda ls: ls.insert(3, ls.pop())),
    ("nodes are closed", lambda ls: ls.append(Fact("", "closed", nodes=["n1"]))),
]


@pytest.mark.parametrize(("why", "spoil"), SPOILT)
def test_what_is_changed_is_found(why: str, spoil: Callable[[list[Line]], Any]) -> None:
    lines = copy.deepcopy(whole().lines)
    spoil(lines)
    assert any(why in found for found in whys(lines)), whys(lines)


def test_more_pods_than_planned_are_found_whatever_the_journal_calls_them() -> None:
    run = whole()
    extra = run.held("web-5d9-e")
    run.lines.pop()
    run.stands(0, extra)
    run.let_go(0, extra)
    assert any("more than planned" in why for why in whys(run.lines))


def test_the_next_revision_has_as_many_pods() -> None:
    run = whole()
    run.lines.pop()
    later = run.held("web-6f7-a")
    later["metadata"]["ownerReferences"][0] |= {"name": "web-6f7", "uid": "uid-rs-2"}
    run.stands(0, later)
    run.let_go(0, later)
    assert whys(run.lines) == []


def test_the_end_belies_the_journal() -> None:
    run = whole()
    run.find("Pod", "web-5d9-a")["spec"]["nodeName"] = "n2"
    found = judged(run.lines, run)
    assert [violation.why for violation in found.violations] == [
        "default/web-5d9-a, which replaces it, is on n2 at the end, and the run says that it put it on n1"
    ]
    assert found.summary is not None
    assert found.summary.end is not None
    assert found.summary.end.missed == ["Deployment default/web has 1 pods on node n1, the placement has 2"]
    assert "Deployment default/web has 2 pods on node n2, the placement has 1" in found.summary.end.foreign


@pytest.mark.parametrize(
    ("spoil", "why"),
    [(orphan, "is none of Deployment default/web"), (lambda run: run.held("web-5d9-c"), "is said to be gone, and still exists at the end")],
)
def test_pods_that_are_not_what_the_journal_says_are_found_at_the_end(spoil: Callable[[GatedDriver], Any], why: str) -> None:
    run = whole()
    spoil(run)
    assert any(why in found for found in whys(run.lines, run)), whys(run.lines, run)


def stopped() -> GatedDriver:
    run = GatedDriver()
    pod = run.held("web-5d9-a")
    run.stands(0, pod)
    run.let_go(0, pod)
    return run


def test_what_is_not_whole_is_deleted_only_if_that_was_asked_for() -> None:
    run = stopped()
    run.undo("Deployment", "web")
    assert whys(run.lines) == []
    run = stopped()
    run.undo("Deployment", "web", asked=False)
    assert any("does not say that this was asked for (--undo)" in why for why in whys(run.lines))
    run = stopped()
    run.undo("Deployment", "other")
    assert any("none of the manifests" in why for why in whys(run.lines))
    run = whole()
    run.lines.pop()
    run.undo("Deployment", "web")
    (why,) = whys(run.lines)
    assert why.endswith("Deployment default/web is deleted, and is whole")
    run = stopped()
    run.undo("Deployment", "web")
    options = body(run.lines, 2)
    options["preconditions"]["uid"] = "other"
    assert any("preconditions.uid of the deletion" in why for why in whys(run.lines))


END = whole()
LINES = [json.loads(msgspec.json.encode(line)) for line in END.lines]


@given(st.integers(0, 2**32))
def test_spoiled_journals_are_refused_or_judged(seed: int) -> None:
    chance = random.Random(seed)
    lines: list[Any] = json.loads(json.dumps(LINES))
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(1, len(lines))
        found: Any = lines[at].get(chance.choice(["body", "object"])) or lines[at]
        while True:
            key = chance.choice(list(found) if isinstance(found, dict) else list(range(len(found))))
            if not isinstance(found[key], dict | list) or not found[key] or chance.random() < 0.2:
                break
            found = found[key]
        found[key] = chance.choice(VALUES)
    with suppress(InputError):
        record = parse(b"".join(json.dumps(line).encode() + b"\n" for line in lines), "j")
        told = judged(record.lines, END).summary
        assert told is None or told.bindings.of == len(PLACEMENT.assignments)
