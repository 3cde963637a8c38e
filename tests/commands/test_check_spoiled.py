"""For any manifests, check judges or refuses them."""

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
from kubestow.models.documents.findings.check import Check
from kubestow.models.documents.placement import from_builtins
from tests.planted_defects.sound import SOUND, write_cluster
from tests.tiers import thinned


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    for key, below in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield (*path, key)
        yield from _paths(below, (*path, key))


def _spoil(objects: list[Any], rng: random.Random) -> None:
    """Replace, remove or repeat something below the metadata of an object."""
    obj = rng.choice(objects)
    path = rng.choice([path for path in _paths(obj) if len(path) > 1])
    holder = obj
    for key in path[:-1]:
        holder = holder[key]
    how = rng.randrange(3)
    if how == 0 and isinstance(holder, dict):
        del holder[path[-1]]
    elif how == 1 and isinstance(holder, list):
        holder.append(copy.deepcopy(holder[path[-1]]))
    else:
        holder[path[-1]] = rng.choice([None, 0, 7, "", "web", "50%", [], {}, "kubernetes.io/hostname", {"app": "cache"}])


@pytest.mark.full
@pytest.mark.parametrize("seed", thinned(range(60), 4))
def test_spoiled_manifests_are_judged_or_refused(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    objects = list(yaml.safe_load_all(SOUND))
    _spoil(objects, rng)
    (tmp_path / "m.yaml").write_text(yaml.safe_dump_all(objects))
    (tmp_path / "base.yaml").write_text(SOUND)
    beside = ["--cluster", write_cluster(tmp_path), "--base", tmp_path / "base.yaml"][: (seed % 3) * 2]
    arguments = [tmp_path / "m.yaml", *beside, "-q", "-f", "json", "--workers", "1"]
    result = CliRunner().invoke(cli.main, ["check", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code in (0, 1, 3, 4)
    if result.exit_code == 1:
        assert result.stdout == ""
        assert all(line.startswith("kubestow: ") for line in result.stderr.splitlines())
    else:
        found = from_builtins(json.loads(result.stdout), Check)
        assert all(fault.position is not None for fault in found.faults if not fault.finding.object.startswith(("Node", "Gang", "Pod")))
