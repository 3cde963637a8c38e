"""The documentation as a site: every page is reached from the first one, every link and anchor is there, nothing comes from elsewhere."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest

from kubestow import cli

pytest.importorskip("mkdocs")
pytestmark = pytest.mark.full
ROOT = Path(cli.__file__).resolve().parent


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of this repository, in a folder ``site``."""
    made = tmp_path_factory.mktemp("made") / "site"
    done = make(ROOT, made)
    assert done.returncode == 0, done.stderr
    return made


def make(root: Path, site: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(root / "packaging/make_site.py"), str(site)]
    return subprocess.run(command, capture_output=True, encoding="utf-8", timeout=120, check=False)


def test_every_page_is_reached_and_every_link_leads_somewhere(site: Path) -> None:
    waiting, seen = [site / "index.html"], set[Path]()
    anchors = cache(lambda path: set(re.findall(r'id="([^"]*)"', path.read_text(encoding="utf-8"))))
    exists = cache(Path.exists)
    while waiting:
        page = waiting.pop()
        seen.add(page)
        text = page.read_text(encoding="utf-8")
        for link in re.findall(r'(?:href|src)="([^"]+)"', text):
            if link.startswith(("http:", "https:", "mailto:", "data:")):
                continue
            target, anchor = urldefrag(unquote(link))
            path = Path(os.path.normpath(page.parent / target)) if target else page
            assert exists(path), f"{page}: {link}"
            if path.suffix == ".html":
                if anchor:
                    assert anchor in anchors(path), f"{page}: {link}"
                if path not in seen:
                    waiting.append(path)
    pages = {path.relative_to(ROOT).with_suffix(".html") for path in (ROOT / "docs").rglob("*.md") if path.name != "README.md"}
    assert {site / page for page in pages} <= seen


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert re.findall(r'<(?:script|img|iframe)[^>]+src="(?:https?:)?//[^"]+"', text) == []
        assert re.findall(r'<link[^>]+rel="stylesheet"[^>]+href="(?:https?:)?//[^"]+"', text) == []


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("[there](nowhere.md)\n", "nowhere.md"),
        ("[there](solve.md#no-such-heading)\n", "no-such-heading"),
    ],
)
def test_a_link_that_leads_nowhere_fails(line: str, said: str, tmp_path: Path) -> None:
    root = _copied(tmp_path)
    with (root / "docs/fit.md").open("a", encoding="utf-8") as page:
        page.write(line)
    done = make(root, tmp_path / "site")
    assert done.returncode == 1
    assert said in done.stderr + done.stdout


def test_a_page_that_no_table_lists_fails(tmp_path: Path) -> None:
    root = _copied(tmp_path)
    (root / "docs/lost.md").write_text("# Lost\n", encoding="utf-8")
    done = make(root, tmp_path / "site")
    assert done.returncode == 1
    assert "docs/lost.md" in done.stderr


def _copied(path: Path) -> Path:
    """Copy the repository as far as pages lead."""
    ignore = shutil.ignore_patterns(".*", "__pycache__", "build")
    return Path(shutil.copytree(ROOT, path / "repository", ignore=ignore))
