"""Spoiled policies and NodePools: an answer or a line for each problem, never a traceback."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from kubestow import cli
from tests.tiers import sampled

INSTANCES = Path(__file__).resolve().parents[2] / "instances"
FILES = {
    "--descheduler-policy": ("descheduler-policy.yaml", "rebalance-consolidate.yaml"),
    "--karpenter": ("node-pool.yaml", "karpenter.yaml"),
}
JUNK: tuple[Any, ...] = (None, -1, 1.5, 10**30, True, "", "x", "\u202e", "nul\x00", "-5%", [], {}, [None], ["a", 1], {"a": 1}, {"": None})


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    for key, each in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(each, (*path, key))


def spoiled(plain: Any, dice: random.Random) -> Any:
    found = copy.deepcopy(plain)
    *outer, last = dice.choice(list(places(found)))
    inner = found
    for key in outer:
        inner = inner[key]
    if dice.random() < 0.2:
        del inner[last]
    else:
        inner[last] = dice.choice(JUNK)
    return found


@pytest.mark.parametrize("option", FILES)
@pytest.mark.parametrize("seed", sampled(range(80), every=16, full=4))
def test_spoiled_files_of_others_never_end_in_a_traceback(tmp_path: Path, option: str, seed: int) -> None:
    file, snapshot = FILES[option]
    path = tmp_path / "spoiled.json"
    path.write_text(json.dumps(spoiled(yaml.safe_load((INSTANCES / file).read_text(encoding="utf-8")), random.Random(seed))))
    arguments = ["audit", str(INSTANCES / snapshot), option, str(path), "--select", "KS101", "-q"]
    result = CliRunner().invoke(cli.main, arguments, catch_exceptions=False)
    assert result.exit_code in (0, 1)
    if result.exit_code:
        assert result.stdout == ""
        assert all(line.startswith("kubestow: ") for line in result.stderr.splitlines())
