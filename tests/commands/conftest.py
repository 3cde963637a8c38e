"""Fixtures of the commands' tests: the fakes in place of the loader and the engines, and a way to run a command."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kubestow import cli
from kubestow.models.snapshot import snapshot as snapshots
from kubestow.report.documents import results
from kubestow.solver.explain import per_node as explaining
from tests.commands.fakes import Fakes, Run


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> Fakes:
    fakes = Fakes()
    monkeypatch.setattr(snapshots, "load", fakes.load)
    monkeypatch.setattr("kubestow.commands.solve.run.place", fakes.place)
    monkeypatch.setattr("kubestow.commands.core.judging.check", fakes.check)
    monkeypatch.setattr(explaining, "explain", fakes.explain)
    return fakes


@pytest.fixture
def run(fakes: Fakes) -> Run:
    def invoke(*arguments: str, stdin: str | None = None) -> Result:
        result = CliRunner().invoke(cli.main, list(arguments), input=stdin)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result

    return invoke


@pytest.fixture
def result_file(tmp_path: Path, fakes: Fakes) -> str:
    path = tmp_path / "result.json"
    path.write_bytes(results.encode(results.result_document(fakes.placement), "json"))
    return str(path)
