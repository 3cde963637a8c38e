"""How large the page gets: bytes, which no machine changes."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import kubestow.report.page as package
from kubestow.cli import main
from kubestow.models.snapshot.snapshot import Snapshot, load
from kubestow.report.page.data import build
from kubestow.report.page.render import embed, render
from tests.report.page.consistency import check
from tests.report.page.test_data import placement

pytestmark = pytest.mark.full


def _generated(folder: Path, nodes: int, pods: int) -> Snapshot:
    path = folder / "cluster.json.gz"
    done = CliRunner().invoke(
        main, ["generate", "--nodes", str(nodes), "--pods", str(pods), "--bound", "60", "--seed", "1", "-o", str(path)]
    )
    assert done.exit_code == 0, done.output
    return load([str(path)])


@pytest.fixture(scope="module")
def middle(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    return _generated(tmp_path_factory.mktemp("middle"), 200, 4_000)


def test_200_nodes_and_4000_pods(middle: Snapshot) -> None:
    result = placement(middle, 1, scratch=True)
    made = render(build(middle, result, version="1"))
    assert len(made) <= 2_000_000


def test_script_and_style_stay_small() -> None:
    folder = Path(package.__path__[0]) / "assets"
    assert sum(file.stat().st_size for file in folder.iterdir() if file.suffix in (".js", ".css")) <= 130_000


def test_pods_of_one_kind_share_a_shape(middle: Snapshot) -> None:
    """Replicas differ in name and node only: there are far fewer shapes than pods."""
    data = build(middle, None, version="1")
    assert len(data["shapes"]) <= 2 * len(data["workloads"])
    assert len(data["workloads"]) <= len(data["pods"]["name"]) // 10


def test_groups_are_smaller_than_their_pods(middle: Snapshot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubestow.report.page.pods.MAX_SINGLE_PODS", 3_000)
    data = build(middle, None, version="1")
    assert data["pods"] is None
    sizes = {key: len(embed(value)) for key, value in data.items()}
    assert sizes["groups"] <= 25 * len(middle.pods)
    assert sizes["named"] <= 100 * 2_000
    assert sum(sizes.values()) <= 120 * len(middle.pods)


@pytest.mark.slow
def test_5000_nodes_and_150000_pods(tmp_path: Path) -> None:
    snapshot = _generated(tmp_path, 5_000, 150_000)
    made = render(build(snapshot, None, version="1"))
    assert len(made) <= 12_000_000
    assert len(gzip.compress(made, 1)) <= 3_000_000
    text = made.decode()
    start = text.index('id="data">') + len('id="data">')
    data = json.loads(text[start : text.index("</script>", start)])
    assert sum(data["groups"]["count"][0]) == 150_000
    check_counts = sum(1 for pod in snapshot.pods if pod.spec.nodeName)
    assert sum(data["usage"][0]["pods"]) == check_counts


def test_a_cluster_of_the_generator_is_consistent(tmp_path: Path) -> None:
    snapshot = _generated(tmp_path, 12, 150)
    result = placement(snapshot, 3, scratch=True)
    check(build(snapshot, result, version="1"), snapshot, result)
