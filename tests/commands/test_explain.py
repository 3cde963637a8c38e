"""The command explain, with an engine of our own."""

from __future__ import annotations

import json

import pytest
import yaml

from kubestow.models.documents.policy import Policy
from kubestow.models.kube.objects import Node, ObjectMeta, OwnerReference, Pod, PodSpec
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.solver.explain import per_node as explaining
from tests.commands.fakes import Fakes, Run


def test_explain_forms(run: Run, fakes: Fakes) -> None:
    fakes.verdicts = [explaining.PodVerdict("prod/x", ["n1"], {"n2": ["NodePorts", "NodeResourcesFit"]}, {"NodePorts": "port 80"})]
    version = {"kubernetesVersion": "1.36"}
    total = {"pods": [{"pod": "prod/x", "feasible": 1, "rejected": {"NodePorts": 1, "NodeResourcesFit": 1}}], **version}
    each = {"pods": [{"pod": "prod/x", "feasible": ["n1"], "rejected": {"n2": ["NodePorts", "NodeResourcesFit"]}}], **version}
    assert json.loads(run("explain", "x").stdout) == total
    assert yaml.safe_load(run("explain", "x", "--per-node", "-f", "yaml").stdout) == each
    assert "1 of 2 nodes feasible" in run("explain", "x", "-f", "table").stdout
    assert run("explain", "x", "-f", "table", "--per-node").stdout.count("NodePorts") == 1


def test_explain_options_reach_the_engine(run: Run, fakes: Fakes) -> None:
    assert run(*["explain", "x", "--pod", "prod/x", "--node", "n1", "--include-gated", "--daemon-namespaces", "a,b"]).exit_code == 0
    assert fakes.asked == {
        "pod": "prod/x",
        "workload": None,
        "node": "n1",
        "include_gated": True,
        "daemon_namespaces": ("a", "b"),
        "policy": Policy(),
    }


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (explaining.UnknownPod("prod/x: no such pod in the snapshot"), "kubestow: --pod: prod/x: no such pod in the snapshot\n"),
        (explaining.UnknownNode("n9: no such node in the snapshot"), "kubestow: --node: n9: no such node in the snapshot\n"),
    ],
)
def test_explain_of_unknown_names_is_bad_input(run: Run, monkeypatch: pytest.MonkeyPatch, error: Exception, line: str) -> None:
    def unknown(*args: object, **kwargs: object) -> None:
        raise error

    monkeypatch.setattr(explaining, "explain", unknown)
    result = run("explain", "x")
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", line)


# --- as for kubectl ---------------------------------------------------------------------------------------------------


def _pods(*places: str) -> Snapshot:
    """A snapshot with these pods, NAMESPACE/NAME, each owned by the StatefulSet ``db``."""
    owner = [OwnerReference(kind="StatefulSet", name="db", apiVersion="apps/v1", controller=True)]
    named = [(place.partition("/")[0], place.partition("/")[2]) for place in places]
    pods = [Pod(metadata=ObjectMeta(name=n, namespace=ns, ownerReferences=owner), spec=PodSpec()) for ns, n in named]
    return Snapshot(nodes=[Node(metadata=ObjectMeta(name="n1"))], pods=pods)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("x pod/db-0", "pod default/db-0"),
        ("pods/db-0 x -n prod", "pod prod/db-0"),
        ("x PO db-1 --namespace prod", "pod prod/db-1"),
        ("x pod/prod/db-0", "pod prod/db-0"),
        ("x pod/db-1 -A", "pod prod/db-1"),
        ("x pod/db-1 -A -n nowhere", "pod prod/db-1"),
        ("x --pod db-0 -n prod", "pod prod/db-0"),
        ("x sts/db", "workload StatefulSet/default/db"),
        ("x statefulsets.v1.apps/db -n prod", "workload StatefulSet/prod/db"),
        ("x --workload db -n prod", "workload prod/db"),
        ("x --workload sts/db -n prod", "workload StatefulSet/prod/db"),
        ("x --workload sts/prod/db -n default", "workload sts/prod/db"),
    ],
)
def test_explain_takes_pods_and_workloads_as_kubectl_does(run: Run, fakes: Fakes, words: str, expected: str) -> None:
    fakes.snapshot = _pods("default/db-0", "prod/db-0", "prod/db-1")
    result = run("explain", *words.split())
    assert (result.exit_code, fakes.loaded) == (0, ["x"]), result.stderr
    assert [f"{kind} {fakes.asked[kind]}" for kind in ("pod", "workload") if fakes.asked[kind] is not None] == [expected]


@pytest.mark.parametrize(
    ("words", "code", "line"),
    [
        ("x pod/db-1", 1, "pod/db-1: no such pod in namespace default of the snapshot; there is one in prod (-n prod)"),
        ("x sts/db -n dev", 1, "sts/db: no such workload in namespace dev of the snapshot; there is one in default, prod (-n default)"),
        ("x deploy/db", 1, "deploy/db: no such workload in namespace default of the snapshot"),
        ("x pod/db-0 -A", 1, "pod/db-0: is in namespaces default, prod: choose one with -n"),
        ("x pod/db-9 -A", 1, "pod/db-9: no such pod in the snapshot"),
        ("x pod/a pod/b", 2, "pod/a and pod/b: expected one pod or workload"),
        ("x pod/a/b/c", 2, "pod/a/b/c: expected pod/NAME (and -n NAMESPACE)"),
        ("x deploy", 2, "deploy: expected deploy/NAME"),
        ("x deploy app.yaml", 2, "deploy: expected deploy/NAME"),
        ("x pod/a --workload b", 2, "pod/a and --workload do not go together"),
        ("x --pod db-0", 2, "--pod: 'db-0' is not of the form NAMESPACE/NAME, and there is no -n NAMESPACE"),
        ("pod/a", 2, "Missing argument 'SNAPSHOT...'.  (--context NAME captures a cluster instead)"),
    ],
)
def test_names_that_are_not_found_end_in_one_line(run: Run, fakes: Fakes, words: str, code: int, line: str) -> None:
    fakes.snapshot = _pods("default/db-0", "prod/db-0", "prod/db-1")
    result = run("explain", *words.split())
    assert (result.exit_code, result.stdout, result.stderr.splitlines()[-1]) == (
        code,
        "",
        f"{'kubestow' if code == 1 else 'Error'}: {line}",
    )


def test_a_namespace_without_a_name_restricts_the_pods(run: Run, fakes: Fakes) -> None:
    fakes.verdicts = [explaining.PodVerdict(f"{space}/x", ["n1"], {}, {}) for space in ("prod", "dev")]
    both, of_dev = ["prod/x", "dev/x"], ["dev/x"]
    for words, expected in (("", both), ("-n dev", of_dev), ("pods -n dev", of_dev), ("pods -n dev -A", both)):
        result = run("explain", "x", *words.split())
        assert [each["pod"] for each in json.loads(result.stdout)["pods"]] == expected
    assert run("explain", "x", "jobs.batch.volcano.sh/db").exit_code == 0
    assert fakes.loaded == ["x", "jobs.batch.volcano.sh/db"], "a kind of another group is no kind of workloads"
    assert run("explain", "x", "-n", "empty", "-q").stderr == "note: no pending pods in namespace empty\n"
