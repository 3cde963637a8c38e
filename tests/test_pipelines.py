"""The action for GitHub, the hooks for pre-commit and the job for GitLab do what they say: their own commands run, without a network.

They install this tree: ``kubestow`` on the PATH is its command line.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from tests.planted_defects.defects import DEFECTS
from tests.planted_defects.sound import SOUND, write_cluster
from tests.published_schemas import problems

ROOT = Path(__file__).resolve().parents[1]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
JOB: dict[str, Any] = yaml.safe_load((ROOT / "docs/ci/gitlab-ci.yml").read_text(encoding="utf-8"))["kubestow"]
WORKFLOW: dict[Any, Any] = yaml.safe_load((ROOT / "docs/ci/github-workflow.yml").read_text(encoding="utf-8"))
HOOKS: list[dict[str, Any]] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
DEFECT = next(defect for defect in DEFECTS if defect.code == "KS601")
#: Without a network, pip builds with the setuptools that is here; what pyproject.toml says of the licence takes this version (PEP 639).
builds = pytest.mark.skipif(int(version("setuptools").partition(".")[0]) < 77, reason="setuptools 77 or newer is not installed")
HOSTILE = "$(touch stolen); `touch stolen` \"; touch stolen; '"


# --- published parts --------------------------------------------------------------------------------------------------------


def test_the_files_are_those_of_their_published_schemas() -> None:
    gitlab = "https://gitlab.com/gitlab-org/gitlab/-/raw/master/app/assets/javascripts/editor/schema/ci.json"
    assert problems("github-action", ACTION) == []
    # YAML 1.1 takes the key "on" for a truth value.
    assert problems("github-workflow", {"on" if key is True else key: value for key, value in WORKFLOW.items()}) == []
    assert problems("pre-commit-hooks", HOOKS) == []
    assert problems(gitlab, {"kubestow": JOB}) == []
    assert problems("github-action", {"name": "x"}) != []


def test_no_input_is_ever_part_of_a_script() -> None:
    for step in ACTION["runs"]["steps"]:
        assert "${{" not in step.get("run", "")
    assert "$CI" not in "".join(JOB["script"]).replace('"$CI_MERGE_REQUEST_DIFF_BASE_SHA"', "")


def test_the_example_workflow_names_inputs_of_the_action() -> None:
    (job,) = WORKFLOW["jobs"].values()
    (step,) = (step for step in job["steps"] if "kubestow" in step["uses"])
    assert set(step["with"]) <= set(ACTION["inputs"])
    assert {name for name, given in ACTION["inputs"].items() if given.get("required")} <= set(step["with"])


def test_every_input_and_output_is_used_and_documented() -> None:
    steps = json.dumps(ACTION["runs"]["steps"])
    page = (ROOT / "docs/ci.md").read_text(encoding="utf-8")
    for name in ACTION["inputs"]:
        assert f"inputs.{name} " in steps
        assert f"`{name}`" in page, name
    assert all(f"`{name}`" in page for name in ACTION["outputs"])


# --- the action ---------------------------------------------------------------------------------------------------------------


class Place(NamedTuple):
    """A repository of somebody else, and what the runner of GitHub gives to steps."""

    repository: Path
    cluster: Path
    env: dict[str, str]

    def file(self, name: str) -> str:
        return Path(self.env[name]).read_text(encoding="utf-8")

    def git(self, *words: str) -> str:
        identity = ("-c", "user.name=x", "-c", "user.email=x@example.com", "-c", "commit.gpgsign=false", "-c", "core.hooksPath=/dev/null")
        done = subprocess.run(["git", *identity, *words], cwd=self.repository, check=True, capture_output=True, encoding="utf-8")
        return done.stdout.strip()


def program(folder: Path) -> Path:
    """Write a ``kubestow`` that runs this tree, and return its folder."""
    folder.mkdir()
    (folder / "kubestow").write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m cli "$@"\n')
    (folder / "kubestow").chmod(0o755)
    (folder / "python").symlink_to(sys.executable)
    return folder


@pytest.fixture
def place(tmp_path: Path) -> Place:
    repository = tmp_path / "repository"
    (repository / "manifests").mkdir(parents=True)
    cluster = write_cluster(repository)
    (repository / "manifests/app.yaml").write_text(SOUND, encoding="utf-8")
    runner = tmp_path / "runner"
    runner.mkdir()
    path = f"{program(tmp_path / 'bin')}:{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "RUNNER_TEMP": str(runner), "GITHUB_ACTION_PATH": str(ROOT), "HOME": str(tmp_path)}
    for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"):
        env[name] = str(tmp_path / name)
        Path(env[name]).touch()
    found = Place(repository, cluster, env)
    found.git("init", "-q", "-b", "main")
    found.git("add", ".")
    found.git("commit", "-q", "-m", "sound")
    return found


def run_step(name: str, place: Place, **inputs: str) -> subprocess.CompletedProcess[str]:
    """Run a step of the action as the runner does: its script as a file, its inputs by way of the environment."""
    (step,) = (step for step in ACTION["runs"]["steps"] if step["name"] == name)
    given = {key: inputs.get(key, str(declared.get("default", ""))) for key, declared in ACTION["inputs"].items()}
    outputs = dict(line.partition("=")[::2] for line in place.file("GITHUB_OUTPUT").splitlines())
    env = {}
    for variable, expression in step.get("env", {}).items():
        kind, _, key = expression.removeprefix("${{ ").removesuffix(" }}").partition(".")
        env[variable] = given[key] if kind == "inputs" else outputs[key.rpartition(".")[2]]
    script = Path(place.env["RUNNER_TEMP"]) / "step.sh"
    script.write_text(step["run"], encoding="utf-8")
    words = ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)]
    return subprocess.run(words, cwd=place.repository, env={**place.env, **env}, check=False, capture_output=True, encoding="utf-8")


@pytest.mark.full
def test_the_action_says_nothing_of_what_is_sound(place: Place) -> None:
    done = run_step("Check", place, manifests="manifests\n", cluster="cluster.json")
    assert done.returncode == 0, done.stderr
    assert "::error" not in done.stdout
    assert place.file("GITHUB_OUTPUT").splitlines() == ["exit-code=0", "sarif=kubestow.sarif"]
    assert run_step("Verdict", place).returncode == 0
    assert json.loads((place.repository / "kubestow.sarif").read_text())["runs"][0]["results"] == []


@pytest.mark.full
def test_the_action_puts_a_defect_on_its_line_and_fails_after_the_upload(place: Place) -> None:
    DEFECT.write(place.repository / "manifests").rename(place.repository / "manifests/app.yaml")
    done = run_step("Check", place, manifests="manifests", cluster="cluster.json", options="--fail-on=warning\n-q", **{"base-ref": "main"})
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    (annotation,) = (line for line in lines if line.startswith("::warning"))
    assert annotation.startswith(f"::warning file=manifests/app.yaml,line={DEFECT.line},col={DEFECT.column},title=KS601 ")
    stopped = next(i for i, line in enumerate(lines) if line.startswith("::stop-commands::"))
    again = lines.index(f"::{lines[stopped].rpartition('::')[2]}::")
    assert stopped < next(i for i, line in enumerate(lines) if "1 warning" in line and line[0] != ":") < again < lines.index(annotation)
    assert "exit-code=4" in place.file("GITHUB_OUTPUT")
    assert run_step("Verdict", place).returncode == 4
    assert all(line.startswith("    ") for line in place.file("GITHUB_STEP_SUMMARY").splitlines())
    log = json.loads((place.repository / "kubestow.sarif").read_text())
    assert problems("sarif-2.1.0", log) == []
    (result,) = log["runs"][0]["results"]
    assert (result["ruleId"], result["baselineState"]) == ("KS601", "new")


@pytest.mark.full
def test_the_action_compares_with_the_base(place: Place) -> None:
    DEFECT.write(place.repository / "manifests").rename(place.repository / "manifests/app.yaml")
    place.git("commit", "-q", "-a", "-m", "defect")
    asked = {"manifests": "manifests\nmore", "options": "--fail-on=warning"}
    (place.repository / "more").mkdir()
    (place.repository / "more/job.yaml").write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: shop}\n"
        "spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 1m, memory: 1Mi}}}]}\n"
    )
    done = run_step("Check", place, **asked, **{"base-ref": "HEAD"})
    assert (done.returncode, "exit-code=0" in place.file("GITHUB_OUTPUT")) == (0, True), done.stdout + done.stderr
    lost = run_step("Check", place, **asked, **{"base-ref": "0" * 40})
    assert (lost.returncode, lost.stdout.startswith("::error title=kubestow::base-ref names no commit")) == (1, True)


@pytest.mark.full
def test_the_action_reads_what_helm_rendered(place: Place) -> None:
    (place.repository / "charts/shop").mkdir(parents=True)
    (place.repository / "charts/shop/Chart.yaml").write_text("name: shop\n")
    rendered = f"---\n# Source: shop/templates/app.yaml\n{DEFECT.text}".replace("\n---\n", "\n---\n# Source: shop/templates/app.yaml\n")
    (place.repository / "rendered.yaml").write_text(rendered)
    done = run_step("Check", place, manifests="", rendered="rendered.yaml", charts="charts/shop", cluster="cluster.json")
    assert done.returncode == 0, done.stderr
    assert "\n::warning file=charts/shop/templates/app.yaml,title=KS601 " in done.stdout


@pytest.mark.parametrize("name", sorted(set(ACTION["inputs"]) - {"upload", "python-version"}))
@pytest.mark.full
def test_no_input_is_run_and_bad_input_fails_the_step(name: str, place: Place) -> None:
    done = run_step("Check", place, **{"manifests": "manifests", name: HOSTILE})
    assert not list(place.repository.rglob("stolen"))
    if name == "sarif":
        assert (place.repository / HOSTILE).exists()
    else:
        assert done.returncode in (1, 2), done.stdout
        assert done.stderr + done.stdout
        assert not (place.repository / "kubestow.sarif").exists()


@pytest.mark.full
@builds
def test_the_action_installs_what_it_checks_with(place: Place, tmp_path: Path) -> None:
    """All but the dependencies, which are those of this run."""
    env = place.env | _offline(tmp_path / "modules") | {"GITHUB_ACTION_PATH": str(copied(tmp_path / "source"))}
    done = run_step("Install kubestow", place._replace(env=env))
    assert done.returncode == 0, done.stderr
    made = Path(place.env["RUNNER_TEMP"]) / "kubestow/bin/kubestow"
    said = subprocess.run([made, "--version"], env=env, check=True, capture_output=True, encoding="utf-8", cwd="/")
    assert said.stdout.startswith("kubestow, version ")


def copied(folder: Path) -> Path:
    """Copy the files from which a build of this tree starts, as builds leave files behind, and return the folder."""
    shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(".*", "tests", "docs", "build", "*.egg-info", "__pycache__"))
    shutil.copy(ROOT / ".pre-commit-hooks.yaml", folder)
    return folder


def _offline(folder: Path) -> dict[str, str]:
    """Return the environment in which pip takes everything except the project from this Python, by links in a new folder."""
    folder.mkdir()
    own = {path.name for path in ROOT.iterdir()}
    for spec in (importlib.util.find_spec(name) for name in ("setuptools", "yaml")):
        assert spec is not None
        assert spec.origin is not None
        for path in Path(spec.origin).parents[1].iterdir():
            if path.name not in own and not path.name.startswith("kubestow") and not (folder / path.name).exists():
                (folder / path.name).symlink_to(path)
    return {"PIP_NO_DEPS": "1", "PIP_NO_BUILD_ISOLATION": "0", "PIP_NO_INDEX": "1", "PYTHONPATH": str(folder)}


# --- the hooks for pre-commit -------------------------------------------------------------------------------------------------


def test_the_hooks_differ_in_where_kubestow_comes_from_only() -> None:
    python, system = HOOKS
    told = ("id", "description", "language")
    assert {k: v for k, v in python.items() if k not in told} == {k: v for k, v in system.items() if k not in told}
    assert (python["language"], system["language"]) == ("python", "system")


@pytest.mark.full
@pytest.mark.parametrize(
    "hook", [pytest.param(hook, marks=[builds] if hook["language"] == "python" else [], id=hook["id"]) for hook in HOOKS]
)
def test_a_hook_passes_what_is_sound_and_stops_a_commit_with_a_defect(hook: dict[str, Any], place: Place, tmp_path: Path) -> None:
    """By pre-commit itself, from a repository that has what git has of this one."""
    source = Place(tmp_path / "source", place.cluster, place.env)
    copied(source.repository)
    source.git("init", "-q")
    source.git("add", "-f", ".")
    source.git("commit", "-q", "-m", "kubestow")
    commit = source.git("rev-parse", "HEAD")
    asked = {"id": hook["id"], "args": ["--cluster=cluster.json", "--fail-on=warning"], "files": "^manifests/"}
    config = {"repos": [{"repo": str(source.repository), "rev": commit, "hooks": [asked]}]}
    (place.repository / ".pre-commit-config.yaml").write_text(yaml.safe_dump(config))
    (place.repository / "manifests/notes.txt").write_text("no manifest\n")
    env = place.env | _offline(tmp_path / "modules") | {"PRE_COMMIT_HOME": str(tmp_path / "home")}

    def commit_with() -> tuple[int, str]:
        place.git("add", ".")
        done = subprocess.run(
            [sys.executable, "-m", "pre_commit", "run"], cwd=place.repository, env=env, check=False, capture_output=True, encoding="utf-8"
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    (place.repository / "manifests/app.yaml").write_text(f"# A comment.\n{SOUND}")
    code, text = commit_with()
    assert (code, "Passed" in text) == (0, True), text
    DEFECT.write(place.repository / "manifests").rename(place.repository / "manifests/app.yaml")
    code, text = commit_with()
    assert code == 1, text
    assert f"manifests/app.yaml:{DEFECT.line}:{DEFECT.column}" in text
    assert "- exit code: 4" in text


# --- the job for GitLab -----------------------------------------------------------------------------------------------------------


@pytest.mark.full
def test_the_job_for_gitlab_writes_its_reports(place: Place) -> None:
    """Lines of a script run in one shell, which ends with the first that fails."""
    base = place.git("rev-parse", "HEAD")
    DEFECT.write(place.repository / "manifests").rename(place.repository / "manifests/app.yaml")
    pip = Path(place.env["PATH"].partition(":")[0]) / "pip"
    pip.write_text('#!/bin/sh\necho "$@" > pip-was-asked\n')
    pip.chmod(0o755)
    env = place.env | JOB["variables"] | {"CI_MERGE_REQUEST_DIFF_BASE_SHA": base, "CLUSTER": "cluster.json"}
    script = "\n".join(("set -eo pipefail", *JOB["script"]))
    words = ["bash", "-c", script.replace("-f table", "-f table --fail-on warning")]
    done = subprocess.run(words, cwd=place.repository, env=env, check=False, capture_output=True, encoding="utf-8")
    assert done.returncode == 4, done.stderr
    assert (place.repository / "pip-was-asked").read_text() == "install --quiet kubestow\n"
    reports = {kind: place.repository / file for kind, file in JOB["artifacts"]["reports"].items()}
    (found,) = json.loads(reports["codequality"].read_text())
    assert (found["check_name"], found["location"]) == ("KS601", {"path": "manifests/app.yaml", "lines": {"begin": DEFECT.line}})
    assert "<failure" in reports["junit"].read_text()
    shutil.rmtree(place.repository / "base")
    new = subprocess.run(words, cwd=place.repository, env=env | {"MANIFESTS": "new"}, check=False, capture_output=True, encoding="utf-8")
    assert (new.returncode, "without a base" in new.stdout) == (1, True), "there is no such folder"
