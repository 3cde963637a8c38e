"""``apply --until-done`` waits for starting pods, checks budgets again, and keeps the files of earlier runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kubestow.commands.apply import round_files, rounds
from kubestow.commands.common.exit_codes import say
from kubestow.models.documents.journal import Run
from kubestow.models.snapshot.snapshot import InputError
from tests.api_server import Behaviour, Server
from tests.commands.test_apply import Cluster, invoke
from tests.live.apply.journals import RUN, Script
from tests.objects import Object

ROUNDS = ("--yes", "--until-done", "--rounds", "4", "--timeout", "60")


def ready(value: str) -> Object:
    return {"status": {"conditions": [{"type": "Ready", "status": value}]}}


class Hearing:
    """Does something once when the rounds say a sentence with these words, so that no test depends on time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, words: str, then: Callable[[], object]) -> None:
        self.words, self.then, self.heard = words, then, False
        monkeypatch.setattr(rounds, "say", self)

    def __call__(self, text: str) -> None:
        say(text)
        if self.words in text and not self.heard:
            self.heard = True
            self.then()


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """A cluster in which the replacement of web-0 does not become Ready without help."""
    first: list[str] = []

    def unready(made: Object) -> bool:
        name = made["metadata"]["name"]
        if not first and name not in {f"web-{i}" for i in range(6)}:
            first.append(name)
        return name in first

    found = Cluster(tmp_path, Behaviour(seed=1, unready=unready))
    with Server(found.world) as server:
        monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig(tmp_path / "kubeconfig")))
        yield found


def make_ready(cluster: Cluster) -> None:
    for each in cluster.world.all("Pod"):
        cluster.world.patch("Pod", f"default/{each['metadata']['name']}", ready("True"), sub="status")


@pytest.mark.full
def test_a_round_is_planned_once_replacements_are_ready(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.planned()
    cluster.world.delete("Pod", "default/web-0", grace=0)  # the plan's own pod: round 1 stops at once
    waits = Hearing(monkeypatch, "round 2: waiting up to 60 s for: ", lambda: make_ready(cluster))
    done = cluster.apply(*ROUNDS)
    assert waits.heard
    assert "round 3" not in done.stderr
    assert cluster.on("n1") == []
    assert not cluster.world.budget_violations()


@pytest.mark.full
def test_a_plan_that_budgets_leave_nothing_to_do_is_searched_again(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The budget's other pod was not Ready before either, so that nobody waits for it."""
    world = cluster.world
    world.patch("PodDisruptionBudget", "default/web", {"spec": {"maxUnavailable": 2}})
    world.delete("Pod", "default/web-5", grace=0)  # its replacement does not become Ready
    cluster.planned()
    world.delete("Pod", "default/web-0", grace=0)
    world.patch("PodDisruptionBudget", "default/web", {"spec": {"maxUnavailable": 1}})
    words = "no eviction is allowed by PodDisruptionBudget default/web; next attempt in 2 s"
    retries = Hearing(monkeypatch, words, lambda: make_ready(cluster))
    done = cluster.apply(*ROUNDS)
    assert retries.heard
    assert "round 3" not in done.stderr
    assert cluster.on("n1") == []


def planned_in_vain(cluster: Cluster) -> None:
    """Plan while a pod is not Ready, so that its budget allows no eviction."""
    cluster.world.delete("Pod", "default/web-5", grace=0)
    cluster.snapshot.write_text(json.dumps(cluster.world.snapshot()))
    invoke("rebalance", cluster.snapshot, "--drain", "n1", "-q", "-o", cluster.plan, code=3)


@pytest.mark.full
def test_a_plan_that_was_made_while_a_budget_was_used_up_is_made_again(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    planned_in_vain(cluster)
    assert json.loads(cluster.plan.read_text())["moves"] == []
    retries = Hearing(monkeypatch, "no eviction is allowed by ", lambda: make_ready(cluster))
    cluster.apply(*ROUNDS)
    assert retries.heard
    assert cluster.on("n1") == []


@pytest.mark.full
def test_a_budget_that_never_allows_anything_is_not_waited_for(cluster: Cluster) -> None:
    cluster.planned()
    cluster.world.delete("Pod", "default/web-0", grace=0)
    make_ready(cluster)
    cluster.world.patch("PodDisruptionBudget", "default/web", {"spec": {"maxUnavailable": 0}})
    done = cluster.apply(*ROUNDS, code=3)
    assert "next try" not in done.stderr
    assert "round 3" not in done.stderr
    assert "not reached: " in done.stderr


@pytest.mark.full
def test_no_budget_is_waited_for_longer_than_the_timeout(cluster: Cluster) -> None:
    planned_in_vain(cluster)
    done = cluster.apply("--yes", "--until-done", "--rounds", "4", "--timeout", "3", code=3)
    assert "next attempt in " in done.stderr
    assert "round 3" not in done.stderr
    assert "PodDisruptionBudget default/web allows no disruption" in done.stderr.splitlines()[-1]


@pytest.mark.full
def test_a_new_plan_beside_a_finished_journal_is_carried_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(tmp_path, Behaviour(seed=1))
    journal = Path(f"{cluster.plan}.journal.jsonl")
    with Server(cluster.world) as server:
        monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig(tmp_path / "kubeconfig")))
        cluster.planned()
        assert "done: 2 of 2" in cluster.apply("--yes").stderr
        first, snapshot, plan = journal.read_bytes(), cluster.snapshot.read_bytes(), cluster.plan.read_bytes()
        cluster.world.patch("Node", "n1", {"spec": {"unschedulable": None}})
        cluster.planned("--drain", "n2")
        done = cluster.apply("--yes").stderr
        assert "done: " in done
        run = json.loads(first.splitlines()[0])["run"]
        kept = tmp_path / f"plan.json.{run}.journal.jsonl"
        assert f"note: the journal of an earlier, finished run is kept as {kept}" in done
        assert kept.read_bytes() == first
        invoke("verify", cluster.snapshot, "--result", cluster.plan, "--journal", journal)
        (tmp_path / "before.json").write_bytes(snapshot)
        old = tmp_path / f"plan.json.{run}"
        old.write_bytes(plan)  # the kept journal is the one of a document of this name
        invoke("verify", tmp_path / "before.json", "--result", old, "--journal", kept)


# --- files of rounds --------------------------------------------------------------------------------------------------


def of_round(folder: Path, script: Script) -> round_files.RoundFiles:
    files = round_files.of(str(folder / "plan.json"), 2)
    Path(files.document).write_text("document")
    Path(files.snapshot).write_text("snapshot")
    Path(f"{files.document}.journal.jsonl").write_bytes(script.text)
    return files


def test_the_files_of_an_earlier_run_are_kept(tmp_path: Path) -> None:
    script = Script()
    script.evict(1, "a/p")
    script.fact("done", step=1, pod="a/p")
    script.fact("end")
    files = of_round(tmp_path, script)
    round_files.check(str(tmp_path / "plan.json"), 5)
    round_files.make_room(files)
    kept = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert kept == {
        "plan.json.round-2.json.r1": b"document",
        "plan.json.round-2.snapshot.json.r1": b"snapshot",
        "plan.json.round-2.json.r1.journal.jsonl": script.text,
    }
    round_files.make_room(files)


def test_a_later_round_that_was_cut_off_is_named_before_anything_is_done(tmp_path: Path) -> None:
    script = Script()
    script.evict(1, "a/p", code=None)
    files = of_round(tmp_path, script)
    expected = "round 2 of an earlier run was cut off; resume it .*round-2.snapshot.json --result .*round-2.json --yes --resume"
    with pytest.raises(InputError, match=expected):
        round_files.check(str(tmp_path / "plan.json"), 5)
    round_files.check(str(tmp_path / "plan.json"), 1)
    assert Path(files.document).read_text() == "document"


def test_a_later_round_that_asked_for_nothing_is_in_nobodys_way(tmp_path: Path) -> None:
    of_round(tmp_path, Script(Run("r1", RUN.time, RUN.result, RUN.snapshot, RUN.server)))
    round_files.check(str(tmp_path / "plan.json"), 5)


def test_the_files_of_a_round_are_called_like_the_first_document() -> None:
    assert round_files.of("p.json", 2).document == "p.json.round-2.json"
    assert round_files.of("p.json.round-2.json", 3) == round_files.RoundFiles(3, "p.json.round-3.json", "p.json.round-3.snapshot.json")


@pytest.mark.slow
def test_the_journals_of_all_rounds_make_room_for_the_next_plan(cluster: Cluster) -> None:
    """Round 1 leaves nodes closed for the next one, which opens them."""
    cluster.planned()
    cluster.world.delete("Pod", "default/web-0", grace=0)
    make_ready(cluster)
    cluster.apply(*ROUNDS)
    cluster.world.patch("Node", "n1", {"spec": {"unschedulable": None}})
    cluster.planned("--drain", "n2")
    second = cluster.apply(*ROUNDS)
    assert "is kept as" in second.stderr
    assert cluster.on("n2") == []
