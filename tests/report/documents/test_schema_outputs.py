"""The output of the commands is valid: every command, every kind of instance, JSON and YAML."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from jsonschema import Draft202012Validator

from kubestow import cli
from kubestow.report.documents import schemas
from tests.tiers import sampled

ROOT = Path(cli.__file__).resolve().parent
INSTANCES = ROOT / "instances"
ALL = schemas.schemas()
VALIDATORS = {name: Draft202012Validator(schema) for name, schema in ALL.items()}

FILES = sorted(
    str(path.relative_to(ROOT))
    for path in INSTANCES.rglob("*.yaml")
    if "\nkind: Node\n" in path.read_text(encoding="utf-8")  # else manifests, catalogues and the like
)
#: To be solved and explained one by one; the manifests in the same directories are given with -w below.
SNAPSHOTS = [path for path in FILES if Path(path).parent.name in ("instances", "pending", "rules")]
SEEDS = [path for path in FILES if Path(path).parent.name == "seeds"]

_GANG = "instances/gang-mutual.yaml -w instances/gang-mutual-workload.yaml"
PLACEMENTS = (
    "instances/quickstart.yaml --deterministic --strict",
    "instances/quickstart.yaml --engine greedy",
    "instances/quickstart.yaml --strategy none --include-gated --daemon-namespaces kube-system,default",
    "instances/rebalance-consolidate.yaml --from-scratch --strategy pack",
    "instances/two-socket-joint.yaml --policy policy.yaml",
    "instances/pending/numa.yaml --policy policy.yaml",
    "instances/peter-sheep-wolf.yaml --shorthand symmetric",
    _GANG,
    f"{_GANG} --remove-node b2",
    f"{_GANG} --partial --remove-domain topology.kubernetes.io/zone=zone-b --add-nodes 1:a1 --replicas a=2",
    "instances/gang-one-order.yaml -w instances/gang-one-order-workload.yaml",
    "instances/gang-self-affine.yaml -w instances/gang-self-affine-workload.yaml",
    "instances/spread-infeasible-zone.yaml -w instances/spread-infeasible-zone-workload.yaml",
    "instances/rollout-three-nodes.yaml --rollout app",
    "instances/rollout-deadlock.yaml --rollout default/app",
    "made.json --engine lns --time-limit 3",
    "numa.json --time-limit 3",
)
PLANS = (
    "instances/rebalance-repair.yaml --goal repair",
    "instances/rebalance-repair.yaml --goal repair --goal improve --max-moves 2 --max-moves-per-namespace 2 --max-moves-per-workload 1",
    "instances/rebalance-swap.yaml --goal repair --deterministic",
    "instances/rebalance-swap.yaml --goal repair --max-moves 3",
    "instances/rebalance-stuck.yaml --goal repair",
    "instances/rebalance-drain.yaml --drain n1 --goal improve --also-move bare --also-move local-storage --min-gain 5",
    "instances/rebalance-consolidate.yaml --goal consolidate --max-freed 1",
    "instances/rebalance-drain.yaml --drain n1 --max-waves 1",
    "instances/rebalance-consolidate.yaml --goal improve --policy policy.yaml",
    "instances/rebalance-admit.yaml --goal admit",
    "instances/rebalance-admit.yaml --goal admit --allow-eviction --max-evictions 1",
    "instances/quickstart.yaml --goal repair",
    "worn.json --goal consolidate --time-limit 5",
)
EXPLANATIONS = (
    *SNAPSHOTS,
    "instances/pending/capacity.yaml --pod default/db-0 --node n1",
    "instances/spread-infeasible-zone.yaml -w instances/spread-infeasible-zone-workload.yaml --workload web",
    "numa.json --time-limit 3",
)
AFFINITIES = ("instances/peter-sheep-wolf.yaml --affinity farm/meadow", "instances/quickstart.yaml --affinity shop/db-0")

AUDITS = (
    _GANG,
    "instances/scs-control-plane.yaml --machine-label kubernetes.io/hostname --stage-label zones=topology.kubernetes.io/zone",
    "worn.json --policy policy.yaml",
)

POLICY = """
closeness: {sameZone: 3}
multipliers: {nodeAffinity: 2, containerAffinity: 10}
defaultConstraints: [{topologyKey: topology.kubernetes.io/zone, maxSkew: 1}]
shorthand: symmetric
colocatePods: true
colocateNamespaces: true
daemonNamespaces: [kube-system]
topologies:
- {nodeLabels: {kubernetes.io/os: linux}, zones: [{name: z0, resources: {cpu: 2, memory: 4Gi}}], topologyManagerPolicy: restricted}
moves: {priorities: [{atLeast: 1000, cost: 5}], ages: [{atLeastHours: 1, cost: 3}]}
"""


@pytest.fixture(autouse=True)
def _workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: Path) -> None:
    """A directory with the instances, a policy, and made clusters."""
    (tmp_path / "instances").symlink_to(INSTANCES)
    (tmp_path / "policy.yaml").write_text(POLICY)
    for path in made.iterdir():
        (tmp_path / path.name).symlink_to(path)
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made")
    for name, how in {
        "made": "--planted 97 --nodes 12 --pods 100",
        "numa": "--nodes 10 --pods 60 --numa 50 --bound 40 --fill 95",
        "worn": "--nodes 10 --pods 60 --worn 40",
    }.items():
        result = CliRunner().invoke(cli.main, ["generate", *shlex.split(how), "--seed", "7", "-o", str(path / f"{name}.json")])
        assert result.exit_code == 0, result.stderr
    return path


def printed(command: str, form: str = "json") -> Any:
    """Return the document that a command prints, for every exit code."""
    result = CliRunner().invoke(cli.main, [*shlex.split(command), "-q", "-f", form])
    assert result.exit_code in (0, 3, 4), f"{command}: {result.stderr}"
    return json.loads(result.stdout) if form == "json" else yaml.safe_load(result.stdout)


def check(name: str, document: Any) -> None:
    found = [f"{error.json_path}: {error.message}" for error in VALIDATORS[f"{name}-v1alpha1.json"].iter_errors(document)]
    assert found == []
    assert unknown(ALL[f"{name}-v1alpha1.json"], document) == set()


def unknown(schema: dict[str, Any], document: Any) -> set[str]:
    """Fields that are printed and that the schema, which lets unknown ones through, does not tell of."""

    def walk(part: Any, value: Any) -> Iterator[str]:
        if isinstance(part, dict) and "$ref" in part:
            part = schema["$defs"][part["$ref"].rpartition("/")[2]]
        if not isinstance(part, dict):
            return
        for option in part.get("anyOf", []):
            if "$ref" in option and value is not None:
                yield from walk(option, value)
        if isinstance(value, list):
            for item in value:
                yield from walk(part.get("items"), item)
        elif isinstance(value, dict) and "properties" in part:
            yield from (f"{part.get('title')}.{key}" for key in value if key not in part["properties"])
            for key, item in value.items():
                yield from walk(part["properties"].get(key), item)

    return set(walk(schema, document))


def test_unknown_fields_are_found() -> None:
    schema = ALL["placement-v1alpha1.json"]
    document = {"more": 1, "objective": [{"tier": "placed", "much": 1}], "preferences": {"families": [{"x": 1}]}}
    assert {text.rpartition(".")[2] for text in unknown(schema, document)} == {"more", "much", "x"}


@pytest.mark.parametrize("command", sampled([*SNAPSHOTS, *PLACEMENTS], every=12, full=3))
def test_placements(command: str) -> None:
    document = printed(f"solve {command}")
    check("placement", document)
    assert document["kind"] == "Placement"


@pytest.mark.full
def test_placements_of_the_seeds() -> None:
    for path in SEEDS:
        check("placement", printed(f"solve {path} --time-limit 5"))


@pytest.mark.parametrize("command", sampled(PLANS, every=4))
def test_plans(command: str) -> None:
    document = printed(f"rebalance {command}")
    check("rebalance-plan", document)
    assert document["kind"] == "RebalancePlan"


@pytest.mark.parametrize("command", sampled(EXPLANATIONS, every=6, full=2))
def test_explanations(command: str) -> None:
    check("explain", printed(f"explain {command}"))
    check("explain-per-node", printed(f"explain {command} --per-node".replace("--time-limit 3", "")))


@pytest.mark.parametrize("command", AFFINITIES)
def test_affinities(command: str) -> None:
    check("explain-affinity", printed(f"explain {command}"))


@pytest.mark.parametrize("command", ["instances/quickstart.yaml", "made.json --by zone", "numa.json --by namespace"])
def test_nodes(command: str) -> None:
    check("nodes", printed(f"nodes {command}"))


@pytest.mark.parametrize("policy", ["", "--policy policy.yaml"])
@pytest.mark.parametrize(("command", "snapshot"), [("solve", "quickstart"), ("rebalance --goal repair", "rebalance-repair")])
def test_verdicts(command: str, snapshot: str, policy: str) -> None:
    document = printed(f"{command} instances/{snapshot}.yaml {policy}")
    Path("result.json").write_text(json.dumps(document))
    verdict = printed(f"verify instances/{snapshot}.yaml --result result.json")
    assert (verdict["valid"], verdict["violations"], len(verdict["says"]) > 1) == (True, [], bool(policy))
    check("verify", verdict)
    for entries, field in (("assignments", "node"), ("moves", "to")):
        for entry in document.get(entries, []):
            entry[field] = "nowhere"
    Path("result.json").write_text(json.dumps(document))
    verdict = printed(f"verify instances/{snapshot}.yaml --result result.json")
    check("verify", verdict)
    assert not verdict["valid"]


@pytest.mark.parametrize("command", sampled([*FILES, *AUDITS], every=12, full=3))
def test_audits(command: str) -> None:
    document = printed(f"audit {command} --time-limit 5")
    check("audit", document)
    assert document["kind"] == "Audit"


@pytest.mark.parametrize(
    "more",
    ["", "--cluster instances/check/cluster.yaml", "--cluster instances/check/cluster.yaml --base instances/check/shop.yaml --show-known"],
)
def test_checks(more: str) -> None:
    document = printed(f"check instances/check/shop.yaml {more}")
    check("check", document)
    assert document["kind"] == "Check"


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("placement", "solve instances/quickstart.yaml"),
        ("placement", "solve instances/rollout-deadlock.yaml --rollout app"),
        ("rebalance-plan", "rebalance instances/rebalance-admit.yaml --goal admit --policy policy.yaml"),
        ("audit", "audit instances/scs-control-plane.yaml"),
        ("explain", "explain instances/rules/node-ports.yaml"),
        ("explain-per-node", "explain instances/quickstart.yaml --per-node"),
        ("explain-affinity", "explain instances/peter-sheep-wolf.yaml --affinity farm/meadow"),
    ],
)
def test_yaml_is_valid_as_json_is(name: str, command: str) -> None:
    check(name, printed(command, "yaml"))


def test_fields_are_printed_in_the_order_of_the_answers() -> None:
    counts, nodes = (printed(f"explain instances/rules/node-ports.yaml{more}") for more in ("", " --per-node"))
    assert list(counts) == ["pods", "causes", "kubernetesVersion"]
    assert list(nodes) == ["pods", "kubernetesVersion"]
    for document in (counts, nodes):
        assert {tuple(pod) for pod in document["pods"]} == {("pod", "feasible", "rejected")}
    matrix = printed(f"explain {AFFINITIES[0]}")
    assert list(matrix) == ["pod", "containers", "affinity"]
    assert {tuple(pair) for pair in matrix["affinity"]} == {("from", "to", "weight")}
    assert list(printed("explain instances/quickstart.yaml --node a1")) == ["pods", "kubernetesVersion"]
