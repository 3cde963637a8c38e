"""Fixtures of the tests of ``batch``: workers in this process, and a way to run the command on small snapshots."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

import pytest
from click.testing import CliRunner, Result

from kubestow import cli
from kubestow.commands.batch import run
from tests.objects import node, pod

_R = TypeVar("_R")
Batch = Callable[..., Result]


class Inline:
    """A worker that is this process."""

    width, shared_fate, tries, ahead = 1, False, 1, 2

    def submit(self, work: Callable[..., _R], *arguments: Any) -> Future[_R]:
        done: Future[_R] = Future()
        try:
            done.set_result(work(*arguments))
        except Exception as error:  # noqa: BLE001 (as executors do)
            done.set_exception(error)
        return done

    def is_lost(self, error: BaseException) -> bool:
        return False

    def share(self, path: str, digest: str) -> str:
        return path

    def check(self) -> None:
        pass

    def mend(self) -> None:
        raise AssertionError("nothing is lost here")

    def close(self, *, now: bool) -> None:
        pass


def snapshot(folder: Path, name: str, pods: int = 1, **capture: str) -> str:
    """Write a snapshot of a node and pods that wait, and return its name."""
    items: list[Any] = [node("n1", cpu="4"), *(pod(f"p{i}", cpu="1") for i in range(pods))]
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}), encoding="utf-8")
    return name


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def batch(here: Path, monkeypatch: pytest.MonkeyPatch) -> Batch:
    monkeypatch.setattr(run, "_workers", lambda *_: Inline())

    def invoke(*arguments: str, stdin: str | None = None) -> Result:
        result = CliRunner().invoke(cli.main, ["batch", *arguments], input=stdin)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result

    return invoke
