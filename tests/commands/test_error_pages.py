"""Every section of docs/errors.md is about a message that a run ends with, and that message leads to it."""

from __future__ import annotations

import errno
import os
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from kubestow import cli
from kubestow.commands.common import error_pages, exit_codes
from tests.live.capture_stand_in import Server, install
from tests.live.test_redact import objects_of
from tests.test_docs import anchors

ROOT = Path(cli.__file__).resolve().parent
PAGE = (ROOT / "docs/errors.md").read_text(encoding="utf-8")
_GANG = "instances/gang-self-affine.yaml -w instances/gang-self-affine-workload.yaml"

#: By section: files that are there, and the command that ends so.
RUNS: dict[str, tuple[dict[str, str], str]] = {
    "a-manifest-in-place-of-a-snapshot": ({}, "solve instances/check/shop.yaml"),
    "no-nodes": ({"empty.json": '{"kind": "List", "apiVersion": "v1", "items": []}'}, "solve empty.json"),
    "an-empty-folder": ({"folder/.hidden": ""}, "solve folder"),
    "a-file-that-cannot-be-read-or-written": ({}, "solve nowhere.json"),
    "no-room-for-the-result": ({}, "solve instances/quickstart.yaml -o result.json"),
    "malformed-json-or-yaml": ({"bad.yaml": "a: [1\n"}, "solve bad.yaml"),
    "a-key-given-twice": ({"twice.yaml": "kind: Node\nkind: Node\n"}, "solve twice.yaml"),
    "no-quantity": ({"odd.yaml": "apiVersion: v1\nkind: Node\nmetadata: {name: a}\nstatus: {allocatable: {cpu: 4x}}\n"}, "solve odd.yaml"),
    "an-unknown-field": (
        {"odd.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [], hostnames: a}\n"},
        "solve instances/quickstart.yaml -w odd.yaml",
    ),
    "input-that-is-too-large": ({}, "solve instances/quickstart.yaml --max-input 1000"),
    "kubectl-is-not-found": ({}, "solve --context prod --kubectl nowhere/kubectl"),
    "no-such-context": ({}, "apply instances/rebalance-drain.yaml --result plan.json --yes"),
    "kubectl-may-not-read": ({}, "solve --context prod"),
    "kubectl-says-nothing": ({}, "capture --timeout 1"),
    "the-manifests-of-a-result": ({}, "verify instances/gang-self-affine.yaml --result placement.json"),
    "a-result-of-another-snapshot": ({}, "apply instances/peter-sheep-wolf.yaml --result placement.json"),
    "no-result": ({}, "verify instances/quickstart.yaml --result instances/quickstart.yaml"),
    "no-policy-or-catalogue": ({}, "solve instances/quickstart.yaml --policy instances/quickstart.yaml"),
    "no-such-pod-node-or-workload": ({}, "explain instances/quickstart.yaml --pod default/nope"),
    "manifests-without-pods": (
        {"map.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"}, "solve instances/quickstart.yaml -w map.yaml"
    ),
}  # fmt: skip
#: Commands that run first, by section.
BEFORE = {
    "no-such-context": "rebalance instances/rebalance-drain.yaml --drain n1 -o plan.json -q",
    "the-manifests-of-a-result": f"solve {_GANG} -o placement.json -q",
    "a-result-of-another-snapshot": "solve instances/quickstart.yaml -o placement.json -q",
}
FAULTS = {
    "kubectl-may-not-read": Server([], forbidden=["/api/v1/nodes"]),
    "kubectl-says-nothing": Server(objects_of(ROOT / "instances/quickstart.yaml"), faults={"/api/v1/pods": {"sleep": 60}}),
}


def test_there_are_twenty_sections_and_a_run_for_each() -> None:
    named = [anchor for anchor, _ in error_pages.SECTIONS]
    assert len(named) == 20
    assert set(named) == set(RUNS) == anchors(PAGE) - {"error-messages"}


@pytest.mark.parametrize("name", RUNS)
def test_a_run_ends_with_the_message_of_its_section(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, command = RUNS[name]
    (tmp_path / "instances").symlink_to(ROOT / "instances")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    for file, text in files.items():
        Path(file).parent.mkdir(exist_ok=True)
        Path(file).write_text(text, encoding="utf-8")
    if name in FAULTS:
        install(tmp_path / "bin", FAULTS[name])
        monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    if name in BEFORE:
        assert CliRunner().invoke(cli.main, shlex.split(BEFORE[name])).exit_code in (0, 3)
    if name == "no-room-for-the-result":
        monkeypatch.setattr(os, "replace", _full)
    monkeypatch.setattr(exit_codes, "on_a_terminal", lambda: True)
    done = CliRunner().invoke(cli.main, shlex.split(command))
    assert done.exit_code == 1, done.stderr
    address = f"{error_pages.SITE}#{name}"
    assert any(line.startswith("kubestow: ") and line.endswith(f" ({address})") for line in done.stderr.splitlines()), done.stderr


def _full(*given: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(given[-1]))


def test_only_terminals_get_the_address() -> None:
    done = CliRunner().invoke(cli.main, ["solve", "nowhere.json"])
    assert done.stderr == "kubestow: nowhere.json: cannot be read: No such file or directory\n"
