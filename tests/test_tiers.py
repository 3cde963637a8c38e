"""The tiers of the suite are those that CONTRIBUTING.md describes: markers are a closed set, and the quick tier has some of everything."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark import ParameterSet
from hypothesis import settings

from kubestow import cli
from tests.tiers import examples, quick_where, sampled, seeds, thinned

ROOT = Path(cli.__file__).resolve().parent
TIERS = {"full", "alone", "slow", "benchmark"}
#: Marks that pytest itself knows.
BUILT_IN = {"parametrize", "skipif", "usefixtures"}
#: Required content of the quick tier, by name: a file, and its tests.
QUICK = {
    "micro-instances of rules": ("tests/instances/test_instances.py", r"test_unplaced_pods_and_their_rules\[rules/node-ports"),
    "recorded verdicts, solver": ("tests/conformance/test_explain_conformance.py", r"test_a_sample_agrees_with_kube_scheduler\[volumes"),
    "recorded verdicts, checker": ("tests/conformance/test_verify_conformance.py", r"test_a_sample_agrees_with_kube_scheduler\[volumes"),
    "agreement of three readings": (
        "tests/solver/rules/test_agreement.py",
        r"test_encoding_rules_and_checker_agree_on_a_few\[mixed",
    ),
    "agreement on gangs": ("tests/solver/rules/test_gang_agreement.py", r"test_encoding_order_and_checker_agree_on_a_few_gangs\[ring"),
    "brute force, placements": ("tests/solver/search/test_exact.py", r"test_every_tier_of_a_few_is_the_optimum_of_brute_force\[mixed"),
    "brute force, plans": ("tests/solver/rebalance/test_brute_force.py", r"test_plans_of_a_few_clusters_are_as_good_as_brute_force\[mixed"),
    "a page in a browser": ("tests/report/page/test_real.py", "test_plans"),
    "commands of the README": ("tests/test_readme.py", "test_the_commands_for_ones_own_cluster_run"),
    "runs that the README shows": ("tests/test_docs.py", r"test_captured_runs_are_current\[README\.md"),
}


@pytest.fixture(scope="module")
def quick() -> str:
    """Collect what plain ``pytest`` runs of some files."""
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "--collect-only", *sorted({file for file, _ in QUICK.values()})]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    return done.stdout


@pytest.mark.full
@pytest.mark.parametrize("category", QUICK)
def test_the_quick_tier_has_some_of(category: str, quick: str) -> None:
    file, test = QUICK[category]
    assert re.search(rf"^{re.escape(file)}::{test}", quick, re.MULTILINE)


@pytest.mark.full
def test_the_quick_tier_leaves_out_what_is_marked(quick: str) -> None:
    assert "test_encoding_rules_and_checker_agree[" not in quick
    assert "at_length" not in quick


def test_markers_are_a_closed_set(pytestconfig: pytest.Config) -> None:
    assert "--strict-markers" in pytestconfig.getini("addopts")
    told = (ROOT / "pyproject.toml").read_text(encoding="utf-8").partition("markers = [")[2].partition("]")[0]
    assert set(re.findall(r'^ *"(\w+):', told, re.MULTILINE)) == TIERS
    text = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py"))
    assert {"full", "alone", "slow"} | BUILT_IN <= set(re.findall(r"pytest\.mark\.(\w+)", text)) <= TIERS | BUILT_IN


def test_what_runs_alone_is_not_in_the_quick_tier() -> None:
    """It would measure time while others run."""
    for path in (ROOT / "tests").rglob("test_*.py"):
        if path != Path(__file__):
            for lines in re.findall(r".*\n.*mark\.alone.*", path.read_text(encoding="utf-8")):
                assert re.search(r"mark\.(full|slow)", lines), path


def test_tiers_are_documented_with_the_commands_that_ci_runs() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for marker in TIERS:
        assert f"`{marker}`" in page
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert '-m pytest -n 3 -m "not slow and not benchmark and not alone"' in script
    assert '-m pytest -n 0 -m "alone and not slow and not benchmark"' in script


def _marks(values: list[Any]) -> list[str]:
    """Return the tier of each parameter."""
    return ["".join(mark.name for mark in value.marks) or "quick" if isinstance(value, ParameterSet) else "quick" for value in values]


def test_three_tiers_share_the_parameters() -> None:
    assert _marks(sampled(range(7), every=6, full=3)) == ["quick", "slow", "slow", "full", "slow", "slow", "quick"]
    assert _marks(sampled(range(3), every=2)) == ["quick", "full", "quick"]
    assert _marks(thinned(range(4), 3)) == ["quick", "slow", "slow", "quick"]
    first, others = seeds(3, 8, start=100).args[1]
    assert (first.values, others.values) == ((range(100, 103),), (range(103, 108),))
    assert _marks([first, others]) == ["quick", "slow"]


def test_a_property_has_a_quarter_of_its_examples_or_all() -> None:
    """The profile of this run says which."""
    assert examples(400).max_examples == (100 if settings.default is not None and settings.default.derandomize else 400)
    assert examples(400).deadline is None


def test_sampling_leaves_every_parameter_and_its_place() -> None:
    found = sampled("abcde", every=2)
    assert [value if isinstance(value, str) else value.values[0] for value in found] == [*"abcde"]
    assert [isinstance(value, str) for value in found] == [True, False, True, False, True]
    assert [not isinstance(value, tuple) for value in quick_where([1, 2], lambda value: value == 2)] == [False, True]
    assert sampled([(1, 2), (3, 4)], every=2)[1].values == (3, 4)
