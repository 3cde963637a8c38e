"""The screenshots in docs/report.md: made by ``python tests/report/test_screenshots.py --write [NAME…]``, and checked against the page as
it is.

The result of a search with a time limit differs from run to run: the results of two scenes are kept in ``tests/report/data``;
``--write`` renews these where the snapshot has changed. The scene of 5,000 nodes is made in runs marked slow only.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np
import pytest

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from kubestow import cli
from tests.report import png
from tests.report.page.browser import executable
from tests.report.pages import Chromium, browsing, command, visit
from tests.tiers import thinned

pytestmark = pytest.mark.full

ROOT = Path(cli.__file__).resolve().parent
IMAGES = ROOT / "docs" / "images"
RESULTS = ROOT / "tests" / "report" / "data"
#: Bytes of an image.
LARGEST = 300_000
#: Of a fresh screenshot with the one in the docs; no two scenes are so alike.
ALIKE = 0.9

_TO = "document.getElementById('{}').scrollIntoView()"
_FIRST_POD = "document.querySelectorAll('#panel details.pod > summary')[{}].click()"


@dataclass(frozen=True)
class Report:
    """``snapshot``: the options of ``generate``, or an instance's name; ``result``: the command that makes the result, with its options;
    ``frozen``: the name of the file that keeps it; ``manifest``: an instance that both are given with -w."""

    snapshot: tuple[str, ...]
    result: tuple[str, ...] = ()
    frozen: str = ""
    manifest: str = ""


@dataclass(frozen=True)
class Scene:
    """``fragment``: the view that the address asks for; ``act``: JavaScript that brings the scene about; ``media``: of the page."""

    report: Report
    fragment: str = ""
    act: str = ""
    size: tuple[int, int] = (1280, 800)
    media: Literal["screen", "print"] = "screen"
    options: dict[str, Any] = field(default_factory=dict)


SIX = Report(("--nodes", "6", "--pods", "240", "--bound", "90", "--numa", "50", "--seed", "3"), ("solve",))
PLAN = Report(
    ("--nodes", "200", "--pods", "4000", "--worn", "45", "--seed", "5"),
    ("rebalance", "--goal", "consolidate", "--time-limit", "30"), "plan-200.json.gz",
)  # fmt: skip
SEARCH = Report(
    ("--nodes", "20", "--pods", "300", "--preferences", "90", "--fill", "80", "--seed", "4"),
    ("solve", "--time-limit", "12"),
    "search-20.json.gz",
)
LARGE = Report(("--nodes", "5000", "--pods", "150000", "--bound", "100", "--fill", "70", "--seed", "1"))
SURVIVAL = Report(
    ("--nodes", "60", "--pods", "900", "--worn", "8", "--rules", "60", "--seed", "5"), ("survive", "--fail", "node", "--no-remedy")
)
PENDING = Report(("spread-infeasible-zone",), ("solve",), manifest="spread-infeasible-zone-workload")

SCENES = {
    "overview": Scene(SIX),
    "node": Scene(SIX, "#node=standard-00003", _FIRST_POD.format(1)),
    "dark": Scene(SIX, "#colour=workload", _TO.format("map-section"), options={"color_scheme": "dark"}),
    "phone": Scene(SIX, "#colour=change", _TO.format("map-section"), (390, 844)),
    "plan": Scene(PLAN, "#wave=20", _TO.format("map-section")),
    "print": Scene(PLAN, size=(794, 1123), media="print"),
    "large": Scene(LARGE),
    "pending": Scene(PENDING, "", _TO.format("unplaced"), (1280, 640)),
    "preferences": Scene(SEARCH, "", _TO.format("preferences")),
    "survival": Scene(SURVIVAL, "", "document.querySelector('.heat .p2').click(); " + _TO.format("capacity"), (1280, 520)),
    "search": Scene(SEARCH, "", _TO.format("search-section"), (1280, 420)),
}


def instance(name: str) -> Path:
    return ROOT / "instances" / f"{name}.yaml"


def snapshot_of(report: Report, folder: Path) -> Path:
    if len(report.snapshot) == 1:
        return instance(report.snapshot[0])
    path = folder / "cluster.json.gz"
    done = command("generate", *report.snapshot, "-o", path)
    assert done.exit_code == 0, done.output
    return path


def page_of(report: Report, folder: Path) -> Path:
    """The page of a scene's report, with the result that is kept, where one is."""
    snapshot, page, result = snapshot_of(report, folder), folder / "report.html", folder / "result.json"
    manifest: list[str | Path] = ["-w", instance(report.manifest)] if report.manifest else []
    shown: list[str | Path] = ["--result", result] if report.result else []
    if report.frozen and (RESULTS / report.frozen).exists():
        result.write_bytes(gzip.decompress((RESULTS / report.frozen).read_bytes()))
    elif report.result:
        name, *words = report.result
        done = command(name, snapshot, *manifest, *words, "-f", "json", "-o", result)
        assert done.exit_code in (0, 3), done.output
    done = command("report", snapshot, *manifest, *shown, "-o", page)
    assert done.exit_code == 0, done.output
    return page


def shot(chromium: Chromium, scene: Scene, page: Path) -> png.Pixels:
    """Return the browser's picture of a scene."""

    def take(browser: Any) -> bytes:
        wide, high = scene.size
        with visit(browser, page, scene.fragment, width=wide, height=high, reduced_motion="reduce", **scene.options) as opened:
            opened.page.emulate_media(media=scene.media, reduced_motion="reduce")
            if scene.act:
                opened.do(scene.act)
            # Elements that scroll into view are drawn in the next frames.
            opened.do("new Promise((done) => setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(done)), 200))")
            return bytes(opened.page.screenshot(caret="hide"))

    return png.read(chromium(take))


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Report], Path]:
    """The page of a report; each is made once."""
    known: dict[Report, Path] = {}

    def make(report: Report) -> Path:
        if report not in known:
            known[report] = page_of(report, tmp_path_factory.mktemp("report"))
        return known[report]

    return make


def committed(name: str) -> png.Pixels:
    return png.read((IMAGES / f"{name}.png").read_bytes())


@pytest.mark.parametrize("name", SCENES)
def test_each_image_is_there_small_shown_and_of_its_size(name: str) -> None:
    path = IMAGES / f"{name}.png"
    wide, high = SCENES[name].size
    assert committed(name).shape == (high, wide, 3)
    assert path.stat().st_size <= LARGEST
    assert any(f"(images/{name}.png)" in page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md"))


def test_there_is_no_image_without_a_scene() -> None:
    assert {path.name for path in IMAGES.glob("*.png")} == {f"{name}.png" for name in SCENES}


def test_every_image_in_the_tour_is_described() -> None:
    text = (ROOT / "docs" / "report.md").read_text(encoding="utf-8")
    shown = [line for line in text.splitlines() if "](images/" in line]
    assert len(shown) == len(SCENES)
    assert all(len(line.partition("](")[0]) > 20 for line in shown), "an image needs words for those who cannot see it"


#: The large cluster comes last, in the slow tier.
@pytest.mark.parametrize("name", thinned(sorted(SCENES, key=lambda name: SCENES[name].report is LARGE), 3))
def test_a_fresh_screenshot_resembles_the_one_shown(chromium: Chromium, page: Callable[[Report], Path], name: str) -> None:
    scene = SCENES[name]
    assert png.likeness(shot(chromium, scene, page(scene.report)), committed(name)) >= ALIKE


@pytest.mark.parametrize("name", thinned(SCENES, 3))
def test_neither_a_blank_nor_another_page_resembles_it(name: str) -> None:
    """The comparison above detects changes of a picture."""
    own = committed(name)
    fresh = np.random.default_rng(1).normal(0, 12, own.shape)  # as much as other fonts differ, and more
    assert png.likeness(own, np.clip(own + fresh, 0, 255).astype(np.uint8)) >= ALIKE
    assert png.likeness(own, np.full_like(own, 255)) == 0
    assert png.likeness(own, np.ascontiguousarray(own[::-1])) < ALIKE
    torn = own.copy()
    torn[len(own) // 3 :] = own[0, 0]  # the head alone: a script that came to a halt
    assert png.likeness(own, torn) < ALIKE
    for other in SCENES:
        if other != name and SCENES[other].size == SCENES[name].size:
            assert png.likeness(own, committed(other)) < ALIKE, other


@pytest.mark.parametrize("report", [PLAN, SEARCH], ids=["plan", "search"])
def test_kept_results_are_of_the_scenes_snapshots(report: Report, tmp_path: Path) -> None:
    """Else a screenshot could not be made again."""
    from kubestow.models.snapshot.snapshot import load

    kept = json.loads(gzip.decompress((RESULTS / report.frozen).read_bytes()))
    assert kept["snapshot"]["sha256"] == load([str(snapshot_of(report, tmp_path))]).sha256


@pytest.mark.parametrize("colours", [2, 256, 2000])
def test_pictures_are_written_and_read_back(colours: int) -> None:
    """Exactly where the colours are few, else nearly."""
    random = np.random.default_rng(colours)
    kinds = random.integers(0, 256, (colours, 3))
    picture = kinds[random.integers(0, colours, (50, 70))].astype(np.uint8)
    again = png.read(png.write(picture))
    assert again.shape == picture.shape
    if colours <= 256:
        assert (again == picture).all()
    else:
        assert 0 < np.abs(again.astype(int) - picture).mean() < 25


def write(names: list[str]) -> None:
    """Renew the images, and the kept results that are missing or of another snapshot."""
    path = executable()
    if path is None:
        sys.exit("no Chromium on PATH nor in KUBESTOW_CHROMIUM")
    from kubestow.models.snapshot.snapshot import load

    IMAGES.mkdir(exist_ok=True)
    RESULTS.mkdir(exist_ok=True)
    with browsing(path) as run, TemporaryDirectory() as root:
        pages: dict[Report, Path] = {}
        for name in names or SCENES:
            scene = SCENES[name]
            if scene.report not in pages:
                folder = Path(root) / str(len(pages))
                folder.mkdir()
                kept = RESULTS / scene.report.frozen
                if scene.report.frozen and kept.exists():
                    of = json.loads(gzip.decompress(kept.read_bytes()))["snapshot"]["sha256"]
                    if of != load([str(snapshot_of(scene.report, folder))]).sha256:
                        kept.unlink()
                pages[scene.report] = page_of(scene.report, folder)
                if scene.report.frozen and not kept.exists():
                    kept.write_bytes(gzip.compress((folder / "result.json").read_bytes(), 9, mtime=0))
            made = png.write(shot(run, scene, pages[scene.report]))
            (IMAGES / f"{name}.png").write_bytes(made)
            print(f"{name}.png: {len(made):,} bytes")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", required=True)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(SCENES))
    write(parser.parse_args().names)
