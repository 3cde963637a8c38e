"""The command explain, with an engine of our own."""

from __future__ import annotations

import json

import pytest
import yaml

from kubestow.models.documents.policy import Policy
from kubestow.solver.explain import per_node as explaining
from tests.commands.fakes import Fakes, Run


def test_explain_forms(run: Run, fakes: Fakes) -> None:
    fakes.verdicts = [explaining.PodVerdict("prod/x", ["n1"], {"n2": ["NodePorts", "NodeResourcesFit"]}, {"NodePorts": "port 80"})]
    version = {"kubernetesVersion": "1.36"}
    total = {"pods": [{"pod": "prod/x", "feasible": 1, "rejected": {"NodePorts": 1, "NodeResourcesFit": 1}}], **version}
    each = {"pods": [{"pod": "prod/x", "feasible": ["n1"], "rejected": {"n2": ["NodePorts", "NodeResourcesFit"]}}], **version}
    assert json.loads(run("explain", "x").stdout) == total
    assert yaml.safe_load(run("explain", "x", "--per-node", "-f", "yaml").stdout) == each
    assert "1 of 2 nodes feasible" in run("explain", "x", "-f", "table").stdout
    assert run("explain", "x", "-f", "table", "--per-node").stdout.count("NodePorts") == 1


def test_explain_options_reach_the_engine(run: Run, fakes: Fakes) -> None:
    assert run(*["explain", "x", "--pod", "prod/x", "--node", "n1", "--include-gated", "--daemon-namespaces", "a,b"]).exit_code == 0
    assert fakes.asked == {
        "pod": "prod/x",
        "workload": None,
        "node": "n1",
        "include_gated": True,
        "daemon_namespaces": ("a", "b"),
        "policy": Policy(),
    }


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (explaining.UnknownPod("prod/x: no such pod in the snapshot"), "kubestow: --pod: prod/x: no such pod in the snapshot\n"),
        (explaining.UnknownNode("n9: no such node in the snapshot"), "kubestow: --node: n9: no such node in the snapshot\n"),
    ],
)
def test_explain_of_unknown_names_is_bad_input(run: Run, monkeypatch: pytest.MonkeyPatch, error: Exception, line: str) -> None:
    def unknown(*args: object, **kwargs: object) -> None:
        raise error

    monkeypatch.setattr(explaining, "explain", unknown)
    result = run("explain", "x")
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", line)
