"""The doctor: its checks, and its messages about missing requirements."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from jsonschema import Draft202012Validator

from kubestow import cli
from kubestow.commands.doctor import cluster, machine, packages
from kubestow.live.capture import CaptureOptions
from kubestow.models.documents.doctor import Examined

ROOT = Path(cli.__file__).resolve().parent
SCHEMA = json.loads((ROOT / "docs/schema/doctor-v1alpha1.json").read_text(encoding="utf-8"))
TABLE = "\n".join(
    ["pods po v1 true Pod", "nodes no v1 false Node", "deployments deploy apps/v1 true Deployment", "secrets  v1 true Secret"]
)
#: Answers of kubectl; `no` has what may not be done, a verb and a resource a line.
KUBECTL = f"""#!/bin/sh
here=$(dirname "$0")
echo "$@" >> "$here/calls"
for word in "$@"; do case "$word" in --context=*|--kubeconfig=*) shift;; esac; done
case "$1 $2" in
  "version --client") echo '{{"clientVersion": {{"gitVersion": "v1.36.1"}}}}';;
  "config current-context") echo staging;;
  "get --raw") echo '{{"gitVersion": "v1.35.4"}}';;
  "api-resources "*) printf '%s\\n' '{TABLE.replace(chr(10), "' '")}';;
  "auth can-i") part=${{5#--subresource=}}; [ "$part" = "$5" ] && part= || part=/$part
    if grep -qx "$3 $4$part" "$here/no"; then echo no; exit 1; else echo yes; fi;;
  *) echo "error: unexpected $*" >&2; exit 1;;
esac
"""


@pytest.fixture
def kubectl(tmp_path: Path) -> Path:
    program = tmp_path / "kubectl"
    program.write_text(KUBECTL, encoding="utf-8")
    program.chmod(0o755)
    (tmp_path / "no").touch()
    return program


@pytest.fixture(autouse=True)
def solved(monkeypatch: pytest.MonkeyPatch) -> None:
    """CP-SAT is looked at by a test of its own."""
    monkeypatch.setattr(packages, "cp_sat", lambda program: Examined("CP-SAT", "ok", "solves"))


def doctor(*arguments: str) -> Result:
    return CliRunner().invoke(cli.main, ["doctor", *arguments])


def told(result: Result) -> dict[str, dict[str, Any]]:
    document = json.loads(result.stdout)
    Draft202012Validator(SCHEMA).validate(document)
    assert result.exit_code == (0 if document["well"] else 4)
    return {each["name"]: each for each in document["examined"]}


def test_a_machine_that_runs_the_tests_is_well(kubectl: Path) -> None:
    found = told(doctor("--kubectl", str(kubectl), "-f", "json"))
    assert found["ortools"]["found"] == metadata.version("ortools")
    assert found["kubectl"] == {"name": "kubectl", "state": "ok", "found": f"v1.36.1, {kubectl}"}
    assert {"kubestow", "Python", "CP-SAT", "cores", "memory", "temporary files", "terminal"} <= found.keys()
    assert (kubectl.parent / "calls").read_text() == "version --client --output=json\n", "the network is left alone"


def test_the_table_names_what_is_odd_below_it(kubectl: Path) -> None:
    (kubectl.parent / "no").write_text("list nodes\n")
    result = doctor("--kubectl", str(kubectl), "--context", "prod", "-f", "table")
    assert result.exit_code == 4
    assert result.stdout.startswith("1 requirement not met")
    below = " ".join(result.stdout[result.stdout.rindex("failed: ") :].split())  # folded at the width of the terminal
    assert below.startswith("failed: capture may: no snapshot without nodes; docs/capture-role.yaml")


def test_yaml_is_the_same_document(kubectl: Path) -> None:
    written = yaml.safe_load(doctor("--kubectl", str(kubectl), "-f", "yaml").stdout)
    same = told(doctor("--kubectl", str(kubectl), "-f", "json"))
    assert [each["name"] for each in written["examined"]] == list(same)


@pytest.mark.parametrize(
    ("denied", "reading", "applying", "code"),
    [
        ("", ("ok", "list all 3 kinds that it reads"), ("ok", "everything it needs"), 0),
        ("list deployments.apps", ("note", "not list deployments.apps"), ("ok", "everything it needs"), 0),
        ("list pods", ("failed", "not list pods"), ("ok", "everything it needs"), 4),
        ("create pods/eviction\ncreate leases.coordination.k8s.io", ("ok", "list all 3 kinds that it reads"),
         ("note", "not create pods/eviction, create leases.coordination.k8s.io"), 0),
    ],
)  # fmt: skip
def test_rights_are_those_that_capture_and_apply_need(
    kubectl: Path, denied: str, reading: tuple[str, str], applying: tuple[str, str], code: int
) -> None:
    (kubectl.parent / "no").write_text(denied + "\n")
    result = doctor("--kubectl", str(kubectl), "--context", "prod", "-f", "json")
    found = told(result)
    assert result.exit_code == code
    assert found["context"]["found"] == "prod"
    assert found["cluster"]["found"] == "Kubernetes v1.35.4"
    assert tuple(found["capture may"][field] for field in ("state", "found")) == reading
    assert tuple(found["apply may"][field] for field in ("state", "found")) == applying


def test_what_apply_does_is_in_its_role() -> None:
    roles = [each for each in yaml.safe_load_all((ROOT / "docs/apply-role.yaml").read_text()) if each]
    granted = {
        (verb, f"{resource}.{group}" if group else resource, role["metadata"].get("namespace"))
        for role in roles
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert set(cluster._APPLIES) <= granted


@pytest.mark.full
def test_a_kubectl_that_is_not_there_is_a_note_unless_it_was_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBECTL_PATH", str(tmp_path / "nothing"))
    found = told(doctor("-f", "json"))["kubectl"]
    assert found["state"] == "note"
    assert "not found" in found["meaning"]
    for asked in (["--context", "prod"], ["--kubeconfig", "x"], ["--kubectl", str(tmp_path / "nothing")]):
        assert told(doctor(*asked, "-f", "json"))["kubectl"]["state"] == "failed"


def test_the_kubectl_of_the_plugin_is_the_one_that_is_looked_at(monkeypatch: pytest.MonkeyPatch, kubectl: Path) -> None:
    monkeypatch.setenv("KUBECTL_PATH", str(kubectl))
    assert told(doctor("-f", "json"))["kubectl"]["found"] == f"v1.36.1, {kubectl}"


def test_a_cluster_that_does_not_answer_has_failed(kubectl: Path) -> None:
    kubectl.write_text(KUBECTL.replace('echo \'{"gitVersion": "v1.35.4"}\'', "echo 'Unable to connect to the server: EOF' >&2; exit 1"))
    found = told(doctor("--kubectl", str(kubectl), "--kubeconfig", "x", "-f", "json"))
    assert found["context"]["found"] == "staging"
    assert found["cluster"]["state"] == "failed"
    assert "Unable to connect" in found["cluster"]["meaning"]


def test_a_kubectl_that_hangs_is_given_up(kubectl: Path) -> None:
    kubectl.write_text("#!/bin/sh\nexec sleep 60\n")
    (found, *_) = cluster.examine(CaptureOptions(str(kubectl), timeout=0.2), contact=True, needed=True)
    assert found.state == "failed"
    assert "no answer for 0.2 s" in found.meaning


def test_missing_distributions_are_failures_or_notes(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        if name in ("numpy", "kubernetes"):
            raise metadata.PackageNotFoundError(name)
        return "1.0"

    monkeypatch.setattr(metadata, "version", version)
    found = {each.name: each for each in packages.examine()}
    assert (found["numpy"].state, found["numpy"].meaning) == ("failed", "needed: pip install numpy")
    assert found["kubernetes"].state == "note"
    assert found["kubernetes"].meaning == "`kubestow apply` does not run: pip install 'kubestow[apply]'"
    assert found["distributed"].state == "ok"


def test_little_of_a_machine_is_said() -> None:
    assert machine.cores(8, None).state == "ok"
    assert machine.cores(8, 1.5).found == "8, limited to 1.5 by a cgroup"
    assert [machine.memory(free).state for free in (None, 1 << 20, 512 << 20, 8 << 30)] == ["note", "failed", "note", "ok"]


def test_a_folder_that_cannot_be_written_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    assert machine.temporary_files().state == "note"
    assert "--tmpfs /tmp" in machine.temporary_files().meaning


@pytest.mark.full
def test_cp_sat_solves_and_a_library_that_ends_the_process_is_told() -> None:
    source = "import sys; sys.path.insert(0, sys.argv[1]); from kubestow.commands.doctor.packages import cp_sat; print(cp_sat(sys.argv[2]))"
    for program, state in ((sys.executable, "'ok'"), ("/bin/false", "'failed'"), ("/nonexistent", "'failed'")):
        done = subprocess.run([sys.executable, "-c", source, str(ROOT), program], capture_output=True, text=True, check=True)
        assert f"state={state}" in done.stdout
