"""The manifest for krew, and what krew does with it: it fetches an archive, unpacks it, and makes one link."""

from __future__ import annotations

import hashlib
import runpy
import shlex
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubestow import cli
from kubestow.commands import VERSION

ROOT = Path(cli.__file__).resolve().parent
SCRIPT = ROOT / "packaging" / "krew" / "fill.py"
FILL = runpy.run_path(str(SCRIPT))
problems: Callable[..., list[str]] = FILL["problems"]
_URLS = ("--homepage", "https://example.com/kubestow", "--base", "https://example.com/releases/")


def fill(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of a release, of a bundle that runs the tree."""
    place = tmp_path_factory.mktemp("release")
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); sys.argv[0] = sys.argv.pop(1); import cli; cli.main()"
    bundle = place / "kubestow.pex"
    bundle.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -c {shlex.quote(code)} "$0" "$@"\n', encoding="utf-8")
    done = fill(*_URLS, "--bundle", f"linux/amd64={bundle}", "--bundle", f"darwin/arm64={bundle}", str(place / "out"))
    assert done.returncode == 0, done.stderr
    return place / "out"


def read(release: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((release / "stow.yaml").read_text(encoding="utf-8"))
    return found


def test_the_manifest_is_filled_and_holds_the_rules(release: Path) -> None:
    assert problems((release / "stow.yaml").read_text(encoding="utf-8")) == []
    spec = read(release)["spec"]
    assert spec["version"] == f"v{VERSION}"
    chosen = [each["selector"]["matchLabels"] for each in spec["platforms"]]
    assert chosen == [{"os": "darwin", "arch": "arm64"}, {"os": "linux", "arch": "amd64"}]
    for each in spec["platforms"]:
        path = release / each["uri"].removeprefix("https://example.com/releases/")
        assert hashlib.sha256(path.read_bytes()).hexdigest() == each["sha256"]


def test_archives_are_the_same_bytes_each_time(release: Path, tmp_path: Path) -> None:
    bundle = release.parent / "kubestow.pex"
    assert fill(*_URLS, "--bundle", f"linux/amd64={bundle}", str(tmp_path)).returncode == 0
    name = f"kubectl-stow-{VERSION}-linux-amd64.tar.gz"
    assert (tmp_path / name).read_bytes() == (release / name).read_bytes()


def test_what_krew_links_is_the_plugin_and_sets_up_its_completion(release: Path, tmp_path: Path) -> None:
    spec = read(release)["spec"]
    with tarfile.open(release / f"kubectl-stow-{VERSION}-linux-amd64.tar.gz") as archive:
        archive.extractall(tmp_path / "store", filter="data")
    assert (tmp_path / "store" / "LICENSE").is_file()
    links = tmp_path / "root" / "bin"
    links.mkdir(parents=True)
    (links / "kubectl-stow").symlink_to(tmp_path / "store" / spec["platforms"][1]["bin"])
    environment = {"PATH": f"{links}:/usr/bin:/bin", "KREW_ROOT": str(tmp_path / "root")}
    done = subprocess.run(["kubectl-stow", "nodes", "--nope"], env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr.splitlines()[0]) == (2, "Usage: kubectl stow nodes [OPTIONS] SNAPSHOT...")
    caveat = [line.strip() for line in spec["caveats"].splitlines() if line.startswith("  ")]
    script = "\n".join(["set -e", *caveat]).replace("kubectl stow", "kubectl-stow")  # as kubectl runs it
    subprocess.run(["sh", "-c", script], env=environment, check=True, timeout=60)
    asked = subprocess.run(
        ["kubectl_complete-stow", "solve", "--engine", "gr"], env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    assert asked.stdout == "greedy\n:4\n"


def _spoiled(release: Path, path: str, value: object) -> str:
    """The manifest with another value (None: without any) at a path such as ``spec.platforms.0.uri``."""
    whole: Any = read(release)
    at = whole
    *above, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    for step in above:
        at = at[step]
    if value is None:
        del at[last]
    else:
        at[last] = value
    return yaml.safe_dump(whole)


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("apiVersion", "krew/v1", "apiVersion: 'krew/v1' is not known to krew"),
        ("kind", "Receipt", "kind: expected Plugin"),
        ("metadata.name", "st/ow", "metadata.name: 'st/ow' is not a valid plugin name"),
        ("metadata.name", "con", "metadata.name: 'con' is not a valid plugin name"),
        ("metadata.name", "other", "stow.yaml: the file of 'other' must be named other.yaml"),
        ("nope", 1, "nope: unknown field"),
        ("spec.nope", 1, "spec.nope: unknown field"),
        ("spec.version", "0.1.0", "spec.version: '0.1.0' is not a semantic version"),
        ("spec.version", "v1.0", "spec.version: 'v1.0' is not a semantic version"),
        ("spec.version", "v01.0.0", "spec.version: 'v01.0.0' is not a semantic version"),
        ("spec.homepage", "@HOMEPAGE@", "spec.homepage: expected an address"),
        ("spec.shortDescription", "", "spec.shortDescription: expected a text"),
        ("spec.shortDescription", "a\nb", "spec.shortDescription: expected one line"),
        ("spec.shortDescription", "word " * 20, "spec.shortDescription: a line has more than 70 characters"),
        ("spec.caveats", "word " * 20, "spec.caveats: a line has more than 80 characters"),
        ("spec.description", None, "spec.description: expected a text"),
        ("spec.platforms", [], "spec.platforms: expected at least one platform"),
        ("spec.platforms.0.uri", "http://example.com/a.tar.gz", "spec.platforms[0].uri: expected the address"),
        ("spec.platforms.0.uri", "https://example.com/a.pex", "spec.platforms[0].uri: expected the address"),
        ("spec.platforms.0.sha256", "ABC", "spec.platforms[0].sha256: expected 64 hexadecimal digits"),
        ("spec.platforms.0.bin", None, "spec.platforms[0].bin: expected a path"),
        ("spec.platforms.0.bin", "../kubectl-stow", "spec.platforms[0].bin: expected a path"),
        ("spec.platforms.0.files", [], "spec.platforms[0].files: expected no files, or from and to in each"),
        ("spec.platforms.0.files", [{"from": "a"}], "spec.platforms[0].files: expected no files, or from and to in each"),
        ("spec.platforms.0.link", "a", "spec.platforms[0].link: unknown field"),
        ("spec.platforms.0.selector", None, "spec.platforms[0].selector: matches no platform"),
        ("spec.platforms.0.selector", {"matchLabels": {}}, "spec.platforms[0].selector: matches no platform"),
        ("spec.platforms.0.selector", {"matchLabels": {"os": "plan9"}}, "spec.platforms[0].selector: matches no platform"),
        ("spec.platforms.0.selector", {"matchLabels": {"libc": "musl"}}, "spec.platforms[0].selector: matches no platform"),
        ("spec.platforms.0.selector", {"matchLabels": {"os": "linux"}}, "spec.platforms[1].selector: linux/amd64 is also matched by"),
        (
            "spec.platforms.0.selector",
            {"matchExpressions": [{"key": "os", "operator": "In", "values": ["linux", "darwin"]}]},
            "spec.platforms[1].selector: linux/amd64 is also matched by spec.platforms[0]",
        ),
    ],
)  # fmt: skip
def test_what_krew_would_refuse_is_named(path: str, value: object, said: str, release: Path) -> None:
    assert any(each.startswith(said) for each in problems(_spoiled(release, path, value))), problems(_spoiled(release, path, value))


@pytest.mark.parametrize("text", ["a: [", "[]", "spec: 1"])
def test_what_is_no_manifest_is_said_to_be_none(text: str) -> None:
    assert len(problems(text)) == 1


@pytest.mark.parametrize("bundle", ["linux/amd64=none", "plan9/amd64=SCRIPT", "linux=SCRIPT"])
def test_wrong_bundles_and_versions_write_nothing(bundle: str, tmp_path: Path) -> None:
    wrong = fill(*_URLS, "--bundle", bundle.replace("SCRIPT", str(SCRIPT)), str(tmp_path / "out"))
    assert wrong.returncode == 2
    version = fill(*_URLS, "--bundle", f"linux/amd64={SCRIPT}", "--version", "1.0", str(tmp_path / "out"))
    assert (version.returncode, version.stderr) == (1, "Error: spec.version: 'v1.0' is not a semantic version with a leading v\n")
    assert not (tmp_path / "out").exists()
