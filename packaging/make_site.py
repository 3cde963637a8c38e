"""Build the documentation site: ``python packaging/make_site.py DIRECTORY``.

The pages are plain Markdown with relative links, some to instances and modules. Linked files are laid
out as in the repository, so that links work unchanged. The order of pages is that of the tables in docs/README.md.
The exit code is 1 if a page is in none of the tables, or if a link or an anchor is broken.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)\s]*)?\)")
#: Pages that are reached by links and are not in the index.
_ASIDE = ("README.md", "docs/README.md", "CHANGELOG.md")


def links(page: str) -> list[str]:
    """Return the files to which a page links, as paths from the repository's root. A folder counts as its README.

    Raises:
        SystemExit: a link is broken.
    """
    text = _FENCED.sub("", (ROOT / page).read_text(encoding="utf-8"))
    found: list[str] = []
    for target in _LINK.findall(text):
        path = (ROOT / page).parent.joinpath(target).resolve()
        if not path.exists():
            raise SystemExit(f"{page}: {target}: there is no such file")
        found.append(str((path / "README.md" if path.is_dir() and (path / "README.md").exists() else path).relative_to(ROOT)))
    return found


def lay_out(target: Path) -> list[str]:
    """Copy the pages and all linked files; return the paths of the pages from the root."""
    pages: list[str] = []
    waiting, seen = ["README.md", "docs/README.md", "CHANGELOG.md", "docs/images"], set[str]()
    while waiting:
        name = waiting.pop()
        source = ROOT / name
        if name in seen:
            continue
        seen.add(name)
        if source.is_dir():  # a folder of images or modules without a page
            waiting += [str(path.relative_to(ROOT)) for path in source.iterdir() if path.suffix in (".png", ".svg", ".py", ".yaml")]
            continue
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target / name)
        if source.suffix == ".md":
            pages.append(name)
            waiting += links(name)
    return sorted(pages)


def navigation() -> list[dict[str, Any]]:
    """Return the sections of docs/README.md with the pages of their tables."""
    sections = re.split(r"^## (.*)$", (ROOT / "docs/README.md").read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    nav: list[dict[str, Any]] = [{"Home": "README.md"}, {"All pages": "docs/README.md"}]
    for title, text in zip(sections[::2], sections[1::2], strict=True):
        rows = re.findall(r"^\| \[[^\]]+\]\(([^)#]+)\) \|", text, re.MULTILINE)
        nav.append({title: [str((ROOT / "docs" / row).resolve().relative_to(ROOT)) for row in rows]})
    return [*nav, {"Changes": "CHANGELOG.md"}]


def settings(pages: Path, site: Path) -> dict[str, Any]:
    """Return mkdocs' settings. The site loads nothing from elsewhere."""
    return {
        "site_name": "kubestow",
        "docs_dir": str(pages),
        "site_dir": str(site),
        "use_directory_urls": False,
        "theme": {"name": "readthedocs", "highlightjs": False, "navigation_depth": 2, "include_homepage_in_sidebar": False},
        "markdown_extensions": ["tables", "fenced_code", {"toc": {"slugify": "make_slugs.github", "permalink": False}}],
        "validation": {"nav": {"omitted_files": "info"}, "links": {"anchors": "warn", "unrecognized_links": "warn", "not_found": "warn"}},
        "extra_css": ["wide.css"],
        "nav": navigation(),
    }


def unreachable(pages: list[str], nav: list[dict[str, Any]]) -> list[str]:
    """Return the pages of docs/ that are missing from the navigation."""
    listed = {page for section in nav for value in section.values() for page in ([value] if isinstance(value, str) else value)}
    there = {str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")}
    return sorted((there | {page for page in pages if page.startswith("docs/")}) - listed - set(_ASIDE))


def main() -> int:
    """Build the site in the folder that the command line names."""
    if len(sys.argv) != 2:
        print("usage: python packaging/make_site.py DIRECTORY", file=sys.stderr)
        return 2
    site = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as name:
        pages = Path(name) / "pages"
        found = lay_out(pages)
        config = settings(pages, site)
        if lost := unreachable(found, config["nav"]):
            print(f"docs/README.md: missing from the tables: {', '.join(lost)}", file=sys.stderr)
            return 1
        text = yaml.safe_dump(config, sort_keys=False).replace("slugify: make_slugs.github", "slugify: !!python/name:make_slugs.github")
        (Path(name) / "mkdocs.yml").write_text(text, encoding="utf-8")
        (Path(name) / "make_slugs.py").write_text(_SLUGS, encoding="utf-8")
        (pages / "wide.css").write_text(".wy-nav-content { max-width: 1060px; }\n", encoding="utf-8")  # output of commands has 100 columns
        done = subprocess.run(
            [sys.executable, "-c", _MKDOCS, "build", "--strict"], cwd=name, check=False, capture_output=True, encoding="utf-8"
        )  # fmt: skip
    if done.returncode != 0:
        print(done.stdout + done.stderr, file=sys.stderr)
        return 1
    print(f"{len(found)} pages in {site}")
    return 0


#: Runs mkdocs with the folder of its settings on the path, where the module of anchors is.
_MKDOCS = "import sys; sys.path.insert(0, '.'); from mkdocs.__main__ import cli; cli()"
#: Module that creates anchors of headings as GitHub does, because links are written for these.
_SLUGS = """
import re


def github(text, separator):
    return re.sub(r"[^\\w\\- ]", "", text.lower()).replace(" ", separator)
"""


if __name__ == "__main__":
    sys.exit(main())
