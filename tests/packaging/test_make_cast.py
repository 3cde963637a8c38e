"""The recording of a terminal: valid, two minutes long, and what its commands print now."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

from kubestow import cli
from tests.tiers import thinned

ROOT = Path(cli.__file__).resolve().parent
CAST = ROOT / "docs/images/kubestow.cast"
MAKER = runpy.run_path(str(ROOT / "packaging/make_cast.py"))


def recorded() -> tuple[dict[str, Any], list[tuple[float, str, str]]]:
    head, *events = [json.loads(line) for line in CAST.read_text(encoding="utf-8").splitlines()]
    return head, [(seconds, kind, text) for seconds, kind, text in events]


def test_it_is_a_recording_of_two_minutes() -> None:
    head, events = recorded()
    assert (head["version"], head["width"], head["height"]) == (2, MAKER["WIDTH"], MAKER["HEIGHT"])
    times = [seconds for seconds, _, _ in events]
    assert times == sorted(times)
    assert 90 < times[-1] < 130
    assert {kind for _, kind, _ in events} == {"o"}
    shown = _plain("".join(text for _, _, text in events)).splitlines()
    assert max(len(line) for line in shown if not line.startswith("$ ")) <= head["width"]


@pytest.mark.full
@pytest.mark.skipif(not hasattr(__import__("os"), "openpty"), reason="there are no pseudo-terminals here")
@pytest.mark.parametrize("scene", thinned(range(len(MAKER["SCENES"])), 3))
def test_it_shows_what_is_printed_now(scene: int) -> None:
    title, command = MAKER["SCENES"][scene]
    shown = _plain("".join(text for _, _, text in recorded()[1]))
    assert f"$ # {title}\n$ {command}\n" in shown
    assert _steady(_plain(MAKER["printed"](command))) in _steady(shown)


def _plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*[mHJ]", "", text.replace("\r\n", "\n"))


def _steady(text: str) -> str:
    """Without times."""
    return re.sub(r"\d+\.\d s\b", "… s", text)
