"""``check`` judges each hook of Helm at its own time: before the release, or next to it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from kubestow import cli
from kubestow.report.documents import yaml_text
from tests.models.helm.test_hooks import deployment, hook
from tests.objects import Object, node, pod


def fits(tmp_path: Path, manifests: list[Object], *cluster: Object) -> tuple[int, dict[str, str], str]:
    """Return the exit code of a check, and the verdict on each workload, and the document as text."""
    (tmp_path / "cluster.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [node("n", cpu="4"), *cluster]}))
    (tmp_path / "rendered.yaml").write_text("---\n".join(yaml_text.dump(each) for each in manifests))
    words = ["check", str(tmp_path / "rendered.yaml"), "--cluster", str(tmp_path / "cluster.json"), "-q", "-f", "json"]
    result = CliRunner().invoke(cli.main, [*words, "--fail-on", "never"])
    document = json.loads(result.stdout)
    return result.exit_code, {each["workload"].split("/")[1]: each["fit"] for each in document["workloads"]}, result.stdout


def test_check_judges_each_hook_at_its_own_time(tmp_path: Path) -> None:
    """4 CPUs: the release takes 2, each hook 2. All at once would ask for 8."""
    manifests = [pod("web", cpu="2"), hook("t", "test"), hook("migrate", "pre-install"), hook("seed", "post-install"),
                 hook("warm", "post-install", "1")]  # fmt: skip
    code, verdicts, text = fits(tmp_path, manifests)
    assert (code, verdicts) == (0, dict.fromkeys(("web", "migrate", "seed", "warm"), "fits"))
    assert "Pod default/t (test)" in text


def test_check_refuses_hooks_without_a_place(tmp_path: Path) -> None:
    """Before the release there are 4 CPUs, next to it 1. A hook of 5 CPUs never runs."""
    small = pod("web", cpu="3")
    assert fits(tmp_path, [small, hook("migrate", "pre-install", cpu="4")])[:2] == (0, {"web": "fits", "migrate": "fits"})
    assert fits(tmp_path, [small, hook("migrate", "pre-install", cpu="5")])[:2] == (3, {"web": "fits", "migrate": "does not fit"})
    code, verdicts, text = fits(tmp_path, [small, hook("seed", "post-install", cpu="2")])
    assert (code, verdicts) == (3, {"web": "fits", "seed": "does not fit"})
    code, verdicts, text = fits(tmp_path, [pod("web", cpu="5"), hook("seed", "post-install", cpu="1")])
    assert (code, verdicts) == (3, {"web": "does not fit"})
    assert "Helm hooks that run after the release are not judged: the release itself does not fit" in text


@pytest.mark.parametrize(("weights", "policy", "verdict"), [
    (("0", "1"), None, "does not fit"),  # the Deployment is there before the Job
    (("1", "0"), None, "fits"),
    (("0", "1"), "hook-succeeded", "does not fit"),  # deleted only when all hooks of the event are through
])  # fmt: skip
def test_hooks_that_stay_are_there_for_later_ones(tmp_path: Path, weights: tuple[str, str], policy: str | None, verdict: str) -> None:
    annotations = {"helm.sh/hook": "pre-install", "helm.sh/hook-weight": weights[0]}
    cache = deployment("cache", annotations | ({"helm.sh/hook-delete-policy": policy} if policy else {}))
    code, verdicts, _ = fits(tmp_path, [pod("web", cpu="1"), cache, hook("migrate", "pre-install", weights[1], cpu="3")])
    assert verdicts == {"web": "fits", "cache": "fits", "migrate": verdict}
    assert code == (3 if verdict == "does not fit" else 0)


@pytest.mark.parametrize(("policy", "verdict"), [(None, "fits"), ("before-hook-creation", "fits"), ("hook-failed", "does not fit")])
def test_the_hook_of_the_release_before_is_deleted_first(tmp_path: Path, policy: str | None, verdict: str) -> None:
    """By default. Otherwise Helm finds an object of this name, and stops."""
    old = pod("migrate", cpu="3", node_name="n")
    old["metadata"]["uid"] = "u"
    new = hook("migrate", "pre-upgrade", cpu="4")
    new["metadata"]["annotations"] = {"helm.sh/hook": "pre-upgrade"} | ({"helm.sh/hook-delete-policy": policy} if policy else {})
    _, verdicts, text = fits(tmp_path, [pod("web", cpu="1"), new], old)
    assert verdicts == {"web": "fits", "migrate": verdict}
    assert ("the cluster has this hook already" in text) is (verdict != "fits")
