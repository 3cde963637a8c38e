"""``--execution-grace`` and ``--since``: rules that hold during execution, over time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from kubestow import cli
from kubestow.commands.batch import run as batch_run
from tests.commands.batch.conftest import Inline
from tests.histories import captured, written
from tests.objects import Object, node, pod
from tests.solver.rebalance.problem.test_problem import HOST, near

A = pod("a", node_name="n0", owner="ReplicaSet/a", affinity=near("b", HOST, "Required"))
B = pod("b", node_name="n1", labels={"app": "b"})
GONE = pod("c", node_name="n0", labels={"app": "b"})
NODES = [node("n0"), node("n1")]
BROKEN: list[Object] = [*NODES, A, B]
FINE: list[Object] = [*BROKEN, GONE]


def run(*args: str | Path) -> Result:
    result = CliRunner().invoke(cli.main, [str(arg) for arg in args])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def audited(*args: str | Path) -> tuple[list[str], list[str]]:
    document = json.loads(run("audit", *args, "-f", "json", "--select", "KS12").stdout)
    return [finding["code"] for finding in document["findings"]], document["notes"]


def planned(*args: str | Path) -> Any:
    result = run("rebalance", *args, "--goal", "repair", "-f", "json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


@pytest.mark.full
def test_audit_and_rebalance_wait_for_the_grace(tmp_path: Path) -> None:
    now, fine, old = written(tmp_path, BROKEN), written(tmp_path, FINE, 60), written(tmp_path, FINE, 600)
    assert audited(now)[0] == ["KS122"]
    assert len(planned(now)["moves"]) == 1
    waiting = ("--execution-grace", "300", "--since", fine)
    codes, notes = audited(now, *waiting)
    assert (codes, len(notes)) == ([], 1)
    plan = planned(now, *waiting)
    assert (plan["moves"], plan["obstacles"]) == ([], [])
    assert plan["executionGrace"]["forgiven"] == [{"pod": "default/a", "rule": "InterPodAffinity"}]
    over = ("--execution-grace", "300", "--since", old, "--since", written(tmp_path, BROKEN, 299))
    assert audited(now, *over) == (["KS122"], [])
    assert len(planned(now, *over)["moves"]) == 1


def test_the_policy_has_the_default_and_a_pod_its_own(tmp_path: Path) -> None:
    now, fine = written(tmp_path, BROKEN), written(tmp_path, FINE, 60)
    policy = tmp_path / "policy.yaml"
    policy.write_text(yaml.safe_dump({"executionGraceSeconds": 300}), encoding="utf-8")
    assert audited(now, "--since", fine)[0] == ["KS122"]
    assert audited(now, "--since", fine, "--policy", policy)[0] == []
    assert audited(now, "--since", fine, "--policy", policy, "--execution-grace", "0")[0] == ["KS122"]
    own = json.loads(json.dumps(BROKEN))
    own[2]["metadata"]["annotations"] = {"kubestow.dev/execution-grace-seconds": "60"}
    stated = written(tmp_path, own, cluster="own")
    before = written(tmp_path, FINE, 60, cluster="own")
    assert audited(stated, "--since", before)[0] == []
    own[2]["metadata"]["annotations"] = {"kubestow.dev/execution-grace-seconds": "59"}
    assert audited(written(tmp_path, own, cluster="own"), "--since", before, "--execution-grace", "300")[0] == ["KS122"]


def test_a_grace_that_cannot_be_read_is_a_finding_and_a_warning(tmp_path: Path) -> None:
    odd = json.loads(json.dumps(BROKEN))
    odd[2]["metadata"]["annotations"] = {"kubestow.dev/execution-grace-seconds": "5m"}
    path = written(tmp_path, odd)
    (finding,) = json.loads(run("audit", path, "-f", "json", "--select", "KS708").stdout)["findings"]
    assert finding["message"] == (
        "metadata.annotations[kubestow.dev/execution-grace-seconds]: got '5m', expected whole seconds from 0 to 1000000000"
    )
    result = run("rebalance", path, "--goal", "repair", "-f", "json")
    assert "warning: Pod default/a: metadata.annotations[kubestow.dev/execution-grace-seconds]: got '5m'" in result.stderr
    assert any("got '5m'" in note for note in json.loads(result.stdout)["notes"])


def test_verify_judges_what_is_forgiven_by_the_earlier_snapshots(tmp_path: Path) -> None:
    now, fine, other = written(tmp_path, BROKEN), written(tmp_path, FINE, 60), written(tmp_path, BROKEN, 100)
    plan = tmp_path / "plan.json"
    run("rebalance", now, "--goal", "repair", "--execution-grace", "300", "--since", fine, "-o", plan, "-f", "json")
    alone = run("verify", now, "--result", plan, "-f", "json")
    assert alone.exit_code == 0, alone.stdout
    assert any("(--since)" in text for text in json.loads(alone.stdout)["notChecked"])
    full = run("verify", now, "--result", plan, "--since", fine, "-f", "json")
    assert full.exit_code == 0, full.stdout
    assert not any("(--since)" in text for text in json.loads(full.stdout)["notChecked"])
    assert run("verify", now, "--result", plan, "--since", other, "-f", "json").exit_code == 4
    assert "rules that hold during execution have a grace of 300 s, and 1 that are broken do not count" in full.stderr
    document = json.loads(plan.read_text(encoding="utf-8"))
    document["executionGrace"]["forgiven"] = []
    plan.write_text(json.dumps(document), encoding="utf-8")
    assert run("verify", now, "--result", plan, "--since", fine).exit_code == 4


@pytest.mark.parametrize("command", [("audit",), ("rebalance", "--goal", "repair")])
def test_snapshots_that_cannot_be_ordered_are_one_line(command: tuple[str, ...], tmp_path: Path) -> None:
    now, later = written(tmp_path, BROKEN), written(tmp_path, FINE, -1)
    timeless, foreign = written(tmp_path, FINE, None), written(tmp_path, FINE, 60, cluster="other")
    name, *options = command
    for args, why in (
        ((now, "--since", timeless), f"{timeless}: does not say when it was captured (kubestow capture writes it), expected for --since"),
        ((timeless, "--since", now), f"{timeless}: does not say when it was captured (kubestow capture writes it), expected for --since"),
        ((now, "--since", foreign), f"{foreign}: is of cluster other, expected lab, that of {now}"),
    ):
        result = run(name, *args, *options, "-f", "json")
        assert (result.exit_code, result.stdout, result.stderr) == (1, "", f"kubestow: {why}\n")
    result = run(name, now, "--since", later, *options)
    assert result.exit_code == 1
    assert result.stderr.startswith(f"kubestow: {later}: is of 2026-11-27T10:00:01+00:00, expected no later than ")


def test_since_is_for_plans_alone_where_results_are_verified(tmp_path: Path) -> None:
    now = written(tmp_path, BROKEN)
    placement = tmp_path / "placement.json"
    run("solve", now, "-o", placement, "-f", "json")
    result = run("verify", now, "--result", placement, "--since", now)
    assert result.exit_code == 2
    assert "--since requires a RebalancePlan, not a Placement" in result.stderr


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ``batch`` do its tasks in this process."""
    monkeypatch.setattr(batch_run, "_workers", lambda *_: Inline())


@pytest.mark.usefixtures("in_process")
@pytest.mark.full
def test_batch_series_takes_the_earlier_snapshots_of_each_cluster(tmp_path: Path) -> None:
    files = [
        written(tmp_path, FINE, 600),
        written(tmp_path, FINE, 400),
        written(tmp_path, BROKEN, 200),
        written(tmp_path, BROKEN, 0),
        written(tmp_path, BROKEN, 200, cluster="other"),
    ]
    for options, codes in (
        (("--execution-grace", "300"), [[], [], [], ["KS122"], ["KS122"]]),
        (("--execution-grace", "100"), [[], [], ["KS122"], ["KS122"], ["KS122"]]),
        ((), [[], [], ["KS122"], ["KS122"], ["KS122"]]),
        (("--execution-grace", "300", "--since", written(tmp_path, FINE, 300, cluster="other")), [[], [], [], ["KS122"], []]),
    ):
        folder = tmp_path / f"out{len(options)}{options[1] if options else ''}"
        assert run("batch", "-o", folder, "--series", "-q", "audit", "--select", "KS12", *options, *files).exit_code == 0
        summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
        found = []
        for row in summary["rows"]:
            document = json.loads((folder / row["result"]).read_text(encoding="utf-8"))
            found.append([finding["code"] for finding in document["findings"]])
        assert found == codes, options
        assert [len(series["points"]) for series in summary["series"]] == [4, 1]


@pytest.mark.usefixtures("in_process")
@pytest.mark.full
def test_batch_series_reads_the_grace_of_policies_and_pods(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("executionGraceSeconds: 300\n", encoding="utf-8")
    own = json.loads(json.dumps(BROKEN))
    own[2]["metadata"]["annotations"] = {"kubestow.dev/execution-grace-seconds": "300"}
    yaml_file = tmp_path / "own.yaml"
    yaml_file.write_text(yaml.safe_dump(captured(own, 0, "yaml")), encoding="utf-8")
    files = [
        written(tmp_path, FINE, 200), written(tmp_path, BROKEN, 0), written(tmp_path, FINE, 200, cluster="own"),
        written(tmp_path, own, 0, cluster="own"), written(tmp_path, FINE, 200, cluster="yaml"), str(yaml_file),
    ]  # fmt: skip
    for options, codes in (
        (("--policy", str(policy)), [[]] * 6),
        ((), [[], ["KS122"], [], [], [], []]),
    ):
        folder = tmp_path / f"out{len(options)}"
        assert run("batch", "-o", folder, "--series", "-q", "audit", "--select", "KS12", *options, *files).exit_code == 0
        rows = json.loads((folder / "summary.json").read_text(encoding="utf-8"))["rows"]
        documents = [json.loads((folder / row["result"]).read_text(encoding="utf-8")) for row in rows]
        assert [[finding["code"] for finding in document["findings"]] for document in documents] == codes
