"""``--requests`` end to end: what fits, which nodes go empty, and what becomes of the result."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kubestow import cli
from tests.instances.test_instances import RECOMMENDED

ROOT = Path(cli.__file__).resolve().parent
POOL = str(ROOT / "instances/size-pool.yaml")
KRR = str(ROOT / "instances/right-sizing/krr.json")
SCALERS = str(ROOT / "instances/right-sizing/vertical-pod-autoscalers.yaml")
CPU = f"cpu:p80+20%={ROOT / 'instances/right-sizing/prometheus-cpu.json'}"


#: CPU requests of the pool's pods in mCPU: 11,100 as they are, of which the agents request 700 and workloads without advice all.
_EXPECTED = [
    ((), 11100),
    ((KRR,), RECOMMENDED["right-sizing/krr.json"]),
    ((SCALERS,), RECOMMENDED["right-sizing/vertical-pod-autoscalers.yaml"]),
    ((CPU,), RECOMMENDED["right-sizing/prometheus-cpu.json"]),
    ((CPU, KRR), 8220),
    ((KRR, CPU), 8100),
]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli.main, arguments)


@pytest.mark.parametrize(("given", "expected"), _EXPECTED)
def test_every_form_is_read(given: tuple[str, ...], expected: int) -> None:
    found = run("nodes", POOL, "-f", "json", *(part for each in given for part in ("--requests", each)))
    assert found.exit_code == 0, found.stderr
    assert json.loads(found.stdout)["total"]["requests"]["cpu"] == expected


def test_more_nodes_go_empty_and_the_plan_holds(tmp_path: Path) -> None:
    freed = []
    for name, more in (("before", ()), ("after", ("--requests", KRR))):
        plan = str(tmp_path / f"{name}.json")
        assert run("rebalance", POOL, "--goal", "consolidate", *more, "-o", plan, "-q").exit_code == 0
        freed.append(len(json.loads(Path(plan).read_text())["freed"]))
        assert run("verify", POOL, "--result", plan).exit_code == 0
        assert run("report", POOL, "--result", plan, "-o", str(tmp_path / "page.html")).exit_code == 0
    assert freed == [1, 3]


def test_a_lie_about_the_requests_is_found(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    assert run("rebalance", POOL, "--goal", "consolidate", "--requests", KRR, "-o", str(plan), "-q").exit_code == 0
    plain = json.loads(plan.read_text())
    del plain["snapshot"]["edits"]
    plan.write_text(json.dumps(plain))
    assert run("verify", POOL, "--result", str(plan)).exit_code == 4


def test_less_is_bought() -> None:
    command = ("size", POOL, "--pool", "pool=old", "--catalogue", str(ROOT / "instances/catalogue.yaml"), "-f", "json", "-q")
    costs = [json.loads(run(*command, *more).stdout)["cost"]["value"] for more in ((), ("--requests", KRR))]
    assert costs[1] < costs[0]


def test_a_file_that_is_none_is_one_line_and_exit_1(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("{}")
    for command in (("nodes",), ("solve",), ("explain",), ("rebalance", "--goal", "consolidate"), ("survive", "--fail", "node")):
        found = run(command[0], POOL, *command[1:], "--requests", str(tmp_path / "x.json"))
        assert found.exit_code == 1, command
        assert found.stdout == ""
        assert found.stderr.count("\n") == 1
        assert "x.json: expected krr's JSON" in found.stderr
