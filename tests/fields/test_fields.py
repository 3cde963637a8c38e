"""Every field of Kubernetes' API types is modelled, named as unmodelled, or without effect, and docs/fields.md says which.

``python tests/fields/test_fields.py --write`` renews the page.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import pytest

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from kubestow.models.gangs.declarations import OF_GANGS
from kubestow.models.snapshot.api_types import TABLE
from kubestow.models.snapshot.interning import ANNOTATIONS
from tests.fields import page
from tests.fields.api_tree import heads, paths, read
from tests.fields.table import BY_KIND, KEYS, KINDS, ROWS, VERDICTS, WHOLE, fields, row_of
from tests.models.snapshot.test_api_types import resource_types

ROOT: Final = Path(__file__).resolve().parents[2]
KINDS_IN_DETAIL: Final = sorted(heads().keys() - WHOLE)
#: Read because one struct serves several places, and used in none of these.
READ_IN_VAIN: Final = (
    ("Pod", "spec.resources.claims"),
    ("Pod", "status.resources.claims"),
    ("Pod", "status.containerStatuses.resources.claims"),
    ("Pod", "spec.securityContext"),
    ("ResourceSlice", "spec.devices.taints.timeAdded"),
)
#: Maximum number of lines that may say "decides, not named yet". It only ever decreases.
OPEN_LINES: Final = 23


@pytest.mark.parametrize("kind", KINDS_IN_DETAIL)
def test_every_field_has_a_verdict(kind: str) -> None:
    assert [path for path in fields(kind) if row_of(kind, path) is None] == []


def test_every_kind_of_kubernetes_has_a_verdict() -> None:
    known = {kind for _, kind in resource_types()} | {kind for group in TABLE.groups.values() for kind in group}
    assert known - WHOLE - set(KINDS_IN_DETAIL) == set()
    assert WHOLE - known == set()


def test_every_verdict_is_of_fields_that_there_are() -> None:
    gone = [
        f"{', '.join(row.kinds)}: {path}"
        for row in ROWS
        if row.kinds not in ((KINDS,), (KEYS,))
        for path in row.paths
        if not any(path in paths(kind) for kind in (KINDS_IN_DETAIL if row.kinds == ("*",) else row.kinds))
    ]
    assert gone == []


def test_no_verdict_is_covered_by_others() -> None:
    used = {(kind, path): row_of(kind, path) for kind in KINDS_IN_DETAIL for path in fields(kind)}
    rows = {id(row) for row in used.values()}
    assert [row for row in ROWS if row.kinds not in ((KINDS,), (KEYS,)) and id(row) not in rows] == []


def test_what_has_the_verdicts_of_another_place_has_its_fields() -> None:
    """But for those that have a line of their own."""
    for (kind, path), row in BY_KIND.items():
        if row.verdict == "as":
            target, _, prefix = row.why.rpartition(" ") if " " in row.why else ("", "", row.why)
            home, start = (target or kind, f"{prefix}.") if row.why not in heads() else (row.why, "")
            below = {each.removeprefix(f"{path}.") for each in paths(kind) if each.startswith(f"{path}.")}
            missing = {each for each in below if start + each not in paths(home) and row_of(kind, f"{path}.{each}") is row}
            assert missing == set(), (kind, path)


@pytest.mark.parametrize("kind", KINDS_IN_DETAIL)
def test_what_is_modelled_is_read_and_what_is_read_has_an_effect(kind: str) -> None:
    found = {path: row_of(kind, path) for path in fields(kind) if path not in ("apiVersion", "kind")}
    modelled = {path for path, row in found.items() if row is not None and row.verdict == "modelled"}
    without = {path for path, row in found.items() if row is not None and row.verdict == "none"}
    assert modelled - read(kind) == set()
    vain = {path for path in without & read(kind) if not any(k == kind and f"{path}.".startswith(f"{p}.") for k, p in READ_IN_VAIN)}
    assert vain == set()


def test_older_versions_have_no_fields_that_the_best_one_lacks() -> None:
    """Below their own types, but for what :func:`kubestow.models.kube.device_objects.as_v1` turns."""
    for head, name in TABLE.heads.items():
        if " " in head:
            best = {field for key, found in TABLE.types.items() if key.startswith("resource_v1.") for field in found}
            old = {field for key, found in TABLE.types.items() if key.startswith(name.partition(".")[0]) for field in found}
            assert old - best - {"basic"} == set()


def test_what_decides_and_is_not_named_only_gets_less() -> None:
    lines = [f"{', '.join(row.kinds)}: {row.shown}" for row in ROWS if row.verdict == "open"]
    assert len(lines) <= OPEN_LINES, lines


# --- annotations and labels -------------------------------------------------------------------------------------------

_OF_KEYS: Final = {key: row for row in ROWS if row.kinds == (KEYS,) for key in row.paths}


def _code() -> str:
    folders = ("models", "solver", "audit", "commands", "live", "checker")
    return "\n".join(path.read_text(encoding="utf-8") for folder in folders for path in sorted((ROOT / folder).rglob("*.py")))


def test_keys_that_are_modelled_or_named_are_in_the_code() -> None:
    code = _code()
    known = [key.removesuffix("…") for key, row in _OF_KEYS.items() if row.verdict in ("modelled", "named")]
    missing = [key for key in known if key not in code and not (key.partition("/")[0] in code and key.partition("/")[2] in code)]
    assert missing == []


def test_keys_that_are_said_to_have_no_effect_are_not_in_the_code() -> None:
    code = _code()
    assert [key for key, row in _OF_KEYS.items() if row.verdict == "none" and f'"{key}"' in code] == []


def test_every_annotation_that_is_kept_has_a_verdict() -> None:
    keys = [key.removesuffix("…") for key in _OF_KEYS]
    kept = [each for each in (*ANNOTATIONS, *OF_GANGS) if each != "topology."]
    assert [each for each in kept if not any(key.startswith(each) or each.startswith(key) for key in keys)] == []


@pytest.mark.full
def test_the_page_is_up_to_date() -> None:
    text = page.text()
    assert page.PAGE.read_text(encoding="utf-8") == text, "renew it: python tests/fields/test_fields.py --write"
    assert all(f"**{word}**" in text for word in VERDICTS.values())


if __name__ == "__main__" and "--write" in sys.argv:
    page.PAGE.write_text(page.text(), encoding="utf-8")
