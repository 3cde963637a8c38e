"""Files as they may turn out: shrinking while they are read, larger than there is memory."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from kubestow import cli
from kubestow.models.snapshot import sources
from tests.objects import node, pod

_ROOT = Path(__file__).resolve().parents[3]
_SHRINKING = """
import os, sys
from kubestow.models.snapshot import decode, snapshot
read = decode.DocumentReader.json
def shrunk(self, data, source):
    os.truncate(source, 10)
    read(self, data, source)
decode.DocumentReader.json = shrunk
print(len(snapshot.load([sys.argv[1]]).nodes))
"""


def write(path: Path, count: int = 1) -> Path:
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [node("n"), *(pod(f"p{i}") for i in range(count))]}))
    return path


def test_a_file_that_shrinks_while_it_is_decoded_is_no_crash(tmp_path: Path) -> None:
    """A file mapped into memory would be one: SIGBUS."""
    path = tmp_path / "large.json"
    path.write_text(json.dumps(node("n")) + " " * 20_000_000)
    done = subprocess.run([sys.executable, "-c", _SHRINKING, str(path)], cwd=_ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")


def refused(*words: str | Path, stdin: bytes | None = None) -> str:
    result = CliRunner().invoke(cli.main, [str(word) for word in words], input=stdin)
    assert (result.exit_code, result.stdout) == (1, ""), result.stderr
    return result.stderr


def test_input_beyond_the_limit_is_refused_and_the_option_lifts_it(tmp_path: Path) -> None:
    plain = write(tmp_path / "plain.json", 100)
    packed = tmp_path / "packed.json.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    lifts = "--max-input SIZE or none lifts this limit\n"
    assert refused("audit", plain, "--max-input", "2Ki") == f"kubestow: {plain}: takes more than 2 KiB: {lifts}"
    assert refused("explain", packed, "--max-input", "2500") == f"kubestow: {packed}: takes more than 2.4 KiB unpacked: {lifts}"
    assert refused("solve", "-", "--max-input", "2500", stdin=packed.read_bytes()).startswith(
        "kubestow: stdin: takes more than 2.4 KiB unp"
    )
    assert refused("solve", plain, "-w", packed, "--max-input", str(plain.stat().st_size - 1)).count("takes more than") == 1
    for limit in ("none", "1Gi", str(plain.stat().st_size)):
        assert CliRunner().invoke(cli.main, ["audit", str(packed), "--fail-on", "never", "--max-input", limit]).exit_code == 0


@pytest.mark.parametrize("size", ["0", "-1", "much", "", "1e30"])
def test_a_size_that_is_none_is_wrong_usage(tmp_path: Path, size: str) -> None:
    result = CliRunner().invoke(cli.main, ["audit", str(write(tmp_path / "a.json")), "--max-input", size])
    assert result.exit_code == 2
    assert "is not a size (expected bytes such as 500M or 2Gi, or none)" in result.stderr


def test_by_default_a_file_may_take_a_quarter_of_the_free_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten megabytes of gzip may be ten gigabytes."""
    path = tmp_path / "bomb.json.gz"
    path.write_bytes(gzip.compress(b" " * 30_000_000))
    monkeypatch.setattr(sources, "free_memory", lambda: 80 * 2**20)
    line = "takes more than 20 MiB unpacked, a quarter of the free memory: --max-input SIZE or none lifts this limit\n"
    assert refused("audit", path) == f"kubestow: {path}: {line}"
    monkeypatch.setattr(sources, "free_memory", lambda: None)
    assert len(sources.read(str(path))) == 30_000_000


def test_the_limit_ends_with_the_command(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json")
    refused("audit", path, "--max-input", "1")
    assert sources.read(str(path)) == path.read_bytes()


def test_what_has_no_end_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "free_memory", lambda: 40 * 2**20)
    with pytest.raises(ValueError, match="takes more than 10 MiB, a quarter"):
        sources.read("/dev/zero")


def test_free_memory_is_the_least_of_what_the_system_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        "proc/meminfo": "MemTotal: 16000 kB\nMemAvailable:   8000 kB\n",
        "proc/self/cgroup": "0::/kubepods/pod1\n",
        "cgroup/kubepods/pod1/memory.max": "max\n",
        "cgroup/kubepods/pod1/memory.current": "5000\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(sources, "_PROC", tmp_path / "proc")
    monkeypatch.setattr(sources, "_CGROUPS", tmp_path / "cgroup")
    assert sources.free_memory() == 8000 * 1024
    (tmp_path / "cgroup/kubepods/pod1/memory.max").write_text("100000\n")
    assert sources.free_memory() == 95_000
    (tmp_path / "cgroup/kubepods/pod1/memory.stat").write_text("anon 4000\ninactive_file 1000\n")
    assert sources.free_memory() == 96_000
    (tmp_path / "cgroup/memory").mkdir()
    (tmp_path / "cgroup/memory/memory.limit_in_bytes").write_text("50000\n")
    (tmp_path / "cgroup/memory/memory.usage_in_bytes").write_text("60000\n")
    assert sources.free_memory() == 0


@pytest.mark.parametrize("options", [["audit", ""], ["audit", "SNAPSHOT", "--policy", ""], ["verify", "SNAPSHOT", "--result", ""]])
def test_an_empty_name_is_told(options: list[str], tmp_path: Path) -> None:
    """As of a variable of a shell that is not set."""
    path = str(write(tmp_path / "snapshot.json"))
    result = CliRunner().invoke(cli.main, [path if option == "SNAPSHOT" else option for option in options])
    assert (result.exit_code, result.stderr) == (1, "kubestow: (no file name): cannot be read: No such file or directory\n")


@pytest.mark.parametrize("codec", ["UTF-16LE", "UTF-16BE"])
@pytest.mark.parametrize("text", [json.dumps(node("n")), "apiVersion: v1\nkind: Node\nmetadata: {name: n}\n"])
def test_utf16_without_a_byte_order_mark_is_named(tmp_path: Path, codec: str, text: str) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(text.encode(codec))
    expected = f"is {codec} without a byte order mark, expected UTF-8 (iconv -f {codec} -t UTF-8 converts it)"
    assert refused("audit", path) == f"kubestow: {path}: {expected}\n"


@pytest.mark.parametrize("first", [
    "Warning: v1 ComponentStatus is deprecated in v1.19+",
    "W1127 10:00:00.000000   12345 loader.go:222] Config not found",
    "E1127 10:00:00.000000   12345 memcache.go:265] couldn't get current server API group list",
])  # fmt: skip
@pytest.mark.parametrize("text", [json.dumps(node("n")), "apiVersion: v1\nkind: Node\nmetadata: {name: n}\n"])
def test_messages_of_tools_above_the_objects_are_named(tmp_path: Path, first: str, text: str) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(f"{first}\n{text}")
    error = refused("audit", path)
    assert error.startswith(f"kubestow: {path}: line 1: ")
    assert first[:30] in error
    hint = "expected JSON or YAML (redirect standard output only, without 2>&1)\n"
    assert error.endswith(f" is a message of the tool that wrote the file, {hint}")


@pytest.mark.parametrize("head", ["", 'Release "web" does not exist. Installing it now.\n'])
def test_output_of_helm_install_is_named(tmp_path: Path, head: str) -> None:
    path = tmp_path / "a.yaml"
    notes = "NAME: web\nLAST DEPLOYED: Thu May  1 10:00:00 2026\nNAMESPACE: default\nSTATUS: pending-install\nREVISION: 1\n"
    path.write_text(f"{head}{notes}HOOKS:\nMANIFEST:\n---\napiVersion: v1\nkind: Node\nmetadata: {{name: n}}\n")
    expected = "is the output of helm install or helm upgrade, expected manifests (helm template prints them)"
    assert refused("solve", path) == f"kubestow: {path}: {expected}\n"


def test_files_that_only_look_like_messages_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("# Warning: generated\n# NAME: web\napiVersion: v1\nkind: Node\nmetadata: {name: n}\n")
    result = CliRunner().invoke(cli.main, ["audit", str(path), "-f", "json"])
    assert json.loads(result.stdout)["snapshot"]["nodes"] == 1


@pytest.mark.parametrize(("document", "expected"), [
    ({"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy", "profiles": []},
     "a DeschedulerPolicy is no object of a cluster and was ignored: pass it to audit with --descheduler-policy"),
    ({"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"},
     "a 'KubeletConfiguration' is a configuration file of the kubelet and was ignored"),
])  # fmt: skip
def test_configuration_files_given_for_a_snapshot_are_named(tmp_path: Path, document: dict[str, object], expected: str) -> None:
    cluster, policy = write(tmp_path / "cluster.json"), tmp_path / "policy.json"
    policy.write_text(json.dumps(document))
    result = CliRunner().invoke(cli.main, ["audit", str(cluster), str(policy)])
    assert f"warning: {policy}: {expected}\n" in result.stderr
