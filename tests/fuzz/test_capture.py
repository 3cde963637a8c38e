"""`capture` with a kubectl that says anything: a snapshot that can be read as JSON, or one line; never a part of one."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kubestow.live import capture_kubectl
from tests.fuzz import mutate, run
from tests.fuzz.cases import Case
from tests.fuzz.meaning import meaning
from tests.live.capture_objects import SECRET, cluster
from tests.live.capture_stand_in import Server

pytestmark = pytest.mark.full

_COUNT = 25


class _Mad:
    """Answers of the stand-in, some of them spoiled."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(f"capture-{seed}")
        objects: list[Any] = cluster()
        for _ in range(self.rng.choice((0, 1, 2, 5))):
            meaning(self.rng, objects)
        kept = [each for each in objects if isinstance(each, dict) and _listed(each)]
        self.server = Server(kept)
        self.share = self.rng.choice((0.0, 0.02, 0.1, 0.5))

    def run(self, kubectl: capture_kubectl.Kubectl, arguments: Sequence[str], what: str) -> tuple[int, bytes, str]:
        """In the place of Kubectl._run."""
        rng = self.rng
        said = self._said(kubectl) if rng.random() < self.share else ""
        if arguments[0] == "api-resources":
            rows = [row for row in self.server.table() if row[4] != "Binding"]
            table = "".join(f"{a:<40}{b:<14}{c:<34}{str(d).lower():<6}{e}\n" for a, b, c, d, e in rows).encode()
            return (0 if not said else rng.choice((0, 1)), self._spoiled(table), said)
        code, body = self.server.answer(arguments[-1])
        if code != 200:
            return 1, b"", f"Error from server ({body['reason']}): {body['message']}"
        if rng.random() < self.share / 2:
            body = mutate.structure(rng, copy.deepcopy(body))
        data = json.dumps(body).encode()
        return (rng.choice((1, -9)) if said and rng.random() < 0.5 else 0), self._spoiled(data), said

    def _spoiled(self, data: bytes) -> bytes:
        return mutate.text(self.rng, data) if self.rng.random() < self.share / 2 else data

    def _said(self, kubectl: capture_kubectl.Kubectl) -> str:
        lines = capture_kubectl._lines(f"error: {self.rng.choice(mutate.STRINGS)}\n".encode("utf-8", "replace"))
        kubectl.heard.update(dict.fromkeys(lines))
        return "\n".join(lines)


def _listed(each: dict[str, Any]) -> bool:
    """Return whether the stand-in, which is not tested here, understands an object."""
    texts = (each.get("kind"), each.get("apiVersion"))
    return all(isinstance(text, str) for text in texts) and isinstance(each.get("metadata"), dict) and "name" in each["metadata"]


def judge(seed: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[int, list[str]]:
    mad = _Mad(seed)
    monkeypatch.setattr(capture_kubectl.Kubectl, "_run", lambda kubectl, arguments, what: mad.run(kubectl, arguments, what))
    words = ["capture", *mad.rng.choice(([], ["-v"], ["-q"], ["--no-redact"], ["-n", "shop"], ["-n", "shop", "-n", "default"]))]
    output = folder / "result" if mad.rng.random() < 0.5 else None
    words += ["-o", str(output)] if output is not None else []
    done = run.here(words)
    found = run.faults(Case("capture", arguments=words, output=output), done)
    if done.code in (0, 3):
        data = output.read_bytes() if output is not None else done.out
        document = json.loads(data)
        if not isinstance(document["items"], list) or not all(isinstance(item, dict) for item in document["items"]):
            found.append("no list of objects")
        if mad.share == 0 and "--no-redact" not in words and SECRET.encode() in data:
            found.append("a secret got through")
    return done.code, found


@pytest.mark.parametrize("first", range(0, 4 * _COUNT, _COUNT))
def test_mad_servers(first: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    codes = set()
    for seed in range(first, first + _COUNT):
        folder = tmp_path / str(seed)
        folder.mkdir()
        code, found = judge(seed, folder, monkeypatch)
        assert not found, (seed, found)
        codes.add(code)
    assert {0, 1} <= codes


@pytest.mark.slow
def test_many_mad_servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(1000, 3000):
        folder = tmp_path / str(seed)
        folder.mkdir()
        assert judge(seed, folder, monkeypatch)[1] == [], seed
