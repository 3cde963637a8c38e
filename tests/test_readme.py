"""The README shows the current output."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from kubestow import cli
from tests.live.capture_stand_in import Server, install

ROOT = Path(cli.__file__).resolve().parent
TEXT = (ROOT / "README.md").read_text()


def shell_lines() -> list[str]:
    """Commands of the README's shell blocks, those joined by && one by one, comments left out."""
    blocks = re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL)
    lines = [line.split("  #")[0].strip() for block in blocks for line in block.splitlines()]
    return [part.strip() for line in lines for part in line.split("&&")]


#: For the lines that speak of a workload; the quickstart, which has room for no more than small pods, has none.
WORKLOAD = """---
apiVersion: apps/v1
kind: Deployment
metadata: {name: %s, namespace: default}
spec:
  replicas: 2
  selector: {matchLabels: {app: small}}
  template:
    metadata: {labels: {app: small}}
    spec: {containers: [{name: app, image: "app:1.0"}]}
"""


def test_the_commands_for_ones_own_cluster_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    quickstart = (ROOT / "instances" / "quickstart.yaml").read_text()
    objects = [part for part in yaml.safe_load_all(quickstart + WORKLOAD % "web") if part]
    for number, each in enumerate(objects):
        each["metadata"]["uid"] = f"uid-{number}"  # as any API server does
    install(tmp_path / "bin", Server(objects))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    (tmp_path / "app.yaml").write_text(WORKLOAD % "app")
    (tmp_path / "catalogue.yaml").write_text((ROOT / "instances" / "catalogue.yaml").read_text())
    lines = [shlex.split(line) for line in shell_lines() if line.startswith("kubestow ")]
    assert {line[1] for line in lines} == set(cli.main.commands)
    for _, *arguments in lines:
        result = CliRunner().invoke(cli.main, arguments)
        pending = 3 if arguments[0] == "simulate" else 0  # kube-scheduler leaves two pods of the quickstart pending
        assert result.exit_code == pending, f"{arguments}\n{result.stderr}"


def test_the_two_commands_are_those_that_ci_runs() -> None:
    lines = shell_lines()
    assert ".venv/bin/kubestow solve instances/quickstart.yaml" in lines
    assert ".venv/bin/python -m pytest" in lines
    assert "-m pytest" in (ROOT / ".ci" / "run").read_text()


def test_the_captured_run_is_current(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", "100")
    shown = re.search(r"\$ kubestow (solve [^\n]*)\n(.*?)\n```", TEXT, re.DOTALL)
    assert shown is not None
    result = CliRunner().invoke(cli.main, shlex.split(shown[1]))
    rest = _steady(result.stdout)
    passages = _steady(shown[2]).split("\n   …\n")
    assert len(passages) > 1
    assert rest.startswith(passages[0])
    for passage in passages:
        _, found, rest = rest.partition(passage)
        assert found, passage


def _steady(text: str) -> str:
    """Return the text without times and trailing blanks."""
    return "\n".join(re.sub(r"[0-9.]+ s\)", "s)", line.rstrip()) for line in text.splitlines())


def test_linked_files_exist() -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", TEXT)
    assert links
    assert all((ROOT / link).exists() for link in links)
