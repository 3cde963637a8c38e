"""Which server kubeconfig files mean: the same as to kubectl."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from kubestow.live.api.kubeconfig import resolve
from kubestow.models.snapshot.snapshot import InputError


def write(path: Path, current: str | None = None, **contexts: str) -> Path:
    """Write contexts, each with a cluster at the server given and a user of the context's name."""
    path.parent.mkdir(exist_ok=True)
    found: dict[str, Any] = {
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}} for name in contexts],
        "clusters": [{"name": name, "cluster": {"server": server, "certificate-authority": "ca.pem"}} for name, server in contexts.items()],
        "users": [{"name": name, "user": {"tokenFile": f"{name}.token", "exec": {"command": "bin/log-in"}}} for name in contexts],
    }
    path.write_text(yaml.safe_dump({**found, **({"current-context": current} if current else {})}))
    return path


def problem(kubeconfig: str | None = None, context: str | None = None) -> str:
    with pytest.raises(InputError) as error:
        resolve(kubeconfig, context)
    (line,) = error.value.problems
    return line


def test_several_files_are_one_and_the_first_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = write(tmp_path / "1" / "config", one="https://one")
    second = write(tmp_path / "2" / "config", "two", one="https://other", two="https://two")
    third = write(tmp_path / "3" / "config", "one")
    (tmp_path / "empty").touch()
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/missing:{tmp_path}/empty:{first}:{second}::{third}")
    found = resolve(None, None)
    assert found is not None
    assert (found.context, found.cluster["server"]) == ("two", "https://two")
    assert found.cluster["certificate-authority"] == str(tmp_path / "2" / "ca.pem")
    assert found.user["tokenFile"] == str(tmp_path / "2" / "two.token")
    assert found.user["exec"]["command"] == str(tmp_path / "2" / "bin" / "log-in")
    named = resolve(None, "one")
    assert named is not None
    assert named.cluster["server"] == "https://one"
    option = resolve(str(second), "one")
    assert option is not None
    assert option.cluster["server"] == "https://other"


def test_without_any_file_there_is_no_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    assert resolve(None, None) is None
    assert problem(None, "x") == "context x: there is no kubeconfig; expected one in KUBECONFIG or ~/.kube/config"
    write(tmp_path / ".kube" / "config", "home", home="https://home")
    found = resolve(None, None)
    assert found is not None
    assert found.context == "home"


def test_what_is_wrong_is_said_in_a_line(tmp_path: Path) -> None:
    path = tmp_path / "config"
    assert problem(str(path)) == f"{path}: no such file; expected a kubeconfig"
    assert problem(str(tmp_path)) == f"{tmp_path}: cannot be read: Is a directory"
    write(path, "here", here="https://here", there="https://there")
    assert problem(str(path), "nowhere") == f"{path}: no context 'nowhere'; expected 'here' or 'there'"
    assert problem(str(path), "") == f"{path}: no current-context; expected one, or --context with 'here' or 'there'"
    write(path, here="https://here")
    assert problem(str(path)) == f"{path}: no current-context; expected one, or --context with 'here'"
    path.write_text("contexts: [{name: a, context: {cluster: x, user: y}}]\nclusters: [{name: x}]\ncurrent-context: a\n")
    assert problem(str(path)) == f"{path}: context 'a': no user 'y'; expected one, and the kubeconfig has none"
    path.write_text("contexts: [{name: a, context: {cluster: z}}]\nclusters: [{name: x}]\ncurrent-context: a\n")
    assert problem(str(path)) == f"{path}: context 'a': no cluster 'z'; expected 'x'"
    path.write_text("")
    assert problem(str(path)) == f"{path}: no current-context; expected one, or --context with one, and the kubeconfig has none"


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("contexts: 5", "Expected `array | null`, got `int` - at `$.contexts`"),
        ("contexts: [{context: {}}]", "missing required field `name`"),
        ("clusters: [{name: x, cluster: text}]", "at `$.clusters[0].cluster`"),
        ("[1, 2]", "Expected `object`, got `array`"),
        ("a: [", "while parsing"),
        ("\x00", "control characters are not allowed"),
        ("&a [*a]", "not a kubeconfig"),
    ],
)
def test_what_is_no_kubeconfig_is_refused(tmp_path: Path, text: str, part: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    line = problem(str(path))
    assert line.startswith(f"{path}: not a kubeconfig: ")
    assert part in line
    assert "\n" not in line
