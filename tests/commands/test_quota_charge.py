"""Quotas that charge opportunity cost, as a user meets them: solve, check and verify with a policy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kubestow import cli

SEEDS = Path(cli.__file__).resolve().parent / "instances/seeds"
CLUSTER, WORKLOAD = str(SEEDS / "quota-opportunity-cost.yaml"), str(SEEDS / "quota-opportunity-cost-workload.yaml")


def run(*arguments: str, expected: int = 0) -> Any:
    done = CliRunner().invoke(cli.main, [*arguments])
    assert done.exit_code == expected, done.output
    return json.loads(done.stdout) if done.stdout.startswith("{") else done.stdout


@pytest.fixture
def policy(tmp_path: Path) -> str:
    file = tmp_path / "policy.yaml"
    file.write_text("quotaCharge: opportunityCost\n", encoding="utf-8")
    return str(file)


def test_solve_charges_and_verify_agrees(policy: str, tmp_path: Path) -> None:
    arguments = ("solve", CLUSTER, "-w", WORKLOAD, "--partial", "-f", "json")
    by_requests, out = run(*arguments), tmp_path / "placement.json"
    assert (len(by_requests["assignments"]), by_requests["unplaced"]) == (2, [])
    run(*arguments, "--policy", policy, "-o", str(out), expected=3)
    charged = json.loads(out.read_text(encoding="utf-8"))
    assert charged["policy"] == {"quotaCharge": "opportunityCost"}
    assert {entry["pod"] for entry in charged["unplaced"]} == {"team/exclusive-1", "team/exclusive-2"}
    assert "raise quota team: requests.cpu 12 instead of 10" in {way["message"] for way in charged["causes"][0]["waysOut"]}
    assert "valid" in run("verify", CLUSTER, "-w", WORKLOAD, "--result", str(out), "-f", "table")


def test_verify_refuses_what_the_quota_of_the_policy_does(policy: str, tmp_path: Path) -> None:
    found = run("solve", CLUSTER, "-w", WORKLOAD, "--partial", "-f", "json")
    found["policy"] = {"quotaCharge": "opportunityCost"}
    lie = tmp_path / "lie.json"
    lie.write_text(json.dumps(found), encoding="utf-8")
    told = run("verify", CLUSTER, "-w", WORKLOAD, "--result", str(lie), "-f", "table", expected=4)
    assert "ResourceQuota" in told
    assert "quota team: requests.cpu used up" in " ".join(told.split())


def test_check_names_the_rule_that_is_charged(policy: str) -> None:
    fits = run("check", WORKLOAD, "--cluster", CLUSTER, "-f", "json", "--fail-on", "never")
    assert {each["fit"] for each in fits["workloads"]} == {"fits"}
    found = run("check", WORKLOAD, "--cluster", CLUSTER, "--policy", policy, "-f", "json", "--fail-on", "never", expected=3)
    first = found["workloads"][0]
    assert first["fit"] == "does not fit"
    assert (
        "used: requests.cpu=4, limited: requests.cpu=10, charged: requests.cpu=8 by opportunity cost over kubernetes.io/hostname"
        in first["cause"]
    )
    assert "raise quota team: requests.cpu 12 instead of 10" in first["fix"]
    line = Path(WORKLOAD).read_text(encoding="utf-8").splitlines()[first["position"]["line"] - 1]
    assert "topologyKey: kubernetes.io/hostname" in line
