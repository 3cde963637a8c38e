"""The progress in a journal, at every moment at which the run may have been killed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubestow.live.apply.progress import ApplyProgress, progress_of
from kubestow.models.documents.journal import Answered, Fact, Line, Request, Run, parse
from tests.live.apply.journals import Script, encode, random_run


def stages(script: Script, step: int = 1, pod: str = "a/p") -> list[str]:
    """How far a pod is after each line, every stage once."""
    found: list[str] = []
    progress = ApplyProgress()
    for line in script.lines:
        progress.add(line)
        stage = progress.of(step, pod).stage
        if not found or found[-1] != stage:
            found.append(stage)
    return found


def test_a_move_goes_through_its_stages() -> None:
    script = Script()
    script.fact("wave", wave=3)
    script.evict(1, "a/p")
    script.fact("gone", step=1, pod="a/p")
    script.fact("replacement", step=1, pod="a/p", now="a/q", uid="u2")
    script.bind(1, "a/p", "n2", now="a/q")
    script.fact("done", step=1, pod="a/p")
    assert stages(script) == ["not begun", "evicting", "evicted", "gone", "replaced", "binding", "bound", "done"]
    step = progress_of(script.lines).of(1, "a/p")
    assert (step.wave, step.replacement, step.uid, step.begun) == (3, "a/q", "u2", True)


def test_a_pod_without_a_controller_is_created_again_from_the_manifest_that_the_journal_has() -> None:
    script = Script()
    script.fact("manifest", step=1, pod="a/p", object={"kind": "Pod"})
    script.evict(1, "a/p")
    script.fact("gone", step=1, pod="a/p")
    script.answer(script.ask("POST", "/api/v1/namespaces/a/pods", {"kind": "Pod"}, step=1, pod="a/p"))
    assert stages(script) == ["not begun", "evicting", "evicted", "gone", "creating", "replaced"]
    assert progress_of(script.lines).of(1, "a/p").manifest == {"kind": "Pod"}


@pytest.mark.parametrize("code", [400, 403, 422, 429])
def test_what_is_refused_was_not_done(code: int) -> None:
    script = Script()
    script.evict(1, "a/p", code=code)
    assert progress_of(script.lines).of(1, "a/p").stage == "not begun"


@pytest.mark.parametrize("code", [None, 0, 404, 409, 500, 503, 504])
def test_of_what_has_no_clear_answer_nobody_knows(code: int | None) -> None:
    script = Script()
    script.evict(1, "a/p", code=code)
    assert progress_of(script.lines).of(1, "a/p").stage == "evicting"
    assert len(progress_of(script.lines)._waiting) == (code is None)
    script.evict(1, "a/p", code=429)  # perhaps because the first one was carried out
    assert progress_of(script.lines).of(1, "a/p").stage == "evicting"


def test_pods_that_share_a_step_are_told_apart() -> None:
    script = Script()
    script.bind(1, "a/p", "n1")
    script.bind(1, "a/q", "n1", code=403)
    progress = progress_of(script.lines)
    assert [progress.of(1, pod).stage for pod in ("a/p", "a/q", "a/r")] == ["bound", "not begun", "not begun"]


def test_a_node_is_closed_from_the_request_on_and_until_its_opening_is_confirmed() -> None:
    script = Script()
    script.close("n1", code=None)
    script.close("n2")
    script.open("n2", code=None)
    assert list(progress_of(script.lines).closed) == ["n1", "n2"]
    script.open("n2")
    script.answer(script.ask("PATCH", "/api/v1/nodes/n3", {"spec": {"taints": []}}), 200)
    script.close("n4")
    script.open("n4", code=404)  # the node is gone
    assert list(progress_of(script.lines).closed) == ["n1"]


def test_patches_by_operations_close_and_open_as_well() -> None:
    script, pointer = Script(), "/metadata/annotations/kubestow.dev~1closed-by"
    script.answer(script.ask("PATCH", "/api/v1/nodes/n1", [{"op": "add", "path": pointer, "value": "r1"}]), 200)
    assert list(progress_of(script.lines).closed) == ["n1"]
    script.answer(script.ask("PATCH", "/api/v1/nodes/n1", [{"op": "remove", "path": pointer}]), 200)
    assert not progress_of(script.lines).closed


def test_facts_close_and_open_nodes() -> None:
    script = Script()
    script.fact("closed", nodes=["n1", "n2"])
    script.fact("opened", nodes=["n1"])
    assert list(progress_of(script.lines).closed) == ["n2"]


def test_a_resumed_run_has_not_ended() -> None:
    script = Script()
    script.fact("stopped", message="node n1 is gone")
    script.fact("end")
    progress = progress_of(script.lines)
    assert (progress.ended, progress.message, progress.run) == (True, "node n1 is gone", "r1")
    progress.add(Run("r1", "", "", "", "", resumes=True))
    assert (progress.ended, progress.message) == (False, "")


@given(seed=st.integers(0, 10_000), share=st.floats(0, 1))
def test_no_prefix_claims_what_was_not_answered(seed: int, share: float) -> None:
    lines = random_run(seed)
    check_claims(lines[: int(share * len(lines))])


@given(seed=st.integers(0, 10_000), share=st.floats(0, 1))
def test_a_journal_that_is_cut_anywhere_claims_what_its_whole_lines_do(seed: int, share: float) -> None:
    data = encode(random_run(seed))
    cut = data[: int(share * len(data))]
    record = parse(cut, "j")
    assert cut[: record.size] == encode(record.lines)
    assert record.torn == (record.size < len(cut))
    check_claims(record.lines)


def check_claims(lines: list[Line]) -> None:
    progress = progress_of(lines)
    answers = {line.number: line.code for line in lines if isinstance(line, Answered)}
    requests = [line for line in lines if isinstance(line, Request)]
    facts = {(line.what, line.step) for line in lines if isinstance(line, Fact)}
    assert set(progress._waiting) == {r.number for r in requests} - set(answers)
    for (number, pod), step in progress.steps.items():
        asked = {kind: [r for r in requests if r.step == number and r.path.endswith(kind)] for kind in ("eviction", "binding")}
        assert step.done == (("done", number) in facts)
        if step.stage == "bound":
            assert any(answers.get(r.number) == 201 for r in asked["binding"])
        if step.stage == "evicted":
            assert any(answers.get(r.number) == 201 for r in asked["eviction"])
        if step.stage == "not begun":  # then the cluster has not been changed for certain
            assert all(answers.get(r.number, 0) == 429 for r in asked["eviction"])
        assert pod == f"a/p{number}"
    for node in ("n1", "n2"):
        of = [r for r in requests if r.path.endswith(node)]
        last = of[-1] if of else None
        opened = last is not None and "None" in str(last.body) and answers.get(last.number) == 200
        assert (node in progress.closed) == (last is not None and not opened)
